/*
 * proc.c - the guard and its tree.
 */
#include <config.h>

#include "proc.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_PAUSE_MS = 5, KILL_ROUNDS = 1000 };

/* ---- the tree ---- */

struct process {
	pid_t pid, parent;
};

/* The parent of a process, or 0: proc(5), stat, field 4. */
static pid_t
parent_of(pid_t pid)
{
	char path[64];
	char line[512];
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	const char *p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (p && sscanf(p + 1, " %*c %d", &parent) != 1)
		parent = 0;
	fclose(f);
	return parent;
}

/* Signal every descendant of root. Returns how many there are. */
static int
signal_tree(pid_t root, int sig)
{
	struct process *all = NULL;
	size_t n = 0;
	size_t cap = 0;
	int hit = 0;
	DIR *d = opendir("/proc");

	if (!d)
		return 0;
	for (const struct dirent *e; (e = readdir(d));) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);

		if (*end || pid <= 0 || pid == root)
			continue;
		pid_t parent = parent_of((pid_t)pid);
		if (!parent)
			continue;
		if (n == cap) {
			struct process *grown = realloc(all, (cap + 1024) * sizeof(*grown));

			if (!grown)
				break;
			all = grown;
			cap += 1024;
		}
		all[n++] = (struct process){ (pid_t)pid, parent };
	}
	closedir(d);
	/* a process belongs to the tree when its ancestors lead to the root */
	for (size_t i = 0; i < n; i++) {
		pid_t up = all[i].parent;

		for (int depth = 0; up > 1 && up != root && depth < 64; depth++) {
			size_t k = 0;

			while (k < n && all[k].pid != up)
				k++;
			up = k < n ? all[k].parent : 0;
		}
		if (up != root)
			continue;
		hit++;
		if (sig)
			kill(all[i].pid, sig);
	}
	free(all);
	return hit;
}

static void
reap_all(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* Kill every descendant of this process until there is none: one may fork while it is looked
 * for, but not for long, since each round kills the parents. What hangs in the kernel for seconds
 * is left to it: the attempt must end all the same. */
static void
kill_descendants(void)
{
	for (int i = 0; i < KILL_ROUNDS && signal_tree(getpid(), SIGKILL) > 0; i++) {
		reap_all();
		poll(NULL, 0, KILL_PAUSE_MS);
	}
	reap_all();
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	/* an agent may have taken away its own rights to a directory */
	if (remove(path) < 0 && type == FTW_DNR)
		chmod(path, 0700);
	return 0;
}

void
remove_tree(const char *path)
{
	/* the second time enters what the first had to open */
	for (int i = 0; i < 2; i++)
		nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- the agent ---- */

/* In the child: become the agent. Writes errno to fd when that fails. */
static void
become_agent(const struct proc_spec *s, int fd)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL); /* agentd ignores it */
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the guard be killed as well */
	setsid();
	int in = open(s->stdin_path, O_RDONLY);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(s->output_fd, STDOUT_FILENO) < 0 ||
	    dup2(s->output_fd, STDERR_FILENO) < 0 || chdir(s->workspace) < 0)
		goto fail;
	if (in > STDERR_FILENO)
		close(in);
	const struct rlimit no_core = { 0, 0 };
	setrlimit(RLIMIT_CORE, &no_core);
	for (char *const *e = s->env; *e; e++)
		if (putenv(*e))
			goto fail;
	if (s->memory > 0) {
		/* last: what we have mapped ourselves may be above it already */
		const struct rlimit limit = { (rlim_t)s->memory, (rlim_t)s->memory };

		if (setrlimit(RLIMIT_AS, &limit) < 0)
			goto fail;
	}
	execvp(s->argv[0], s->argv);
fail:;
	int code = errno;
	ssize_t n = write(fd, &code, sizeof(code));
	(void)n;
	_exit(127);
}

/* ---- the guard ---- */

struct guard {
	const struct proc_spec *spec;
	pid_t agentd, agent;
	int report_fd, signal_fd;
};

static void
die_with_agentd(const struct guard *g)
{
	kill_descendants();
	remove_tree(g->spec->scratch);
	_exit(1);
}

