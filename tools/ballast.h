/*
 * ballast.h - a file that takes the space which is left, for a moment. raser chaos only.
 */
#ifndef RASER_BALLAST_H
#define RASER_BALLAST_H

#include <stdbool.h>
#include <stdint.h>

struct ballast {
	const char *path;
	int64_t limit; /* at most so many bytes of its own */
	int64_t floor; /* at least so many stay free on the file system */
	int64_t size;  /* now */
	int fd;	       /* -1: there is none */
};

/* Fill until the storage refuses (ENOSPC, EDQUOT: true), or a limit is reached (false). Takes two
 * seconds at most. */
bool
ballast_load(struct ballast *b);

/* Give it all back. */
void
ballast_drop(struct ballast *b);

#endif
