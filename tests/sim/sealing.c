/*
 * sealing.c - people who run `raser seal`: mostly while daemons live, when it must refuse, and
 * sometimes when all of them have left, were killed or stand still. What may befall a sealer does
 * so at any of its calls. Then daemons come back, and it begins anew.
 *
 * All that is drawn here comes from a source of its own, so that other worlds stay as they are.
 */
#include <config.h>

#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 30 };

static struct rng *
dice(void)
{
	return &world.seal_rng;
}

static int64_t
steals(double least, double most)
{
	return rng_log(dice(), least * (double)world.steal_after_ms * 1000,
		       most * (double)world.steal_after_ms * 1000);
}

/* ---- what befalls a sealer ---- */

static void
thaw(void *arg)
{
	proc_thaw(arg);
}

static void
stand_still(struct proc *p, int64_t us)
{
	trace("process %d is stopped for %.1f s", p->id, (double)us / SECOND);
	proc_freeze(p);
	outage(p, us);
	sched_at(sim_now + us, thaw, p);
}

static void
strike(void *arg)
{
	struct proc *p = arg;
	int64_t us = steals(0.2, 3);

	if (p->dead || p->closed || world.calm)
		return;
	world.fates_met++;
	switch (rng_range(dice(), 0, 9)) {
	case 0 ... 3:
		proc_kill(p);
		break;
	case 4 ... 7:
		stand_still(p, steals(0.5, 8));
		break;
	case 8:
		trace("%s is cut off for %.1f s", p->host->name, (double)us / SECOND);
		p->host->cut_until = sim_now + us;
		outage(p->host, us);
		break;
	default:
		trace("%s has errors only for %.1f s", p->host->name, (double)us / SECOND);
		p->host->errors_until = sim_now + us;
		outage(p->host, us);
		break;
	}
}

void
sealing_call(struct proc *p)
{
	/* before the call arrives, while its answer is on the way, or behind it */
	if (p->strike_in && --p->strike_in == 0)
		sched_at(sim_now + rng_range(dice(), 0, 4 * world.manners.latency), strike, p);
}

/* ---- the tool ---- */

static struct now
watcher_now(void *arg)
{
	sched_set_call(sim_now);
	return proc_now(arg);
}

static bool
watcher_stopped(void *arg)
{
	return !proc_on(arg);
}

static bool
seal_bays(struct proc *p, const struct seal_watcher *w)
{
	struct err err = { 0 };
	struct seal_bay b;
	int rc = 0;

	for (int64_t i = 0; !rc && !queue_seal_bay(p->q, i, &b); i++) {
		rc = queue_seal(p->q, i, w, &b, &err);
		trace("sealing bay %lld: %d, result %d, %lld links removed %s", (long long)i, rc,
		      (int)b.result, (long long)b.links, err.text);
		world.seals += b.links > 0;
	}
	return !rc;
}

/* As tools/seal.c does it. */
static void
sealer_main(void *arg)
{
	struct proc *p = arg;
	const struct queue_options o = { .join = true, .as = OWNER_SEALER, .tmp = world.scratch };
	const struct disk d = { .ops = &client_ops, .ctx = p, .history = histories_of(p) };
	const struct seal_watcher w = { .now = watcher_now, .stopped = watcher_stopped, .arg = p };
	bool early = rng_chance(dice(), 0.3);
	struct err err = { 0 };

	if (p->doomed && early)
		p->strike_in = (unsigned)rng_log(dice(), 1, 100);
	sched_set_call(sim_now);
	p->q = queue_open_disk(d, "run", &o, proc_now(p), &err);
	int rc = p->q ? queue_seal_wait(p->q, &w, &err) : -1;
	trace("sealer %d may begin: %d %s", p->id, rc, err.text);
	if (!rc) {
		if (p->doomed && !early)
			p->strike_in = (unsigned)rng_log(dice(), 1, 200);
		p->sealed = seal_bays(p, &w);
	}
	proc_exit(p);
}

