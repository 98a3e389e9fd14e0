/*
 * queue.c - the queue's rules, with time as an argument: order, tiers, limits, delays, pauses,
 * stale claims, and several daemons on one run directory.
 */
#include <config.h>

#include "clock.h"
#include "queue.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct claimer by = { .comm = "test" };
static struct now now;

static void
pass(int64_t ms)
{
	now.boot_ms += ms;
	now.wall_s += ms / 1000;
}

/* A new run with the default raser.ini and these tasks, submitted as one text. */
static void
new_run(char path[300], const char *name, const char *tasks)
{
	const struct queue_options o = { 0 };
	struct err e = { 0 };

	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	int rc = queue_init(path, "", &e);
	struct queue *q = rc ? NULL : queue_open(path, &o, now, &e);
	struct submission *s = q ? submission_new(q, NULL, &e) : NULL;
	if (!s || submission_feed(s, tasks, strlen(tasks), &e) ||
	    submission_finish(s, "test", now, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	submission_free(s);
	queue_close(q, now);
}

static struct queue *
join(const char *path)
{
	const struct queue_options o = { .join = true };
	struct err e = { 0 };
	struct queue *q = queue_open(path, &o, now, &e);

	if (!q) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	return q;
}

/* What a tier is given next, as "T@k"; "" for nothing. */
static const char *
next(struct queue *q, int tier, struct grant *g)
{
	static char name[NAME_LIMIT + 16];

	name[0] = '\0';
	if (!queue_next(q, tier, &by, now, g))
		snprintf(name, sizeof(name), "%s@%u", g->name, g->attempt);
	return name;
}

static int
end(struct queue *q, const struct grant *g, enum outcome outcome, enum reason why)
{
	return queue_end(q, g->serial, g->attempt, outcome, why, NULL, now);
}

/* Time passes, and the daemon beats. */
static void
live(struct queue *q, int64_t ms)
{
	int64_t beat = queue_conf(q)->steal_after_ms / 6;

	for (int64_t step; ms > 0; ms -= step) {
		step = ms < beat ? ms : beat;
		pass(step);
		queue_beat(q, now);
	}
}

static void
order(void)
{
	char path[300];
	struct grant g;

	new_run(path, "order",
		"{\"id\":\"a\"}\n{\"id\":\"b\",\"expected\":10}\n{\"id\":\"c\",\"priority\":1}\n"
		"{\"id\":\"d\",\"expected\":20}\n{\"id\":\"e\",\"tier\":\"high\"}\n"
		"{\"id\":\"f\",\"memory\":\"1500M\"}\n{\"id\":\"g\",\"priority\":-1}\n");
	struct queue *q = join(path);
	ok(!strcmp(next(q, 0, &g), "c@1"), "priority comes first");
	ok(!strcmp(next(q, 0, &g), "d@1"), "then the longest expected");
	ok(!strcmp(next(q, 0, &g), "b@1"), "then the shorter one");
	ok(!strcmp(next(q, 0, &g), "a@1"), "then submission");
	end(q, &g, END_RETRY, WHY_CRASH);
	ok(!strcmp(next(q, 0, &g), "g@1"), "low takes no task that failed, nor one that needs more");
	ok(!*next(q, 0, &g), "and then has nothing");
	ok(queue_next(q, 0, &by, now, &g) == -EAGAIN, "which is no error");
	ok(!queue_drained(q, 0, 0), "low is not drained: what others hold may come back to it");
	ok(!strcmp(next(q, 2, &g), "a@2"), "high prefers what lower tiers may not take");
	ok(!strcmp(next(q, 1, &g), "f@1"), "medium takes what needs its memory");
	ok(!strcmp(next(q, 2, &g), "e@1"), "high takes what names it");
	queue_close(q, now);
}

/* What earlier runs have taken, as a file of durations would say it. */
static int64_t
known_duration(void *arg, const char *name)
{
	++*(int *)arg;
	return !strcmp(name, "a") ? 10 : !strcmp(name, "b%2F1") ? 100 : !strcmp(name, "u") ? -1 : 1000;
}

static void
durations(void)
{
	static const char tasks[] =
		"{\"id\":\"a\", \"x\":1}\n{\"id\":\"b/1\",\"expected\":null}\n"
		"{\"id\":\"c\",\"expected\":50}\n{\"id\":\"d\",\"expected\":0}\n{\"id\":\"u\"}\n";
	static const int64_t wanted[] = { 10, 100, 50, 0, 0 };
	char path[300];
	char *body;
	size_t size;
	struct task t;
	struct err e = { "" };
	struct submission_totals totals;
	int asked = 0;

	new_run(path, "durations", "");
	struct queue *q = join(path);
	struct submission *s = submission_new(q, NULL, &e);
	submission_expect(s, known_duration, &asked);
	ok(!submission_feed(s, tasks, strlen(tasks), &e) && !submission_finish(s, "test", now, &e) &&
		   asked == 3,
	   "what others know is asked for tasks that do not say it: %s", e.text);
	submission_free(s);
	bool all = true;
	for (int i = 0; i < 5; i++)
		all &= !queue_get(q, i + 1, &t) && t.expected == wanted[i];
	ok(all, "and is what is expected of them");
	ok(!queue_payload(q, 1, &body, &size) && size == strlen(body) && !strcmp(body, "{\"id\":\"a\", \"x\":1}"),
	   "payloads are what they were");
	free(body);
	s = submission_new(q, NULL, &e);
	ok(!submission_feed(s, tasks, strlen(tasks), &e) && !submission_finish(s, "test", now, &e),
	   "the same tasks without it: %s", e.text);
	submission_totals(s, &totals);
	ok(totals.tasks == 0 && totals.duplicates == 5 && !queue_get(q, 1, &t) && t.expected == 10,
	   "are there already, and stay what they are");
	submission_free(s);
	queue_close(q, now);
}

static void
limits(void)
{
	char path[300];
	struct grant g;
	struct task t;

	new_run(path, "limits", "{\"id\":\"t\",\"max_failures\":2}\n{\"id\":\"u\"}\n");
	struct queue *q = join(path);
	next(q, 2, &g);
	end(q, &g, END_RETRY, WHY_EXIT);
	ok(!queue_find(q, "t", &t) && t.state == TASK_PENDING && t.attempt == 2 &&
		   t.counts.failures == 1 && t.counts.level == 1,
	   "a failure moves it up");
	next(q, 2, &g);
	end(q, &g, END_FREED, WHY_PREEMPTED);
	ok(!queue_find(q, "t", &t) && t.attempt == 3 && t.counts.failures == 1,
	   "a preemption counts nothing");
	next(q, 2, &g);
	end(q, &g, END_RETRY, WHY_EXIT);
	ok(!queue_find(q, "t", &t) && t.state == TASK_FAILED && t.attempt == 3,
	   "its own max_failures is its end");
	ok(end(q, &g, END_RETRY, WHY_EXIT) == 0, "the same again stands already");
	ok(end(q, &g, END_DONE, WHY_NONE) == -ESTALE, "another end does not");
	ok(queue_reopen(q, t.serial, 3, now) == 0 && !queue_find(q, "t", &t) &&
		   t.state == TASK_PENDING && t.attempt == 5 && t.counts.failures == 0 &&
		   t.counts.level == 1,
	   "reopening zeroes the counters and keeps the tier");
	ok(queue_reopen(q, t.serial, 3, now) == 0, "reopening twice is success");
	ok(queue_cancel(q, t.serial, 3, now) == -ESTALE, "an older number cancels nothing");
	ok(queue_cancel(q, t.serial, 5, now) == 0 && queue_cancel(q, t.serial, 5, now) == 0 &&
		   !queue_find(q, "t", &t) && t.state == TASK_CANCELLED,
	   "so is cancelling");
	next(q, 0, &g);
	end(q, &g, END_DONE, WHY_NONE);
	ok(queue_cancel(q, g.serial, 0, now) == -EPERM && queue_reopen(q, g.serial, 0, now) == -EPERM,
	   "done stays done");
	queue_refresh(q, now, 0, 0);
	ok(queue_drained(q, 2, now.boot_ms), "and everything is drained");

	/* what another daemon reads is the same */
	struct queue *r = join(path);
	queue_refresh(r, now, 0, 0);
	ok(!queue_find(r, "t", &t) && t.state == TASK_CANCELLED && !queue_find(r, "u", &t) &&
		   t.state == TASK_DONE,
	   "another daemon folds the same");
	queue_close(r, now);
	queue_close(q, now);
}

static void
delays(void)
{
	char path[300];
	struct grant g;

	new_run(path, "delays", "{\"id\":\"t\"}\n");
	struct queue *q = join(path);
	next(q, 0, &g);
	end(q, &g, END_FREED, WHY_NOT_ITS_FAULT);
	ok(!*next(q, 0, &g) && queue_ready(q, 0) == 0, "not its fault: it waits");
	pass(queue_conf(q)->retry_delay_ms - 1);
	queue_tick(q, now);
	ok(!*next(q, 0, &g), "for retry_delay");
	pass(1);
	ok(queue_tick_at(q) <= now.boot_ms, "the tick knows when that is over");
	queue_tick(q, now);
	ok(!strcmp(next(q, 0, &g), "t@2"), "and is offered again");
	end(q, &g, END_FREED, WHY_NOT_ITS_FAULT);
	pass(queue_conf(q)->retry_delay_ms);
	queue_tick(q, now);
	ok(!*next(q, 0, &g), "the second time it waits longer");
	pass(queue_conf(q)->retry_delay_ms);
	queue_tick(q, now);
	ok(!strcmp(next(q, 0, &g), "t@3"), "twice as long");
	queue_close(q, now);
}

static void
pauses(void)
{
	char path[300];
	struct grant g;
	char tasks[4000] = "";
	size_t n = 0;
	struct queue_stats st;

	for (int i = 0; i < 20; i++)
		n += (size_t)snprintf(tasks + n, sizeof(tasks) - n, "{\"id\":\"t%02d\"}\n", i);
	new_run(path, "pauses", tasks);
	struct queue *q = join(path);
	for (int i = 0; i < 8; i++) {
		next(q, 0, &g);
		queue_end(q, g.serial, g.attempt, END_RETRY, WHY_EXIT, "status 1", now);
		queue_tick(q, now);
	}
	queue_stats(q, &st);
	ok(st.paused && queue_ready(q, 0) == 0 && !*next(q, 0, &g),
	   "a node where eight attempts in a row died at once stops claiming");
	pass(2000);
	queue_tick(q, now);
	ok(*next(q, 0, &g) != '\0', "and tries one after a pause");
	struct grant probe = g;
	ok(!*next(q, 0, &g), "only one");
	queue_end(q, probe.serial, probe.attempt, END_RETRY, WHY_EXIT, "status 1", now);
	pass(2000);
	queue_tick(q, now);
	ok(!*next(q, 0, &g), "the next pause is longer");
	pass(2000);
	queue_tick(q, now);
	ok(*next(q, 0, &g) != '\0', "twice as long");
	end(q, &g, END_DONE, WHY_NONE);
	ok(*next(q, 0, &g) != '\0' && *next(q, 0, &g) != '\0', "one that lives ends it");
	queue_close(q, now);
}

static void
keeping(void)
{
	char path[300];
	struct grant g;
	struct lease_info l;
	struct task t;

	new_run(path, "keeping", "{\"id\":\"t\"}\n");
	struct queue *q = join(path);
	int64_t steal = queue_conf(q)->steal_after_ms;
	next(q, 0, &g);
	pass(steal / 2 - 1);
	ok(queue_touch(q, g.serial, g.attempt, now) == 0, "a heartbeat");
	pass(2);
	ok(queue_touch(q, g.serial, g.attempt, now) == -EINPROGRESS,
	   "a daemon that stood still looks at its chains before it answers");
	ok(queue_look(q, now) == 0 && queue_touch(q, g.serial, g.attempt, now) == 0,
	   "and then does");
	pass(steal);
	queue_tick(q, now);
	ok(!queue_lease(q, g.serial, g.attempt, &l),
	   "while the storage does not answer the beat, no agent is judged");
	queue_beat(q, now);
	live(q, steal - 1);
	queue_tick(q, now);
	ok(!queue_lease(q, g.serial, g.attempt, &l), "a claim lasts for steal_after from then on");
	pass(1);
	queue_tick(q, now);
	ok(!queue_find(q, "t", &t) && t.state == TASK_PENDING && t.attempt == 2 &&
		   t.counts.losses == 1 && t.counts.failures == 0 && t.reason == WHY_STALE,
	   "and is lost without a heartbeat");
	ok(queue_touch(q, g.serial, g.attempt, now) == -ESTALE &&
		   end(q, &g, END_DONE, WHY_NONE) == -ESTALE,
	   "its holder is told");
	next(q, 0, &g);
	queue_excuse(q, now);
	pass(steal);
	queue_excuse(q, now);
	queue_tick(q, now);
	ok(!queue_lease(q, g.serial, g.attempt, &l), "time that was not served judges no agent");
	queue_closed(q, g.serial, g.attempt, true, now);
	ok(!queue_find(q, "t", &t) && t.attempt == 3 && t.reason == WHY_UNDELIVERED &&
		   t.counts.failures == 0,
	   "closed without having read: freed");
	ok(!*next(q, 0, &g) && queue_wants_beat(q), "after standing still it beats before it claims");
	queue_beat(q, now);
	next(q, 0, &g);
	queue_delivered(q, g.serial, g.attempt);
	queue_closed(q, g.serial, g.attempt, false, now);
	ok(queue_is_held(q, g.serial, g.attempt), "a claim that is not bound outlives its descriptor");
	queue_closed(q, g.serial, g.attempt, true, now);
	ok(!queue_find(q, "t", &t) && t.attempt == 4 && t.reason == WHY_CRASH &&
		   t.counts.failures == 1,
	   "a bound one does not: a crash");
	queue_close(q, now);
}

static void
two_daemons(void)
{
	char path[300];
	struct grant g;
	struct grant h;
	new_run(path, "two", "{\"id\":\"t\"}\n");
	struct queue *a = join(path);
	struct queue *b = join(path);
	ok(!strcmp(next(a, 0, &g), "t@1"), "one daemon claims");
	ok(queue_claim(b, g.serial, 1, 0, &by, now, &h) == -EBUSY, "the other is told so");
	ok(end(b, &g, END_DONE, WHY_NONE) == -EPERM && queue_touch(b, g.serial, 1, now) == -EPERM,
	   "and may not end it, nor beat for it");
	ok(queue_revoke(b, g.serial, 1, now) == 0, "but anybody may revoke");
	ok(!strcmp(next(b, 0, &h), "t@2"), "and take it then");
	ok(end(a, &g, END_DONE, WHY_NONE) == -ESTALE, "the holder before learns it by its end");
	ok(end(b, &h, END_FREED, WHY_RELEASED) == 0, "given back");

	/* another daemon of the same node is no other node */
	queue_refresh(a, now, 0, 0);
	ok(!strcmp(next(a, 0, &g), "t@3"), "taken again");
	end(a, &g, END_RETRY, WHY_CRASH);
	ok(!strcmp(next(a, 1, &h), "t@4"), "after a crash the same node may try where there is no other");
	end(a, &h, END_FREED, WHY_RELEASED);
	queue_refresh(b, now, 0, 0);

	/* claims that are deleted from the run directory */
	ok(!strcmp(next(a, 1, &g), "t@5"), "taken once more");
	char command[600];
	snprintf(command, sizeof(command), "rm %s/chain/*/t@5.claim", path);
	if (system(command) != 0) /* NOLINT(cert-env33-c): a test's own path */
		ok(false, "%s", command);
	ok(queue_look(a, now) == 0 && queue_touch(a, g.serial, 5, now) == -ESTALE,
	   "a claim deleted by hand: its holder finds out at the next look");
	ok(!strcmp(next(a, 1, &h), "t@5"), "the same daemon may make it again");
	ok(queue_is_grant(a, h.serial, 5, h.seq) && !queue_is_grant(a, g.serial, 5, g.seq),
	   "and then the descriptor of the first holder does not speak for it");
	if (system(command) != 0) /* NOLINT(cert-env33-c): a test's own path */
		ok(false, "%s", command);
	queue_look(a, now);
	queue_refresh(b, now, 0, 0);
	ok(!strcmp(next(b, 1, &h), "t@5"), "and another may make it again");
	now.boot_ms += 60000;
	queue_refresh(a, now, 0, 0);
	ok(queue_touch(a, g.serial, 5, now) == -ESTALE && end(a, &g, END_DONE, WHY_NONE) == -ESTALE,
	   "the holder whose claim was lost so is told that it is lost, not that it is another's");
	ok(end(b, &h, END_DONE, WHY_NONE) == 0, "the one whose claim stands");

	/* evicted: all claims are lost, and the daemon lives on under another name */
	char old[OWNER_TEXT];
	char reborn[OWNER_TEXT];
	queue_owner(a, old);
	ok(queue_evict(b, old) == 0, "a daemon is evicted");
	ok(queue_evict(b, old) == -ENOENT, "once");
	queue_beat(a, now);
	queue_owner(a, reborn);
	ok(strcmp(old, reborn) != 0, "its next beat draws a new name");
	queue_close(a, now);
	queue_close(b, now);
}

/* A daemon on a node of Slurm. */
static struct queue *
join_at(const char *path, const char *node)
{
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_ARRAY_JOB_ID", "5", 1);
	setenv("SLURM_ARRAY_TASK_ID", "2", 1);
	setenv("SLURM_RESTART_COUNT", "3", 1);
	setenv("SLURMD_NODENAME", node, 1);
	struct queue *q = join(path);
	unsetenv("SLURM_JOB_ID");
	unsetenv("SLURM_ARRAY_JOB_ID");
	unsetenv("SLURM_ARRAY_TASK_ID");
	unsetenv("SLURM_RESTART_COUNT");
	unsetenv("SLURMD_NODENAME");
	return q;
}

/* All daemons learn what there is. */
static void
look_around(struct queue **all)
{
	for (struct queue **q = all; *q; q++)
		queue_beat(*q, now);
	for (struct queue **q = all; *q; q++) {
		queue_watch(*q, now);
		queue_refresh(*q, now, 0, 0);
	}
}

/* After a crash the next attempt prefers another node that has agents for it. */
/* Several daemons, and tasks whose durations are known: each claim is of one of the longest, although
 * daemons keep apart from each other. */
static void
longest_among_many(void)
{
	enum { TASKS = 60, DAEMONS = 4, NEAR = 8 };
	static char tasks[TASKS * 40];
	struct queue *q[DAEMONS];
	bool taken[TASKS] = { false };
	int ranks = 0;
	int worst = 0;
	int first = -1;
	int claims = 0;
	char path[300];
	struct grant g;
	size_t len = 0;

	for (int i = 0; i < TASKS; i++)
		len += (size_t)snprintf(tasks + len, sizeof(tasks) - len,
					"{\"id\":\"%d\",\"expected\":%d}\n", i, TASKS - i);
	new_run(path, "longest", tasks);
	for (int i = 0; i < DAEMONS; i++)
		q[i] = join(path);
	for (int i = 0; i < DAEMONS; i++)
		queue_watch(q[i], now); /* they know of each other */
	for (int i = 0; i < TASKS; i++) {
		if (queue_take(q[i % DAEMONS], 0, &by, now, &g))
			continue;
		int which = (int)strtol(g.name, NULL, 10);
		int rank = 0;

		for (int k = 0; k < which; k++)
			rank += !taken[k];
		taken[which] = true;
		first = claims ? first : which;
		claims++;
		ranks += rank;
		worst = rank > worst ? rank : worst;
	}
	ok(claims == TASKS, "all %d are claimed", TASKS);
	ok(first == 0, "the longest first");
	ok(worst < NEAR && ranks < 3 * claims, "and then those that are longest, or nearly");
	diag("ranks among the rest: %.2f on average, %d at most", (double)ranks / TASKS, worst);
	for (int i = 0; i < DAEMONS; i++)
		queue_close(q[i], now);
}

static void
nodes(void)
{
	char path[300];
	char owner[OWNER_TEXT];
	struct grant g;
	struct grant h;
	struct task t;
	struct node_line lines[8];
	const int waiting[TIERS_MAX] = { [2] = 1 };

	new_run(path, "nodes", "{\"id\":\"t\"}\n");
	struct queue *a = join_at(path, "compute-node-01");
	struct queue *a2 = join_at(path, "compute-node-01");
	struct queue *b = join_at(path, "compute-node-02");
	struct queue *all[] = { a, a2, b, NULL };
	queue_owner(a, owner);
	ok(!strncmp(owner, "tenode01.", 9), "an owner is named after Slurm's node: %s", owner);
	queue_idle(a2, waiting);
	queue_idle(b, waiting);
	look_around(all);
	size_t n = queue_nodes(a, lines, 8);
	bool same = n == 3;
	for (size_t i = 0; i < n; i++)
		same &= !strncmp(lines[i].info.host, "compute-node-0", 14) &&
			!strcmp(lines[i].info.job, "5_2") && lines[i].info.restarts == 3;
	ok(same, "each knows of all on which node and in which job they are");
	ok(!strcmp(next(a, 0, &g), "t@1"), "a task is taken");
	end(a, &g, END_RETRY, WHY_OOM);
	look_around(all);
	ok(!*next(a, 1, &g), "the daemon of the crash lets another node try");
	ok(!*next(a2, 1, &g), "so does another daemon on its node");
	ok(!strcmp(next(b, 1, &h), "t@2"), "another node does at once");
	end(b, &h, END_FREED, WHY_RELEASED);
	look_around(all);
	ok(!queue_find(a, "t", &t) && t.attempt == 3 && !strcmp(next(a, 1, &g), "t@3"),
	   "after which nobody waits");
	end(a, &g, END_RETRY, WHY_CRASH);
	look_around(all);
	ok(!*next(a2, 2, &g), "once more");
	live(a2, queue_conf(a)->steal_after_ms);
	queue_tick(a2, now);
	ok(!strcmp(next(a2, 2, &g), "t@4"), "but not for longer than steal_after");
	queue_close(a, now);
	queue_close(a2, now);
	queue_close(b, now);
}

/* An attempt that dies at once. False when none is given. */
static bool
dies(struct queue *q)
{
	struct grant g;

	if (!*next(q, 0, &g))
		return false;
	queue_end(q, g.serial, g.attempt, END_RETRY, WHY_EXIT, "status 1", now);
	return true;
}

static bool
is_paused(struct queue *q)
{
	struct queue_stats st;

	queue_stats(q, &st);
	return st.paused;
}

/* A node where each agent has a daemon of its own: they count together. */
static void
beside(void)
{
	enum { ALL = 4 };
	char path[300];
	char tasks[4000] = "";
	size_t n = 0;
	struct grant g;
	struct queue *q[ALL + 2];
	int burnt = 0;

	for (int i = 0; i < 90; i++)
		n += (size_t)snprintf(tasks + n, sizeof(tasks) - n, "{\"id\":\"t%02d\"}\n", i);
	new_run(path, "beside", tasks);
	for (int i = 0; i < ALL; i++)
		q[i] = join_at(path, "compute-node-01");
	q[ALL] = join_at(path, "x-compute-node-01"); /* its owner is called alike */
	dies(q[0]);
	ok(queue_ready(q[0], 0) > 0, "one attempt that dies at once says nothing");
	dies(q[0]);
	ok(queue_ready(q[0], 0) == 0 && queue_wants_beat(q[0]) && queue_tick_at(q[0]) <= now.boot_ms,
	   "after two a daemon looks at those beside it first, and tells them");
	queue_beat(q[0], now);
	queue_tick(q[0], now);
	ok(queue_ready(q[0], 0) > 0 && !queue_wants_beat(q[0]), "and goes on");
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < ALL; i++) {
			burnt += dies(q[i]);
			queue_beat(q[i], now);
			queue_tick(q[i], now);
		}
	bool all = true;
	for (int i = 0; i < ALL; i++)
		all &= is_paused(q[i]);
	ok(all && burnt + 2 <= 12, "four daemons pause after %d attempts in all", burnt + 2);
	dies(q[ALL]);
	dies(q[ALL]);
	queue_tick(q[ALL], now);
	ok(!is_paused(q[ALL]), "another node does not");
	q[ALL + 1] = join_at(path, "compute-node-01");
	dies(q[ALL + 1]);
	dies(q[ALL + 1]);
	queue_tick(q[ALL + 1], now);
	ok(is_paused(q[ALL + 1]), "who comes to such a node pauses after two");
	burnt = 0;
	for (int s = 0; s < 600; s++) {
		pass(1000);
		for (int i = 0; i < ALL + 2; i++) {
			if (i == ALL)
				continue;
			if (s % 5 == 0)
				queue_beat(q[i], now);
			if (queue_tick_at(q[i]) <= now.boot_ms)
				queue_tick(q[i], now);
			burnt += dies(q[i]);
		}
	}
	ok(burnt >= 10 && burnt <= 40, "in ten minutes they try %d times", burnt);
	int tries = 0;
	while (!*next(q[1], 0, &g) && tries++ < 400) {
		pass(1000);
		queue_tick(q[1], now);
	}
	end(q[1], &g, END_DONE, WHY_NONE);
	ok(!is_paused(q[1]) && queue_wants_beat(q[1]), "one finds that attempts live again, and tells");
	queue_beat(q[1], now);
	pass(30000);
	queue_tick(q[2], now);
	queue_tick(q[2], now);
	ok(*next(q[2], 0, &g), "another tries half a minute later");
	for (int i = 0; i < ALL + 2; i++)
		queue_close(q[i], now);
}

int
main(void)
{
	log_init("queue.t", LOG_NOTHING);
	now = now_read();
	order();
	durations();
	limits();
	delays();
	pauses();
	keeping();
	two_daemons();
	longest_among_many();
	nodes();
	beside();
	return done_testing();
}
