/*
 * sched.h - virtual time and coroutines: one runs at a time, and every change
 * of it is decided by the seed. Times are microseconds since the world began.
 *
 * The queue's mutexes and condition variables are made to block coroutines
 * (--wrap), so its code runs as it is. A coroutine changes only where it
 * sleeps, waits or contends for a lock.
 */
#ifndef RASER_SIM_SCHED_H
#define RASER_SIM_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

struct coro;
struct proc;

/* While it is closed none of its coroutines runs: a process that was stopped.
 */
struct gate {
	int closed;
	struct coro *held;
};

typedef void
coro_fn(void *arg);

extern int64_t sim_now;

void
sched_begin(uint64_t seed);
/* Forget everything that is still to come. No coroutine may be left. */
void
sched_end(void);

/* Run until nothing is left to come or sched_stop(). */
void
sched_run(void);
void
sched_stop(void);

/* Call fn in the scheduler's own context at a time; it may not sleep. */
void
sched_at(int64_t at, coro_fn *fn, void *arg);

/* Whatever is to be called so comes now instead. */
void
sched_hasten(coro_fn *fn);

/* proc may be NULL (the world's own). */
struct coro *
sched_spawn(struct proc *proc, struct gate *gate, const char *name, coro_fn *fn, void *arg);

/* For the running coroutine. */
void
sched_sleep(int64_t us);
/* Until somebody wakes it: true; or until a time (INT64_MAX = none): false. */
bool
sched_wait(int64_t until);
void
sched_wake(struct coro *c);
/* Every sleep of the coroutines of a process ends now, and they never sleep
 * again. */
void
sched_interrupt(const struct proc *proc);
/* NULL in the scheduler's own context. */
struct coro *
sched_self(void);
struct proc *
sched_proc(void);
const char *
sched_name(void);
/* How many coroutines there are. */
int
sched_count(void);
/* For the whole world: how many times a coroutine was resumed. */
uint64_t
sched_steps(void);

void
gate_close(struct gate *g);
/* What was held runs within `spread` from now. */
void
gate_open(struct gate *g, int64_t spread);

/* A number that a coroutine carries along: when the call of the queue that it
 * is in began. */
void
sched_set_call(int64_t began);
int64_t
sched_call(void);

#endif
