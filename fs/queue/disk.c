/*
 * disk.c - the table's wrappers, which count, and the POSIX implementation behind it.
 */
#include <config.h>

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const disk_call_names[DISK_CALLS] = {
	[DISK_SYMLINK] = "symlink", [DISK_READLINK] = "readlink", [DISK_MKDIR] = "mkdir",
	[DISK_UNLINK] = "unlink",   [DISK_LIST] = "list",	  [DISK_STAT] = "stat",
	[DISK_TOUCH] = "touch",	    [DISK_CREATE] = "create",	  [DISK_AMEND] = "amend",
	[DISK_READ] = "read",	    [DISK_IMPORT] = "import",	  [DISK_SYNC] = "sync",
	[DISK_RMDIR] = "rmdir",
};

struct posix_dir {
	int fd;
	char path[PATH_MAX];
};

static int
root_fd(void *ctx)
{
	return ((struct posix_dir *)ctx)->fd;
}

static int
result(int rc)
{
	return rc < 0 ? -errno : rc;
}

static int
posix_symlink(void *ctx, const char *text, const char *path)
{
	return result(symlinkat(text, root_fd(ctx), path));
}

static int
posix_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	ssize_t n = readlinkat(root_fd(ctx), path, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return (int)n;
}

static int
posix_mkdir(void *ctx, const char *path)
{
	return result(mkdirat(root_fd(ctx), path, 0777));
}

static int
posix_unlink(void *ctx, const char *path)
{
	return result(unlinkat(root_fd(ctx), path, 0));
}

static int
posix_rmdir(void *ctx, const char *path)
{
	return result(unlinkat(root_fd(ctx), path, AT_REMOVEDIR));
}

static int
open_at(void *ctx, const char *path, int flags, mode_t mode)
{
	int fd;

	do {
		fd = openat(root_fd(ctx), path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
	} while (fd < 0 && errno == EINTR);
	return result(fd);
}

static int
posix_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	int fd = open_at(ctx, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	/* To open it makes a client of NFS ask whether the directory has changed. The answer may be
	 * a time with a coarse clock's ticks: what came within the tick of the last listing would
	 * then be missing for good. So what is cached of it is dropped: posix_fadvise(2). */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	int rc = 0;
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(dir);

		if (!e) {
			rc = -errno;
			break;
		}
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		rc = fn(arg, e->d_name);
		if (rc)
			break;
	}
	closedir(dir);
	return rc;
}

static int
posix_stat(void *ctx, const char *path, struct disk_stat *st)
{
	struct statx x;

	/* the truth, not an attribute cache: statx(2), AT_STATX_FORCE_SYNC */
	if (statx(root_fd(ctx), path, AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
		  STATX_BASIC_STATS, &x) < 0)
		return -errno;
	st->ino = x.stx_ino;
	st->mtime_s = x.stx_mtime.tv_sec;
	st->mtime_ns = x.stx_mtime.tv_nsec;
	st->size = (int64_t)x.stx_size;
	return 0;
}

