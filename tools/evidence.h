/*
 * evidence.h - what the attempts of a run have left: the records in results/, and those that were
 * sealed. Read by raser export and bench; never to decide anything about a task.
 */
#ifndef RASER_EVIDENCE_H
#define RASER_EVIDENCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A record, which stays the reader's, in no particular order. */
typedef void
evidence_fn(void *arg, json_t *record);

/*
 * Read the record of every attempt below run, or (steps) the steps of the accepted ones, each with
 * its task. What cannot be read is left out. Returns an exit status, not 0 after a message.
 */
int
evidence_read(const char *run, bool steps, evidence_fn *fn, void *arg);

#endif
