/*
 * names.h - task ids and the file names that stand for them.
 *
 * An id is any string of bytes. Its name is the id with '/', '%', '@', NUL, control bytes and
 * a leading dot written as %XX, so that every name is a legal file name and every name has one
 * id. Only names travel inside the program; raw ids stay in the batch files.
 */
#ifndef RASER_NAMES_H
#define RASER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum {
	NAME_LIMIT = 230,	      /* bytes of an encoded id; "@k.claim" still fits in 255 */
	ATTEMPT_LIMIT = (1 << 18) - 1 /* attempts fit into 18 bits of a node id */
};

/*
 * Encode id (len bytes) into out (at least NAME_LIMIT + 1 bytes).
 * Returns 0, -EINVAL for an empty id, -ENAMETOOLONG when the name would exceed NAME_LIMIT.
 */
int
name_encode(const char *id, size_t len, char *out);

/* Decode name into out (at least NAME_LIMIT + 1 bytes). Returns the id's length or -EINVAL. */
int
name_decode(const char *name, char *out);

/*
 * Split "T@k" into the length of T and k. False unless k is a decimal number from 1 to
 * ATTEMPT_LIMIT without leading zeros and T is not empty.
 */
bool
name_split(const char *file, size_t *task_len, unsigned *attempt);

/* The part of an owner that is random, "n07.k3v9x2m4q8wz" -> "k3v9x2m4q8wz"; never NULL. */
const char *
owner_random(const char *owner);

#endif
