/*
 * claim.h - a claim as a daemon of the mount sees it: plain file operations, raser-tree(5).
 */
#ifndef RASER_CLAIM_H
#define RASER_CLAIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names.h"

/* What status.json says of the run and of our tier. */
struct run_info {
	char run[PATH_MAX];
	int64_t steal_after_ms;
	int64_t grace_ms;
	int64_t memory; /* of the tier, bytes, 0 = no limit */
};

struct lease_claim {
	int fd; /* of next, open as long as we hold the task */
	char name[NAME_LIMIT + 1];
	unsigned attempt;
	char lease[PATH_MAX + 300]; /* MNT/leases/T@k */
	char owner[32];
	char tried[32]; /* the daemon that may have granted the next attempt and died; "" = none */
	int failures;
	char *payload; /* allocated */
	size_t size;
};

/* Read MNT/status.json. 0; -ENOENT when the tier is unknown; or an errno. */
int
run_info_read(const char *mnt, const char *tier, struct run_info *info);

/* Claim the best task. 0; -EAGAIN: none now; -ENODATA: drained; or an errno of the mount. */
int
claim_next(const char *mnt, const char *tier, struct lease_claim *c);

/* Claim attempt next of a task that we held, when its daemon died and freed it: c becomes that
 * claim. 0; -EBUSY, -ENOENT: it is not to be had now; or an errno of the mount. */
int
claim_again(const char *mnt, const char *tier, struct lease_claim *c, unsigned next);

/* The daemon that granted the claim has died: its descriptor is dead. */
bool
claim_orphaned(const struct lease_claim *c);

/* What became of a claim whose daemon is gone, as the mount knows it now. */
enum claim_fate {
	FATE_UNKNOWN, /* the mount does not answer */
	FATE_STANDS,  /* nobody has ended it yet */
	FATE_FREE,    /* it was ended, and attempt *next may be claimed */
	FATE_OVER,    /* somebody else has the task, or it is final */
};
enum claim_fate
claim_fate(const char *mnt, const struct lease_claim *c, unsigned *next);

/* Does a claim whose daemon is gone have this end already? It was taken, and the daemon died before
 * it could say so. */
bool
claim_stands(const char *mnt, const struct lease_claim *c, const char *verb);

/* Heartbeat. 0; -ESTALE or -ENOENT: lost; anything else: the mount's trouble, try again. */
int
claim_touch(const struct lease_claim *c);

/* Write a verb. 0; -ESTALE or -ENOENT: lost; anything else: not answered, try again. */
int
claim_verb(const struct lease_claim *c, const char *verb);

/* Let go of everything; the claim should be ended before. */
void
claim_close(struct lease_claim *c);

#endif
