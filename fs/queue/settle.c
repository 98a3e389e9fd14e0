/*
 * settle.c - how attempts end: by their holder, by the daemon that granted them, by an
 * observer of a dead owner, by an admin's hand (hand.c). All of them compete for one name, T@k.end.
 */
#include <config.h>

#include "mutant.h"
#include "queue_impl.h"

#include <errno.h>
#include <string.h>

enum {
	SYNCS = 4, TRY_AGAIN_MS = 1000, RETAKE_MS = 1000,
	PATIENCE_MS = 5000,
};

int
of_storage(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR ? -EIO : rc;
}

/* ---- durability ---- */

int
bay_sync(struct queue *q, const struct place *p)
{
	struct bay *bay = &p->entry->bays[p->bay];
	char path[DISK_PATH];
	int rc = 0;

	if (MUTANT(SYNC_FIRST))
		return 0;
	place_bay(p, path);
	pthread_mutex_lock(&q->sync_lock);
	/* only a sync that begins from here on is sure to cover what the caller made */
	uint64_t need = bay->sync_started + 1;
	while (!rc && bay->sync_finished < need) {
		/* a few at once, since waiting for one to end would double the time of the next;
		 * beyond that, those who wait share the next one */
		if (bay->syncing == SYNCS) {
			pthread_cond_wait(&q->synced, &q->sync_lock);
			continue;
		}
		uint64_t mine = ++bay->sync_started;
		bool parent = !bay->parent_synced;

		bay->syncing++;
		pthread_mutex_unlock(&q->sync_lock);
		rc = disk_sync(&q->disk, path);
		if (!rc && parent)
			rc = disk_sync(&q->disk, "chain");
		pthread_mutex_lock(&q->sync_lock);
		bay->syncing--;
		bay->owed = rc != 0;
		if (!rc) {
			if (mine > bay->sync_finished)
				bay->sync_finished = mine;
			bay->parent_synced = true;
		}
		pthread_cond_broadcast(&q->synced);
	}
	pthread_mutex_unlock(&q->sync_lock);
	return of_storage(rc);
}

int
sync_owed(struct queue *q, int64_t serial, int settled)
{
	struct place p;

	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, serial, &p);
	pthread_mutex_unlock(&q->lock);
	if (!there)
		return settled;
	pthread_mutex_lock(&q->sync_lock);
	bool owed = p.entry->bays[p.bay].owed;
	pthread_mutex_unlock(&q->sync_lock);
	return owed ? bay_sync(q, &p) : settled;
}

/* ---- counting ---- */

/* Take over an end that stands: row, lease, counters, waits. [under lock] */
static void
record_end(struct queue *q, struct task *t, unsigned attempt, const struct end *e,
	   const char *note, struct now now)
{
	struct fold f = { 0 };
	int before = t->counts.level;

	fold_end(e, attempt, &f);
	t->state = f.state;
	t->attempt = f.attempt;
	t->counts = f.counts;
	t->reason = f.reason;
	t->changed = e->time;
	t->waits = false;
	q->stats.ends[(unsigned char)e->outcome & 127]++;
	q->stats.why[(unsigned char)e->reason & 127]++;
	queue_event(q, "%s@%u %s%s%s%s%s%s%s%s", t->name, attempt, outcome_name(e->outcome),
		    e->reason == WHY_NONE ? "" : " ", reason_name(e->reason),
		    t->counts.level > before ? ", moves up to " : "",
		    t->counts.level > before ? q->conf.tiers[t->counts.level].name : "",
		    note && *note ? ": " : "", note && *note ? note : "",
		    e->outcome == END_FAILED && e->reason != WHY_VERDICT ? " (given up)" : "");
	if (e->outcome != END_DONE)
		log_info("task %s@%u: %s %s%s%s", t->name, attempt, outcome_name(e->outcome),
			 reason_name(e->reason), note && *note ? ": " : "", note ? note : "");
	task_store(q, t);
	index_set_evidence(q->index, t->serial, note ? note : "");
	if (t->state != TASK_PENDING)
		return;
	if (e->reason == WHY_NOT_ITS_FAULT)
		wait_add(q, t, q->conf.retry_delay_ms, true, now);
	else if (e->reason == WHY_RESTART)
		/* its agent lives, it may be, and takes it up again by its name */
		wait_add(q, t, RETAKE_MS, false, now);
	else
		breaker_elsewhere(q, t, e->owner, now);
}

