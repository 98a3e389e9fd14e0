/*
 * fsck.h - what is odd in a run directory, in sentences, and the repair of what
 * is safe to repair.
 *
 * The run is read through the queue's own functions, on a disk that refuses
 * every change. What is repaired at any time (MEND_ANYTIME) is what whoever
 * lives would do in just the same way. What is repaired only when nobody else
 * lives (MEND_ALONE) waits for a second round: then fsck is a sealer (seal.h),
 * so that nobody starts meanwhile. No link of the chain is created by fsck, and
 * none is removed but by queue_seal().
 *
 * Used by tools/fsck.c and its files, which add what lies outside the queue's
 * own directories.
 */
#ifndef RASER_FSCK_H
#define RASER_FSCK_H

#include "disk.h"
#include "examine.h"

/* Kinds of oddities: those of a bay, and these. */
enum oddity {
	ODD_FOREIGN_ROOT = BAY_ODDITIES,
	ODD_NO_DIR,
	ODD_NO_CHAIN,
	ODD_DENIED,
	ODD_USERS,
	ODD_NO_FORMAT,
	ODD_BAD_FORMAT,
	ODD_BAD_INI,
	ODD_BATCH_FOREIGN,
	ODD_BATCH_TARGET,
	ODD_BATCH_GONE,
	ODD_BATCH_BAD,
	ODD_BATCH_GAP,
	ODD_BATCH_TWICE,
	ODD_BATCH_LOOSE,
	ODD_BATCH_TORN,
	ODD_BATCH_YOUNG,
	ODD_CHAIN_FOREIGN,
	ODD_BAY_NO_BATCH,
	ODD_HELD_DEAD,
	ODD_BEAT_FOREIGN,
	ODD_BEAT_TORN,
	ODD_BEAT_DEAD,
	ODD_BEAT_SILENT,
	ODD_SEALER,
	ODD_RESULT_NONE,
	ODD_RESULT_WRONG,
	ODD_RESULT_GONE,
	ODD_RESULT_NOT_DONE,
	ODD_RESULT_ORPHAN,
	ODD_RESULT_FOREIGN,
	ODD_SAVED_DONE,
	ODD_SAVED_ORPHAN,
	ODD_SAVED_FOREIGN,
	ODD_LEFTOVER,
	ODD_LEFTOVER_YOUNG,
	ODDITIES
};

enum fsck_level { FSCK_NOTE, FSCK_ODD };
enum fsck_mend { MEND_NOT, MEND_ANYTIME, MEND_ALONE };

struct fsck;

/* An oddity. path and found: a sentence between them; means: what it means and
 * what to do, or NULL when that was said before of the same kind. */
typedef void
fsck_say_fn(void *arg, enum fsck_level level, const char *path, const char *found,
	    const char *means);
/* A repair was made (why: NULL), or why it could not be. */
typedef void
fsck_mended_fn(void *arg, const char *path, const char *why);
/* A task that is done, and by whose end: its results are the caller's to look
 * at. */
typedef void
fsck_done_fn(void *arg, const struct task *t, unsigned attempt, const char *owner);

struct fsck_options {
	bool repair;
	fsck_say_fn *say;
	fsck_mended_fn *mended;
	fsck_done_fn *done;
	void *arg;
};

struct fsck_totals {
	int64_t odd; /* that were found */
	int64_t notes;
	int64_t mended; /* of the odd ones */
	int64_t alone;	/* of the odd ones, those that can be repaired when nobody lives */
	struct bay_totals bays;
};

/* Open a run directory for a first round: only reading, and what is
 * MEND_ANYTIME. Looks at what every daemon needs first. NULL and err when there
 * is nothing that could be read. */
struct fsck *
fsck_open(const char *run, const struct fsck_options *options, struct err *err);
void
fsck_close(struct fsck *f);

/* The second round, in which only what is MEND_ALONE is found and repaired:
 * with the queue of a sealer that has waited (queue_seal_wait()); it stays the
 * caller's. */
void
fsck_second(struct fsck *f, struct queue *sealer, const struct seal_watcher *w);

/* As it was read; never to be changed. */
struct queue *
fsck_queue(struct fsck *f);
/* The run directory, with changes. */
struct disk *
fsck_disk(struct fsck *f);
void
fsck_totals(const struct fsck *f, struct fsck_totals *t);

/* The parts, in their order. 0 or a negative errno with err: then it cannot be
 * read. */
int
fsck_batches(struct fsck *f, struct err *err); /* batches/ */
int
fsck_chain(struct fsck *f, struct err *err); /* chain/, and each done task once */
int
fsck_nodes(struct fsck *f, struct err *err); /* nodes/ */

/* In the listing of nodes/, not proven dead: the first of them, in words. False
 * when there is none. */
bool
fsck_living(struct fsck *f, char *who, size_t size);
/* The beat of an owner is there. */
bool
fsck_has_beat(struct fsck *f, const char *owner);

/* Somebody has a beat: what is read may have changed since. */
bool
fsck_has_beats(const struct fsck *f);

/*
 * Something is odd. True when the caller is to repair it now, and to say with
 * fsck_mended() how that went.
 */
bool
fsck_found(struct fsck *f, int what, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* rc: 0 or an errno; why: a sentence, or NULL for what the errno says. */
void
fsck_mended(struct fsck *f, const char *path, int rc, const char *why);

/* How often something of the kind was found beyond those that were said. [after
 * all parts] */
int64_t
fsck_unsaid(const struct fsck *f, int what, const char **means);

/* What lies at path was not written to for an hour by the storage's own clock:
 * whoever made it does not need it any more. */
bool
fsck_is_old(struct fsck *f, const char *path);

#endif
