/*
 * past.c - attempts from their records, and what follows from several of them together.
 */
#include <config.h>

#include "past.h"

#include "evidence.h"
#include "raser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static double
real(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* "free preempted: ..." -> PAST_FREED */
static enum past_end
end_of(const json_t *record)
{
	static const struct {
		const char *word;
		enum past_end end;
	} ends[] = {
		{ "done", PAST_DONE }, { "free", PAST_FREED }, { "retry", PAST_RETRY },
		{ "failed", PAST_FAILED }, { "lost", PAST_LOST },
	};
	const char *verb = json_string_value(json_object_get(record, "verb"));
	size_t len = verb ? strcspn(verb, " ") : 0;

	for (size_t i = 0; verb && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strlen(ends[i].word) == len && !strncmp(verb, ends[i].word, len))
			return ends[i].end;
	return PAST_RUNNING;
}

static const char *
text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* The slot that an agent ran in: the task of an array, a job, or the process of its agentd. */
static char *
agent_of(const json_t *record)
{
	const json_t *slurm = json_object_get(record, "slurm");
	const char *array = text(slurm, "array_job");
	const char *job = text(slurm, "job");
	char *name = NULL;
	int n;

	if (*array)
		n = asprintf(&name, "%s_%s", array, text(slurm, "array_task"));
	else if (*job)
		n = asprintf(&name, "%s", job);
	else
		n = asprintf(&name, "%s:%lld", text(record, "host"),
			     (long long)json_integer_value(json_object_get(record, "agentd")));
	return n < 0 ? NULL : name;
}

/* A checkpoint's file is called ATTEMPT.OWNER-NUMBER.CHECKSUM.tar... */
static void
read_restored(struct past *p, const char *name)
{
	char *end;

	p->resumed = *name;
	p->from = (unsigned)strtoul(name, &end, 10);
	if (*end == '.')
		snprintf(p->from_owner, sizeof(p->from_owner), "%.*s", (int)strcspn(end + 1, "-"), end + 1);
}

static void
past_clear(struct past *p)
{
	free(p->task);
	free(p->agent);
	free(p->place);
	free(p->tier);
}

struct collecting {
	const char *run;
	struct past_list *list;
	bool no_memory;
};

/* An agent that works writes, or whoever watches it. */
static double
last_sign(const char *run, const struct past *p)
{
	static const char *const signs[] = { "output.log", "trajectory.jsonl", "alive" };
	char path[PATH_MAX + 300];
	struct stat st;
	double last = NAN;

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		snprintf(path, sizeof(path), "%s/results/%s@%u.%s/%s", run, p->task, p->attempt, p->owner,
			 signs[i]);
		if (stat(path, &st) == 0)
			last = fmax(last, (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9);
	}
	return last;
}

static void
on_record(void *arg, json_t *record)
{
	struct collecting *c = arg;
	struct past_list *l = c->list;
	const json_t *slurm = json_object_get(record, "slurm");
	const char *node = text(slurm, "node");

	if (!*text(record, "task") || isnan(real(record, "started")))
		return;
	if (!(l->n & (l->n - 1))) { /* full at a power of two */
		struct past *all = reallocarray(l->all, l->n ? 2 * l->n : 1, sizeof(*all));

		c->no_memory |= !all;
		if (!all)
			return;
		l->all = all;
	}
	struct past p = {
		.task = strdup(text(record, "task")),
		.agent = agent_of(record),
		.place = strdup(*node ? node : text(record, "host")),
		.tier = strdup(text(record, "tier")),
		.attempt = (unsigned)json_integer_value(json_object_get(record, "attempt")),
		.job = strtol(text(slurm, "job"), NULL, 10),
		.pid = (long)json_integer_value(json_object_get(record, "agentd")),
		.end = end_of(record),
		.started = real(record, "started"),
		.ended = real(record, "ended"),
		.taken = real(record, "restored_taken"),
		.restoring = real(record, "restore_seconds"),
		.lost = real(record, "lost_seconds"),
	};
	snprintf(p.owner, sizeof(p.owner), "%s", owner_random(text(record, "owner")));
	read_restored(&p, text(record, "restored"));
	if (!p.task || !p.agent || !p.place || !p.tier) {
		c->no_memory = true;
		past_clear(&p);
		return;
	}
	p.alive = p.end == PAST_RUNNING ? last_sign(c->run, &p) : NAN;
	l->all[l->n++] = p;
}

static int
by_attempt(const void *a, const void *b)
{
	const struct past *x = a;
	const struct past *y = b;
	int d = strcmp(x->task, y->task);

	if (d)
		return d;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	return x->started < y->started ? -1 : x->started > y->started;
}

int
past_read(const char *run, struct past_list *list)
{
	struct collecting c = { .run = run, .list = list };

	*list = (struct past_list){ 0 };
	int status = evidence_read(run, false, on_record, &c);
	if (!status && c.no_memory)
		status = complain(1, "out of memory");
	if (status) {
		past_free(list);
		return status;
	}
	if (list->n)
		qsort(list->all, list->n, sizeof(*list->all), by_attempt);
	return 0;
}

static bool
same_task(const struct past_list *l, size_t a, size_t b)
{
	return a < l->n && b < l->n && !strcmp(l->all[a].task, l->all[b].task);
}

/* When the agent of an attempt, or another for its task, began with the next one; NAN: never. */
static double
next_start(const struct past_list *l, size_t i)
{
	const struct past *p = &l->all[i];
	double next = NAN;

	for (size_t k = 0; k < l->n; k++)
		if (l->all[k].started > p->started &&
		    (!strcmp(l->all[k].agent, p->agent) || (same_task(l, i, k) && k > i)))
			next = fmin(next, l->all[k].started);
	return next;
}

/* When an attempt ended whose end nobody wrote. */
static double
guess_end(const struct past_list *l, size_t i, double last)
{
	const struct past *p = &l->all[i];
	const struct past *next = same_task(l, i, i + 1) ? p + 1 : NULL;
	double limit = next_start(l, i);
	double end = p->alive;

	if (next && next->lost >= 0)
		end = next->lost + (next->resumed ? fmax(p->started, next->taken) : p->started);
	else if (isnan(limit))
		end = last; /* it may still run */
	return fmin(isnan(end) ? limit : end, limit);
}

void
past_complete(struct past_list *l)
{
	double last = 0;

	for (size_t i = 0; i < l->n; i++) {
		last = fmax(last, l->all[i].started);
		last = fmax(last, l->all[i].ended); /* which ignores NAN */
	}
	for (size_t i = 0; i < l->n; i++) {
		struct past *p = &l->all[i];
		const struct past *before = i && same_task(l, i - 1, i) ? p - 1 : NULL;

		p->guessed = isnan(p->ended);
		if (p->guessed)
			p->ended = guess_end(l, i, last);
		p->ended = fmax(p->ended, p->started);
		if (isnan(p->lost) && before && !p->resumed)
			p->lost = before->ended - before->started;
	}
}

/* Whose checkpoint an attempt began with; i itself when that is not there. */
static size_t
origin(const struct past_list *l, size_t i)
{
	const struct past *p = &l->all[i];

	for (size_t k = i; k-- > 0 && same_task(l, k, i);)
		if (l->all[k].attempt == p->from && !strcmp(l->all[k].owner, p->from_owner))
			return k;
	return i;
}

double
past_work(const struct past_list *l, size_t i)
{
	double until = l->all[i].ended;
	double work = 0;

	for (;;) {
		const struct past *p = &l->all[i];
		size_t from = p->resumed ? origin(l, i) : i;

		work += fmax(0, until - p->started - (p->restoring > 0 ? p->restoring : 0));
		if (from == i)
			return work;
		until = fmin(p->taken, l->all[from].ended);
		i = from;
	}
}

void
past_free(struct past_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		past_clear(&list->all[i]);
	free(list->all);
	*list = (struct past_list){ 0 };
}
