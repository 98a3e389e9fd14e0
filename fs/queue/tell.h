/*
 * tell.h - a queue in JSON, for programs: status.json of raser-tree(5). For the mount, raser-agentd
 * --direct and raser run. From memory.
 */
#ifndef RASER_TELL_H
#define RASER_TELL_H

#include <jansson.h>

#include "queue.h"

/* What states of tasks are called where they are counted. */
extern const char *const state_names[TASK_STATES];

/* What ends are called where they are counted. */
struct outcome_name {
	enum outcome outcome;
	const char *name;
};
enum { OUTCOMES = 6 };
extern const struct outcome_name outcome_names[OUTCOMES];

/* Everything that a queue knows, as an object to which its host adds what it knows of itself. began:
 * when it was opened. NULL when memory is out. */
json_t *
tell_status(struct queue *q, struct now began, struct now now);

#endif
