/*
 * bay.c - the bays of the chain: 1,024 tasks each, read by a digest, a listing and a seal, in that
 * order, and by the texts of links where they are needed at once.
 */
#include <config.h>

#include "seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct listing {
	struct bay_rows r;
	int64_t last; /* serial behind the bay's last task */
	bool digest;  /* one is there */
	struct seal_numbers seals;
};

static int
on_row(void *arg, const struct task *t)
{
	struct listing *l = arg;

	if (t->serial >= l->last || l->r.n == BAY_TASKS)
		return 1;
	l->r.rows[l->r.n++] = (struct row){ .task = *t };
	return 0;
}

int
bay_rows(struct queue *q, const struct place *p, struct bay_rows *rows)
{
	int64_t first = p->entry->batch.base + (int64_t)p->bay * BAY_TASKS;
	int64_t end = p->entry->batch.base + p->entry->batch.lines;
	struct listing l = { .last = first + BAY_TASKS < end ? first + BAY_TASKS : end };

	l.r.rows = malloc(BAY_TASKS * sizeof(*l.r.rows));
	if (l.r.rows) {
		pthread_mutex_lock(&q->lock);
		l.r.whole = p->entry->complete;
		index_list(q->index, VIEW_ALL, first - 1, on_row, &l);
		pthread_mutex_unlock(&q->lock);
	}
	*rows = l.r;
	return l.r.rows ? 0 : -ENOMEM;
}

static int
on_link(void *arg, const char *file)
{
	struct listing *l = arg;
	enum link_kind kind;
	unsigned k;
	size_t len;

	l->digest |= !strcmp(file, "digest");
	if (seal_name(&l->seals, file) || !link_parse(file, &len, &k, &kind))
		return 0;
	struct row *row = row_find(&l->r, file, len);
	if (!row)
		return 0; /* of no task here: `raser fsck` tells */
	unsigned *highest = kind == LINK_END ? &row->end : &row->claim;
	if (k > *highest)
		*highest = k;
	return 0;
}

/* A claim of somebody else that is no longer there: someone deleted it, or the listing is
 * stale, and then the next create finds it again. */
static bool
forget_claim(struct queue *q, const struct row *row, struct task *t)
{
	unsigned link = row->claim > row->end ? row->claim : row->end;

	if (t->state != TASK_CLAIMED || link >= t->attempt)
		return false;
	struct lease *l = lease_find(q, t->serial, t->attempt);
	if (l && l->phase != PHASE_FOREIGN && l->phase != PHASE_OVER)
		return false;
	drop_foreign(q, t->serial, t->attempt);
	/* what is below tells: a claim again, or an end, which may not allow another claim */
	t->state = link ? TASK_UNREAD : TASK_PENDING;
	t->attempt = link ? link : 1;
	task_store(q, t);
	return true;
}

int
fold_task(struct queue *q, const char *bay, const struct task *t, unsigned link, bool is_end,
	  struct fold *f)
{
	struct sealed under;

	pthread_mutex_lock(&q->lock);
	sealed_find(q, t->serial, &under);
	pthread_mutex_unlock(&q->lock);
	return chain_fold_sealed(&q->disk, bay, t->name, link, is_end, t->base, &under, f);
}

/* Fold one task whose highest link is known and apply it. */
static bool
fold_one(struct queue *q, const char *bay, const struct task *t, unsigned link, bool is_end)
{
	struct fold f;
	int rc = fold_task(q, bay, t, link, is_end, &f);

	if (rc) {
		if (rc != -ENOENT)
			log_warnx("task %s: its links cannot be read: %s", t->name, strerror(-rc));
		return false;
	}
	pthread_mutex_lock(&q->lock);
	bool changed = apply_fold(q, t->serial, link, is_end, &f);
	pthread_mutex_unlock(&q->lock);
	return changed;
}

/* The digest of a bay that is looked at for the first time; true when nothing is left to list. */
static bool
look_first(struct queue *q, const struct place *p, int64_t *changed)
{
	struct bay *b = &p->entry->bays[p->bay];

	pthread_mutex_lock(&q->lock);
	bool first = !b->looked && b->done < b->tasks;
	b->looked = true;
	pthread_mutex_unlock(&q->lock);
	if (!first)
		return false;
	int64_t got = digest_read(q, p);
	*changed += got > 0 ? got : 0;
	pthread_mutex_lock(&q->lock);
	bool done = b->done == b->tasks;
	pthread_mutex_unlock(&q->lock);
	return done;
}

