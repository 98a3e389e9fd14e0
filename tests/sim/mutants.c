/*
 * mutants.c - switch off one rule of the protocol after another, and find a seed that notices. A
 * rule whose absence nobody notices is either not needed or not tested.
 */
#include <config.h>

#include "mutant.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mutant mutant_off;

/* known: a seed that noticed when this was written, tried first; worlds change with their drawing. */
static const struct {
	const char *name;
	unsigned long long known;
} rules[MUTANTS] = {
	[MUTANT_READ_BACK] = { "read-back", 3 },
	[MUTANT_PREDECESSOR] = { "predecessor", 1 },
	[MUTANT_FRESH_OWNER] = { "fresh-owner", 1 },
	[MUTANT_BEAT_ONCE] = { "beat-once", 1 },
	[MUTANT_OWN_GAP] = { "own-gap", 19 },
	[MUTANT_LAST_LOOK] = { "last-look", 548 },
	[MUTANT_BEAT_LOOK] = { "beat-look", 212 },
	[MUTANT_CLAIM_READ_BACK] = { "claim-read-back", 996 },
	[MUTANT_CLOSE_FIRST] = { "close-first", 5043 },
	[MUTANT_SYNC_FIRST] = { "sync-first", 1 },
	[MUTANT_SEAL_ALONE] = { "seal-alone", 150 },
	[MUTANT_SEAL_OVERRULES] = { "seal-overrules", 300 },
};

/* The first seed from `from` to `to` that notices; 0 = none. */
static unsigned long long
hunt(unsigned long long from, unsigned long long to, const char *scratch)
{
	for (unsigned long long seed = from; seed <= to; seed++)
		if ((mutant_off < MUTANT_SEAL_ALONE || world_seals(seed)) &&
		    world_run(seed, scratch))
			return seed;
	return 0;
}

/* mutants [SEEDS [RULE [--trace]]] */
int
main(int argc, char **argv)
{
	unsigned long long from = 1;
	unsigned long long to = 400;
	int survived = 0;

	if (argc > 1 && sscanf(argv[1], "%llu-%llu", &from, &to) == 1)
		to = from;
	const char *only = argc > 2 ? argv[2] : NULL;
	sim_trace = argc > 3 && !strcmp(argv[3], "--trace");
	log_init("mutants", sim_trace ? LOG_INFO : LOG_NOTHING);
	const char *scratch = world_scratch();
	for (int m = 1; m < MUTANTS; m++) {
		if (only && strcmp(only, rules[m].name) != 0)
			continue;
		unsigned long long seed = rules[m].known;

		/* it shows nothing when it fails anyhow */
		mutant_off = MUTANT_NONE;
		bool sound = !world_run(seed, scratch);
		mutant_off = (enum mutant)m;
		if (!sound || !world_run(seed, scratch))
			seed = hunt(from, to, scratch);

		survived += !seed;
		if (seed)
			printf("%-16s seed %-5llu %.200s\n", rules[m].name, seed, world.why);
		else
			printf("%-16s SURVIVES seeds %llu to %llu\n", rules[m].name, from, to);
		fflush(stdout);
	}
	return survived != 0;
}
