/*
 * conf.h - raser.ini and, under it, the site's site.ini: their values. See raser.ini(5).
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
	bool ladder;	     /* else it takes the tasks that name it, and no others */
	int64_t cpus;	     /* for Slurm, of one agent */
	char sbatch[1024];   /* more options for sbatch, quoted as for a shell */
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

/* What `raser launch` asks of Slurm. Texts are empty where nothing is said. */
struct slurm_conf {
	char time[64], partition[256];
	char sbatch[1024];     /* quoted as for a shell */
	char local[512];       /* node-local folder for workspaces */
	int64_t signal_before; /* seconds before the time limit */
	int64_t overhead;      /* bytes on top of the tier's memory */
};

/* What a run under Slurm may take. */
struct limits_conf {
	int64_t max_requeues; /* of one array task; 0 = never requeued */
	double node_hours;    /* 0 = any */
	int64_t end;	      /* wall seconds from which nothing more is taken; 0 = never */
};

/* Figures that were agreed; NAN = not agreed. Percent, but for the seconds. */
struct accept_conf {
	double makespan_gain, restore_seconds, utilisation, survival;
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
	struct slurm_conf slurm;
	struct limits_conf limits;
	struct accept_conf accept;
	/* where raser.ini asked for more than the site allows and got that, for people:
	 * "[limits] end, [agent] network"; empty = nowhere */
	char clamped[256];
	char site_sandbox[16]; /* what the site insists on, "" = nothing */
	bool site_no_network;
};

/* The beat of a daemon: a sixth of steal_after (DESIGN 3). */
static inline int64_t
conf_beat_ms(const struct conf *c)
{
	return c->steal_after_ms / 6;
}

/* Parse the text of a raser.ini, over the site's site.ini, which is read. 0, or -EINVAL with the
 * file, the line and the reason in err, or an errno of reading site.ini. */
int
conf_parse(struct conf *conf, const char *text, struct err *err);

/* The raser.ini that `raser init` writes: every key with its default and a line of comment; as a
 * comment where the site may set or has set another default.
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

/* What an option asks for that counts more than raser.ini, held to the site like that: what is asked
 * for, or the site's. */
const char *
conf_sandbox(const struct conf *conf, const char *asked);
bool
conf_network(const struct conf *conf, bool asked);

/* The lowest tier at or above level that may take a task with so many failures. The last tier of
 * the ladder takes everything; a tier off the ladder keeps its tasks. */
int
conf_level(const struct conf *conf, int level, int failures);

/* The lowest tier of the ladder with that much memory, or -1 when none has. */
int
conf_level_for_memory(const struct conf *conf, int64_t bytes);

/* Where tasks begin that ask for nothing: the lowest tier of the ladder. */
int
conf_first(const struct conf *conf);

/* A tier has that much memory. */
bool
conf_has_memory(const struct conf *conf, int tier, int64_t bytes);

/* Where a task begins that names a tier, or none (""), and asks for that much memory, or none (0).
 * raser.ini may have lost the tier since: then the last tier of the ladder must do. */
int
conf_base(const struct conf *conf, const char *tier, int64_t memory);

/* Agents of tier take tasks whose level is level. */
bool
conf_takes(const struct conf *conf, int tier, int level);
/* All these levels, a bit each. */
uint32_t
conf_levels(const struct conf *conf, int tier);
/* All levels that a task may ever have which agents of tier take at some time. */
uint32_t
conf_lane(const struct conf *conf, int tier);

/* "1G", "512M", "4096" (bytes); K, M, G, T are powers of 1024. False when it is not a size. */
bool
parse_size(const char *text, int64_t *bytes);

#endif
