/*
 * lanes.c - tiers off the ladder: who is given what, where failures lead, and when each is drained.
 */
#include <config.h>

#include "clock.h"
#include "queue.h"
#include "runs.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { GPU, LOW, HIGH, FPGA };
static const char ini[] = "[run]\nmax_failures = 4\n"
			  "[tier gpu]\nmemory = 8G\nladder = no\n"
			  "[tier low]\nmemory = 1G\nfailures = 0\n"
			  "[tier high]\nmemory = 4G\nelevated_first = yes\n"
			  "[tier fpga]\nladder = no\n";

/* What a tier is given next, as "T@k"; "" for nothing. */
static const char *
next(struct queue *q, int tier, struct grant *g)
{
	static char name[NAME_LIMIT + 16];

	name[0] = '\0';
	if (!queue_next(q, tier, &run_agent, now, g))
		snprintf(name, sizeof(name), "%s@%u", g->name, g->attempt);
	return name;
}

static int
add_name(void *arg, const struct task *t)
{
	char *all = arg;

	snprintf(all + strlen(all), 200 - strlen(all), "%s ", t->name);
	return 0;
}

/* The names that a tier's listing shows. */
static const char *
listed(struct queue *q, int tier)
{
	static char all[200];

	all[0] = '\0';
	queue_list(q, VIEW_TIER + tier, 0, add_name, all);
	return all;
}

static bool
is_drained(struct queue *q, int tier)
{
	int64_t since = now.boot_ms;

	queue_refresh(q, now, 0, 0);
	return queue_drained(q, tier, since);
}

static void
end(struct queue *q, const struct grant *g, enum outcome outcome, enum reason why)
{
	if (queue_end(q, g->serial, g->attempt, outcome, why, NULL, now))
		diag("%s@%u cannot be ended", g->name, g->attempt);
}

static void
lanes(void)
{
	char path[300];
	struct grant g;
	struct grant h;
	struct task t;

	run_make(path, "lanes", ini,
		 "{\"id\":\"a\"}\n{\"id\":\"g1\",\"tier\":\"gpu\"}\n"
		 "{\"id\":\"g2\",\"tier\":\"gpu\",\"memory\":\"6G\"}\n{\"id\":\"m\",\"memory\":\"2G\"}\n"
		 "{\"id\":\"f\",\"tier\":\"fpga\"}\n");
	struct queue *q = run_open(path, true);
	ok(!strcmp(listed(q, GPU), "g1 g2 "), "gpu is shown what names it: %s", listed(q, GPU));
	ok(!strcmp(listed(q, LOW), "a "), "low what no other tier is for: %s", listed(q, LOW));
	ok(!strcmp(listed(q, HIGH), "a m "), "high the ladder: %s", listed(q, HIGH));
	ok(!strcmp(listed(q, FPGA), "f "), "fpga its own: %s", listed(q, FPGA));
	ok(queue_ready(q, GPU) == 2 && queue_ready(q, LOW) == 1 && queue_ready(q, HIGH) == 2 &&
		   queue_ready(q, FPGA) == 1,
	   "so many are ready");
	queue_find(q, "g1", &t);
	ok(queue_claim(q, t.serial, 1, HIGH, &run_agent, now, &g) == -ENOENT,
	   "the top of the ladder cannot claim what is off it by name");
	ok(queue_claim(q, t.serial, 1, FPGA, &run_agent, now, &g) == -ENOENT, "nor another lane");
	for (unsigned k = 1; k <= 3; k++) {
		char name[16];

		snprintf(name, sizeof(name), "g1@%u", k);
		ok(!strcmp(next(q, GPU, &g), name), "gpu takes %s", name);
		end(q, &g, END_RETRY, WHY_OOM);
		ok(!queue_find(q, "g1", &t) && t.counts.level == GPU && t.counts.failures == (int)k,
		   "its failure leaves it there");
	}
	ok(!strcmp(next(q, HIGH, &g), "m@1"), "high prefers what low may not take");
	end(q, &g, END_DONE, WHY_NONE);
	ok(!strcmp(next(q, LOW, &g), "a@1"), "low takes the rest");
	end(q, &g, END_RETRY, WHY_CRASH);
	ok(!queue_find(q, "a", &t) && t.counts.level == HIGH, "which moves up the ladder");
	ok(!strcmp(next(q, HIGH, &g), "a@2"), "to its top");
	ok(is_drained(q, LOW) && !is_drained(q, HIGH), "and nothing comes down again");
	end(q, &g, END_DONE, WHY_NONE);
	ok(is_drained(q, LOW) && is_drained(q, HIGH), "the ladder is drained, whatever is left beside it");
	ok(!is_drained(q, GPU) && !is_drained(q, FPGA), "which is not");
	ok(!strcmp(next(q, FPGA, &h), "f@1"), "fpga works");
	ok(!is_drained(q, FPGA), "and is not drained while it does");
	ok(!strcmp(next(q, GPU, &g), "g1@4"), "gpu tries once more");
	end(q, &g, END_RETRY, WHY_CRASH);
	ok(!queue_find(q, "g1", &t) && t.state == TASK_FAILED && !queue_reopen(q, t.serial, 0, now) &&
		   !queue_find(q, "g1", &t) && t.counts.level == GPU,
	   "given up after max_failures, reopened there");
	ok(!strcmp(next(q, GPU, &g), "g1@6"), "and taken there");
	end(q, &g, END_DONE, WHY_NONE);
	ok(!strcmp(next(q, GPU, &g), "g2@1"), "the last one");
	end(q, &g, END_DONE, WHY_NONE);
	ok(is_drained(q, GPU) && !is_drained(q, FPGA), "a lane does not wait for another");
	end(q, &h, END_DONE, WHY_NONE);
	ok(is_drained(q, FPGA), "the last lane is drained");
	queue_close(q, now);
}

