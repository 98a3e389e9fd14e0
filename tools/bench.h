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
	bool simulate, accept;
	const char *trace, *columns, *of, *svg;
	long agents; /* 0: not given */
};

/* The arms as they would go for the recorded runs of a table, printed; an exit status. */
int
makespan_simulate(const struct makespan_options *o);

/* What a run came to, printed, drawn, and compared with what was agreed; an exit status. */
int
makespan_of(const struct makespan_options *o);

#endif
