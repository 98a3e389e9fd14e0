/*
 * breaker.c - nodes on which attempts die: the next attempt of a task had better be made on another,
 * and where every attempt dies at once nothing more is claimed for a while.
 */
#include <config.h>

#include "queue_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE_MS = 2000 };

/* ---- the next attempt ---- */

/* Another node has agents that may take the task next. */
static bool
others_may_take(const struct queue *q, int level)
{
	for (int i = level; i < q->conf.ntiers; i++)
		if (q->peers[i] && conf_takes(&q->conf, i, level))
			return true;
	return false;
}

/* Of a daemon of whom nothing is known it is not said. */
static bool
is_on_this_node(const struct queue *q, const char *owner)
{
	if (!strcmp(owner, q->node.owner))
		return true;
	for (size_t i = 0; i < q->nnodes; i++)
		if (!strcmp(q->nodes[i].owner, owner))
			return q->self.info.host[0] && !strcmp(q->nodes[i].info.host, q->self.info.host);
	return false;
}

void
breaker_elsewhere(struct queue *q, struct task *t, const char *owner, struct now now)
{
	bool died = t->reason == WHY_CRASH || t->reason == WHY_OOM || t->reason == WHY_EXIT;

	if (!died || t->state != TASK_PENDING || !others_may_take(q, t->counts.level) ||
	    !is_on_this_node(q, owner))
		return;
	/* both times are of this node's clock; it may have been set in between */
	int64_t since = now.wall_s - t->changed;
	int64_t left = q->conf.steal_after_ms - (since > 0 ? since * 1000 : 0);
	if (left > 0)
		wait_add(q, t, left, false, now);
}

/* ---- the node ---- */

void
breaker_note(struct queue *q, bool ended, bool died, struct now now, int64_t since)
{
	enum { IN_A_ROW = 8, PAUSE_FIRST_MS = 1000, PAUSE_LAST_MS = 60000 };
	bool lived = now.boot_ms - since > AT_ONCE_MS;

	if (!ended && !lived)
		return;
	if (!died || lived) {
		if (q->pause_ms)
			log_info("attempts live again here: claiming as before");
		q->dead_at_once = 0;
		q->pause_ms = 0;
		q->probing = false;
		queue_notify(q);
		return;
	}
	if (++q->dead_at_once < IN_A_ROW)
		return;
	q->pause_ms = q->pause_ms ? q->pause_ms * 2 : PAUSE_FIRST_MS;
	if (q->pause_ms > PAUSE_LAST_MS)
		q->pause_ms = PAUSE_LAST_MS;
	q->pause_until = now.boot_ms + q->pause_ms;
	tick_by(q, q->pause_until);
	log_warnx("%d attempts in a row died at once on this node; no claims here for %lld ms, "
		  "then one is tried", q->dead_at_once, (long long)q->pause_ms);
	queue_event(q, "node pauses: %d attempts in a row died at once here", q->dead_at_once);
}
