/*
 * batch.h - submissions: immutable SQLite files in the run directory (DESIGN 2, Batches).
 *
 * A builder collects tasks in a node-local file of bounded memory. A batch is such a file
 * once it lies in the run directory; it is opened read-only and immutable, so SQLite never
 * locks anything on the shared file system. Payloads lie apart from the index of the tasks.
 */
#ifndef RASER_BATCH_H
#define RASER_BATCH_H

#include <pthread.h>

#include "chain.h"
#include "names.h"

enum { RANDOM_TEXT = 13, MAX_FAILURES_UNSET = -1 };

/* One task of a submission. */
struct task_spec {
	char name[NAME_LIMIT + 1];
	char tier[TIER_NAME]; /* lowest tier by name, or "" */
	int64_t memory;	      /* bytes it needs, 0 = not said */
	int64_t priority;     /* higher is earlier */
	int64_t expected;     /* seconds, 0 = unknown */
	int64_t max_failures; /* MAX_FAILURES_UNSET = the run's */
	const char *body;
	size_t size;
};

struct builder;

/* A new builder in the directory tmp. NULL and err when that cannot be had. */
struct builder *
builder_new(const char *tmp, struct err *err);
void
builder_free(struct builder *b);

/* Add a task. 1: added; 0: the same id with the same payload is there already;
 * -EEXIST: with another payload; or an errno of the local disk. */
int
builder_add(struct builder *b, const struct task_spec *spec, struct err *err);

/* Take the next task out again that `known` says a run has already: it returns 1 for the same
 * payload, 0 for an unknown id, a negative errno to stop. Returns how many were taken out. */
typedef int
builder_known_fn(void *arg, const char *name, const void *body, size_t size);
int64_t
builder_drop_known(struct builder *b, builder_known_fn *known, void *arg);

/* How many tasks are in it now. */
int64_t
builder_count(const struct builder *b);

/* The random part of ids that are made for tasks without one. */
const char *
builder_random(const struct builder *b);

/* Write what is in it as the file batches/b.<r>.sqlite, synced and read back; r is drawn anew
 * and stored. The builder can be imported again after more was dropped. */
int
builder_import(struct builder *b, struct disk *disk, const char *submitter, int64_t wall,
	       char r[RANDOM_TEXT], struct err *err);

/* A published batch. */
struct batch {
	int number;
	char random[RANDOM_TEXT];
	char submitter[96];
	int64_t submitted; /* wall seconds of the submitter */
	int64_t base;	   /* serial of its line 1 */
	int64_t lines;	   /* highest line */
	void *db; /* sqlite3 *, or NULL while closed */
	void *payload; /* sqlite3_stmt * */
	pthread_mutex_t lock;
};

/* Open batches/b.<r>.sqlite and read its head. 0 or -EIO, -EINVAL with err. */
int
batch_open(struct batch *b, struct disk *disk, int number, const char *r, struct err *err);
/* Close its file; it is opened again when it is needed. */
void
batch_close(struct batch *b);

/* The tasks of a batch in order, from line `after` + 1 on, at most max of them; body is NULL.
 * Returns the last line given, `after` when there are no more, or an errno. */
typedef int
batch_task_fn(void *arg, int64_t line, const struct task_spec *spec);
int64_t
batch_tasks(struct batch *b, struct disk *disk, int64_t after, int max, batch_task_fn *fn,
	    void *arg);

/*
 * Read all of an open batch: SQLite finds its pages sound, and every task has a payload of its size.
 * 0 and how many tasks there are; -EBADMSG with err when it is damaged; or an errno. There is no
 * checksum of payloads: a byte that changed inside one is not seen.
 */
int
batch_check(struct batch *b, struct disk *disk, int64_t *tasks, struct err *err);

/* One payload, allocated for the caller, with a NUL behind it. 0 or an errno. */
int
batch_payload(struct batch *b, struct disk *disk, int64_t line, char **body, size_t *size);

#endif
