/*
 * nodes.c - daemons: what fs/mount/loop.c makes of the queue, as coroutines.
 * The loop, the beat and the four duties run here as there; agents.c adds those
 * who ask for tasks.
 */
#include <config.h>

#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REFRESH_EVERY_MS = 30000,
	IDLE_FIRST_MS = 500,
	IDLE_LAST_MS = 30000,
	FEW_BAYS = 64,
	FEW_READS = 64,
	TURN_MAX_MS = 5000,
	BEAT_AGAIN_MS = 1000,
	JOIN_AGAIN_MS = 2000,
};

struct now
proc_now(const struct proc *p)
{
	return (struct now){ .boot_ms = (sim_now + p->host->boot_offset) / 1000,
			     .wall_s = 1700000000 + sim_now / SECOND + p->host->wall_offset };
}

bool
proc_on(const struct proc *p)
{
	return !p->dead && !p->leaving && !world.over;
}

int
proc_fd(void)
{
	const struct proc *p = sched_proc();

	return p ? p->id : PROCS_MAX; /* the judge's is never read */
}

void
proc_woken(int fd)
{
	struct proc *p = fd < world.nprocs ? world.procs[fd] : NULL;

	if (!p)
		return;
	p->woken = true;
	if (p->loop)
		sched_wake(p->loop);
}

bool
proc_gone(long pid, const struct host *h)
{
	for (int i = 0; i < world.nprocs; i++)
		if (world.procs[i]->pid == pid && world.procs[i]->host == h)
			return world.procs[i]->dead || world.procs[i]->closed;
	return true;
}

/* A number between half and all of it, so that daemons do not march in step. */
static int64_t
jitter(int64_t ms)
{
	return ms / 2 + rng_range(&world.rng, 0, ms / 2);
}

/* When the loop last turned; it turns all the time unless it stands still. */
static int64_t
last_turn(const struct proc *p)
{
	return p->wedged_at >= 0 || p->seen_frozen ? p->last_turn : proc_now(p).boot_ms;
}

/* ---- the beat ---- */

static void
beat_main(void *arg)
{
	struct proc *p = arg;

	/* a daemon that leaves beats to the end, for what it still holds */
	while (!p->dead && (proc_on(p) || p->ncoro > 1)) {
		struct now now = proc_now(p);

		if (now.boot_ms - last_turn(p) < world.steal_after_ms / 2) {
			sched_set_call(sim_now);
			queue_beat(p->q, now);
		}
		int64_t until = sim_now + world.beat_ms * 1000;
		while (proc_on(p) && !p->beat_now && sim_now < until)
			sched_wait(until);
		if (!proc_on(p) && p->ncoro > 1)
			sched_sleep(SECOND);
		p->beat_now = false;
	}
	proc_exit(p);
}

/* ---- duties ---- */

static int64_t
do_tick(struct proc *p, struct now now)
{
	queue_tick(p->q, now);
	return 60000;
}

static int64_t
do_look(struct proc *p, struct now now)
{
	queue_look(p->q, now);
	return world.beat_ms;
}

static int64_t
do_watch(struct proc *p, struct now now)
{
	return queue_watch(p->q, now);
}

static int64_t
do_refresh(struct proc *p, struct now now)
{
	bool idle = p->idle;
	int64_t n = idle ? queue_refresh(p->q, now, 0, 0)
			 : queue_refresh(p->q, now, FEW_BAYS, FEW_READS);

	if (n < 0 || !idle)
		p->idle_ms = IDLE_FIRST_MS;
	else if (p->idle_ms < IDLE_LAST_MS)
		p->idle_ms *= 2;
	return n < 0 ? jitter(REFRESH_EVERY_MS) / 10 : jitter(idle ? p->idle_ms : REFRESH_EVERY_MS);
}

static int64_t (*const duties[DUTIES])(struct proc *, struct now) = {
	[DUTY_TICK] = do_tick,
	[DUTY_LOOK] = do_look,
	[DUTY_WATCH] = do_watch,
	[DUTY_REFRESH] = do_refresh,
};

