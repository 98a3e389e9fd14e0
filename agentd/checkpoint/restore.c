/*
 * restore.c - an archive becomes a folder. One thread reads the file, hashes it and decompresses;
 * the other one takes the tar apart and plants what is in it. What is restored counts only when
 * the hash of the whole file turned out right.
 */
#include <config.h>

#include "checkpoint.h"

#include "plant.h"
#include "relay.h"
#include "folder.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum {
	READ_BLOCK = 1 << 20,
	RELAY_BLOCK = 256 * 1024, /* small enough to stay in the cache between two threads */
	RELAY_BLOCKS = 8,
};

struct source {
	int fd;
	XXH3_state_t *hash;
	char *buf;
	int code; /* why reading failed */
	struct relay *relay;
};

/* ---- the reading thread ---- */

static ssize_t
source_read(struct source *s)
{
	ssize_t n;

	do
		n = read(s->fd, s->buf, READ_BLOCK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		s->code = -errno;
	else
		XXH3_64bits_update(s->hash, s->buf, (size_t)n);
	return n;
}

static la_ssize_t
on_read(struct archive *a, void *arg, const void **block)
{
	struct source *s = arg;
	ssize_t n = source_read(s);

	if (n < 0)
		archive_set_error(a, -s->code, "read");
	*block = s->buf;
	return n;
}

/* Decompress into the relay's blocks; 0 or a negative errno. */
static int
decompress(struct source *s, struct archive *a)
{
	struct archive_entry *e;

	if (archive_read_support_filter_zstd(a) < ARCHIVE_WARN ||
	    archive_read_support_filter_gzip(a) < ARCHIVE_WARN ||
	    archive_read_support_format_raw(a) < ARCHIVE_WARN ||
	    archive_read_open(a, s, NULL, on_read, NULL) < ARCHIVE_WARN)
		return -EBADMSG;
	int rc = archive_read_next_header(a, &e);
	if (rc == ARCHIVE_EOF)
		return 0;
	if (rc < ARCHIVE_WARN)
		return -EBADMSG;
	for (;;) {
		void *room = relay_room(s->relay);
		la_ssize_t n = room ? archive_read_data(a, room, RELAY_BLOCK) : 0;

		if (n < 0)
			return -EBADMSG;
		if (n == 0)
			return 0;
		relay_pass(s->relay, (size_t)n);
	}
}

static void *
source_main(void *arg)
{
	struct source *s = arg;
	struct archive *a = archive_read_new();
	int rc = a ? decompress(s, a) : -ENOMEM;

	archive_read_free(a);
	relay_end(s->relay, rc);
	return NULL;
}

/* ---- the planting thread ---- */

static la_ssize_t
on_next(struct archive *a, void *arg, const void **block)
{
	const struct source *s = arg;
	ssize_t n = relay_next(s->relay, block);

	if (n < 0)
		archive_set_error(a, (int)-n, "the compressed data is damaged");
	return n < 0 ? -1 : n;
}

static int
damaged(struct archive *a, struct err *err)
{
	const char *text = archive_error_string(a);

	return err_set(err, -EBADMSG, "it is damaged: %s", text ? text : "no tar");
}

/* Entries of an archive are planted, or only counted when there is no plant. */
static int
take_data(struct archive *a, struct plant *p, struct restore_result *r, struct err *err)
{
	const void *data;
	size_t size;
	la_int64_t offset;

	for (;;) {
		int rc = archive_read_data_block(a, &data, &size, &offset);

		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc < ARCHIVE_WARN)
			return damaged(a, err);
		r->bytes += (int64_t)size;
		rc = p ? plant_data(p, data, size, offset, err) : 0;
		if (rc)
			return rc;
	}
}

static int
take_entry(struct archive *a, struct archive_entry *e, struct plant *p, struct restore_result *r,
	   struct err *err)
{
	const struct plant_spec spec = {
		.path = archive_entry_pathname(e),
		.target = archive_entry_symlink(e),
		.hardlink = archive_entry_hardlink(e),
		.mode = archive_entry_filetype(e) | archive_entry_perm(e),
		.uid = (uid_t)archive_entry_uid(e),
		.gid = (gid_t)archive_entry_gid(e),
		.size = archive_entry_size(e),
		.mtime = { archive_entry_mtime(e), archive_entry_mtime_nsec(e) },
	};
	const char *name;
	const void *value;
	size_t size;
	int rc = 0;

