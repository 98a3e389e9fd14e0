/*
 * job.c - raser job: the batch process of a Slurm array task, and outside of Slurm whatever keeps one
 * agent going.
 *
 * It mounts, starts one raser-agentd, and starts again what dies. A signal ends that: the task is given
 * back first, and only when nothing of us is left is Slurm asked for a requeue, since its answer to
 * that is a SIGTERM.
 */
#include <config.h>

#include "allotment.h"
#include "brakes.h"
#include "comeback.h"
#include "crew.h"
#include "memory.h"
#include "mounting.h"
#include "orphans.h"
#include "place.h"
#include "raser.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	TURN_MS = 1000,
	SOON_MS = 50, /* while something is being ended */
	USE_MS = 60000,
	BUDGET_MS = 300000, /* all jobs read what all have used */
	START_FIRST_MS = 1000,
	START_LAST_MS = 60000,
	START_PATIENCE_MS = 300000, /* with a run directory that cannot be served */
	REQUEUE_TRIES = 3,
	UNFIT_REQUEUES = 3,
	UNFIT_MS = 30000,
	EXIT_GIVEN_BACK = 99,
};

/* Why it ends. */
enum why {
	WHY_NOT,
	WHY_DRAINED,
	WHY_UNFIT,  /* for agents, this node is */
	WHY_SIGNAL,
	WHY_LATE,   /* what is left takes longer than we have */
	WHY_BRAKE,
	WHY_LOST,   /* the run is */
};

struct job {
	struct target target;
	struct conf conf;
	struct comeback comeback;
	struct place place;
	struct mounting mounting;
	struct crew crew;
	struct agent agent;
	struct orphans orphans;
	int signal_fd;
	enum mount_wanted { WANT_AUTO, WANT_PRIVATE, WANT_VISIBLE, WANT_NONE } wanted;
	bool mounted;
	bool slow; /* agentd has died so often that it is started at the longest pause */
	struct allotment time;
	char options[PATH_MAX + 100]; /* for raserfs */
	int64_t began, next_use, next_budget;

	enum why why;
};

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* ---- signals ---- */

static void
give_back(struct job *j, enum why why)
{
	if (j->why == WHY_NOT || j->why == WHY_UNFIT)
		j->why = why;
	crew_stop(&j->crew);
}

static void
on_signals(struct job *j)
{
	struct signalfd_siginfo si;

	while (read(j->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			continue;
		bool first = j->why == WHY_NOT;

		if (first)
			log_info("%s: the agent saves its work and gives its task back",
				 si.ssi_signo == SIGTERM ? "SIGTERM" :
				 si.ssi_signo == SIGUSR1 ? "SIGUSR1" :
							   strsignal((int)si.ssi_signo));
		give_back(j, WHY_SIGNAL);
		comeback_signal(&j->comeback, (int)si.ssi_signo);
	}
}

/* ---- children ---- */

static void
on_agent(struct job *j, const struct agent *a, int status)
{
	/* who dies again and again says why itself */
	bool known = !a->ended && a->pause_ms == CREW_PAUSE_LAST_MS && j->slow;

	j->slow = a->pause_ms == CREW_PAUSE_LAST_MS;
	if (known)
		return;
	if (WIFSIGNALED(status))
		log_warnx("raser-agentd was killed by signal %d%s", WTERMSIG(status),
			  a->ended ? "" : "; starting it again");
	else if (!a->ended)
		log_warnx("raser-agentd ended with status %d; starting it again", a->status);
	if (a->ended && a->status == 0)
		j->why = WHY_DRAINED; /* whatever was meanwhile, nothing is left to come back for */
	if (!a->ended || j->why != WHY_NOT)
		return;
	if (a->status == AGENTD_LATE) {
		j->why = WHY_LATE;
	} else {
		log_warnx("agents cannot run on this node as raser.ini asks");
		j->why = WHY_UNFIT;
	}
}

static void
reap(struct job *j)
{
	char what[200];
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (slurm_reaped(&j->comeback.call, pid, status))
			continue;
		const struct agent *a = crew_reaped(&j->crew, pid, status, now_ms());
		if (a)
			on_agent(j, a, status);
		if (pid != j->mounting.daemon)
			continue;
		if (!mounting_died(&j->mounting, status, now_ms(), what, sizeof(what))) {
			log_warnx("%s is another run by now", j->target.run);
			give_back(j, WHY_LOST);
		} else if (what[0] && j->why == WHY_NOT) {
			log_warnx("%s", what);
		}
	}
}

