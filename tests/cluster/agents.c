/*
 * agents.c - agents that work on a mount of which any part may die at any time, and that write down
 * what they were told.
 *
 *     agents MNT TIER N WORK_MS LOG
 *
 * N processes take tasks through queue/TIER/next, work for up to twice WORK_MS, touching their
 * leases, and end them in one of the three ways: by a verb on the descriptor, by a verb on the
 * lease, by rename. One in fifty takes ten times as long, one in a hundred dies without a word and
 * is started again. A mount that is gone is waited for, a claim that was taken away is given up.
 * They end when the tier is drained and LOG.end is there.
 *
 * LOG gets a line for each answer, "T@k took MS" (how long it waited for the task), "T@k done", or "T@k ERROR" for a refused end; an end
 * whose answer is unknown (EIO, or the mount died) is "T@k unknown". The last line is the sum.
 */
#include <config.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chk.h"

enum { SLOW = 50, MORTAL = 100, LOOK_MS = 30, RETRY_MS = 100, TOUCH_MS = 500, NAME = 256 };
enum { DRAINED = 0, DIED = 3 };

struct agent {
	const char *mnt;
	char next[PATH_MAX];
	char end[PATH_MAX]; /* when it is there, a drained tier is the end */
	int work_ms, log;
	unsigned seed;
};

static void
nap(int ms)
{
	poll(NULL, 0, ms);
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int
one_in(struct agent *a, int n)
{
	return rand_r(&a->seed) % n == 0;
}

static void
say(const struct agent *a, const char *name, const char *what)
{
	char line[NAME + 64];
	int n = snprintf(line, sizeof(line), "%s %s\n", name, what);

	if (write(a->log, line, (size_t)n) != n) /* O_APPEND: lines stay whole */
		err(1, "log");
}

/* The mount, or what is below it, is not there at the moment. */
static bool
is_passing(int code)
{
	return code == ENOTCONN || code == ECONNABORTED || code == EIO || code == ENOENT ||
	       code == EAGAIN || code == EINTR || code == ENODEV || code == ESTALE || code == ENXIO;
}

/* A task and its name, "T@k"; -1 when the tier is drained and that is the end. */
static int
take(const struct agent *a, char name[NAME])
{
	char text[4096];

	for (;;) {
		int fd = open(a->next, O_RDWR | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0 && errno == ENODATA && access(a->end, F_OK) == 0)
			return -1;
		if (fd < 0 && errno != ENODATA && !is_passing(errno))
			err(1, "%s", a->next);
		if (fd < 0) {
			nap(errno == EAGAIN ? LOOK_MS : RETRY_MS);
			continue;
		}
		ssize_t n = read(fd, text, sizeof(text) - 1);
		if (n > 0) {
			text[n] = '\0';
			if (sscanf(text, "leases/%255[^\n]", name) == 1)
				return fd;
			errx(1, "%s: unexpected text: %s", a->next, text);
		}
		close(fd); /* the mount died in between */
		nap(RETRY_MS);
	}
}

static void
lease_path(const struct agent *a, const char *dir, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s/%s", a->mnt, dir, name);
}

/* Work; false when a touch says that the attempt is over. */
static bool
work(struct agent *a, const char *name)
{
	char lease[PATH_MAX];
	int ms = rand_r(&a->seed) % (2 * a->work_ms + 1);

	if (one_in(a, SLOW))
		ms *= 10;
	lease_path(a, "leases", name, lease);
	for (; ms > TOUCH_MS; ms -= TOUCH_MS) {
		nap(TOUCH_MS);
		if (utimensat(AT_FDCWD, lease, NULL, 0) < 0 && errno == ESTALE) {
			say(a, name, "refused-touch");
			return false;
		}
	}
	nap(ms);
	return true;
}

static int
end_task(struct agent *a, int fd, const char *name)
{
	static const char verb[] = "done\n";
	char lease[PATH_MAX];
	char done[PATH_MAX];
	int rc;

	lease_path(a, "leases", name, lease);
	lease_path(a, "done", name, done);
	switch (rand_r(&a->seed) % 3) {
	case 0:
		return write(fd, verb, sizeof(verb) - 1) < 0 ? errno : 0;
	case 1:
		return rename(lease, done) < 0 ? errno : 0;
	default:
		fd = open(lease, O_WRONLY | O_CLOEXEC);
		rc = fd < 0 || write(fd, verb, sizeof(verb) - 1) < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
		return rc;
	}
}

_Noreturn static void
live(struct agent *a)
{
	char name[NAME];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		double from = now_ms();
		char took[64];

		fd = take(a, name);
		if (fd < 0)
			break;
		snprintf(took, sizeof(took), "took %.1f", now_ms() - from);
		say(a, name, took);
		if (work(a, name)) {
			if (one_in(a, MORTAL)) {
				say(a, name, "died");
				_exit(DIED);
			}
			int code = end_task(a, fd, name);
			/* a mount that died may have ended it; ENOENT: another mount is there now */
			bool unknown = code == EIO || code == ENOTCONN || code == ECONNABORTED ||
				       code == EINTR || code == ENOENT || code == EBADF;

			say(a, name, !code ? "done" : unknown ? "unknown" : error_name(code));
		}
		close(fd);
	}
	_exit(DRAINED);
}

static pid_t
start(struct agent *a)
{
	pid_t pid = fork();

	a->seed += 7919;
	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		live(a);
	return pid;
}

int
main(int argc, char **argv)
{
	struct agent a = { 0 };
	int drained = 0;
	int failed = 0;
	int status;

	if (argc != 6)
		errx(2, "usage: agents MNT TIER N WORK_MS LOG");
	int n = atoi(argv[3]);
	a.mnt = argv[1];
	snprintf(a.next, sizeof(a.next), "%s/queue/%s/next", argv[1], argv[2]);
	snprintf(a.end, sizeof(a.end), "%s.end", argv[5]);
	a.work_ms = atoi(argv[4]);
	a.log = open(argv[5], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (a.log < 0 || n < 1 || a.work_ms < 0)
		errx(2, "%s agents, %s ms, log %s", argv[3], argv[4], argv[5]);
	a.seed = (unsigned)getpid() ^ (unsigned)time(NULL);
	for (int i = 0; i < n; i++)
		start(&a);
	while (drained + failed < n && wait(&status) > 0) {
		if (WIFEXITED(status) && WEXITSTATUS(status) == DRAINED)
			drained++;
		else if (WIFEXITED(status) && WEXITSTATUS(status) == DIED)
			start(&a);
		else
			failed++;
	}
	dprintf(a.log, "# %d drained, %d failed\n", drained, failed);
	return failed != 0;
}
