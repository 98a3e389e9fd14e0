/*
 * duties.c - the schedule of the duties, their threads, and the beat.
 */
#include <config.h>

#include "duties.h"

#include "clock.h"
#include "storage.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

enum {
	REFRESH_EVERY_MS = 30000, /* anyhow */
	REFRESH_MIN_MS = 1000,	  /* between those for who misses something */
	IDLE_FIRST_MS = 500,	  /* for agents that wait, doubling */
	IDLE_LAST_MS = 30000,
	FEW_BAYS = 64,
	FEW_READS = 64,
	START_READS = 4096,   /* ends read at a time while the picture is being completed */
	TICK_MAX_MS = 60000,  /* what the host keeps for a while expires with the tick */
	BEAT_AGAIN_MS = 1000, /* between beats that are asked for */
	BEAT_JOIN_S = 1,
};

enum duty { DUTY_TICK, DUTY_LOOK, DUTY_WATCH, DUTY_REFRESH, DUTIES };

/* What the thread of a duty starts with. */
struct post {
	struct duties *d;
	enum duty duty;
};

struct duties {
	struct queue *q;
	const struct conf *conf;
	struct duties_hooks hooks;
	struct post posts[DUTIES];
	pthread_t beat;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t begin; /* a duty, or the end */
	pthread_cond_t ended;
	pthread_cond_t beats; /* at once, or no more */
	int threads;	      /* of duties, that live */
	int64_t due[DUTIES];
	bool running[DUTIES];
	bool begun[DUTIES];    /* and its thread has taken it */
	int64_t asked[DUTIES]; /* due again at, asked for while it ran; 0 = not */
	bool stop, leaving;
	int64_t beat_asked;
	bool beat_now;	 /* not at the next time, but at once */
	int64_t idle_ms; /* pause between two passes for idle agents */
	bool idle;	 /* agents wait and there is nothing for them */
	bool reading;	 /* ends are left to read */

	atomic_llong last_turn; /* boot ms of the loop */
	atomic_bool want_refresh;

	/* the loop's alone */
	bool turned;
	int64_t last_refresh;
	enum disk_mood mood; /* of the storage, as was said last */
	enum disk_call mood_call;
	int mood_code;
	int64_t mood_since;
};

/* ---- the duties ---- */

/* Each returns ms until it is due again. */
typedef int64_t
duty_fn(struct duties *d);

static int64_t
do_tick(struct duties *d)
{
	queue_tick(d->q, now_read());
	if (d->hooks.ticked)
		d->hooks.ticked(d->hooks.arg);
	return TICK_MAX_MS;
}

static int64_t
do_look(struct duties *d)
{
	queue_look(d->q, now_read());
	return conf_beat_ms(d->conf);
}

static int64_t
do_watch(struct duties *d)
{
	return queue_watch(d->q, now_read());
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

static int64_t
do_refresh(struct duties *d)
{
	struct queue_stats s;
	int64_t in = jitter(REFRESH_EVERY_MS);

	pthread_mutex_lock(&d->lock);
	bool idle = d->idle;
	bool reading = d->reading;
	pthread_mutex_unlock(&d->lock);
	/* agents that wait need a complete pass: only that can find the queue drained */
	int64_t n = idle ? queue_refresh(d->q, now_read(), 0, 0) :
			   queue_refresh(d->q, now_read(), FEW_BAYS,
					 reading ? START_READS : FEW_READS);
	if (d->hooks.refreshed)
		d->hooks.refreshed(d->hooks.arg);
	queue_stats(d->q, &s);
	pthread_mutex_lock(&d->lock);
	d->reading &= s.count[TASK_UNREAD] > 0;
	if (n < 0 || !idle)
		d->idle_ms = IDLE_FIRST_MS;
	else if (d->idle_ms < IDLE_LAST_MS)
		d->idle_ms *= 2;
	if (idle)
		in = jitter(d->idle_ms);
	if (d->reading)
		in = 0;
	if (n < 0)
		in = jitter(REFRESH_EVERY_MS) / 10;
	pthread_mutex_unlock(&d->lock);
	return in;
}

static duty_fn *const duty_fns[DUTIES] = {
	[DUTY_TICK] = do_tick, [DUTY_LOOK] = do_look, [DUTY_WATCH] = do_watch,
	[DUTY_REFRESH] = do_refresh,
};

static void *
duty_thread(void *arg)
{
	const struct post *post = arg;
	struct duties *d = post->d;
	enum duty duty = post->duty;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		while (!d->stop && (!d->running[duty] || d->begun[duty]))
			pthread_cond_wait(&d->begin, &d->lock);
		if (d->stop)
			break;
		d->begun[duty] = true;
		pthread_mutex_unlock(&d->lock);
		int64_t in = duty_fns[duty](d);
		pthread_mutex_lock(&d->lock);
		d->running[duty] = d->begun[duty] = false;
		d->due[duty] = now_read().boot_ms + in;
		/* what was asked for meanwhile is not forgotten */
		if (d->asked[duty] && d->asked[duty] < d->due[duty])
			d->due[duty] = d->asked[duty];
		d->asked[duty] = 0;
		pthread_mutex_unlock(&d->lock);
		if (d->hooks.ended)
			d->hooks.ended(d->hooks.arg);
		pthread_mutex_lock(&d->lock);
	}
	d->threads--;
	pthread_cond_broadcast(&d->ended);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* Start what is due; ms until the next one, at most `most`. */
static int64_t
start_due(struct duties *d, int64_t now_ms, int64_t most)
{
	int64_t next = most;
	bool started = false;

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < DUTIES; i++) {
		/* who leaves looks after what it holds, and for nothing new */
		if (d->running[i] || (d->leaving && i == DUTY_REFRESH))
			continue;
		if (d->due[i] <= now_ms)
			d->running[i] = started = true;
		else if (d->due[i] - now_ms < next)
			next = d->due[i] - now_ms;
	}
	if (started)
		pthread_cond_broadcast(&d->begin);
	pthread_mutex_unlock(&d->lock);
	return next;
}

