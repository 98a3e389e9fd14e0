/*
 * chains.c - the links of every task, one after the other: I1, I2, I3. What stood before a link is
 * asked of chain_fold(), what follows from it of count_end().
 */
#include <config.h>

#include "audit_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *
link_name(const struct link *l)
{
	return l->kind == LINK_END ? "end" : "claim";
}

static bool
is_same(const struct counts *x, const struct counts *y)
{
	return x->failures == y->failures && x->losses == y->losses && x->level == y->level;
}

/* Reasons that only the daemon which granted the attempt can know. */
static bool
is_holders(const struct end *e)
{
	return e->outcome == END_DONE || strchr("CMEHPWVSRTNU", (char)e->reason) != NULL;
}

/* The outcome that was asked for may have become `failed` at a limit. */
static bool
follows(const struct conf *conf, int64_t max_failures, const struct counts *before,
	const struct end *e)
{
	static const enum outcome asked[] = { END_FAILED, END_RETRY, END_LOST };
	struct counts after;

	if (e->outcome != END_FAILED)
		return count_end(conf, max_failures, e->outcome, before, &after) == e->outcome &&
		       is_same(&after, &e->counts);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		if (count_end(conf, max_failures, asked[i], before, &after) == END_FAILED &&
		    is_same(&after, &e->counts))
			return true;
	return false;
}

static void
check_claim(struct audit *a, const struct link *l, const struct fold *before)
{
	enum claim_verb verb = l->claim.verb;

	if (verb == CLAIM_GARBLED)
		return; /* I1 says so */
	bool good = verb == CLAIM_REOPENED ? (before->state == TASK_FAILED ||
					      before->state == TASK_CANCELLED) &&
						     before->attempt + 1 == l->attempt :
					     before->state == TASK_PENDING &&
						     before->attempt == l->attempt;
	if (!good)
		audit_say(a, before->state == TASK_DONE ? 3 : 2,
			  "task %s@%u: %s made its claim %s, but what stood before did not allow it",
			  l->task, l->attempt, l->claim.owner, l->text);
	else if (verb != CLAIM_AGENT && l->claim.counts.level != before->counts.level)
		audit_say(a, 2, "task %s@%u: %s says tier %d, but %d was reached before", l->task,
			  l->attempt, l->text, l->claim.counts.level, before->counts.level);
	a->totals.attempts += verb == CLAIM_AGENT;
}

static void
check_end(struct audit *a, const struct task *t, const struct link *l, const struct fold *before)
{
	const struct conf *conf = queue_conf(a->queue);
	const struct end *e = &l->end;
	int64_t max = t->max_failures == MAX_FAILURES_UNSET ? conf->max_failures : t->max_failures;

	/* who reopens a task that was cancelled while it was pending closes that attempt first */
	bool closes = before->state == TASK_CANCELLED && e->outcome == END_CANCELLED &&
		      is_same(&before->counts, &e->counts);
	if (closes)
		return;
	if (before->state != TASK_CLAIMED) {
		audit_say(a, 2, "task %s@%u: %s ended it (%s), but it had no claim to be ended",
			  l->task, l->attempt, e->owner, l->text);
		return;
	}
	bool own = !strcmp(e->owner, before->claim.owner);
	a->totals.stolen += !own;
	if (!l->parses || before->claim.verb == CLAIM_GARBLED)
		return;
	if (!follows(conf, max, &before->counts, e))
		audit_say(a, 2, "task %s@%u: the counters of its end %s do not follow from %d:%d:%d",
			  l->task, l->attempt, l->text, before->counts.failures,
			  before->counts.losses, before->counts.level);
	if (!own && is_holders(e))
		audit_say(a, 2, "task %s@%u: claimed by %s, but %s ended it as %s, which only its "
			  "holder may", l->task, l->attempt, before->claim.owner, e->owner,
			  e->outcome == END_DONE ? "done" : reason_name(e->reason));
}

struct collected {
	const struct audit *audit;
	const char *task;
};

/* As readlink(2) of a link of the task that was collected. */
static int
read_collected(void *ctx, const char *path, char *buf, size_t size)
{
	const struct collected *c = ctx;
	const struct link *l;

	for (size_t n = audit_links(c->audit, c->task, &l); n; n--, l++)
		if (!strcmp(l->path, path))
			return snprintf(buf, size, "%s", l->text);
	return -ENOENT;
}

/* What the library makes of the links up to attempt k, its end included or not. */
static bool
fold_at(struct audit *a, const struct task *t, const struct link *l, unsigned k, bool end,
	struct fold *f)
{
	/* of what was collected: a sealed link does not stand there any more */
	struct disk_ops ops = *a->disk->ops;
	struct collected c = { .audit = a, .task = t->name };
	struct disk links = { .ops = &ops, .ctx = &c };

	ops.readlink = read_collected;
	int rc = chain_fold(&links, l->bay, t->name, k, end, t->base, f);

	if (rc)
		audit_say(a, 1, "task %s@%u: its links cannot be read: %s", t->name, k,
			  strerror(-rc));
	return !rc;
}

static void
check_task(struct audit *a, const struct task *t, const struct link *l, size_t n)
{
	char bay[DISK_PATH];
	const struct link *prev = NULL;
	unsigned done = 0;

	if (!queue_bay(a->queue, t->serial, bay))
		return;
	for (size_t i = 0; i < n; i++, l++) {
		struct fold f;
		bool is_end = l->kind == LINK_END;
		bool excused = audit_excused(a, l->path);

		if (strcmp(l->bay, bay) != 0) {
			audit_say(a, 1, "%s: the links of this task lie in %s", l->path, bay);
			continue;
		}
		if (!l->parses && !excused)
			audit_say(a, 1, "task %s@%u: its %s '%s' is no text of ours", l->task,
				  l->attempt, link_name(l), l->text);
		/* an attempt that is not the last has both, or a verb that is its own end */
		bool over = !prev || prev->kind == LINK_END || prev->claim.verb != CLAIM_AGENT;
		unsigned last = prev ? prev->attempt : 0;
		bool whole = is_end ? l->attempt == last : l->attempt == last + 1 && over;
		if (!whole && !excused)
			audit_say(a, 1, "task %s@%u: its %s stands, but what must stand before it is "
				  "not there", l->task, l->attempt, link_name(l));
		if (done && !excused)
			audit_say(a, 3, "task %s@%u was done, but above it stands the %s of %u by %s",
				  l->task, done, link_name(l), l->attempt,
				  is_end ? l->end.owner : l->claim.owner);
		if (whole && !done && !excused) {
			if (is_end && fold_at(a, t, l, l->attempt, false, &f))
				check_end(a, t, l, &f);
			if (!is_end && fold_at(a, t, l, last, prev && prev->kind == LINK_END, &f))
				check_claim(a, l, &f);
		}
		if (is_end && l->parses && l->end.outcome == END_DONE)
			done = l->attempt;
		prev = l;
	}
}

void
audit_chains(struct audit *a)
{
	size_t known = 0;

	for (size_t i = 0; i < a->ntasks; i++) {
		const struct link *l;
		size_t n = audit_links(a, a->tasks[i].name, &l);

		known += n;
		check_task(a, &a->tasks[i], l, n);
	}
	for (size_t i = 0; known < a->nlinks && i < a->nlinks; i++) {
		struct task t;

		if (queue_find(a->queue, a->links[i].task, &t))
			audit_say(a, 1, "%s: there is no such task", a->links[i].path);
	}
}