void
found_end(const char *text, unsigned attempt, const struct counts *before, struct fold *f)
{
	struct end e;

	*f = (struct fold){ .state = TASK_PENDING, .attempt = attempt + 1, .counts = *before,
			    .reason = WHY_NONE };
	if (end_parse(text, &e))
		fold_end(&e, attempt, f);
}

static int64_t
max_failures(const struct queue *q, const struct task *t)
{
	return t->max_failures == MAX_FAILURES_UNSET ? q->conf.max_failures : t->max_failures;
}

struct end
own_end(struct queue *q, const char *owner, enum reason reason, struct now now)
{
	struct end e = { .seq = ++q->seq, .time = now.wall_s, .reason = reason };

	memcpy(e.owner, owner, sizeof(e.owner));
	return e;
}

/* ---- our own claims ---- */

/* An end that stands where ours would is ours as well: a create that the storage refused may
 * arrive all the same, later, and nobody else writes in the name of this owner. */
static bool
take_own_end(const char *found, struct end *e)
{
	struct end there;

	if (!end_parse(found, &there) || strcmp(there.owner, e->owner) != 0 ||
	    there.outcome != e->outcome)
		return false;
	*e = there;
	return true;
}

/* Back to a holder's lease after a create that did nothing. [under lock] */
static void
still_held(struct lease *l)
{
	if (l && l->phase == PHASE_ENDING)
		l->phase = PHASE_HELD;
}

/* Our claim is gone from under us: what stands there now is read afresh. */
static void
claim_vanished(struct queue *q, const struct place *p, int64_t serial, unsigned attempt,
	       struct now now)
{
	struct task t;

	pthread_mutex_lock(&q->lock);
	struct lease *l = lease_find(q, serial, attempt);
	if (l && l->phase != PHASE_OVER) {
		lease_over(q, l, 0);
		l->text[0] = '\0';
	}
	if (!index_get(q->index, serial, &t) && t.state == TASK_CLAIMED && t.attempt == attempt) {
		log_warnx("task %s@%u: its claim was removed from the run directory; dropped",
			  t.name, attempt);
		queue_event(q, "%s@%u dropped: its claim was removed by hand", t.name, attempt);
		t.state = TASK_PENDING;
		task_store(q, &t);
	}
	pthread_mutex_unlock(&q->lock);
	bay_merge(q, p->entry, p->bay, now);
}

int
settle(struct queue *q, int64_t serial, unsigned attempt, enum outcome outcome,
       enum reason reason, const char *note, struct now now)
{
	struct task t;
	struct place p;
	struct counts before;
	char bay[DISK_PATH];
	char claim[DISK_PATH];
	char path[DISK_PATH];
	char claim_text[LINK_TEXT];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	struct lease *l = lease_find(q, serial, attempt);
	bool there = l && !index_get(q->index, serial, &t) && place_of(q, serial, &p);
	if (!there) {
		pthread_mutex_unlock(&q->lock);
		return -ENOENT;
	}
	memcpy(claim_text, l->text, sizeof(claim_text));
	before = l->before;
	struct end e = own_end(q, l->owner, reason, now);
	int64_t held_ms = now.boot_ms - l->since_boot;
	pthread_mutex_unlock(&q->lock);

