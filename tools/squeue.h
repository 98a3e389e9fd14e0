/*
 * squeue.h - what squeue says of a run's jobs, asked for once a minute at most by whoever comes first.
 * members.c only.
 *
 *   RUN/slurm/squeue.MINUTE    minutes since 1970; who creates the name asks, and puts there
 *                              "at SECONDS" and lines ARRAY|TASK|STATE|REASON, or
 *                              "failed SECONDS" and why
 */
#ifndef RASER_SQUEUE_H
#define RASER_SQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQUEUE_SIZE = 4 << 20 /* for some ten thousand tasks */ };

/* An answer. */
struct said {
	int64_t newest; /* the highest minute that has a name; -1 = none */
	int64_t minute; /* of this answer; -1 = there is none */
	bool good;
	int64_t at;
	char *text; /* behind the first line, in the caller's buffer */
};

/* Is a line about a job of ours? */
typedef bool
squeue_keep_fn(void *arg, const char *line);

/* Find the newest answer before a minute; good: one that is no failure. */
void
squeue_find(const char *run, int64_t below, bool good, struct said *s, char *buf, size_t size);

/* Ask, unless somebody has in this minute. buf: to work in. */
void
squeue_renew(const char *run, squeue_keep_fn *keep, void *arg, char *buf, size_t size);

/* Ask now. 0 and the lines to keep, or -1 and why. */
int
squeue_ask(const char *run, squeue_keep_fn *keep, void *arg, char *text, size_t size);

/* Write an answer under the name of its minute, whole. What cannot be written is left out. */
void
squeue_write(const char *run, int64_t minute, bool good, const char *text);

#endif
