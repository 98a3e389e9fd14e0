/*
 * waiting.h - how tools that need a run for themselves wait for that: they say
 * so, and signals end it. raser seal and fsck.
 */
#ifndef RASER_WAITING_H
#define RASER_WAITING_H

#include "queue.h"

struct waiting {
	int64_t said_at;
};

/* Fill in a watcher that reads the clock, says on stdout how long it will take,
 * and stops at SIGINT, SIGTERM and SIGHUP, which from now on do nothing else.
 */
void
waiting_begin(struct waiting *w, struct seal_watcher *watcher);
/* It is over: clear the line. */
void
waiting_end(const struct waiting *w);

#endif