	e.outcome = count_end(&q->conf, max_failures(q, &t), outcome, &before, &e.counts);
	end_format(&e, text);
	place_bay(&p, bay);
	link_path(claim, bay, t.name, attempt, LINK_CLAIM);
	link_path(path, bay, t.name, attempt, LINK_END);
	/* a claim is not synced, and anybody may delete it: then it can be another's by now */
	int rc = chain_read_patiently(&q->disk, claim, found);
	bool vanished = !MUTANT(CLAIM_READ_BACK) &&
			(rc == -ENOENT || (!rc && strcmp(found, claim_text) != 0));
	if (vanished && !run_check(q)) {
		claim_vanished(q, &p, serial, attempt, now);
		pthread_mutex_lock(&q->lock);
		pthread_cond_broadcast(&q->settled);
		pthread_mutex_unlock(&q->lock);
		return -ESTALE;
	}
	rc = vanished ? -EIO : rc ? of_storage(rc) : of_storage(chain_cas(&q->disk, path, text, found));
	if (rc == 0 && take_own_end(found, &e)) {
		memcpy(text, found, sizeof(text));
		rc = 1;
	}
	bool sealed = rc >= 0 && seal_overrules(q, &p, serial, attempt);
	if (sealed && seal_has_end(q, &p, t.name, attempt, text)) {
		rc = 1; /* whatever has come to stand there since */
		sealed = false;
	}
	if (sealed) {
		/* another end was removed because it had been read: this one tells nothing */
		claim_vanished(q, &p, serial, attempt, now);
		pthread_mutex_lock(&q->lock);
		pthread_cond_broadcast(&q->settled);
		pthread_mutex_unlock(&q->lock);
		return -ESTALE;
	}
	bool won = rc == 1;
	int synced = 0;
	if (won) {
		/* the create made the directory fresh for us, so this look is the true one */
		if (chain_read(&q->disk, claim, found) || strcmp(found, claim_text) != 0)
			log_warnx("task %s@%u: its claim was removed while it ended; the end stands",
				  t.name, attempt);
		synced = bay_sync(q, &p);
	}

	pthread_mutex_lock(&q->lock);
	q->now = now;
	l = lease_find(q, serial, attempt);
	if (won) {
		if (l) {
			lease_over(q, l, outcome);
			l->text[0] = '\0';
		}
		if (!index_get(q->index, serial, &t) && t.state == TASK_CLAIMED &&
		    t.attempt == attempt)
			record_end(q, &t, attempt, &e, note, now);
		/* what somebody reports with evidence; a descriptor that closes tells of no node */
		bool told = outcome == END_DONE || outcome == END_FAILED ||
			    (outcome == END_RETRY && note && *note);
		if (told)
			breaker_note(q, true, outcome == END_RETRY, now, now.boot_ms - held_ms);
	} else if (rc == 0) {
		struct fold f;

		found_end(found, attempt, &before, &f);
		/* or one wrong verdict would burn attempt after attempt */
		q->must_beat |= f.reason == WHY_DEAD_OWNER;
		queue_event(q, "%s@%u lost: ended by %s (%s)", t.name, attempt, f.owner,
			    reason_name(f.reason));
		if (l)
			lease_over(q, l, 0);
		if (l)
			l->text[0] = '\0';
		apply_fold(q, serial, attempt, true, &f);
	} else {
		still_held(l);
		if (l && l->want) /* nobody else will try again */
			tick_by(q, now.boot_ms + TRY_AGAIN_MS);
	}
	pthread_cond_broadcast(&q->settled);
	pthread_mutex_unlock(&q->lock);
	if (won && synced)
		log_warnx("task %s@%u: ended, but %s cannot be synced: %s", t.name, attempt, bay,
			  strerror(-synced));
	return won ? synced : rc == 0 ? -ESTALE : rc;
}

struct lease *
quiet_lease(struct queue *q, int64_t serial, unsigned attempt)
{
	struct lease *l;

	while ((l = lease_find(q, serial, attempt)) != NULL &&
	       (l->phase == PHASE_ENDING || l->phase == PHASE_CLAIMING))
		pthread_cond_wait(&q->settled, &q->lock);
	return l;
}

