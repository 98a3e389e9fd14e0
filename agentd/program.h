/*
 * program.h - finding a program before anything depends on it. raser-agentd and raser run.
 */
#ifndef RASER_PROGRAM_H
#define RASER_PROGRAM_H

#include <limits.h>

/*
 * The absolute path of what execvp(3) would run for name now, since an agent starts in a
 * directory of its own. 0, or -ENOENT, -EACCES.
 */
int
program_find(const char *name, char path[PATH_MAX]);

#endif
