/*
 * ingest.c - from text to tasks. The only user of jansson in fs/queue.
 */
#include <config.h>

#include "ingest.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TASK_LIMIT = 64 << 20, /* bytes of one task */
	NEAR_END = 16,	       /* an error so near to the end may be a cut token */
};
#define EXPECTED_MAX INT64_C(1000000000000) /* seconds */

/* How the text is put together, known once its first task has been seen. */
enum layout {
	LAYOUT_UNKNOWN,
	LAYOUT_LINES, /* a task a line */
	LAYOUT_ARRAY, /* [ task, task ] */
	LAYOUT_FREE,  /* objects over several lines */
};

/* Where in [ task, task ] the text stands. */
enum array_at { ARRAY_OPEN, ARRAY_FIRST, ARRAY_TASK, ARRAY_COMMA, ARRAY_CLOSED };

struct ingest {
	const struct conf *conf;
	const char *id_field;
	struct builder *builder;
	ingest_task_fn *fn;
	void *arg;
	ingest_expected_fn *expected;
	void *expected_arg;
	enum layout layout;
	enum array_at array;
	char *buf;
	size_t len, cap;
	size_t tried;	    /* bytes there were when a task was last found to be cut */
	int64_t line;	    /* of buf[0], from 1 */
	int64_t column;	    /* of buf[0], from 1 */
	int64_t tasks;
	int failed;
	struct err err;
};

struct ingest *
ingest_new(const struct conf *conf, const char *id_field, struct builder *builder,
	   ingest_task_fn *fn, void *arg)
{
	struct ingest *in = calloc(1, sizeof(*in));

	if (in)
		*in = (struct ingest){ .conf = conf, .id_field = id_field, .builder = builder,
				       .fn = fn, .arg = arg, .line = 1, .column = 1 };
	return in;
}

void
ingest_free(struct ingest *in)
{
	if (!in)
		return;
	free(in->buf);
	free(in);
}

void
ingest_expect(struct ingest *in, ingest_expected_fn *fn, void *arg)
{
	in->expected = fn;
	in->expected_arg = arg;
}

void
ingest_to(struct ingest *in, struct builder *builder)
{
	in->builder = builder;
}

/* Record the first error, with its place. */
static int
fail_at(struct ingest *in, int code, int64_t line, int64_t column, const char *why)
{
	in->failed = code;
	snprintf(in->err.text, sizeof(in->err.text), "line %lld, column %lld: %.240s",
		 (long long)line, (long long)column, why);
	return code;
}

static int
fail_here(struct ingest *in, int code, const char *why)
{
	return fail_at(in, code, in->line, in->column, why);
}

static int
fail_json(struct ingest *in, const json_error_t *e)
{
	bool first = e->line <= 1;

	return fail_at(in, -EINVAL, in->line + (e->line > 0 ? e->line - 1 : 0),
		       (first ? in->column - 1 : 0) + (e->column > 0 ? e->column : 1), e->text);
}

