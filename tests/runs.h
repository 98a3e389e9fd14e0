/*
 * runs.h - run directories for tests of the queue that need more than a few tasks.
 * Everything bails out when it fails.
 */
#ifndef RASER_RUNS_H
#define RASER_RUNS_H

#include "queue.h"

/* What the queue is told to be the time. */
extern struct now now;
extern const struct claimer run_agent;

/* A new run directory of that name in scratch_dir() with n tasks t1, t2, ... */
void
run_new(char path[300], const char *name, int n, const char *prefix);
/* A new run with a raser.ini of its own, and tasks as text to submit. */
void
run_make(char path[300], const char *name, const char *ini, const char *tasks);
/* Submit text. 0, or the errno and err. */
int
run_feed(const char *path, const char *tasks, struct err *err);
/* Submit n more. */
void
run_submit(const char *path, int n, const char *prefix);
struct queue *
run_open(const char *path, bool join);
/* Claim n tasks of the lowest tier and end them so. */
void
run_work(struct queue *q, int n, enum outcome outcome);

/* The path of a file in the bay of the first batch. */
const char *
run_file(const char *path, int bay, const char *file, char out[400]);
/* A file's content, allocated; NULL when there is none. */
void
run_load(const char *file, char **text, size_t *len);
/* Write a file anew. */
void
run_store(const char *file, const char *text, size_t len);

/* The state of every task, for whoever opens the run; the caller frees it. */
char *
run_states(const char *path);
/* How many files there are in the first bay in whose names that occurs. */
int
run_files(const char *path, const char *part);

/* A sealer's: it has a clock, and nobody stops it. */
const struct seal_watcher *
run_watcher(void);
/* Remove what a sealer that died has left in nodes/, as the next one does. */
void
run_bury(const char *path);
/* Seal all bays, waiting for nobody. 0 or an errno, and err. */
int
run_seal_all(struct queue *q, struct seal_bay *last, struct err *err);
/* The same as a sealer of its own. */
void
run_seal(const char *path);

#endif
