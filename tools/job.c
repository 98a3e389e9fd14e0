/*
 * job.c - raser job: the batch process of a Slurm array task, and outside of Slurm whatever keeps one
 * agent going.
 *
 * It mounts, starts one raser-agentd, and starts again what dies. A signal ends that: the task is given
 * back first, and only when nothing of us is left is Slurm asked for a requeue, since its answer to
 * that is a SIGTERM.
 */
#include <config.h>

#include "brakes.h"
#include "crew.h"
#include "memory.h"
#include "mounting.h"
#include "orphans.h"
#include "place.h"
#include "raser.h"
#include "slurm.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
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
	EXIT_GIVEN_BACK = 99,
};

/* Why it ends. */
enum why { WHY_NOT, WHY_DRAINED, WHY_UNFIT, WHY_SIGNAL, WHY_LATE, WHY_BRAKE, WHY_LOST };

struct job {
	struct target target;
	struct conf conf;
	struct slurm_self self;
	struct place place;
	struct mounting mounting;
	struct crew crew;
	struct agent agent;
	struct orphans orphans;
	int signal_fd;
	enum mount_wanted { WANT_AUTO, WANT_PRIVATE, WANT_VISIBLE, WANT_NONE } wanted;
	bool mounted;
	int64_t began, next_use, next_budget;

	enum why why;
	bool warned; /* by SIGUSR1 */
	bool ask_again;
	struct slurm_call call; /* scontrol, after a SIGTERM */
	enum slurm_verdict verdict;
};

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* ---- signals ---- */

static void
ask_slurm(struct job *j)
{
	char *const argv[] = { "scontrol", "-o", "show", "job", j->self.id, NULL };

	if (!j->self.inside)
		return;
	if (j->call.pid) {
		j->ask_again = true;
		return;
	}
	int rc = slurm_begin(&j->call, argv, now_ms(), SLURM_LIMIT_MS);
	if (rc)
		log_warnx("scontrol: %s", strerror(-rc));
}

/* scontrol has answered, or has not. */
static void
on_answer(struct job *j)
{
	struct slurm_job shown;
	char why[160];
	int rc = slurm_result(&j->call);
	bool known = rc == 0 && slurm_parse(j->call.text, &shown);

	j->verdict = slurm_decide(known ? &shown : NULL, j->self.restarts, why, sizeof(why));
	if (known)
		log_info("%s", why);
	else
		log_warnx("scontrol does not tell why this job is to end: %.200s",
			  rc == -ETIMEDOUT ? "no answer" : j->call.text);
	if (!j->ask_again)
		return;
	j->ask_again = false;
	ask_slurm(j);
}

static void
give_back(struct job *j, enum why why)
{
	if (j->why == WHY_NOT)
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

		if (si.ssi_signo == SIGUSR1)
			j->warned = true;
		if (first)
			log_info("SIG%s: the agent saves its work and gives its task back",
				 sigabbrev_np((int)si.ssi_signo));
		give_back(j, WHY_SIGNAL);
		/* each time, since a cancel may follow anything else */
		if (si.ssi_signo != SIGUSR1)
			ask_slurm(j);
	}
}

/* ---- children ---- */

