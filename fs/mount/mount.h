/*
 * mount.h - what the files of raserfs share. Nobody else includes it.
 *
 * Threads: the loop (main.c) reads requests and answers look-ups, attributes and listings from
 * memory; it never waits for the run directory. Workers (work.c) do what may wait and answer
 * their request themselves. One more thread beats. Every request is answered exactly once.
 *
 * mount.lock guards handles, parked opens and new/; it is never held over a call on the run
 * directory, over a queue_*() call, or while registering an interrupt function.
 */
#ifndef RASER_MOUNT_H
#define RASER_MOUNT_H

#define FUSE_USE_VERSION 34

#include <fuse_lowlevel.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "clock.h"
#include "queue.h"
#include "supervise.h"
#include "verb.h"

/* ---- tree.c: names and node ids ---- */

/*
 * A node id is (view, attempt, serial), so there is no table of nodes: forgetting is free and an
 * id stays right over a restart. Ids below FIXED_END are the fixed nodes.
 */
enum view {
	VIEW_FIXED, VIEW_LEASES, VIEW_PENDING, VIEW_DONE, VIEW_FAILED, VIEW_CANCELLED, VIEW_TASKS,
	VIEW_NEW, VIEW_NODES,
	VIEW_QUEUE = 16 /* + tier */
};

enum fixed {
	FIXED_ROOT = 1,
	FIXED_QUEUE, FIXED_LEASES, FIXED_PENDING, FIXED_DONE, FIXED_FAILED, FIXED_CANCELLED,
	FIXED_TASKS, FIXED_NEW, FIXED_NODES,
	FIXED_CHECKPOINTS, FIXED_RESULTS, FIXED_LOGS,
	FIXED_STATUS, FIXED_STATUS_JSON, FIXED_METRICS, FIXED_REPORT, FIXED_EVENTS, FIXED_README,
	FIXED_NAMED_END,
	FIXED_TIER = 64,  /* + tier: queue/<tier> */
	FIXED_NEXT = 128, /* + tier */
	FIXED_READY = 192,
	FIXED_END = 4096
};

struct node_id {
	enum view view;
	unsigned attempt;
	int64_t serial; /* or the fixed node, or the number of a file in new/ or nodes/ */
};

struct mount;

uint64_t
node_pack(struct node_id id);
struct node_id
node_unpack(uint64_t ino);

/* The view of tasks that a directory shows; VIEW_FIXED when it shows none. */
enum view
dir_view(uint64_t ino);
/* What queue_list() must be asked for. */
int
view_listing(enum view v);

/* The id of a name in a directory and its attributes. 0 or a positive errno. [memory] */
int
tree_lookup(struct mount *m, uint64_t parent, const char *name, struct fuse_entry_param *e);
/* Attributes of a node. 0 or a positive errno. [memory] */
int
tree_attr(struct mount *m, uint64_t ino, struct stat *st);
double
attr_timeout(uint64_t ino);
/* Fill a reply of readdir; plus: with attributes. Returns its length. [memory] */
size_t
tree_list(struct mount *m, fuse_req_t req, uint64_t dir, char *buf, size_t size, off_t off,
	  bool plus);
void
task_attr(struct mount *m, struct node_id id, const struct task *t, struct stat *st);
/* The path of a symbolic link node. */
int
tree_readlink(struct mount *m, uint64_t ino, char *buf, size_t size);
/* The tier of queue/<tier>/..., or -1. */
int
fixed_tier(uint64_t ino, enum fixed base);

/* ---- handle.c: open files ---- */

enum handle_kind {
	HANDLE_NONE,
	HANDLE_PEEK,  /* a payload, for reading */
	HANDLE_CLAIM, /* a claim, through queue/<tier>/T@k or next */
	HANDLE_LEASE, /* leases/T@k, or a write-only descriptor of a claimed task */
	HANDLE_TEXT,  /* a text made when it is read from its beginning */
	HANDLE_NEW,   /* a file in new/ */
};

