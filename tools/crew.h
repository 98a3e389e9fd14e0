/*
 * crew.h - a number of raser-agentd's on one mount, or on a run directory itself: started, and
 * started again after a growing pause. For run.c, job.c and launch.c; crew_parse() for whoever takes
 * --agents.
 */
#ifndef RASER_CREW_H
#define RASER_CREW_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "raser.h"

enum {
	CREW_OPTIONS_MAX = 64,
	CREW_COMMAND_MAX = 420, /* words */
	CREW_PAUSE_LAST_MS = 10000,
	/* how raser-agentd ends, apart from EXIT_USAGE: raser-agentd(8) */
	AGENTD_UNFIT = 3,
	AGENTD_LATE = 4,
	AGENTD_PREEMPTED = 99,
};

struct agent {
	char tier[TIER_NAME];
	pid_t pid; /* 0: not running */
	bool known; /* its tier is one of the run's */
	bool ended; /* drained, or told to stop: it is not started again */
	int status; /* its last exit status; -1: killed, or it has not run */
	int64_t started, restart_at, pause_ms;
};

struct crew {
	struct agent *agents;
	int nagents;
	const char *mount; /* where they work; NULL: there is none, and they work on */
	const char *direct; /* this run directory itself */
	const char *status_dir; /* with direct: each life of one keeps a file there; NULL = none */
	unsigned lives;
	char *const *command; /* empty: the plugin of raser.ini */
	const char *options[CREW_OPTIONS_MAX]; /* handed on to raser-agentd */
	size_t noptions;
	int log_fd; /* what they say goes there; -1: to our standard error */
	bool stopping; /* nobody is started any more */
};

/* The options of raser-agentd that a verb takes as well: lines for a table of getopt_long(3), whose
 * value is 's'. Each found one goes to crew_hand_on(). */
/* clang-format off */
#define CREW_OPTIONS \
	{ "sandbox", required_argument, NULL, 's' }, \
	{ "image", required_argument, NULL, 's' }, \
	{ "memory-by", required_argument, NULL, 's' }, \
	{ "bind", required_argument, NULL, 's' }, \
	{ "pass", required_argument, NULL, 's' }, \
	{ "network", no_argument, NULL, 's' }
/* clang-format on */

/* What is asked of a tier. False after a message. */
typedef bool
crew_tier_fn(void *arg, const char *tier, long n);
/* Read "low=5,medium=2", the argument of --agents: fn for each tier in turn. False after a message. */
bool
crew_parse(const char *text, crew_tier_fn *fn, void *arg);

/* Hand an option on; value: kept by reference, NULL = it has none. False when there are too many. */
bool
crew_hand_on(struct crew *c, const char *name, const char *value);

/* Without a command there must be a plugin in the raser.ini of run, and it must be there; a command
 * must be there as well. 0, or an exit status after a message. */
int
crew_check_command(const struct crew *c, const char *run);

/* An agent more, not started yet. */
struct agent *
crew_add(struct crew *c, const char *tier);

/* Start a program as a child that gets SIGTERM when we die, in a process group of its own, with
 * RASER_MOUNT where there is a mount. Its pid or -1. */
pid_t
crew_program(const struct crew *c, char *const *argv);

/* Say how agents run here before any of them does. 0, or an exit status when they cannot, and why
 * was said. Waits for it. */
int
crew_check(const struct crew *c);

/* Start what is due to start. Returns how many have not ended. */
int
crew_start(struct crew *c, int64_t now_ms);
/* When the next one is due, boot ms; INT64_MAX: none is. */
int64_t
crew_due(const struct crew *c);

/* A child has ended. Returns the agent that it was, or NULL. It comes back unless it was drained, told
 * to stop, or cannot work here. */
struct agent *
crew_reaped(struct crew *c, pid_t pid, int status, int64_t now_ms);

/* The agents give their tasks back and end. */
void
crew_stop(struct crew *c);

bool
crew_has(const struct crew *c, pid_t pid);

#endif
