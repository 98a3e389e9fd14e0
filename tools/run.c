/*
 * run.c - raser run: this machine, from a mount to a summary.
 */
#include <config.h>

#include "mounting.h"
#include "orphans.h"
#include "plugin.h"
#include "program.h"
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
	RESTART_FIRST_MS = 200,
	RESTART_LAST_MS = 10000,
	LIVE_MS = 250,
	PLAIN_MS = 5000,
	EXIT_INTERRUPTED = 99,
	EXIT_UNFIT = 3, /* of raser-agentd: this node cannot run agents */
	OPTIONS_MAX = 64,
	COMMAND_MAX = 420,
	ARGV_MAX = 512,
};

struct agent {
	char tier[TIER_NAME];
	pid_t pid; /* 0: not running */
	bool known; /* its tier is one of the run's */
	bool ended; /* drained, or told to stop */
	int64_t started, restart_at, pause_ms;
};

struct run {
	struct target target;
	struct mounting mounting;
	bool mounted; /* by us */
	struct agent *agents;
	int nagents;
	char *const *command; /* empty: the plugin */
	const char *options[OPTIONS_MAX]; /* handed on to raser-agentd */
	size_t noptions;
	pid_t beside;
	int log_fd, signal_fd;
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

/* "low=5,medium=2": fill in agents. False after a message. */
static bool
parse_agents(struct run *r, const char *text)
{
	char copy[1024];
	char *save = NULL;

	if (strlen(text) >= sizeof(copy))
		return complain(EXIT_USAGE, "--agents is too long") == 0;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(w, '=');
		char *end = NULL;
		long n = eq ? strtol(eq + 1, &end, 10) : 0;

		if (!eq || end == eq + 1 || *end || n < 0 || n + r->nagents > AGENTS_MAX ||
		    eq - w >= TIER_NAME || eq == w)
			return complain(EXIT_USAGE, "--agents %s: write TIER=NUMBER,...", text) == 0;
		*eq = '\0';
		while (n-- > 0) {
			struct agent *a = &r->agents[r->nagents++];

			*a = (struct agent){ .pause_ms = RESTART_FIRST_MS };
			snprintf(a->tier, sizeof(a->tier), "%s", w);
		}
	}
	return true;
}

/* Every tier must be one of the run's; without --agents each of them gets one. */
static bool
choose_agents(struct run *r, const struct progress *p)
{
	bool all = r->nagents == 0;
	size_t i;
	const json_t *t;

	json_array_foreach(json_object_get(p->first, "tiers"), i, t) {
		const char *name = json_string_value(json_object_get(t, "name"));

		if (all && name) {
			struct agent *a = &r->agents[r->nagents++];

			*a = (struct agent){ .pause_ms = RESTART_FIRST_MS };
			snprintf(a->tier, sizeof(a->tier), "%s", name);
		}
		for (int k = 0; !all && name && k < r->nagents; k++)
			r->agents[k].known |= !strcmp(r->agents[k].tier, name);
	}
	for (int k = 0; !all && k < r->nagents; k++)
		if (!r->agents[k].known)
			return complain(EXIT_USAGE, "raser.ini has no tier %s",
					r->agents[k].tier) == 0;
	return r->nagents > 0;
}

static pid_t
start_program(struct run *r, char *const *argv)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid)
		return pid;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* whatever ends us ends the agents too; agentd then gives its task back */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0); /* a Ctrl-C is ours to pass on */
	if (r->log_fd >= 0)
		dup2(r->log_fd, STDERR_FILENO);
	setenv("RASER_MOUNT", r->mounting.dir, 1);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* The command line of an agent, or with --check of a question about it. */
static void
agent_line(struct run *r, const char *tier, bool check, char *argv[ARGV_MAX])
{
	static char program[PATH_MAX];
	static char tier_option[] = "--tier";
	static char check_option[] = "--check";
	static char end_of_options[] = "--";
	size_t n = 0;

	if (!program[0])
		sibling("raser-agentd", program);
	argv[n++] = program;
	argv[n++] = tier_option;
	argv[n++] = (char *)(uintptr_t)tier;
	for (size_t i = 0; i < r->noptions; i++)
		argv[n++] = (char *)(uintptr_t)r->options[i];
	if (check)
		argv[n++] = check_option;
	argv[n++] = r->mounting.dir;
	if (*r->command)
		argv[n++] = end_of_options;
	for (char *const *c = r->command; *c && n < ARGV_MAX - 1; c++)
		argv[n++] = *c;
	argv[n] = NULL;
}

