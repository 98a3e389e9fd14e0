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
	fputs("usage: raser-agentd --tier TIER [OPTION...] MOUNT [-- COMMAND [ARG...]]\n"
	      "       raser-agentd --direct --tier TIER [OPTION...] RUN [-- COMMAND [ARG...]]\n"
	      "Claim tasks of a tier and run COMMAND, or the plugin of raser.ini, on each, until the\n"
	      "queue is drained.\n\n"
	      "  --tier TIER        the tier whose tasks to take\n"
	      "  --direct           work on the run directory RUN itself, without FUSE\n"
	      "  --status FILE      with --direct: keep what status.json of a mount says in FILE\n"
	      "  --workspaces DIR   node-local directory for workspaces (default $TMPDIR or /tmp)\n"
	      "  --sandbox KIND     auto, none, bwrap, apptainer or gvisor\n"
	      "  --image IMAGE      a root folder or image for the sandbox\n"
	      "  --bind PATH        show this in the sandbox, too: PATH[:DESTINATION][:rw]\n"
	      "  --pass NAME        let this environment variable in\n"
	      "  --network          let agents in sandboxes use the network\n"
	      "  --memory-by HOW    auto, cgroup or poll\n"
	      "  --until TIME       the end of this node's time, in seconds since the Epoch\n"
	      "  --since TIME       with --direct and --until: when that time began\n"
	      "  --check            only say how agents would run here\n"
	      "  --quiet            say only what is wrong\n\n"
	      "Exit status: 0 drained, 99 after SIGTERM, 1 the queue is lost, 2 wrong use or no such\n"
	      "COMMAND, 3 this node cannot run agents as asked, 4 what is left takes longer than until\n"
	      "TIME. See raser-agentd(8).\n",
	      f);
}

static bool
one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words;
}

static bool
parse_time(const char *text, int64_t *seconds)
{
	char *end;
	long long v = strtoll(text, &end, 10);

	if (end == text || *end || v <= 0 || v >= INT32_MAX * 100LL)
		return false;
	*seconds = v;
	return true;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tier", required_argument, NULL, 't' },
		{ "direct", no_argument, NULL, 'd' },
		{ "status", required_argument, NULL, 'S' },
		{ "workspaces", required_argument, NULL, 'w' },
		{ "sandbox", required_argument, NULL, 's' },
		{ "image", required_argument, NULL, 'i' },
		{ "bind", required_argument, NULL, 'b' },
		{ "pass", required_argument, NULL, 'p' },
		{ "network", no_argument, NULL, 'n' },
		{ "memory-by", required_argument, NULL, 'm' },
		{ "until", required_argument, NULL, 'u' },
		{ "since", required_argument, NULL, 'B' },
		{ "check", no_argument, NULL, 'c' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const kinds[] = { "auto", "none", "bwrap", "apptainer", "gvisor", NULL };
	static const char *const hows[] = { "auto", "cgroup", "poll", NULL };
	/* each option has a word of its own; these live as long as we do */
	static char **binds;
	static char **pass;
	size_t nbinds = 0;
	size_t npass = 0;
	const char *until = NULL;
	const char *since = NULL;
	struct super_options o = { .local = getenv("TMPDIR") };
	int c;

	log_init("raser-agentd", LOG_INFO);
	binds = calloc((size_t)argc + 1, sizeof(*binds));
	pass = calloc((size_t)argc + 1, sizeof(*pass));
	if (!binds || !pass) {
		log_warnx("out of memory");
		return 1;
	}
	while ((c = getopt_long(argc, argv, "+t:dw:s:i:b:p:nm:u:cqhV", options, NULL)) != -1) {
		switch (c) {
		case 't':
			o.tier = optarg;
			break;
		case 'd':
			o.direct = true;
			break;
		case 'S':
			o.status = optarg;
			break;
		case 'w':
			o.local = optarg;
			break;
		case 's':
			o.sandbox = optarg;
			break;
		case 'i':
			o.image = optarg;
			break;
		case 'b':
			binds[nbinds++] = optarg;
			break;
		case 'p':
			pass[npass++] = optarg;
			break;
		case 'n':
			o.network = true;
			break;
		case 'm':
			o.memory_by = optarg;
			break;
		case 'u':
			until = optarg;
			break;
		case 'B':
			since = optarg;
			break;
		case 'c':
			o.check = true;
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
	o.binds = binds;
	o.pass = pass;
	if (!o.local || !*o.local)
		o.local = "/tmp";
	o.path = optind < argc ? argv[optind++] : NULL;
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	if (!o.tier || !o.path) {
		usage(stderr);
		return 2;
	}
	if (o.sandbox && !one_of(o.sandbox, kinds)) {
		log_warnx("there is no sandbox called %s, but auto, none, bwrap, apptainer and gvisor",
			  o.sandbox);
		return 2;
	}
	if ((until && !parse_time(until, &o.until)) || (since && !parse_time(since, &o.since))) {
		log_warnx("--until and --since want seconds since the Epoch, not %s",
			  until && !o.until ? until : since);
		return 2;
	}
	if (o.memory_by && !one_of(o.memory_by, hows)) {
		log_warnx("memory is limited by auto, cgroup or poll, not by %s", o.memory_by);
		return 2;
	}
	/* the agent runs in a directory of its own: paths must mean the same there */
	static char program[PATH_MAX];
	static char path[PATH_MAX];
	static char local[PATH_MAX];
	if (argv[optind]) {
		/* where there is none it may be the image's; super.c tells */
		if (!program_find(argv[optind], program))
			argv[optind] = program;
		o.command = argv + optind;
	}
	if (!realpath(o.path, path)) {
		log_warn("%s", o.path);
		return 1;
	}
	if (!realpath(o.local, local)) {
		log_warn("%s", o.local);
		return 1;
	}
	o.path = path;
	o.local = local;
	return super_run(&o);
}
