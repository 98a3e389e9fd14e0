/*
 * contest.h - what the files of raser bench makespan DIR share: contest.c (the plan, what came out),
 * arms.c (one arm from start to end), blocks.c (the arm without a queue), harm.c (what is broken
 * meanwhile). Nobody else includes it.
 */
#ifndef RASER_CONTEST_H
#define RASER_CONTEST_H

#include "bench.h"
#include "past.h"

#include <sys/types.h>

enum { CONTEST_AGENTS_MAX = 1000, CONTEST_REPEAT_MAX = 100 };

enum arm_kind { ARM_BLOCKS, ARM_FIFO, ARM_LONGEST, ARM_KINDS };
extern const char *const arm_kinds[ARM_KINDS];

/* A task, as the plugin gave it. */
struct contest_task {
	char *name, *line; /* its name, and its JSON */
	double span;	   /* seconds, scaled */
};

struct contest {
	const struct makespan_options *o;
	char dir[PATH_MAX];    /* absolute */
	char replay[PATH_MAX], table[PATH_MAX];
	char speed[32];	       /* as text: for the plugin */
	double factor;	       /* the same as a number */
	double seconds;	       /* of the static arm without faults, as asked for */
	const char *agents;    /* "low=5,medium=5,high=5" */
	size_t nagents;
	struct contest_task *tasks;
	size_t ntasks;
	double bound;	       /* seconds */
	struct conf conf;      /* of DIR/raser.ini */
};

/* One arm in one repetition. */
struct arm {
	const struct contest *c;
	enum arm_kind kind;
	int repetition; /* from 1 */
	char dir[PATH_MAX + 64];
	char log[PATH_MAX + 80]; /* what its programs say */
	const char *durations;	 /* a table, NULL: nothing is expected */
	/* without Slurm */
	pid_t run;	   /* raser run */
	struct slot {
		pid_t pid; /* 0: ended */
		int restarts;
		int64_t restart_at; /* boot ms; 0: not due */
	} *slots;
	/* with it */
	char jobs[1024]; /* arrays, "12,13,14" */
};

/* A signal has asked for the end. */
extern volatile bool contest_stopped;

/* ---- arms.c ---- */

/* Make the directory of an arm, with all that it needs. An exit status. */
int
arm_prepare(struct arm *a);
/* Start it, wait until all is done or nobody works any more, and see that nothing of it runs. An exit
 * status, not 0 after a message. */
int
arm_run(struct arm *a);
/* Fork a child whose output goes to the arm's log and that gets SIGTERM when we die. As fork(2). */
pid_t
arm_fork(const struct arm *a);
/* Run a program with its output in the arm's log; its exit status, 127 when there is none. */
int
arm_call(const struct arm *a, char *const *argv);

/* ---- blocks.c ---- */

/* Its blocks of tasks, and the script that a slot runs. An exit status. */
int
blocks_prepare(const struct arm *a);
/* The processes of this machine that do what an array of jobs does. */
int
blocks_start(struct arm *a);
/* Reap, start again what was killed. True while something is at work. */
bool
blocks_turn(struct arm *a, int64_t now_ms);
void
blocks_stop(struct arm *a);

/* ---- harm.c ---- */

struct harm {
	struct arm *arm;
	int64_t began; /* boot ms of the first attempt that was seen; 0: none yet */
	int done;      /* preemptions so far */
	int64_t next;  /* not before, boot ms */
	bool crashed;
	pid_t crash;   /* the command that does it */
	uint64_t rng;
};

void
harm_begin(struct harm *h, struct arm *a);
/* Do what is due. */
void
harm_turn(struct harm *h, int64_t now_ms);
/* Wait for what it has started. */
void
harm_end(struct harm *h);

#endif
