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
 *
 * The errors of a storage are many, and some mean something else to the queue and its callers:
 * ESTALE says that an attempt is over, EPERM that it is not the caller's. So the wrappers answer
 * few: ENOENT, EEXIST and the like as they are; EROFS, ENOSPC, EDQUOT, EACCES, EOPNOTSUPP and
 * ENOSYS, after which nothing has happened; and EIO for everything that leaves the outcome open. What it really was is
 * kept for people (health.c).
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
	/*
	 * Look by path, afresh, for the directory whose FORMAT begins with this text. 0: it is the
	 * one in use; 1: it is another, of the same text (mounted anew), and used from now on;
	 * -ENOENT: there is none; -EXDEV: another run is there; or an errno. May be NULL: then
	 * FORMAT is read in the directory in use.
	 */
	int (*home)(void *ctx, const char *format);
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
enum { DISK_THREADS = 64 };

/* What the calls so far tell of the storage: health.c. */
struct disk_health {
	struct {
		atomic_int code; /* errno of the last one that failed; 0 = the last one did not */
		atomic_llong since, last; /* boot ms of the first and the last one in a row */
	} failing[DISK_CALLS];
	struct {
		atomic_llong since; /* boot ms; 0 = free */
		atomic_int call;
	} busy[DISK_THREADS]; /* calls that are not answered yet */
	atomic_int away;	/* why the path does not lead to the run; 0 = it does */
	atomic_llong away_since;
};

struct disk {
	const struct disk_ops *ops;
	void *ctx;
	struct history *history; /* what is done here is said to it; NULL = to nobody */
	atomic_ullong calls[DISK_CALLS];
	atomic_bool stopping; /* calls that repeat until they are answered give up */
	struct disk_health health;
};

enum disk_mood {
	DISK_WELL,
	DISK_REFUSES, /* the last call of a kind failed */
	DISK_SILENT,  /* a call is not answered for seconds */
	DISK_AWAY,    /* the run is not where it was; every call is refused */
};

struct disk_state {
	enum disk_mood mood;
	enum disk_call call; /* DISK_REFUSES, DISK_SILENT */
	int code;	     /* positive errno of the storage; DISK_AWAY: ENOENT or EXDEV */
	int64_t since, last; /* boot ms */
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
/*
 * Is the run still where its path leads? As ops.home. Where it is not, every other call is refused
 * with EIO and nothing is touched until a later disk_home() finds it.
 */
int
disk_home(struct disk *d, const char *format);
bool
disk_is_away(struct disk *d);
/* How the storage does, from memory. */
void
disk_state(struct disk *d, int64_t boot_ms, struct disk_state *state);

/* ---- health.c, for the wrappers ---- */

enum { HEALTH_REFUSED = -2 };

/* A call begins: a number for health_leave(), or HEALTH_REFUSED: the run is away. */
int
health_enter(struct disk *d, enum disk_call call);
/* It returned rc: what the caller is told. */
int
health_leave(struct disk *d, enum disk_call call, int slot, int rc);

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
