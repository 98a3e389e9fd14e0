/*
 * mounting.c - a mount for the time of a run. In a mount namespace of its own it goes with its
 * last process, whatever dies first.
 */
#include <config.h>

#include "mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void
sibling(const char *name, char path[PATH_MAX])
{
	static const char *const places[] = { "", "../sbin/", "../bin/" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, PATH_MAX, "%.*s%s%s", (int)(slash + 1 - self), self, places[i], name);
		if (access(path, X_OK) == 0)
			return;
	}
	snprintf(path, PATH_MAX, "%s", name);
}

static bool
write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Enter a mount namespace of our own; with our own uid when that takes a user namespace. */
static bool
enter_namespace(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		return unshare(CLONE_NEWNS) == 0 &&
		       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (!write_text("/proc/self/uid_map", map))
		return false;
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	return write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/gid_map", map);
}

/* Mount /dev/fuse ourselves, since capabilities do not outlive an exec. Its descriptor or -1. */
static int
mount_fuse(const char *dir)
{
	char data[128];
	int fd = open("/dev/fuse", O_RDWR); /* inherited by the daemon */

	if (fd < 0)
		return -1;
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd,
		 (unsigned)geteuid(), (unsigned)getegid());
	if (mount("raserfs", dir, "fuse.raserfs", MS_NOSUID | MS_NODEV, data) == 0)
		return fd;
	close(fd);
	return -1;
}

int
mounting_try(const char *dir, struct err *why)
{
	static const char *const steps[] = { "", "unshare", "mount" };
	char point[PATH_MAX];
	int status;

	snprintf(point, sizeof(point), "%.3000s/raser-try.XXXXXX", dir);
	if (!mkdtemp(point))
		return err_set(why, -errno, "%s: %s", dir, strerror(errno));
	pid_t pid = fork();
	if (pid == 0) {
		int step = !enter_namespace() ? 1 : mount_fuse(point) < 0 ? 2 : 0;

		/* a number for the step and one for the error in one status */
		_exit(step ? 64 * step + (errno & 63) : 0);
	}
	int rc = pid < 0 ? -errno : 0;
	while (!rc && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			rc = -errno;
	rmdir(point);
	if (rc || !WIFEXITED(status))
		return err_set(why, rc ? rc : -ECHILD, "no process: %s", strerror(rc ? -rc : ECHILD));
	int code = WEXITSTATUS(status);
	return code ? err_set(why, -(code & 63), "%s: %s", steps[code / 64], strerror(code & 63)) : 0;
}

static pid_t
start_daemon(const struct target *t, const char *mountpoint, int log_fd)
{
	char program[PATH_MAX];
	pid_t parent = getpid();

	sibling("raserfs", program);
	pid_t pid = fork();
	if (pid)
		return pid;
	/* alone in its group, so that a Ctrl-C ends the agents first */
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (log_fd >= 0)
		dup2(log_fd, STDERR_FILENO);
	execlp(program, program, "-f", t->run, mountpoint, (char *)NULL);
	perror(program);
	_exit(127);
}

/* The daemon answers, or has ended. */
static bool
wait_for_mount(struct mounting *m)
{
	char path[PATH_MAX + 16];
	struct stat st;
	int status;

	snprintf(path, sizeof(path), "%s/status.json", m->dir);
	while (stat(path, &st) < 0) {
		if (waitpid(m->daemon, &status, WNOHANG) == m->daemon) {
			m->daemon = 0;
			return false;
		}
		poll(NULL, 0, 10);
	}
	return true;
}

bool
mounting_start(struct mounting *m, const struct target *t, const char *dir, int log_fd)
{
	const char *tmp = getenv("TMPDIR");
	char point[PATH_MAX];
	int fd = -1;

	*m = (struct mounting){ 0 };
	if (dir) {
		if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
			complain(1, "%s: %s", dir, strerror(errno));
			return false;
		}
		if (!realpath(dir, m->dir)) {
			complain(1, "%s: %s", dir, strerror(errno));
			return false;
		}
	} else {
		snprintf(m->dir, sizeof(m->dir), "%.3000s/raser-run.XXXXXX",
			 tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(m->dir)) {
			complain(1, "%s: no mount point can be made: %s", m->dir, strerror(errno));
			return false;
		}
		snprintf(m->made, sizeof(m->made), "%s", m->dir);
		if (enter_namespace())
			fd = mount_fuse(m->dir);
		m->private_ns = fd >= 0;
	}
	snprintf(point, sizeof(point), "%s", m->dir);
	if (fd >= 0)
		snprintf(point, sizeof(point), "/dev/fd/%d", fd);
	m->daemon = start_daemon(t, point, log_fd);
	if (fd >= 0)
		close(fd);
	if (m->daemon > 0 && wait_for_mount(m))
		return true;
	complain(1, "raserfs cannot serve %s%s", t->run, log_fd >= 0 ? "; its log says why" : "");
	mounting_end(m);
	return false;
}

void
mounting_end(struct mounting *m)
{
	if (m->daemon > 0) {
		kill(m->daemon, SIGTERM);
		while (waitpid(m->daemon, NULL, 0) < 0 && errno == EINTR)
			;
		m->daemon = 0;
	}
	if (m->private_ns)
		umount2(m->dir, MNT_DETACH);
	if (m->made[0])
		rmdir(m->made);
}
