/*
 * selftest.h - may a run lie on this file system? What raserfs needs of it, tried out.
 *
 * The quick part is a fixed number of calls in a scratch directory of its own and is run by
 * `raser init` and at every mount. What takes longer, or more than one process, is
 * `raser doctor`. A scratch directory is called selftest.<random> and lies in the run directory, or
 * in results/ where that one is protected; daemons never look at that name, and a process that
 * is killed in the middle leaves it behind.
 *
 * May block on the storage.
 */
#ifndef RASER_SELFTEST_H
#define RASER_SELFTEST_H

#include "storage.h"

#define SELFTEST_PREFIX "selftest."

enum {
	SELFTEST_NAME = sizeof("results/" SELFTEST_PREFIX) + 12,
	SELFTEST_CALLS = 30, /* the quick part makes no more on a sound file system */
};

/* Make a scratch directory and draw its name, a path. 0 or an errno. */
int
selftest_scratch(struct disk *disk, char name[SELFTEST_NAME]);

/*
 * The quick part: add what was found. 0 also when something is wrong; a negative errno when
 * nothing could be tried, which is a finding as well. Whatever happens, what was made is removed.
 */
int
selftest_quick(struct disk *disk, struct findings *f);

/* FORMAT holds uuid, through the open directory and by path. */
void
selftest_format(struct disk *disk, const char *path, const char *uuid, struct findings *f);

/*
 * The quick part and the file system's kind and options, for who is about to use path: 0;
 * -ENOTSUP and a sentence when it is refused; or the errno of storage that could not be tried.
 * forced: people insist (force = yes). Warnings are logged.
 */
int
selftest_admit(struct disk *disk, const char *path, int64_t beat_ms, bool forced, struct err *err);

#endif
