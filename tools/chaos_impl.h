/*
 * chaos_impl.h - what the files of raser chaos share. Nobody else includes it.
 */
#ifndef RASER_CHAOS_IMPL_H
#define RASER_CHAOS_IMPL_H

#include "ballast.h"
#include "history.h"
#include "inspect.h"
#include "prey.h"

enum { STOPPED_MAX = 64, KILLED_MAX = 1024, FAULTS_MAX = 16 };

struct stopped {
	struct tree_process process;
	int64_t until;
	char owner[OWNER_TEXT]; /* "" = an agentd */
};

struct chaos {
	struct target target;
	struct disk disk;
	struct queue *queue;
	struct history *history;
	const char *history_dir;
	bool own_dir; /* made for our own history only */
	struct prey_list prey;
	struct ballast ballast;
	char ballast_path[PATH_MAX + 64];
	int64_t ballast_until; /* 0 = there is none */
	int keeper, signal_fd;
	bool interrupted, no_fill, no_daemons;
	unsigned short random[3];
	int64_t begin, for_ms, every_ms, wait_ms;
	struct stopped stopped[STOPPED_MAX];
	int nstopped;
	char killed[KILLED_MAX][OWNER_TEXT];
	int nkilled;
	int64_t done[FAULTS_MAX]; /* of each kind */
};

static inline int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* What is about to be done, for people and for the audit, before it is. */
void
announce(struct chaos *c, const char *what, const char *whom, const char *sentence);

/* A kind of fault. fn: whether it did anything. */
struct fault {
	const char *name;
	bool (*fn)(struct chaos *c);
	int weight;
	bool daemon; /* left out with --no-daemons */
};

/* The end is one without a name. */
extern const struct fault chaos_faults[];

/* A number from 0 to n - 1, from the seed. */
long
draw(struct chaos *c, long n);

#endif
