/*
 * inspect.c - an audit of a run, printed.
 */
#include <config.h>

#include "inspect.h"

#include <stdlib.h>
#include <string.h>

enum { INVARIANTS = 12, SENTENCES = 20 };

static const char *const holds[INVARIANTS + 1] = {
	[1] = "no link is missing and every text is whole",
	[2] = "every link was allowed by what stood before it",
	[3] = "done is final",
	[4] = "who was told done is who is done, once a task",
	[5] = "every link has one writer, who knows that it won",
	[6] = "who lost a claim is refused, and told no success",
	[7] = "every task that was acknowledged is there",
	[8] = "results are those of the accepted attempts",
	[9] = "no claim was taken from a living holder",
	[10] = "attempts only rise",
	[11] = "nothing dead is left",
	[12] = "all of it in time",
};

struct found {
	const struct inspection *in;
	int64_t said[INVARIANTS + 1];
};

static void
on_found(void *arg, int invariant, const char *sentence)
{
	struct found *f = arg;

	if (++f->said[invariant] > SENTENCES)
		return; /* the sum tells how many */
	printf("%sI%d: %s\n", f->in->tap ? "# " : "", invariant, sentence);
}

static void
print_tap(const struct inspection *in, const struct audit_totals *t)
{
	printf("1..%d\n", INVARIANTS);
	for (int i = 1; i <= INVARIANTS; i++) {
		bool skip = i == 12 && !in->options.timed;

		printf("%sok %d - I%d %s%s\n", t->broken[i] ? "not " : "", i, i, holds[i],
		       skip ? " # SKIP not asked for" : "");
	}
}

static void
print_sum(const struct audit_totals *t)
{
	printf("tasks %lld: done %lld, failed %lld, cancelled %lld, pending %lld, claimed %lld\n",
	       (long long)t->tasks, (long long)t->done, (long long)t->failed,
	       (long long)t->cancelled, (long long)t->pending, (long long)t->claimed);
	printf("attempts %lld, ended by others %lld; histories %lld, answers in them %lld\n",
	       (long long)t->attempts, (long long)t->stolen, (long long)t->lives,
	       (long long)t->told);
	if (t->torn)
		printf("lines of histories that are cut or unknown: %lld\n", (long long)t->torn);
	if (t->unlogged)
		printf("links by daemons or tools without a history: %lld\n", (long long)t->unlogged);
	if (!t->violations) {
		printf("audit: every promise was kept\n");
		return;
	}
	printf("audit: %lld violations\n", (long long)t->violations);
	for (int i = 1; i <= INVARIANTS; i++)
		if (t->broken[i])
			printf("  I%d, %s: %lld\n", i, holds[i], (long long)t->broken[i]);
}

int
inspect(const struct target *t, const struct inspection *in)
{
	struct audit *a = audit_new();
	struct audit_totals totals = { 0 };
	struct found f = { .in = in };
	struct disk disk;
	struct err err = { 0 };

	if (!a)
		return complain(1, "out of memory");
	int64_t rc = 0;
	for (int i = 0; !rc && i < in->nhistories; i++)
		rc = audit_read(a, in->histories[i], &err);
	if (!rc)
		rc = disk_open(&disk, t->run, &err);
	if (!rc) {
		rc = audit_run(a, &disk, &in->options, on_found, &f, &totals, &err);
		disk_close(&disk);
	}
	audit_free(a);
	if (rc < 0)
		return complain(1, "%s", err.text[0] ? err.text : strerror((int)-rc));
	if (in->tap)
		print_tap(in, &totals);
	else
		print_sum(&totals);
	return totals.violations ? 1 : 0;
}
