/* libpair.c - the library straight on a run directory: every process is a daemon without a mount.
 *
 *   libpair --dir D [--procs P] [--tasks N] [--seconds T] [--run RUN]
 *
 * A pair is queue_next() and queue_end(..., END_DONE): a claim and a durable end, with its
 * read-backs and its directory sync. Each process is an owner with a beat of its own and learns
 * what the others took as daemons do: by the races it loses and the bays it lists.
 */
#include <config.h>

#include "clock.h"
#include "crew.h"
#include "queue.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
fill(const char *run, long tasks)
{
	const struct queue_options o = { .join = false };
	struct err e = { 0 };
	char line[256];
	struct queue *q = queue_open(run, &o, now_read(), &e);
	struct submission *s = q ? submission_new(q, NULL, &e) : NULL;

	if (!s)
		errx(1, "%s", e.text);
	for (long i = 1; i <= tasks; i++) {
		int n = snprintf(line, sizeof(line),
				 "{\"id\":\"t%06ld\",\"repo\":\"example/project\",\"base\":"
				 "\"0123456789abcdef0123456789abcdef01234567\",\"note\":\"a task of "
				 "about two hundred bytes, as the other arms have it, no more\"}\n", i);

		if (submission_feed(s, line, (size_t)n, &e))
			errx(1, "%s", e.text);
	}
	if (submission_finish(s, "libpair", now_read(), &e))
		errx(1, "%s", e.text);
	submission_free(s);
	queue_close(q, now_read());
}

static void
work(struct crew *c, void *arg)
{
	const struct queue_options o = { .join = true };
	const struct claimer by = { .comm = "libpair" };
	struct err e = { 0 };
	struct queue *q = queue_open(arg, &o, now_read(), &e);
	int tier = 2;

	if (!q)
		errx(1, "%s", e.text);
	const int waiting[TIERS_MAX] = { [2] = 1 };
	queue_idle(q, waiting);
	queue_beat(q, now_read());
	crew_start(c);
	queue_watch(q, now_read()); /* who else is here */
	while (crew_goes_on(c)) {
		struct grant g;
		int rc = queue_next(q, tier, &by, now_read(), &g);

		if (rc == -EAGAIN) {
			struct now now = now_read();

			queue_refresh(q, now, 0, 0);
			if (queue_drained(q, tier, now.boot_ms))
				break;
			continue;
		}
		if (rc)
			errx(1, "claim: %s", strerror(-rc));
		crew_claimed(c, strtol(g.name + 1, NULL, 10));
		rc = queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now_read());
		if (rc)
			errx(1, "end of %s: %s", g.name, strerror(-rc));
		crew_ended(c);
	}
	struct queue_stats st;
	queue_stats(q, &st);
	if (getenv("LIBPAIR_VERBOSE"))
		warnx("%lld claims, %lld races lost, %llu listings", (long long)st.claims,
		      (long long)st.lost_races, (unsigned long long)st.calls[DISK_LIST]);
	queue_close(q, now_read());
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
	if (!shared) {
		if (queue_init(run, "", &e))
			errx(1, "%s", e.text);
		fill(run, c.tasks);
	}
	if (crew_run(&c, work, run))
		return 1;
	crew_report(&c);
	return 0;
}
