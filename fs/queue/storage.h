/*
 * storage.h - what kind of file system a run directory lies on, with which options, and what
 * that means for raserfs. See FILE SYSTEMS in raserfs(8).
 *
 * Facts come from one line of /proc/self/mountinfo; everything after that is pure. selftest.c,
 * queue.c and `raser doctor` use it.
 */
#ifndef RASER_STORAGE_H
#define RASER_STORAGE_H

#include <limits.h>

#include "disk.h"
#include "finding.h"

enum storage_kind {
	STORAGE_UNKNOWN, /* no line, or a type that nobody here has heard of */
	STORAGE_LOCAL,	 /* a disk of this machine */
	STORAGE_MEMORY,
	STORAGE_OVERLAY,
	STORAGE_NFS,
	STORAGE_LUSTRE,
	STORAGE_GPFS,
	STORAGE_CEPH,
	STORAGE_BEEGFS,
	STORAGE_GLUSTER,
	STORAGE_MOOSEFS,
	STORAGE_SSHFS,
	STORAGE_OBJECT, /* a bucket mounted as files */
	STORAGE_SMB,
	STORAGE_VIRTUAL, /* 9p, virtiofs: the host's files in a virtual machine */
	STORAGE_FUSE,	 /* some other program */
};

struct storage {
	enum storage_kind kind;
	char type[48];	    /* as the kernel names it: "nfs4", "fuse.glusterfs" */
	char options[1024]; /* of the mount and of the file system, with commas between */
	/* for so long may a node see old times (of a forced statx(2)), or old listings, in ms */
	int64_t times_ms, names_ms;
};

/*
 * Take a line of mountinfo apart. forced_stat: this kernel has statx(2), so that a look at a
 * file can pass the client's attribute cache by. A line that is none gives STORAGE_UNKNOWN.
 */
void
storage_parse(const char *line, bool forced_stat, struct storage *s);

/* The facts of an open disk. */
void
storage_look(struct disk *disk, struct storage *s);

/* Is there such an option? value (may be NULL) becomes what stands behind its '=', or "". */
bool
storage_option(const struct storage *s, const char *name, char *value, size_t size);

/* Add the verdicts. beat_ms: what caches are compared with. */
void
storage_judge(const struct storage *s, int64_t beat_ms, struct findings *f);

enum { STORAGE_TEXT = PATH_MAX + 160 };
/* What is wrong with the storage of the run at path, as a sentence; "" when it is well. */
void
storage_text(const char *path, const struct disk_state *s, char text[STORAGE_TEXT]);

#endif