struct handle {
	enum handle_kind kind;
	bool rdwr, from_next;
	bool append; /* HANDLE_NEW: offsets are the kernel's guess of where a receipt ends */
	uint64_t ino;
	int64_t serial;
	unsigned attempt;
	uint64_t seq; /* HANDLE_CLAIM: of the claim itself */
	char *text; /* payload or snapshot, allocated */
	size_t size;
	uint64_t generation; /* as last read, for poll */
	struct fuse_pollhandle *poll;
	uint32_t life; /* how often the slot was used */
	int64_t new_id;
	uint32_t next_free;
};

/* The number of a new handle for fi->fh, a copy of which is *h; 0 when memory is out. */
uint64_t
handle_open(struct mount *m, const struct handle *h);
/* Copy a handle out; false when there is none of that number. The text stays the handle's. */
bool
handle_get(struct mount *m, uint64_t fh, struct handle *h);
/* Take it out of the table; its text is the caller's now. */
bool
handle_close(struct mount *m, uint64_t fh, struct handle *h);
/* Give a handle its text (taken over). Only the loop, which is the one that reads it, may
 * replace a text or take it away (NULL). */
void
handle_text(struct mount *m, uint64_t fh, char *text, size_t size, bool replace);
/* The handle has read the news of that generation. */
void
handle_read(struct mount *m, uint64_t fh, uint64_t generation);
/* True when there is news that the handle has not read; else the poll is kept for later. */
bool
handle_poll(struct mount *m, uint64_t fh, struct fuse_pollhandle *poll, uint64_t generation);
void
handles_free(struct mount *m);
/* Wake the pollers whose answer has changed; counts pollers by tier. */
void
handles_poll(struct mount *m, int pollers[TIERS_MAX]);

/* ---- work.c: calls that may wait ---- */

struct job;
typedef void
job_fn(struct mount *m, struct job *job);

/* What a worker needs; the fields a job does not use stay 0. */
struct job {
	job_fn *fn;
	fuse_req_t req; /* NULL: nobody waits */
	struct fuse_file_info fi;
	uint64_t ino;
	int64_t serial;
	unsigned attempt;
	uint64_t seq; /* of the claim that is meant, 0 = whichever it is */
	int tier;
	struct claimer by;
	struct verb verb;
	char *data; /* allocated, the job's */
	size_t size;
	off_t off;
	int64_t number; /* of a file in new/ */
	bool bound; /* closing: the claim was bound to it, or it was the last writer of new/ */
	int64_t since;	  /* boot ms of the request */
	int64_t deadline; /* boot ms at which EIO is answered; 0 = none */
	bool answered;	  /* under work.lock */
	struct job *next, *prev;
};

/* Hand a copy of the job to a worker. When memory is out its request is answered ENOMEM. */
void
work_add(struct mount *m, const struct job *job);
/* True once: the caller must answer the request. False when the deadline answered it. */
bool
job_claim_reply(struct mount *m, struct job *job);
void
job_reply_err(struct mount *m, struct job *job, int rc);
/* Answer EIO to what is over its deadline; ms until the next one, or -1. */
int64_t
work_deadlines(struct mount *m, int64_t now_ms);
int
work_start(struct mount *m);
/* Stop the workers; true when all of them have ended within ms. */
bool
work_stop(struct mount *m, int ms);
bool
work_is_idle(struct mount *m);

/* ---- park.c: opens that wait ---- */

void
park_init(struct mount *m);
void
park_free(struct mount *m);
/* Take over an open of next; it is answered later. */
void
park_add(struct mount *m, const struct job *job);
/* Start workers for tiers that have both waiters and tasks. */
void
park_kick(struct mount *m);
/* Answer every waiter of a tier (-1: all) with a positive errno. */
void
park_fail(struct mount *m, int tier, int code);
/* Answer EAGAIN to who waited too long for the kernel's patience, ENODATA where drained;
 * ms until the next deadline, or -1. */
int64_t
park_check(struct mount *m, int64_t now_ms);
int
park_count(struct mount *m, int counts[TIERS_MAX]);

/* Opendirs that wait a moment for a refresh. */
void
opendir_wait(struct mount *m, fuse_req_t req, const struct fuse_file_info *fi);
/* Answer those that have waited long enough (all: every one); ms until the next, or -1. */
int64_t
opendir_answer(struct mount *m, int64_t now_ms, bool all);

/* ---- claims.c: what a worker does for a request ---- */

