/*
 * direct.c - the queue on the run directory itself, without a mount: agentd is a daemon of the queue,
 * with a beat and duties of its own (duties.h).
 *
 * Whatever may wait for the storage is done by threads. What agentd asks for, one thing at a time, is
 * done by a worker, for which the loop waits a while, and no longer than until a signal comes. Asked
 * again, the same is still the same: it goes on, or its answer is there. So signals, heartbeats and
 * an agent's end are served while the storage hangs, and the beat goes on as long as the loop turns.
 *
 * Jobs and guards are forks of this process, of one thread, that never call the queue. Its locks may
 * be taken in them for ever; those of the C library and of log.c are not.
 */
#include <config.h>

#include "claim.h"

#include "clock.h"
#include "conf.h"
#include "duties.h"
#include "tell.h"
#include "verb.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	PATIENCE_MS = 5000, /* with an answer, as the mount has with an end */
	LEAVE_MS = 150,
	LEAVE_HELD_MS = 800, /* a claim that is still held is worth some patience */
};

enum ask { ASK_NEXT, ASK_TOUCH, ASK_VERB };

/* What the worker does, and its answer. */
struct call {
	enum ask ask;
	struct lease_claim claim; /* ASK_NEXT: the answer */
	struct verb verb;
	int rc;
};

static struct direct {
	struct conf conf; /* as it was before joining */
	const struct queue_access *access;
	struct queue *q;
	struct duties *duties;
	int tier;
	int duty_fd, answer_fd; /* eventfds: a duty has ended; the worker has */

	/* the loop's alone */
	struct now began;
	int64_t due; /* boot ms, for duties_due() */
	bool attention, waited;
	uint64_t generation;
	int64_t held; /* serial, 0 = no claim */
	unsigned held_attempt;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more, idle;
	enum { FREE, ASKED, ANSWERED } state;
	struct call call;
	bool started, stop, gone;
	bool opened; /* q is there, or err */
	struct err err;
	struct {
		bool wanted;
		int64_t serial;
		unsigned attempt;
	} closing; /* a claim that was let go without an end */
} direct = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static void
ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n; /* full means that it is awake already */
}

static void
hush(int fd)
{
	uint64_t n;
	ssize_t got = read(fd, &n, sizeof(n));

	(void)got; /* nothing there is fine */
}

/* ---- the worker ---- */

/* A task with all that agentd wants to know of it. */
static int
take(struct direct *d, struct lease_claim *c)
{
	struct claimer by = { .pid = (long)getpid(), .comm = "raser-agentd", .bound = true };
	struct grant g;
	struct task t;
	struct lease_info lease;

	int rc = queue_take(d->q, d->tier, &by, now_read(), &g);
	if (rc)
		return rc == -ESHUTDOWN ? -EAGAIN : rc;
	*c = (struct lease_claim){ .fd = -1, .serial = g.serial, .attempt = g.attempt, .seq = g.seq };
	memcpy(c->name, g.name, sizeof(c->name));
	rc = queue_payload(d->q, g.serial, &c->payload, &c->size);
	if (rc) {
		log_warnx("task %s@%u: its payload cannot be read: %s", g.name, g.attempt,
			  strerror(-rc));
		/* it is offered again after a while, and counts nothing */
		queue_end(d->q, g.serial, g.attempt, END_FREED, WHY_NOT_ITS_FAULT, NULL, now_read());
		return rc;
	}
	if (queue_get(d->q, g.serial, &t) || queue_lease(d->q, g.serial, g.attempt, &lease) ||
	    !lease.mine) {
		free(c->payload); /* taken away already: there are others */
		return -EAGAIN;
	}
	c->failures = t.counts.failures;
	snprintf(c->owner, sizeof(c->owner), "%s", lease.owner);
	return 0;
}

static void
answer(struct direct *d, struct call *c)
{
	switch (c->ask) {
	case ASK_NEXT:
		c->rc = take(d, &c->claim);
		break;
	case ASK_TOUCH:
		c->rc = touch_do(d->q, c->claim.serial, c->claim.attempt, now_read());
		break;
	case ASK_VERB:
		c->rc = verb_do(d->q, c->claim.serial, c->claim.attempt, &c->verb, now_read());
		break;
	}
}