static bool
is_known(const void *arg, pid_t pid)
{
	const struct job *j = arg;

	return pid == j->mounting.daemon || pid == j->comeback.call.pid || crew_has(&j->crew, pid);
}

/* ---- brakes ---- */

static void
write_use(struct job *j)
{
	int64_t now = now_ms();

	if (!j->comeback.self.inside)
		return;
	j->next_use = now + USE_MS;
	int rc = brakes_use(j->target.run, j->comeback.self.job, j->comeback.self.restarts,
			    (double)(now - j->began) / 1000 * j->comeback.self.share);
	if (rc)
		log_warnx("%s/slurm/use: the time that this job uses cannot be written down: %s",
			  j->target.run, strerror(-rc));
}

/* False when the run is to be left alone, and why was said. */
static bool
check_brakes(const struct job *j, bool start)
{
	struct brakes b;
	char why[200];

	brakes_read(&b, j->target.run);
	enum brake brake = brakes_check(&b, &j->conf.limits, now_read().wall_s, -1, why, sizeof(why));
	if (brake == BRAKE_NONE || (brake != BRAKE_HOURS && !start))
		return true;
	log_info("%s", why);
	return false;
}

static void
on_time(struct job *j)
{
	int64_t now = now_ms();

	if (now >= j->next_use)
		write_use(j);
	if (!(j->conf.limits.node_hours > 0) || now < j->next_budget || j->why != WHY_NOT)
		return;
	j->next_budget = now + BUDGET_MS;
	if (!check_brakes(j, false))
		give_back(j, WHY_BRAKE);
}

/* Does it come back? */
static bool
wants_requeue(const struct job *j)
{
	switch (j->why) {
	case WHY_SIGNAL:
	case WHY_LATE:
		return comeback_wanted(&j->comeback, true);
	case WHY_UNFIT:
		return comeback_wanted(&j->comeback, j->comeback.self.restarts < UNFIT_REQUEUES);
	default:
		return false;
	}
}

/* ---- the loop ---- */

static void
turn(struct job *j, int64_t wait)
{
	struct pollfd p[2] = { { .fd = j->signal_fd, .events = POLLIN },
			       { .fd = comeback_busy(&j->comeback) ? j->comeback.call.fd : -1,
				 .events = POLLIN } };

	poll(p, 2, wait < 0 ? 0 : (int)wait);
	on_signals(j);
	reap(j);
	comeback_turn(&j->comeback);
	if (j->mounted && j->why != WHY_LOST)
		mounting_again(&j->mounting, &j->target, now_ms(), 0);
	orphans_end(&j->orphans, is_known, j, now_ms());
}

static void
work(struct job *j)
{
	while (crew_start(&j->crew, now_ms())) {
		int64_t wait = crew_due(&j->crew) - now_ms();

		if (j->mounted && !j->mounting.daemon && j->mounting.restart_at - now_ms() < wait)
			wait = j->mounting.restart_at - now_ms();
		turn(j, wait < TURN_MS ? wait : TURN_MS);
		on_time(j);
	}
	/* who leaves a broken node at once makes room there for the next job */
	int64_t until = now_ms() + UNFIT_MS;
	while (j->why == WHY_UNFIT && wants_requeue(j) && now_ms() < until)
		turn(j, TURN_MS);
	/* nothing of an agent outlives the job, and what scontrol says is waited for */
	j->orphans.next = 0;
	while (orphans_end(&j->orphans, is_known, j, now_ms()) || comeback_busy(&j->comeback))
		turn(j, SOON_MS);
}