static int
posix_touch(void *ctx, const char *path, int64_t seconds)
{
	const struct timespec t[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

	return result(utimensat(root_fd(ctx), path, t, AT_SYMLINK_NOFOLLOW));
}

int
write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Sync when asked, close, and keep the first error: a full disk may speak only now. */
static int
finish_file(int fd, int rc, bool sync)
{
	if (!rc && sync && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && !rc)
		rc = -errno;
	return rc;
}

static int
posix_create(void *ctx, const char *path, const void *data, size_t len)
{
	int fd = open_at(ctx, path, O_WRONLY | O_CREAT | O_EXCL, 0666);

	if (fd < 0)
		return fd;
	int rc = finish_file(fd, write_all(fd, data, len), true);
	if (rc)
		posix_unlink(ctx, path); /* ours alone: nobody else could have made it */
	return rc;
}

static int
posix_amend(void *ctx, const char *path, const void *data, size_t len)
{
	int fd = open_at(ctx, path, O_WRONLY, 0);

	if (fd < 0)
		return fd;
	return finish_file(fd, write_all(fd, data, len), false);
}

static int
posix_read(void *ctx, const char *path, void *buf, size_t size)
{
	int fd = open_at(ctx, path, O_RDONLY, 0);
	size_t len = 0;

	if (fd < 0)
		return fd;
	int rc = 0;
	while (len < size) {
		ssize_t n = read(fd, (char *)buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	return rc ? rc : (int)len;
}

/* Compare two files byte for byte from their beginnings; 0, -EIO when they differ, or an errno. */
static int
same_content(int a, int b)
{
	char x[65536];
	char y[65536];
	off_t off = 0;

	for (;;) {
		ssize_t n = pread(a, x, sizeof(x), off);
		ssize_t m = 0;

		if (n < 0)
			return -errno;
		while (m < n) {
			ssize_t got = pread(b, y + m, (size_t)(n - m), off + m);

			if (got < 0)
				return -errno;
			if (got == 0)
				return -EIO;
			m += got;
		}
		if (n == 0)
			return pread(b, y, 1, off) == 0 ? 0 : -EIO;
		if (memcmp(x, y, (size_t)n) != 0)
			return -EIO;
		off += n;
	}
}

static int
posix_import(void *ctx, int local_fd, const char *path)
{
	char buf[65536];
	int fd = open_at(ctx, path, O_RDWR | O_CREAT | O_EXCL, 0666);

	if (fd < 0)
		return fd;
	int rc = 0;
	for (off_t off = 0; !rc;) {
		ssize_t n = pread(local_fd, buf, sizeof(buf), off);

		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		rc = write_all(fd, buf, (size_t)n);
		off += n;
	}
	rc = finish_file(fd, rc, true);
	if (!rc) {
		/* through a new descriptor, so that a network client asks the server again */
		fd = open_at(ctx, path, O_RDONLY, 0);
		rc = fd < 0 ? fd : same_content(local_fd, fd);
		if (fd >= 0)
			close(fd);
	}
	if (rc)
		posix_unlink(ctx, path);
	return rc;
}

static int
posix_sync(void *ctx, const char *dir)
{
	int fd = open_at(ctx, dir, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	int rc = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	/* some network file systems have nothing to do here and say so: fsync(2), EINVAL */
	return rc == -EINVAL ? 0 : rc;
}

static int
posix_locate(void *ctx, const char *path, char *buf, size_t size)
{
	struct posix_dir *dir = ctx;
	int n = snprintf(buf, size, "/proc/self/fd/%d/%s", dir->fd, path);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* FORMAT in a directory begins with this text: 0, -ENOENT, -EXDEV (it is another's), or an errno. */
static int
check_format(int dir, const char *format)
{
	char text[128];
	size_t len = strlen(format);
	int fd = openat(dir, "FORMAT", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text));
	int rc = n < 0 ? -errno : (size_t)n < len || memcmp(text, format, len) != 0 ? -EXDEV : 0;
	close(fd);
	return rc;
}

/* Two descriptors show one directory through one mount. A mount that was taken away and came back is
 * another: what is left of the old one has no path any more, and SQLite needs one. */
static bool
is_same(int a, int b)
{
	struct statx x;
	struct statx y;

	return !statx(a, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &x) &&
	       !statx(b, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &y) &&
	       x.stx_ino == y.stx_ino && x.stx_dev_major == y.stx_dev_major &&
	       x.stx_dev_minor == y.stx_dev_minor && x.stx_mnt_id == y.stx_mnt_id;
}

static int
posix_home(void *ctx, const char *format)
{
	struct posix_dir *dir = ctx;

	/* a run directory that was moved, replaced or unmounted still answers at our descriptor */
	int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = check_format(fd, format);
	bool same = !rc && is_same(fd, dir->fd) && check_format(dir->fd, format) == 0;
	if (!rc && !same) {
		/* calls under way keep what they began with; all others begin there */
		rc = dup3(fd, dir->fd, O_CLOEXEC) < 0 ? -errno : 1;
	}
	close(fd);
	return rc;
}

static void
posix_pause(void *ctx, int ms)
{
	(void)ctx;
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static int64_t
posix_now(void *ctx)
{
	struct timespec t;

	(void)ctx;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The number of the mount that a descriptor is in: proc(5), fdinfo. */
static int
mount_id(int fd)
{
	char path[64];
	char line[128];
	int id = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	FILE *f = fopen(path, "re");
	while (f && id < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "mnt_id: %d", &id) != 1)
			id = -1;
	if (f)
		fclose(f);
	return id;
}

static int
posix_mountinfo(void *ctx, char *line, size_t size)
{
	int want = mount_id(root_fd(ctx));
	int id = -1;
	FILE *f = want < 0 ? NULL : fopen("/proc/self/mountinfo", "re");

	if (!f)
		return -ENOENT;
	/* a line too long for the buffer is read in pieces, and none but the first has a number */
	while (id != want && fgets(line, (int)size, f))
		if (sscanf(line, "%d", &id) != 1)
			id = -1;
	fclose(f);
	return id == want ? 0 : -ENOENT;
}

static void
posix_close(void *ctx)
{
	close(root_fd(ctx));
	free(ctx);
}

static const struct disk_ops posix_ops = {
	.symlink = posix_symlink, .readlink = posix_readlink, .mkdir = posix_mkdir,
	.unlink = posix_unlink,	  .rmdir = posix_rmdir,	      .list = posix_list,
	.stat = posix_stat,	  .touch = posix_touch,	      .create = posix_create,
	.amend = posix_amend,	  .read = posix_read,	      .import = posix_import,
	.sync = posix_sync,	  .home = posix_home,	      .locate = posix_locate,
	.pause = posix_pause,	  .now = posix_now,	      .mountinfo = posix_mountinfo,
	.close = posix_close,
};

int
disk_open(struct disk *disk, const char *path, struct err *err)
{
	struct posix_dir *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return err_set(err, -ENOMEM, "out of memory");
	dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd >= 0 && !realpath(path, dir->path)) {
		close(dir->fd);
		dir->fd = -1;
	}
	if (dir->fd < 0) {
		int rc = err_set(err, -errno, "%s: %s", path, strerror(errno));

		free(dir);
		return rc;
	}
	*disk = (struct disk){ .ops = &posix_ops, .ctx = dir };
	return 0;
}

void
disk_close(struct disk *disk)
{
	if (disk->ops && disk->ops->close)
		disk->ops->close(disk->ctx);
	disk->ops = NULL;
}

/* One call: counted, timed, refused while the run is away, its error told in our few words. */
#define CALL(d, kind, expr)                         \
	int slot = health_enter(d, kind);           \
	if (slot == HEALTH_REFUSED)                 \
		return -EIO;                        \
	return health_leave(d, kind, slot, (expr))

int
disk_symlink(struct disk *d, const char *text, const char *path)
{
	CALL(d, DISK_SYMLINK, d->ops->symlink(d->ctx, text, path));
}

int
disk_readlink(struct disk *d, const char *path, char *buf, size_t size)
{
	CALL(d, DISK_READLINK, d->ops->readlink(d->ctx, path, buf, size));
}

int
disk_mkdir(struct disk *d, const char *path)
{
	CALL(d, DISK_MKDIR, d->ops->mkdir(d->ctx, path));
}

int
disk_unlink(struct disk *d, const char *path)
{
	CALL(d, DISK_UNLINK, d->ops->unlink(d->ctx, path));
}

int
disk_rmdir(struct disk *d, const char *path)
{
	CALL(d, DISK_RMDIR, d->ops->rmdir(d->ctx, path));
}

int
disk_list(struct disk *d, const char *path, disk_entry_fn *fn, void *arg)
{
	CALL(d, DISK_LIST, d->ops->list(d->ctx, path, fn, arg));
}

int
disk_stat(struct disk *d, const char *path, struct disk_stat *st)
{
	CALL(d, DISK_STAT, d->ops->stat(d->ctx, path, st));
}

int
disk_touch(struct disk *d, const char *path, int64_t seconds)
{
	CALL(d, DISK_TOUCH, d->ops->touch(d->ctx, path, seconds));
}

int
disk_create(struct disk *d, const char *path, const void *data, size_t len)
{
	CALL(d, DISK_CREATE, d->ops->create(d->ctx, path, data, len));
}

int
disk_amend(struct disk *d, const char *path, const void *data, size_t len)
{
	CALL(d, DISK_AMEND, d->ops->amend(d->ctx, path, data, len));
}

int
disk_read(struct disk *d, const char *path, void *buf, size_t size)
{
	CALL(d, DISK_READ, d->ops->read(d->ctx, path, buf, size));
}

int
disk_import(struct disk *d, int local_fd, const char *path)
{
	CALL(d, DISK_IMPORT, d->ops->import(d->ctx, local_fd, path));
}

int
disk_sync(struct disk *d, const char *dir)
{
	CALL(d, DISK_SYNC, d->ops->sync(d->ctx, dir));
}

int
disk_locate(struct disk *d, const char *path, char *buf, size_t size)
{
	return d->ops->locate(d->ctx, path, buf, size);
}

void
disk_pause(struct disk *d, int ms)
{
	d->ops->pause(d->ctx, ms);
}

int64_t
disk_now(struct disk *d)
{
	return d->ops->now(d->ctx);
}

int
disk_mountinfo(struct disk *d, char *line, size_t size)
{
	return d->ops->mountinfo ? d->ops->mountinfo(d->ctx, line, size) : -ENOENT;
}
