/*
 * index.c - the local SQL index. With batch.c the only user of SQLite.
 */
#include <config.h>

#include "index.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                   \
	"serial, name, state, attempt, failures, losses, level, reason, base, priority, expected," \
	" max_failures, size, changed, waits"

enum stmt {
	ST_ADD, ST_FIND, ST_GET, ST_SET, ST_STATE, ST_ALL, ST_LEVELS, ST_PICK, ST_EVIDENCE,
	ST_SET_EVIDENCE, ST_DROP_EVIDENCE, ST_BEGIN, ST_COMMIT,
	/* these are prepared by the first index_limit() */
	ST_PICK_WITHIN, ST_PRIORITY, ST_LONGER, ST_LONGEST,
	ST_COUNT
};

/* Enum values appear as numbers: 0 is TASK_PENDING. */
static const char *const sql[ST_COUNT] = {
	[ST_ADD] = "INSERT INTO task(" COLUMNS
		   ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15)",
	[ST_FIND] = "SELECT " COLUMNS " FROM task WHERE name=?1",
	[ST_GET] = "SELECT " COLUMNS " FROM task WHERE serial=?1",
	[ST_SET] = "UPDATE task SET state=?3, attempt=?4, failures=?5, losses=?6, level=?7,"
		   " reason=?8, changed=?14, waits=?15 WHERE serial=?1",
	[ST_STATE] = "SELECT " COLUMNS
		     " FROM task WHERE state=?2 AND serial>?1 ORDER BY state, serial",
	[ST_ALL] = "SELECT " COLUMNS " FROM task WHERE serial>?1 ORDER BY serial",
	[ST_LEVELS] = "SELECT " COLUMNS " FROM task WHERE state=0 AND serial>?1 AND (?2 >> level) & 1"
		      " AND (expected<=?3 OR expected>?4) ORDER BY state, serial",
	[ST_PICK] = "SELECT serial, priority, expected FROM task INDEXED BY best"
		    " WHERE state=0 AND waits=0 AND level=?1"
		    " ORDER BY priority DESC, expected DESC, serial LIMIT ?2",
	[ST_EVIDENCE] = "SELECT text FROM evidence WHERE serial=?1",
	[ST_SET_EVIDENCE] = "INSERT OR REPLACE INTO evidence VALUES(?1, ?2)",
	[ST_DROP_EVIDENCE] = "DELETE FROM evidence WHERE serial=?1",
	[ST_BEGIN] = "BEGIN",
	[ST_COMMIT] = "COMMIT",
	/* a priority at a time, so that what does not fit is stepped over and not read */
	[ST_PICK_WITHIN] = "SELECT serial, priority, expected FROM task INDEXED BY best"
			   " WHERE state=0 AND waits=0 AND level=?1 AND priority=?3 AND expected>?4"
			   " AND expected<=?5 ORDER BY expected DESC, serial LIMIT ?2",
	[ST_PRIORITY] = "SELECT max(priority) FROM task INDEXED BY best"
			" WHERE state=0 AND waits=0 AND level=?1 AND priority<=?2",
	[ST_LONGER] = "SELECT state, level, waits, count(*) FROM task INDEXED BY unfinished"
		      " WHERE state IN (0, 1, 5) AND expected>?1 AND expected<=?2"
		      " GROUP BY state, level, waits",
	[ST_LONGEST] = "SELECT max(expected) FROM task INDEXED BY unfinished"
		       " WHERE state IN (0, 1, 5) AND expected<=?1",
};

static const char sql_unfinished[] =
	"CREATE INDEX unfinished ON task(expected) WHERE state IN (0, 1, 5)";

static const char sql_schema[] =
	"PRAGMA journal_mode=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY;"
	"CREATE TABLE task(serial INTEGER PRIMARY KEY, name TEXT NOT NULL, state INT, attempt INT,"
	" failures INT, losses INT, level INT, reason INT, base INT, priority INT, expected INT,"
	" max_failures INT, size INT, changed INT, waits INT);"
	"CREATE UNIQUE INDEX by_name ON task(name);"
	"CREATE INDEX by_state ON task(state, serial);"
	"CREATE INDEX best ON task(level, priority DESC, expected DESC, serial)"
	" WHERE state=0 AND waits=0;"
	"CREATE TABLE evidence(serial INTEGER PRIMARY KEY, text TEXT);";

_Static_assert(TASK_PENDING == 0 && TASK_CLAIMED == 1 && TASK_UNREAD == 5,
	       "the SQL above has their numbers");

struct index {
	sqlite3 *db;
	sqlite3_stmt *stmt[ST_COUNT];
	int64_t count[TASK_STATES][TIERS_MAX];
	int64_t waiting[TIERS_MAX];
	int64_t longest, span; /* see index_limit(); INT64_MAX: every task fits */
	/* those that do not fit */
	int64_t too_long[TASK_STATES][TIERS_MAX];
	int64_t waiting_long[TIERS_MAX];
};

