/*
 * archiver.c - our side of the checkpoint benchmark, and the disk's own speed. Tests use it too.
 *
 *   archiver save STORE STATE [--gzip]    prints NAME BYTES-IN BYTES-OUT MS WRITE-MS
 *                                         SYNC-MS VERIFY-MS
 *   archiver restore STORE NAME DIR       into an empty directory
 *   archiver raw FILE BYTES               write and sync so many bytes, read them back; prints
 *                                         WRITE-SYNC-MS READ-MS
 */
#include <config.h>

#include "checkpoint.h"
#include "clock.h"
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static int
save(const char *store, const char *state, bool gzip)
{
	struct checkpoint_spec s = { .store = store, .state = state, .attempt = 1,
				     .owner = "archiver",
				     .number = (unsigned)(now_read().boot_ms % 1000000000),
				     .gzip = gzip, .taken_ms = (int64_t)time(NULL) * 1000 };
	struct checkpoint_result r;
	struct err err = { "" };

	if (checkpoint_save(&s, &r, &err)) {
		fprintf(stderr, "archiver: %s\n", err.text);
		return 1;
	}
	if (r.note[0])
		fprintf(stderr, "archiver: %s\n", r.note);
	printf("%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", r.name,
	       r.bytes_in, r.bytes_out, r.ms, r.write_ms, r.sync_ms, r.verify_ms);
	return 0;
}

static int
restore(const char *store, const char *name, const char *dir)
{
	struct restore_result r;
	struct err err = { "" };
	int into = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = into < 0 ? -errno : checkpoint_restore(store, name, into, 0, &r, &err);

	if (rc)
		fprintf(stderr, "archiver: %s %s\n", strerror(-rc), err.text);
	return rc ? 1 : 0;
}

static int
raw(const char *path, int64_t bytes)
{
	char *block = malloc(BLOCK);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = block && fd >= 0 ? 0 : -ENOMEM;
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; block && i < BLOCK; i += sizeof(x)) { /* nothing that a disk could pack */
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(block + i, &x, sizeof(x));
	}
	int64_t began = now_read().boot_ms;
	for (int64_t left = bytes; !rc && left > 0; left -= BLOCK)
		rc = write_all(fd, block, left < BLOCK ? (size_t)left : BLOCK);
	if (!rc && fsync(fd) < 0)
		rc = -errno;
	int64_t written = now_read().boot_ms;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (int64_t at = 0; !rc && at < bytes; at += BLOCK)
		if (pread(fd, block, BLOCK, at) <= 0)
			rc = -EIO;
	printf("%" PRId64 " %" PRId64 "\n", written - began, now_read().boot_ms - written);
	if (rc)
		fprintf(stderr, "archiver: %s: %s\n", path, strerror(-rc));
	free(block);
	if (fd >= 0)
		close(fd);
	return rc ? 1 : 0;
}

int
main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "save"))
		return save(argv[2], argv[3], argc > 4);
	if (argc == 5 && !strcmp(argv[1], "restore"))
		return restore(argv[2], argv[3], argv[4]);
	if (argc == 4 && !strcmp(argv[1], "raw"))
		return raw(argv[2], strtoll(argv[3], NULL, 10));
	fputs("usage: archiver save|restore|raw ...\n", stderr);
	return 2;
}
