/*
 * rng.h - the one source of chance: a seed gives the same run for ever.
 * splitmix64.
 */
#ifndef RASER_SIM_RNG_H
#define RASER_SIM_RNG_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t
rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double
rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

static inline bool
rng_chance(struct rng *r, double p)
{
	return rng_unit(r) < p;
}

/* From low to high, both included. */
static inline int64_t
rng_range(struct rng *r, int64_t low, int64_t high)
{
	return high <= low ? low : low + (int64_t)(rng_next(r) % (uint64_t)(high - low + 1));
}

/* From low to high, every order of magnitude as likely as any other. */
static inline int64_t
rng_log(struct rng *r, double low, double high)
{
	return (int64_t)(low * pow(high / low, rng_unit(r)));
}

/* Exponential with that mean. */
static inline int64_t
rng_wait(struct rng *r, double mean)
{
	return (int64_t)(-log(1.0 - rng_unit(r)) * mean);
}

#endif
