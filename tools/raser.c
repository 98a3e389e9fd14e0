/*
 * raser.c - the table of verbs, and what they share.
 */
#include <config.h>

#include "raser.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage, *does;
} verbs[] = {
	{ "init", verb_init, "DIR [--force] [[--durations FILE] --plugin PROGRAM [ARG...]]",
	  "make a run directory with its raser.ini, and the plugin's tasks in it" },
	{ "doctor", verb_doctor, "DIR [--load N [--seconds S]] [--peer] [--json]",
	  "try out whether this node and this directory will do for raserfs" },
	{ "submit", verb_submit, "RUN [--id-field F] [--durations FILE] FILE|-", "submit tasks, all or nothing" },
	{ "run", verb_run,
	  "RUN [--agents TIER=N,...] [--mount DIR | --no-fuse] [--beside PROGRAM]\n"
	  "        [--sandbox KIND] [--image IMAGE] [--bind PATH] [--pass NAME] [--network]\n"
	  "        [--memory-by HOW] [-- COMMAND...]",
	  "run agents on this machine until the queue is drained" },
	{ "job", verb_job,
	  "RUN --tier TIER [--mount auto|private|visible|none] [--sandbox KIND]\n"
	  "        [--image IMAGE] [--bind PATH] [--pass NAME] [--network]\n"
	  "        [--memory-by HOW] [-- COMMAND...]",
	  "keep one agent going: the batch process of a Slurm job" },
	{ "launch", verb_launch,
	  "RUN --agents TIER=N,... [--command 'COMMAND ARG...'] [--time T]\n"
	  "        [--partition P] [--more] [--then PROGRAM [--then-nodes N]] [--dry-run]\n"
	  "        [--mount auto|private|visible|none] [options of run for agents]\n"
	  "        [-- OPTION-OF-SBATCH...]",
	  "submit agents as job arrays of Slurm, which end when the queue is drained" },
	{ "status", verb_status, "RUN [--drained]",
	  "how many tasks are in which state, and which members of job arrays live" },
	{ "retry", verb_retry, "RUN TASK...|--all", "make failed or cancelled tasks pending again" },
	{ "cancel", verb_cancel, "RUN TASK...|--all", "cancel pending or claimed tasks" },
	{ "export", verb_export, "RUN [--attempts | --steps | --durations]",
	  "print the records of all attempts, the steps of the accepted ones, or what tasks took" },
	{ "seal", verb_seal, "RUN [--bay NAME]...",
	  "pack what is finished of a run that nobody works on into few files" },
	{ "fsck", verb_fsck, "RUN [--repair]",
	  "tell what is odd in a run directory, and repair what is safe to repair" },
	{ "evict", verb_evict, "RUN OWNER...", "declare a daemon dead: its claims are lost" },
	{ "audit", verb_audit,
	  "RUN [--complete] [--settled] [--undisturbed] [--timed[=SECONDS]]\n"
	  "        [--slack SECONDS] [--tap] [HISTORY...]",
	  "check that a run kept its promises" },
	{ "chaos", verb_chaos,
	  "RUN [--for SECONDS] [--seed N] [--every SECONDS] [--wait SECONDS]\n"
	  "        [--history DIR] [--fill BYTES] [--floor BYTES] [--no-fill] [--no-daemons]",
	  "break what may break for a while, and check that the run keeps its promises" },
	{ "bench", verb_bench,
	  "makespan --simulate --trace FILE [--columns ID,SECONDS[,RUN...]] [--agents N]\n"
	  "        | makespan --of RUN [--agents N] [--svg FILE] [--accept]\n"
	  "        | makespan DIR [--local] [--trace FILE] [--agents TIER=N,...] [--seconds S]\n"
	  "        [--arms ARM,...] [--repeat N] [--faults[=N]] [--crash COMMAND] [--seed N] [--accept]\n"
	  "        [--replay PROGRAM] [--sandbox KIND] [-- SBATCH-OPTION...]",
	  "measure, or work out, how long tasks take by several ways of giving them out" },
	{ "checkpoint", verb_checkpoint,
	  "ls RUN [TASK] | verify RUN [TASK...] | extract RUN TASK DIR [--name NAME|--attempt K]",
	  "list, check or unpack saved workspaces" },
};

static const struct verb *verb;

int
complain(int status, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "raser %s: ", verb ? verb->name : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return status;
}

int64_t
parse_seconds(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	return *end || end == s || !(v >= 0 && v < 1e6) ? -1 : (int64_t)(v * 1000);
}

int
usage_error(void)
{
	fprintf(stderr, "usage: raser %s %s\n", verb->name, verb->usage);
	return EXIT_USAGE;
}

static void
usage(FILE *f)
{
	fputs("usage: raser VERB ...\n\n", f);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		fprintf(f, "  raser %s %s\n        %s\n", verbs[i].name, verbs[i].usage,
			verbs[i].does);
	fputs("\nRUN is a run directory or a mount of one. See raser(1).\n", f);
}

static bool
exists(const char *dir, const char *name)
{
	char path[PATH_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

bool
target_find(const char *path, struct target *t)
{
	char link[PATH_MAX + 32];

	*t = (struct target){ 0 };
	snprintf(t->path, sizeof(t->path), "%s", path);
	if (exists(path, "FORMAT")) {
		if (realpath(path, t->run))
			return true;
		complain(1, "%s: %s", path, strerror(errno));
		return false;
	}
	/* a mount tells where its run directory is by its link to the results */
	snprintf(link, sizeof(link), "%s/results", path);
	ssize_t n = readlink(link, t->run, sizeof(t->run) - 1);
	char *slash = n > 0 ? strrchr(t->run, '/') : NULL;
	if (exists(path, "status.json") && exists(path, "queue") && slash) {
		*slash = '\0';
		t->is_mount = true;
		return true;
	}
	struct stat st;
	int error = stat(path, &st) < 0 ? errno : 0;
	if (error == ENOTCONN)
		complain(1, "%s: the daemon of this mount is dead; raserfs RUN %s mounts it again", path,
			 path);
	else if (error)
		complain(1, "%s: %s", path, strerror(error));
	else
		complain(1, "%s is neither a run directory nor a mount of one (raser init makes a "
			 "run directory)", path);
	return false;
}

struct queue *
target_queue(const struct target *t, bool change)
{
	const struct queue_options o = { .join = change, .as = OWNER_HAND };
	struct err err = { 0 };
	struct queue *q = queue_open(t->run, &o, now_read(), &err);

	if (!q)
		complain(1, "%s", err.text);
	return q;
}

int
main(int argc, char **argv)
{
	log_init("raser", LOG_WARN);
	if (argc < 2 || !strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") ||
	    !strcmp(argv[1], "help")) {
		usage(argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_USAGE : 0;
	}
	if (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version")) {
		printf("raser %s\n", PACKAGE_VERSION);
		return 0;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, argv[1])) {
			verb = &verbs[i];
			return verb->run(argc - 1, argv + 1);
		}
	fprintf(stderr, "raser: there is no verb %s; raser --help lists them\n", argv[1]);
	return EXIT_USAGE;
}
