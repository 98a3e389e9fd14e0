/*
 * progress.h - how a run goes: a line while it runs, a summary at its end. Read from its mount, or,
 * without one, from the run directory and from what each raser-agentd --direct keeps in a file.
 */
#ifndef RASER_PROGRESS_H
#define RASER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "raser.h"

enum { MOVES_SHOWN = 40 };

struct progress {
	const char *mnt; /* NULL: there is none, but */
	struct queue *queue;
	const char *dir; /* of those files */
	struct now opened;
	int64_t refreshed; /* boot ms */
	int agents;
	json_t *first, *now; /* status.json at the beginning and as last read; counters of daemons that
				died in between are below zero in first */
	int64_t began, ended; /* boot ms; ended: when nothing was left to do */
	uint64_t last_event;
	char *moves[MOVES_SHOWN]; /* tasks that moved up a tier, and why */
	long nmoves, stolen;
};

/* False after a message. */
bool
progress_begin(struct progress *p, const char *mnt);
/* The same without a mount. dir: kept by reference. */
bool
progress_begin_direct(struct progress *p, const struct target *t, const char *dir);
void
progress_read(struct progress *p);
/* How often the mount was there again after its daemon died, as it says. */
int
progress_restarts(const struct progress *p);
/* Take over what happened since the last call. */
void
progress_events(struct progress *p);
/* live: one line that is written over. */
void
progress_print(const struct progress *p, bool live);
void
progress_end(struct progress *p, bool live);
/* Print what came out; true when every task is done. */
bool
progress_summary(struct progress *p);
void
progress_free(struct progress *p);

#endif
