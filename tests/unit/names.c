/*
 * names.c - ids <-> file names, sizes, and raser.ini.
 */
#include <config.h>

#include "conf.h"
#include "names.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Encode, compare with the name expected, decode, compare with the id. */
static void
check_id(const char *id, size_t len, const char *name)
{
	char out[NAME_LIMIT + 1];
	char back[NAME_LIMIT + 1];
	int rc = name_encode(id, len, out);

	ok(rc == 0 && !strcmp(out, name), "%s is encoded", name);
	ok(name_decode(out, back) == (int)len && !memcmp(back, id, len), "%s is decoded", name);
}

static void
ids(void)
{
	char out[NAME_LIMIT + 1];
	char longest[NAME_LIMIT + 2];
	unsigned k = 0;
	size_t len = 0;

	check_id("astropy__astropy-14182", 22, "astropy__astropy-14182");
	check_id("HumanEval/0", 11, "HumanEval%2F0");
	check_id("a b'\"[]|:!", 10, "a b'\"[]|:!");
	check_id("x@1", 3, "x%401");
	check_id(".hidden", 7, "%2Ehidden");
	check_id("..", 2, "%2E.");
	check_id("100%", 4, "100%25");
	check_id("a\0b\n\x7f", 5, "a%00b%0A%7F");
	check_id("\xc3\xa9", 2, "\xc3\xa9");

	memset(longest, 'x', sizeof(longest));
	ok(name_encode(longest, NAME_LIMIT, out) == 0, "230 bytes fit");
	ok(name_encode(longest, NAME_LIMIT + 1, out) == -ENAMETOOLONG, "231 do not");
	memset(longest, '/', sizeof(longest));
	ok(name_encode(longest, 77, out) == -ENAMETOOLONG, "77 slashes are 231 bytes");
	ok(name_encode("", 0, out) == -EINVAL, "an empty id is none");
	ok(name_decode("%41", out) == -EINVAL, "what needs no escape has none: one id, one name");
	ok(name_decode("%2f", out) == -EINVAL, "lower-case hex is no name");
	ok(name_decode("a%4", out) == -EINVAL, "a cut escape is no name");

	ok(name_split("T@1", &len, &k) && len == 1 && k == 1, "T@1");
	ok(name_split("a-1@262143", &len, &k) && len == 3 && k == 262143, "the highest attempt");
	ok(!name_split("a-1@262144", &len, &k), "one more is no attempt");
	ok(!name_split("T@01", &len, &k) && !name_split("T@0", &len, &k) &&
		   !name_split("T@", &len, &k) && !name_split("@1", &len, &k) &&
		   !name_split("T", &len, &k) && !name_split("T@1x", &len, &k),
	   "what is not T@k");
}

static void
configuration(void)
{
	struct conf c = { 0 };
	struct err e = { 0 };
	int64_t n;
	char *text = conf_template("");

	ok(text && conf_parse(&c, text, &e) == 0, "the default raser.ini parses: %s", e.text);
	ok(c.steal_after_ms == 180000 && c.max_failures == 5 && c.ntiers == 3, "its values");
	ok(c.tiers[2].elevated_first && c.tiers[2].failures == FAILURES_ALL &&
		   c.tiers[0].memory == 1LL << 30, "its tiers");
	ok(conf_level(&c, 0, 0) == 0 && conf_level(&c, 0, 1) == 1 && conf_level(&c, 0, 2) == 2 &&
		   conf_level(&c, 2, 0) == 2 && conf_level(&c, 0, 99) == 2,
	   "failures move a task up, nothing moves it down");
	ok(conf_level_for_memory(&c, 1500 << 20) == 1 &&
		   conf_level_for_memory(&c, 5LL << 30) == -1, "memory finds its tier");
	free(text);

	static const struct {
		const char *ini, *says;
	} bad[] = {
		{ "[run]\nsteal_after = soon\n[tier a]\n", "line 2: steal_after must be a number" },
		{ "[run]\nsteal_after = 0.1\n[tier a]\n", "line 2: steal_after must be" },
		{ "[run]\nstael_after = 1\n[tier a]\n", "line 2: [run] has no key stael_after" },
		{ "[tiers]\nx = 1\n", "no section [tiers]" },
		{ "[run]\nsteal_after = 3\n", "names no [tier NAME]" },
		{ "[tier a/b]\nmemory = 1G\n", "not a tier's name" },
		{ "[tier a]\n[tier b]\nmemory = 1G\n", "[tier a] has no keys" },
		{ "[tier a]\nfailures = 3\n", "must have failures = all" },
		{ "[tier a]\nmemory = lots\n", "line 2: memory must be a size" },
		{ "[agent]\nsandbox = box\n[tier a]\n", "sandbox must be one of auto none bwrap" },
		{ "[agent]\nsandbox = auto none\n[tier a]\n", "sandbox must be one of" },
		{ "[agent]\nmax_steps = 1.5\n[tier a]\n", "max_steps must be a whole number" },
		{ "[agent]\nenv = X\n  bind = /data\n[tier a]\nmemory = 1\n", "goes on with the one before" },
		{ "hello\n", "line 1" },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e.text[0] = '\0';
		int rc = conf_parse(&c, bad[i].ini, &e);
		ok(rc == -EINVAL && strstr(e.text, bad[i].says), "refused: %s", e.text);
	}
	ok(conf_parse(&c, "[run]\nsteal_after = 1.5\n[tier a]\nfailures = all\n", &e) == 0 &&
		   c.steal_after_ms == 1500, "times take fractions");
	ok(conf_parse(&c, "[agent]\nenv = A B\n  C\nenv = D\nhang_after = 0\n[tier a]\nmemory = 0\n", &e) == 0 &&
		   !strcmp(c.agent.env, "A B C D") && c.agent.hang_after_ms == 0 &&
		   c.agent.checkpoint_every_ms == 300000 && !strcmp(c.agent.sandbox, "auto"),
	   "lists go on; what is not said has its default");
	ok(parse_size("1G", &n) && n == 1LL << 30 && parse_size("1.5k", &n) && n == 1536 &&
		   parse_size("2MiB", &n) && n == 2 << 20 && parse_size("7", &n) && n == 7,
	   "sizes");
	ok(!parse_size("", &n) && !parse_size("-1", &n) && !parse_size("1Q", &n) &&
		   !parse_size("nan", &n), "no sizes");
}

int
main(void)
{
	ids();
	configuration();
	return done_testing();
}
