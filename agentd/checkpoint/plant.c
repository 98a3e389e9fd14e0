/*
 * plant.c - making entries below a folder.
 */
#include <config.h>

#include "plant.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A directory gets its mode when all is in it: it may forbid us to write. */
struct late {
	char *path;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

struct plant {
	int root;
	int64_t limit, spent, bytes, entries, compromises;
	mode_t umask;
	uid_t uid;
	gid_t egid;
	gid_t gid; /* of what is created */
	bool as_root;
	/* the directory that was used last, for entries that follow each other */
	int dir;
	char *dir_path;
	size_t dir_len, dir_cap;
	struct late *late;
	size_t nlate, late_cap;
	/* the present entry */
	int fd; /* -1 when it is no open file or directory */
	char *path;
	mode_t mode;
	uid_t want_uid;
	gid_t want_gid;
	bool rechmod; /* it was given another mode for a while */
	int64_t size, end;
	struct timespec mtime;
};

static int
refuse(struct err *err, const char *path, const char *why)
{
	char buf[160];

	return err_set(err, -EBADMSG, "%s: %s", folder_print(path, buf, sizeof(buf)), why);
}

static int
failed(struct err *err, const char *path)
{
	int code = errno;
	char buf[160];

	return err_set(err, -code, "%s: %s", folder_print(path, buf, sizeof(buf)), strerror(code));
}

struct plant *
plant_new(int root, int64_t limit)
{
	struct plant *p = calloc(1, sizeof(*p));
	struct stat st;

	if (!p)
		return NULL;
	*p = (struct plant){ .root = root, .limit = limit, .uid = geteuid(), .egid = getegid(),
			     .gid = getegid(), .as_root = geteuid() == 0, .dir = -1, .fd = -1 };
	if (!fstat(root, &st) && st.st_mode & S_ISGID)
		p->gid = st.st_gid;
	p->umask = umask(0);
	return p;
}

void
plant_free(struct plant *p)
{
	if (!p)
		return;
	umask(p->umask);
	if (p->fd >= 0)
		close(p->fd);
	if (p->dir >= 0)
		close(p->dir);
	for (size_t i = 0; i < p->nlate; i++)
		free(p->late[i].path);
	free(p->late);
	free(p->dir_path);
	free(p->path);
	free(p);
}

int64_t
plant_bytes(const struct plant *p)
{
	return p->bytes;
}

int64_t
plant_entries(const struct plant *p)
{
	return p->entries;
}

int64_t
plant_compromises(const struct plant *p)
{
	return p->compromises;
}

/* ---- paths ---- */

/* True when every name of a path is one that stays below. */
static bool
is_inside(const char *path)
{
	for (const char *p = path;;) {
		size_t len = strcspn(p, "/");

		if (!len || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[len])
			return true;
		p += len + 1;
	}
}

/* Open directory len bytes of path long, from the one used last if that is on the way. */
static int
open_directory(struct plant *p, const char *path, size_t len)
{
	size_t at = 0;
	char *part = NULL;

	if (p->dir >= 0 && p->dir_len <= len && !strncmp(p->dir_path, path, p->dir_len) &&
	    (p->dir_len == len || path[p->dir_len] == '/' || !p->dir_len))
		at = p->dir_len;
	if (p->dir < 0 || (!at && p->dir_len)) {
		if (p->dir >= 0)
			close(p->dir);
		p->dir_len = 0;
		p->dir = fcntl(p->root, F_DUPFD_CLOEXEC, 0);
		if (p->dir < 0)
			return -errno;
	}
	if (len + 1 > p->dir_cap) {
		char *grown = realloc(p->dir_path, len * 2 + 64);

		if (!grown)
			return -ENOMEM;
		p->dir_path = grown;
		p->dir_cap = len * 2 + 64;
	}
	while (at < len) {
		if (path[at] == '/')
			at++;
		size_t n = strcspn(path + at, "/");
		if (at + n > len)
			n = len - at;
		part = strndup(path + at, n);
		if (!part)
			return -ENOMEM;
		int fd = openat(p->dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		free(part);
		if (fd < 0)
			return -errno;
		close(p->dir);
		p->dir = fd;
		at += n;
		memcpy(p->dir_path, path, at);
		p->dir_len = at;
	}
	return 0;
}

/* The directory that an entry is in, and its name there. */
static int
open_parent(struct plant *p, const char *path, const char **name, struct err *err)
{
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	if (!is_inside(path))
		return refuse(err, path, "this path could lead out of the folder");
	int rc = open_directory(p, path, slash ? (size_t)(slash - path) : 0);
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP)
		return refuse(err, path, "it is in nothing that was a directory before");
	if (rc) {
		errno = -rc;
		return failed(err, path);
	}
	return 0;
}

/* ---- entries ---- */

static int
spend(struct plant *p, int64_t bytes, const char *path, struct err *err)
{
	char buf[120];

	p->spent += bytes;
	if (p->limit && p->spent > p->limit)
		return err_set(err, -EFBIG, "%s: with it there is more than the limit of %lld bytes",
			       folder_print(path, buf, sizeof(buf)), (long long)p->limit);
	return 0;
}

/* Give an open file its owner, mode and time. */
static int
dress(struct plant *p, int fd, const char *path, mode_t mode, uid_t uid, gid_t gid,
      const struct timespec *mtime, bool mode_is_set, struct err *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, *mtime };