	if (!spec.path || !*spec.path || (S_ISLNK(spec.mode) && !spec.hardlink && !spec.target))
		return err_set(err, -EBADMSG, "an entry has no name");
	r->files++;
	if (p) {
		rc = plant_entry(p, &spec, err);
		archive_entry_xattr_reset(e);
		while (!rc && archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
			rc = plant_xattr(p, name, value, size, err);
	}
	if (!rc && spec.size > 0 && !spec.hardlink && S_ISREG(spec.mode))
		rc = take_data(a, p, r, err);
	return rc;
}

static int
take_archive(struct source *s, struct plant *p, struct restore_result *r, struct err *err)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	int rc = 0;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	archive_read_support_format_tar(a);
	archive_read_support_format_empty(a);
	if (archive_read_open(a, s, NULL, on_next, NULL) < ARCHIVE_WARN)
		rc = damaged(a, err);
	while (!rc) {
		int got = archive_read_next_header(a, &e);

		if (got == ARCHIVE_EOF)
			break;
		rc = got < ARCHIVE_WARN ? damaged(a, err) : take_entry(a, e, p, r, err);
	}
	archive_read_free(a);
	if (!rc && p)
		rc = plant_finish(p, err);
	return rc;
}

/* Both threads, and then the verdict: the hash of all bytes decides whether an error was the
 * archive's. */
static int
read_archive(struct source *s, uint64_t hash, struct plant *p, struct restore_result *r,
	     struct err *err)
{
	pthread_t thread;
	int rc = -pthread_create(&thread, NULL, source_main, s);

	if (rc)
		return err_set(err, rc, "no thread can be started: %s", strerror(-rc));
	rc = take_archive(s, p, r, err);
	relay_stop(s->relay);
	pthread_join(thread, NULL);
	while (!s->code && source_read(s) > 0)
		;
	if (s->code) {
		r->unreadable = true;
		return err_set(err, s->code, "it cannot be read: %s", strerror(-s->code));
	}
	if (XXH3_64bits_digest(s->hash) != hash)
		return err_set(err, -EBADMSG, "it is damaged: its checksum is wrong");
	return rc;
}

/* Open a checkpoint and do it; p: NULL to verify only. */
static int
use_archive(const char *store, const char *name, struct plant *p, struct restore_result *r,
	    struct err *err)
{
	char path[4096 + CHECKPOINT_NAME];
	struct source s = { .fd = -1 };
	struct checkpoint_id id;
	struct stat st;
	int rc = 0;

	snprintf(r->name, sizeof(r->name), "%s", name);
	if (!checkpoint_parse(name, &id))
		return err_set(err, -EINVAL, "%s is not the name of a checkpoint", name);
	snprintf(path, sizeof(path), "%.4095s/%s", store, name);
	s.fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (s.fd < 0 || fstat(s.fd, &st) < 0) {
		rc = err_set(err, -errno, "%s: %s", name, strerror(errno));
		r->unreadable = true;
		goto out;
	}
	r->taken_ms = mtime_ms(&st);
	s.hash = XXH3_createState();
	s.buf = malloc(READ_BLOCK);
	s.relay = relay_new(RELAY_BLOCK, RELAY_BLOCKS);
	if (!s.hash || !s.buf || !s.relay) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	XXH3_64bits_reset(s.hash);
	posix_fadvise(s.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	rc = read_archive(&s, id.hash, p, r, err);
out:
	relay_free(s.relay);
	XXH3_freeState(s.hash);
	free(s.buf);
	if (s.fd >= 0)
		close(s.fd);
	return rc;
}

int
checkpoint_verify(const char *store, const char *name, struct restore_result *result,
		  struct err *err)
{
	*result = (struct restore_result){ 0 };
	return use_archive(store, name, NULL, result, err);
}

static int
stop_at_any(void *arg, const struct folder_entry *e)
{
	(void)arg;
	return strcmp(e->path, ".") != 0 ? -ENOTEMPTY : 0;
}

int
checkpoint_restore(const char *store, const char *name, int into, int64_t limit,
		   struct restore_result *result, struct err *err)
{
	const struct folder_visitor v = { .enter = stop_at_any };
	int rc = folder_walk(into, &v);

	*result = (struct restore_result){ 0 };
	if (rc)
		return err_set(err, rc, "the folder is not empty");
	struct plant *p = plant_new(into, limit);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	rc = use_archive(store, name, p, result, err);
	if (!rc && plant_compromises(p))
		snprintf(result->note, sizeof(result->note),
			 "%lld owners or attributes cannot be had here",
			 (long long)plant_compromises(p));
	plant_free(p);
	if (rc)
		folder_empty(into);
	return rc;
}
