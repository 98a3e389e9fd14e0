/*
 * claims.c - what workers do for requests on tasks: claim, read, touch, end. Policy is the
 * queue's; here an outcome becomes a reply.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The payload behind a grant as a handle shows it: next begins with the lease's name. */
static int
load_payload(struct mount *m, int64_t serial, const char *name, unsigned attempt, bool from_next,
	     char **text, size_t *size)
{
	char *body;
	size_t len;
	int rc = queue_payload(m->q, serial, &body, &len);

	if (rc || !from_next) {
		*text = rc ? NULL : body;
		*size = rc ? 0 : len;
		return rc;
	}
	char head[NAME_LIMIT + 32];
	int n = snprintf(head, sizeof(head), "leases/%s@%u\n", name, attempt);
	char *all = realloc(body, (size_t)n + len + 1);
	if (!all) {
		free(body);
		return -ENOMEM;
	}
	memmove(all + n, all, len + 1);
	memcpy(all, head, (size_t)n);
	*text = all;
	*size = (size_t)n + len;
	return 0;
}

void
undo_claim(struct mount *m, const struct grant *g, enum delivery d)
{
	/* what cannot be read now is offered again after a while, and counts nothing */
	queue_end(m->q, g->serial, g->attempt, END_FREED,
		  d == UNREADABLE ? WHY_NOT_ITS_FAULT : WHY_UNDELIVERED, NULL, now_read());
}

enum delivery
reply_claim(struct mount *m, fuse_req_t req, struct fuse_file_info *fi, const struct grant *g,
	    bool from_next)
{
	struct handle h = { .kind = HANDLE_CLAIM, .serial = g->serial, .attempt = g->attempt,
			    .seq = g->seq,
			    .rdwr = (fi->flags & O_ACCMODE) == O_RDWR, .from_next = from_next };

	int rc = load_payload(m, g->serial, g->name, g->attempt, from_next, &h.text, &h.size);
	if (rc) {
		log_warnx("task %s@%u: its payload cannot be read: %s", g->name, g->attempt,
			  strerror(-rc));
		fuse_reply_err(req, -rc);
		return UNREADABLE;
	}
	fi->fh = handle_open(m, &h);
	if (!fi->fh) {
		free(h.text);
		fuse_reply_err(req, ENOMEM);
		return NOBODY_THERE;
	}
	fi->direct_io = 1;
	fi->noflush = 1;
	if (fuse_reply_open(req, fi) != -ENOENT)
		return DELIVERED;
	/* the opener is gone and will not release it */
	if (handle_close(m, fi->fh, &h))
		free(h.text);
	return NOBODY_THERE;
}

void
claimer_name(struct claimer *by)
{
	char path[64];

	if (by->comm[0])
		return;
	snprintf(by->comm, sizeof(by->comm), "?");
	if (!by->pid)
		return; /* of another PID namespace */
	/* a note for people, never an authority: the pid is a thread's and may be gone */
	snprintf(path, sizeof(path), "/proc/%ld/comm", by->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, by->comm, sizeof(by->comm) - 1);
	if (n > 0) {
		by->comm[n] = '\0';
		by->comm[strcspn(by->comm, "\n")] = '\0';
	}
	close(fd);
}

/* A daemon that leaves grants nothing, which a waiter may take for a pause. */
static int
open_error(int rc)
{
	return rc == -ESHUTDOWN ? EAGAIN : -rc;
}

static void
hand_over(struct mount *m, struct job *job, const struct grant *g, bool from_next)
{
	enum delivery d = NOBODY_THERE;

	if (job_claim_reply(m, job))
		d = reply_claim(m, job->req, &job->fi, g, from_next);
	if (d != DELIVERED)
		undo_claim(m, g, d);
}

/* next with O_NONBLOCK */
void
job_next(struct mount *m, struct job *job)
{
	struct grant g;

	claimer_name(&job->by);
	int rc = queue_take(m->q, job->tier, &job->by, now_read(), &g);

	if (rc)
		job_reply_err(m, job, open_error(rc));
	else
		hand_over(m, job, &g, true);
}

/* queue/<tier>/T@k, O_RDWR */
void
job_open_claim(struct mount *m, struct job *job)
{
	struct grant g;

	claimer_name(&job->by);
	int rc = queue_claim(m->q, job->serial, job->attempt, job->tier, &job->by, now_read(), &g);

	if (rc)
		job_reply_err(m, job, open_error(rc));
	else
		hand_over(m, job, &g, false);
}

/* The first read of a handle, and any read after its payload was let go. */
void
job_read_payload(struct mount *m, struct job *job)
{
	struct handle h;
	struct task t;
	char *text;
	size_t size;

	if (!handle_get(m, job->fi.fh, &h)) {
		job_reply_err(m, job, EBADF);
		return;
	}
	int rc = queue_get(m->q, h.serial, &t);
	if (!rc)
		rc = load_payload(m, h.serial, t.name, h.attempt, h.from_next, &text, &size);
	if (rc) {
		job_reply_err(m, job, rc);
		return;
	}
	size_t at = (size_t)job->off < size ? (size_t)job->off : size;
	size_t n = size - at < job->size ? size - at : job->size;
	/* answered from our own copy: the handle's may be let go at any time */
	if (job_claim_reply(m, job) && fuse_reply_buf(job->req, text + at, n) == 0 &&
	    h.kind == HANDLE_CLAIM)
		queue_delivered(m->q, h.serial, h.attempt);
	handle_text(m, job->fi.fh, text, size, false);
}

void
job_closed(struct mount *m, struct job *job)
{
	if (queue_is_grant(m->q, job->serial, job->attempt, job->seq))
		queue_closed(m->q, job->serial, job->attempt, job->bound, now_read());
}

static void
reply_rc(struct mount *m, struct job *job, int rc)
{
	/* a write is answered with what it took, everything else with its success */
	if (!rc && job->size) {
		if (job_claim_reply(m, job))
			fuse_reply_write(job->req, job->size);
	} else {
		job_reply_err(m, job, rc);
	}
}

void
job_end(struct mount *m, struct job *job)
{
	/* a descriptor speaks for the claim it was given, not for one made again under its number */
	int rc = job->seq && !queue_is_grant(m->q, job->serial, job->attempt, job->seq) ?
			 -ESTALE :
			 verb_do(m->q, job->serial, job->attempt, &job->verb, now_read());

	reply_rc(m, job, rc);
}

void
job_say(struct mount *m, struct job *job)
{
	reply_rc(m, job, verb_do(m->q, job->serial, job->attempt, &job->verb, now_read()));
}

void
job_touch(struct mount *m, struct job *job)
{
	struct stat st;
	int rc = touch_do(m->q, job->serial, job->attempt, now_read());

	if (!rc)
		rc = -tree_attr(m, job->ino, &st);
	if (rc)
		job_reply_err(m, job, rc);
	else if (job_claim_reply(m, job))
		fuse_reply_attr(job->req, &st, 0);
}

void
job_revoke(struct mount *m, struct job *job)
{
	job_reply_err(m, job, queue_revoke(m->q, job->serial, job->attempt, now_read()));
}

void
job_cancel(struct mount *m, struct job *job)
{
	job_reply_err(m, job, queue_cancel(m->q, job->serial, job->attempt, now_read()));
}

void
job_reopen(struct mount *m, struct job *job)
{
	job_reply_err(m, job, queue_reopen(m->q, job->serial, job->attempt, now_read()));
}
