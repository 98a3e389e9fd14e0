/*
 * claim.c - claiming and keeping: which task, the create that decides, the heartbeat.
 */
#include <config.h>

#include "queue_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { WINDOW_MIN = 8, WINDOW_MAX = 1 << 15, FETCH_MIN = 64, TRIES = 16 };

void
own_claim(struct queue *q, struct now now, struct claim *c)
{
	*c = (struct claim){ .seq = ++q->seq, .time = now.wall_s, .verb = CLAIM_AGENT };
	memcpy(c->owner, q->node.owner, sizeof(c->owner));
}

int
claim_cas(struct queue *q, const char *bay, const char *name, unsigned attempt, const char *text,
	  char found[LINK_TEXT])
{
	char path[DISK_PATH];

	link_path(path, bay, name, attempt, LINK_CLAIM);
	int rc = chain_cas_in(&q->disk, bay, path, text, found);
	/* to a caller ENOENT would mean that the attempt is over */
	return rc == -ENOENT ? -EIO : rc;
}

/* Reserve a pending task for a create of ours, so that no other thread works on that link. */
static struct lease *
reserve(struct queue *q, struct task *t, const struct claim *c)
{
	struct lease *l = lease_find(q, t->serial, t->attempt);

	if (l && l->phase != PHASE_OVER)
		return NULL;
	if (l)
		lease_drop(q, l); /* an attempt whose claim somebody deleted */
	l = lease_add(q, t->serial, t->attempt, PHASE_CLAIMING);
	if (!l)
		return NULL;
	memcpy(l->owner, c->owner, sizeof(l->owner));
	claim_format(c, l->text);
	l->before = t->counts;
	l->since_wall = l->touched_wall = c->time;
	return l;
}

