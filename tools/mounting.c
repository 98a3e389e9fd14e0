/*
 * mounting.c - a mount for the time of a run. In a mount namespace of its own it goes with its
 * last process, whatever dies first.
 */
#include <config.h>

#include "mounting.h"

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PAUSE_FIRST_MS = 100,
	PAUSE_LAST_MS = 30000,
	TELL_MS = 5000,
	EXIT_OTHER_RUN = 4, /* of raserfs: the directory is another run's by now */
};

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

/* Let raserfs mount in our user namespace: a capability that outlives exec(2), as an ordinary user's
 * do not. Nobody else gets it, and outside of the namespace it is worth nothing. */
static void
keep_admin(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return;
	data[0].inheritable |= 1U << CAP_SYS_ADMIN;
	if (!syscall(SYS_capset, &head, data))
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

/* What raserfs does there, without serving it. */
static bool
mount_fuse(const char *dir)
{
	char data[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd,
		 (unsigned)geteuid(), (unsigned)getegid());
	return fd >= 0 && mount("raserfs", dir, "fuse.raserfs", MS_NOSUID | MS_NODEV, data) == 0;
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
		int step = !enter_namespace() ? 1 : !mount_fuse(point) ? 2 : 0;

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

bool
mounting_fusermount(char path[PATH_MAX], struct err *why)
{
	struct stat st;

	path[0] = '\0';
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		err_set(why, -errno, "/dev/fuse: %s", strerror(errno));
		return false;
	}
	close(fd);
	if (program_find("fusermount3", path) || stat(path, &st) < 0) {
		path[0] = '\0';
		err_set(why, -ENOENT, "there is no fusermount3 in PATH");
		return false;
	}
	if (st.st_mode & S_ISUID && st.st_uid == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) <= 0)
		return true;
	err_set(why, -EPERM, "%s may not mount for users", path);
	return false;
}

bool
mounting_possible(struct err *why)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];

	if (!mounting_try(tmp && *tmp ? tmp : "/tmp", why))
		return true;
	/* for root it would do what was tried just now */
	return geteuid() != 0 && mounting_fusermount(path, why);
}

static pid_t
start_daemon(const struct mounting *m, const struct target *t)
{
	char program[PATH_MAX];
	char options[PATH_MAX + 128];
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
	if (m->spec.log_fd >= 0)
		dup2(m->spec.log_fd, STDERR_FILENO);
	if (m->private_ns && geteuid() != 0)
		keep_admin();
	snprintf(options, sizeof(options), "supervise,restarts=%d%s%s", m->restarts,
		 m->spec.options ? "," : "", m->spec.options ? m->spec.options : "");
	execlp(program, program, "-f", "-o", options, t->run, m->dir, (char *)NULL);
	perror(program);
	_exit(127);
}

/* One of the signals that end a run, which the caller has blocked, has come. */
static bool
is_told_to_end(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT) ||
					 sigismember(&set, SIGHUP) || sigismember(&set, SIGUSR1));
}

/* The daemon answers, or has ended, or nobody wants it any more. */
static bool
wait_for_mount(struct mounting *m, const char *run)
{
	int64_t tell_at = m->started + TELL_MS;
	char path[PATH_MAX + 16];
	struct stat st;
	int status;

	snprintf(path, sizeof(path), "%s/status.json", m->dir);
	while (stat(path, &st) < 0) {
		if (waitpid(m->daemon, &status, WNOHANG) == m->daemon) {
			m->daemon = 0;
			return false;
		}
		m->stopped = is_told_to_end();
		if (m->stopped)
			return false;
		if (now_read().boot_ms > tell_at) {
			complain(0, "waiting for raserfs to mount %s; %s/logs says why that lasts", run,
				 run);
			tell_at = INT64_MAX;
		}
		poll(NULL, 0, 10);
	}
	return true;
}