struct index *
index_open(void)
{
	struct index *ix = calloc(1, sizeof(*ix));

	if (!ix)
		return NULL;
	ix->longest = ix->span = INT64_MAX;
	int rc = sqlite3_open_v2(":memory:", &ix->db,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				 NULL);
	if (!rc)
		rc = sqlite3_exec(ix->db, sql_schema, NULL, NULL, NULL);
	for (int i = 0; !rc && i < ST_PICK_WITHIN; i++)
		rc = sqlite3_prepare_v3(ix->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
					&ix->stmt[i], NULL);
	if (rc) {
		log_warnx("index: %s", sqlite3_errmsg(ix->db));
		index_close(ix);
		return NULL;
	}
	return ix;
}

void
index_close(struct index *ix)
{
	if (!ix)
		return;
	for (int i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(ix->stmt[i]);
	sqlite3_close(ix->db);
	free(ix);
}

static bool
is_unfinished(enum task_state state)
{
	return state == TASK_PENDING || state == TASK_CLAIMED || state == TASK_UNREAD;
}

bool
index_fits(const struct index *ix, int64_t expected)
{
	return ix->longest >= 0 && (expected <= ix->longest || expected > ix->span);
}

/* So many tasks are, or are not any more, among those that do not fit. */
static void
tally_long(struct index *ix, enum task_state state, int level, bool waits, int64_t by)
{
	ix->too_long[state][level] += by;
	if (state == TASK_PENDING && waits)
		ix->waiting_long[level] += by;
}

static void
tally(struct index *ix, const struct task *t, int by)
{
	ix->count[t->state][t->counts.level] += by;
	if (t->state == TASK_PENDING && t->waits)
		ix->waiting[t->counts.level] += by;
	if (is_unfinished(t->state) && !index_fits(ix, t->expected))
		tally_long(ix, t->state, t->counts.level, t->waits, by);
}

/* The index that only a limit needs, and the statements that need it. */
static void
prepare_limit(struct index *ix)
{
	int rc = sqlite3_exec(ix->db, sql_unfinished, NULL, NULL, NULL);

	for (int i = ST_PICK_WITHIN; !rc && i < ST_COUNT; i++)
		rc = sqlite3_prepare_v3(ix->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
					&ix->stmt[i], NULL);
	if (rc) {
		log_warnx("index: %s; giving up", sqlite3_errmsg(ix->db));
		abort();
	}
}

int64_t
index_limit(struct index *ix, int64_t longest, int64_t span)
{
	if (ix->longest == INT64_MAX)
		prepare_limit(ix);
	ix->span = span;
	if (longest < ix->longest) {
		/* each task comes by here once, or twice when the time is over */
		int64_t upto = longest < 0 || ix->longest > span ? span : ix->longest;
		sqlite3_stmt *s = ix->stmt[ST_LONGER];

		if (longest < 0) { /* the last change */
			memset(ix->too_long, 0, sizeof(ix->too_long));
			memset(ix->waiting_long, 0, sizeof(ix->waiting_long));
			upto = INT64_MAX;
		}
		sqlite3_bind_int64(s, 1, longest);
		sqlite3_bind_int64(s, 2, upto);
		while (sqlite3_step(s) == SQLITE_ROW)
			tally_long(ix, (enum task_state)sqlite3_column_int(s, 0),
				   sqlite3_column_int(s, 1), sqlite3_column_int(s, 2),
				   sqlite3_column_int64(s, 3));
		sqlite3_reset(s);
		ix->longest = longest;
	}
	sqlite3_stmt *s = ix->stmt[ST_LONGEST];
	sqlite3_bind_int64(s, 1, longest);
	int64_t next = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL ?
			       sqlite3_column_int64(s, 0) :
			       -1;
	sqlite3_reset(s);
	return next;
}

/* Columns that index_set() changes have the same numbers in both statements. */
static void
bind_task(sqlite3_stmt *s, const struct task *t)
{
	sqlite3_bind_int64(s, 1, t->serial);
	sqlite3_bind_int(s, 3, (int)t->state);
	sqlite3_bind_int64(s, 4, t->attempt);
	sqlite3_bind_int(s, 5, t->counts.failures);
	sqlite3_bind_int(s, 6, t->counts.losses);
	sqlite3_bind_int(s, 7, t->counts.level);
	sqlite3_bind_int(s, 8, (int)t->reason);
	sqlite3_bind_int64(s, 14, t->changed);
	sqlite3_bind_int(s, 15, t->waits);
}

static void
row_task(sqlite3_stmt *s, struct task *t)
{
	t->serial = sqlite3_column_int64(s, 0);
	snprintf(t->name, sizeof(t->name), "%s", (const char *)sqlite3_column_text(s, 1));
	t->state = (enum task_state)sqlite3_column_int(s, 2);
	t->attempt = (unsigned)sqlite3_column_int(s, 3);
	t->counts.failures = sqlite3_column_int(s, 4);
	t->counts.losses = sqlite3_column_int(s, 5);
	t->counts.level = sqlite3_column_int(s, 6);
	t->reason = (enum reason)sqlite3_column_int(s, 7);
	t->base = sqlite3_column_int(s, 8);
	t->priority = sqlite3_column_int64(s, 9);
	t->expected = sqlite3_column_int64(s, 10);
	t->max_failures = sqlite3_column_int64(s, 11);
	t->size = sqlite3_column_int64(s, 12);
	t->changed = sqlite3_column_int64(s, 13);
	t->waits = sqlite3_column_int(s, 14);
}

/* A statement in memory fails only when memory is out, and then the picture would be wrong for
 * good; dying is what a disposable index is for. */
static void
step_done(struct index *ix, sqlite3_stmt *s)
{
	int rc = sqlite3_step(s);

	if (rc != SQLITE_DONE) {
		log_warnx("index: %s; giving up", sqlite3_errmsg(ix->db));
		abort();
	}
	sqlite3_reset(s);
}

int
index_add(struct index *ix, const struct task *t)
{
	sqlite3_stmt *s = ix->stmt[ST_ADD];

	bind_task(s, t);
	sqlite3_bind_text(s, 2, t->name, -1, SQLITE_STATIC);
	sqlite3_bind_int(s, 9, t->base);
	sqlite3_bind_int64(s, 10, t->priority);
	sqlite3_bind_int64(s, 11, t->expected);
	sqlite3_bind_int64(s, 12, t->max_failures);
	sqlite3_bind_int64(s, 13, t->size);
	int rc = sqlite3_step(s);
	sqlite3_reset(s);
	if (rc != SQLITE_DONE)
		return (rc & 0xff) == SQLITE_CONSTRAINT ? -EEXIST : -ENOMEM;
	tally(ix, t, 1);
	return 0;
}

void
index_begin(struct index *ix)
{
	step_done(ix, ix->stmt[ST_BEGIN]);
}

void
index_commit(struct index *ix)
{
	step_done(ix, ix->stmt[ST_COMMIT]);
}

static int
one_row(sqlite3_stmt *s, struct task *t)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_ROW)
		row_task(s, t);
	sqlite3_reset(s);
	return rc == SQLITE_ROW ? 0 : -ENOENT;
}

