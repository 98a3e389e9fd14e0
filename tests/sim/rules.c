/*
 * rules.c - what the simulator checks itself, since it alone sees the truth at
 * every instant: that a verdict and a theft were just, that an end is its
 * holder's, that what was acknowledged is durable, that a holder is told in
 * time, and that every task ends. histories.c has the history checked.
 */
#include <config.h>

#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOUCHES = 32, OWNERS_MAX = 32768 };

struct owner {
	char name[OWNER_TEXT];
	const struct proc *proc;
	int64_t touched[TOUCHES]; /* a ring */
	unsigned ntouched;
	int64_t made_at, gone_at; /* its beat; -1 = not */
	bool twice;		  /* made again, by a late duplicate or a crash: nothing is judged
				     by it */
};

struct ack {
	char name[32];
	unsigned attempt;
	char owner[OWNER_TEXT];
};

static struct {
	struct owner *owners[OWNERS_MAX];
	int nowners;
	struct ack *acks;
	size_t nacks;
	char (*submitted)[16];
	size_t nsubmitted;
} r;

void
rules_begin(void)
{
	memset(&r, 0, sizeof(r));
}

void
rules_end(void)
{
	for (int i = 0; i < r.nowners; i++)
		free(r.owners[i]);
	free(r.acks);
	free(r.submitted);
	memset(&r, 0, sizeof(r));
}

static struct owner *
owner_of(const char *name)
{
	for (int i = r.nowners - 1; i >= 0; i--)
		if (!strcmp(r.owners[i]->name, name))
			return r.owners[i];
	return NULL;
}

static const char *
node_name(const char *path)
{
	return strncmp(path, "nodes/", 6) ? NULL : path + 6;
}

/* Time in which a beat was impossible for that reason, between two times. */
static int64_t
outage_between(const void *whose, int64_t from, int64_t to)
{
	int64_t sum = 0;
	int64_t upto = from;

	for (size_t i = 0; i < world.noutages; i++) {
		int64_t a = world.outages[i].from > upto ? world.outages[i].from : upto;
		int64_t b = world.outages[i].to < to ? world.outages[i].to : to;

		if (world.outages[i].whose == whose && b > a) {
			sum += b - a;
			upto = b;
		}
	}
	return sum;
}

/* A verdict of silence: its owner must have been silent, and not because nobody
 * could beat. */
static void
judge_verdict(const struct proc *p, const char *name)
{
	struct owner *o = owner_of(name);
	int64_t beat = world.beat_ms * 1000;
	int64_t last = 0;

	char now[OWNER_TEXT];

	if (!o || o->proc == p || o->proc->dead || !o->proc->q || o->twice || o->gone_at >= 0)
		return;
	queue_owner(o->proc->q, now);
	if (strcmp(now, name) != 0)
		return; /* it never came to use that name, or has another by now */
	/* the last look was under a second ago: what came after it could not be seen
	 */
	int64_t looked = sim_now - SECOND - world.manners.stat_lag;
	for (unsigned i = 0; i < o->ntouched && i < TOUCHES; i++)
		if (o->touched[i] <= looked && o->touched[i] > last)
			last = o->touched[i];
	if (o->made_at > last)
		last = o->made_at;
	int64_t all = outage_between(NULL, last, sim_now);
	int64_t own = outage_between(o->proc, last, sim_now) +
		      outage_between(o->proc->host, last, sim_now);
	if (own < beat && sim_now - last - all < 2 * beat - world.manners.stat_lag)
		broken("unjust verdict: daemon %d condemns %s, which beat %.1f s ago (%.1f "
		       "s of them "
		       "outage)",
		       p->id, name, (double)(sim_now - last) / SECOND, (double)all / SECOND);
}

void
rules_sent(const struct proc *p, enum disk_call call, const char *path, const char *text)
{
	const char *name = node_name(path);

	(void)text;
	if (!name)
		return;
	if (call == DISK_CREATE && owner_of(name))
		broken("daemon %d makes the beat of %s again", p->id, name);
	if (call == DISK_CREATE && !owner_of(name)) {
		struct owner *o = calloc(1, sizeof(*o));

		if (!o || r.nowners == OWNERS_MAX)
			abort();
		snprintf(o->name, sizeof(o->name), "%s", name);
		o->proc = p;
		o->made_at = o->gone_at = -1;
		r.owners[r.nowners++] = o;
	}
	/* sealers watch others, and who waits for a sealer watches that */
	if (call == DISK_UNLINK &&
	    (!strcmp(sched_name(), "watch") || !strcmp(sched_name(), "main") || p->sealer))
		judge_verdict(p, name);
}

