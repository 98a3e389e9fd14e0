/*
 * conf.h - raser.ini: one table of keys, their defaults and their meaning. See raser.ini(5).
 */
#ifndef RASER_CONF_H
#define RASER_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

enum { TIERS_MAX = 16, TIER_NAME = 32, FAILURES_ALL = -1, INI_LIMIT = 65536 };

struct tier {
	char name[TIER_NAME];
	int64_t memory;	     /* bytes an attempt may use; 0 = no limit */
	int failures;	     /* sees tasks with at most so many failures; FAILURES_ALL = all */
	bool elevated_first; /* tasks that lower tiers may not take come first */
};

/* What runs an agent and how: for raser-agentd. Lists hold words with blanks in between. */
struct agent_conf {
	char plugin[2048]; /* as wordexp(3) splits it */
	char sandbox[16], image[512], env[1024], bind[4096];
	bool network, mount;
	int64_t time_limit_ms, hang_after_ms, progress_after_ms; /* 0 = none */
	int64_t max_steps;	   /* 0 = any number */
	int64_t checkpoint_every_ms; /* 0 = only at the end */
	int64_t checkpoint_limit;    /* bytes, 0 = any */
	char checkpoint_format[8], memory_by[8];
	bool oom_done;
};

struct conf {
	int64_t steal_after_ms;
	int64_t retry_delay_ms;
	int64_t grace_ms;
	int64_t receipts_ms;
	int64_t wedged_after_ms; /* 0 = never */
	int64_t max_failures; /* 0 = never give up */
	int64_t max_losses;
	bool force; /* use storage that raser doctor advises against */
	int ntiers;
	struct tier tiers[TIERS_MAX];
	struct agent_conf agent;
};

/* The beat of a daemon: a sixth of steal_after (DESIGN 3). */
static inline int64_t
conf_beat_ms(const struct conf *c)
{
	return c->steal_after_ms / 6;
}

/* Parse the text of a raser.ini. 0, or -EINVAL with the line and the reason in err. */
int
conf_parse(struct conf *conf, const char *text, struct err *err);

/* The raser.ini that `raser init` writes: every key with its default and a line of comment.
 * plugin: the value of that key, quoted as for a shell, or "". Returns a string that the caller
 * frees, or NULL when memory is out. */
char *
conf_template(const char *plugin);
/* The same with the key force. */
char *
conf_template_force(const char *plugin, bool force);

/* Read and parse RUN/raser.ini. 0, or a negative errno and a sentence in err. */
int
conf_load(struct conf *conf, const char *run, struct err *err);

/* The tier's place in the file, or -1. */
int
conf_tier(const struct conf *conf, const char *name);

/* The lowest tier at or above level that may take a task with so many failures. The last tier
 * takes everything. */
int
conf_level(const struct conf *conf, int level, int failures);

/* The lowest tier with that much memory, or -1 when none has. */
int
conf_level_for_memory(const struct conf *conf, int64_t bytes);

/* "1G", "512M", "4096" (bytes); K, M, G, T are powers of 1024. False when it is not a size. */
bool
parse_size(const char *text, int64_t *bytes);

#endif
