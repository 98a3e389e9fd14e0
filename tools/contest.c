/*
 * contest.c - raser bench makespan DIR: the same tasks by a plain array that divides them in advance,
 * by the queue, and by the queue with the longest first, one after the other; what came of it as a
 * table and a picture each.
 */
#include <config.h>

#include "contest.h"

#include "appraise.h"
#include "crew.h"
#include "durations.h"
#include "gantt.h"
#include "mounting.h"
#include "plugin.h"
#include "schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const arm_kinds[ARM_KINDS] = { "static", "queue", "longest" };

volatile bool contest_stopped;

static void
on_signal(int sig)
{
	(void)sig;
	contest_stopped = true;
}

/* ---- the plan ---- */

static bool
is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The plugin that replays spans, and its table. */
static int
find_replay(struct contest *c)
{
	static const char *const places[] = { "plugins/replay/replay",
					      "../libexec/" PACKAGE "/plugins/replay/replay" };
	char path[PATH_MAX] = "";

	for (size_t i = 0; !c->o->replay && i < sizeof(places) / sizeof(places[0]); i++) {
		sibling(places[i], path);
		if (is_file(path))
			break;
	}
	if (!realpath(c->o->replay ? c->o->replay : path, c->replay))
		return complain(1, "%s: %s; --replay says where the plugin is",
				c->o->replay ? c->o->replay : places[0], strerror(errno));
	snprintf(path, sizeof(path), "%.*slite60.tsv", (int)(strrchr(c->replay, '/') + 1 - c->replay), c->replay);
	const char *table = c->o->trace ? c->o->trace : path;
	if (!realpath(table, c->table))
		return complain(1, "%s: %s; --trace says which table to replay", table, strerror(errno));
	return 0;
}

static bool
take_task(struct contest *c, const char *line)
{
	char name[NAME_LIMIT + 1];
	json_t *task = json_loads(line, 0, NULL);
	const json_t *span = json_object_get(task, "span");
	const char *id = json_string_value(json_object_get(task, "id"));
	bool good = id && json_is_number(span) && name_encode(id, strlen(id), name) == 0;

	if (good && !(c->ntasks & (c->ntasks - 1))) {
		struct contest_task *tasks =
			reallocarray(c->tasks, c->ntasks ? 2 * c->ntasks : 1, sizeof(*tasks));

		good = tasks != NULL;
		if (tasks)
			c->tasks = tasks;
	}
	if (good)
		c->tasks[c->ntasks++] = (struct contest_task){ strdup(name), strdup(line),
							       json_number_value(span) };
	json_decref(task);
	return good && c->tasks[c->ntasks - 1].name && c->tasks[c->ntasks - 1].line;
}

/* The tasks of the table, which are kept in DIR as well. */
static int
take_tasks(struct contest *c)
{
	char *const argv[] = { c->replay, (char *)(uintptr_t)"1", (char *)(uintptr_t)"1", c->table, NULL };
	char path[PATH_MAX + 16];
	struct err err = { "" };
	char *line = NULL;
	size_t cap = 0;
	FILE *in = plugin_tasks(argv, &err);

	if (!in)
		return complain(1, "%s", err.text);
	snprintf(path, sizeof(path), "%s/tasks.jsonl", c->dir);
	FILE *out = fopen(path, "wxe");
	int status = out ? 0 : complain(1, "%s: %s; give a new directory", path, strerror(errno));
	while (!status && getline(&line, &cap, in) > 0) {
		fputs(line, out);
		line[strcspn(line, "\n")] = '\0';
		if (!take_task(c, line))
			status = complain(1, "%s: a task without a span: %.80s", c->table, line);
	}
	free(line);
	fclose(in);
	if (out && fclose(out) && !status)
		status = complain(1, "%s: %s", path, strerror(errno));
	return status || c->ntasks ? status : complain(1, "%s: no task is in it", c->table);
}

/* How much faster time has to pass for the arm of blocks to take o->seconds. */
static int
scale(struct contest *c)
{
	double *spans = calloc(c->ntasks, sizeof(*spans));

	if (!spans)
		return complain(1, "out of memory");
	for (size_t i = 0; i < c->ntasks; i++)
		spans[i] = c->tasks[i].span;
	c->factor = schedule_static(spans, c->ntasks, c->nagents) / c->o->seconds;
	c->bound = schedule_bound(spans, c->ntasks, c->nagents) / c->factor;
	free(spans);
	snprintf(c->speed, sizeof(c->speed), "%.6g", c->factor);
	return c->factor > 0 ? 0 : complain(1, "%s: its tasks take no time", c->table);
}

static bool
add_agents(void *arg, const char *tier, long n)
{
	struct contest *c = arg;

	(void)tier;
	if (n > CONTEST_AGENTS_MAX || (c->nagents += (size_t)n) > CONTEST_AGENTS_MAX)
		return complain(EXIT_USAGE, "--agents: %d in all at most", CONTEST_AGENTS_MAX) == 0;
	return true;
}

