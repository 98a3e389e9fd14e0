/*
 * verb.h - what an agent writes into its lease, raser-tree(5): one line, how it ended or what it
 * says of itself. For whoever takes such a line: the mount, and raser-agentd --direct.
 */
#ifndef RASER_VERB_H
#define RASER_VERB_H

#include "queue.h"

enum verb_kind {
	VERB_END,     /* done, failed, free, retry: outcome, reason and note */
	VERB_PARK,    /* parked UNTIL: number, wall seconds */
	VERB_RESUMED, /* resumed SECONDS: number, in ms */
	VERB_NOTE,    /* note TEXT: note */
};

struct verb {
	enum verb_kind kind;
	enum outcome outcome;
	enum reason reason;
	int64_t number;
	char note[160];
};

/* The verb in a text, which need not end with a NUL. 0 or -EINVAL. */
int
verb_parse(const char *text, size_t size, struct verb *verb);

/* Do what it says to an attempt, as queue_end(), queue_park(), queue_resumed() or queue_note(). When
 * this daemon was frozen before, it looks first, and -EIO says that it could not. */
int
verb_do(struct queue *q, int64_t serial, unsigned attempt, const struct verb *verb,
	struct now now);

/* queue_touch() with the same care. */
int
touch_do(struct queue *q, int64_t serial, unsigned attempt, struct now now);

#endif
