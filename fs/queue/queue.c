/*
 * queue.c - opening a run, looking, and telling. Making one: make.c; claims: claim.c; ends:
 * settle.c; people's hands: hand.c; what others do: discover.c; what must happen by itself: duty.c;
 * submissions: submit.c.
 */
#include <config.h>

#include "queue_impl.h"

#include "selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the run directory ---- */

static int
read_format(struct queue *q, struct err *err)
{
	int rc = format_read(&q->disk, q->uuid);

	if (rc == -ENOENT)
		return err_set(err, rc, "%s is no run directory: it has no FORMAT (raser init makes "
			       "one)", q->path);
	return rc ? err_set(err, rc, "%s/FORMAT: not a version that this raserfs can read", q->path) :
		    0;
}

static void
queue_free(struct queue *q)
{
	while (q->leases) {
		struct lease *l = *(struct lease **)q->leases;

		lease_drop(q, l);
	}
	for (int i = 0; i < q->nbatches; i++) {
		batch_close(&q->batches[i]->batch);
		pthread_mutex_destroy(&q->batches[i]->batch.lock);
		for (int k = 0; k < q->batches[i]->nbays; k++)
			free(q->batches[i]->bays[k].sealed);
		free(q->batches[i]->bays);
		free(q->batches[i]);
	}
	free(q->batches);
	for (int i = 0; i < TIERS_MAX; i++)
		free(q->picks[i].serials);
	free(q->waits);
	free(q->events);
	free(q->nodes);
	watch_free(&q->watch);
	index_close(q->index);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	history_say(&q->disk, "stop");
	history_close(q->disk.history);
	disk_close(&q->disk);
	pthread_mutex_destroy(&q->lock);
	pthread_mutex_destroy(&q->watch_lock);
	pthread_mutex_destroy(&q->refresh_lock);
	pthread_mutex_destroy(&q->sync_lock);
	pthread_cond_destroy(&q->settled);
	pthread_cond_destroy(&q->synced);
	free(q);
}

/* Where what others do is seen late, nobody is judged before it must have been seen. */
static void
allow_for_caches(struct queue *q)
{
	struct storage s;

	storage_look(&q->disk, &s);
	watch_allow(&q->watch, s.times_ms, s.names_ms);
	if (s.times_ms || s.names_ms)
		log_info("%s: times may be %.1f s old and listings %.1f s (%s): daemons are judged so "
			 "much later", q->path, (double)s.times_ms / 1000, (double)s.names_ms / 1000,
			 s.type);
}

struct queue *
queue_open(const char *path, const struct queue_options *options, struct now now,
	   struct err *err)
{
	struct disk disk;

	if (disk_open(&disk, path, err))
		return NULL;
	const char *dir = getenv("RASER_HISTORY");
	if (dir && *dir) {
		disk.history = history_open(dir, now.boot_ms, err);
		if (!disk.history) {
			disk_close(&disk);
			return NULL;
		}
	}
	return queue_open_disk(disk, path, options, now, err);
}

