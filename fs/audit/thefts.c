/*
 * thefts.c - claims that were ended by others: I9, whether that was just, and I12, whether it was in
 * time. Histories incriminate; what none tells of is held against nobody unless all are here.
 */
#include <config.h>

#include "audit_impl.h"

#include <errno.h>
#include <string.h>

enum { ROUNDING_MS = 10 };

/* ---- what excuses a theft ---- */

static const struct note *
find_note(const struct audit *a, enum note_kind kind, const char *what, const char *whom)
{
	for (size_t i = 0; i < a->nnotes; i++)
		if (a->notes[i].kind == kind && !strcmp(a->notes[i].what, what) &&
		    !strcmp(a->notes[i].whom, whom))
			return &a->notes[i];
	return NULL;
}

/* Its beat was taken away by hand: the file, or all of them. */
static bool
beat_removed(const struct audit *a, const char *owner)
{
	char path[64];

	snprintf(path, sizeof(path), "nodes/%s", owner);
	return find_note(a, NOTE_FAULT, "remove", path) ||
	       find_note(a, NOTE_FAULT, "remove", "nodes") ||
	       find_note(a, NOTE_HAND, "evict", owner);
}

/* The longest time in which nobody can have seen the beat of an owner move: from the call that
 * touched it last to the return of the next one. Ended lives are silent for ever. */
static bool
was_silent(const struct audit *a, const struct owner *o, int64_t window)
{
	int64_t before = o->born;
	const struct life *life = &a->lives[o->life];

	for (size_t i = 0; i < o->n; i++) {
		if (o->beats[i].at - before >= window)
			return true;
		before = o->beats[i].since;
	}
	if (o->over)
		return o->over - before >= window;
	/* no word of its end: killed, cut off or at its work; until its last word it was alive */
	return !life->stopped || life->last - before >= window;
}

/* An attempt's agent was silent for steal_after, and then its daemon may give it up. */
static bool
agent_was_silent(const struct audit *a, const struct link *claim, const struct link *end)
{
	const struct answer *t;
	size_t n = audit_answers(a, claim->task, claim->attempt, &t);
	int64_t window = queue_conf(a->queue)->steal_after_ms - ROUNDING_MS;
	int64_t before = claim->by->call;

	for (size_t i = 0; i < n && t[i].since < end->by->call; i++) {
		if (t[i].life != end->by->life || (t[i].rc && t[i].rc != -EINPROGRESS))
			continue;
		if (t[i].since - before >= window)
			return true;
		before = t[i].since;
	}
	return end->by->call - before >= window;
}

static void
unjust(struct audit *a, const struct link *claim, const struct link *end, const char *why)
{
	audit_say(a, 9, "task %s@%u: claimed by %s, ended by %s as %s (%s), but %s (%s)", claim->task,
		  claim->attempt, claim->claim.owner, end->end.owner, outcome_name(end->end.outcome),
		  reason_name(end->end.reason), why,
		  end->by ? audit_where(a, end->by->life, end->by->line) : "no history");
}

/* The owner was judged dead by another. */
static void
check_dead_owner(struct audit *a, const struct link *claim, const struct link *end)
{
	const char *name = claim->claim.owner;
	const struct owner *o = audit_owner(a, name);

	if (!o || beat_removed(a, name) || o->left)
		return; /* nothing is known of it, or its beat was taken away */
	int64_t window = 4 * conf_beat_ms(queue_conf(a->queue)) - ROUNDING_MS - a->o->lag_ms;
	if (!was_silent(a, o, window))
		unjust(a, claim, end, "that owner's beat was never silent for long, and nobody removed it");
	else if (a->o->complete && !find_note(a, NOTE_VERDICT, "silent", name) &&
		 !find_note(a, NOTE_VERDICT, "proven", name))
		unjust(a, claim, end, "nobody had judged that owner silent");
}

/* Its process was seen to be gone. */
static void
check_proven(struct audit *a, const struct link *claim, const struct link *end)
{
	const struct owner *o = audit_owner(a, claim->claim.owner);

	if (!o || !end->by)
		return;
	const struct life *life = &a->lives[o->life];
	/* its daemon spoke on after it was called dead */
	int64_t said = audit_latest(a, end->by->life, end->by->ret, o->life);
	if (o->life != end->by->life && end->by->ret && said != INT64_MAX &&
	    life->last > said + ROUNDING_MS)
		unjust(a, claim, end, "that daemon's process lived on");
}