/* Drop n bytes from the front and keep the place right. */
static void
consume(struct ingest *in, size_t *at, size_t n)
{
	const char *p = in->buf + *at;
	const char *end = p + n;

	for (const char *nl; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
		in->line++;
		in->column = 1;
	}
	in->column += end - p;
	*at += n;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

enum { WHY_TEXT = 200 };

/* An optional whole number of the task. False and why when it is none. */
static bool
get_number(const json_t *obj, const char *key, int64_t least, int64_t *out, char *why)
{
	const json_t *v = json_object_get(obj, key);
	double d = json_number_value(v);

	if (!v || json_is_null(v))
		return true;
	if (json_is_number(v) && d >= (double)least && d < 1e12) {
		*out = (int64_t)llround(d);
		return true;
	}
	snprintf(why, WHY_TEXT, "%s must be a number of at least %lld", key, (long long)least);
	return false;
}

/* The tier that a task names, if any. */
static bool
get_tier(const struct ingest *in, const json_t *obj, char *tier, char *why)
{
	const json_t *v = json_object_get(obj, "tier");
	const char *name = json_string_value(v);

	if (!v || json_is_null(v))
		return true;
	if (!name || conf_tier(in->conf, name) < 0) {
		snprintf(why, WHY_TEXT, "tier must name a tier of raser.ini%s%.64s",
			 name ? ", there is none called " : "", name ? name : "");
		return false;
	}
	snprintf(tier, TIER_NAME, "%s", name);
	return true;
}

/* The memory that a task asks for, if any: bytes, or a size such as "1500M". */
static bool
get_memory(const struct ingest *in, const json_t *obj, const char *tier, int64_t *memory, char *why)
{
	const json_t *v = json_object_get(obj, "memory");
	int named = *tier ? conf_tier(in->conf, tier) : -1;

	if (json_is_string(v)) {
		if (!parse_size(json_string_value(v), memory)) {
			snprintf(why, WHY_TEXT, "memory must be bytes or a size such as \"1500M\"");
			return false;
		}
	} else if (!get_number(obj, "memory", 0, memory, why)) {
		return false;
	}
	if (named >= 0 && !in->conf->tiers[named].ladder) {
		if (conf_has_memory(in->conf, named, *memory))
			return true;
		snprintf(why, WHY_TEXT, "memory: tier %s, which is off the ladder, has less than %lld bytes",
			 tier, (long long)*memory);
		return false;
	}
	if (*memory && conf_level_for_memory(in->conf, *memory) < 0) {
		snprintf(why, WHY_TEXT, "memory: no tier of raser.ini has %lld bytes",
			 (long long)*memory);
		return false;
	}
	return true;
}

/* The id of a task as its name; made from the submission and the place when it has none. */
static bool
get_id(const struct ingest *in, const json_t *obj, char *name, char *why)
{
	static const char *const usual[] = { "id", "instance_id", "task_id" };
	const json_t *v = NULL;
	char digits[64] = "";

	if (in->id_field)
		v = json_object_get(obj, in->id_field);
	for (size_t i = 0; !in->id_field && !v && i < sizeof(usual) / sizeof(usual[0]); i++)
		v = json_object_get(obj, usual[i]);
	if (!v && in->id_field) {
		snprintf(why, WHY_TEXT, "no field %.64s to take the id from", in->id_field);
		return false;
	}
	if (!v || json_is_null(v)) {
		snprintf(name, NAME_LIMIT + 1, "%s-%lld", builder_random(in->builder),
			 (long long)in->tasks + 1);
		return true;
	}
	if (json_is_integer(v))
		snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v) && fabs(json_real_value(v)) < 9007199254740992.0)
		snprintf(digits, sizeof(digits), "%.17g", json_real_value(v));
	else if (!json_is_string(v)) {
		snprintf(why, WHY_TEXT, "an id must be a string or a number below 2^53");
		return false;
	}
	int rc = *digits ? name_encode(digits, strlen(digits), name) :
			   name_encode(json_string_value(v), json_string_length(v), name);
	if (rc)
		snprintf(why, WHY_TEXT, rc == -ENAMETOOLONG ?
			 "the id needs more than 230 bytes as a file name" : "the id is empty");
	return !rc;
}

/* What a task is expected to take by its own word, or else by what is known of it. */
static bool
get_expected(const struct ingest *in, const json_t *obj, const char *name, int64_t *expected,
	     char *why)
{
	const json_t *v = json_object_get(obj, "expected");

	if (!get_number(obj, "expected", 0, expected, why))
		return false;
	if ((!v || json_is_null(v)) && in->expected) {
		int64_t known = in->expected(in->expected_arg, name);

		*expected = known < 0 ? 0 : known < EXPECTED_MAX ? known : EXPECTED_MAX;
	}
	return true;
}