struct queue *
queue_open_disk(struct disk disk, const char *path, const struct queue_options *options,
		struct now now, struct err *err)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q) {
		history_close(disk.history);
		disk_close(&disk);
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	q->disk = disk;
	q->now = now;
	pthread_mutex_init(&q->lock, NULL);
	pthread_mutex_init(&q->watch_lock, NULL);
	pthread_mutex_init(&q->refresh_lock, NULL);
	pthread_mutex_init(&q->sync_lock, NULL);
	pthread_cond_init(&q->settled, NULL);
	pthread_cond_init(&q->synced, NULL);
	snprintf(q->path, sizeof(q->path), "%s", path);
	const char *tmp = options->tmp ? options->tmp : getenv("TMPDIR");
	snprintf(q->tmp, sizeof(q->tmp), "%s", tmp && *tmp ? tmp : "/tmp");
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	q->index = index_open();
	q->events = calloc(EVENTS, sizeof(*q->events));
	if (q->wake_fd < 0 || !q->index || !q->events) {
		err_set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	if (read_format(q, err) || conf_read(&q->disk, path, &q->conf, err))
		goto fail;
	if (options->admit &&
	    selftest_admit(&q->disk, path, conf_beat_ms(&q->conf), q->conf.force, err))
		goto fail;
	history_say(&q->disk, "run\t%s\t%lld", q->uuid, (long long)q->conf.steal_after_ms);
	watch_init(&q->watch, &q->disk, q->uuid, conf_beat_ms(&q->conf));
	allow_for_caches(q);
	q->last_beat = now.boot_ms;
	q->kind = options->as;
	if (options->join) {
		int rc = node_join(&q->node, &q->disk, q->kind, now.wall_s);

		if (rc) {
			err_set(err, rc, "%s/nodes: this daemon cannot say that it lives: %s", path,
				strerror(-rc));
			goto fail;
		}
		q->joined = true;
		beat_said(q);
		/* its own name first, and then it looks for the other's: seal.h */
		if (q->kind != OWNER_SEALER && sealer_wait(q, err))
			goto fail;
	} else {
		/* a hand, which holds nothing and needs no beat */
		memcpy(q->node.owner, "hand.", 5);
		random_text(q->node.owner + 5, 12);
	}
	/* links as well as batches: who mounts a run sees it as it is. Texts of ends come after */
	int64_t rc = queue_refresh(q, now, 0, 1);
	if (rc < 0 && !(rc == -EBADMSG && options->damaged)) {
		err_set(err, (int)rc, "%s cannot be read: %s", path, strerror((int)-rc));
		goto fail;
	}
	pthread_mutex_lock(&q->lock);
	deadline_open(q, options->until, options->since, now);
	pthread_mutex_unlock(&q->lock);
	return q;
fail:
	if (q->joined)
		node_leave(&q->node);
	queue_free(q);
	return NULL;
}

struct own {
	struct grant *all;
	size_t n, cap;
};

static void
on_own(struct queue *q, struct lease *l, void *arg)
{
	struct own *own = arg;

	(void)q;
	if (l->phase != PHASE_HELD)
		return;
	if (own->n == own->cap) {
		size_t cap = own->cap ? own->cap * 2 : 64;
		struct grant *grown = realloc(own->all, cap * sizeof(*grown));

		if (!grown)
			return;
		own->all = grown;
		own->cap = cap;
	}
	own->all[own->n++] = (struct grant){ .serial = l->serial, .attempt = l->attempt };
}

void
queue_close(struct queue *q, struct now now)
{
	struct own own = { 0 };

	pthread_mutex_lock(&q->lock);
	q->leaving = true;
	lease_each(q, on_own, &own);
	pthread_mutex_unlock(&q->lock);
	/* one try each: what the storage refuses now ends as lost by the others */
	atomic_store(&q->disk.stopping, true);
	for (size_t i = 0; i < own.n; i++)
		queue_end(q, own.all[i].serial, own.all[i].attempt, END_FREED, WHY_RESTART, NULL,
			  now);
	free(own.all);
	if (q->joined && !q->beat_failing)
		digests_write(q);
	if (q->joined)
		node_leave(&q->node);
	queue_free(q);
}

const struct conf *
queue_conf(const struct queue *q)
{
	return &q->conf;
}

const char *
queue_path(const struct queue *q)
{
	return q->path;
}

const char *
queue_uuid(const struct queue *q)
{
	return q->uuid;
}

void
queue_owner(struct queue *q, char owner[OWNER_TEXT])
{
	pthread_mutex_lock(&q->lock);
	memcpy(owner, q->node.owner, OWNER_TEXT);
	pthread_mutex_unlock(&q->lock);
}

/* ---- waking ---- */

int
queue_wake_fd(const struct queue *q)
{
	return q->wake_fd;
}

void
queue_woken(struct queue *q)
{
	uint64_t n;
	ssize_t got = read(q->wake_fd, &n, sizeof(n));

	(void)got; /* nothing there is fine */
}

int64_t
ready_count(struct queue *q, int tier)
{
	if (q->leaving || !q->joined || q->must_beat || q->look_around || q->pause_until || q->probing ||
	    disk_is_away(&q->disk))
		return 0;
	return index_ready(q->index, conf_levels(&q->conf, tier));
}

static void
wake(struct queue *q)
{
	uint64_t one = 1;
	ssize_t put = write(q->wake_fd, &one, sizeof(one));

	(void)put; /* full means that it is awake already */
}

void
tick_by(struct queue *q, int64_t boot_ms)
{
	if (boot_ms >= q->tick_at)
		return;
	q->tick_at = boot_ms;
	wake(q);
}

int64_t
queue_tick_at(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	int64_t at = q->tick_at;
	pthread_mutex_unlock(&q->lock);
	return at;
}

void
queue_notify(struct queue *q)
{
	bool news = false;

	for (int i = 0; i < q->conf.ntiers; i++) {
		int64_t ready = ready_count(q, i);
		int why = exhausted(q, i);

		if (ready > q->last_ready[i] || (why && why != q->last_exhausted[i])) {
			q->generation[i]++;
			news = true;
		}
		q->last_ready[i] = ready;
		q->last_exhausted[i] = why;
	}
	if (news)
		wake(q);
}

void
queue_event(struct queue *q, const char *fmt, ...)
{
	struct event *e = &q->events[q->event_count % EVENTS];
	va_list args;

	e->number = ++q->event_count;
	int n = snprintf(e->text, sizeof(e->text), "%lld ", (long long)q->now.wall_s);
	va_start(args, fmt);
	vsnprintf(e->text + n, sizeof(e->text) - (size_t)n, fmt, args);
	va_end(args);
}

void
told(struct queue *q, int64_t serial, unsigned attempt, const char *what, int rc, struct now now)
{
	struct task t;

	if (!q->disk.history || index_get(q->index, serial, &t))
		return;
	const struct lease *l = lease_find(q, serial, attempt);
	history_say(&q->disk, "told\t%s\t%u\t%s\t%d\t%s\t%llu\t%lld", t.name, attempt, what, rc,
		    l ? l->owner : "-", l ? (unsigned long long)l->seq : 0, (long long)now.boot_ms);
}

int
hand_told(struct queue *q, const char *what, int64_t serial, unsigned attempt, int rc)
{
	struct task t;

	if (q->disk.history && !queue_get(q, serial, &t))
		history_say(&q->disk, "hand\t%s\t%s\t%u\t%d", what, t.name, attempt, rc);
	return rc;
}

/* ---- places ---- */

bool
place_of(struct queue *q, int64_t serial, struct place *p)
{
	int low = 0;
	int high = q->nbatches - 1;

	while (low < high) {
		int mid = (low + high + 1) / 2;

		if (q->batches[mid]->batch.base <= serial)
			low = mid;
		else
			high = mid - 1;
	}
	if (high < 0)
		return false;
	p->entry = q->batches[low];
	p->line = serial - p->entry->batch.base + 1;
	if (p->line < 1 || p->line > p->entry->batch.lines)
		return false;
	p->bay = (int)((p->line - 1) / BAY_TASKS);
	return true;
}

void
place_bay(const struct place *p, char out[DISK_PATH])
{
	bay_path(out, p->entry->batch.random, p->bay);
}

bool
queue_bay(struct queue *q, int64_t serial, char out[DISK_PATH])
{
	struct place p;

	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, serial, &p);
	pthread_mutex_unlock(&q->lock);
	if (there)
		place_bay(&p, out);
	return there;
}

