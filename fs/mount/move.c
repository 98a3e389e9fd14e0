/*
 * move.c - mv and rm: what a move between two directories means, as one job each.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The task that a name in a directory means: 0 or a positive errno. */
static int
named_task(struct mount *m, uint64_t parent, const char *name, struct node_id *id)
{
	struct fuse_entry_param e;

	if (!is_task_view(dir_view(parent)))
		return EPERM;
	int rc = tree_lookup(m, parent, name, &e);
	if (!rc)
		*id = node_unpack(e.ino);
	return rc ? rc : id->view == VIEW_FIXED ? EPERM : 0;
}

/* mv keeps the name: T, or T with any number of the same task. */
static bool
same_task(struct mount *m, int64_t serial, const char *name)
{
	struct task t;
	size_t len;
	unsigned k;

	if (queue_get(m->q, serial, &t))
		return false;
	if (!strcmp(t.name, name))
		return true;
	return name_split(name, &len, &k) && strlen(t.name) == len &&
	       !strncmp(t.name, name, len);
}

/* What a move from one view to another does; 0 or EPERM. */
static int
move_job(enum view from, enum view to, struct job *job)
{
	if (from == VIEW_LEASES) {
		job->fn = job_end;
		switch (to) {
		case VIEW_DONE:
			job->verb.outcome = END_DONE;
			job->verb.reason = WHY_NONE;
			return 0;
		case VIEW_FAILED:
			job->verb.outcome = END_FAILED;
			job->verb.reason = WHY_VERDICT;
			return 0;
		case VIEW_PENDING:
			job->verb.outcome = END_FREED;
			job->verb.reason = WHY_RELEASED;
			return 0;
		case VIEW_CANCELLED:
			job->fn = job_cancel;
			return 0;
		default:
			return EPERM;
		}
	}
	/* here no number fences anybody: nobody holds these, and an older one means the task */
	job->attempt = 0;
	if (from == VIEW_PENDING && to == VIEW_CANCELLED) {
		job->fn = job_cancel;
		return 0;
	}
	if ((from == VIEW_FAILED || from == VIEW_CANCELLED) && to == VIEW_PENDING) {
		job->fn = job_reopen;
		return 0;
	}
	return EPERM;
}

void
op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	  const char *newname, unsigned flags)
{
	struct mount *m = mount_of(req);
	struct node_id id = { 0 };
	struct job job = { .req = req, .deadline = now_read().boot_ms + END_PATIENCE_MS };
	enum view to = dir_view(newparent);
	int rc = 0;

	if (flags & ~(unsigned)RENAME_NOREPLACE)
		rc = EINVAL;
	else if (dir_view(parent) == VIEW_NEW && to == VIEW_NEW) {
		rc = new_lookup(m, name, &job.number);
		job.fn = job_new_rename;
		job.deadline = 0; /* a large submission takes what it takes */
		job.data = rc ? NULL : strdup(newname);
		if (!rc && !job.data)
			rc = ENOMEM;
	} else {
		rc = named_task(m, parent, name, &id);
		job.serial = id.serial;
		job.attempt = id.attempt;
		if (!rc)
			rc = move_job(id.view, to, &job);
		if (!rc && !same_task(m, id.serial, newname))
			rc = EPERM;
	}
	/* never EXDEV, or mv would copy */
	if (rc)
		fuse_reply_err(req, rc);
	else
		work_add(m, &job);
}

void
op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct mount *m = mount_of(req);
	struct node_id id;

	if (dir_view(parent) == VIEW_NEW) {
		fuse_reply_err(req, new_unlink(m, name));
		return;
	}
	int rc = dir_view(parent) == VIEW_LEASES ? named_task(m, parent, name, &id) : EPERM;
	if (rc) {
		fuse_reply_err(req, rc);
		return;
	}
	const struct job job = { .fn = job_revoke, .req = req, .serial = id.serial,
				 .attempt = id.attempt,
				 .deadline = now_read().boot_ms + END_PATIENCE_MS };
	work_add(m, &job);
}
