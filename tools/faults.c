/*
 * faults.c - the kinds of faults that raser chaos draws from.
 */
#include <config.h>

#include "chaos_impl.h"
#include "keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

long
draw(struct chaos *c, long n)
{
	return nrand48(c->random) % n;
}

void
announce(struct chaos *c, const char *what, const char *whom, const char *sentence)
{
	history_write(c->history, now_ms(), "fault\t%s\t%s", what, whom);
	printf("%6.1f s  %s\n", (double)(now_ms() - c->begin) / 1000, sentence);
	fflush(stdout);
}

/* One of the prey that pleases; NULL when there is none. */
typedef bool
prey_fn(struct chaos *c, const struct prey *p);
static struct prey *
pick(struct chaos *c, prey_fn *pleases)
{
	size_t n = 0;

	for (size_t i = 0; i < c->prey.n; i++)
		n += pleases(c, &c->prey.all[i]);
	if (!n)
		return NULL;
	size_t which = (size_t)draw(c, (long)n);
	for (size_t i = 0; i < c->prey.n; i++)
		if (pleases(c, &c->prey.all[i]) && !which--)
			return &c->prey.all[i];
	return NULL;
}

static bool
is_stopped(const struct chaos *c, const struct prey *p)
{
	for (int i = 0; i < c->nstopped; i++)
		if (c->stopped[i].process.pid == p->process.pid)
			return true;
	return false;
}

static bool
is_daemon(struct chaos *c, const struct prey *p)
{
	return p->kind == PREY_DAEMON && !is_stopped(c, p);
}

/* Somebody with a beat. */
static bool
is_owner(struct chaos *c, const struct prey *p)
{
	return p->owner[0] && !is_stopped(c, p);
}

static bool
is_agentd(struct chaos *c, const struct prey *p)
{
	return p->kind == PREY_AGENTD && !is_stopped(c, p);
}

/* Not one whose task this crash would fail for good: that would be our doing, not a fault's. */
static bool
is_agent(struct chaos *c, const struct prey *p)
{
	const struct conf *conf = queue_conf(c->queue);
	struct task t;

	if (p->kind != PREY_AGENT)
		return false;
	if (!p->task[0] || queue_find(c->queue, p->task, &t))
		return true;
	int64_t max = t.max_failures == MAX_FAILURES_UNSET ? conf->max_failures : t.max_failures;
	return !max || t.counts.failures + 2 < max;
}

/* ---- the faults; each returns whether it did anything ---- */

static bool
kill_owner(struct chaos *c, const struct prey *p, const char *name)
{
	char s[160];

	if (c->nkilled == KILLED_MAX)
		return false;
	snprintf(s, sizeof(s), "kill -9   %s %s, process %ld", name, p->owner, (long)p->process.pid);
	announce(c, "kill", p->owner, s);
	memcpy(c->killed[c->nkilled++], p->owner, OWNER_TEXT);
	return tree_signal(&p->process, SIGKILL);
}

static bool
kill_daemon(struct chaos *c)
{
	const struct prey *p = pick(c, is_daemon);

	return p && kill_owner(c, p, "raserfs");
}

static bool
kill_other(struct chaos *c, prey_fn *pleases, const char *what, const char *name)
{
	char s[NAME_LIMIT + 160];
	char whom[32];
	struct prey *p = pick(c, pleases);

	if (!p)
		return false;
	if (p->owner[0])
		return kill_owner(c, p, name);
	snprintf(whom, sizeof(whom), "%ld", (long)p->process.pid);
	snprintf(s, sizeof(s), "kill -9   %s%s%s, process %s", name, p->task[0] ? " of task " : "",
		 p->task, whom);
	announce(c, what, whom, s);
	return tree_signal(&p->process, SIGKILL);
}

static bool
kill_agentd(struct chaos *c)
{
	return kill_other(c, is_agentd, "agentd", "raser-agentd");
}

static bool
kill_agent(struct chaos *c)
{
	return kill_other(c, is_agent, "agent", "an agent's process");
}

