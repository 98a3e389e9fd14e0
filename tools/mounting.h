/*
 * mounting.h - the own mount of raser run and raser job: private where the system allows it, else a
 * visible one.
 */
#ifndef RASER_MOUNTING_H
#define RASER_MOUNTING_H

#include "raser.h"

enum mounting_how {
	MOUNTING_ANY, /* private if that works, else visible */
	MOUNTING_PRIVATE,
	MOUNTING_VISIBLE,
};

struct mounting_spec {
	const char *dir; /* the mount point, made if it is not there; NULL: a new one below $TMPDIR, which
			    is removed afterwards */
	enum mounting_how how;
	const char *options; /* more of raserfs's options, NULL = none; kept by reference */
	bool always; /* raserfs is mounted again even if somebody has told it to end */
	int log_fd; /* where it logs to; -1: to our standard error */
};

struct mounting {
	struct mounting_spec spec;
	char dir[PATH_MAX]; /* the mount point */
	char made[PATH_MAX]; /* a directory of ours to remove, or "" */
	bool private_ns;
	bool stopped; /* by a signal, before it was mounted */
	bool adopted; /* daemon is no supervisor, but what one has left behind */
	pid_t daemon;
	int restarts; /* how often raserfs, supervisor and all, was started again */
	int64_t started, restart_at, pause_ms;
};

/*
 * Mount t's run directory and start a daemon for it; wait until it answers, or one of SIGTERM,
 * SIGINT, SIGHUP and SIGUSR1, which the caller has blocked, is pending. False after a message. The
 * calling process may be in another user and mount namespace afterwards.
 */
bool
mounting_start(struct mounting *m, const struct target *t, const struct mounting_spec *spec);

/*
 * A child with that status has ended and was the daemon. Returns false when the mount was ended on
 * purpose; else it shall be there again: a serving process that has lost its supervisor is kept,
 * and otherwise raserfs is started again, at once or after a growing pause, by mounting_again().
 * what: a sentence for people, "" = there is nothing to say.
 */
bool
mounting_died(struct mounting *m, int status, int64_t now_ms, char *what, size_t size);

/* Start raserfs again when it is due. restarts: how often the mount was there again until now. */
void
mounting_again(struct mounting *m, const struct target *t, int64_t now_ms, int restarts);

/* End the daemon, take the mount away. */
void
mounting_end(struct mounting *m);

/* Would a private mount work here? Tried in a process of its own, with a mount point below dir that
 * is removed again. 0, or a negative errno and what did not. */
int
mounting_try(const char *dir, struct err *why);

/* Is there a fusermount3 that could mount visibly? Else why not. path: where it is, "" = nowhere. */
bool
mounting_fusermount(char path[PATH_MAX], struct err *why);

/* Could this user mount anything here, in private or visibly? False, and why not. */
bool
mounting_possible(struct err *why);

/* The path of a program that is installed beside this one; PATH decides when there is none. */
void
sibling(const char *name, char path[PATH_MAX]);

#endif
