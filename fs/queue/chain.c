/*
 * chain.c - link texts, cas with read-back, and the total fold. No state of its own.
 */
#include <config.h>

#include "chain.h"

#include "history.h"
#include "mutant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	enum reason letter;
	const char *word;
} reasons[] = {
	{ WHY_CRASH, "crash" },
	{ WHY_OOM, "oom" },
	{ WHY_EXIT, "exit" },
	{ WHY_HUNG, "hung" },
	{ WHY_LOOPING, "looping" },
	{ WHY_TIMEOUT, "timeout" },
	{ WHY_VERDICT, "verdict" },
	{ WHY_STALE, "stale" },
	{ WHY_DEAD_OWNER, "dead-owner" },
	{ WHY_RELEASED, "released" },
	{ WHY_PREEMPTED, "preempted" },
	{ WHY_NOT_ITS_FAULT, "not-its-fault" },
	{ WHY_REVOKED, "revoked" },
	{ WHY_UNDELIVERED, "undelivered" },
	{ WHY_RESTART, "restart" },
};

const char *
reason_name(enum reason why)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].letter == why)
			return reasons[i].word;
	return "";
}

int
reason_parse(const char *word)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (!strcmp(reasons[i].word, word))
			return (int)reasons[i].letter;
	return -1;
}

const char *
outcome_name(enum outcome o)
{
	switch (o) {
	case END_DONE: return "done";
	case END_FAILED: return "failed";
	case END_RETRY: return "retry";
	case END_LOST: return "lost";
	case END_FREED: return "freed";
	case END_CANCELLED: return "cancelled";
	}
	return "?";
}

static const char *const verb_words[] = {
	[CLAIM_CANCELLED] = "cancelled",
	[CLAIM_REOPENED] = "reopened",
};

void
claim_format(const struct claim *c, char text[LINK_TEXT])
{
	int n = snprintf(text, LINK_TEXT, "%s:%llu:%lld", c->owner, (unsigned long long)c->seq,
			 (long long)c->time);

	if (c->verb == CLAIM_CANCELLED || c->verb == CLAIM_REOPENED)
		snprintf(text + n, (size_t)(LINK_TEXT - n), ":%s:%d", verb_words[c->verb],
			 c->counts.level);
}

void
end_format(const struct end *e, char text[LINK_TEXT])
{
	snprintf(text, LINK_TEXT, "%s:%llu:%lld:%c:%c:%d:%d:%d", e->owner,
		 (unsigned long long)e->seq, (long long)e->time, (char)e->outcome, (char)e->reason,
		 e->counts.failures, e->counts.losses, e->counts.level);
}

/* Split text at ':' into at most max fields, in place. Returns how many there were. */
static int
split(char *text, char **field, int max)
{
	int n = 0;

	for (char *p = text; n < max; n++) {
		field[n] = p;
		p = strchr(p, ':');
		if (!p)
			return n + 1;
		*p++ = '\0';
	}
	return max + 1;
}

/* A decimal number from 0 to limit; -1 for anything else. */
static long long
number(const char *s, long long limit)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -1;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	return *end || errno || v > limit ? -1 : v;
}

static bool
parse_counts(char **field, struct counts *c)
{
	c->failures = (int)number(field[0], COUNT_LIMIT);
	c->losses = (int)number(field[1], COUNT_LIMIT);
	c->level = (int)number(field[2], TIERS_MAX - 1);
	return c->failures >= 0 && c->losses >= 0 && c->level >= 0;
}

/* The three fields that every link begins with. */
static bool
parse_head(char **field, char owner[OWNER_TEXT], uint64_t *seq, int64_t *time)
{
	long long s = number(field[1], INT64_MAX);
	long long t = number(field[2], INT64_MAX);

	if (!*field[0] || strlen(field[0]) >= OWNER_TEXT || s < 0 || t < 0)
		return false;
	snprintf(owner, OWNER_TEXT, "%s", field[0]);
	*seq = (uint64_t)s;
	*time = t;
	return true;
}

void
claim_parse(const char *text, struct claim *c)
{
	char copy[LINK_TEXT];
	char *field[5];

	*c = (struct claim){ .verb = CLAIM_AGENT };
	snprintf(copy, sizeof(copy), "%s", text);
	int n = split(copy, field, 5);
	bool good = (n == 3 || n == 5) && parse_head(field, c->owner, &c->seq, &c->time);

	if (good && n == 5) {
		c->verb = !strcmp(field[3], verb_words[CLAIM_CANCELLED]) ? CLAIM_CANCELLED :
			  !strcmp(field[3], verb_words[CLAIM_REOPENED])	 ? CLAIM_REOPENED :
									   CLAIM_GARBLED;
		c->counts.level = (int)number(field[4], TIERS_MAX - 1);
		good = c->verb != CLAIM_GARBLED && c->counts.level >= 0;
	}
	if (!good)
		*c = (struct claim){ .verb = CLAIM_GARBLED };
}

