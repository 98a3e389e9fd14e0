/*
 * ingest.c - JSON in every layout, fed in pieces of every size; and what is refused, where.
 */
#include <config.h>

#include "ingest.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct conf conf;

struct got {
	char names[2000];
	int twice;
};

static int
on_task(void *arg, const char *name, bool fresh)
{
	struct got *g = arg;
	size_t n = strlen(g->names);

	if (fresh)
		snprintf(g->names + n, sizeof(g->names) - n, "%s ", name);
	else
		g->twice++;
	return 0;
}

/* Feed text in pieces of a size; 0 or the errno of the first failure. */
static int
feed(const char *text, size_t len, size_t piece, const char *field, struct got *got,
     struct err *err)
{
	struct builder *b = builder_new(scratch_dir(), err);
	struct ingest *in = ingest_new(&conf, field, b, on_task, got);
	int rc = 0;

	*got = (struct got){ 0 };
	for (size_t at = 0; !rc && at < len; at += piece)
		rc = ingest_feed(in, text + at, len - at < piece ? len - at : piece, err);
	if (!rc)
		rc = ingest_flush(in, err);
	ingest_free(in);
	builder_free(b);
	return rc;
}

static void
accept(const char *what, const char *text, const char *names)
{
	static const size_t pieces[] = { 1, 2, 7, 64, 1 << 20 };
	struct got got = { 0 };
	struct err e = { 0 };
	int good = 0;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		int rc = feed(text, strlen(text), pieces[i], NULL, &got, &e);

		if (!rc && !strcmp(got.names, names))
			good++;
		else
			diag("in pieces of %zu: %d '%s' %s", pieces[i], rc, got.names, e.text);
	}
	ok(good == 5, "taken: %s", what);
}

static void
refuse(const char *text, const char *says)
{
	static const size_t pieces[] = { 1, 3, 1 << 20 };
	struct got got = { 0 };
	struct err e = { 0 };
	int good = 0;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		int rc = feed(text, strlen(text), pieces[i], NULL, &got, &e);

		if (rc < 0 && strstr(e.text, says))
			good++;
		else
			diag("in pieces of %zu: %d %s", pieces[i], rc, e.text);
	}
	ok(good == 3, "refused: %s", says);
}

static void
pieces(void)
{
	struct got got = { 0 };
	struct err e = { 0 };
	struct builder *b = builder_new(scratch_dir(), &e);
	struct ingest *in = ingest_new(&conf, NULL, b, on_task, &got);

	/* a shell's (a; b) > new/f closes in the middle */
	ok(!ingest_feed(in, "{\"id\":1}\n{\"id\"", 14, &e), "a cut line is no error yet");
	ok(ingest_flush(in, &e) == -EINVAL, "an end in the middle of a task is");
	ok(!ingest_feed(in, ":2}\n", 4, &e) && !ingest_flush(in, &e) &&
		   !strcmp(got.names, "1 2 "),
	   "but what follows may still complete it: %s", got.names);
	ok(ingest_feed(in, "{]\n", 3, &e) == -EINVAL && ingest_feed(in, "{\"id\":3}\n", 9, &e) == -EINVAL,
	   "a real error sticks");
	ingest_free(in);
	builder_free(b);

	/* a large task in small pieces must not take quadratic time */
	size_t n = 8 << 20;
	char *text = malloc(n + 8);
	if (!text)
		abort();
	int at = snprintf(text, n, "[{\"id\":\"big\",\"x\":\"");
	memset(text + at, 'y', n - (size_t)at);
	n += (size_t)snprintf(text + n, 8, "\"}]\n");
	ok(!feed(text, n, 4096, NULL, &got, &e) && !strcmp(got.names, "big "),
	   "a task of 8 MB in pieces of 4 kB: %s", e.text);
	free(text);
}

