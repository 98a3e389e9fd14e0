/*
 * world.c - what a seed draws, and one run from its beginning to its verdict.
 */
#include <config.h>

#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_BEATS = 3, BURIALS = 20 };

struct world world;
enum bent world_bent;
bool sim_trace;

void
trace(const char *fmt, ...)
{
	va_list args;

	if (!sim_trace)
		return;
	const struct proc *p = sched_proc();
	printf("%12.6f %4d %-9s ", (double)sim_now / SECOND, p ? p->id : -1, sched_name());
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void
broken(const char *fmt, ...)
{
	va_list args;
	char text[512];

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	trace("BROKEN: %s", text);
	if (!world.broken++)
		snprintf(world.why, sizeof(world.why), "%s", text);
}

static char scratch[200];

static void
remove_scratch(void)
{
	rmdir(scratch);
}

const char *
world_scratch(void)
{
	struct stat st;
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = stat("/dev/shm", &st) || !S_ISDIR(st.st_mode) ? "/tmp" : "/dev/shm";
	snprintf(scratch, sizeof(scratch), "%.150s/raser-sim.XXXXXX", tmp);
	if (!mkdtemp(scratch)) {
		perror(scratch);
		exit(1);
	}
	atexit(remove_scratch);
	return scratch;
}

/* ---- drawing ---- */

/* With that chance something between low and high, every order of magnitude
 * alike; else 0. */
static double
maybe(double chance, double low, double high)
{
	bool on = rng_chance(&world.rng, chance);
	double x = low * pow(high / low, rng_unit(&world.rng));

	return on ? x : 0;
}

static void
draw_manners(struct manners *m)
{
	struct rng *r = &world.rng;

	m->latency = rng_log(r, 100, 5000);
	m->slow = maybe(0.4, 0.0005, 0.05);
	m->slow_max = rng_log(r, 50000, 20.0 * SECOND);
	m->again = maybe(0.4, 0.001, 0.1);
	m->again_max = rng_log(r, 0.1 * SECOND, 3.0 * HOUR);
	m->eexist = maybe(0.4, 0.005, 0.3);
	m->lost_reply = maybe(0.35, 0.002, 0.1);
	m->lost_call = maybe(0.35, 0.002, 0.1);
	m->late_call = maybe(0.3, 0.002, 0.05);
	m->read_error = maybe(0.3, 0.001, 0.03);
	m->cache = (int64_t)maybe(0.5, 1.0 * SECOND, 60.0 * SECOND);
	m->list_lag = (int64_t)maybe(0.3, 1000, 0.9 * SECOND);
	m->list_twice = maybe(0.3, 0.01, 0.3);
	m->stat_lag = (int64_t)maybe(0.2, 10000, 1.5 * SECOND);
	m->times_of_client = rng_chance(r, 0.4);
	m->times_never_fall = m->times_of_client && rng_chance(r, 0.5);
	m->undone = rng_unit(r);
	if (m->stat_lag > world.beat_ms * 250)
		m->stat_lag = world.beat_ms * 250;
	world.coherent = !m->cache && !m->list_lag;
}

static void
draw_fates(void)
{
	struct rng *r = &world.rng;
	int kinds = (int)rng_range(r, 0, 6);

	for (int i = 0; i < kinds; i++)
		world.fates[rng_range(r, 0, FATES - 1)] = rng_range(r, 1, 5);
	/* deleting links makes the promises weaker: in few worlds only */
	if ((world.fates[FATE_RM_LINK] > 0 || world.fates[FATE_TAMPER] > 0) && rng_chance(r, 0.6))
		world.fates[FATE_RM_LINK] = world.fates[FATE_TAMPER] = 0;
	world.chain_touched = world.fates[FATE_RM_LINK] > 0 || world.fates[FATE_TAMPER] > 0;
	world.fate_every = rng_log(r, 0.3 * (double)world.beat_ms * 1000,
				   20.0 * (double)world.beat_ms * 1000);
}

static void
draw_hosts(int procs)
{
	struct rng *r = &world.rng;

	world.nhosts = (int)rng_range(r, (procs + 1) / 2, procs);
	for (int i = 0; i < world.nhosts; i++) {
		struct host *h = calloc(1, sizeof(*h));

		if (!h)
			abort();
		h->id = i;
		snprintf(h->name, sizeof(h->name), "n%03d", i);
		snprintf(h->boot_id, sizeof(h->boot_id), "boot-%d-%08x", i, (unsigned)rng_next(r));
		h->boot_offset = rng_log(r, 1.0 * SECOND, 1000.0 * HOUR);
		h->wall_offset = rng_chance(r, 0.4) ? rng_range(r, -7200, 7200) : 0;
		world.hosts[i] = h;
	}
}

/* A server that forgets every claim, again and again, and agents who wait for each: only in such a
 * world is a claim made again by another before its holder has looked. */
static void
draw_forgetful(void)
{
	struct manners *m = &world.manners;
	int64_t beat = world.beat_ms * 1000;

	memset(world.fates, 0, sizeof(world.fates));
	world.fates[FATE_CRASH] = 1;
	world.fate_every = rng_range(&world.rng, beat, 4 * beat);
	world.chain_touched = false;
	world.coherent = true;
	m->cache = m->list_lag = 0;
	m->undone = 1;
	world.agents_each = 4;
	world.work_max = rng_range(&world.rng, beat / 2, 2 * beat);
}

static void
bend(enum bent how)
{
	struct manners *m = &world.manners;

	switch (how) {
	case BENT_NOT:
		return;
	case BENT_FREEZES:
		memset(world.fates, 0, sizeof(world.fates));
		world.fates[FATE_FREEZE_LONG] = 1;
		world.fate_every = 2 * world.beat_ms * 1000;
		world.chain_touched = false;
		return;
	case BENT_REMEMBERS:
	case BENT_FORGETS:
		draw_forgetful();
		world.horizon = 20 * world.steal_after_ms * 1000;
		world.bays_apart = true;
		break;
	}
	if (how == BENT_REMEMBERS) {
		m->cache = 60 * SECOND;
		world.coherent = false;
		world.hands_too = true;
	}
}

bool
world_seals(uint64_t seed)
{
	return seed % 5 == 0;
}

/* People seal: the world lasts long enough for that, and nobody deletes by hand what is sealed. */
static void
draw_sealing(void)
{
	world.seals_too = true;
	world.horizon *= 2;
	world.fates[FATE_RM_LINK] = world.fates[FATE_TAMPER] = 0;
	world.chain_touched = false;
}

static int
draw_world(void)
{
	struct rng *r = &world.rng;
	bool large = rng_chance(r, 0.01);
	int procs = (int)(large ? rng_log(r, 30, 200) : rng_log(r, 2, 13));

	world.steal_after_ms = rng_log(r, 6000, 180000);
	world.beat_ms = world.steal_after_ms / 6;
	world.ntiers = 3;
	world.agents_each = (int)rng_range(r, 1, large ? 2 : 4);
	world.submitted = (int)rng_log(r, 3, large ? 300 : 100);
	world.horizon = rng_log(r, 4.0 * (double)world.steal_after_ms * 1000,
				(large ? 6.0 : 20.0) * (double)world.steal_after_ms * 1000);
	world.work_max = rng_log(r, 0.5 * (double)world.beat_ms * 1000,
				 4.0 * (double)world.steal_after_ms * 1000);
	world.living_max = world.living_usual = procs + 2;
	draw_manners(&world.manners);
	draw_fates();
	if (rng_chance(r, 0.05))
		draw_forgetful();
	bend(world_bent);
	draw_hosts(procs);
	if (world_seals(world.seed))
		draw_sealing();
	return procs;
}

/* ---- running ---- */

static void
make_run(void)
{
	static const char *const dirs[] = { "batches", "chain", "nodes" };
	char text[256];

	fs_begin(world.scratch);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		fs_mkdir(dirs[i]);
	random_text(world.uuid, UUID_TEXT - 1);
	format_text(text, sizeof(text), world.uuid);
	fs_create("FORMAT", text, strlen(text), 0);
	snprintf(text, sizeof(text),
		 "[run]\nsteal_after = %.3f\nretry_delay = 5\nmax_failures = "
		 "5\nmax_losses = 10\n"
		 "[tier low]\nfailures = 0\n[tier medium]\nfailures = 1\n[tier "
		 "high]\nfailures = all\n",
		 (double)world.steal_after_ms / 1000);
	fs_create("raser.ini", text, strlen(text), 0);
	fs_sync(".");
}

/* Tasks that go on failing must end all the same, so this is long. */
static int64_t
patience(void)
{
	return 60 * world.steal_after_ms * 1000 + (int64_t)world.submitted * 20 * SECOND;
}

/* As some daemon sees it: cheaper to ask than the truth. */
static bool
seems_final(void)
{
	struct queue_stats s;
	const struct proc *p = proc_any(&world.rng);

	if (!p || !p->q)
		return false;
	queue_stats(p->q, &s);
	return !s.count[TASK_PENDING] && !s.count[TASK_CLAIMED] && !s.count[TASK_UNREAD];
}

static void
until_final(void)
{
	char open[NAME_LIMIT + 64] = "";
	int64_t until = sim_now + patience();

	sched_sleep(world.beat_ms * 1000);
	while ((!seems_final() || !rules_all_final(open, sizeof(open))) && sim_now < until)
		sched_sleep(POLL_BEATS * world.beat_ms * 1000);
	if (sim_now >= until && !rules_all_final(open, sizeof(open)))
		broken("%.0f s after the faults stopped %s", (double)patience() / SECOND, open);
}

/* Time to bury the dead: every beat that fails, of whoever watches them, begins it anew. */
static void
until_buried(int least)
{
	int most = world.seals_too ? 3 * BURIALS : BURIALS; /* of many more */

	for (int i = 0; i < most && (i < least || rules_ghosts()); i++)
		sched_sleep(6 * world.beat_ms * 1000);
}

/* Every daemon comes to know it; only where links are deleted by hand some may not. */
static void
until_known(void)
{
	char text[128] = "";
	int64_t until = sim_now + patience();

	if (world.chain_touched)
		return;
	while (!rules_views_agree(text, sizeof(text)) && sim_now < until)
		sched_sleep(POLL_BEATS * world.beat_ms * 1000);
	if (sim_now >= until)
		broken("%.0f s after all was final %s", (double)patience() / SECOND, text);
}

static void
watch_world(void *arg)
{
	(void)arg;
	while (!world.calm)
		sched_sleep(world.horizon > sim_now ? world.horizon - sim_now : SECOND);
	until_final();
	sealing_finish();
	/* what was sent long ago arrives at last; a reopening may have been among it */
	trace("all is final; what is under way arrives");
	client_flush();
	until_buried(2);
	until_final();
	until_buried(0); /* who came only now has not had the time */
	trace("all is final");
	until_known();
	/* nobody is left to bury the last ones, so their farewell arrives */
	world.manners.lost_call = world.manners.late_call = 0;
	world.over = true;
	for (int i = 0; i < world.nprocs; i++)
		proc_leave(world.procs[i]);
}

static void
clean_up(void)
{
	sched_end();
	rules_end();
	histories_end();
	fs_end();
	for (int i = 0; i < world.nhosts; i++) {
		free(world.hosts[i]->cached);
		free(world.hosts[i]->seen);
		free(world.hosts[i]);
	}
	for (int i = 0; i < world.nprocs; i++)
		free(world.procs[i]);
	free(world.outages);
}

int
world_run(uint64_t seed, const char *tmp)
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.rng.state = seed * 3 + 1;
	world.fs_rng.state = seed * 3 + 2;
	world.q_rng.state = seed * 3 + 3;
	world.seal_rng.state = ~seed;
	snprintf(world.scratch, sizeof(world.scratch), "%s", tmp);
	sched_begin(seed);
	rules_begin();
	histories_begin();
	int procs = draw_world();
	make_run();
	for (int i = 0; i < procs; i++)
		proc_start(world.hosts[i % world.nhosts]);
	people_start();
	fates_start();
	sealing_start();
	sched_spawn(NULL, NULL, "watcher", watch_world, NULL);
	sched_run();
	rules_judge();
	histories_judge();
	int rc = world.broken;
	clean_up();
	return rc;
}
