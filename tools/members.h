/*
 * members.h - which tasks of a run's job arrays live, wait, are held or gone, as Slurm says. raser
 * launch and raser status.
 *
 * Slurm is asked once a minute at most for the whole run: who creates RUN/slurm/squeue.MINUTE asks, and
 * everybody else reads what it has written there.
 */
#ifndef RASER_MEMBERS_H
#define RASER_MEMBERS_H

#include <stddef.h>
#include <stdio.h>

/* Print a line for each array and job that raser launch has submitted, and when Slurm said so. Nothing
 * when there was never a launch. What goes wrong is printed as well. */
void
members_print(const char *run, FILE *out);

/* Ask now: which of them are still in the queue? list: their numbers, "1:2:3". Their count, or -1 and
 * why. */
int
members_live(const char *run, char *list, size_t size, char *why, size_t why_size);

#endif