static int
end_own(struct queue *q, int64_t serial, unsigned attempt, enum outcome outcome,
	enum reason reason, const char *note, struct now now)
{
	struct task t;
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	struct lease *l = lease_find(q, serial, attempt);
	if (l && l->phase == PHASE_ENDING && now.boot_ms - l->ending_boot >= PATIENCE_MS) {
		/* asked again, and the one before still waits: another thread would only wait too */
		pthread_mutex_unlock(&q->lock);
		return -EIO;
	}
	l = quiet_lease(q, serial, attempt);
	if (!l) {
		bool never = index_get(q->index, serial, &t) || attempt > t.attempt ||
			     (attempt == t.attempt && t.state == TASK_PENDING);
		rc = never ? -ENOENT : -ESTALE;
	} else if (l->phase == PHASE_FOREIGN) {
		rc = l->was_ours ? -ESTALE : -EPERM;
	} else if (l->phase == PHASE_OVER) {
		/* the same again is success: replies get lost, and mv asks twice */
		rc = l->outcome == outcome ? 1 : -ESTALE;
	} else {
		lease_ending(l, now);
	}
	pthread_mutex_unlock(&q->lock);
	if (rc)
		return rc == 1 ? sync_owed(q, serial, 0) : rc;
	return settle(q, serial, attempt, outcome, reason, note, now);
}

int
queue_end(struct queue *q, int64_t serial, unsigned attempt, enum outcome outcome,
	  enum reason reason, const char *note, struct now now)
{
	int rc = end_own(q, serial, attempt, outcome, reason, note, now);

	pthread_mutex_lock(&q->lock);
	told(q, serial, attempt, outcome_name(outcome), rc, now);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

void
queue_closed(struct queue *q, int64_t serial, unsigned attempt, bool bound, struct now now)
{
	pthread_mutex_lock(&q->lock);
	struct lease *l = quiet_lease(q, serial, attempt);
	bool held = l && l->phase == PHASE_HELD;
	enum outcome outcome = END_RETRY;
	enum reason reason = WHY_CRASH;
	if (held && !l->delivered) {
		outcome = END_FREED;
		reason = WHY_UNDELIVERED;
	} else if (held && q->leaving) {
		outcome = END_FREED;
		reason = WHY_RESTART;
	} else if (!bound) {
		held = false; /* lasts while it is heartbeaten */
	}
	if (held) {
		l->want = outcome; /* queue_tick() goes on when the storage refuses now */
		l->want_reason = reason;
		lease_ending(l, now);
	}
	pthread_mutex_unlock(&q->lock);
	if (held)
		settle(q, serial, attempt, outcome, reason, NULL, now);
}

/* ---- anybody's claims ---- */

int
end_foreign(struct queue *q, int64_t serial, unsigned attempt, const char *judged,
	    enum outcome outcome, enum reason reason, struct now now)
{
	struct task t;
	struct place p;
	struct fold f;
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	struct lease *l = quiet_lease(q, serial, attempt);
	/* a verdict is on an owner: a claim that was deleted and made again is another's */
	bool there = l && !index_get(q->index, serial, &t) && t.state == TASK_CLAIMED &&
		     t.attempt == attempt && place_of(q, serial, &p) &&
		     (!judged || !strcmp(l->owner, judged));
	if (!there) {
		pthread_mutex_unlock(&q->lock);
		return 0;
	}
	if (l->phase == PHASE_HELD) {
		lease_ending(l, now);
		pthread_mutex_unlock(&q->lock);
		int own = settle(q, serial, attempt, outcome, reason, NULL, now);
		return own ? own == -ESTALE ? 0 : own : 1;
	}
	enum phase was = l->phase;
	l->phase = PHASE_CLAIMING; /* one thread at a time works on this link */
	struct end e = own_end(q, q->node.owner, reason, now);
	pthread_mutex_unlock(&q->lock);

