/*
 * status.c - raser status RUN: the mount's own words, or the same counts from the run directory; what holds
 * the run back, and which members of its job arrays live.
 */
#include <config.h>

#include "brakes.h"
#include "members.h"
#include "raser.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

static int
show_file(const char *path)
{
	char buf[4096];
	size_t n;
	FILE *f = fopen(path, "re");

	if (!f)
		return complain(1, "%s: %s", path, strerror(errno));
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		fwrite(buf, 1, n, stdout);
	fclose(f);
	return 0;
}

/* The counts of a run directory. An exit status. */
static int
count(const struct target *t, struct queue_stats *s)
{
	struct queue *q = target_queue(t, false);

	if (!q)
		return 1;
	/* opening read the links; now the texts of the ends */
	int64_t rc = queue_refresh(q, now_read(), 0, 0);
	queue_stats(q, s);
	queue_close(q, now_read());
	return rc < 0 ? complain(1, "%s: %s", t->run, strerror((int)-rc)) : 0;
}

static int
show_counts(const struct target *t)
{
	static const char *const names[TASK_STATES] = { "pending", "claimed", "done", "failed",
							"cancelled", "unread" };
	struct queue_stats s;
	int status = count(t, &s);

	if (status)
		return status;
	printf("run %s\n", t->run);
	int64_t total = 0;
	for (int i = 0; i < TASK_STATES; i++)
		total += s.count[i];
	printf("tasks %lld in %d batches\n", (long long)total, s.batches);
	for (int i = 0; i < TASK_UNREAD; i++)
		printf("%s %lld\n", names[i], (long long)s.count[i]);
	printf("moved up %lld\n", (long long)s.elevated);
	return 0;
}

/* What raser.ini and the site hold back; the mount says what the site does itself. */
static void
show_limits(const struct target *t)
{
	static struct conf conf;
	char text[1024];

	if (conf_load(&conf, t->run, NULL))
		return;
	if (conf.clamped[0] && !t->is_mount)
		printf("raser.ini asks for more than site.ini allows: %s\n", conf.clamped);
	brakes_describe(t->run, &conf.limits, now_read().wall_s, "", text, sizeof(text));
	fputs(text, stdout);
}

/* Is anything left to do? Says what, if so. */
static int
check_drained(const struct target *t)
{
	struct queue_stats s;
	int status = count(t, &s);

	if (status || !(s.count[TASK_PENDING] + s.count[TASK_CLAIMED]))
		return status;
	return complain(1, "%s is not drained: %lld tasks are pending and %lld claimed", t->run,
			(long long)s.count[TASK_PENDING], (long long)s.count[TASK_CLAIMED]);
}

int
verb_status(int argc, char **argv)
{
	static const struct option options[] = {
		{ "drained", no_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	bool drained = false;
	struct target t;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'd')
			return usage_error();
		drained = true;
	}
	if (argc - optind != 1)
		return usage_error();
	if (!target_find(argv[optind], &t))
		return 1;
	if (drained)
		return check_drained(&t);
	int status = 1;
	if (t.is_mount) {
		char path[PATH_MAX + 16];

		snprintf(path, sizeof(path), "%s/status", t.path);
		status = show_file(path);
	} else {
		status = show_counts(&t);
	}
	show_limits(&t);
	fflush(stdout);
	members_print(t.run, stdout);
	return status;
}
