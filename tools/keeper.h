/*
 * keeper.h - a process that undoes what raser chaos has done for a while, should chaos itself be
 * killed: it continues what is stopped and removes the ballast. raser chaos only.
 */
#ifndef RASER_KEEPER_H
#define RASER_KEEPER_H

#include "tree.h"

/* Start it; ballast: a path to remove. A descriptor to write to, or a negative errno. */
int
keeper_start(const char *ballast);

/* Tell it that a process is about to be stopped; 0 or an errno, and then it must not be. */
int
keeper_owes(int fd, const struct tree_process *p);

/* All is undone as far as it knows: it continues everything once more and ends. */
void
keeper_end(int fd);

#endif
