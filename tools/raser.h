/*
 * raser.h - what the verbs of raser share. A verb is a function in a file of its own; it gets its
 * arguments with its name in argv[0] and returns an exit status (raser(1)).
 */
#ifndef RASER_TOOL_H
#define RASER_TOOL_H

#include <limits.h>
#include <stdbool.h>

#include "clock.h"
#include "names.h"
#include "queue.h"

enum { EXIT_USAGE = 2 };

int
verb_init(int argc, char **argv);
int
verb_submit(int argc, char **argv);
int
verb_export(int argc, char **argv);
int
verb_run(int argc, char **argv);
int
verb_job(int argc, char **argv);
int
verb_launch(int argc, char **argv);
int
verb_status(int argc, char **argv);
int
verb_retry(int argc, char **argv);
int
verb_cancel(int argc, char **argv);
int
verb_doctor(int argc, char **argv);
int
verb_evict(int argc, char **argv);
int
verb_audit(int argc, char **argv);
int
verb_chaos(int argc, char **argv);
int
verb_seal(int argc, char **argv);
int
verb_fsck(int argc, char **argv);
int
verb_bench(int argc, char **argv);
int
verb_checkpoint(int argc, char **argv);

/* Everywhere in raser RUN is a run directory or a mount of one. */
struct target {
	bool is_mount;
	char path[PATH_MAX]; /* as given */
	char run[PATH_MAX];  /* the run directory */
};

/* Print what is wrong and return false when path is neither. */
bool
target_find(const char *path, struct target *t);

/* The name of a task's files from what is given on a command line: an id or a name, with or
 * without a number. False when it can be neither. */
bool
task_name(const char *word, char name[NAME_LIMIT + 1]);

/* The library on the target's run directory; NULL after a message. To change tasks it needs a beat,
 * so that nobody seals the run meanwhile. */
struct queue *
target_queue(const struct target *t, bool change);

/* Submit the JSON that a descriptor gives, all or nothing; field: instead of "id", NULL = none;
 * durations: what tasks take that do not say it, NULL = not known (durations.h). Prints what became
 * of it; returns an exit status. */
struct durations;
int
submit_by_library(const struct target *t, int in, const char *field, struct durations *durations);

/* Seconds as a decimal number, in ms; -1 for anything else. */
int64_t
parse_seconds(const char *s);
/* "raser VERB: message", on stderr; returns status. */
int
complain(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print the usage of the running verb on stderr; returns EXIT_USAGE. */
int
usage_error(void);

#endif
