/*
 * discover.c - reading what others did: batches, bays, links. Listings are hints; what a fold
 * says is kept unless more is known already, so a stale view costs time and never a decision.
 */
#include <config.h>

#include "queue_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOAD_CHUNK = 2000, READ_CHUNK = 256 };

uint64_t
task_progress(const struct task *t)
{
	switch (t->state) {
	case TASK_PENDING:
		return t->attempt > 1 ? 2 * (uint64_t)(t->attempt - 1) + 1 : 0;
	case TASK_CLAIMED:
		return 2 * (uint64_t)t->attempt;
	default:
		return 2 * (uint64_t)t->attempt + 1;
	}
}

void
drop_foreign(struct queue *q, int64_t serial, unsigned attempt)
{
	struct lease *l = lease_find(q, serial, attempt);

	if (l && l->phase == PHASE_FOREIGN)
		lease_drop(q, l);
	else if (l && l->phase == PHASE_OVER)
		l->text[0] = '\0'; /* its claim stands no longer */
}

/* Somebody else ended an attempt that was ours, or holds its claim now. */
static void
lose(struct queue *q, struct lease *l, const struct task *t, const char *by, const char *why)
{
	queue_event(q, "%s@%u lost: ended by %s (%s)", t->name, l->attempt, by, why);
	log_info("task %s@%u: our claim was ended by %s (%s)", t->name, l->attempt, by, why);
	lease_over(q, l, 0);
	l->text[0] = '\0';
	/* or one wrong verdict would burn attempt after attempt */
	q->must_beat = true;
}

bool
apply_fold(struct queue *q, int64_t serial, unsigned link, bool is_end, const struct fold *f)
{
	struct task t;
	uint64_t step = 2 * (uint64_t)link + (is_end || f->state != TASK_CLAIMED);

	if (index_get(q->index, serial, &t))
		return false;
	if (step < task_progress(&t) || (step == task_progress(&t) && t.state != TASK_UNREAD))
		return false;
	for (unsigned k = t.attempt > 1 ? t.attempt - 1 : 1; k <= link; k++) {
		struct lease *l = lease_find(q, serial, k);

		if (!l || (k == link && f->state == TASK_CLAIMED))
			continue;
		if (l->phase == PHASE_ENDING || l->phase == PHASE_CLAIMING) {
			if (k == link)
				return false; /* its own read-back tells */
		} else if (l->phase == PHASE_HELD) {
			lose(q, l, &t, f->owner, reason_name(f->reason));
		}
		drop_foreign(q, serial, k);
	}
	if (f->state == TASK_CLAIMED) {
		struct lease *l = lease_find(q, serial, link);

		if (l && l->phase != PHASE_OVER)
			return false;
		bool was_ours = l;
		if (l)
			lease_drop(q, l);
		l = lease_add(q, serial, link, PHASE_FOREIGN);
		if (!l)
			return false;
		l->was_ours = was_ours;
		snprintf(l->owner, sizeof(l->owner), "%s", f->claim.owner);
		claim_format(&f->claim, l->text);
		l->since_wall = f->claim.time;
		l->since_boot = q->now.boot_ms;
		l->before = f->counts;
	}
	t.state = f->state;
	t.attempt = f->attempt;
	t.counts = f->counts;
	if (t.counts.level >= q->conf.ntiers) /* raser.ini has lost a tier */
		t.counts.level = conf_level(&q->conf, t.counts.level, 0);
	t.reason = f->reason;
	if (f->time)
		t.changed = f->time;
	t.waits = false;
	index_set_evidence(q->index, serial, ""); /* of an end before this one */
	task_store(q, &t);
	/* each observer counts its own time */
	if (f->state == TASK_PENDING && f->reason == WHY_NOT_ITS_FAULT)
		wait_add(q, &t, q->conf.retry_delay_ms, true, q->now);
	else
		breaker_elsewhere(q, &t, f->owner, q->now);
	return true;
}

