/*
 * loop.c - the serving loop, the duties it schedules, and the beat.
 *
 * One thread reads requests and never waits for the run directory. What must happen by itself
 * is a duty: a job in the pool, each at most once at a time, due again when it says so.
 */
#include <config.h>

#include "loop.h"

#include "mountinfo.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	REFRESH_EVERY_MS = 30000, /* anyhow */
	IDLE_FIRST_MS = 500,	 /* for agents that wait, doubling */
	IDLE_LAST_MS = 30000,
	FEW_BAYS = 64,
	FEW_READS = 64,
	START_READS = 4096, /* ends read at a time while the picture is being completed */
	TURN_MAX_MS = 250,
	TICK_MAX_MS = 60000, /* receipts expire with the tick */
	LEAVE_MS = 150,
	LEAVE_HELD_MS = 800,
	BEAT_AGAIN_MS = 1000, /* between beats that are asked for */
	LEAVE_TURN_MS = 5,
	REQUESTS_A_TURN = 64,
};

enum duty { DUTY_TICK, DUTY_LOOK, DUTY_WATCH, DUTY_REFRESH, DUTIES };

struct loop {
	struct mount *m;
	int epoll_fd, signal_fd;
	pthread_t beat;
	pthread_mutex_t lock; /* guards due, running, stop */
	pthread_cond_t stopped;
	int64_t due[DUTIES];
	bool running[DUTIES];
	int64_t asked[DUTIES]; /* due again at, asked for while it ran; 0 = not */
	bool stop;
	int64_t beat_asked;
	bool beat_now; /* not at the next time, but at once */
	enum disk_mood mood; /* of the storage, as was said last */
	enum disk_call mood_call;
	int mood_code;
	int64_t mood_since;
	int64_t idle_ms; /* pause between two passes for idle agents */
	bool idle;	 /* agents wait and there is nothing for them */
	bool reading;	 /* ends are left to read */
	int64_t leave_at;
};

static struct loop *the_loop; /* jobs carry the mount only */

void
mount_want_refresh(struct mount *m)
{
	atomic_store(&m->want_refresh, true);
	atomic_store(&m->attention, true);
}

/* ---- duties ---- */

static void
duty_done(struct loop *l, enum duty d, int64_t in_ms)
{
	uint64_t one = 1;

	pthread_mutex_lock(&l->lock);
	l->running[d] = false;
	l->due[d] = now_read().boot_ms + in_ms;
	/* what was asked for meanwhile is not forgotten */
	if (l->asked[d] && l->asked[d] < l->due[d])
		l->due[d] = l->asked[d];
	l->asked[d] = 0;
	pthread_mutex_unlock(&l->lock);
	ssize_t n = write(l->m->refresh_fd, &one, sizeof(one));
	(void)n;
}

static void
do_tick(struct mount *m, struct job *job)
{
	(void)job;
	queue_tick(m->q, now_read());
	new_expire(m, now_read().boot_ms);
	duty_done(the_loop, DUTY_TICK, TICK_MAX_MS);
}

static void
do_look(struct mount *m, struct job *job)
{
	(void)job;
	queue_look(m->q, now_read());
	duty_done(the_loop, DUTY_LOOK, conf_beat_ms(m->conf));
}

static void
do_watch(struct mount *m, struct job *job)
{
	(void)job;
	duty_done(the_loop, DUTY_WATCH, queue_watch(m->q, now_read()));
}

/* Between half and all of ms, so that a thousand daemons do not ask together. */
static int64_t
jitter(int64_t ms)
{
	uint32_t r = 0;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		r = 0;
	return ms / 2 + (int64_t)(r % (uint32_t)(ms / 2 + 1));
}

