/*
 * examine.h - all that lies in a bay of the chain, name by name: for `raser
 * fsck`.
 *
 * What daemons fold silently, because every set of links has a legal state, is
 * told here. The same functions read links, seals and digests; nothing is
 * written. May block on the storage.
 */
#ifndef RASER_EXAMINE_H
#define RASER_EXAMINE_H

#include "queue.h"

/* What is odd in a bay. Of which file is said beside it, and in words what
 * there is to add. */
enum bay_oddity {
	BAY_FOREIGN,	    /* neither a link's name, nor a seal's, nor the digest */
	BAY_NO_TASK,	    /* a link of a task that the bay does not have */
	BAY_NO_LINK,	    /* a link's name, but no symbolic link */
	BAY_GARBLED,	    /* a text that no daemon wrote */
	BAY_GAP,	    /* an attempt without links below one that has some */
	BAY_END_ALONE,	    /* an end without its claim */
	BAY_CLAIM_UNENDED,  /* a claim without its end below another attempt */
	BAY_ABOVE_DONE,	    /* links above an end that says done */
	BAY_DIGEST_BAD,	    /* torn, or of another bay */
	BAY_DIGEST_DIFFERS, /* it says what links and seals do not */
	BAY_SEAL_BAD,	    /* torn or damaged, and links say all of it */
	BAY_SEAL_LOST,	    /* torn or damaged, and tasks have no links beside it */
	BAY_SEAL_OLD,	    /* another one has replaced it */
	BAY_COVERED,	    /* links that a seal covers */
	BAY_ODDITIES
};

struct bay_examiner {
	void *arg;
	/* file: its name in the bay; more: words, or "" */
	void (*odd)(void *arg, enum bay_oddity what, const char *file, const char *more);
	/* A task that is done, by whose end. */
	void (*done)(void *arg, const struct task *t, unsigned attempt, const char *owner);
	/* A task that is claimed, and by whom; "" when the claim cannot be parsed. */
	void (*held)(void *arg, const struct task *t, unsigned attempt, const char *owner);
};

struct bay_totals {
	int64_t links;	  /* that stand */
	int64_t packable; /* of them, those that sealing would remove now */
};

/*
 * Examine the bay with number i, as queue_seal_bay() counts them. Adds to
 * totals. 0, -ERANGE behind the last one, or what the storage said, with err.
 */
int
queue_examine(struct queue *q, int64_t i, const struct bay_examiner *e, struct bay_totals *totals,
	      struct err *err);

#endif
