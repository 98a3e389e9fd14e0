/* sqliteq.c - the queue as one SQLite file that all processes open.
 *
 *   sqliteq --dir D [--procs P] [--tasks N] [--seconds T] [--wal 0|1] [--file F [--fill 1]]
 *
 * claim = BEGIN IMMEDIATE, SELECT the first pending task, UPDATE it, COMMIT; end = UPDATE, which
 * commits. synchronous=FULL, and journal_mode=TRUNCATE: the quickest that is durable and legal for
 * a file shared by hosts. --wal 1: journal_mode=WAL, which needs memory shared by all: one host.
 * --file: this queue, which other hosts work on as well; --fill 1 only makes it, with N tasks.
 */
#include <config.h>

#include "crew.h"

#include <err.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
	char *file;
	const char *pragmas;
};

static void
need(sqlite3 *db, bool good, const char *what)
{
	if (!good)
		errx(1, "%s: %s", what, sqlite3_errmsg(db));
}

static void
run_sql(sqlite3 *db, const char *sql)
{
	need(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static sqlite3 *
open_queue(const struct place *place)
{
	sqlite3 *db;
	int rc = sqlite3_open(place->file, &db);

	need(db, rc == SQLITE_OK, place->file);
	sqlite3_busy_timeout(db, 30000); /* its own back-off: unfair, and the quickest in all */
	run_sql(db, place->pragmas);
	return db;
}

static sqlite3_stmt *
prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;

	need(db, sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, sql);
	return st;
}

/* Runs a statement whose only parameter is KEY to its end; returns the first column or 0. */
static long
step(sqlite3_stmt *st, long key)
{
	long got = 0;
	int rc;

	if (sqlite3_bind_parameter_count(st))
		sqlite3_bind_int64(st, 1, key);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		got = (long)sqlite3_column_int64(st, 0);
	need(sqlite3_db_handle(st), rc == SQLITE_DONE, sqlite3_sql(st));
	sqlite3_reset(st);
	return got;
}

static void
fill(const struct place *place, long tasks)
{
	sqlite3 *db = open_queue(place);

	run_sql(db, "CREATE TABLE task(id INTEGER PRIMARY KEY, state INT, owner INT, payload TEXT);"
		    "CREATE INDEX pending ON task(id) WHERE state = 0; BEGIN");
	sqlite3_stmt *add = prepare(db, "INSERT INTO task VALUES(?1, 0, 0, printf('%0200d', 0))");
	for (long t = 1; t <= tasks; t++)
		step(add, t);
	sqlite3_finalize(add);
	run_sql(db, "COMMIT");
	sqlite3_close(db); /* no connection may cross a fork */
}

static void
work(struct crew *c, void *arg)
{
	sqlite3 *db = open_queue(arg);
	sqlite3_stmt *begin = prepare(db, "BEGIN IMMEDIATE"), *commit = prepare(db, "COMMIT");
	sqlite3_stmt *pick = prepare(db, "SELECT id FROM task WHERE state = 0 ORDER BY id LIMIT 1");
	char sql[100];

	snprintf(sql, sizeof sql, "UPDATE task SET state = 1, owner = %d WHERE id = ?1", c->rank);
	sqlite3_stmt *claim = prepare(db, sql);
	snprintf(sql, sizeof sql, "UPDATE task SET state = 2 WHERE id = ?1 AND owner = %d",
		 c->rank);
	sqlite3_stmt *end = prepare(db, sql);

	crew_start(c);
	while (crew_goes_on(c)) {
		step(begin, 0);
		long task = step(pick, 0);
		if (task)
			step(claim, task);
		step(commit, 0);
		if (!task)
			break;
		crew_claimed(c, task);
		step(end, task);
		need(db, sqlite3_changes(db) == 1, "end of a task");
		crew_ended(c);
	}
	/* The connection dies with the process: a close would write the WAL back. */
}

int
main(int argc, char **argv)
{
	const char *wal = "0", *file = NULL, *only_fill = "0";
	const struct crew_option more[] = {
		{ "wal", &wal }, { "file", &file }, { "fill", &only_fill }, { NULL, NULL },
	};
	struct crew c;
	struct place place;

	crew_init(&c, argc, argv, more);
	place.pragmas = strcmp(wal, "0")
		? "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
		: "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL";
	if (asprintf(&place.file, "%s%s", file ? file : c.dir, file ? "" : "/queue.db") < 0)
		err(1, "%s", c.dir);
	bool filling = strcmp(only_fill, "0") != 0;
	if (!file || filling)
		fill(&place, c.tasks);
	int failed = filling ? 0 : crew_run(&c, work, &place);
	free(place.file);
	if (failed)
		return 1;
	if (!filling)
		crew_report(&c);
	return 0;
}