int
index_find(struct index *ix, const char *name, struct task *t)
{
	sqlite3_bind_text(ix->stmt[ST_FIND], 1, name, -1, SQLITE_STATIC);
	return one_row(ix->stmt[ST_FIND], t);
}

int
index_get(struct index *ix, int64_t serial, struct task *t)
{
	sqlite3_bind_int64(ix->stmt[ST_GET], 1, serial);
	return one_row(ix->stmt[ST_GET], t);
}

void
index_set(struct index *ix, const struct task *t)
{
	struct task old;

	if (index_get(ix, t->serial, &old))
		return;
	tally(ix, &old, -1);
	tally(ix, t, 1);
	bind_task(ix->stmt[ST_SET], t);
	step_done(ix, ix->stmt[ST_SET]);
}

void
index_set_evidence(struct index *ix, int64_t serial, const char *text)
{
	sqlite3_stmt *s = ix->stmt[*text ? ST_SET_EVIDENCE : ST_DROP_EVIDENCE];

	sqlite3_bind_int64(s, 1, serial);
	if (*text)
		sqlite3_bind_text(s, 2, text, -1, SQLITE_STATIC);
	step_done(ix, s);
}

void
index_evidence(struct index *ix, int64_t serial, char *text, size_t size)
{
	sqlite3_stmt *s = ix->stmt[ST_EVIDENCE];

	sqlite3_bind_int64(s, 1, serial);
	const char *found = sqlite3_step(s) == SQLITE_ROW ?
				    (const char *)sqlite3_column_text(s, 0) :
				    NULL;
	snprintf(text, size, "%s", found ? found : "");
	sqlite3_reset(s);
}

static void
each_row(sqlite3_stmt *s, index_fn *fn, void *arg)
{
	struct task t;

	while (sqlite3_step(s) == SQLITE_ROW) {
		row_task(s, &t);
		if (fn(arg, &t))
			break;
	}
	sqlite3_reset(s);
}

void
index_list(struct index *ix, int view, int64_t after, index_fn *fn, void *arg)
{
	sqlite3_stmt *s = ix->stmt[view == VIEW_ALL ? ST_ALL : ST_STATE];

	sqlite3_bind_int64(s, 1, after);
	if (view != VIEW_ALL)
		sqlite3_bind_int(s, 2, view);
	each_row(s, fn, arg);
}

