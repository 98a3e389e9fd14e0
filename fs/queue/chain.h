/*
 * chain.h - the links of a task: their texts, the compare-and-swap, and the fold.
 *
 * The only way to change a task is to create its next link, a symbolic link that is born with
 * its text. Only chain.c creates links, and nothing ever changes or removes one. Why this is
 * enough: DESIGN 2, PROTOCOL 3.
 *
 *   T@k.claim -> owner:seq:time                       an agent's claim
 *   T@k.claim -> owner:seq:time:cancelled:t           cancelled while pending; its own end
 *   T@k.claim -> owner:seq:time:reopened:t            failed or cancelled, pending again
 *   T@k.end   -> owner:seq:time:outcome:reason:f:l:t  how attempt k ended
 *
 * f, l, t: failures, losses in a row, and the lowest tier that may take the task, after it;
 * the verbs of people begin a new count. A text has at most 59 bytes, so that it lives in the inode (ext4, Lustre).
 */
#ifndef RASER_CHAIN_H
#define RASER_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "disk.h"

enum {
	OWNER_TEXT = 24, /* "<8 of host>.<12 random>" and its NUL */
	LINK_TEXT = 60,	 /* 59 bytes and the NUL */
	BAY_TASKS = 1024,
	COUNT_LIMIT = 999, /* what fits into a text */
};

enum link_kind { LINK_CLAIM, LINK_END };

enum claim_verb { CLAIM_AGENT, CLAIM_CANCELLED, CLAIM_REOPENED, CLAIM_GARBLED };

enum outcome {
	END_DONE = 'd', END_FAILED = 'x', END_RETRY = 'r', END_LOST = 'l', END_FREED = 'f',
	END_CANCELLED = 'c',
};

/* Why. One letter in the text; the words are reason_name()'s. */
enum reason {
	WHY_NONE = '-',
	WHY_CRASH = 'C', WHY_OOM = 'M', WHY_EXIT = 'E', WHY_HUNG = 'H', WHY_LOOPING = 'P',
	WHY_TIMEOUT = 'W',			  /* over the time that an attempt may take */
	WHY_VERDICT = 'V',			  /* the agent said that it is hopeless */
	WHY_STALE = 'S', WHY_DEAD_OWNER = 'D',	  /* lost */
	WHY_RELEASED = 'R', WHY_PREEMPTED = 'T', WHY_NOT_ITS_FAULT = 'N', WHY_REVOKED = 'X',
	WHY_UNDELIVERED = 'U', WHY_RESTART = 'B', /* freed */
};

struct counts {
	int failures;
	int losses; /* in a row */
	int level;  /* lowest tier that may take it */
};

struct claim {
	char owner[OWNER_TEXT];
	uint64_t seq;
	int64_t time; /* wall seconds of the claimer, for people only */
	enum claim_verb verb;
	struct counts counts; /* CLAIM_CANCELLED and CLAIM_REOPENED: the level only */
};

struct end {
	char owner[OWNER_TEXT];
	uint64_t seq;
	int64_t time;
	enum outcome outcome;
	enum reason reason;
	struct counts counts;
};

/* "crash", "oom", ...; "" for WHY_NONE. */
const char *
reason_name(enum reason why);

/* The letter of such a word, or -1. */
int
reason_parse(const char *word);

const char *
outcome_name(enum outcome o);

void
claim_format(const struct claim *c, char text[LINK_TEXT]);
/* Never fails: what cannot be parsed is CLAIM_GARBLED and belongs to nobody known. */
void
claim_parse(const char *text, struct claim *c);
void
end_format(const struct end *e, char text[LINK_TEXT]);
/* False for a text that no daemon wrote. */
bool
end_parse(const char *text, struct end *e);

/* chain/<r>.<bay> */
void
bay_path(char out[DISK_PATH], const char *batch_random, int bay);
void
link_path(char out[DISK_PATH], const char *bay, const char *name, unsigned attempt,
	  enum link_kind kind);

/*
 * Create the link path with text and read it back; the text read decides, never a return code.
 * Returns 1 = won (the whole text is ours), 0 = lost (found holds what stands there), or
 * -EROFS, -ENOSPC, -EDQUOT, -EACCES, -EPERM, -ENAMETOOLONG, -ENOTDIR, -ENOENT (no directory):
 * nothing happened. Anything else is repeated identically until it is answered; -EINPROGRESS
 * when disk->stopping ended that, and then the outcome is unknown.
 * Only one caller may work on one path at a time.
 */
int
chain_cas(struct disk *disk, const char *path, const char *text, char found[LINK_TEXT]);

/* The same; when its directory is missing, that is made first. */
int
chain_cas_in(struct disk *disk, const char *dir, const char *path, const char *text,
	     char found[LINK_TEXT]);

/* As chain_read(), repeated while the storage does not answer and the run is where it was; -EIO
 * when it is not, or when disk->stopping ended that. */
int
chain_read_patiently(struct disk *disk, const char *path, char text[LINK_TEXT]);

/* The text of a link, "" for something that is no symbolic link. 0, -ENOENT or an errno. */
int
chain_read(struct disk *disk, const char *path, char text[LINK_TEXT]);

enum task_state {
	TASK_PENDING, TASK_CLAIMED, TASK_DONE, TASK_FAILED, TASK_CANCELLED,
	TASK_UNREAD, /* its highest attempt has an end that nobody here has read */
	TASK_STATES
};

/* What the links of one task say. */
struct fold {
	enum task_state state;
	unsigned attempt;     /* the next one when pending, else the one that counts */
	struct counts counts; /* before that attempt when claimed, else after the last end */
	enum reason reason;   /* of the last end */
	struct claim claim;   /* when claimed */
	char owner[OWNER_TEXT]; /* who wrote the last end */
	int64_t time;	      /* of the last link */
};

/*
 * Fold a task whose highest attempt with any link is `attempt` (0: no links) and which has an
 * end there or not. base: the level of a task without history. Reads one to three links as a
 * rule; when links were deleted it looks further down. Total: for every set of links there is
 * a legal state. 0 or an errno of the storage.
 */
int
chain_fold(struct disk *disk, const char *bay, const char *name, unsigned attempt, bool has_end,
	   int base, struct fold *fold);

/* How a task stood when its links were packed into a seal (seal.h): over, done, failed or
 * cancelled. What it says of its attempt and those below is final; links below are not read. */
struct sealed {
	int64_t time;
	unsigned attempt; /* 0: the task is not sealed */
	int16_t failures, losses;
	int8_t level;
	char outcome, reason;
};

/* chain_fold() for a task that may have been sealed: under may be NULL, or say that it was not. */
int
chain_fold_sealed(struct disk *disk, const char *bay, const char *name, unsigned attempt,
		  bool has_end, int base, const struct sealed *under, struct fold *fold);

/* What one link says by itself, if that decides: false for a claim of an agent and for what cannot
 * be parsed. Pure. */
bool
fold_link(unsigned attempt, enum link_kind kind, const char *text, struct fold *fold);

/* The state that a seal tells of. Pure. */
void
fold_sealed(const struct sealed *s, struct fold *fold);

/*
 * The counters after an attempt that ended so, and the outcome once limits are applied: a
 * retry or a loss that reaches max_failures or max_losses is failed. Pure.
 */
enum outcome
count_end(const struct conf *conf, int64_t max_failures, enum outcome outcome,
	  const struct counts *before, struct counts *after);

/* The state and next attempt that an end leaves. Pure. */
void
fold_end(const struct end *e, unsigned attempt, struct fold *fold);

#endif