int64_t
apply_over(struct queue *q, const struct bay_rows *rows, const struct fold *folds)
{
	enum { AT_ONCE = 64 }; /* nobody waits for the lock for long */
	int64_t changed = 0;

	for (int i = 0; i < rows->n;) {
		pthread_mutex_lock(&q->lock);
		index_begin(q->index);
		for (int end = i + AT_ONCE; i < end && i < rows->n; i++)
			if (folds[i].attempt)
				changed += apply_fold(q, rows->rows[i].task.serial, folds[i].attempt,
						      true, &folds[i]);
		index_commit(q->index);
		pthread_mutex_unlock(&q->lock);
	}
	return changed;
}

void
apply_found(struct queue *q, int64_t serial, unsigned attempt, const char *text)
{
	struct fold f = { .state = TASK_CLAIMED, .reason = WHY_NONE };
	struct task t;

	if (index_get(q->index, serial, &t))
		return;
	f.counts = t.counts; /* those before a claim of an agent */
	fold_link(attempt, LINK_CLAIM, text, &f);
	apply_fold(q, serial, attempt, false, &f);
}

bool
apply_after_cancelled(struct queue *q, int64_t serial, unsigned attempt, const struct fold *f)
{
	struct task t;
	const struct lease *l = lease_find(q, serial, attempt);

	if (l && (l->phase == PHASE_ENDING || l->phase == PHASE_CLAIMING))
		return false; /* what is in flight is answered first */
	if (f->state == TASK_CANCELLED || index_get(q->index, serial, &t) ||
	    t.state != TASK_CANCELLED || t.attempt != attempt)
		return true;
	t.state = TASK_UNREAD;
	task_store(q, &t);
	return apply_fold(q, serial, attempt, true, f);
}

/* ---- ends that nobody here has read ---- */

struct unread {
	struct task tasks[READ_CHUNK];
	int n;
};

static int
on_unread(void *arg, const struct task *t)
{
	struct unread *u = arg;

	u->tasks[u->n++] = *t;
	return u->n == READ_CHUNK;
}