static void *
worker(void *arg)
{
	struct direct *d = arg;
	const struct queue_options options = { .join = true, .admit = true, .tmp = d->access->local,
					       .until = d->access->until, .since = d->access->since };
	static struct call c; /* it holds a path */

	struct queue *q = queue_open(d->access->path, &options, now_read(), &d->err);
	pthread_mutex_lock(&d->lock);
	d->q = q;
	d->opened = true;
	ring(d->answer_fd);
	while (q) {
		while (d->state != ASKED && !d->closing.wanted && !d->stop)
			pthread_cond_wait(&d->more, &d->lock);
		if (d->closing.wanted) {
			d->closing.wanted = false;
			int64_t serial = d->closing.serial;
			unsigned attempt = d->closing.attempt;
			pthread_mutex_unlock(&d->lock);
			queue_closed(d->q, serial, attempt, true, now_read());
			pthread_mutex_lock(&d->lock);
		} else if (d->state == ASKED) {
			c = d->call;
			pthread_mutex_unlock(&d->lock);
			answer(d, &c);
			pthread_mutex_lock(&d->lock);
			d->call = c;
			d->state = ANSWERED;
			ring(d->answer_fd);
		} else {
			break;
		}
	}
	d->gone = true;
	pthread_cond_broadcast(&d->idle);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static bool
is_same(const struct call *a, const struct call *b)
{
	if (a->ask != b->ask || a->ask == ASK_NEXT)
		return a->ask == b->ask;
	return a->claim.serial == b->claim.serial && a->claim.attempt == b->claim.attempt &&
	       a->verb.kind == b->verb.kind && a->verb.outcome == b->verb.outcome &&
	       a->verb.reason == b->verb.reason;
}

/* No longer than a heartbeat may wait. */
static int64_t
patience(const struct direct *d)
{
	int64_t ms = d->conf.steal_after_ms / 6;

	return ms < PATIENCE_MS ? ms : PATIENCE_MS;
}

/* Let the worker do it. Its answer, in c; -EINTR: something is urgent; -EIO: no answer yet. */
static int
ask(const struct queue_access *a, struct call *c)
{
	struct direct *d = &direct;

	pthread_mutex_lock(&d->lock);
	bool same = is_same(&d->call, c);
	/* an answer that nobody waits for any more is none of a task: who wants a task asks on */
	bool begin = d->state == FREE || (d->state == ANSWERED && !same);
	if (begin) {
		d->call = *c;
		d->state = ASKED;
		pthread_cond_signal(&d->more);
	}
	pthread_mutex_unlock(&d->lock);
	if (!begin && !same)
		return -EIO; /* what was asked before hangs */
	for (int64_t until = now_read().boot_ms + patience(d);;) {
		struct pollfd p[] = { { d->answer_fd, POLLIN, 0 }, { a->urgent_fd, POLLIN, 0 } };

		pthread_mutex_lock(&d->lock);
		bool answered = d->state == ANSWERED;
		if (answered) {
			*c = d->call;
			d->state = FREE;
		}
		pthread_mutex_unlock(&d->lock);
		if (answered)
			return c->rc;
		int64_t left = until - now_read().boot_ms;
		if (left <= 0)
			return -EIO;
		if (poll(p, 2, (int)left) < 0)
			continue;
		if (p[0].revents)
			hush(d->answer_fd);
		else if (p[1].revents)
			return -EINTR;
	}
}

/* ---- the operations ---- */

/* Tell whoever counts: written when a claim begins and ends, so that little is lost with us. */
static void
write_status(const struct queue_access *a)
{
	char tmp[PATH_MAX + 8];

	if (!a->status)
		return;
	json_t *all = tell_status(direct.q, direct.began, now_read());
	json_object_set_new(all, "pid", json_integer(getpid()));
	snprintf(tmp, sizeof(tmp), "%s.new", a->status);
	if (!all || json_dump_file(all, tmp, JSON_INDENT(1)) || rename(tmp, a->status) < 0)
		log_warn("%s cannot be written", a->status);
	json_decref(all);
}

/* The run directory is not where it was. */
static bool
is_away(const struct direct *d)
{
	struct disk_state s;

	queue_storage(d->q, &s);
	return s.mood == DISK_AWAY;
}

static int
direct_next(struct queue_access *a, struct lease_claim *c)
{
	struct direct *d = &direct;
	static struct call call; /* it holds a path */

	hush(a->news_fd);
	/* as a mount that is gone: it is waited for, and not for ever */
	if (is_away(d))
		return -ENOENT;
	call = (struct call){ .ask = ASK_NEXT };
	int rc = ask(a, &call);
	if (rc)
		return rc;
	*c = call.claim;
	queue_delivered(d->q, c->serial, c->attempt);
	d->held = c->serial;
	d->held_attempt = c->attempt;
	write_status(a);
	return 0;
}

/* It was made again under its number, by us, after somebody had removed it. */
static bool
is_another(const struct lease_claim *c)
{
	return !queue_is_grant(direct.q, c->serial, c->attempt, c->seq);
}

static int
direct_touch(struct queue_access *a, const struct lease_claim *c)
{
	static struct call call; /* it holds a path */

	if (is_another(c))
		return -ESTALE;
	int rc = queue_touch(direct.q, c->serial, c->attempt, now_read());
	if (rc != -EINPROGRESS)
		return rc;
	call = (struct call){ .ask = ASK_TOUCH, .claim = { .serial = c->serial,
							   .attempt = c->attempt } };
	return ask(a, &call);
}

static int
direct_verb(struct queue_access *a, const struct lease_claim *c, const char *text)
{
	static struct call call; /* it holds a path */

	call = (struct call){ .ask = ASK_VERB, .claim = { .serial = c->serial,
							  .attempt = c->attempt } };
	int rc = verb_parse(text, strlen(text), &call.verb);
	if (!rc && is_another(c))
		rc = -ESTALE;
	if (!rc && call.verb.kind != VERB_END) {
		/* from memory, once it is certain that we hold it */
		rc = direct_touch(a, c);
		return rc ? rc : verb_do(direct.q, c->serial, c->attempt, &call.verb, now_read());
	}
	if (!rc)
		rc = ask(a, &call);
	if (!rc)
		write_status(a);
	return rc;
}

static void
direct_drop(struct queue_access *a, struct lease_claim *c)
{
	struct direct *d = &direct;

	(void)a;
	free(c->payload);
	c->payload = NULL;
	d->held = 0;
	if (is_another(c) || !queue_is_held(d->q, c->serial, c->attempt))
		return;
	pthread_mutex_lock(&d->lock);
	d->closing.wanted = true;
	d->closing.serial = c->serial;
	d->closing.attempt = c->attempt;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
}

static bool
direct_is_done(struct queue_access *a, const char *name)
{
	struct task t;

	(void)a;
	return !queue_find(direct.q, name, &t) && t.state == TASK_DONE;
}

static int64_t
direct_turn(struct queue_access *a, bool waits)
{
	struct direct *d = &direct;
	struct now now = now_read();
	int waiting[TIERS_MAX] = { 0 };

	(void)a;
	duties_turn(d->duties, now);
	if (d->attention || waits != d->waited || d->due <= now.boot_ms) {
		d->attention = false;
		d->waited = waits;
		waiting[d->tier] = waits;
		d->due = now.boot_ms + duties_due(d->duties, now, waiting);
	}
	return d->due > now.boot_ms ? d->due - now.boot_ms : 0;
}

static bool
direct_heard(struct queue_access *a)
{
	struct direct *d = &direct;

	queue_woken(d->q);
	hush(d->duty_fd);
	hush(d->answer_fd);
	d->attention = true;
	uint64_t generation = queue_generation(d->q, d->tier);
	if (generation != d->generation || is_away(d))
		ring(a->news_fd);
	d->generation = generation;
	pthread_mutex_lock(&d->lock);
	bool answered = d->state == ANSWERED;
	pthread_mutex_unlock(&d->lock);
	return answered || (d->held && !queue_is_held(d->q, d->held, d->held_attempt));
}

/* ---- the beginning and the end ---- */

static int
direct_open(struct queue_access *a, struct run_info *info, struct err *err)
{
	struct direct *d = &direct;
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/FORMAT", a->path);
	if (access(path, F_OK) < 0)
		return err_set(err, -errno, "%s is no run directory: %s; a mount is given without "
			       "--direct", a->path, strerror(errno));
	int rc = conf_load(&d->conf, a->path, err);
	if (rc)
		return rc;
	d->tier = conf_tier(&d->conf, a->tier);
	if (d->tier < 0)
		return err_set(err, -ENOENT, "%s/raser.ini has no tier %s", a->path, a->tier);
	*info = (struct run_info){ .steal_after_ms = d->conf.steal_after_ms,
				   .grace_ms = d->conf.grace_ms,
				   .memory = d->conf.tiers[d->tier].memory };
	snprintf(info->run, sizeof(info->run), "%s", a->path);
	return 0;
}

static void
on_duty_ended(void *arg)
{
	const struct direct *d = arg;

	ring(d->duty_fd);
}

static int
watch(int epoll_fd, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static int
start_worker(struct queue_access *a, struct err *err)
{
	struct direct *d = &direct;
	pthread_condattr_t mono;
	pthread_t thread;

	d->access = a;
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&d->idle, &mono);
	pthread_condattr_destroy(&mono);
	d->duty_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->duty_fd < 0 || d->answer_fd < 0 || a->news_fd < 0 || a->watch_fd < 0 ||
	    watch(a->watch_fd, d->duty_fd) || watch(a->watch_fd, d->answer_fd))
		return err_set(err, -errno, "no descriptors: %s", strerror(errno));
	int rc = pthread_create(&thread, NULL, worker, d);
	if (rc)
		return err_set(err, -rc, "no thread can be started: %s", strerror(rc));
	/* one that hangs in a dead storage must not keep agentd from leaving */
	pthread_detach(thread);
	d->started = true;
	return 0;
}

