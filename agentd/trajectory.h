/*
 * trajectory.h - the steps that an agent reports, a JSON object a line, continued over restores.
 * The lines lie in state/, so that a checkpoint keeps those that it shows, and in the attempt's
 * results, where people find them. super.c only.
 */
#ifndef RASER_TRAJECTORY_H
#define RASER_TRAJECTORY_H

#include <jansson.h>
#include <stdint.h>

struct trajectory {
	int state_fd, results_fd; /* -1: none yet, or it could not be made */
	int64_t steps;
	const char *state_path, *results_path; /* the caller's */
};

/* Begin with what a restored state holds. Paths stay the caller's. */
void
trajectory_open(struct trajectory *t, const char *state_path, const char *results_path);
void
trajectory_close(struct trajectory *t);

/* Add a step: numbered, with the attempt that made it. step is changed. 0 or a negative errno. */
int
trajectory_add(struct trajectory *t, json_t *step, unsigned attempt, double now);

#endif
