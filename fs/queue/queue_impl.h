/*
 * queue_impl.h - what the files of the queue share. Nobody else includes it.
 *
 * One lock guards everything in struct queue that is not said to be guarded otherwise. It is
 * never held over a call on the run directory. Where a file needs more than one lock, the order
 * is refresh, watch, lock, sync.
 */
#ifndef RASER_QUEUE_IMPL_H
#define RASER_QUEUE_IMPL_H

#include <limits.h>
#include <pthread.h>

#include "history.h"
#include "queue.h"

enum { EVENTS = 1024, EVENT_TEXT = 200, OPEN_BATCHES = 16 };

struct bay {
	bool exists;	    /* its directory has been seen */
	bool parent_synced; /* chain/ was synced since then: the directory itself is durable */
	bool looked;	    /* at its digest, or listed */
	bool digest;	    /* there is one, or this daemon has tried to write it */
	bool digest_due;    /* all of it is known, and nobody has said so yet */
	int tasks;	    /* in the index */
	int done, over;	    /* known to be done; to be done, failed or cancelled */
	int unread;	    /* ends that are known of, but not read */
	bool unsure;	    /* may have been sealed since it was listed: see seal_overrules() */
	uint64_t endless;   /* of claims that are over without an end: those that are not ours to end */
	uint64_t cancelled; /* of tasks that are known to be cancelled: those whose ends were read */
	unsigned seal;	    /* the number of the seal that was read; 0 = none */
	struct sealed *sealed; /* what it says, by line; NULL until it is read */
	/* group commit, guarded by queue.sync_lock */
	int syncing; /* syncs under way */
	bool owed;   /* something stands that could not be synced, and its caller was told so */
	uint64_t sync_started, sync_finished;
};

struct batch_entry {
	struct batch batch;
	struct bay *bays;
	int nbays;
	int64_t loaded; /* lines in the index */
	bool complete;	/* all of them */
};

enum phase {
	PHASE_CLAIMING, /* our create is in flight */
	PHASE_HELD,	/* ours */
	PHASE_ENDING,	/* our end is in flight */
	PHASE_OVER,	/* ended here, or lost; kept for repeats */
	PHASE_FOREIGN,	/* another daemon's */
};

struct lease {
	int64_t serial; /* with attempt the key of the tree */
	unsigned attempt;
	enum phase phase;
	char owner[OWNER_TEXT];
	char text[LINK_TEXT]; /* of the claim */
	struct counts before;
	int tier;
	struct claimer by;
	bool delivered;
	int64_t since_wall, touched_wall;
	int64_t since_boot, touched_boot; /* foreign: first seen */
	bool was_ours; /* foreign: made by another after ours was lost */
	int64_t looked_boot; /* our chain was last read afresh */
	int64_t ending_boot; /* PHASE_ENDING: since when */
	uint64_t seq;	     /* of our claim */
	int64_t parked_until;
	char note[LEASE_NOTE]; /* what its agent said of itself last */
	/* PHASE_OVER */
	enum outcome outcome; /* how it ended; 0 = lost to others */
	int64_t expires_boot;
	/* an end that must still be written: its descriptor closed, or it went stale */
	enum outcome want;
	enum reason want_reason;
};

/* A pending task that this daemon does not choose yet. */
struct wait {
	int64_t serial;
	int64_t due_boot;
	int times;
	bool due_pending; /* false: done waiting, kept only for `times` */
};

/* Candidates of a tier in its order, fetched many at a time. */
struct picks {
	int64_t *serials;
	int n, at;
	int window; /* how far down the order this daemon spreads; grows with lost races */
	bool timed; /* how long the best one takes is known */
	uint64_t epoch;
};

struct event {
	uint64_t number;
	char text[EVENT_TEXT];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t settled; /* an end in flight was answered */
	struct disk disk;
	struct conf conf;
	char path[PATH_MAX];
	char tmp[PATH_MAX];
	char uuid[UUID_TEXT];
	struct index *index;
	struct batch_entry **batches;
	struct batch_entry *open_batches[OPEN_BATCHES]; /* read from last, in that order */
	int nbatches;
	int last_batch; /* highest number that is loaded or given up */
	int missing;	/* batches that are there, but cannot be read now */
	int64_t serials;
	void *leases; /* tsearch(3) tree of struct lease */
	int64_t held;
	int64_t held_by_tier[TIERS_MAX];

	bool joined, leaving;
	enum owner_kind kind;
	struct node node; /* the beat's thread; others read its owner, under lock */
	struct node_line self; /* what the last beat said */
	uint64_t seq;
	int64_t last_beat;   /* boot ms of the last good beat */
	int64_t born;	     /* boot ms: its beat was there; 0 = since it was opened */
	bool sealer_may_live; /* nobody has looked for one since then */
	bool must_beat;	     /* no claims before the next good beat */
	bool beat_failing;   /* the last one did */
	bool beat_troubled;  /* since the last watch round */