static void
on_agent(struct job *j, const struct agent *a, int status)
{
	if (WIFSIGNALED(status))
		log_warnx("raser-agentd was killed by signal %d%s", WTERMSIG(status),
			  a->ended ? "" : "; starting it again");
	else if (!a->ended)
		log_warnx("raser-agentd ended with status %d; starting it again", a->status);
	if (!a->ended || j->why != WHY_NOT)
		return;
	if (a->status == 0) {
		j->why = WHY_DRAINED;
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
		if (slurm_reaped(&j->call, pid, status))
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

	return pid == j->mounting.daemon || pid == j->call.pid || crew_has(&j->crew, pid);
}

/* ---- brakes ---- */

static void
write_use(struct job *j)
{
	int64_t now = now_ms();

	if (!j->self.inside)
		return;
	j->next_use = now + USE_MS;
	int rc = brakes_use(j->target.run, j->self.job, j->self.restarts,
			    (double)(now - j->began) / 1000 * j->self.share);
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

/* ---- the loop ---- */

static void
turn(struct job *j, int64_t wait)
{
	struct pollfd p[2] = { { .fd = j->signal_fd, .events = POLLIN },
			       { .fd = j->call.pid ? j->call.fd : -1, .events = POLLIN } };

	poll(p, 2, wait < 0 ? 0 : (int)wait);
	on_signals(j);
	reap(j);
	if (j->call.pid && slurm_turn(&j->call, now_ms()))
		on_answer(j);
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
	/* nothing of an agent outlives the job, and what scontrol says is waited for */
	j->orphans.next = 0;
	while (orphans_end(&j->orphans, is_known, j, now_ms()) || j->call.pid)
		turn(j, SOON_MS);
}

/* ---- the mount ---- */

/* One try. */
static bool
mount_once(struct job *j)
{
	struct err err = { 0 };
	struct mounting_spec spec = { .dir = j->place.point, .always = true, .log_fd = -1 };
	bool visible = j->wanted == WANT_VISIBLE;

	if (!visible && mounting_try(j->place.local, &err)) {
		if (j->wanted == WANT_PRIVATE) {
			log_warnx("no private mount can be had here: %s", err.text);
			return false;
		}
		log_info("no private mount can be had here (%s), so it is a visible one", err.text);
		visible = true;
	}
	spec.how = visible ? MOUNTING_VISIBLE : MOUNTING_PRIVATE;
	return mounting_start(&j->mounting, &j->target, &spec);
}

static bool
mount_run(struct job *j)
{
	int64_t until = now_ms() + START_PATIENCE_MS;
	int64_t pause = START_FIRST_MS;

	while (!mount_once(j)) {
		if (j->mounting.stopped || now_ms() + pause > until)
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

/* Does it come back? */
static bool
wants_requeue(const struct job *j)
{
	if (!j->self.inside)
		return false;
	if (j->why == WHY_LATE)
		return true;
	if (j->why != WHY_SIGNAL)
		return false;
	return j->verdict == SLURM_REQUEUE || (j->warned && j->verdict == SLURM_UNKNOWN);
}

/* An exit status. */
static int
requeue(struct job *j)
{
	char *const argv[] = { "scontrol", "requeue", j->self.id, NULL };
	struct brakes b;
	char why[200];
	char text[400];
	int rc = 1;

	brakes_read(&b, j->target.run);
	if (brakes_check(&b, &j->conf.limits, now_read().wall_s, j->self.restarts, why, sizeof(why))) {
		log_info("not requeued: %s", why);
		return 0;
	}
	for (int i = 0; i < REQUEUE_TRIES && rc; i++) {
		if (i)
			poll(NULL, 0, START_FIRST_MS << i);
		rc = slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));
		if (rc && strstr(text, "pending execution"))
			rc = 0; /* somebody was faster */
		if (rc)
			log_warnx("scontrol requeue %s: %s", j->self.id,
				  rc == -ETIMEDOUT ? "no answer" : text);
	}
	if (!rc)
		log_info("requeued");
	return EXIT_GIVEN_BACK;
}

static int
leave(struct job *j)
{
	if (j->mounted)
		mounting_end(&j->mounting);
	place_end(&j->place);
	cgroup_sweep(memory_roots_system());
	write_use(j);
	on_signals(j); /* a cancel that has come this moment */
	while (j->call.pid)
		turn(j, SOON_MS);
	if (wants_requeue(j))
		return requeue(j);
	switch (j->why) {
	case WHY_DRAINED:
	case WHY_BRAKE:
		return 0;
	case WHY_UNFIT:
		return j->agent.status;
	case WHY_SIGNAL:
		return j->verdict == SLURM_NEVER ? 0 : EXIT_GIVEN_BACK;
	default:
		return 1;
	}
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
	log_info("%s%s%s%s%s, restart %d: agent of tier %s on %s", j->self.inside ? "job " : "no job",
		 j->self.job, *j->self.job ? " (" : "", j->self.id, *j->self.job ? ")" : "",
		 j->self.restarts, j->agent.tier, j->self.node[0] ? j->self.node : "this machine");
	if (j->wanted == WANT_NONE)
		return complain(AGENTD_UNFIT, "an agent without a mount is not possible yet");
	if (!check_brakes(j, true))
		return 0;
	if (!place_make(&j->place, j->target.run, j->conf.slurm.local, j->self.id, j->self.restarts))
		return 1;
	crew_hand_on(&j->crew, "workspaces", j->place.local);
	j->crew.mount = j->place.point;
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
			  .call.fd = -1, .began = now_ms() };
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
	slurm_self(&j.self);
	return run_job(&j);
}
