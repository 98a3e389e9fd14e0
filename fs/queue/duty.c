/*
 * duty.c - what a daemon must do by itself: beat, look after its own claims, watch others, end
 * what is stale, and wake what waited long enough.
 */
#include <config.h>

#include "mutant.h"
#include "queue_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- tasks that wait here ---- */

void
wait_add(struct queue *q, struct task *t, int64_t ms, bool growing, struct now now)
{
	enum { DOUBLINGS = 6 };
	struct wait *w = NULL;

	for (size_t i = 0; i < q->nwaits && !w; i++)
		if (q->waits[i].serial == t->serial)
			w = &q->waits[i];
	if (!w) {
		if (q->nwaits == q->cap_waits) {
			size_t cap = q->cap_waits ? q->cap_waits * 2 : 16;
			struct wait *grown = realloc(q->waits, cap * sizeof(*grown));

			if (!grown)
				return; /* then it is offered at once: a delay is a kindness */
			q->waits = grown;
			q->cap_waits = cap;
		}
		w = &q->waits[q->nwaits++];
		*w = (struct wait){ .serial = t->serial };
	}
	int times = !growing ? 0 : w->times < DOUBLINGS ? w->times : DOUBLINGS;
	w->due_boot = now.boot_ms + (ms << times);
	w->due_pending = true;
	w->times += growing;
	t->waits = true;
	task_store(q, t);
	tick_by(q, w->due_boot);
}

/* Offer again what has waited long enough; returns when the next one is due. [under lock] */
static int64_t
wake_waits(struct queue *q, struct now now)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < q->nwaits;) {
		struct wait *w = &q->waits[i];
		struct task t;
		bool gone = false;

		if (w->due_pending && w->due_boot <= now.boot_ms) {
			w->due_pending = false;
			gone = index_get(q->index, w->serial, &t) != 0 || !t.waits;
			if (!gone) {
				t.waits = false;
				task_store(q, &t);
			}
			gone |= w->times == 0;
		}
		if (gone) {
			*w = q->waits[--q->nwaits];
			continue;
		}
		if (w->due_pending && w->due_boot < next)
			next = w->due_boot;
		i++;
	}
	return next;
}

/* ---- our own life ---- */

static void
abandon(struct queue *q, struct lease *l, void *arg)
{
	(void)arg;
	if (l->phase == PHASE_HELD)
		lease_over(q, l, 0); /* its text stays: the claim still stands and must be ended */
}

int
run_check(struct queue *q)
{
	char text[128];

	format_text(text, sizeof(text), q->uuid);
	bool was_away = disk_is_away(&q->disk);
	int rc = disk_home(&q->disk, text);
	bool away = disk_is_away(&q->disk);
	if (was_away == away && rc != 1)
		return away ? -EIO : 0;
	if (!away)
		batches_close(q); /* of the mount that was there before */
	pthread_mutex_lock(&q->lock);
	queue_event(q, "the run directory is %s", away ? "not where it was" : "there again");
	q->beat_troubled = true; /* nobody is judged by what was seen before */
	queue_notify(q);
	pthread_mutex_unlock(&q->lock);
	return away ? -EIO : 0;
}

/* A verdict fell, or somebody deleted our beat: drop every claim and live on as another. */
static int
be_reborn(struct queue *q, struct now now)
{
	struct node fresh;

	if (run_check(q))
		return -EIO;
	pthread_mutex_lock(&q->lock);
	q->now = now;
	if (q->joined) {
		log_warnx("the beat of %s is gone: its claims are given up, and this daemon takes "
			  "a new name", q->node.owner);
		queue_event(q, "owner %s is dead by a verdict; its claims are given up",
			    q->node.owner);
	}
	q->joined = false;
	lease_each(q, abandon, NULL);
	bool leaving = q->leaving;
	pthread_mutex_unlock(&q->lock);
	if (q->kind == OWNER_SEALER)
		return -EOWNERDEAD; /* it may have stood still while others began */
	if (leaving)
		return -ESHUTDOWN;
	int rc = node_join(&fresh, &q->disk, q->kind, now.wall_s);
	if (rc) {
		/* who cannot say that it lives does not know whether the others can */
		pthread_mutex_lock(&q->lock);
		q->beat_troubled = true;
		pthread_mutex_unlock(&q->lock);
		return rc;
	}
	pthread_mutex_lock(&q->lock);
	q->node = fresh;
	q->joined = true;
	seal_suspect(q);
	beat_said(q);
	q->last_beat = now.boot_ms;
	q->must_beat = false;
	queue_notify(q);
	pthread_mutex_unlock(&q->lock);
	log_info("this daemon is now %s", fresh.owner);
	return 0;
}

