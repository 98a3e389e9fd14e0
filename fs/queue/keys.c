/*
 * keys.c - the keys of raser.ini and site.ini: names, defaults, meaning, and how a value is read.
 */
#include <config.h>

#include "conf_keys.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUN(field) .offset = offsetof(struct conf, field)
#define TEXT(field) .offset = offsetof(struct conf, field), .most = sizeof(((struct conf *)NULL)->field)
#define TIER(field) .offset = offsetof(struct tier, field)
#define END { .name = NULL }

static const struct key run_keys[] = {
	{ "steal_after", KIND_SECONDS, RUN(steal_after_ms), .least = 600, .value = "180",
	  .comment = "seconds of silence after which a claim may be stolen" },
	{ "max_failures", KIND_COUNT, RUN(max_failures), .value = "5",
	  .comment = "failures after which a task is failed; 0 = never give up" },
	{ "max_losses", KIND_COUNT, RUN(max_losses), .least = 1, .value = "10",
	  .comment = "losses in a row (dead or silent agents and nodes) after which a task is failed" },
	{ "retry_delay", KIND_SECONDS, RUN(retry_delay_ms), .value = "30",
	  .comment = "seconds before a task that could not be tried (exit 75) is offered again; grows" },
	{ "grace", KIND_SECONDS, RUN(grace_ms), .value = "25",
	  .comment = "seconds from SIGTERM to an agent until its task is given back, checkpoint included" },
	{ "receipts", KIND_SECONDS, RUN(receipts_ms), .value = "600",
	  .comment = "seconds for which new/ shows what became of a submission" },
	{ "wedged_after", KIND_SECONDS, RUN(wedged_after_ms), .value = "30",
	  .comment = "seconds after which a raserfs that does not serve is replaced, at least 2; 0 = never" },
	{ "force", KIND_BOOL, RUN(force), .value = "no",
	  .comment = "yes: mount on storage that raser doctor fails but for insistence (a soft NFS mount)" },
	END
};

static const struct key agent_keys[] = {
	{ "plugin", KIND_TEXT, TEXT(agent.plugin), .value = "",
	  .comment = "the program with get_tasks and run_task, and its arguments, quoted as for a shell" },
	{ "sandbox", KIND_CHOICE, RULE_BOX, TEXT(agent.sandbox), .value = "auto",
	  .comment = "auto (bwrap where it works, else none), none, bwrap, apptainer, gvisor",
	  .choices = "auto none bwrap apptainer gvisor " },
	{ "image", KIND_TEXT, TEXT(agent.image), .value = "",
	  .comment = "what a sandbox has for a root: a folder or an image; empty = this system's folders" },
	{ "network", KIND_BOOL, RULE_NO, RUN(agent.network), .value = "no",
	  .comment = "yes: agents in sandboxes have the network" },
	{ "mount", KIND_BOOL, RULE_NO, RUN(agent.mount), .value = "no",
	  .comment = "yes: agents in sandboxes see the queue" },
	{ "env", KIND_TEXT, TEXT(agent.env), .value = "",
	  .comment = "environment variables that sandboxes let in, by name" },
	{ "bind", KIND_TEXT, TEXT(agent.bind), .value = "",
	  .comment = "what else sandboxes show: PATH, PATH:DESTINATION, PATH:rw, PATH:DESTINATION:rw" },
	{ "time_limit", KIND_SECONDS, RULE_LIMIT, RUN(agent.time_limit_ms), .value = "0",
	  .comment = "seconds that an attempt may take; 0 = any" },
	{ "hang_after", KIND_SECONDS, RUN(agent.hang_after_ms), .value = "1800",
	  .comment = "seconds without CPU time, I/O or output after which an agent is hung; 0 = never" },
	{ "progress_after", KIND_SECONDS, RUN(agent.progress_after_ms), .value = "0",
	  .comment = "seconds without reported progress after which an agent is looping; 0 = never" },
	{ "max_steps", KIND_COUNT, RUN(agent.max_steps), .most = 1000000000, .value = "0",
	  .comment = "reported steps after which an agent is looping; 0 = any number" },
	{ "checkpoint_every", KIND_SECONDS, RUN(agent.checkpoint_every_ms), .value = "300",
	  .comment = "seconds between checkpoints of a working agent; 0 = only when it is stopped" },
	{ "checkpoint_limit", KIND_SIZE, RUN(agent.checkpoint_limit), .value = "20G",
	  .comment = "a workspace with more data is not checkpointed; 0 = any" },
	{ "checkpoint_format", KIND_CHOICE, TEXT(agent.checkpoint_format), .value = "zstd",
	  .comment = "zstd or gzip", .choices = "zstd gzip " },
	{ "memory_by", KIND_CHOICE, TEXT(agent.memory_by), .value = "auto",
	  .comment = "how a tier's memory is limited: cgroup, poll, or auto (cgroup where it works)",
	  .choices = "auto cgroup poll " },
	{ "oom_done", KIND_BOOL, RUN(agent.oom_done), .value = "no",
	  .comment = "yes: exit status 0 is done even if the kernel killed a process of the agent for memory" },
	END
};

