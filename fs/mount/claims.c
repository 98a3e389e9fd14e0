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
	int rc = queue_next(m->q, job->tier, &job->by, now_read(), &g);

	/* nothing is left as far as is known: only a complete look that began after the question
	 * may say so */
	if (rc == -EAGAIN && queue_exhausted(m->q, job->tier, 0) &&
	    !queue_exhausted(m->q, job->tier, job->since) &&
	    queue_refresh(m->q, now_read(), 0, 0) > 0)
		rc = queue_next(m->q, job->tier, &job->by, now_read(), &g);
	int why = rc == -EAGAIN ? queue_exhausted(m->q, job->tier, job->since) : 0;
	if (why)
		rc = why;
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
			 queue_end(m->q, job->serial, job->attempt, job->outcome, job->reason,
				   job->note, now_read());

	reply_rc(m, job, rc);
}

/* This daemon was frozen: look what happened before an agent is told that it still holds. */
static int
looked(struct mount *m, int rc)
{
	if (rc != -EINPROGRESS)
		return rc;
	rc = queue_look(m->q, now_read());
	return rc ? -EIO : 1;
}

void
job_touch(struct mount *m, struct job *job)
{
	struct stat st;
	int rc = looked(m, queue_touch(m->q, job->serial, job->attempt, now_read()));

	if (rc == 1)
		rc = queue_touch(m->q, job->serial, job->attempt, now_read());
	if (!rc)
		rc = -tree_attr(m, job->ino, &st);
	if (rc)
		job_reply_err(m, job, rc);
	else if (job_claim_reply(m, job))
		fuse_reply_attr(job->req, &st, 0);
}

void
job_park(struct mount *m, struct job *job)
{
	int rc = looked(m, queue_park(m->q, job->serial, job->attempt, job->number, now_read()));

	if (rc == 1)
		rc = queue_park(m->q, job->serial, job->attempt, job->number, now_read());
	reply_rc(m, job, rc);
}

void
job_note(struct mount *m, struct job *job)
{
	int rc = looked(m, queue_note(m->q, job->serial, job->attempt, job->note, now_read()));

	if (rc == 1)
		rc = queue_note(m->q, job->serial, job->attempt, job->note, now_read());
	reply_rc(m, job, rc);
}

void
job_resumed(struct mount *m, struct job *job)
{
	int rc = looked(m, queue_resumed(m->q, job->serial, job->attempt, job->number, now_read()));

	if (rc == 1)
		rc = queue_resumed(m->q, job->serial, job->attempt, job->number, now_read());
	reply_rc(m, job, rc);
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

/* ---- verbs ---- */

static const struct {
	const char *verb, *word; /* word: the reason that may follow; NULL = any text */
	enum outcome outcome;
	enum reason reason;
} verbs[] = {
	{ "done", NULL, END_DONE, WHY_NONE },
	{ "failed", NULL, END_FAILED, WHY_VERDICT },
	{ "free", "preempted", END_FREED, WHY_PREEMPTED },
	{ "free", "not-its-fault", END_FREED, WHY_NOT_ITS_FAULT },
	{ "free", NULL, END_FREED, WHY_RELEASED },
	{ "retry", "oom", END_RETRY, WHY_OOM },
	{ "retry", "exit", END_RETRY, WHY_EXIT },
	{ "retry", "crash", END_RETRY, WHY_CRASH },
	{ "retry", "hung", END_RETRY, WHY_HUNG },
	{ "retry", "looping", END_RETRY, WHY_LOOPING },
	{ "retry", "timeout", END_RETRY, WHY_TIMEOUT },
	{ "retry", NULL, END_RETRY, WHY_CRASH },
};

int
parse_verb(const char *text, size_t size, struct job *job)
{
	char line[256];
	char verb[16];
	char word[32] = "";
	int used = 0;
	int more = 0;

	size_t n = 0;
	while (n < size && text[n] != '\n')
		n++;
	/* one line; what an editor or echo adds behind it is white space */
	for (size_t i = n; i < size; i++)
		if (text[i] != '\n' && text[i] != ' ')
			return EINVAL;
	if (n >= sizeof(line))
		n = sizeof(line) - 1; /* evidence is cut, verbs are short */
	memcpy(line, text, n);
	line[n] = '\0';
	if (sscanf(line, " %15s %n%31s %n", verb, &used, word, &more) < 1)
		return EINVAL;
	if (!strcmp(verb, "parked")) {
		char *end;

		job->number = strtoll(word, &end, 10);
		if (!*word || *end || job->number < 0)
			return EINVAL;
		job->fn = job_park;
		return 0;
	}
	if (!strcmp(verb, "resumed")) {
		char *end;
		double lost = strtod(word, &end);

		if (!*word || *end || !(lost >= 0) || lost > 1e9)
			return EINVAL;
		job->number = (int64_t)(lost * 1000);
		job->fn = job_resumed;
		return 0;
	}
	if (!strcmp(verb, "note")) {
		job->fn = job_note;
		snprintf(job->note, sizeof(job->note), "%.150s", used ? line + used : "");
		return 0;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].verb, verb) != 0 ||
		    (verbs[i].word && strcmp(verbs[i].word, word) != 0))
			continue;
		int from = verbs[i].word ? more : used;

		job->fn = job_end;
		job->outcome = verbs[i].outcome;
		job->reason = verbs[i].reason;
		snprintf(job->note, sizeof(job->note), "%.150s", from ? line + from : "");
		return 0;
	}
	return EINVAL;
}
