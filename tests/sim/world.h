/*
 * world.h - one run: what the seed drew, the machines, the daemons on them, and
 * what they were told. Shared by the files of the simulator; none of it is
 * known to the queue.
 */
#ifndef RASER_SIM_WORLD_H
#define RASER_SIM_WORLD_H

#include "fs.h"
#include "queue.h"
#include "sched.h"

enum { HOSTS_MAX = 512, PROCS_MAX = 4096, TASKS_MAX = 1024 };

/* How the file system behaves all the time; README tells what each one stands
 * for. */
struct manners {
	int64_t latency; /* of half a round trip, mean */
	double slow;	 /* share of calls that take up to */
	int64_t slow_max;
	double again; /* delivered once more, up to */
	int64_t again_max;
	double eexist;	   /* success that is answered as if it had been there before */
	double lost_reply; /* done, but answered by an error */
	double lost_call;  /* not done, an error */
	double late_call;  /* an error, and done later */
	double read_error;
	int64_t cache;	  /* clients keep names and texts for so long; 0 = coherent */
	int64_t list_lag; /* names that are so young may be missing from a listing */
	double list_twice;
	int64_t stat_lag; /* a change of times that is so young may not show */
	bool times_never_fall;
	bool times_of_client; /* creates and writes carry the client's clock, not the
				 server's */
	double undone;	      /* share of unsynced names that a crash of the server undoes */
};

/* What befalls the world; weights of a lottery, 0 = never. */
enum fate {
	FATE_KILL,
	FATE_FREEZE,
	FATE_FREEZE_LONG,
	FATE_SUSPEND,
	FATE_WEDGE,
	FATE_STALL,
	FATE_CUT,
	FATE_CUT_ERRORS,
	FATE_FULL,
	FATE_READONLY,
	FATE_TOUCHLESS,
	FATE_ERRORS,
	FATE_CRASH,
	FATE_RM_NODE,
	FATE_RM_NODES,
	FATE_CLOCK,
	FATE_RM_LINK,
	FATE_TAMPER,
	FATE_START,
	FATE_LEAVE,
	FATES
};

struct cached;

/* A machine: clocks, a client of the file system, and what that remembers. */
struct host {
	int id;
	char name[16];
	char boot_id[40];
	int64_t boot_offset;  /* microseconds */
	int64_t wall_offset;  /* seconds */
	int64_t cut_until;    /* calls hang */
	int64_t errors_until; /* calls fail */
	struct cached *cached;
	size_t ncached, capcached;
	struct seen {
		uint64_t ino, version;
	} * seen;
	size_t nseen, capseen;
};

enum duty { DUTY_TICK, DUTY_LOOK, DUTY_WATCH, DUTY_REFRESH, DUTIES };

/* A daemon: one process, maybe several owners in turn. */
struct proc {
	int id;
	int source; /* of its history */
	struct host *host;
	long pid;
	struct gate gate;
	struct queue *q; /* NULL until it is open */
	struct disk disk;
	int ncoro;
	bool dead; /* killed: its coroutines run out without touching anything */
	bool sealer; /* no daemon, but `raser seal` */
	bool doomed; /* something befalls it */
	bool sealed; /* it came to its end */
	unsigned strike_in; /* so many calls from now; 0 = not yet known, or never */
	bool leaving;
	bool closed;		      /* q is gone */
	int64_t frozen_at, wedged_at; /* -1 = not */
	bool seen_frozen;	      /* the loop has not turned since */
	int64_t last_turn;	      /* boot ms, when the loop last turned before it stood still */
	struct coro *loop, *beat, *duties[DUTIES];
	int64_t due[DUTIES]; /* sim time */
	bool woken, beat_now, idle;
	int64_t beat_asked, idle_ms;
	int64_t born, died;
	struct coro **idlers; /* agents that wait */
	int nagents, nidle;
	int idle_by_tier[TIERS_MAX];
	uint64_t dead_calls;
};

/* Worlds of one kind only, for rules whose absence shows too seldom in others. Every seed draws as
 * ever, and then is bent. */
enum bent {
	BENT_NOT,
	BENT_FREEZES,	/* daemons stand still, and at the worst moment */
	BENT_FORGETS,	/* the server forgets claims */
	BENT_REMEMBERS, /* the same, and clients do not; and people cancel and reopen */
};

