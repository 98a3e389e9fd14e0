/*
 * clock.h - reading the clocks, for the callers of queue.h. The queue itself never does.
 */
#ifndef RASER_CLOCK_H
#define RASER_CLOCK_H

#include <time.h>

#include "queue.h"

static inline struct now
now_read(void)
{
	struct timespec b;
	struct timespec w;

	clock_gettime(CLOCK_BOOTTIME, &b);
	clock_gettime(CLOCK_REALTIME, &w);
	return (struct now){ .boot_ms = (int64_t)b.tv_sec * 1000 + b.tv_nsec / 1000000,
			     .wall_s = w.tv_sec };
}

#endif
