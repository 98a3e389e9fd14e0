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

/*
 * Where each agent has a daemon of its own, each of them would let several attempts die before it knew:
 * they count together. A daemon tells in its beat how many attempts in a row died at once through it,
 * and reads what the others on its node tell before it claims again. Those that pause take turns, as it
 * were: the more there are, the longer each of them pauses; one that lives again is seen by the others.
 */
enum {
	IN_A_ROW = 8, /* on the node */
	LOOK_FROM = 2, /* here */
	LOOK_SOON_MS = 1500, /* by then those that begin to pause have said so */
	LOOK_EVERY_MS = 30000,
	BESIDE_MAX = 128,
	PAUSE_FIRST_MS = 2000,
	PAUSE_LAST_MS = 60000,
	PAUSE_MOST_MS = 1800000,
};

static int64_t
pause_length(const struct queue *q)
{
	int64_t ms = q->pause_ms * (1 + q->paused_beside);

	return ms < PAUSE_MOST_MS ? ms : PAUSE_MOST_MS;
}

static void
pause_node(struct queue *q, struct now now, int died)
{
	int64_t ms = q->pause_ms ? q->pause_ms * 2 : PAUSE_FIRST_MS;

	q->pause_ms = ms < PAUSE_LAST_MS ? ms : PAUSE_LAST_MS;
	q->pause_began = now.boot_ms;
	q->pause_until = now.boot_ms + pause_length(q);
	q->look_at = now.boot_ms + LOOK_SOON_MS;
	q->breaker_news = true;
	tick_by(q, q->look_at);
	log_warnx("%d attempts in a row died at once on this node; no claims here for %lld ms, "
		  "then one is tried", died, (long long)pause_length(q));
	queue_event(q, "node pauses: %d attempts in a row died at once here", died);
}

void
breaker_note(struct queue *q, bool ended, bool died, struct now now, int64_t since)
{
	bool lived = now.boot_ms - since > AT_ONCE_MS;

	if (!ended && !lived)
		return;
	if (!died || lived) {
		if (q->pause_ms)
			log_info("attempts live again here: claiming as before");
		q->breaker_news |= q->dead_at_once >= LOOK_FROM;
		q->dead_at_once = 0;
		q->pause_ms = 0;
		q->probing = q->look_around = false;
		queue_notify(q);
		return;
	}
	if (++q->dead_at_once < LOOK_FROM)
		return;
	q->breaker_news = true;
	if (q->dead_at_once >= IN_A_ROW || q->pause_ms) {
		pause_node(q, now, q->dead_at_once);
		return;
	}
	q->look_around = true;
	tick_by(q, now.boot_ms);
}

struct beside {
	struct queue *q;
	char self[OWNER_TEXT], host[HOST_TEXT];
	int read, died, paused;
};

static int
on_beside(void *arg, const char *name)
{
	struct beside *b = arg;
	size_t n = owner_host(b->self);
	char path[DISK_PATH];
	char text[NODE_TEXT];
	struct node_info info;

	/* a part of the host's name stands in the owner's: the others need not be read */
	if (strncmp(name, b->self, n + 1) != 0 || !strcmp(name, b->self) || strlen(name) >= OWNER_TEXT)
		return 0;
	snprintf(path, sizeof(path), "nodes/%s", name);
	int len = disk_read(&b->q->disk, path, text, sizeof(text) - 1);
	if (len > 0) {
		text[len] = '\0';
		if (node_parse(text, &info) && !strcmp(info.host, b->host)) {
			b->died += info.died;
			b->paused += info.paused;
		}
	}
	return ++b->read == BESIDE_MAX;
}

void
breaker_look(struct queue *q, struct now now)
{
	struct beside b = { .q = q };

	pthread_mutex_lock(&q->lock);
	memcpy(b.self, q->node.owner, sizeof(b.self));
	snprintf(b.host, sizeof(b.host), "%s", q->self.info.host);
	pthread_mutex_unlock(&q->lock);
	/* what cannot be read says nothing: then each daemon counts for itself */
	disk_list(&q->disk, "nodes", on_beside, &b);
	pthread_mutex_lock(&q->lock);
	q->now = now;
	int before = q->paused_beside;
	q->paused_beside = b.paused;
	if (q->pause_ms) {
		q->look_at = now.boot_ms + LOOK_EVERY_MS;
		/* one of them has found that attempts live again, or has left */
		if (q->pause_until)
			q->pause_until = b.paused < before ? now.boot_ms : q->pause_began + pause_length(q);
		tick_by(q, q->pause_until && q->pause_until < q->look_at ? q->pause_until : q->look_at);
	} else if (q->look_around && q->dead_at_once + b.died >= IN_A_ROW) {
		pause_node(q, now, q->dead_at_once + b.died);
	}
	q->look_around = false;
	queue_notify(q);
	pthread_mutex_unlock(&q->lock);
}