/* How many agents are there? */
static int
count_agents(struct contest *c)
{
	c->agents = c->o->agents ? c->o->agents : "low=5,medium=5,high=5";
	c->nagents = 0;
	if (!crew_parse(c->agents, add_agents, c))
		return EXIT_USAGE;
	return c->nagents ? 0 : complain(EXIT_USAGE, "--agents asks for none");
}

/* The directory, with a raser.ini that all runs get. */
static int
make_directory(struct contest *c)
{
	char path[PATH_MAX + 16];
	struct err err = { "" };

	if (mkdir(c->o->dir, 0777) < 0 && errno != EEXIST)
		return complain(1, "%s: %s", c->o->dir, strerror(errno));
	if (!realpath(c->o->dir, c->dir))
		return complain(1, "%s: %s", c->o->dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/raser.ini", c->dir);
	char *text = is_file(path) ? NULL : conf_template("");
	FILE *f = text ? fopen(path, "wxe") : NULL;
	bool good = !text || (f && fputs(text, f) >= 0);
	if (f && fclose(f))
		good = false;
	free(text);
	if (!good)
		return complain(1, "%s: %s", path, strerror(errno));
	return conf_load(&c->conf, c->dir, &err) ? complain(1, "%s", err.text) : 0;
}

/* "static,queue": in the order in which they are run. */
static int
choose_arms(const struct contest *c, bool chosen[ARM_KINDS])
{
	char words[128];
	char *save = NULL;
	int n = 0;

	snprintf(words, sizeof(words), "%s", c->o->arms ? c->o->arms : "static,queue,longest");
	for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		int k = 0;

		while (k < ARM_KINDS && strcmp(arm_kinds[k], w) != 0)
			k++;
		if (k == ARM_KINDS)
			return complain(EXIT_USAGE, "--arms: there are static, queue and longest, no %s", w);
		chosen[k] = true;
		n++;
	}
	if (!n || (chosen[ARM_LONGEST] && !chosen[ARM_FIFO]))
		return complain(EXIT_USAGE, "--arms: longest learns from queue, so that must be run as well");
	return 0;
}

/* ---- what came of it ---- */

struct sum {
	struct figures f; /* added up; restoring_most and lost_most: of all */
	double gain, least, most, over;
	int n;
};

static void
print_head(const struct contest *c)
{
	printf("%zu tasks of %s, %zu agents (%s), %s; time passes %s times faster\n", c->ntasks, c->table,
	       c->nagents, c->agents, c->o->local ? "on this machine" : "on Slurm", c->speed);
	if (c->o->faults || c->o->crash)
		printf("faults: %ld preemptions an arm%s, seed %ld\n", c->o->faults,
		       c->o->crash ? " and a crash" : "", c->o->seed);
	printf("bound %.1f s; static without faults %.1f s\n\n", c->bound, c->o->seconds);
	printf("%-11s %9s %9s %7s %7s %6s %11s %16s %13s %9s\n", "", "done", "makespan", "over", "gain",
	       "busy", "done again", "restored (most)", "away (most)", "attempts");
	fflush(stdout);
}

/* gain: NAN = nothing to compare with. */
static void
print_row(const char *name, const struct figures *f, double bound, double gain)
{
	char done[32];
	char gained[16] = "-";
	char restored[32] = "-";
	char away[32] = "-";

	snprintf(done, sizeof(done), "%zu/%zu", f->done, f->tasks);
	if (!isnan(gain))
		snprintf(gained, sizeof(gained), "%.1f %%", gain);
	if (f->restored)
		snprintf(restored, sizeof(restored), "%zu (%.3f s)", f->restored, f->restoring_most);
	if (f->away)
		snprintf(away, sizeof(away), "%zu (%.1f s)", f->away, f->away_most);
	printf("%-11s %9s %7.1f s %5.1f %% %7s %4.1f %% %9.1f s %16s %13s %9zu\n", name, done, f->makespan,
	       figures_over(f, bound), gained, figures_utilisation(f), f->lost, restored, away, f->attempts);
	fflush(stdout);
}

static void
add(struct sum *s, const struct figures *f, double bound, double gain)
{
	struct figures *t = &s->f;

	s->least = s->n ? fmin(s->least, f->makespan) : f->makespan;
	s->most = s->n ? fmax(s->most, f->makespan) : f->makespan;
	s->gain += gain;
	s->over += figures_over(f, bound);
	s->n++;
	t->agents = f->agents;
	t->tasks += f->tasks;
	t->done += f->done;
	t->makespan += f->makespan;
	t->busy += f->busy;
	t->lost += f->lost;
	t->restored += f->restored;
	t->restoring_most = fmax(t->restoring_most, f->restoring_most);
	t->away += f->away;
	t->away_most = fmax(t->away_most, f->away_most);
}

static void
print_sum(const char *name, const struct sum *s)
{
	if (s->n < 2)
		return;
	printf("%-8s mean of %d: makespan %.1f s (%.1f to %.1f), %.1f %% over the bound", name, s->n,
	       s->f.makespan / s->n, s->least, s->most, s->over / s->n);
	if (!isnan(s->gain))
		printf(", gain %.1f %%", s->gain / s->n);
	printf(", busy %.1f %%, done again %.1f s an arm\n", figures_utilisation(&s->f), s->f.lost / s->n);
}

