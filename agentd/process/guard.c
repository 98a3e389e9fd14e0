/*
 * guard.c - the guard: the parent of an agent's tree, and its subreaper.
 *
 * One loop over signals, orders and a timer. That no child is left (ECHILD) proves that nothing
 * of the tree is: whoever loses its parent gets the guard, or the first process of a pid
 * namespace, which is in the tree and takes its namespace with it.
 */
#include <config.h>

#include "guard.h"

#include "clock.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	KILL_PAUSE_MS = 5,
	KILL_ROUNDS = 1000, /* what hangs in the kernel for longer is left to it */
	POLL_MS = 200,	    /* of memory, where that is how it is limited */
	LOOK_MS = 1000,	    /* where there is no limit: for the record alone */
	AGAIN_MS = 20,	    /* for what has to be looked at again soon */
	THAW_AGAIN = 5,
	NUDGE_ROUNDS = 4,
	TOOL_MS = 5000, /* a sandbox's own program for signals */
	REPORT_SIZE = 4096,
};

/* What is known while the agent runs; there is one guard a process. */
static struct {
	const struct guard *g;
	struct tree tree;
	struct tree frozen; /* whom we have stopped, parents first */
	pid_t agent;	    /* its first process, or the sandbox's */
	bool ended, killed;
	bool term_open; /* SIGTERM has reached nobody yet */
	int thaw_again; /* how often to look after those that were thawed */
	int status;
	int signal_fd, sandbox_fd;
	int64_t next_look;
	char memory_file[64]; /* where gVisor's was found */
	struct proc_end end;
} now;

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* ---- ending it ---- */

/* Collect who has ended. False when there is no child any more. */
static bool
reap(void)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			return pid == 0;
		if (pid == now.agent) {
			now.status = status;
			now.ended = true;
		}
	}
}

bool
kill_descendants(void)
{
	struct tree t = { 0 };
	bool left = true;

	/* one may fork while it is looked for, but not for long: each round kills the parents */
	for (int i = 0; i < KILL_ROUNDS && (left = reap()); i++) {
		tree_list(&t, getpid());
		for (size_t k = 0; k < t.n; k++)
			tree_signal(&t.all[k], SIGKILL);
		poll(NULL, 0, KILL_PAUSE_MS);
	}
	tree_free(&t);
	return !left;
}

/* The end of an agent by force. If it hangs in the kernel the attempt ends without it. */
static void
kill_all(void)
{
	if (kill_descendants() || now.ended)
		return;
	log_warnx("processes of an agent hang in the kernel");
	now.ended = true;
	now.status = SIGKILL;
}

static void
die_with_agentd(void)
{
	kill_descendants();
	if (now.g->cgroup.version)
		cgroup_remove(&now.g->cgroup);
	folder_remove(now.g->spec->scratch);
	_exit(1);
}

/* ---- a sandbox's own program ---- */