static const struct key slurm_keys[] = {
	{ "time", KIND_TEXT, TEXT(slurm.time), .value = "", .optional = true,
	  .comment = "time limit of an array task, as for sbatch; empty = the partition's" },
	{ "partition", KIND_TEXT, TEXT(slurm.partition), .value = "", .optional = true,
	  .comment = "partitions; empty = the cluster's default" },
	{ "sbatch", KIND_TEXT, TEXT(slurm.sbatch), .value = "", .optional = true,
	  .comment = "more options for sbatch, quoted as for a shell" },
	{ "signal_before", KIND_COUNT, RUN(slurm.signal_before), .most = 65535, .value = "120",
	  .optional = true,
	  .comment = "seconds before the time limit at which agents save and give back" },
	{ "local", KIND_TEXT, TEXT(slurm.local), .value = "", .optional = true,
	  .comment = "node-local folder for workspaces; empty = $SLURM_TMPDIR, $TMPDIR or /tmp" },
	{ "overhead", KIND_SIZE, RUN(slurm.overhead), .value = "256M", .optional = true,
	  .comment = "memory on top of the tier's, for raser-agentd and raserfs" },
	END
};

static const struct key limits_keys[] = {
	{ "max_requeues", KIND_COUNT, RULE_LOWER, RUN(limits.max_requeues), .most = 1000000,
	  .value = "100", .optional = true,
	  .comment = "requeues of one array task; 0 = none" },
	{ "node_hours", KIND_REAL, RULE_LIMIT, RUN(limits.node_hours), .value = "0", .optional = true,
	  .comment = "node-hours that the run may take under Slurm; 0 = any" },
	{ "end", KIND_TIME, RULE_LIMIT, RUN(limits.end), .value = "", .optional = true,
	  .comment = "local date, or date and time, from which agents take nothing more; empty = never" },
	END
};

static const struct key accept_keys[] = {
	{ "makespan_gain", KIND_REAL, RUN(accept.makespan_gain), .value = "", .optional = true,
	  .comment = "percent of the makespan that static partitioning takes, at least saved" },
	{ "restore_seconds", KIND_REAL, RUN(accept.restore_seconds), .value = "", .optional = true,
	  .comment = "seconds to restore a checkpoint, at most" },
	{ "utilisation", KIND_REAL, RUN(accept.utilisation), .value = "", .optional = true,
	  .comment = "percent of the agents' time in which they held a task, at least" },
	{ "survival", KIND_REAL, RUN(accept.survival), .value = "", .optional = true,
	  .comment = "percent of tasks that end done under faults, at least" },
	END
};

const struct section conf_sections[SECTIONS] = {
	{ "run", NULL, run_keys },
	{ "agent", "What runs an agent and how, see raser-agentd(8).", agent_keys },
	{ "slurm", "What raser launch asks of Slurm.", slurm_keys },
	{ "limits", "What a run under Slurm may take.", limits_keys },
	{ "accept", "Figures that were agreed, for raser bench makespan --accept.", accept_keys },
};

const struct key tier_keys[] = {
	{ "memory", KIND_SIZE, TIER(memory), .comment =
	  "memory an attempt may use (K, M, G, T); 0 = no limit" },
	{ "failures", KIND_FAILURES, TIER(failures), .comment =
	  "takes tasks with at most so many failures, or all" },
	{ "elevated_first", KIND_BOOL, TIER(elevated_first), .comment =
	  "yes: tasks that lower tiers may not take come first" },
	{ "ladder", KIND_BOOL, TIER(ladder), .optional = true, .comment =
	  "no: apart from the others; takes the tasks that name it and nothing else" },
	{ "cpus", KIND_COUNT, TIER(cpus), .least = 1, .most = 65535, .optional = true, .comment =
	  "CPUs that raser launch asks for, an agent" },
	{ "sbatch", KIND_TEXT, TIER(sbatch), .most = sizeof(((struct tier *)NULL)->sbatch),
	  .optional = true, .comment = "more options for sbatch, quoted as for a shell" },
	END
};
_Static_assert(sizeof(tier_keys) / sizeof(tier_keys[0]) == TIER_KEYS + 1, "default_tiers has them all");

/* The tiers of the RASER paper. */
const struct default_tier default_tiers[DEFAULT_TIERS] = {
	{ "low", { "1G", "0", "no", "yes", "1", "" } },
	{ "medium", { "2G", "1", "no", "yes", "1", "" } },
	{ "high", { "4G", "all", "yes", "yes", "1", "" } },
};

