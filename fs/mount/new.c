/*
 * new.c - files in new/: a submission while it is written, its receipt afterwards.
 *
 * Creating and looking up answer from memory, since they run under the directory's lock; text
 * is taken by workers. A file's own lock keeps its writes, flush and release in order.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 4096 };

struct new_file {
	int64_t number;
	char name[256];
	struct submission *s; /* NULL until the first write, and after an unlink */
	pthread_mutex_t lock; /* of the submission; taken by workers only */
	int opened;	      /* descriptors that may write */
	int users;	      /* jobs under way and descriptors: keeps it from being freed */
	bool unlinked, finished;
	bool hidden;	 /* another file has its name now; it is settled all the same */
	int64_t written; /* bytes so far */
	int64_t size;	 /* as stat shows it: the text while it is written, then the receipt */
	int64_t mtime;
	int64_t expires; /* boot ms; 0 = not yet */
	char submitter[96];
	struct new_file *next;
};

/* Names that a tool will rename when it has finished (rsync, editors). */
static bool
is_staged(const char *name)
{
	size_t n = strlen(name);

	return name[0] == '.' || name[n - 1] == '~' || (n > 4 && !strcmp(name + n - 4, ".tmp"));
}

static struct new_file *
find_name(struct mount *m, const char *name)
{
	for (struct new_file *f = m->news; f; f = f->next)
		if (!f->unlinked && !f->hidden && !strcmp(f->name, name))
			return f;
	return NULL;
}

static struct new_file *
find_number(struct mount *m, int64_t number)
{
	for (struct new_file *f = m->news; f; f = f->next)
		if (f->number == number)
			return f;
	return NULL;
}

