/*
 * audit.h - did a run keep its promises? Judged after the fact, from the raw links and batches in
 * the run directory and from the histories (history.h) of everybody who worked on it.
 *
 * The run directory is read through the queue's own functions: no second fold. Nothing is
 * written. Histories are believed only where they incriminate: what no history tells of is a
 * violation only when the caller says that all histories are here (complete).
 *
 *   I1  Links of a task are attempts 1 to K without a gap, and every text parses.
 *   I2  Each link was allowed by what stood before it: a claim by a pending task, an end by an
 *       unended claim, `reopened` by a failed or cancelled task, `cancelled` by a pending one;
 *       its counters follow from those before; only who may give a reason gave it.
 *   I3  done is final: no link stands above it.
 *   I4  An agent was told that T@k is done if and only if T@k.end says done in its owner's name;
 *       at most one attempt of a task was told so.
 *   I5  Each link has one writer, and its history says won, unknown or nothing more; whoever was
 *       told lost (or failed) does not own it; what was won stands, or a seal overruled it.
 *   I6  Once T@k.end is another's, an answer to its old holder whose call began more than a beat
 *       later is a refusal; and no holder was told success of an end that is not its own.
 *   I7  Every acknowledged submission is there, whole. Once settled, every task is final; before,
 *       it is visibly pending or claimed.
 *   I8  results/T points to the folder of the attempt and owner whose end was accepted.
 *   I9  No unjust theft: before an end by another stands a beat removed, an eviction, a proven
 *       death or a gap in the holder's own beats as long as the window; before a stale end a gap of
 *       steal_after in the agent's touches; before a revoked one a hand. Undisturbed, a task has
 *       one claim for each time that its own agent ended it.
 *   I10 The attempts of a task that one daemon granted only ever rise.
 *   I11 Once settled, no claim without an end is left, nor, where a daemon lives, a dead one's beat.
 *   I12 (timed) A task whose holder's daemon was killed is claimed again within steal_after and
 *       two beats, and the create of a claim takes no longer while another daemon is stopped.
 *
 * Clocks of hosts are never compared by what they say: of two boot times on different machines it
 * is only known that a link was begun before somebody else saw it, and only what contradicts even
 * that is a violation.
 *
 * Where a `fault remove` names a path inside chain/, tasks below it are excused from I1 to I6 and
 * I10: at worst they ran twice (raser-tree(5)). Task names in `fault` lines are as in file names.
 */
#ifndef RASER_AUDIT_H
#define RASER_AUDIT_H

#include "disk.h"

struct audit;

struct audit_options {
	bool complete;	  /* everybody wrote a history, and all are here */
	bool settled;	  /* the faults are over and agents worked on until nothing was left */
	bool undisturbed; /* there were no faults, and nobody's hand */
	bool timed;	  /* judge I12; needs agents that wait all the time */
	int64_t slack_ms; /* what a busy machine may add to a bound of time; 0 = 1000 */
	int64_t lag_ms;	  /* how far behind a look at a beat may be */
	int64_t claim_ms; /* the longest that a create may take in I12; 0 = any time */
};

/* A violation, or (invariant 0) a remark: a sentence that names the task, the attempt, the owner
 * and the line of a history. */
typedef void
audit_fn(void *arg, int invariant, const char *sentence);

struct audit_totals {
	int64_t violations;
	int64_t broken[13]; /* by invariant */
	int64_t tasks, done, failed, cancelled, pending, claimed;
	int64_t attempts;   /* agents' claims */
	int64_t stolen;	    /* ended by another than their holder */
	int64_t lives, owners, told, faults;
	int64_t unlogged;   /* links by owners without a history */
	int64_t torn;	    /* lines of histories that are not whole */
};

struct audit *
audit_new(void);
void
audit_free(struct audit *a);

/* A history whose lines come one by one, for simulators: its number, or -ENOMEM. name: for
 * sentences. */
int
audit_source(struct audit *a, const char *name);
/* The next line of a source. 0 or -ENOMEM. */
int
audit_line(struct audit *a, int source, const char *line, size_t len);

/* Read one history, or every *.history in a directory. 0 or an errno, with err. */
int
audit_read(struct audit *a, const char *path, struct err *err);

/*
 * Judge the run behind disk, which stays the caller's, by what was read. Once only. Returns the
 * number of violations, or a negative errno with err when the run cannot be read.
 */
int64_t
audit_run(struct audit *a, struct disk *disk, const struct audit_options *options, audit_fn *fn,
	  void *arg, struct audit_totals *totals, struct err *err);

#endif
