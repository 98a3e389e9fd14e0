/* crew.h - what the arms of the claims benchmark share: options, a fresh directory, P processes
 * that start together, the account of who claimed and ended what, the one line of output.
 *
 * Tasks are numbered from 1. A worker sets itself up, calls crew_start(), and then claims and ends
 * tasks while crew_goes_on(). All failures of an arm end it with a sentence on stderr and status 1.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "gang.h"

#include <stdbool.h>

struct crew {
	char dir[4096]; /* fresh, absolute, this run's own; the driver removes it at the end */
	int procs;
	long tasks;
	double seconds;
	int rank;       /* in a worker: 0 to procs - 1 */
	struct gang *gang; /* in a worker */
	struct board *board; /* shared by all processes */
};

/* An option of one arm: `--name VALUE`. VALUE stays as it is when the option is not given. */
struct crew_option {
	const char *name;
	const char **value;
};

/* Reads --dir, --procs, --tasks, --seconds and MORE (ended by a null name; may be NULL) and makes
 * the fresh directory. */
void crew_init(struct crew *c, int argc, char **argv, const struct crew_option *more);

/* Runs WORK(c, arg) in every process and waits for them all. Returns how many of them failed. */
int crew_run(struct crew *c, void (*work)(struct crew *, void *), void *arg);

/* Checks and prints the account: `pairs seconds`, from the common start to the last end in time. */
void crew_report(const struct crew *c);

/* In a worker: waits for the others. */
void crew_start(struct crew *c);

/* In a worker: is there time left? */
bool crew_goes_on(const struct crew *c);

/* In a worker, for arms without a queue of their own: the next task in order, or 0. */
long crew_next(struct crew *c);

/* In a worker: it holds TASK; fatal if anybody held it before. */
void crew_claimed(struct crew *c, long task);

/* In a worker: the end of the task it holds is durable. */
void crew_ended(struct crew *c);

/* Seconds on the monotonic clock. */
double crew_now(void);

#endif