void
rules_touched(const char *path)
{
	const char *name = node_name(path);
	struct owner *o = name ? owner_of(name) : NULL;

	if (o)
		o->touched[o->ntouched++ % TOUCHES] = sim_now;
}

void
rules_changed(const struct inode *node, bool made)
{
	const char *name = node_name(node->path);
	struct owner *o = name ? owner_of(name) : NULL;

	if (!o)
		return;
	if (!made) {
		o->gone_at = sim_now;
		return;
	}
	o->twice |= o->made_at >= 0;
	o->made_at = sim_now;
	o->gone_at = -1;
}

bool
rules_replayed(const struct inode *i)
{
	if (i->kind == INODE_DIR) {
		for (size_t k = 0; k < i->n; k++)
			if (i->names[k]->gone_at == INT64_MAX && rules_replayed(i->names[k]))
				return true;
		return false;
	}
	const char *dot = strrchr(i->name, '.');
	bool synced_soon = !strncmp(i->path, "batches/", 8) || (dot && !strcmp(dot, ".end"));

	return synced_soon && i->maker && !i->maker->dead;
}

/* chain/<r>.<bay>/<T>@<k>.claim or .end */
static bool
split_link(const char *path, char bay[DISK_PATH], char name[NAME_LIMIT + 1], unsigned *k,
	   bool *is_end)
{
	const char *slash = strrchr(path, '/');
	const char *dot = strrchr(path, '.');
	const char *at = strrchr(path, '@');

	if (strncmp(path, "chain/", 6) != 0 || !slash || !dot || !at || dot < at || at < slash)
		return false;
	snprintf(bay, DISK_PATH, "%.*s", (int)(slash - path), path);
	snprintf(name, NAME_LIMIT + 1, "%.*s", (int)(at - slash - 1), slash + 1);
	*k = (unsigned)strtoul(at + 1, NULL, 10);
	*is_end = !strcmp(dot, ".end");
	return true;
}

void
rules_undone(const struct inode *node)
{
	char bay[DISK_PATH];
	char name[NAME_LIMIT + 1];
	unsigned k;
	bool is_end;

	trace("undone: %s", node->path);
	histories_fault("remove", node->path);
	if (split_link(node->path, bay, name, &k, &is_end) && !is_end)
		people_tempt(name, k);
}

static const struct inode *
link_of(const char *bay, const char *name, unsigned k, enum link_kind kind)
{
	char path[DISK_PATH];

	link_path(path, bay, name, k, kind);
	return fs_find(path);
}

/* What a link says, and where: in the seal that tells of it, or where it stands. */
struct told {
	const struct inode *file;
	char text[LINK_TEXT];
};

static bool
told_of(const char *bay, const char *name, unsigned k, enum link_kind kind, struct told *t)
{
	t->file = truth_sealed(bay, name, k, kind, t->text);
	if (t->file)
		return true;
	t->file = link_of(bay, name, k, kind);
	if (t->file)
		snprintf(t->text, sizeof(t->text), "%s", t->file->data);
	return t->file != NULL;
}

static bool
is_holders(const struct end *e)
{
	return e->outcome != END_CANCELLED && e->reason != WHY_DEAD_OWNER &&
	       e->reason != WHY_RESTART && e->reason != WHY_REVOKED;
}

static void
judge_end(const char *bay, const char *name, unsigned k, const char *text, int64_t began)
{
	const struct inode *i = link_of(bay, name, k, LINK_CLAIM);
	struct claim c;
	struct end e;

	if (!i || !end_parse(text, &e))
		return;
	claim_parse(i->data, &c);
	if (world.coherent && is_holders(&e) && strcmp(c.owner, e.owner) != 0 && i->made_at < began)
		broken("%s@%u is ended by %s (%c), but its claim has been another's since "
		       "before: %s",
		       name, k, e.owner, (char)e.outcome, i->data);
	struct owner *o = owner_of(c.owner);
	if (e.reason != WHY_DEAD_OWNER || !o || o->twice || world.manners.list_lag >= SECOND ||
	    !strcmp(c.owner, e.owner))
		return;
	/* a claim that was lost and made again after the thief had read it, or while its client still
	 * remembers the old one, cannot be told from that */
	if (i->made_at + world.manners.cache < began && o->gone_at < 0 && o->made_at < i->made_at)
		broken("unjust theft: %s@%u of %s is ended as lost by %s, but its beat has "
		       "stood all "
		       "the time",
		       name, k, c.owner, e.owner);
}

