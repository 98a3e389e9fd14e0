/*
 * deadline.c - what nothing will come of for an agent: a drained queue, or the end of its node's time.
 *
 * A node may have only so much time left (queue_options.until). What is expected to take longer is
 * not offered there, and time passes: the index is told a lower limit whenever one more task does not
 * fit, and the tick is asked for at that moment. It counts by the boot clock from when the queue was
 * opened; nobody's clock jumps change it.
 */
#include <config.h>

#include "queue_impl.h"

#include <errno.h>

void
deadline_open(struct queue *q, int64_t until, int64_t since, struct now now)
{
	if (!until)
		return;
	int64_t left_ms = (until - now.wall_s) * 1000;
	q->until = until;
	q->until_boot = now.boot_ms + left_ms;
	/* it may begin a little later than now; one that begins behind its end is somebody's mistake */
	q->span = until - (since && since < until ? since : now.wall_s);
	deadline_pass(q, now);
}

void
deadline_mind(struct queue *q, const struct task *t)
{
	if (!q->until || is_over(t->state) || t->expected > q->longest)
		return;
	/* it fits as long as so many seconds are left */
	int64_t at = q->until_boot - t->expected * 1000 + (t->expected > 0);
	if (at < q->shrinks_at) {
		q->shrinks_at = at;
		tick_by(q, at);
	}
}

void
deadline_pass(struct queue *q, struct now now)
{
	if (!q->until || now.boot_ms < q->shrinks_at)
		return;
	int64_t left = q->until_boot - now.boot_ms;
	/* a task of unknown duration, 0, fits until the last moment */
	q->longest = left <= 0 ? -1 : left / 1000;
	if (q->longest > q->span) /* everything fits */
		q->longest = q->span;
	int64_t next = index_limit(q->index, q->longest, q->span);
	q->shrinks_at = q->longest < 0 ? INT64_MAX :
		       next > 0	       ? q->until_boot - next * 1000 + 1 :
					 q->until_boot;
	tick_by(q, q->shrinks_at);
	queue_notify(q);
}

int
exhausted(struct queue *q, int tier)
{
	uint32_t levels = conf_levels(&q->conf, tier);
	const struct {
		enum task_state state;
		uint32_t levels;
	} left[] = {
		{ TASK_PENDING, levels },
		{ TASK_CLAIMED, levels },
		/* an end that was not read may have left its task at any level of the lane */
		{ TASK_UNREAD, conf_lane(&q->conf, tier) },
	};
	int64_t all = 0;
	int64_t too_long = 0;

	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		all += index_count(q->index, left[i].state, left[i].levels);
		too_long += index_long(q->index, left[i].state, left[i].levels);
	}
	return all > too_long ? 0 : all ? -ETIME : -ENODATA;
}

int
queue_exhausted(struct queue *q, int tier, int64_t since_boot_ms)
{
	pthread_mutex_lock(&q->lock);
	int why = q->full_pass >= since_boot_ms ? exhausted(q, tier) : 0;
	pthread_mutex_unlock(&q->lock);
	return why;
}

bool
queue_drained(struct queue *q, int tier, int64_t since_boot_ms)
{
	return queue_exhausted(q, tier, since_boot_ms) == -ENODATA;
}
