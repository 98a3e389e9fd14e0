/* crew.c - options, workers and their account; see crew.h.
 *
 * The account lies in shared memory. Only atomic counters are written by several processes; the
 * rest is written by one worker, or by the parent before it opens the gate.
 */
#include <config.h>

#include "crew.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROCS_MAX = GANG_MAX };

struct board {
	double began;
	struct {
		long pairs;  /* ended in time */
		long late;   /* ended later: not counted, or waiters would stretch the run */
		double last; /* when the last of the pairs ended */
	} worker[PROCS_MAX];
	atomic_long next;
	atomic_bool claimed[]; /* by task, [0] unused */
};

double
crew_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double
number(const char *name, const char *text, double least, double most)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= least && v <= most))
		errx(1, "--%s %s: not a number from %g to %g", name, text, least, most);
	return v;
}

static const char **
option_value(const struct crew_option *o, const char *arg)
{
	for (; arg[0] == '-' && arg[1] == '-' && o && o->name; o++)
		if (!strcmp(arg + 2, o->name))
			return o->value;
	return NULL;
}

void
crew_init(struct crew *c, int argc, char **argv, const struct crew_option *more)
{
	const char *dir = NULL, *procs = "1", *tasks = "1000", *seconds = "2";
	const struct crew_option common[] = {
		{ "dir", &dir }, { "procs", &procs }, { "tasks", &tasks },
		{ "seconds", &seconds }, { NULL, NULL },
	};

	for (int i = 1; i < argc; i += 2) {
		const char **value = option_value(common, argv[i]);

		if (!value && !(value = option_value(more, argv[i])))
			errx(1, "%s: no such option", argv[i]);
		if (i + 1 == argc)
			errx(1, "%s needs a value", argv[i]);
		*value = argv[i + 1];
	}
	if (!dir)
		errx(1, "--dir is missing");

	*c = (struct crew){
		.procs = (int)number("procs", procs, 1, PROCS_MAX),
		.tasks = (long)number("tasks", tasks, 1, 999999),
		.seconds = number("seconds", seconds, 0.01, 3600),
	};
	char *real = realpath(dir, NULL);
	if (!real)
		err(1, "%s", dir);
	snprintf(c->dir, sizeof c->dir, "%.4000s/%.20s.XXXXXX", real,
		 program_invocation_short_name);
	if (!mkdtemp(c->dir))
		err(1, "%s", c->dir);
	free(real);

	c->board = gang_memory(sizeof *c->board + (size_t)c->tasks + 1);
	if (!c->board)
		err(1, "shared memory");
	atomic_init(&c->board->next, 1);
}

/* Earlier work is written out first, so that nobody is charged for another's leftovers. */
static void
settle(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd))
		err(1, "%s", dir);
	close(fd);
}

struct job {
	struct crew *crew;
	void (*work)(struct crew *, void *);
	void *arg;
};

static int
run_job(struct gang *g, int rank, void *arg)
{
	struct job *j = arg;

	j->crew->gang = g;
	j->crew->rank = rank;
	j->work(j->crew, j->arg);
	return 0;
}

static void
begin(void *arg)
{
	((struct job *)arg)->crew->board->began = crew_now();
}

int
crew_run(struct crew *c, void (*work)(struct crew *, void *), void *arg)
{
	struct job j = { c, work, arg };

	settle(c->dir);
	int failed = gang_run(c->procs, run_job, begin, &j, NULL);
	if (failed < 0) {
		errno = -failed;
		err(1, "workers");
	}
	return failed;
}

void
crew_start(struct crew *c)
{
	gang_start(c->gang);
}

void
crew_report(const struct crew *c)
{
	double last = c->board->began;
	long claimed = 0, pairs = 0, late = 0;

	for (long t = 1; t <= c->tasks; t++)
		claimed += c->board->claimed[t];
	for (int i = 0; i < c->procs; i++) {
		pairs += c->board->worker[i].pairs;
		late += c->board->worker[i].late;
		if (c->board->worker[i].last > last)
			last = c->board->worker[i].last;
	}
	if (!pairs || claimed != pairs + late)
		errx(1, "%ld tasks were claimed, %ld ended in time, %ld later", claimed, pairs,
		     late);
	printf("%ld %.6f\n", pairs, last - c->board->began);
	if (fflush(stdout))
		err(1, "standard output");
}

bool
crew_goes_on(const struct crew *c)
{
	return crew_now() < c->board->began + c->seconds;
}

long
crew_next(struct crew *c)
{
	long task = atomic_fetch_add(&c->board->next, 1);

	return task <= c->tasks ? task : 0;
}

void
crew_claimed(struct crew *c, long task)
{
	if (task < 1 || task > c->tasks)
		errx(1, "claimed task %ld of %ld", task, c->tasks);
	if (atomic_exchange(&c->board->claimed[task], true))
		errx(1, "task %ld was claimed twice", task);
}

void
crew_ended(struct crew *c)
{
	double now = crew_now();

	if (now > c->board->began + c->seconds) {
		c->board->worker[c->rank].late++;
		return;
	}
	c->board->worker[c->rank].pairs++;
	c->board->worker[c->rank].last = now;
}