static void
do_refresh(struct mount *m, struct job *job)
{
	struct loop *l = the_loop;
	struct queue_stats s;
	int64_t in = jitter(REFRESH_EVERY_MS);

	(void)job;
	pthread_mutex_lock(&l->lock);
	bool idle = l->idle;
	bool reading = l->reading;
	pthread_mutex_unlock(&l->lock);
	/* agents that wait need a complete pass: only that can find the queue drained */
	int64_t n = idle ? queue_refresh(m->q, now_read(), 0, 0) :
			   queue_refresh(m->q, now_read(), FEW_BAYS,
					 reading ? START_READS : FEW_READS);
	opendir_answer(m, now_read().boot_ms, true);
	queue_stats(m->q, &s);
	pthread_mutex_lock(&l->lock);
	l->reading &= s.count[TASK_UNREAD] > 0;
	if (n < 0 || !idle)
		l->idle_ms = IDLE_FIRST_MS;
	else if (l->idle_ms < IDLE_LAST_MS)
		l->idle_ms *= 2;
	if (idle)
		in = jitter(l->idle_ms);
	if (l->reading)
		in = 0;
	if (n < 0)
		in = jitter(REFRESH_EVERY_MS) / 10;
	pthread_mutex_unlock(&l->lock);
	duty_done(l, DUTY_REFRESH, in);
}

static job_fn *const duties[DUTIES] = {
	[DUTY_TICK] = do_tick, [DUTY_LOOK] = do_look, [DUTY_WATCH] = do_watch,
	[DUTY_REFRESH] = do_refresh,
};

/* Start what is due; ms until the next one. */
static int64_t
start_duties(struct loop *l, int64_t now_ms)
{
	int64_t next = TURN_MAX_MS;
	bool leaving = atomic_load(&l->m->leaving);

	for (int d = 0; d < DUTIES; d++) {
		const struct job job = { .fn = duties[d] };
		bool start = false;

		pthread_mutex_lock(&l->lock);
		/* who leaves looks after what it holds, and for nothing new */
		if (!l->running[d] && !(leaving && d == DUTY_REFRESH)) {
			start = l->due[d] <= now_ms;
			l->running[d] = start;
			if (!start && l->due[d] - now_ms < next)
				next = l->due[d] - now_ms;
		}
		pthread_mutex_unlock(&l->lock);
		if (start)
			work_add_duty(l->m, &job);
	}
	return next;
}

static void
duty_at(struct loop *l, enum duty d, int64_t when)
{
	pthread_mutex_lock(&l->lock);
	if (l->running[d])
		l->asked[d] = l->asked[d] && l->asked[d] < when ? l->asked[d] : when;
	else if (when < l->due[d])
		l->due[d] = when;
	pthread_mutex_unlock(&l->lock);
}

/* Who waits here, and whether a refresh could help them. */
static void
consider_idle(struct loop *l, int64_t now_ms)
{
	struct mount *m = l->m;
	int waiting[TIERS_MAX] = { 0 };
	bool idle = false;
	bool begins = false;

	park_count(m, waiting);
	handles_poll(m, waiting);
	queue_idle(m->q, waiting);
	for (int t = 0; t < m->conf->ntiers; t++)
		idle |= waiting[t] && queue_ready(m->q, t) == 0;
	pthread_mutex_lock(&l->lock);
	if (idle && !l->idle) {
		l->idle_ms = IDLE_FIRST_MS;
		begins = true;
	}
	l->idle = idle;
	pthread_mutex_unlock(&l->lock);
	if (begins)
		duty_at(l, DUTY_REFRESH, now_ms);
	if (atomic_load(&m->want_refresh)) {
		int64_t at = m->last_refresh + REFRESH_MIN_MS;

		if (at <= now_ms) {
			atomic_store(&m->want_refresh, false);
			m->last_refresh = now_ms;
			at = now_ms;
			/* what is shown must be read, until nothing is left */
			pthread_mutex_lock(&l->lock);
			l->reading = true;
			pthread_mutex_unlock(&l->lock);
		}
		duty_at(l, DUTY_REFRESH, at);
	}
}

