/*
 * status.c - raser status RUN: the mount's own words, or the same counts from the run directory.
 */
#include <config.h>

#include "raser.h"

#include <errno.h>
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

int
verb_status(int argc, char **argv)
{
	static const char *const names[TASK_STATES] = { "pending", "claimed", "done", "failed",
							"cancelled", "unread" };
	struct target t;
	struct queue_stats s;

	if (argc != 2)
		return usage_error();
	if (!target_find(argv[1], &t))
		return 1;
	if (t.is_mount) {
		char path[PATH_MAX + 16];

		snprintf(path, sizeof(path), "%s/status", t.path);
		return show_file(path);
	}
	struct queue *q = target_queue(&t, false);
	if (!q)
		return 1;
	/* opening read the links; now the texts of the ends */
	int64_t rc = queue_refresh(q, now_read(), 0, 0);
	queue_stats(q, &s);
	printf("run %s\n", t.run);
	int64_t total = 0;
	for (int i = 0; i < TASK_STATES; i++)
		total += s.count[i];
	printf("tasks %lld in %d batches\n", (long long)total, s.batches);
	for (int i = 0; i < TASK_UNREAD; i++)
		printf("%s %lld\n", names[i], (long long)s.count[i]);
	printf("moved up %lld\n", (long long)s.elevated);
	if (*queue_conf(q)->clamped)
		printf("raser.ini asks for more than site.ini allows: %s\n", queue_conf(q)->clamped);
	queue_close(q, now_read());
	return rc < 0 ? complain(1, "%s: %s", t.run, strerror((int)-rc)) : 0;
}
