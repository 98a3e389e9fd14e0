/*
 * hand.c - what people do to tasks and daemons: revoke, cancel, reopen, evict. Any daemon may, and so
 * may a tool on the run directory.
 */
#include <config.h>

#include "mutant.h"
#include "queue_impl.h"

#include <errno.h>
#include <string.h>

enum { TRIES = 32 };

static int
revoke_claim(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	struct task t;

	pthread_mutex_lock(&q->lock);
	struct lease *l = quiet_lease(q, serial, attempt);
	int rc = index_get(q->index, serial, &t);
	if (!rc && !l)
		rc = attempt < t.attempt || (attempt == t.attempt && t.state != TASK_PENDING) ?
			     -ESTALE :
			     -ENOENT;
	if (!rc && l->phase == PHASE_OVER && !l->text[0])
		rc = -ESTALE;
	/* asked again, since it could not be synced */
	bool stands = rc == -ESTALE && t.state == TASK_PENDING && t.attempt == attempt + 1 &&
		      t.reason == WHY_REVOKED;
	pthread_mutex_unlock(&q->lock);
	if (rc)
		return stands ? sync_owed(q, serial, rc) : rc;
	rc = end_foreign(q, serial, attempt, NULL, END_FREED, WHY_REVOKED, now);
	if (rc)
		return rc < 0 ? rc : 0;
	/* another end was faster: the same one is success, any other is over */
	return !queue_get(q, serial, &t) && t.reason == WHY_REVOKED ? 0 : -ESTALE;
}

int
queue_revoke(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	return hand_told(q, "revoke", serial, attempt, revoke_claim(q, serial, attempt, now));
}

/* ---- cancelling and reopening ---- */

