/*
 * makespan.c - raser bench makespan: how long a set of tasks takes from the first start to the last
 * end. This file reads the options.
 */
#include <config.h>

#include "bench.h"

#include "contest.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>

long
bench_count(const char *s, long max)
{
	char *end;
	long v = strtol(s, &end, 10);

	return *end || end == s || v < 1 || v > max ? 0 : v;
}

/* Where the value of an option goes. */
static const struct setting {
	const char *name;
	int argument;
	enum { FLAG, TEXT, COUNT, SECONDS } kind;
	size_t at;
	long most, otherwise; /* of COUNT; otherwise: without an argument */
} settings[] = {
#define AT(field) offsetof(struct makespan_options, field)
	{ "simulate", no_argument, FLAG, AT(simulate), 0, 0 },
	{ "local", no_argument, FLAG, AT(local), 0, 0 },
	{ "accept", no_argument, FLAG, AT(accept), 0, 0 },
	{ "of", required_argument, TEXT, AT(of), 0, 0 },
	{ "trace", required_argument, TEXT, AT(trace), 0, 0 },
	{ "columns", required_argument, TEXT, AT(columns), 0, 0 },
	{ "agents", required_argument, TEXT, AT(agents), 0, 0 },
	{ "svg", required_argument, TEXT, AT(svg), 0, 0 },
	{ "arms", required_argument, TEXT, AT(arms), 0, 0 },
	{ "replay", required_argument, TEXT, AT(replay), 0, 0 },
	{ "crash", required_argument, TEXT, AT(crash), 0, 0 },
	{ "sandbox", required_argument, TEXT, AT(sandbox), 0, 0 },
	{ "seconds", required_argument, SECONDS, AT(seconds), 0, 0 },
	{ "repeat", required_argument, COUNT, AT(repeat), CONTEST_REPEAT_MAX, 0 },
	{ "seed", required_argument, COUNT, AT(seed), 1000000000, 0 },
	{ "faults", optional_argument, COUNT, AT(faults), 1000, 6 },
#undef AT
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]), FIRST = 0x100 };

/* False after a message. */
static bool
set(struct makespan_options *o, const struct setting *s, const char *value)
{
	void *at = (char *)o + s->at;

	if (s->kind == FLAG) {
		*(bool *)at = true;
	} else if (s->kind == TEXT) {
		*(const char **)at = value;
	} else if (s->kind == SECONDS) {
		*(double *)at = (double)parse_seconds(value) / 1000;
		if (!(*(double *)at > 0))
			return complain(0, "--%s %s: it must be a number above 0", s->name, value) != 0;
	} else {
		*(long *)at = value ? bench_count(value, s->most) : s->otherwise;
		if (!*(long *)at)
			return complain(0, "--%s %s: it must be a number from 1 to %ld", s->name, value,
					s->most) != 0;
	}
	return true;
}

int
bench_makespan(int argc, char **argv)
{
	struct makespan_options o = { .repeat = 1, .seconds = 75, .seed = 1 };
	struct option options[SETTINGS + 1] = { 0 };
	int c;

	for (int i = 0; i < SETTINGS; i++)
		options[i] = (struct option){ settings[i].name, settings[i].argument, NULL, FIRST + i };
	/* DIR may stand before the options; what follows "--" is sbatch's */
	while ((c = getopt_long(argc, argv, "-", options, NULL)) != -1) {
		if (c == 1 && !o.dir)
			o.dir = optarg;
		else if (c < FIRST)
			return usage_error();
		else if (!set(&o, &settings[c - FIRST], optarg))
			return EXIT_USAGE;
	}
	o.sbatch = argv + optind;
	if (o.simulate + (o.of != NULL) + (o.dir != NULL) != 1 || (*o.sbatch && (!o.dir || o.local)))
		return usage_error();
	if (o.of)
		return o.trace || o.columns ? usage_error() : makespan_of(&o);
	if (o.simulate)
		return !o.trace || o.svg || o.accept ? usage_error() : makespan_simulate(&o);
	return o.columns || o.svg ? usage_error() : makespan_contest(&o);
}
