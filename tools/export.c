/*
 * export.c - raser export RUN [--attempts|--steps]: what the attempts of a run have left in its
 * results/, or what was sealed of it, as JSON Lines.
 */
#include <config.h>

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
		{ NULL, 0, NULL, 0 },
	};
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
	int status = evidence_read(t.run, steps, put_line, NULL);
	return fflush(stdout) || ferror(stdout) ? complain(1, "%s", strerror(errno)) : status;
}