bool
end_parse(const char *text, struct end *e)
{
	char copy[LINK_TEXT];
	char *field[8];

	*e = (struct end){ 0 };
	snprintf(copy, sizeof(copy), "%s", text);
	if (split(copy, field, 8) != 8 || !parse_head(field, e->owner, &e->seq, &e->time) ||
	    strlen(field[3]) != 1 || !strchr("dxrlfc", field[3][0]) || strlen(field[4]) != 1 ||
	    !parse_counts(field + 5, &e->counts))
		return false;
	e->outcome = (enum outcome)field[3][0];
	e->reason = (enum reason)field[4][0];
	return true;
}

void
bay_path(char out[DISK_PATH], const char *batch_random, int bay)
{
	snprintf(out, DISK_PATH, "chain/%s.%d", batch_random, bay);
}

void
link_path(char out[DISK_PATH], const char *bay, const char *name, unsigned attempt,
	  enum link_kind kind)
{
	snprintf(out, DISK_PATH, "%s/%s@%u.%s", bay, name, attempt,
		 kind == LINK_CLAIM ? "claim" : "end");
}

/* Errors after which a create that left no name certainly did nothing (PROTOCOL 3.4). */
static bool
is_clean_failure(int rc)
{
	return rc == -EROFS || rc == -ENOSPC || rc == -EDQUOT || rc == -EACCES || rc == -EPERM ||
	       rc == -ENAMETOOLONG || rc == -ENOTDIR || rc == -ENOENT;
}

int
chain_read(struct disk *disk, const char *path, char text[LINK_TEXT])
{
	char buf[512];
	int rc = disk_readlink(disk, path, buf, sizeof(buf));

	text[0] = '\0';
	if (rc == -EINVAL)
		return 0; /* something, but no link of ours */
	if (rc < 0)
		return rc;
	if (rc < LINK_TEXT)
		memcpy(text, buf, (size_t)rc + 1);
	return 0;
}

static int
longer(int wait)
{
	return wait < 1000 ? wait * 2 : 1000;
}

int
chain_read_patiently(struct disk *disk, const char *path, char text[LINK_TEXT])
{
	for (int wait = 10;; wait = longer(wait)) {
		int rc = chain_read(disk, path, text);

		if (rc != -EIO || disk_is_away(disk) || atomic_load(&disk->stopping))
			return rc;
		disk_pause(disk, wait);
	}
}

/* The directory of a create is missing. 0: it is there now; else as a create that failed so. */
static int
make_dir(struct disk *disk, const char *dir)
{
	int rc = dir ? disk_mkdir(disk, dir) : -ENOENT;

	return rc == -EEXIST ? 0 : rc;
}

static int
create_and_read(struct disk *disk, const char *dir, const char *path, const char *text,
		char found[LINK_TEXT])
{
	bool unknown = false; /* a create of ours may still arrive */
	bool dir_made = false;

	for (int wait = 10;; wait = longer(wait)) {
		int made = disk_symlink(disk, text, path);
		int seen = chain_read(disk, path, found);

		unknown |= made && made != -EEXIST && !is_clean_failure(made);

		if (MUTANT(READ_BACK) && (!made || made == -EEXIST))
			return !made;
		if (!seen)
			return strcmp(found, text) == 0;
		if (seen == -ENOENT && made == -ENOENT && !dir_made) {
			made = make_dir(disk, dir);
			dir_made = !made;
			if (dir_made)
				continue;
		}
		/* where there is no directory no create waits, nor can one arrive */
		if (seen == -ENOENT && is_clean_failure(made) && (!unknown || made == -ENOENT))
			return made;
		/* a directory that lets nobody in: neither can we see, nor have we been there */
		if (seen == -EACCES && made == -EACCES && !unknown)
			return made;
		/* unknown: the very same create again, and nothing else, until it is answered */
		if (atomic_load(&disk->stopping))
			return -EINPROGRESS;
		disk_pause(disk, wait);
	}
}

int
chain_cas(struct disk *disk, const char *path, const char *text, char found[LINK_TEXT])
{
	return chain_cas_in(disk, NULL, path, text, found);
}

int
chain_cas_in(struct disk *disk, const char *dir, const char *path, const char *text,
	     char found[LINK_TEXT])
{
	history_say(disk, "cas\t%s\t%s", path, text);
	int rc = create_and_read(disk, dir, path, text, found);
	if (rc == 1)
		history_say(disk, "won\t%s\t%s", path, text);
	else if (rc == 0)
		history_say(disk, "lost\t%s\t%s\t%s", path, text, found);
	else if (rc == -EINPROGRESS)
		history_say(disk, "unknown\t%s\t%s", path, text);
	else
		history_say(disk, "failed\t%s\t%s\t%d", path, text, rc);
	return rc;
}

