/*
 * seal.c - what seals say, and to whom. The one place that knows which attempts are sealed.
 */
#include <config.h>

#include "seal.h"

#include "mutant.h"
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

bool
seal_name(struct seal_numbers *s, const char *file)
{
	char *end;

	if (strncmp(file, "seal.", 5) != 0 || file[5] < '1' || file[5] > '9')
		return false;
	unsigned long v = strtoul(file + 5, &end, 10);
	if (*end || v > INT_MAX)
		return false;
	int i = s->count < SEALS_KEPT ? s->count++ : SEALS_KEPT - 1;
	if (s->count == SEALS_KEPT && i == SEALS_KEPT - 1 && s->n[i] > v)
		return true; /* so many that the lowest are of no interest */
	for (; i > 0 && s->n[i - 1] < v; i--)
		s->n[i] = s->n[i - 1];
	s->n[i] = (unsigned)v;
	return true;
}

bool
link_parse(const char *file, size_t *len, unsigned *attempt, enum link_kind *kind)
{
	const char *dot = strrchr(file, '.');
	char name[NAME_LIMIT + 16];

	if (!dot || dot - file >= (ptrdiff_t)sizeof(name))
		return false;
	*kind = !strcmp(dot, ".end") ? LINK_END : LINK_CLAIM;
	if (*kind == LINK_CLAIM && strcmp(dot, ".claim") != 0)
		return false;
	memcpy(name, file, (size_t)(dot - file));
	name[dot - file] = '\0';
	return name_split(name, len, attempt);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->task.name, ((const struct row *)b)->task.name);
}

static int
name_and_row(const void *name, const void *row)
{
	return strcmp(name, ((const struct row *)row)->task.name);
}

void
rows_sort(struct bay_rows *rows)
{
	qsort(rows->rows, (size_t)rows->n, sizeof(*rows->rows), by_name);
}

struct row *
row_find(const struct bay_rows *rows, const char *name, size_t len)
{
	char key[NAME_LIMIT + 1];

	memcpy(key, name, len);
	key[len] = '\0';
	return bsearch(key, rows->rows, (size_t)rows->n, sizeof(*rows->rows), name_and_row);
}

void
seal_path(const struct place *p, unsigned number, char path[DISK_PATH])
{
	char bay[DISK_PATH];

	place_bay(p, bay);
	snprintf(path, DISK_PATH, "%.400s/seal.%u", bay, number);
}

void
seal_head(const struct queue *q, const struct place *p, unsigned number, char *head, size_t size)
{
	snprintf(head, size, "raser seal 1 %s %s %d %u", q->uuid, p->entry->batch.random, p->bay,
		 number);
}

/* ---- reading ---- */

/* The last link of a task in a seal decides, and says that it is over. */
static bool
last_link(unsigned attempt, enum link_kind kind, const char *text, struct sealed *s)
{
	struct fold f = { .reason = WHY_NONE };

	if (!fold_link(attempt, kind, text, &f) || !is_over(f.state))
		return false;
	*s = (struct sealed){ .time = f.time, .attempt = attempt,
			      .failures = (int16_t)f.counts.failures,
			      .losses = (int16_t)f.counts.losses,
			      .level = (int8_t)f.counts.level,
			      .outcome = (char)outcome_of(f.state), .reason = (char)f.reason };
	return true;
}

/* One line "T@k.kind text", its newline replaced by a NUL. */
static int
read_line(char *line, const struct bay_rows *rows, struct sealed *sealed, seal_link_fn *fn,
	  void *arg)
{
	char *text = strrchr(line, ' ');
	enum link_kind kind;
	unsigned k;
	size_t len;

	if (!text)
		return -EBADMSG;
	*text++ = '\0';
	if (strlen(text) >= LINK_TEXT || !link_parse(line, &len, &k, &kind))
		return -EBADMSG;
	struct row *row = row_find(rows, line, len);
	if (!row)
		return 0; /* of a batch that was lost since */
	struct sealed *s = &sealed[row - rows->rows];
	/* in their order: the last one counts */
	if (!last_link(k, kind, text, s))
		*s = (struct sealed){ 0 };
	return fn ? fn(arg, row, k, kind, text) : 0;
}

static int
read_seal(struct queue *q, const struct place *p, unsigned number, const struct bay_rows *rows,
	  struct sealed *sealed, seal_link_fn *fn, void *arg)
{
	char head[PACK_HEAD];
	char path[DISK_PATH];
	char *lines;

