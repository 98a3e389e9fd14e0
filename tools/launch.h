/*
 * launch.h - what the files of raser launch share: the plan of a launch, its scripts, and the records
 * in RUN/slurm. Records are read by members.c as well.
 */
#ifndef RASER_LAUNCH_H
#define RASER_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "conf.h"
#include "crew.h"
#include "raser.h"

enum { LAUNCHES_MAX = 1024, SCRIPT_NAME = TIER_NAME + 16, JOB_ID = 32, JOB_LIST = 16384 };

/* The agents of one tier. */
struct lane {
	const struct tier *tier;
	long agents;
};

struct launch {
	struct target target;
	struct conf conf;
	struct lane lanes[TIERS_MAX];
	int nlanes;
	const char *time, *partition; /* NULL: nothing is said */
	char **command;		      /* NULL: the plugin */
	struct crew crew;	      /* options for agents, to hand on */
	char *const *sbatch;	      /* the user's options, the last word */
	const char *then;	      /* the absolute path of a program, NULL = none */
	const char *then_nodes;	      /* NULL: as that program says itself */
	char raser[PATH_MAX];	      /* this program */
	bool dry, more;
};

/* ---- launchcheck.c: false after a message, or it is only a warning ---- */

/* Options of the user that would make a script something else than what we take it for. */
bool
launch_check_options(const struct launch *l);

/* Is the time limit longer than what agents are told to save before? */
bool
launch_check_time(const struct launch *l);

/* Is there anything to do, and may it be done? Do other nodes see it, and what will Slurm do? */
bool
launch_check_run(const struct launch *l);

/* More agents on a run that has some are asked for by --more. list: becomes the jobs that live, to wait
 * for. Asks squeue. */
bool
launch_check_live(const struct launch *l, char list[JOB_LIST]);

/* ---- launchscript.c ---- */

/* The script of an array. The caller frees it; NULL and a sentence in err. Pure. */
char *
script_array(const struct launch *l, const struct lane *lane, struct err *err);

/* The script of what comes when the arrays `after` ("1:2:3") have ended: it looks whether the run is
 * drained, and becomes l->then. */
char *
script_then(const struct launch *l, const char *after, struct err *err);

/* Write a word as a shell would have to be given it. */
void
put_word(FILE *f, const char *word);

/* ---- launched.c ---- */

/* A record: what was submitted. */
struct launched {
	char job[JOB_ID];	  /* of the array */
	char script[SCRIPT_NAME]; /* its name in RUN/slurm */
	char tier[TIER_NAME];	  /* "" for --then */
	long agents;		  /* of the array; nodes asked for by --then, 0 = it does not say */
	int64_t at;		  /* wall seconds */
};

/* Where the next script of a tier (or "then") goes: TIER.N.sh, for the least N that is free. */
void
script_name(const struct launch *l, const char *tier, char name[SCRIPT_NAME]);

/* Make RUN/slurm when it is not there, and write a script that is not there yet. path: becomes its
 * path. 0, or a negative errno after a message. */
int
script_write(const struct launch *l, const char *name, const char *text, char path[PATH_MAX]);

/* Write the record of what was submitted: whole or not at all. 0, or a negative errno. */
int
launched_write(const struct launch *l, const struct launched *one);

/* All records of a run, by job number. Fewer than LAUNCHES_MAX are read. The count, 0 when it was never
 * launched, or a negative errno. What cannot be read is left out. */
int
launched_read(const char *run, struct launched *all, size_t max);

#endif
