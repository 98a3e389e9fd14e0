/*
 * record.h - attempt.json: what is known of one attempt, written before its agent starts, so that
 * a later reader can tell what happened even if nobody came to write the end. super.c only.
 */
#ifndef RASER_RECORD_H
#define RASER_RECORD_H

#include "attempt.h"
#include "proc.h"

/* What super.c knows beside the attempt's folders. */
struct record {
	const char *tier, *sandbox;
	int64_t memory; /* of the tier */
	/* restored from */
	char restored[200];
	double taken;	    /* wall seconds of the moment it shows */
	double restoring;   /* how long that took, seconds */
	double redo;	    /* seconds of work lost with the attempt before; -1: none */
	char restore_note[320];
	/* checkpoints taken */
	int saved;
	char last_saved[200];
	double last_taken, save_seconds;
	int64_t saved_in, saved_out; /* bytes of the last one */
	char save_note[320];	     /* what is missing in it, or why there is none */
	int64_t steps;
};

/* Write it. end is NULL while the agent runs; verb: as written into the lease. */
void
record_write(const struct attempt *a, const struct lease_claim *c, const struct record *r,
	     const struct proc_end *end, const char *verb);

#endif
