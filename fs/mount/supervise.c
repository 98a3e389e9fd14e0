/*
 * supervise.c - one serving child after the other.
 *
 * Rules: act first, speak later, since a log may lie on a storage that does not answer; reap a
 * child before the next one is started, since its claims are freed only by who sees it gone; never
 * touch the mount. What is meant (unmounted, told to end, wrong use at the first start) ends the
 * supervisor too; everything else is mounted again, for ever.
 */
#include <config.h>

#include "supervise.h"

#include "detach.h"
#include "log.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PAUSE_FIRST_MS = 100,
	PAUSE_LAST_MS = 30000,
	RESTED_MS = 60000, /* who has served so long did not die of its start */
	LIVED_MS = 1000,
	DEATH_MS = 5000, /* from SIGKILL; longer means that it hangs in the kernel */
	START_MS = 2000, /* from SIGTERM to who has no mount yet */
	STRAYS_MS = 2000,
	BUSY_TIMES = 3, /* so many windows more for who is on a CPU, or waits for one */
	SIGNS = 8,	/* signs of life in a window */
	SLICES = 4,
	WEDGES_MAX = 3,
};

enum tell { TELL_MOUNTING, TELL_SERVING, TELL_TURN, TELL_LEAVING };

/* What goes through the pipe: below PIPE_BUF, so whole. */
struct word {
	enum tell tell;
	int64_t limit_ms;
	char owner[OWNER_TEXT];
	char uuid[UUID_TEXT];
};

/* One child. */
struct life {
	pid_t pid;
	int fd; /* what it tells */
	bool mounting, serving, leaving, dead;
	int status; /* of waitpid(2), once dead */
	int below;  /* the mount that was there before it, 0 = none */
	int64_t served, sign, limit_ms; /* sign: the last one of life */
	int busy;
	struct mount_entry mount;
	char owner[OWNER_TEXT];
};

struct supervisor {
	const struct supervision *s;
	int signal_fd;
	struct life life;
	bool served, ending; /* one of them has served; we were told to end */
	int64_t kill_at;     /* a child that does not end, 0 = not at all */
	int64_t pause_ms;    /* before the next one */
	int64_t died;	     /* when the mount was lost, 0 = it is there */
	int restarts, wedges;
	int64_t failed; /* starts in a row */
	char what[200], before[160]; /* what became of the last that served */
	char uuid[UUID_TEXT];
	sigset_t mask;
};

/* It does not go on while the machine sleeps, and so nobody is late then. */
static int64_t
clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the child's side ---- */

static void
tell(const struct supervised *s, const struct word *w)
{
	ssize_t n = s->fd < 0 ? 0 : write(s->fd, w, sizeof(*w));

	(void)n; /* full: the supervisor stands still; gone: the loop hears of it */
}

void
tell_mounting(struct supervised *s, int64_t limit_ms)
{
	const struct word w = { .tell = TELL_MOUNTING, .limit_ms = limit_ms };

	s->every_ms = limit_ms / SIGNS;
	tell(s, &w);
}

void
tell_serving(const struct supervised *s, const char *owner, const char *uuid)
{
	struct word w = { .tell = TELL_SERVING };

	snprintf(w.owner, sizeof(w.owner), "%s", owner);
	snprintf(w.uuid, sizeof(w.uuid), "%s", uuid);
	tell(s, &w);
}

void
tell_turn(struct supervised *s, int64_t now_ms)
{
	const struct word w = { .tell = TELL_TURN };

	if (s->fd < 0 || !s->every_ms || now_ms - s->told < s->every_ms)
		return;
	s->told = now_ms;
	tell(s, &w);
}

void
tell_leaving(const struct supervised *s)
{
	const struct word w = { .tell = TELL_LEAVING };

	tell(s, &w);
}

void
tell_alone(struct supervised *s)
{
	/* its descriptors are closed just before its children get another parent */
	if (getppid() == s->supervisor)
		return;
	close(s->fd);
	s->fd = -1;
	log_warnx("the supervisor of this daemon is gone; serving on, but nobody mounts again should "
		  "it die");
	if (!s->death_signal)
		return;
	/* who must not be outlived by the supervisor must not be outlived by us, and is, if it reaps
	 * what others leave behind, our parent now */
	prctl(PR_SET_PDEATHSIG, s->death_signal);
	if (getppid() != s->starter)
		kill(getpid(), s->death_signal);
}