/* ---- the mount ---- */

/* Choose how to mount, or not to: what works here, if it is left to us. Says why not. */
static enum mount_wanted
choose_mount(const struct job *j)
{
	struct err err = { 0 };
	char path[PATH_MAX];

	if (j->wanted != WANT_AUTO)
		return j->wanted;
	if (!mounting_try(j->place.local, &err))
		return WANT_PRIVATE;
	log_info("no private mount can be had here: %s", err.text);
	if (mounting_fusermount(path, &err))
		return WANT_VISIBLE;
	log_info("nor any other: %s", err.text);
	return WANT_NONE;
}

static bool
without_mount(struct job *j)
{
	log_info("working on %s without a mount", j->target.run);
	j->crew.mount = NULL;
	j->crew.direct = j->target.run;
	return true;
}

/* Be served, with a mount or without; or false. */
static bool
mount_run(struct job *j)
{
	const enum mount_wanted how = choose_mount(j);
	const struct mounting_spec spec = { .dir = j->place.point, .always = true, .log_fd = -1,
					    .options = *j->options ? j->options : NULL,
					    .how = how == WANT_VISIBLE ? MOUNTING_VISIBLE :
									 MOUNTING_PRIVATE };
	int64_t until = now_ms() + START_PATIENCE_MS;
	int64_t pause = START_FIRST_MS;

	if (how == WANT_NONE)
		return without_mount(j);
	j->crew.mount = j->place.point;
	while (!mounting_start(&j->mounting, &j->target, &spec)) {
		if (j->mounting.stopped)
			return false;
		if (how == WANT_VISIBLE && j->wanted == WANT_AUTO)
			return without_mount(j);
		if (now_ms() + pause > until)
			return false;
		log_warnx("trying again in %lld s", (long long)pause / 1000);
		for (int64_t at = now_ms() + pause; now_ms() < at && j->why == WHY_NOT;)
			turn(j, at - now_ms());
		if (j->why != WHY_NOT)
			return false;
		pause = pause * 2 < START_LAST_MS ? pause * 2 : START_LAST_MS;
	}
	j->mounted = true;
	log_info("%s is mounted at %s%s", j->target.run, j->mounting.dir,
		 j->mounting.private_ns ? ", for this job alone" : "");
	return true;
}

/* ---- leaving ---- */

/* A cancel may come at any moment. */
static void
hear(struct job *j)
{
	on_signals(j);
	while (comeback_busy(&j->comeback))
		turn(j, SOON_MS);
}

/* Ask for it, while it is wanted. False when a brake holds. */
static bool
requeue(struct job *j)
{
	struct brakes b;
	char why[200];

	brakes_read(&b, j->target.run);
	if (brakes_check(&b, &j->conf.limits, now_read().wall_s, j->comeback.self.restarts, why,
			 sizeof(why))) {
		log_info("not requeued: %s", why);
		return false;
	}
	for (int i = 0; i < REQUEUE_TRIES && wants_requeue(j); i++) {
		if (comeback_ask(&j->comeback) != COMEBACK_FAILED)
			break;
		poll(NULL, 0, START_FIRST_MS << i);
		hear(j);
	}
	return true;
}

static int
leave(struct job *j)
{
	static const int statuses[] = { [WHY_SIGNAL] = EXIT_GIVEN_BACK, [WHY_LATE] = EXIT_GIVEN_BACK,
					[WHY_LOST] = 1 };
	bool free = true; /* no brake holds */

	if (j->mounted)
		mounting_end(&j->mounting);
	j->mounted = false;
	place_end(&j->place);
	cgroup_sweep(memory_roots_system());
	write_use(j);
	hear(j);
	if (wants_requeue(j))
		free = requeue(j);
	if (j->why == WHY_UNFIT)
		return j->agent.status;
	return free && j->comeback.verdict != SLURM_NEVER ? statuses[j->why] : 0;
}

