/*
 * past.h - the attempts of a run as its records tell of them: who worked when on what, what was
 * lost and what was kept. raser bench and export --durations.
 */
#ifndef RASER_PAST_H
#define RASER_PAST_H

#include <stdbool.h>
#include <stddef.h>

/* How an attempt ended, as far as its record tells. */
enum past_end {
	PAST_RUNNING, /* it still runs, or nobody came to write its end */
	PAST_DONE,
	PAST_FREED,   /* preempted, or not its fault */
	PAST_RETRY,
	PAST_FAILED,
	PAST_LOST,    /* somebody took its claim away */
	PAST_ENDS
};

/* An attempt that was made. Times are wall seconds of the node where it ran; NAN: not known. */
struct past {
	char *task, *agent; /* agent: what names the slot it ran in */
	char *place, *tier; /* host or node */
	unsigned attempt;
	char owner[16];	    /* its random part */
	long job;	    /* of Slurm, 0: none */
	long pid;	    /* of its agentd */
	enum past_end end;
	bool resumed;
	unsigned from;	    /* the attempt and owner whose checkpoint it began with */
	char from_owner[16];
	double started, ended;
	double alive;	    /* of one without an end: its last sign of life, by the file system's clock */
	double taken;	    /* the moment that this checkpoint shows */
	double restoring;   /* how long that took */
	double lost;	    /* work that had to be done again because of the attempt before */
	bool guessed;	    /* ended, by past_complete() */
};

struct past_list {
	struct past *all; /* by task, then attempt */
	size_t n;
};

/* All of a run. Returns an exit status, not 0 after a message, and then there is nothing to free. */
int
past_read(const char *run, struct past_list *list);
/*
 * Fill in what nobody wrote: when an attempt ended, by its last sign of life as its successor tells it
 * or its folder shows it, else when the next attempt of its task or of its agent began, else at the last
 * moment that is known of the run; and what was lost with one of which nothing was kept: all of it. Then no end is NAN.
 */
void
past_complete(struct past_list *list);

/*
 * Seconds of work that an attempt's end shows, after past_complete(): its own and that of the attempts
 * whose checkpoints it began with, nothing of it twice.
 */
double
past_work(const struct past_list *list, size_t i);

void
past_free(struct past_list *list);

#endif
