/*
 * chaos.c - raser chaos RUN: break what may break, for a while, and see whether the run keeps its
 * promises all the same.
 */
#include <config.h>

#include "ballast.h"
#include "history.h"
#include "inspect.h"
#include "keeper.h"
#include "prey.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	START_MS = 15000, /* for what is just being started */
	LOOK_MS = 200,
	STOPPED_MAX = 64,
	KILLED_MAX = 1024,
	UNFINISHED_MAX = 20,
	EXIT_UNFINISHED = 3,
};

struct stopped {
	struct tree_process process;
	int64_t until;
	char owner[OWNER_TEXT]; /* "" = an agentd */
};

struct chaos {
	struct target target;
	struct disk disk;
	struct queue *queue;
	struct history *history;
	const char *history_dir;
	bool own_dir; /* made for our own history only */
	struct pack pack;
	struct ballast ballast;
	int64_t ballast_until; /* 0 = there is none */
	int keeper, signal_fd;
	bool interrupted, no_fill, no_daemons;
	unsigned short random[3];
	int64_t begin, for_ms, every_ms, wait_ms;
	struct stopped stopped[STOPPED_MAX];
	int nstopped;
	char killed[KILLED_MAX][OWNER_TEXT];
	int nkilled;
};

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

static long
draw(struct chaos *c, long n)
{
	return nrand48(c->random) % n;
}

/* What is about to be done, for people and for the audit, before it is. */
static void
announce(struct chaos *c, const char *what, const char *whom, const char *sentence)
{
	history_write(c->history, now_ms(), "fault\t%s\t%s", what, whom);
	printf("%6.1f s  %s\n", (double)(now_ms() - c->begin) / 1000, sentence);
	fflush(stdout);
}

/* One of the pack that pleases; NULL when there is none. */
typedef bool
prey_fn(struct chaos *c, const struct prey *p);
static struct prey *
pick(struct chaos *c, prey_fn *pleases)
{
	size_t n = 0;

	for (size_t i = 0; i < c->pack.n; i++)
		n += pleases(c, &c->pack.all[i]);
	if (!n)
		return NULL;
	size_t which = (size_t)draw(c, (long)n);
	for (size_t i = 0; i < c->pack.n; i++)
		if (pleases(c, &c->pack.all[i]) && !which--)
			return &c->pack.all[i];
	return NULL;
}

static bool
is_stopped(const struct chaos *c, const struct prey *p)
{
	for (int i = 0; i < c->nstopped; i++)
		if (c->stopped[i].process.pid == p->process.pid)
			return true;
	return false;
}

static bool
is_daemon(struct chaos *c, const struct prey *p)
{
	return p->kind == PREY_DAEMON && !is_stopped(c, p);
}

static bool
is_agentd(struct chaos *c, const struct prey *p)
{
	return p->kind == PREY_AGENTD && !is_stopped(c, p);
}

/* Not one whose task this crash would fail for good: that would be our doing, not a fault's. */
static bool
is_agent(struct chaos *c, const struct prey *p)
{
	const struct conf *conf = queue_conf(c->queue);
	struct task t;

	if (p->kind != PREY_AGENT)
		return false;
	if (!p->task[0] || queue_find(c->queue, p->task, &t))
		return true;
	int64_t max = t.max_failures == MAX_FAILURES_UNSET ? conf->max_failures : t.max_failures;
	return !max || t.counts.failures + 2 < max;
}

/* ---- the faults; each returns whether it did anything ---- */

static bool
kill_daemon(struct chaos *c)
{
	char s[160];
	struct prey *p = pick(c, is_daemon);

	if (!p || c->nkilled == KILLED_MAX)
		return false;
	snprintf(s, sizeof(s), "kill -9   raserfs %s, process %ld", p->owner, (long)p->process.pid);
	announce(c, "kill", p->owner, s);
	memcpy(c->killed[c->nkilled++], p->owner, OWNER_TEXT);
	return tree_signal(&p->process, SIGKILL);
}

