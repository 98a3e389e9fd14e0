/*
 * figures.h - what a run came to: its makespan, how busy its agents were, what was lost and how soon
 * it went on; from its records. raser(1), BENCH, defines them; raser bench prints them.
 */
#ifndef RASER_FIGURES_H
#define RASER_FIGURES_H

#include "past.h"

#include "conf.h"

/* The tasks of a run in their order, and which of them are done. */
struct task_list {
	char **names;
	bool *done;
	size_t n, ndone;
};

/* Those of a run directory, or of a directory of bench makespan that has an `order`. An exit status,
 * not 0 after a message, and then there is nothing to free. */
int
tasks_read(const char *run, struct task_list *t);
void
tasks_free(struct task_list *t);

struct figures {
	size_t agents; /* that were seen, or as many as were said to be there */
	size_t lanes;  /* that were seen */
	size_t tasks, done;
	size_t twice;	     /* tasks with several attempts that were done */
	size_t attempts, ends[PAST_ENDS];
	double began, ended; /* wall seconds: first start, last end of an attempt that was done or failed */
	double makespan;
	double busy;	     /* agent seconds between them */
	double lost, lost_most;
	size_t restored;
	double restoring, restoring_most; /* sum */
	size_t away;			  /* interruptions of tasks that somebody went on with */
	double away_sum, away_most;	  /* from the end of an attempt to the start of the next */
	double bound, blocks;		  /* from the work of the tasks: the bound, and static by simulation */
};

/*
 * Work them out; completes the list. agents: 0 = those that were seen. lane (of list->n) gets the slot
 * that each attempt ran in, from 0. False without memory.
 */
bool
figures_make(struct past_list *list, const struct task_list *tasks, size_t agents, size_t *lane,
	     struct figures *f);

/* Percent: of the agents' time that they were busy; of tasks that are done; beyond the bound; less
 * than another makespan. */
double
figures_utilisation(const struct figures *f);
double
figures_survival(const struct figures *f);
double
figures_over(const struct figures *f, double bound);
double
figures_gain(const struct figures *f, double other);

/* A line for each figure that was agreed, on stdout: met or missed. True when all are met. gain: NAN
 * when there is nothing to compare with. */
bool
figures_accept(const struct figures *f, double gain, const struct accept_conf *agreed);

#endif
