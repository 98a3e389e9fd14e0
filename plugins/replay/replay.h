/*
 * replay.h - what the two ways of replaying share.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <jansson.h>

enum { EXIT_USAGE = 64, EXIT_FINAL = 65, EXIT_NODE = 75 };

/* Wait so long. */
void pass(double seconds);

/*
 * Replay a recorded trajectory step by step, SPEED times faster, in the current directory; what an
 * earlier attempt saved there is not done again. The exit status.
 */
int steps_replay(const char *id, const json_t *task, double speed);

/* Print a task for each line of a table, by its header; the exit status. */
int table_print(const char *file);

#endif