void
beat_said(struct queue *q)
{
	q->self.beat = q->node.second;
	node_parse(q->node.text, &q->self.info);
}

static void
agents_note(struct queue *q, char note[NODE_NOTE], int *died, bool *paused)
{
	size_t len = 0;

	note[0] = '\0';
	pthread_mutex_lock(&q->lock);
	for (int i = 0; i < q->conf.ntiers && len < NODE_NOTE; i++) {
		int64_t n = q->held_by_tier[i] + q->waiting[i];

		if (n)
			len += (size_t)snprintf(note + len, NODE_NOTE - len, "%s%s=%lld",
						len ? " " : "", q->conf.tiers[i].name,
						(long long)n);
	}
	*died = q->dead_at_once;
	*paused = q->pause_ms != 0;
	q->breaker_news = false;
	pthread_mutex_unlock(&q->lock);
}

/* The run directory has not answered our beats for a while. Agents whose requests wait for it
 * cannot touch their leases meanwhile, and are not judged. [under lock] */
static bool
is_cut_off(const struct queue *q, struct now now)
{
	/* also while it has no name: then it has not beaten either. 0: a hand, which never beats */
	return q->last_beat && now.boot_ms - q->last_beat > 2 * conf_beat_ms(&q->conf);
}

static void
on_excuse(struct queue *q, struct lease *l, void *arg)
{
	const struct now *now = arg;

	(void)q;
	if (l->phase == PHASE_HELD && l->touched_boot < now->boot_ms)
		l->touched_boot = now->boot_ms;
}

