/*
 * load.h - claims and ends as fast as the queue library makes them, on a run of its own: what
 * `raser doctor --load` and the benchmarks measure. Every worker is a daemon without a mount.
 */
#ifndef RASER_LOAD_H
#define RASER_LOAD_H

#include <stdbool.h>

#include "log.h"

/* Make the run and submit so many tasks, t000001 and so on, of about 200 bytes. 0 or an errno. */
int
load_fill(const char *run, long tasks, const char *submitter, struct err *err);

/* What a worker is asked and told; arg is the caller's. */
struct load_hooks {
	void (*start)(void *arg);	       /* it has joined: wait for the others */
	bool (*goes_on)(void *arg);	       /* asked before every pair */
	void (*claimed)(void *arg, long task); /* it holds that one */
	void (*ended)(void *arg);	       /* its end is durable */
};

/*
 * Join the run, and make pairs of queue_next() and queue_end(done), a claim and a durable end
 * with their read-backs and the directory's sync, until goes_on() says no or the queue is
 * drained. lost: how many races for a task it lost. 0, or an errno and err.
 */
int
load_work(const char *run, const struct load_hooks *hooks, void *arg, long *lost, struct err *err);

#endif
