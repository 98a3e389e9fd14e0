/*
 * queue.h - the queue on a run directory: look, claim, keep, end. No FUSE, no SQL, no clock.
 *
 * One struct queue is one life of one daemon (an owner), or of a tool that only looks and
 * submits. Functions marked [memory] answer at once from what is known; the others may wait for
 * the storage and are called by threads that may. All of them may be called from any thread.
 * They return 0 (or a count) or a negative errno. Times: struct now, read by the caller.
 */
#ifndef RASER_QUEUE_H
#define RASER_QUEUE_H

#include <stdio.h>

#include "index.h"
#include "node.h"

struct queue;
struct submission;

struct now {
	int64_t boot_ms; /* CLOCK_BOOTTIME */
	int64_t wall_s;	 /* for what is stored and shown, never compared */
};

struct queue_options {
	bool join;	 /* make an owner with a beat: needed to claim, and to change tasks */
	enum owner_kind as; /* which; waits while somebody seals the run, unless it is a sealer */
	bool admit;	 /* try the storage first, and refuse what raser doctor fails */
	bool damaged;	 /* open it although seals are damaged, which is for looking only */
	/* The end of this node's time in wall seconds, 0 = none: what is expected to take longer is
	 * not offered. since: when it began, 0 = now; it may lie somewhat ahead, and until then
	 * everything is offered. What would not fit into all of that time is offered, or nobody
	 * would ever take it. */
	int64_t until, since;
	const char *tmp; /* node-local directory for submissions; NULL = $TMPDIR or /tmp */
};

/* ---- the run directory ---- */

struct init_options {
	const char *plugin; /* for conf_template(); NULL = "" */
	bool force;	    /* the same, and make it on storage that needs it */
};

/* Make a run directory at path (which may exist, empty), with a raser.ini unless there is one.
 * The storage is tried first; where it fails nothing is left behind. -EEXIST when there is a run
 * already, -ENOTSUP when the storage will not do. */
int
queue_make(const char *path, const struct init_options *options, struct err *err);
/* The same with a plugin alone. */
int
queue_init(const char *path, const char *plugin, struct err *err);

/* Open it and read everything in it once. NULL and err when it is none or cannot be read. */
struct queue *
queue_open(const char *path, const struct queue_options *options, struct now now,
	   struct err *err);

/* As queue_open(), on a disk that the caller has opened and that the queue then owns, its history
 * included. */
struct queue *
queue_open_disk(struct disk disk, const char *path, const struct queue_options *options,
		struct now now, struct err *err);

/* End one's own claims as freed (restart), unlink the beat, free everything. */
void
queue_close(struct queue *q, struct now now);

const struct conf *
queue_conf(const struct queue *q);
const char *
queue_path(const struct queue *q);
/* The run's unique name, from FORMAT. */
const char *
queue_uuid(const struct queue *q);
/* The owner now; it changes when a verdict went against it. */
void
queue_owner(struct queue *q, char owner[OWNER_TEXT]);

/* A descriptor that becomes readable when something changed that waiters may want: tasks to
 * take, a drained queue, a lease that is over. queue_woken() makes it quiet again. [memory] */
int
queue_wake_fd(const struct queue *q);
void
queue_woken(struct queue *q);

/* ---- looking [memory] ---- */

int
queue_find(struct queue *q, const char *name, struct task *t);
int
queue_get(struct queue *q, int64_t serial, struct task *t);
void
queue_list(struct queue *q, int view, int64_t after, index_fn *fn, void *arg);
/* Where the links of a task lie, "chain/<r>.<bay>". */
bool
queue_bay(struct queue *q, int64_t serial, char out[DISK_PATH]);
/* There are ends that nobody here has read: by others, and not yet needed. */
bool
queue_has_unread(struct queue *q);
/* How many tasks tier could be given now; 0 while this node has stopped claiming. What is left out
 * for want of time is as of the last queue_tick(). */
int64_t
queue_ready(struct queue *q, int tier);
/* Counts what changes what a waiter of the tier, or (-1) of any, could be told. */
uint64_t
queue_generation(struct queue *q, int tier);
/*
 * Why nothing will come any more for an agent of tier, by a full pass that began after since. 0:
 * something may; -ENODATA: nothing is left that could become claimable; -ETIME: only what takes
 * longer than this node's time, see queue_options.until. [memory]
 */
