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
	      "  --sandbox KIND     none (default), bwrap, apptainer, gvisor, or auto\n"
	      "  --image DIR        root folder or image for it\n"
	      "  --bind PATH[:DEST][:rw], --pass NAME, --network\n"
	      "                     what may be seen inside\n"
	      "  --memory-by HOW    auto, cgroup or poll\n"
	      "  --quiet            say only what is wrong\n\n"
	      "Exit status: 0 drained, 99 after SIGTERM, 1 the mount is lost,\n"
	      "2 wrong use or no such COMMAND. See raser-agentd(8).\n",
	      f);
}

enum { LIST_MAX = 32 };

/* auto: bubblewrap where it works. Whatever was asked for is tried before a task is claimed. */
static int
choose_sandbox(struct super_options *o, const char *name)
{
	const struct sandbox_spec spec = { .image = o->image, .binds = o->binds, .network = o->network,
					   .mnt = o->mnt };
	struct err err = { "" };
	bool any = !strcmp(name, "auto");
	int kind = any ? SANDBOX_BWRAP : sandbox_kind_parse(name);

	if (kind < 0) {
		log_warnx("--sandbox %s: auto, none, bwrap, apptainer or gvisor", name);
		return -1;
	}
	o->sandbox = (enum sandbox_kind)kind;
	if (kind == SANDBOX_NONE || sandbox_probe(o->sandbox, &spec, o->local, &err) == 0)
		return 0;
	log_warnx("%s%s", err.text, any ? "; agents run without a sandbox" : "");
	o->sandbox = SANDBOX_NONE;
	return any ? 0 : -1;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tier", required_argument, NULL, 't' },
		{ "workspaces", required_argument, NULL, 'w' },
		{ "sandbox", required_argument, NULL, 's' },
		{ "image", required_argument, NULL, 'i' },
		{ "bind", required_argument, NULL, 'b' },
		{ "pass", required_argument, NULL, 'p' },
		{ "network", no_argument, NULL, 'n' },
		{ "memory-by", required_argument, NULL, 'm' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct super_options o = { .local = getenv("TMPDIR") };
	static const char *binds[LIST_MAX + 1];
	static const char *pass[LIST_MAX + 1];
	const char *sandbox = "none";
	int nbinds = 0;
	int npass = 0;
	int c;

	o.binds = binds;
	o.pass = pass;
	log_init("raser-agentd", LOG_INFO);
	while ((c = getopt_long(argc, argv, "+t:w:s:i:b:p:nm:qhV", options, NULL)) != -1) {
		switch (c) {
		case 't':
			o.tier = optarg;
			break;
		case 'w':
			o.local = optarg;
			break;
		case 's':
			sandbox = optarg;
			break;
		case 'i':
			o.image = optarg;
			break;
		case 'b':
			if (nbinds < LIST_MAX)
				binds[nbinds++] = optarg;
			break;
		case 'p':
			if (npass < LIST_MAX)
				pass[npass++] = optarg;
			break;
		case 'n':
			o.network = true;
			break;
		case 'm':
			o.memory_by = !strcmp(optarg, "cgroup") ? MEMORY_CGROUP :
				      !strcmp(optarg, "poll")	? MEMORY_POLL :
								  MEMORY_AUTO;
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
	if (rc && o.image) { /* it may be there */
		snprintf(program, sizeof(program), "%s", argv[optind]);
	} else if (rc) {
		log_warnx("%s: %s", argv[optind], strerror(-rc));
		return 2;
	}
	argv[optind] = program;
	if (!realpath(o.mnt, mnt)) {
		log_warn("%s", o.mnt);
		return 1;
	}
	o.mnt = mnt;
	if (choose_sandbox(&o, sandbox) < 0)
		return 2;
	return super_run(&o);
}