static bool
kill_other(struct chaos *c, prey_fn *pleases, const char *what, const char *name)
{
	char s[NAME_LIMIT + 160];
	char whom[32];
	struct prey *p = pick(c, pleases);

	if (!p)
		return false;
	snprintf(whom, sizeof(whom), "%ld", (long)p->process.pid);
	snprintf(s, sizeof(s), "kill -9   %s%s%s, process %s", name, p->task[0] ? " of task " : "",
		 p->task, whom);
	announce(c, what, whom, s);
	return tree_signal(&p->process, SIGKILL);
}

static bool
kill_agentd(struct chaos *c)
{
	return kill_other(c, is_agentd, "agentd", "raser-agentd");
}

static bool
kill_agent(struct chaos *c)
{
	return kill_other(c, is_agent, "agent", "an agent's process");
}

static bool
stop(struct chaos *c, prey_fn *pleases, const char *name)
{
	const struct conf *conf = queue_conf(c->queue);
	char s[160];
	struct prey *p = pick(c, pleases);

	if (!p || c->nstopped == STOPPED_MAX || keeper_owes(c->keeper, &p->process))
		return false;
	/* mostly short, sometimes long enough for others to take what it holds */
	int64_t ms = draw(c, 3) ? 100 + draw(c, (long)conf_beat_ms(conf) * 2) :
				  conf->steal_after_ms + 2 * conf_beat_ms(conf);
	struct stopped *x = &c->stopped[c->nstopped++];
	*x = (struct stopped){ .process = p->process, .until = now_ms() + ms };
	memcpy(x->owner, p->owner, sizeof(x->owner));
	snprintf(s, sizeof(s), "stop      %s%s%s, process %ld, for %.1f s", name,
		 p->owner[0] ? " " : "", p->owner, (long)p->process.pid, (double)ms / 1000);
	announce(c, "stop", p->owner[0] ? p->owner : "agentd", s);
	return tree_signal(&p->process, SIGSTOP);
}

static bool
stop_daemon(struct chaos *c)
{
	return stop(c, is_daemon, "raserfs");
}

static bool
stop_agentd(struct chaos *c)
{
	return stop(c, is_agentd, "raser-agentd");
}

struct claims {
	struct task *all;
	size_t n, cap;
};

static int
on_claim(void *arg, const struct task *t)
{
	struct claims *x = arg;

	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 64;
		struct task *grown = realloc(x->all, cap * sizeof(*grown));

		if (!grown)
			return 1;
		x->all = grown;
		x->cap = cap;
	}
	x->all[x->n++] = *t;
	return 0;
}

/* As rm leases/T@k does on a mount. */
static bool
delete_lease(struct chaos *c)
{
	struct claims x = { 0 };
	char s[NAME_LIMIT + 64];
	char whom[NAME_LIMIT + 32];
	int rc = -ENOENT;

	queue_refresh(c->queue, now_read(), 0, 0);
	queue_list(c->queue, TASK_CLAIMED, 0, on_claim, &x);
	if (x.n) {
		const struct task *t = &x.all[draw(c, (long)x.n)];

		snprintf(whom, sizeof(whom), "%s@%u", t->name, t->attempt);
		snprintf(s, sizeof(s), "delete    leases/%s", whom);
		announce(c, "lease", whom, s);
		rc = queue_revoke(c->queue, t->serial, t->attempt, now_read());
	}
	free(x.all);
	return !rc;
}

static bool
delete_beat(struct chaos *c)
{
	char s[160];
	char path[DISK_PATH];
	struct prey *p = pick(c, is_daemon);

	if (!p)
		return false;
	snprintf(path, sizeof(path), "nodes/%s", p->owner);
	snprintf(s, sizeof(s), "delete    %.100s", path);
	announce(c, "remove", path, s);
	return disk_unlink(&c->disk, path) == 0;
}

static bool
fill(struct chaos *c)
{
	char s[160];

	if (c->no_fill || c->ballast_until)
		return false;
	c->ballast_until = now_ms() + 500 + draw(c, 2000);
	announce(c, "fill", c->ballast.path, "fill      the storage");
	bool full = ballast_load(&c->ballast);
	snprintf(s, sizeof(s), "          %lld MiB, %s", (long long)(c->ballast.size >> 20),
		 full ? "and it refuses more" : "and it is not full: that is as much as may be");
	announce(c, full ? "full" : "other", c->ballast.path, s);
	return full;
}