/* ---- the beginning ---- */

static void
take_signals(struct job *j)
{
	static const int signals[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	j->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int
run_job(struct job *j)
{
	const struct slurm_self *self = &j->comeback.self;
	char day[32] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm)) /* what follows has but the time of day */
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	if (self->inside)
		log_info("%s: job %s (%s), restart %d: an agent of tier %s on %s", day, self->id, self->job,
			 self->restarts, j->agent.tier, self->node);
	else
		log_info("%s: an agent of tier %s", day, j->agent.tier);
	if (!check_brakes(j, true))
		return 0;
	if (!place_make(&j->place, j->target.run, j->conf.slurm.local, self->id, self->restarts))
		return 1;
	allotment_find(&j->time, self, j->conf.slurm.signal_before);
	if (*j->time.until) {
		crew_hand_on(&j->crew, "until", j->time.until);
		crew_hand_on(&j->crew, "since", j->time.since);
	}
	crew_hand_on(&j->crew, "workspaces", j->place.local);
	allotment_options(&j->time, j->place.local, j->options, sizeof(j->options));
	if (mount_run(j)) {
		write_use(j);
		work(j);
	} else if (j->mounting.stopped && j->why == WHY_NOT) {
		on_signals(j);
	} else if (j->why == WHY_NOT) {
		j->why = WHY_LOST;
	}
	return leave(j);
}

static bool
parse_mount(const char *word, enum mount_wanted *wanted)
{
	static const char *const words[] = { [WANT_AUTO] = "auto", [WANT_PRIVATE] = "private",
					     [WANT_VISIBLE] = "visible", [WANT_NONE] = "none" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], word)) {
			*wanted = (enum mount_wanted)i;
			return true;
		}
	return complain(EXIT_USAGE, "--mount is auto, private, visible or none, not %s", word) == 0;
}

/* 0, or an exit status after a message. */
static int
check_run(struct job *j, const char *run, const char *tier)
{
	struct err err = { 0 };

	if (!target_find(run, &j->target))
		return 1;
	if (conf_load(&j->conf, j->target.run, &err))
		return complain(1, "%s", err.text);
	if (conf_tier(&j->conf, tier) < 0)
		return complain(EXIT_USAGE, "raser.ini has no tier %s", tier);
	return crew_check_command(&j->crew, j->target.run);
}

int
verb_job(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tier", required_argument, NULL, 't' },
		{ "mount", required_argument, NULL, 'm' },
		CREW_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	static struct job j; /* it holds paths */
	const char *tier = NULL;
	const char *run = NULL;
	int which;
	int c;

	j = (struct job){ .crew = { .agents = &j.agent, .log_fd = -1 }, .place.lock_fd = -1,
			  .began = now_ms() };
	while ((c = getopt_long(argc, argv, "-", options, &which)) != -1) {
		if (c == 's' && !crew_hand_on(&j.crew, options[which].name, optarg))
			return complain(EXIT_USAGE, "too many options for agents");
		if (c == 't')
			tier = optarg;
		else if (c == 'm' && !parse_mount(optarg, &j.wanted))
			return EXIT_USAGE;
		else if (c == 1 && !run)
			run = optarg;
		else if (c == 1 || c == '?')
			return usage_error();
	}
	j.crew.command = argv + optind;
	if (!run || !tier)
		return usage_error();
	if (argc - optind > CREW_COMMAND_MAX)
		return complain(EXIT_USAGE, "the command has more than %d words", CREW_COMMAND_MAX);
	log_init("raser job", LOG_INFO);
	take_signals(&j);
	int status = check_run(&j, run, tier);
	if (status)
		return status;
	crew_add(&j.crew, tier);
	comeback_init(&j.comeback);
	return run_job(&j);
}