/* What a listing has seen, when it has seen a digest: it tells of the ends that were not read. */
static int64_t
look_digest(struct queue *q, const struct place *p)
{
	struct bay *b = &p->entry->bays[p->bay];

	pthread_mutex_lock(&q->lock);
	bool wanted = b->unread > 0;
	b->digest = true;
	pthread_mutex_unlock(&q->lock);
	int64_t got = wanted ? digest_read(q, p) : 0;
	return got > 0 ? got : 0;
}

/* A torn seal still has its links beside it; a damaged one may be all that there was. */
static int
check_damaged(struct queue *q, const struct place *p, const struct bay_rows *rows)
{
	int missing = 0;

	pthread_mutex_lock(&q->lock);
	for (int i = 0; i < rows->n; i++) {
		const struct row *row = &rows->rows[i];
		struct task t;

		missing += !row->claim && !row->end && !index_get(q->index, row->task.serial, &t) &&
			   !is_over(t.state);
	}
	pthread_mutex_unlock(&q->lock);
	if (!missing)
		return 0;
	log_warnx("chain/%s.%d: its seal is damaged, and %d tasks have no links beside it",
		  p->entry->batch.random, p->bay, missing);
	return -EBADMSG;
}

/* The seals that a listing has seen, and what they say of its tasks as if it were links. How many
 * tasks changed, or an errno. */
static int64_t
look_seals(struct queue *q, const struct place *p, struct listing *l)
{
	const struct bay *b = &p->entry->bays[p->bay];
	int64_t changed = 0;

	pthread_mutex_lock(&q->lock);
	bool news = l->seals.count && l->seals.n[0] > b->seal && b->done < b->tasks;
	pthread_mutex_unlock(&q->lock);
	if (news)
		changed = seal_take(q, p, &l->seals, &l->r);
	if (changed == -EBADMSG)
		changed = check_damaged(q, p, &l->r);
	pthread_mutex_lock(&q->lock);
	for (int i = 0; b->sealed && i < l->r.n; i++) {
		struct row *row = &l->r.rows[i];
		struct sealed s;

		/* links above it decide */
		row->sealed = sealed_find(q, row->task.serial, &s) && s.attempt >= row->claim &&
			      s.attempt >= row->end;
		if (row->sealed)
			row->end = s.attempt;
	}
	pthread_mutex_unlock(&q->lock);
	return changed;
}

/* List a bay, and take over its seals. As bay_merge(). */
static int64_t
look_listing(struct queue *q, const struct place *p, struct listing *l)
{
	enum { TRIES = 4 };
	char path[DISK_PATH];
	int64_t rc = -ENOENT;

	place_bay(p, path);
	int64_t looking = seal_looking(q);
	/* a seal may be replaced by the next one while it is being looked for */
	for (int i = 0; i < TRIES && rc == -ENOENT; i++) {
		free(l->r.rows);
		*l = (struct listing){ 0 };
		rc = bay_rows(q, p, &l->r);
		if (rc)
			return rc;
		rows_sort(&l->r);
		rc = disk_list(&q->disk, path, on_link, l);
		if (rc == -ENOENT)
			return 0; /* nothing there */
		if (!rc)
			rc = look_seals(q, p, l);
	}
	if (rc >= 0 && (l->r.whole || !l->seals.count))
		seal_looked(q, &p->entry->bays[p->bay], looking);
	return rc;
}

static uint64_t
row_hash(const struct row *row, unsigned attempt)
{
	return ((uint64_t)row->task.serial << 18 | attempt) * 0x9e3779b97f4a7c15;
}

/* A claim without its end that is known to be over: a verb that is its own end, and then it is of
 * no interest; or somebody has deleted the end, or the listing lies, and then the create that
 * follows finds it. */
static bool
look_endless(struct queue *q, const struct listing *l, struct now now)
{
	bool settled = true;

	for (int i = 0; i < l->r.n; i++)
		if (l->r.rows[i].endless)
			settled &= restore_end(q, l->r.rows[i].task.serial, l->r.rows[i].claim, now);
	return settled;
}

/* A task that is known to be cancelled, perhaps by a claim that is its own end, or by a digest that
 * knew no better; and now there is an end, or a seal that tells of one. It may be that of an agent
 * whose claim the storage had lost (close_cancelled()), and then it counts. */
