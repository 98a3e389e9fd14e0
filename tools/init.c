/*
 * init.c - raser init DIR [--force] [--plugin PROGRAM [ARG...]]: a run directory, and the plugin's
 * tasks in it.
 */
#include <config.h>

#include "plugin.h"
#include "program.h"
#include "raser.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The plugin's command: its program found, and what is a file made absolute, since agents run
 * elsewhere. argv is changed in place. False after a message. */
static bool
make_absolute(char **argv)
{
	static char program[PATH_MAX];
	struct stat st;
	int rc = program_find(argv[0], program);

	if (rc)
		return complain(1, "%s: %s", argv[0], strerror(-rc)) == 0;
	argv[0] = program;
	for (char **a = argv + 1; *a; a++) {
		char *path = stat(*a, &st) == 0 ? realpath(*a, NULL) : NULL;

		if (path)
			*a = path; /* lives as long as this process */
	}
	return true;
}

int
verb_init(int argc, char **argv)
{
	char quoted[PLUGIN_TEXT] = "";
	char ini[PATH_MAX + 16];
	struct err err = { 0 };
	struct stat st;

	const char *dir = argv[1];
	if (argc < 2 || dir[0] == '-')
		return usage_error();
	bool force = argc > 2 && !strcmp(argv[2], "--force");
	argc -= force; /* from here on argv[2] is --plugin */
	argv += force;
	if (argc == 3 || (argc > 3 && strcmp(argv[2], "--plugin") != 0))
		return usage_error();
	bool plugin = argc > 3;
	if (plugin) {
		snprintf(ini, sizeof(ini), "%.4095s/FORMAT", dir);
		if (lstat(ini, &st) == 0)
			return complain(1, "%s: there is a run here already", dir);
		snprintf(ini, sizeof(ini), "%.4095s/raser.ini", dir);
		if (lstat(ini, &st) == 0)
			return complain(
				1,
				"%s is there already: write the line \"plugin = %s ...\" into it, "
				"run raser init without --plugin, and submit what %s get_tasks "
				"prints",
				ini, argv[3], argv[3]);
		if (!make_absolute(argv + 3))
			return 1;
		if (!plugin_quote(argv + 3, quoted, sizeof(quoted)))
			return complain(1, "the plugin's command is too long for raser.ini");
	}
	/* tasks first: a plugin that cannot name them leaves no run behind; one whose tasks are
	 * refused does, to submit better ones to */
	FILE *tasks = plugin ? plugin_tasks(argv + 3, &err) : NULL;
	if (plugin && !tasks)
		return complain(1, "%s", err.text);
	const struct init_options options = { .plugin = quoted, .force = force };
	if (queue_make(dir, &options, &err)) {
		if (tasks)
			fclose(tasks);
		return complain(1, "%s", err.text);
	}
	printf("%s is a run directory now; %s/raser.ini says how it works\n", dir, dir);
	if (!tasks)
		return 0;
	struct target t;
	int status = target_find(dir, &t) ? submit_by_library(&t, fileno(tasks), NULL) : 1;
	fclose(tasks);
	return status;
}
