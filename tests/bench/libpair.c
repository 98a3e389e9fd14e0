/* libpair.c - the library straight on a run directory: every process is a daemon without a mount.
 *
 *   libpair --dir D [--procs P] [--tasks N] [--seconds T] [--run RUN]
 *
 * A pair is queue_next() and queue_end(..., END_DONE): a claim and a durable end, with its
 * read-backs and its directory sync. Each process is an owner with a beat of its own and learns
 * what the others took as daemons do: by the races it loses and the bays it lists. With --run it
 * works on a run that is there already, whose tasks are t000001 to tN, beside other hosts.
 */
#include <config.h>

#include "crew.h"
#include "load.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

struct worker {
	struct crew *crew;
	const char *run;
};

static void
start(void *arg)
{
	crew_start(((struct worker *)arg)->crew);
}

static bool
goes_on(void *arg)
{
	return crew_goes_on(((struct worker *)arg)->crew);
}

static void
claimed(void *arg, long task)
{
	crew_claimed(((struct worker *)arg)->crew, task);
}

static void
ended(void *arg)
{
	crew_ended(((struct worker *)arg)->crew);
}

static void
work(struct crew *c, void *arg)
{
	static const struct load_hooks hooks = { start, goes_on, claimed, ended };
	struct worker w = { .crew = c, .run = arg };
	struct err e = { 0 };
	long lost;

	if (load_work(w.run, &hooks, &w, &lost, &e))
		errx(1, "%s", e.text);
	if (getenv("LIBPAIR_VERBOSE"))
		warnx("%ld races lost", lost);
}

int
main(int argc, char **argv)
{
	const char *shared = NULL;
	const struct crew_option more[] = { { "run", &shared }, { NULL, NULL } };
	struct crew c;
	char run[4200];
	struct err e = { 0 };

	log_init("libpair", LOG_WARN);
	crew_init(&c, argc, argv, more);
	snprintf(run, sizeof(run), "%.4000s%s", shared ? shared : c.dir, shared ? "" : "/run");
	if (!shared && load_fill(run, c.tasks, "libpair", &e))
		errx(1, "%s", e.text);
	if (crew_run(&c, work, run))
		return 1;
	crew_report(&c);
	return 0;
}
