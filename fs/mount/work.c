/*
 * work.c - a small pool of threads for calls that may wait for the run directory, and the
 * deadlines of those who wait for them.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { WORKERS = 16 };

struct work {
	pthread_mutex_t lock;
	pthread_cond_t more, ended;
	struct job *first, *last; /* waiting for a worker */
	struct job *running;	  /* list of those in a worker */
	int threads, busy;
	bool stop;
	struct mount *m;
};

static void
unlink_running(struct work *w, struct job *j)
{
	if (j->prev)
		j->prev->next = j->next;
	else
		w->running = j->next;
	if (j->next)
		j->next->prev = j->prev;
}

static void *
worker(void *arg)
{
	struct work *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->first && !w->stop)
			pthread_cond_wait(&w->more, &w->lock);
		struct job *j = w->first;
		if (!j)
			break;
		w->first = j->next;
		if (!w->first)
			w->last = NULL;
		j->prev = NULL;
		j->next = w->running;
		if (j->next)
			j->next->prev = j;
		w->running = j;
		w->busy++;
		pthread_mutex_unlock(&w->lock);
		j->fn(w->m, j);
		pthread_mutex_lock(&w->lock);
		w->busy--;
		unlink_running(w, j);
		free(j->data);
		free(j);
	}
	w->threads--;
	pthread_cond_broadcast(&w->ended);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* A pool of its own threads; NULL when there can be none. */
static struct work *
pool_new(struct mount *m, int threads)
{
	struct work *w = calloc(1, sizeof(*w));
	pthread_attr_t attr;

	if (!w)
		return NULL;
	w->m = m;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	pthread_condattr_t mono;
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&w->ended, &mono);
	pthread_condattr_destroy(&mono);
	/* detached: one that hangs in a dead storage must not keep the daemon from leaving */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	int rc = 0;
	for (int i = 0; i < threads && !rc; i++) {
		pthread_t t;

		rc = -pthread_create(&t, &attr, worker, w);
		if (!rc)
			w->threads++;
	}
	pthread_attr_destroy(&attr);
	return w->threads ? w : NULL;
}

int
work_start(struct mount *m)
{
	m->work = pool_new(m, WORKERS);
	return m->work ? 0 : -EAGAIN;
}

static void
pool_add(struct work *w, const struct job *job)
{
	struct job *j = malloc(sizeof(*j));

	if (!j) {
		free(job->data);
		if (job->req)
			fuse_reply_err(job->req, ENOMEM);
		return;
	}
	*j = *job;
	j->next = j->prev = NULL;
	pthread_mutex_lock(&w->lock);
	if (w->last)
		w->last->next = j;
	else
		w->first = j;
	w->last = j;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

void
work_add(struct mount *m, const struct job *job)
{
	pool_add(m->work, job);
}

bool
job_claim_reply(struct mount *m, struct job *job)
{
	struct work *w = m->work;

	pthread_mutex_lock(&w->lock);
	bool mine = job->req && !job->answered;
	job->answered = true;
	pthread_mutex_unlock(&w->lock);
	return mine;
}

void
job_reply_err(struct mount *m, struct job *job, int rc)
{
	if (job_claim_reply(m, job))
		fuse_reply_err(job->req, rc < 0 ? -rc : rc);
}

/* Answer one list; the earliest deadline left, or INT64_MAX. [under work.lock] */
static int64_t
expire(struct job *j, int64_t now_ms)
{
	int64_t next = INT64_MAX;

	for (; j; j = j->next) {
		if (!j->deadline || !j->req || j->answered)
			continue;
		if (j->deadline <= now_ms) {
			/* unknown: the worker goes on trying, and a look tells the outcome later */
			j->answered = true;
			fuse_reply_err(j->req, EIO);
		} else if (j->deadline < next) {
			next = j->deadline;
		}
	}
	return next;
}

int64_t
work_deadlines(struct mount *m, int64_t now_ms)
{
	struct work *w = m->work;

	pthread_mutex_lock(&w->lock);
	int64_t a = expire(w->running, now_ms);
	int64_t b = expire(w->first, now_ms);
	pthread_mutex_unlock(&w->lock);
	if (b < a)
		a = b;
	return a == INT64_MAX ? -1 : a - now_ms;
}

bool
work_is_idle(struct mount *m)
{
	struct work *w = m->work;

	pthread_mutex_lock(&w->lock);
	bool idle = !w->busy && !w->first;
	pthread_mutex_unlock(&w->lock);
	return idle;
}

/* Let a pool's threads end; true, and it is freed, when all have done so in time. */
static bool
pool_stop(struct work *w, const struct timespec *until)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->more);
	int rc = 0;
	while (w->threads && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&w->ended, &w->lock, until);
	bool all = !w->threads;
	pthread_mutex_unlock(&w->lock);
	if (all) {
		pthread_mutex_destroy(&w->lock);
		pthread_cond_destroy(&w->more);
		pthread_cond_destroy(&w->ended);
		free(w);
	}
	return all;
}

bool
work_stop(struct mount *m, int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000L;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	return pool_stop(m->work, &until);
}