/* Run PLAN->tool VERB [OPTION] ID [LAST] and wait for it; true when it has succeeded. */
static bool
run_tool(const char *verb, const char *option, const char *last)
{
	const struct sandbox_plan *plan = now.g->spec->plan;
	const char *argv[32];
	size_t n = 0;
	int status = 0;
	int64_t until = now_ms() + TOOL_MS;

	for (char **w = plan->tool; *w && n < 24; w++)
		argv[n++] = *w;
	argv[n++] = verb;
	if (option)
		argv[n++] = option;
	argv[n++] = plan->id;
	if (last)
		argv[n++] = last;
	argv[n] = NULL;
	pid_t pid = fork();
	if (pid < 0)
		return false;
	if (pid == 0) {
		sigset_t none;
		int null = open("/dev/null", O_RDWR);

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			dup2(null, fd);
		execve(argv[0], (char *const *)argv, plan->env);
		_exit(127);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now_ms() > until)
			kill(pid, SIGKILL);
		poll(NULL, 0, 2);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- SIGTERM ---- */

/* Is it the agent's, and not one of the processes that make a sandbox? */
static bool
is_agents(const struct tree_process *p)
{
	int depth;

	if (!now.g->spec->plan->nested)
		return true;
	pid_t inner = tree_inner_pid(p->pid, &depth);
	return depth > 1 || (depth == 1 && inner != 1);
}

static void
term(void)
{
	size_t hit = 0;

	if (now.g->spec->plan->tool) {
		if (run_tool("kill", "--all", "TERM")) {
			run_tool("kill", "--all", "CONT");
			hit = 1;
		}
	} else if (tree_list(&now.tree, getpid()) == 0) {
		for (size_t i = 0; i < now.tree.n; i++)
			hit += is_agents(&now.tree.all[i]) &&
			       tree_signal(&now.tree.all[i], SIGTERM);
		for (size_t i = 0; i < now.tree.n; i++)
			if (is_agents(&now.tree.all[i]))
				tree_signal(&now.tree.all[i], SIGCONT);
	}
	now.term_open = !hit; /* the sandbox is not that far yet */
}

/* ---- standing still ---- */

static bool
was_frozen(const struct tree_process *p)
{
	for (size_t i = 0; i < now.frozen.n; i++)
		if (now.frozen.all[i].pid == p->pid && now.frozen.all[i].start == p->start)
			return true;
	return false;
}

/* Continue whom we have stopped, children first: no shell may see a child stopped. */
static void
thaw(void)
{
	for (size_t i = now.frozen.n; i-- > 0;)
		tree_signal(&now.frozen.all[i], SIGCONT);
	/* a debugger that had the SIGSTOP of its process in hand passes it on only now */
	now.thaw_again = now.frozen.n ? THAW_AGAIN : 0;
}

/* For a while after a thaw: nobody may stay stopped for our SIGSTOP. */
static void
look_thawed(void)
{
	for (size_t i = now.frozen.n; i-- > 0;) {
		struct tree_process look;

		if (tree_look(now.frozen.all[i].pid, &look) &&
		    look.start == now.frozen.all[i].start && look.state == 'T')
			tree_signal(&look, SIGCONT);
	}
	if (--now.thaw_again == 0)
		now.frozen.n = 0;
}

/*
 * A thread that waits in vfork(2) takes no signal before its child has come to exec. If that was
 * stopped on its way there, let it go on for a moment; the next round stops it again.
 */
static void
nudge(pid_t parent)
{
	for (size_t i = 0; i < now.tree.n; i++)
		if (now.tree.all[i].parent == parent && was_frozen(&now.tree.all[i]))
			tree_signal(&now.tree.all[i], SIGCONT);
}

/* One round: stop who runs. True when nobody did. */
static bool
freeze_round(int round)
{
	bool still = tree_list(&now.tree, getpid()) == 0;

	for (size_t i = 0; i < now.tree.n; i++) {
		const struct tree_process *p = &now.tree.all[i];

		if (tree_is_still(p))
			continue;
		still = false;
		if (!was_frozen(p) && tree_add(&now.frozen, p) < 0)
			continue;
		tree_signal(p, SIGSTOP);
		if (round % NUDGE_ROUNDS == NUDGE_ROUNDS - 1)
			nudge(p->pid);
	}
	return still;
}

/*
 * Stop everybody, the sandbox's processes as well, parents first; then look again until nobody
 * is found running: who has forked in between has left one that runs. gVisor's kernel is a
 * process like others, and takes SIGSTOP, also in the processes that it traces, for what it is.
 */
static bool
freeze(void)
{
	int64_t until = now_ms() + FREEZE_MS;
	bool still = false;

	if (now.frozen.n && !now.thaw_again)
		return true;
	now.frozen.n = 0;
	now.thaw_again = 0;
	for (int round = 0; !still && now_ms() < until; round++) {
		still = freeze_round(round);
		if (!still)
			poll(NULL, 0, 1);
	}
	if (!still)
		thaw();
	return still;
}

/* ---- memory ---- */

/* What the first process of a pid namespace takes with it when it is killed is waited for by
 * nobody, so it is kept what was seen before. */
static bool
measure(struct usage *u)
{
	if (tree_list(&now.tree, getpid()) < 0)
		return false;
	tree_usage(&now.tree, getpid(), u);
	if ((int64_t)u->cpu_ms > now.end.cpu_ms)
		now.end.cpu_ms = (int64_t)u->cpu_ms;
	return true;
}

static void
look_at_memory(void)
{
	const struct guard *g = now.g;
	bool gvisor = g->spec->plan->kind == SANDBOX_GVISOR;
	struct usage u;

	if (!measure(&u))
		return;
	int64_t file = gvisor ? tree_memory_file(&now.tree, "runsc-memory", now.memory_file) : 0;
	u.rss += file;
	/* shared pages count many times in the sum: only when that is too much is it worth more */
	if (g->poll_memory && u.rss > g->spec->memory)
		u.rss = tree_pss(&now.tree, gvisor) + file;
	if (u.rss > now.end.peak_memory)
		now.end.peak_memory = u.rss;
	if (g->poll_memory && u.rss > g->spec->memory) {
		now.end.oom_polled = true;
		kill_all();
	}
}

/* ---- the loop ---- */

/* What there is to do next, in ms; -1: nothing. */
static int
wait_ms(void)
{
	if (now.term_open || now.thaw_again)
		return AGAIN_MS;
	if (now.g->cgroup.version)
		return -1; /* the kernel does it */
	int64_t ms = now.next_look - now_ms();
	return ms < 0 ? 0 : (int)ms;
}

static void
on_signals(void)
{
	struct signalfd_siginfo si;

	while (read(now.signal_fd, &si, sizeof(si)) == sizeof(si))
		if (getppid() != now.g->agentd)
			die_with_agentd();
	reap();
}

static void
on_order(void)
{
	struct usage u;
	char what;
	char answer;
	ssize_t n = recv(now.g->cmd_fd, &what, 1, MSG_DONTWAIT);

	if (n <= 0)
		return;
	switch (what) {
	case ORDER_TERM:
		if (!now.killed)
			term();
		break;
	case ORDER_KILL:
		now.killed = true;
		measure(&u);
		kill_all();
		break;
	case ORDER_FREEZE:
		answer = (char)freeze();
		send(now.g->cmd_fd, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case ORDER_THAW:
		thaw();
		break;
	default:
		break;
	}
}

static void
turn(void)
{
	struct pollfd p[2] = { { .fd = now.signal_fd, .events = POLLIN },
			       { .fd = now.g->cmd_fd, .events = POLLIN } };
	int n = poll(p, 2, wait_ms());

	if (n < 0)
		return;
	if (p[0].revents)
		on_signals();
	if (now.ended)
		return;
	if (p[1].revents & POLLIN)
		on_order();
	else if (p[1].revents)
		die_with_agentd(); /* nobody holds the other end any more */
	if (n == 0 && now.term_open)
		term();
	if (n == 0 && now.thaw_again)
		look_thawed();
	if (!now.g->cgroup.version && now_ms() >= now.next_look && !now.ended) {
		look_at_memory();
		now.next_look = now_ms() + (now.g->poll_memory ? POLL_MS : LOOK_MS);
	}
}

/* ---- the end ---- */

static int64_t
usec(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000000 + t->tv_usec;
}

static void
count(struct proc_end *end)
{
	const struct guard *g = now.g;
	struct rusage ru;

	getrusage(RUSAGE_CHILDREN, &ru);
	int64_t cpu_ms = (usec(&ru.ru_utime) + usec(&ru.ru_stime)) / 1000;
	if (cpu_ms > end->cpu_ms)
		end->cpu_ms = cpu_ms;
	end->peak_rss = (int64_t)ru.ru_maxrss * 1024;
	end->oom_kills = -1;
	if (g->cgroup.version) {
		end->oom_own = true;
		end->oom_kills = cgroup_oom_kills(&g->cgroup);
		end->peak_memory = cgroup_peak(&g->cgroup);
		cgroup_remove(&g->cgroup);
	} else if (g->oom_before >= 0) {
		int64_t after = memory_oom_kills(memory_roots_system());

		if (after >= g->oom_before)
			end->oom_kills = (int)(after - g->oom_before);
	}
	if (end->peak_rss > end->peak_memory)
		end->peak_memory = end->peak_rss;
	if (g->cgroup.version)
		snprintf(end->memory_by, sizeof(end->memory_by), "cgroup v%d", g->cgroup.version);
	else
		snprintf(end->memory_by, sizeof(end->memory_by), g->poll_memory ? "poll" : "none");
}

/* A process that was killed without our doing, where the kernel has killed one for memory
 * or cannot be asked, was out of memory; with a counter of its own nothing has to be guessed. */
static bool
is_oom(const struct proc_end *end)
{
	bool killed = (WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL) ||
		      (WIFEXITED(end->status) && WEXITSTATUS(end->status) == 128 + SIGKILL);

	if (end->oom_polled)
		return true;
	if (end->oom_own && end->oom_kills >= 0)
		return end->oom_kills > 0;
	return killed && !end->killed_by_us && end->oom_kills != 0;
}

static void
finish(void)
{
	const struct guard *g = now.g;
	struct proc_end *end = &now.end;
	char report[REPORT_SIZE] = "";

	kill_descendants(); /* what it has left behind */
	if (now.sandbox_fd >= 0) {
		ssize_t n = read(now.sandbox_fd, report, sizeof(report) - 1);

		report[n > 0 ? n : 0] = '\0';
	}
	end->killed_by_us = now.killed;
	count(end);
	judge(g->spec, now.status, report, end);
	if (end->start_errno)
		end->status = -1;
	end->oom = end->status >= 0 && is_oom(end);
	if (end->oom && end->sandbox_failed) {
		/* what was killed was the sandbox's own process, as with gVisor */
		end->sandbox_failed = false;
		end->why[0] = '\0';
		end->status = SIGKILL;
	}
}

static void
start(void)
{
	int error[2] = { -1, -1 };
	int report[2] = { -1, -1 };
	int code = 0;

	if (pipe2(error, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0) {
		now.end.start_errno = errno;
		return;
	}
	now.agent = fork();
	if (now.agent == 0)
		agent_exec(now.g, error[1], report[1]);
	close(error[1]);
	close(report[1]);
	now.sandbox_fd = report[0];
	if (now.agent < 0)
		now.end.start_errno = errno;
	else if (read(error[0], &code, sizeof(code)) == (ssize_t)sizeof(code))
		now.end.start_errno = code;
	close(error[0]);
}

void
guard_main(const struct guard *g)
{
	sigset_t set;

	now.g = g;
	now.sandbox_fd = -1;
	now.end.status = now.status = -1;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "raser-guard");
	setsid(); /* a signal to agentd's group is for agentd */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	now.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (getppid() != g->agentd)
		die_with_agentd(); /* it died before we asked to be told */
	if (now.signal_fd < 0)
		now.end.start_errno = errno;
	else
		start();
	now.next_look = now_ms() + POLL_MS;
	while (!now.end.start_errno && !now.ended)
		turn();
	finish();
	ssize_t n = write(g->report_fd, &now.end, sizeof(now.end));
	_exit(n == (ssize_t)sizeof(now.end) ? 0 : 1);
}