/* ---- the beat ---- */

static void *
beat(void *arg)
{
	struct loop *l = arg;
	struct mount *m = l->m;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		pthread_mutex_unlock(&l->lock);
		struct now now = now_read();
		int64_t ms = conf_beat_ms(m->conf);
		/* a loop that does not turn serves nobody: then this daemon must look dead */
		if (now.boot_ms - atomic_load(&m->last_turn) >= m->conf->steal_after_ms / 2)
			log_warnx("the serving loop stands still; no beat");
		else if (queue_beat(m->q, now) && ms > BEAT_AGAIN_MS)
			ms = BEAT_AGAIN_MS; /* service goes on when the storage does */
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += ms % 1000 * 1000000;
		until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&l->lock);
		int rc = 0;
		while (!l->stop && !l->beat_now && rc != ETIMEDOUT)
			rc = pthread_cond_timedwait(&l->stopped, &l->lock, &until);
		l->beat_now = false;
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static void
beat_soon(struct loop *l)
{
	int64_t now_ms = now_read().boot_ms;

	pthread_mutex_lock(&l->lock);
	if (now_ms - l->beat_asked >= BEAT_AGAIN_MS) {
		l->beat_asked = now_ms;
		l->beat_now = true;
		pthread_cond_broadcast(&l->stopped);
	}
	pthread_mutex_unlock(&l->lock);
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
	park_fail(m, -1, EAGAIN);
	opendir_answer(m, now.boot_ms, true);
	l->leave_at = now.boot_ms + m->grace_ms;
	int64_t held = queue_held(m->q);
	if (held)
		log_info("leaving: %lld claims are still held; waiting for them at most %lld s",
			 (long long)held, (long long)m->grace_ms / 1000);
}

/* A turn longer than this means that the whole daemon was frozen, or its machine. */
static void
mind_the_gap(struct loop *l, struct now now, int64_t last)
{
	struct mount *m = l->m;

	if (!last || now.boot_ms - last < m->conf->steal_after_ms / 2)
		return;
	log_warnx("this daemon stood still for %lld ms: looking at its claims before serving on",
		  (long long)(now.boot_ms - last));
	queue_excuse(m->q, now);
	duty_at(l, DUTY_LOOK, now.boot_ms);
	duty_at(l, DUTY_WATCH, now.boot_ms);
}

/* One line when the storage gets into trouble, one when the trouble is another, one at its end. */
static void
tell_storage(struct loop *l)
{
	struct disk_state s;
	char text[STORAGE_TEXT];

	queue_storage(l->m->q, &s);
	if (s.mood == l->mood && (s.mood == DISK_WELL || s.mood == DISK_SILENT ||
				  (s.code == l->mood_code && s.call == l->mood_call)))
		return;
	if (s.mood == DISK_WELL) {
		log_warnx("the storage is well again, after %.1f s",
			  (double)(now_read().boot_ms - l->mood_since) / 1000);
	} else {
		storage_text(queue_path(l->m->q), &s, text);
		log_warnx("%s", text);
	}
	if (l->mood == DISK_WELL)
		l->mood_since = s.since;
	l->mood = s.mood;
	l->mood_code = s.code;
	l->mood_call = s.call;
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return b >= 0 && b < a ? b : a;
}

/* Everything that is not a request: who waits, what is due. Returns ms until it must be done
 * again; what happens in between asks for attention. */