static void
start_agent(struct run *r, struct agent *a)
{
	char *argv[ARGV_MAX];

	agent_line(r, a->tier, false, argv);
	a->started = now_ms();
	a->pid = start_program(r, argv);
	if (a->pid < 0) {
		complain(0, "no agent can be started: %s", strerror(errno));
		a->pid = 0;
		a->restart_at = now_ms() + RESTART_LAST_MS;
	}
}

/* Say how agents run here before any of them does. 0, or an exit status when they cannot, and why
 * was said. */
static int
check_agents(struct run *r)
{
	char *argv[ARGV_MAX];
	int status = -1;

	agent_line(r, r->agents[0].tier, true, argv);
	int log_fd = r->log_fd;
	r->log_fd = -1; /* what is wrong is for the terminal */
	pid_t pid = start_program(r, argv);
	r->log_fd = log_fd;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) <= EXIT_USAGE ? WEXITSTATUS(status) : 1;
}

/* An agentd has ended: drained, preempted, or somebody killed it, and then it comes back. */
static void
on_agent(struct run *r, struct agent *a, int status)
{
	a->pid = 0;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (code == EXIT_USAGE || code == EXIT_UNFIT) {
		if (!r->unfit)
			complain(0, "agents cannot run here as raser.ini asks; see %s", r->log_path);
		r->unfit = true;
	}
	if (code == 0 || code == EXIT_USAGE || code == EXIT_UNFIT || r->interrupted || r->lost) {
		a->ended = true;
		return;
	}
	/* who lived for a while did not die of its start */
	int64_t now = now_ms();
	if (now - a->started > 2 * a->pause_ms)
		a->pause_ms = RESTART_FIRST_MS;
	a->restart_at = now + a->pause_ms;
	a->pause_ms = a->pause_ms * 2 < RESTART_LAST_MS ? a->pause_ms * 2 : RESTART_LAST_MS;
}

/* raserfs has ended, and its supervisor with it. */
static void
on_daemon(struct run *r, int status)
{
	char what[200];

	if (!mounting_died(&r->mounting, status, now_ms(), what, sizeof(what))) {
		r->lost = true;
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
		for (int i = 0; i < r->nagents; i++)
			if (r->agents[i].pid == pid)
				on_agent(r, &r->agents[i], status);
	}
}

/* A child that a tree of an agent has not left behind; what --beside leaves is its own. */
static bool
is_known(const void *arg, pid_t pid)
{
	const struct run *r = arg;

	if (pid == r->mounting.daemon || pid == r->beside || (r->beside && getpgid(pid) == r->beside))
		return true;
	for (int i = 0; i < r->nagents; i++)
		if (r->agents[i].pid == pid)
			return true;
	return false;
}

static void
stop_agents(struct run *r)
{
	for (int i = 0; i < r->nagents; i++) {
		if (r->agents[i].pid > 0)
			kill(r->agents[i].pid, SIGTERM);
		else
			r->agents[i].ended = true;
	}
}

/* ---- the loop ---- */

/* Start what is due to start. Returns how many agents have not ended. */
static int
restart_agents(struct run *r)
{
	int left = 0;

	for (int i = 0; i < r->nagents; i++) {
		struct agent *a = &r->agents[i];

		if (a->ended)
			continue;
		left++;
		if (!a->pid && !r->interrupted && !r->lost && a->restart_at <= now_ms())
			start_agent(r, a);
	}
	return left;
}

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
		stop_agents(r);
	}
}