int
queue_beat(struct queue *q, struct now now)
{
	char note[NODE_NOTE];
	bool paused;
	int died;
	int rc = run_check(q);

	if (!rc)
		rc = q->joined ? node_beat(&q->node, now.wall_s) : -EOWNERDEAD;
	if (!rc) {
		agents_note(q, note, &died, &paused);
		rc = node_note(&q->node, note, died, paused);
	}
	if (rc == -EOWNERDEAD)
		rc = be_reborn(q, now);
	pthread_mutex_lock(&q->lock);
	if (!rc) {
		if (is_cut_off(q, now))
			lease_each(q, on_excuse, &now);
		q->beat_failing = false;
		q->last_beat = now.boot_ms;
		q->must_beat = false;
		queue_notify(q);
		beat_said(q);
	} else {
		q->beat_failing = q->beat_troubled = true;
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

struct held_bay {
	struct batch_entry *entry;
	int bay;
	bool bad; /* it could not be read */
};

struct held {
	struct held_bay *bays;
	struct lease *copies;
	size_t n, cap;
};

static void
on_held(struct queue *q, struct lease *l, void *arg)
{
	struct held *h = arg;
	struct place p;

	if (l->phase != PHASE_HELD || h->n == h->cap || !place_of(q, l->serial, &p))
		return;
	h->copies[h->n] = *l;
	h->bays[h->n++] = (struct held_bay){ .entry = p.entry, .bay = p.bay };
}

/* The claim of a lease of ours still stands as we wrote it. */
static int
check_claim(struct queue *q, const struct lease *copy, struct now now)
{
	struct task t;
	struct place p;
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];

	pthread_mutex_lock(&q->lock);
	const struct lease *l = lease_find(q, copy->serial, copy->attempt);
	bool held = l && l->phase == PHASE_HELD && !index_get(q->index, copy->serial, &t) &&
		    place_of(q, copy->serial, &p);
	pthread_mutex_unlock(&q->lock);
	if (!held)
		return 0;
	place_bay(&p, bay);
	link_path(path, bay, t.name, copy->attempt, LINK_CLAIM);
	int rc = chain_read(&q->disk, path, text);
	if (rc && rc != -ENOENT)
		return rc;
	if (rc && run_check(q))
		return -EIO;
	if (rc || strcmp(text, copy->text) != 0) {
		pthread_mutex_lock(&q->lock);
		struct lease *lost = lease_find(q, copy->serial, copy->attempt);
		bool still = lost && lost->phase == PHASE_HELD;
		if (still) {
			q->now = now;
			lease_over(q, lost, 0);
			lost->text[0] = '\0';
			t.state = TASK_PENDING;
			task_store(q, &t);
			queue_event(q, "%s@%u dropped: its claim was removed by hand", t.name,
				    copy->attempt);
			log_warnx("task %s@%u: its claim was removed from the run directory; "
				  "dropped", t.name, copy->attempt);
		}
		pthread_mutex_unlock(&q->lock);
		if (still)
			return (int)(bay_merge(q, p.entry, p.bay, now) < 0 ? -EIO : 0);
	}
	return 0;
}

int
queue_look(struct queue *q, struct now now)
{
	struct held h = { 0 };
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	h.cap = (size_t)q->held + 1;
	h.bays = malloc(h.cap * sizeof(*h.bays));
	h.copies = malloc(h.cap * sizeof(*h.copies));
	if (h.bays && h.copies)
		lease_each(q, on_held, &h);
	else
		rc = -ENOMEM;
	pthread_mutex_unlock(&q->lock);
	for (size_t i = 0; !MUTANT(BEAT_LOOK) && !rc && i < h.n; i++) {
		bool seen = false;

		for (size_t k = 0; k < i && !seen; k++)
			seen = h.bays[k].entry == h.bays[i].entry && h.bays[k].bay == h.bays[i].bay;
		h.bays[i].bad = !seen && bay_merge(q, h.bays[i].entry, h.bays[i].bay, now) < 0;
		for (size_t k = 0; seen && k < i; k++)
			if (h.bays[k].entry == h.bays[i].entry && h.bays[k].bay == h.bays[i].bay)
				h.bays[i].bad |= h.bays[k].bad;
	}
	/* a bay that cannot be read leaves the claims of the others alone */
	for (size_t i = 0; i < h.n; i++) {
		if (h.bays[i].bad || (!MUTANT(BEAT_LOOK) && check_claim(q, &h.copies[i], now))) {
			rc = -EIO;
			continue;
		}
		pthread_mutex_lock(&q->lock);
		struct lease *l = lease_find(q, h.copies[i].serial, h.copies[i].attempt);
		if (l && l->seq == h.copies[i].seq)
			l->looked_boot = now.boot_ms;
		pthread_mutex_unlock(&q->lock);
	}
	free(h.bays);
	free(h.copies);
	return rc;
}

/* ---- others ---- */

/* A claim that is nobody's here and still stands, with what is known of its owner. */
struct standing {
	int64_t serial;
	unsigned attempt;
	char owner[OWNER_TEXT];
	int64_t since_boot;
};

struct standings {
	struct standing *all;
	size_t n, cap;
};

static void
on_standing(struct queue *q, struct lease *l, void *arg)
{
	struct standings *s = arg;

	(void)q;
	if (l->phase != PHASE_FOREIGN && !(l->phase == PHASE_OVER && l->text[0]))
		return;
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct standing *grown = realloc(s->all, cap * sizeof(*grown));

		if (!grown)
			return;
		s->all = grown;
		s->cap = cap;
	}
	struct standing *x = &s->all[s->n++];
	*x = (struct standing){ .serial = l->serial, .attempt = l->attempt,
				.since_boot = l->since_boot };
	memcpy(x->owner, l->owner, sizeof(x->owner));
}

static void
collect_standing(struct queue *q, struct standings *s, char self[OWNER_TEXT])
{
	s->n = 0;
	pthread_mutex_lock(&q->lock);
	lease_each(q, on_standing, s);
	memcpy(self, q->node.owner, OWNER_TEXT);
	pthread_mutex_unlock(&q->lock);
}

/* Sum the agents that a beat tells of, and mark their tiers when they are on another node. [under lock] */
static void
count_agents(struct queue *q, const char *agents, bool elsewhere)
{
	char tier[TIER_NAME];
	int n;
	int used;

	while (sscanf(agents, " %31[^= ]=%d%n", tier, &n, &used) == 2) {
		int i = conf_tier(&q->conf, tier);

		if (i >= 0 && elsewhere)
			q->peers[i] = 1;
		q->living_agents += n;
		agents += used;
	}
}

