/*
 * schedule.c - an event is that an agent becomes free; a heap tells which one is next.
 */
#include <config.h>

#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

double
schedule_static(const double *seconds, size_t n, size_t agents)
{
	double worst = 0;

	for (size_t a = 0; a < agents; a++) {
		double block = 0;

		for (size_t i = n * a / agents; i < n * (a + 1) / agents; i++)
			block += seconds[i];
		if (block > worst)
			worst = block;
	}
	return worst;
}

/* The root has grown: let it sink to where it belongs. */
static void
heap_sink(double *heap, size_t n)
{
	double v = heap[0];
	size_t at = 0;

	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= v)
			break;
		heap[at] = heap[child];
	}
	heap[at] = v;
}

double
schedule_queue(const double *seconds, const size_t *order, size_t n, size_t agents)
{
	double *free_at = calloc(agents, sizeof(*free_at)); /* all zero is a heap */
	double makespan = 0;

	if (!free_at)
		return -1;
	for (size_t i = 0; i < n; i++) {
		double end = free_at[0] + seconds[order ? order[i] : i];

		if (end > makespan)
			makespan = end;
		free_at[0] = end;
		heap_sink(free_at, agents);
	}
	free(free_at);
	return makespan;
}

struct ranked {
	double expected;
	size_t index;
};

static int
by_expected(const void *a, const void *b)
{
	const struct ranked *x = a;
	const struct ranked *y = b;

	if (x->expected != y->expected)
		return x->expected > y->expected ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

int
schedule_longest(const double *expected, size_t n, size_t *order)
{
	struct ranked *ranked = calloc(n ? n : 1, sizeof(*ranked));

	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ranked[i] = (struct ranked){ expected[i], i };
	qsort(ranked, n, sizeof(*ranked), by_expected);
	for (size_t i = 0; i < n; i++)
		order[i] = ranked[i].index;
	free(ranked);
	return 0;
}

double
schedule_bound(const double *seconds, size_t n, size_t agents)
{
	double total = 0;
	double longest = 0;

	for (size_t i = 0; i < n; i++) {
		total += seconds[i];
		if (seconds[i] > longest)
			longest = seconds[i];
	}
	return total / (double)agents > longest ? total / (double)agents : longest;
}
