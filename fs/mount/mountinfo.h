/*
 * mountinfo.h - what is mounted at a path, from /proc/self/mountinfo: without touching it, so that
 * nobody waits for a daemon that does not answer. For the supervisor of raserfs and for agentd.
 */
#ifndef RASER_MOUNTINFO_H
#define RASER_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mount_entry {
	int id;		/* of this mount, in this boot; 0 = nothing is mounted there */
	unsigned minor; /* of its device: for FUSE the number of its connection */
	bool fuse;	/* of type fuse.raserfs */
	char source[PATH_MAX];
};

/* The topmost mount at a path as realpath(3) gives it. False, and id is 0, when there is none. */
bool
mountinfo_top(const char *path, struct mount_entry *e);

/* The same in the mount namespace of another process. */
bool
mountinfo_top_of(pid_t pid, const char *path, struct mount_entry *e);

/* A descriptor on which poll(2) tells POLLPRI, once for each time, that this namespace's mounts have
 * changed. -1 where there is none. */
int
mountinfo_watch(void);

#endif