void
fold_end(const struct end *e, unsigned attempt, struct fold *fold)
{
	fold->attempt = attempt;
	fold->counts = e->counts;
	fold->reason = e->reason;
	fold->time = e->time;
	snprintf(fold->owner, sizeof(fold->owner), "%s", e->owner);
	switch (e->outcome) {
	case END_DONE:
		fold->state = TASK_DONE;
		return;
	case END_FAILED:
		fold->state = TASK_FAILED;
		return;
	case END_CANCELLED:
		fold->state = TASK_CANCELLED;
		return;
	case END_RETRY:
	case END_LOST:
	case END_FREED:
		break;
	}
	fold->state = TASK_PENDING;
	fold->attempt = attempt + 1;
}

void
fold_sealed(const struct sealed *s, struct fold *fold)
{
	const struct end e = { .time = s->time,
			       .outcome = (enum outcome)s->outcome,
			       .reason = (enum reason)s->reason,
			       .counts = { s->failures, s->losses, s->level } };

	fold_end(&e, s->attempt, fold);
}

bool
fold_link(unsigned attempt, enum link_kind kind, const char *text, struct fold *fold)
{
	struct end e;

	if (kind == LINK_END) {
		if (!end_parse(text, &e))
			return false;
		fold_end(&e, attempt, fold);
		return true;
	}
	claim_parse(text, &fold->claim);
	fold->attempt = attempt;
	fold->time = fold->claim.time;
	snprintf(fold->owner, sizeof(fold->owner), "%s", fold->claim.owner);
	if (fold->claim.verb != CLAIM_CANCELLED && fold->claim.verb != CLAIM_REOPENED)
		return false;
	fold->counts = fold->claim.counts;
	fold->state = TASK_CANCELLED;
	if (fold->claim.verb == CLAIM_REOPENED) {
		fold->state = TASK_PENDING;
		fold->attempt = attempt + 1;
	}
	return true;
}

/*
 * The counters that stood before attempt k: those of the highest lower link that has any.
 * Links below may have been deleted; without any the task has no history.
 */
static int
counts_below(struct disk *disk, const char *bay, const char *name, unsigned k, int base,
	     const struct sealed *under, struct counts *counts)
{
	static const enum link_kind kinds[] = { LINK_END, LINK_CLAIM };
	char path[DISK_PATH];
	char text[LINK_TEXT];
	struct fold f = { 0 };

	while (--k) {
		if (under && k == under->attempt) {
			fold_sealed(under, &f);
			*counts = f.counts;
			return 0;
		}
		for (int i = 0; i < 2; i++) {
			link_path(path, bay, name, k, kinds[i]);
			int rc = chain_read(disk, path, text);
			if (!rc && fold_link(k, kinds[i], text, &f)) {
				*counts = f.counts;
				return 0;
			}
			if (rc && rc != -ENOENT)
				return rc;
		}
	}
	*counts = (struct counts){ .level = base };
	return 0;
}

int
chain_fold_sealed(struct disk *disk, const char *bay, const char *name, unsigned attempt,
		  bool has_end, int base, const struct sealed *under, struct fold *fold)
{
	enum link_kind kind = has_end ? LINK_END : LINK_CLAIM;
	char path[DISK_PATH];
	char text[LINK_TEXT];

	*fold = (struct fold){ .state = TASK_PENDING, .attempt = 1, .reason = WHY_NONE,
			       .counts.level = base };
	if (under && under->attempt && attempt <= under->attempt) {
		fold_sealed(under, fold);
		return 0;
	}
	if (!attempt)
		return 0;
	link_path(path, bay, name, attempt, kind);
	int rc = chain_read(disk, path, text);
	if (rc || fold_link(attempt, kind, text, fold))
		return rc;
	/* an end that no daemon wrote: the attempt is over and counts nothing */
	fold->state = has_end ? TASK_PENDING : TASK_CLAIMED;
	fold->attempt = has_end ? attempt + 1 : attempt;
	if (MUTANT(PREDECESSOR) && !has_end) {
		fold->state = TASK_PENDING;
		fold->attempt++;
	}
	return counts_below(disk, bay, name, attempt, base, under, &fold->counts);
}

int
chain_fold(struct disk *disk, const char *bay, const char *name, unsigned attempt, bool has_end,
	   int base, struct fold *fold)
{
	return chain_fold_sealed(disk, bay, name, attempt, has_end, base, NULL, fold);
}

static int
plus_one(int n)
{
	return n < COUNT_LIMIT ? n + 1 : n;
}

enum outcome
count_end(const struct conf *conf, int64_t max_failures, enum outcome outcome,
	  const struct counts *before, struct counts *after)
{
	*after = *before;
	switch (outcome) {
	case END_RETRY:
		after->failures = plus_one(after->failures);
		after->losses = 0;
		break;
	case END_LOST:
		after->losses = plus_one(after->losses);
		if (after->losses % 2 == 0)
			after->failures = plus_one(after->failures);
		break;
	case END_DONE:
	case END_FAILED:
		after->losses = 0;
		return outcome;
	case END_FREED:
	case END_CANCELLED:
		return outcome;
	}
	if ((max_failures && after->failures >= max_failures) || after->losses >= conf->max_losses)
		return END_FAILED;
	after->level = conf_level(conf, after->level, after->failures);
	return outcome;
}
