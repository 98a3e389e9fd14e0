/*
 * super.h - one agent slot: claim, run, keep, end, again; a table of states and events.
 */
#ifndef RASER_SUPER_H
#define RASER_SUPER_H

#include "memory.h"
#include "sandbox.h"

enum { EXIT_DRAINED = 0, EXIT_TROUBLE = 1, EXIT_PREEMPTED = 99 };

struct super_options {
	const char *mnt, *tier, *local;
	char *const *command;
	enum sandbox_kind sandbox;
	const char *image;
	const char *const *binds, *const *pass;
	bool network;
	enum memory_by memory_by;
};

/* Work until the queue is drained (0), a SIGTERM (99), or the mount is lost for good (1). */
int
super_run(const struct super_options *o);

#endif
