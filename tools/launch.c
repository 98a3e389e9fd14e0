/*
 * launch.c - raser launch: a run becomes job arrays, one a tier, whose tasks are agents that live until
 * the work is done. What Slurm is told stands in scripts (launchscript.c), what was submitted in records
 * (launched.c).
 */
#include <config.h>

#include "launch.h"

#include "mounting.h"
#include "plugin.h"
#include "program.h"
#include "slurm.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	AGENTS_MAX = 100000, /* of one tier; Slurm has a limit of its own */
	SBATCH_LIMIT_MS = 120000,
};

extern char **environ;

/* ---- what is asked for ---- */

static bool
add_lane(void *arg, const char *name, long n)
{
	struct launch *l = arg;
	int tier = conf_tier(&l->conf, name);

	if (n > AGENTS_MAX)
		return complain(EXIT_USAGE, "--agents: %d of a tier at most", AGENTS_MAX) == 0;
	if (tier < 0)
		return complain(EXIT_USAGE, "raser.ini has no tier %s", name) == 0;
	for (int i = 0; i < l->nlanes; i++)
		if (l->lanes[i].tier == &l->conf.tiers[tier])
			return complain(EXIT_USAGE, "--agents names tier %s twice", name) == 0;
	if (n)
		l->lanes[l->nlanes++] = (struct lane){ &l->conf.tiers[tier], n };
	return true;
}

/* The command for agents, its program by its absolute path: a job begins elsewhere. */
static bool
parse_command(struct launch *l, const char *text)
{
	char path[PATH_MAX];
	struct err err;

	l->command = plugin_words(text, NULL, "--command", &err);
	if (!l->command)
		return complain(EXIT_USAGE, "%s", err.text) == 0;
	int rc = program_find(l->command[0], path);
	if (rc)
		return complain(EXIT_USAGE, "%s: %s", l->command[0], strerror(-rc)) == 0;
	char *whole = strdup(path);
	if (!whole)
		return complain(1, "out of memory") == 0;
	free(l->command[0]);
	l->command[0] = whole;
	return true;
}

static bool
parse_then(struct launch *l, const char *program)
{
	char *path = realpath(program, NULL); /* kept until we end */
	struct stat st;
	char *end = NULL;

	if (!path)
		return complain(EXIT_USAGE, "--then %s: %s", program, strerror(errno)) == 0;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || access(path, X_OK) < 0) {
		free(path);
		return complain(EXIT_USAGE, "--then %s is no program (chmod +x)", program) == 0;
	}
	l->then = path;
	if (!l->then_nodes)
		return true;
	long n = strtol(l->then_nodes, &end, 10);
	return (n > 0 && n < AGENTS_MAX && !*end) ||
	       complain(EXIT_USAGE, "--then-nodes %s: write a number", l->then_nodes) == 0;
}

/* ---- submitting ---- */

/* sbatch takes options from the environment that would stand above those of the script, and hands on
 * what is known of the job that we are in ourselves, if any. */
static void
clean_environment(const struct launch *l)
{
	static const char *const theirs[] = {
		"SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV", "SBATCH_JOB_NAME",
		"SBATCH_MEM_PER_CPU", "SBATCH_MEM_PER_GPU", "SBATCH_MEM_PER_NODE", "SBATCH_NO_REQUEUE",
		"SBATCH_OPEN_MODE", "SBATCH_OUTPUT", "SBATCH_REQUEUE", "SBATCH_SIGNAL", "SBATCH_WAIT",
	};
	char name[128];

	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
		unsetenv(theirs[i]);
	if (l->time || l->conf.slurm.time[0])
		unsetenv("SBATCH_TIMELIMIT");
	if (l->partition || l->conf.slurm.partition[0])
		unsetenv("SBATCH_PARTITION");
	for (char **e = environ; *e;) {
		size_t len = strcspn(*e, "=");

		if (strncmp(*e, "SLURM_", 6) != 0 || !strncmp(*e, "SLURM_CONF=", 11) ||
		    !strncmp(*e, "SLURM_CLUSTERS=", 15) || len >= sizeof(name)) {
			e++;
			continue;
		}
		memcpy(name, *e, len);
		name[len] = '\0';
		unsetenv(name); /* the next one takes its place */
	}
}

/* The number in what `sbatch --parsable` says: NUMBER or NUMBER;CLUSTER, below warnings. */
static bool
parse_job(const char *text, char job[JOB_ID])
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t digits = strspn(line, "0123456789");

		if (digits && digits < JOB_ID && strchr(";\n", line[digits])) {
			snprintf(job, JOB_ID, "%.*s", (int)digits, line);
			return true;
		}
	}
	return false;
}

