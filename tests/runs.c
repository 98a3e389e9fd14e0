/*
 * runs.c - run directories for tests.
 */
#include <config.h>

#include "runs.h"

#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct now now;
const struct claimer run_agent = { .comm = "test" };

static void __attribute__((noreturn))
bail(const char *what, const char *why)
{
	printf("Bail out! %s: %s\n", what, why);
	exit(1);
}

void
run_submit(const char *path, int n, const char *prefix)
{
	struct queue *q = run_open(path, false);
	struct err e = { "" };
	struct submission *s = submission_new(q, NULL, &e);
	char line[64];
	int rc = s ? 0 : -1;

	for (int i = 1; i <= n && !rc; i++) {
		int len = snprintf(line, sizeof(line), "{\"id\":\"%s%d\"}\n", prefix, i);

		rc = submission_feed(s, line, (size_t)len, &e);
	}
	if (rc || submission_finish(s, "test", now, &e))
		bail("submit", e.text);
	submission_free(s);
	queue_close(q, now);
}

void
run_new(char path[300], const char *name, int n, const char *prefix)
{
	struct err e = { "" };

	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	if (queue_init(path, "", &e))
		bail(path, e.text);
	run_submit(path, n, prefix);
}

struct queue *
run_open(const char *path, bool join)
{
	const struct queue_options o = { .join = join };
	struct err e = { "" };
	struct queue *q = queue_open(path, &o, now, &e);

	if (!q)
		bail(path, e.text);
	return q;
}

void
run_work(struct queue *q, int n, enum outcome outcome)
{
	struct grant g;

	for (int i = 0; i < n; i++)
		if (queue_next(q, 0, &run_agent, now, &g) ||
		    queue_end(q, g.serial, g.attempt, outcome,
			      outcome == END_DONE ? WHY_NONE : WHY_VERDICT, NULL, now))
			bail("work", "no task can be claimed and ended");
}

const char *
run_file(const char *path, int bay, const char *file, char out[400])
{
	char link[400];
	char text[64] = "";
	char r[16];

	snprintf(link, sizeof(link), "%s/batches/1", path);
	if (readlink(link, text, sizeof(text) - 1) < 0 || sscanf(text, "b.%12[a-z2-7].", r) != 1)
		bail(link, "no batch");
	snprintf(out, 400, "%s/chain/%s.%d/%s", path, r, bay, file);
	return out;
}

void
run_load(const char *file, char **text, size_t *len)
{
	FILE *f = fopen(file, "re");

	*text = NULL;
	*len = 0;
	if (!f)
		return;
	FILE *out = open_memstream(text, len);
	for (int c; out && (c = getc(f)) != EOF;)
		putc(c, out);
	fclose(f);
	if (!out || fclose(out))
		bail(file, "it cannot be read");
}

void
run_store(const char *file, const char *text, size_t len)
{
	FILE *f = fopen(file, "we");

	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		bail(file, "it cannot be written");
}
