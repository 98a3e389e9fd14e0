/*
 * super_impl.h - what super.c (the table, the queue), start.c (a workspace and a start), work.c (an
 * agent at work), save.c (its checkpoints) and finish.c (how it ends) share. Nobody else includes
 * it.
 */
#ifndef RASER_SUPER_IMPL_H
#define RASER_SUPER_IMPL_H

#include "attempt.h"
#include "checkpoint.h"
#include "clock.h"
#include "conf.h"
#include "control.h"
#include "job.h"
#include "proc.h"
#include "record.h"
#include "sandbox.h"
#include "store.h"
#include "super.h"
#include "trajectory.h"
#include "activity.h"

enum state {
	SETUP,	   /* the plugin prepares this node */
	IDLE,	   /* no claim */
	PREPARING, /* a workspace is being restored */
	WORKING,   /* the agent runs */
	STOPPING,  /* it was told to end */
	SAVING,	   /* it has ended: its workspace or its results are being made durable */
	ENDING,	   /* the end is being written into the lease */
	CLEANING,  /* the claim is over: the workspace is being removed */
	GONE,
	STATES
};

enum event {
	EV_CLAIMED, EV_JOB, EV_EXITED, EV_LOST, EV_TERM, EV_LIMIT, EV_TIMER, EV_DRAINED, EVENTS
};

enum {
	TROUBLE_FIRST_MS = 200, /* between tries while the mount does not answer */
	TROUBLE_LAST_MS = 5000,
	LOST_GRACE_MS = 2000,	/* for an agent whose task another one has */
	DRIFT_FIRST_MS = 10,	/* between looks for a mount that died, at first */
	ENV_MAX = 24,
};

/* A checkpoint that is being taken while the agent works. */
enum shot { SHOT_NONE, SHOT_CLONE, SHOT_ARCHIVE };

struct save_report {
	struct checkpoint_result result;
	uint64_t stamp;
	bool unchanged;
	char why[320];
};

struct super {
	const struct super_options *o;
	struct conf conf;
	struct run_info run;
	enum sandbox_kind sandbox;
	enum memory_by memory_by;
	char **command; /* with run_task behind a plugin's */
	bool is_plugin;
	char **binds, **pass; /* the words of raser.ini */
	char cache[PATH_MAX];
	char uuid[64];

	enum state state;
	int status; /* of super_run(), once GONE */
	int signal_fd, node_fd;
	struct queue_access queue;
	struct job job;

	/* the attempt */
	struct lease_claim claim;
	struct attempt attempt;
	struct record record;
	struct proc proc;
	struct proc_end end;
	struct sandbox_plan plan;
	struct control control;
	struct trajectory trajectory;
	struct activity activity;
	struct restore_result restored;
	unsigned restore_attempt; /* who restores */
	char restore_owner[32];
	bool lost;	/* the claim is another's: write no end */
	bool preempted; /* SIGTERM: leave after this attempt */
	bool adrift;	/* the mount died under the claim */
	bool done;	/* the end that stands is "done" */
	enum health limit; /* it was stopped for that */
	char limit_why[120];
	char verb[200];
	bool wants_save, failed_itself, synced_again;
	bool killing; /* its end by force was asked for */
	unsigned bad_lines;

	/* checkpoints */
	enum shot shot;
	bool frozen, no_clone, save_asked;
	struct timespec shot_time;
	int64_t shot_ms, save_ms, frozen_ms; /* when the last one began; how long it took and stopped it */
	unsigned save_number;
	uint64_t saved_stamp, clone_stamp;

	/* when what is due; boot ms, 0 = not at all */
	int64_t next_touch, next_sample, next_save, kill_at, leave_by, next_try;
	int64_t trouble_ms, trouble_since, ending_since, drift_ms;
	int64_t fault_ms, hold_until; /* no claims for so long, since the node could not start one */
};

static inline int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* "task T@k: ..." for every message of an attempt. */
#define LOG_TASK(log, s, fmt, ...) \
	log("task %s@%u: " fmt, (s)->claim.name, (s)->claim.attempt, ##__VA_ARGS__)

/* Each action returns the next state. */
typedef enum state
action_fn(struct super *s);

enum state
dispatch(struct super *s, enum event e);

/* ---- super.c ---- */
enum state
leave(struct super *s, int status);
/* A job was started, or its failure is in rc: the state that waits for it. */
bool
start_job(struct super *s, job_fn *fn, const void *arg, size_t size);

void
pause_for_fault(struct super *s);
/* Is there a SIGTERM, or does one come within so many ms? Waits for it. */
bool
hears_term(struct super *s, int64_t ms);

/* ---- start.c ---- */
action_fn work_prepare, prepare_job, prepare_lost, prepare_term, prepare_timer;

/* ---- work.c ---- */
int64_t
touch_every(const struct super *s);
action_fn work_timer, work_term, work_lost, work_limit, stop_term, stop_lost;
/* Touch the lease and leave a sign of life. Returns the event that this brings, or -1. */
int
beat(struct super *s);
/* The mount died under the claim. */
void
go_adrift(struct super *s);
/* Take up again what a mount that died has cost us, or hear that it is lost; returns as beat(). */
int
drift(struct super *s);
/* Read what the agent has said: a part of it, and the rest with the next samples; or all of it,
 * since it says nothing more. */
void
listen_control(struct super *s);
void
listen_last(struct super *s);

/* ---- save.c ---- */
/* What became of the checkpoint that it was restored from, if it was. */
void
settle_checkpoint(struct super *s, enum store_verdict verdict);
/* Begin a checkpoint of a working agent. */
void
shot_begin(struct super *s);
action_fn shot_job;
/* Give up the one that is being taken, and let the agent go on. */
void
shot_drop(struct super *s);
/* For the job that saves a workspace after its agent. */
int
save_job(const void *arg, void *report);
void
save_done(struct super *s, int rc, const struct save_report *report);

/* ---- finish.c ---- */
action_fn work_exited, finish_job, finish_timer, finish_lost, finish_term;
action_fn ending_timer, ending_lost, ending_term;
/* The attempt never had an agent: give it back, the node is at fault. */
enum state
finish_unstarted(struct super *s, const char *why);
/* The claim is over, whatever came of it. */
enum state
finish_clean(struct super *s);
action_fn clean_job, clean_term;

#endif