static bool
look_cancelled(struct queue *q, const struct place *p, const struct listing *l)
{
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	bool read = true;

	place_bay(p, bay);
	for (int i = 0; i < l->r.n; i++) {
		const struct row *row = &l->r.rows[i];
		struct fold f = { .state = TASK_CANCELLED };
		struct sealed s;

		if (!row->cancelled)
			continue;
		link_path(path, bay, row->task.name, row->end, LINK_END);
		/* also what was listed and is not there: a client may remember that */
		int rc = row->sealed ? 0 : chain_read(&q->disk, path, text);
		read &= !rc;
		pthread_mutex_lock(&q->lock);
		if (!row->sealed && !rc)
			found_end(text, row->end, &row->task.counts, &f);
		else if (!rc && sealed_find(q, row->task.serial, &s) && s.attempt == row->end)
			fold_sealed(&s, &f);
		read &= apply_after_cancelled(q, row->task.serial, row->end, &f);
		pthread_mutex_unlock(&q->lock);
	}
	return read;
}

/* Links that are not what they should be, by what is known. Those that a bay has are read once, and
 * again when they are others. */
static void
look_odd(struct queue *q, const struct place *p, const struct listing *l, struct now now)
{
	struct bay *b = &p->entry->bays[p->bay];
	uint64_t endless = 0;
	uint64_t cancelled = 0;

	for (int i = 0; i < l->r.n; i++) {
		const struct row *row = &l->r.rows[i];

		endless += row->endless ? row_hash(row, row->claim) : 0;
		cancelled += row->cancelled ? row_hash(row, row->end) : 0;
	}
	pthread_mutex_lock(&q->lock);
	bool same_endless = endless == b->endless;
	bool same_cancelled = cancelled == b->cancelled;
	pthread_mutex_unlock(&q->lock);
	if (same_endless && same_cancelled)
		return;
	if (!same_endless && !look_endless(q, l, now))
		endless = 0;
	if (!same_cancelled && !look_cancelled(q, p, l))
		cancelled = 0;
	pthread_mutex_lock(&q->lock);
	b->endless = endless;
	b->cancelled = cancelled;
	pthread_mutex_unlock(&q->lock);
}

int64_t
bay_merge(struct queue *q, struct batch_entry *entry, int bay, struct now now)
{
	struct place p = { .entry = entry, .bay = bay };
	char path[DISK_PATH];
	struct listing l = { 0 };
	int64_t changed = 0;

	if (look_first(q, &p, &changed))
		return changed;
	int64_t taken = look_listing(q, &p, &l);
	if (taken < 0) {
		free(l.r.rows);
		return taken;
	}
	changed += taken;
	place_bay(&p, path);
	for (int i = 0; i < l.r.n; i++) {
		struct row *row = &l.r.rows[i];
		bool is_end = row->end >= row->claim;
		unsigned link = is_end ? row->end : row->claim;
		struct task t;

		pthread_mutex_lock(&q->lock);
		q->now = now;
		if (index_get(q->index, row->task.serial, &t)) {
			pthread_mutex_unlock(&q->lock);
			continue;
		}
		uint64_t known = task_progress(&t);
		uint64_t step = 2 * (uint64_t)link + is_end;
		bool news = link && step > known;
		struct lease *lease = lease_find(q, t.serial, t.attempt);
		bool ours = lease && lease->phase == PHASE_HELD;
		if (!news && forget_claim(q, row, &t))
			changed++;
		if (news && is_end && !ours) {
			/* its text is read by whoever needs it, or in the background */
			for (unsigned k = t.attempt > 1 ? t.attempt - 1 : 1; k <= link; k++)
				drop_foreign(q, t.serial, k);
			lease = lease_find(q, t.serial, link);
			if (!lease || lease->phase == PHASE_OVER) {
				t.state = TASK_UNREAD;
				t.attempt = link;
				task_store(q, &t);
				changed++;
			}
			news = false;
		}
		row->endless = !news && !is_end && link && known > 2 * (uint64_t)link;
		row->cancelled = step == known && is_end && t.state == TASK_CANCELLED;
		pthread_mutex_unlock(&q->lock);
		if (news)
			changed += fold_one(q, path, &row->task, link, is_end);
	}
	look_odd(q, &p, &l, now);
	free(l.r.rows);
	if (l.digest)
		changed += look_digest(q, &p);
	return changed;
}
