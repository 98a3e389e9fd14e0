/*
 * park.c - opens that wait: for a task (next), or for a fresh look (opendir). A waiter is a list
 * entry, not a thread, so thousands cost nothing.
 *
 * An interrupt may come at any time and from another thread, even while its waiter is being
 * answered: it names its waiter by a number, and finds it parked, being tried, or gone.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <stdlib.h>

enum { TRIERS = 8, OPENDIR_MS = 50, OPENDIRS = 256 };

enum waiter_state { WAITER_FREE, WAITER_PARKED, WAITER_TRIED };

struct waiter {
	enum waiter_state state;
	bool interrupted;
	uint32_t life;
	uint32_t next, prev; /* in its tier's list; next also links free slots */
	struct job job;
};

struct park {
	struct waiter **slots; /* slot 0 is unused */
	uint32_t n, free_slot;
	uint32_t first[TIERS_MAX], last[TIERS_MAX];
	int parked[TIERS_MAX], triers[TIERS_MAX];
	struct {
		fuse_req_t req;
		struct fuse_file_info fi;
		int64_t deadline;
	} opendirs[OPENDIRS];
	int nopendirs;
};

void
park_init(struct mount *m)
{
	m->park = calloc(1, sizeof(*m->park));
	if (!m->park)
		abort();
}

void
park_free(struct mount *m)
{
	for (uint32_t i = 1; i < m->park->n; i++)
		free(m->park->slots[i]);
	free(m->park->slots);
	free(m->park);
	m->park = NULL;
}

/* ---- lists [under mount.lock] ---- */

static struct waiter *
new_slot(struct park *p, uint32_t *number)
{
	if (!p->free_slot) {
		uint32_t n = p->n ? p->n * 2 : 64;
		struct waiter **grown = realloc(p->slots, n * sizeof(struct waiter *));

		if (!grown)
			return NULL;
		p->slots = grown;
		for (uint32_t i = p->n ? p->n : 1; i < n; i++) {
			grown[i] = calloc(1, sizeof(**grown));
			if (!grown[i]) {
				n = i;
				break;
			}
			grown[i]->next = p->free_slot;
			p->free_slot = i;
		}
		p->n = n;
		if (!p->free_slot)
			return NULL;
	}
	*number = p->free_slot;
	struct waiter *w = p->slots[*number];
	p->free_slot = w->next;
	w->life++;
	w->interrupted = false;
	return w;
}

static void
free_slot(struct park *p, uint32_t number)
{
	p->slots[number]->state = WAITER_FREE;
	p->slots[number]->next = p->free_slot;
	p->free_slot = number;
}

static void
push(struct park *p, uint32_t number, bool front)
{
	struct waiter *w = p->slots[number];
	int tier = w->job.tier;

	w->state = WAITER_PARKED;
	w->next = w->prev = 0;
	if (!p->first[tier]) {
		p->first[tier] = p->last[tier] = number;
	} else if (front) {
		w->next = p->first[tier];
		p->slots[w->next]->prev = number;
		p->first[tier] = number;
	} else {
		w->prev = p->last[tier];
		p->slots[w->prev]->next = number;
		p->last[tier] = number;
	}
	p->parked[tier]++;
}

static void
take_out(struct park *p, uint32_t number)
{
	struct waiter *w = p->slots[number];
	int tier = w->job.tier;

	if (w->prev)
		p->slots[w->prev]->next = w->next;
	else
		p->first[tier] = w->next;
	if (w->next)
		p->slots[w->next]->prev = w->prev;
	else
		p->last[tier] = w->prev;
	p->parked[tier]--;
}

/* ---- waiting ---- */

static struct mount *the_mount; /* libfuse gives an interrupt one pointer, and that is a number */

static void
on_interrupt(fuse_req_t req, void *data)
{
	struct mount *m = the_mount;
	uint64_t number = (uint64_t)(uintptr_t)data;
	uint32_t i = (uint32_t)number;
	bool gone = false;

	pthread_mutex_lock(&m->lock);
	struct waiter *w = m->park->slots[i];
	if (w->life == (uint32_t)(number >> 32)) {
		if (w->state == WAITER_PARKED) {
			take_out(m->park, i);
			free_slot(m->park, i);
			gone = true;
		} else if (w->state == WAITER_TRIED) {
			w->interrupted = true;
		}
	}
	pthread_mutex_unlock(&m->lock);
	if (gone)
		fuse_reply_err(req, EINTR);
}

