/*
 * deadline.c - a node whose time ends: what is offered by then, who is told what, and when.
 */
#include <config.h>

#include "clock.h"
#include "queue.h"
#include "runs.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ini[] = "[run]\nsteal_after = 100000\n[tier low]\nfailures = 0\n[tier high]\nmemory = 0\n";

static void
pass(int64_t ms)
{
	now.boot_ms += ms;
	now.wall_s += ms / 1000;
}

/* A daemon whose time ends in left seconds and began since seconds ago (-1: now; less: it begins then). */
static struct queue *
join(const char *path, int64_t left, int64_t since)
{
	const struct queue_options o = { .join = true, .until = now.wall_s + left,
					 .since = since == -1 ? 0 : now.wall_s - since };
	struct err e = { "" };
	struct queue *q = queue_open(path, &o, now, &e);

	if (!q) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	return q;
}

static const char *
next(struct queue *q, struct grant *g)
{
	static char name[NAME_LIMIT + 1];

	name[0] = '\0';
	if (!queue_next(q, 0, &run_agent, now, g))
		snprintf(name, sizeof(name), "%s", g->name);
	return name;
}

static void
end(struct queue *q, const struct grant *g, enum outcome outcome, enum reason why)
{
	if (queue_end(q, g->serial, g->attempt, outcome, why, NULL, now))
		diag("%s@%u cannot be ended", g->name, g->attempt);
}

static int
add_name(void *arg, const struct task *t)
{
	char *all = arg;

	snprintf(all + strlen(all), 200 - strlen(all), "%s ", t->name);
	return 0;
}

static const char *
listed(struct queue *q)
{
	static char all[200];

	all[0] = '\0';
	queue_list(q, VIEW_TIER, 0, add_name, all);
	return all;
}

/* What an agent is told that asks now. */
static int
told_now(struct queue *q)
{
	int64_t since = now.boot_ms;

	queue_refresh(q, now, 0, 0);
	return queue_exhausted(q, 0, since);
}

/* The daemon does what it is due for, at its time and not before, until then. */
static void
ticks_until(struct queue *q, int64_t boot_ms)
{
	for (int64_t at; (at = queue_tick_at(q)) <= boot_ms;) {
		if (at > now.boot_ms)
			pass(at - now.boot_ms);
		queue_tick(q, now);
	}
	pass(boot_ms - now.boot_ms);
}

static void
time_passes(void)
{
	char path[300];
	struct grant g = { 0 };
	struct grant d = { 0 };
	struct task t;
	struct queue_stats s;

	run_make(path, "passes", ini,
		 "{\"id\":\"a\",\"expected\":50}\n{\"id\":\"b\",\"expected\":99,\"priority\":1}\n"
		 "{\"id\":\"c\",\"expected\":100}\n{\"id\":\"d\",\"expected\":101}\n{\"id\":\"e\"}\n"
		 "{\"id\":\"f\",\"expected\":5000}\n");
	struct queue *q = join(path, 100, 100);
	int64_t start = now.boot_ms;
	ok(!strcmp(listed(q), "a b c e f ") && queue_ready(q, 0) == 5,
	   "listed is what fits, and what would fit into no such time: %s", listed(q));
	queue_stats(q, &s);
	ok(s.until == now.wall_s + 100 && s.too_long == 1 && s.count[TASK_PENDING] == 6,
	   "how many do not is told");
	uint64_t generation = queue_generation(q, 0);
	ticks_until(q, start);
	ok(!strcmp(listed(q), "a b c e f "), "at that moment");
	ticks_until(q, start + 1);
	ok(!strcmp(listed(q), "a b e f ") && queue_ready(q, 0) == 4, "a moment later one fits no more");
	ok(queue_generation(q, 0) == generation, "which is no news for anybody who waits");
	ok(!strcmp(next(q, &g), "b"), "priority is first among those that fit");
	end(q, &g, END_DONE, WHY_NONE);
	ok(!strcmp(next(q, &g), "f"), "then what nobody's time is enough for");
	end(q, &g, END_DONE, WHY_NONE);
	ok(!queue_find(q, "d", &t) && !queue_claim(q, t.serial, 1, 0, &run_agent, now, &d),
	   "by name anything can be had");
	end(q, &d, END_FREED, WHY_RELEASED);
	ok(!strcmp(listed(q), "a e "), "and is left out again");
	ticks_until(q, start + 50000);
	ok(!strcmp(next(q, &g), "a"), "just in time");
	end(q, &g, END_FREED, WHY_RELEASED);
	ticks_until(q, start + 50001);
	ok(!strcmp(listed(q), "e "), "and not");
	ok(!run_feed(path, "{\"id\":\"g\",\"expected\":40}\n{\"id\":\"h\",\"expected\":60}\n", NULL) &&
		   queue_refresh(q, now, 0, 0) >= 0 && !strcmp(listed(q), "e g "),
	   "so it is with what comes later: %s", listed(q));
	ticks_until(q, start + 60001);
	ok(!strcmp(listed(q), "e "), "which gets its moment, too");
	ok(told_now(q) == 0, "while something fits an agent may wait");
	ticks_until(q, start + 99999);
	ok(!strcmp(next(q, &g), "e"), "what nobody knows the length of fits to the end");
	generation = queue_generation(q, 0);
	end(q, &g, END_FREED, WHY_RELEASED);
	ticks_until(q, start + 100000);
	ok(!*listed(q) && !*next(q, &g) && queue_ready(q, 0) == 0, "and then nothing does");
	ok(told_now(q) == -ETIME && !queue_drained(q, 0, 0), "an agent is told why");
	ok(queue_generation(q, 0) > generation, "and was woken for it");
	ok(queue_tick_at(q) > start + 100000 + 1000, "time makes no more work");
	struct queue *other = run_open(path, true);
	int64_t since = now.boot_ms;
	queue_refresh(other, now, 0, 0);
	ok(queue_ready(other, 0) == 6, "another daemon is offered all that is left");
	while (*next(other, &g))
		end(other, &g, END_DONE, WHY_NONE);
	queue_refresh(q, now, 0, 0);
	ok(queue_exhausted(q, 0, since) == -ENODATA, "when that is done the queue is drained here, too");
	queue_close(other, now);
	queue_close(q, now);
}

