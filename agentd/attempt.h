/*
 * attempt.h - the folders of one attempt: its node-local scratch with the workspace, its folder
 * under results/, and the sign of life that it leaves to its successor. super.c only.
 *
 *   SCRATCH/lock           held as long as agentd lives; what nobody holds is swept by the next
 *           state/work     the workspace
 *           state/home     HOME in sandboxes; state/ as a whole is what a checkpoint keeps
 *           state/trajectory.jsonl
 *           task.json control
 *   RUN/results/T@k.r/     out/ output.log attempt.json trajectory.jsonl
 *   RUN/checkpoints/T/     archives, and k.r.SECONDS.alive
 */
#ifndef RASER_ATTEMPT_H
#define RASER_ATTEMPT_H

#include "claim.h"

struct attempt {
	char scratch[PATH_MAX];
	char state[PATH_MAX + 32], work[PATH_MAX + 32], home[PATH_MAX + 32];
	char task_file[PATH_MAX + 32], control[PATH_MAX + 32];
	char results[PATH_MAX + 600]; /* results/T@k.r */
	char out[PATH_MAX + 640];     /* for the agent's own files */
	char log[PATH_MAX + 640];
	char store[PATH_MAX + 300];   /* checkpoints/T */
	char alive[PATH_MAX + 400];   /* checkpoints/T/k.r.SECONDS.alive; empty until it is made */
	int log_fd, lock_fd;
	double started;	    /* wall seconds */
	int64_t started_ms; /* boot */
	char words[200];    /* the last line of output */
	char tail[2000];    /* the last lines */
};

/* Make the folders and files. local: the directory for workspaces. 0 or an errno, and then
 * nothing is left behind but perhaps an empty folder under results/. */
int
attempt_begin(struct attempt *a, const struct run_info *run, const struct lease_claim *c,
	      const char *local);

/* A sign of life for whoever has to go on: at every heartbeat. */
void
attempt_alive(struct attempt *a, const struct lease_claim *c);

/*
 * How much work of the attempt before this one has to be done again: seconds from the moment that
 * its checkpoint shows (taken, wall seconds; 0: it left none) to its last sign of life. -1 when
 * there was none, or it left no sign.
 */
double
attempt_redo(const struct attempt *a, const struct lease_claim *c, double taken);

/* The claim has been taken up again under a new number: results are found under it, too. */
void
attempt_renumber(struct attempt *a, const struct run_info *run, const struct lease_claim *c);

/* Read the last lines of output into words and tail. */
void
attempt_words(struct attempt *a);

/* Make text fit for JSON and messages: what is no UTF-8, or cut in a character, becomes '?'. */
void
text_clean(char *text);

/* Make what the agent left in out/ and its log durable; may take long. */
int
attempt_sync(const struct attempt *a);

/* Point results/T to this attempt: it was accepted. */
void
attempt_accept(const struct attempt *a, const struct run_info *run, const struct lease_claim *c);

/* Close what is open; attempt_remove() the scratch, which may take long. */
void
attempt_close(struct attempt *a);
void
attempt_remove(const char *scratch);

/* Remove the scratch folders that killed agentds of this user left in local. */
void
attempt_sweep(const char *local);

/* Wall seconds with their fraction. */
double
wall_now(void);

#endif
