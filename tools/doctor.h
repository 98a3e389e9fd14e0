/*
 * doctor.h - what the parts of `raser doctor` share. Each adds its findings; none prints them.
 */
#ifndef RASER_DOCTOR_H
#define RASER_DOCTOR_H

#include "finding.h"
#include "raser.h"
#include "selftest.h"

struct doctor {
	char dir[PATH_MAX]; /* a run directory, or a directory that may become one */
	bool is_run;
	struct conf conf; /* the run's, else the defaults */
	int64_t tasks;	  /* of the run, -1 = unknown */
	struct disk disk;
	struct storage storage;
	struct findings findings;
	volatile bool stop; /* a signal asked for an end */
};

/* ---- trial.c: the directory ---- */

/* Exclusive creation by many, the time that calls take, space and inodes. */
void
doctor_trial(struct doctor *d);
/* Claims and ends by n processes for so many seconds, on a run of its own below dir. */
void
doctor_load(struct doctor *d, int n, double seconds);

/* ---- nodecheck.c: this node ---- */

void
doctor_node(struct doctor *d);

/* ---- peer.c ---- */

/* Meet another `raser doctor --peer` in dir, and measure from here to there and back. */
void
doctor_peer(struct doctor *d);

#endif
