/*
 * export.c - raser export RUN [--attempts|--steps|--durations]: what the attempts of a run have left
 * in its results/, or what was sealed of it, as JSON Lines; or what its tasks took, as a table.
 */
#include <config.h>

#include "durations.h"
#include "evidence.h"
#include "raser.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

static void
put_line(void *arg, json_t *record)
{
	(void)arg;
	json_dumpf(record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(13));
	putchar('\n');
}

int
verb_export(int argc, char **argv)
{
	static const struct option options[] = {
		{ "attempts", no_argument, NULL, 'a' },
		{ "steps", no_argument, NULL, 's' },
		{ "durations", no_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	struct target t;
	int what = 'a';
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return usage_error();
		what = c;
	}
	if (argc - optind != 1)
		return usage_error();
	if (!target_find(argv[optind], &t))
		return 1;
	int status = what == 'd' ? durations_print(t.run, stdout) :
				   evidence_read(t.run, what == 's', put_line, NULL);
	return fflush(stdout) || ferror(stdout) ? complain(1, "%s", strerror(errno)) : status;
}
