/*
 * agents.c - those who use a daemon: agents that claim, touch and end, and
 * people who submit, cancel, reopen, revoke and evict. What they are told goes
 * to rules.c.
 */
#include <config.h>

#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How an attempt goes on, drawn for each; after the horizon everybody is good.
 */
enum conduct {
	WORKS,
	CRASHES,
	GIVES_UP,
	GIVES_BACK,
	HANGS,
	ZOMBIE,
	PARKS,
	TWICE,
	UNHEARD,
	NOT_ITS_FAULT,
	CONDUCTS
};
static const double conducts[CONDUCTS] = {
	[WORKS] = 70, [CRASHES] = 6, [GIVES_UP] = 2, [GIVES_BACK] = 4, [HANGS] = 3,
	[ZOMBIE] = 4, [PARKS] = 2,   [TWICE] = 4,    [UNHEARD] = 2,    [NOT_ITS_FAULT] = 2,
};

static struct rng *
dice(void)
{
	return &world.rng;
}

static enum conduct
draw_conduct(void)
{
	double sum = 0;
	enum conduct c = 0;

	if (world.calm)
		return WORKS;
	for (int i = 0; i < CONDUCTS; i++)
		sum += conducts[i];
	for (double r = rng_unit(dice()) * sum; c < CONDUCTS - 1 && r >= conducts[c]; c++)
		r -= conducts[c];
	return c;
}

/* Now, and sometimes a moment before the call: a thread may lose its processor
 * in between. */
static struct now
call_now(const struct proc *p)
{
	struct now now = proc_now(p);

	if (rng_chance(dice(), 0.1))
		sched_sleep(rng_range(dice(), 0, 500));
	sched_set_call(sim_now);
	return now;
}

static void
idle(struct proc *p, int tier, int64_t until)
{
	p->idlers[p->nidle++] = sched_self();
	p->idle_by_tier[tier]++;
	if (p->loop)
		sched_wake(p->loop); /* it may have to look afresh for us */
	sched_wait(until);
	for (int i = 0; i < p->nidle; i++)
		if (p->idlers[i] == sched_self()) {
			p->idlers[i] = p->idlers[--p->nidle];
			break;
		}
	p->idle_by_tier[tier]--;
}

/* A heartbeat, as fs/mount/claims.c makes it. */
static int
touch(struct proc *p, const struct grant *g, bool park)
{
	int64_t asked = sim_now;
	int rc = 0;

	for (int i = 0; i < 2; i++) {
		struct now now = call_now(p);

		rc = park ? queue_park(p->q, g->serial, g->attempt, now.wall_s + 600, now)
			  : queue_touch(p->q, g->serial, g->attempt, now);
		if (rc != -EINPROGRESS)
			break;
		if (queue_look(p->q, call_now(p)))
			return -EIO;
		asked = sim_now;
	}
	if (!rc)
		rules_kept(p, g, asked);
	return rc;
}

/* Work for so long, touching; false when the claim is lost. */
static bool
work(struct proc *p, const struct grant *g, int64_t us)
{
	int64_t until = sim_now + us;

	while (proc_on(p) && sim_now < until) {
		int64_t step = world.steal_after_ms * 1000 / rng_range(dice(), 3, 8);

		sched_sleep(step < until - sim_now ? step : until - sim_now);
		if (sim_now >= until || !proc_on(p))
			break;
		if (touch(p, g, false) == -ESTALE)
			return false;
	}
	return true;
}

static int
end(struct proc *p, const struct grant *g, enum outcome o, enum reason why)
{
	/* what the storage refuses is tried again for a while, and then given up */
	for (int i = 0; i < 20 && !p->dead; i++) {
		int64_t asked = sim_now;
		int rc = queue_end(p->q, g->serial, g->attempt, o, why, NULL, call_now(p));

		rules_ended(p, g, o, rc, asked);
		if (!rc || rc == -ESTALE || rc == -ENOENT || rc == -EPERM)
			return rc;
		sched_sleep(rng_range(dice(), SECOND, 20 * SECOND));
	}
	return -EIO;
}

static void
crash(struct proc *p, const struct grant *g)
{
	queue_closed(p->q, g->serial, g->attempt, true, call_now(p));
}

