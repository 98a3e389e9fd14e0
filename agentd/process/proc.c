/*
 * proc.c - agentd's side of a guard.
 */
#include <config.h>

#include "proc.h"

#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void
proc_init(void)
{
	cgroup_sweep(memory_roots_system());
}

/* Decide how the memory is limited, and say so when that changes. */
static int
limit_memory(struct guard *g)
{
	static enum memory_by said = MEMORY_AUTO;
	const struct proc_spec *s = g->spec;
	struct err err;

	if (s->memory <= 0)
		return 0;
	if (s->memory_by != MEMORY_POLL) {
		int rc = cgroup_make(memory_roots_system(), s->memory, &g->cgroup, &err);

		if (!rc)
			return 0;
		if (s->memory_by == MEMORY_CGROUP) {
			log_warnx("memory: %s", err.text);
			return rc;
		}
		if (said != MEMORY_POLL)
			log_info("memory: no cgroup of its own for an agent (%s); it is polled",
				 err.text);
	} else if (said != MEMORY_POLL) {
		log_info("memory: agents are polled, as asked");
	}
	said = MEMORY_POLL;
	g->poll_memory = true;
	return 0;
}

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static bool
close_between(int from, int to)
{
	return from > to || syscall(SYS_close_range, (unsigned)from, (unsigned)to, 0U) == 0;
}

/* Close all descriptors from 3 on but these: nothing of agentd's may stay open in a guard, above
 * all not the claim, which must end with agentd. */
static void
close_others(int *keep, size_t n)
{
	int from = STDERR_FILENO + 1;
	bool good = true;

	qsort(keep, n, sizeof(*keep), by_number);
	for (size_t i = 0; i < n && good; i++) {
		good = close_between(from, keep[i] - 1);
		from = keep[i] + 1;
	}
	if (good && close_between(from, INT_MAX))
		return;
	/* Linux before 5.9 */
	DIR *d = opendir("/proc/self/fd");
	for (const struct dirent *e; d && (e = readdir(d));) {
		int fd = (int)strtol(e->d_name, NULL, 10);

		if (fd > STDERR_FILENO && fd != dirfd(d) &&
		    !bsearch(&fd, keep, n, sizeof(*keep), by_number))
			close(fd);
	}
	if (d)
		closedir(d);
}

int
proc_start(struct proc *p, const struct proc_spec *spec)
{
	int fds[2] = { -1, -1 };
	int cmds[2] = { -1, -1 };
	struct guard g = { .spec = spec, .agentd = getpid() };
	int rc = limit_memory(&g);

	*p = (struct proc){ .guard = -1, .fd = -1, .cmd = -1 };
	if (rc)
		return rc;
	g.oom_before = g.cgroup.version ? 0 : memory_oom_kills(memory_roots_system());
	if (pipe2(fds, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, cmds) < 0)
		goto fail;
	p->guard = fork();
	if (p->guard < 0)
		goto fail;
	if (p->guard == 0) {
		int keep[] = { fds[1], cmds[1], spec->output_fd };

		close_others(keep, sizeof(keep) / sizeof(keep[0]));
		g.report_fd = fds[1];
		g.cmd_fd = cmds[1];
		guard_main(&g);
	}
	close(fds[1]);
	close(cmds[1]);
	p->fd = fds[0];
	p->cmd = cmds[0];
	p->cgroup = g.cgroup;
	return 0;
fail:
	rc = -errno;
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		if (cmds[i] >= 0)
			close(cmds[i]);
	}
	if (g.cgroup.version)
		cgroup_remove(&g.cgroup);
	return rc;
}

static bool
order(const struct proc *p, enum guard_order what)
{
	const char byte = (char)what;

	kill(p->guard, SIGCONT); /* an agent of the same user may have stopped it */
	/* a guard that is gone is found by p->fd */
	return send(p->cmd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

void
proc_term(const struct proc *p)
{
	order(p, ORDER_TERM);
}

void
proc_kill(const struct proc *p)
{
	order(p, ORDER_KILL);
}

bool
proc_freeze(const struct proc *p)
{
	struct pollfd w = { .fd = p->cmd, .events = POLLIN };
	char answer = 0;

	while (recv(p->cmd, &answer, 1, MSG_DONTWAIT) == 1)
		; /* late, to one that was given up */
	answer = 0;
	if (!order(p, ORDER_FREEZE))
		return false;
	if (poll(&w, 1, FREEZE_MS + FREEZE_MS / 2) <= 0 ||
	    recv(p->cmd, &answer, 1, MSG_DONTWAIT) != 1 || !answer) {
		order(p, ORDER_THAW); /* whatever happened to it */
		return false;
	}
	return true;
}

void
proc_thaw(const struct proc *p)
{
	order(p, ORDER_THAW);
}

bool
proc_usage(const struct proc *p, struct usage *u)
{
	static struct tree t;
	struct tree_process guard;

	if (p->guard <= 0 || !tree_look(p->guard, &guard) || tree_list(&t, p->guard) < 0)
		return false;
	if (guard.state == 'T')
		kill(p->guard, SIGCONT); /* it could not even say that the agent has ended */
	tree_usage(&t, p->guard, u);
	return t.n > 0;
}

void
proc_finish(struct proc *p, struct proc_end *end)
{
	ssize_t n = read(p->fd, end, sizeof(*end));

	if (n != (ssize_t)sizeof(*end)) {
		/* somebody killed the guard: its orphans are ours, a subreaper's, now */
		*end = (struct proc_end){ .status = SIGKILL, .oom_kills = -1 };
		kill(p->guard, SIGKILL);
		while (waitpid(p->guard, NULL, 0) < 0 && errno == EINTR)
			;
		kill_descendants();
		if (p->cgroup.version)
			cgroup_remove(&p->cgroup);
	} else {
		while (waitpid(p->guard, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(p->fd);
	close(p->cmd);
	*p = (struct proc){ .guard = -1, .fd = -1, .cmd = -1 };
}