/* The run was opened, or cannot be. */
static bool
is_open(struct direct *d)
{
	pthread_mutex_lock(&d->lock);
	bool opened = d->opened;
	pthread_mutex_unlock(&d->lock);
	return opened;
}

static int
direct_join(struct queue_access *a, struct err *err)
{
	struct direct *d = &direct;
	const struct duties_hooks hooks = { .ended = on_duty_ended, .arg = d };
	char owner[OWNER_TEXT];

	int rc = d->started ? 0 : start_worker(a, err);
	if (rc)
		return rc;
	while (!is_open(d)) {
		struct pollfd p[] = { { d->answer_fd, POLLIN, 0 }, { a->urgent_fd, POLLIN, 0 } };

		if (poll(p, 2, -1) > 0 && p[1].revents)
			return -EINTR;
	}
	if (!d->q)
		return err_set(err, -EIO, "%s", d->err.text);
	d->began = now_read();
	d->generation = queue_generation(d->q, d->tier);
	if (!watch(a->watch_fd, queue_wake_fd(d->q)))
		d->duties = duties_start(d->q, &hooks);
	if (!d->duties)
		return err_set(err, -EAGAIN, "no threads can be started");
	queue_owner(d->q, owner);
	log_info("working on %s itself, as %s", a->path, owner);
	return 0;
}

