/*
 * folder.h - whole folders as somebody else filled them: walk, copy, empty, tell whether changed.
 *
 * An agent may have made anything: names of any bytes, paths longer than PATH_MAX, directories
 * that it locked itself out of. Nothing here follows a symbolic link, leaves the folder, or
 * enters another file system that is mounted in it. The checkpoints' side; needs no queue.
 */
#ifndef RASER_FOLDER_H
#define RASER_FOLDER_H

#include "log.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* One thing in a tree. The root itself has name and path ".". */
struct folder_entry {
	int dir;	  /* the open directory that name is in; of the root: itself */
	const char *name;
	const char *path; /* from the root */
	int fd;		  /* a directory: itself, open; else -1 */
	bool foreign;	  /* a directory that belongs to another file system; not entered */
	bool locked;	  /* a directory that we may not read; not entered */
	struct stat st;
};

/* A non-zero return ends the walk and becomes its result. */
typedef int
folder_fn(void *arg, const struct folder_entry *e);

struct folder_visitor {
	folder_fn *enter; /* everything, a directory before what is in it */
	folder_fn *leave; /* a directory after what is in it; may be NULL */
	void *arg;
	bool change; /* what is visited is to be changed: directories need to be writable */
};

/*
 * Visit everything below root (an open directory, which stays open) in the order of the inode
 * numbers inside each directory, which on most file systems is the order on disk. Directories
 * that their owner, we, may not read are opened for the time of the visit. What vanishes
 * meanwhile is left out. 0, a visitor's result, or a negative errno: -ESTALE when a directory
 * more than 64 levels deep was moved away while we were in it.
 */
int
folder_walk(int root, const struct folder_visitor *v);

/* Remove everything in an open directory; 0, or the first errno, and then what was left. */
int
folder_empty(int root);

/* Remove a folder, or a file, and all in it; what cannot be removed stays. Also what its owner has
 * locked, and paths of any length. */
void
folder_remove(const char *path);

/*
 * A fingerprint of names, types, modes, sizes, times (mtime and ctime in ns) and inode numbers:
 * while it stays the same, nothing was changed. Never 0 but for a tree that could not be read.
 * Costs a stat(2) per file. Save it from before a checkpoint, not from after it. What its owner may
 * not read changes by being looked at, so such a tree is never the same.
 */
uint64_t
folder_stamp(const char *state);

/*
 * Make copy, which must not exist, a copy of state that shares its data (FICLONE; btrfs, xfs, and
 * others): modes, times, owners, user.* attributes, hard links, holes are the same, so that an
 * archive of it is one of the original. Sockets are made anew, so they are named all the same. In
 * a tree that somebody writes meanwhile each file is a snapshot of its own. 0; -EOPNOTSUPP where
 * the file system cannot share, and any other errno: then nothing of copy is left.
 */
int
folder_clone(const char *state, const char *copy, struct err *err);

/* ---- for those who copy trees ---- */

/* Which file had which path first: for names of files with several. */
struct folder_links;

struct folder_links *
folder_links_new(void);
void
folder_links_free(struct folder_links *l);
/* The path that the same file was noted with before, or NULL. */
const char *
folder_links_find(const struct folder_links *l, const struct stat *st);
/* Note it; without memory for that its next name becomes a file of its own. */
void
folder_links_add(struct folder_links *l, const struct stat *st, const char *path);

/* Open a regular file for reading, if it is ours also when its mode forbids it; -errno. */
int
folder_open_file(const struct folder_entry *e);

/* Call fn for each user.* attribute of fd, in the kernel's order, until it returns non-zero. */
typedef int
folder_xattr_fn(void *arg, const char *name, const void *value, size_t size);
int
folder_xattrs(int fd, folder_xattr_fn *fn, void *arg);

/* A path as text for people: printable ASCII, anything else as '?', a long one cut in front. */
const char *
folder_print(const char *path, char *buf, size_t size);

#endif