void
index_list_pending(struct index *ix, uint32_t levels, int64_t after, index_fn *fn, void *arg)
{
	sqlite3_stmt *s = ix->stmt[ST_LEVELS];

	sqlite3_bind_int64(s, 1, after);
	sqlite3_bind_int64(s, 2, levels);
	sqlite3_bind_int64(s, 3, ix->longest);
	sqlite3_bind_int64(s, 4, ix->longest < 0 ? INT64_MAX : ix->span);
	each_row(s, fn, arg);
}

struct candidate {
	int64_t serial, priority, expected;
	bool first;
};

static int
better(const void *a, const void *b)
{
	const struct candidate *x = a;
	const struct candidate *y = b;

	if (x->first != y->first)
		return x->first ? -1 : 1;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (x->expected != y->expected)
		return x->expected > y->expected ? -1 : 1;
	return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* Read candidates from a statement that is bound. Returns how many. */
static int
read_candidates(sqlite3_stmt *s, bool first, struct candidate *out)
{
	int n = 0;

	while (sqlite3_step(s) == SQLITE_ROW)
		out[n++] = (struct candidate){
			.serial = sqlite3_column_int64(s, 0),
			.priority = sqlite3_column_int64(s, 1),
			.expected = sqlite3_column_int64(s, 2),
			.first = first,
		};
	sqlite3_reset(s);
	return n;
}

/* The highest priority up to *priority at a level; false when there is none. */
static bool
next_priority(struct index *ix, int level, int64_t *priority)
{
	sqlite3_stmt *s = ix->stmt[ST_PRIORITY];

	sqlite3_bind_int(s, 1, level);
	sqlite3_bind_int64(s, 2, *priority);
	bool there = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL;
	if (there)
		*priority = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return there;
}

/* The best ones of a level that fit, at most max. */
static int
pick_fitting(struct index *ix, int level, bool first, struct candidate *out, int max)
{
	sqlite3_stmt *s = ix->stmt[ST_PICK_WITHIN];
	/* those that no span would do for come first, being the longest */
	const int64_t ranges[2][2] = { { ix->span, INT64_MAX },
				       { -1, ix->longest < ix->span ? ix->longest : ix->span } };
	int64_t priority = INT64_MAX;
	int n = 0;

	for (; n < max && next_priority(ix, level, &priority); priority--)
		for (int i = 0; i < 2 && n < max; i++) {
			sqlite3_bind_int(s, 1, level);
			sqlite3_bind_int(s, 2, max - n);
			sqlite3_bind_int64(s, 3, priority);
			sqlite3_bind_int64(s, 4, ranges[i][0]);
			sqlite3_bind_int64(s, 5, ranges[i][1]);
			n += read_candidates(s, first, out + n);
		}
	return n;
}

int
index_pick(struct index *ix, uint32_t levels, uint32_t first, int64_t *serials, int max)
{
	sqlite3_stmt *s = ix->stmt[ST_PICK];
	struct candidate *all = NULL;
	int n = 0;

	for (int level = 0; level < TIERS_MAX; level++) {
		bool comes_first = first >> level & 1;

		if (!index_ready(ix, levels & 1U << level))
			continue;
		struct candidate *grown = realloc(all, sizeof(*all) * (size_t)(n + max));
		if (!grown)
			break;
		all = grown;
		if (ix->longest < INT64_MAX) {
			n += pick_fitting(ix, level, comes_first, all + n, max);
			continue;
		}
		sqlite3_bind_int(s, 1, level);
		sqlite3_bind_int(s, 2, max);
		n += read_candidates(s, comes_first, all + n);
	}
	if (n)
		qsort(all, (size_t)n, sizeof(*all), better);
	if (n > max)
		n = max;
	for (int i = 0; i < n; i++)
		serials[i] = all[i].serial;
	free(all);
	return n;
}

static int64_t
sum_of(const int64_t counts[TIERS_MAX], uint32_t levels)
{
	int64_t sum = 0;

	for (int level = 0; level < TIERS_MAX; level++)
		if (levels >> level & 1)
			sum += counts[level];
	return sum;
}

int64_t
index_count(const struct index *ix, enum task_state state, uint32_t levels)
{
	return sum_of(ix->count[state], levels);
}

int64_t
index_long(const struct index *ix, enum task_state state, uint32_t levels)
{
	return sum_of(ix->too_long[state], levels);
}

int64_t
index_ready(const struct index *ix, uint32_t levels)
{
	return index_count(ix, TASK_PENDING, levels) - index_long(ix, TASK_PENDING, levels) -
	       (sum_of(ix->waiting, levels) - sum_of(ix->waiting_long, levels));
}
