/*
 * ops.c - FUSE requests in, one reply each. Look-ups, attributes and listings are answered here
 * from memory; what may wait becomes a job. No policy: see raser-tree(5) for what each must do.
 */
#include <config.h>

#include "mount.h"

#include "duties.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/stat.h>

static void
op_init(void *user, struct fuse_conn_info *conn)
{
	(void)user;
	/* closings are background requests, and each may free a task: FUSE.md 1.8 */
	conn->max_background = 256;
	conn->congestion_threshold = 192;
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE | FUSE_CAP_WRITEBACK_CACHE |
				  FUSE_CAP_POSIX_ACL);
	/* an open with O_TRUNC is one request, so that it can be refused as one */
	conn->want |= conn->capable & FUSE_CAP_ATOMIC_O_TRUNC;
}

static void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	int rc = tree_lookup(mount_of(req), parent, name, &e);

	if (rc)
		fuse_reply_err(req, rc);
	else
		fuse_reply_entry(req, &e);
}

static void
op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	(void)ino;
	(void)n;
	fuse_reply_none(req);
}

static void
op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	(void)count;
	(void)forgets;
	fuse_reply_none(req);
}

static void
op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	int rc = tree_attr(mount_of(req), ino, &st);

	(void)fi;
	if (rc)
		fuse_reply_err(req, rc);
	else
		fuse_reply_attr(req, &st, attr_timeout(ino));
}

static void
op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char path[PATH_MAX];
	int rc = tree_readlink(mount_of(req), ino, path, sizeof(path));

	if (rc)
		fuse_reply_err(req, rc);
	else
		fuse_reply_readlink(req, path);
}

/* ---- setattr: the heartbeat ---- */

/* What a touch of this node means: 0 and a job to do, or a positive errno. */
static int
touch_job(struct mount *m, uint64_t ino, struct job *job)
{
	struct node_id id = node_unpack(ino);
	struct lease_info l;

	if (id.view != VIEW_LEASES && id.view < VIEW_QUEUE)
		return EPERM;
	int rc = queue_lease(m->q, id.serial, id.attempt, &l);
	if (rc == -ENOENT && id.view >= VIEW_QUEUE)
		return EPERM; /* nobody's: a touch claims nothing */
	if (rc)
		return -rc;
	if (!l.mine)
		return EPERM;
	*job = (struct job){ .fn = job_touch, .ino = ino, .serial = id.serial,
			     .attempt = id.attempt };
	return 0;
}

static void
op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
	   struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct node_id id = node_unpack(ino);
	const int times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME;
	const int now = FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
	struct job job = { 0 };
	struct stat st;
	int rc = 0;

	(void)attr;
	(void)fi;
	if (id.view == VIEW_NEW) {
		/* cp -a, install and rsync set modes, times and sizes: nothing depends on them */
		op_getattr(req, ino, fi);
		return;
	}
	if (to_set & (FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID |
		      FUSE_SET_ATTR_GID)) {
		/* > leases/T@1 cuts nothing */
		rc = to_set & FUSE_SET_ATTR_SIZE && id.view == VIEW_LEASES ? 0 : EPERM;
		if (!rc)
			rc = tree_attr(m, ino, &st);
		if (rc)
			fuse_reply_err(req, rc);
		else
			fuse_reply_attr(req, &st, 0);
		return;
	}
	if ((to_set & times) && !(to_set & now)) {
		/* a time of one's own choosing is no sign of life */
		fuse_reply_err(req, is_task_view(id.view) ? EINVAL : EPERM);
		return;
	}
	rc = touch_job(m, ino, &job);
	if (rc) {
		fuse_reply_err(req, rc);
		return;
	}
	rc = queue_touch(m->q, job.serial, job.attempt, now_read());
	if (rc == -EINPROGRESS) {
		job.req = req;
		job.deadline = now_read().boot_ms + END_PATIENCE_MS;
		work_add(m, &job); /* we were frozen: look at what others did first */
		return;
	}
	if (!rc)
		rc = -tree_attr(m, ino, &st);
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_attr(req, &st, 0);
}

/* ---- open ---- */

