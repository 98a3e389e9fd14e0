/*
 * faults.c - what befalls the world: drawn from the lottery of this seed, until
 * the horizon.
 */
#include <config.h>

#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rng *
dice(void)
{
	return &world.rng;
}

void
outage(const void *whose, int64_t us)
{
	world.outages = realloc(world.outages, (world.noutages + 1) * sizeof(*world.outages));
	if (!world.outages)
		abort();
	world.outages[world.noutages++] =
		(struct outage){ .whose = whose, .from = sim_now, .to = sim_now + us };
}

static int64_t
beats(double least, double most)
{
	return rng_log(dice(), least * (double)world.beat_ms * 1000,
		       most * (double)world.beat_ms * 1000);
}

static void
thaw(void *arg)
{
	proc_thaw(arg);
}

static void
unwedge(void *arg)
{
	struct proc *p = arg;

	p->wedged_at = -1;
	p->seen_frozen = true;
}

static void
start_one(void *arg)
{
	if (!world.over && procs_living() < world.living_max)
		proc_start(arg);
}

/* Dies, and a supervisor makes another there, or the scheduler elsewhere, or
 * nobody. */
static void
fate_kill(struct proc *p)
{
	struct host *h = p->host;

	proc_kill(p);
	if (rng_chance(dice(), 0.3))
		h = world.hosts[rng_range(dice(), 0, world.nhosts - 1)];
	if (rng_chance(dice(), 0.8))
		sched_at(sim_now + rng_log(dice(), 0.2 * SECOND, 100.0 * SECOND), start_one, h);
}

static void
fate_freeze(struct proc *p, int64_t us)
{
	trace("daemon %d is stopped for %.1f s", p->id, (double)us / SECOND);
	proc_freeze(p);
	outage(p, us);
	sched_at(sim_now + us, thaw, p);
}

static void
fate_suspend(struct host *h, int64_t us)
{
	for (int i = 0; i < world.nprocs; i++)
		if (world.procs[i]->host == h && !world.procs[i]->dead && !world.procs[i]->closed)
			fate_freeze(world.procs[i], us);
}

static void
fate_wedge(struct proc *p, int64_t us)
{
	if (p->wedged_at >= 0 || p->seen_frozen)
		return;
	trace("the loop of daemon %d hangs for %.1f s", p->id, (double)us / SECOND);
	p->last_turn = proc_now(p).boot_ms;
	p->wedged_at = sim_now;
	outage(p, us);
	sched_at(sim_now + us, unwedge, p);
}

/* Delete a file of a class at random, as a script would: a prefix of its path.
 */
static void
remove_some(const char *dir, double share)
{
	struct inode *d = fs_find(dir);

	for (size_t i = 0; d && i < d->n; i++)
		if (d->names[i]->gone_at == INT64_MAX && rng_chance(dice(), share)) {
			trace("a script removes %s", d->names[i]->path);
			histories_fault("remove", d->names[i]->path);
			fs_unlink(d->names[i]->path);
		}
}

static struct inode *
any_bay(void)
{
	const struct inode *chain = fs_find("chain");
	struct inode *bay = NULL;
	int seen = 0;

	for (size_t i = 0; chain && i < chain->n; i++)
		if (chain->names[i]->gone_at == INT64_MAX && rng_range(dice(), 0, seen++) == 0)
			bay = chain->names[i];
	return bay;
}

static void
fate_rm_link(void)
{
	struct inode *bay = any_bay();
	double share = rng_chance(dice(), 0.9) ? 0.05 : 0.5;

	for (size_t i = 0; bay && i < bay->n; i++)
		if (bay->names[i]->gone_at == INT64_MAX && rng_chance(dice(), share)) {
			trace("a script removes %s", bay->names[i]->path);
			histories_fault("remove", bay->names[i]->path);
			fs_unlink(bay->names[i]->path);
		}
}

static void
fate_tamper(void)
{
	const struct inode *bay = any_bay();
	char path[DISK_PATH];
	char name[16];

	if (!bay || !bay->n)
		return;
	/* of a task that has some in this bay */
	const char *like = bay->names[rng_range(dice(), 0, (int64_t)bay->n - 1)]->name;
	if (!strchr(like, '@'))
		return; /* a digest */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(like, "@"), like);
	link_path(path, bay->path, name, (unsigned)rng_range(dice(), 1, 3),
		  rng_chance(dice(), 0.7) ? LINK_CLAIM : LINK_END);
	trace("somebody makes %s", path);
	histories_fault("remove", path); /* as lawless as a removal */
	fs_symlink("a person", path);
}

static void
stall(int64_t us)
{
	trace("the storage stalls for %.1f s", (double)us / SECOND);
	if (sim_now + us > world.stalled_until)
		world.stalled_until = sim_now + us;
	outage(NULL, us);
}

static void
server_crash(void)
{
	int undone = fs_crash(&world.fs_rng, world.manners.undone);
	int64_t us = rng_log(dice(), 0.5 * SECOND, 90.0 * SECOND);

	trace("the server crashes: %d names that were not synced are undone", undone);
	stall(us);
}

