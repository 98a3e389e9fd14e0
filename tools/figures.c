/*
 * figures.c - sums over the attempts of a run.
 */
#include <config.h>

#include "figures.h"

#include "raser.h"
#include "schedule.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tasks ---- */

static bool
add_task(struct task_list *t, const char *name, bool done)
{
	if (!(t->n & (t->n - 1))) { /* full at a power of two */
		size_t cap = t->n ? 2 * t->n : 1;
		char **names = reallocarray(t->names, cap, sizeof(*names));
		bool *dones;

		if (!names)
			return false;
		t->names = names;
		dones = reallocarray(t->done, cap, sizeof(*dones));
		if (!dones)
			return false;
		t->done = dones;
	}
	t->names[t->n] = strdup(name);
	t->done[t->n] = done;
	t->ndone += done;
	return t->names[t->n++] != NULL;
}

struct filling {
	struct task_list *tasks;
	bool no_memory;
};

static int
on_task(void *arg, const struct task *task)
{
	struct filling *f = arg;

	f->no_memory |= !add_task(f->tasks, task->name, task->state == TASK_DONE);
	return f->no_memory;
}

static int
read_queue(const struct target *target, struct filling *f)
{
	struct queue *q = target_queue(target, false);

	if (!q)
		return 1;
	int64_t rc = queue_refresh(q, now_read(), 0, 0);
	queue_list(q, VIEW_ALL, 0, on_task, f);
	queue_close(q, now_read());
	return rc < 0 ? complain(1, "%s: %s", target->run, strerror((int)-rc)) : 0;
}

/* A task a line, in their order; done are those that results/ has a link or a folder of. */
static int
read_order(const char *run, FILE *order, struct filling *f)
{
	char path[PATH_MAX + NAME_MAX + 16];
	char *line = NULL;
	size_t cap = 0;
	struct stat st;

	while (getline(&line, &cap, order) > 0) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(path, sizeof(path), "%s/results/%.255s", run, line);
		f->no_memory |= !add_task(f->tasks, line, lstat(path, &st) == 0);
	}
	free(line);
	return 0;
}

int
tasks_read(const char *run, struct task_list *t)
{
	struct filling f = { .tasks = t };
	char path[PATH_MAX + 16];
	struct target target;
	int status;

	*t = (struct task_list){ 0 };
	snprintf(path, sizeof(path), "%s/order", run);
	FILE *order = fopen(path, "re");
	if (order) {
		status = read_order(run, order, &f);
		fclose(order);
	} else {
		status = target_find(run, &target) ? read_queue(&target, &f) : 1;
	}
	if (!status && f.no_memory)
		status = complain(1, "out of memory");
	if (status)
		tasks_free(t);
	return status;
}

void
tasks_free(struct task_list *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->names[i]);
	free(t->names);
	free(t->done);
	*t = (struct task_list){ 0 };
}

/* ---- slots ---- */

/* An agent's slot: an agentd that is started again after a crash goes on in the slot of the one that
 * died, as long as they did not live at the same time. */
struct slot {
	const struct past *last;
	double ended;
};

static int
by_start(const void *a, const void *b)
{
	const struct past *const *x = a;
	const struct past *const *y = b;

	return (*x)->started < (*y)->started ? -1 : (*x)->started > (*y)->started;
}

static size_t
find_slot(struct slot *slots, size_t n, const struct past *p)
{
	size_t other = n;

	for (size_t i = 0; i < n; i++) {
		const struct past *last = slots[i].last;

		if (!strcmp(last->agent, p->agent))
			return i;
		/* tasks of arrays keep their names */
		if (other == n && !p->job && slots[i].ended <= p->started &&
		    !strcmp(last->place, p->place) && !strcmp(last->tier, p->tier))
			other = i;
	}
	return other;
}

static bool
assign_lanes(const struct past_list *list, size_t *lane, size_t *nlanes)
{
	const struct past **order = calloc(list->n ? list->n : 1, sizeof(const struct past *));
	struct slot *slots = calloc(list->n ? list->n : 1, sizeof(*slots));
	bool good = order && slots;
	size_t n = 0;

	for (size_t i = 0; good && i < list->n; i++)
		order[i] = &list->all[i];
	if (good && list->n)
		qsort(order, list->n, sizeof(const struct past *), by_start);
	for (size_t i = 0; good && i < list->n; i++) {
		size_t s = find_slot(slots, n, order[i]);

		n += s == n;
		slots[s].last = order[i];
		slots[s].ended = fmax(slots[s].ended, order[i]->ended);
		lane[order[i] - list->all] = s;
	}
	free((void *)(uintptr_t)order);
	free(slots);
	*nlanes = n;
	return good;
}

/* ---- sums ---- */