/* What others ended and nobody here has read keeps only its own lane waiting. */
static void
unread(void)
{
	char path[300];
	struct grant g;

	run_make(path, "unread", ini, "{\"id\":\"a\"}\n{\"id\":\"g\",\"tier\":\"gpu\"}\n");
	struct queue *a = run_open(path, true);
	next(a, LOW, &g);
	end(a, &g, END_DONE, WHY_NONE);
	next(a, GPU, &g);
	end(a, &g, END_RETRY, WHY_CRASH);
	struct queue *b = run_open(path, true);
	ok(queue_has_unread(b), "another daemon has not read all ends");
	ok(queue_drained(b, LOW, now.boot_ms), "but those of the ladder");
	queue_refresh(b, now, 0, 0);
	ok(!queue_has_unread(b) && !queue_drained(b, GPU, now.boot_ms) &&
		   !strcmp(next(b, GPU, &g), "g@2"),
	   "and then takes what failed in its lane");
	queue_close(b, now);
	queue_close(a, now);
}

static void
refused(void)
{
	char path[300];
	struct err e = { "" };

	run_make(path, "refused", ini, "{\"id\":\"a\",\"tier\":\"gpu\",\"memory\":\"8G\"}\n");
	ok(run_feed(path, "{\"id\":\"b\",\"tier\":\"gpu\",\"memory\":\"9G\"}\n", &e) == -EINVAL &&
		   strstr(e.text, "tier gpu, which is off the ladder, has less than 9663676416 bytes"),
	   "more memory than a lane has: %s", e.text);
	ok(run_feed(path, "{\"id\":\"b\",\"memory\":\"8G\"}\n", &e) == -EINVAL &&
		   strstr(e.text, "no tier of raser.ini has"),
	   "memory alone leads into no lane: %s", e.text);
	ok(run_feed(path, "{\"id\":\"b\",\"tier\":\"fpga\",\"memory\":\"900G\"}\n", &e) == 0,
	   "a lane without a limit: %s", e.text);
}

int
main(void)
{
	log_init("lanes.t", LOG_NOTHING);
	now = now_read();
	lanes();
	unread();
	refused();
	return done_testing();
}