static void
check_end(struct audit *a, const struct link *claim, const struct link *end)
{
	bool own = !strcmp(claim->claim.owner, end->end.owner);

	switch (end->end.reason) {
	case WHY_DEAD_OWNER:
		check_dead_owner(a, claim, end);
		break;
	case WHY_RESTART:
		if (!own)
			check_proven(a, claim, end);
		break;
	case WHY_STALE:
		if (claim->by && end->by && claim->by->life == end->by->life &&
		    !agent_was_silent(a, claim, end))
			unjust(a, claim, end, "its agent had touched it in time");
		break;
	case WHY_REVOKED:
		if (a->o->complete && end->by && a->lives[end->by->life].stopped &&
		    !find_note(a, NOTE_HAND, "revoke", claim->task))
			unjust(a, claim, end, "nobody had asked to revoke it");
		break;
	default:
		break;
	}
	if (a->o->undisturbed && (!own || strchr("DSX", (char)end->end.reason)))
		unjust(a, claim, end, "there was no fault");
}

void
audit_thefts(struct audit *a)
{
	for (size_t i = 1; i < a->nlinks; i++) {
		const struct link *end = &a->links[i];
		const struct link *claim = end - 1;

		if (end->kind == LINK_END && claim->kind == LINK_CLAIM && end->parses &&
		    claim->claim.verb == CLAIM_AGENT && claim->attempt == end->attempt &&
		    !strcmp(claim->task, end->task) && !audit_excused(a, end->path))
			check_end(a, claim, end);
	}
}

/* ---- I12: in time ---- */

/* What a killed daemon held is claimed again soon, since agents wait. */
static void
check_kill(struct audit *a, const struct note *kill)
{
	const struct conf *conf = queue_conf(a->queue);
	int64_t bound = conf->steal_after_ms + 2 * conf_beat_ms(conf) + a->slack;

	for (size_t i = 0; i + 2 < a->nlinks; i++) {
		const struct link *l = &a->links[i];
		const struct link *next = l + 2;

		if (l->kind != LINK_CLAIM || strcmp(l->claim.owner, kill->whom) != 0 ||
		    strcmp(next->task, l->task) != 0 || next->kind != LINK_CLAIM || !next->by ||
		    !l[1].parses || !strcmp(l[1].end.owner, l->claim.owner))
			continue;
		int64_t dead = audit_latest(a, kill->life, kill->at, next->by->life);
		if (dead != INT64_MAX && next->by->ret > dead + bound)
			audit_say(a, 12, "task %s@%u: its holder %s was killed (%s), but it was claimed "
				  "again only %lld ms later (%s)", l->task, l->attempt, kill->whom,
				  audit_where(a, kill->life, kill->line),
				  (long long)(next->by->ret - dead),
				  audit_where(a, next->by->life, next->by->line));
	}
}

/* While one is stopped, the creates of others take no longer. */
static void
check_stop(struct audit *a, const struct note *stop)
{
	const struct owner *stopped = audit_owner(a, stop->whom);
	int64_t until = INT64_MAX;

	for (size_t i = 0; i < a->nnotes; i++) {
		const struct note *n = &a->notes[i];

		if (n->kind == NOTE_FAULT && !strcmp(n->what, "cont") && n->life == stop->life &&
		    n->line > stop->line && !strcmp(n->whom, stop->whom) && n->at < until)
			until = n->at;
	}
	for (size_t i = 0; i < a->ncreates; i++) {
		const struct create *c = &a->creates[i];

		/* only on one clock: a bound would have to be known both ways */
		if (!c->ret || (stopped && stopped->life == c->life) ||
		    a->lives[c->life].clock != a->lives[stop->life].clock || c->ret < stop->at ||
		    c->call > until || c->ret - c->call <= a->o->claim_ms)
			continue;
		audit_say(a, 12, "%s: while %s was stopped (%s), this create took another daemon %lld "
			  "ms (%s)", c->path, stop->whom, audit_where(a, stop->life, stop->line),
			  (long long)(c->ret - c->call), audit_where(a, c->life, c->line));
	}
}

void
audit_times(struct audit *a)
{
	for (size_t i = 0; i < a->nnotes; i++) {
		const struct note *n = &a->notes[i];

		if (n->kind == NOTE_FAULT && !strcmp(n->what, "kill"))
			check_kill(a, n);
		if (n->kind == NOTE_FAULT && !strcmp(n->what, "stop") && a->o->claim_ms)
			check_stop(a, n);
	}
}
