/*
 * conf.c - raser.ini through inih, from one table of keys. Owns every default.
 */
#include <config.h>

#include "conf.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_SECONDS, KIND_COUNT, KIND_SIZE, KIND_FAILURES, KIND_BOOL, KIND_TEXT, KIND_CHOICE,
	    KIND_BIG };

struct key {
	const char *name;
	enum kind kind;
	size_t offset;
	int64_t least; /* KIND_SECONDS: in milliseconds; KIND_TEXT, KIND_CHOICE: size of the field */
	const char *value; /* default */
	const char *comment;
	const char *choices; /* KIND_CHOICE: words, each with a blank behind it */
};

/* [run] */
static const struct key run_keys[] = {
	{ "steal_after", KIND_SECONDS, offsetof(struct conf, steal_after_ms), 600, "180",
	  "seconds of silence after which a claim may be stolen", NULL },
	{ "max_failures", KIND_COUNT, offsetof(struct conf, max_failures), 0, "5",
	  "failures after which a task is failed; 0 = never give up", NULL },
	{ "max_losses", KIND_COUNT, offsetof(struct conf, max_losses), 1, "10",
	  "losses in a row (dead or silent agents and nodes) after which a task is failed", NULL },
	{ "retry_delay", KIND_SECONDS, offsetof(struct conf, retry_delay_ms), 0, "30",
	  "seconds before a task that could not be tried (exit 75) is offered again; grows", NULL },
	{ "grace", KIND_SECONDS, offsetof(struct conf, grace_ms), 0, "25",
	  "seconds from SIGTERM to an agent until its task is given back, checkpoint included", NULL },
	{ "receipts", KIND_SECONDS, offsetof(struct conf, receipts_ms), 0, "600",
	  "seconds for which new/ shows what became of a submission", NULL },
	{ "wedged_after", KIND_SECONDS, offsetof(struct conf, wedged_after_ms), 0, "30",
	  "seconds after which a raserfs that does not serve is replaced, at least 2; 0 = never", NULL },
	{ "force", KIND_BOOL, offsetof(struct conf, force), 0, "no",
	  "yes: mount on storage that raser doctor fails but for insistence (a soft NFS mount)", NULL },
	{ NULL, KIND_COUNT, 0, 0, NULL, NULL, NULL } /* end of table */
};

#define AGENT(field) offsetof(struct conf, agent.field)
#define TEXT(field) offsetof(struct conf, agent.field), sizeof(((struct conf *)NULL)->agent.field)

/* [agent] */
static const struct key agent_keys[] = {
	{ "plugin", KIND_TEXT, TEXT(plugin), "",
	  "the program with get_tasks and run_task, and its arguments, quoted as for a shell", NULL },
	{ "sandbox", KIND_CHOICE, TEXT(sandbox), "auto",
	  "auto (bwrap where it works, else none), none, bwrap, apptainer, gvisor",
	  "auto none bwrap apptainer gvisor " },
	{ "image", KIND_TEXT, TEXT(image), "",
	  "what a sandbox has for a root: a folder or an image; empty = this system's folders", NULL },
	{ "network", KIND_BOOL, AGENT(network), 0, "no", "yes: agents in sandboxes have the network",
	  NULL },
	{ "mount", KIND_BOOL, AGENT(mount), 0, "no", "yes: agents in sandboxes see the queue", NULL },
	{ "env", KIND_TEXT, TEXT(env), "", "environment variables that sandboxes let in, by name", NULL },
	{ "bind", KIND_TEXT, TEXT(bind), "",
	  "what else sandboxes show: PATH, PATH:DESTINATION, PATH:rw, PATH:DESTINATION:rw", NULL },
	{ "time_limit", KIND_SECONDS, AGENT(time_limit_ms), 0, "0",
	  "seconds that an attempt may take; 0 = any", NULL },
	{ "hang_after", KIND_SECONDS, AGENT(hang_after_ms), 0, "1800",
	  "seconds without CPU time, I/O or output after which an agent is hung; 0 = never", NULL },
	{ "progress_after", KIND_SECONDS, AGENT(progress_after_ms), 0, "0",
	  "seconds without reported progress after which an agent is looping; 0 = never", NULL },
	{ "max_steps", KIND_BIG, AGENT(max_steps), 0, "0",
	  "reported steps after which an agent is looping; 0 = any number", NULL },
	{ "checkpoint_every", KIND_SECONDS, AGENT(checkpoint_every_ms), 0, "300",
	  "seconds between checkpoints of a working agent; 0 = only when it is stopped", NULL },
	{ "checkpoint_limit", KIND_SIZE, AGENT(checkpoint_limit), 0, "20G",
	  "a workspace with more data is not checkpointed; 0 = any", NULL },
	{ "checkpoint_format", KIND_CHOICE, TEXT(checkpoint_format), "zstd", "zstd or gzip",
	  "zstd gzip " },
	{ "memory_by", KIND_CHOICE, TEXT(memory_by), "auto",
	  "how a tier's memory is limited: cgroup, poll, or auto (cgroup where it works)",
	  "auto cgroup poll " },
	{ "oom_done", KIND_BOOL, AGENT(oom_done), 0, "no",
	  "yes: exit status 0 is done even if the kernel killed a process of the agent for memory", NULL },
	{ NULL, KIND_COUNT, 0, 0, NULL, NULL, NULL } /* end of table */
};