static void
print_submitted(const struct launch *l, const struct launched *one)
{
	if (*one->tier)
		printf("array %s: %ld %s of tier %s, slurm/%s\n", one->job, one->agents,
		       one->agents == 1 ? "agent" : "agents", one->tier, one->script);
	else
		printf("job %s: %s%s%s, when they have ended and the run is drained, slurm/%s\n",
		       one->job, l->then, l->then_nodes ? " on nodes: " : "",
		       l->then_nodes ? l->then_nodes : "", one->script);
	fflush(stdout);
}

/* Submit a script and record it. False after a message; then the script is gone, unless Slurm may have
 * it. */
static bool
submit_now(const struct launch *l, struct launched *one, const char *text)
{
	static char said[SLURM_TEXT];
	char path[PATH_MAX];
	char *const argv[] = { "sbatch", "--parsable", path, NULL };

	script_name(l, *one->tier ? one->tier : "then", one->script);
	if (script_write(l, one->script, text, path))
		return false;
	int status = slurm_run(argv, SBATCH_LIMIT_MS, said, sizeof(said));
	if (status == -ETIMEDOUT)
		return complain(1, "sbatch does not answer; whether Slurm has taken %s, squeue will tell",
				path) == 0;
	if (status || !parse_job(said, one->job)) {
		unlink(path);
		*strrchr(path, '/') = '\0';
		rmdir(path); /* unless there is something in it */
		return complain(1, "sbatch has not taken %s%s: %s",
				*one->tier ? "the agents of tier " : l->then, one->tier,
				*said ? said : "it says nothing") == 0;
	}
	one->at = (int64_t)time(NULL);
	int rc = launched_write(l, one);
	if (rc)
		complain(0, "job %s is submitted, but %s/slurm/%s.json cannot be written (%s): raser status "
			 "will not show it", one->job, l->target.run, one->job, strerror(-rc));
	return true;
}

/* The same; a Ctrl-C waits until what Slurm has taken is written down. */
static bool
submit(const struct launch *l, struct launched *one, const char *text)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t set;
	sigset_t before;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	bool good = submit_now(l, one, text);
	if (good)
		print_submitted(l, one);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return good;
}

/* Append to a list of jobs. */
static void
list_add(char list[JOB_LIST], const char *job)
{
	size_t len = strlen(list);

	if (len + strlen(job) + 2 < JOB_LIST)
		snprintf(list + len, JOB_LIST - len, "%s%s", len ? ":" : "", job);
}

static void
print_list(const char *list, char separator)
{
	for (const char *p = list; *p; p++)
		putchar(*p == ':' ? separator : *p);
	putchar('\n');
}

static void
print_help(const struct launch *l, const char *list)
{
	printf("\nwatch  raser status ");
	put_word(stdout, l->target.run);
	printf("\n       squeue -j ");
	print_list(list, ',');
	printf("logs   ");
	put_word(stdout, l->target.run);
	printf("/logs/slurm-ARRAY_TASK.out\nleave  touch ");
	put_word(stdout, l->target.run);
	printf("/drain        agents finish what they have, and take nothing more\n"
	       "stop   scancel ");
	print_list(list, ' ');
}

static bool
launch_lane(const struct launch *l, const struct lane *lane, char list[JOB_LIST])
{
	struct launched one = { .agents = lane->agents };
	struct err err = { 0 };
	char *text = script_array(l, lane, &err);

	if (!text)
		return complain(1, "%s", err.text) == 0;
	snprintf(one.tier, sizeof(one.tier), "%s", lane->tier->name);
	bool good = submit(l, &one, text);
	free(text);
	if (!good)
		return false;
	list_add(list, one.job);
	return true;
}

static bool
launch_then(const struct launch *l, const char *after, char list[JOB_LIST])
{
	struct launched one = { .agents = l->then_nodes ? strtol(l->then_nodes, NULL, 10) : 0 };
	struct err err = { 0 };
	char *text = script_then(l, after, &err);

	if (!text)
		return complain(1, "%s", err.text) == 0;
	bool good = submit(l, &one, text);
	free(text);
	if (!good)
		return false;
	list_add(list, one.job);
	return true;
}

