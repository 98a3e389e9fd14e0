/*
 * work.c - an agent at work: its heartbeat, what it says, its limits, and its end when we want it.
 */
#include <config.h>

#include "super_impl.h"

#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	DRIFT_LAST_MS = 160,
	KILL_AGAIN_MS = 1000,
	LISTEN_MS = 2000, /* to what an agent has said before its end */
	BAD_LINES = 10,	  /* so many lines that are not understood are told */
};

int64_t
touch_every(const struct super *s)
{
	return s->run.steal_after_ms / 6;
}

/* ---- its heartbeat ---- */

void
go_adrift(struct super *s)
{
	s->adrift = true;
	s->drift_ms = DRIFT_FIRST_MS;
	s->next_touch = now_ms() + s->drift_ms;
}

/* The mount died under us, and the agent goes on. The daemon that comes in its place ends the
 * claims of its predecessor; the next attempt is ours if nobody was faster (DESIGN 3). */
int
drift(struct super *s)
{
	unsigned next;

	s->next_touch = now_ms() + s->drift_ms;
	s->drift_ms = s->drift_ms < DRIFT_LAST_MS ? s->drift_ms * 2 : DRIFT_LAST_MS;
	switch (s->queue.ops->fate(&s->queue, &s->claim, &next)) {
	case FATE_FREE:
		break;
	case FATE_OVER:
		return EV_LOST;
	default:
		return -1;
	}
	if (s->queue.ops->again(&s->queue, &s->claim, next))
		return -1; /* whoever was faster shows at the next look */
	s->adrift = false;
	LOG_TASK(log_info, s, "taken up again: the mount is back, and its agent went on");
	attempt_renumber(&s->attempt, &s->run, &s->claim);
	s->next_touch = now_ms() + touch_every(s);
	return -1;
}

static void
tell_activity(struct super *s)
{
	char verb[160];
	int64_t idle = (now_ms() - s->activity.active) / 1000;
	struct usage u;

	if (s->state != WORKING || !proc_usage(&s->proc, &u))
		return;
	snprintf(verb, sizeof(verb), "note active %lld s ago, %lld steps, cpu %.1f s, %lld MB, %d processes",
		 (long long)idle, (long long)s->activity.steps, (double)u.cpu_ms / 1000,
		 (long long)(u.rss >> 20), u.processes);
	s->queue.ops->verb(&s->queue, &s->claim, verb); /* for people only: a touch tells what is wrong */
}

int
beat(struct super *s)
{
	if (s->lost)
		return -1;
	if (s->adrift)
		return drift(s);
	s->next_touch = now_ms() + touch_every(s);
	int rc = s->queue.ops->touch(&s->queue, &s->claim);
	if (!rc) {
		attempt_alive(&s->attempt, &s->claim);
		tell_activity(s);
		return -1;
	}
	if (claim_orphaned(&s->queue, &s->claim)) {
		go_adrift(s);
		LOG_TASK(log_warnx, s, "%s is gone; its agent goes on, waiting for the mount",
			 s->queue.path);
		return -1;
	}
	if (rc == -ESTALE || rc == -ENOENT || rc == -EPERM)
		return EV_LOST;
	LOG_TASK(log_warnx, s, "no heartbeat: %s", strerror(-rc));
	return -1;
}

/* ---- what it says ---- */

static void
on_order(void *arg, const struct order_text *o)
{
	struct super *s = arg;
	struct now now = now_read();
	char verb[64];
	int rc;

	switch (o->order) {
	case ORDER_PARKED:
		activity_parked(&s->activity, o->number, now);
		snprintf(verb, sizeof(verb), "parked %lld", (long long)o->number);
		rc = s->queue.ops->verb(&s->queue, &s->claim, verb);
		if (rc)
			LOG_TASK(log_debug, s, "%s: %s", verb, strerror(-rc));
		break;
	case ORDER_PROGRESS:
		activity_progress(&s->activity, now);
		break;
	case ORDER_STEP:
		activity_step(&s->activity);
		rc = trajectory_add(&s->trajectory, o->step, s->claim.attempt, wall_now());
		if (rc)
			LOG_TASK(log_warnx, s, "step %lld is not recorded: %s",
				 (long long)s->trajectory.steps, strerror(-rc));
		s->record.steps = s->trajectory.steps;
		break;
	case ORDER_SET:
		if (!strcmp(o->name, "max_steps"))
			s->activity.max_steps = o->number;
		else if (!strcmp(o->name, "progress_after"))
			s->activity.progress_after_ms = o->number;
		else
			s->activity.hang_after_ms = o->number;
		break;
	case ORDER_CHECKPOINT:
		s->save_asked = true;
		s->next_save = now.boot_ms;
		break;
	case ORDER_BAD:
		if (s->bad_lines++ < BAD_LINES)
			LOG_TASK(log_warnx, s, "RASER_CONTROL: a line is not understood: %s%s", o->text,
				 s->bad_lines == BAD_LINES ? "; no more of them is told" : "");
		break;
	}
}

