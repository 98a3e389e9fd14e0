/*
 * words.c - what daemons say that they did and what they told, held against what stands: I4, I5,
 * I6, I10.
 */
#include <config.h>

#include "audit_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- I5: one writer ---- */

static int
by_path(const void *x, const void *y)
{
	return strcmp((*(const struct link *const *)x)->path, (*(const struct link *const *)y)->path);
}

/* The creates of exactly this link; how many. */
static size_t
creates_of(const struct audit *a, const char *path, const char *text, const struct create **first)
{
	size_t low = 0;
	size_t high = a->ncreates;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(a->creates[mid].path, path);

		if (!order)
			order = strcmp(a->creates[mid].text, text);
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*first = a->creates + low;
	size_t n = 0;
	while (low + n < a->ncreates && !strcmp((*first)[n].path, path) &&
	       !strcmp((*first)[n].text, text))
		n++;
	return n;
}

static const char *
link_owner(const struct link *l)
{
	return l->kind == LINK_END ? l->end.owner : l->claim.owner;
}

static void
check_writer(struct audit *a, struct link *l)
{
	const struct create *c;
	size_t n = creates_of(a, l->path, l->text, &c);
	const struct owner *o = l->parses ? audit_owner(a, link_owner(l)) : NULL;

	if (!n) {
		if (audit_excused(a, l->path))
			return;
		if (o || a->o->complete)
			audit_say(a, 5, "%s: '%s' stands, but no history tells of anybody who wrote it",
				  l->path, l->text);
		else
			a->totals.unlogged++;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (c[i].life != c->life)
			audit_say(a, 5, "%s: '%s' has two writers (%s and %s)", l->path, l->text,
				  audit_where(a, c->life, c->line),
				  audit_where(a, c[i].life, c[i].line));
		if (!l->by || c[i].fate == FATE_WON)
			l->by = &c[i];
	}
	/* where the winner's link was removed, a late duplicate of the loser's may take its place */
	if ((l->by->fate == FATE_LOST || l->by->fate == FATE_FAILED) && !audit_excused(a, l->path))
		audit_say(a, 5, "%s: '%s' stands, but who wrote it was told that it %s (%s)", l->path,
			  l->text, l->by->fate == FATE_LOST ? "lost" : "failed",
			  audit_where(a, l->by->life, l->by->line));
	if (o && o->life != l->by->life)
		audit_say(a, 5, "%s: '%s' is in the name of %s, but another daemon wrote it (%s)",
			  l->path, l->text, o->name, audit_where(a, l->by->life, l->by->line));
}

/* A link that was made where a seal tells of another: its writer knows that it counts for nothing,
 * or died before it had asked. */
static bool
is_overruled(const struct audit *a, const struct create *c, const struct link *sealed)
{
	if (!a->lives[c->life].stopped)
		return true;
	for (size_t i = 0; i < a->nnotes; i++) {
		const struct note *n = &a->notes[i];

		if (n->kind == NOTE_OVERRULED && n->life == c->life && n->a == sealed->attempt &&
		    !strcmp(n->whom, sealed->task))
			return true;
	}
	return false;
}

static const struct link *
link_at(const struct audit *a, struct link *const *sorted, char *path)
{
	struct link key = { .path = path };
	const struct link *at = &key;
	const struct link *const *found =
		a->nlinks ? bsearch(&at, sorted, a->nlinks, sizeof(struct link *), by_path) : NULL;

	return found ? *found : NULL;
}

/* The end of a cancelled attempt, made when a sealer had read its claim, which is its own end, and
 * was about to write so: it went with the links that the seal tells of, and had told nothing else. */
static bool
is_sealed_anyhow(const struct audit *a, struct link *const *sorted, const struct create *c)
{
	char path[512];
	struct end e;
	const char *dot = strrchr(c->path, '.');

	if (!dot || strcmp(dot, ".end") != 0 || !end_parse(c->text, &e) ||
	    e.outcome != END_CANCELLED)
		return false;
	snprintf(path, sizeof(path), "%.*s.claim", (int)(dot - c->path), c->path);
	const struct link *claim = link_at(a, sorted, path);
	return claim && claim->sealed && claim->claim.verb == CLAIM_CANCELLED;
}

static void
check_won(struct audit *a, struct link *const *sorted, const struct create *c)
{
	char text[512] = "";

	if (c->fate != FATE_WON)
		return;
	const struct link *found = link_at(a, sorted, c->path);
	if (found)
		snprintf(text, sizeof(text), "%s", found->text);
	else
		disk_readlink(a->disk, c->path, text, sizeof(text)); /* batches, and what is gone */
	if (strcmp(text, c->text) != 0 && !audit_excused(a, c->path) &&
	    !(found && found->sealed && is_overruled(a, c, found)) &&
	    !(!found && is_sealed_anyhow(a, sorted, c)))
		audit_say(a, 5, "%s: '%s' was won (%s), but '%s' stands there", c->path, c->text,
			  audit_where(a, c->life, c->line), text);
}

void
audit_writers(struct audit *a)
{
	struct link **sorted = malloc((a->nlinks + 1) * sizeof(struct link *));

	if (!sorted)
		return;
	for (size_t i = 0; i < a->nlinks; i++) {
		check_writer(a, &a->links[i]);
		sorted[i] = &a->links[i];
	}
	if (a->nlinks)
		qsort(sorted, a->nlinks, sizeof(struct link *), by_path);
	for (size_t i = 0; i < a->ncreates; i++)
		check_won(a, sorted, &a->creates[i]);
	free(sorted);
}

