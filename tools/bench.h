/*
 * bench.h - the benchmarks of raser bench, and the parts of makespan. They are verbs of their own:
 * their arguments begin with their name, and they return an exit status.
 */
#ifndef RASER_BENCH_H
#define RASER_BENCH_H

#include "raser.h"

int
bench_makespan(int argc, char **argv);

/* What was asked of bench makespan. */
struct makespan_options {
	bool simulate, accept, local;
	const char *trace, *columns, *of, *svg, *dir;
	const char *agents; /* NULL: not given */
	const char *arms, *replay, *crash, *sandbox;
	double seconds;
	long repeat, seed;
	long faults; /* preemptions an arm; 0: none */
	char *const *sbatch; /* options of sbatch(1), to its NULL */
};

/* A whole number from 1 to max; 0 for anything else. */
long
bench_count(const char *s, long max);

/* The arms as they would go for the recorded runs of a table, printed; an exit status. */
int
makespan_simulate(const struct makespan_options *o);

/* What a run came to, printed, drawn, and compared with what was agreed; an exit status. */
int
makespan_of(const struct makespan_options *o);

/* The arms as they really go, here or on Slurm; an exit status. */
int
makespan_contest(const struct makespan_options *o);

#endif
