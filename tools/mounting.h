/*
 * mounting.h - raser run's own mount: private where the system allows it, else a visible one.
 */
#ifndef RASER_MOUNTING_H
#define RASER_MOUNTING_H

#include "raser.h"

struct mounting {
	char dir[PATH_MAX]; /* the mount point */
	char made[PATH_MAX]; /* a directory of ours to remove, or "" */
	bool private_ns;
	pid_t daemon;
};

/*
 * Mount t's run directory and start a daemon for it, which logs to log_fd; wait until it
 * answers. dir: a visible mount point, or NULL for a private one. False after a message. The
 * calling process may be in another user and mount namespace afterwards.
 */
bool
mounting_start(struct mounting *m, const struct target *t, const char *dir, int log_fd);

/* End the daemon, take the mount away. */
void
mounting_end(struct mounting *m);

/* Would a private mount work here? Tried in a process of its own, with a mount point below dir that
 * is removed again. 0, or a negative errno and what did not. */
int
mounting_try(const char *dir, struct err *why);

/* The path of a program that is installed beside this one; PATH decides when there is none. */
void
sibling(const char *name, char path[PATH_MAX]);

#endif