	seal_path(p, number, path);
	seal_head(q, p, number, head, sizeof(head));
	int rc = pack_read(&q->disk, path, head, &lines);
	if (rc)
		return rc;
	memset(sealed, 0, BAY_TASKS * sizeof(*sealed));
	for (char *line = lines; !rc && *line;) {
		char *end = strchr(line, '\n');

		*end = '\0';
		rc = read_line(line, rows, sealed, fn, arg);
		line = end + 1;
	}
	free(lines);
	return rc;
}

int
seal_read(struct queue *q, const struct place *p, const struct seal_numbers *numbers,
	  const struct bay_rows *rows, struct sealed *sealed, unsigned *number, seal_link_fn *fn,
	  void *arg)
{
	int rc = -ENOENT;

	for (int i = 0; i < numbers->count; i++) {
		rc = read_seal(q, p, numbers->n[i], rows, sealed, fn, arg);
		*number = numbers->n[i];
		if (rc != -EBADMSG)
			return rc;
	}
	return rc;
}

int64_t
seal_take(struct queue *q, const struct place *p, const struct seal_numbers *numbers,
	  const struct bay_rows *rows)
{
	struct bay *b = &p->entry->bays[p->bay];
	struct sealed *sealed = calloc(BAY_TASKS, sizeof(*sealed));
	struct sealed *table = calloc(BAY_TASKS, sizeof(*table));
	struct fold *folds = calloc(BAY_TASKS, sizeof(*folds));
	unsigned number;
	int64_t changed = 0;

	int rc = sealed && table && folds ?
			 seal_read(q, p, numbers, rows, sealed, &number, NULL, NULL) :
			 -ENOMEM;
	if (rc) {
		free(sealed);
		free(table);
		free(folds);
		return rc;
	}
	int64_t first = p->entry->batch.base + (int64_t)p->bay * BAY_TASKS;
	for (int i = 0; i < rows->n; i++)
		table[rows->rows[i].task.serial - first] = sealed[i];
	pthread_mutex_lock(&q->lock);
	struct sealed *old = b->sealed;
	b->sealed = table;
	if (rows->whole) /* else tasks that are loaded later are not in the table */
		b->seal = number;
	pthread_mutex_unlock(&q->lock);
	free(old);
	for (int i = 0; i < rows->n; i++)
		if (sealed[i].attempt)
			fold_sealed(&sealed[i], &folds[i]);
	changed = apply_over(q, rows, folds);
	free(sealed);
	free(folds);
	return changed;
}

/* ---- asking ---- */

bool
sealed_find(struct queue *q, int64_t serial, struct sealed *s)
{
	struct place p;

	*s = (struct sealed){ 0 };
	if (place_of(q, serial, &p) && p.entry->bays[p.bay].sealed)
		*s = p.entry->bays[p.bay].sealed[(p.line - 1) % BAY_TASKS];
	return s->attempt != 0;
}

static int
on_file(void *arg, const char *file)
{
	seal_name(arg, file);
	return 0;
}

void
seal_suspect(struct queue *q)
{
	q->born = disk_now(&q->disk);
	q->sealer_may_live = true;
	for (int i = 0; i < q->nbatches; i++)
		for (int k = 0; k < q->batches[i]->nbays; k++)
			q->batches[i]->bays[k].unsure = true;
}

void
seal_nobody(struct queue *q, int64_t began)
{
	/* from here on a sealer sees our beat before it begins */
	if (began > q->born)
		q->sealer_may_live = false;
}

int64_t
seal_looking(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	int64_t looking = q->sealer_may_live ? -1 : q->born;
	pthread_mutex_unlock(&q->lock);
	return looking;
}

void
seal_looked(struct queue *q, struct bay *b, int64_t looking)
{
	pthread_mutex_lock(&q->lock);
	if (looking == q->born && !q->sealer_may_live)
		b->unsure = false;
	pthread_mutex_unlock(&q->lock);
}

enum { LOOK_AGAIN_MS = 500 };

/* Which seals there are. What we have won must not be called lost because nothing can be listed just
 * now. */
static int
list_seals(struct queue *q, const struct place *p, struct seal_numbers *numbers)
{
	char path[DISK_PATH];
	int rc;

	place_bay(p, path);
	while ((rc = disk_list(&q->disk, path, on_file, numbers)) < 0 && rc != -ENOENT &&
	       !disk_is_away(&q->disk) && !atomic_load(&q->disk.stopping)) {
		disk_pause(&q->disk, LOOK_AGAIN_MS);
		*numbers = (struct seal_numbers){ 0 };
	}
	return rc;
}