/* The mount point of a spec. False after a message. */
static bool
make_point(struct mounting *m)
{
	const char *tmp = getenv("TMPDIR");
	const char *dir = m->spec.dir;

	if (dir) {
		if ((mkdir(dir, 0777) == 0 || errno == EEXIST) && realpath(dir, m->dir))
			return true;
		complain(1, "%s: %s", dir, strerror(errno));
		return false;
	}
	snprintf(m->dir, sizeof(m->dir), "%.3000s/raser-run.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(m->dir)) {
		complain(1, "%s: no mount point can be made: %s", m->dir, strerror(errno));
		return false;
	}
	snprintf(m->made, sizeof(m->made), "%s", m->dir);
	return true;
}

bool
mounting_start(struct mounting *m, const struct target *t, const struct mounting_spec *spec)
{
	*m = (struct mounting){ .spec = *spec };
	if (!make_point(m))
		return false;
	/* once is enough, should we be asked again */
	static bool entered;
	entered = entered || (spec->how != MOUNTING_VISIBLE && enter_namespace());
	m->private_ns = entered && spec->how != MOUNTING_VISIBLE;
	if (spec->how == MOUNTING_PRIVATE && !m->private_ns) {
		complain(1, "no private mount can be had: %s", strerror(errno));
		mounting_end(m);
		return false;
	}
	m->started = now_read().boot_ms;
	m->daemon = start_daemon(m, t);
	if (m->daemon > 0 && wait_for_mount(m, t->run))
		return true;
	if (m->stopped)
		complain(1, "stopped before %s was mounted", t->run);
	else
		complain(1, "raserfs cannot serve %s%s", t->run,
			 spec->log_fd >= 0 ? "; its log says why" : "");
	mounting_end(m);
	return false;
}

/* A raserfs among our children: as we reap what others leave behind, one whose supervisor died. */
static pid_t
find_orphan(void)
{
	char path[64];
	char comm[32];
	int pid;
	pid_t found = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
	FILE *f = fopen(path, "re");
	while (f && !found && fscanf(f, "%d", &pid) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		FILE *c = fopen(path, "re");

		if (c && fgets(comm, sizeof(comm), c) && !strcmp(comm, "raserfs\n"))
			found = pid;
		if (c)
			fclose(c);
	}
	if (f)
		fclose(f);
	return found;
}

bool
mounting_died(struct mounting *m, int status, int64_t now_ms, char *what, size_t size)
{
	bool exited = WIFEXITED(status);
	int code = exited ? WEXITSTATUS(status) : WTERMSIG(status);
	const char *how = exited ? "ended with status" : "was killed by signal";
	pid_t pid = m->daemon;

	what[0] = '\0';
	m->daemon = 0;
	if (exited && ((code == 0 && !m->spec.always) || code == EXIT_OTHER_RUN))
		return false;
	m->daemon = m->adopted ? 0 : find_orphan();
	m->adopted = m->daemon;
	if (m->adopted) {
		snprintf(what, size, "the supervisor of raserfs (pid %ld) %s %d; raserfs (pid %ld) serves on",
			 (long)pid, how, code, (long)m->daemon);
		return true;
	}
	/* who lived for a while did not die of its start */
	if (now_ms - m->started > 10 * m->pause_ms)
		m->pause_ms = 0;
	if (!m->pause_ms || m->pause_ms == PAUSE_FIRST_MS)
		snprintf(what, size, "raserfs (pid %ld) %s %d; starting it again", (long)pid, how, code);
	m->restart_at = now_ms + m->pause_ms;
	m->pause_ms = !m->pause_ms ? PAUSE_FIRST_MS :
		      m->pause_ms * 2 < PAUSE_LAST_MS ? m->pause_ms * 2 : PAUSE_LAST_MS;
	return true;
}

void
mounting_again(struct mounting *m, const struct target *t, int64_t now_ms, int restarts)
{
	if (m->daemon || now_ms < m->restart_at)
		return;
	m->restarts = (restarts > m->restarts ? restarts : m->restarts) + 1;
	m->started = now_ms;
	m->daemon = start_daemon(m, t);
	if (m->daemon < 0) {
		m->daemon = 0;
		m->restart_at = now_ms + PAUSE_LAST_MS;
	}
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
