/*
 * digest.c - chain/<r>.<bay>/digest: that all tasks of a bay were over, and how.
 *
 *   raser digest 1 UUID R BAY
 *   T@k OUTCOME REASON FAILURES LOSSES TIER TIME     one line a task, in their order
 *   sum XXH3
 *
 * A hint that spares others the reading of 1,024 links: written once, by the first daemon that
 * knows all of it, as a rule the one that ended the last task. It says what links said, which stays
 * true. So one that is old, missing or torn costs time and changes nothing: `failed` and
 * `cancelled` are not final, and only a bay whose tasks are all done is not listed again.
 * Whoever deletes links to have a task run again must delete the digest of its bay as well.
 */
#include <config.h>

#include "queue_impl.h"

#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
digest_head(const struct queue *q, const struct place *p, char head[PACK_HEAD])
{
	snprintf(head, PACK_HEAD, "raser digest 1 %s %s %d", q->uuid, p->entry->batch.random,
		 p->bay);
}

static void
digest_path(const struct place *p, char path[DISK_PATH])
{
	char bay[DISK_PATH];

	place_bay(p, bay);
	snprintf(path, DISK_PATH, "%.400s/digest", bay);
}

/* ---- writing ---- */

int
digest_text(struct queue *q, const struct place *p, struct pack *pack)
{
	char head[PACK_HEAD];
	struct bay_rows rows;

	digest_head(q, p, head);
	int rc = bay_rows(q, p, &rows);
	if (!rc)
		rc = pack_begin(pack, head);
	for (int i = 0; !rc && i < rows.n; i++) {
		const struct task *t = &rows.rows[i].task;

		if (!is_over(t->state)) {
			rc = -EAGAIN;
			break;
		}
		fprintf(pack->f, "%s@%u %c %c %d %d %d %lld\n", t->name, t->attempt,
			(char)outcome_of(t->state), (char)t->reason, t->counts.failures,
			t->counts.losses, t->counts.level, (long long)t->changed);
	}
	free(rows.rows);
	return rc ? rc : pack_end(pack);
}

static void
digest_write(struct queue *q, const struct place *p)
{
	char path[DISK_PATH];
	struct pack pack = { 0 };

	digest_path(p, path);
	int rc = digest_text(q, p, &pack);
	/* what it says must not be undone by a crash of the storage */
	if (!rc)
		rc = bay_sync(q, p);
	if (!rc)
		rc = disk_create(&q->disk, path, pack.text, pack.len);
	if (rc && rc != -EEXIST && rc != -EAGAIN)
		log_info("%s cannot be written, which costs time only: %s", path, strerror(-rc));
	pack_free(&pack);
}

void
digests_write(struct queue *q)
{
	struct place p = { 0 };

	pthread_mutex_lock(&q->lock);
	bool any = q->digests_due > 0;
	for (int i = 0; any && i < q->nbatches; i++) {
		p.entry = q->batches[i];
		for (p.bay = 0; p.bay < p.entry->nbays; p.bay++) {
			struct bay *b = &p.entry->bays[p.bay];

			if (!b->digest_due)
				continue;
			b->digest_due = false;
			q->digests_due--;
			if (b->digest || b->over < b->tasks || !p.entry->complete)
				continue;
			b->digest = true;
			pthread_mutex_unlock(&q->lock);
			digest_write(q, &p);
			pthread_mutex_lock(&q->lock);
		}
	}
	pthread_mutex_unlock(&q->lock);
}

/* ---- reading ---- */

/* One line, which must tell of task t. Ends are told from claims that are their own end by nothing:
 * both say the same. */
static bool
parse_line(const char *line, const struct task *t, struct fold *f)
{
	size_t len = strlen(t->name);
	struct end e = { 0 };
	unsigned k;
	char outcome;
	char reason;
	long long time;
	char newline;

	if (strncmp(line, t->name, len) != 0 ||
	    sscanf(line + len, "@%u %c %c %d %d %d %lld%c", &k, &outcome, &reason,
		   &e.counts.failures, &e.counts.losses, &e.counts.level, &time, &newline) != 8 ||
	    newline != '\n' || !k || k > ATTEMPT_LIMIT || !strchr("dxc", outcome) ||
	    e.counts.failures < 0 || e.counts.losses < 0 || e.counts.level < 0 ||
	    e.counts.level >= TIERS_MAX)
		return false;
	e.outcome = (enum outcome)outcome;
	e.reason = (enum reason)reason;
	e.time = time;
	fold_end(&e, k, f);
	return true;
}

int
digest_load(struct queue *q, const struct place *p, struct bay_rows *rows, struct fold *folds)
{
	char head[PACK_HEAD];
	char path[DISK_PATH];
	char *lines;

	*rows = (struct bay_rows){ 0 };
	digest_head(q, p, head);
	digest_path(p, path);
	int rc = pack_read(&q->disk, path, head, &lines);
	if (rc)
		return rc;
	rc = bay_rows(q, p, rows);
	const char *line = lines;
	bool good = true;
	for (int i = 0; !rc && good && i < rows->n; i++) {
		good = parse_line(line, &rows->rows[i].task, &folds[i]);
		line = strchr(line, '\n');
		line = line ? line + 1 : "";
	}
	/* all of it or nothing: it says that every task of the bay is over */
	good = good && !*line;
	free(lines);
	return rc ? rc : good ? 0 : -EILSEQ;
}

int64_t
digest_read(struct queue *q, const struct place *p)
{
	struct bay_rows rows = { 0 };
	struct fold *folds = calloc(BAY_TASKS, sizeof(*folds));
	int64_t changed = 0;
	int rc = folds ? digest_load(q, p, &rows, folds) : -ENOMEM;

	if (rc == -EBADMSG)
		log_info("chain/%s.%d/digest is not whole, or not of this bay: not used",
			 p->entry->batch.random, p->bay);
	if (!rc)
		changed = apply_over(q, &rows, folds);
	if (!rc || rc == -EILSEQ) {
		rc = 0;
		pthread_mutex_lock(&q->lock);
		p->entry->bays[p->bay].digest = true;
		pthread_mutex_unlock(&q->lock);
	}
	free(rows.rows);
	free(folds);
	return rc ? rc : changed;
}
