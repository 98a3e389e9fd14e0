/*
 * submit.c - one submission: text in, a published batch and a receipt out, all or nothing.
 *
 * A receipt has a line for each task: its name, and behind a tab what was special about it. A line
 * that begins with a tab speaks of the whole. Names have no tabs, so programs can tell.
 */
#include <config.h>

#include "ingest.h"
#include "queue_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_MS = 500, RACE_MS = 20 };

struct submission {
	struct queue *q;
	struct builder *builder;
	struct ingest *ingest;
	FILE *receipt;	 /* an unlinked local file */
	int64_t checked; /* serials up to here are no news to the builder */
	bool fed;	 /* something is in the builder or cut */
	int taken;	 /* why complete text could not be taken: for good */
	struct err why;
	bool rejected; /* the receipt says so */
	struct submission_totals totals;
};

static int
on_taken(void *arg, const char *name, bool fresh)
{
	struct submission *s = arg;

	s->fed = true;
	if (fresh)
		return 0;
	s->totals.duplicates++;
	return fprintf(s->receipt, "%s\ttwice in this submission, taken once\n", name) < 0 ? -EIO : 0;
}

static FILE *
local_file(const char *tmp)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4000s/raser-receipt.XXXXXX", tmp);
	int fd = mkstemp(path);
	if (fd < 0)
		return NULL;
	unlink(path);
	FILE *f = fdopen(fd, "w+");
	if (!f)
		close(fd);
	return f;
}

struct submission *
submission_new(struct queue *q, const char *id_field, struct err *err)
{
	struct submission *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	s->q = q;
	s->receipt = local_file(q->tmp);
	s->builder = builder_new(q->tmp, err);
	if (s->builder)
		s->ingest = ingest_new(&q->conf, id_field, s->builder, on_taken, s);
	if (!s->receipt && s->builder)
		err_set(err, -EIO, "%s: no receipt can be written there", q->tmp);
	if (!s->receipt || !s->ingest) {
		submission_free(s);
		return NULL;
	}
	return s;
}

void
submission_free(struct submission *s)
{
	if (!s)
		return;
	ingest_free(s->ingest);
	builder_free(s->builder);
	if (s->receipt)
		fclose(s->receipt);
	free(s);
}

void
submission_expect(struct submission *s, int64_t (*expected)(void *arg, const char *name), void *arg)
{
	ingest_expect(s->ingest, expected, arg);
}

/* Say why nothing of this submission exists. */
static int
reject(struct submission *s, int code, const struct err *err)
{
	if (!s->rejected)
		fprintf(s->receipt, "\trejected, %s: %s\n",
			s->totals.batches ? "but what an earlier close took stays" :
					    "nothing of it was taken",
			err->text);
	s->rejected = true;
	fflush(s->receipt);
	return code;
}

int
submission_feed(struct submission *s, const char *data, size_t len, struct err *err)
{
	struct err why = { 0 };

	s->fed = true;
	int rc = 0;
	if (!s->builder) {
		s->builder = builder_new(s->q->tmp, &why);
		if (s->builder)
			ingest_to(s->ingest, s->builder);
		else
			rc = -EIO;
	}
	if (!rc)
		rc = ingest_feed(s->ingest, data, len, &why);
	if (err)
		*err = why;
	return rc ? reject(s, rc, &why) : 0;
}

static int
on_known(void *arg, const char *name, const void *body, size_t size)
{
	struct submission *s = arg;
	struct task t;
	char *old;
	size_t old_size;

	if (queue_find(s->q, name, &t) || t.serial <= s->checked)
		return 0;
	int rc = queue_payload(s->q, t.serial, &old, &old_size);
	if (rc)
		return rc;
	bool same = old_size == size && (!size || !memcmp(old, body, size));
	free(old);
	if (!same) {
		fprintf(s->receipt, "%s\texists already with another payload\n", name);
		return -EEXIST;
	}
	s->totals.duplicates++;
	return fprintf(s->receipt, "%s\talready there\n", name) < 0 ? -EIO : 1;
}

static int
on_accepted(void *arg, int64_t line, const struct task_spec *spec)
{
	struct submission *s = arg;

	(void)line;
	return fprintf(s->receipt, "%s\n", spec->name) < 0 ? -EIO : 0;
}

/* A line for every task of the batch that was published. */
static void
write_receipt(struct submission *s, const char *r)
{
	struct batch_entry *e = NULL;
	int64_t line = 0;

	pthread_mutex_lock(&s->q->lock);
	for (int i = s->q->nbatches - 1; i >= 0 && !e; i--)
		if (!strcmp(s->q->batches[i]->batch.random, r))
			e = s->q->batches[i];
	pthread_mutex_unlock(&s->q->lock);
	for (int64_t next = 0; e; line = next) {
		next = batch_tasks(&e->batch, &s->q->disk, line, BAY_TASKS, on_accepted, s);
		if (next <= line)
			break;
	}
	fflush(s->receipt);
}