static void
duty_loop(struct proc *p, enum duty d)
{
	while (proc_on(p)) {
		if (p->due[d] > sim_now) {
			sched_wait(p->due[d]);
			continue;
		}
		p->due[d] = INT64_MAX; /* asked for while it runs: again at once */
		sched_set_call(sim_now);
		int64_t at = duties[d](p, proc_now(p)) * 1000 + sim_now;
		if (at < p->due[d])
			p->due[d] = at;
	}
	proc_exit(p);
}

static void
tick_main(void *arg)
{
	duty_loop(arg, DUTY_TICK);
}

static void
look_main(void *arg)
{
	duty_loop(arg, DUTY_LOOK);
}

static void
watch_main(void *arg)
{
	duty_loop(arg, DUTY_WATCH);
}

static void
refresh_main(void *arg)
{
	duty_loop(arg, DUTY_REFRESH);
}

static void
duty_at(struct proc *p, enum duty d, int64_t at)
{
	if (at >= p->due[d])
		return;
	p->due[d] = at;
	if (p->duties[d])
		sched_wake(p->duties[d]);
}

/* ---- the loop ---- */

static void
mind_the_gap(struct proc *p)
{
	struct now now = proc_now(p);

	if (!p->seen_frozen)
		return;
	p->seen_frozen = false;
	if (now.boot_ms - p->last_turn < world.steal_after_ms / 2)
		return;
	queue_excuse(p->q, now);
	duty_at(p, DUTY_LOOK, sim_now);
	duty_at(p, DUTY_WATCH, sim_now);
}

static void
consider_idle(struct proc *p)
{
	bool idle = false;

	queue_idle(p->q, p->idle_by_tier);
	for (int t = 0; t < world.ntiers; t++)
		idle |= p->idle_by_tier[t] && queue_ready(p->q, t) == 0;
	if (idle && !p->idle) {
		p->idle_ms = IDLE_FIRST_MS;
		duty_at(p, DUTY_REFRESH, sim_now);
	}
	p->idle = idle;
}

static void
loop_main(void *arg)
{
	struct proc *p = arg;

	while (proc_on(p)) {
		while (p->wedged_at >= 0 && !p->dead)
			sched_sleep(SECOND / 4);
		if (p->dead)
			break;
		mind_the_gap(p);
		if (p->woken) {
			p->woken = false;
			queue_woken(p->q);
			for (int i = 0; i < p->nidle; i++)
				sched_wake(p->idlers[i]);
		}
		consider_idle(p);
		int64_t tick = queue_tick_at(p->q);
		if (tick < INT64_MAX / 1000)
			duty_at(p, DUTY_TICK, tick * 1000 - p->host->boot_offset);
		if (queue_wants_beat(p->q)) {
			if (sim_now - p->beat_asked >= BEAT_AGAIN_MS * INT64_C(1000)) {
				p->beat_asked = sim_now;
				p->beat_now = true;
				sched_wake(p->beat);
			}
			sched_wait(sim_now + SECOND);
		} else if (!p->woken) {
			sched_wait(sim_now + TURN_MAX_MS * INT64_C(1000));
		}
	}
	proc_exit(p);
}

/* ---- life and death ---- */

static void
close_queue(struct proc *p)
{
	if (p->q)
		queue_close(p->q, proc_now(p));
	p->q = NULL;
	p->closed = true;
	free(p->idlers);
	p->idlers = NULL;
}

void
proc_exit(struct proc *p)
{
	if (--p->ncoro == 0)
		close_queue(p);
}

struct coro *
proc_spawn(struct proc *p, const char *name, coro_fn *fn, void *arg)
{
	p->ncoro++;
	return sched_spawn(p, &p->gate, name, fn, arg);
}

