/*
 * export.c - raser export RUN [--attempts|--steps]: what the attempts of a run have left in its
 * results/, as JSON Lines.
 */
#include <config.h>

#include "raser.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
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

/* The steps of an accepted attempt, each with its task. */
static void
put_steps(const char *results, const char *task)
{
	char path[PATH_MAX + 300];
	char *line = NULL;
	size_t cap = 0;

	snprintf(path, sizeof(path), "%s/%s/trajectory.jsonl", results, task);
	FILE *f = fopen(path, "re");
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
	return fflush(stdout) || ferror(stdout) ? complain(1, "%s", strerror(errno)) : 0;
}
