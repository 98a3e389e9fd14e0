/*
 * schedule.c - the simulator of raser bench makespan: its numbers, and what it reads.
 */
#include <config.h>

#include "schedule.h"
#include "tap.h"
#include "trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGENTS = 15, TASKS_MAX = 400 };

static bool
near(double a, double b)
{
	return fabs(a - b) < 0.005;
}

static const char *
source(const char *file)
{
	static char path[4096];
	const char *dir = getenv("srcdir");

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", file);
	return path;
}

static void
small(void)
{
	static const double s[] = { 3, 1, 2, 4 };
	static const double same[] = { 0, 7, 0, 7 };
	size_t order[4];

	ok(near(schedule_static(s, 4, 2), 6), "static: blocks of neighbours");
	ok(near(schedule_static(s, 4, 3), 6), "static: three blocks of 1, 1 and 2 tasks");
	ok(near(schedule_static(s, 4, 9), 4), "static: more agents than tasks");
	ok(near(schedule_queue(s, NULL, 4, 2), 7), "queue: 3, then 1 + 2 + 4");
	ok(near(schedule_queue(s, NULL, 4, 1), 10), "queue: one agent does all");
	ok(near(schedule_queue(s, NULL, 0, 3), 0), "queue: nothing to do");
	ok(!schedule_longest(s, 4, order) && order[0] == 3 && order[1] == 0 && order[2] == 2 &&
		   order[3] == 1, "longest first");
	ok(near(schedule_queue(s, order, 4, 2), 5), "which is best here");
	ok(!schedule_longest(same, 4, order) && order[0] == 1 && order[1] == 3 && order[2] == 0 &&
		   order[3] == 2, "as they stand where equal, and what is not known last");
	ok(near(schedule_bound(s, 4, 2), 5) && near(schedule_bound(s, 4, 9), 4), "the bound, by either term");
}

/* Minutes of one run. */
static void
check_run(const struct trace *t, const char *name, const double want[4])
{
	double s[TASKS_MAX];
	size_t order[TASKS_MAX];
	const struct trace_run *run = NULL;

	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->runs[i].name, name))
			run = &t->runs[i];
	ok(run && run->n <= TASKS_MAX, "%s is there", name);
	if (!run || run->n > TASKS_MAX)
		return;
	for (size_t i = 0; i < run->n; i++)
		s[i] = run->tasks[i].seconds;
	schedule_longest(s, run->n, order);
	double got[4] = { schedule_static(s, run->n, AGENTS), schedule_queue(s, NULL, run->n, AGENTS),
			  schedule_queue(s, order, run->n, AGENTS), schedule_bound(s, run->n, AGENTS) };
	static const char *const arms[4] = { "static", "queue", "longest first", "bound" };
	for (int i = 0; i < 4; i++)
		if (!ok(near(got[i] / 60, want[i]), "%s, %s: %.2f minutes", name, arms[i], want[i]))
			diag("%.4f", got[i] / 60);
}

static void
recorded(void)
{
	static const struct {
		const char *name;
		double minutes[4];
	} runs[] = {
		{ "acr-run-1", { 66.37, 55.20, 53.13, 53.01 } },
		{ "acr-run-2", { 73.46, 61.12, 55.47, 55.41 } },
		{ "acr-run-3", { 87.86, 67.54, 65.16, 64.95 } },
		{ "acr-val-only", { 99.30, 84.30, 78.68, 77.93 } },
		{ "acr-val-sbfl", { 99.78, 89.50, 84.28, 83.42 } },
	};
	static const double lite60[4] = { 20.80, 16.80, 15.53, 14.82 };
	static const double cursor[4] = { 128.75, 44.68, 39.19, 39.19 };
	struct trace t;
	struct err err;

	ok(trace_read(source("plugins/replay/lite60.tsv"), NULL, &t, &err) == 0, "lite60.tsv is read");
	ok(t.n == 1 && t.runs[0].n == 60 && t.left_out == 0, "as one run of 60 tasks");
	check_run(&t, "lite60.tsv", lite60);
	trace_free(&t);
	ok(trace_read(source("tests/makespan/acr-lite.tsv"), NULL, &t, &err) == 0, "acr-lite.tsv is read");
	ok(t.n == 5, "as five runs");
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		check_run(&t, runs[i].name, runs[i].minutes);
	trace_free(&t);
	ok(trace_read(source("tests/makespan/terminal-bench.tsv"), NULL, &t, &err) == 0,
	   "terminal-bench.tsv is read");
	ok(t.n == 30 && !strcmp(t.runs[5].group, "cursor-cli_claude-4-sonnet"),
	   "as 30 runs, of which those of an agent belong together");
	check_run(&t, "cursor-cli_claude-4-sonnet 1", cursor);
	trace_free(&t);
}

