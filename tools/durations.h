/*
 * durations.h - what tasks took, learned from the attempts of a run and told to the next one.
 */
#ifndef RASER_DURATIONS_H
#define RASER_DURATIONS_H

#include <stdint.h>
#include <stdio.h>

struct durations;

/* Read a table of raser export --durations, or any that trace.h knows; what stands further down
 * counts. NULL after a message. */
struct durations *
durations_read(const char *file);
void
durations_free(struct durations *d);

/* For submission_expect(), arg is the durations: whole seconds, rounded up; 0 = not known. */
int64_t
durations_expected(void *arg, const char *name);

/*
 * Print what the tasks of a run took to f, a line each: name, seconds of work that the end of its accepted
 * attempt shows, and "least" behind those that are not done, of which their longest attempt is told.
 * Returns an exit status.
 */
int
durations_print(const char *run, FILE *f);

#endif
