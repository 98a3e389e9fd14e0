/*
 * memory.h - the memory of one agent: a cgroup of its own where one can be made, and the
 * kernel's counters of what it killed.
 *
 * Where no cgroup can be made proc.c polls (tree.h), and the limit of each process's private
 * writable memory (RLIMIT_DATA) keeps what happens between two polls within bounds. Never
 * RLIMIT_AS: Go, Java and Node.js reserve much more address space than they use. A process is
 * never moved into a freezer cgroup: it would escape Slurm for good.
 *
 * proc.c, and tests with a tree of their own.
 */
#ifndef RASER_MEMORY_H
#define RASER_MEMORY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "log.h"

enum memory_by { MEMORY_AUTO, MEMORY_CGROUP, MEMORY_POLL };

/* Where cgroups and counters are looked for; memory_roots_system() tells this machine's. */
struct memory_roots {
	const char *cgroup; /* where they are mounted */
	const char *self;   /* the text of /proc/self/cgroup */
	const char *vmstat; /* path of /proc/vmstat */
	pid_t pid;	    /* must be in the cgroup that is found; 0: not looked at */
};

/* One memory cgroup. version 0: none. */
struct cgroup {
	int version;
	char path[PATH_MAX];
};

/* This process's own. Valid until it is called again. */
const struct memory_roots *
memory_roots_system(void);

/* The memory cgroup that this process is in. False: none is to be seen. */
bool
cgroup_find(const struct memory_roots *roots, struct cgroup *in);

/*
 * Make one below it, limited to so many bytes, swap included. It is named after the agentd that
 * asks, so that others can tell when that is gone. 0, or a negative errno and why.
 */
int
cgroup_make(const struct memory_roots *roots, int64_t limit, struct cgroup *own, struct err *err);

/* Move the calling process there. 0 or a negative errno. */
int
cgroup_enter(const struct cgroup *own);

/* The highest figure it had, in bytes; 0: unknown. File pages that could be dropped count. */
int64_t
cgroup_peak(const struct cgroup *cg);

/* How many of its processes the kernel has killed for memory; -1: unknown. */
int
cgroup_oom_kills(const struct cgroup *cg);

/* Kill what is in it and remove it. False: something in it hangs in the kernel. */
bool
cgroup_remove(const struct cgroup *own);

/* Remove what agentds that are gone have left beside ours. */
void
cgroup_sweep(const struct memory_roots *roots);

/*
 * Where we have no cgroup of our own: a count that rises whenever the kernel kills for memory
 * here, or anywhere on the node. The difference of two tells that there was none, if it is 0.
 * -1: unknown.
 */
int64_t
memory_oom_kills(const struct memory_roots *roots);

#endif
