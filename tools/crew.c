/*
 * crew.c - agents that come back.
 */
#include <config.h>

#include "crew.h"

#include "mounting.h"
#include "plugin.h"
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	RESTART_FIRST_MS = 200,
	ARGV_MAX = 512,
};

bool
crew_parse(const char *text, crew_tier_fn *fn, void *arg)
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

		if (!eq || end == eq + 1 || *end || n < 0 || eq - w >= TIER_NAME || eq == w)
			return complain(EXIT_USAGE, "--agents %s: write TIER=NUMBER,...", text) == 0;
		*eq = '\0';
		if (!fn(arg, w, n))
			return false;
	}
	return true;
}

bool
crew_hand_on(struct crew *c, const char *name, const char *value)
{
	static char words[CREW_OPTIONS_MAX][32];

	if (c->noptions + 2 > CREW_OPTIONS_MAX)
		return false;
	snprintf(words[c->noptions], sizeof(words[0]), "--%s", name);
	c->options[c->noptions] = words[c->noptions];
	c->noptions++;
	if (value)
		c->options[c->noptions++] = value;
	return true;
}

int
crew_check_command(const struct crew *c, const char *run)
{
	static struct conf conf;
	struct err err = { 0 };
	char program[PATH_MAX];

	if (*c->command) {
		int rc = program_find(*c->command, program);

		return rc ? complain(EXIT_USAGE, "%s: %s", *c->command, strerror(-rc)) : 0;
	}
	if (conf_load(&conf, run, &err))
		return complain(1, "%s", err.text);
	if (!conf.agent.plugin[0])
		return complain(EXIT_USAGE, "give a COMMAND, or name a plugin in %s/raser.ini (raser init "
				"--plugin does)", run);
	char **argv = plugin_split(conf.agent.plugin, NULL, &err);
	if (!argv)
		return complain(1, "%s", err.text);
	int rc = program_find(argv[0], program);
	int status = rc ? complain(1, "the plugin %s: %s", argv[0], strerror(-rc)) : 0;
	plugin_free(argv);
	return status;
}

struct agent *
crew_add(struct crew *c, const char *tier)
{
	struct agent *a = &c->agents[c->nagents++];

	*a = (struct agent){ .pause_ms = RESTART_FIRST_MS, .status = -1 };
	snprintf(a->tier, sizeof(a->tier), "%s", tier);
	return a;
}

/* ---- starting ---- */

pid_t
crew_program(const struct crew *c, char *const *argv)
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
	if (c->log_fd >= 0)
		dup2(c->log_fd, STDERR_FILENO);
	if (c->mount)
		setenv("RASER_MOUNT", c->mount, 1);
	else
		unsetenv("RASER_MOUNT");
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* The command line of an agent, or with --check of a question about it. */
static void
agent_line(struct crew *c, const char *tier, bool check, char *argv[ARGV_MAX])
{
	static char program[PATH_MAX];
	static char status[PATH_MAX];
	static char direct_option[] = "--direct";
	static char status_option[] = "--status";
	static char tier_option[] = "--tier";
	static char check_option[] = "--check";
	static char end_of_options[] = "--";
	size_t n = 0;

	if (!program[0])
		sibling("raser-agentd", program);
	argv[n++] = program;
	argv[n++] = tier_option;
	argv[n++] = (char *)(uintptr_t)tier;
	for (size_t i = 0; i < c->noptions; i++)
		argv[n++] = (char *)(uintptr_t)c->options[i];
	if (check)
		argv[n++] = check_option;
	if (!c->mount)
		argv[n++] = direct_option;
	if (!c->mount && c->status_dir && !check) {
		snprintf(status, sizeof(status), "%.4000s/%u.json", c->status_dir, ++c->lives);
		argv[n++] = status_option;
		argv[n++] = status;
	}
	argv[n++] = (char *)(uintptr_t)(c->mount ? c->mount : c->direct);
	if (*c->command)
		argv[n++] = end_of_options;
	for (char *const *w = c->command; *w && n < ARGV_MAX - 1; w++)
		argv[n++] = *w;
	argv[n] = NULL;
}

int
crew_check(const struct crew *c)
{
	struct crew asked = *c;
	char *argv[ARGV_MAX];
	int status = -1;

	agent_line(&asked, c->agents[0].tier, true, argv);
	asked.log_fd = -1; /* what is wrong is for the terminal */
	pid_t pid = crew_program(&asked, argv);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) <= EXIT_USAGE ? WEXITSTATUS(status) : 1;
}

static void
start_agent(struct crew *c, struct agent *a, int64_t now_ms)
{
	char *argv[ARGV_MAX];

	agent_line(c, a->tier, false, argv);
	a->started = now_ms;
	a->pid = crew_program(c, argv);
	if (a->pid < 0) {
		complain(0, "no agent can be started: %s", strerror(errno));
		a->pid = 0;
		a->restart_at = now_ms + CREW_PAUSE_LAST_MS;
	}
}

int
crew_start(struct crew *c, int64_t now_ms)
{
	int left = 0;

	for (int i = 0; i < c->nagents; i++) {
		struct agent *a = &c->agents[i];

		if (a->ended)
			continue;
		left++;
		if (!a->pid && !c->stopping && a->restart_at <= now_ms)
			start_agent(c, a, now_ms);
	}
	return left;
}

int64_t
crew_due(const struct crew *c)
{
	int64_t due = INT64_MAX;

	for (int i = 0; i < c->nagents; i++) {
		const struct agent *a = &c->agents[i];

		if (!a->ended && !a->pid && !c->stopping && a->restart_at < due)
			due = a->restart_at;
	}
	return due;
}

/* ---- ending ---- */

struct agent *
crew_reaped(struct crew *c, pid_t pid, int status, int64_t now_ms)
{
	struct agent *a = NULL;

	for (int i = 0; i < c->nagents && !a; i++)
		if (c->agents[i].pid == pid)
			a = &c->agents[i];
	if (!a)
		return NULL;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	a->pid = 0;
	a->status = code;
	a->ended = code == 0 || code == EXIT_USAGE || code == AGENTD_UNFIT ||
		   code == AGENTD_LATE || c->stopping;
	if (a->ended)
		return a;
	/* who lived for a while did not die of its start */
	if (now_ms - a->started > 2 * a->pause_ms)
		a->pause_ms = RESTART_FIRST_MS;
	a->restart_at = now_ms + a->pause_ms;
	a->pause_ms = a->pause_ms * 2 < CREW_PAUSE_LAST_MS ? a->pause_ms * 2 : CREW_PAUSE_LAST_MS;
	return a;
}

void
crew_stop(struct crew *c)
{
	c->stopping = true;
	for (int i = 0; i < c->nagents; i++) {
		if (c->agents[i].pid > 0) {
			kill(c->agents[i].pid, SIGTERM);
			kill(c->agents[i].pid, SIGCONT); /* somebody may have stopped it */
		} else {
			c->agents[i].ended = true;
		}
	}
}

bool
crew_has(const struct crew *c, pid_t pid)
{
	for (int i = 0; i < c->nagents; i++)
		if (c->agents[i].pid == pid)
			return true;
	return false;
}
