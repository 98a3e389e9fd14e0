/*
 * super.h - one agent slot: claim, run, keep, end, again; a table of states and events.
 */
#ifndef RASER_SUPER_H
#define RASER_SUPER_H

enum { EXIT_DRAINED = 0, EXIT_TROUBLE = 1, EXIT_PREEMPTED = 99 };

struct super_options {
	const char *mnt, *tier, *local;
	char *const *command;
};

/* Work until the queue is drained (0), a SIGTERM (99), or the mount is lost for good (1). */
int
super_run(const struct super_options *o);

#endif
