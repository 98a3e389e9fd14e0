/*
 * store.h - a task's checkpoints/TASK/: which generations there are, which one to resume from.
 *
 * Nothing in it is locked, changed in place, or renamed over. Its files are:
 *
 *   K.R-N.HASH.tar.zst        a generation (checkpoint.h); later is a higher attempt K, then N
 *   K.R-N.HASH.tar.zst.tried  what became of it, a line an event, only ever appended to
 *   tmp.K.R-N.PID             being written, or left by a writer that died
 *
 * An event is a word and the attempt that it happened to, `begun 3.r`:
 *
 *   begun    restoring begins
 *   ok       it is restored and the agent has started
 *   undone   restoring ended in order for a reason that is not the checkpoint's: nothing is known
 *   damaged  its checksum was wrong, or it held what is not restored
 *   failed   the resumed attempt failed by its own doing, with this as its newest checkpoint still
 *
 * Which one is resumed from: the newest one that
 *   - is not damaged; that is seen anew each time, since storage may have answered wrongly once,
 *   - has not two `begun` in a row with nothing behind: restoring it kills us (the memory, the
 *     kernel, the node), and has done so twice,
 *   - has not failed: the agent may have saved itself in a state that it cannot leave, so after one
 *     failure the older state is given a chance. The oldest of those that are left may fail twice,
 *     since without it the attempt starts from nothing, which is the greater loss.
 * When there is none, the attempt starts from nothing.
 *
 * These calls may block for as long as the storage does.
 */
#ifndef RASER_STORE_H
#define RASER_STORE_H

#include "checkpoint.h"
#include "folder.h"

#include <stddef.h>

struct generation {
	struct checkpoint_id id;
	char name[CHECKPOINT_NAME];
	int64_t taken_ms, size;
	unsigned begun;	 /* in a row, with nothing behind */
	char begun_by[48]; /* the last of them: K.R */
	unsigned ok, failed;
	bool damaged;	 /* was found so */
	bool unusable;	 /* in this search; store_restore() */
};

struct generations {
	struct generation *g; /* the newest first */
	size_t n;
};

/* 0, also when there is no store, or a negative errno. Free it in any case. */
int
store_list(const char *store, struct generations *all);
void
store_free(struct generations *all);

/* The one that is resumed from, of those that are not unusable; NULL: none. */
const struct generation *
store_pick(const struct generations *all);

/* "good", "tried", "failed", "fatal" (restoring it killed twice) or "damaged". */
const char *
store_state(const struct generation *g);

/*
 * Restore into the empty folder state what attempt K.R shall resume from, and note `begun`; damaged
 * ones are noted and skipped for older ones (result->fallbacks counts all skipped ones, the note
 * says why). 0; -ENOENT: nothing may be resumed from, and err says why if there is something; any
 * other errno: the storage or the node is in trouble, try again: nothing was decided. The folder
 * is empty then.
 */
int
store_restore(const char *store, const char *state, unsigned attempt, const char *owner,
	      int64_t limit, struct restore_result *result, struct err *err);

enum store_verdict { STORE_OK, STORE_UNDONE, STORE_FAILED };

/*
 * What became of attempt K.R after it had restored the generation name: STORE_OK as soon as the
 * agent has started, STORE_UNDONE when it could not be (not the checkpoint's fault), STORE_FAILED
 * when it has failed by its own doing; that is noted only while there is no newer generation. 0 or
 * an errno, after which only the mark is missing.
 */
int
store_settle(const char *store, const char *name, unsigned attempt, const char *owner,
	     enum store_verdict verdict);

/* A restore by attempt K.R was stopped in the middle, by us: whatever it had begun is undone. */
int
store_interrupted(const char *store, unsigned attempt, const char *owner);

/*
 * Remove what is older than the two newest generations that are not known to be bad; what is newer
 * stays, whoever wrote it. Also removes temporary files: those of K.R itself, which must not be
 * saving at the time, and those of others that were not written to for an hour by the storage's
 * own clock, which nobody who lives does. 0, or the first errno.
 */
int
store_prune(const char *store, unsigned attempt, const char *owner);

/* Remove all of it: the task is done. 0 (also when there is none) or an errno. */
int
store_remove(const char *store);

#endif