	pthread_mutex_t watch_lock; /* guards watch */
	struct watch watch;
	pthread_mutex_t refresh_lock; /* one refresh at a time */
	int refresh_batch, refresh_bay; /* where the next few bays begin */
	int64_t refresh_done; /* and the next one of those that are all done */
	int digests_due;      /* bays that a digest should be written for */
	int64_t full_pass;  /* boot ms at which the last complete pass began */
	struct now now;	    /* as the last caller gave it, for events */

	struct wait *waits;
	size_t nwaits, cap_waits;
	int dead_at_once;   /* attempts in a row that died at once here */
	int64_t pause_began, pause_until;
	int64_t pause_ms; /* the last pause, of a node with one daemon; 0 = it claims */
	int paused_beside; /* other daemons on this node that paused when it was looked */
	bool look_around;  /* no claims before the others on this node were looked at */
	bool breaker_news; /* what they should know at once */
	int64_t look_at;   /* while it pauses: when to look at them again */
	int64_t tick_at; /* boot ms at which queue_tick() is due */
	bool probing; /* the one claim after a pause is out: */
	int64_t probe_serial;
	unsigned probe_attempt;

	struct picks picks[TIERS_MAX];
	uint64_t pending_epoch; /* counts tasks that became ready: they may come first */

	int waiting[TIERS_MAX];
	struct node_line *nodes; /* as the last watch round left them */
	size_t nnodes;
	int living; /* other living daemons, and agents they told of */
	int living_agents;
	char peers[TIERS_MAX]; /* 1: another node has agents of the tier */

	pthread_mutex_t sync_lock;
	pthread_cond_t synced;

	int wake_fd;
	uint64_t generation[TIERS_MAX];
	int64_t last_ready[TIERS_MAX];
	int last_exhausted[TIERS_MAX];
	int64_t until;	    /* the end of this node's time in wall seconds; 0 = none */
	int64_t until_boot; /* the same in boot ms */
	int64_t span;	    /* seconds of it in all */
	int64_t longest;    /* seconds that a task may take to be offered; -1 = none is */
	int64_t shrinks_at; /* boot ms at which it may be that fewer tasks are */
	struct event *events;
	uint64_t event_count;
	struct queue_stats stats;
};

/* ---- lease.c [under lock] ---- */

struct lease *
lease_find(struct queue *q, int64_t serial, unsigned attempt);
/* A new lease in a phase; NULL when memory is out. */
struct lease *
lease_add(struct queue *q, int64_t serial, unsigned attempt, enum phase phase);
void
lease_drop(struct queue *q, struct lease *l);
/* Count it among the claims of this daemon, or no longer. */
void
lease_hold(struct queue *q, struct lease *l);
/* An end of ours is on its way from now on. */
void
lease_ending(struct lease *l, struct now now);
/* Ours no more: ended so, or lost (0); kept for repeats until steal_after has passed. */
void
lease_over(struct queue *q, struct lease *l, enum outcome outcome);
typedef void
lease_fn(struct queue *q, struct lease *l, void *arg);
/* Visit every lease; fn may drop the one it is given. */
void
lease_each(struct queue *q, lease_fn *fn, void *arg);

/* ---- make.c ---- */

/* Read and parse raser.ini of the run that path is the name of. */
int
conf_read(struct disk *disk, const char *path, struct conf *conf, struct err *err);

/* ---- queue.c [under lock] ---- */