static void
attempt(struct proc *p, const struct grant *g)
{
	enum conduct c = draw_conduct();
	int64_t us = rng_log(dice(), 20000, (double)(world.calm ? SECOND : world.work_max));

	if (c == UNHEARD) {
		crash(p, g);
		return;
	}
	if (rng_chance(dice(), 0.2)) {
		char *body;
		size_t size;

		if (!queue_payload(p->q, g->serial, &body, &size))
			free(body);
	}
	if (!queue_is_grant(p->q, g->serial, g->attempt, g->seq))
		return;
	queue_delivered(p->q, g->serial, g->attempt);
	if (c == PARKS)
		touch(p, g, true);
	if (c == HANGS || c == ZOMBIE) {
		/* says nothing for longer than it may; a zombie then wants to end it all
		 * the same */
		sched_sleep(world.steal_after_ms * rng_range(dice(), 1050, 3000));
		if (c == HANGS)
			return;
	} else if (!work(p, g, us)) {
		if (rng_chance(dice(), 0.5))
			return;
	}
	if (!proc_on(p)) {
		crash(p, g);
		return;
	}
	switch (c) {
	case CRASHES:
		crash(p, g);
		break;
	case GIVES_UP:
		end(p, g, END_FAILED, WHY_VERDICT);
		break;
	case GIVES_BACK:
		end(p, g, END_FREED, WHY_RELEASED);
		break;
	case NOT_ITS_FAULT:
		end(p, g, END_FREED, WHY_NOT_ITS_FAULT);
		break;
	case TWICE:
		end(p, g, END_DONE, WHY_NONE);
		end(p, g, rng_chance(dice(), 0.5) ? END_DONE : END_FREED, WHY_RELEASED);
		break;
	default:
		end(p, g, END_DONE, WHY_NONE);
		break;
	}
}

struct choice {
	int64_t serials[64];
	unsigned attempts[64];
	int n;
};

static int
on_task(void *arg, const struct task *t)
{
	struct choice *c = arg;

	c->serials[c->n] = t->serial;
	c->attempts[c->n++] = t->attempt;
	return c->n == 64;
}

/* One task out of those that a view shows, as somebody would who looks at the
 * listing. */
static bool
choose(struct proc *p, int view, int64_t *serial, unsigned *k)
{
	struct choice c = { .n = 0 };

	queue_list(p->q, view, 0, on_task, &c);
	if (!c.n)
		return false;
	int64_t i = rng_range(dice(), 0, c.n - 1);
	*serial = c.serials[i];
	*k = c.attempts[i];
	return true;
}

static int
claim(struct proc *p, int tier, struct grant *g)
{
	const struct claimer by = { .pid = p->pid, .comm = "agent", .bound = true };
	int64_t serial;
	unsigned k;

	if (rng_chance(dice(), 0.8))
		return queue_next(p->q, tier, &by, call_now(p), g);
	if (!choose(p, VIEW_TIER + tier, &serial, &k))
		return -EAGAIN;
	return queue_claim(p->q, serial, k, tier, &by, call_now(p), g);
}

static void
agent_main(void *arg)
{
	struct proc *p = arg;
	/* every tier that is needed must have somebody */
	int tier = p->nagents++ % 2 ? (int)rng_range(dice(), 0, world.ntiers - 1)
				    : world.ntiers - 1;

	sched_sleep(rng_range(dice(), 0, 5 * SECOND));
	while (proc_on(p)) {
		struct grant g;
		int rc = claim(p, tier, &g);

		if (!rc) {
			rules_granted(p, &g);
			attempt(p, &g);
		} else if (rc == -EAGAIN) {
			idle(p, tier, sim_now + rng_range(dice(), 5 * SECOND, 60 * SECOND));
		} else {
			sched_sleep(rng_range(dice(), SECOND / 100, 2 * SECOND));
		}
	}
	proc_exit(p);
}

void
agents_start(struct proc *p)
{
	for (int i = 0; i < world.agents_each; i++)
		proc_spawn(p, "agent", agent_main, p);
}

/* ---- people ---- */

struct errand {
	struct proc *p;
	int first, count; /* tasks to submit */
	bool over, done;
};

static void
submit_main(void *arg)
{
	struct errand *e = arg;
	struct err err = { 0 };
	char line[128];

	if (!e->p->q || e->p->dead) {
		e->over = true;
		proc_exit(e->p);
		return;
	}
	struct submission *s = submission_new(e->p->q, NULL, &err);
	if (!s)
		abort();
	int rc = 0;
	for (int i = 0; !rc && i < e->count; i++) {
		int n = snprintf(line, sizeof(line), "{\"id\":\"t%d\",\"n\":%d}\n", e->first + i,
				 i);

		rc = submission_feed(s, line, (size_t)n, &err);
	}
	if (!rc)
		rc = submission_finish(s, "people", call_now(e->p), &err);
	submission_free(s);
	if (!e->p->dead) {
		trace("submission of t%d..t%d: %d %s", e->first, e->first + e->count - 1, rc,
		      err.text);
		e->done = !rc;
		if (rc == -EEXIST)
			broken("a submission of new ids is told that they exist");
		for (int i = 0; !rc && i < e->count; i++) {
			snprintf(line, sizeof(line), "t%d", e->first + i);
			rules_submitted(line);
		}
	}
	e->over = true;
	proc_exit(e->p);
}