static struct kind {
	const char *name;
	bool (*fn)(struct chaos *c);
	int weight;
	bool daemon; /* left out with --no-daemons */
	int64_t done;
} kinds[] = {
	{ "agents' processes killed", kill_agent, 5, false, 0 },
	{ "agentds killed", kill_agentd, 3, false, 0 },
	{ "agentds stopped", stop_agentd, 2, false, 0 },
	{ "daemons killed", kill_daemon, 2, true, 0 },
	{ "daemons stopped", stop_daemon, 2, true, 0 },
	{ "leases deleted", delete_lease, 3, false, 0 },
	{ "node files deleted", delete_beat, 2, false, 0 },
	{ "storage filled", fill, 2, false, 0 },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- undoing ---- */

/* Continue what was stopped long enough; all: everything. */
static void
undo(struct chaos *c, bool all)
{
	for (int i = 0; i < c->nstopped;) {
		struct stopped *x = &c->stopped[i];
		char s[160];

		if (!all && x->until > now_ms()) {
			i++;
			continue;
		}
		snprintf(s, sizeof(s), "continue  %s, process %ld", x->owner[0] ? x->owner : "raser-agentd",
			 (long)x->process.pid);
		if (tree_signal(&x->process, SIGCONT))
			announce(c, "cont", x->owner[0] ? x->owner : "agentd", s);
		*x = c->stopped[--c->nstopped];
	}
	if (c->ballast_until && (all || c->ballast_until <= now_ms())) {
		announce(c, "drain", c->ballast.path, "drain     the storage");
		ballast_drop(&c->ballast);
		c->ballast_until = 0;
	}
}

/* ---- the course of it ---- */

/* Wait, but not for longer than until; a signal ends all. */
static void
pass_time(struct chaos *c, int64_t until)
{
	while (!c->interrupted && now_ms() < until) {
		struct pollfd fd = { .fd = c->signal_fd, .events = POLLIN };

		poll(&fd, 1, (int)(until - now_ms()));
		c->interrupted |= (fd.revents & POLLIN) != 0;
	}
}

static void
strike(struct chaos *c)
{
	int sum = 0;

	for (int i = 0; i < KINDS; i++)
		sum += kinds[i].weight;
	long at = draw(c, sum);
	int k = 0;
	while (at >= kinds[k].weight)
		at -= kinds[k++].weight;
	if (kinds[k].daemon && c->no_daemons)
		return;
	if (!prey_find(&c->pack, &c->disk, c->target.run))
		kinds[k].done += kinds[k].fn(c);
}

static bool
was_killed(const struct chaos *c, const char *owner)
{
	for (int i = 0; i < c->nkilled; i++)
		if (!strcmp(c->killed[i], owner))
			return true;
	return false;
}

struct beats {
	const struct chaos *c;
	int dead, living;
};

static int
on_beat(void *arg, const char *name)
{
	struct beats *b = arg;

	if (was_killed(b->c, name))
		b->dead++;
	else
		b->living++;
	return 0;
}

/* Nothing is left to do, and nobody who lives has still to clear up after the dead. */
static bool
is_settled(struct chaos *c)
{
	struct queue_stats s;
	struct beats b = { .c = c };

	if (queue_refresh(c->queue, now_read(), 0, 0) < 0)
		return false;
	queue_stats(c->queue, &s);
	if (s.count[TASK_PENDING] || s.count[TASK_CLAIMED] || s.count[TASK_UNREAD])
		return false;
	return disk_list(&c->disk, "nodes", on_beat, &b) == 0 && (!b.dead || !b.living);
}

static int
on_unfinished(void *arg, const struct task *t)
{
	static const char *const names[] = {
		[TASK_PENDING] = "pending", [TASK_CLAIMED] = "claimed", [TASK_FAILED] = "failed",
		[TASK_CANCELLED] = "cancelled", [TASK_UNREAD] = "not read",
	};
	int64_t *n = arg;

	if (t->state != TASK_DONE && ++*n <= UNFINISHED_MAX)
		printf("not accepted: task %s@%u, %s, %d failures%s%s\n", t->name, t->attempt,
		       names[t->state], t->counts.failures, *reason_name(t->reason) ? ", " : "",
		       reason_name(t->reason));
	return 0;
}

/* What was done and what came of it. Returns an exit status. */
static int
report(struct chaos *c, const struct inspection *given, bool settled)
{
	struct inspection in = *given;
	struct queue_stats s;
	int64_t unfinished = 0;

	printf("\n");
	for (int i = 0; i < KINDS; i++)
		printf("%-26s %lld\n", kinds[i].name, (long long)kinds[i].done);
	printf("\n");
	in.histories = &c->history_dir;
	in.nhistories = 1;
	in.options.settled = settled;
	if (c->own_dir)
		printf("no daemon here writes a history (RASER_HISTORY): what agents were told is not "
		       "checked\n");
	fflush(stdout);
	int status = inspect(&c->target, &in);
	queue_refresh(c->queue, now_read(), 0, 0);
	queue_stats(c->queue, &s);
	queue_list(c->queue, VIEW_ALL, 0, on_unfinished, &unfinished);
	if (unfinished > UNFINISHED_MAX)
		printf("and %lld others\n", (long long)unfinished - UNFINISHED_MAX);
	if (status)
		return status;
	if (unfinished) {
		printf("chaos: %lld tasks were accepted exactly once, %lld not yet or not at all\n",
		       (long long)s.count[TASK_DONE], (long long)unfinished);
		return EXIT_UNFINISHED;
	}
	printf("chaos: each of %lld tasks was accepted exactly once\n", (long long)s.count[TASK_DONE]);
	return 0;
}

static int
wreak(struct chaos *c, const struct inspection *in)
{
	int64_t end = c->begin + c->for_ms;

	bool settled = false;

	while (!c->interrupted && now_ms() < end && !(settled = is_settled(c))) {
		int64_t next = now_ms() + c->every_ms;

		strike(c);
		while (!c->interrupted && now_ms() < next) {
			pass_time(c, now_ms() + LOOK_MS < next ? now_ms() + LOOK_MS : next);
			undo(c, false);
		}
	}
	undo(c, true);
	int64_t until = now_ms() + c->wait_ms;
	if (settled)
		printf("%6.1f s  every task is final\n", (double)(now_ms() - c->begin) / 1000);
	else if (!c->interrupted)
		printf("%6.1f s  over; waiting until every task is final, for %lld s at most\n",
		       (double)(now_ms() - c->begin) / 1000, (long long)c->wait_ms / 1000);
	fflush(stdout);
	while (!c->interrupted && !settled && now_ms() < until) {
		pass_time(c, now_ms() + LOOK_MS);
		settled = is_settled(c);
	}
	return report(c, in, settled);
}

/* ---- the beginning ---- */

/* Where the daemons here write their histories; else a directory for ours alone. */
static bool
choose_history(struct chaos *c, const char *given)
{
	static char dir[PATH_MAX];
	const char *tmp = getenv("TMPDIR");
	struct err err = { 0 };

	c->history_dir = given;
	for (size_t i = 0; i < c->pack.n && !c->history_dir; i++)
		if (c->pack.all[i].kind == PREY_DAEMON &&
		    prey_environ(c->pack.all[i].process.pid, "RASER_HISTORY", dir, sizeof(dir)) &&
		    dir[0] == '/')
			c->history_dir = dir;
	if (!c->history_dir) {
		snprintf(dir, sizeof(dir), "%.3000s/raser-chaos.XXXXXX", tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(dir))
			return complain(1, "%s: %s", dir, strerror(errno)) == 0;
		c->history_dir = dir;
		c->own_dir = true;
	}
	/* what we do by hand is told there, too */
	setenv("RASER_HISTORY", c->history_dir, 1);
	c->history = history_open(c->history_dir, now_ms(), &err);
	return c->history || complain(1, "%s", err.text) == 0;
}

static int
run_chaos(struct chaos *c, const char *history, const struct inspection *in)
{
	struct err err = { 0 };
	char path[PATH_MAX + 64];
	sigset_t set;
	int status = 1;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	snprintf(path, sizeof(path), "%s/logs/chaos.%ld.ballast", c->target.run, (long)getpid());
	c->ballast.path = path;
	c->ballast.fd = -1;
	if (disk_open(&c->disk, c->target.run, &err))
		return complain(1, "%s", err.text);
	c->begin = now_ms();
	while (!prey_find(&c->pack, &c->disk, c->target.run) && !c->pack.n && !c->interrupted &&
	       now_ms() < c->begin + START_MS)
		pass_time(c, now_ms() + LOOK_MS);
	if (!c->pack.n) {
		complain(1, "no daemon or agent of yours works on %s on this machine; start them first, "
			 "as with raser run", c->target.run);
	} else if (choose_history(c, history)) {
		c->queue = target_queue(&c->target);
		c->keeper = c->queue ? keeper_start(path) : -1;
		if (c->keeper >= 0) {
			c->begin = now_ms();
			if (c->wait_ms < 0)
				c->wait_ms = 3 * queue_conf(c->queue)->steal_after_ms + 60000;
			status = wreak(c, in);
			keeper_end(c->keeper);
		}
		if (c->queue)
			queue_close(c->queue, now_read());
	}
	history_close(c->history);
	prey_free(&c->pack);
	disk_close(&c->disk);
	return status;
}

enum { OPT_FOR = 256, OPT_SEED, OPT_EVERY, OPT_WAIT, OPT_HISTORY, OPT_FILL, OPT_FLOOR, OPT_NO_FILL,
       OPT_NO_DAEMONS };

static const struct option options[] = {
	{ "for", required_argument, NULL, OPT_FOR },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "every", required_argument, NULL, OPT_EVERY },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "history", required_argument, NULL, OPT_HISTORY },
	{ "fill", required_argument, NULL, OPT_FILL },
	{ "floor", required_argument, NULL, OPT_FLOOR },
	{ "no-fill", no_argument, NULL, OPT_NO_FILL },
	{ "no-daemons", no_argument, NULL, OPT_NO_DAEMONS },
	{ 0 },
};

