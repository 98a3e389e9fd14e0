/*
 * activity.c - samples in, a verdict out.
 */
#include <config.h>

#include "activity.h"

#include <stdio.h>

/* Less than this is what a waiting program does: timers, keep-alives, a loop that polls. Rates, so
 * that it does not matter how long the time between two samples was. */
enum { CPU_PERMILLE = 5, IO_BYTES_PER_S = 4096, EVERY_LEAST_MS = 200, EVERY_MOST_MS = 10000 };

void
activity_start(struct activity *w, struct now now)
{
	w->started = w->sampled = w->active = w->progress = now.boot_ms;
	w->parked_until = 0;
	w->last = (struct usage_totals){ 0 };
}

int64_t
activity_every_ms(const struct activity *w)
{
	int64_t ms = w->hang_after_ms ? w->hang_after_ms / 10 : EVERY_MOST_MS;

	return ms < EVERY_LEAST_MS ? EVERY_LEAST_MS : ms > EVERY_MOST_MS ? EVERY_MOST_MS : ms;
}

/* A total that fell is of a tree that lost members: what they did is no longer seen. */
static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void
activity_sample(struct activity *w, const struct usage_totals *u, struct now now)
{
	if (w->parked_until && now.wall_s >= w->parked_until) {
		/* it had every right to be silent until now */
		w->parked_until = 0;
		w->active = w->progress = now.boot_ms;
	}
	uint64_t ms = (uint64_t)(now.boot_ms > w->sampled ? now.boot_ms - w->sampled : 1);
	uint64_t cpu = grown(u->cpu_ms, w->last.cpu_ms);
	uint64_t io = grown(u->io_bytes, w->last.io_bytes);

	if (cpu * 1000 >= ms * CPU_PERMILLE || io * 1000 >= ms * IO_BYTES_PER_S ||
	    u->output_bytes != w->last.output_bytes || u->cpu_ms < w->last.cpu_ms)
		w->active = now.boot_ms;
	w->last = *u;
	w->sampled = now.boot_ms;
}

void
activity_excuse(struct activity *w, int64_t since_ms, struct now now)
{
	int64_t gap = now.boot_ms - since_ms;

	if (gap <= 0)
		return;
	w->active += gap;
	w->progress += gap;
	w->sampled += gap;
	if (w->active > now.boot_ms)
		w->active = now.boot_ms;
	if (w->progress > now.boot_ms)
		w->progress = now.boot_ms;
	if (w->sampled > now.boot_ms)
		w->sampled = now.boot_ms;
}

void
activity_parked(struct activity *w, int64_t until, struct now now)
{
	w->parked_until = until > now.wall_s ? until : 0;
	w->active = now.boot_ms;
}

void
activity_progress(struct activity *w, struct now now)
{
	w->progress = now.boot_ms;
	w->active = now.boot_ms;
}

void
activity_step(struct activity *w)
{
	w->steps++;
}

enum health
activity_health(const struct activity *w, struct now now, char *why, size_t size)
{
	struct activity seen = *w;

	if (w->parked_until) /* the next sample ends that */
		seen.active = seen.progress = now.boot_ms;
	if (w->time_limit_ms && now.boot_ms - w->started >= w->time_limit_ms) {
		snprintf(why, size, "over its time limit of %.0f s", (double)w->time_limit_ms / 1000);
		return TIMED_OUT;
	}
	if (w->max_steps && w->steps > w->max_steps) {
		snprintf(why, size, "%lld steps and not done", (long long)w->steps);
		return LOOPING;
	}
	if (w->progress_after_ms && now.boot_ms - seen.progress >= w->progress_after_ms) {
		snprintf(why, size, "no progress for %.0f s, after %lld steps",
			 (double)(now.boot_ms - seen.progress) / 1000, (long long)w->steps);
		return LOOPING;
	}
	if (w->hang_after_ms && now.boot_ms - seen.active >= w->hang_after_ms) {
		snprintf(why, size, "no CPU time, I/O or output for %.0f s",
			 (double)(now.boot_ms - seen.active) / 1000);
		return HUNG;
	}
	return WELL;
}
