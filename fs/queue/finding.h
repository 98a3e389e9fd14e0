/*
 * finding.h - what an examination found: a list of plain verdicts, one per thing looked at.
 *
 * storage.c, selftest.c and `raser doctor` add to it; nobody keeps one. A finding that does not
 * fit is dropped, but the worst level is never lost.
 */
#ifndef RASER_FINDING_H
#define RASER_FINDING_H

#include <stdbool.h>
#include <stddef.h>

enum finding_level {
	FINDING_OK,
	FINDING_NOTE,	  /* worth knowing; nothing to do */
	FINDING_WARNING,  /* it works, but slower or with less certainty */
	FINDING_FORCIBLE, /* no run here, unless people insist (force = yes) */
	FINDING_FAILS,	  /* no run here */
};

enum { FINDINGS_MAX = 96 };

struct finding {
	enum finding_level level;
	char topic[32];
	char found[200];  /* what was looked at or measured */
	char advice[400]; /* what it means for raserfs and what to do; "" when there is nothing */
};

struct findings {
	struct finding all[FINDINGS_MAX];
	size_t n;
	enum finding_level worst;
};

/*
 * Add one. advice: what it means and what to do; NULL = nothing. Returns it for
 * finding_advise(); never NULL.
 */
struct finding *
finding_add(struct findings *f, enum finding_level level, const char *topic, const char *advice,
	    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The same advice, where it has figures in it. */
void
finding_advise(struct finding *one, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The first of the worst ones; NULL when there is none at all. */
const struct finding *
findings_worst(const struct findings *f);

/* "ok", "note", "warning", "FAILS". */
const char *
finding_word(enum finding_level level);

#endif
