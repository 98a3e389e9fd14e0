/*
 * trace.h - recorded runs of agents from a table: which task took how long in which run. The lines
 * of a file in columns parted by tabs; raser bench and what takes --durations read them.
 */
#ifndef RASER_TRACE_H
#define RASER_TRACE_H

#include "log.h"

#include <stddef.h>

struct trace_task {
	char *id;
	double seconds;
};

struct trace_run {
	char *name;  /* the cells of its columns, parted by a blank; the file's when there are none */
	char *group; /* the same without the last column: whose runs follow each other */
	struct trace_task *tasks; /* in the order of the file */
	size_t n;
	const struct trace_task **by_id; /* one of each id, sorted: for trace_find() */
	size_t nids;
};

struct trace {
	struct trace_run *runs; /* in the order of their first lines */
	size_t n;
	size_t left_out; /* lines without a duration */
};

/*
 * Read a table. Which columns are read is raser(1)'s rule, unless `columns` (may be NULL) names them
 * as "ID,SECONDS[,RUN...]". 0; or -ENOMEM, -EINVAL or the file's errno and a sentence, and then
 * there is nothing to free.
 */
int
trace_read(const char *file, const char *columns, struct trace *t, struct err *err);
void
trace_free(struct trace *t);

/* A task of a run by its id, the longest where it stands several times; NULL when there is none. */
const struct trace_task *
trace_find(const struct trace_run *run, const char *id);

#endif