/* One parsed task, whose text is body. */
static int
take_task(struct ingest *in, const json_t *obj, const char *body, size_t size)
{
	struct task_spec spec = { .body = body, .size = size, .max_failures = MAX_FAILURES_UNSET };
	char why[WHY_TEXT];
	struct err err;

	if (!json_is_object(obj))
		return fail_here(in, -EINVAL, "a task must be a JSON object");
	if (!get_id(in, obj, spec.name, why) || !get_tier(in, obj, spec.tier, why) ||
	    !get_memory(in, obj, spec.tier, &spec.memory, why) ||
	    !get_number(obj, "priority", -1000000, &spec.priority, why) ||
	    !get_expected(in, obj, spec.name, &spec.expected, why) ||
	    !get_number(obj, "max_failures", 0, &spec.max_failures, why))
		return fail_here(in, -EINVAL, why);
	int rc = builder_add(in->builder, &spec, &err);
	if (rc < 0)
		return fail_here(in, rc, err.text);
	in->tasks++;
	return in->fn ? in->fn(in->arg, spec.name, rc == 1) : 0;
}

/* Parse one value at text; *used is its length. NULL and e when it is not there or cut. */
static json_t *
parse_value(const char *text, size_t len, size_t *used, json_error_t *e)
{
	size_t flags = JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_t *v = json_loadb(text, len, flags, e);

	/* a whole number beyond 64 bits is still JSON, and the agent's own business */
	if (!v && json_error_code(e) == json_error_numeric_overflow)
		v = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, e);
	if (v)
		*used = (size_t)e->position;
	return v;
}

/* A line of JSON Lines, without its newline. */
static int
take_line(struct ingest *in, const char *line, size_t len)
{
	json_error_t e;
	size_t used;

	while (len && is_space(line[len - 1]))
		len--;
	json_t *v = parse_value(line, len, &used, &e);
	if (!v)
		return fail_json(in, &e);
	while (used < len && is_space(line[used]))
		used++;
	int rc = used < len ? fail_at(in, -EINVAL, in->line, in->column + (int64_t)used,
				      "something follows the task on its line") :
			      take_task(in, v, line, len);
	json_decref(v);
	return rc;
}

/* What a round of parsing found. */
enum progress { PROGRESS_TASK, PROGRESS_MORE };

/* A value over any number of lines, at buf + *at. */
static int
take_value(struct ingest *in, size_t *at, bool final, enum progress *progress)
{
	json_error_t e;
	size_t used;
	size_t left = in->len - *at;
	json_t *v = parse_value(in->buf + *at, left, &used, &e);

	if (!v) {
		bool cut = json_error_code(&e) == json_error_premature_end_of_input ||
			   (size_t)e.position + NEAR_END >= left;

		if (final || !cut)
			return fail_json(in, &e);
		*progress = PROGRESS_MORE;
		return 0;
	}
	int rc = take_task(in, v, in->buf + *at, used);
	json_decref(v);
	consume(in, at, used);
	*progress = PROGRESS_TASK;
	return rc;
}

/* Decide the layout by the first task. At buf + at stands its first byte. */
static int
find_layout(struct ingest *in, size_t at, bool final)
{
	json_error_t e;
	size_t used;

	if (in->buf[at] == '[') {
		in->layout = LAYOUT_ARRAY;
		return 0;
	}
	const char *nl = memchr(in->buf + at, '\n', in->len - at);
	if (!nl && !final)
		return 0; /* the line is not whole yet */
	size_t len = nl ? (size_t)(nl - in->buf) - at : in->len - at;
	json_t *v = parse_value(in->buf + at, len, &used, &e);
	/* a first line that is cut off is an object over several lines, or plainly wrong */
	in->layout = v || json_error_code(&e) != json_error_premature_end_of_input ? LAYOUT_LINES :
										     LAYOUT_FREE;
	json_decref(v);
	return 0;
}