static void
judge_claim(const char *bay, const char *name, unsigned k)
{
	struct claim c;
	struct told t;

	if (k < 2 || world.chain_touched || world.fates[FATE_CRASH] > 0 ||
	    told_of(bay, name, k - 1, LINK_END, &t))
		return;
	bool below = told_of(bay, name, k - 1, LINK_CLAIM, &t);
	if (below)
		claim_parse(t.text, &c);
	if (!below || c.verb == CLAIM_AGENT || c.verb == CLAIM_GARBLED)
		broken("%s@%u is claimed, but nothing has ended %s@%u", name, k, name, k - 1);
}

void
rules_made(const struct proc *p, const char *path, const char *text, int64_t began)
{
	char bay[DISK_PATH];
	char name[NAME_LIMIT + 1];
	unsigned k;
	bool is_end;

	(void)p;
	if (!split_link(path, bay, name, &k, &is_end))
		return;
	if (is_end)
		judge_end(bay, name, k, text, began);
	else
		judge_claim(bay, name, k);
}

/* ---- what agents were told ---- */

/* The bay in which a task's links lie, or a seal that tells of them, by any link of it; false when
 * there is none. */
static bool
find_bay(const char *name, unsigned k, char bay[DISK_PATH])
{
	const struct inode *chain = fs_find("chain");
	struct told t;

	for (size_t i = 0; i < chain->n; i++) {
		snprintf(bay, DISK_PATH, "%s", chain->names[i]->path);
		if (chain->names[i]->gone_at == INT64_MAX &&
		    (told_of(bay, name, k, LINK_CLAIM, &t) || told_of(bay, name, k, LINK_END, &t)))
			return true;
	}
	return false;
}

void
rules_granted(struct proc *p, const struct grant *g)
{
	world.grants++;
	trace("daemon %d grants %s@%u", p->id, g->name, g->attempt);
}

void
rules_kept(struct proc *p, const struct grant *g, int64_t asked)
{
	char bay[DISK_PATH];
	char owner[OWNER_TEXT];
	struct told t;
	struct end e;
	struct claim c;
	int64_t late = asked - world.steal_after_ms * 500 - world.manners.list_lag;

	if (p->dead || world.chain_touched ||
	    !queue_is_grant(p->q, g->serial, g->attempt, g->seq) ||
	    !find_bay(g->name, g->attempt, bay))
		return;
	queue_owner(p->q, owner);
	/* a seal is younger than what it tells of, so nobody is blamed who is not to blame */
	bool is = told_of(bay, g->name, g->attempt, LINK_END, &t);
	if (is && end_parse(t.text, &e) && strcmp(e.owner, owner) != 0 && t.file->made_at < late)
		broken("a zombie is served: %s@%u is touched through daemon %d, but it was "
		       "ended "
		       "%.1f s ago: %s",
		       g->name, g->attempt, p->id, (double)(asked - t.file->made_at) / SECOND,
		       t.text);
	if (!told_of(bay, g->name, g->attempt, LINK_CLAIM, &t))
		return;
	claim_parse(t.text, &c);
	if (strcmp(c.owner, owner) != 0 && t.file->made_at < late)
		broken("a zombie is served: %s@%u is touched through daemon %d, but for "
		       "%.1f s its "
		       "claim has been %s",
		       g->name, g->attempt, p->id, (double)(asked - t.file->made_at) / SECOND,
		       t.text);
}

