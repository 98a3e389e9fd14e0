/*
 * main.c - run seeds, one after another, and say which of them break a promise.
 */
#include <config.h>

#include "world.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void
usage(FILE *out)
{
	fputs("usage: sim [--seed N | --seeds A-B] [--trace] [--keep-going] "
	      "[--verbose]\n"
	      "Runs worlds of raserfs daemons; a seed is a world. 0 when every "
	      "promise was kept.\n",
	      out);
}

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'S' },
		{ "trace", no_argument, NULL, 't' },
		{ "keep-going", no_argument, NULL, 'k' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long long from = 1;
	unsigned long long to = 100;
	bool keep_going = false;
	bool verbose = false;
	int failed = 0;
	int c;

	while ((c = getopt_long(argc, argv, "s:S:tkvh", options, NULL)) != -1) {
		switch (c) {
		case 's':
			from = to = strtoull(optarg, NULL, 10);
			break;
		case 'S':
			if (sscanf(optarg, "%llu-%llu", &from, &to) != 2) {
				usage(stderr);
				return 2;
			}
			break;
		case 't':
			sim_trace = true;
			break;
		case 'k':
			keep_going = true;
			break;
		case 'v':
			verbose = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	log_init("sim", sim_trace ? LOG_INFO : LOG_NOTHING);
	const char *scratch = world_scratch();
	double began = seconds();
	unsigned long long seed = from;
	for (; seed <= to && (!failed || keep_going); seed++) {
		double t = seconds();
		int bad = world_run(seed, scratch);

		failed += bad != 0;
		if (bad)
			printf("seed %llu breaks a promise: %s\n  again: %s --seed %llu --trace\n",
			       seed, world.why, argv[0], seed);
		if (verbose)
			printf("seed %llu: %d daemons, %d tasks, %.0f s: %llu grants, %llu done, "
			       "%llu "
			       "stale, %llu calls, %llu fates, %llu seals, %.3f s\n",
			       seed, world.nprocs, world.submitted, (double)sim_now / SECOND,
			       (unsigned long long)world.grants, (unsigned long long)world.acks,
			       (unsigned long long)world.stale, (unsigned long long)world.calls,
			       (unsigned long long)world.fates_met,
			       (unsigned long long)world.seals, seconds() - t);
		fflush(stdout);
	}
	printf("%llu seeds, %d of them broke a promise, %.1f s\n", seed - from, failed,
	       seconds() - began);
	return failed != 0;
}
