/*
 * trace.c - the table, line by line. The first line has the names of the columns, unless its second
 * cell is a number: then a line is an id and its seconds.
 */
#include <config.h>

#include "trace.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_MAX = 64, RUN_COLUMNS_MAX = 4 };

/* What a column may be called, the best first. */
static const char *const id_names[] = { "id", "instance_id", "task_id", "task", NULL };
static const char *const seconds_names[] = { "seconds", "span_s", "elapsed_s", "trial_s",
					     "duration_s", NULL };
static const char *const group_names[] = { "agent_model", "agent", "model", "set", NULL };
static const char *const run_names[] = { "run", NULL };

struct reader {
	const char *file;
	struct trace *trace;
	int id, seconds;	   /* columns */
	int run[RUN_COLUMNS_MAX];
	int nrun;
	long line;
	struct err *err;
};

/* Cut a line into cells, in place; how many there are. */
static int
split(char *line, char *cells[CELLS_MAX])
{
	int n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	for (char *cell; n < CELLS_MAX && (cell = strsep(&line, "\t"));)
		cells[n++] = cell;
	return n;
}

static bool
number(const char *text, double *v)
{
	char *end;

	*v = strtod(text, &end);
	return end != text && !*end && isfinite(*v) && *v >= 0;
}

static int
column(char *const cells[], int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(cells[i], name))
			return i;
	return -1;
}

static int
first_of(char *const cells[], int n, const char *const names[])
{
	int c = -1;

	for (; *names && c < 0; names++)
		c = column(cells, n, *names);
	return c;
}

static int
no_column(const struct reader *r, const char *what, const char *const names[])
{
	char list[160] = "";

	for (size_t len = 0; *names && len < sizeof(list); names++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, " %s", *names);
	return err_set(r->err, -EINVAL,
		       "%s: its first line names no column for the %s (one of%s); --columns says which "
		       "one it is", r->file, what, list);
}

/* By the names that they usually have. */
static int
find_columns(struct reader *r, char *const cells[], int n)
{
	double v;

	if (n >= 2 && number(cells[1], &v)) {
		r->id = 0;
		r->seconds = 1;
		return 1; /* this line is no header */
	}
	r->id = first_of(cells, n, id_names);
	r->seconds = first_of(cells, n, seconds_names);
	if (r->id < 0)
		return no_column(r, "task's id", id_names);
	if (r->seconds < 0)
		return no_column(r, "duration", seconds_names);
	int group = first_of(cells, n, group_names);
	int run = first_of(cells, n, run_names);
	if (group >= 0)
		r->run[r->nrun++] = group;
	if (run >= 0)
		r->run[r->nrun++] = run;
	return 0;
}

/* By the names that the user gave, "ID,SECONDS[,RUN...]". */
static int
name_columns(struct reader *r, char *const cells[], int n, const char *columns)
{
	char copy[512];
	char *save = NULL;
	int k = 0;

	snprintf(copy, sizeof(copy), "%s", columns);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save), k++) {
		int c = column(cells, n, w);

		if (c < 0)
			return err_set(r->err, -EINVAL, "%s has no column %s in its first line",
				       r->file, w);
		if (k == 0)
			r->id = c;
		else if (k == 1)
			r->seconds = c;
		else if (r->nrun < RUN_COLUMNS_MAX)
			r->run[r->nrun++] = c;
		else
			return err_set(r->err, -EINVAL, "--columns: at most %d columns name a run",
				       RUN_COLUMNS_MAX);
	}
	return k >= 2 ? 0 : err_set(r->err, -EINVAL, "--columns %s: write ID,SECONDS[,RUN...]", columns);
}