/* A table of our own, read by the rule or by names. */
static int
read_text(const char *text, const char *columns, struct trace *t, struct err *err)
{
	char path[4096];

	*t = (struct trace){ 0 };
	snprintf(path, sizeof(path), "%s/table", scratch_dir());
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f))
		return -EIO;
	return trace_read(path, columns, t, err);
}

static void
refused(const char *text, const char *columns, const char *why)
{
	struct trace t;
	struct err err = { "" };
	int rc = read_text(text, columns, &t, &err);

	if (!ok(rc == -EINVAL && strstr(err.text, why) && !t.runs, "refused: %s", why))
		diag("%d %s", rc, err.text);
}

static void
tables(void)
{
	struct trace t;
	struct err err;

	ok(read_text("a\t2\nb\t3.5\tleast\n", NULL, &t, &err) == 0 && t.n == 1 && t.runs[0].n == 2 &&
		   near(t.runs[0].tasks[1].seconds, 3.5), "without a header: id and seconds");
	ok(t.n == 1 && trace_find(&t.runs[0], "b") == &t.runs[0].tasks[1] && !trace_find(&t.runs[0], "c"),
	   "a task is found by its id");
	trace_free(&t);
	ok(read_text("task\tn\telapsed_s\tagent\tset\na\t1\t\tx\ty\nb\t1\t2\tx\ty\r\n\nb\t1\t9\tx\tz\n", NULL,
		     &t, &err) == 0 &&
		   t.n == 1 && t.left_out == 1 && !strcmp(t.runs[0].name, "x") && t.runs[0].n == 2 &&
		   near(trace_find(&t.runs[0], "b")->seconds, 9),
	   "columns in any order; lines without a duration; a task twice is known by its longest");
	trace_free(&t);
	ok(read_text("run\tid\tspan_s\tx\ty\n1\ta\t1\t5\tq\n2\ta\t1\t6\tq\n1\ta\t1\t7\tq\n", "y,x,id,run", &t,
		     &err) == 0 &&
		   t.n == 2 && !strcmp(t.runs[1].name, "a 2") && !strcmp(t.runs[1].group, "a") &&
		   t.runs[0].n == 2 && near(t.runs[0].tasks[1].seconds, 7),
	   "columns that are named, which part runs");
	trace_free(&t);
	refused("what\tspan_s\na\t1\n", NULL, "no column for the task's id");
	refused("id\twhat\na\tb\n", NULL, "no column for the duration");
	refused("id\tspan_s\na\tlong\n", NULL, "line 2: long is no number of seconds");
	refused("id\tspan_s\na\t-1\n", NULL, "line 2: -1 is no number");
	refused("id\tspan_s\na\n", NULL, "line 2: it has 1 columns, and 2 are needed");
	refused("id\tspan_s\n\t3\n", NULL, "line 2: no id");
	refused("id\tspan_s\n", NULL, "no line with a duration");
	refused("id\tspan_s\na\t1\n", "id,nosuch", "has no column nosuch");
	refused("id\tspan_s\na\t1\n", "id", "write ID,SECONDS");
	ok(trace_read("/nonexistent/table", NULL, &t, &err) == -ENOENT && strstr(err.text, "No such file"),
	   "a table that is not there");
}

int
main(void)
{
	log_init("schedule.t", LOG_NOTHING);
	small();
	tables();
	recorded();
	return done_testing();
}
