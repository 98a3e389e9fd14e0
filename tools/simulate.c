/*
 * simulate.c - raser bench makespan --simulate: every run of a table by every arm, in no time.
 */
#include <config.h>

#include "bench.h"

#include "schedule.h"
#include "trace.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_AGENTS = 15 /* the paper's */, AGENTS_MAX = 100000, NAME_WIDTH = 32, SHUFFLES = 20 };

enum arm { ARM_STATIC, ARM_QUEUE, ARM_LEARNED, ARM_PERFECT, ARMS };

static const char *const arm_names[ARMS] = { "static", "queue", "learned", "perfect" };

/* Seconds; learned is NAN where no earlier run could teach anything. */
struct spans {
	double bound, of[ARMS];
	double shuffled; /* the queue in a random order: the mean of SHUFFLES */
};

struct sums {
	bool taught;			/* only of runs that have one before them */
	double over[ARMS], gain[ARMS]; /* of n */
	double shuffled;
	int n;
	double least[ARMS], most[ARMS]; /* gain, of all of them */
	size_t runs;
};

/* The run before this one of the same group, which has been by when this one begins. */
static const struct trace_run *
run_before(const struct trace *t, size_t i)
{
	for (size_t k = i; k-- > 0;)
		if (!strcmp(t->runs[k].group, t->runs[i].group))
			return &t->runs[k];
	return NULL;
}

/* The same draws on every machine. */
static int
shuffle(const double *seconds, size_t n, size_t agents, size_t *order, double *mean)
{
	uint64_t x = 88172645463325252U;

	*mean = 0;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (int k = 0; k < SHUFFLES; k++) {
		for (size_t i = n; i > 1; i--) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			size_t other = (size_t)(x % i);
			size_t one = order[i - 1];

			order[i - 1] = order[other];
			order[other] = one;
		}
		double span = schedule_queue(seconds, order, n, agents);
		if (span < 0)
			return -1;
		*mean += span / SHUFFLES;
	}
	return 0;
}

static int
simulate(const struct trace *t, size_t i, size_t agents, struct spans *o)
{
	const struct trace_run *run = &t->runs[i];
	const struct trace_run *before = run_before(t, i);
	double *seconds = calloc(run->n, sizeof(*seconds));
	double *expected = calloc(run->n, sizeof(*expected));
	size_t *order = calloc(run->n, sizeof(*order));
	int rc = seconds && expected && order ? 0 : -1;

	for (size_t k = 0; !rc && k < run->n; k++) {
		const struct trace_task *known = before ? trace_find(before, run->tasks[k].id) : NULL;

		seconds[k] = run->tasks[k].seconds;
		expected[k] = known ? known->seconds : 0;
	}
	if (!rc) {
		o->bound = schedule_bound(seconds, run->n, agents);
		o->of[ARM_STATIC] = schedule_static(seconds, run->n, agents);
		o->of[ARM_QUEUE] = schedule_queue(seconds, NULL, run->n, agents);
		o->of[ARM_LEARNED] = NAN;
		if (before && !(rc = schedule_longest(expected, run->n, order)))
			o->of[ARM_LEARNED] = schedule_queue(seconds, order, run->n, agents);
		if (!rc && !(rc = schedule_longest(seconds, run->n, order)))
			o->of[ARM_PERFECT] = schedule_queue(seconds, order, run->n, agents);
		if (!rc)
			rc = shuffle(seconds, run->n, agents, order, &o->shuffled);
	}
	for (int a = 0; !rc && a < ARMS; a++)
		rc = o->of[a] < 0 ? -1 : 0;
	free(seconds);
	free(expected);
	free(order);
	return rc;
}

static void
print_head(void)
{
	printf("%-*s %6s %8s |", NAME_WIDTH, "run", "tasks", "bound");
	for (int a = 0; a < ARMS; a++)
		printf(" %8s %5s%s%s", arm_names[a], "over", a == ARM_STATIC ? "" : "  gain",
		       a + 1 < ARMS ? " |" : "\n");
}

/* In percent. */
static double
over(const struct spans *o, int a)
{
	return o->bound > 0 ? 100 * (o->of[a] / o->bound - 1) : 0;
}

static double
gain(const struct spans *o, int a)
{
	return o->of[ARM_STATIC] > 0 ? 100 * (1 - o->of[a] / o->of[ARM_STATIC]) : 0;
}

