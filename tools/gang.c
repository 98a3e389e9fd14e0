/*
 * gang.c - two pipes: the end of the first says that all are ready, the end of the second lets
 * them go.
 */
#include <config.h>

#include "gang.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct gang {
	int ready[2], gate[2];
};

void *
gang_memory(unsigned long size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void
kill_all(const pid_t *pids, int n)
{
	for (int i = 0; i < n; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

/* Read the end of a pipe; false when stop became true first. */
static bool
wait_for_end(int fd, const volatile bool *stop)
{
	char none;

	while (read(fd, &none, 1) < 0)
		if (errno != EINTR || (stop && *stop))
			return false;
	return true;
}

/* Wait for all, which are a process group of their own; how many failed. */
static int
collect(pid_t group, pid_t *pids, int n, const volatile bool *stop)
{
	int failed = 0;

	for (;;) {
		int status;
		pid_t pid = waitpid(-group, &status, 0);

		if (pid < 0 && errno == EINTR) {
			if (stop && *stop)
				kill_all(pids, n);
			continue;
		}
		if (pid < 0)
			break;
		for (int i = 0; i < n; i++) {
			if (pids[i] != pid)
				continue;
			pids[i] = 0;
			if (status) {
				failed++;
				kill_all(pids, n);
			}
		}
	}
	return failed;
}

int
gang_run(int n, gang_fn *work, void (*begin)(void *arg), void *arg, const volatile bool *stop)
{
	pid_t pids[GANG_MAX] = { 0 };
	pid_t parent = getpid();
	struct gang g;
	int rc = 0;

	if (n < 1 || n > GANG_MAX)
		return -EINVAL;
	if (pipe2(g.ready, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(g.gate, O_CLOEXEC) < 0) {
		rc = -errno;
		close(g.ready[0]);
		close(g.ready[1]);
		return rc;
	}
	for (int i = 0; i < n && !rc; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			rc = -errno;
		if (pids[i] == 0) {
			setpgid(0, pids[0]); /* 0, for the first one: its own */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			close(g.ready[0]);
			close(g.gate[1]);
			_exit(work(&g, i, arg) & 255);
		}
		setpgid(pids[i], pids[0]); /* whoever of us comes first */
	}
	close(g.ready[1]);
	close(g.gate[0]);
	if (rc || !wait_for_end(g.ready[0], stop))
		kill_all(pids, n);
	else if (begin)
		begin(arg);
	close(g.gate[1]);
	int failed = pids[0] > 0 ? collect(pids[0], pids, n, stop) : 0;
	close(g.ready[0]);
	return rc ? rc : failed;
}

void
gang_start(struct gang *g)
{
	close(g->ready[1]);
	wait_for_end(g->gate[0], NULL);
	close(g->gate[0]);
}
