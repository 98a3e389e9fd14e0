/*
 * finding.c - a list of verdicts.
 */
#include <config.h>

#include "finding.h"

#include <stdarg.h>
#include <stdio.h>

struct finding *
finding_add(struct findings *f, enum finding_level level, const char *topic, const char *advice,
	    const char *fmt, ...)
{
	va_list args;
	/* the last place is written over when the list is full: see the head of finding.h */
	struct finding *one = &f->all[f->n < FINDINGS_MAX ? f->n++ : FINDINGS_MAX - 1];

	*one = (struct finding){ .level = level };
	if (level > f->worst)
		f->worst = level;
	snprintf(one->topic, sizeof(one->topic), "%s", topic);
	snprintf(one->advice, sizeof(one->advice), "%s", advice ? advice : "");
	va_start(args, fmt);
	vsnprintf(one->found, sizeof(one->found), fmt, args);
	va_end(args);
	return one;
}

void
finding_advise(struct finding *one, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(one->advice, sizeof(one->advice), fmt, args);
	va_end(args);
}

const struct finding *
findings_worst(const struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->all[i].level == f->worst)
			return &f->all[i];
	return NULL;
}

const char *
finding_word(enum finding_level level)
{
	switch (level) {
	case FINDING_OK: return "ok";
	case FINDING_NOTE: return "note";
	case FINDING_WARNING: return "warning";
	case FINDING_FORCIBLE:
	case FINDING_FAILS: return "FAILS";
	}
	return "?";
}
