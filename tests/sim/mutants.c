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

/* known: a seed that noticed when this was written, tried first. Worlds change with their drawing,
 * and with the queue, whose every lock and call is a place where others may come in between; so for
 * what shows seldom they are bent, and another seed is soon found. */
static const struct {
	const char *name;
	unsigned long long known;
	enum bent bent;
} rules[MUTANTS] = {
	[MUTANT_READ_BACK] = { "read-back", 3 },
	[MUTANT_PREDECESSOR] = { "predecessor", 1 },
	[MUTANT_FRESH_OWNER] = { "fresh-owner", 1 },
	[MUTANT_BEAT_ONCE] = { "beat-once", 1 },
	[MUTANT_OWN_GAP] = { "own-gap", 6 },
	[MUTANT_LAST_LOOK] = { "last-look", 14, BENT_FREEZES },
	[MUTANT_BEAT_LOOK] = { "beat-look", 212 },
	[MUTANT_CLAIM_READ_BACK] = { "claim-read-back", 4, BENT_FORGETS },
	[MUTANT_CLOSE_FIRST] = { "close-first", 26, BENT_REMEMBERS },
	[MUTANT_SYNC_FIRST] = { "sync-first", 1 },
	[MUTANT_SEAL_ALONE] = { "seal-alone", 680 },
	[MUTANT_SEAL_OVERRULES] = { "seal-overrules", 635 },
};

/* A run of that seed breaks without the rule, and not with it. */
static bool
shows(enum mutant m, unsigned long long seed, const char *scratch)
{
	mutant_off = m;
	if (!world_run(seed, scratch))
		return false;
	char why[sizeof(world.why)];
	memcpy(why, world.why, sizeof(why));
	mutant_off = MUTANT_NONE;
	if (world_run(seed, scratch))
		return false;
	memcpy(world.why, why, sizeof(why));
	return true;
}

/* The first seed from `from` to `to` that notices; 0 = none. */
static unsigned long long
hunt(enum mutant m, unsigned long long from, unsigned long long to, const char *scratch)
{
	for (unsigned long long seed = from; seed <= to; seed++)
		if ((m < MUTANT_SEAL_ALONE || world_seals(seed)) && shows(m, seed, scratch))
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

		world_bent = rules[m].bent;
		if (!shows((enum mutant)m, seed, scratch))
			seed = hunt((enum mutant)m, from, to, scratch);
		survived += !seed;
		if (seed)
			printf("%-16s seed %-5llu %.200s\n", rules[m].name, seed, world.why);
		else
			printf("%-16s SURVIVES seeds %llu to %llu\n", rules[m].name, from, to);
		fflush(stdout);
	}
	return survived != 0;
}