static int64_t
housekeeping(struct loop *l, int64_t now_ms)
{
	struct mount *m = l->m;
	int64_t most = m->conf->steal_after_ms / 12;
	int64_t wait = most < TURN_MAX_MS ? most : TURN_MAX_MS;

	tell_storage(l);
	park_kick(m);
	wait = sooner(wait, park_check(m, now_ms));
	consider_idle(l, now_ms);
	duty_at(l, DUTY_TICK, queue_tick_at(m->q));
	if (queue_wants_beat(m->q))
		beat_soon(l);
	wait = sooner(wait, start_duties(l, now_ms));
	wait = sooner(wait, work_deadlines(m, now_ms));
	wait = sooner(wait, opendir_answer(m, now_ms, false));
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
	int64_t last = 0;
	int64_t due = 0;

	for (bool alive = true; alive;) {
		struct now now = now_read();
		bool leaving = atomic_load(&m->leaving);

		mind_the_gap(l, now, last);
		last = now.boot_ms;
		atomic_store(&m->last_turn, now.boot_ms);
		tell_turn(&m->supervised, now.boot_ms);
		if (leaving && may_leave(l, now.boot_ms))
			break;
		if (atomic_exchange(&m->attention, false) || due <= now.boot_ms)
			due = now.boot_ms + housekeeping(l, now.boot_ms);
		int64_t wait = leaving ? LEAVE_TURN_MS : due - now.boot_ms;
		int n = epoll_wait(l->epoll_fd, events, 8, (int)(wait < 0 ? 0 : wait));
		for (int i = 0; i < n && alive; i++) {
			if (events[i].data.fd == l->signal_fd) {
				struct signalfd_siginfo si;

				while (read(l->signal_fd, &si, sizeof(si)) == sizeof(si))
					start_leaving(l);
			} else if (events[i].data.fd == m->refresh_fd) {
				drain_fd(m->refresh_fd);
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
	struct loop l = { .m = m, .idle_ms = IDLE_FIRST_MS, .reading = true };
	pthread_condattr_t mono;

	the_loop = &l;
	pthread_mutex_init(&l.lock, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&l.stopped, &mono);
	pthread_condattr_destroy(&mono);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	l.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	/* of the supervisor nothing is read; only its end is told */
	int rc = l.signal_fd < 0 || l.epoll_fd < 0 || add_fd(l.epoll_fd, l.signal_fd, EPOLLIN) ||
				 add_fd(l.epoll_fd, m->refresh_fd, EPOLLIN) ||
				 add_fd(l.epoll_fd, queue_wake_fd(m->q), EPOLLIN) ||
				 add_fd(l.epoll_fd, fuse_session_fd(m->se), EPOLLIN) ||
				 (m->supervised.fd >= 0 &&
				  add_fd(l.epoll_fd, m->supervised.fd, 0)) ?
			 -errno :
			 0;
	struct now now = now_read();
	atomic_store(&m->last_turn, now.boot_ms);
	l.due[DUTY_LOOK] = now.boot_ms + conf_beat_ms(m->conf);
	bool beating = false;
	if (!rc)
		rc = -pthread_create(&l.beat, NULL, beat, &l);
	beating = !rc;
	if (!rc)
		rc = run(&l);
	atomic_store(&m->leaving, true);
	queue_leave(m->q);
	park_fail(m, -1, EAGAIN);
	opendir_answer(m, now.boot_ms, true);
	fuse_session_unmount(m->se);
	pthread_mutex_lock(&l.lock);
	l.stop = true;
	pthread_cond_broadcast(&l.stopped);
	pthread_mutex_unlock(&l.lock);
	/* a claim that is still held is worth some patience with the storage */
	bool clean = work_stop(m, queue_held(m->q) ? LEAVE_HELD_MS : LEAVE_MS);
	if (!clean) {
		/* a thread hangs in the storage: the kernel takes everything with the process */
		log_warnx("the storage does not answer; leaving without a farewell");
		log_flush(LEAVE_MS);
		_exit(1);
	}
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	if (beating && pthread_timedjoin_np(l.beat, NULL, &until)) {
		log_warnx("a beat hangs in the storage; leaving without a farewell");
		log_flush(LEAVE_MS);
		_exit(1);
	}
	close(l.signal_fd);
	close(l.epoll_fd);
	pthread_mutex_destroy(&l.lock);
	pthread_cond_destroy(&l.stopped);
	return rc;
}