int
queue_exhausted(struct queue *q, int tier, int64_t since_boot_ms);
/* It is -ENODATA. */
bool
queue_drained(struct queue *q, int tier, int64_t since_boot_ms);

enum { LEASE_NOTE = 120 };

struct lease_info {
	int64_t serial;
	unsigned attempt;
	char owner[OWNER_TEXT];
	char comm[16]; /* the agent's program, pid and activity: claims of this daemon only */
	long pid;
	int tier;
	int64_t since;	 /* wall seconds */
	int64_t touched; /* wall seconds of the last heartbeat, or of its owner's beat */
	int64_t parked_until; /* wall seconds, 0 = not parked */
	char note[LEASE_NOTE]; /* what its agent said last; claims of this daemon only */
	bool mine;
	bool over; /* ended through this daemon; kept for repeats */
};

/*
 * The lease of attempt k of a task. 0; -ESTALE when that attempt is over (or was this daemon's
 * and is lost); -ENOENT when there never was one that is known here.
 */
int
queue_lease(struct queue *q, int64_t serial, unsigned attempt, struct lease_info *info);

/* Attempt k is this daemon's claim and not over. */
bool
queue_is_held(struct queue *q, int64_t serial, unsigned attempt);

/* How many claims of this daemon are not over. */
int64_t
queue_held(struct queue *q);

/* ---- claiming ---- */

struct claimer {
	long pid;
	char comm[16];
	bool bound; /* ends with its descriptor */
};

struct grant {
	int64_t serial;
	unsigned attempt;
	uint64_t seq; /* of this very claim: a deleted one may be made again */
	char name[NAME_LIMIT + 1];
};

/* Claim attempt k of a task for an agent of tier. -EBUSY: somebody has it; -ENOENT: that
 * attempt is over or unknown; -ESHUTDOWN: this daemon is leaving; else the storage's errno. */
int
queue_claim(struct queue *q, int64_t serial, unsigned attempt, int tier,
	    const struct claimer *by, struct now now, struct grant *grant);

/* Claim the best task for tier. -EAGAIN: none now (the caller may look afresh and retry). */
int
queue_next(struct queue *q, int tier, const struct claimer *by, struct now now,
	   struct grant *grant);

/* The same, and what queue_exhausted() says: where nothing is left as far as is known it looks at
 * everything first. */
int
queue_take(struct queue *q, int tier, const struct claimer *by, struct now now,
	   struct grant *grant);

/* The claim of that attempt, if this daemon has one, is the one that was granted with seq.
 * [memory] */
bool
queue_is_grant(struct queue *q, int64_t serial, unsigned attempt, uint64_t seq);

/* The agent has got the payload: from now on a closed descriptor means a crash. [memory] */
void
queue_delivered(struct queue *q, int64_t serial, unsigned attempt);

/* ---- keeping ---- */

/* Heartbeat. -ESTALE, -EPERM (another daemon's claim), -ENOENT (no claim); -EINPROGRESS: this
 * daemon was frozen and must queue_look() first. [memory] */
int
queue_touch(struct queue *q, int64_t serial, unsigned attempt, struct now now);
int
queue_park(struct queue *q, int64_t serial, unsigned attempt, int64_t until, struct now now);
/* What the agent says of itself, to be shown in its lease. Errors as above. [memory] */
int
queue_note(struct queue *q, int64_t serial, unsigned attempt, const char *text, struct now now);
/* The attempt goes on from a checkpoint (or from nothing, where the one before left none):
 * lost_ms of the work before it must be done again. Counted in queue_stats. [memory] */
int
queue_resumed(struct queue *q, int64_t serial, unsigned attempt, int64_t lost_ms, struct now now);

/* ---- ending ---- */

/*
 * End an attempt that this daemon granted, durably. Limits apply: a retry may come out as
 * failed. note (may be NULL) is a line of evidence for people. 0 also when it stands so
 * already; -ESTALE: the claim is lost; -EPERM: another daemon's; -ENOENT: no claim;
 * -ENOSPC and the like: nothing happened, still held; -EIO: the run is away, or the same was
 * asked for a while ago and is not answered yet, or it stands and cannot be synced.
 */
int
queue_end(struct queue *q, int64_t serial, unsigned attempt, enum outcome outcome,
	  enum reason reason, const char *note, struct now now);