void
rules_ended(struct proc *p, const struct grant *g, enum outcome o, int rc, int64_t asked)
{
	char bay[DISK_PATH];
	char owner[OWNER_TEXT];

	(void)asked;
	if (p->dead)
		return;
	trace("daemon %d: %s of %s@%u is answered %d", p->id, outcome_name(o), g->name, g->attempt,
	      rc);
	world.stale += rc == -ESTALE;
	if (rc)
		return;
	world.acks += o == END_DONE;
	if (world.chain_touched)
		return;
	struct told t;
	if (!find_bay(g->name, g->attempt, bay) ||
	    !told_of(bay, g->name, g->attempt, LINK_END, &t)) {
		broken("%s of %s@%u is acknowledged, but nothing ends it", outcome_name(o), g->name,
		       g->attempt);
		return;
	}
	if (!t.file->durable || !t.file->dir->durable)
		broken("%s of %s@%u is acknowledged, but not durable", outcome_name(o), g->name,
		       g->attempt);
	if (o != END_DONE)
		return;
	struct end e;
	queue_owner(p->q, owner);
	if (!end_parse(t.text, &e) || e.outcome != END_DONE)
		broken("done of %s@%u is acknowledged, but it ended so: %s", g->name, g->attempt,
		       t.text);
	for (size_t k = 0; k < r.nacks; k++)
		if (!strcmp(r.acks[k].name, g->name) &&
		    (r.acks[k].attempt != g->attempt || strcmp(r.acks[k].owner, e.owner) != 0))
			broken("two agents were told that %s is done: @%u by %s and @%u by %s",
			       g->name, r.acks[k].attempt, r.acks[k].owner, g->attempt, e.owner);
	r.acks = realloc(r.acks, (r.nacks + 1) * sizeof(*r.acks));
	if (!r.acks)
		abort();
	struct ack *a = &r.acks[r.nacks++];
	*a = (struct ack){ .attempt = g->attempt };
	snprintf(a->name, sizeof(a->name), "%.31s", g->name);
	memcpy(a->owner, e.owner, sizeof(a->owner));
}

void
rules_submitted(const char *name)
{
	r.submitted = realloc(r.submitted, (r.nsubmitted + 1) * sizeof(*r.submitted));
	if (!r.submitted)
		abort();
	snprintf(r.submitted[r.nsubmitted++], sizeof(*r.submitted), "%.15s", name);
}

/* ---- the end ---- */

static bool
is_final(enum task_state s)
{
	return s == TASK_DONE || s == TASK_FAILED || s == TASK_CANCELLED;
}

struct search {
	const struct task *open;
	struct task copy;
};

static int
on_task(void *arg, const struct task *t)
{
	struct search *s = arg;

	if (is_final(t->state))
		return 0;
	s->copy = *t;
	s->open = &s->copy;
	return 1;
}

bool
rules_ghosts(void)
{
	for (int i = 0; i < r.nowners; i++) {
		const struct owner *o = r.owners[i];
		char now[OWNER_TEXT] = "";

		if (o->made_at < 0 || o->gone_at >= 0)
			continue;
		if (!o->proc->dead && o->proc->q)
			queue_owner(o->proc->q, now);
		if (strcmp(now, o->name) != 0)
			return true;
	}
	return false;
}

bool
rules_all_final(char *open, size_t size)
{
	struct search s = { .open = NULL };
	struct queue *q = truth_open();

	queue_list(q, VIEW_ALL, 0, on_task, &s);
	if (s.open)
		snprintf(open, size, "%s@%u is in state %d", s.copy.name, s.copy.attempt,
			 (int)s.copy.state);
	truth_close(q);
	return !s.open;
}

bool
rules_views_agree(char *text, size_t size)
{
	struct queue *q = truth_open();
	bool agree = true;

	for (int i = 0; agree && i < world.nprocs; i++) {
		struct proc *p = world.procs[i];

		if (p->dead || p->leaving || p->closed || p->sealer || !p->q)
			continue;
		for (size_t k = 0; agree && k < r.nsubmitted; k++) {
			struct task t;
			struct task seen;

			if (queue_find(q, r.submitted[k], &t) ||
			    queue_find(p->q, r.submitted[k], &seen))
				continue;
			agree = t.state == seen.state && t.attempt == seen.attempt;
			if (!agree)
				snprintf(text, size, "daemon %d takes %s@%u for %d, but it is %d of @%u",
					 p->id, seen.name, seen.attempt, (int)seen.state, (int)t.state,
					 t.attempt);
		}
	}
	truth_close(q);
	return agree;
}

void
rules_judge(void)
{
	struct queue *q = truth_open();
	struct task t;

	for (size_t i = 0; i < r.nsubmitted; i++)
		if (queue_find(q, r.submitted[i], &t))
			broken("the submission of %s was acknowledged, but it is not there",
			       r.submitted[i]);
		else if (!is_final(t.state))
			broken("%s is not final at the end, but state %d of attempt %u",
			       r.submitted[i], (int)t.state, t.attempt);
	for (size_t i = 0; i < r.nacks; i++) {
		const struct ack *a = &r.acks[i];

		if (queue_find(q, a->name, &t) || t.state != TASK_DONE || t.attempt != a->attempt)
			broken("%s@%u was acknowledged as done, but it is state %d of attempt %u",
			       a->name, a->attempt, (int)t.state, t.attempt);
	}
	truth_close(q);
}
