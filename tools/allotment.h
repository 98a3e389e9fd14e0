/*
 * allotment.h - the time that a job may work: what is left of Slurm's, less what its way out takes.
 * job.c only.
 */
#ifndef RASER_ALLOTMENT_H
#define RASER_ALLOTMENT_H

#include "slurm.h"

/* In wall seconds, as texts for the options until and since of raserfs and raser-agentd; "" = not
 * known. */
struct allotment {
	char until[24], since[24];
};

/* Ask Slurm, once. out: seconds that are kept for the way out, but not more than a quarter. */
void
allotment_find(struct allotment *a, const struct slurm_self *self, int64_t out);

/* The options of raserfs, with its node-local directory; may be none. */
void
allotment_options(const struct allotment *a, const char *local, char *text, size_t size);

#endif