static void
proc_main(void *arg)
{
	struct proc *p = arg;
	const struct queue_options o = { .join = true, .tmp = world.scratch };

	/* a supervisor tries again for as long as it takes */
	while (!p->q && proc_on(p)) {
		const struct disk d = { .ops = &client_ops,
					.ctx = p,
					.history = histories_of(p) };
		struct err e = { 0 };

		sched_set_call(sim_now);
		p->q = queue_open_disk(d, "run", &o, proc_now(p), &e);
		if (!p->q) {
			if (sim_trace)
				trace("cannot open: %s", e.text);
			sched_sleep(JOIN_AGAIN_MS * INT64_C(1000));
		}
	}
	if (p->q && proc_on(p)) {
		char owner[OWNER_TEXT];

		queue_owner(p->q, owner);
		trace("daemon %d on %s is %s", p->id, p->host->name, owner);
		p->due[DUTY_LOOK] = sim_now + world.beat_ms * 1000;
		p->loop = proc_spawn(p, "loop", loop_main, p);
		p->beat = proc_spawn(p, "beat", beat_main, p);
		p->duties[DUTY_TICK] = proc_spawn(p, "tick", tick_main, p);
		p->duties[DUTY_LOOK] = proc_spawn(p, "look", look_main, p);
		p->duties[DUTY_WATCH] = proc_spawn(p, "watch", watch_main, p);
		p->duties[DUTY_REFRESH] = proc_spawn(p, "refresh", refresh_main, p);
		agents_start(p);
	}
	proc_exit(p);
}

struct proc *
proc_make(struct host *h)
{
	if (world.nprocs == PROCS_MAX)
		return NULL;
	struct proc *p = calloc(1, sizeof(*p));
	if (!p)
		abort();
	p->id = world.nprocs;
	p->pid = 1000 + p->id;
	p->host = h;
	p->frozen_at = p->wedged_at = -1;
	p->born = sim_now;
	p->died = INT64_MAX;
	p->idle_ms = IDLE_FIRST_MS;
	p->idlers = calloc((size_t)world.agents_each + 1, sizeof(struct coro *));
	world.procs[world.nprocs++] = p;
	return p;
}

struct proc *
proc_start(struct host *h)
{
	struct proc *p = proc_make(h);

	if (p)
		proc_spawn(p, "main", proc_main, p);
	return p;
}

static void
wake_all(struct proc *p)
{
	struct coro *all[] = { p->loop,	     p->beat,	   p->duties[0],
			       p->duties[1], p->duties[2], p->duties[3] };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i])
			sched_wake(all[i]);
	for (int i = 0; i < p->nidle; i++)
		sched_wake(p->idlers[i]);
}

void
proc_kill(struct proc *p)
{
	if (p->dead || p->closed)
		return;
	trace("daemon %d is killed", p->id);
	if (p->q) {
		char owner[OWNER_TEXT];

		queue_owner(p->q, owner);
		histories_fault("kill", owner);
	}
	p->dead = true;
	p->died = sim_now;
	while (p->gate.closed)
		gate_open(&p->gate, 0);
	sched_interrupt(p);
}

void
proc_leave(struct proc *p)
{
	if (p->dead || p->closed || p->leaving)
		return;
	trace("daemon %d is told to leave", p->id);
	if (p->q)
		queue_leave(p->q);
	p->leaving = true;
	wake_all(p);
}

void
proc_freeze(struct proc *p)
{
	if (p->dead || p->closed)
		return;
	if (p->frozen_at < 0) {
		p->frozen_at = sim_now;
		if (!p->seen_frozen && p->wedged_at < 0)
			p->last_turn = proc_now(p).boot_ms;
		p->seen_frozen = true;
	}
	gate_close(&p->gate);
}

void
proc_thaw(struct proc *p)
{
	if (p->dead || p->closed || !p->gate.closed)
		return;
	gate_open(&p->gate, SECOND / 100);
	if (p->gate.closed)
		return;
	p->frozen_at = -1;
	if (p->loop)
		sched_wake(p->loop);
}

static bool
serves(const struct proc *p)
{
	return !p->dead && !p->leaving && !p->closed && !p->sealer;
}

int
procs_living(void)
{
	int n = 0;

	for (int i = 0; i < world.nprocs; i++)
		n += serves(world.procs[i]);
	return n;
}

struct proc *
proc_any(struct rng *r)
{
	int n = procs_living();

	if (!n)
		return NULL;
	int64_t k = rng_range(r, 0, n - 1);
	for (int i = 0; i < world.nprocs; i++) {
		struct proc *p = world.procs[i];

		if (serves(p) && k-- == 0)
			return p;
	}
	return NULL;
}