static void
due_at(struct duties *d, enum duty duty, int64_t when)
{
	pthread_mutex_lock(&d->lock);
	if (d->running[duty])
		d->asked[duty] = d->asked[duty] && d->asked[duty] < when ? d->asked[duty] : when;
	else if (when < d->due[duty])
		d->due[duty] = when;
	pthread_mutex_unlock(&d->lock);
}

/* ---- refreshes that somebody waits for ---- */

void
duties_want_refresh(struct duties *d)
{
	atomic_store(&d->want_refresh, true);
}

bool
duties_refreshed_lately(const struct duties *d, struct now now)
{
	return now.boot_ms - d->last_refresh < REFRESH_MIN_MS;
}

/* Who waits here, and whether a refresh could help them. */
static void
consider_idle(struct duties *d, int64_t now_ms, const int waiting[TIERS_MAX])
{
	bool idle = false;
	bool begins = false;

	queue_idle(d->q, waiting);
	for (int t = 0; t < d->conf->ntiers; t++)
		idle |= waiting[t] && queue_ready(d->q, t) == 0;
	pthread_mutex_lock(&d->lock);
	if (idle && !d->idle) {
		d->idle_ms = IDLE_FIRST_MS;
		begins = true;
	}
	d->idle = idle;
	pthread_mutex_unlock(&d->lock);
	if (begins)
		due_at(d, DUTY_REFRESH, now_ms);
	if (atomic_load(&d->want_refresh)) {
		int64_t at = d->last_refresh + REFRESH_MIN_MS;

		if (at <= now_ms) {
			atomic_store(&d->want_refresh, false);
			d->last_refresh = now_ms;
			at = now_ms;
			/* what is shown must be read, until nothing is left */
			pthread_mutex_lock(&d->lock);
			d->reading = true;
			pthread_mutex_unlock(&d->lock);
		}
		due_at(d, DUTY_REFRESH, at);
	}
}

/* ---- the beat ---- */

static void *
beat_thread(void *arg)
{
	struct duties *d = arg;
	struct timespec until;

	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		pthread_mutex_unlock(&d->lock);
		struct now now = now_read();
		int64_t ms = conf_beat_ms(d->conf);
		/* a loop that does not turn serves nobody: then this daemon must look dead */
		if (now.boot_ms - atomic_load(&d->last_turn) >= d->conf->steal_after_ms / 2)
			log_warnx("the serving loop stands still; no beat");
		else if (queue_beat(d->q, now) && ms > BEAT_AGAIN_MS)
			ms = BEAT_AGAIN_MS; /* service goes on when the storage does */
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += ms % 1000 * 1000000;
		until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&d->lock);
		int rc = 0;
		while (!d->stop && !d->beat_now && rc != ETIMEDOUT)
			rc = pthread_cond_timedwait(&d->beats, &d->lock, &until);
		d->beat_now = false;
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static void
beat_soon(struct duties *d, int64_t now_ms)
{
	pthread_mutex_lock(&d->lock);
	if (now_ms - d->beat_asked >= BEAT_AGAIN_MS) {
		d->beat_asked = now_ms;
		d->beat_now = true;
		pthread_cond_broadcast(&d->beats);
	}
	pthread_mutex_unlock(&d->lock);
}

/* ---- the loop ---- */

