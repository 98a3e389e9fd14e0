/*
 * digest.c - digests of bays: written by who knows all of it, read instead of its links, and never
 * more than a hint.
 */
#include <config.h>

#include "clock.h"
#include "runs.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t
calls(struct queue *q, enum disk_call call)
{
	struct queue_stats s;

	queue_stats(q, &s);
	return s.calls[call];
}

static int64_t
count(struct queue *q, enum task_state state)
{
	struct queue_stats s;

	queue_stats(q, &s);
	return s.count[state];
}

static struct queue *
look(const char *path)
{
	struct queue *q = run_open(path, false);

	queue_refresh(q, now, 0, 0);
	return q;
}

static void
all_done(void)
{
	char path[300];
	char digest[400];
	char other[400];

	run_new(path, "done", 2500, "t");
	struct queue *q = run_open(path, true);
	run_work(q, 2500, END_DONE);
	run_file(path, 0, "digest", digest);
	ok(access(digest, F_OK) != 0, "none is written on the way of an end");
	queue_refresh(q, now, 1, 1);
	ok(!access(digest, F_OK) && !access(run_file(path, 2, "digest", other), F_OK),
	   "but by the next look, for every bay");
	ok(calls(q, DISK_READLINK) == 2500UL * 4 + 1 + 3, "and no link was read for it: four for each task, one more for each bay");
	queue_close(q, now);

	q = run_open(path, false);
	/* batches/, chain/, and one of the bays in its turn: somebody may have deleted ends there */
	ok(count(q, TASK_DONE) == 2500 && calls(q, DISK_LIST) == 3 &&
		   calls(q, DISK_READLINK) == 1,
	   "who comes reads three files instead of 2500 links");
	queue_close(q, now);

	/* each in its turn: deleted, torn, lying, another bay's */
	char *text = NULL;
	size_t len = 0;
	run_load(digest, &text, &len);
	unlink(digest);
	q = look(path);
	ok(count(q, TASK_DONE) == 2500 && calls(q, DISK_READLINK) == 1025, "deleted: nothing changes");
	queue_close(q, now);
	run_store(digest, text, len / 2);
	q = look(path);
	ok(count(q, TASK_DONE) == 2500 && calls(q, DISK_READLINK) == 1025, "torn: it is not used");
	queue_close(q, now);
	char *d = strstr(text, " d - ");
	d[1] = 'x';
	run_store(digest, text, len);
	q = look(path);
	ok(count(q, TASK_DONE) == 2500 && count(q, TASK_FAILED) == 0, "changed: it is not used");
	queue_close(q, now);
	free(text);
	run_load(other, &text, &len);
	run_store(digest, text, len);
	q = look(path);
	ok(count(q, TASK_DONE) == 2500 && calls(q, DISK_READLINK) == 1025,
	   "another bay's: it is not used");
	queue_close(q, now);
	free(text);
}

static void
not_final(void)
{
	char path[300];
	char digest[400];
	struct grant g;
	struct task t;
	char *old = NULL;
	size_t len = 0;

	run_new(path, "failed", 4, "t");
	struct queue *q = run_open(path, true);
	run_work(q, 2, END_DONE);
	queue_next(q, 0, &run_agent, now, &g);
	queue_end(q, g.serial, g.attempt, END_FAILED, WHY_VERDICT, NULL, now);
	queue_cancel(q, 4, 0, now);
	queue_close(q, now);
	run_file(path, 0, "digest", digest);
	run_load(digest, &old, &len);
	ok(old && strstr(old, "t3@1 x V 0 0 ") && strstr(old, "t4@1 c - 0 0 "),
	   "who leaves writes the last ones, failed and cancelled tasks too");
	q = run_open(path, true);
	ok(count(q, TASK_FAILED) == 1 && count(q, TASK_CANCELLED) == 1 && count(q, TASK_UNREAD) == 0,
	   "and all are known from it");
	queue_reopen(q, 3, 0, now);
	queue_next(q, 0, &run_agent, now, &g);
	queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(q, now);
	q = look(path);
	ok(!queue_find(q, "t3", &t) && t.state == TASK_DONE && t.attempt == 3,
	   "links above it decide: reopened and done");
	queue_close(q, now);
	unlink(digest);
	q = run_open(path, true);
	queue_refresh(q, now, 0, 0);
	queue_reopen(q, 4, 0, now);
	queue_close(q, now);
	run_store(digest, old, len);
	q = look(path);
	ok(!queue_find(q, "t3", &t) && t.state == TASK_DONE && t.attempt == 3 &&
		   !queue_find(q, "t4", &t) && t.state == TASK_PENDING && t.attempt == 3,
	   "an old one that is put back changes nothing");
	queue_close(q, now);
	free(old);
}

static void
two_daemons(void)
{
	char path[300];
	char digest[400];
	struct grant g;

	run_new(path, "two", 20, "t");
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	run_work(a, 19, END_DONE);
	queue_refresh(b, now, 0, 1);
	ok(!queue_next(b, 0, &run_agent, now, &g) &&
		   !queue_end(b, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now),
	   "the last task is another daemon's");
	queue_refresh(b, now, 0, 1);
	ok(access(run_file(path, 0, "digest", digest), F_OK) != 0,
	   "which writes nothing as long as it has not read all ends");
	queue_refresh(b, now, 0, 0);
	ok(!access(digest, F_OK), "and then does");
	uint64_t reads = calls(a, DISK_READLINK);
	queue_refresh(a, now, 0, 0);
	ok(count(a, TASK_DONE) == 20 && calls(a, DISK_READLINK) == reads,
	   "the others learn from it what they have not read");
	queue_close(a, now);
	queue_close(b, now);
}

/* Claims that are their own end, which a listing cannot tell from claims whose ends were deleted. */
static void
endless(void)
{
	char path[300];
	char file[400];
	char text[64];
	struct task t;

	run_new(path, "endless", 20, "t");
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	run_work(a, 10, END_DONE);
	for (int i = 11; i <= 19; i++)
		queue_cancel(a, i, 1, now);
	queue_reopen(a, 19, 0, now);
	for (int i = 0; i < 2; i++) {
		queue_refresh(a, now, 0, 0);
		queue_refresh(b, now, 0, 0);
	}
	uint64_t reads = calls(a, DISK_READLINK) + calls(b, DISK_READLINK);
	for (int i = 0; i < 5; i++) {
		queue_refresh(a, now, 0, 0);
		queue_refresh(b, now, 0, 0);
	}
	ok(calls(a, DISK_READLINK) + calls(b, DISK_READLINK) == reads,
	   "what is cancelled or reopened is not read again at every look");
	ok(!unlink(run_file(path, 0, "t3@1.end", file)), "an end is deleted");
	queue_refresh(a, now, 0, 0);
	ok(readlink(file, text, sizeof(text)) > 0 && !queue_get(b, 3, &t) && t.state == TASK_DONE,
	   "and written again by whose claim it is");
	queue_close(a, now);
	queue_close(b, now);
}

int
main(void)
{
	log_init("digest.t", LOG_NOTHING);
	now = now_read();
	all_done();
	not_final();
	two_daemons();
	endless();
	return done_testing();
}
