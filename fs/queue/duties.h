/*
 * duties.h - when the duties of queue.h are due, and the threads that do them: for whoever hosts a
 * queue, raserfs and raser-agentd --direct. A caller of queue.h like any other, which reads clocks.
 *
 * The host has a loop that serves and never waits for the run directory. It calls duties_turn()
 * whenever it comes round and duties_due() when that is due; each duty has a thread of its own,
 * which may hang in the storage alone. One more thread beats, and stops when the loop has not
 * turned for half of steal_after: who serves nobody must look dead.
 */
#ifndef RASER_DUTIES_H
#define RASER_DUTIES_H

#include "queue.h"

struct duties;

/* What the host wants to hear; any may be NULL. Called by the threads of duties. */
struct duties_hooks {
	void (*ticked)(void *arg);    /* behind queue_tick() */
	void (*refreshed)(void *arg); /* behind queue_refresh() */
	void (*ended)(void *arg);     /* a duty has ended: the loop shall turn */
	void *arg;
};

/* Begin to beat; duties begin with the first duties_due(). NULL when there can be no threads. The
 * queue must be joined and outlive them. */
struct duties *
duties_start(struct queue *q, const struct duties_hooks *hooks);

/* The loop comes round. After a gap of more than half of steal_after the own claims are looked at
 * and no agent is judged by that time. Only the loop calls it. */
void
duties_turn(struct duties *d, struct now now);

/* Start what is due, and say what became of the storage. waiting: agents by tier that wait for a
 * task. Returns ms until it must be called again; what happens in between asks for it by the hook
 * `ended` and the queue's wake descriptor. Only the loop calls it. */
int64_t
duties_due(struct duties *d, struct now now, const int waiting[TIERS_MAX]);

/* Somebody missed something: look afresh with the next duties_due(), at most once a second. From
 * any thread. */
void
duties_want_refresh(struct duties *d);
/* One began so lately, for somebody who missed something, that the next must wait. The loop's. */
bool
duties_refreshed_lately(const struct duties *d, struct now now);

/* The host leaves: nothing new is looked for, but what is held is looked after. */
void
duties_leave(struct duties *d);

/* End the threads. True: all have ended within ms (the one that beats, within a second more), and d
 * is freed. False: one hangs in the storage; neither d nor the queue may be freed. */
bool
duties_stop(struct duties *d, int64_t ms);

#endif