/* Look for a seal that is not known yet. True: nobody can tell, so the attempt may be over. */
static bool
look_for_seal(struct queue *q, const struct place *p, unsigned known)
{
	struct seal_numbers numbers = { 0 };
	struct bay_rows rows = { 0 };
	int64_t looking = seal_looking(q);

	int64_t rc = list_seals(q, p, &numbers);
	if (!rc && numbers.count && numbers.n[0] > known)
		rc = bay_rows(q, p, &rows);
	bool whole = !rows.rows || rows.whole;
	if (!rc && rows.rows) {
		rows_sort(&rows);
		rc = seal_take(q, p, &numbers, &rows);
	}
	free(rows.rows);
	bool unknown = rc < 0 && rc != -EBADMSG;
	if (!unknown && whole)
		seal_looked(q, &p->entry->bays[p->bay], looking);
	return unknown;
}

bool
seal_overrules(struct queue *q, const struct place *p, int64_t serial, unsigned attempt)
{
	const struct bay *b = &p->entry->bays[p->bay];
	struct sealed s;
	struct task t;

	pthread_mutex_lock(&q->lock);
	/* a beat that stood then proves that nobody had begun to seal by now */
	bool fresh = disk_now(&q->disk) - q->last_beat <= q->conf.steal_after_ms / 2 && !b->unsure;
	unsigned known = b->seal;
	/* one that was read while our create was on its way tells already */
	bool over = sealed_find(q, serial, &s) && attempt <= s.attempt;
	pthread_mutex_unlock(&q->lock);
	if ((fresh && !over) || MUTANT(SEAL_OVERRULES))
		return false;
	if (!over)
		over = look_for_seal(q, p, known);
	pthread_mutex_lock(&q->lock);
	over |= sealed_find(q, serial, &s) && attempt <= s.attempt;
	bool named = over && !index_get(q->index, serial, &t);
	pthread_mutex_unlock(&q->lock);
	if (named)
		history_say(&q->disk, "overruled\t%s\t%u", t.name, attempt);
	return over;
}

struct wanted_end {
	const char *name, *text;
	unsigned attempt;
	bool found;
};

static int
on_sealed_link(void *arg, struct row *row, unsigned attempt, enum link_kind kind, const char *text)
{
	struct wanted_end *w = arg;

	w->found |= kind == LINK_END && attempt == w->attempt && !strcmp(row->task.name, w->name) &&
		    !strcmp(text, w->text);
	return 0;
}

bool
seal_has_end(struct queue *q, const struct place *p, const char *name, unsigned attempt,
	     const char *text)
{
	struct wanted_end w = { .name = name, .text = text, .attempt = attempt };
	struct seal_numbers numbers = { 0 };
	struct sealed *sealed = calloc(BAY_TASKS, sizeof(*sealed));
	struct bay_rows rows = { 0 };
	unsigned number;

	if (sealed && !list_seals(q, p, &numbers) && !bay_rows(q, p, &rows)) {
		rows_sort(&rows);
		if (seal_read(q, p, &numbers, &rows, sealed, &number, on_sealed_link, &w))
			w.found = false;
	}
	free(rows.rows);
	free(sealed);
	return w.found;
}

struct telling {
	char bay[DISK_PATH];
	sealed_link_fn *fn;
	void *arg;
};

static int
tell_link(void *arg, struct row *row, unsigned attempt, enum link_kind kind, const char *text)
{
	const struct telling *t = arg;

	return t->fn(t->arg, t->bay, row->task.name, attempt, kind, text);
}

int
queue_sealed_links(struct queue *q, int64_t i, sealed_link_fn *fn, void *arg)
{
	struct telling t = { .fn = fn, .arg = arg };
	struct seal_numbers numbers = { 0 };
	struct bay_rows rows = { 0 };
	struct seal_bay bay;
	struct place p;
	unsigned number;

	if (queue_seal_bay(q, i, &bay) || !place_of(q, bay.first, &p))
		return -ERANGE;
	int rc = list_seals(q, &p, &numbers);
	if (rc || !numbers.count)
		return rc == -ENOENT ? 0 : rc;
	struct sealed *sealed = calloc(BAY_TASKS, sizeof(*sealed));
	rc = sealed ? bay_rows(q, &p, &rows) : -ENOMEM;
	if (!rc) {
		rows_sort(&rows);
		place_bay(&p, t.bay);
		rc = seal_read(q, &p, &numbers, &rows, sealed, &number, tell_link, &t);
	}
	free(rows.rows);
	free(sealed);
	return rc == -EBADMSG || rc == -ENOENT ? 0 : rc;
}