static void
print_arm(int a, const char *time, double beyond, double gained, bool known)
{
	if (known)
		printf(" %8s %5.1f", time, beyond);
	else
		printf(" %8s %5s", "-", "-");
	if (a != ARM_STATIC && known)
		printf(" %5.1f", gained);
	else if (a != ARM_STATIC)
		printf(" %5s", "-");
	fputs(a + 1 < ARMS ? " |" : "\n", stdout);
}

static void
add(struct sums *s, const struct spans *o)
{
	bool taught = !isnan(o->of[ARM_LEARNED]);

	for (int a = 0; a < ARMS; a++) {
		if (a == ARM_LEARNED && !taught)
			continue;
		s->least[a] = s->runs ? fmin(s->least[a], gain(o, a)) : gain(o, a);
		s->most[a] = s->runs ? fmax(s->most[a], gain(o, a)) : gain(o, a);
	}
	s->runs++;
	if (taught && !s->taught) /* what has been added cannot be compared with these */
		for (int a = s->n = 0; a < ARMS; a++)
			s->over[a] = s->gain[a] = s->shuffled = 0;
	s->taught |= taught;
	if (taught != s->taught)
		return;
	for (int a = 0; a < ARMS; a++) {
		s->over[a] += over(o, a);
		s->gain[a] += gain(o, a);
	}
	s->shuffled += o->bound > 0 ? 100 * (o->shuffled / o->bound - 1) : 0;
	s->n++;
}

static void
print_run(const struct trace_run *run, const struct spans *o)
{
	printf("%-*.*s %6zu %8.2f |", NAME_WIDTH, NAME_WIDTH, run->name, run->n, o->bound / 60);
	for (int a = 0; a < ARMS; a++) {
		char time[32];

		snprintf(time, sizeof(time), "%.2f", o->of[a] / 60);
		print_arm(a, time, over(o, a), gain(o, a), !isnan(o->of[a]));
	}
}

static void
print_sums(const struct sums *s)
{
	if (s->runs > 1) {
		char name[NAME_WIDTH + 32];

		snprintf(name, sizeof(name), s->taught ? "mean of %d with a run before" : "mean of %d",
			 s->n);
		printf("%-*s %6s %8s |", NAME_WIDTH, name, "", "");
		for (int a = 0; a < ARMS; a++)
			print_arm(a, "", s->over[a] / s->n, s->gain[a] / s->n,
				  a != ARM_LEARNED || s->taught);
	}
	printf("\nMinutes. static: equal blocks of neighbours in the order of the file. queue: whoever is free\n"
	       "takes the next one in that order; in a random order it is %.1f %% over the bound (the mean of\n"
	       "%d draws a run). learned, perfect: the longest expected first, by the run before of the same\n"
	       "tasks, or as it will turn out. bound: max(total / agents, longest). over: percent above the\n"
	       "bound. gain: percent less than static.\n", s->shuffled / s->n, SHUFFLES);
	printf("The 38.8 %% of the RASER paper is of its own spans, and so is every gain: here the queue gains\n"
	       "%.1f", s->least[ARM_QUEUE]);
	if (s->runs > 1)
		printf(" to %.1f", s->most[ARM_QUEUE]);
	printf(" %%, longest first with perfect estimates %.1f", s->least[ARM_PERFECT]);
	if (s->runs > 1)
		printf(" to %.1f", s->most[ARM_PERFECT]);
	puts(" %. What is left to gain is the distance from the bound.");
}

int
makespan_simulate(const struct makespan_options *o)
{
	size_t agents = o->agents ? (size_t)bench_count(o->agents, AGENTS_MAX) : DEFAULT_AGENTS;
	struct sums sums = { 0 };
	struct err err = { "" };
	struct trace t;

	if (!agents)
		return complain(EXIT_USAGE, "--agents %s: it must be a number from 1 to %d", o->agents,
				AGENTS_MAX);
	if (trace_read(o->trace, o->columns, &t, &err))
		return complain(1, "%s", err.text);
	printf("%s: %zu run%s, %zu agents\n", o->trace, t.n, t.n == 1 ? "" : "s", agents);
	if (t.left_out)
		printf("%zu lines without a duration are left out\n", t.left_out);
	print_head();
	int rc = 0;
	for (size_t i = 0; !rc && i < t.n; i++) {
		struct spans out = { 0 };

		rc = simulate(&t, i, agents, &out);
		if (!rc)
			print_run(&t.runs[i], &out);
		if (!rc)
			add(&sums, &out);
	}
	if (!rc)
		print_sums(&sums);
	trace_free(&t);
	return rc ? complain(1, "out of memory") :
	       fflush(stdout) || ferror(stdout) ? complain(1, "standard output cannot be written") : 0;
}
