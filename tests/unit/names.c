/*
 * names.c - ids <-> file names.
 */
#include <config.h>

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

int
main(void)
{
	ids();
	return done_testing();
}