static void
open_handle(fuse_req_t req, struct fuse_file_info *fi, const struct handle *h)
{
	fi->direct_io = 1;
	fi->noflush = 1; /* only a submission has something to say at close */
	fi->fh = handle_open(mount_of(req), h);
	if (!fi->fh)
		fuse_reply_err(req, ENOMEM);
	else
		fuse_reply_open(req, fi);
}

static void
open_next(fuse_req_t req, int tier, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct job job = { .fn = job_next, .req = req, .fi = *fi, .tier = tier,
			   .since = now_read().boot_ms };

	/* the access mode first: "touch next" and "> next" neither wait nor claim */
	if ((fi->flags & O_ACCMODE) == O_WRONLY || (fi->flags & O_TRUNC)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (atomic_load(&m->leaving)) {
		fuse_reply_err(req, EAGAIN);
		return;
	}
	job.by = (struct claimer){ .pid = fuse_req_ctx(req)->pid,
				   .bound = (fi->flags & O_ACCMODE) == O_RDWR };
	if (fi->flags & O_NONBLOCK)
		work_add(m, &job);
	else
		park_add(m, &job);
}

static void
open_queue(fuse_req_t req, struct node_id id, uint64_t ino, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	int mode = fi->flags & O_ACCMODE;

	if (fi->flags & O_TRUNC) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (mode == O_RDWR || (mode == O_RDONLY && m->claim_on_open)) {
		struct job job = { .fn = job_open_claim, .req = req, .fi = *fi,
				   .serial = id.serial, .attempt = id.attempt,
				   .tier = (int)(id.view - VIEW_QUEUE),
				   .by = { .pid = fuse_req_ctx(req)->pid,
					   .bound = mode == O_RDWR } };

		work_add(m, &job);
		return;
	}
	const struct handle h = { .kind = mode == O_RDONLY ? HANDLE_PEEK : HANDLE_LEASE,
				  .ino = ino, .serial = id.serial, .attempt = id.attempt };
	open_handle(req, fi, &h);
}

static void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct node_id id = node_unpack(ino);
	int mode = fi->flags & O_ACCMODE;
	struct handle h = { .kind = HANDLE_TEXT, .ino = ino, .serial = id.serial,
			    .attempt = id.attempt };

	if (fixed_tier(ino, FIXED_NEXT) >= 0) {
		open_next(req, fixed_tier(ino, FIXED_NEXT), fi);
		return;
	}
	if (id.view >= VIEW_QUEUE) {
		open_queue(req, id, ino, fi);
		return;
	}
	if (id.view == VIEW_NEW) {
		new_open(m, req, id.serial, fi);
		return;
	}
	if (id.view == VIEW_LEASES) {
		h.kind = mode == O_RDONLY ? HANDLE_TEXT : HANDLE_LEASE;
		open_handle(req, fi, &h);
		return;
	}
	if (mode != O_RDONLY) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (is_task_view(id.view))
		h.kind = HANDLE_PEEK;
	if (ino >= FIXED_STATUS && ino < FIXED_NAMED_END && queue_has_unread(m->q))
		mount_want_refresh(m); /* counts are shown, so ends must be read */
	if (fixed_tier(ino, FIXED_READY) >= 0 || ino == FIXED_STATUS)
		h.generation = UINT64_MAX; /* readable at once: nothing was read yet */
	open_handle(req, fi, &h);
}

static void
op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	  struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	enum view view = dir_view(parent);
	size_t len;
	unsigned k;

	(void)mode;
	if (view == VIEW_NEW)
		new_create(m, req, name, fi);
	else /* touch of an attempt that is over: the message must say so */
		fuse_reply_err(req, (view == VIEW_LEASES || view >= VIEW_QUEUE) &&
					    name_split(name, &len, &k) ?
				    ESTALE :
				    EPERM);
}

/* ---- read and write ---- */

static void
reply_slice(fuse_req_t req, const char *text, size_t len, off_t off, size_t size)
{
	size_t at = (size_t)off < len ? (size_t)off : len;

	fuse_reply_buf(req, text ? text + at : NULL, len - at < size ? len - at : size);
}

