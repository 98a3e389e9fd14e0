/*
 * init.c - raser init DIR [--force] [[--durations FILE] --plugin PROGRAM [ARG...]]: a run directory,
 * and the plugin's tasks in it.
 */
#include <config.h>

#include "durations.h"
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

/* What agents are to run in the run's raser.ini, "" without a plugin. False after a message. */
static bool
check_plugin(const char *dir, char **plugin, char quoted[PLUGIN_TEXT])
{
	char ini[PATH_MAX + 16];
	struct stat st;

	quoted[0] = '\0';
	if (!plugin)
		return true;
	snprintf(ini, sizeof(ini), "%.4095s/FORMAT", dir);
	if (lstat(ini, &st) == 0)
		return complain(1, "%s: there is a run here already", dir) == 0;
	snprintf(ini, sizeof(ini), "%.4095s/raser.ini", dir);
	if (lstat(ini, &st) == 0)
		return complain(1,
				"%s is there already: write the line \"plugin = %s ...\" into it, "
				"run raser init without --plugin, and submit what %s get_tasks "
				"prints",
				ini, plugin[0], plugin[0]) == 0;
	if (!make_absolute(plugin))
		return false;
	return plugin_quote(plugin, quoted, PLUGIN_TEXT) ||
	       complain(1, "the plugin's command is too long for raser.ini") == 0;
}

int
verb_init(int argc, char **argv)
{
	struct init_options options = { 0 };
	char quoted[PLUGIN_TEXT];
	const char *table = NULL;
	char **plugin = NULL;
	struct err err = { 0 };
	struct target t;

	const char *dir = argv[1];
	if (argc < 2 || dir[0] == '-')
		return usage_error();
	/* the plugin's command takes the rest of the line */
	for (char **w = argv + 2; *w && !plugin; w++) {
		if (!strcmp(*w, "--force"))
			options.force = true;
		else if (!strcmp(*w, "--durations") && w[1])
			table = *++w;
		else if (!strcmp(*w, "--plugin") && w[1])
			plugin = w + 1;
		else
			return usage_error();
	}
	if (table && !plugin)
		return complain(EXIT_USAGE, "--durations is of use with --plugin, before it; raser submit "
				"takes it, too");
	if (!check_plugin(dir, plugin, quoted))
		return 1;
	struct durations *durations = table ? durations_read(table) : NULL;
	if (table && !durations)
		return 1;
	/* tasks first: a plugin that cannot name them leaves no run behind; one whose tasks are
	 * refused does, to submit better ones to */
	FILE *tasks = plugin ? plugin_tasks(plugin, &err) : NULL;
	options.plugin = quoted;
	int status = 0;
	if ((plugin && !tasks) || queue_make(dir, &options, &err))
		status = complain(1, "%s", err.text);
	else
		printf("%s is a run directory now; %s/raser.ini says how it works\n", dir, dir);
	if (!status && tasks)
		status = target_find(dir, &t) ? submit_by_library(&t, fileno(tasks), NULL, durations) : 1;
	if (tasks)
		fclose(tasks);
	durations_free(durations);
	return status;
}
