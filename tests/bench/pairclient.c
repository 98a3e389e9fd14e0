/* pairclient.c - server process, mount and clients of a mounted queue; see pairclient.h. */
#include <config.h>

#include "pairclient.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double patience = 10; /* seconds that a server may take to come or to go */

static void
nap(int ms)
{
	poll(NULL, 0, ms);
}

void
command(const char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[0], (char *const *)argv);
		err(127, "%s", argv[0]);
	}
	if (waitpid(pid, &status, 0) < 0)
		err(1, "%s", argv[0]);
	if (status)
		errx(1, "%s %s failed (wait status %#x)", argv[0], argv[1], status);
}

pid_t
server_fork(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
			_exit(1);
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	return pid;
}

int
server_wait(pid_t server, const char *mnt)
{
	double until = crew_now() + patience;
	int status;
	pid_t got;

	while ((got = waitpid(server, &status, WNOHANG)) == 0 && crew_now() < until)
		nap(2);
	if (got == 0) {
		kill(server, SIGKILL);
		waitpid(server, &status, 0);
	}
	mount_drop(mnt);
	if (got == server && status == 0)
		return 0;
	warnx("the server of %s did not end well (wait status %#x)", mnt, status);
	return -1;
}

static bool
is_mounted(const char *mnt)
{
	char up[4096];
	struct stat here, parent;

	snprintf(up, sizeof up, "%s/..", mnt);
	if (stat(mnt, &here))
		return errno == ENOTCONN;
	return !stat(up, &parent) && here.st_dev != parent.st_dev;
}

void
mount_wait(const char *mnt, pid_t server)
{
	double until = crew_now() + patience;

	while (!is_mounted(mnt)) {
		if (crew_now() > until || waitpid(server, NULL, WNOHANG)) {
			kill(server, SIGTERM);
			errx(1, "nothing was mounted on %s", mnt);
		}
		nap(2);
	}
}

void
mount_drop(const char *mnt)
{
	if (!is_mounted(mnt))
		return;
	if (geteuid() != 0)
		command((const char *[]){ "fusermount3", "-uz", mnt, NULL });
	else if (umount2(mnt, MNT_DETACH))
		err(1, "unmount %s", mnt);
}

/* Takes one task; returns its open descriptor, or -1 with errno EAGAIN or ENODATA. */
static int
take(const char *next, long *task)
{
	char text[4096];
	ssize_t n;
	int attempt;
	int fd = open(next, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && (errno == EAGAIN || errno == ENODATA))
		return -1;
	if (fd < 0)
		err(1, "%s", next);
	/* Direct I/O, so a short read has it all and spares the one that would say so. */
	n = read(fd, text, sizeof text - 1);
	if (n < 0 || n == sizeof text - 1)
		err(1, "read %s", next);
	text[n] = '\0';
	if (sscanf(text, "leases/t%ld@%d\n", task, &attempt) != 2 || attempt != 1)
		errx(1, "%s: unexpected text: %s", next, text);
	return fd;
}

void
pair_client(struct crew *c, void *arg)
{
	char next[4096];
	long task;

	snprintf(next, sizeof next, "%s/queue/high/next", (const char *)arg);
	crew_start(c);
	while (crew_goes_on(c)) {
		int fd = take(next, &task);

		if (fd < 0 && errno == ENODATA)
			break;
		if (fd < 0) {
			nap(1);
			continue;
		}
		crew_claimed(c, task);
		if (write(fd, "done\n", 5) != 5)
			err(1, "end of task %ld", task);
		crew_ended(c);
		if (close(fd))
			err(1, "close of task %ld", task);
	}
}
