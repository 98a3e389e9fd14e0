/*
 * verb.c - the words of verbs, and the calls that they stand for.
 */
#include <config.h>

#include "verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How an attempt may end. word: the reason that may follow; NULL = any text. */
static const struct {
	const char *verb, *word;
	enum outcome outcome;
	enum reason reason;
} ends[] = {
	{ "done", NULL, END_DONE, WHY_NONE },
	{ "failed", NULL, END_FAILED, WHY_VERDICT },
	{ "free", "preempted", END_FREED, WHY_PREEMPTED },
	{ "free", "not-its-fault", END_FREED, WHY_NOT_ITS_FAULT },
	{ "free", NULL, END_FREED, WHY_RELEASED },
	{ "retry", "oom", END_RETRY, WHY_OOM },
	{ "retry", "exit", END_RETRY, WHY_EXIT },
	{ "retry", "crash", END_RETRY, WHY_CRASH },
	{ "retry", "hung", END_RETRY, WHY_HUNG },
	{ "retry", "looping", END_RETRY, WHY_LOOPING },
	{ "retry", "timeout", END_RETRY, WHY_TIMEOUT },
	{ "retry", NULL, END_RETRY, WHY_CRASH },
};

int
verb_parse(const char *text, size_t size, struct verb *verb)
{
	char line[256];
	char name[16];
	char word[32] = "";
	char *end;
	int used = 0;
	int more = 0;

	*verb = (struct verb){ 0 };
	size_t n = 0;
	while (n < size && text[n] != '\n')
		n++;
	/* one line; what an editor or echo adds behind it is white space */
	for (size_t i = n; i < size; i++)
		if (text[i] != '\n' && text[i] != ' ')
			return -EINVAL;
	if (n >= sizeof(line))
		n = sizeof(line) - 1; /* evidence is cut, verbs are short */
	memcpy(line, text, n);
	line[n] = '\0';
	if (sscanf(line, " %15s %n%31s %n", name, &used, word, &more) < 1)
		return -EINVAL;
	if (!strcmp(name, "parked")) {
		verb->kind = VERB_PARK;
		verb->number = strtoll(word, &end, 10);
		return !*word || *end || verb->number < 0 ? -EINVAL : 0;
	}
	if (!strcmp(name, "resumed")) {
		double lost = strtod(word, &end);

		if (!*word || *end || !(lost >= 0) || lost > 1e9)
			return -EINVAL;
		verb->kind = VERB_RESUMED;
		verb->number = (int64_t)(lost * 1000);
		return 0;
	}
	if (!strcmp(name, "note")) {
		verb->kind = VERB_NOTE;
		snprintf(verb->note, sizeof(verb->note), "%.150s", used ? line + used : "");
		return 0;
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (strcmp(ends[i].verb, name) != 0 ||
		    (ends[i].word && strcmp(ends[i].word, word) != 0))
			continue;
		int from = ends[i].word ? more : used;

		verb->kind = VERB_END;
		verb->outcome = ends[i].outcome;
		verb->reason = ends[i].reason;
		snprintf(verb->note, sizeof(verb->note), "%.150s", from ? line + from : "");
		return 0;
	}
	return -EINVAL;
}

static int
try_verb(struct queue *q, int64_t serial, unsigned attempt, const struct verb *verb, struct now now)
{
	switch (verb->kind) {
	case VERB_END:
		return queue_end(q, serial, attempt, verb->outcome, verb->reason, verb->note, now);
	case VERB_PARK:
		return queue_park(q, serial, attempt, verb->number, now);
	case VERB_RESUMED:
		return queue_resumed(q, serial, attempt, verb->number, now);
	case VERB_NOTE:
		return queue_note(q, serial, attempt, verb->note, now);
	}
	return -EINVAL;
}

int
verb_do(struct queue *q, int64_t serial, unsigned attempt, const struct verb *verb, struct now now)
{
	int rc = try_verb(q, serial, attempt, verb, now);

	if (rc != -EINPROGRESS)
		return rc;
	/* frozen for a while: look what happened before an agent is told that it still holds */
	return queue_look(q, now) ? -EIO : try_verb(q, serial, attempt, verb, now);
}

int
touch_do(struct queue *q, int64_t serial, unsigned attempt, struct now now)
{
	int rc = queue_touch(q, serial, attempt, now);

	if (rc != -EINPROGRESS)
		return rc;
	return queue_look(q, now) ? -EIO : queue_touch(q, serial, attempt, now);
}
