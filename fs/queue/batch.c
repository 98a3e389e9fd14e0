/*
 * batch.c - building, publishing and reading batch files. With index.c the only user of SQLite.
 */
#include <config.h>

#include "batch.h"

#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_APPLICATION_ID = 0x52415345 /* "RASE" */ };

static const char sql_schema[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE task(line INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tier TEXT,"
	" memory INT, priority INT, expected INT, max_failures INT, size INT);"
	"CREATE TABLE payload(line INTEGER PRIMARY KEY, body BLOB NOT NULL);";
static const char sql_insert[] = "INSERT INTO task VALUES(?1,?2,?3,?4,?5,?6,?7,?8)";
static const char sql_insert_body[] = "INSERT INTO payload VALUES(?1,?2)";
static const char sql_find[] =
	"SELECT body FROM task JOIN payload USING(line) WHERE name=?1";
static const char sql_scan[] = "SELECT line, name FROM task WHERE line>?1 ORDER BY line LIMIT 1";
static const char sql_body[] = "SELECT body FROM payload WHERE line=?1";
static const char sql_delete[] = "DELETE FROM task WHERE line=?1";
static const char sql_delete_body[] = "DELETE FROM payload WHERE line=?1";
static const char sql_meta[] = "INSERT OR REPLACE INTO meta VALUES(?1,?2)";
static const char sql_tasks[] =
	"SELECT line, name, tier, memory, priority, expected, max_failures, size FROM task"
	" WHERE line>?1 ORDER BY line LIMIT ?2";

struct builder {
	sqlite3 *db;
	sqlite3_stmt *insert, *insert_body, *find, *scan, *body, *erase, *erase_body, *meta;
	char path[DISK_PATH];
	char random[RANDOM_TEXT];
	int64_t count, lines;
	bool open; /* in a transaction */
};

static int
sql_errno(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
		return -EROFS;
	default:
		return -EIO;
	}
}

static int
prepare(sqlite3 *db, const char *sql, sqlite3_stmt **stmt)
{
	return sql_errno(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL));
}

/* Run a statement that returns no rows, and make it ready for the next time. */
static int
run(sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? 0 : sql_errno(rc) ? sql_errno(rc) : -EIO;
}

static int
exec(sqlite3 *db, const char *sql)
{
	return sql_errno(sqlite3_exec(db, sql, NULL, NULL, NULL));
}