static void
read_payload(fuse_req_t req, struct handle *h, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);

	if (!h->text) {
		const struct job job = { .fn = job_read_payload, .req = req, .fi = *fi,
					 .size = size, .off = off };

		work_add(m, &job);
		return;
	}
	reply_slice(req, h->text, h->size, off, size);
	if (h->kind == HANDLE_CLAIM)
		queue_delivered(m->q, h->serial, h->attempt);
	/* a claim may be held for hours: once read to its end its payload is let go */
	if (h->kind == HANDLE_CLAIM && (size_t)off >= h->size)
		handle_text(m, fi->fh, NULL, 0, true);
}

static void
read_text(fuse_req_t req, struct handle *h, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);

	if (off == 0 || !h->text) {
		size_t len = 0;

		/* the news counts as read before it is made: what comes between wakes once more */
		uint64_t generation = queue_generation(m->q, fixed_tier(h->ino, FIXED_READY));
		char *text = text_make(m, h->ino, &len);
		if (!text) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		reply_slice(req, text, len, off, size);
		handle_text(m, fi->fh, text, len, true);
		handle_read(m, fi->fh, generation);
		return;
	}
	reply_slice(req, h->text, h->size, off, size);
}

static void
op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct handle h;

	(void)ino;
	if (!handle_get(m, fi->fh, &h)) {
		fuse_reply_err(req, EBADF);
		return;
	}
	if (h.kind == HANDLE_PEEK || h.kind == HANDLE_CLAIM) {
		read_payload(req, &h, size, off, fi);
	} else if (h.kind == HANDLE_NEW) {
		char *buf = malloc(size ? size : 1);
		ssize_t n = buf ? new_read(m, h.new_id, buf, size, off) : -ENOMEM;

		if (n < 0)
			fuse_reply_err(req, (int)-n);
		else
			fuse_reply_buf(req, buf, (size_t)n);
		free(buf);
	} else {
		read_text(req, &h, size, off, fi);
	}
}

static void
op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	 struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct handle h;
	struct job job = { .req = req, .fi = *fi, .size = size, .off = off };

	(void)ino;
	if (!handle_get(m, fi->fh, &h)) {
		fuse_reply_err(req, EBADF);
		return;
	}
	job.serial = h.serial;
	job.attempt = h.attempt;
	job.seq = h.seq;
	if (h.kind == HANDLE_NEW) {
		job.fn = job_new_write;
		job.number = h.new_id;
		job.off = h.append ? -1 : off;
		job.data = malloc(size ? size : 1);
		if (!job.data) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		memcpy(job.data, buf, size);
		work_add(m, &job);
		return;
	}
	if (h.kind != HANDLE_LEASE && h.kind != HANDLE_CLAIM) {
		fuse_reply_err(req, EPERM);
		return;
	}
	/* the offset only moves along: whoever read the payload stands behind it */
	int rc = verb_parse(buf, size, &job.verb);
	if (rc) {
		fuse_reply_err(req, -rc);
		return;
	}
	job.fn = job.verb.kind == VERB_END ? job_end : job_say;
	job.deadline = now_read().boot_ms + END_PATIENCE_MS;
	work_add(m, &job);
}

static void
op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct handle h;

	(void)ino;
	if (!handle_get(m, fi->fh, &h) || h.kind != HANDLE_NEW || !h.rdwr) {
		fuse_reply_err(req, 0);
		return;
	}
	const struct job job = { .fn = job_new_flush, .req = req, .number = h.new_id };
	work_add(m, &job);
}

static void
op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct handle h;

	(void)ino;
	if (handle_close(m, fi->fh, &h)) {
		struct job job = { .serial = h.serial, .attempt = h.attempt, .seq = h.seq,
				   .bound = h.rdwr, .number = h.new_id };

		free(h.text);
		if (h.kind == HANDLE_CLAIM && queue_is_held(m->q, h.serial, h.attempt))
			job.fn = job_closed;
		if (h.kind == HANDLE_NEW) {
			/* here, in order with a rename that may follow */
			job.bound = new_closed(m, h.new_id, h.rdwr);
			job.fn = job_new_release;
		}
		if (job.fn)
			work_add(m, &job);
	}
	fuse_reply_err(req, 0);
}

static void
op_fsync(fuse_req_t req, fuse_ino_t ino, int data, struct fuse_file_info *fi)
{
	(void)ino;
	(void)data;
	(void)fi;
	/* nothing was answered before it was durable */
	fuse_reply_err(req, 0);
}