/* ---- a child ---- */

static void
hear(struct supervisor *u)
{
	struct life *l = &u->life;
	struct word w;

	while (read(l->fd, &w, sizeof(w)) == sizeof(w)) {
		l->sign = clock_ms();
		l->busy = 0;
		switch (w.tell) {
		case TELL_MOUNTING:
			l->mounting = true;
			l->limit_ms = w.limit_ms << u->wedges;
			break;
		case TELL_SERVING:
			l->serving = true;
			l->served = l->sign;
			memcpy(l->owner, w.owner, sizeof(l->owner));
			memcpy(u->uuid, w.uuid, sizeof(u->uuid));
			mountinfo_top(u->s->mountpoint, &l->mount);
			break;
		case TELL_LEAVING:
			l->leaving = true;
			break;
		case TELL_TURN:
			break;
		}
	}
}

/* Pass on what we are told, and collect who has ended. */
static void
on_signals(struct supervisor *u)
{
	struct life *l = &u->life;
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	while (read(u->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			continue;
		u->ending = true;
		if (l->dead)
			continue;
		kill(l->pid, (int)si.ssi_signo);
		/* it may wait for a storage that does not answer, and holds nothing yet */
		if (!l->mounting && !u->kill_at)
			u->kill_at = clock_ms() + START_MS;
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != l->pid)
			continue; /* a fusermount3 that the child has left behind */
		l->dead = true;
		l->status = status;
	}
}

/* Wait for signals and words, at most ms (-1: for ever). */
static void
wait_ms(struct supervisor *u, int64_t ms)
{
	struct pollfd p[2] = { { .fd = u->signal_fd, .events = POLLIN },
			       { .fd = u->life.dead ? -1 : u->life.fd, .events = POLLIN } };

	if (poll(p, 2, ms > INT32_MAX ? INT32_MAX : (int)ms) <= 0)
		return;
	if (p[1].revents & POLLIN)
		hear(u);
	else if (p[1].revents) /* it has ended, or closed it: SIGCHLD tells */
		u->life.fd = (close(u->life.fd), -1);
	if (p[0].revents)
		on_signals(u);
}

/* The same until a moment, which may have passed. */
static void
wait_until(struct supervisor *u, int64_t until)
{
	int64_t ms = until - clock_ms();

	wait_ms(u, ms > 0 ? ms : 0);
}

/* The letter of proc(5) for what its first thread, which serves, is doing. */
static char
doing(pid_t pid)
{
	char path[64];
	char line[512];
	char state = '?';

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	FILE *f = fopen(path, "re");
	const char *end = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (end)
		sscanf(end + 1, " %c", &state);
	if (f)
		fclose(f);
	return state;
}

/* A loop that gives no sign of life is not always a wedge. */
static bool
is_excused(struct life *l)
{
	char state = doing(l->pid);

	/* somebody looks at it with a debugger; or the machine has no time for it */
	return state == 't' || (state == 'R' && l->busy++ < BUSY_TIMES);
}

static bool
is_ours(const struct life *l, const struct mount_entry *e)
{
	if (!e->fuse || e->id == l->below)
		return false;
	return l->mount.id ? e->id == l->mount.id && e->minor == l->mount.minor : l->mounting;
}

/* Everybody who waits for it is freed, and it ends, unless it hangs in the kernel. */
static void
break_off(struct supervisor *u)
{
	struct life *l = &u->life;
	struct mount_entry top;
	int64_t stood = clock_ms() - l->sign;

	/* what is there now: the number of a connection that is over is given to another one, and
	 * what somebody has mounted over it is not ours to unmount */
	mountinfo_top(u->s->mountpoint, &top);
	const char *with = is_ours(l, &top) ? mount_break(u->s->mountpoint, top.minor) : NULL;
	kill(l->pid, SIGKILL);
	for (int64_t until = clock_ms() + DEATH_MS; !l->dead && clock_ms() < until;)
		wait_until(u, until);
	snprintf(u->what, sizeof(u->what),
		 "raserfs (pid %ld) did not serve for %lld s and was %s%s%s%s", (long)l->pid,
		 (long long)stood / 1000, with ? "broken off by " : "", with ? with : "",
		 with ? " and " : "", l->dead ? "killed" : "killed, but hangs in the kernel");
	u->wedges += u->wedges < WEDGES_MAX;
}

