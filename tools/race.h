/*
 * race.h - many create the same names at the same moment: each name must have one winner, and
 * all must agree who it is. `raser doctor` only.
 */
#ifndef RASER_RACE_H
#define RASER_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "chain.h"

enum { RACE_NAMES = 200, RACE_THREADS = 64 };

struct race {
	int names;	/* raced for: fewer than RACE_NAMES where that takes too long */
	int several;	/* of them: won by more than one */
	int none;	/* won by nobody */
	int disagreed;	/* contenders read different texts */
	int unanswered; /* creates that the storage refused */
	int code;	/* one of those errors */
	double seconds;
};

/*
 * Race in an existing directory dir: so many processes with so many threads each, all of them at
 * one name at a time. 0 and the result; or a negative errno when it could not be run, -EINTR
 * when stop became true. The names stay in dir.
 */
int
race_run(const char *dir, int procs, int threads, const volatile bool *stop, struct race *r);

/*
 * One contender alone, for a race with another node: the names below prefix in the disk's
 * directory. won: how many were its own. Afterwards race_sum() reads all texts: sum is a fingerprint
 * of them, and hands how often the winner changed from one name to the next. 0 or a negative errno.
 */
int
race_alone(struct disk *disk, const char *prefix, const char *who, int *won);
int
race_sum(struct disk *disk, const char *prefix, uint32_t *sum, int *hands);

#endif