static int
launch_all(const struct launch *l)
{
	char list[JOB_LIST] = "";  /* submitted now */
	char after[JOB_LIST] = ""; /* what --then waits for: these, and those that live already */
	bool good = true;

	if (!launch_check_live(l, after))
		return 1;
	clean_environment(l);
	for (int i = 0; good && i < l->nlanes; i++)
		good = launch_lane(l, &l->lanes[i], list);
	if (good && l->then) {
		list_add(after, list);
		good = launch_then(l, after, list);
	}
	if (*list)
		print_help(l, list);
	if (!good && *list)
		return complain(1, "this is all that was submitted: it goes on; stop it as said, or add the rest "
				"with --more");
	return good ? 0 : 1;
}

/* ---- --dry-run ---- */

static bool
show(const struct launch *l, const char *kind, char *text, const struct err *err)
{
	char name[SCRIPT_NAME];
	char path[PATH_MAX + SCRIPT_NAME + 16];

	if (!text)
		return complain(1, "%s", err->text) == 0;
	script_name(l, kind, name);
	snprintf(path, sizeof(path), "%s/slurm/%s", l->target.run, name);
	printf("---- ");
	put_word(stdout, path);
	printf("\n%s---- sbatch --parsable ", text);
	put_word(stdout, path);
	printf("\n\n");
	free(text);
	return true;
}

static int
show_all(const struct launch *l)
{
	struct err err = { 0 };
	char after[JOB_LIST] = "";
	bool good = true;

	for (int i = 0; good && i < l->nlanes; i++) {
		good = show(l, l->lanes[i].tier->name, script_array(l, &l->lanes[i], &err), &err);
		list_add(after, "ARRAY");
	}
	if (good && l->then)
		good = show(l, "then", script_then(l, after, &err), &err);
	return good ? 0 : 1;
}

/* ---- the verb ---- */

static int
launch(struct launch *l, const char *agents, const char *command, const char *then)
{
	static char *nothing[] = { NULL };
	char sbatch[PATH_MAX];
	struct err err = { 0 };

	if (conf_load(&l->conf, l->target.run, &err))
		return complain(1, "%s", err.text);
	if (!crew_parse(agents, add_lane, l) || (command && !parse_command(l, command)) ||
	    (then && !parse_then(l, then)) || !launch_check_options(l) ||
	    !launch_check_time(l))
		return EXIT_USAGE;
	if (!l->nlanes)
		return complain(EXIT_USAGE, "--agents asks for none");
	if (!l->then && l->then_nodes)
		return complain(EXIT_USAGE, "--then-nodes is for --then");
	l->crew.command = command ? l->command : nothing;
	int status = crew_check_command(&l->crew, l->target.run);
	if (status)
		return status;
	sibling("raser", l->raser);
	if (l->dry)
		return show_all(l);
	if (program_find("sbatch", sbatch))
		return complain(1, "sbatch is not in PATH: jobs cannot be submitted from here");
	if (!launch_check_run(l))
		return 1;
	return launch_all(l);
}

int
verb_launch(int argc, char **argv)
{
	static const struct option options[] = {
		{ "agents", required_argument, NULL, 'a' },
		{ "time", required_argument, NULL, 't' },
		{ "partition", required_argument, NULL, 'p' },
		{ "command", required_argument, NULL, 'c' },
		{ "dry-run", no_argument, NULL, 'd' },
		{ "more", no_argument, NULL, 'm' },
		{ "then", required_argument, NULL, 'n' },
		{ "then-nodes", required_argument, NULL, 'N' },
		{ "mount", required_argument, NULL, 's' },
		CREW_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	static struct launch l; /* it holds paths and all of raser.ini */
	const char *agents = NULL;
	const char *command = NULL;
	const char *then = NULL;
	const char *run = NULL;
	int which;
	int c;

	l = (struct launch){ .crew.log_fd = -1 };
	while ((c = getopt_long(argc, argv, "-", options, &which)) != -1) {
		switch (c) {
		case 'a': agents = optarg; break;
		case 't': l.time = optarg; break;
		case 'p': l.partition = optarg; break;
		case 'c': command = optarg; break;
		case 'd': l.dry = true; break;
		case 'm': l.more = true; break;
		case 'n': then = optarg; break;
		case 'N': l.then_nodes = optarg; break;
		case 's':
			if (!crew_hand_on(&l.crew, options[which].name, optarg))
				return complain(EXIT_USAGE, "too many options for agents");
			break;
		default:
			if (c != 1 || run)
				return usage_error();
			run = optarg;
		}
	}
	l.sbatch = argv + optind;
	if (!run || !agents)
		return usage_error();
	if (!target_find(run, &l.target))
		return 1;
	int status = launch(&l, agents, command, then);
	plugin_free(l.command);
	return status;
}
