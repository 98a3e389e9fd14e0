/*
 * load.c - filling a run and working it off.
 */
#include <config.h>

#include "load.h"

#include "clock.h"
#include "queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
load_fill(const char *run, long tasks, const char *submitter, struct err *err)
{
	const struct queue_options o = { .join = false };
	char line[256];
	/* for a trial storage is taken as it is */
	int rc = queue_make(run, &(const struct init_options){ .force = true }, err);

	if (rc)
		return rc;
	struct queue *q = queue_open(run, &o, now_read(), err);
	if (!q)
		return -EIO;
	struct submission *s = submission_new(q, NULL, err);
	rc = s ? 0 : -EIO;
	for (long i = 1; !rc && i <= tasks; i++) {
		int n = snprintf(
			line, sizeof(line),
			"{\"id\":\"t%06ld\",\"repo\":\"example/project\",\"base\":"
			"\"0123456789abcdef0123456789abcdef01234567\",\"note\":\"a task of "
			"about two hundred bytes, as the other arms have it, no more\"}\n",
			i);

		rc = submission_feed(s, line, (size_t)n, err);
	}
	if (!rc)
		rc = submission_finish(s, submitter, now_read(), err);
	if (s)
		submission_free(s);
	queue_close(q, now_read());
	return rc;
}

int
load_work(const char *run, const struct load_hooks *hooks, void *arg, long *lost, struct err *err)
{
	const struct queue_options o = { .join = true };
	const struct claimer by = { .comm = "load" };
	struct queue *q = queue_open(run, &o, now_read(), err);
	int tier = 2;
	int rc = 0;

	if (!q)
		return -EIO;
	const int waiting[TIERS_MAX] = { [2] = 1 };
	queue_idle(q, waiting);
	queue_beat(q, now_read());
	hooks->start(arg);
	queue_watch(q, now_read()); /* who else is here */
	while (!rc && hooks->goes_on(arg)) {
		struct grant g;

		rc = queue_next(q, tier, &by, now_read(), &g);
		if (rc == -EAGAIN) {
			struct now now = now_read();

			rc = 0;
			queue_refresh(q, now, 0, 0);
			if (queue_drained(q, tier, now.boot_ms))
				break;
			continue;
		}
		if (rc) {
			err_set(err, rc, "claim: %s", strerror(-rc));
			break;
		}
		hooks->claimed(arg, strtol(g.name + 1, NULL, 10));
		rc = queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now_read());
		if (rc)
			err_set(err, rc, "end of %s: %s", g.name, strerror(-rc));
		else
			hooks->ended(arg);
	}
	struct queue_stats st;
	queue_stats(q, &st);
	*lost = (long)st.lost_races;
	queue_close(q, now_read());
	return rc;
}
