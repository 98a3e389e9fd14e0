/*
 * mutant.h - rules of the protocol that the simulator's check may switch off, one at a time, to show
 * that a run without the rule is caught (tests/sim). In the product every one is on, as a constant.
 */
#ifndef RASER_MUTANT_H
#define RASER_MUTANT_H

enum mutant {
	MUTANT_NONE,
	MUTANT_READ_BACK,	/* the text read back decides, never a return code */
	MUTANT_PREDECESSOR,	/* a claim needs an end below it */
	MUTANT_FRESH_OWNER,	/* an owner's name is never used again */
	MUTANT_BEAT_ONCE,	/* a beat is never made again */
	MUTANT_OWN_GAP,		/* a gap in one's own looks or beats restarts the windows */
	MUTANT_LAST_LOOK,	/* the last look before a verdict is under a second old */
	MUTANT_BEAT_LOOK,	/* at every beat a daemon looks at the chains that it holds */
	MUTANT_CLAIM_READ_BACK, /* a holder reads its claim before it ends it */
	MUTANT_CLOSE_FIRST,	/* a cancelled attempt gets an end before it is reopened */
	MUTANT_SYNC_FIRST,	/* an end is synced before it is acknowledged */
	MUTANT_SEAL_ALONE,	/* a sealer begins when nobody lives, and stays alone */
	MUTANT_SEAL_OVERRULES,	/* who stood still looks for a seal before it answers */
	MUTANTS
};

#ifdef RASER_MUTANTS
extern enum mutant mutant_off; /* the rule that is off */
#define MUTANT(rule) (mutant_off == MUTANT_##rule)
#else
#define MUTANT(rule) 0
#endif

#endif
