/*
 * durations.c - the table of raser export --durations, out and in.
 */
#include <config.h>

#include "durations.h"

#include "past.h"
#include "raser.h"
#include "trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- in ---- */

struct entry {
	char name[NAME_LIMIT + 1];
	double seconds;
	size_t order;
};

struct durations {
	struct entry *all; /* by name, one of each */
	size_t n;
};

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* The last line of a task comes first. */
static int
by_name_latest(const void *a, const void *b)
{
	const struct entry *x = a;
	const struct entry *y = b;
	int d = by_name(a, b);

	return d ? d : x->order > y->order ? -1 : x->order < y->order;
}

static bool
fill(struct durations *d, const struct trace *t)
{
	size_t total = 0;

	for (size_t i = 0; i < t->n; i++)
		total += t->runs[i].n;
	d->all = calloc(total ? total : 1, sizeof(*d->all));
	if (!d->all)
		return false;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->runs[i].n; k++) {
			struct entry *e = &d->all[d->n];

			/* what can be no task's name is no task of ours */
			e->seconds = t->runs[i].tasks[k].seconds;
			e->order = d->n;
			d->n += task_name(t->runs[i].tasks[k].id, e->name);
		}
	qsort(d->all, d->n, sizeof(*d->all), by_name_latest);
	size_t kept = 0;
	for (size_t i = 0; i < d->n; i++)
		if (!i || strcmp(d->all[kept - 1].name, d->all[i].name) != 0)
			d->all[kept++] = d->all[i];
	d->n = kept;
	return true;
}

struct durations *
durations_read(const char *file)
{
	struct durations *d = calloc(1, sizeof(*d));
	struct err err = { "" };
	struct trace t;

	if (!d || trace_read(file, NULL, &t, &err)) {
		complain(1, "%s", d ? err.text : "out of memory");
		free(d);
		return NULL;
	}
	bool good = fill(d, &t);
	trace_free(&t);
	if (good)
		return d;
	durations_free(d);
	complain(1, "out of memory");
	return NULL;
}

void
durations_free(struct durations *d)
{
	if (!d)
		return;
	free(d->all);
	free(d);
}

int64_t
durations_expected(void *arg, const char *name)
{
	const struct durations *d = arg;
	struct entry key = { .order = 0 };

	snprintf(key.name, sizeof(key.name), "%s", name);
	const struct entry *e = bsearch(&key, d->all, d->n, sizeof(*d->all), by_name);
	return e ? (int64_t)ceil(e->seconds) : 0;
}

/* ---- out ---- */

int
durations_print(const char *run, FILE *f)
{
	struct past_list list;
	int status = past_read(run, &list);

	if (status)
		return status;
	past_complete(&list);
	for (size_t i = 0, next; i < list.n; i = next) {
		double longest = 0;
		double accepted = NAN;

		for (next = i; next < list.n && !strcmp(list.all[next].task, list.all[i].task); next++) {
			double work = past_work(&list, next);

			if (list.all[next].end == PAST_DONE)
				accepted = work;
			longest = fmax(longest, work);
		}
		if (!isnan(accepted))
			fprintf(f, "%s\t%.3f\n", list.all[i].task, accepted);
		else if (longest > 0)
			fprintf(f, "%s\t%.3f\tleast\n", list.all[i].task, longest);
	}
	past_free(&list);
	return 0;
}
