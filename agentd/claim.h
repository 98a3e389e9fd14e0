/*
 * claim.h - a claim, and how agentd reaches the queue that it comes from: a table of operations.
 * claim.c has them on a mount, by plain file operations (raser-tree(5)); direct.c on the run
 * directory itself, where agentd is a daemon of the queue as raserfs is.
 */
#ifndef RASER_CLAIM_H
#define RASER_CLAIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"
#include "names.h"

/* What the run says of itself and of our tier. */
struct run_info {
	char run[PATH_MAX];
	int64_t steal_after_ms;
	int64_t grace_ms;
	int64_t memory; /* of the tier, bytes, 0 = no limit */
};

struct lease_claim {
	char name[NAME_LIMIT + 1];
	unsigned attempt;
	char owner[32];
	int failures;
	char *payload; /* allocated */
	size_t size;
	/* on a mount */
	int fd; /* of next, open as long as we hold the task; else -1 */
	char lease[PATH_MAX + 300]; /* MNT/leases/T@k; else "" */
	char tried[32]; /* the daemon that may have granted the next attempt and died; "" = none */
	/* in the library */
	int64_t serial;
	uint64_t seq;
};

/* What became of a claim whose daemon is gone, as the mount knows it now. */
enum claim_fate {
	FATE_UNKNOWN, /* the mount does not answer */
	FATE_STANDS,  /* nobody has ended it yet */
	FATE_FREE,    /* it was ended, and attempt *next may be claimed */
	FATE_OVER,    /* somebody else has the task, or it is final */
};

struct queue_access;
struct queue_ops {
	/* Read what the run and its raser.ini say of the tier. 0, or an errno and err. */
	int (*open)(struct queue_access *a, struct run_info *info, struct err *err);
	/* Take part, before the first claim. 0; -EINTR: urgent_fd is readable, ask again; or an errno
	 * and err, and then nothing else may be asked. */
	int (*join)(struct queue_access *a, struct err *err);
	/* The loop turns; waits: for a task. Returns ms until it must turn again, -1 = whenever. */
	int64_t (*turn)(struct queue_access *a, bool waits);
	/* watch_fd told something. True: look at the claim, or for one, without waiting. */
	bool (*heard)(struct queue_access *a);
	/* End every claim that is still held, and part. */
	void (*leave)(struct queue_access *a);

	/* Claim the best task. News is marked as read before. 0; -EAGAIN: none now; -ENODATA:
	 * drained; -ETIME: what is left takes too long; -EINTR: urgent_fd is readable, ask again; or an errno. */
	int (*next)(struct queue_access *a, struct lease_claim *c);
	/* Heartbeat. 0; -ESTALE or -ENOENT: lost; anything else: its trouble, try again. */
	int (*touch)(struct queue_access *a, const struct lease_claim *c);
	/* What is written into a lease. 0; -ESTALE or -ENOENT: lost; -EINVAL: no such verb; -EINTR
	 * as above; anything else: not answered, try the same again. */
	int (*verb)(struct queue_access *a, const struct lease_claim *c, const char *verb);
	/* Let go of everything; the claim should be ended before. */
	void (*drop)(struct queue_access *a, struct lease_claim *c);
	bool (*is_done)(struct queue_access *a, const char *name);

	/* The daemon that granted the claim has died, and we have not. NULL: cannot be, and those
	 * below are never called. */
	bool (*orphaned)(struct queue_access *a, const struct lease_claim *c);
	enum claim_fate (*fate)(struct queue_access *a, const struct lease_claim *c, unsigned *next);
	/* Claim attempt next of a task that we held, when its daemon died and freed it: c becomes
	 * that claim. 0; -EBUSY, -ENOENT: it is not to be had now; or an errno. */
	int (*again)(struct queue_access *a, struct lease_claim *c, unsigned next);
	/* Does it have this end already? It was taken, and the daemon died before it could say so. */
	bool (*stands)(struct queue_access *a, const struct lease_claim *c, const char *verb);
};

struct queue_access {
	const struct queue_ops *ops;
	const char *path; /* the mount, or the run directory; absolute */
	const char *tier;
	const char *mnt;   /* what agents may be shown; NULL: there is no mount */
	const char *local; /* node-local directory */
	/* wall seconds: the end of this node's time, and when it began, which a mount knows; 0 = none */
	int64_t until, since;
	const char *status; /* file that tells of a daemon of our own; NULL = none */
	int news_fd;	   /* POLLIN: asking for a task again is worth while; -1 = not known */
	int watch_fd;	   /* heard() */
	short watch_events;
	int urgent_fd; /* whatever waits for the storage is broken off when this is readable */
};

/* Fill in a; the paths, the tier and urgent_fd are the caller's. One of them in a process. */
void
access_mount(struct queue_access *a);
void
access_direct(struct queue_access *a);

/* The daemon that granted the claim has died. */
static inline bool
claim_orphaned(struct queue_access *a, const struct lease_claim *c)
{
	return a->ops->orphaned && a->ops->orphaned(a, c);
}

#endif
