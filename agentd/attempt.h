/*
 * attempt.h - what an attempt leaves behind: its folder under results/, its log, its record.
 */
#ifndef RASER_ATTEMPT_H
#define RASER_ATTEMPT_H

#include "claim.h"
#include "proc.h"

struct attempt {
	char scratch[PATH_MAX];	       /* node-local: the payload and the workspace */
	char state[PATH_MAX + 32]; /* what checkpoints keep: work/ and home/ */
	char workspace[PATH_MAX + 48];
	char task_file[PATH_MAX + 32];
	char control[PATH_MAX + 32];
	char results[PATH_MAX + 600];  /* results/T@k.r */
	char out[PATH_MAX + 640];      /* for the agent's own files */
	char log[PATH_MAX + 640];
	int log_fd;
	int64_t started; /* wall seconds */
	int64_t started_ms;
	char words[200]; /* the last line of output */
};

/* Make the folders and the payload's file. local: the directory for workspaces. 0 or an errno,
 * and then nothing is left behind but perhaps an empty folder under results/. */
int
attempt_begin(struct attempt *a, const struct run_info *run, const struct lease_claim *c,
	      const char *local);

/* Read the last words, and write the record attempt.json. verb: as written into the lease. */
void
attempt_record(struct attempt *a, const struct lease_claim *c, const struct proc_end *end,
	       const char *tier, int64_t memory, const char *verb);

/* Make text fit for JSON and messages: what is no UTF-8, or cut in a character, becomes '?'. */
void
text_clean(char *text);

/* Read the last line of output into a->words. */
void
attempt_words(struct attempt *a);

/* Point results/T to this attempt: it was accepted. */
void
attempt_accept(const struct attempt *a, const struct run_info *run, const struct lease_claim *c);

/* Remove the workspace. */
void
attempt_end(struct attempt *a);

#endif