/* The last descriptor of a claim is gone: retry (crash), or freed when it never got the
 * payload or this daemon is leaving. */
void
queue_closed(struct queue *q, int64_t serial, unsigned attempt, bool bound, struct now now);

/* An admin's hand on anybody's claim: freed (revoked). */
int
queue_revoke(struct queue *q, int64_t serial, unsigned attempt, struct now now);
/* Cancel a task, pending or claimed. attempt: the one that was seen, 0 = whichever it is; when
 * it is over, -ESTALE. 0 also when it is cancelled; -EPERM when it is done or failed. */
int
queue_cancel(struct queue *q, int64_t serial, unsigned attempt, struct now now);
/* Make a failed or cancelled task pending again with its counters zeroed. attempt as above. */
int
queue_reopen(struct queue *q, int64_t serial, unsigned attempt, struct now now);

/* Unlink the beat of an owner: it loses its claims. -ENOENT when there is none. */
int
queue_evict(struct queue *q, const char *owner);

/* Grant nothing any more, and free what closes. [memory] */
void
queue_leave(struct queue *q);

/* ---- payloads and submissions ---- */

/* A payload, allocated for the caller. */
int
queue_payload(struct queue *q, int64_t serial, char **body, size_t *size);

/* What was said of the last end that this daemon wrote for a task; "" when nothing. [memory] */
void
queue_evidence(struct queue *q, int64_t serial, char *text, size_t size);

/* Who submitted a task and when. [memory] */
void
queue_origin(struct queue *q, int64_t serial, char *who, size_t size, int64_t *wall);

/* Feed a submission; see ingest.h. Its receipt goes to a local file, a line per task. */
struct submission *
submission_new(struct queue *q, const char *id_field, struct err *err);
void
submission_free(struct submission *s);
/* Before anything is fed: where to learn how many seconds tasks take that do not say it; see
 * ingest_expect(). name is the id as a file name (name_encode()). */
void
submission_expect(struct submission *s, int64_t (*expected)(void *arg, const char *name), void *arg);
int
submission_feed(struct submission *s, const char *data, size_t len, struct err *err);
/*
 * Publish what is complete, all or nothing, durably. 0 (also when nothing is new); -EINVAL: bad
 * or cut text; -EEXIST: an id is taken by another payload. After a failure nothing of it exists.
 */
int
submission_commit(struct submission *s, const char *submitter, struct now now, struct err *err);
/* The text may not go on: a cut task is now an error. For the last close. */
int
submission_finish(struct submission *s, const char *submitter, struct now now, struct err *err);

struct submission_totals {
	int64_t tasks, duplicates, batches;
};
void
submission_totals(const struct submission *s, struct submission_totals *t);
/* Read the receipt; its size so far. */
int64_t
submission_receipt_size(const struct submission *s);
ssize_t
submission_receipt(const struct submission *s, char *buf, size_t size, int64_t offset);

/* ---- duties: the caller schedules them ---- */

/* Beat once. The caller does so every conf_beat_ms() from a thread that does nothing else. */
int
queue_beat(struct queue *q, struct now now);

/* A beat must come before this daemon claims again: a claim of its own was found lost, or it
 * stood still. [memory] */
bool
queue_wants_beat(struct queue *q);

/* Freshly read what others wrote to the chains of one's own claims: at every beat, and after a
 * gap of more than half of steal_after. */
int
queue_look(struct queue *q, struct now now);

/* Look at other owners and end the claims of dead ones. Returns ms until it is due again. */
int64_t
queue_watch(struct queue *q, struct now now);

/* Read what others did: new batches, and bays with unfinished tasks, `bays` of them at most
 * (0 = all: a full pass), and at most `reads` ends (0 = all). Returns how many tasks changed. */
int64_t
queue_refresh(struct queue *q, struct now now, int bays, int reads);

/* End stale claims, wake what waited long enough. */
void
queue_tick(struct queue *q, struct now now);
/* When that is due, in boot ms; the wake descriptor tells when it has come nearer. [memory] */
int64_t
queue_tick_at(struct queue *q);

/* The serving loop was not served for so long: no agent is judged by that time. [memory] */
void
queue_excuse(struct queue *q, struct now now);

/* Agents by tier that wait at this daemon now: a hint for others. [memory] */
void
queue_idle(struct queue *q, const int waiting[TIERS_MAX]);

