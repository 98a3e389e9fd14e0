/*
 * template.c - the raser.ini that `raser init` writes.
 */
#include <config.h>

#include "conf_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key that its site sets is left to it. */
static void
write_key(FILE *f, const struct key *key, const char *value, bool by_site)
{
	fprintf(f, "; %s%s\n%s%s = %s\n", key->comment, by_site ? " (site.ini sets it)" : "",
		key->optional || by_site ? ";" : "", key->name, value);
}

char *
conf_template_force(const char *plugin, bool force)
{
	struct layer site = { .conf = calloc(1, sizeof(struct conf)) };
	char *text = NULL;
	size_t size = 0;
	FILE *f = site.conf ? open_memstream(&text, &size) : NULL;

	/* conf_parse() tells of a bad one */
	if (f && site_read(&site, NULL))
		memset(site.set, 0, sizeof(site.set));
	free(site.conf);
	if (!f)
		return NULL;
	fputs("; raser.ini - one run's configuration, see raser.ini(5). Daemons read it when they "
	      "start.\n", f);
	for (int s = 0; s < SECTIONS; s++) {
		const struct section *at = &conf_sections[s];

		if (at->about)
			fprintf(f, "\n; %s\n", at->about);
		fprintf(f, "\n[%s]\n", at->name);
		for (int k = 0; at->keys[k].name; k++) {
			const struct key *key = &at->keys[k];
			bool given = (!strcmp(key->name, "plugin") && *plugin) ||
				     (!strcmp(key->name, "force") && force);

			write_key(f, key, !given ? key->value : key->kind == KIND_BOOL ? "yes" : plugin,
				  !given && site.set[s] & 1ULL << k);
		}
	}
	fputs("\n; Tiers from the lowest to the highest. A task that fails moves up to the first "
	      "tier that\n; takes tasks with so many failures.\n", f);
	for (int i = 0; i < DEFAULT_TIERS; i++) {
		fprintf(f, "\n[tier %s]\n", default_tiers[i].name);
		for (int k = 0; k < TIER_KEYS; k++)
			write_key(f, &tier_keys[k], default_tiers[i].values[k], false);
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