static void
supervise(struct run *r, struct progress *p)
{
	bool live = isatty(STDOUT_FILENO);
	int64_t next = 0;
	bool told = false;

	while (restart_agents(r)) {
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
			mounting_again(&r->mounting, &r->target, r->log_fd, now_ms(),
				       progress_restarts(p));
		orphans_end(&r->orphans, is_known, r, now_ms());
		progress_events(p);
		if (r->lost && !told) {
			stop_agents(r);
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
	progress_read(p);
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
	r->log_fd = open_log(&r->target, r->log_path);
	if (r->target.is_mount) {
		snprintf(r->mounting.dir, sizeof(r->mounting.dir), "%s", r->target.path);
	} else {
		r->mounted = mounting_start(&r->mounting, &r->target, mount_dir, r->log_fd);
		if (!r->mounted)
			return r->mounting.stopped ? EXIT_INTERRUPTED : 1;
		if (r->mounting.private_ns)
			printf("the queue is mounted for this run only; to look at it meanwhile: "
			       "ls /proc/%ld/root%s\n", (long)getpid(), r->mounting.dir);
		else
			printf("mounted at %s\n", r->mounting.dir);
		fflush(stdout);
	}
	int status = 1;
	bool begun = progress_begin(&p, r->mounting.dir);
	if (begun && choose_agents(r, &p) && (status = check_agents(r)) == 0) {
		p.agents = r->nagents;
		if (beside) {
			char *const argv[] = { "/bin/sh", "-c", beside, NULL };

			r->beside = start_program(r, argv);
		}
		supervise(r, &p);
		end_beside(r);
		status = progress_summary(&p) && !r->lost ? 0 : 1;
	}
	if (begun)
		progress_free(&p);
	if (r->mounted)
		mounting_end(&r->mounting);
	return r->interrupted ? EXIT_INTERRUPTED : status;
}

/* An option of raser-agentd; its words stay as long as we do. False when there are too many. */
static bool
hand_on(struct run *r, const char *name, const char *value)
{
	static char words[OPTIONS_MAX][32];

	if (r->noptions + 2 > OPTIONS_MAX)
		return false;
	snprintf(words[r->noptions], sizeof(words[0]), "--%s", name);
	r->options[r->noptions] = words[r->noptions];
	r->noptions++;
	if (value)
		r->options[r->noptions++] = value;
	return true;
}

/* Without a command there must be a plugin, and it must be there: 0 or an exit status. */
static int
check_plugin(const struct run *r)
{
	static struct conf conf;
	struct err err = { 0 };
	char program[PATH_MAX];

	if (*r->command)
		return 0;
	if (conf_load(&conf, r->target.run, &err))
		return complain(1, "%s", err.text);
	if (!conf.agent.plugin[0])
		return complain(EXIT_USAGE, "give a COMMAND, or name a plugin in %s/raser.ini (raser init "
				"--plugin does)", r->target.run);
	char **argv = plugin_split(conf.agent.plugin, NULL, &err);
	if (!argv)
		return complain(1, "%s", err.text);
	int rc = program_find(argv[0], program);
	int status = rc ? complain(1, "the plugin %s: %s", argv[0], strerror(-rc)) : 0;
	plugin_free(argv);
	return status;
}

int
verb_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "agents", required_argument, NULL, 'a' },
		{ "mount", required_argument, NULL, 'm' },
		{ "beside", required_argument, NULL, 'b' },
		{ "sandbox", required_argument, NULL, 's' },
		{ "image", required_argument, NULL, 's' },
		{ "memory-by", required_argument, NULL, 's' },
		{ "bind", required_argument, NULL, 's' },
		{ "pass", required_argument, NULL, 's' },
		{ "network", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct run r = { .log_fd = -1 };
	const char *agents = NULL;
	const char *mount_dir = NULL;
	char *beside = NULL;
	const char *run = NULL;
	int c;

	/* RUN may stand before the options; what follows "--" is the command's */
	int which;
	while ((c = getopt_long(argc, argv, "-", options, &which)) != -1) {
		if (c == 's' && !hand_on(&r, options[which].name, optarg))
			return complain(EXIT_USAGE, "too many options for agents");
		if (c == 's')
			continue;
		if (c == 'a')
			agents = optarg;
		else if (c == 'm')
			mount_dir = optarg;
		else if (c == 'b')
			beside = optarg;
		else if (c == 1 && !run)
			run = optarg;
		else
			return usage_error();
	}
	r.command = argv + optind;
	if (!run)
		return usage_error();
	if (argc - optind > COMMAND_MAX)
		return complain(EXIT_USAGE, "the command has more than %d words", COMMAND_MAX);
	if (!target_find(run, &r.target))
		return 1;
	int status = check_plugin(&r);
	if (status)
		return status;
	r.agents = calloc(AGENTS_MAX, sizeof(*r.agents));
	if (!r.agents)
		return complain(1, "out of memory");
	status = EXIT_USAGE;
	char program[PATH_MAX];
	int rc = *r.command ? program_find(*r.command, program) : 0;
	if (rc)
		complain(EXIT_USAGE, "%s: %s", *r.command, strerror(-rc));
	else if (!agents || parse_agents(&r, agents))
		status = !agents || r.nagents ? run_all(&r, mount_dir, beside) :
						complain(EXIT_USAGE, "--agents asks for none");
	free(r.agents);
	return status;
}
