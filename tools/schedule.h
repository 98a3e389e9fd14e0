/*
 * schedule.h - how long tasks of known lengths take on so many agents, by the ways of giving them
 * out. Plain arithmetic without clock or file; a task is an index into arrays that the caller owns.
 */
#ifndef RASER_SCHEDULE_H
#define RASER_SCHEDULE_H

#include <stddef.h>

/*
 * Tasks in their order cut into one block of neighbours for each agent, as equal as can be (of 60
 * tasks 15 agents get 4 each): seconds until the last agent has done its block. agents > 0.
 */
double
schedule_static(const double *seconds, size_t n, size_t agents);

/*
 * Whoever is free takes the next one in `order` (n indexes; NULL: as they stand). Seconds until all
 * are done; -1 without memory.
 */
double
schedule_queue(const double *seconds, const size_t *order, size_t n, size_t agents);

/*
 * Fill order (n indexes) as a tier of the queue has it: longest expected first, then as they stand;
 * what is expected to take 0 (nothing known) comes last. 0 or -ENOMEM.
 */
int
schedule_longest(const double *expected, size_t n, size_t *order);

/* No schedule is shorter: max(total / agents, longest). */
double
schedule_bound(const double *seconds, size_t n, size_t agents);

#endif
