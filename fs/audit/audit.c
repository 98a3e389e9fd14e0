/*
 * audit.c - one audit from its beginning to its end, and what its parts look up.
 */
#include <config.h>

#include "audit_impl.h"


#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SLACK_MS = 1000 };

struct audit *
audit_new(void)
{
	return calloc(1, sizeof(struct audit));
}

void
audit_free(struct audit *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->nowners; i++)
		free(a->owners[i].beats);
	for (size_t i = 0; i < a->ncreates; i++) {
		free(a->creates[i].path);
		free(a->creates[i].text);
		free(a->creates[i].found);
	}
	for (size_t i = 0; i < a->nanswers; i++) {
		free(a->answers[i].task);
		free(a->answers[i].what);
	}
	for (size_t i = 0; i < a->nnotes; i++) {
		free(a->notes[i].what);
		free(a->notes[i].whom);
	}
	for (size_t i = 0; i < a->nlinks; i++) {
		free(a->links[i].path);
		free(a->links[i].bay);
		free(a->links[i].task);
	}
	free(a->lives);
	free(a->owners);
	free(a->creates);
	free(a->answers);
	free(a->notes);
	free(a->links);
	free(a->tasks);
	free(a->ahead);
	free(a);
}

void
audit_say(struct audit *a, int invariant, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (invariant) {
		a->totals.violations++;
		a->totals.broken[invariant]++;
	}
	if (a->fn)
		a->fn(a->arg, invariant, text);
}

const char *
audit_where(const struct audit *a, int life, int line)
{
	static _Thread_local char texts[4][192];
	static _Thread_local int at;
	char *text = texts[at++ % 4];

	snprintf(text, sizeof(texts[0]), "%s:%d", a->lives[life].name, line);
	return text;
}

struct owner *
audit_owner(const struct audit *a, const char *name)
{
	size_t low = 0;
	size_t high = a->nowners;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(a->owners[mid].name, name);

		if (!order)
			return &a->owners[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

size_t
audit_answers(const struct audit *a, const char *task, unsigned attempt,
	      const struct answer **first)
{
	size_t low = 0;
	size_t high = a->nanswers;

	while (low < high) { /* the first that is not before it */
		size_t mid = (low + high) / 2;
		const struct answer *t = &a->answers[mid];
		int order = strcmp(t->task, task);

		if (order < 0 || (!order && t->attempt < attempt))
			low = mid + 1;
		else
			high = mid;
	}
	*first = a->answers + low;
	size_t n = 0;
	while (low + n < a->nanswers && (*first)[n].attempt == attempt &&
	       !strcmp((*first)[n].task, task))
		n++;
	return n;
}

size_t
audit_links(const struct audit *a, const char *task, const struct link **first)
{
	size_t low = 0;
	size_t high = a->nlinks;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(a->links[mid].task, task) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*first = a->links + low;
	size_t n = 0;
	while (low + n < a->nlinks && !strcmp((*first)[n].task, task))
		n++;
	return n;
}

const struct link *
audit_link(const struct audit *a, const char *task, unsigned attempt, enum link_kind kind)
{
	const struct link *l;
	size_t n = audit_links(a, task, &l);

	for (size_t i = 0; i < n; i++)
		if (l[i].attempt == attempt && l[i].kind == kind)
			return &l[i];
	return NULL;
}

static bool
is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

/* Both name links of one task: the same up to the attempt. */
static bool
is_same_task(const char *path, const char *other)
{
	const char *at = strrchr(path, '@');

	return at && !strncmp(path, other, (size_t)(at - path) + 1) &&
	       strrchr(other, '@') == other + (at - path);
}

bool
audit_excused(const struct audit *a, const char *path)
{
	for (size_t i = 0; i < a->nnotes; i++) {
		const struct note *n = &a->notes[i];

		if (n->kind == NOTE_FAULT && !strcmp(n->what, "remove") &&
		    (is_below(path, n->whom) || is_same_task(path, n->whom)))
			return true;
	}
	return false;
}

int64_t
audit_run(struct audit *a, struct disk *disk, const struct audit_options *options, audit_fn *fn,
	  void *arg, struct audit_totals *totals, struct err *err)
{
	/* the disk is the caller's: the queue's copy closes nothing and tells nobody */
	struct disk_ops ops = *disk->ops;
	struct disk copy = { .ops = &ops, .ctx = disk->ctx };
	const struct queue_options look = { 0 };

	ops.close = NULL;
	a->disk = disk;
	a->o = options;
	a->slack = options->slack_ms ? options->slack_ms : SLACK_MS;
	a->fn = fn;
	a->arg = arg;
	int rc = format_read(disk, a->uuid);
	if (rc)
		return err_set(err, rc, "the run has no FORMAT that can be read: %s", strerror(-rc));
	a->queue = queue_open_disk(copy, "run", &look,
				   (struct now){ .boot_ms = disk_now(disk) }, err);
	if (!a->queue)
		return -EIO;
	audit_sort(a);
	rc = audit_collect(a, err);
	if (!rc) {
		audit_chains(a);
		audit_directory(a);
		audit_writers(a);
		audit_clocks(a);
		audit_words(a);
		audit_thefts(a);
		if (options->timed)
			audit_times(a);
	}
	queue_close(a->queue, (struct now){ .boot_ms = disk_now(disk) });
	a->queue = NULL;
	*totals = a->totals;
	return rc ? rc : a->totals.violations;
}
