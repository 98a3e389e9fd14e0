/*
 * disk.h - the few calls that raserfs makes on a run directory, in one table.
 *
 * Everything that touches the shared directory goes through this table, so that a test can put
 * an adversarial file system behind it and count the calls. Paths are relative to the run
 * directory and every one of them is resolved from a descriptor that is held open, so a mount
 * that vanishes is an error and never an empty directory (open(2), PROTOCOL T20).
 *
 * Calls may block for as long as the storage does; only threads that may wait use them.
 * Every call returns 0 (or a count) or a negative errno and may be made from any thread.
 */
#ifndef RASER_DISK_H
#define RASER_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"

enum { DISK_PATH = 512 }; /* longest relative path, its NUL included */

struct disk_stat {
	uint64_t ino;
	int64_t mtime_s;
	int64_t mtime_ns;
	int64_t size;
};

/* One name of a listing. A non-zero return ends the listing and becomes its result. */
typedef int
disk_entry_fn(void *arg, const char *name);

struct disk_ops {
	int (*symlink)(void *ctx, const char *text, const char *path);
	/* returns the length, NUL-terminated; -EINVAL for anything but a symbolic link */
	int (*readlink)(void *ctx, const char *path, char *buf, size_t size);
	int (*mkdir)(void *ctx, const char *path);
	int (*unlink)(void *ctx, const char *path);
	int (*rmdir)(void *ctx, const char *path);
	/* opens the directory anew and asks the server for all of it; skips . and .. */
	int (*list)(void *ctx, const char *path, disk_entry_fn *fn, void *arg);
	int (*stat)(void *ctx, const char *path, struct disk_stat *st);
	/* set both times to whole seconds; never creates */
	int (*touch)(void *ctx, const char *path, int64_t seconds);
	/* exclusive, whole, synced */
	int (*create)(void *ctx, const char *path, const void *data, size_t len);
	/* overwrite from offset 0; never creates, never truncates */
	int (*amend)(void *ctx, const char *path, const void *data, size_t len);
	int (*read)(void *ctx, const char *path, void *buf, size_t size);
	/* copy a local file in, synced, and read back: -EIO when it differs */
	int (*import)(void *ctx, int local_fd, const char *path);
	int (*sync)(void *ctx, const char *dir);
	/* a path that SQLite can open read-only */
	int (*locate)(void *ctx, const char *path, char *buf, size_t size);
	void (*pause)(void *ctx, int ms);
	/* CLOCK_BOOTTIME in milliseconds: it counts suspend, and no clock is ever compared with
	 * another machine's */
	int64_t (*now)(void *ctx);
	/* the line of /proc/self/mountinfo for where it lies; may be NULL. No call on the storage */
	int (*mountinfo)(void *ctx, char *line, size_t size);
	void (*close)(void *ctx);
};

enum disk_call {
	DISK_SYMLINK, DISK_READLINK, DISK_MKDIR, DISK_UNLINK, DISK_LIST, DISK_STAT, DISK_TOUCH,
	DISK_CREATE, DISK_AMEND, DISK_READ, DISK_IMPORT, DISK_SYNC, DISK_RMDIR, DISK_CALLS
};

struct history;

struct disk {
	const struct disk_ops *ops;
	void *ctx;
	struct history *history; /* what is done here is said to it; NULL = to nobody */
	atomic_ullong calls[DISK_CALLS];
	atomic_bool stopping; /* calls that repeat until they are answered give up */
};

extern const char *const disk_call_names[DISK_CALLS];

/* Open the real directory at path. Fills disk; err says what was wrong. */
int
disk_open(struct disk *disk, const char *path, struct err *err);

void
disk_close(struct disk *disk);

int
disk_symlink(struct disk *d, const char *text, const char *path);
int
disk_readlink(struct disk *d, const char *path, char *buf, size_t size);
int
disk_mkdir(struct disk *d, const char *path);
int
disk_unlink(struct disk *d, const char *path);
int
disk_rmdir(struct disk *d, const char *path);
int
disk_list(struct disk *d, const char *path, disk_entry_fn *fn, void *arg);
int
disk_stat(struct disk *d, const char *path, struct disk_stat *st);
int
disk_touch(struct disk *d, const char *path, int64_t seconds);
int
disk_create(struct disk *d, const char *path, const void *data, size_t len);
int
disk_amend(struct disk *d, const char *path, const void *data, size_t len);
int
disk_read(struct disk *d, const char *path, void *buf, size_t size);
int
disk_import(struct disk *d, int local_fd, const char *path);
int
disk_sync(struct disk *d, const char *dir);
int
disk_locate(struct disk *d, const char *path, char *buf, size_t size);
void
disk_pause(struct disk *d, int ms);
int64_t
disk_now(struct disk *d);
/* -ENOENT when the kernel does not show it. */
int
disk_mountinfo(struct disk *d, char *line, size_t size);

/* Write all len bytes to fd; 0 or a negative errno. For local files as well. */
int
write_all(int fd, const void *data, size_t len);

#endif