/* ---- directories ---- */

static void
op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);

	if (!is_task_view(dir_view(ino))) {
		fuse_reply_open(req, fi);
		return;
	}
	/* answered when the refresh has ended, or a moment later without it; at once when the last
	 * one is so recent that there will be none yet */
	if (duties_refreshed_lately(m->duties, now_read()))
		fuse_reply_open(req, fi);
	else
		opendir_wait(m, req, fi);
	mount_want_refresh(m);
}

static void
list_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	char *buf = malloc(size);

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	size_t n = tree_list(mount_of(req), req, ino, buf, size, off, plus);
	fuse_reply_buf(req, buf, n);
	free(buf);
}

static void
op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)fi;
	list_dir(req, ino, size, off, false);
}

static void
op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)fi;
	list_dir(req, ino, size, off, true);
}

static void
op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, 0);
}

/* ---- names that nobody makes ---- */

/* Names come from tasks: nobody makes or removes them by hand. */
static void
refuse_name(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)parent;
	(void)name;
	fuse_reply_err(req, EPERM);
}

static void
op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)mode;
	refuse_name(req, parent, name);
}

static void
op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
	(void)mode;
	(void)dev;
	refuse_name(req, parent, name);
}

static void
op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	(void)link;
	refuse_name(req, parent, name);
}

static void
op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	(void)ino;
	refuse_name(req, parent, name);
}

/* ---- the rest ---- */

static void
op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct mount *m = mount_of(req);
	struct queue_stats s;
	struct statvfs v = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255 };

	(void)ino;
	queue_stats(m->q, &s);
	for (int i = 0; i < TASK_STATES; i++)
		v.f_files += (fsfilcnt_t)s.count[i];
	v.f_ffree = v.f_favail = (fsfilcnt_t)s.count[TASK_PENDING];
	fuse_reply_statfs(req, &v);
}

static void
op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct node_id id = node_unpack(ino);
	char buf[512];

	/* tools ask for ACLs and capabilities of every file: this answer stops them for good */
	if (strncmp(name, "user.", 5) != 0) {
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	int n = is_task_view(id.view) ?
			task_xattr(mount_of(req), id.serial, name, buf, sizeof(buf)) :
			-1;
	if (n >= (int)sizeof(buf))
		n = (int)sizeof(buf) - 1;
	if (n < 0)
		fuse_reply_err(req, ENODATA);
	else if (!size)
		fuse_reply_xattr(req, (size_t)n);
	else if (size < (size_t)n)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

static void
op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
	    int flags)
{
	(void)ino;
	(void)value;
	(void)size;
	(void)flags;
	fuse_reply_err(req, strncmp(name, "user.", 5) != 0 ? EOPNOTSUPP : EPERM);
}

static void
op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char buf[XATTRS * 32];
	size_t n = 0;

	if (is_task_view(node_unpack(ino).view))
		for (int i = 0; i < XATTRS; i++) {
			size_t len = strlen(xattr_names[i]) + 1;

			memcpy(buf + n, xattr_names[i], len);
			n += len;
		}
	if (!size)
		fuse_reply_xattr(req, n);
	else if (size < n)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, n);
}

static void
op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
	struct mount *m = mount_of(req);
	int tier = fixed_tier(ino, FIXED_READY);
	bool live = tier >= 0 || ino == FIXED_STATUS;
	uint64_t generation = queue_generation(m->q, tier);
	unsigned events = POLLIN | POLLRDNORM;

	/* a file that nothing is told of is always readable, as regular files are */
	if (live && !handle_poll(m, fi->fh, ph, generation))
		events = 0;
	else if (ph)
		fuse_pollhandle_destroy(ph);
	if (!events)
		atomic_store(&m->attention, true); /* an agent that waits is an idle one */
	fuse_reply_poll(req, events);
}

const struct fuse_lowlevel_ops mount_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsync,
	.rename = op_rename,
	.unlink = op_unlink,
	.rmdir = refuse_name,
	.mkdir = op_mkdir,
	.mknod = op_mknod,
	.symlink = op_symlink,
	.link = op_link,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.setxattr = op_setxattr,
	.listxattr = op_listxattr,
	.removexattr = refuse_name,
	.poll = op_poll,
};
