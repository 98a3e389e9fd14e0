/*
 * fs.h - the server's side of the shared directory: what is true, and what of
 * it is durable.
 *
 * No time passes in here and nothing lies; client.c puts the lies in between.
 * Paths are relative to the run directory. Batch files are real files in a
 * scratch directory, since SQLite opens them.
 */
#ifndef RASER_SIM_FS_H
#define RASER_SIM_FS_H

#include "disk.h"
#include "sched.h"

enum inode_kind { INODE_DIR, INODE_FILE, INODE_LINK, INODE_BATCH };

struct inode {
	char path[DISK_PATH];
	const char *name; /* inside path */
	enum inode_kind kind;
	char *data; /* of a file or link, NUL-terminated */
	size_t size;
	uint64_t ino;
	int64_t mtime_s;
	int64_t mtime_before; /* what a lagging stat shows */
	int64_t touched_at;
	int64_t made_at;
	int64_t gone_at;	  /* INT64_MAX while it is there */
	bool durable;		  /* what a crash of the server leaves */
	const struct proc *maker; /* the daemon whose call made it */
	struct inode *dir;
	/* a directory */
	struct inode **names; /* also those that are gone, for a while */
	size_t n, cap;
	uint64_t version;
	struct inode *next; /* in its hash chain */
};

void
fs_begin(const char *scratch);
void
fs_end(void);

/* What is there now, or NULL. */
struct inode *
fs_find(const char *path);

/* Each returns 0 (read, readlink: a length) or a negative errno, as the call of
 * its name. */
int
fs_symlink(const char *text, const char *path);
int
fs_mkdir(const char *path);
int
fs_create(const char *path, const void *data, size_t len, int64_t mtime);
int
fs_amend(const char *path, const void *data, size_t len, int64_t mtime);
/* times_never_fall: a time before the one that stands is ignored without an
 * error */
int
fs_touch(const char *path, int64_t seconds, bool times_never_fall);
int
fs_unlink(const char *path);
int
fs_import(int local_fd, const char *path);
/* The names in a directory as of now are durable. */
int
fs_sync(const char *path);
/* The path of a batch's real file; one that does not exist when it is not
 * there. */
void
fs_locate(const char *path, char *buf, size_t size);

/* The server loses power: every name that was made or removed and not synced is
 * undone with probability p, unless its client does it over. Returns how many
 * were. */
int
fs_crash(struct rng *r, double p);
/* rules.c: its client lives and waits for its sync, so it does it over. */
bool
rules_replayed(const struct inode *node);

/* A crash undoes this name, or its removal. */
void
rules_undone(const struct inode *node);
/* What rules.c learns of every change. */
void
rules_changed(const struct inode *node, bool made);

#endif
