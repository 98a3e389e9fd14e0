/*
 * checkpoint.h - a folder as one archive, and back.
 *
 * An archive is a pax tar, compressed by zstd (or gzip), that `tar --zstd -xf` reads as well. Its
 * name is K.R-N.HASH.tar.zst: attempt, random part of the owner, number, and the XXH3 of all its
 * bytes. The checksum is in the name, so that one atomic rename makes both appear, and no file
 * beside it can be lost. What has such a name was synced and read back once.
 *
 * Kept are regular files with their holes, directories, symbolic links, FIFOs, further names of
 * one file, modes, owners, mtimes to the nanosecond, user.* attributes, names of any bytes and up to
 * 100,000 bytes a path. Left out and named are sockets, devices, other file systems mounted inside,
 * files that we may not read, and attributes beyond 150,000 bytes of a file. Not kept: other
 * attributes (ACLs), atime, ctime.
 *
 * These functions may take minutes and may be killed at any byte; they belong into a process of
 * their own. They start threads (of zstd, and one to decompress) and set the umask for a while.
 */
#ifndef RASER_CHECKPOINT_H
#define RASER_CHECKPOINT_H

#include "log.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum { CHECKPOINT_NAME = 160 };

/* The mtime of a checkpoint is the moment that it shows. */
static inline int64_t
mtime_ms(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* What a name says. */
struct checkpoint_id {
	unsigned attempt;
	char owner[32]; /* the random part */
	unsigned number;
	uint64_t hash;
	bool gzip;
};

/* False when it is not the name of a checkpoint. */
bool
checkpoint_parse(const char *name, struct checkpoint_id *id);

/* A name that a checkpoint has while it is written, "tmp.K.R-N.PID". */
bool
checkpoint_parse_temporary(const char *name, struct checkpoint_id *id, long *pid);

struct checkpoint_spec {
	const char *store; /* RUN/checkpoints/TASK; made (0700) when it is missing */
	const char *state; /* the folder to save, with all that is in it */
	unsigned attempt;
	const char *owner; /* the random part: letters and digits */
	unsigned number;
	bool gzip;
	/* Bytes of data at most, holes not counted, and 512 for each entry; 0 = any. Restore with
	 * the same limit. */
	int64_t limit;
	int64_t taken_ms; /* the moment that it shows, in wall milliseconds; becomes its mtime */
};

struct checkpoint_result {
	char name[CHECKPOINT_NAME];
	int64_t bytes_in, bytes_out; /* data without holes; the archive */
	int64_t files, skipped;	     /* entries in the archive; what was left out */
	int64_t ms;		     /* all together, of which: */
	int64_t write_ms, sync_ms, verify_ms;
	char note[320]; /* what was left out or changed meanwhile, a sentence, or "" */
};

/*
 * Save a folder durably. 0, or a negative errno with a sentence in err: -EFBIG above the limit,
 * -ENOSPC, -EDQUOT, -EIO, whatever the store said. Then its temporary file is removed, and
 * everything that was in the store is as before. If the very last step fails, the sync of the
 * directory, the checkpoint stays, but may not survive a crash of the storage.
 */
int
checkpoint_save(const struct checkpoint_spec *spec, struct checkpoint_result *result,
		struct err *err);

struct restore_result {
	char name[CHECKPOINT_NAME];
	int64_t taken_ms, bytes, files;
	int fallbacks; /* newer ones that were skipped; store.h */
	char note[320];
	bool unreadable; /* reading the archive failed, not writing what is in it */
};

/*
 * Restore into an open folder that is empty. 0, or a negative errno, and then the folder is empty
 * again. -EBADMSG: it is damaged or not safe: an absolute path, "..", a way through a link, a
 * device. -EFBIG: above the limit (as in checkpoint_spec). -ENOTEMPTY: nothing was touched.
 */
int
checkpoint_restore(const char *store, const char *name, int into, int64_t limit,
		   struct restore_result *result, struct err *err);

/* Read all of it, and unpack it to nowhere: counts in result. 0, -EBADMSG, or an errno. */
int
checkpoint_verify(const char *store, const char *name, struct restore_result *result,
		  struct err *err);

#endif
