/*
 * chaos.c - raser chaos RUN: break what may break, for a while, and see whether the run keeps its
 * promises all the same.
 */
#include <config.h>

#include "chaos_impl.h"
#include "folder.h"
#include "keeper.h"

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
	UNFINISHED_MAX = 20,
	EXIT_UNFINISHED = 3,
};

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

		int64_t left = until - now_ms();

		poll(&fd, 1, left > 0 ? (int)left : 0); /* below 0 is for ever */
		c->interrupted |= (fd.revents & POLLIN) != 0;
	}
}

static void
strike(struct chaos *c)
{
	int sum = 0;

	for (const struct fault *f = chaos_faults; f->name; f++)
		sum += f->weight;
	long at = draw(c, sum);
	int k = 0;
	while (at >= chaos_faults[k].weight)
		at -= chaos_faults[k++].weight;
	if (chaos_faults[k].daemon && c->no_daemons)
		return;
	if (!prey_find(&c->prey, &c->disk, c->target.run))
		c->done[k] += chaos_faults[k].fn(c);
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
	for (int i = 0; chaos_faults[i].name; i++)
		printf("%-26s %lld\n", chaos_faults[i].name, (long long)c->done[i]);
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
	for (size_t i = 0; i < c->prey.n && !c->history_dir; i++)
		if (c->prey.all[i].owner[0] &&
		    prey_environ(c->prey.all[i].process.pid, "RASER_HISTORY", dir, sizeof(dir)) &&
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
	sigset_t set;
	int status = 1;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	snprintf(c->ballast_path, sizeof(c->ballast_path), "%s/logs/chaos.%ld.ballast", c->target.run,
		 (long)getpid());
	c->ballast.path = c->ballast_path;
	c->ballast.fd = -1;
	if (disk_open(&c->disk, c->target.run, &err))
		return complain(1, "%s", err.text);
	c->begin = now_ms();
	while (!prey_find(&c->prey, &c->disk, c->target.run) && !c->prey.n && !c->interrupted &&
	       now_ms() < c->begin + START_MS)
		pass_time(c, now_ms() + LOOK_MS);
	if (!c->prey.n) {
		complain(1, "no daemon or agent of yours works on %s on this machine; start them first, "
			 "as with raser run", c->target.run);
	} else if (choose_history(c, history)) {
		/* without a beat: daemons live, so nobody can seal the run meanwhile */
		c->queue = target_queue(&c->target, false);
		c->keeper = c->queue ? keeper_start(c->ballast_path) : -1;
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
	if (c->own_dir)
		folder_remove(c->history_dir);
	prey_free(&c->prey);
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
				  .ballast.limit = 1LL << 30, .ballast.floor = 1LL << 30 };
	struct inspection in = { 0 };
	const char *history = NULL;
	const char *run = NULL;
	unsigned long seed = (unsigned long)now_read().boot_ms;
	bool good = true;
	char more;
	int opt;

	while ((opt = getopt_long(argc, argv, "-", options, NULL)) != -1)
		switch (opt) {
		case OPT_FOR:
			good &= (c.for_ms = parse_seconds(optarg)) >= 0;
			break;
		case OPT_SEED:
			good &= optarg && sscanf(optarg, "%lu%c", &seed, &more) == 1;
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