struct world {
	uint64_t seed;
	struct rng rng;	   /* of the world */
	struct rng fs_rng; /* of the file system */
	struct rng q_rng;  /* what the queue draws */
	struct rng seal_rng; /* of those who seal */
	struct manners manners;
	double fates[FATES];
	int64_t fate_every; /* mean time between two */
	bool coherent;	    /* clients see the truth at once */
	bool chain_touched; /* somebody deletes or makes links by hand: promises are
			       weaker */
	int64_t horizon;    /* faults and people stop */
	int64_t deadline;   /* by then every task must be final */
	bool calm;	    /* after the horizon */
	bool over;
	bool seals_too; /* people seal the run now and then */
	bool bays_apart; /* a task each: else whoever ends one syncs the claims of others */
	bool hands_too; /* people cancel what the server has just forgotten, and reopen it */
	int nhosts, nprocs, living_max, living_usual, agents_each, ntiers;
	int64_t steal_after_ms, beat_ms;
	int64_t work_max; /* of a task, microseconds */
	struct host *hosts[HOSTS_MAX];
	struct proc *procs[PROCS_MAX];
	int64_t stalled_until, full_until, readonly_until, touchless_until, errors_until;
	struct outage {
		const void *whose; /* a host or a process; NULL = everybody's */
		int64_t from, to;
	} *outages; /* when a beat was impossible */
	size_t noutages;
	int submitted; /* tasks, in all */
	char uuid[UUID_TEXT];
	char scratch[256];
	/* what went wrong */
	int broken;
	char why[512];
	/* for the curious */
	uint64_t grants, acks, stale, calls, fates_met, seals;
};

extern struct world world;
extern enum bent world_bent; /* of the worlds that run from now on */
extern bool sim_trace;

/* A line of the history of this run, for people. */
void
trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An invariant does not hold. The first one is kept. */
void
broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- client.c ---- */

extern const struct disk_ops client_ops;
/* Deliver whatever may still arrive. */
void
client_flush(void);
void
client_forget(struct host *h);

/* ---- nodes.c ---- */

struct now
proc_now(const struct proc *p);
bool
proc_on(const struct proc *p);
/* A process that does nothing yet; NULL when there were too many. */
struct proc *
proc_make(struct host *h);
/* A daemon. */
struct proc *
proc_start(struct host *h);
void
proc_kill(struct proc *p);
void
proc_leave(struct proc *p);
void
proc_freeze(struct proc *p);
void
proc_thaw(struct proc *p);
/* A coroutine of this process: counted, and the process ends with its last one.
 */
struct coro *
proc_spawn(struct proc *p, const char *name, coro_fn *fn, void *arg);
/* Called by a coroutine made so before it returns. */
void
proc_exit(struct proc *p);
/* The queue has news: --wrap=write of its descriptor. */
void
proc_woken(int fd);
int
proc_fd(void);
int
procs_living(void);
struct proc *
proc_any(struct rng *r);
bool
proc_gone(long pid, const struct host *h);

/* ---- agents.c ---- */

void
agents_start(struct proc *p);
void
people_start(void);
/* The server has forgotten a claim. */
void
people_tempt(const char *name, unsigned attempt);

/* ---- faults.c ---- */

void
fates_start(void);
void
outage(const void *whose, int64_t us);

/* The worst moment to be stopped: an owner has just been found silent, and is not yet judged. */
void
fates_tempt(struct proc *p);

/* ---- sealing.c ---- */

void
sealing_start(void);
/* At the end, with all tasks final: all leave, and somebody seals it, in most of such worlds; then
 * some come back. For a coroutine. */
void
sealing_finish(void);
/* A process makes a call. */
void
sealing_call(struct proc *p);

/* ---- rules.c ---- */

void
rules_begin(void);
void
rules_end(void);
/* Before a call of a daemon is sent. */
void
rules_sent(const struct proc *p, enum disk_call call, const char *path, const char *text);
/* A link that was made, with the call's beginning. */
void
rules_made(const struct proc *p, const char *path, const char *text, int64_t began);
void
rules_touched(const char *path);
/* What an agent was told. */
void
rules_granted(struct proc *p, const struct grant *g);
void
rules_kept(struct proc *p, const struct grant *g, int64_t asked);
void
rules_ended(struct proc *p, const struct grant *g, enum outcome o, int rc, int64_t asked);
void
rules_submitted(const char *name);
/* A beat is there whose daemon is dead, or has another name by now. */
bool
rules_ghosts(void);
/* Every task is final, by the links as they are. */
bool
rules_all_final(char *open, size_t size);
/* Every daemon knows what every task has come to; else text says which does not. */
bool
rules_views_agree(char *text, size_t size);
void
rules_judge(void);

/* ---- histories.c ---- */

void
histories_begin(void);
void
histories_end(void);
/* Where a daemon's history goes; the queue owns it. */
struct history *
histories_of(struct proc *p);
/* A line of the world's own history: see history.h. */
void
histories_fault(const char *what, const char *whom);
void
histories_judge(void);

/* ---- truth.c ---- */

extern const struct disk_ops truth_ops;

/* The seal that tells of a link of a bay, and what it says of it; NULL when the highest whole one
 * does not. */
const struct inode *
truth_sealed(const char *bay, const char *name, unsigned k, enum link_kind kind,
	     char text[LINK_TEXT]);

struct queue *
truth_open(void);
void
truth_close(struct queue *q);

/* ---- world.c ---- */

/* A directory for the files of batches, removed at exit; dies when there can be none. */
const char *
world_scratch(void);

/* In the world of this seed people seal the run. */
bool
world_seals(uint64_t seed);

/* Run one seed; 0 when all invariants held. */
int
world_run(uint64_t seed, const char *scratch);

#endif