/* Copy what a round found, so that nobody waits for the next one. Under watch_lock. */
static void
publish_nodes(struct queue *q, const char *self)
{
	struct node_line *lines = calloc(q->watch.n + 1, sizeof(*lines));

	if (!lines)
		return;
	pthread_mutex_lock(&q->lock);
	size_t n = 0;
	bool sealer = false;
	q->living = q->living_agents = 0;
	memset(q->peers, 0, sizeof(q->peers));
	for (size_t i = 0; i < q->watch.n; i++) {
		const struct watched *o = &q->watch.owners[i];

		sealer |= o->listed && owner_is_sealer(o->owner);
		if (!o->listed || o->verdict != ALIVE)
			continue;
		struct node_line *line = &lines[n++];
		*line = (struct node_line){ .id = o->id, .beat = o->seen_wall, .alive = true,
					    .info = o->info };
		memcpy(line->owner, o->owner, sizeof(line->owner));
		if (!strcmp(o->owner, self)) {
			line->beat = q->self.beat;
			line->info = q->self.info;
			continue;
		}
		q->living++;
		count_agents(q, o->info.agents, strcmp(o->info.host, q->self.info.host) != 0);
	}
	if (!sealer)
		seal_nobody(q, q->watch.last_round);
	struct node_line *old = q->nodes;
	q->nodes = lines;
	q->nnodes = n;
	pthread_mutex_unlock(&q->lock);
	free(old);
}

/* What is to be done about a standing claim; false: nothing yet. Under watch_lock. */
static bool
judge(struct queue *q, const struct standing *s, const char *self, struct now now,
      enum outcome *outcome, enum reason *reason)
{
	*outcome = END_LOST;
	*reason = WHY_DEAD_OWNER;
	if (!s->owner[0]) /* cannot be parsed: nobody known, one window */
		return now.boot_ms - s->since_boot > q->conf.steal_after_ms;
	if (!strcmp(s->owner, self)) {
		/* in our own name, and we neither hold it nor have it in flight */
		*outcome = END_FREED;
		*reason = WHY_RESTART;
		return true;
	}
	const struct watched *o = watch_owner(&q->watch, s->owner);
	if (!o || o->verdict == ALIVE)
		return false;
	if (o->verdict == DEAD_PROVEN) {
		*outcome = END_FREED;
		*reason = WHY_RESTART;
	}
	return true;
}

/* End what a round has made free to end. Returns how many ends failed. */
static int
end_standing(struct queue *q, struct standings *s, struct now now)
{
	char self[OWNER_TEXT];
	int failed = 0;

	collect_standing(q, s, self);
	for (size_t i = 0; i < s->n; i++) {
		enum outcome outcome;
		enum reason reason;

		pthread_mutex_lock(&q->watch_lock);
		bool over = judge(q, &s->all[i], self, now, &outcome, &reason);
		pthread_mutex_unlock(&q->watch_lock);
		if (over && end_foreign(q, s->all[i].serial, s->all[i].attempt, s->all[i].owner,
					outcome, reason, now) < 0)
			failed++;
	}
	return failed;
}

static int64_t
freed_by_restart(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	int64_t n = q->stats.why[WHY_RESTART];
	pthread_mutex_unlock(&q->lock);
	return n;
}

/* Owners whose process is gone: find all of their claims, end them, unlink their beats. */
static void
bury_proven(struct queue *q, struct standings *s, struct now now)
{
	char dead[16][OWNER_TEXT];
	size_t n = 0;

	pthread_mutex_lock(&q->watch_lock);
	for (size_t i = 0; i < q->watch.n && n < 16; i++)
		if (q->watch.owners[i].verdict == DEAD_PROVEN)
			memcpy(dead[n++], q->watch.owners[i].owner, OWNER_TEXT);
	pthread_mutex_unlock(&q->watch_lock);
	if (!n)
		return;
	int64_t before = freed_by_restart(q);
	if (queue_refresh(q, now, 0, 1) < 0 || end_standing(q, s, now))
		return;
	int64_t freed = freed_by_restart(q) - before;
	if (freed)
		log_info("%lld claims of daemons that died on this machine were freed and may be taken "
			 "up again", (long long)freed);
	pthread_mutex_lock(&q->watch_lock);
	for (size_t i = 0; i < n; i++)
		watch_bury(&q->watch, dead[i]);
	pthread_mutex_unlock(&q->watch_lock);
}

