/*
 * relay.h - a few blocks of memory that go round between two threads: one fills, one reads.
 *
 * checkpoint.c lets one thread decompress while the other one writes files.
 */
#ifndef RASER_RELAY_H
#define RASER_RELAY_H

#include <stddef.h>
#include <sys/types.h>

struct relay;

/* count blocks of size bytes; NULL: no memory. */
struct relay *
relay_new(size_t size, unsigned count);
/* When both threads are through with it. */
void
relay_free(struct relay *r);

/* The one that fills: wait for an empty block. NULL: nobody reads any more. */
void *
relay_room(struct relay *r);
/* Pass on the block that relay_room() gave, with n > 0 bytes in it. */
void
relay_pass(struct relay *r, size_t n);
/* No more is coming; code: 0, or the negative errno why not. */
void
relay_end(struct relay *r, int code);

/* The one that reads: wait for the next block, which it has until the next call. Returns its
 * bytes, 0 at the end, or the code of relay_end(). */
ssize_t
relay_next(struct relay *r, const void **block);
/* Nothing more will be read. */
void
relay_stop(struct relay *r);

#endif
