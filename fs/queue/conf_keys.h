/*
 * conf_keys.h - what raser.ini and site.ini may say: one table of keys for each section.
 *
 * Internal to conf.c (which reads), keys.c (which owns the tables and every default), site.c
 * (which lays a run over its site) and template.c.
 */
#ifndef RASER_CONF_KEYS_H
#define RASER_CONF_KEYS_H

#include "conf.h"

enum kind {
	KIND_SECONDS, /* int64_t milliseconds */
	KIND_COUNT,   /* int64_t */
	KIND_SIZE,    /* int64_t bytes */
	KIND_REAL,    /* double; empty, where that is the default, is NAN */
	KIND_TIME,    /* int64_t seconds since 1970, of a local date; empty is 0 */
	KIND_FAILURES,
	KIND_BOOL,
	KIND_TEXT,
	KIND_CHOICE,
};

/* How a run may differ from its site. */
enum rule {
	RULE_FREE,   /* the run's value counts */
	RULE_LOWER,  /* the lower one does */
	RULE_LIMIT,  /* the lower one does, 0 is none and the highest */
	RULE_NO,     /* no does */
	RULE_BOX,    /* the stricter sandbox does */
};

struct key {
	const char *name;
	enum kind kind;
	enum rule rule;
	size_t offset;
	int64_t least, most; /* KIND_SECONDS: ms; KIND_COUNT: 0 = 999 at most; texts: most = size of the field */
	const char *value; /* default; of a tier: in default_tiers */
	const char *comment;
	const char *choices; /* KIND_CHOICE: words, each with a blank behind it */
	bool optional; /* `raser init` writes it as a comment, for the site to set */
};

/* Sections other than [tier NAME], whose fields lie in struct conf. */
enum { SECTIONS = 5 };
struct section {
	const char *name, *about;
	const struct key *keys; /* up to one without a name */
};
extern const struct section conf_sections[SECTIONS];
extern const struct key tier_keys[];

/* Words that struct tier starts from. */
enum { TIER_KEYS = 6, DEFAULT_TIERS = 3 };
struct default_tier {
	const char *name;
	const char *values[TIER_KEYS]; /* in the order of tier_keys */
};
extern const struct default_tier default_tiers[DEFAULT_TIERS];

/* The section's place in conf_sections, or -1. */
int
section_find(const char *name);
/* The key's place in keys, or -1. */
int
key_find(const struct key *keys, const char *name);

/* Store value into the field of base that key describes; a text is put behind what is there.
 * NULL, or what was expected, in words that are good until the next call. */
const char *
key_store(const struct key *key, void *base, const char *value);

/* One file that is being read: what it sets, bit by key. */
struct layer {
	struct conf *conf;
	const struct conf *under; /* whose tiers give the values that a tier begins with; or NULL */
	uint64_t set[SECTIONS], tier_set[TIERS_MAX];
	struct err why; /* of the first bad line */
};

/* Read text, the contents of a file that people know as name, over what conf has. 0, or -EINVAL
 * or -ENOMEM and a sentence with the file and the line. */
int
layer_read(struct layer *layer, const char *name, const char *text, struct err *err);

/* Read site.ini into layer, whose conf has the defaults. 0 also when there is none, or an errno
 * and a sentence. */
int
site_read(struct layer *layer, struct err *err);

/* The run's values in conf, held to those that site has set; what was held is noted in conf. */
void
site_hold(struct conf *conf, const struct layer *site);

#endif