/* The worker ends when it has done what it was asked for. */
static bool
stop_worker(struct direct *d, int64_t ms)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->more);
	while (!d->gone && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&d->idle, &d->lock, &until);
	bool gone = d->gone;
	pthread_mutex_unlock(&d->lock);
	return gone;
}

static void
direct_leave(struct queue_access *a)
{
	struct direct *d = &direct;

	queue_leave(d->q);
	duties_leave(d->duties);
	int64_t ms = queue_held(d->q) ? LEAVE_HELD_MS : LEAVE_MS;
	int64_t until = now_read().boot_ms + ms;
	bool gone = stop_worker(d, ms);
	if (!gone)
		log_warnx("the storage does not answer; leaving without a farewell");
	write_status(a);
	/* what hangs there goes with the process, and others end its claims */
	if (gone && duties_stop(d->duties, until - now_read().boot_ms))
		queue_close(d->q, now_read());
}

static const struct queue_ops direct_ops = {
	.open = direct_open, .join = direct_join, .turn = direct_turn, .heard = direct_heard,
	.leave = direct_leave, .next = direct_next, .touch = direct_touch, .verb = direct_verb,
	.drop = direct_drop, .is_done = direct_is_done,
};

void
access_direct(struct queue_access *a)
{
	a->ops = &direct_ops;
	a->mnt = NULL;
	a->news_fd = a->watch_fd = -1;
	a->watch_events = POLLIN;
}
