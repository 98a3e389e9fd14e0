/*
 * super.h - one agent slot: claim, restore, run, keep, save, end, again; a table of states and
 * events.
 */
#ifndef RASER_SUPER_H
#define RASER_SUPER_H

#include <stdbool.h>
#include <stdint.h>

enum { EXIT_DRAINED = 0, EXIT_TROUBLE = 1, EXIT_UNFIT = 3, EXIT_LATE = 4, EXIT_PREEMPTED = 99 };

struct super_options {
	const char *path, *tier, *local; /* path: a mount, or with direct a run directory */
	bool direct;
	const char *status; /* with direct: a file that says what status.json of a mount would; or NULL */
	char *const *command; /* NULL: the plugin of raser.ini */
	/* instead of what raser.ini says; NULL and false: as it says */
	const char *sandbox, *image, *memory_by;
	char *const *binds, *const *pass; /* beside those of raser.ini; NULL-terminated */
	bool network;
	bool check; /* only say how agents would run here */
	/* wall seconds: the end of this node's time, and with direct when it began; 0 = not known */
	int64_t until, since;
};

/* Work until the queue or the run is drained (0), a SIGTERM (99), or the queue is lost for good (1);
 * 3: this node cannot run agents as raser.ini asks; 4: what is left takes longer than we have. */
int
super_run(const struct super_options *o);

#endif