/* Nothing fits: to wait for, or not. */
static void
waiting(void)
{
	char path[300];
	struct grant g = { 0 };
	struct grant h = { 0 };

	run_make(path, "waiting", ini,
		 "{\"id\":\"a\",\"expected\":50}\n{\"id\":\"b\",\"expected\":100}\n");
	struct queue *q = join(path, 200, 0);
	struct queue *other = run_open(path, true);
	ok(!strcmp(next(other, &h), "b") && !strcmp(next(other, &g), "a"), "another daemon has all");
	ok(told_now(q) == 0, "both may come back: wait");
	ticks_until(q, now.boot_ms + 100001);
	ok(told_now(q) == 0, "the shorter one may: wait");
	uint64_t generation = queue_generation(q, 0);
	ticks_until(q, now.boot_ms + 50000);
	ok(queue_exhausted(q, 0, 0) == -ETIME && told_now(q) == -ETIME, "none of them: leave");
	ok(queue_generation(q, 0) == generation + 1, "which is told once");
	end(other, &g, END_RETRY, WHY_CRASH);
	end(other, &h, END_FREED, WHY_RELEASED);
	ok(told_now(q) == -ETIME && !*next(q, &g), "what comes back then is too long");
	queue_close(other, now);
	queue_close(q, now);
	/* nobody's clock changes it */
	q = join(path, 101, -1);
	queue_refresh(q, now, 0, 0);
	ok(!strcmp(next(q, &g), "b"), "a new time");
	end(q, &g, END_FREED, WHY_RELEASED);
	now.wall_s += 100000;
	queue_tick(q, now);
	ok(!strcmp(listed(q), "b "), "a clock that jumps takes nothing away");
	queue_close(q, now);
	/* a time that begins in a while: what it takes to begin is no part of it */
	const struct queue_options soon = { .join = true, .until = now.wall_s + 100, .since = now.wall_s + 20 };
	struct err e = { "" };
	run_make(path, "soon", ini,
		 "{\"id\":\"a\",\"expected\":79}\n{\"id\":\"b\",\"expected\":80}\n"
		 "{\"id\":\"c\",\"expected\":81}\n{\"id\":\"d\",\"expected\":99}\n");
	q = queue_open(path, &soon, now, &e);
	ok(q && !strcmp(listed(q), "a b c d ") && queue_ready(q, 0) == 4, "all fit: %s", e.text);
	ticks_until(q, now.boot_ms + 20001);
	ok(!strcmp(listed(q), "a c d ") && queue_ready(q, 0) == 3, "what fitted into that time does not");
	ok(!strcmp(next(q, &g), "d") && !strcmp(next(q, &g), "c") && !strcmp(next(q, &g), "a") &&
		   !*next(q, &g), "each is given once, the longest first");
	queue_close(q, now);
	q = join(path, -5, -1);
	ok(told_now(q) == -ETIME && !*listed(q), "a time that was over before it began");
	queue_close(q, now);
}

