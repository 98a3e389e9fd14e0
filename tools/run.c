/*
 * run.c - raser run: this machine, from a mount to a summary.
 */
#include <config.h>

#include "crew.h"
#include "folder.h"
#include "mounting.h"
#include "orphans.h"
#include "progress.h"
#include "raser.h"

#include <errno.h>
#include <fcntl.h>
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
	AGENTS_MAX = 4096,
	LIVE_MS = 250,
	PLAIN_MS = 5000,
	EXIT_INTERRUPTED = 99,
};

struct run {
	struct target target;
	struct mounting mounting;
	bool mounted; /* by us */
	bool no_fuse; /* there shall be no mount, or can be none */
	char status_dir[PATH_MAX]; /* without a mount: what agents tell; "" = none */
	struct crew crew;
	pid_t beside;
	int signal_fd;
	char log_path[PATH_MAX + 128];
	bool interrupted, lost, unfit;
	struct orphans orphans;
};

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* ---- agents ---- */

static bool
add_agents(void *arg, const char *tier, long n)
{
	struct run *r = arg;

	if (n + r->crew.nagents > AGENTS_MAX)
		return complain(EXIT_USAGE, "--agents: %d at most on one machine", AGENTS_MAX) == 0;
	while (n-- > 0)
		crew_add(&r->crew, tier);
	return true;
}

/* Every tier must be one of the run's; without --agents each of them gets one. */
static bool
choose_agents(struct run *r, const struct progress *p)
{
	bool all = r->crew.nagents == 0;
	size_t i;
	const json_t *t;

	json_array_foreach(json_object_get(p->first, "tiers"), i, t) {
		const char *name = json_string_value(json_object_get(t, "name"));

		if (all && name)
			crew_add(&r->crew, name);
		for (int k = 0; !all && name && k < r->crew.nagents; k++)
			r->crew.agents[k].known |= !strcmp(r->crew.agents[k].tier, name);
	}
	for (int k = 0; !all && k < r->crew.nagents; k++)
		if (!r->crew.agents[k].known)
			return complain(EXIT_USAGE, "raser.ini has no tier %s",
					r->crew.agents[k].tier) == 0;
	return r->crew.nagents > 0;
}

/* An agentd has ended: drained, preempted, or somebody killed it, and then it comes back. */
static void
on_agent(struct run *r, pid_t pid, int status)
{
	const struct agent *a = crew_reaped(&r->crew, pid, status, now_ms());

	if (!a || (a->status != EXIT_USAGE && a->status != AGENTD_UNFIT))
		return;
	if (!r->unfit)
		complain(0, "agents cannot run here as raser.ini asks; see %s", r->log_path);
	r->unfit = true;
}

/* raserfs has ended, and its supervisor with it. */
static void
on_daemon(struct run *r, int status)
{
	char what[200];

	if (!mounting_died(&r->mounting, status, now_ms(), what, sizeof(what))) {
		r->lost = r->crew.stopping = true;
		complain(0, "raserfs was ended (its log is in %s/logs); stopping the agents",
			 r->target.run);
	} else if (what[0]) {
		complain(0, "%s", what);
	}
}

static void
reap(struct run *r)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == r->mounting.daemon)
			on_daemon(r, status);
		if (pid == r->beside)
			r->beside = 0;
		on_agent(r, pid, status);
	}
}

/* A child that a tree of an agent has not left behind; what --beside leaves is its own. */
static bool
is_known(const void *arg, pid_t pid)
{
	const struct run *r = arg;

	return pid == r->mounting.daemon || pid == r->beside ||
	       (r->beside && getpgid(pid) == r->beside) || crew_has(&r->crew, pid);
}

/* ---- the loop ---- */

static void
on_signals(struct run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			continue;
		if (!r->interrupted)
			complain(0, "stopping: the agents give their tasks back");
		r->interrupted = true;
		crew_stop(&r->crew);
	}
}

static void
supervise(struct run *r, struct progress *p)
{
	bool live = isatty(STDOUT_FILENO);
	int64_t next = 0;
	bool told = false;

	while (crew_start(&r->crew, now_ms())) {
		struct pollfd fd = { .fd = r->signal_fd, .events = POLLIN };

		/* often, since what a daemon had counted goes with it */
		progress_read(p);
		if (now_ms() >= next) {
			progress_print(p, live);
			next = now_ms() + (live ? LIVE_MS : PLAIN_MS);
		}
		poll(&fd, 1, LIVE_MS);
		on_signals(r);
		reap(r);
		if (r->mounted && !r->lost)
			mounting_again(&r->mounting, &r->target, now_ms(), progress_restarts(p));
		orphans_end(&r->orphans, is_known, r, now_ms());
		progress_events(p);
		if (r->lost && !told) {
			crew_stop(&r->crew);
			told = true;
		}
	}
	/* nothing of an agent outlives the run */
	r->orphans.next = 0;
	while (orphans_end(&r->orphans, is_known, r, now_ms())) {
		struct pollfd fd = { .fd = r->signal_fd, .events = POLLIN };

		poll(&fd, 1, LIVE_MS);
		on_signals(r);
		reap(r);
	}
	progress_end(p, live);
}

static void
end_beside(struct run *r)
{
	if (r->beside <= 0)
		return;
	kill(-r->beside, SIGTERM);
	while (waitpid(r->beside, NULL, 0) < 0 && errno == EINTR)
		;
}