int
section_find(const char *name)
{
	for (int i = 0; i < SECTIONS; i++)
		if (!strcmp(conf_sections[i].name, name))
			return i;
	return -1;
}

int
key_find(const struct key *keys, const char *name)
{
	for (int i = 0; keys[i].name; i++)
		if (!strcmp(keys[i].name, name))
			return i;
	return -1;
}

bool
parse_size(const char *text, int64_t *bytes)
{
	static const char units[] = "KMGT";
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	double v = strtod(text, &end);
	if (*end) {
		const char *u = strchr(units, toupper((unsigned char)*end));

		if (!u || (end[1] && strcasecmp(end + 1, "B") != 0 && strcasecmp(end + 1, "iB") != 0))
			return false;
		v = ldexp(v, 10 * (int)(u - units + 1));
	}
	if (errno || !(v >= 0) || v >= 9e18)
		return false;
	*bytes = (int64_t)v;
	return true;
}

/* Words for a message. Only a file that is being read has errors, one at a time. */
static char expected[128];

static const char *
one_of(const char *choices)
{
	snprintf(expected, sizeof(expected), "one of %s", choices);
	expected[strlen(expected) - 1] = '\0';
	return expected;
}

static const char *
store_seconds(const struct key *key, void *field, const char *value)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end || !(v * 1000 >= (double)key->least) || v > 1e9)
		return key->least ? "a number of seconds, at least 0.6" : "a number of seconds";
	*(int64_t *)field = (int64_t)llround(v * 1000);
	return NULL;
}

static const char *
store_count(const struct key *key, void *field, const char *value)
{
	int64_t most = key->most ? key->most : 999;
	char *end;
	long long v = strtoll(value, &end, 10);

	if (end == value || *end || v < key->least || v > most) {
		snprintf(expected, sizeof(expected), "a whole number from %lld to %lld",
			 (long long)key->least, (long long)most);
		return expected;
	}
	*(int64_t *)field = v;
	return NULL;
}

static const char *
store_real(const struct key *key, void *field, const char *value)
{
	char *end;
	double v = strtod(value, &end);

	if (!*value && !*key->value)
		v = NAN;
	else if (end == value || *end || !(v >= 0) || v > 1e9)
		return "a number";
	*(double *)field = v;
	return NULL;
}

/* As sbatch takes them: a date alone is its first moment. */
static const char *
store_time(const struct key *key, void *field, const char *value)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
					     "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S" };

	(void)key;
	*(int64_t *)field = 0;
	if (!*value)
		return NULL;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(value, forms[i], &tm);
		struct tm given = tm;
		time_t at = end && !*end ? mktime(&tm) : -1;

		/* mktime() takes the 31st of February for some day in March */
		if (at > 0 && tm.tm_mday == given.tm_mday) {
			*(int64_t *)field = at;
			return NULL;
		}
	}
	return "a local date or time such as 2027-03-31 or 2027-03-31T18:00";
}

static const char *
store_failures(void *field, const char *value)
{
	char *end;

	if (!strcmp(value, "all")) {
		*(int *)field = FAILURES_ALL;
		return NULL;
	}
	long v = strtol(value, &end, 10);
	if (end == value || *end || v < 0 || v > 999)
		return "a number of failures, or all";
	*(int *)field = (int)v;
	return NULL;
}

static const char *
store_text(const struct key *key, char *field, const char *value)
{
	size_t n = strlen(field);

	if (strstr(value, " = "))
		return "without \" = \": an indented line goes on with the one before it";
	if (n + strlen(value) + 2 > (size_t)key->most)
		return "shorter";
	snprintf(field + n, (size_t)key->most - n, "%s%s", n && *value ? " " : "", value);
	return NULL;
}

static const char *
store_choice(const struct key *key, char *field, const char *value)
{
	const char *found = *value && !strchr(value, ' ') ? strstr(key->choices, value) : NULL;

	if (!found || found[strlen(value)] != ' ' || (found > key->choices && found[-1] != ' '))
		return one_of(key->choices);
	snprintf(field, (size_t)key->most, "%s", value);
	return NULL;
}

const char *
key_store(const struct key *key, void *base, const char *value)
{
	void *field = (char *)base + key->offset;

	switch (key->kind) {
	case KIND_SECONDS:
		return store_seconds(key, field, value);
	case KIND_COUNT:
		return store_count(key, field, value);
	case KIND_SIZE:
		return parse_size(value, field) ? NULL : "a size such as 512M or 4G";
	case KIND_REAL:
		return store_real(key, field, value);
	case KIND_TIME:
		return store_time(key, field, value);
	case KIND_FAILURES:
		return store_failures(field, value);
	case KIND_BOOL:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return "yes or no";
		*(bool *)field = !strcmp(value, "yes");
		return NULL;
	case KIND_TEXT:
		return store_text(key, field, value);
	case KIND_CHOICE:
		return store_choice(key, field, value);
	}
	return "something else";
}