/* ---- any order of events against the plain rule ---- */

enum { TASKS = 300, SPAN = 1000 };

struct model {
	int64_t left_ms, ready, pending;
	char wrong[300];
};

static bool
fits(const struct task *t, int64_t left_ms)
{
	return left_ms > 0 && (t->expected * 1000 <= left_ms || t->expected > SPAN);
}

static int
count_task(void *arg, const struct task *t)
{
	struct model *m = arg;

	m->pending += t->state == TASK_PENDING && t->counts.level == 0;
	m->ready += t->state == TASK_PENDING && t->counts.level == 0 && !t->waits && fits(t, m->left_ms);
	return 0;
}

static int
check_listed(void *arg, const struct task *t)
{
	struct model *m = arg;

	m->pending--;
	if (!fits(t, m->left_ms) && !m->wrong[0])
		snprintf(m->wrong, sizeof(m->wrong), "%s is listed with %lld ms left", t->name,
			 (long long)m->left_ms);
	return 0;
}

/* Its time begins in a while. */
static void
begins_later(void)
{
	char path[300];
	struct grant g = { 0 };

	run_make(path, "later", ini,
		 "{\"id\":\"a\",\"expected\":89}\n{\"id\":\"b\",\"expected\":90}\n{\"id\":\"c\",\"expected\":91}\n"
		 "{\"id\":\"d\",\"expected\":99}\n{\"id\":\"e\",\"expected\":1000}\n{\"id\":\"f\"}\n");
	struct queue *q = join(path, 100, -10);
	int64_t start = now.boot_ms;
	ok(!strcmp(listed(q), "a b c d e f ") && queue_ready(q, 0) == 6, "until then everything is offered");
	ticks_until(q, start + 9990);
	ok(queue_ready(q, 0) == 6, "for as long as a start may take");
	ticks_until(q, start + 10500);
	ok(!strcmp(listed(q), "a c d e f ") && queue_ready(q, 0) == 5,
	   "then not what would fit into another such time: %s", listed(q));
	ok(!strcmp(next(q, &g), "e"), "what fits into none is");
	queue_close(q, now);
}

static void
any_order(unsigned seed)
{
	static const enum outcome ends[] = { END_DONE, END_RETRY, END_FREED, END_FREED };
	static const enum reason whys[] = { WHY_NONE, WHY_CRASH, WHY_RELEASED, WHY_NOT_ITS_FAULT };
	char path[300];
	char name[32];
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct grant held[8];
	int nheld = 0;
	long bad = 0;
	long granted = 0;

	srandom(seed);
	for (int i = 0; f && i < TASKS; i++)
		fprintf(f, "{\"id\":\"t%d\",\"expected\":%ld,\"priority\":%ld}\n", i,
			random() % 4 ? random() % (SPAN + SPAN / 5) : 0, random() % 5);
	if (!f || fclose(f) != 0)
		return;
	snprintf(name, sizeof(name), "any%u", seed);
	run_make(path, name, ini, text);
	free(text);
	struct queue *q = join(path, SPAN, 0);
	int64_t over = now.boot_ms + INT64_C(1000) * SPAN;
	while (now.boot_ms < over + 5000) {
		struct model m = { 0 };
		int64_t listed_n;

		ticks_until(q, now.boot_ms + random() % 9000);
		queue_beat(q, now);
		m.left_ms = over - now.boot_ms;
		queue_list(q, VIEW_ALL, 0, count_task, &m);
		listed_n = m.pending;
		bad += queue_ready(q, 0) != m.ready;
		queue_list(q, VIEW_TIER, 0, check_listed, &m);
		bad += m.wrong[0] != '\0' || listed_n - m.pending < m.ready;
		if (nheld == 8 || (nheld && random() % 2)) {
			int k = (int)(random() % 4);

			end(q, &held[--nheld], ends[k], whys[k]);
		} else if (*next(q, &held[nheld])) {
			struct task t;

			bad += queue_get(q, held[nheld].serial, &t) || !fits(&t, m.left_ms);
			nheld++;
			granted++;
		} else {
			bad += m.ready != 0;
		}
	}
	ok(!bad && granted > 20, "seed %u: %ld grants, all of what fits, and %ld contradictions", seed,
	   granted, bad);
	queue_close(q, now);
}

int
main(void)
{
	log_init("deadline.t", LOG_NOTHING);
	now = now_read();
	time_passes();
	begins_later();
	waiting();
	for (unsigned seed = 1; seed <= 5; seed++)
		any_order(seed);
	return done_testing();
}
