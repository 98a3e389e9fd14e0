/*
 * pack.h - what is known of a bay as one text that proves itself: a head, lines, and a checksum.
 *
 *   raser KIND 1 UUID R BAY [GENERATION]
 *   ...
 *   sum XXH3-OF-ALL-BEFORE
 *
 * A file that was cut, changed, or brought from another run or bay is none. digest.c and the files
 * of seal.h only.
 */
#ifndef RASER_PACK_H
#define RASER_PACK_H

#include "disk.h"

#include <stdio.h>

enum { PACK_HEAD = 160 };

/* A text that is being made. Start it with pack_begin(), print to f, then pack_end(). */
struct pack {
	FILE *f;
	char *text; /* after pack_end() */
	size_t len;
};

/* head: the first line, without its end. 0 or -ENOMEM. */
int
pack_begin(struct pack *p, const char *head);
/* Add the checksum; the text is complete. 0 or -ENOMEM. pack_free() comes last in any case. */
int
pack_end(struct pack *p);
void
pack_free(struct pack *p);

/*
 * Read a file whole. 0, and the lines between head and checksum, each ended by a newline, as a text
 * that the caller frees; -EBADMSG when it is not whole or begins with another line than head;
 * -ENOENT; or an errno of the storage.
 */
int
pack_read(struct disk *disk, const char *path, const char *head, char **lines);

/* The file at path holds these bytes: 0, -EBADMSG when it does not, or an errno. */
int
pack_compare(struct disk *disk, const char *path, const char *text, size_t len);

#endif