/* Act on what has been signalled; true when the agent itself has ended, with *end filled. */
static bool
on_signals(struct guard *g, struct proc_end *end)
{
	struct signalfd_siginfo si;
	bool ended = false;

	while (read(g->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (getppid() != g->agentd)
			die_with_agentd(g);
		if (si.ssi_signo == SIGTERM) {
			signal_tree(getpid(), SIGTERM);
			signal_tree(getpid(), SIGCONT);
		} else if (si.ssi_signo == SIGUSR1) {
			signal_tree(getpid(), SIGKILL);
		}
	}
	for (;;) {
		int status;
		struct rusage ru;
		pid_t pid = wait4(-1, &status, WNOHANG, &ru);

		if (pid <= 0)
			break;
		if ((int64_t)ru.ru_maxrss * 1024 > end->peak_rss)
			end->peak_rss = (int64_t)ru.ru_maxrss * 1024;
		if (pid == g->agent) {
			end->status = status;
			ended = true;
		}
	}
	return ended;
}

static void
guard_main(struct guard *g)
{
	struct proc_end end = { .status = -1 };
	int fds[2];
	sigset_t set;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "raser-guard");
	setsid(); /* a signal to agentd's group is for agentd */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_SETMASK, &set, NULL);
	g->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (g->signal_fd < 0 || pipe2(fds, O_CLOEXEC) < 0) {
		end.start_errno = errno;
		goto report;
	}
	if (getppid() != g->agentd)
		_exit(1); /* it died before we asked to be told */
	g->agent = fork();
	if (g->agent == 0)
		become_agent(g->spec, fds[1]);
	close(fds[1]);
	if (g->agent < 0) {
		end.start_errno = errno;
		goto report;
	}
	if (read(fds[0], &end.start_errno, sizeof(end.start_errno)) < 0)
		end.start_errno = errno;
	struct pollfd p = { .fd = g->signal_fd, .events = POLLIN };
	while (!on_signals(g, &end))
		poll(&p, 1, -1);
	if (end.start_errno)
		end.status = -1;
report:;
	kill_descendants();
	ssize_t n = write(g->report_fd, &end, sizeof(end));
	_exit(n == (ssize_t)sizeof(end) ? 0 : 1);
}

int
proc_start(struct proc *p, const struct proc_spec *spec)
{
	int fds[2];
	struct guard g = { .spec = spec, .agentd = getpid() };

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->guard = fork();
	if (p->guard < 0) {
		int rc = -errno;

		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (p->guard == 0) {
		/* nothing of agentd's stays open, above all not the claim: it must end with agentd */
		int keep[2] = { fds[1], spec->output_fd };
		int low = keep[0] < keep[1] ? keep[0] : keep[1];
		int high = keep[0] < keep[1] ? keep[1] : keep[0];

		if (low > 3)
			syscall(SYS_close_range, 3U, (unsigned)low - 1, 0U);
		if (high > low + 1)
			syscall(SYS_close_range, (unsigned)low + 1, (unsigned)high - 1, 0U);
		syscall(SYS_close_range, (unsigned)high + 1, ~0U, 0U);
		g.report_fd = fds[1];
		guard_main(&g);
	}
	close(fds[1]);
	p->fd = fds[0];
	return 0;
}

void
proc_term(const struct proc *p)
{
	kill(p->guard, SIGTERM);
}

void
proc_kill(const struct proc *p)
{
	kill(p->guard, SIGUSR1);
}

void
proc_finish(struct proc *p, struct proc_end *end)
{
	ssize_t n = read(p->fd, end, sizeof(*end));

	if (n != (ssize_t)sizeof(*end)) {
		/* somebody killed the guard: its orphans are ours now (main.c is a subreaper too) */
		*end = (struct proc_end){ .status = SIGKILL };
		kill(p->guard, SIGKILL);
		while (waitpid(p->guard, NULL, 0) < 0 && errno == EINTR)
			;
		kill_descendants();
	} else {
		while (waitpid(p->guard, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(p->fd);
	p->fd = -1;
	p->guard = -1;
}