/* Create T@k.claim with a verb that is its own end. 1 won, 0 another link stands, or an errno. */
static int
verb_link(struct queue *q, const struct task *t, unsigned attempt, enum claim_verb verb,
	  struct now now)
{
	struct place p;
	struct claim c;
	char bay[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	struct lease *l = quiet_lease(q, t->serial, attempt);
	if (l && l->phase == PHASE_OVER) {
		lease_drop(q, l);
		l = NULL;
	}
	if (l || !place_of(q, t->serial, &p) ||
	    !lease_add(q, t->serial, attempt, PHASE_CLAIMING)) {
		pthread_mutex_unlock(&q->lock);
		return 0;
	}
	own_claim(q, now, &c);
	c.verb = verb;
	c.counts.level = t->counts.level;
	pthread_mutex_unlock(&q->lock);

	claim_format(&c, text);
	place_bay(&p, bay);
	int rc = claim_cas(q, bay, t->name, attempt, text, found);
	bool sealed = rc >= 0 && seal_overrules(q, &p, t->serial, attempt);
	int synced = rc == 1 ? bay_sync(q, &p) : 0;

	pthread_mutex_lock(&q->lock);
	lease_drop(q, lease_find(q, t->serial, attempt));
	p.entry->bays[p.bay].exists |= rc >= 0;
	if (rc >= 0 && !sealed)
		apply_found(q, t->serial, attempt, found);
	if (rc == 1 && !sealed)
		queue_event(q, "%s@%u %s by hand", t->name, attempt,
			    verb == CLAIM_CANCELLED ? "cancelled" : "reopened");
	pthread_cond_broadcast(&q->settled);
	pthread_mutex_unlock(&q->lock);
	if (sealed) {
		bay_merge(q, p.entry, p.bay, now);
		return 0;
	}
	return synced ? synced : rc;
}

static int
cancel(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	for (int i = 0; i < TRIES; i++) {
		struct task t;
		int rc = queue_get(q, serial, &t);

		if (rc)
			return rc;
		/* whoever saw an older attempt must not cancel its successor */
		if (!i && attempt && attempt != t.attempt && t.state != TASK_CANCELLED)
			return -ESTALE;
		switch (t.state) {
		case TASK_PENDING:
			rc = verb_link(q, &t, t.attempt, CLAIM_CANCELLED, now);
			break;
		case TASK_CLAIMED:
			rc = end_foreign(q, serial, t.attempt, NULL, END_CANCELLED, WHY_NONE, now);
			break;
		case TASK_UNREAD:
			rc = (int)queue_refresh(q, now, 0, 0);
			break;
		case TASK_CANCELLED:
			return sync_owed(q, serial, 0);
		default:
			return -EPERM; /* done or failed: final */
		}
		if (rc < 0)
			return rc;
		/* if an agent's claim won, go on at its end; if another end won, at the next claim */
	}
	return -EBUSY;
}

int
queue_cancel(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	return hand_told(q, "cancel", serial, attempt, cancel(q, serial, attempt, now));
}

/*
 * A pending task is cancelled by a claim that is its own end. An agent may have had that claim before,
 * which the storage has lost, for claims are not synced; and its holder, who does not know, may still
 * end it. Nothing is built on such a claim before the name of its end is taken as well. 1: it is, and
 * says cancelled. 0: another end stands, and is taken over. Or an errno.
 */
static int
close_cancelled(struct queue *q, const struct task *t, struct now now)
{
	struct place p;
	struct sealed under;
	struct end there;
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	q->now = now;
	struct lease *l = quiet_lease(q, t->serial, t->attempt);
	if (l && l->phase == PHASE_OVER) {
		lease_drop(q, l);
		l = NULL;
	}
	/* an end below a seal counts for nobody */
	bool sealed = sealed_find(q, t->serial, &under) && under.attempt >= t->attempt;
	if (sealed || l || !place_of(q, t->serial, &p) ||
	    !lease_add(q, t->serial, t->attempt, PHASE_CLAIMING)) {
		pthread_mutex_unlock(&q->lock);
		return sealed;
	}
	struct end e = own_end(q, q->node.owner, WHY_NONE, now);
	pthread_mutex_unlock(&q->lock);

	e.outcome = END_CANCELLED;
	e.counts = t->counts;
	end_format(&e, text);
	place_bay(&p, bay);
	link_path(path, bay, t->name, t->attempt, LINK_END);
	int rc = of_storage(chain_cas(&q->disk, path, text, found));
	sealed = rc >= 0 && seal_overrules(q, &p, t->serial, t->attempt);
	bool closed = rc >= 0 && end_parse(found, &there) && there.outcome == END_CANCELLED;
	/* or a crash of the storage could undo it, and not what is built on it */
	int synced = closed && !sealed ? bay_sync(q, &p) : 0;

	pthread_mutex_lock(&q->lock);
	lease_drop(q, lease_find(q, t->serial, t->attempt));
	if (rc >= 0 && !sealed && !closed) {
		struct fold f;

		found_end(found, t->attempt, &t->counts, &f);
		apply_after_cancelled(q, t->serial, t->attempt, &f);
	}
	pthread_cond_broadcast(&q->settled);
	pthread_mutex_unlock(&q->lock);
	if (sealed)
		bay_merge(q, p.entry, p.bay, now);
	return rc < 0 ? rc : synced ? synced : closed && !sealed;
}

static int
reopen(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	for (int i = 0; i < TRIES; i++) {
		struct task t;
		int rc = queue_get(q, serial, &t);

		if (rc)
			return rc;
		if (attempt && attempt != t.attempt && t.state != TASK_PENDING)
			return -ESTALE;
		if (t.state == TASK_PENDING)
			return sync_owed(q, serial, 0); /* somebody reopened it already */
		if (t.state != TASK_FAILED && t.state != TASK_CANCELLED)
			return -EPERM;
		rc = t.state == TASK_CANCELLED && !MUTANT(CLOSE_FIRST) ? close_cancelled(q, &t, now) : 1;
		if (rc > 0)
			rc = verb_link(q, &t, t.attempt + 1, CLAIM_REOPENED, now);
		else if (!rc)
			continue;
		return rc < 0 ? rc : 0;
	}
	return -EBUSY;
}

int
queue_reopen(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	return hand_told(q, "reopen", serial, attempt, reopen(q, serial, attempt, now));
}

int
queue_evict(struct queue *q, const char *owner)
{
	char path[DISK_PATH];

	if (!*owner || strchr(owner, '/') || owner[0] == '.' || strlen(owner) >= OWNER_TEXT)
		return -EINVAL;
	snprintf(path, sizeof(path), "nodes/%s", owner);
	/* said before as well: who dies meanwhile may have done it */
	history_say(&q->disk, "hand\tevict\t%s\t0\t%d", owner, -EINPROGRESS);
	int rc = disk_unlink(&q->disk, path);
	history_say(&q->disk, "hand\tevict\t%s\t0\t%d", owner, rc);
	return rc;
}