/* Take it out of the list and free it. [under mount.lock] */
static void
forget(struct mount *m, struct new_file *f)
{
	for (struct new_file **p = &m->news; *p; p = &(*p)->next)
		if (*p == f) {
			*p = f->next;
			break;
		}
	submission_free(f->s);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void
put(struct mount *m, struct new_file *f)
{
	if (--f->users == 0 && (f->unlinked || f->hidden))
		forget(m, f);
}

void
new_free(struct mount *m)
{
	while (m->news)
		forget(m, m->news);
}

int
new_lookup(struct mount *m, const char *name, int64_t *number)
{
	pthread_mutex_lock(&m->lock);
	const struct new_file *f = find_name(m, name);
	if (f)
		*number = f->number;
	pthread_mutex_unlock(&m->lock);
	return f ? 0 : ENOENT;
}

bool
new_attr(struct mount *m, int64_t number, struct stat *st)
{
	struct node_id id = { .view = VIEW_NEW, .serial = number };

	pthread_mutex_lock(&m->lock);
	const struct new_file *f = find_number(m, number);
	if (f)
		*st = (struct stat){ .st_mode = S_IFREG | 0644, .st_uid = m->uid,
				     .st_gid = m->gid, .st_nlink = 1, .st_size = f->size,
				     .st_blocks = (f->size + 511) / 512, .st_blksize = 131072,
				     .st_ino = (ino_t)((uint64_t)id.view << 44 |
						       (uint64_t)number),
				     .st_mtim.tv_sec = f->mtime, .st_ctim.tv_sec = f->mtime,
				     .st_atim.tv_sec = f->mtime };
	pthread_mutex_unlock(&m->lock);
	return f != NULL;
}

bool
new_next(struct mount *m, int64_t after, int64_t *number, char name[256])
{
	const struct new_file *best = NULL;

	pthread_mutex_lock(&m->lock);
	for (const struct new_file *f = m->news; f; f = f->next)
		if (!f->unlinked && !f->hidden && f->number > after && (!best || f->number < best->number))
			best = f;
	if (best) {
		*number = best->number;
		memcpy(name, best->name, sizeof(best->name));
	}
	pthread_mutex_unlock(&m->lock);
	return best != NULL;
}

static void
set_submitter(struct new_file *f, fuse_req_t req)
{
	char host[HOST_TEXT];

	host_name(host);
	snprintf(f->submitter, sizeof(f->submitter), "uid %u at %s",
		 (unsigned)fuse_req_ctx(req)->uid, host);
}

/* A new file of that name, opened for writing; NULL when there is no room. [under mount.lock] */
static struct new_file *
make(struct mount *m, const char *name)
{
	int n = 0;

	for (const struct new_file *f = m->news; f; f = f->next)
		n++;
	struct new_file *f = n < FILES_MAX ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return NULL;
	f->number = ++m->last_new;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->mtime = now_read().wall_s;
	pthread_mutex_init(&f->lock, NULL);
	f->next = m->news;
	m->news = f;
	return f;
}

static uint64_t
open_handle(struct mount *m, int64_t number, bool writes, bool append)
{
	const struct handle h = { .kind = HANDLE_NEW, .rdwr = writes, .append = append,
				  .new_id = number };

	return handle_open(m, &h);
}

/* Give its name away. [under mount.lock] */
static void
supersede(struct mount *m, struct new_file *old)
{
	old->hidden = true;
	if (!old->users)
		forget(m, old);
}

void
new_create(struct mount *m, fuse_req_t req, const char *name, struct fuse_file_info *fi)
{
	struct fuse_entry_param e = { 0 };

	if (strlen(name) > 255) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	pthread_mutex_lock(&m->lock);
	struct new_file *old = find_name(m, name);
	if (old)
		supersede(m, old);
	struct new_file *f = make(m, name);
	if (f) {
		f->opened = f->users = 1;
		set_submitter(f, req);
		e.ino = node_pack((struct node_id){ .view = VIEW_NEW, .serial = f->number });
	}
	int64_t number = f ? f->number : 0;
	pthread_mutex_unlock(&m->lock);
	if (!f) {
		fuse_reply_err(req, ENOSPC);
		return;
	}
	new_attr(m, number, &e.attr);
	fi->direct_io = 1;
	fi->fh = open_handle(m, number, true, fi->flags & O_APPEND);
	if (!fi->fh)
		fuse_reply_err(req, ENOMEM);
	else
		fuse_reply_create(req, &e, fi);
}

void
new_open(struct mount *m, fuse_req_t req, int64_t number, struct fuse_file_info *fi)
{
	bool writes = (fi->flags & O_ACCMODE) != O_RDONLY;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	struct new_file *f = find_number(m, number);
	if (f && writes && (fi->flags & O_TRUNC) && !f->finished) {
		/* written anew before the last close was settled: a submission of its own */
		struct new_file *fresh = make(m, f->name);

		if (fresh) {
			supersede(m, f);
			number = fresh->number;
		}
		f = fresh;
	}
	if (!f) {
		rc = ENOENT;
	} else {
		if (writes && f->finished) {
			/* the same name again: another submission, whose receipt replaces this */
			f->finished = false;
			f->written = f->size = 0;
			submission_free(f->s);
			f->s = NULL;
		}
		f->users++;
		f->opened += writes;
		f->expires = 0;
		if (writes)
			set_submitter(f, req);
	}
	pthread_mutex_unlock(&m->lock);
	if (rc) {
		fuse_reply_err(req, rc);
		return;
	}
	fi->direct_io = 1;
	fi->fh = open_handle(m, number, writes, fi->flags & O_APPEND);
	if (!fi->fh)
		fuse_reply_err(req, ENOMEM);
	else
		fuse_reply_open(req, fi);
}

bool
new_closed(struct mount *m, int64_t number, bool wrote)
{
	pthread_mutex_lock(&m->lock);
	struct new_file *f = find_number(m, number);
	bool last = f && wrote && --f->opened == 0;
	pthread_mutex_unlock(&m->lock);
	return last;
}

int
new_unlink(struct mount *m, const char *name)
{
	pthread_mutex_lock(&m->lock);
	struct new_file *f = find_name(m, name);
	if (f) {
		f->unlinked = true;
		if (!f->users)
			forget(m, f);
	}
	pthread_mutex_unlock(&m->lock);
	return f ? 0 : ENOENT;
}

void
new_expire(struct mount *m, int64_t now_ms)
{
	pthread_mutex_lock(&m->lock);
	for (struct new_file *f = m->news; f;) {
		struct new_file *next = f->next;

		if (!f->users && f->expires && f->expires <= now_ms)
			forget(m, f);
		f = next;
	}
	pthread_mutex_unlock(&m->lock);
}

ssize_t
new_read(struct mount *m, int64_t number, char *buf, size_t size, off_t off)
{
	ssize_t n = 0;

	pthread_mutex_lock(&m->lock);
	const struct new_file *f = find_number(m, number);
	if (f && f->s)
		n = submission_receipt(f->s, buf, size, off);
	pthread_mutex_unlock(&m->lock);
	return n;
}

/* ---- what workers do ---- */

/* The file of a job, kept alive until done_with(). */
static struct new_file *
use(struct mount *m, int64_t number)
{
	pthread_mutex_lock(&m->lock);
	struct new_file *f = find_number(m, number);
	if (f)
		f->users++;
	pthread_mutex_unlock(&m->lock);
	if (f)
		pthread_mutex_lock(&f->lock);
	return f;
}

static void
done_with(struct mount *m, struct new_file *f)
{
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_lock(&m->lock);
	put(m, f);
	pthread_mutex_unlock(&m->lock);
}

/* The receipt is what stat and read show from now on. */
static void
show_receipt(struct mount *m, struct new_file *f)
{
	int64_t size = f->s ? submission_receipt_size(f->s) : 0;

	pthread_mutex_lock(&m->lock);
	f->finished = true;
	f->size = size;
	f->expires = now_read().boot_ms + m->conf->receipts_ms;
	pthread_mutex_unlock(&m->lock);
}

void
job_new_write(struct mount *m, struct job *job)
{
	struct new_file *f = use(m, job->number);
	struct err err = { 0 };
	int rc = 0;

	if (!f) {
		job_reply_err(m, job, ENOENT);
		return;
	}
	if (!f->s) {
		struct submission *s = submission_new(m->q, NULL, &err);

		pthread_mutex_lock(&m->lock);
		f->s = s;
		pthread_mutex_unlock(&m->lock);
		rc = s ? 0 : -EIO;
	}
	if (!rc && job->off >= 0 && job->off != f->written)
		rc = err_set(&err, -EINVAL, "written out of order");
	if (!rc)
		rc = submission_feed(f->s, job->data, job->size, &err);
	if (!rc) {
		pthread_mutex_lock(&m->lock);
		f->written += (int64_t)job->size;
		f->size = f->written;
		f->mtime = now_read().wall_s;
		pthread_mutex_unlock(&m->lock);
	}
	done_with(m, f);
	if (rc)
		job_reply_err(m, job, rc);
	else if (job_claim_reply(m, job))
		fuse_reply_write(job->req, job->size);
}

void
job_new_flush(struct mount *m, struct job *job)
{
	struct new_file *f = use(m, job->number);
	struct err err = { 0 };
	int rc = 0;

	if (f && f->s && !f->unlinked && !is_staged(f->name))
		rc = submission_commit(f->s, f->submitter, now_read(), &err);
	if (f)
		done_with(m, f);
	job_reply_err(m, job, rc);
}

/* Settle what is in it for good. */
static int
finish(struct mount *m, struct new_file *f)
{
	struct submission_totals t = { 0 };
	struct err err = { 0 };
	int rc = f->s ? submission_finish(f->s, f->submitter, now_read(), &err) : 0;

	if (f->s)
		submission_totals(f->s, &t);
	if (rc)
		log_info("new/%s: rejected: %s", f->name, err.text);
	else
		log_info("new/%s: %lld tasks taken, %lld were there already", f->name,
			 (long long)t.tasks, (long long)t.duplicates);
	show_receipt(m, f);
	return rc;
}

void
job_new_release(struct mount *m, struct job *job)
{
	struct new_file *f = use(m, job->number);

	if (!f)
		return;
	pthread_mutex_lock(&m->lock);
	f->users--; /* the descriptor's */
	f->expires = now_read().boot_ms + m->conf->receipts_ms;
	pthread_mutex_unlock(&m->lock);
	if (job->bound && !f->unlinked && !is_staged(f->name))
		finish(m, f);
	done_with(m, f);
}

/* rename(2) within new/: what was staged is committed under its real name. */
void
job_new_rename(struct mount *m, struct job *job)
{
	struct new_file *f = use(m, job->number);

	if (!f) {
		job_reply_err(m, job, ENOENT);
		return;
	}
	pthread_mutex_lock(&m->lock);
	struct new_file *old = find_name(m, job->data);
	if (old && old != f)
		supersede(m, old);
	bool staged = is_staged(f->name);
	snprintf(f->name, sizeof(f->name), "%s", job->data);
	bool settle = staged && !is_staged(f->name) && !f->opened && !f->finished;
	pthread_mutex_unlock(&m->lock);
	int rc = settle ? finish(m, f) : 0;
	done_with(m, f);
	job_reply_err(m, job, rc);
}
