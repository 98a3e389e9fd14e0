/*
 * histories.c - what every daemon of this world did and was told goes to the audit as it happens,
 * and at the end the audit judges the run by it, as it judges a real one.
 */
#include <config.h>

#include "world.h"

#include "audit.h"
#include "history.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	struct audit *audit;
	int faults; /* the source of what befell the world */
} h;

static void __attribute__((format(printf, 2, 3)))
say(int source, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, args);
	va_end(args);
	line[n++] = '\n';
	if (audit_line(h.audit, source, line, (size_t)n))
		abort();
}

void
histories_begin(void)
{
	h.audit = audit_new();
	if (!h.audit)
		abort();
	h.faults = audit_source(h.audit, "the world");
	say(h.faults, "0\tstart\tworld\t1\tno-clock\tworld\t0");
}

static void
on_line(void *arg, const char *line, size_t len)
{
	const struct proc *p = arg;

	/* a killed process says nothing more, whatever its code still does */
	if (!p->dead && audit_line(h.audit, p->source, line, len))
		abort();
}

struct history *
histories_of(struct proc *p)
{
	char name[32];

	/* every opening of the run is a life of its own: one that fails says that it stopped */
	snprintf(name, sizeof(name), "daemon %d", p->id);
	p->source = audit_source(h.audit, name);
	if (p->source < 0)
		abort();
	struct now now = proc_now(p);
	say(p->source, "%lld\tstart\tsim\t%ld\t%s\t%s\t%lld", (long long)now.boot_ms, p->pid,
	    p->host->boot_id, p->host->name, (long long)now.wall_s);
	struct history *hook = history_hook(on_line, p);
	if (!hook)
		abort();
	return hook;
}

void
histories_fault(const char *what, const char *whom)
{
	say(h.faults, "%lld\tfault\t%s\t%s", (long long)(sim_now / 1000), what, whom);
}

static void
on_sentence(void *arg, int invariant, const char *sentence)
{
	(void)arg;
	if (invariant)
		broken("I%d: %s", invariant, sentence);
}

void
histories_judge(void)
{
	/* a holder whose looks fail may answer for half of steal_after: rules.c knows exactly */
	const struct audit_options o = { .complete = true,
					 .settled = true,
					 .lag_ms = world.manners.stat_lag / 1000,
					 .slack_ms = world.steal_after_ms / 2 +
						     world.manners.list_lag / 1000 + 1000 };
	struct audit_totals totals;
	struct disk disk = { .ops = &truth_ops };
	struct err e = { 0 };

	if (audit_run(h.audit, &disk, &o, on_sentence, NULL, &totals, &e) < 0)
		broken("the audit cannot read the run: %s", e.text);
}

void
histories_end(void)
{
	audit_free(h.audit);
	h.audit = NULL;
}