int64_t
queue_watch(struct queue *q, struct now now)
{
	struct standings s = { 0 };
	char self[OWNER_TEXT];

	collect_standing(q, &s, self);
	const char **wanted = calloc(s.n + 1, sizeof(*wanted));
	if (!wanted) {
		free(s.all);
		return -ENOMEM;
	}
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		bool twice = !s.all[i].owner[0];

		for (size_t k = 0; k < n && !twice; k++)
			twice = !strcmp(wanted[k], s.all[i].owner);
		if (!twice)
			wanted[n++] = s.all[i].owner;
	}
	pthread_mutex_lock(&q->lock);
	bool restart = q->beat_troubled || is_cut_off(q, now);
	q->beat_troubled = false;
	pthread_mutex_unlock(&q->lock);
	pthread_mutex_lock(&q->watch_lock);
	int64_t due = watch_round(&q->watch, self, wanted, n, restart);
	if (due >= 0)
		publish_nodes(q, self);
	pthread_mutex_unlock(&q->watch_lock);
	free(wanted);
	if (due >= 0) {
		end_standing(q, &s, now);
		bury_proven(q, &s, now);
	}
	free(s.all);
	return due < 0 ? conf_beat_ms(&q->conf) : due;
}

/* ---- the tick ---- */

struct due {
	struct now now;
	struct lease ends[64];
	int n;
	int64_t next;
};

static void
on_due(struct queue *q, struct lease *l, void *arg)
{
	struct due *d = arg;

	if (l->phase == PHASE_OVER && !l->text[0]) {
		if (l->expires_boot <= d->now.boot_ms)
			lease_drop(q, l);
		return;
	}
	if (l->phase != PHASE_HELD)
		return;
	int64_t stale = l->touched_boot + q->conf.steal_after_ms;
	if (stale <= d->now.boot_ms && is_cut_off(q, d->now))
		stale = d->now.boot_ms + conf_beat_ms(&q->conf);
	if (!l->want && stale <= d->now.boot_ms) {
		l->want = END_LOST;
		l->want_reason = WHY_STALE;
	}
	if (l->want && d->n < 64) {
		lease_ending(l, d->now);
		d->ends[d->n++] = *l;
	}
	if (!l->want && stale < d->next)
		d->next = stale;
}

void
queue_tick(struct queue *q, struct now now)
{
	enum { TICK_RETRY_MS = 1000 };
	struct due d = { .now = now, .next = INT64_MAX };

	pthread_mutex_lock(&q->lock);
	q->now = now;
	q->tick_at = INT64_MAX;
	lease_each(q, on_due, &d);
	int64_t next = wake_waits(q, now);
	if (q->pause_until && q->pause_until <= now.boot_ms) {
		q->pause_until = 0;
		queue_notify(q);
	}
	if (q->pause_until && q->pause_until < next)
		next = q->pause_until;
	bool look = q->look_around || (q->pause_ms && q->look_at <= now.boot_ms);
	if (q->pause_ms && !look && q->look_at < next)
		next = q->look_at;
	deadline_pass(q, now);
	if (q->until && q->shrinks_at < next)
		next = q->shrinks_at;
	const struct lease *probe =
		q->probing ? lease_find(q, q->probe_serial, q->probe_attempt) : NULL;
	if (probe && probe->phase == PHASE_HELD) {
		/* an attempt that lives says so before it ends */
		breaker_note(q, false, false, now, probe->since_boot);
		if (q->probing && next > now.boot_ms + TICK_RETRY_MS)
			next = now.boot_ms + TICK_RETRY_MS;
	}
	pthread_mutex_unlock(&q->lock);
	if (look)
		breaker_look(q, now);
	bool failed = false;
	for (int i = 0; i < d.n; i++)
		failed |= settle(q, d.ends[i].serial, d.ends[i].attempt, d.ends[i].want,
				 d.ends[i].want_reason, NULL, now) < 0;
	if (d.next < next)
		next = d.next;
	if (failed || d.n == 64)
		next = now.boot_ms + TICK_RETRY_MS;
	/* a claim that is granted after this cannot go stale before that */
	if (next > now.boot_ms + q->conf.steal_after_ms)
		next = now.boot_ms + q->conf.steal_after_ms;
	pthread_mutex_lock(&q->lock);
	tick_by(q, next);
	pthread_mutex_unlock(&q->lock);
}

void
queue_excuse(struct queue *q, struct now now)
{
	pthread_mutex_lock(&q->lock);
	lease_each(q, on_excuse, &now);
	q->must_beat = q->joined;
	pthread_mutex_unlock(&q->lock);
}

bool
queue_wants_beat(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	bool wants = q->must_beat || q->breaker_news;
	pthread_mutex_unlock(&q->lock);
	return wants;
}

void
queue_idle(struct queue *q, const int waiting[TIERS_MAX])
{
	pthread_mutex_lock(&q->lock);
	memcpy(q->waiting, waiting, sizeof(q->waiting));
	pthread_mutex_unlock(&q->lock);
}
