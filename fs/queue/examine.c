/*
 * examine.c - a bay read name by name. What its links say together is the
 * fold's to tell, here it is only told where they are not what daemons leave.
 */
#include <config.h>

#include "examine.h"

#include "pack.h"
#include "seal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct one {
	int row; /* of the rows by name */
	unsigned attempt;
	enum link_kind kind;
	bool good; /* a symbolic link whose text parses */
	char text[LINK_TEXT];
};

/* Where the links of a task end, by its highest one or its seal. */
struct top {
	unsigned attempt; /* 0: no link */
	bool over;
	enum task_state state;
};

struct examination {
	struct queue *q;
	struct place p;
	const struct bay_examiner *e;
	char path[DISK_PATH];
	struct bay_rows rows; /* by name */
	struct seal_numbers numbers;
	struct sealed sealed[BAY_TASKS];	  /* by row */
	char sealed_owner[BAY_TASKS][OWNER_TEXT]; /* of the last end in the seal */
	struct top tops[BAY_TASKS];		  /* by row */
	unsigned seal;				  /* the highest whole one; 0 = none */
	bool digest;
	struct one *all;
	size_t n, cap;
	int64_t covered;
};

static void __attribute__((format(printf, 4, 5)))
odd(const struct examination *x, enum bay_oddity what, const char *file, const char *fmt, ...)
{
	char more[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(more, sizeof(more), fmt, args);
	va_end(args);
	x->e->odd(x->e->arg, what, file, more);
}

/* ---- names ---- */

static int
on_file(void *arg, const char *file)
{
	struct examination *x = arg;
	enum link_kind kind;
	unsigned k;
	size_t len;

	if (!strcmp(file, "digest")) {
		x->digest = true;
		return 0;
	}
	if (seal_name(&x->numbers, file))
		return 0;
	if (!link_parse(file, &len, &k, &kind)) {
		odd(x, BAY_FOREIGN, file, "%s", "");
		return 0;
	}
	const struct row *row = row_find(&x->rows, file, len);
	if (!row) {
		odd(x, BAY_NO_TASK, file, "%s", "");
		return 0;
	}
	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : (size_t)3 * BAY_TASKS;
		struct one *grown = realloc(x->all, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		x->all = grown;
		x->cap = cap;
	}
	x->all[x->n++] =
		(struct one){ .row = (int)(row - x->rows.rows), .attempt = k, .kind = kind };
	return 0;
}

static int
by_order(const void *a, const void *b)
{
	const struct one *x = a;
	const struct one *y = b;

	if (x->row != y->row)
		return x->row - y->row;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static const char *
file_name(const struct examination *x, const struct one *l, char file[NAME_LIMIT + 32])
{
	snprintf(file, NAME_LIMIT + 32, "%s@%u.%s", x->rows.rows[l->row].task.name, l->attempt,
		 l->kind == LINK_END ? "end" : "claim");
	return file;
}

/* ---- seals ---- */

static int
on_sealed(void *arg, struct row *row, unsigned attempt, enum link_kind kind, const char *text)
{
	struct examination *x = arg;
	struct end end;

	(void)attempt;
	if (kind == LINK_END && end_parse(text, &end))
		snprintf(x->sealed_owner[row - x->rows.rows], OWNER_TEXT, "%s", end.owner);
	return 0;
}

static int
read_seals(struct examination *x)
{
	int rc = x->numbers.count ? seal_read(x->q, &x->p, &x->numbers, &x->rows, x->sealed,
					      &x->seal, on_sealed, x)
				  : -ENOENT;

	if (rc != -ENOENT && rc != -EBADMSG)
		return rc;
	memset(x->sealed, 0, sizeof(x->sealed));
	x->seal = 0;
	return 0;
}

/* Tasks about which neither a link nor a seal says anything. */
static int
tasks_without_links(const struct examination *x)
{
	int n = 0;

	for (int i = 0; i < x->rows.n; i++)
		n += !x->tops[i].attempt;
	return n;
}

/* Seals above the one that was read are torn; those below it were replaced by
 * it. */
static void
judge_seals(const struct examination *x)
{
	int missing = tasks_without_links(x);
	char file[32];

	for (int i = 0; i < x->numbers.count; i++) {
		snprintf(file, sizeof(file), "seal.%u", x->numbers.n[i]);
		if (x->numbers.n[i] < x->seal)
			odd(x, BAY_SEAL_OLD, file, "seal.%u", x->seal);
		else if (x->numbers.n[i] > x->seal && (missing || x->seal))
			odd(x, BAY_SEAL_LOST, file, "%d", missing);
		else if (x->numbers.n[i] > x->seal)
			odd(x, BAY_SEAL_BAD, file, "%s", "");
	}
}

/* ---- links ---- */

static int
read_texts(struct examination *x, struct err *err)
{
	char path[DISK_PATH];
	char file[NAME_LIMIT + 32];
	struct disk *disk = &x->q->disk;
	size_t kept = 0;

	for (size_t i = 0; i < x->n; i++) {
		struct one *l = &x->all[i];
		struct claim claim;
		struct end end;

		if (l->attempt <= x->sealed[l->row].attempt) {
			x->covered++;
			continue;
		}
		file_name(x, l, file);
		link_path(path, x->path, x->rows.rows[l->row].task.name, l->attempt, l->kind);
		int rc = chain_read(disk, path, l->text);
		if (rc == -ENOENT)
			continue; /* somebody seals, or removes it, this moment */
		if (rc)
			return err_set(err, rc, "%.200s: %s", path, strerror(-rc));
		claim_parse(l->text, &claim);
		l->good = l->kind == LINK_END ? end_parse(l->text, &end)
					      : claim.verb != CLAIM_GARBLED;
		if (!l->text[0])
			odd(x, BAY_NO_LINK, file, "%s", "");
		else if (!l->good)
			odd(x, BAY_GARBLED, file, "%s", l->text);
		x->all[kept++] = *l;
	}
	x->n = kept;
	return 0;
}

/* The attempts from `from` to `to` have no links. */
static void
tell_gap(const struct examination *x, const char *task, unsigned from, unsigned to)
{
	char file[NAME_LIMIT + 32];

	snprintf(file, sizeof(file), "%s@%u", task, from);
	if (to > from)
		odd(x, BAY_GAP, file,
		    "and those behind it have neither claim nor end, but %s@%u has", task, to + 1);
	else
		odd(x, BAY_GAP, file, "has neither claim nor end, but %s@%u has", task, to + 1);
}

/* A listing of a bay that is worked in is no snapshot: what it lacks is looked
 * for by name. */
static bool
is_missing(const struct examination *x, const char *task, unsigned attempt, enum link_kind kind)
{
	char path[DISK_PATH];
	char text[LINK_TEXT];

	link_path(path, x->path, task, attempt, kind);
	return chain_read(&x->q->disk, path, text) == -ENOENT;
}

/* One attempt: a claim, an end, or both. last: the highest one. */
static void
look_attempt(const struct examination *x, const struct one *l, size_t n, bool last)
{
	char file[NAME_LIMIT + 32];
	struct fold f;

	const char *task = x->rows.rows[l->row].task.name;
	file_name(x, l, file);
	if (l->kind == LINK_END && is_missing(x, task, l->attempt, LINK_CLAIM))
		odd(x, BAY_END_ALONE, file, "%s", "");
	else if (l->kind == LINK_CLAIM && n == 1 && !last &&
		 !fold_link(l->attempt, l->kind, l->text, &f) &&
		 is_missing(x, task, l->attempt, LINK_END))
		odd(x, BAY_CLAIM_UNENDED, file, "%s", "");
}

/* All links of one task above its seal. */
static void
look_task(struct examination *x, const struct one *l, size_t n)
{
	const struct sealed *s = &x->sealed[l->row];
	const struct task *t = &x->rows.rows[l->row].task;
	unsigned next = s->attempt + 1;
	unsigned done = s->attempt && s->outcome == END_DONE ? s->attempt : 0;
	char file[NAME_LIMIT + 32];
	struct fold f = { .reason = WHY_NONE };

	for (size_t i = 0; i < n;) {
		size_t both = i + 1 < n && l[i + 1].attempt == l[i].attempt ? 2 : 1;

		if (l[i].attempt > next && is_missing(x, t->name, next, LINK_CLAIM) &&
		    is_missing(x, t->name, next, LINK_END))
			tell_gap(x, t->name, next, l[i].attempt - 1);
		look_attempt(x, &l[i], both, i + both == n);
		if (done)
			odd(x, BAY_ABOVE_DONE, file_name(x, &l[i], file), "%s@%u", t->name, done);
		next = l[i].attempt + 1;
		i += both;
		const struct one *high = &l[i - 1];
		if (!done && fold_link(high->attempt, high->kind, high->text, &f) &&
		    f.state == TASK_DONE)
			done = high->attempt;
	}
	const struct one *high = &l[n - 1];
	struct top *top = &x->tops[l->row];
	bool says = fold_link(high->attempt, high->kind, high->text, &f);
	*top = (struct top){ .attempt = high->attempt,
			     .over = says || high->kind == LINK_END,
			     .state = says ? f.state : TASK_PENDING };
	if (top->state == TASK_DONE)
		x->e->done(x->e->arg, t, high->attempt, f.owner);
	else if (!top->over)
		x->e->held(x->e->arg, t, high->attempt, f.claim.owner);
}

static void
look_tasks(struct examination *x)
{
	for (int i = 0; i < x->rows.n; i++) {
		const struct sealed *s = &x->sealed[i];
		struct fold f = { .reason = WHY_NONE };

		if (!s->attempt)
			continue;
		fold_sealed(s, &f);
		x->tops[i] = (struct top){ .attempt = s->attempt, .over = true, .state = f.state };
	}
	for (size_t i = 0; i < x->n;) {
		size_t end = i + 1;

		while (end < x->n && x->all[end].row == x->all[i].row)
			end++;
		look_task(x, &x->all[i], end - i);
		i = end;
	}
	for (int i = 0; i < x->rows.n; i++) /* those that only the seal tells of */
		if (x->sealed[i].attempt && x->tops[i].attempt == x->sealed[i].attempt &&
		    x->tops[i].state == TASK_DONE)
			x->e->done(x->e->arg, &x->rows.rows[i].task, x->tops[i].attempt,
				   x->sealed_owner[i]);
}

/* ---- the digest ---- */

/* What a digest says of a task was said by links once, and links stay. */
static bool
is_supported(const struct examination *x, const struct row *row, const struct fold *says)
{
	static const enum link_kind kinds[] = { LINK_END, LINK_CLAIM };
	const struct top *top = &x->tops[row - x->rows.rows];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	struct fold f;

	if (top->attempt > says->attempt ||
	    (top->attempt == says->attempt && top->over && top->state == says->state))
		return true;
	/* it may have come after the listing, and the digest after that */
	for (int i = 0; i < 2; i++) {
		link_path(path, x->path, row->task.name, says->attempt, kinds[i]);
		if (!chain_read(&x->q->disk, path, text) &&
		    fold_link(says->attempt, kinds[i], text, &f) && f.state == says->state)
			return true;
	}
	return false;
}

static int
look_digest(const struct examination *x)
{
	struct fold *folds = calloc(BAY_TASKS, sizeof(*folds));
	struct bay_rows rows = { 0 };
	int rc = folds ? digest_load(x->q, &x->p, &rows, folds) : -ENOMEM;

	for (int i = 0; !rc && i < rows.n; i++) {
		const char *name = rows.rows[i].task.name;
		const struct row *row = row_find(&x->rows, name, strlen(name));

		if (row && !is_supported(x, row, &folds[i]))
			odd(x, BAY_DIGEST_DIFFERS, "digest", "%s@%u is %s", name, folds[i].attempt,
			    outcome_name(outcome_of(folds[i].state)));
	}
	if (rc == -EBADMSG || rc == -EILSEQ) {
		odd(x, BAY_DIGEST_BAD, "digest", "%s", "");
		rc = 0;
	}
	free(rows.rows);
	free(folds);
	return rc == -ENOENT ? 0 : rc;
}

/* ---- all of it ---- */

static bool
all_over(const struct examination *x)
{
	for (int i = 0; i < x->rows.n; i++)
		if (!x->tops[i].attempt || !x->tops[i].over || !is_over(x->tops[i].state))
			return false;
	return true;
}

static int
examine(struct examination *x, struct bay_totals *totals, struct err *err)
{
	place_bay(&x->p, x->path);
	int rc = bay_rows(x->q, &x->p, &x->rows);
	if (rc)
		return err_set(err, rc, "out of memory");
	rows_sort(&x->rows);
	rc = disk_list(&x->q->disk, x->path, on_file, x);
	if (rc == -ENOENT)
		return 0; /* nobody has claimed anything there */
	totals->links += (int64_t)x->n;
	if (!rc)
		rc = read_seals(x);
	if (rc)
		return err_set(err, rc, "%.200s: %s", x->path, strerror(-rc));
	int64_t all = (int64_t)x->n;
	if (x->n)
		qsort(x->all, x->n, sizeof(*x->all), by_order);
	rc = read_texts(x, err);
	if (rc)
		return rc;
	look_tasks(x);
	judge_seals(x);
	if (x->covered)
		odd(x, BAY_COVERED, "", "%lld links that seal.%u covers", (long long)x->covered,
		    x->seal);
	if (all_over(x))
		totals->packable += all;
	rc = x->digest ? look_digest(x) : 0;
	return rc ? err_set(err, rc, "%.200s/digest: %s", x->path, strerror(-rc)) : 0;
}

int
queue_examine(struct queue *q, int64_t i, const struct bay_examiner *e, struct bay_totals *totals,
	      struct err *err)
{
	struct seal_bay bay;
	int rc = queue_seal_bay(q, i, &bay);

	if (rc)
		return rc;
	struct examination *x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	x->q = q;
	x->e = e;
	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, bay.first, &x->p);
	pthread_mutex_unlock(&q->lock);
	rc = there ? examine(x, totals, err) : 0;
	free(x->rows.rows);
	free(x->all);
	free(x);
	return rc;
}