	if (p->as_root && (uid != p->uid || gid != p->gid)) {
		/* in a user namespace there may be no such owner */
		if (fchown(fd, uid, gid) < 0) {
			p->compromises++;
			mode &= (mode_t)~(S_ISUID | S_ISGID);
		}
		mode_is_set = false; /* it clears setuid */
	}
	if (!S_ISDIR(mode) && uid != p->uid)
		mode &= (mode_t)~S_ISUID;
	if (!S_ISDIR(mode) && gid != p->egid)
		mode &= (mode_t)~S_ISGID;
	if ((!mode_is_set || mode & 07000) && fchmod(fd, mode & 07777) < 0)
		return failed(err, path);
	return futimens(fd, times) < 0 ? failed(err, path) : 0;
}

static int
finish_entry(struct plant *p, struct err *err)
{
	int rc = 0;

	if (p->fd < 0)
		return 0;
	if (S_ISREG(p->mode)) {
		/* what was not written behind the data is a hole */
		if (p->end < p->size && ftruncate(p->fd, p->size) < 0)
			rc = failed(err, p->path);
		if (!rc)
			rc = dress(p, p->fd, p->path, p->mode, p->want_uid, p->want_gid, &p->mtime,
				   !p->rechmod, err);
	}
	if (close(p->fd) < 0 && !rc)
		rc = failed(err, p->path);
	p->fd = -1;
	return rc;
}