/* [tier NAME] */
static const struct key tier_keys[] = {
	{ "memory", KIND_SIZE, offsetof(struct tier, memory), 0, NULL,
	  "memory an attempt may use (K, M, G, T); 0 = no limit", NULL },
	{ "failures", KIND_FAILURES, offsetof(struct tier, failures), 0, NULL,
	  "takes tasks with at most so many failures, or all", NULL },
	{ "elevated_first", KIND_BOOL, offsetof(struct tier, elevated_first), 0, NULL,
	  "yes: tasks that lower tiers may not take come first", NULL },
	{ NULL, KIND_COUNT, 0, 0, NULL, NULL, NULL } /* end of table */
};

/* The tiers of the RASER paper. Values in the order of tier_keys. */
static const struct {
	const char *name;
	const char *values[3];
} default_tiers[] = {
	{ "low", { "1G", "0", "no" } },
	{ "medium", { "2G", "1", "no" } },
	{ "high", { "4G", "all", "yes" } },
};

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

/* Words for a message. */
static const char *
one_of(const char *choices)
{
	static char text[96]; /* only a file that is being read has errors, one at a time */

	snprintf(text, sizeof(text), "one of %s", choices);
	text[strlen(text) - 1] = '\0';
	return text;
}

/* Store value into the field of base that key describes. NULL, or what was expected. */
static const char *
store(const struct key *key, void *base, const char *value)
{
	void *field = (char *)base + key->offset;
	char *end;

	switch (key->kind) {
	case KIND_SECONDS: {
		double v = strtod(value, &end);

		if (end == value || *end || !(v * 1000 >= (double)key->least) || v > 1e9)
			return key->least ? "a number of seconds, at least 0.6" : "a number of seconds";
		*(int64_t *)field = (int64_t)llround(v * 1000);
		return NULL;
	}
	case KIND_COUNT: {
		long long v = strtoll(value, &end, 10);

		if (end == value || *end || v < key->least || v > 999)
			return "a whole number up to 999";
		*(int64_t *)field = v;
		return NULL;
	}
	case KIND_SIZE:
		return parse_size(value, field) ? NULL : "a size such as 512M or 4G";
	case KIND_FAILURES: {
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
	case KIND_BIG: {
		long long v = strtoll(value, &end, 10);

		if (end == value || *end || v < key->least || v > 1000000000)
			return "a whole number";
		*(int64_t *)field = v;
		return NULL;
	}
	case KIND_TEXT: {
		/* a line that goes on, or a second one, adds to the first */
		size_t n = strlen(field);
		char *text = field;

		if (strstr(value, " = "))
			return "without \" = \": an indented line goes on with the one before it";
		if (n + strlen(value) + 2 > (size_t)key->least)
			return "shorter";
		snprintf(text + n, (size_t)key->least - n, "%s%s", n && *value ? " " : "", value);
		return NULL;
	}
	case KIND_CHOICE: {
		const char *found = *value && !strchr(value, ' ') ? strstr(key->choices, value) : NULL;

		if (!found || found[strlen(value)] != ' ' || (found > key->choices && found[-1] != ' '))
			return one_of(key->choices);
		snprintf(field, (size_t)key->least, "%s", value);
		return NULL;
	}
	case KIND_BOOL:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return "yes or no";
		*(bool *)field = !strcmp(value, "yes");
		return NULL;
	}
	return "something else";
}

struct parse {
	struct conf *conf;
	struct err why; /* of the first bad line */
};

static const struct key *
find_key(const struct key *keys, const char *name)
{
	for (; keys->name; keys++)
		if (!strcmp(keys->name, name))
			return keys;
	return NULL;
}

/* The tier of that name, made when it is new. NULL when there are too many or it is no name. */
static struct tier *
tier_slot(struct conf *conf, const char *name)
{
	int i = conf_tier(conf, name);

	if (i >= 0)
		return &conf->tiers[i];
	if (conf->ntiers == TIERS_MAX || !*name || strlen(name) >= TIER_NAME || *name == '.' ||
	    strpbrk(name, "/@% \t"))
		return NULL;
	struct tier *t = &conf->tiers[conf->ntiers++];
	*t = (struct tier){ .failures = FAILURES_ALL };
	snprintf(t->name, sizeof(t->name), "%s", name);
	return t;
}

static int
bad(struct parse *p, const char *fmt, const char *a, const char *b)
{
	if (!p->why.text[0]) {
/* fmt is one of the literals below */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(p->why.text, sizeof(p->why.text), fmt, a, b);
#pragma GCC diagnostic pop
	}
	return 0; /* inih: an error on this line */
}

static int
handle(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	const struct key *key;
	void *base;

	if (!strcmp(section, "run")) {
		key = find_key(run_keys, name);
		base = p->conf;
	} else if (!strcmp(section, "agent")) {
		key = find_key(agent_keys, name);
		base = p->conf;
	} else if (!strncmp(section, "tier ", 5)) {
		key = find_key(tier_keys, name);
		base = tier_slot(p->conf, section + 5);
		if (!base)
			return bad(p, "[%s]: not a tier's name, or too many tiers%s", section, "");
	} else {
		return bad(p, "no section [%s]%s", section, "");
	}
	if (!key)
		return bad(p, "[%s] has no key %s", section, name);
	const char *expected = store(key, base, value);
	return expected ? bad(p, "%s must be %s", name, expected) : 1;
}

/* A [tier NAME] without a key never reaches handle(); leaving it out in silence would be wrong. */
static bool
lost_tier(const struct conf *conf, const char *text, struct err *err)
{
	char name[TIER_NAME];

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (sscanf(p, " [tier %31[^]\n]]", name) == 1 && conf_tier(conf, name) < 0) {
			err_set(err, -EINVAL, "raser.ini: [tier %s] has no keys", name);
			return true;
		}
	return false;
}

int
conf_parse(struct conf *conf, const char *text, struct err *err)
{
	struct parse p = { .conf = conf };

	*conf = (struct conf){ 0 };
	for (const struct key *k = run_keys; k->name; k++)
		store(k, conf, k->value);
	for (const struct key *k = agent_keys; k->name; k++)
		store(k, conf, k->value);
	int line = ini_parse_string(text, handle, &p);
	if (line > 0)
		return err_set(err, -EINVAL, "raser.ini line %d: %s", line,
			       p.why.text[0] ? p.why.text : "not key = value, or too long");
	if (line < 0)
		return err_set(err, -ENOMEM, "raser.ini: out of memory");
	if (lost_tier(conf, text, err))
		return -EINVAL;
	/* a loop turns a few times a second, and a busy machine may be late */
	if (conf->wedged_after_ms && conf->wedged_after_ms < 2000)
		return err_set(err, -EINVAL, "raser.ini: wedged_after must be 0 or at least 2 seconds");
	if (!conf->ntiers)
		return err_set(err, -EINVAL, "raser.ini: it names no [tier NAME]");
	if (conf->tiers[conf->ntiers - 1].failures != FAILURES_ALL)
		return err_set(err, -EINVAL,
			       "raser.ini: the last tier, %s, must have failures = all, or tasks "
			       "that failed more often would wait for ever",
			       conf->tiers[conf->ntiers - 1].name);
	return 0;
}

int
conf_load(struct conf *conf, const char *run, struct err *err)
{
	char path[PATH_MAX + 16];
	char *text = malloc(INI_LIMIT);

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s/raser.ini", run);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, INI_LIMIT - 1, f) : 0;
	int rc = !f || ferror(f) ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : 0;
	if (f)
		fclose(f);
	text[n] = '\0';
	if (!rc)
		rc = conf_parse(conf, text, err);
	free(text);
	return rc;
}

char *
conf_template_force(const char *plugin, bool force)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs("; raser.ini - one run's configuration, see raser.ini(5). Daemons read it when they "
	      "start.\n\n[run]\n", f);
	for (const struct key *k = run_keys; k->name; k++)
		fprintf(f, "; %s\n%s = %s\n", k->comment, k->name,
			!strcmp(k->name, "force") && force ? "yes" : k->value);
	fputs("\n; What runs an agent and how, see raser-agentd(8).\n\n[agent]\n", f);
	for (const struct key *k = agent_keys; k->name; k++)
		fprintf(f, "; %s\n%s = %s\n", k->comment, k->name,
			!strcmp(k->name, "plugin") ? plugin : k->value);
	fputs("\n; Tiers from the lowest to the highest. A task that fails moves up to the first "
	      "tier that\n; takes tasks with so many failures.\n", f);
	for (size_t i = 0; i < sizeof(default_tiers) / sizeof(default_tiers[0]); i++) {
		fprintf(f, "\n[tier %s]\n", default_tiers[i].name);
		for (size_t k = 0; tier_keys[k].name; k++)
			fprintf(f, "; %s\n%s = %s\n", tier_keys[k].comment, tier_keys[k].name,
				default_tiers[i].values[k]);
	}
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *
conf_template(const char *plugin)
{
	return conf_template_force(plugin, false);
}

int
conf_tier(const struct conf *conf, const char *name)
{
	for (int i = 0; i < conf->ntiers; i++)
		if (!strcmp(conf->tiers[i].name, name))
			return i;
	return -1;
}

int
conf_level(const struct conf *conf, int level, int failures)
{
	if (level < 0)
		level = 0;
	while (level < conf->ntiers - 1 && conf->tiers[level].failures != FAILURES_ALL &&
	       conf->tiers[level].failures < failures)
		level++;
	return level < conf->ntiers ? level : conf->ntiers - 1;
}

int
conf_level_for_memory(const struct conf *conf, int64_t bytes)
{
	for (int i = 0; i < conf->ntiers; i++)
		if (conf->tiers[i].memory == 0 || conf->tiers[i].memory >= bytes)
			return i;
	return -1;
}