/* Judge one arm, as a row and a picture. The figures stay the caller's. */
static int
judge(const struct arm *a, int repetition, double blocks, struct figures *f, double *gain)
{
	const struct contest *c = a->c;
	char picture[PATH_MAX + 96];
	char title[200];
	char name[32];
	struct appraisal ap;
	int status = appraise(a->dir, c->nagents, &ap);

	if (status)
		return status;
	*f = ap.f;
	*gain = a->kind == ARM_BLOCKS || !(blocks > 0) ? NAN : figures_gain(f, blocks);
	snprintf(name, sizeof(name), "%d.%s", repetition, arm_kinds[a->kind]);
	print_row(name, f, c->bound, *gain);
	if (f->twice && a->kind != ARM_BLOCKS)
		status = complain(1, "%s: %zu records say done for a task that was done before", a->dir,
				  f->twice);
	snprintf(picture, sizeof(picture), "%s.svg", a->dir);
	snprintf(title, sizeof(title), "%s%s: %zu tasks, %zu agents, %s", name,
		 c->o->faults || c->o->crash ? ", with faults" : "", c->ntasks, c->nagents,
		 c->o->local ? "one machine" : "Slurm");
	if (!gantt_save(picture, title, &ap.list, ap.lane, &ap.f, c->bound))
		status = 1;
	appraise_free(&ap);
	return status;
}

/* One arm of one repetition: blocks is the makespan of the static one, and becomes it. */
static int
run_arm(struct contest *c, enum arm_kind kind, int repetition, double *blocks, struct sum *sum)
{
	char table[PATH_MAX + 64];
	struct arm a = { .c = c, .kind = kind, .repetition = repetition };
	struct figures f;
	double gain;

	snprintf(a.dir, sizeof(a.dir), "%s/%d.%s", c->dir, repetition, arm_kinds[kind]);
	snprintf(a.log, sizeof(a.log), "%s.log", a.dir);
	snprintf(table, sizeof(table), "%s/%d.durations", c->dir, repetition);
	if (kind == ARM_LONGEST)
		a.durations = table;
	int status = arm_prepare(&a);
	if (!status)
		status = arm_run(&a);
	if (!status)
		status = judge(&a, repetition, *blocks, &f, &gain);
	if (status)
		return status;
	if (kind == ARM_BLOCKS)
		*blocks = f.makespan;
	add(sum, &f, c->bound, gain);
	if (kind != ARM_FIFO)
		return 0;
	/* what it took is what the next one expects */
	FILE *out = fopen(table, "we");
	status = out ? durations_print(a.dir, out) : 1;
	if (out && (ferror(out) | fclose(out)))
		status = 1;
	return status ? complain(1, "%s: what tasks took cannot be written: %s", table, strerror(errno)) : 0;
}

static int
run_all(struct contest *c, const bool chosen[ARM_KINDS], struct sum sums[ARM_KINDS])
{
	int status = 0;

	for (int r = 1; !status && r <= c->o->repeat; r++) {
		double blocks = 0;

		for (int k = 0; !status && k < ARM_KINDS; k++)
			if (chosen[k])
				status = run_arm(c, (enum arm_kind)k, r, &blocks, &sums[k]);
	}
	return status;
}

int
makespan_contest(const struct makespan_options *o)
{
	static struct contest c; /* large */
	struct sum sums[ARM_KINDS] = { 0 };
	bool chosen[ARM_KINDS] = { false };
	struct sigaction act = { .sa_handler = on_signal };

	c = (struct contest){ .o = o, .seconds = o->seconds };
	int status = count_agents(&c);
	if (!status)
		status = choose_arms(&c, chosen);
	if (!status)
		status = find_replay(&c);
	if (!status)
		status = make_directory(&c);
	if (!status)
		status = take_tasks(&c);
	if (!status)
		status = scale(&c);
	if (status)
		return status;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	print_head(&c);
	status = run_all(&c, chosen, sums);
	if (status)
		return status;
	putchar('\n');
	for (int k = 0; k < ARM_KINDS; k++)
		print_sum(arm_kinds[k], &sums[k]);
	puts("over: beyond the bound. gain: less than static in the same repetition, with the same faults. What is\n"
	     "gained depends on the spans of the tasks; the 38.8 % of the RASER paper is of its own.");
	const struct sum *judged = &sums[chosen[ARM_FIFO] ? ARM_FIFO : ARM_BLOCKS];
	if (o->accept) {
		double gain = sums[ARM_BLOCKS].n && chosen[ARM_FIFO] ? judged->gain / judged->n : NAN;

		putchar('\n');
		status = figures_accept(&judged->f, gain, &c.conf.accept) ? 0 : 1;
	}
	return fflush(stdout) || ferror(stdout) ? complain(1, "standard output cannot be written") : status;
}
