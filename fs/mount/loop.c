/*
 * loop.c - the serving loop. One thread reads requests and never waits for the run directory: the
 * pool of work.c and the threads of duties.h do.
 */
#include <config.h>

#include "loop.h"

#include "duties.h"
#include "mountinfo.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	TURN_MAX_MS = 250,
	LEAVE_MS = 150,
	LEAVE_HELD_MS = 800,
	LEAVE_TURN_MS = 5,
	REQUESTS_A_TURN = 64,
};

struct loop {
	struct mount *m;
	int epoll_fd, signal_fd;
	int64_t leave_at;
};

void
mount_want_refresh(struct mount *m)
{
	duties_want_refresh(m->duties);
	atomic_store(&m->attention, true);
}

/* ---- what duties tell ---- */

static void
on_ticked(void *arg)
{
	new_expire(arg, now_read().boot_ms);
}

static void
on_refreshed(void *arg)
{
	opendir_answer(arg, now_read().boot_ms, true);
}

static void
on_ended(void *arg)
{
	const struct mount *m = arg;
	uint64_t one = 1;
	ssize_t n = write(m->duty_fd, &one, sizeof(one));

	(void)n; /* full means that it is awake already */
}

/* ---- the loop ---- */

static int
add_fd(int epoll_fd, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static void
drain_fd(int fd)
{
	uint64_t n;
	ssize_t got = read(fd, &n, sizeof(n));

	(void)got;
}

/* Read and dispatch what the kernel has, but not for ever: the loop has other duties, and a
 * daemon whose loop does not turn stops beating. -1 when the mount is gone. */
static int
serve(struct mount *m, struct fuse_buf *buf)
{
	for (int i = 0; i < REQUESTS_A_TURN; i++) {
		if (fuse_session_exited(m->se))
			return -1;
		int n = fuse_session_receive_buf(m->se, buf);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		fuse_session_process_buf(m->se, buf);
	}
	return 0;
}

static void
start_leaving(struct loop *l)
{
	struct mount *m = l->m;
	struct now now = now_read();

	if (atomic_exchange(&m->leaving, true)) {
		l->leave_at = now.boot_ms; /* a second signal: at once */
		return;
	}
	tell_leaving(&m->supervised);
	queue_leave(m->q);
	duties_leave(m->duties);
	park_fail(m, -1, EAGAIN);
	opendir_answer(m, now.boot_ms, true);
	l->leave_at = now.boot_ms + m->grace_ms;
	int64_t held = queue_held(m->q);
	if (held)
		log_info("leaving: %lld claims are still held; waiting for them at most %lld s",
			 (long long)held, (long long)m->grace_ms / 1000);
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return b >= 0 && b < a ? b : a;
}

/* Everything that is not a request: who waits, what is due. Returns ms until it must be done
 * again; what happens in between asks for attention. */
static int64_t
housekeeping(struct mount *m, struct now now)
{
	int64_t wait = TURN_MAX_MS;
	int waiting[TIERS_MAX] = { 0 };

	park_kick(m);
	wait = sooner(wait, park_check(m, now.boot_ms));
	park_count(m, waiting);
	handles_poll(m, waiting);
	wait = sooner(wait, duties_due(m->duties, now, waiting));
	wait = sooner(wait, work_deadlines(m, now.boot_ms));
	wait = sooner(wait, opendir_answer(m, now.boot_ms, false));
	return wait;
}

/* Nothing keeps a daemon that was told to leave. */
static bool
may_leave(struct loop *l, int64_t now_ms)
{
	struct mount *m = l->m;

	return (queue_held(m->q) == 0 && work_is_idle(m)) || l->leave_at <= now_ms;
}

/* The connection has ended, and yet nobody has unmounted it: it was broken off. */
static bool
is_broken(const struct mount *m)
{
	struct mount_entry top;

	return m->minor && mountinfo_top(m->mountpoint, &top) && top.fuse && top.minor == m->minor;
}

/* 0, or -ECONNABORTED. */
static int
run(struct loop *l)
{
	struct mount *m = l->m;
	struct fuse_buf buf = { 0 };
	struct epoll_event events[8];
	int64_t due = 0;

	for (bool alive = true; alive;) {
		struct now now = now_read();
		bool leaving = atomic_load(&m->leaving);

		duties_turn(m->duties, now);
		tell_turn(&m->supervised, now.boot_ms);
		if (leaving && may_leave(l, now.boot_ms))
			break;
		if (atomic_exchange(&m->attention, false) || due <= now.boot_ms)
			due = now.boot_ms + housekeeping(m, now);
		int64_t wait = leaving ? LEAVE_TURN_MS : due - now.boot_ms;
		int n = epoll_wait(l->epoll_fd, events, 8, (int)(wait < 0 ? 0 : wait));
		for (int i = 0; i < n && alive; i++) {
			if (events[i].data.fd == l->signal_fd) {
				struct signalfd_siginfo si;

				while (read(l->signal_fd, &si, sizeof(si)) == sizeof(si))
					start_leaving(l);
			} else if (events[i].data.fd == m->duty_fd) {
				drain_fd(m->duty_fd);
				atomic_store(&m->attention, true);
			} else if (events[i].data.fd == queue_wake_fd(m->q)) {
				queue_woken(m->q);
				atomic_store(&m->attention, true);
			} else if (events[i].data.fd == m->supervised.fd) {
				tell_alone(&m->supervised);
			} else if (serve(m, &buf)) {
				alive = false;
			}
		}
	}
	free(buf.mem);
	return !atomic_load(&m->leaving) && is_broken(m) ? -ECONNABORTED : 0;
}

int
loop_run(struct mount *m)
{
	sigset_t set;
	struct loop l = { .m = m };
	const struct duties_hooks hooks = { .ticked = on_ticked, .refreshed = on_refreshed,
					    .ended = on_ended, .arg = m };

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	l.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	/* of the supervisor nothing is read; only its end is told */
	int rc = l.signal_fd < 0 || l.epoll_fd < 0 || add_fd(l.epoll_fd, l.signal_fd, EPOLLIN) ||
				 add_fd(l.epoll_fd, m->duty_fd, EPOLLIN) ||
				 add_fd(l.epoll_fd, queue_wake_fd(m->q), EPOLLIN) ||
				 add_fd(l.epoll_fd, fuse_session_fd(m->se), EPOLLIN) ||
				 (m->supervised.fd >= 0 &&
				  add_fd(l.epoll_fd, m->supervised.fd, 0)) ?
			 -errno :
			 0;
	if (!rc)
		m->duties = duties_start(m->q, &hooks);
	if (!rc && !m->duties)
		rc = -EAGAIN;
	if (!rc)
		rc = run(&l);
	struct now now = now_read();
	atomic_store(&m->leaving, true);
	queue_leave(m->q);
	park_fail(m, -1, EAGAIN);
	opendir_answer(m, now.boot_ms, true);
	fuse_session_unmount(m->se);
	if (m->duties)
		duties_leave(m->duties);
	/* a claim that is still held is worth some patience with the storage */
	int ms = queue_held(m->q) ? LEAVE_HELD_MS : LEAVE_MS;
	int64_t until = now_read().boot_ms + ms;
	bool clean = work_stop(m, ms);
	if (!clean)
		log_warnx("the storage does not answer; leaving without a farewell");
	if (!clean || (m->duties && !duties_stop(m->duties, until - now_read().boot_ms))) {
		/* a thread hangs in the storage: the kernel takes everything with the process */
		log_flush(LEAVE_MS);
		_exit(1);
	}
	m->duties = NULL;
	close(l.signal_fd);
	close(l.epoll_fd);
	return rc;
}