static void
add_attempt(struct figures *f, const struct past *p, const struct past *before)
{
	double length = p->ended - p->started;

	f->attempts++;
	f->ends[p->end]++;
	f->began = f->attempts == 1 ? p->started : fmin(f->began, p->started);
	if (p->end == PAST_DONE || p->end == PAST_FAILED)
		f->ended = fmax(f->ended, p->ended);
	f->busy += length;
	if (p->lost > 0) {
		f->lost += p->lost;
		f->lost_most = fmax(f->lost_most, p->lost);
	}
	if (p->resumed && p->restoring >= 0) {
		f->restored++;
		f->restoring += p->restoring;
		f->restoring_most = fmax(f->restoring_most, p->restoring);
	}
	if (before && !strcmp(before->task, p->task) && before->end != PAST_DONE) {
		double away = fmax(0, p->started - before->ended);

		f->away++;
		f->away_sum += away;
		f->away_most = fmax(f->away_most, away);
	}
}

static int
by_task(const void *key, const void *p)
{
	return strcmp(key, ((const struct past *)p)->task);
}

/* The work of each task, in their order, by its longest attempt; the list is sorted by task. */
static void
work_of(const struct past_list *list, const struct task_list *tasks, double *work)
{
	for (size_t i = 0; i < tasks->n; i++) {
		const struct past *p = list->n ? bsearch(tasks->names[i], list->all, list->n,
							 sizeof(*list->all), by_task) : NULL;
		size_t k = p ? (size_t)(p - list->all) : 0;

		while (p && k > 0 && !strcmp(list->all[k - 1].task, tasks->names[i]))
			k--;
		double longest = 0;
		double accepted = NAN;
		for (; p && k < list->n && !strcmp(list->all[k].task, tasks->names[i]); k++) {
			double w = past_work(list, k);

			if (list->all[k].end == PAST_DONE)
				accepted = w;
			longest = fmax(longest, w);
		}
		work[i] = isnan(accepted) ? longest : accepted;
	}
}

bool
figures_make(struct past_list *list, const struct task_list *tasks, size_t agents, size_t *lane,
	     struct figures *f)
{
	double *work = calloc(tasks->n ? tasks->n : 1, sizeof(*work));

	*f = (struct figures){ .tasks = tasks->n, .done = tasks->ndone };
	past_complete(list);
	if (!work || !assign_lanes(list, lane, &f->lanes)) {
		free(work);
		return false;
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct past *before = i ? &list->all[i - 1] : NULL;

		add_attempt(f, &list->all[i], before);
		f->twice += before && before->end == PAST_DONE && list->all[i].end == PAST_DONE &&
			    !strcmp(before->task, list->all[i].task);
	}
	f->agents = agents ? agents : f->lanes;
	if (!f->ended) /* nothing is final */
		for (size_t i = 0; i < list->n; i++)
			f->ended = fmax(f->ended, list->all[i].ended);
	f->makespan = f->attempts ? f->ended - f->began : 0;
	work_of(list, tasks, work);
	if (f->agents) {
		f->bound = schedule_bound(work, tasks->n, f->agents);
		f->blocks = schedule_static(work, tasks->n, f->agents);
	}
	free(work);
	return true;
}

double
figures_utilisation(const struct figures *f)
{
	double all = (double)f->agents * f->makespan;

	return all > 0 ? 100 * f->busy / all : 0;
}

double
figures_survival(const struct figures *f)
{
	return f->tasks ? 100 * (double)f->done / (double)f->tasks : 100;
}

double
figures_over(const struct figures *f, double bound)
{
	return bound > 0 ? 100 * (f->makespan / bound - 1) : 0;
}

double
figures_gain(const struct figures *f, double other)
{
	return other > 0 ? 100 * (1 - f->makespan / other) : 0;
}

/* ---- what was agreed ---- */

bool
figures_accept(const struct figures *f, double gain, const struct accept_conf *agreed)
{
	const struct {
		const char *name, *unit;
		double agreed, found;
		bool most; /* at most, instead of at least */
	} all[] = {
		{ "makespan gain", " %", agreed->makespan_gain, gain, false },
		{ "restore", " s", agreed->restore_seconds, f->restored ? f->restoring_most : NAN, true },
		{ "utilisation", " %", agreed->utilisation, figures_utilisation(f), false },
		{ "survival", " %", agreed->survival, figures_survival(f), false },
	};
	bool met = true;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *limit = all[i].most ? "at most" : "at least";

		if (isnan(all[i].agreed)) {
			printf("%-14s not agreed\n", all[i].name);
			continue;
		}
		if (isnan(all[i].found)) {
			/* nobody has shown that it would hold */
			printf("%-14s MISSED: nothing to judge by, agreed are %s %g%s\n", all[i].name, limit,
			       all[i].agreed, all[i].unit);
			met = false;
			continue;
		}
		bool good = all[i].most ? all[i].found <= all[i].agreed : all[i].found >= all[i].agreed;
		printf("%-14s %s: %.2f%s, agreed are %s %g%s\n", all[i].name, good ? "met" : "MISSED",
		       all[i].found, all[i].unit, limit, all[i].agreed, all[i].unit);
		met &= good;
	}
	return met;
}