static int
open_log(const struct target *t, char path[PATH_MAX + 128])
{
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(path, PATH_MAX + 128, "%s/logs/run.%s.%ld.log", t->run, host, (long)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		complain(0, "%s: %s", path, strerror(errno));
	return fd;
}

/* Agents shall work on the mount that was given, or on one of ours. False after a message. */
static bool
begin_mount(struct run *r, const char *mount_dir)
{
	const struct mounting_spec spec = { .dir = mount_dir, .log_fd = r->crew.log_fd,
					    .how = mount_dir ? MOUNTING_VISIBLE : MOUNTING_ANY };

	r->crew.mount = r->mounting.dir;
	if (r->target.is_mount) {
		snprintf(r->mounting.dir, sizeof(r->mounting.dir), "%s", r->target.path);
		return true;
	}
	r->mounted = mounting_start(&r->mounting, &r->target, &spec);
	if (!r->mounted)
		return false;
	if (r->mounting.private_ns)
		printf("the queue is mounted for this run only; to look at it meanwhile: "
		       "ls /proc/%ld/root%s\n", (long)getpid(), r->mounting.dir);
	else
		printf("mounted at %s\n", r->mounting.dir);
	fflush(stdout);
	return true;
}

/* Agents shall work on the run directory itself. False after a message. */
static bool
begin_direct(struct run *r)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(r->status_dir, sizeof(r->status_dir), "%.3000s/raser-run.XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(r->status_dir)) {
		complain(1, "%s: %s", r->status_dir, strerror(errno));
		r->status_dir[0] = '\0';
		return false;
	}
	r->crew.direct = r->target.run;
	r->crew.status_dir = r->status_dir;
	printf("agents work on %s itself, without FUSE\n", r->target.run);
	fflush(stdout);
	return true;
}

static int
run_all(struct run *r, const char *mount_dir, char *beside)
{
	sigset_t set;
	struct progress p;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->crew.log_fd = open_log(&r->target, r->log_path);
	if (r->no_fuse ? !begin_direct(r) : !begin_mount(r, mount_dir))
		return r->mounting.stopped ? EXIT_INTERRUPTED : 1;
	int status = 1;
	bool begun = r->no_fuse ? progress_begin_direct(&p, &r->target, r->status_dir) :
				  progress_begin(&p, r->mounting.dir);
	if (begun && choose_agents(r, &p) && (status = crew_check(&r->crew)) == 0) {
		p.agents = r->crew.nagents;
		if (beside) {
			char *const argv[] = { "/bin/sh", "-c", beside, NULL };

			r->beside = crew_program(&r->crew, argv);
		}
		supervise(r, &p);
		end_beside(r);
		status = progress_summary(&p) && !r->lost ? 0 : 1;
	}
	if (begun)
		progress_free(&p);
	if (r->mounted)
		mounting_end(&r->mounting);
	if (r->status_dir[0])
		folder_remove(r->status_dir);
	return r->interrupted ? EXIT_INTERRUPTED : status;
}

int
verb_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "agents", required_argument, NULL, 'a' },
		{ "mount", required_argument, NULL, 'm' },
		{ "beside", required_argument, NULL, 'b' },
		{ "no-fuse", no_argument, NULL, 'n' },
		CREW_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	struct run r = { .crew.log_fd = -1 };
	const char *agents = NULL;
	const char *mount_dir = NULL;
	char *beside = NULL;
	const char *run = NULL;
	int c;

	/* RUN may stand before the options; what follows "--" is the command's */
	int which;
	while ((c = getopt_long(argc, argv, "-", options, &which)) != -1) {
		if (c == 's' && !crew_hand_on(&r.crew, options[which].name, optarg))
			return complain(EXIT_USAGE, "too many options for agents");
		if (c == 's')
			continue;
		if (c == 'a')
			agents = optarg;
		else if (c == 'm')
			mount_dir = optarg;
		else if (c == 'b')
			beside = optarg;
		else if (c == 'n')
			r.no_fuse = true;
		else if (c == 1 && !run)
			run = optarg;
		else
			return usage_error();
	}
	if (r.no_fuse && mount_dir)
		return complain(EXIT_USAGE, "--mount and --no-fuse exclude each other");
	r.crew.command = argv + optind;
	if (!run)
		return usage_error();
	if (argc - optind > CREW_COMMAND_MAX)
		return complain(EXIT_USAGE, "the command has more than %d words", CREW_COMMAND_MAX);
	if (!target_find(run, &r.target))
		return 1;
	struct err why = { 0 };
	if (!r.no_fuse && !mount_dir && !r.target.is_mount && !mounting_possible(&why)) {
		complain(0, "nothing can be mounted here (%s)", why.text);
		r.no_fuse = true;
	}
	int status = crew_check_command(&r.crew, r.target.run);
	if (status)
		return status;
	r.crew.agents = calloc(AGENTS_MAX, sizeof(*r.crew.agents));
	if (!r.crew.agents)
		return complain(1, "out of memory");
	status = EXIT_USAGE;
	if (!agents || crew_parse(agents, add_agents, &r))
		status = !agents || r.crew.nagents ? run_all(&r, mount_dir, beside) :
						complain(EXIT_USAGE, "--agents asks for none");
	free(r.crew.agents);
	return status;
}