void
duties_turn(struct duties *d, struct now now)
{
	int64_t last = atomic_exchange(&d->last_turn, now.boot_ms);

	/* a turn longer than this means that the whole daemon was frozen, or its machine */
	if (d->turned && now.boot_ms - last >= d->conf->steal_after_ms / 2) {
		log_warnx("this daemon stood still for %lld ms: looking at its claims before serving "
			  "on", (long long)(now.boot_ms - last));
		queue_excuse(d->q, now);
		due_at(d, DUTY_LOOK, now.boot_ms);
		due_at(d, DUTY_WATCH, now.boot_ms);
	}
	d->turned = true;
}

/* One line when the storage gets into trouble, one when the trouble is another, one at its end. */
static void
tell_storage(struct duties *d, struct now now)
{
	struct disk_state s;
	char text[STORAGE_TEXT];

	queue_storage(d->q, &s);
	if (s.mood == d->mood && (s.mood == DISK_WELL || s.mood == DISK_SILENT ||
				  (s.code == d->mood_code && s.call == d->mood_call)))
		return;
	if (s.mood == DISK_WELL) {
		log_warnx("the storage is well again, after %.1f s",
			  (double)(now.boot_ms - d->mood_since) / 1000);
	} else {
		storage_text(queue_path(d->q), &s, text);
		log_warnx("%s", text);
	}
	if (d->mood == DISK_WELL)
		d->mood_since = s.since;
	d->mood = s.mood;
	d->mood_code = s.code;
	d->mood_call = s.call;
}

int64_t
duties_due(struct duties *d, struct now now, const int waiting[TIERS_MAX])
{
	tell_storage(d, now);
	consider_idle(d, now.boot_ms, waiting);
	due_at(d, DUTY_TICK, queue_tick_at(d->q));
	if (queue_wants_beat(d->q))
		beat_soon(d, now.boot_ms);
	return start_due(d, now.boot_ms, d->conf->steal_after_ms / 12);
}

/* ---- the beginning and the end ---- */

void
duties_leave(struct duties *d)
{
	pthread_mutex_lock(&d->lock);
	d->leaving = true;
	pthread_mutex_unlock(&d->lock);
}

static void
tell_stop(struct duties *d)
{
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_broadcast(&d->begin);
	pthread_cond_broadcast(&d->beats);
	pthread_mutex_unlock(&d->lock);
}

static void
duties_free(struct duties *d)
{
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->begin);
	pthread_cond_destroy(&d->ended);
	pthread_cond_destroy(&d->beats);
	free(d);
}

/* Wait until the threads of duties have ended. */
static bool
await_threads(struct duties *d, int64_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&d->lock);
	int rc = 0;
	while (d->threads && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&d->ended, &d->lock, &until);
	bool all = !d->threads;
	pthread_mutex_unlock(&d->lock);
	return all;
}

bool
duties_stop(struct duties *d, int64_t ms)
{
	struct timespec until;

	tell_stop(d);
	bool all = await_threads(d, ms > 0 ? ms : 0);
	if (!all) {
		log_warnx("the storage does not answer; leaving without a farewell");
		return false;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += BEAT_JOIN_S;
	if (pthread_timedjoin_np(d->beat, NULL, &until)) {
		log_warnx("a beat hangs in the storage; leaving without a farewell");
		return false;
	}
	duties_free(d);
	return true;
}

struct duties *
duties_start(struct queue *q, const struct duties_hooks *hooks)
{
	struct duties *d = calloc(1, sizeof(*d));
	pthread_condattr_t mono;
	pthread_attr_t attr;

	if (!d)
		return NULL;
	struct now now = now_read();
	d->q = q;
	d->conf = queue_conf(q);
	d->hooks = *hooks;
	d->idle_ms = IDLE_FIRST_MS;
	d->reading = true;
	d->due[DUTY_LOOK] = now.boot_ms + conf_beat_ms(d->conf);
	atomic_store(&d->last_turn, now.boot_ms);
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&d->begin, NULL);
	pthread_cond_init(&d->ended, &mono);
	pthread_cond_init(&d->beats, &mono);
	pthread_condattr_destroy(&mono);
	/* detached: one that hangs in a dead storage must not keep the daemon from leaving */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	int rc = 0;
	for (int i = 0; i < DUTIES && !rc; i++) {
		pthread_t t;

		d->posts[i] = (struct post){ d, (enum duty)i };
		pthread_mutex_lock(&d->lock);
		d->threads++;
		pthread_mutex_unlock(&d->lock);
		rc = pthread_create(&t, &attr, duty_thread, &d->posts[i]);
		if (rc) {
			pthread_mutex_lock(&d->lock);
			d->threads--;
			pthread_mutex_unlock(&d->lock);
		}
	}
	pthread_attr_destroy(&attr);
	if (!rc)
		rc = pthread_create(&d->beat, NULL, beat_thread, d);
	if (!rc)
		return d;
	/* nothing is due yet, so none of them can hang */
	tell_stop(d);
	if (await_threads(d, BEAT_AGAIN_MS))
		duties_free(d);
	return NULL;
}