_Static_assert(sizeof(void *) == 8, "a waiter's number must fit into a pointer");

void
park_add(struct mount *m, const struct job *job)
{
	uint32_t i = 0;
	uint64_t number = 0;

	the_mount = m;
	pthread_mutex_lock(&m->lock);
	struct waiter *w = atomic_load(&m->leaving) ? NULL : new_slot(m->park, &i);
	if (w) {
		w->job = *job;
		w->state = WAITER_TRIED; /* nobody takes it before its interrupt is set */
		number = (uint64_t)w->life << 32 | i;
	}
	pthread_mutex_unlock(&m->lock);
	if (!w) {
		fuse_reply_err(job->req, atomic_load(&m->leaving) ? EAGAIN : ENOMEM);
		return;
	}
	/* may call on_interrupt() at once */
	fuse_req_interrupt_func(job->req, on_interrupt, (void *)(uintptr_t)number);
	pthread_mutex_lock(&m->lock);
	bool gone = w->interrupted;
	if (gone)
		free_slot(m->park, i);
	else
		push(m->park, i, false);
	pthread_mutex_unlock(&m->lock);
	atomic_store(&m->attention, true);
	if (gone)
		fuse_reply_err(job->req, EINTR);
}

/* Take the first waiter of a tier to try it; 0 when there is none. */
static uint32_t
take_first(struct mount *m, int tier, struct job *job)
{
	pthread_mutex_lock(&m->lock);
	uint32_t i = m->park->first[tier];
	if (i) {
		take_out(m->park, i);
		m->park->slots[i]->state = WAITER_TRIED;
		*job = m->park->slots[i]->job;
	}
	pthread_mutex_unlock(&m->lock);
	return i;
}

/* The tried waiter is answered by the caller. True when it is still wanted. */
static bool
finish_tried(struct mount *m, uint32_t i)
{
	pthread_mutex_lock(&m->lock);
	bool wanted = !m->park->slots[i]->interrupted;
	free_slot(m->park, i);
	pthread_mutex_unlock(&m->lock);
	return wanted;
}

/* Park it again, in front; false when it was interrupted meanwhile. */
static bool
put_back(struct mount *m, uint32_t i)
{
	pthread_mutex_lock(&m->lock);
	bool wanted = !m->park->slots[i]->interrupted;
	if (wanted)
		push(m->park, i, true);
	else
		free_slot(m->park, i);
	pthread_mutex_unlock(&m->lock);
	return wanted;
}

/* Hand a claim to the waiter, or to the next one, or give it back. */
static void
deliver(struct mount *m, int tier, uint32_t i, struct job *job, const struct grant *g)
{
	enum delivery d = NOBODY_THERE;

	do {
		if (finish_tried(m, i))
			d = reply_claim(m, job->req, &job->fi, g, true);
		else
			fuse_reply_err(job->req, EINTR);
	} while (d == NOBODY_THERE && (i = take_first(m, tier, job)));
	if (d != DELIVERED)
		undo_claim(m, g, d);
}

/* A worker: claim for the waiters of a tier as long as there are both. */
static void
try_waiters(struct mount *m, struct job *self)
{
	int tier = self->tier;
	struct job job;
	uint32_t i;

	while ((i = take_first(m, tier, &job))) {
		struct grant g;

		claimer_name(&job.by);
		int rc = queue_next(m->q, tier, &job.by, now_read(), &g);

		if (!rc) {
			deliver(m, tier, i, &job, &g);
			continue;
		}
		if (rc == -EAGAIN && !atomic_load(&m->leaving)) {
			if (!put_back(m, i))
				fuse_reply_err(job.req, EINTR);
			break;
		}
		if (rc == -ESHUTDOWN)
			rc = -EAGAIN;
		fuse_reply_err(job.req, finish_tried(m, i) ? -rc : EINTR);
	}
	pthread_mutex_lock(&m->lock);
	m->park->triers[tier]--;
	pthread_mutex_unlock(&m->lock);
	/* what became ready after our last look would wait for the next event otherwise */
	if (!atomic_load(&m->leaving) && queue_ready(m->q, tier) > 0)
		park_kick(m);
}

