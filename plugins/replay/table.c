/*
 * table.c - recorded runs as tasks: lite60.tsv (spans) and steps.tsv (steps), by their headers.
 */
#include <config.h>

#include "replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 8 };

/* What a column becomes in a task. */
static const struct column {
	const char *name, *key;
	enum { TEXT, NUMBER, NUMBERS } kind;
} columns[] = {
	{ "instance_id", "id", TEXT },
	{ "span_s", "span", NUMBER },
	{ "mem_peak_mb_joined", "peak_mb", NUMBER },
	{ "prompt_bytes", "prompt", NUMBER },
	{ "gaps_s", "gaps", NUMBERS },
	{ "reply_bytes", "replies", NUMBERS },
	{ "observation_bytes", "observations", NUMBERS },
};

static const struct column *
column_find(const char *name)
{
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		if (!strcmp(columns[i].name, name))
			return &columns[i];
	return NULL; /* not needed to replay */
}

/* Whole numbers stay whole. */
static json_t *
number(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || (*end && *end != ','))
		return NULL;
	return value == (double)(json_int_t)value ? json_integer((json_int_t)value) :
						     json_real(value);
}

static json_t *
value_parse(const struct column *c, const char *text)
{
	if (c->kind == TEXT)
		return json_string(text);
	if (c->kind == NUMBER)
		return number(text);
	json_t *list = json_array();
	for (const char *at = text; at && *at; at = strchr(at, ',')) {
		at += *at == ',';
		json_t *one = number(at);
		if (!one || json_array_append_new(list, one)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *
line_parse(const struct column *const *map, char *line)
{
	json_t *task = json_object();
	char *text;

	for (int i = 0; i < MAX_COLUMNS && (text = strsep(&line, "\t")); i++)
		if (map[i] && json_object_set_new(task, map[i]->key, value_parse(map[i], text))) {
			json_decref(task);
			return NULL;
		}
	return task;
}

int
table_print(const char *file)
{
	const struct column *map[MAX_COLUMNS] = { NULL };
	FILE *f = fopen(file, "re");
	char *line = NULL;
	size_t size = 0;
	int status = 0;

	if (!f) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		return 1;
	}
	for (int n = 1; !status && getline(&line, &size, f) > 0; n++) {
		line[strcspn(line, "\n")] = '\0';
		if (n == 1) {
			char *rest = line;
			char *name;
			for (int i = 0; i < MAX_COLUMNS && (name = strsep(&rest, "\t")); i++)
				map[i] = column_find(name);
			continue;
		}
		json_t *task = line_parse(map, line);
		if (!json_object_get(task, "id")) {
			fprintf(stderr, "%s, line %d: no recorded run\n", file, n);
			status = 1;
		} else if (json_dumpf(task, stdout, JSON_COMPACT) || putchar('\n') == EOF)
			status = 1;
		json_decref(task);
	}
	free(line);
	fclose(f);
	if (fflush(stdout) || (status && ferror(stdout))) {
		fprintf(stderr, "standard output: %s\n", strerror(errno));
		status = 1;
	}
	return status;
}