/* The bracket or comma at buf + *at; *task when a task must stand there instead. */
static int
array_punctuation(struct ingest *in, size_t *at, bool *task)
{
	char c = in->buf[*at];

	*task = false;
	switch (in->array) {
	case ARRAY_OPEN:
		in->array = ARRAY_FIRST; /* find_layout() saw the bracket */
		break;
	case ARRAY_FIRST:
	case ARRAY_COMMA:
		if (c == ']') {
			in->array = ARRAY_CLOSED;
			break;
		}
		if (in->array == ARRAY_FIRST) {
			*task = true;
			return 0;
		}
		if (c != ',')
			return fail_here(in, -EINVAL, "a comma or ] is missing between tasks");
		in->array = ARRAY_TASK;
		break;
	case ARRAY_TASK:
		*task = true;
		return 0;
	case ARRAY_CLOSED:
		return fail_here(in, -EINVAL, "something follows the array of tasks");
	}
	consume(in, at, 1);
	return 0;
}

/* Take every complete task out of the buffer. */
static int
drain(struct ingest *in, bool final)
{
	size_t at = 0;
	int rc = 0;

	if (!in->len)
		return 0;
	while (!rc) {
		enum progress progress = PROGRESS_TASK;

		if (in->line == 1 && in->column == 1 && in->len - at >= 3 &&
		    !memcmp(in->buf + at, "\xef\xbb\xbf", 3))
			at += 3; /* a byte order mark, as some editors write it */
		while (at < in->len && is_space(in->buf[at]))
			consume(in, &at, 1);
		if (at == in->len)
			break;
		if (in->layout == LAYOUT_UNKNOWN)
			rc = find_layout(in, at, final);
		if (rc || in->layout == LAYOUT_UNKNOWN)
			break;
		if (in->layout == LAYOUT_LINES) {
			char *nl = memchr(in->buf + at, '\n', in->len - at);
			size_t len = nl ? (size_t)(nl - in->buf) - at : in->len - at;

			if (!nl && !final)
				break;
			rc = take_line(in, in->buf + at, len);
			if (!rc)
				consume(in, &at, len);
			continue;
		}
		bool task = true;
		if (in->layout == LAYOUT_ARRAY)
			rc = array_punctuation(in, &at, &task);
		if (rc || !task)
			continue;
		rc = take_value(in, &at, final, &progress);
		if (progress == PROGRESS_MORE)
			break;
		in->array = ARRAY_COMMA;
	}
	memmove(in->buf, in->buf + at, in->len - at);
	in->len -= at;
	in->tried = in->len;
	return rc;
}

static int
sticky(struct ingest *in, struct err *err)
{
	if (err)
		*err = in->err;
	return in->failed;
}

int
ingest_feed(struct ingest *in, const char *data, size_t len, struct err *err)
{
	if (in->failed)
		return sticky(in, err);
	if (!len)
		return 0;
	if (in->len + len > TASK_LIMIT) {
		fail_here(in, -EINVAL, "a task of more than 64 MiB, or an unclosed { or [");
		return sticky(in, err);
	}
	if (in->len + len > in->cap) {
		size_t cap = (in->len + len) * 2;
		char *grown = realloc(in->buf, cap);

		if (!grown)
			return err_set(err, -ENOMEM, "out of memory");
		in->buf = grown;
		in->cap = cap;
	}
	memcpy(in->buf + in->len, data, len);
	in->len += len;
	/* a cut task is tried again once there is twice as much: linear in the whole */
	if (in->layout != LAYOUT_LINES && in->tried && in->len < 2 * in->tried)
		return 0;
	int rc = drain(in, false);
	if (rc && !in->failed)
		return err_set(err, rc, "the receipt cannot be written: %s", strerror(-rc));
	return rc ? sticky(in, err) : 0;
}

int
ingest_flush(struct ingest *in, struct err *err)
{
	if (in->failed)
		return sticky(in, err);
	int64_t line = in->line;
	int64_t column = in->column;
	int64_t tasks = in->tasks;
	int rc = drain(in, true);

	if (!rc && in->layout == LAYOUT_ARRAY && in->array != ARRAY_CLOSED)
		rc = fail_here(in, -EINVAL, "the array of tasks is not closed");
	if (rc && in->failed == -EINVAL && tasks == in->tasks && in->len) {
		/* cut: what is there stays, and more may complete it */
		sticky(in, err);
		in->failed = 0;
		in->line = line;
		in->column = column;
		return rc;
	}
	return rc ? sticky(in, err) : 0;
}
