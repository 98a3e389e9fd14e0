/*
 * faults.h - a disk that fails when it is told to: the real one behind a table of calls, which are
 * counted and traced. Its time is its own and passes only by pauses and by faults_pass().
 */
#ifndef RASER_FAULTS_H
#define RASER_FAULTS_H

#include "clock.h"
#include "queue.h"

enum { FAULTS = 4, TRACE_MAX = 256 };

/* Of the calls that fit, those behind the first `skip` answer `code`. */
struct fault {
	const char *part; /* the path contains it; NULL: any path */
	int calls;	  /* set of 1 << enum disk_call; 0 = any call */
	int code;	  /* negative errno; 0 = no fault */
	int skip, times;  /* negative times: for ever */
	bool done;	  /* the call is made all the same, as by a server whose reply was lost */
	int64_t until;	  /* boot ms at which it is over; 0 = never */
};
extern struct fault faults[FAULTS];

/* The calls since faults_trace() began anew. */
extern enum disk_call fault_trace[TRACE_MAX];
extern int fault_calls;
void
faults_trace(void);

/* All faults are over. */
void
faults_clear(void);
/* The time of the disk and of the test. */
struct now
faults_now(void);
void
faults_pass(int64_t ms);

/* Open a run directory so. Bails out when it cannot. */
struct disk
faults_disk(const char *path);
/* Open a queue on it; NULL and err when it fails. */
struct queue *
faults_queue(const char *path, bool join, struct err *err);

/* Make a new run directory of that name in the scratch directory, and bail out if that fails. */
void
new_run(char path[300], const char *name);
/* Submit one text; 0 or the errno. */
int
submit(struct queue *q, const char *text, struct err *err);

#endif