void
task_store(struct queue *q, const struct task *t)
{
	struct task old;
	struct place p;

	if (index_get(q->index, t->serial, &old))
		return;
	if (place_of(q, t->serial, &p)) {
		struct bay *b = &p.entry->bays[p.bay];

		b->done += (t->state == TASK_DONE) - (old.state == TASK_DONE);
		b->over += is_over(t->state) - is_over(old.state);
		b->unread += (t->state == TASK_UNREAD) - (old.state == TASK_UNREAD);
		/* who only looks writes nothing */
		if (q->joined && b->over == b->tasks && !b->digest && !b->digest_due) {
			b->digest_due = true;
			q->digests_due++;
		}
	}
	if (t->counts.level > t->base && old.counts.level <= old.base)
		q->stats.elevated++;
	if (t->state == TASK_PENDING && !t->waits && (old.state != TASK_PENDING || old.waits))
		q->pending_epoch++;
	index_set(q->index, t);
	deadline_mind(q, t);
	queue_notify(q);
}

/* ---- looking ---- */

int
queue_find(struct queue *q, const char *name, struct task *t)
{
	pthread_mutex_lock(&q->lock);
	int rc = index_find(q->index, name, t);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int
queue_get(struct queue *q, int64_t serial, struct task *t)
{
	pthread_mutex_lock(&q->lock);
	int rc = index_get(q->index, serial, t);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

void
queue_list(struct queue *q, int view, int64_t after, index_fn *fn, void *arg)
{
	pthread_mutex_lock(&q->lock);
	if (view >= VIEW_TIER)
		index_list_pending(q->index, conf_levels(&q->conf, view - VIEW_TIER), after, fn, arg);
	else
		index_list(q->index, view, after, fn, arg);
	pthread_mutex_unlock(&q->lock);
}

bool
queue_has_unread(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	bool yes = index_count(q->index, TASK_UNREAD, LEVELS_ALL) > 0;
	pthread_mutex_unlock(&q->lock);
	return yes;
}

int64_t
queue_ready(struct queue *q, int tier)
{
	pthread_mutex_lock(&q->lock);
	int64_t n = ready_count(q, tier);
	pthread_mutex_unlock(&q->lock);
	return n;
}

uint64_t
queue_generation(struct queue *q, int tier)
{
	uint64_t n = 0;

	pthread_mutex_lock(&q->lock);
	for (int i = 0; i < q->conf.ntiers; i++)
		n += tier < 0 || tier == i ? q->generation[i] : 0;
	pthread_mutex_unlock(&q->lock);
	return n;
}

void
queue_evidence(struct queue *q, int64_t serial, char *text, size_t size)
{
	pthread_mutex_lock(&q->lock);
	index_evidence(q->index, serial, text, size);
	pthread_mutex_unlock(&q->lock);
}

int
queue_lease(struct queue *q, int64_t serial, unsigned attempt, struct lease_info *info)
{
	struct task t;
	int rc = -ENOENT;

	pthread_mutex_lock(&q->lock);
	const struct lease *l = lease_find(q, serial, attempt);
	if (l)
		rc = l->phase == PHASE_OVER && !l->outcome ? -ESTALE : 0;
	else if (!index_get(q->index, serial, &t) &&
		 (attempt < t.attempt || (attempt == t.attempt && t.state != TASK_PENDING)))
		rc = -ESTALE;
	if (!rc) {
		*info = (struct lease_info){ .serial = serial, .attempt = attempt, .tier = l->tier,
					     .since = l->since_wall, .touched = l->touched_wall,
					     .parked_until = l->parked_until, .pid = l->by.pid,
					     .mine = l->phase != PHASE_FOREIGN,
					     .over = l->phase == PHASE_OVER };
		memcpy(info->owner, l->owner, sizeof(info->owner));
		memcpy(info->comm, l->by.comm, sizeof(info->comm));
		memcpy(info->note, l->note, sizeof(info->note));
		for (size_t i = 0; !info->mine && i < q->nnodes; i++)
			if (!strcmp(q->nodes[i].owner, l->owner))
				info->touched = q->nodes[i].beat;
		if (info->touched < info->since)
			info->touched = info->since;
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

bool
queue_is_held(struct queue *q, int64_t serial, unsigned attempt)
{
	pthread_mutex_lock(&q->lock);
	const struct lease *l = lease_find(q, serial, attempt);
	bool held = l && (l->phase == PHASE_HELD || l->phase == PHASE_ENDING);
	pthread_mutex_unlock(&q->lock);
	return held;
}

int64_t
queue_held(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	int64_t n = q->held;
	pthread_mutex_unlock(&q->lock);
	return n;
}

/* Batches whose files stay open are few: each costs a descriptor. */
static void
close_oldest(struct queue *q, struct batch_entry *used)
{
	struct batch_entry *old = NULL;

	pthread_mutex_lock(&q->lock);
	size_t i = 0;
	while (i < OPEN_BATCHES && q->open_batches[i] && q->open_batches[i] != used)
		i++;
	if (i == OPEN_BATCHES) /* none of these: the one used longest ago gives way */
		old = q->open_batches[--i];
	memmove(q->open_batches + 1, q->open_batches, i * sizeof(struct batch_entry *));
	q->open_batches[0] = used;
	pthread_mutex_unlock(&q->lock);
	if (old)
		batch_close(&old->batch);
}

void
batches_close(struct queue *q)
{
	struct batch_entry *open[OPEN_BATCHES];

	pthread_mutex_lock(&q->lock);
	memcpy(open, q->open_batches, sizeof(open));
	memset(q->open_batches, 0, sizeof(q->open_batches));
	pthread_mutex_unlock(&q->lock);
	for (int i = 0; i < OPEN_BATCHES && open[i]; i++)
		batch_close(&open[i]->batch);
}

int
queue_payload(struct queue *q, int64_t serial, char **body, size_t *size)
{
	struct place p;

	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, serial, &p);
	pthread_mutex_unlock(&q->lock);
	if (!there)
		return -ENOENT;
	int rc = batch_payload(&p.entry->batch, &q->disk, p.line, body, size);
	close_oldest(q, p.entry);
	return rc;
}

void
queue_origin(struct queue *q, int64_t serial, char *who, size_t size, int64_t *wall)
{
	struct place p;

	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, serial, &p);
	snprintf(who, size, "%s", there ? p.entry->batch.submitter : "");
	*wall = there ? p.entry->batch.submitted : 0;
	pthread_mutex_unlock(&q->lock);
}

void
queue_leave(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->leaving = true;
	pthread_mutex_unlock(&q->lock);
}

/* ---- telling ---- */

void
queue_stats(struct queue *q, struct queue_stats *s)
{
	pthread_mutex_lock(&q->lock);
	*s = q->stats;
	for (int i = 0; i < TASK_STATES; i++)
		s->count[i] = index_count(q->index, (enum task_state)i, LEVELS_ALL);
	memcpy(s->held, q->held_by_tier, sizeof(s->held));
	for (int i = 0; i < TIERS_MAX; i++)
		s->waiting[i] = q->waiting[i];
	s->batches = q->nbatches;
	s->paused = q->pause_ms != 0;
	s->until = q->until;
	s->too_long = index_long(q->index, TASK_PENDING, LEVELS_ALL);
	disk_state(&q->disk, disk_now(&q->disk), &s->storage);
	for (int i = 0; i < DISK_CALLS; i++)
		s->calls[i] = atomic_load_explicit(&q->disk.calls[i], memory_order_relaxed);
	pthread_mutex_unlock(&q->lock);
}

void
queue_storage(struct queue *q, struct disk_state *state)
{
	disk_state(&q->disk, disk_now(&q->disk), state);
}

uint64_t
queue_events(struct queue *q, uint64_t after, FILE *out)
{
	pthread_mutex_lock(&q->lock);
	uint64_t last = q->event_count;
	uint64_t first = last > EVENTS ? last - EVENTS + 1 : 1;
	for (uint64_t i = after + 1 > first ? after + 1 : first; i <= last; i++)
		fprintf(out, "%llu %s\n", (unsigned long long)i,
			q->events[(i - 1) % EVENTS].text);
	pthread_mutex_unlock(&q->lock);
	return last;
}

size_t
queue_nodes(struct queue *q, struct node_line *lines, size_t max)
{
	pthread_mutex_lock(&q->lock);
	size_t n = q->nnodes < max ? q->nnodes : max;
	if (n)
		memcpy(lines, q->nodes, n * sizeof(*lines));
	pthread_mutex_unlock(&q->lock);
	return n;
}