/* A task of which a link was seen that is gone: start again with what the bay shows. */
static void
unread_gone(struct queue *q, const struct task *t)
{
	struct task now_t;

	pthread_mutex_lock(&q->lock);
	if (!index_get(q->index, t->serial, &now_t) && now_t.state == TASK_UNREAD &&
	    now_t.attempt == t->attempt) {
		struct sealed s;

		now_t.state = sealed_find(q, t->serial, &s) ? TASK_UNREAD : TASK_PENDING;
		now_t.attempt = now_t.state == TASK_UNREAD ? s.attempt : 1;
		task_store(q, &now_t);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Read at most max ends (0 = all). Returns how many were read. */
static int64_t
read_ends(struct queue *q, int max, struct now now)
{
	struct unread *u = malloc(sizeof(*u));
	int64_t after = 0;
	int64_t got = 0;

	if (!u)
		return -ENOMEM;
	while (!max || got < max) {
		u->n = 0;
		pthread_mutex_lock(&q->lock);
		if (!q->leaving)
			index_list(q->index, TASK_UNREAD, after, on_unread, u);
		pthread_mutex_unlock(&q->lock);
		for (int i = 0; i < u->n && (!max || got < max); i++) {
			const struct task *t = &u->tasks[i];
			struct place p;
			char bay[DISK_PATH];
			struct fold f;

			after = t->serial;
			pthread_mutex_lock(&q->lock);
			bool there = place_of(q, t->serial, &p);
			pthread_mutex_unlock(&q->lock);
			if (!there)
				continue;
			place_bay(&p, bay);
			int rc = fold_task(q, bay, t, t->attempt, true, &f);
			bool is_end = true;
			if (rc == -ENOENT) {
				is_end = false;
				rc = fold_task(q, bay, t, t->attempt, false, &f);
			}
			if (rc == -ENOENT) {
				/* deleted, or it lies in a seal by now */
				int64_t merged = bay_merge(q, p.entry, p.bay, now);

				got += merged > 0 ? merged : 0;
				unread_gone(q, t);
				continue;
			}
			if (rc) {
				free(u);
				return rc;
			}
			pthread_mutex_lock(&q->lock);
			struct task row;
			if (!is_end && !index_get(q->index, t->serial, &row) &&
			    row.state == TASK_UNREAD && row.attempt == t->attempt) {
				/* only the claim is left: the end was deleted */
				row.state = TASK_PENDING;
				task_store(q, &row);
			}
			got += apply_fold(q, t->serial, t->attempt, is_end, &f);
			pthread_mutex_unlock(&q->lock);
		}
		if (u->n < READ_CHUNK)
			break;
	}
	free(u);
	return got;
}

/* ---- batches ---- */

struct loading {
	struct queue *q;
	struct batch_entry *entry;
	struct task *tasks; /* LOAD_CHUNK of them */
	int n;
	int twice;
};

static int
on_task(void *arg, int64_t line, const struct task_spec *spec)
{
	struct loading *ld = arg;
	struct task t = { .serial = ld->entry->batch.base + line - 1, .attempt = 1,
			  .reason = WHY_NONE, .priority = spec->priority,
			  .expected = spec->expected, .max_failures = spec->max_failures,
			  .size = (int64_t)spec->size, .changed = ld->entry->batch.submitted };

	memcpy(t.name, spec->name, sizeof(t.name));
	t.base = t.counts.level = conf_base(&ld->q->conf, spec->tier, spec->memory);
	ld->tasks[ld->n++] = t;
	return 0;
}

/* Add a batch to the index, a chunk at a time so that nobody waits for the lock for long. What
 * is not done yet is gone on with at the next call. */
static int
load_tasks(struct queue *q, struct batch_entry *e)
{
	struct loading ld = { .q = q, .entry = e };
	int64_t line;
	int rc = 0;

	ld.tasks = malloc(LOAD_CHUNK * sizeof(*ld.tasks));
	if (!ld.tasks)
		return -ENOMEM;
	do {
		ld.n = 0;
		line = batch_tasks(&e->batch, &q->disk, e->loaded, LOAD_CHUNK, on_task, &ld);
		if (line < 0)
			break;
		pthread_mutex_lock(&q->lock);
		index_begin(q->index);
		for (int i = 0; i < ld.n && (!rc || rc == -EEXIST); i++) {
			rc = index_add(q->index, &ld.tasks[i]);
			ld.twice += rc == -EEXIST;
			if (!rc)
				deadline_mind(q, &ld.tasks[i]);
			if (!rc)
				e->bays[(ld.tasks[i].serial - e->batch.base) / BAY_TASKS].tasks++;
		}
		index_commit(q->index);
		q->pending_epoch++; /* what came may come first */
		if (!rc || rc == -EEXIST)
			e->loaded = line;
		pthread_mutex_unlock(&q->lock);
	} while (ld.n && (!rc || rc == -EEXIST));
	free(ld.tasks);
	if (ld.twice)
		log_warnx("batch %d holds %d tasks that an earlier batch has too; they are left out",
			  e->batch.number, ld.twice);
	if (line < 0)
		return (int)line;
	if (rc && rc != -EEXIST)
		return rc;
	pthread_mutex_lock(&q->lock);
	e->complete = true;
	pthread_mutex_unlock(&q->lock);
	return 0;
}

struct numbers {
	struct queue *q;
	int *fresh;
	size_t n, cap;
};

static int
on_batch(void *arg, const char *name)
{
	struct numbers *x = arg;
	char *end;
	long v = strtol(name, &end, 10);

	if (*end || v < 1 || v > INT_MAX || *name == '0')
		return 0;
	if (v <= x->q->last_batch) /* they are taken in their order */
		return 0;
	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 16;
		int *grown = realloc(x->fresh, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		x->fresh = grown;
		x->cap = cap;
	}
	x->fresh[x->n++] = (int)v;
	return 0;
}

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static int
load_one(struct queue *q, int number, struct err *err)
{
	char path[DISK_PATH];
	char text[128];
	char r[RANDOM_TEXT];

	snprintf(path, sizeof(path), "batches/%d", number);
	int rc = disk_readlink(&q->disk, path, text, sizeof(text));
	if (rc < 0)
		return err_set(err, rc, "%s: %s", path, strerror(-rc));
	if (sscanf(text, "b.%12[a-z2-7].sqlite", r) != 1 || strlen(text) != strlen(r) + 9)
		return err_set(err, -EINVAL, "%s -> %s: not the name of a batch", path, text);
	struct batch_entry *e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	rc = batch_open(&e->batch, &q->disk, number, r, err);
	if (rc) {
		free(e);
		return rc;
	}
	e->nbays = (int)((e->batch.lines + BAY_TASKS - 1) / BAY_TASKS);
	e->bays = calloc((size_t)e->nbays + 1, sizeof(*e->bays));
	pthread_mutex_lock(&q->lock);
	struct batch_entry **grown =
		e->bays ? realloc(q->batches, ((size_t)q->nbatches + 1) * sizeof(struct batch_entry *)) : NULL;
	if (!grown) {
		pthread_mutex_unlock(&q->lock);
		batch_close(&e->batch);
		free(e->bays);
		free(e);
		return -ENOMEM;
	}
	q->batches = grown;
	e->batch.base = q->serials + 1;
	q->serials += e->batch.lines;
	q->batches[q->nbatches++] = e;
	/* one that could not be read before may have been sealed before we came, and one that was
	 * made while we were taken for dead, before we came again */
	for (int i = 0; (q->missing || q->born) && i < e->nbays; i++)
		e->bays[i].unsure = true;
	pthread_mutex_unlock(&q->lock);
	rc = load_tasks(q, e);
	batch_close(&e->batch);
	pthread_mutex_lock(&q->lock);
	q->last_batch = number; /* its entry is resumed where it was cut off */
	queue_notify(q);
	pthread_mutex_unlock(&q->lock);
	log_info("batch %d: %lld tasks from %s", number, (long long)e->batch.lines,
		 e->batch.submitter);
	return rc;
}

/* A batch whose file somebody deleted, or that is none, will never be read: its tasks are lost,
 * and the others must not wait for it. Everything else may pass. */
static bool
is_lost(struct queue *q, int number, int rc)
{
	char path[DISK_PATH];
	char text[128];
	struct disk_stat st;

	if (rc == -EINVAL)
		return true;
	snprintf(path, sizeof(path), "batches/%d", number);
	if (disk_readlink(&q->disk, path, text, sizeof(text)) < 0)
		return false;
	snprintf(path, sizeof(path), "batches/%.60s", text);
	return disk_stat(&q->disk, path, &st) == -ENOENT;
}

static void
set_missing(struct queue *q, int n)
{
	pthread_mutex_lock(&q->lock);
	q->missing = n;
	pthread_mutex_unlock(&q->lock);
}

int
load_batches(struct queue *q, struct now now, struct err *err)
{
	struct numbers x = { .q = q };
	int loaded = 0;
	size_t i = 0;

	pthread_mutex_lock(&q->lock);
	q->now = now;
	struct batch_entry *cut = q->nbatches ? q->batches[q->nbatches - 1] : NULL;
	pthread_mutex_unlock(&q->lock);
	int rc = cut && !cut->complete ? load_tasks(q, cut) : 0;
	if (!rc)
		rc = disk_list(&q->disk, "batches", on_batch, &x);
	/* whoever published them may have died before its sync, and nothing may be built on a batch
	 * that a crash of the server can still take away */
	if (!rc && x.n) {
		rc = disk_sync(&q->disk, "batches");
		if (rc == -EROFS) /* then nothing can be built on it either */
			rc = 0;
	}
	if (rc) {
		set_missing(q, 1);
		free(x.fresh);
		return err_set(err, rc, "batches: %s", strerror(-rc));
	}
	if (x.n)
		qsort(x.fresh, x.n, sizeof(*x.fresh), by_number);
	for (; i < x.n; i++) {
		struct err why = { 0 };

		rc = load_one(q, x.fresh[i], &why);
		if (!rc) {
			loaded++;
			continue;
		}
		if (!is_lost(q, x.fresh[i], rc)) {
			log_warnx("batch %d cannot be read now, and those behind it wait: %s",
				  x.fresh[i], why.text[0] ? why.text : strerror(-rc));
			break;
		}
		log_warnx("batch %d is lost, and so are its tasks: %s", x.fresh[i], why.text);
		pthread_mutex_lock(&q->lock);
		q->last_batch = x.fresh[i];
		pthread_mutex_unlock(&q->lock);
	}
	set_missing(q, (int)(x.n - i));
	free(x.fresh);
	return loaded;
}

/* ---- refresh ---- */

static int
on_bay_dir(void *arg, const char *name)
{
	struct queue *q = arg;
	char r[RANDOM_TEXT];
	int bay;

	if (sscanf(name, "%12[a-z2-7].%d", r, &bay) != 2 || bay < 0)
		return 0;
	pthread_mutex_lock(&q->lock);
	for (int i = 0; i < q->nbatches; i++)
		if (!strcmp(q->batches[i]->batch.random, r)) {
			if (bay < q->batches[i]->nbays)
				q->batches[i]->bays[bay].exists = true;
			break;
		}
	pthread_mutex_unlock(&q->lock);
	return 0;
}

/* A bay that must be listed: it exists, and not all of its tasks are known to be done. */
static bool
is_open(const struct batch_entry *e, int bay)
{
	return e->bays[bay].exists && e->bays[bay].done < e->bays[bay].tasks;
}

/* The next bay to list at or behind (batch, bay); false at the end of all. */
static bool
next_open(struct queue *q, int *batch, int *bay)
{
	pthread_mutex_lock(&q->lock);
	bool found = false;
	/* who leaves goes on with nothing long */
	for (; !q->leaving && *batch < q->nbatches && !found; (*batch)++, *bay = 0) {
		const struct batch_entry *e = q->batches[*batch];

		while (*bay < e->nbays && !is_open(e, *bay))
			(*bay)++;
		found = *bay < e->nbays;
		if (found)
			break;
	}
	pthread_mutex_unlock(&q->lock);
	return found;
}

/* One of the bays whose tasks are all done, in turn: somebody may have deleted ends there. */
static void
check_done_bay(struct queue *q, struct now now)
{
	struct place p;

	pthread_mutex_lock(&q->lock);
	bool there = place_of(q, q->refresh_done + 1, &p);
	if (!there) {
		q->refresh_done = 0;
		there = place_of(q, 1, &p);
	}
	if (there)
		q->refresh_done = p.bay + 1 >= p.entry->nbays ?
					  p.entry->batch.base + p.entry->batch.lines - 1 :
					  p.entry->batch.base + (int64_t)(p.bay + 1) * BAY_TASKS - 1;
	there = there && p.entry->bays[p.bay].exists && !is_open(p.entry, p.bay);
	pthread_mutex_unlock(&q->lock);
	if (there)
		bay_merge(q, p.entry, p.bay, now);
}

int64_t
queue_refresh(struct queue *q, struct now now, int bays, int reads)
{
	int64_t changed;
	int batch = 0;
	int bay = 0;

	pthread_mutex_lock(&q->refresh_lock);
	pthread_mutex_lock(&q->lock);
	bool fresh = !bays && q->full_pass > now.boot_ms;
	pthread_mutex_unlock(&q->lock);
	if (fresh) {
		/* one that began after we asked has just ended */
		pthread_mutex_unlock(&q->refresh_lock);
		return 0;
	}
	int rc = load_batches(q, now, NULL);
	changed = rc > 0 ? 1 : 0;
	if (rc >= 0)
		rc = disk_list(&q->disk, "chain", on_bay_dir, q);
	if (bays) {
		batch = q->refresh_batch;
		bay = q->refresh_bay;
	}
	int64_t merged = 0;
	int64_t trouble = 0; /* of a bay; the others do not wait for it */
	for (int n = 0; rc >= 0 && (!bays || n < bays); n++) {
		if (!next_open(q, &batch, &bay)) {
			batch = bay = 0; /* from the start again, at the next call */
			break;
		}
		merged = bay_merge(q, q->batches[batch], bay, now);
		if (merged < 0)
			trouble = merged;
		else
			changed += merged;
		bay++;
	}
	if (bays) {
		q->refresh_batch = batch;
		q->refresh_bay = bay;
	}
	if (rc >= 0)
		check_done_bay(q, now);
	int64_t got = rc < 0 ? 0 : read_ends(q, reads, now);
	if (rc >= 0)
		digests_write(q);
	int64_t out = rc < 0 ? rc : trouble ? trouble : got < 0 ? got : changed + got;
	pthread_mutex_lock(&q->lock);
	if (out >= 0 && !bays && !q->missing && !q->leaving)
		q->full_pass = now.boot_ms;
	queue_notify(q);
	pthread_mutex_unlock(&q->lock);
	pthread_mutex_unlock(&q->refresh_lock);
	return out;
}
