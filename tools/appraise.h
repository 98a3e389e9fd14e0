/*
 * appraise.h - a run read and worked out, for whoever prints or draws it. raser bench only.
 */
#ifndef RASER_APPRAISE_H
#define RASER_APPRAISE_H

#include "figures.h"

struct appraisal {
	struct past_list list;
	struct task_list tasks;
	size_t *lane;
	struct figures f;
};

/* Read the records of a run and work its figures out; agents: 0 = those that were seen. An exit
 * status, not 0 after a message, and then there is nothing to free. */
int
appraise(const char *run, size_t agents, struct appraisal *a);
void
appraise_free(struct appraisal *a);

#endif
