/*
 * fsckdata.h - fsck of what the queue never reads: results, checkpoints, and
 * what was left behind. fsck.c only.
 */
#ifndef RASER_FSCKDATA_H
#define RASER_FSCKDATA_H

#include "fsck.h"

struct fsck_data {
	struct fsck *f;
	const char *run;
	int64_t refreshed; /* boot ms when new submissions were looked for */
};

/* The results of a task that is done by that end: as fsck_done_fn. */
void
data_done(void *arg, const struct task *t, unsigned attempt, const char *owner);

/* results/, checkpoints/, sealed/ and the root, in a round. 0 or an errno, with
 * err. */
int
data_check(struct fsck_data *d, struct err *err);

#endif
