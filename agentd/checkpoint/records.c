/*
 * records.c - archives of attempts' records. With checkpoint.c and restore.c the only files that
 * know libarchive.
 */
#include <config.h>

#include "records.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

/* What a folder may hold besides an empty out/, the record last: records_remove(). */
static const char *const known[] = { "output.log", "trajectory.jsonl", "attempt.json" };
enum { KNOWN = sizeof(known) / sizeof(known[0]) };
static const char prefix[] = "results/";

/* ---- folders ---- */

static DIR *
open_folder(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !d)
		close(fd);
	return d;
}

static bool
is_known(const char *name)
{
	for (int i = 0; i < KNOWN; i++)
		if (!strcmp(known[i], name))
			return true;
	return false;
}

static bool
is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool
is_empty(int dir, const char *name)
{
	DIR *d = open_folder(dir, name);
	bool empty = d != NULL;

	errno = 0;
	for (const struct dirent *e; empty && (e = readdir(d));)
		empty = is_dot(e->d_name);
	empty = empty && !errno;
	if (d)
		closedir(d);
	return empty;
}

bool
records_are_all(int results, const char *folder)
{
	DIR *d = open_folder(results, folder);
	bool all = d != NULL;

	errno = 0;
	for (const struct dirent *e; all && (e = readdir(d));) {
		struct stat st;

		if (is_dot(e->d_name))
			continue;
		all = !strcmp(e->d_name, "out") ?
			      is_empty(dirfd(d), "out") :
			      is_known(e->d_name) &&
				      !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
				      S_ISREG(st.st_mode);
		errno = 0;
	}
	all = all && !errno;
	if (d)
		closedir(d);
	return all;
}

/* ---- writing ---- */

struct packing {
	struct archive *archive;
	struct archive_entry *entry;
	struct records_result *result;
	struct err *err;
	char *buf;
	int results;
};

static int
archive_failed(struct archive *a, struct err *err)
{
	int rc = archive_errno(a) > 0 ? -archive_errno(a) : -EIO;
	const char *text = archive_error_string(a);

	return err_set(err, rc, "the archive cannot be written: %s", text ? text : strerror(-rc));
}

static int
read_failed(struct err *err, const char *path)
{
	return err_set(err, -errno, "results/%.120s cannot be read: %s", path, strerror(errno));
}

