/*
 * conf.c - raser.ini through inih, over what the site says; levels and tiers. The keys are in
 * keys.c.
 */
#include <config.h>

#include "conf_keys.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tier of that name, made when it is new. NULL when there are too many or it is no name. */
static struct tier *
tier_slot(struct layer *layer, const char *name)
{
	struct conf *conf = layer->conf;
	int i = conf_tier(conf, name);

	if (i >= 0)
		return &conf->tiers[i];
	if (conf->ntiers == TIERS_MAX || !*name || strlen(name) >= TIER_NAME || *name == '.' ||
	    strpbrk(name, "/@% \t"))
		return NULL;
	struct tier *t = &conf->tiers[conf->ntiers++];
	i = layer->under ? conf_tier(layer->under, name) : -1;
	if (i >= 0)
		*t = layer->under->tiers[i];
	else
		*t = (struct tier){ .failures = FAILURES_ALL, .ladder = true, .cpus = 1 };
	snprintf(t->name, sizeof(t->name), "%s", name);
	return t;
}

static int
bad(struct layer *p, const char *fmt, const char *a, const char *b)
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
	struct layer *p = user;
	int s = section_find(section);
	const struct key *keys;
	uint64_t *set;
	void *base;

	if (s >= 0) {
		keys = conf_sections[s].keys;
		base = p->conf;
		set = &p->set[s];
	} else if (!strncmp(section, "tier ", 5)) {
		struct tier *t = tier_slot(p, section + 5);

		if (!t)
			return bad(p, "[%s]: not a tier's name, or too many tiers%s", section, "");
		keys = tier_keys;
		base = t;
		set = &p->tier_set[t - p->conf->tiers];
	} else {
		return bad(p, "no section [%s]%s", section, "");
	}
	int k = key_find(keys, name);
	if (k < 0)
		return bad(p, "[%s] has no key %s", section, name);
	/* a text adds to what its own file has said, not to the site's */
	if (keys[k].kind == KIND_TEXT && !(*set & 1ULL << k))
		*((char *)base + keys[k].offset) = '\0';
	*set |= 1ULL << k;
	const char *expected = key_store(&keys[k], base, value);
	return expected ? bad(p, "%s must be %s", name, expected) : 1;
}

/* A [tier NAME] without a key never reaches handle(); leaving it out in silence would be wrong. */
static bool
lost_tier(const struct conf *conf, const char *file, const char *text, struct err *err)
{
	char name[TIER_NAME];

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (sscanf(p, " [tier %31[^]\n]]", name) == 1 && conf_tier(conf, name) < 0) {
			err_set(err, -EINVAL, "%s: [tier %s] has no keys", file, name);
			return true;
		}
	return false;
}

int
layer_read(struct layer *layer, const char *name, const char *text, struct err *err)
{
	int line = ini_parse_string(text, handle, layer);

	if (line > 0)
		return err_set(err, -EINVAL, "%s line %d: %s", name, line,
			       layer->why.text[0] ? layer->why.text : "not key = value, or too long");
	if (line < 0)
		return err_set(err, -ENOMEM, "%s: out of memory", name);
	return lost_tier(layer->conf, name, text, err) ? -EINVAL : 0;
}

/* The highest tier of the ladder, or -1. */
static int
ladder_top(const struct conf *conf)
{
	int i = conf->ntiers - 1;

	while (i >= 0 && !conf->tiers[i].ladder)
		i--;
	return i;
}

/* What no single line can be blamed for. */
static int
check(const struct conf *conf, struct err *err)
{
	int top = ladder_top(conf);

	/* a loop turns a few times a second, and a busy machine may be late */
	if (conf->wedged_after_ms && conf->wedged_after_ms < 2000)
		return err_set(err, -EINVAL, "raser.ini: wedged_after must be 0 or at least 2 seconds");
	if (!conf->ntiers)
		return err_set(err, -EINVAL, "raser.ini: it names no [tier NAME]");
	if (top < 0)
		return err_set(err, -EINVAL,
			       "raser.ini: every tier has ladder = no: tasks that name no tier would "
			       "wait for ever");
	if (conf->tiers[top].failures != FAILURES_ALL)
		return err_set(err, -EINVAL,
			       "raser.ini: the last tier%s, %s, must have failures = all, or tasks "
			       "that failed more often would wait for ever",
			       top == conf->ntiers - 1 ? "" : " of the ladder", conf->tiers[top].name);
	return 0;
}

int
conf_parse(struct conf *conf, const char *text, struct err *err)
{
	struct layer site = { .conf = calloc(1, sizeof(*conf)) };
	struct layer run = { .conf = conf, .under = site.conf };

	if (!site.conf)
		return err_set(err, -ENOMEM, "out of memory");
	for (int s = 0; s < SECTIONS; s++)
		for (const struct key *k = conf_sections[s].keys; k->name; k++)
			key_store(k, site.conf, k->value);
	int rc = site_read(&site, err);
	*conf = *site.conf;
	/* the tiers that there are, and their order, are the run's */
	memset(conf->tiers, 0, sizeof(conf->tiers));
	conf->ntiers = 0;
	if (!rc)
		rc = layer_read(&run, "raser.ini", text, err);
	if (!rc)
		site_hold(conf, &site);
	free(site.conf);
	return rc ? rc : check(conf, err);
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
	int top = ladder_top(conf);

	if (level < 0)
		level = 0;
	if (level >= conf->ntiers) /* raser.ini has lost a tier */
		return top;
	if (!conf->tiers[level].ladder)
		return level;
	while (level < top && (!conf->tiers[level].ladder ||
			       (conf->tiers[level].failures != FAILURES_ALL &&
				conf->tiers[level].failures < failures)))
		level++;
	return level;
}

int
conf_level_for_memory(const struct conf *conf, int64_t bytes)
{
	for (int i = 0; i < conf->ntiers; i++)
		if (conf->tiers[i].ladder && conf_has_memory(conf, i, bytes))
			return i;
	return -1;
}

int
conf_first(const struct conf *conf)
{
	int i = 0;

	while (i < conf->ntiers - 1 && !conf->tiers[i].ladder)
		i++;
	return i;
}

bool
conf_has_memory(const struct conf *conf, int tier, int64_t bytes)
{
	return conf->tiers[tier].memory == 0 || conf->tiers[tier].memory >= bytes;
}

int
conf_base(const struct conf *conf, const char *tier, int64_t memory)
{
	int by_tier = *tier ? conf_tier(conf, tier) : conf_first(conf);
	int by_memory = memory ? conf_level_for_memory(conf, memory) : 0;

	if (by_tier < 0 || by_memory < 0)
		return by_tier >= 0 && !conf->tiers[by_tier].ladder ? by_tier : ladder_top(conf);
	return by_tier > by_memory || !conf->tiers[by_tier].ladder ? by_tier : by_memory;
}

bool
conf_takes(const struct conf *conf, int tier, int level)
{
	return conf->tiers[tier].ladder ? level <= tier && conf->tiers[level].ladder : level == tier;
}

uint32_t
conf_levels(const struct conf *conf, int tier)
{
	uint32_t levels = 0;

	for (int i = 0; i <= tier; i++)
		levels |= (uint32_t)conf_takes(conf, tier, i) << i;
	return levels;
}

uint32_t
conf_lane(const struct conf *conf, int tier)
{
	return conf->tiers[tier].ladder ? conf_levels(conf, ladder_top(conf)) : 1U << tier;
}
