/*
 * orphans.h - what an agent's tree left whose agentd and guard were both killed. It comes to
 * `raser run` or `raser job`, subreapers, and nobody else would end it. run.c and job.c only.
 */
#ifndef RASER_ORPHANS_H
#define RASER_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ORPHANS_MAX = 1024 };

struct orphans {
	struct orphan {
		pid_t pid;
		int64_t since; /* boot ms, when it was first seen */
	} all[ORPHANS_MAX];
	size_t n;
	int64_t next; /* when to look again */
};

/* A child that is no orphan. */
typedef bool
orphan_known_fn(const void *arg, pid_t pid);

/* Kill children of this process that are not known and that nobody has ended for a while; their
 * own children come here then. Twice a second is often enough; more costs nothing. Returns how
 * many are left. */
size_t
orphans_end(struct orphans *o, orphan_known_fn *known, const void *arg, int64_t now_ms);

#endif
