/*
 * activity.h - is the agent alive and well? What it uses and what it says, against its limits. No
 * clock and no file in here: `now` is an argument. super.c only.
 *
 * Three signals are kept apart (DESIGN 3). Alive: agentd's heartbeats. Active: CPU time, I/O or
 * output of the tree moves. Parked: the agent says that it waits. Hung is who is alive, not active
 * and not parked for hang_after; who is active may still run in circles, and then only what it
 * reports (steps, progress) can tell.
 */
#ifndef RASER_ACTIVITY_H
#define RASER_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"

/* Totals since the start of the agent. */
struct usage_totals {
	uint64_t cpu_ms, io_bytes, output_bytes;
};

struct activity {
	/* limits, 0 = none */
	int64_t time_limit_ms, hang_after_ms, progress_after_ms, max_steps;
	/* since when; boot ms */
	int64_t started, sampled, active, progress;
	int64_t parked_until; /* wall seconds, 0 = not parked */
	int64_t steps;	      /* of this attempt: who resumes one that looped gets another chance */
	struct usage_totals last;
};

enum health { WELL, HUNG, LOOPING, TIMED_OUT };

/* The agent has just been started; limits are set. */
void
activity_start(struct activity *w, struct now now);

/* A sample was taken. Call it every activity_every_ms(). */
void
activity_sample(struct activity *w, const struct usage_totals *u, struct now now);
int64_t
activity_every_ms(const struct activity *w);

/* No sample could be taken, or the tree stood still by our own hand, from then until now: that
 * time counts for nothing. */
void
activity_excuse(struct activity *w, int64_t since_ms, struct now now);

/* What the agent said. */
void
activity_parked(struct activity *w, int64_t until, struct now now);
void
activity_progress(struct activity *w, struct now now);
void
activity_step(struct activity *w);

/* Is it over a limit? Asked after a sample. why: a sentence for people. */
enum health
activity_health(const struct activity *w, struct now now, char *why, size_t size);

#endif
