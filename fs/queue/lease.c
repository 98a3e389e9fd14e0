/*
 * lease.c - the claims that this daemon knows, its own and those of others. All under the
 * queue's lock; a tree by (serial, attempt).
 */
#include <config.h>

#include "queue_impl.h"

#include <search.h>
#include <stdlib.h>

static int
by_key(const void *a, const void *b)
{
	const struct lease *x = a;
	const struct lease *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->attempt < y->attempt ? -1 : x->attempt > y->attempt;
}

struct lease *
lease_find(struct queue *q, int64_t serial, unsigned attempt)
{
	struct lease key = { .serial = serial, .attempt = attempt };
	struct lease **found = tfind(&key, &q->leases, by_key);

	return found ? *found : NULL;
}

struct lease *
lease_add(struct queue *q, int64_t serial, unsigned attempt, enum phase phase)
{
	struct lease *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct lease){ .serial = serial, .attempt = attempt, .phase = phase };
	struct lease **slot = tsearch(l, &q->leases, by_key);
	if (slot && *slot == l)
		return l;
	free(l); /* no memory for the node; a key that stands already is the caller's bug */
	return NULL;
}

void
lease_hold(struct queue *q, struct lease *l)
{
	l->phase = PHASE_HELD;
	q->held++;
	q->held_by_tier[l->tier]++;
}

void
lease_ending(struct lease *l, struct now now)
{
	l->phase = PHASE_ENDING;
	l->ending_boot = now.boot_ms;
}

void
lease_over(struct queue *q, struct lease *l, enum outcome outcome)
{
	if (l->phase == PHASE_HELD || l->phase == PHASE_ENDING) {
		q->held--;
		q->held_by_tier[l->tier]--;
		q->stats.busy_ms[l->tier] += q->now.boot_ms - l->since_boot;
	}
	if (q->probing && l->serial == q->probe_serial && l->attempt == q->probe_attempt) {
		q->probing = false; /* however it ended, another may be tried */
		queue_notify(q);
	}
	l->phase = PHASE_OVER;
	l->outcome = outcome;
	l->want = 0;
	l->expires_boot = q->now.boot_ms + q->conf.steal_after_ms;
}

void
lease_drop(struct queue *q, struct lease *l)
{
	if (l->phase == PHASE_HELD || l->phase == PHASE_ENDING)
		lease_over(q, l, 0);
	tdelete(l, &q->leases, by_key);
	free(l);
}

struct collect {
	struct lease **all;
	size_t n, cap;
};

static void
on_node(const void *node, VISIT which, void *arg)
{
	struct collect *c = arg;

	if (which != postorder && which != leaf)
		return;
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		struct lease **grown = realloc(c->all, cap * sizeof(struct lease *));

		if (!grown)
			return; /* the rest is visited next time */
		c->all = grown;
		c->cap = cap;
	}
	c->all[c->n++] = *(struct lease *const *)node;
}

void
lease_each(struct queue *q, lease_fn *fn, void *arg)
{
	struct collect c = { 0 };

	twalk_r(q->leases, on_node, &c);
	for (size_t i = 0; i < c.n; i++)
		fn(q, c.all[i], arg);
	free(c.all);
}