/* The cells that tell a run from others, parted by blanks; the file's name when there are none. */
static void
run_name(const struct reader *r, char *const cells[], int ncolumns, char *out, size_t size)
{
	size_t len = 0;

	snprintf(out, size, "%s", "");
	for (int i = 0; i < ncolumns && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s", i ? " " : "", cells[r->run[i]]);
	if (!r->nrun) {
		const char *base = strrchr(r->file, '/');

		snprintf(out, size, "%s", base ? base + 1 : r->file);
	}
}

/* Room for one more, the array doubled when its length is a power of two. */
static void *
grown(void *array, size_t n, size_t item)
{
	return n & (n - 1) ? array : reallocarray(array, n ? 2 * n : 1, item);
}

static struct trace_run *
run_of(struct reader *r, char *const cells[])
{
	struct trace *t = r->trace;
	char name[256];
	char group[256];

	run_name(r, cells, r->nrun, name, sizeof(name));
	/* lines of a run mostly follow each other */
	for (size_t i = t->n; i-- > 0;)
		if (!strcmp(t->runs[i].name, name))
			return &t->runs[i];
	run_name(r, cells, r->nrun - 1, group, sizeof(group));
	struct trace_run *runs = grown(t->runs, t->n, sizeof(*runs));
	if (!runs)
		return NULL;
	t->runs = runs;
	struct trace_run *run = &runs[t->n];
	*run = (struct trace_run){ .name = strdup(name), .group = strdup(group) };
	t->n++;
	return run->name && run->group ? run : NULL;
}

static int
take_line(struct reader *r, char *const cells[], int n)
{
	double seconds;
	int last = r->id > r->seconds ? r->id : r->seconds;

	for (int i = 0; i < r->nrun; i++)
		if (r->run[i] > last)
			last = r->run[i];
	if (n == 1 && !*cells[0])
		return 0; /* an empty line */
	if (n <= last)
		return err_set(r->err, -EINVAL, "%s, line %ld: it has %d columns, and %d are needed",
			       r->file, r->line, n, last + 1);
	if (!*cells[r->seconds]) {
		r->trace->left_out++;
		return 0;
	}
	if (!number(cells[r->seconds], &seconds))
		return err_set(r->err, -EINVAL, "%s, line %ld: %.40s is no number of seconds", r->file,
			       r->line, cells[r->seconds]);
	if (!*cells[r->id])
		return err_set(r->err, -EINVAL, "%s, line %ld: no id", r->file, r->line);
	struct trace_run *run = run_of(r, cells);
	struct trace_task *tasks = run ? grown(run->tasks, run->n, sizeof(*tasks)) : NULL;
	if (!tasks)
		return err_set(r->err, -ENOMEM, "%s: out of memory", r->file);
	run->tasks = tasks;
	tasks[run->n] = (struct trace_task){ .id = strdup(cells[r->id]), .seconds = seconds };
	return tasks[run->n++].id ? 0 : err_set(r->err, -ENOMEM, "%s: out of memory", r->file);
}

static int
by_id(const void *a, const void *b)
{
	const struct trace_task *const *x = a;
	const struct trace_task *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

/* The same, the longest first of those with one id. */
static int
by_id_longest(const void *a, const void *b)
{
	const struct trace_task *const *x = a;
	const struct trace_task *const *y = b;
	int d = by_id(a, b);

	return d ? d : (*x)->seconds > (*y)->seconds ? -1 : (*x)->seconds < (*y)->seconds;
}

/* Sort what was read, for look-ups. */
static int
make_index(struct reader *r)
{
	for (size_t i = 0; i < r->trace->n; i++) {
		struct trace_run *run = &r->trace->runs[i];

		run->by_id = calloc(run->n ? run->n : 1, sizeof(const struct trace_task *));
		if (!run->by_id)
			return err_set(r->err, -ENOMEM, "%s: out of memory", r->file);
		for (size_t k = 0; k < run->n; k++)
			run->by_id[k] = &run->tasks[k];
		qsort(run->by_id, run->n, sizeof(const struct trace_task *), by_id_longest);
		for (size_t k = 0; k < run->n; k++)
			if (!k || by_id(&run->by_id[run->nids - 1], &run->by_id[k]) != 0)
				run->by_id[run->nids++] = run->by_id[k];
	}
	return 0;
}

static int
read_lines(struct reader *r, FILE *f, const char *columns)
{
	char *cells[CELLS_MAX];
	char *line = NULL;
	size_t cap = 0;
	int rc = 0;

	while (!rc && getline(&line, &cap, f) > 0) {
		int n = split(line, cells);
		bool head = ++r->line == 1;

		if (head)
			rc = columns ? name_columns(r, cells, n, columns) : find_columns(r, cells, n);
		if (!head || rc == 1)
			rc = take_line(r, cells, n);
	}
	free(line);
	if (!rc && ferror(f))
		rc = err_set(r->err, -EIO, "%s: %s", r->file, strerror(errno));
	if (!rc && !r->trace->n)
		rc = err_set(r->err, -EINVAL, "%s: no line with a duration is in it", r->file);
	return rc ? rc : make_index(r);
}

int
trace_read(const char *file, const char *columns, struct trace *t, struct err *err)
{
	struct reader r = { .file = file, .trace = t, .err = err };
	FILE *f = fopen(file, "re");

	*t = (struct trace){ 0 };
	if (!f)
		return err_set(err, -errno, "%s: %s", file, strerror(errno));
	int rc = read_lines(&r, f, columns);
	fclose(f);
	if (rc)
		trace_free(t);
	return rc;
}

void
trace_free(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct trace_run *run = &t->runs[i];

		for (size_t k = 0; k < run->n; k++)
			free(run->tasks[k].id);
		free(run->tasks);
		free((void *)(uintptr_t)run->by_id);
		free(run->name);
		free(run->group);
	}
	free(t->runs);
	*t = (struct trace){ 0 };
}

const struct trace_task *
trace_find(const struct trace_run *run, const char *id)
{
	const struct trace_task key = { .id = (char *)(uintptr_t)id };
	const struct trace_task *p = &key;
	const struct trace_task *const *found =
		bsearch(&p, (const void *)(uintptr_t)run->by_id, run->nids,
			sizeof(const struct trace_task *), by_id);

	return found ? *found : NULL;
}
