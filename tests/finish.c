/*
 * finish.c - a run worked off without agents, by the library, for tests of large runs.
 *
 *   finish RUN [N]      claim and end tasks, N at most, and leave of each what raser-agentd leaves
 *                       of one that wrote no files: results/T@k.r/ with record and log, results/T
 *   finish --look RUN   open it as a daemon does that starts, read all ends, and print the calls on
 *                       the run directory and the milliseconds that each of the two took
 */
#include <config.h>

#include "clock.h"
#include "names.h"
#include "queue.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct claimer by = { .comm = "finish" };

static struct queue *
open_run(const char *run, bool join)
{
	const struct queue_options o = { .join = join };
	struct err e = { "" };
	struct queue *q = queue_open(run, &o, now_read(), &e);

	if (!q)
		errx(1, "%s", e.text);
	return q;
}

static void
put(const char *folder, const char *name, const char *text)
{
	char path[800];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f))
		err(1, "%s", path);
}

static void
leave(const char *run, const struct grant *g, const char *owner)
{
	char name[NAME_LIMIT + 64];
	char path[800];
	char text[600];

	snprintf(name, sizeof(name), "%s@%u.%s", g->name, g->attempt, owner_random(owner));
	snprintf(path, sizeof(path), "%s/results/%s", run, name);
	if (mkdir(path, 0777) < 0)
		err(1, "%s", path);
	snprintf(text, sizeof(text),
		 "{\n \"task\": \"%s\",\n \"attempt\": %u,\n \"owner\": \"%s\",\n"
		 " \"state\": \"ended\",\n \"verb\": \"done\",\n \"exit\": 0,\n \"seconds\": 1.25\n}\n",
		 g->name, g->attempt, owner);
	put(path, "attempt.json", text);
	put(path, "output.log", "all is well\n");
	snprintf(path, sizeof(path), "%s/results/%s/out", run, name);
	if (mkdir(path, 0777) < 0)
		err(1, "%s", path);
	snprintf(path, sizeof(path), "%s/results/%s", run, g->name);
	if (symlink(name, path) < 0)
		err(1, "%s", path);
}

static uint64_t
all_calls(struct queue *q)
{
	struct queue_stats s;
	uint64_t n = 0;

	queue_stats(q, &s);
	for (int i = 0; i < DISK_CALLS; i++)
		n += s.calls[i];
	return n;
}

static int
look(const char *run)
{
	int64_t began = now_read().boot_ms;
	struct queue *q = open_run(run, false);
	int64_t opened = now_read().boot_ms;
	uint64_t calls = all_calls(q);

	queue_refresh(q, now_read(), 0, 0);
	printf("%llu calls, %lld ms; %llu calls, %lld ms\n", (unsigned long long)calls,
	       (long long)(opened - began), (unsigned long long)(all_calls(q) - calls),
	       (long long)(now_read().boot_ms - opened));
	queue_close(q, now_read());
	return 0;
}

int
main(int argc, char **argv)
{
	char owner[OWNER_TEXT];
	struct grant g;

	log_init("finish", LOG_WARN);
	if (argc == 3 && !strcmp(argv[1], "--look"))
		return look(argv[2]);
	if (argc != 2 && argc != 3)
		errx(2, "usage: finish [--look] RUN [N]");
	long n = argc == 3 ? strtol(argv[2], NULL, 10) : -1;
	struct queue *q = open_run(argv[1], true);
	int64_t beat = now_read().boot_ms;
	queue_owner(q, owner);
	for (; n && !queue_next(q, queue_conf(q)->ntiers - 1, &by, now_read(), &g); n--) {
		leave(argv[1], &g, owner);
		if (queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now_read()))
			errx(1, "%s cannot be ended", g.name);
		if (now_read().boot_ms - beat < conf_beat_ms(queue_conf(q)))
			continue;
		beat = now_read().boot_ms;
		queue_beat(q, now_read());
	}
	queue_close(q, now_read());
	return 0;
}