/* Try to become batch `number`, having compared with all before it. 1: published, 0: another was faster, or an errno. */
static int
publish(struct submission *s, int number, const char *submitter, struct now now,
	char r[RANDOM_TEXT], struct err *err)
{
	struct queue *q = s->q;
	char file[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	int rc = builder_import(s->builder, &q->disk, submitter, now.wall_s, r, err);
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "b.%s.sqlite", r);
	snprintf(file, sizeof(file), "batches/%s", text);
	snprintf(path, sizeof(path), "batches/%d", number);
	rc = chain_cas(&q->disk, path, text, found);
	if (rc == -ENOENT) /* batches/ itself, and no task, is what is missing */
		rc = -EIO;
	if (rc == 1) {
		/* it stands: from here on only success may be told */
		while (disk_sync(&q->disk, "batches") && !atomic_load(&q->disk.stopping))
			disk_pause(&q->disk, AGAIN_MS);
		history_say(&q->disk, "submitted\t%d\t%s\t%lld", number, text,
			    (long long)builder_count(s->builder));
	} else if (rc != -EINPROGRESS) { /* then the link may stand, or come to stand */
		disk_unlink(&q->disk, file); /* ours alone: nobody has heard its name */
	}
	if (rc < 0)
		err_set(err, rc, "%s cannot be published: %s", path, strerror(-rc));
	return rc;
}

/* Refresh the batches under the lock that keeps refreshes apart. */
static int
reload(struct queue *q, struct now now, struct err *err)
{
	pthread_mutex_lock(&q->refresh_lock);
	int rc = load_batches(q, now, err);
	pthread_mutex_unlock(&q->refresh_lock);
	return rc < 0 ? rc : 0;
}

static int
commit_builder(struct submission *s, const char *submitter, struct now now, struct err *err)
{
	struct queue *q = s->q;
	char r[RANDOM_TEXT];

	for (;;) {
		int rc = reload(q, now, err);
		if (rc)
			return rc;
		pthread_mutex_lock(&q->lock);
		bool missing = q->missing != 0;
		int64_t upto = q->serials;
		/* taken together: a batch that comes later must win the race for this number */
		int number = q->last_batch + 1;
		pthread_mutex_unlock(&q->lock);
		if (missing)
			return err_set(err, -EIO, "a batch of the run cannot be read now, so nothing "
				       "can be compared with it");
		int64_t known = builder_drop_known(s->builder, on_known, s);
		if (known == -EEXIST)
			return err_set(err, -EEXIST, "an id is taken by another payload");
		if (known < 0)
			return err_set(err, (int)known, "comparing with what is there: %s",
				       strerror((int)-known));
		s->checked = upto;
		if (!builder_count(s->builder)) {
			fflush(s->receipt);
			return 0; /* all of it is there already */
		}
		rc = publish(s, number, submitter, now, r, err);
		if (rc < 0)
			return rc;
		if (rc == 1)
			break;
		disk_pause(&q->disk, RACE_MS); /* the listing may be a moment behind */
	}
	s->totals.tasks += builder_count(s->builder);
	s->totals.batches++;
	/* durable: what goes wrong from here on is not the submitter's concern */
	if (!reload(q, now, NULL))
		write_receipt(s, r);
	return 0;
}

int
submission_commit(struct submission *s, const char *submitter, struct now now, struct err *err)
{
	struct err why = { 0 };

	if (s->taken) {
		if (err)
			*err = s->why;
		return s->taken;
	}
	if (!s->fed)
		return 0; /* shells close a file before they write to it */
	int rc = ingest_flush(s->ingest, &why);
	bool committing = !rc && builder_count(s->builder);
	if (committing)
		rc = commit_builder(s, submitter, now, &why);
	if (rc && committing) {
		/* what a close was told stays true */
		s->taken = rc;
		s->why = why;
	}
	if (rc) {
		if (err)
			*err = why;
		return rc;
	}
	/* what follows, if anything, is another batch; it gets a builder when it comes */
	builder_free(s->builder);
	s->builder = NULL;
	s->checked = 0;
	s->fed = false;
	return 0;
}

int
submission_finish(struct submission *s, const char *submitter, struct now now, struct err *err)
{
	struct err why = { 0 };
	int rc = submission_commit(s, submitter, now, &why);

	if (err)
		*err = why;
	return rc ? reject(s, rc, &why) : 0;
}

void
submission_totals(const struct submission *s, struct submission_totals *t)
{
	*t = s->totals;
}

int64_t
submission_receipt_size(const struct submission *s)
{
	off_t size = lseek(fileno(s->receipt), 0, SEEK_END);

	return size < 0 ? 0 : (int64_t)size;
}

ssize_t
submission_receipt(const struct submission *s, char *buf, size_t size, int64_t offset)
{
	ssize_t n = pread(fileno(s->receipt), buf, size, offset);

	return n < 0 ? -errno : n;
}
