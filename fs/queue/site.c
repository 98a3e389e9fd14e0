/*
 * site.c - site.ini: what the people of a cluster set for every run on it. Its values are the
 * defaults of a run's raser.ini, which may tighten some of them and loosen none.
 *
 * It is cooperation, no security: whoever can run a daemon can also run another one.
 */
#include <config.h>

#include "conf_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
site_path(void)
{
	const char *named = getenv("RASER_SITE_INI");

	return named ? named : SYSCONFDIR "/raser/site.ini";
}

int
site_read(struct layer *layer, struct err *err)
{
	const char *path = site_path();

	if (!*path)
		return 0;
	char *text = malloc(INI_LIMIT);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	FILE *f = fopen(path, "re");
	if (!f && errno == ENOENT && !getenv("RASER_SITE_INI")) {
		free(text);
		return 0;
	}
	size_t n = f ? fread(text, 1, INI_LIMIT - 1, f) : 0;
	/* a limit that nobody could read must not look like none */
	int rc = !f || ferror(f) ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : 0;
	if (f)
		fclose(f);
	text[n] = '\0';
	if (!rc)
		rc = layer_read(layer, path, text, err);
	free(text);
	return rc;
}

static int
strictness(const char *sandbox)
{
	static const struct {
		const char *name;
		int rank;
	} ranks[] = { { "none", 0 }, { "auto", 1 }, { "bwrap", 2 }, { "apptainer", 2 }, { "gvisor", 3 } };

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		if (!strcmp(ranks[i].name, sandbox))
			return ranks[i].rank;
	return 0;
}

static double
number(const struct key *key, const void *field)
{
	return key->kind == KIND_REAL ? *(const double *)field : (double)*(const int64_t *)field;
}

/* The run's value asks for more than the site's allows. */
static bool
is_looser(const struct key *key, const void *run, const void *site)
{
	switch (key->rule) {
	case RULE_FREE:
		break;
	case RULE_LOWER:
		return number(key, run) > number(key, site);
	case RULE_LIMIT:
		/* 0 is none, and the only value that is not above it */
		return number(key, site) > 0 &&
		       !(number(key, run) > 0 && number(key, run) <= number(key, site));
	case RULE_NO:
		return *(const bool *)run && !*(const bool *)site;
	case RULE_BOX:
		return strictness(run) < strictness(site);
	}
	return false;
}

static size_t
field_size(const struct key *key)
{
	return key->kind == KIND_BOOL ? sizeof(bool) : key->kind == KIND_CHOICE ? (size_t)key->most : 8;
}

static void
note(struct conf *conf, const char *section, const char *key)
{
	size_t n = strlen(conf->clamped);

	snprintf(conf->clamped + n, sizeof(conf->clamped) - n, "%s[%s] %s", n ? ", " : "", section, key);
}

const char *
conf_sandbox(const struct conf *conf, const char *asked)
{
	return strictness(asked) < strictness(conf->site_sandbox) ? conf->site_sandbox : asked;
}

bool
conf_network(const struct conf *conf, bool asked)
{
	return asked && !conf->site_no_network;
}

/* The site has set that field of the agents' section. */
static bool
sets_agent(const struct layer *site, const char *name)
{
	int s = section_find("agent");

	return site->set[s] & 1ULL << key_find(conf_sections[s].keys, name);
}

void
site_hold(struct conf *conf, const struct layer *site)
{
	struct conf defaults = { 0 };

	if (sets_agent(site, "sandbox"))
		snprintf(conf->site_sandbox, sizeof(conf->site_sandbox), "%s", site->conf->agent.sandbox);
	conf->site_no_network = sets_agent(site, "network") && !site->conf->agent.network;

	for (int s = 0; s < SECTIONS; s++)
		for (int k = 0; conf_sections[s].keys[k].name; k++) {
			const struct key *key = &conf_sections[s].keys[k];
			char *run = (char *)conf + key->offset;
			const char *own = (const char *)site->conf + key->offset;

			if (!(site->set[s] & 1ULL << k) || !is_looser(key, run, own))
				continue;
			key_store(key, &defaults, key->value);
			/* raser init has written the default: nobody has asked for it */
			if (memcmp(run, (char *)&defaults + key->offset,
				   key->kind == KIND_CHOICE ? strlen(run) + 1 : field_size(key)) != 0)
				note(conf, conf_sections[s].name, key->name);
			memcpy(run, own, field_size(key));
		}
}
