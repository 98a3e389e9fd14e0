/*
 * main.c - raser-agentd: options.
 */
#include <config.h>

#include "super.h"

#include "log.h"
#include "program.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
usage(FILE *f)
{
	fputs("usage: raser-agentd --tier TIER [--workspaces DIR] [--quiet] MOUNT -- COMMAND [ARG...]\n"
	      "Claim tasks of a tier and run COMMAND on each, until the queue is drained.\n\n"
	      "  --tier TIER        the tier whose tasks to take\n"
	      "  --workspaces DIR   node-local directory for workspaces (default $TMPDIR or /tmp)\n"
	      "  --quiet            say only what is wrong\n\n"
	      "Exit status: 0 drained, 99 after SIGTERM, 1 the mount is lost,\n"
	      "2 wrong use or no such COMMAND. See raser-agentd(8).\n",
	      f);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tier", required_argument, NULL, 't' },
		{ "workspaces", required_argument, NULL, 'w' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct super_options o = { .local = getenv("TMPDIR") };
	int c;

	log_init("raser-agentd", LOG_INFO);
	while ((c = getopt_long(argc, argv, "+t:w:qhV", options, NULL)) != -1) {
		switch (c) {
		case 't':
			o.tier = optarg;
			break;
		case 'w':
			o.local = optarg;
			break;
		case 'q':
			log_init("raser-agentd", LOG_WARN);
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			printf("raser-agentd %s\n", PACKAGE_VERSION);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (!o.local || !*o.local)
		o.local = "/tmp";
	o.mnt = optind < argc ? argv[optind++] : NULL;
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	o.command = argv + optind;
	if (!o.tier || !o.mnt || !*o.command) {
		usage(stderr);
		return 2;
	}
	/* the agent runs in a directory of its own: both must mean the same there */
	static char program[PATH_MAX];
	static char mnt[PATH_MAX];
	int rc = program_find(argv[optind], program);
	if (rc) {
		log_warnx("%s: %s", argv[optind], strerror(-rc));
		return 2;
	}
	argv[optind] = program;
	if (!realpath(o.mnt, mnt)) {
		log_warn("%s", o.mnt);
		return 1;
	}
	o.mnt = mnt;
	return super_run(&o);
}
