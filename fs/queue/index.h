/*
 * index.h - this daemon's own picture of every task: for choosing, looking up and listing.
 *
 * An SQLite database in memory, rebuilt at every start and never shared. What it says may be
 * old; nothing is decided by it. Not thread-safe: the queue calls it under its lock, and no
 * call touches the run directory.
 */
#ifndef RASER_INDEX_H
#define RASER_INDEX_H

#include "batch.h"

struct task {
	int64_t serial; /* its place in the order of submission, from 1 */
	char name[NAME_LIMIT + 1];
	enum task_state state;
	unsigned attempt; /* the next one when pending, else the one that counts */
	struct counts counts;
	enum reason reason; /* of its last end */
	int base;	    /* level without any history */
	int64_t priority, expected, max_failures, size;
	int64_t changed;    /* wall seconds of its last link, or of its submission */
	bool waits;	    /* pending, but not to be chosen here yet */
};

/* What a listing may ask for: a state, all tasks, or, of the queue, what tier t may take
 * (VIEW_TIER + t). */
enum { VIEW_ALL = -1, VIEW_TIER = 16 };

struct index;

struct index *
index_open(void);
void
index_close(struct index *ix);

/* Add a task. 0, -EEXIST when there is one of its name, or -ENOMEM. */
int
index_add(struct index *ix, const struct task *t);

/* Bundle many index_add() into one transaction. */
void
index_begin(struct index *ix);
void
index_commit(struct index *ix);

/* 0 or -ENOENT. */
int
index_find(struct index *ix, const char *name, struct task *t);
int
index_get(struct index *ix, int64_t serial, struct task *t);

/* Store what changes: state, attempt, counts, reason, changed, waits. */
void
index_set(struct index *ix, const struct task *t);

/* What was said of a task's last end; "" when nothing is known. */
void
index_set_evidence(struct index *ix, int64_t serial, const char *text);
void
index_evidence(struct index *ix, int64_t serial, char *text, size_t size);

/* Tasks of a view with a serial above `after`, in order, until fn returns non-zero. */
typedef int
index_fn(void *arg, const struct task *t);
void
index_list(struct index *ix, int view, int64_t after, index_fn *fn, void *arg);

/* Sets of levels have a bit for each. */
#define LEVELS_ALL UINT32_MAX

/*
 * From now on a task fits only when it is expected to take at most `longest` seconds, or more than
 * `span`: no time like ours would be enough for it. longest -1: none fits. longest never rises, span
 * never changes. Before the first call every task fits. Returns how long the longest task takes that
 * is not over and not above longest, which is the next to be left out; -1: there is none.
 */
int64_t
index_limit(struct index *ix, int64_t longest, int64_t span);
bool
index_fits(const struct index *ix, int64_t expected);

/* The same of the pending tasks at these levels that fit. */
void
index_list_pending(struct index *ix, uint32_t levels, int64_t after, index_fn *fn, void *arg);

/* The serials of the best tasks at these levels that fit and may be chosen now, at most max;
 * returns how many. Those at levels `first` first, then by priority, longest expected, submission. */
int
index_pick(struct index *ix, uint32_t levels, uint32_t first, int64_t *serials, int max);

/* How many tasks are in a state at these levels. */
int64_t
index_count(const struct index *ix, enum task_state state, uint32_t levels);
/* How many of them do not fit; 0 of those that are over. */
int64_t
index_long(const struct index *ix, enum task_state state, uint32_t levels);
/* How many pending ones fit and may be chosen now. */
int64_t
index_ready(const struct index *ix, uint32_t levels);

#endif