int
main(void)
{
	char *ini = conf_template("");
	struct got got = { 0 };
	struct err e = { 0 };

	conf_parse(&conf, ini, NULL);
	free(ini);
	accept("JSON Lines", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "a b ");
	accept("without a newline at the end", "{\"id\":\"a\"}\n{\"id\":\"b\"}", "a b ");
	accept("empty lines and carriage returns", "\n{\"id\":\"a\"}\r\n\r\n  {\"id\":\"b\"}  \r\n", "a b ");
	accept("one object", "{\"id\":\"a\"}", "a ");
	accept("one object over several lines", "{\n  \"id\": \"a\",\n  \"x\": [1,\n2]\n}\n", "a ");
	accept("an array", "[{\"id\":\"a\"},{\"id\":\"b\"}]", "a b ");
	accept("a pretty-printed array", "[\n  {\n    \"id\": \"a\"\n  },\n  {\n    \"id\": \"b\"\n  }\n]\n", "a b ");
	accept("an empty array", "[ ]", "");
	accept("nothing at all", "", "");
	accept("a byte order mark", "\xef\xbb\xbf{\"id\":\"a\"}\n", "a ");
	accept("instance_id and task_id", "{\"instance_id\":\"a\"}\n{\"task_id\":\"b/1\"}\n", "a b%2F1 ");
	accept("brackets, quotes and escapes in strings", "[{\"id\":\"a]},{\",\"x\":\"\\\"]\\\\\"},{\"id\":\"\\u0041\"}]", "a]},{ A ");
	accept("numbers beyond 64 bits are the agent's own", "{\"id\":\"a\",\"n\":123456789012345678901234567890}\n", "a ");
	accept("NUL in a string", "{\"id\":\"a\",\"x\":\"\\u0000\"}\n", "a ");
	accept("true, null and numbers at the end of a piece", "[{\"id\":\"a\",\"t\":true,\"n\":null,\"f\":1.5e3}]", "a ");
	accept("UTF-8", "{\"id\":\"\xc3\xa9t\xc3\xa9\"}\n", "\xc3\xa9t\xc3\xa9 ");

	ok(!feed("{\"id\":1}\n{\"id\":1}\n", 18, 64, NULL, &got, &e) && got.twice == 1 &&
		   !strcmp(got.names, "1 "),
	   "identical tasks collapse and are counted");
	ok(!feed("{\"key\":\"k\",\"id\":1}\n", 19, 64, "key", &got, &e) && !strcmp(got.names, "k "),
	   "--id-field");

	refuse("{\"id\":1}\n{\"id\":2,}\n", "line 2, column ");
	refuse("{\"id\":\"a\"\n{\"id\":\"b\"}\n", "line ");
	refuse("{\"id\":1} {\"id\":2}\n", "line 1, column 10: something follows");
	refuse("[{\"id\":1} {\"id\":2}]", "column 11: a comma or ] is missing");
	refuse("[{\"id\":1}] x", "something follows the array");
	refuse("[{\"id\":1}", "not closed");
	refuse("{\"id\":1}\n[1]\n", "line 2, column 1: a task must be a JSON object");
	refuse("\"text\"\n", "a task must be a JSON object");
	refuse("hello\n", "line 1, column");
	refuse("{\"id\":\"\"}\n", "the id is empty");
	refuse("{\"id\":{}}\n", "an id must be a string or a number");
	refuse("{\"id\":1e300}\n", "an id must be a string or a number below 2^53");
	refuse("{\"id\":1,\"tier\":\"huge\"}\n", "there is none called huge");
	refuse("{\"id\":1,\"tier\":3}\n", "tier must name a tier");
	refuse("{\"id\":1,\"memory\":\"9T\"}\n", "no tier of raser.ini has");
	refuse("{\"id\":1,\"memory\":\"much\"}\n", "memory must be");
	refuse("{\"id\":1,\"priority\":\"high\"}\n", "priority must be a number");
	refuse("{\"id\":1,\"expected\":-1}\n", "expected must be a number");
	refuse("{\"id\":1,\"max_failures\":-1}\n", "max_failures must be");
	refuse("{\"id\":1,\"x\":1}\n{\"id\":1,\"x\":2}\n", "twice, with two payloads");
	refuse("{\"id\":2}\n{\"id\":\"2\"}\n", "task 2 is in this submission twice");
	refuse("{\"id\":\"\xff\"}\n", "line 1, column");
	pieces();
	return done_testing();
}