/* ---- sealing, for a queue that was opened as OWNER_SEALER ---- */

/* What a sealer is told to use, and tells. */
struct seal_watcher {
	struct now (*now)(void *arg);
	/* Waiting goes on, for ms_left at least; why is a sentence. May be NULL. */
	void (*waits)(void *arg, int64_t ms_left, const char *why);
	/* Once it is true, everything ends with -EINTR as soon as may be. May be NULL. */
	bool (*stopped)(void *arg);
	void *arg;
};

/*
 * Wait until nobody else has been in nodes/ for steal_after; claims of dead owners are ended
 * meanwhile as every daemon does. 0; -EBUSY when an owner lives: err names it; -EOWNERDEAD when
 * our own beat was removed; or an errno.
 */
int
queue_seal_wait(struct queue *q, const struct seal_watcher *w, struct err *err);

enum seal_result {
	SEAL_NONE,	 /* no link was ever made there */
	SEAL_UNFINISHED, /* a task of it is not over: nothing was done */
	SEAL_SEALED,	 /* links were packed and removed */
	SEAL_CLEAN,	 /* it is sealed, and was before */
};
struct seal_bay {
	const char *random; /* of its batch; bay: its number there */
	int bay;
	int64_t first, tasks; /* serial of its first task, and how many there are */
	enum seal_result result;
	int64_t links; /* removed */
};

/* Which bay has number i, from 0 up, over all batches. 0, or -ERANGE behind the last one. [memory] */
int
queue_seal_bay(struct queue *q, int64_t i, struct seal_bay *out);

/* A link that a seal tells of. bay: its directory. A non-zero return ends the reading. */
typedef int
sealed_link_fn(void *arg, const char *bay, const char *name, unsigned attempt, enum link_kind kind,
	       const char *text);

/* All links of the bay with number i that a whole seal tells of; none when there is no seal. 0,
 * what fn returned, -ERANGE behind the last bay, or an errno. [storage] */
int
queue_sealed_links(struct queue *q, int64_t i, sealed_link_fn *fn, void *arg);

/*
 * Seal the bay with number i, after queue_seal_wait(). 0, -ERANGE, -EOWNERDEAD when our beat is
 * gone, -EINTR, or what the storage said, and err the file; then nothing of what links and seals
 * say was lost, and the same may be called again.
 */
int
queue_seal(struct queue *q, int64_t i, const struct seal_watcher *w, struct seal_bay *out,
	   struct err *err);

/* Beat, if it is time to. 0; -EOWNERDEAD: somebody else may go on now; or -EINTR. */
int
queue_seal_beat(struct queue *q, const struct seal_watcher *w);

/* ---- telling [memory] ---- */

struct queue_stats {
	int64_t count[TASK_STATES];
	int64_t elevated; /* tasks that have moved up a tier */
	int64_t claims, lost_races;
	int64_t resumed;	  /* attempts that went on with the work of one before them */
	int64_t redo_ms, redo_max_ms; /* work that they had to do again: in all, and at most */
	int64_t ends[128];   /* by outcome letter */
	int64_t why[128];    /* by reason letter, retries, losses and frees */
	int64_t busy_ms[TIERS_MAX]; /* time that agents held claims of this daemon, per tier */
	int64_t held[TIERS_MAX];
	int64_t waiting[TIERS_MAX];
	int batches;
	bool paused; /* attempts died at once here: no claiming for a while */
	int64_t until;	  /* the end of this node's time, by the wall clock of now; 0 = none */
	int64_t too_long; /* pending tasks that are not offered for that */
	struct disk_state storage;
	uint64_t calls[DISK_CALLS];
};
void
queue_stats(struct queue *q, struct queue_stats *s);

/* Whether the storage answers, refuses, or is gone, since when and why. */
void
queue_storage(struct queue *q, struct disk_state *state);

/* Events after number `after`, oldest first, one line each. Returns the number of the last. */
uint64_t
queue_events(struct queue *q, uint64_t after, FILE *out);

struct node_line {
	uint32_t id;
	char owner[OWNER_TEXT];
	int64_t beat; /* wall seconds */
	bool alive;
	struct node_info info;
};
/* Living daemons. Returns how many were filled in. */
size_t
queue_nodes(struct queue *q, struct node_line *lines, size_t max);

#endif
