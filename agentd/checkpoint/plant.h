/*
 * plant.h - what an archive says, made below one folder and nowhere else. It trusts nobody.
 *
 * A path has names between single slashes, none of them "." or "..". Each directory on the way is
 * opened without following links, must have been planted before, and nothing is ever replaced:
 * so what is made is inside the folder, whatever the archive says and in whatever order. There
 * are regular files, directories, symbolic links, FIFOs, sockets and further names of these; setuid and
 * setgid stay only on a file that belongs to us. restore.c and clone.c only.
 */
#ifndef RASER_PLANT_H
#define RASER_PLANT_H

#include "log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
	PLANT_ENTRY_COST = 512 /* counted for each entry, so that a limit bounds their number */
};

struct plant_spec {
	const char *path;     /* "." is the folder itself */
	const char *target;   /* of a symbolic link */
	const char *hardlink; /* the path of an earlier entry: another name for it */
	mode_t mode;	      /* with the type */
	uid_t uid;
	gid_t gid;
	int64_t size;
	struct timespec mtime;
};

struct plant;

/*
 * Begin in an open, empty folder (root stays open). limit: bytes of data, holes not counted, and
 * PLANT_ENTRY_COST an entry; 0 = none. NULL: no memory. Sets the umask of the process to 0 until
 * plant_free(), since modes are exact.
 */
struct plant *
plant_new(int root, int64_t limit);
void
plant_free(struct plant *p);

/*
 * The next entry; the one before is finished. -EBADMSG: it is refused; -EFBIG: above the limit;
 * any other errno is the file system's. err has a sentence.
 */
int
plant_entry(struct plant *p, const struct plant_spec *spec, struct err *err);
/* For the present entry: an attribute, if its name begins with "user."; else nothing is done. */
int
plant_xattr(struct plant *p, const char *name, const void *value, size_t size, struct err *err);
/* Data of the present entry, a regular file, at an offset inside its size. */
int
plant_data(struct plant *p, const void *data, size_t size, int64_t offset, struct err *err);
/* Instead of data: share that of an open file of the same file system (FICLONE). */
int
plant_share(struct plant *p, int from, struct err *err);
/* Finish the last entry, and give all directories their modes and times. */
int
plant_finish(struct plant *p, struct err *err);

int64_t
plant_bytes(const struct plant *p);
int64_t
plant_entries(const struct plant *p);
/* How many could not be given their owner (in a user namespace), or an attribute (where the file
 * system has none). */
int64_t
plant_compromises(const struct plant *p);

#endif