static struct proc *
sealer_start(bool doomed)
{
	struct proc *p = proc_make(world.hosts[rng_range(dice(), 0, world.nhosts - 1)]);

	if (!p)
		return NULL;
	p->sealer = true;
	p->doomed = doomed;
	trace("somebody seals the run: process %d on %s", p->id, p->host->name);
	proc_spawn(p, "seal", sealer_main, p);
	return p;
}

static bool
is_at_work(const struct proc *p)
{
	return p && !p->dead && !p->closed;
}

/* Until the sealer is gone, or stands still, whichever comes first, or `until`. */
static void
await(const struct proc *p, int64_t until)
{
	while (is_at_work(p) && p->frozen_at < 0 && !world.over && sim_now < until)
		sched_sleep(SECOND / 4);
}

/* ---- a run that nobody works on ---- */

static void
start_again(void *arg)
{
	if (!world.over && procs_living() < world.living_usual)
		proc_start(arg);
}

static void
everybody_goes(void)
{
	int64_t killed = rng_range(dice(), 0, 10);

	for (int i = 0; i < world.nprocs; i++) {
		struct proc *p = world.procs[i];

		if (p->sealer || !is_at_work(p) || p->frozen_at >= 0)
			continue;
		if (!world.calm && rng_chance(dice(), 0.15))
			stand_still(p, steals(2, 8)); /* and goes on later, as a zombie */
		else if (rng_range(dice(), 0, 9) < killed)
			proc_kill(p);
		else
			proc_leave(p);
	}
}

/* Daemons come back, a few at first. */
static void
everybody_comes(void)
{
	int n = (int)rng_range(dice(), 1, world.living_usual);

	world.living_max = world.living_usual;
	for (int i = 0; i < n; i++)
		sched_at(sim_now + rng_log(dice(), 0.01 * SECOND, 30.0 * SECOND), start_again,
			 world.hosts[rng_range(dice(), 0, world.nhosts - 1)]);
}

/* One stands still long before the others leave, and knows nothing of what they finish. */
static void
leave_one_behind(void)
{
	struct proc *p = proc_any(dice());

	if (!p)
		return;
	stand_still(p, steals(3, 12));
	sched_sleep(steals(0.2, 2));
}

static void
quiet_phase(void)
{
	bool again = true;

	if (rng_chance(dice(), 0.5))
		leave_one_behind();
	trace("everybody stops working on the run");
	world.living_max = 0;
	everybody_goes();
	int64_t until = sim_now + steals(2, 8);
	while (again && !world.calm && sim_now < until) {
		const struct proc *p = sealer_start(rng_chance(dice(), 0.5));

		if (rng_chance(dice(), 0.1))
			sealer_start(rng_chance(dice(), 0.5)); /* two people at once */
		/* somebody who does not know of it comes in the middle */
		if (rng_chance(dice(), 0.1))
			sched_at(sim_now + steals(0.1, 3), start_again,
				 world.hosts[rng_range(dice(), 0, world.nhosts - 1)]);
		await(p, rng_chance(dice(), 0.2) ? sim_now + steals(1, 4) : world.horizon);
		again = p && rng_chance(dice(), p->sealed ? 0.2 : 0.8);
		sched_sleep(steals(0.01, 0.5));
	}
	trace("work on the run goes on");
	everybody_comes();
}

static void
people_main(void *arg)
{
	(void)arg;
	while (!world.calm) {
		sched_sleep(steals(0.05, 2));
		if (world.calm)
			break;
		if (rng_chance(dice(), 0.25))
			quiet_phase();
		else
			await(sealer_start(rng_chance(dice(), 0.1)), world.horizon);
	}
	world.living_max = world.living_usual;
}

void
sealing_start(void)
{
	if (world.seals_too)
		sched_spawn(NULL, NULL, "people", people_main, NULL);
}

void
sealing_finish(void)
{
	if (!world.seals_too || rng_chance(dice(), 0.3))
		return;
	trace("all is final, and is sealed");
	everybody_goes();
	for (int i = 0; i < TRIES; i++) {
		const struct proc *p = sealer_start(false);

		while (is_at_work(p))
			sched_sleep(SECOND);
		if (!p || p->sealed)
			break;
		sched_sleep(world.beat_ms * 1000);
	}
	everybody_comes();
}
