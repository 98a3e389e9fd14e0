/*
 * supervise.h - the process that mounts again when the serving one has died or does not serve.
 * main.c only; its child's side, tell_*(), is for main.c and loop.c.
 *
 * The supervisor never touches the mount: no stat, no path through it. It hears from its child
 * through a pipe, reads /proc/self/mountinfo, and breaks a connection through fusectl.
 */
#ifndef RASER_SUPERVISE_H
#define RASER_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "chain.h"
#include "node.h"

/* How a serving process ends that wants to be understood by its supervisor, apart from 0 (in
 * order) and 1 (cannot serve, and has said why). */
enum {
	EXIT_BROKEN = 3,	/* the connection was broken off, and nobody has unmounted it */
	EXIT_OTHER_RUN = 4,	/* the run directory is another run's by now */
};

struct supervision {
	const char *run, *mountpoint;
	int restarts; /* how often it was mounted again; may begin above 0 */
	/* Called once when the first child serves, to go to the background. */
	void (*ready)(void);
};

/* What a child knows of its supervisor; fd -1: it has none. */
struct supervised {
	int fd;
	pid_t supervisor;
	pid_t starter;		/* who has started the supervisor, */
	int death_signal;	/* and what it gets when that one dies, 0 = nothing */
	int restarts;
	char before[160];	/* what became of the one before, for people; "" = it is the first */
	char uuid[UUID_TEXT];	/* of the run that it must be; "" = any */
	int64_t every_ms, told; /* signs of life */
};

/* Fork serving processes, one after the other, until there shall be none any more. Returns -1 in
 * each of them, with *child filled, and in the supervisor the exit status of the last one. */
int
supervise(const struct supervision *s, struct supervised *child);

/* ---- the child's side; all do nothing without a supervisor ---- */

/* From here on the connection may exist. limit_ms: as supervise() shall wait for a sign of life. */
void
tell_mounting(struct supervised *s, int64_t limit_ms);
void
tell_serving(const struct supervised *s, const char *owner, const char *uuid);
/* The serving loop turns; told as often as is needed. */
void
tell_turn(struct supervised *s, int64_t now_ms);
/* Whatever comes now is meant. */
void
tell_leaving(const struct supervised *s);
/* The descriptor says that the supervisor is gone: serve on without one. */
void
tell_alone(struct supervised *s);

#endif