void
listen_control(struct super *s)
{
	/* an agent may write faster than we read: heartbeats and signals come in between */
	if (control_read(&s->control, now_read().wall_s, on_order, s))
		s->next_sample = now_ms();
}

void
listen_last(struct super *s)
{
	int64_t until = now_ms() + LISTEN_MS;

	while (control_read(&s->control, now_read().wall_s, on_order, s) && now_ms() < until)
		;
}

/* ---- its limits ---- */

static enum state
sample(struct super *s)
{
	struct usage u;
	struct stat st;
	struct now now = now_read();

	s->next_sample = now.boot_ms + activity_every_ms(&s->activity);
	listen_control(s);
	if (s->frozen)
		return s->state; /* the thaw excuses it */
	if (!proc_usage(&s->proc, &u) || fstat(s->attempt.log_fd, &st) < 0) {
		activity_excuse(&s->activity, s->activity.sampled, now);
		return s->state;
	}
	const struct usage_totals totals = { .cpu_ms = u.cpu_ms, .io_bytes = u.io_bytes,
					     .output_bytes = (uint64_t)st.st_size };
	activity_sample(&s->activity, &totals, now);
	s->limit = activity_health(&s->activity, now, s->limit_why, sizeof(s->limit_why));
	return s->limit == WELL ? s->state : dispatch(s, EV_LIMIT);
}

enum state
work_timer(struct super *s)
{
	int64_t now = now_ms();

	if (s->state == STOPPING && s->kill_at && now >= s->kill_at) {
		if (!s->killing)
			LOG_TASK(log_info, s, "its agent does not end by itself; killing it");
		s->killing = true;
		proc_kill(&s->proc);
		s->kill_at = now + KILL_AGAIN_MS; /* its guard may stand still */
	}
	int e = now >= s->next_touch ? beat(s) : -1;
	if (e >= 0)
		return dispatch(s, (enum event)e);
	if (s->state != WORKING)
		return s->state;
	if (now >= s->next_sample && sample(s) != WORKING)
		return s->state;
	if (s->next_save && now_ms() >= s->next_save && s->shot == SHOT_NONE)
		shot_begin(s);
	return s->state;
}

/* ---- its end, when we want it ---- */

static enum state
stop(struct super *s, int64_t grace_ms)
{
	shot_drop(s);
	s->killing = false;
	proc_term(&s->proc);
	s->kill_at = now_ms() + grace_ms;
	return STOPPING;
}

/* How much of the grace the agent gets: the rest is for its checkpoint, which takes as long as the
 * last one did, and somewhat more for safety. */
static int64_t
agent_share(const struct super *s)
{
	int64_t grace = s->run.grace_ms;
	int64_t share = s->save_ms ? grace - s->save_ms * 3 / 2 - grace / 25 : grace / 2;

	return share < grace / 5 ? grace / 5 : share;
}

enum state
work_term(struct super *s)
{
	LOG_TASK(log_info, s, "SIGTERM; stopping its agent, then giving it back");
	s->preempted = true;
	s->leave_by = now_ms() + s->run.grace_ms;
	return stop(s, agent_share(s));
}

enum state
work_lost(struct super *s)
{
	LOG_TASK(log_info, s, "the claim is lost; stopping its agent");
	s->lost = true;
	return stop(s, s->run.grace_ms < LOST_GRACE_MS ? s->run.grace_ms : LOST_GRACE_MS);
}

enum state
work_limit(struct super *s)
{
	LOG_TASK(log_info, s, "%s; stopping its agent", s->limit_why);
	return stop(s, s->run.grace_ms);
}

enum state
stop_term(struct super *s)
{
	if (!s->preempted) {
		s->leave_by = now_ms() + s->run.grace_ms;
		int64_t kill_at = now_ms() + agent_share(s);
		if (s->kill_at && kill_at < s->kill_at)
			s->kill_at = kill_at;
	}
	s->preempted = true;
	return STOPPING;
}

enum state
stop_lost(struct super *s)
{
	s->lost = true;
	int64_t kill_at = now_ms() + LOST_GRACE_MS;
	if (s->kill_at > kill_at)
		s->kill_at = kill_at;
	return STOPPING;
}