/* Until the child has ended, or is broken off. */
static void
watch(struct supervisor *u)
{
	struct life *l = &u->life;
	int64_t last = clock_ms();
	bool ready = !u->s->ready || u->served;

	while (!l->dead) {
		int64_t now = clock_ms();
		int64_t wait = -1;

		if (l->limit_ms) {
			/* who was not running cannot tell that another was not */
			if (now - last > 2 * l->limit_ms / SLICES)
				l->sign = now;
			wait = l->sign + l->limit_ms - now;
			if (wait <= 0 && is_excused(l)) {
				l->sign = now;
				wait = l->limit_ms;
			}
			if (wait <= 0) {
				break_off(u);
				return;
			}
			if (wait > l->limit_ms / SLICES)
				wait = l->limit_ms / SLICES;
		}
		if (u->kill_at && now >= u->kill_at) {
			kill(l->pid, SIGKILL);
			u->kill_at = 0;
		} else if (u->kill_at && (wait < 0 || u->kill_at - now < wait)) {
			wait = u->kill_at - now;
		}
		last = now;
		wait_ms(u, wait);
		if (l->serving && !ready) {
			u->s->ready();
			ready = true;
		}
		if (l->serving)
			u->served = true;
		if (l->serving && u->died) {
			log_info("%s; mounted again as %s after %lld ms", u->what, l->owner,
				 (long long)(l->served - u->died));
			u->died = u->failed = 0;
			u->what[0] = '\0';
		}
	}
	hear(u);
}

/* Fork one. True in the child. */
static bool
start(struct supervisor *u, struct supervised *child)
{
	struct life *l = &u->life;
	struct mount_entry below;
	int fds[2];

	mountinfo_top(u->s->mountpoint, &below);
	/* as if it had ended with status 1 */
	*l = (struct life){ .fd = -1, .below = below.id, .dead = true, .status = 1 << 8 };
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		log_warn("a pipe");
		return false;
	}
	pid_t starter = getppid();
	pid_t self = getpid();
	int signal = 0;
	prctl(PR_GET_PDEATHSIG, &signal);
	l->pid = fork();
	if (l->pid < 0)
		log_warn("a process");
	if (l->pid == 0) {
		close(fds[0]);
		close(u->signal_fd);
		sigprocmask(SIG_SETMASK, &u->mask, NULL);
		/* alone: a Ctrl-C is the supervisor's to pass on, and a stop of one is not the other's */
		setsid();
		prctl(PR_SET_NAME, "raserfs");
		*child = (struct supervised){ .fd = fds[1], .supervisor = self, .starter = starter,
					      .death_signal = signal, .restarts = u->restarts };
		snprintf(child->before, sizeof(child->before), "%s", u->before);
		snprintf(child->uuid, sizeof(child->uuid), "%s", u->uuid);
		return true;
	}
	close(fds[1]);
	l->fd = fds[0];
	l->dead = l->pid < 0;
	l->sign = clock_ms();
	return false;
}

/* ---- after its death ---- */

/* Take its mount away. False when it stays, or something else lies over it. */
static bool
clear(struct supervisor *u)
{
	const struct life *l = &u->life;
	struct mount_entry e;

	/* a fusermount3 that works for it may still mount */
	for (int64_t until = clock_ms() + STRAYS_MS; clock_ms() < until;) {
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			break;
		if (l->pid > 0 && !l->dead)
			break; /* it hangs */
		wait_until(u, until);
	}
	while (mountinfo_top(u->s->mountpoint, &e) && is_ours(l, &e))
		if (!mount_detach(u->s->mountpoint))
			return false;
	return e.id == l->below;
}