static int
put_header(struct packing *p, const char *path, const struct stat *st, const char *target)
{
	char full[NAME_MAX * 2 + 32];

	snprintf(full, sizeof(full), "%s%s", prefix, path);
	archive_entry_clear(p->entry);
	archive_entry_copy_pathname(p->entry, full);
	archive_entry_set_filetype(p->entry, st->st_mode & S_IFMT);
	archive_entry_set_perm(p->entry, st->st_mode & 07777);
	archive_entry_set_uid(p->entry, st->st_uid);
	archive_entry_set_gid(p->entry, st->st_gid);
	archive_entry_set_mtime(p->entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(p->entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	if (target)
		archive_entry_copy_symlink(p->entry, target);
	p->result->files++;
	return archive_write_header(p->archive, p->entry) < ARCHIVE_WARN ?
		       archive_failed(p->archive, p->err) :
		       0;
}

static int
put_file(struct packing *p, const char *path)
{
	struct stat st;
	int fd = openat(p->results, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = read_failed(p->err, path);

		if (fd >= 0)
			close(fd);
		return rc;
	}
	int rc = put_header(p, path, &st, NULL);
	for (int64_t left = st.st_size; !rc && left > 0;) {
		ssize_t n = read(fd, p->buf, left < BLOCK ? (size_t)left : BLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = read_failed(p->err, path);
		if (n <= 0) /* cut meanwhile: comparing tells */
			break;
		left -= n;
		p->result->bytes_in += n;
		if (archive_write_data(p->archive, p->buf, (size_t)n) < 0)
			rc = archive_failed(p->archive, p->err);
	}
	close(fd);
	return rc;
}

/* A link, or a folder with what is in it. */
static int
put_name(struct packing *p, const char *name)
{
	char path[NAME_MAX + 32];
	char target[PATH_MAX];
	struct stat st;

	if (fstatat(p->results, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return read_failed(p->err, name);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(p->results, name, target, sizeof(target) - 1);

		if (n < 0)
			return read_failed(p->err, name);
		target[n] = '\0';
		return put_header(p, name, &st, target);
	}
	int rc = put_header(p, name, &st, NULL);
	snprintf(path, sizeof(path), "%.255s/out", name);
	if (!rc && !fstatat(p->results, path, &st, AT_SYMLINK_NOFOLLOW))
		rc = put_header(p, path, &st, NULL);
	for (int i = 0; !rc && i < KNOWN; i++) {
		snprintf(path, sizeof(path), "%.255s/%s", name, known[i]);
		rc = put_file(p, path);
	}
	return rc;
}

static int
write_archive(struct packing *p, int fd, const char *const *names, size_t n,
	      records_tick_fn *tick, void *arg)
{
	struct archive *a = p->archive;
	int rc = 0;

	if (archive_write_set_format_pax_restricted(a) < ARCHIVE_WARN ||
	    archive_write_add_filter_zstd(a) < ARCHIVE_WARN ||
	    archive_write_set_bytes_per_block(a, BLOCK) < ARCHIVE_WARN ||
	    archive_write_set_bytes_in_last_block(a, 1) < ARCHIVE_WARN ||
	    archive_write_open_fd(a, fd) < ARCHIVE_WARN)
		rc = archive_failed(a, p->err);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = put_name(p, names[i]);
		if (!rc)
			rc = tick(arg);
	}
	if (!rc && archive_write_close(a) < ARCHIVE_WARN)
		rc = archive_failed(a, p->err);
	return rc;
}

/* ---- reading ---- */

static int
damaged(struct archive *a, const char *file, struct err *err)
{
	const char *text = archive_error_string(a);

	return err_set(err, archive_errno(a) == ENOMEM ? -ENOMEM : -EBADMSG, "%s is damaged: %s", file,
		       text ? text : "no archive");
}

/* The path of an entry below results/; NULL when it is none of ours. */
static const char *
entry_path(struct archive_entry *e)
{
	const char *path = archive_entry_pathname(e);

	return path && !strncmp(path, prefix, strlen(prefix)) ? path + strlen(prefix) : NULL;
}

static struct archive *
open_archive(const char *file, struct err *err)
{
	struct archive *a = archive_read_new();
	struct stat st;

	if (!a) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	if (stat(file, &st) < 0) {
		err_set(err, -errno, "%s: %s", file, strerror(errno));
	} else if (archive_read_support_filter_zstd(a) >= ARCHIVE_WARN &&
		   archive_read_support_format_tar(a) >= ARCHIVE_WARN &&
		   archive_read_open_filename(a, file, BLOCK) >= ARCHIVE_WARN) {
		return a;
	} else {
		damaged(a, file, err);
	}
	archive_read_free(a);
	return NULL;
}

/* All data of an entry, allocated, with a NUL behind it; NULL when it cannot be read. */
static char *
entry_data(struct archive *a, struct archive_entry *e, size_t *size)
{
	*size = (size_t)archive_entry_size(e);
	char *data = malloc(*size + 1);
	size_t got = 0;

	while (data && got < *size) {
		la_ssize_t n = archive_read_data(a, data + got, *size - got);

		if (n <= 0) {
			free(data);
			return NULL;
		}
		got += (size_t)n;
	}
	if (data)
		data[got] = '\0';
	return data;
}

int
records_read(const char *file, const char *wanted, records_entry_fn *fn, void *arg,
	     struct err *err)
{
	struct archive *a = open_archive(file, err);
	struct archive_entry *e;
	int rc = a ? 0 : -EBADMSG;
	int head = ARCHIVE_EOF;

	while (!rc && (head = archive_read_next_header(a, &e)) >= ARCHIVE_WARN &&
	       head != ARCHIVE_EOF) {
		const char *path = entry_path(e);
		const char *base = path ? strrchr(path, '/') : NULL;

		if (path && archive_entry_symlink(e)) {
			fn(arg, path, archive_entry_symlink(e), NULL, 0);
		} else if (base && !strcmp(base + 1, wanted)) {
			size_t size;
			char *data = entry_data(a, e, &size);

			if (data)
				fn(arg, path, NULL, data, size);
			else
				rc = damaged(a, file, err);
			free(data);
		}
	}
	if (!rc && head != ARCHIVE_EOF)
		rc = damaged(a, file, err);
	archive_read_free(a);
	return rc;
}

/* An entry of a file holds what the file holds. */
static bool
same_data(struct archive *a, struct archive_entry *e, int results, const char *path)
{
	int fd = openat(results, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int64_t left = archive_entry_size(e);
	char x[4096];
	char y[4096];
	bool same = fd >= 0;

	while (same && left > 0) {
		la_ssize_t n = archive_read_data(a, x, sizeof(x));
		ssize_t got = 0;

		for (ssize_t m = 1; n > 0 && got < n && m > 0; got += m > 0 ? m : 0)
			m = read(fd, y + got, (size_t)(n - got));
		same = n > 0 && got == n && !memcmp(x, y, (size_t)n);
		left -= n;
	}
	same = same && read(fd, y, 1) == 0;
	if (fd >= 0)
		close(fd);
	return same;
}

static bool
same_link(struct archive_entry *e, int results, const char *path)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(results, path, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	return !strcmp(target, archive_entry_symlink(e));
}

/* The archive holds what was packed, by what the storage gives back. */
static int
verify(const char *file, int results, int64_t files, records_tick_fn *tick, void *arg,
       struct err *err)
{
	struct archive *a = open_archive(file, err);
	struct archive_entry *e;
	int64_t seen = 0;
	int rc = a ? 0 : -EBADMSG;
	int head = ARCHIVE_EOF;

	while (!rc && (head = archive_read_next_header(a, &e)) >= ARCHIVE_WARN &&
	       head != ARCHIVE_EOF) {
		const char *path = entry_path(e);
		bool same = path && (archive_entry_symlink(e) ? same_link(e, results, path) :
				     archive_entry_filetype(e) == AE_IFREG ?
								same_data(a, e, results, path) :
								true);

		seen++;
		rc = same ? tick(arg) :
			    err_set(err, -EAGAIN, "results/%.120s changed while it was packed",
				    path ? path : "?");
	}
	if (!rc && (head != ARCHIVE_EOF || seen != files))
		rc = damaged(a, file, err);
	archive_read_free(a);
	return rc;
}

/* ---- packing ---- */

static int
sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || (fsync(fd) < 0 && errno != EINVAL) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return rc;
}

int
records_pack(const char *run, const char *name, const char *const *names, size_t n,
	     records_tick_fn *tick, void *arg, struct records_result *result, struct err *err)
{
	struct packing p = { .result = result, .err = err, .results = -1 };
	char dir[PATH_MAX];
	char tmp[PATH_MAX + 300];
	char file[PATH_MAX + 300];
	struct stat st = { 0 };
	int rc = 0;

	*result = (struct records_result){ 0 };
	snprintf(dir, sizeof(dir), "%.3900s/sealed", run);
	snprintf(tmp, sizeof(tmp), "%s/tmp.%.200s", dir, name);
	snprintf(file, sizeof(file), "%s/%.200s.tar.zst", dir, name);
	bool made = mkdir(dir, 0777) == 0;
	if (!made && errno != EEXIST)
		return err_set(err, -errno, "%s: %s", dir, strerror(errno));
	/* one that is there is of a sealer that died */
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", tmp, strerror(errno));
	snprintf(dir, sizeof(dir), "%.3900s/results", run);
	p.results = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p.archive = archive_write_new();
	p.entry = archive_entry_new();
	p.buf = malloc(BLOCK);
	if (p.results < 0)
		rc = err_set(err, -errno, "%s: %s", dir, strerror(errno));
	else if (!p.archive || !p.entry || !p.buf)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc)
		rc = write_archive(&p, fd, names, n, tick, arg);
	archive_write_free(p.archive);
	archive_entry_free(p.entry);
	free(p.buf);
	if (!rc && (fsync(fd) < 0 || fstat(fd, &st) < 0))
		rc = err_set(err, -errno, "%s: %s", tmp, strerror(errno));
	if (close(fd) < 0 && !rc)
		rc = err_set(err, -errno, "%s: %s", tmp, strerror(errno));
	if (!rc) {
		result->bytes_out = st.st_size;
		rc = verify(tmp, p.results, result->files, tick, arg, err);
	}
	if (p.results >= 0)
		close(p.results);
	if (!rc && rename(tmp, file) < 0)
		rc = err_set(err, -errno, "%s: %s", file, strerror(errno));
	if (rc) {
		unlink(tmp);
		return rc;
	}
	snprintf(dir, sizeof(dir), "%.3900s/sealed", run);
	rc = sync_folder(dir);
	if (!rc && made)
		rc = sync_folder(run);
	return rc ? err_set(err, rc, "%s cannot be made durable: %s", dir, strerror(-rc)) : 0;
}

static int
remove_name(int results, const char *name)
{
	char path[NAME_MAX + 32];
	int rc = 0;

	if (unlinkat(results, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	snprintf(path, sizeof(path), "%.255s/out", name);
	if (unlinkat(results, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	for (int i = 0; !rc && i < KNOWN; i++) {
		snprintf(path, sizeof(path), "%.255s/%s", name, known[i]);
		if (unlinkat(results, path, 0) < 0 && errno != ENOENT)
			rc = -errno;
	}
	if (!rc && unlinkat(results, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		rc = -errno;
	return rc;
}

int
records_remove(int results, const char *const *names, size_t n, records_tick_fn *tick, void *arg)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int rc = remove_name(results, names[i]);

		if (rc && !first)
			first = rc;
		rc = tick(arg);
		if (rc)
			return rc;
	}
	return first;
}
