/*
 * trees.h - for tests of checkpoints: trees with everything in them, and whether two are the same.
 */
#ifndef RASER_TEST_TREES_H
#define RASER_TEST_TREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Everything that an archive keeps: odd names, holes, links, attributes, modes, times. dir is made. */
void
make_odd_tree(const char *dir);

/* n files of size bytes, that do not compress unless the seed is 0. dir is made. */
void
make_plain_tree(const char *dir, int n, size_t size, unsigned seed);

/* A file with that content. */
void
put_file(const char *path, const void *data, size_t size, mode_t mode);

/* Whether two trees are the same by all that is kept, the first difference as a comment. */
bool
same_trees(const char *a, const char *b);

bool
is_empty(const char *dir);

/* How many files in dir begin with prefix. */
int
count_names(const char *dir, const char *prefix);

/* "DIR/NAME" in one of some static buffers. */
const char *
at(const char *dir, const char *name);

/* Run fn(arg) in a child; its return, or -1 when it died. as_nobody: as an ordinary user. */
int
in_child(int (*fn)(void *arg), void *arg, bool as_nobody);

/* In a child: a private mount namespace in which we may mount; false when there is none. */
bool
private_mounts(void);

#endif