/* What became of a child, unless that was said already. */
static void
describe(struct supervisor *u)
{
	const struct life *l = &u->life;
	char how[64];

	if (l->dead && WIFSIGNALED(l->status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(l->status));
	else if (l->dead && WEXITSTATUS(l->status) == EXIT_BROKEN)
		snprintf(how, sizeof(how), "was broken off from its mount");
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(l->status));
	if (!u->what[0])
		snprintf(u->what, sizeof(u->what), "raserfs (pid %ld) %s", (long)l->pid, how);
	if (l->serving)
		snprintf(u->before, sizeof(u->before), "%s %.100s", l->owner,
			 u->what + sizeof("raserfs ") - 1);
}

/* It ended because somebody wanted it to, or nobody can want another one. */
static bool
is_meant(const struct supervisor *u)
{
	const struct life *l = &u->life;

	if (u->ending || l->leaving)
		return true;
	if (!l->dead || !WIFEXITED(l->status))
		return false;
	int code = WEXITSTATUS(l->status);
	return code == 0 || code == EXIT_OTHER_RUN || !u->served;
}

/* How long to wait before the next one. */
static int64_t
next_pause(struct supervisor *u)
{
	const struct life *l = &u->life;
	int64_t lived = l->serving ? clock_ms() - l->served : 0;

	if (lived >= RESTED_MS)
		u->pause_ms = u->wedges = 0;
	int64_t pause = u->pause_ms;
	if (lived >= LIVED_MS && lived >= 10 * pause)
		u->pause_ms = pause / 2 < PAUSE_FIRST_MS ? 0 : pause / 2;
	else
		u->pause_ms = !pause ? PAUSE_FIRST_MS : pause * 2 < PAUSE_LAST_MS ? pause * 2 : PAUSE_LAST_MS;
	return pause;
}

static void
rest(struct supervisor *u, int64_t ms)
{
	for (int64_t until = clock_ms() + ms; !u->ending && clock_ms() < until;)
		wait_until(u, until);
}

/* Somebody else has mounted there meanwhile, and serves. */
static bool
is_taken(const struct supervisor *u)
{
	struct mount_entry e;

	return mountinfo_top(u->s->mountpoint, &e) && e.fuse && e.id != u->life.below &&
	       !is_ours(&u->life, &e);
}

int
supervise(const struct supervision *s, struct supervised *child)
{
	static struct supervisor u; /* there is one a process; it holds a path */
	sigset_t set;

	u = (struct supervisor){ .s = s, .restarts = s->restarts };
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &u.mask);
	u.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (u.signal_fd < 0) {
		log_warn("signals");
		return 1;
	}
	/* who reads our messages may leave; the child has the old mask again */
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* what a child leaves behind comes to us */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (;;) {
		if (start(&u, child))
			return -1;
		prctl(PR_SET_NAME, "raserfs-super");
		watch(&u);
		int64_t now = clock_ms();
		bool clean = clear(&u);
		const struct life *l = &u.life;
		bool exited = l->dead && WIFEXITED(l->status);
		describe(&u);
		if (l->fd >= 0)
			close(l->fd);
		if (is_meant(&u)) {
			if (!exited)
				log_warnx("%s", u.what);
			return exited ? WEXITSTATUS(l->status) : 1;
		}
		if (!u.died)
			u.died = now;
		u.restarts += l->serving;
		if (!l->serving && !u.failed++)
			log_warnx("%s cannot be mounted at %s now; trying on", s->run, s->mountpoint);
		rest(&u, next_pause(&u));
		for (bool told = false; !clean && !u.ending && !is_taken(&u); told = true) {
			if (!told)
				log_warnx("%s: the mount of a dead daemon cannot be taken away; trying on",
					  s->mountpoint);
			rest(&u, PAUSE_LAST_MS / 10);
			clean = clear(&u);
		}
		if (!clean && is_taken(&u)) {
			log_info("%s; somebody else has mounted at %s meanwhile", u.what, s->mountpoint);
			return 0;
		}
		if (u.ending) {
			log_warnx("%s, and was not mounted again", u.what);
			return 1;
		}
	}
}
