/*
 * sink.c - the file that an archive goes into: a temporary one that becomes a checkpoint by one
 * rename, once it is durable and was read back. Until then a death at any point leaves only the
 * temporary, which store_prune() removes later.
 */
#include <config.h>

#include "sink.h"

#include "clock.h"
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20,
	BLOCKS = 8,
	PUSH_BYTES = 8 << 20, /* written back early, so that the sync has little left to do */
};

int
sink_failed(struct err *err, int code, const char *store, const char *doing)
{
	return err_set(err, code, "the checkpoint cannot be %s in %s: %s", doing, store,
		       strerror(-code));
}

/* Open the store, and make it if there is none. Nobody else may look into it, whatever the umask
 * and whoever made it. */
static int
open_store(const char *store)
{
	int rc = mkdir(store, 0700) < 0 && errno != EEXIST ? -errno : 0;

	if (rc == -ENOENT) {
		/* checkpoints/ itself is missing */
		char parent[4096];
		int n = snprintf(parent, sizeof(parent), "%s", store);
		char *slash = n > 0 && n < (int)sizeof(parent) ? strrchr(parent, '/') : NULL;

		if (!slash)
			return rc;
		*slash = '\0';
		if (mkdir(parent, 0700) < 0 && errno != EEXIST)
			return -errno;
		rc = mkdir(store, 0700) < 0 && errno != EEXIST ? -errno : 0;
	}
	int fd = rc ? -1 : open(store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return rc ? rc : -errno;
	if (fstat(fd, &st) < 0 || ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* ---- writing ---- */

static void *
write_main(void *arg)
{
	struct sink *s = arg;
	const void *block;
	ssize_t n;

	while (!s->code && (n = relay_next(s->relay, &block)) > 0) {
		s->code = write_all(s->fd, block, (size_t)n);
		XXH3_64bits_update(s->hash, block, (size_t)n);
		s->bytes += n;
		if (s->bytes - s->pushed < PUSH_BYTES)
			continue;
		/* only begins to write; whether that works is for fsync(2) to tell */
		sync_file_range(s->fd, s->pushed, s->bytes - s->pushed, SYNC_FILE_RANGE_WRITE);
		s->pushed = s->bytes;
	}
	relay_stop(s->relay);
	return NULL;
}

int
sink_write(struct sink *s, const void *data, size_t size)
{
	const char *from = data;

	while (size > 0) {
		size_t n = size < BLOCK ? size : BLOCK;
		void *room = relay_room(s->relay);

		if (!room)
			return s->code;
		memcpy(room, from, n);
		relay_pass(s->relay, n);
		from += n;
		size -= n;
	}
	return 0;
}

int
sink_finish(struct sink *s)
{
	if (s->running) {
		relay_end(s->relay, 0);
		pthread_join(s->thread, NULL);
		s->running = false;
	}
	return s->code;
}

/* ---- the file ---- */

int
sink_open(struct sink *s, const struct checkpoint_spec *spec)
{
	*s = (struct sink){ .dir = -1, .fd = -1, .hash = XXH3_createState() };
	if (!s->hash)
		return -ENOMEM;
	XXH3_64bits_reset(s->hash);
	s->dir = open_store(spec->store);
	if (s->dir < 0)
		return s->dir;
	/* a name of this process and moment alone; if it is there, a dead one had our number */
	snprintf(s->tmp, sizeof(s->tmp), "tmp.%u.%s-%u.%ld", spec->attempt, spec->owner,
		 spec->number, (long)getpid());
	if (unlinkat(s->dir, s->tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	s->fd = openat(s->dir, s->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->fd < 0)
		return -errno;
	if (fchmod(s->fd, 0600) < 0)
		return -errno;
	s->relay = relay_new(BLOCK, BLOCKS);
	if (!s->relay)
		return -ENOMEM;
	int rc = -pthread_create(&s->thread, NULL, write_main, s);
	s->running = !rc;
	return rc;
}

void
sink_close(struct sink *s)
{
	sink_finish(s);
	if (s->fd >= 0 && s->tmp[0])
		unlinkat(s->dir, s->tmp, 0);
	if (s->fd >= 0)
		close(s->fd);
	if (s->dir >= 0)
		close(s->dir);
	relay_free(s->relay);
	XXH3_freeState(s->hash);
}

/* Read back what was written, from the storage and not from memory, and compare. */
static int
sink_verify(struct sink *s, uint64_t hash)
{
	char *buf = malloc(BLOCK);
	int rc = buf ? 0 : -ENOMEM;
	int64_t at = 0;

	if (!rc)
		XXH3_64bits_reset(s->hash);
	posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (!rc) {
		ssize_t n = pread(s->fd, buf, BLOCK, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		XXH3_64bits_update(s->hash, buf, (size_t)n);
		at += n;
	}
	free(buf);
	if (!rc && (at != s->bytes || XXH3_64bits_digest(s->hash) != hash))
		rc = -EIO;
	return rc;
}

/* Make what was written a checkpoint: durable, read back, and under its name. */
int
sink_publish(struct sink *s, const struct checkpoint_spec *spec, struct checkpoint_result *r,
	     struct err *err)
{
	uint64_t hash = XXH3_64bits_digest(s->hash);
	const struct timespec taken = { .tv_sec = spec->taken_ms / 1000,
					.tv_nsec = spec->taken_ms % 1000 * 1000000 };
	const struct timespec times[2] = { taken, taken };
	int64_t began = now_read().boot_ms;
	int rc = 0;

	if (futimens(s->fd, times) < 0 || fsync(s->fd) < 0)
		rc = sink_failed(err, -errno, spec->store, "made durable");
	int64_t synced = now_read().boot_ms;
	if (!rc) {
		rc = sink_verify(s, hash);
		if (rc)
			sink_failed(err, rc, spec->store, "read back as it was written");
	}
	int64_t verified = now_read().boot_ms;
	snprintf(r->name, sizeof(r->name), "%u.%s-%u.%016" PRIx64 ".tar.%s", spec->attempt,
		 spec->owner, spec->number, hash, spec->gzip ? "gz" : "zst");
	if (!rc && renameat(s->dir, s->tmp, s->dir, r->name) < 0)
		rc = sink_failed(err, -errno, spec->store, "given its name");
	else if (!rc) {
		s->tmp[0] = '\0'; /* nothing to remove any more */
		if (fsync(s->dir) < 0)
			rc = sink_failed(err, -errno, spec->store, "made durable by its name");
	}
	r->bytes_out = s->bytes;
	r->verify_ms = verified - synced;
	r->sync_ms = now_read().boot_ms - began - r->verify_ms;
	return rc;
}