struct builder *
builder_new(const char *tmp, struct err *err)
{
	struct builder *b = calloc(1, sizeof(*b));

	if (!b) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	random_text(b->random, RANDOM_TEXT - 1);
	snprintf(b->path, sizeof(b->path), "%s/raser-batch.XXXXXX", tmp);
	int fd = mkstemp(b->path);
	if (fd < 0) {
		err_set(err, -errno, "%s: cannot make a file for the submission: %s", tmp,
			strerror(errno));
		free(b);
		return NULL;
	}
	close(fd);
	/* a crash loses the submission, which nobody was told is accepted; hence no journal */
	if (sqlite3_open_v2(b->path, &b->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ||
	    exec(b->db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000;"
			"PRAGMA application_id=1380012869;") ||
	    exec(b->db, sql_schema) || prepare(b->db, sql_insert, &b->insert) ||
	    prepare(b->db, sql_insert_body, &b->insert_body) ||
	    prepare(b->db, sql_find, &b->find) || prepare(b->db, sql_scan, &b->scan) ||
	    prepare(b->db, sql_body, &b->body) || prepare(b->db, sql_delete, &b->erase) ||
	    prepare(b->db, sql_delete_body, &b->erase_body) ||
	    prepare(b->db, sql_meta, &b->meta)) {
		err_set(err, -EIO, "%s: %s", b->path, sqlite3_errmsg(b->db));
		builder_free(b);
		return NULL;
	}
	return b;
}

void
builder_free(struct builder *b)
{
	if (!b)
		return;
	sqlite3_finalize(b->insert);
	sqlite3_finalize(b->insert_body);
	sqlite3_finalize(b->find);
	sqlite3_finalize(b->scan);
	sqlite3_finalize(b->body);
	sqlite3_finalize(b->erase);
	sqlite3_finalize(b->erase_body);
	sqlite3_finalize(b->meta);
	sqlite3_close(b->db);
	unlink(b->path);
	free(b);
}

int64_t
builder_count(const struct builder *b)
{
	return b->count;
}

const char *
builder_random(const struct builder *b)
{
	return b->random;
}

/* One transaction spans everything until the file is imported. */
static int
begin(struct builder *b)
{
	if (b->open)
		return 0;
	int rc = exec(b->db, "BEGIN");
	b->open = !rc;
	return rc;
}

/* Is the task of that name in the builder with this payload: 1; another: -EEXIST; not: 0. */
static int
compare_known(struct builder *b, const struct task_spec *spec)
{
	sqlite3_bind_text(b->find, 1, spec->name, -1, SQLITE_STATIC);
	int rc = sqlite3_step(b->find);
	int out = sql_errno(rc);

	if (rc == SQLITE_ROW)
		out = (size_t)sqlite3_column_bytes(b->find, 0) == spec->size &&
				      (!spec->size || !memcmp(sqlite3_column_blob(b->find, 0),
							      spec->body, spec->size)) ?
			      1 :
			      -EEXIST;
	sqlite3_reset(b->find);
	return out;
}

int
builder_add(struct builder *b, const struct task_spec *spec, struct err *err)
{
	int rc = begin(b);

	if (!rc)
		rc = compare_known(b, spec);
	if (rc == 1)
		return 0;
	if (rc == -EEXIST)
		return err_set(err, rc, "task %s is in this submission twice, with two payloads",
			       spec->name);
	int64_t line = b->lines + 1;
	sqlite3_bind_int64(b->insert, 1, line);
	sqlite3_bind_text(b->insert, 2, spec->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(b->insert, 3, spec->tier, -1, SQLITE_STATIC);
	sqlite3_bind_int64(b->insert, 4, spec->memory);
	sqlite3_bind_int64(b->insert, 5, spec->priority);
	sqlite3_bind_int64(b->insert, 6, spec->expected);
	sqlite3_bind_int64(b->insert, 7, spec->max_failures);
	sqlite3_bind_int64(b->insert, 8, (int64_t)spec->size);
	if (!rc)
		rc = run(b->insert);
	sqlite3_bind_int64(b->insert_body, 1, line);
	sqlite3_bind_blob64(b->insert_body, 2, spec->body, spec->size, SQLITE_STATIC);
	if (!rc)
		rc = run(b->insert_body);
	if (rc)
		return err_set(err, rc, "%s: %s", b->path, sqlite3_errmsg(b->db));
	b->lines = line;
	b->count++;
	return 1;
}

/* The first task behind line `after`: 1 and its line and name, 0 at the end, or an errno. */
static int
next_task(struct builder *b, int64_t after, int64_t *line, char *name)
{
	sqlite3_bind_int64(b->scan, 1, after);
	int rc = sqlite3_step(b->scan);
	int out = sql_errno(rc);

	if (rc == SQLITE_ROW) {
		*line = sqlite3_column_int64(b->scan, 0);
		snprintf(name, NAME_LIMIT + 1, "%s", (const char *)sqlite3_column_text(b->scan, 1));
		out = 1;
	}
	sqlite3_reset(b->scan);
	return out;
}

int64_t
builder_drop_known(struct builder *b, builder_known_fn *known, void *arg)
{
	char name[NAME_LIMIT + 1];
	int64_t line = 0;
	int64_t dropped = 0;
	int rc = begin(b);

	while (!rc && (rc = next_task(b, line, &line, name)) == 1) {
		sqlite3_bind_int64(b->body, 1, line);
		if (sqlite3_step(b->body) != SQLITE_ROW) {
			sqlite3_reset(b->body);
			return -EIO;
		}
		int same = known(arg, name, sqlite3_column_blob(b->body, 0),
				 (size_t)sqlite3_column_bytes(b->body, 0));
		sqlite3_reset(b->body);
		if (same < 0)
			return same;
		rc = 0;
		if (!same)
			continue;
		sqlite3_bind_int64(b->erase, 1, line);
		sqlite3_bind_int64(b->erase_body, 1, line);
		rc = run(b->erase);
		if (!rc)
			rc = run(b->erase_body);
		b->count--;
		dropped++;
	}
	return rc < 0 ? rc : dropped;
}

static int
put_meta(struct builder *b, const char *key, const char *text, int64_t number)
{
	sqlite3_bind_text(b->meta, 1, key, -1, SQLITE_STATIC);
	if (text)
		sqlite3_bind_text(b->meta, 2, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_int64(b->meta, 2, number);
	return run(b->meta);
}

int
builder_import(struct builder *b, struct disk *disk, const char *submitter, int64_t wall,
	       char r[RANDOM_TEXT], struct err *err)
{
	char path[DISK_PATH];
	int rc = begin(b);

	random_text(r, RANDOM_TEXT - 1);
	if (!rc)
		rc = put_meta(b, "submitter", submitter, 0);
	if (!rc)
		rc = put_meta(b, "submitted", NULL, wall);
	if (!rc)
		rc = put_meta(b, "lines", NULL, b->lines);
	if (!rc) {
		rc = exec(b->db, "COMMIT");
		b->open = rc != 0;
	}
	if (rc)
		return err_set(err, rc, "%s: %s", b->path, sqlite3_errmsg(b->db));
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", b->path, strerror(errno));
	snprintf(path, sizeof(path), "batches/b.%s.sqlite", r);
	rc = disk_import(disk, fd, path);
	close(fd);
	if (rc)
		disk_unlink(disk, path); /* should only the answer have been lost */
	return rc ? err_set(err, rc, "%s: the batch cannot be written: %s", path, strerror(-rc)) :
		    0;
}

/* Open the file when it is closed. The caller holds b->lock. */
static int
need_open(struct batch *b, struct disk *disk, struct err *err)
{
	char path[DISK_PATH];
	char local[DISK_PATH * 2];
	char uri[DISK_PATH * 2 + 32];
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;

	if (b->db)
		return 0;
	snprintf(path, sizeof(path), "batches/b.%s.sqlite", b->random);
	int rc = disk_locate(disk, path, local, sizeof(local));
	if (rc)
		return rc;
	snprintf(uri, sizeof(uri), "file:%s?immutable=1", local);
	rc = sql_errno(sqlite3_open_v2(
		uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL));
	if (!rc)
		rc = prepare(db, sql_body, &stmt);
	if (rc) {
		err_set(err, rc, "%s: %s", path, db ? sqlite3_errmsg(db) : strerror(-rc));
		sqlite3_close(db);
		return rc;
	}
	b->db = db;
	b->payload = stmt;
	return 0;
}

static void
close_file(struct batch *b)
{
	sqlite3_finalize(b->payload);
	sqlite3_close(b->db);
	b->payload = NULL;
	b->db = NULL;
}

static int
read_head(struct batch *b, struct err *err)
{
	sqlite3_stmt *stmt;
	bool ours = false;
	int rc = prepare(b->db, "PRAGMA application_id", &stmt);

	if (!rc)
		ours = sqlite3_step(stmt) == SQLITE_ROW &&
		       sqlite3_column_int(stmt, 0) == BATCH_APPLICATION_ID;
	sqlite3_finalize(stmt);
	if (!ours)
		return err_set(err, -EINVAL, "batch %d, b.%s.sqlite, is no batch of raserfs",
			       b->number, b->random);
	rc = prepare(b->db, "SELECT key, value FROM meta", &stmt);
	while (!rc && sqlite3_step(stmt) == SQLITE_ROW) {
		const char *key = (const char *)sqlite3_column_text(stmt, 0);

		if (!strcmp(key, "submitter"))
			snprintf(b->submitter, sizeof(b->submitter), "%s",
				 (const char *)sqlite3_column_text(stmt, 1));
		else if (!strcmp(key, "submitted"))
			b->submitted = sqlite3_column_int64(stmt, 1);
		else if (!strcmp(key, "lines"))
			b->lines = sqlite3_column_int64(stmt, 1);
	}
	sqlite3_finalize(stmt);
	return rc;
}

int
batch_open(struct batch *b, struct disk *disk, int number, const char *r, struct err *err)
{
	*b = (struct batch){ .number = number };
	snprintf(b->random, sizeof(b->random), "%s", r);
	int rc = need_open(b, disk, err);
	if (!rc)
		rc = read_head(b, err);
	if (rc) {
		close_file(b);
		return rc;
	}
	pthread_mutex_init(&b->lock, NULL);
	return 0;
}

void
batch_close(struct batch *b)
{
	pthread_mutex_lock(&b->lock);
	close_file(b);
	pthread_mutex_unlock(&b->lock);
}

static void
copy_text(char *out, size_t size, const unsigned char *text)
{
	snprintf(out, size, "%s", text ? (const char *)text : "");
}

int64_t
batch_tasks(struct batch *b, struct disk *disk, int64_t after, int max, batch_task_fn *fn,
	    void *arg)
{
	sqlite3_stmt *stmt = NULL;
	int64_t line = after;

	pthread_mutex_lock(&b->lock);
	int rc = need_open(b, disk, NULL);
	if (!rc)
		rc = prepare(b->db, sql_tasks, &stmt);
	if (!rc) {
		sqlite3_bind_int64(stmt, 1, after);
		sqlite3_bind_int(stmt, 2, max);
	}
	int step = SQLITE_DONE;
	while (!rc && (step = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct task_spec s = { 0 };

		line = sqlite3_column_int64(stmt, 0);
		copy_text(s.name, sizeof(s.name), sqlite3_column_text(stmt, 1));
		copy_text(s.tier, sizeof(s.tier), sqlite3_column_text(stmt, 2));
		s.memory = sqlite3_column_int64(stmt, 3);
		s.priority = sqlite3_column_int64(stmt, 4);
		s.expected = sqlite3_column_int64(stmt, 5);
		s.max_failures = sqlite3_column_int64(stmt, 6);
		s.size = (size_t)sqlite3_column_int64(stmt, 7);
		rc = fn(arg, line, &s);
	}
	if (!rc && step != SQLITE_DONE)
		rc = sql_errno(step);
	sqlite3_finalize(stmt);
	pthread_mutex_unlock(&b->lock);
	return rc ? rc : line;
}

/* The first column of a statement's first row as text, or an errno. */
static int
first_text(sqlite3 *db, const char *sql, char *text, size_t size)
{
	sqlite3_stmt *stmt = NULL;
	int rc = prepare(db, sql, &stmt);

	if (!rc && sqlite3_step(stmt) == SQLITE_ROW)
		copy_text(text, size, sqlite3_column_text(stmt, 0));
	else
		rc = -EBADMSG;
	sqlite3_finalize(stmt);
	return rc;
}

int
batch_check(struct batch *b, struct disk *disk, int64_t *tasks, struct err *err)
{
	static const char count[] = "SELECT count(*) FROM task";
	static const char wrong[] = "SELECT count(*) FROM task LEFT JOIN payload USING(line)"
				    " WHERE body IS NULL OR length(body) != size";
	char text[200] = "";

	pthread_mutex_lock(&b->lock);
	int rc = need_open(b, disk, err);
	if (!rc && (first_text(b->db, "PRAGMA quick_check(1)", text, sizeof(text)) ||
		    strcmp(text, "ok") != 0))
		rc = err_set(err, -EBADMSG, "b.%s.sqlite: %s", b->random,
			     text[0] ? text : sqlite3_errmsg(b->db));
	if (!rc && (first_text(b->db, wrong, text, sizeof(text)) || strcmp(text, "0") != 0))
		rc = err_set(err, -EBADMSG, "b.%s.sqlite: %s payloads are missing or cut", b->random,
			     text);
	if (!rc)
		rc = first_text(b->db, count, text, sizeof(text));
	*tasks = rc ? 0 : strtoll(text, NULL, 10);
	pthread_mutex_unlock(&b->lock);
	return rc;
}

int
batch_payload(struct batch *b, struct disk *disk, int64_t line, char **body, size_t *size)
{
	pthread_mutex_lock(&b->lock);
	int rc = need_open(b, disk, NULL);
	if (!rc) {
		sqlite3_stmt *stmt = b->payload;

		sqlite3_bind_int64(stmt, 1, line);
		int step = sqlite3_step(stmt);
		rc = step == SQLITE_ROW ? 0 : sql_errno(step) ? sql_errno(step) : -ENOENT;
		if (!rc) {
			*size = (size_t)sqlite3_column_bytes(stmt, 0);
			*body = malloc(*size + 1);
			if (*body) {
				const void *blob = sqlite3_column_blob(stmt, 0);

				if (*size)
					memcpy(*body, blob, *size);
				(*body)[*size] = '\0';
			} else {
				rc = -ENOMEM;
			}
		}
		sqlite3_reset(stmt);
	}
	pthread_mutex_unlock(&b->lock);
	return rc;
}
