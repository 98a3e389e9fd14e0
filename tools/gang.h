/*
 * gang.h - processes of one program that start their work at the same moment and are waited for.
 * `raser doctor`, and the benchmarks.
 */
#ifndef RASER_GANG_H
#define RASER_GANG_H

#include <stdbool.h>

enum { GANG_MAX = 256 };

struct gang;

/* The work of one of them, rank from 0: it sets itself up, calls gang_start() once, and works. Its
 * result, 0 to 255, is its exit status. */
typedef int
gang_fn(struct gang *g, int rank, void *arg);

/*
 * Run n of them, at most GANG_MAX. begin (may be NULL) is called in this process when all are
 * set up, just before they are let go. stop (may be NULL): when it becomes true, by a signal that
 * interrupts, all are killed; one that fails has all others killed, too, since they may wait for
 * it. Returns how many failed, or a negative errno when they could not be started.
 */
int
gang_run(int n, gang_fn *work, void (*begin)(void *arg), void *arg, const volatile bool *stop);

/* In one of them: wait for the others. */
void
gang_start(struct gang *g);

/* Zeroed memory that all processes started later share; NULL when there is none. */
void *
gang_memory(unsigned long size);

#endif
