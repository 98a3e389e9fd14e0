/*
 * steps.c - a recorded trajectory, step by step, as an agent goes through it that keeps its state.
 *
 * A step is the recorded gap, then a reply and an observation of the recorded sizes. The bytes are
 * made up, but the same for the same task and step. After each step the whole trajectory is written
 * anew: under another name, synced, then renamed to TRAJECTORY, so that it is the old or the new
 * one whenever this program is killed. That file is the state: how far it goes is what is done.
 */
#include <config.h>

#include "replay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRAJECTORY "trajectory"

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A line for raser-agentd: one write, so that it is never half of one. */
static void
tell(const char *kind, double start, size_t bytes)
{
	const char *control = getenv("RASER_CONTROL");
	char line[160];
	int fd = control ? open(control, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	int len = snprintf(line, sizeof(line),
			   "step {\"kind\": \"%s\", \"start\": %.3f, \"seconds\": %.3f, \"bytes\": %zu}\n",
			   kind, start, now() - start, bytes);
	if (write(fd, line, (size_t)len) < 0)
		perror(control); /* nobody is told, and nothing else is lost */
	close(fd);
}

/* FNV-1a and xorshift: the same bytes on every machine. */
static void
message_write(FILE *f, const char *id, const char *kind, size_t step, size_t bytes)
{
	uint32_t x = 2166136261U;

	for (const char *s = id; *s; s++)
		x = (x ^ (unsigned char)*s) * 16777619U;
	for (const char *s = kind; *s; s++)
		x = (x ^ (unsigned char)*s) * 16777619U;
	x = (x ^ (uint32_t)step) * 16777619U;
	x |= 1; /* it would stay zero for ever */
	fprintf(f, "%s %zu %zu\n", kind, step, bytes);
	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		putc("abcdefghijklmnopqrstuvwxyz ()._\n"[x >> 27], f);
	}
	putc('\n', f);
}

struct step {
	double gap;
	size_t reply, observation;
};

static double
item(const json_t *task, const char *key, size_t i)
{
	return json_number_value(json_array_get(json_object_get(task, key), i));
}

/* The gap of the record lies before each reply but the first. */
static struct step
step_of(const json_t *task, size_t i)
{
	struct step s = { .reply = (size_t)item(task, "replies", i),
			  .observation = (size_t)item(task, "observations", i) };

	if (i > 0)
		s.gap = item(task, "gaps", i - 1);
	return s;
}

static void
step_write(FILE *f, const char *id, const json_t *task, size_t i)
{
	struct step s = step_of(task, i);

	message_write(f, id, "reply", i + 1, s.reply);
	message_write(f, id, "observation", i + 1, s.observation);
}

static char *
file_read(const char *name, size_t *len)
{
	FILE *f = fopen(name, "re");
	char *data = NULL;
	size_t n;
	char buf[65536];
	FILE *mem;

	if (!f)
		return NULL;
	mem = open_memstream(&data, len);
	while (mem && (n = fread(buf, 1, sizeof(buf), f)) > 0)
		fwrite(buf, 1, n, mem);
	if (mem)
		fclose(mem);
	fclose(f);
	return data;
}

/*
 * How many steps an earlier attempt has done: as many as make up exactly the file that it left.
 * What is anything else is of no use, and begun anew. The text up to there is written to f.
 */
static size_t
steps_done(FILE *f, char *const *text, const size_t *len, const char *id, const json_t *task,
	   size_t steps)
{
	size_t size;
	size_t done = 0;
	char *data = file_read(TRAJECTORY, &size);

	if (!data)
		return 0;
	while (done < steps && *len < size) {
		step_write(f, id, task, done++);
		fflush(f);
	}
	if (*len != size || memcmp(*text, data, size) != 0) {
		fputs("what is in " TRAJECTORY " is not of this task: it is begun anew\n", stderr);
		rewind(f);
		fflush(f);
		done = 0;
	}
	free(data);
	return done;
}

/* The whole trajectory so far as a file: complete or not there. */
static int
file_write(const char *dir, const char *text, size_t len)
{
	char path[4096];
	char temp[4096 + 8];

	snprintf(path, sizeof(path), "%s/" TRAJECTORY, dir);
	snprintf(temp, sizeof(temp), "%s.new", path);
	FILE *f = fopen(temp, "we");
	if (!f)
		return -1;
	bool bad = fwrite(text, 1, len, f) != len || fflush(f) || fsync(fileno(f));
	if (fclose(f) || bad)
		return -1;
	return rename(temp, path);
}

int
steps_replay(const char *id, const json_t *task, double speed)
{
	const char *results = getenv("RASER_RESULTS");
	size_t steps = json_array_size(json_object_get(task, "replies"));
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int status = 0;

	if (!f)
		return EXIT_NODE;
	fflush(f);
	size_t done = steps_done(f, &text, &len, id, task, steps);
	printf("%s: %zu steps", id, steps);
	if (done)
		printf(", resumed after step %zu", done);
	putchar('\n');
	fflush(stdout);
	for (size_t i = done; i < steps && !status; i++) {
		struct step s = step_of(task, i);
		double start = now();
		pass(s.gap > 0 ? s.gap / speed : 0);
		step_write(f, id, task, i);
		fflush(f);
		if (file_write(".", text, len))
			status = EXIT_NODE; /* a full disk is not the task's fault */
		else {
			tell("model", start, s.reply);
			tell("tool", now(), s.observation);
		}
	}
	if (!status && results && file_write(results, text, len))
		status = EXIT_NODE;
	if (status)
		perror(TRAJECTORY);
	fclose(f);
	free(text);
	return status;
}
