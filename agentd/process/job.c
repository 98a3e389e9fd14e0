/*
 * job.c - a child that does one thing and reports it through a pipe.
 */
#include <config.h>

#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RESULT_MAX = 4096 - sizeof(max_align_t) /* a pipe takes a page whole: pipe(7) */ };

struct report {
	int rc;
	_Alignas(max_align_t) char result[RESULT_MAX]; /* some structure of the job's */
};

static void
child(job_fn *fn, const void *arg, size_t size, int fd)
{
	static struct report report;
	sigset_t none;

	/* of a job nothing is left when agentd dies, and its own signals mean what they always do */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "raser-job");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* a Ctrl-C is for agentd, which then decides what becomes of this */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	report.rc = fn(arg, report.result);
	size_t len = offsetof(struct report, result) + size;
	_exit(write(fd, &report, len) == (ssize_t)len ? 0 : 1);
}

int
job_start(struct job *j, job_fn *fn, const void *arg, size_t size, int drop_fd)
{
	int fds[2];

	if (size > RESULT_MAX)
		return -EINVAL;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid < 0) {
		int rc = -errno;

		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (pid == 0) {
		close(fds[0]);
		if (drop_fd >= 0)
			close(drop_fd);
		if (getppid() != parent)
			_exit(1);
		child(fn, arg, size, fds[1]);
	}
	close(fds[1]);
	*j = (struct job){ .pid = pid, .fd = fds[0], .size = size };
	return 0;
}

int
job_finish(struct job *j, void *result)
{
	struct report report = { 0 };
	ssize_t n;

	do {
		n = read(j->fd, &report, sizeof(report));
	} while (n < 0 && errno == EINTR);
	close(j->fd);
	while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
		;
	bool whole = n == (ssize_t)(offsetof(struct report, result) + j->size);
	if (result && j->size)
		memset(result, 0, j->size);
	if (whole && result && j->size)
		memcpy(result, report.result, j->size);
	*j = (struct job){ .fd = -1 };
	return whole ? report.rc : -EIO;
}

void
job_kill(const struct job *j)
{
	if (j->pid > 0)
		kill(j->pid, SIGKILL);
}
