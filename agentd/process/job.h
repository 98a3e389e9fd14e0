/*
 * job.h - work that may take minutes, in a child of agentd, so that heartbeats and signals never
 * wait for it: restoring, checkpointing, publishing, setting up a node. super.c only.
 */
#ifndef RASER_JOB_H
#define RASER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What the child does; fills the result, `size` bytes that were zero. Its return value is 0 or a
 * negative errno. */
typedef int
job_fn(const void *arg, void *result);

struct job {
	pid_t pid; /* 0: none */
	int fd;	   /* readable when it has ended; poll it */
	size_t size;
};

/* Run fn in a child, which is killed when this process dies. size: of the result, a page at most,
 * so that writing it never blocks. drop_fd: closed in the child, -1 = none; a claim must end with
 * agentd alone. 0 or a negative errno. */
int
job_start(struct job *j, job_fn *fn, const void *arg, size_t size, int drop_fd);

/* Collect the end of a job: its return value, -EIO when it was killed (the result is zero then).
 * Waits for it. */
int
job_finish(struct job *j, void *result);

/* SIGKILL; job_finish() must follow. */
void
job_kill(const struct job *j);

#endif