void
park_kick(struct mount *m)
{
	for (int tier = 0; tier < m->conf->ntiers; tier++) {
		int64_t ready = queue_ready(m->q, tier);
		struct job job = { .fn = try_waiters, .tier = tier };
		int start = 0;

		pthread_mutex_lock(&m->lock);
		struct park *p = m->park;
		int most = p->parked[tier] < TRIERS ? p->parked[tier] : TRIERS;
		if (ready < most)
			most = (int)ready;
		if (most > p->triers[tier])
			start = most - p->triers[tier];
		p->triers[tier] += start;
		pthread_mutex_unlock(&m->lock);
		while (start-- > 0)
			work_add(m, &job);
	}
}

void
park_fail(struct mount *m, int tier, int code)
{
	struct job job;
	uint32_t i;

	for (int t = 0; t < m->conf->ntiers; t++)
		while ((tier < 0 || t == tier) && (i = take_first(m, t, &job)))
			fuse_reply_err(job.req, finish_tried(m, i) ? code : EINTR);
}

int64_t
park_check(struct mount *m, int64_t now_ms)
{
	int64_t next = -1;

	for (int t = 0; t < m->conf->ntiers; t++) {
		for (;;) {
			struct job job;
			int code;

			pthread_mutex_lock(&m->lock);
			uint32_t i = m->park->first[t];
			/* the one that waits longest is the first, or was just put back there */
			int64_t since = i ? m->park->slots[i]->job.since : 0;
			pthread_mutex_unlock(&m->lock);
			if (!i)
				break;
			code = -queue_exhausted(m->q, t, since);
			if (!code && m->patience_ms && since + m->patience_ms <= now_ms)
				code = EAGAIN;
			if (!code) {
				int64_t left = since + m->patience_ms - now_ms;

				if (m->patience_ms && (next < 0 || left < next))
					next = left;
				break;
			}
			i = take_first(m, t, &job);
			if (i)
				fuse_reply_err(job.req, finish_tried(m, i) ? code : EINTR);
		}
	}
	return next;
}

int
park_count(struct mount *m, int counts[TIERS_MAX])
{
	int sum = 0;

	pthread_mutex_lock(&m->lock);
	for (int t = 0; t < m->conf->ntiers; t++) {
		counts[t] += m->park->parked[t];
		sum += m->park->parked[t];
	}
	pthread_mutex_unlock(&m->lock);
	return sum;
}

/* ---- opendirs ---- */

void
opendir_wait(struct mount *m, fuse_req_t req, const struct fuse_file_info *fi)
{
	int64_t deadline = now_read().boot_ms + OPENDIR_MS;

	pthread_mutex_lock(&m->lock);
	bool room = m->park->nopendirs < OPENDIRS;
	if (room) {
		int i = m->park->nopendirs++;

		m->park->opendirs[i].req = req;
		m->park->opendirs[i].fi = *fi;
		m->park->opendirs[i].deadline = deadline;
	}
	pthread_mutex_unlock(&m->lock);
	atomic_store(&m->attention, true);
	if (!room)
		fuse_reply_open(req, fi);
}

int64_t
opendir_answer(struct mount *m, int64_t now_ms, bool all)
{
	int64_t next = -1;

	for (;;) {
		fuse_req_t req = NULL;
		struct fuse_file_info fi;

		pthread_mutex_lock(&m->lock);
		struct park *p = m->park;
		next = -1;
		for (int i = 0; i < p->nopendirs && !req; i++) {
			int64_t left = p->opendirs[i].deadline - now_ms;

			if (all || left <= 0) {
				req = p->opendirs[i].req;
				fi = p->opendirs[i].fi;
				p->opendirs[i] = p->opendirs[--p->nopendirs];
			} else if (next < 0 || left < next) {
				next = left;
			}
		}
		pthread_mutex_unlock(&m->lock);
		if (!req)
			return next;
		fuse_reply_open(req, &fi);
	}
}