static void
befall(enum fate f)
{
	struct proc *p = proc_any(dice());
	struct host *h = p ? p->host : world.hosts[0];
	int64_t steal = world.steal_after_ms * 1000;
	int64_t us;

	if (!p && f != FATE_START)
		return;
	world.fates_met++;
	switch (f) {
	case FATE_KILL:
		fate_kill(p);
		break;
	case FATE_FREEZE:
		fate_freeze(p, rng_log(dice(), 0.01 * SECOND, (double)steal));
		break;
	case FATE_FREEZE_LONG:
		fate_freeze(p, rng_log(dice(), (double)steal / 2, 10.0 * (double)steal));
		break;
	case FATE_SUSPEND:
		fate_suspend(h, rng_log(dice(), (double)steal / 4, 10.0 * (double)steal));
		break;
	case FATE_WEDGE:
		fate_wedge(p, beats(1, 30));
		break;
	case FATE_STALL:
		stall(rng_chance(dice(), 0.7) ? beats(0.05, 4)
					      : rng_log(dice(), MINUTE, 10 * MINUTE));
		break;
	case FATE_CUT:
		us = beats(0.2, 30);
		trace("%s is cut off for %.1f s", h->name, (double)us / SECOND);
		h->cut_until = sim_now + us;
		outage(h, us);
		break;
	case FATE_CUT_ERRORS:
		us = beats(0.2, 20);
		trace("%s has errors only for %.1f s", h->name, (double)us / SECOND);
		h->errors_until = sim_now + us;
		outage(h, us);
		break;
	case FATE_FULL:
		us = beats(0.2, 20);
		trace("the storage is full for %.1f s", (double)us / SECOND);
		world.full_until = sim_now + us;
		break;
	case FATE_READONLY:
		us = beats(0.2, 20);
		trace("the storage is read-only for %.1f s", (double)us / SECOND);
		if (sim_now + us > world.readonly_until)
			world.readonly_until = sim_now + us;
		outage(NULL, us);
		break;
	case FATE_TOUCHLESS:
		us = beats(0.2, 20);
		trace("no times can be set for %.1f s", (double)us / SECOND);
		if (sim_now + us > world.touchless_until)
			world.touchless_until = sim_now + us;
		outage(NULL, us);
		break;
	case FATE_ERRORS:
		us = beats(0.2, 10);
		trace("calls fail for %.1f s", (double)us / SECOND);
		world.errors_until = sim_now + us;
		break;
	case FATE_CRASH:
		server_crash();
		break;
	case FATE_RM_NODE:
		remove_some("nodes", 1.0 / (1 + procs_living()));
		break;
	case FATE_RM_NODES:
		remove_some("nodes", 1);
		break;
	case FATE_CLOCK:
		h->wall_offset += rng_range(dice(), -1, 1) * rng_log(dice(), 1, 7200);
		trace("the clock of %s is set: %+lld s", h->name, (long long)h->wall_offset);
		break;
	case FATE_RM_LINK:
		fate_rm_link();
		break;
	case FATE_TAMPER:
		fate_tamper();
		break;
	case FATE_START:
		start_one(world.hosts[rng_range(dice(), 0, world.nhosts - 1)]);
		break;
	case FATE_LEAVE:
		proc_leave(p);
		sched_at(sim_now + rng_log(dice(), 1.0 * SECOND, 100.0 * SECOND), start_one, h);
		break;
	case FATES:
		break;
	}
}

void
fates_tempt(struct proc *p)
{
	if (world.calm || world.fates[FATE_FREEZE_LONG] <= 0 || !rng_chance(dice(), 0.3))
		return;
	fate_freeze(p, rng_log(dice(), (double)world.beat_ms * 1000,
			       3.0 * (double)world.steal_after_ms * 1000));
}

/* Everything is whole again; somebody must live to go on. */
static void
heal(void)
{
	int64_t last = sim_now;
	const int64_t periods[] = { world.stalled_until, world.full_until, world.readonly_until,
				    world.touchless_until, world.errors_until };

	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++)
		last = periods[i] > last ? periods[i] : last;
	for (int i = 0; i < world.nhosts; i++) {
		const struct host *h = world.hosts[i];

		last = h->cut_until > last ? h->cut_until : last;
		last = h->errors_until > last ? h->errors_until : last;
	}
	sched_sleep(last - sim_now);
	trace("the faults stop");
	world.calm = true;
	world.horizon = sim_now;
	for (int i = 0; i < world.nprocs; i++) {
		struct proc *p = world.procs[i];

		while (!p->dead && !p->closed && p->gate.closed)
			proc_thaw(p);
		if (p->wedged_at >= 0)
			unwedge(p);
	}
	/* whoever read an end goes by it, even when it was deleted: a new daemon sees what is there */
	if (world.chain_touched)
		proc_start(world.hosts[rng_range(dice(), 0, world.nhosts - 1)]);
	while (procs_living() < 2)
		if (!proc_start(world.hosts[rng_range(dice(), 0, world.nhosts - 1)]))
			break;
}

static void
fates_main(void *arg)
{
	double sum = 0;

	(void)arg;
	for (int f = 0; f < FATES; f++)
		sum += world.fates[f];
	while (sum > 0) {
		int64_t us = rng_wait(dice(), (double)world.fate_every);

		if (sim_now + us >= world.horizon)
			break;
		sched_sleep(us);
		double r = rng_unit(dice()) * sum;
		int f = 0;
		while (f < FATES - 1 && r >= world.fates[f])
			r -= world.fates[f++];
		befall((enum fate)f);
	}
	sched_sleep(world.horizon - sim_now);
	heal();
}

void
fates_start(void)
{
	sched_spawn(NULL, NULL, "fate", fates_main, NULL);
}
