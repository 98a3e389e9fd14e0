/*
 * makespan.c - raser bench makespan: how long a set of tasks takes from the first start to the last
 * end. This file reads the options.
 */
#include <config.h>

#include "bench.h"

#include <getopt.h>
#include <stdlib.h>

enum { AGENTS_MAX = 100000 };

/* A positive whole number, up to max; 0 for anything else. */
static long
parse_count(const char *s, long max)
{
	char *end;
	long v = strtol(s, &end, 10);

	return *end || end == s || v < 1 || v > max ? 0 : v;
}

int
bench_makespan(int argc, char **argv)
{
	static const struct option options[] = {
		{ "simulate", no_argument, NULL, 's' },
		{ "trace", required_argument, NULL, 't' },
		{ "columns", required_argument, NULL, 'c' },
		{ "agents", required_argument, NULL, 'a' },
		{ "of", required_argument, NULL, 'o' },
		{ "svg", required_argument, NULL, 'g' },
		{ "accept", no_argument, NULL, 'A' },
		{ NULL, 0, NULL, 0 },
	};
	struct makespan_options o = { 0 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			o.simulate = true;
		else if (c == 'A')
			o.accept = true;
		else if (c == 'o')
			o.of = optarg;
		else if (c == 'g')
			o.svg = optarg;
		else if (c == 't')
			o.trace = optarg;
		else if (c == 'c')
			o.columns = optarg;
		else if (c == 'a' && (o.agents = parse_count(optarg, AGENTS_MAX)))
			;
		else if (c == 'a')
			return complain(EXIT_USAGE, "--agents %s: it must be a number from 1 to %d",
					optarg, AGENTS_MAX);
		else
			return usage_error();
	}
	if (argc != optind || o.simulate == (o.of != NULL))
		return usage_error();
	if (o.of && !o.trace && !o.columns)
		return makespan_of(&o);
	if (o.simulate && o.trace && !o.svg && !o.accept)
		return makespan_simulate(&o);
	return usage_error();
}