/* Where a task lies. */
struct place {
	struct batch_entry *entry;
	int bay;
	int64_t line;
};
bool
place_of(struct queue *q, int64_t serial, struct place *p);
void
place_bay(const struct place *p, char out[DISK_PATH]);
/* Done, failed or cancelled. */
static inline bool
is_over(enum task_state state)
{
	return state == TASK_DONE || state == TASK_FAILED || state == TASK_CANCELLED;
}
static inline enum outcome
outcome_of(enum task_state over)
{
	return over == TASK_DONE ? END_DONE : over == TASK_FAILED ? END_FAILED : END_CANCELLED;
}
/* Store a task's new state, and keep bays, counters and waiters right. */
void
task_store(struct queue *q, const struct task *t);
/* Close the files of batches; they are opened again when they are needed. Not under lock. */
void
batches_close(struct queue *q);
/* Tell waiters when what they could be told has changed. */
void
queue_notify(struct queue *q);
/* queue_tick() must not come later than this. */
void
tick_by(struct queue *q, int64_t boot_ms);
void
queue_event(struct queue *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An answer to an agent, for the history. what: what it asked for. */
void
told(struct queue *q, int64_t serial, unsigned attempt, const char *what, int rc, struct now now);
/* What a person asked for and was told, for the history. Takes the lock. Returns rc. */
int
hand_told(struct queue *q, const char *what, int64_t serial, unsigned attempt, int rc);
/* How many tasks tier could be given here now. */
int64_t
ready_count(struct queue *q, int tier);

/* ---- breaker.c [under lock] ---- */

/* An attempt of ours has ended (or still lives) that began at `since`; died: by its own doing. */
void
breaker_note(struct queue *q, bool ended, bool died, struct now now, int64_t since);
/* See what happens to the others on this node, and pause or go on by that. Not under lock. */
void
breaker_look(struct queue *q, struct now now);
/* A pending task whose last attempt died on a node: if that is this one, let another take it first,
 * for steal_after after its end. owner: who ended it. */
void
breaker_elsewhere(struct queue *q, struct task *t, const char *owner, struct now now);

/* ---- deadline.c [under lock] ---- */

/* The end and the begin of this node's time in wall seconds, see queue_options; at now, when the queue
 * was opened. Once most tasks are there: the index learns it sooner then. */
void
deadline_open(struct queue *q, int64_t until, int64_t since, struct now now);
/* Leave out what takes too long by now. */
void
deadline_pass(struct queue *q, struct now now);
/* A task came or changed: it may be the next that must be left out. */
void
deadline_mind(struct queue *q, const struct task *t);
/* Why tier could never be given anything, as far as is known: 0, -ENODATA, -ETIME. */
int
exhausted(struct queue *q, int tier);

/* ---- claim.c ---- */

/* The text that a claim of ours gets. [under lock] */
void
own_claim(struct queue *q, struct now now, struct claim *c);
/* Create T@k.claim; the first of a bay makes its directory. As chain_cas(). Not under lock. */
int
claim_cas(struct queue *q, const char *bay, const char *name, unsigned attempt, const char *text,
	  char found[LINK_TEXT]);

/* ---- settle.c ---- */

/* Write the end of a lease that is PHASE_ENDING and settle it. Not under lock. */
int
settle(struct queue *q, int64_t serial, unsigned attempt, enum outcome outcome,
       enum reason reason, const char *note, struct now now);
/* End somebody's claim: of a dead owner, a stray of our own, or by an admin's hand. judged: the
 * owner on whom the verdict is, and nobody else's claim is ended; NULL: whose it may be. 1: ended
 * by us, 0: another end stands (and is applied), or it is another's, or an errno (it may stand, and
 * not be synced). Not under lock. */
int
end_foreign(struct queue *q, int64_t serial, unsigned attempt, const char *judged,
	    enum outcome outcome, enum reason reason, struct now now);
/* An end that we know stands no longer, and the claim is ours: write it again, or everybody else
 * would wait for us. True: the claim is not ours, or needs no end. Not under lock. */
bool
restore_end(struct queue *q, int64_t serial, unsigned attempt, struct now now);
/* Make the names in a bay durable; concurrent callers share a sync. Not under lock. */
int
bay_sync(struct queue *q, const struct place *p);
/* What stands already is success only when it is durable: a sync that failed is made up for. Else
 * the answer is `settled`. Not under lock. */
int
sync_owed(struct queue *q, int64_t serial, int settled);
/* Wait until no create or end of ours is in flight for it. [under lock] */
struct lease *
quiet_lease(struct queue *q, int64_t serial, unsigned attempt);
/* What the storage says is told; but a name that is missing there says nothing of an attempt. */
int
of_storage(int rc);
/* What an end of that owner says, but for its outcome and counts. [under lock] */
struct end
own_end(struct queue *q, const char *owner, enum reason reason, struct now now);
/* What an end says that stands where ours would: whoever wrote it was faster. */
void
found_end(const char *text, unsigned attempt, const struct counts *before, struct fold *f);

/* ---- discover.c ---- */

/* How far a task is known: the claim and the end of attempt k as 2k and 2k + 1. */
uint64_t
task_progress(const struct task *t);
/* Take over what a fold says, unless more is known already. [under lock] */
bool
apply_fold(struct queue *q, int64_t serial, unsigned link, bool is_end, const struct fold *f);
/* The tasks of a bay in their order, and the highest links seen of each. */
struct row {
	struct task task;
	unsigned claim, end; /* highest attempt with such a link */
	bool sealed;	     /* end is what a seal says */
	bool endless;	     /* over, by what is known; but its highest link is a claim */
	bool cancelled;	     /* by what is known; and its highest link is an end */
};
struct bay_rows {
	struct row *rows;
	int n;
	bool whole; /* all tasks of the bay: its batch was loaded by then */
};
/* Take over of many tasks that they were over (folds[i] for rows[i]; attempt 0: nothing is said), as
 * apply_fold() does. How many changed. Not under lock. */
int64_t
apply_over(struct queue *q, const struct bay_rows *rows, const struct fold *folds);
/* Pending tasks that a claim of ours lost to: apply the text that stands there. [under lock] */
void
apply_found(struct queue *q, int64_t serial, unsigned attempt, const char *text);
/* An end stands where a claim that is its own end had said cancelled, and says f: it counts, and not
 * the claim. False: not now. [under lock] */
bool
apply_after_cancelled(struct queue *q, int64_t serial, unsigned attempt, const struct fold *f);
/* Forget a claim of another daemon that is over. [under lock] */
void
drop_foreign(struct queue *q, int64_t serial, unsigned attempt);
/* Open and load batches that are new, strictly in their order: which of two tasks of one id
 * counts is decided by it. Returns how many; q->missing tells what stands in the way. */
int
load_batches(struct queue *q, struct now now, struct err *err);

/* ---- duty.c ---- */

/*
 * The run is where its path leads: 0, or -EIO. Whoever would conclude from absence asks first: what
 * is unmounted, moved or deleted as a whole tells nothing of a task. Not under lock.
 */
int
run_check(struct queue *q);
/* ---- bay.c, not under lock ---- */

/* 0, and rows that the caller frees; or -ENOMEM. */
int
bay_rows(struct queue *q, const struct place *p, struct bay_rows *rows);
/* Read a bay, by its digest at first and by listing it, and take over what is there. Returns how
 * many tasks changed, or an errno. */
int64_t
bay_merge(struct queue *q, struct batch_entry *entry, int bay, struct now now);
/* chain_fold(), with what a seal says of the task. */
int
fold_task(struct queue *q, const char *bay, const struct task *t, unsigned link, bool is_end,
	  struct fold *f);

/* ---- digest.c, not under lock ---- */

struct pack;

/* What is known of a bay as a digest; -EAGAIN when not all of its tasks are over. pack_free() it. */
int
digest_text(struct queue *q, const struct place *p, struct pack *pack);
/* Write the digests that are due. */
void
digests_write(struct queue *q);
/* What a digest says: folds[i] for rows[i], in the order of tasks; folds has room for a bay. 0;
 * -ENOENT; -EBADMSG: torn, or of another bay; -EILSEQ: whole, but of other tasks; or an errno. The
 * caller frees the rows in any case. */
int
digest_load(struct queue *q, const struct place *p, struct bay_rows *rows, struct fold *folds);
/* Take over what a digest says. How many tasks changed; -ENOENT, -EBADMSG or another errno: there
 * is none that could be read, and the bay must be listed. */
int64_t
digest_read(struct queue *q, const struct place *p);

/* ---- seal.c; more in seal.h ---- */

void
rows_sort(struct bay_rows *rows);
/* What a seal says of a task, as far as seals have been read; false when nothing. [under lock] */
bool
sealed_find(struct queue *q, int64_t serial, struct sealed *s);
/*
 * A create that we have won may be of a name that was removed: true when a seal says that the
 * attempt is over, and then nothing was won. Looks only when somebody may have sealed since the bay
 * was listed: our last good beat is long ago, or it was made by another life of ours. Not under lock.
 */
bool
seal_overrules(struct queue *q, const struct place *p, int64_t serial, unsigned attempt);
/* This daemon was dead for a while: whatever it knows may have been sealed since. [under lock] */
void
seal_suspect(struct queue *q);
/* A listing of nodes/ that began then, in boot ms, showed no sealer. [under lock] */
void
seal_nobody(struct queue *q, int64_t began);
/* A listing of a bay begins. What it returns is for seal_looked(), when it has ended well. */
int64_t
seal_looking(struct queue *q);
void
seal_looked(struct queue *q, struct bay *b, int64_t looking);
/* But an end that was read into the seal just as we wrote it stands: whoever froze between its
 * create and the answer is not told that it lost. Not under lock. */
bool
seal_has_end(struct queue *q, const struct place *p, const char *name, unsigned attempt,
	     const char *text);

/* ---- sealer.c ---- */

/* Wait while somebody seals the run. 0 or an errno. Our beat must be there already. */
int
sealer_wait(struct queue *q, struct err *err);

/* ---- duty.c [under lock] ---- */

/* Publish what the own beat says. */
void
beat_said(struct queue *q);
/* Do not choose this task here for ms. */
void
wait_add(struct queue *q, struct task *t, int64_t ms, bool growing, struct now now);

#endif