static int
remember_directory(struct plant *p, const struct plant_spec *s)
{
	if (p->nlate == p->late_cap) {
		size_t cap = p->late_cap * 2 + 64;
		struct late *grown = realloc(p->late, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->late = grown;
		p->late_cap = cap;
	}
	struct late *l = &p->late[p->nlate];
	*l = (struct late){ NULL, s->mode, s->uid, s->gid, s->mtime };
	l->path = strdup(p->path);
	if (!l->path)
		return -ENOMEM;
	p->nlate++;
	return 0;
}

static int
make_directory(struct plant *p, const struct plant_spec *s, const char *name)
{
	if (mkdirat(p->dir, name, 0700) < 0)
		return -errno;
	p->fd = openat(p->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->fd < 0 ? -errno : remember_directory(p, s);
}

/* What has no descriptor: a symbolic link, a FIFO. */
static int
dress_name(struct plant *p, const struct plant_spec *s, const char *name)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, s->mtime };

	if (p->as_root && (s->uid != p->uid || s->gid != p->gid) &&
	    fchownat(p->dir, name, s->uid, s->gid, AT_SYMLINK_NOFOLLOW) < 0)
		p->compromises++;
	return utimensat(p->dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int
make(struct plant *p, const struct plant_spec *s, const char *name)
{
	int rc = 0;

	switch (s->mode & S_IFMT) {
	case S_IFREG:
		p->fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			       s->mode & 0777);
		return p->fd < 0 ? -errno : 0;
	case S_IFDIR:
		return make_directory(p, s, name);
	case S_IFLNK:
		if (symlinkat(s->target, p->dir, name) < 0)
			rc = -errno;
		return rc ? rc : dress_name(p, s, name);
	case S_IFIFO:
	case S_IFSOCK:
		if (mknodat(p->dir, name, s->mode & (S_IFMT | 0777), 0) < 0)
			rc = -errno;
		return rc ? rc : dress_name(p, s, name);
	default:
		return -EBADMSG;
	}
}

/* Another name for an earlier entry, which is never a directory nor outside. */
static int
make_link(struct plant *p, const struct plant_spec *s, const char *name, struct err *err)
{
	const char *old = s->hardlink;
	int dir = fcntl(p->dir, F_DUPFD_CLOEXEC, 0);
	int rc = dir < 0 ? -errno : open_parent(p, s->hardlink, &old, err);

	if (!rc && linkat(p->dir, old, dir, name, 0) < 0)
		rc = errno == ENOENT || errno == EPERM ?
			     refuse(err, s->path, "another name for what is not there") :
			     failed(err, s->path);
	if (dir >= 0)
		close(dir);
	return rc;
}

int
plant_entry(struct plant *p, const struct plant_spec *s, struct err *err)
{
	const char *name = NULL;
	int rc = finish_entry(p, err);

	free(p->path);
	p->path = strdup(s->path);
	if (rc || !p->path)
		return rc ? rc : -ENOMEM;
	size_t len = strlen(p->path);
	while (S_ISDIR(s->mode) && len > 1 && p->path[len - 1] == '/')
		p->path[--len] = '\0';
	p->mode = s->mode;
	p->want_uid = s->uid;
	p->want_gid = s->gid;
	p->mtime = s->mtime;
	p->size = s->hardlink || !S_ISREG(s->mode) ? 0 : s->size;
	p->end = 0;
	p->rechmod = false;
	p->entries++;
	rc = spend(p, PLANT_ENTRY_COST, p->path, err);
	if (!rc && !strcmp(p->path, ".") && S_ISDIR(s->mode) && !s->hardlink) {
		/* the folder itself; whatever was done to it, we have to be able to use it */
		p->fd = fcntl(p->root, F_DUPFD_CLOEXEC, 0);
		rc = p->fd < 0 ? -errno : remember_directory(p, s);
		if (!rc)
			p->late[p->nlate - 1].mode |= 0700;
		return rc;
	}
	if (!rc)
		rc = open_parent(p, p->path, &name, err);
	if (rc)
		return rc;
	if (s->hardlink)
		return make_link(p, s, name, err);
	rc = make(p, s, name);
	if (rc == -EBADMSG)
		return refuse(err, p->path, "a device or something else that is not restored");
	if (rc == -EEXIST)
		return refuse(err, p->path, "it is in the archive twice");
	if (rc) {
		errno = -rc;
		return failed(err, p->path);
	}
	return 0;
}

int
plant_xattr(struct plant *p, const char *name, const void *value, size_t size, struct err *err)
{
	if (strncmp(name, "user.", 5) != 0 || p->fd < 0)
		return 0;
	int rc = spend(p, (int64_t)size, p->path, err);
	if (rc)
		return rc;
	rc = fsetxattr(p->fd, name, value, size, 0);
	if (rc < 0 && errno == EACCES && S_ISREG(p->mode) && !fchmod(p->fd, 0600)) {
		/* its mode forbids to write, which for attributes counts even when it is open */
		p->rechmod = true;
		rc = fsetxattr(p->fd, name, value, size, 0);
	}
	if (rc < 0 && errno != ENOTSUP)
		return failed(err, p->path);
	if (rc < 0)
		p->compromises++;
	return 0;
}

int
plant_data(struct plant *p, const void *data, size_t size, int64_t offset, struct err *err)
{
	if (!size)
		return 0;
	if (p->fd < 0 || !S_ISREG(p->mode) || offset < p->end || (int64_t)size > p->size - offset)
		return refuse(err, p->path, "data where there should be none");
	int rc = spend(p, (int64_t)size, p->path, err);
	if (rc)
		return rc;
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(p->fd, (const char *)data + done, size - done,
				   (off_t)(offset + (int64_t)done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(err, p->path);
		done += (size_t)n;
	}
	p->end = offset + (int64_t)size;
	p->bytes += (int64_t)size;
	return 0;
}

int
plant_share(struct plant *p, int from, struct err *err)
{
	if (ioctl(p->fd, FICLONE, from) < 0)
		return failed(err, p->path);
	p->end = p->size;
	return 0;
}

int
plant_finish(struct plant *p, struct err *err)
{
	int rc = finish_entry(p, err);

	/* the deepest first: a directory may be closed to us once it has its mode */
	for (size_t i = p->nlate; !rc && i > 0; i--) {
		const struct late *l = &p->late[i - 1];
		bool is_root = !strcmp(l->path, ".");

		rc = open_directory(p, l->path, is_root ? 0 : strlen(l->path));
		if (rc) {
			errno = -rc;
			rc = failed(err, l->path);
		} else {
			rc = dress(p, p->dir, l->path, l->mode, l->uid, l->gid, &l->mtime, false,
				   err);
		}
	}
	return rc;
}
