/*
 * evidence.c - records from results/ and sealed/.
 */
#include <config.h>

#include "evidence.h"

#include "raser.h"
#include "records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Who is told. */
struct reader {
	evidence_fn *fn;
	void *arg;
	const char *results;
	bool steps;
	void *seen; /* tsearch(3) tree of sealed folders and tasks that have been told */
	char task[NAME_MAX + 1], folder[NAME_MAX + 1]; /* the link that was read last */
};

/* attempt.json of a folder. What is not there, or torn, is left out. */
static void
tell_attempt(const struct reader *r, const char *folder)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/%s/attempt.json", r->results, folder);
	json_t *o = json_load_file(path, 0, NULL);
	if (json_is_object(o))
		r->fn(r->arg, o);
	json_decref(o);
}

/* The steps of an accepted attempt, each with its task. f may be NULL, and is closed. */
static void
tell_steps_of(const struct reader *r, FILE *f, const char *task)
{
	char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		if (json_is_object(o)) {
			json_object_set_new(o, "task", json_string(task));
			r->fn(r->arg, o);
		}
		json_decref(o);
	}
	free(line);
	if (f)
		fclose(f);
}

static void
tell_steps(const struct reader *r, const char *task)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/%s/trajectory.jsonl", r->results, task);
	tell_steps_of(r, fopen(path, "re"), task);
}

/* ---- what was sealed ---- */

static int
by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A sealer that died may have left both, and packed them once more. */
static bool
is_first(struct reader *r, const char *name, const char *file)
{
	char path[PATH_MAX + 600];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/%s", r->results, name, file);
	if (stat(path, &st) == 0 || tfind(name, &r->seen, by_text))
		return false;
	char *copy = strdup(name);
	if (copy && !tsearch(copy, &r->seen, by_text))
		free(copy);
	return true;
}

static void
on_packed(void *arg, const char *path, const char *target, const char *data, size_t size)
{
	struct reader *r = arg;
	char folder[NAME_MAX + 1];

	if (target) {
		/* results/T, which stands before the folder that was accepted */
		if (!strchr(path, '@')) {
			snprintf(r->task, sizeof(r->task), "%s", path);
			snprintf(r->folder, sizeof(r->folder), "%s", target);
		}
		return;
	}
	snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(path, "/"), path);
	if (!r->steps && is_first(r, folder, "attempt.json")) {
		json_t *o = json_loadb(data, size, 0, NULL);

		if (json_is_object(o))
			r->fn(r->arg, o);
		json_decref(o);
	} else if (r->steps && !strcmp(folder, r->folder) &&
		   is_first(r, r->task, "trajectory.jsonl")) {
		FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

		tell_steps_of(r, f, r->task);
	}
}

/* What `raser seal` has packed. Returns the exit status. */
static int
read_sealed(struct reader *r, const char *run)
{
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
		if (records_read(path, r->steps ? "trajectory.jsonl" : "attempt.json", on_packed, r,
				 &err))
			status = complain(1, "%s", err.text);
	}
	closedir(d);
	tdestroy(r->seen, free);
	return status;
}

int
evidence_read(const char *run, bool steps, evidence_fn *fn, void *arg)
{
	char results[PATH_MAX + 16];
	struct reader r = { .fn = fn, .arg = arg, .results = results, .steps = steps };

	snprintf(results, sizeof(results), "%s/results", run);
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
			tell_steps(&r, e->d_name);
		else if (!steps && attempt && S_ISDIR(st.st_mode))
			tell_attempt(&r, e->d_name);
	}
	closedir(d);
	return read_sealed(&r, run);
}
