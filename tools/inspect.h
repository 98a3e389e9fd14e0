/*
 * inspect.h - an audit of a run, printed. raser audit and raser chaos.
 */
#ifndef RASER_INSPECT_H
#define RASER_INSPECT_H

#include "audit.h"
#include "raser.h"

struct inspection {
	const char *const *histories; /* files or directories */
	int nhistories;
	bool tap; /* a line per invariant, for test harnesses */
	struct audit_options options;
};

/* Audit the run and print what was found: every violation in a sentence, and the sum. Returns an
 * exit status: 0 when the run kept its promises, 1 when not or when it could not be read. */
int
inspect(const struct target *t, const struct inspection *in);

#endif