int
verb_chaos(int argc, char **argv)
{
	static struct chaos c = { .for_ms = 60000, .every_ms = 500, .wait_ms = -1,
				  .ballast.limit = 4LL << 30, .ballast.floor = 1LL << 30 };
	struct inspection in = { 0 };
	const char *history = NULL;
	const char *run = NULL;
	unsigned long seed = (unsigned long)now_read().boot_ms;
	bool good = true;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "-", options, NULL)) != -1)
		switch (opt) {
		case OPT_FOR:
			good &= (c.for_ms = parse_seconds(optarg)) >= 0;
			break;
		case OPT_SEED:
			seed = strtoul(optarg, NULL, 10);
			break;
		case OPT_EVERY:
			good &= (c.every_ms = parse_seconds(optarg)) > 0;
			break;
		case OPT_WAIT:
			good &= (c.wait_ms = parse_seconds(optarg)) >= 0;
			break;
		case OPT_HISTORY:
			history = optarg;
			break;
		case OPT_FILL:
			good &= parse_size(optarg, &c.ballast.limit);
			break;
		case OPT_FLOOR:
			good &= parse_size(optarg, &c.ballast.floor);
			break;
		case OPT_NO_FILL:
			c.no_fill = true;
			break;
		case OPT_NO_DAEMONS:
			c.no_daemons = true;
			break;
		case 1:
			good &= !run;
			run = optarg;
			break;
		default:
			return usage_error();
		}
	if (!run || !good || optind < argc)
		return usage_error();
	if (!target_find(run, &c.target))
		return 1;
	c.random[0] = (unsigned short)seed;
	c.random[1] = (unsigned short)(seed >> 16);
	c.random[2] = 0x330e;
	printf("chaos on %s for %.0f s, seed %lu\n", c.target.run, (double)c.for_ms / 1000, seed);
	fflush(stdout);
	return run_chaos(&c, history, &in);
}
