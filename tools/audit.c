/*
 * audit.c - raser audit RUN [HISTORY...]: did this run keep its promises?
 */
#include <config.h>

#include "inspect.h"

#include <getopt.h>

enum { OPT_COMPLETE = 256, OPT_SETTLED, OPT_UNDISTURBED, OPT_TIMED, OPT_SLACK, OPT_TAP };

static const struct option options[] = {
	{ "complete", no_argument, NULL, OPT_COMPLETE },
	{ "settled", no_argument, NULL, OPT_SETTLED },
	{ "undisturbed", no_argument, NULL, OPT_UNDISTURBED },
	{ "timed", optional_argument, NULL, OPT_TIMED },
	{ "slack", required_argument, NULL, OPT_SLACK },
	{ "tap", no_argument, NULL, OPT_TAP },
	{ 0 },
};

int
verb_audit(int argc, char **argv)
{
	struct inspection in = { 0 };
	struct target t;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (opt) {
		case OPT_COMPLETE:
			in.options.complete = true;
			break;
		case OPT_SETTLED:
			in.options.settled = true;
			break;
		case OPT_UNDISTURBED:
			in.options.undisturbed = true;
			break;
		case OPT_TIMED:
			in.options.timed = true;
			in.options.claim_ms = optarg ? parse_seconds(optarg) : 0;
			break;
		case OPT_SLACK:
			in.options.slack_ms = parse_seconds(optarg);
			break;
		case OPT_TAP:
			in.tap = true;
			break;
		default:
			return usage_error();
		}
	if (optind == argc || in.options.claim_ms < 0 || in.options.slack_ms < 0)
		return usage_error();
	if (!target_find(argv[optind], &t))
		return 1;
	in.histories = (const char *const *)argv + optind + 1;
	in.nhistories = argc - optind - 1;
	return inspect(&t, &in);
}