/* ---- I4, I6: answers ---- */

static const enum outcome outcomes[] = { END_DONE, END_FAILED, END_RETRY, END_LOST, END_FREED };

/* The end that an answer speaks of, or 0 for touches and the like. */
static enum outcome
asked_end(const struct answer *t)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (!strcmp(outcome_name(outcomes[i]), t->what))
			return outcomes[i];
	return 0;
}

/* Success was told of an end: it must stand, in the holder's name. */
static void
check_told_end(struct audit *a, const struct answer *t, enum outcome asked, const struct link *end)
{
	/* "-": its lease was forgotten while the storage would not sync its end */
	bool by_it = end && end->parses &&
		     (!strcmp(end->end.owner, t->owner) ||
		      (!strcmp(t->owner, "-") && end->by && end->by->life == t->life));
	bool kept = by_it &&
		    (end->end.outcome == asked ||
		     (end->end.outcome == END_FAILED && (asked == END_RETRY || asked == END_LOST)));

	if (!kept)
		audit_say(a, asked == END_DONE ? 4 : 6,
			  "task %s@%u: %s told its agent that it is %s (%s), but its end is '%s'",
			  t->task, t->attempt, t->owner, t->what, audit_where(a, t->life, t->line),
			  end ? end->text : "");
}

/* The holder spoke as a holder: it must not have been over for long. */
static void
check_told_held(struct audit *a, const struct answer *t, const struct link *end)
{
	const struct create *by = end ? end->by : NULL;

	if (!by || by->fate != FATE_WON)
		return;
	int64_t over = audit_latest(a, by->life, by->ret, t->life);
	/* of its own ends a daemon knows at once, when they are answered */
	int64_t bound = by->life == t->life ?
				a->o->slack_ms :
				conf_beat_ms(queue_conf(a->queue)) + a->slack;
	if (over != INT64_MAX && t->since > over + bound)
		audit_say(a, 6, "task %s@%u: %s ended it, but %lld ms later its old holder %s still "
			  "answered its agent's %s with success (%s; %s)", t->task, t->attempt,
			  end->end.owner, (long long)(t->since - over), t->owner, t->what,
			  audit_where(a, t->life, t->line), audit_where(a, by->life, by->line));
}

static bool
task_excused(const struct audit *a, const char *name)
{
	struct task t;
	char bay[DISK_PATH];
	char path[DISK_PATH];

	if (queue_find(a->queue, name, &t) || !queue_bay(a->queue, t.serial, bay))
		return false;
	link_path(path, bay, name, 1, LINK_END);
	return audit_excused(a, path);
}

/* All that was told about one task. */
static void
check_answers(struct audit *a, const struct answer *t, size_t n)
{
	const struct answer *done = NULL;

	for (size_t i = 0; i < n; i++) {
		enum outcome asked = asked_end(&t[i]);

		if (t[i].rc)
			continue;
		const struct link *end = audit_link(a, t[i].task, t[i].attempt, LINK_END);
		if (asked)
			check_told_end(a, &t[i], asked, end);
		else
			check_told_held(a, &t[i], end);
		if (asked == END_DONE && done &&
		    (done->attempt != t[i].attempt || strcmp(done->owner, t[i].owner) != 0))
			audit_say(a, 4, "task %s: two agents were told that it is done, @%u (%s) and "
				  "@%u (%s)", t[i].task, done->attempt,
				  audit_where(a, done->life, done->line), t[i].attempt,
				  audit_where(a, t[i].life, t[i].line));
		if (asked == END_DONE)
			done = &t[i];
		for (size_t k = 0; k < i; k++) /* sorted by attempt: a later one that came earlier */
			if (!t[k].rc && t[k].life == t[i].life && t[k].line > t[i].line &&
			    t[k].attempt < t[i].attempt && !strcmp(t[k].what, "claim") &&
			    !strcmp(t[i].what, "claim"))
				audit_say(a, 10, "task %s: attempt %u was granted (%s) after %u was (%s)",
					  t[i].task, t[k].attempt,
					  audit_where(a, t[k].life, t[k].line), t[i].attempt,
					  audit_where(a, t[i].life, t[i].line));
	}
}

/* A task that is done: somebody was told so, unless its daemon died before it could. */
static void
check_done(struct audit *a, const struct link *end)
{
	const struct answer *t;

	if (end->kind != LINK_END || !end->parses || end->end.outcome != END_DONE || !end->by ||
	    !a->lives[end->by->life].stopped)
		return;
	size_t n = audit_answers(a, end->task, end->attempt, &t);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(t[i].what, "done"))
			return;
	if (!audit_excused(a, end->path))
		audit_say(a, 4, "task %s@%u is done by %s, but nobody was told so (%s)", end->task,
			  end->attempt, end->end.owner,
			  audit_where(a, end->by->life, end->by->line));
}

void
audit_words(struct audit *a)
{
	for (size_t i = 0; i < a->nanswers;) {
		size_t n = 1;

		while (i + n < a->nanswers && !strcmp(a->answers[i + n].task, a->answers[i].task))
			n++;
		if (!task_excused(a, a->answers[i].task))
			check_answers(a, &a->answers[i], n);
		i += n;
	}
	for (size_t i = 0; i < a->nlinks; i++)
		check_done(a, &a->links[i]);
}