	place_bay(&p, bay);
	link_path(path, bay, t.name, attempt, LINK_END);
	int synced = 0;
	/* what is ended must have been read, and the counters below it */
	int rc = fold_task(q, bay, &t, attempt, false, &f);
	if (rc == -ENOENT && run_check(q))
		rc = -EIO;
	bool other = !rc && judged && strcmp(f.claim.owner, judged) != 0;
	bool verb = false;
	if (!rc && f.state == TASK_CLAIMED && !other) {
		e.outcome = count_end(&q->conf, max_failures(q, &t), outcome, &f.counts,
				      &e.counts);
		end_format(&e, text);
		rc = of_storage(chain_cas(&q->disk, path, text, found));
		if (rc == 1 && seal_overrules(q, &p, serial, attempt))
			rc = -ENOENT;
		if (rc == 1)
			synced = bay_sync(q, &p);
	} else if (!rc || rc == -ENOENT) {
		/* an admin's link in the place of a claim that is gone: no listing shows that it changed */
		verb = !rc && f.state != TASK_CLAIMED;
		rc = -ENOENT; /* deleted, or another's: the listing tells */
	}

	pthread_mutex_lock(&q->lock);
	l = lease_find(q, serial, attempt);
	if (l)
		l->phase = was;
	if (other && l) {
		l->phase = PHASE_FOREIGN; /* ours, perhaps, in an earlier life: no longer */
		snprintf(l->owner, sizeof(l->owner), "%s", f.claim.owner);
		claim_format(&f.claim, l->text);
		l->since_boot = now.boot_ms;
	}
	if (verb)
		apply_fold(q, serial, attempt, false, &f);
	if (rc >= 0 && l) {
		if (was == PHASE_FOREIGN)
			lease_drop(q, l);
		else
			l->text[0] = '\0';
	}
	if (rc == 1 && !index_get(q->index, serial, &t) && t.state == TASK_CLAIMED &&
	    t.attempt == attempt)
		record_end(q, &t, attempt, &e, NULL, now);
	if (rc == 0) {
		struct fold g;

		found_end(found, attempt, &f.counts, &g);
		apply_fold(q, serial, attempt, true, &g);
	}
	pthread_cond_broadcast(&q->settled);
	pthread_mutex_unlock(&q->lock);
	if (rc == -ENOENT) {
		bay_merge(q, p.entry, p.bay, now);
		rc = 0;
	}
	return synced ? synced : rc;
}

bool
restore_end(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	struct task t;
	struct place p;
	struct claim c;
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	bool over = !index_get(q->index, serial, &t) && place_of(q, serial, &p) &&
		    ((t.state == TASK_PENDING && t.attempt > attempt) ||
		     (t.attempt >= attempt && is_over(t.state)));
	const struct lease *l = lease_find(q, serial, attempt);
	if (!over || (l && l->phase != PHASE_OVER)) {
		pthread_mutex_unlock(&q->lock);
		return false;
	}
	struct end e = own_end(q, q->node.owner, t.reason, now);
	pthread_mutex_unlock(&q->lock);

	place_bay(&p, bay);
	link_path(path, bay, t.name, attempt, LINK_CLAIM);
	if (chain_read(&q->disk, path, found))
		return false;
	claim_parse(found, &c);
	if (c.verb != CLAIM_AGENT || strcmp(c.owner, e.owner) != 0)
		return true; /* whose claim it is will see to it, or those who find it dead */
	e.outcome = is_over(t.state) ? outcome_of(t.state) : END_FREED;
	e.counts = t.counts;
	end_format(&e, text);
	link_path(path, bay, t.name, attempt, LINK_END);
	if (chain_cas(&q->disk, path, text, found) == 1) {
		bay_sync(q, &p);
		log_warnx("task %s@%u: its end was removed from the run directory; written again",
			  t.name, attempt);
	}
	return false;
}