/* Submit some tasks through whoever lives, again until somebody says that it is
 * done: the same ids and payloads twice are one. */
static void
submitter(void *arg)
{
	struct errand e = { .first = world.submitted + 1, .count = (int)(intptr_t)arg };

	world.submitted += e.count;
	sched_sleep(rng_range(dice(), 0, world.horizon / 2));
	while (!e.done && !world.over) {
		e.p = proc_any(dice());
		if (!e.p || !e.p->q) {
			sched_sleep(SECOND);
			continue;
		}
		e.over = false;
		proc_spawn(e.p, "submitter", submit_main, &e);
		while (!e.over)
			sched_sleep(SECOND);
		if (!e.done)
			sched_sleep(rng_range(dice(), SECOND, 10 * SECOND));
	}
}

static void
hand(struct proc *p)
{
	int64_t serial;
	unsigned k;

	switch (rng_range(dice(), 0, 9)) {
	case 0 ... 2:
		if (choose(p, TASK_CLAIMED, &serial, &k))
			queue_revoke(p->q, serial, k, call_now(p));
		break;
	case 3 ... 5:
		if (choose(p, rng_chance(dice(), 0.5) ? TASK_CLAIMED : TASK_PENDING, &serial, &k))
			queue_cancel(p->q, serial, rng_chance(dice(), 0.5) ? k : 0, call_now(p));
		break;
	case 6 ... 8:
		if (choose(p, rng_chance(dice(), 0.5) ? TASK_FAILED : TASK_CANCELLED, &serial, &k))
			queue_reopen(p->q, serial, rng_chance(dice(), 0.5) ? k : 0, call_now(p));
		break;
	default: {
		struct node_line lines[16];
		size_t n = queue_nodes(p->q, lines, 16);

		if (n)
			queue_evict(p->q, lines[rng_range(dice(), 0, (int64_t)n - 1)].owner);
		break;
	}
	}
}

static void
hand_main(void *arg)
{
	struct proc *p = arg;

	if (p->q && !p->dead)
		hand(p);
	proc_exit(p);
}

static void
admin(void *arg)
{
	int64_t every = (int64_t)(intptr_t)arg;

	for (;;) {
		sched_sleep(rng_wait(dice(), (double)every));
		if (world.calm || world.over)
			return;
		struct proc *p = proc_any(dice());
		if (p && p->q)
			proc_spawn(p, "admin", hand_main, p);
	}
}

/* ---- people who cancel what the server has just forgotten, and reopen it at once ---- */

struct temptation {
	char name[32];
	unsigned attempt;
	struct proc *p;
};

static void
tempted_main(void *arg)
{
	struct temptation *x = arg;
	struct proc *p = x->p;
	struct task t;

	if (p->q && !p->dead && !queue_find(p->q, x->name, &t) && t.attempt == x->attempt &&
	    !queue_cancel(p->q, t.serial, t.attempt, call_now(p)))
		queue_reopen(p->q, t.serial, t.attempt, call_now(p));
	free(x);
	proc_exit(p);
}

static void
tempted(void *arg)
{
	struct temptation *x = arg;

	sched_sleep(rng_range(dice(), 0, SECOND));
	x->p = proc_any(dice());
	if (x->p)
		proc_spawn(x->p, "admin", tempted_main, x);
	else
		free(x);
}

void
people_tempt(const char *name, unsigned attempt)
{
	struct temptation *x = world.hands_too && !world.calm ? calloc(1, sizeof(*x)) : NULL;

	if (!x)
		return;
	snprintf(x->name, sizeof(x->name), "%.31s", name);
	x->attempt = attempt;
	sched_spawn(NULL, NULL, "people", tempted, x);
}

void
people_start(void)
{
	int left = world.submitted;

	world.submitted = 0;
	while (left) {
		int n = (int)rng_range(dice(), 1, left);

		if (rng_chance(dice(), 0.3))
			n = left;
		if (world.bays_apart)
			n = 1;
		left -= n;
		sched_spawn(NULL, NULL, "people", submitter, (void *)(intptr_t)n);
	}
	if (rng_chance(dice(), 0.5) || world.seals_too)
		sched_spawn(NULL, NULL, "admin", admin,
			    (void *)(intptr_t)rng_log(dice(), 5.0 * SECOND, 300.0 * SECOND));
}
