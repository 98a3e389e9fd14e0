/*
 * usage.h - how much of a file system a run takes, by its parts, and who may do
 * what with it. raser fsck only.
 */
#ifndef RASER_USAGE_H
#define RASER_USAGE_H

#include "fsck.h"

/* Walk all of the run, without following a link, and print a line a part. What
 * this user cannot work with is told to f. 0 or an errno. */
int
usage_print(struct fsck *f, const char *run);

#endif
