/*
 * tree.h - a tree of processes, as /proc shows it: find it, signal it, measure it.
 *
 * Nothing here waits for anybody, and nothing is kept between two calls: a tree is listed anew
 * each time, since it may have changed. proc.c only, and tests.
 */
#ifndef RASER_TREE_H
#define RASER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot: a number that comes again has another */
	char state;	/* as in proc(5): R, S, D, T, t, Z ... */
};

/* All descendants of a process, without itself; parents stand before their children. */
struct tree {
	struct tree_process *all;
	size_t n, room;
};

struct usage {
	uint64_t cpu_ms;   /* of all, and of those that were waited for */
	uint64_t io_bytes; /* read and written by system calls; 0 where that cannot be seen */
	int64_t rss;	   /* bytes; pages that are shared count once for each process */
	int processes;
};

/* List them; t was zeroed once, and its memory is used again. 0 or a negative errno. */
int
tree_list(struct tree *t, pid_t root);
/* The same where the kernel does not list children: looks at every process there is. */
int
tree_scan(struct tree *t, pid_t root);
int
tree_add(struct tree *t, const struct tree_process *p);
void
tree_free(struct tree *t);

/* Signal one process of a list, if it still is that one. */
bool
tree_signal(const struct tree_process *p, int sig);

/* Measure the listed tree and what its root has reaped. */
void
tree_usage(const struct tree *t, pid_t root, struct usage *u);

/* A small file of /proc or a cgroup, as a string. Its length, or -1. */
ssize_t
read_text(const char *path, char *buf, size_t size);

/* Bytes in memory, a shared page being divided among its users; no_shmem: without what is mapped
 * of memory files. Costs much more than an RSS. */
int64_t
tree_pss(const struct tree *t, bool no_shmem);

/*
 * Bytes of the first memory file (memfd) of that name that one of them has open, mapped or not:
 * gVisor keeps all memory of what runs in it there. place: where it was found the last time, or
 * empty; updated.
 */
int64_t
tree_memory_file(const struct tree *t, const char *name, char place[64]);

/* Its number in its innermost pid namespace, and how many those of this process are above that. */
pid_t
tree_inner_pid(pid_t pid, int *depth);

/* The one process with that number; false when there is none. */
bool
tree_look(pid_t pid, struct tree_process *p);

/* Does none of its threads run? Stopped, traced and stopped, a zombie, or gone. */
bool
tree_is_still(const struct tree_process *p);

#endif
