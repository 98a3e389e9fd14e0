/*
 * runs.c - run directories for tests.
 */
#include <config.h>

#include "runs.h"

#include "clock.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

int
run_feed(const char *path, const char *tasks, struct err *err)
{
	struct queue *q = run_open(path, false);
	struct submission *s = submission_new(q, NULL, err);
	int rc = s ? submission_feed(s, tasks, strlen(tasks), err) : -ENOMEM;

	if (!rc)
		rc = submission_finish(s, "test", now, err);
	submission_free(s);
	queue_close(q, now);
	return rc;
}

void
run_make(char path[300], const char *name, const char *ini, const char *tasks)
{
	char file[400];
	struct err e = { "" };

	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	snprintf(file, sizeof(file), "%s/raser.ini", path);
	if (mkdir(path, 0777) != 0)
		bail(path, strerror(errno));
	run_store(file, ini, strlen(ini));
	if (queue_init(path, "", &e) || run_feed(path, tasks, &e))
		bail(path, e.text);
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

/* ---- what a run says ---- */

static int
on_task(void *arg, const struct task *t)
{
	fprintf(arg, "%s %d @%u f%d l%d t%d %c %lld\n", t->name, (int)t->state, t->attempt,
		t->counts.failures, t->counts.losses, t->counts.level, (char)t->reason,
		(long long)t->changed);
	return 0;
}

char *
run_states(const char *path)
{
	char *s = NULL;
	size_t len;
	struct queue *q = run_open(path, false);
	FILE *f = open_memstream(&s, &len);

	queue_refresh(q, now, 0, 0);
	queue_list(q, VIEW_ALL, 0, on_task, f);
	fclose(f);
	queue_close(q, now);
	return s;
}

int
run_files(const char *path, const char *part)
{
	char dir[400];
	int n = 0;

	run_file(path, 0, "", dir);
	DIR *d = opendir(dir);
	for (const struct dirent *e; d && (e = readdir(d));)
		n += strstr(e->d_name, part) != NULL;
	if (d)
		closedir(d);
	return n;
}

/* ---- sealing ---- */

static struct now
clock_now(void *arg)
{
	(void)arg;
	return now_read();
}

const struct seal_watcher *
run_watcher(void)
{
	static const struct seal_watcher w = { .now = clock_now };

	return &w;
}

void
run_bury(const char *path)
{
	char command[400];

	snprintf(command, sizeof(command), "rm -f %s/nodes/*", path);
	if (system(command) != 0) /* NOLINT(cert-env33-c): a test's own path */
		bail(command, "failed");
}

int
run_seal_all(struct queue *q, struct seal_bay *last, struct err *e)
{
	int rc = 0;

	for (int64_t i = 0; !rc; i++)
		rc = queue_seal(q, i, run_watcher(), last, e);
	return rc == -ERANGE ? 0 : rc;
}

void
run_seal(const char *path)
{
	const struct queue_options o = { .join = true, .as = OWNER_SEALER };
	struct seal_bay bay;
	struct err e = { "" };
	struct queue *q = queue_open(path, &o, now, &e);

	if (!q || queue_refresh(q, now, 0, 0) < 0 || run_seal_all(q, &bay, &e))
		bail("sealing", e.text);
	queue_close(q, now);
}