void
job_next(struct mount *m, struct job *job);
void
job_open_claim(struct mount *m, struct job *job);
void
job_read_payload(struct mount *m, struct job *job);
void
job_closed(struct mount *m, struct job *job);
void
job_end(struct mount *m, struct job *job);
void
job_touch(struct mount *m, struct job *job);
/* A verb that ends nothing. */
void
job_say(struct mount *m, struct job *job);
void
job_revoke(struct mount *m, struct job *job);
void
job_cancel(struct mount *m, struct job *job);
void
job_reopen(struct mount *m, struct job *job);
enum delivery {
	DELIVERED,
	NOBODY_THERE, /* the opener is gone, or was told an error of our own */
	UNREADABLE,   /* the payload cannot be read; the opener was told so */
};
/* Answer an open with a claim that was just won. */
enum delivery
reply_claim(struct mount *m, fuse_req_t req, struct fuse_file_info *fi, const struct grant *g,
	    bool from_next);
/* Give back a claim that could not be delivered. */
void
undo_claim(struct mount *m, const struct grant *g, enum delivery d);

/* ---- new.c: submissions ---- */

struct new_file;
void
new_free(struct mount *m);
int
new_lookup(struct mount *m, const char *name, int64_t *number);
bool
new_attr(struct mount *m, int64_t number, struct stat *st);
/* The next file behind a number; false at the end. */
bool
new_next(struct mount *m, int64_t after, int64_t *number, char name[256]);
void
new_create(struct mount *m, fuse_req_t req, const char *name, struct fuse_file_info *fi);
void
new_open(struct mount *m, fuse_req_t req, int64_t number, struct fuse_file_info *fi);
/* A descriptor is closed; true when it was the last one that could write. */
bool
new_closed(struct mount *m, int64_t number, bool wrote);
/* 0 or a positive errno. */
int
new_unlink(struct mount *m, const char *name);
void
new_expire(struct mount *m, int64_t now_ms);
void
job_new_write(struct mount *m, struct job *job);
void
job_new_flush(struct mount *m, struct job *job);
void
job_new_release(struct mount *m, struct job *job);
void
job_new_rename(struct mount *m, struct job *job);
ssize_t
new_read(struct mount *m, int64_t number, char *buf, size_t size, off_t off);

/* ---- texts.c: files made of words ---- */

/* The text of a fixed file, of leases/T@k or of nodes/<owner>; allocated, NULL when memory is
 * out. *size is its length. */
char *
text_make(struct mount *m, uint64_t ino, size_t *size);
/* An extended attribute of a task: its length, or -1 when there is none of that name. */
int
task_xattr(struct mount *m, int64_t serial, const char *name, char *buf, size_t size);
extern const char *const xattr_names[];
enum { XATTRS = 13 };

/* ---- ops.c and move.c ---- */

enum { END_PATIENCE_MS = 5000 }; /* then an end is answered EIO, and done/ tells later */

static inline struct mount *
mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline bool
is_task_view(enum view v)
{
	return v != VIEW_FIXED && v != VIEW_NEW && v != VIEW_NODES;
}

void
op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	  const char *newname, unsigned flags);
void
op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
extern const struct fuse_lowlevel_ops mount_ops;

/* ---- main.c ---- */

struct mount {
	struct queue *q;
	const struct conf *conf;
	struct fuse_session *se;
	uid_t uid;
	gid_t gid;
	struct now started;
	bool claim_on_open;
	int64_t grace_ms;
	int64_t patience_ms; /* half of the kernel's request timeout; 0 = none */
	struct supervised supervised; /* the loop's */
	const char *mountpoint; /* NULL: on a descriptor, by somebody else */
	unsigned minor;		/* of its device, the number of the connection; 0 = not known */
	atomic_bool leaving;
	struct duties *duties;
	int duty_fd;	       /* eventfd: a duty has ended */
	atomic_bool attention; /* something was added that the loop must reckon with */

	pthread_mutex_t lock;
	struct handle *handles;
	uint32_t nhandles, free_handle;
	struct park *park;
	struct new_file *news;
	int64_t last_new;
	struct work *work;
};

/* Somebody missed something: look afresh soon, at most once a second. */
void
mount_want_refresh(struct mount *m);

/* Fill in the name of the process that claims. Reads /proc, so workers do it. */
void
claimer_name(struct claimer *by);

#endif
