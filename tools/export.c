/*
 * export.c - raser export RUN [--attempts|--steps]: what the attempts of a run have left in its
 * results/, or what was sealed of it, as JSON Lines.
 */
#include <config.h>

#include "raser.h"

#include "records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void
put_line(const json_t *o)
{
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(13));
	putchar('\n');
}

/* attempt.json of a folder, as one line. What is not there, or torn, is left out. */
static void
put_attempt(const char *results, const char *folder)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/%s/attempt.json", results, folder);
	json_t *o = json_load_file(path, 0, NULL);
	if (json_is_object(o))
		put_line(o);
	json_decref(o);
}

/* The steps of an accepted attempt, each with its task. f may be NULL, and is closed. */
static void
put_steps_of(FILE *f, const char *task)
{
	char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		if (json_is_object(o)) {
			json_object_set_new(o, "task", json_string(task));
			put_line(o);
		}
		json_decref(o);
	}
	free(line);
	if (f)
		fclose(f);
}

static void
put_steps(const char *results, const char *task)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/%s/trajectory.jsonl", results, task);
	put_steps_of(fopen(path, "re"), task);
}

/* ---- what was sealed ---- */

struct sealed_records {
	const char *results;
	bool steps;
	void *seen; /* tsearch(3) tree of folders and tasks that have been printed */
	char task[NAME_MAX + 1], folder[NAME_MAX + 1]; /* the link that was read last */
};

static int
by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A sealer that died may have left both, and packed them once more. */
static bool
is_first(struct sealed_records *s, const char *name, const char *file)
{
	char path[PATH_MAX + 600];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/%s", s->results, name, file);
	if (stat(path, &st) == 0 || tfind(name, &s->seen, by_text))
		return false;
	char *copy = strdup(name);
	if (copy && !tsearch(copy, &s->seen, by_text))
		free(copy);
	return true;
}

static void
on_record(void *arg, const char *path, const char *target, const char *data, size_t size)
{
	struct sealed_records *s = arg;
	char folder[NAME_MAX + 1];

	if (target) {
		/* results/T, which stands before the folder that was accepted */
		if (!strchr(path, '@')) {
			snprintf(s->task, sizeof(s->task), "%s", path);
			snprintf(s->folder, sizeof(s->folder), "%s", target);
		}
		return;
	}
	snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(path, "/"), path);
	if (!s->steps && is_first(s, folder, "attempt.json")) {
		json_t *o = json_loadb(data, size, 0, NULL);

		if (json_is_object(o))
			put_line(o);
		json_decref(o);
	} else if (s->steps && !strcmp(folder, s->folder) &&
		   is_first(s, s->task, "trajectory.jsonl")) {
		FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

		put_steps_of(f, s->task);
	}
}

/* Print from what `raser seal` has packed. Returns the exit status. */
static int
put_sealed(const char *run, const char *results, bool steps)
{
	struct sealed_records s = { .results = results, .steps = steps };
	char path[PATH_MAX + 300];
	int status = 0;

	snprintf(path, sizeof(path), "%s/sealed", run);
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : complain(1, "%s: %s", path, strerror(errno));
	for (const struct dirent *e; (e = readdir(d));) {
		const char *end = strstr(e->d_name, ".tar.zst");
		struct err err = { "" };

		if (!end || end[strlen(".tar.zst")] || !strncmp(e->d_name, "tmp.", 4))
			continue;
		snprintf(path, sizeof(path), "%s/sealed/%s", run, e->d_name);
		if (records_read(path, steps ? "trajectory.jsonl" : "attempt.json", on_record, &s,
				 &err))
			status = complain(1, "%s", err.text);
	}
	closedir(d);
	tdestroy(s.seen, free);
	return status;
}

int
verb_export(int argc, char **argv)
{
	static const struct option options[] = {
		{ "attempts", no_argument, NULL, 'a' },
		{ "steps", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	char results[PATH_MAX + 16];
	bool steps = false;
	struct target t;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'a' && c != 's')
			return usage_error();
		steps = c == 's';
	}
	if (argc - optind != 1)
		return usage_error();
	if (!target_find(argv[optind], &t))
		return 1;
	snprintf(results, sizeof(results), "%s/results", t.run);
	DIR *d = opendir(results);
	if (!d)
		return complain(1, "%s: %s", results, strerror(errno));
	for (const struct dirent *e; (e = readdir(d));) {
		struct stat st;

		if (e->d_name[0] == '.' ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		/* T@k.r is an attempt; T points to the one that was accepted */
		bool attempt = strchr(e->d_name, '@');
		if (steps && !attempt && S_ISLNK(st.st_mode))
			put_steps(results, e->d_name);
		else if (!steps && attempt && S_ISDIR(st.st_mode))
			put_attempt(results, e->d_name);
	}
	closedir(d);
	int status = put_sealed(t.run, results, steps);
	return fflush(stdout) || ferror(stdout) ? complain(1, "%s", strerror(errno)) : status;
}
