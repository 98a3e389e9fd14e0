/*
 * forgotten.c - a claim is not synced, so a crash of the storage may take it away from under its
 * holder, and another link comes to stand in its place before the holder ends it. Nothing that was
 * told to be done is done again.
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

static void
forget(const char *path, const char *file)
{
	char full[400];

	if (unlink(run_file(path, 0, file, full)))
		ok(false, "%s", full);
}

static void
read_end(const char *path, const char *file, char text[LINK_TEXT])
{
	char full[400];
	ssize_t n = readlink(run_file(path, 0, file, full), text, LINK_TEXT - 1);

	text[n > 0 ? n : 0] = '\0';
}

/* The claim of a daemon on t1 is forgotten, and another, which has never seen it, cancels the task. Its
 * end was on its way by then. */
static void
cancelled_in_its_place(const char *name, char outcome)
{
	char path[300];
	char full[400];
	char text[LINK_TEXT];
	struct lease_info info = { 0 };
	struct grant g;

	run_new(path, name, 1, "t");
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	struct queue *c = run_open(path, true);
	bool held = !queue_claim(a, 1, 1, 0, &run_agent, now, &g) && !queue_lease(a, 1, 1, &info);
	forget(path, "t1@1.claim");
	ok(held && !queue_cancel(b, 1, 1, now), "a claim is forgotten, and its task is cancelled (%s)",
	   name);
	queue_refresh(c, now, 0, 0);
	snprintf(text, sizeof(text), "%s:%llu:%lld:%c:-:0:0:0", info.owner,
		 (unsigned long long)g.seq + 1, (long long)now.wall_s, outcome);
	if (outcome && symlink(text, run_file(path, 0, "t1@1.end", full)))
		ok(false, "%s", full);

	struct task t = { 0 };
	struct task seen = { 0 };
	queue_refresh(c, now, 0, 0);
	bool known = !queue_get(c, 1, &seen);
	int rc = queue_reopen(b, 1, 1, now);
	bool found = !queue_get(b, 1, &t);
	if (outcome)
		ok(known && found && seen.state == t.state && seen.attempt == t.attempt,
		   "who knew of the cancelling sees that an end came after it");
	else
		ok(known && seen.state == TASK_CANCELLED, "who knew of the cancelling still does");
	if (outcome == 'd')
		ok(rc == -EPERM && found && t.state == TASK_DONE && t.attempt == 1 &&
			   !run_files(path, "t1@2"),
		   "its holder has ended it all the same: done is not reopened");
	else if (outcome == 'f')
		ok(!rc && found && t.state == TASK_PENDING && t.attempt == 2 && !run_files(path, "t1@2"),
		   "its holder has given it back all the same: there is nothing to be reopened");
	else
		ok(!rc && found && t.state == TASK_PENDING && t.attempt == 3, "it is reopened");
	read_end(path, "t1@1.end", full);
	if (!outcome)
		ok(strstr(full, ":c:-:0:0:0") &&
			   queue_end(a, 1, 1, END_DONE, WHY_NONE, NULL, now) == -ESTALE,
		   "only when the name of its end was taken, so that its holder is told");
	queue_close(a, now);
	queue_close(b, now);
	queue_close(c, now);
}

/* What a claim was built on is forgotten with it: the task is what it was before, and not free. */
static void
reopened_in_vain(void)
{
	char path[300];
	struct grant g;
	struct task t = { 0 };

	run_new(path, "vain", 1, "t");
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	bool done = !queue_claim(a, 1, 1, 0, &run_agent, now, &g) && !queue_cancel(a, 1, 1, now) &&
		    !queue_reopen(a, 1, 1, now) && !queue_claim(a, 1, 3, 0, &run_agent, now, &g);
	queue_refresh(b, now, 0, 0);
	ok(done && !queue_get(b, 1, &t) && t.state == TASK_CLAIMED && t.attempt == 3,
	   "a task was cancelled, reopened and is claimed");
	forget(path, "t1@2.claim");
	forget(path, "t1@3.claim");
	queue_refresh(b, now, 0, 0);
	ok(queue_claim(b, 1, 2, 0, &run_agent, now, &g) == -ENOENT && !queue_get(b, 1, &t) &&
		   t.state == TASK_CANCELLED && t.attempt == 1 && !run_files(path, "t1@2"),
	   "both links are forgotten: it is cancelled as before");
	queue_close(a, now);
	queue_close(b, now);
}

/* A daemon that knows of the claim sees the same name in its listings as before. */
static void
cancelled_unseen(void)
{
	char path[300];
	struct grant g;
	struct task t = { 0 };

	run_new(path, "unseen", 1, "t");
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	bool done = !queue_claim(a, 1, 1, 0, &run_agent, now, &g);
	struct queue *c = run_open(path, true);
	queue_refresh(c, now, 0, 0);
	forget(path, "t1@1.claim");
	done = done && !queue_cancel(b, 1, 1, now);
	queue_refresh(c, now, 0, 0);
	ok(done && !queue_get(c, 1, &t) && t.state == TASK_CLAIMED,
	   "a task is cancelled in the place of a claim that was forgotten, and somebody knows of that");
	queue_revoke(c, 1, 1, now);
	ok(!queue_get(c, 1, &t) && t.state == TASK_CANCELLED && !run_files(path, "t1@1.end"),
	   "when it is about to end that claim it sees that there is none");
	queue_close(a, now);
	queue_close(b, now);
	queue_close(c, now);
}

int
main(void)
{
	log_init("forgotten.t", LOG_NOTHING);
	now = now_read();
	cancelled_in_its_place("done", 'd');
	cancelled_in_its_place("freed", 'f');
	cancelled_in_its_place("open", '\0');
	reopened_in_vain();
	cancelled_unseen();
	return done_testing();
}