static bool
stop(struct chaos *c, prey_fn *pleases, const char *name)
{
	const struct conf *conf = queue_conf(c->queue);
	char s[160];
	struct prey *p = pick(c, pleases);

	if (!p || c->nstopped == STOPPED_MAX || keeper_owes(c->keeper, &p->process))
		return false;
	/* mostly short, sometimes long enough for others to take what it holds */
	int64_t ms = draw(c, 3) ? 100 + draw(c, (long)conf_beat_ms(conf) * 2) :
				  conf->steal_after_ms + 2 * conf_beat_ms(conf);
	struct stopped *x = &c->stopped[c->nstopped++];
	*x = (struct stopped){ .process = p->process, .until = now_ms() + ms };
	memcpy(x->owner, p->owner, sizeof(x->owner));
	snprintf(s, sizeof(s), "stop      %s%s%s, process %ld, for %.1f s", name,
		 p->owner[0] ? " " : "", p->owner, (long)p->process.pid, (double)ms / 1000);
	announce(c, "stop", p->owner[0] ? p->owner : "agentd", s);
	return tree_signal(&p->process, SIGSTOP);
}

static bool
stop_daemon(struct chaos *c)
{
	return stop(c, is_daemon, "raserfs");
}

static bool
stop_agentd(struct chaos *c)
{
	return stop(c, is_agentd, "raser-agentd");
}

struct claims {
	struct task *all;
	size_t n, cap;
};

static int
on_claim(void *arg, const struct task *t)
{
	struct claims *x = arg;

	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 64;
		struct task *grown = realloc(x->all, cap * sizeof(*grown));

		if (!grown)
			return 1;
		x->all = grown;
		x->cap = cap;
	}
	x->all[x->n++] = *t;
	return 0;
}

/* As rm leases/T@k does on a mount. */
static bool
delete_lease(struct chaos *c)
{
	struct claims x = { 0 };
	char s[NAME_LIMIT + 64];
	char whom[NAME_LIMIT + 32];
	int rc = -ENOENT;

	queue_refresh(c->queue, now_read(), 0, 0);
	queue_list(c->queue, TASK_CLAIMED, 0, on_claim, &x);
	if (x.n) {
		const struct task *t = &x.all[draw(c, (long)x.n)];

		snprintf(whom, sizeof(whom), "%s@%u", t->name, t->attempt);
		snprintf(s, sizeof(s), "delete    leases/%s", whom);
		announce(c, "lease", whom, s);
		rc = queue_revoke(c->queue, t->serial, t->attempt, now_read());
	}
	free(x.all);
	return !rc;
}

static bool
delete_beat(struct chaos *c)
{
	char s[160];
	char path[DISK_PATH];
	const struct prey *p = pick(c, is_owner);

	if (!p)
		return false;
	snprintf(path, sizeof(path), "nodes/%s", p->owner);
	snprintf(s, sizeof(s), "delete    %.100s", path);
	announce(c, "remove", path, s);
	return disk_unlink(&c->disk, path) == 0;
}

static bool
fill(struct chaos *c)
{
	char s[160];

	if (c->no_fill || c->ballast_until)
		return false;
	c->ballast_until = now_ms() + 500 + draw(c, 2000);
	announce(c, "fill", c->ballast.path, "fill      the storage");
	bool full = ballast_load(&c->ballast);
	snprintf(s, sizeof(s), "          %lld MiB, %s", (long long)(c->ballast.size >> 20),
		 full ? "and it refuses more" : "and it is not full: that is as much as may be");
	announce(c, full ? "full" : "other", c->ballast.path, s);
	c->no_fill = !full; /* it would be no different the next time */
	return full;
}

const struct fault chaos_faults[] = {
	{ "agents' processes killed", kill_agent, 5, false },
	{ "agentds killed", kill_agentd, 3, false },
	{ "agentds stopped", stop_agentd, 2, false },
	{ "daemons killed", kill_daemon, 2, true },
	{ "daemons stopped", stop_daemon, 2, true },
	{ "leases deleted", delete_lease, 3, false },
	{ "node files deleted", delete_beat, 2, false },
	{ "storage filled", fill, 2, false },
	{ 0 },
};