int
queue_claim(struct queue *q, int64_t serial, unsigned attempt, int tier,
	    const struct claimer *by, struct now now, struct grant *grant)
{
	struct task t;
	struct place p;
	struct claim c;
	char bay[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	bool away = disk_is_away(&q->disk);
	if (q->leaving || !q->joined || q->must_beat || away) {
		pthread_mutex_unlock(&q->lock);
		return q->leaving ? -ESHUTDOWN : away ? -EIO : -EAGAIN;
	}
	int rc = index_get(q->index, serial, &t);
	if (!rc && t.state == TASK_CLAIMED && t.attempt == attempt)
		rc = -EBUSY;
	else if (!rc && (t.state != TASK_PENDING || t.attempt != attempt ||
			 !conf_takes(&q->conf, tier, t.counts.level) || !place_of(q, serial, &p)))
		rc = -ENOENT;
	if (!rc) {
		own_claim(q, now, &c);
		struct lease *l = reserve(q, &t, &c);

		rc = l ? 0 : -EBUSY;
		if (l) {
			l->tier = tier;
			l->by = *by;
			memcpy(text, l->text, sizeof(text));
			t.state = TASK_CLAIMED;
			t.waits = false;
			index_set(q->index, &t);
			queue_notify(q);
		}
	}
	pthread_mutex_unlock(&q->lock);
	if (rc)
		return rc;

	place_bay(&p, bay);
	rc = claim_cas(q, bay, t.name, attempt, text, found);
	bool sealed = rc >= 0 && seal_overrules(q, &p, serial, attempt);
	int64_t granted = disk_now(&q->disk);

	pthread_mutex_lock(&q->lock);
	struct lease *l = lease_find(q, serial, attempt);
	struct task row;
	/* what was learned while the create was on its way is never overwritten */
	bool current = !index_get(q->index, serial, &row) && row.state == TASK_CLAIMED &&
		       row.attempt == attempt;
	bool orphan = !current || !q->joined || strcmp(c.owner, q->node.owner) != 0;
	p.entry->bays[p.bay].exists |= rc >= 0;
	if (rc == 1 && !sealed) {
		lease_hold(q, l);
		l->seq = c.seq;
		l->since_boot = l->touched_boot = l->looked_boot = now.boot_ms;
		/* its agent cannot have touched it before it was granted, however long that took */
		if (granted > l->touched_boot)
			l->touched_boot = granted;
		if (orphan) {
			lease_ending(l, now);
			l->want = END_FREED; /* queue_tick() goes on when the storage refuses */
			l->want_reason = WHY_RESTART;
		}
		if (current) {
			t.changed = now.wall_s;
			task_store(q, &t);
		}
		q->stats.claims++;
		*grant = (struct grant){ .serial = serial, .attempt = attempt, .seq = c.seq };
		memcpy(grant->name, t.name, sizeof(grant->name));
		queue_event(q, "%s@%u claimed by %s[%ld] for %s", t.name, attempt, by->comm,
			    by->pid, q->conf.tiers[tier].name);
		if (!orphan)
			told(q, serial, attempt, "claim", 0, now);
	} else {
		lease_drop(q, l);
		t.state = TASK_PENDING;
		if (current)
			task_store(q, &t);
		if (rc == 0) {
			q->stats.lost_races++;
			if (!sealed)
				apply_found(q, serial, attempt, found);
		}
	}
	pthread_cond_broadcast(&q->settled);
	pthread_mutex_unlock(&q->lock);
	if (sealed) {
		/* the name was removed because the task is over */
		bay_merge(q, p.entry, p.bay, now);
		return -EBUSY;
	}
	if (rc == 1 && orphan) {
		/* the verdict fell while the create was on its way: ended, never granted */
		settle(q, serial, attempt, END_FREED, WHY_RESTART, NULL, now);
		return -EBUSY;
	}
	return rc == 1 ? 0 : rc == 0 ? -EBUSY : rc;
}

/* Somebody has said how long the best task takes. Then the order is worth more than a race that is
 * lost now and then: such tasks are long, so claims are rare. */
static bool
is_timed(struct queue *q, const struct picks *p)
{
	struct task t;

	return p->n && !index_get(q->index, p->serials[0], &t) && t.expected > 0;
}

/* Fetch candidates. Alone, from the best one on. Among others, from a random place on: daemons
 * that begin apart stay apart, since each goes on where it is until it loses a race. Of tasks with a
 * known duration from the best one on as well, and apart only as far as races were lost. */
static void
fetch_picks(struct queue *q, int tier)
{
	struct picks *p = &q->picks[tier];
	int least = WINDOW_MIN > 2 * q->living_agents ? WINDOW_MIN : 2 * q->living_agents;
	uint32_t r = 0;

	if (!q->living || !p->window)
		p->window = 1;
	int wide = p->window > least ? p->window : least;
	int max = wide > FETCH_MIN ? wide : FETCH_MIN;
	int64_t *grown = realloc(p->serials, (size_t)max * sizeof(*grown));
	p->n = p->at = 0;
	p->epoch = q->pending_epoch;
	if (!grown)
		return;
	p->serials = grown;
	uint32_t levels = conf_levels(&q->conf, tier);
	uint32_t first = q->conf.tiers[tier].elevated_first ? levels & ~(1U << conf_first(&q->conf)) : 0;
	p->n = index_pick(q->index, levels, first, grown, max);
	p->timed = is_timed(q, p);
	if (p->timed)
		least = 1;
	else if (q->living)
		p->window = wide;
	if (p->window > 1 && p->n > 1 && getrandom(&r, sizeof(r), 0) == sizeof(r))
		p->at = (int)(r % (uint32_t)(p->n < p->window ? p->n : p->window));
	p->window = p->window / 2 > least ? p->window / 2 : p->window;
}

/* The candidate to try, from the tier's order; false when there is none. */
static bool
pick(struct queue *q, int tier, struct task *t)
{
	struct picks *p = &q->picks[tier];

	if (ready_count(q, tier) <= 0)
		return false;
	for (int fetches = 0; fetches < 2;) {
		if (p->at == p->n || p->epoch != q->pending_epoch) {
			fetch_picks(q, tier);
			fetches++;
		}
		while (p->at < p->n)
			if (!index_get(q->index, p->serials[p->at++], t) &&
			    t->state == TASK_PENDING && !t->waits &&
			    index_fits(q->index, t->expected) &&
			    conf_takes(&q->conf, tier, t->counts.level))
				return true;
	}
	return false;
}

/* Others were faster: see what they took there, and spread further. */
static void
lost_race(struct queue *q, int tier, int64_t serial, struct now now)
{
	struct picks *p = &q->picks[tier];
	struct place at;

	pthread_mutex_lock(&q->lock);
	p->at = p->n = 0;
	/* fetching halves it, so this doubles it */
	p->window = p->window * 4 < WINDOW_MAX ? p->window * 4 : WINDOW_MAX;
	bool there = place_of(q, serial, &at);
	pthread_mutex_unlock(&q->lock);
	if (there)
		bay_merge(q, at.entry, at.bay, now);
}

/* By the next claim of a task that takes long others will have taken what came next. */
static void
won_race(struct queue *q, int tier)
{
	struct picks *p = &q->picks[tier];

	pthread_mutex_lock(&q->lock);
	if (p->timed) {
		p->at = p->n = 0;
		p->window = p->window / 4 > 1 ? p->window / 4 : 1;
	}
	pthread_mutex_unlock(&q->lock);
}

int
queue_next(struct queue *q, int tier, const struct claimer *by, struct now now,
	   struct grant *grant)
{
	for (int i = 0; i < TRIES; i++) {
		struct task t;

		pthread_mutex_lock(&q->lock);
		deadline_pass(q, now);
		bool gone = q->leaving;
		bool there = !gone && pick(q, tier, &t);
		bool probe = there && q->pause_ms;
		if (probe) { /* after a pause, one attempt tells whether to go on */
			q->probing = true;
			q->probe_serial = t.serial;
			q->probe_attempt = t.attempt;
			tick_by(q, now.boot_ms + 1000);
		}
		pthread_mutex_unlock(&q->lock);
		if (gone)
			return -ESHUTDOWN;
		if (!there)
			return -EAGAIN;
		int rc = queue_claim(q, t.serial, t.attempt, tier, by, now, grant);
		if (rc && probe) {
			pthread_mutex_lock(&q->lock);
			q->probing = false;
			queue_notify(q);
			pthread_mutex_unlock(&q->lock);
		}
		if (rc == 0)
			won_race(q, tier);
		if (rc == -EBUSY)
			lost_race(q, tier, t.serial, now);
		else if (rc != -ENOENT)
			return rc;
	}
	return -EAGAIN;
}

int
queue_take(struct queue *q, int tier, const struct claimer *by, struct now now,
	   struct grant *grant)
{
	int rc = queue_next(q, tier, by, now, grant);

	/* only a complete look that began after the question may say that nothing is left */
	if (rc == -EAGAIN && queue_exhausted(q, tier, 0) &&
	    !queue_exhausted(q, tier, now.boot_ms) && queue_refresh(q, now, 0, 0) > 0)
		rc = queue_next(q, tier, by, now, grant);
	int why = rc == -EAGAIN ? queue_exhausted(q, tier, now.boot_ms) : 0;
	return why ? why : rc;
}

bool
queue_is_grant(struct queue *q, int64_t serial, unsigned attempt, uint64_t seq)
{
	pthread_mutex_lock(&q->lock);
	const struct lease *l = lease_find(q, serial, attempt);
	bool same = !l || !l->seq || l->seq == seq;
	pthread_mutex_unlock(&q->lock);
	return same;
}

void
queue_delivered(struct queue *q, int64_t serial, unsigned attempt)
{
	pthread_mutex_lock(&q->lock);
	struct lease *l = lease_find(q, serial, attempt);
	if (l)
		l->delivered = true;
	pthread_mutex_unlock(&q->lock);
}

/* ---- keeping ---- */

/* The lease that a holder's call means, or why it may not. [under lock] */
static int
holder(struct queue *q, int64_t serial, unsigned attempt, struct now now, struct lease **out)
{
	struct task t;
	struct lease *l = lease_find(q, serial, attempt);

	*out = l;
	if (!l)
		return index_get(q->index, serial, &t) || attempt > t.attempt ||
				       (attempt == t.attempt && t.state == TASK_PENDING) ?
			       -ENOENT :
			       -ESTALE;
	switch (l->phase) {
	case PHASE_FOREIGN:
		return l->was_ours ? -ESTALE : -EPERM;
	case PHASE_OVER:
		return -ESTALE;
	case PHASE_CLAIMING:
		return -EBUSY;
	case PHASE_HELD:
	case PHASE_ENDING:
		break;
	}
	/* frozen for a while: look what others wrote before any agent is told that it holds */
	return now.boot_ms - l->looked_boot > q->conf.steal_after_ms / 2 ? -EINPROGRESS : 0;
}

int
queue_touch(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	struct lease *l;

	pthread_mutex_lock(&q->lock);
	int rc = holder(q, serial, attempt, now, &l);
	if (!rc || rc == -EINPROGRESS) {
		/* the agent lives, even while the storage does not let us say that it still holds */
		l->touched_boot = now.boot_ms;
		l->touched_wall = now.wall_s;
	}
	told(q, serial, attempt, "touch", rc, now);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int
queue_note(struct queue *q, int64_t serial, unsigned attempt, const char *text, struct now now)
{
	struct lease *l;

	pthread_mutex_lock(&q->lock);
	int rc = holder(q, serial, attempt, now, &l);
	if (!rc)
		snprintf(l->note, sizeof(l->note), "%s", text);
	told(q, serial, attempt, "note", rc, now);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int
queue_resumed(struct queue *q, int64_t serial, unsigned attempt, int64_t lost_ms, struct now now)
{
	struct lease *l;

	pthread_mutex_lock(&q->lock);
	int rc = holder(q, serial, attempt, now, &l);
	if (!rc) {
		q->stats.resumed++;
		q->stats.redo_ms += lost_ms;
		if (lost_ms > q->stats.redo_max_ms)
			q->stats.redo_max_ms = lost_ms;
	}
	told(q, serial, attempt, "resumed", rc, now);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int
queue_park(struct queue *q, int64_t serial, unsigned attempt, int64_t until, struct now now)
{
	struct lease *l;

	pthread_mutex_lock(&q->lock);
	int rc = holder(q, serial, attempt, now, &l);
	if (!rc) {
		l->parked_until = until;
		l->touched_boot = now.boot_ms;
		l->touched_wall = now.wall_s;
	}
	told(q, serial, attempt, "park", rc, now);
	pthread_mutex_unlock(&q->lock);
	return rc;
}
