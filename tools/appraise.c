/*
 * appraise.c - raser bench makespan --of RUN: what a run came to, in lines for people.
 */
#include <config.h>

#include "appraise.h"

#include "bench.h"
#include "gantt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGENTS_MAX = 100000 };

int
appraise(const char *run, size_t agents, struct appraisal *a)
{
	*a = (struct appraisal){ 0 };
	int status = past_read(run, &a->list);
	if (status)
		return status;
	status = tasks_read(run, &a->tasks);
	if (!status) {
		a->lane = calloc(a->list.n ? a->list.n : 1, sizeof(*a->lane));
		if (!a->lane || !figures_make(&a->list, &a->tasks, agents, a->lane, &a->f))
			status = complain(1, "out of memory");
	}
	if (status)
		appraise_free(a);
	return status;
}

void
appraise_free(struct appraisal *a)
{
	past_free(&a->list);
	tasks_free(&a->tasks);
	free(a->lane);
	*a = (struct appraisal){ 0 };
}

static void
print_figures(const struct figures *f)
{
	printf("tasks        %zu: %zu done, %zu not\n", f->tasks, f->done, f->tasks - f->done);
	if (f->twice)
		printf("             %zu records say done for a task that had been done before\n", f->twice);
	printf("agents       %zu%s\n", f->agents, f->agents == f->lanes ? ", as many as had a task" : "");
	printf("attempts     %zu: %zu done, %zu given back, %zu retried, %zu failed, %zu lost, %zu without "
	       "an end\n", f->attempts, f->ends[PAST_DONE], f->ends[PAST_FREED], f->ends[PAST_RETRY],
	       f->ends[PAST_FAILED], f->ends[PAST_LOST], f->ends[PAST_RUNNING]);
	printf("makespan     %.1f s\n", f->makespan);
	printf("bound        %.1f s, which the makespan exceeds by %.1f %%\n", f->bound,
	       figures_over(f, f->bound));
	printf("static       %.1f s for the same work in equal blocks without faults, of which %.1f %% were "
	       "saved\n", f->blocks, figures_gain(f, f->blocks));
	printf("utilisation  %.1f %%: agents held a task for %.1f s of %.1f s\n", figures_utilisation(f),
	       f->busy, (double)f->agents * f->makespan);
	printf("done again   %.1f s of work, %.1f s at most at a time\n", f->lost, f->lost_most);
	if (f->restored)
		printf("restored     %zu times, in %.3f s at most and %.3f s on average\n", f->restored,
		       f->restoring_most, f->restoring / (double)f->restored);
	else
		puts("restored     0 times");
	if (f->away)
		printf("away         %zu times a task waited for its next attempt, %.1f s at most and %.1f s on "
		       "average\n", f->away, f->away_most, f->away_sum / (double)f->away);
}

int
makespan_of(const struct makespan_options *o)
{
	static struct conf conf; /* large */
	struct appraisal a;
	struct err err = { "" };
	struct target t;
	char order[PATH_MAX + 16];
	const char *run = o->of;

	/* an arm of a benchmark has its tasks in a file */
	snprintf(order, sizeof(order), "%s/order", run);
	if (access(order, F_OK) < 0) {
		if (!target_find(o->of, &t))
			return 1;
		run = t.run;
	}
	if (o->accept && conf_load(&conf, run, &err))
		return complain(1, "%s", err.text);
	size_t agents = o->agents ? (size_t)bench_count(o->agents, AGENTS_MAX) : 0;
	if (o->agents && !agents)
		return complain(EXIT_USAGE, "--agents %s: it must be a number from 1 to %d", o->agents,
				AGENTS_MAX);
	int status = appraise(run, agents, &a);
	if (status)
		return status;
	if (!a.list.n)
		status = complain(1, "%s has no records of attempts yet", o->of);
	else
		print_figures(&a.f);
	if (!status && o->svg && !gantt_save(o->svg, o->of, &a.list, a.lane, &a.f, a.f.bound))
		status = 1;
	if (!status && o->accept)
		status = figures_accept(&a.f, figures_gain(&a.f, a.f.blocks), &conf.accept) ? 0 : 1;
	appraise_free(&a);
	return fflush(stdout) || ferror(stdout) ? complain(1, "standard output cannot be written") : status;
}
