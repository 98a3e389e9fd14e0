/*
 * brakes.h - what holds a run under Slurm back: a file that drains it, an end, a budget of node-hours,
 * a number of requeues. raser job asks; raser status shows.
 *
 *   RUN/drain                    there: nobody takes anything more
 *   RUN/slurm/use/JOB.RESTARTS   node-seconds of one life of one job, a number in a line
 */
#ifndef RASER_BRAKES_H
#define RASER_BRAKES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

/* What the run directory says of them. */
struct brakes {
	bool drain;
	double node_hours; /* used by all jobs, as far as they have written it down */
};

enum brake {
	BRAKE_NONE,
	BRAKE_DRAIN, /* nothing more is taken; what is being worked on is finished */
	BRAKE_END,   /* the same */
	BRAKE_HOURS, /* what is being worked on is given back */
	BRAKE_REQUEUES,
};

/* Read them. A directory that cannot be read shows as nothing used. */
void
brakes_read(struct brakes *b, const char *run);

/* Is RUN/drain there? One call. */
bool
brakes_drain(const char *run);

/* The first that holds, and why, a sentence for people. now_s: wall seconds. restarts: of a job that
 * wants to be requeued, -1 = that is not asked. */
enum brake
brakes_check(const struct brakes *b, const struct limits_conf *limits, int64_t now_s, int restarts,
	     char *why, size_t size);

/* Write down what a life of a job has used until now, in place of what it wrote before. 0 or a negative
 * errno. */
int
brakes_use(const char *run, const char *job, int restarts, double node_seconds);

/* The state of all brakes, a line each with a newline at its end, beginning with indent; nothing where
 * none is set. */
void
brakes_describe(const char *run, const struct limits_conf *limits, int64_t now_s, const char *indent,
		char *text, size_t size);

#endif
