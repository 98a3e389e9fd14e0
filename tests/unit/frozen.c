/*
 * frozen.c - daemons that stood still while a run was finished and sealed, and then go on: each is
 * told, and nobody else sees anything of it.
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

/* A daemon that was frozen through all of it, and goes on before its beat tells it. */
static void
frozen(void)
{
	char path[300];
	struct grant g;
	struct grant h;
	struct task t;

	run_new(path, "frozen", 3, "t");
	now.boot_ms -= 100000; /* its last good beat: more than half of steal_after ago */
	struct queue *a = run_open(path, true);
	struct queue *c = run_open(path, true);
	ok(!queue_claim(a, 1, 1, 0, &run_agent, now, &g), "a daemon has a claim, and freezes");
	run_bury(path);
	now.boot_ms += 100000;
	struct queue *b = run_open(path, true);
	queue_refresh(b, now, 0, 0);
	queue_watch(b, now);
	usleep(1100000);
	queue_watch(b, now);
	ok(!queue_find(b, "t1", &t) && t.attempt == 2, "it is taken for dead");
	while (!queue_next(b, 2, &run_agent, now, &h))
		queue_end(b, h.serial, h.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(b, now);
	/* its create is under way when the seal is made: that of a claim which had been there */
	run_seal(path);
	run_bury(path);
	char claim[400];
	char text[64];
	struct lease_info info;
	ok(!queue_lease(a, 1, 1, &info), "it still believes to hold it");
	snprintf(text, sizeof(text), "%s:%llu:%lld", info.owner, (unsigned long long)g.seq,
		 (long long)info.since);
	ok(!symlink(text, run_file(path, 0, "t1@1.claim", claim)), "its claim is made once more by the network");
	struct now later = now;
	later.boot_ms += 1000;
	ok(queue_end(a, 1, 1, END_DONE, WHY_NONE, NULL, later) == -ESTALE,
	   "it ends what it held: it is told that it is over");
	ok(queue_claim(c, 2, 1, 0, &run_agent, later, &g) == -EBUSY,
	   "another claims what it believes to be free: it is told that it is not");
	ok(queue_is_held(c, 2, 1) == false && run_files(path, "t2@1.claim") == 1, "though it made its link");
	queue_refresh(c, later, 0, 0);
	ok(!queue_find(c, "t2", &t) && t.state == TASK_DONE, "and then it knows");
	queue_close(c, later);
	queue_refresh(a, later, 0, 0);
	ok(!queue_find(a, "t2", &t) && t.state == TASK_DONE && !queue_find(a, "t1", &t) &&
		   t.state == TASK_DONE && t.attempt == 2,
	   "and knows better then");
	ok(queue_cancel(a, 3, 1, later) == -EPERM, "so for a task to be cancelled");
	queue_close(a, later);
	char *after = run_states(path);
	ok(strstr(after, "t1 2 @2") && strstr(after, "t2 2 @1") && strstr(after, "t3 2 @1"),
	   "nobody else sees anything of it");
	free(after);
}

/* A daemon that was frozen through all of it, and whose beat has told it: it lives anew, and what
 * it knows of the run is as old as before. */
static void
reborn(void)
{
	char path[300];
	char file[400];
	struct grant g;
	struct task t;

	run_new(path, "reborn", 1500, "t");
	now.boot_ms -= 100000;
	struct queue *a = run_open(path, true);
	run_bury(path);
	now.boot_ms += 100000;
	struct queue *b = run_open(path, true);
	while (!queue_next(b, 2, &run_agent, now, &g))
		queue_end(b, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(b, now);
	run_seal(path);
	run_bury(path);
	ok(!queue_beat(a, now) && !queue_find(a, "t1", &t) && t.state == TASK_PENDING,
	   "a daemon was frozen while all was done and sealed, and has a new name now");
	ok(queue_claim(a, 1, 1, 0, &run_agent, now, &g) == -EBUSY &&
		   queue_cancel(a, 2, 1, now) == -EPERM &&
		   queue_claim(a, 1025, 1, 0, &run_agent, now, &g) == -EBUSY,
	   "it is given nothing that is done");
	ok(run_files(path, "t1@1.claim") == 1 && !queue_find(a, "t3", &t) && t.state == TASK_DONE,
	   "though it made its link, and knows better then");
	unlink(run_file(path, 0, "t1@1.claim", file));
	queue_close(a, now);
}

/* The same, and it hears of the tasks only then: its own submission reads all batches, no links. */
static void
reborn_ignorant(void)
{
	char path[300];
	struct grant g;
	struct err e = { "" };

	run_new(path, "ignorant", 1, "t");
	now.boot_ms -= 100000;
	struct queue *a = run_open(path, true);
	run_bury(path);
	now.boot_ms += 100000;
	run_submit(path, 2, "u");
	struct queue *b = run_open(path, true);
	while (!queue_next(b, 2, &run_agent, now, &g))
		queue_end(b, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(b, now);
	run_seal(path);
	run_bury(path);
	bool lives = !queue_beat(a, now);
	struct submission *s = submission_new(a, NULL, &e);
	bool read = s && !submission_feed(s, "{\"id\":\"v\"}\n", 11, &e) &&
		    submission_finish(s, "test", now, &e) >= 0;
	submission_free(s);
	ok(lives && read, "a daemon was frozen while tasks were submitted, done and sealed");
	ok(queue_claim(a, 2, 1, 0, &run_agent, now, &g) == -EBUSY &&
		   queue_cancel(a, 3, 1, now) == -EPERM,
	   "it is given none of them, though it has not known them before");
	queue_close(a, now);
}

/* One that froze between the create of its end and the answer: the seal has that very end. other: what
 * another, who froze as well, has made there since. */
static void
frozen_in_its_end(const char *name, const char *other)
{
	char path[300];
	char file[400];
	char claim[64];
	char end[64];
	struct grant g = { 0 };
	struct lease_info info = { 0 };

	run_new(path, name, 1, "t");
	now.boot_ms -= 100000;
	struct queue *a = run_open(path, true);
	bool held = !queue_claim(a, 1, 1, 0, &run_agent, now, &g) && !queue_lease(a, 1, 1, &info);
	now.boot_ms += 100000;
	snprintf(claim, sizeof(claim), "%s:%llu:%lld", info.owner, (unsigned long long)g.seq,
		 (long long)info.since);
	snprintf(end, sizeof(end), "%s:%llu:%lld:d:-:0:0:0", info.owner,
		 (unsigned long long)g.seq + 1, (long long)now.wall_s);
	held = held && !symlink(end, run_file(path, 0, "t1@1.end", file));
	run_bury(path);
	run_seal(path);
	run_bury(path);
	ok(held && run_files(path, "@") == 0, "a task is done and sealed before its holder has an answer");
	held = !symlink(claim, run_file(path, 0, "t1@1.claim", file)) &&
	       (!other || !symlink(other, run_file(path, 0, "t1@1.end", file)));
	ok(held && !queue_end(a, 1, 1, END_DONE, WHY_NONE, NULL, now), "it is told that its end stands%s",
	   other ? ", not what came later" : "");
	queue_close(a, now);
}

int
main(void)
{
	log_init("frozen.t", LOG_NOTHING);
	now = now_read();
	frozen();
	reborn();
	reborn_ignorant();
	frozen_in_its_end("inend", NULL);
	frozen_in_its_end("inend2", "n02.bbbbbbbbbbbb:1:1:l:D:0:1:0");
	return done_testing();
}
