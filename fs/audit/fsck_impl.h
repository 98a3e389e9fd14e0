/*
 * fsck_impl.h - what the files of fsck share. Nobody else includes it.
 */
#ifndef RASER_FSCK_IMPL_H
#define RASER_FSCK_IMPL_H

#include "fsck.h"

#include <limits.h>

struct fsck {
	char run[PATH_MAX];
	struct fsck_options o;
	struct disk disk;		    /* as it is */
	struct queue *own;		    /* of the first round; its disk refuses changes */
	struct queue *q;		    /* of this round */
	const struct seal_watcher *watcher; /* NULL in the first round */
	struct watch watch;		    /* of nodes/, once they were looked at */
	bool watched;
	int64_t found[ODDITIES];
	int64_t storage_now; /* seconds by the storage's clock; 0 = not asked yet */
	struct fsck_totals totals;
};

/* FORMAT, raser.ini and the directories; fills in for reading what is not
 * there. */
int
fsck_head(struct fsck *f, struct err *err);

/* The reading side of a disk: it forwards what reads, and answers -EROFS to
 * everything else. What is given for FORMAT and raser.ini is read instead of
 * the files. */
struct looking {
	struct disk *real;
	char *format, *ini; /* NULL = the file's own; freed with it */
};
int
looking_open(struct disk *disk, struct disk *real, char *format, char *ini);

#endif
