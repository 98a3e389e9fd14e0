/*
 * place.h - where a job works on its node: the node-local directory, and in it a folder of its own
 * with the mount point.
 *
 *   LOCAL/raser-job.HOST.RUN.JOB-RESTART.XXXXXX/       locked as long as its raser job lives
 *                                               mnt/  the mount point
 *
 * Several nodes of a test rig share one directory, and two copies of one task may run: no two have the
 * same folder. job.c only.
 */
#ifndef RASER_PLACE_H
#define RASER_PLACE_H

#include <limits.h>
#include <stdbool.h>

#include "node.h"

struct place {
	char local[PATH_MAX]; /* the node-local directory; workspaces are made in it as well */
	char dir[PATH_MAX];   /* ours; "" = there is none */
	char point[PATH_MAX]; /* the mount point */
	char uuid[UUID_TEXT]; /* of the run */
	int lock_fd;
};

/* Choose the node-local directory (wanted: [slurm] local, with variables as in a shell; then
 * SLURM_TMPDIR, TMPDIR, /tmp), make our folder in it, and take away what jobs of this user and run
 * that are dead have left there. job: for the name. False after a message. */
bool
place_make(struct place *p, const char *run, const char *wanted, const char *job, int restarts);

/* Take it away again, with a mount that is still there. */
void
place_end(struct place *p);

#endif
