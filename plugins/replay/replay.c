/*
 * replay.c - an agent that does what a recorded one did: it takes as long and as much memory, or
 * goes the same steps.
 *
 *   replay SPEED SHRINK [TABLE] [run_task]     a task on stdin
 *   replay SPEED SHRINK TABLE get_tasks        a task for each line of lite60.tsv or steps.tsv
 *
 * Time passes SPEED times faster, memory is SHRINK times smaller. A task is
 *
 *   {"id": ..., "span": seconds, "peak_mb": MB}
 *       The memory is touched page by page and grows to its peak in the first half of the span,
 *       so a limit below it is really met.
 *   {"id": ..., "gaps": [seconds...], "replies": [bytes...], "observations": [bytes...]}
 *       Step by step, resumed where an earlier attempt was: steps.c.
 */
#include <config.h>

#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 50 };

void
pass(double seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

#define PROGRESS "progress"

/* How far an earlier attempt came, as its workspace tells. */
static int
progress_read(void)
{
	int done = 0;
	FILE *f = fopen(PROGRESS, "re");

	if (f && (fscanf(f, "%d", &done) != 1 || done < 0 || done > STEPS))
		done = 0;
	if (f)
		fclose(f);
	return done;
}

/* The old number or the new one, whenever this program is killed or its workspace is saved. */
static void
progress_write(int done)
{
	FILE *f = fopen(PROGRESS ".new", "we");

	if (!f)
		return;
	fprintf(f, "%d\n", done);
	if (fclose(f) == 0)
		rename(PROGRESS ".new", PROGRESS);
}

/* A span of time, and memory meanwhile. What is behind is not waited for again. */
static int
span_replay(const char *id, double span, double peak)
{
	static char *held[STEPS];
	size_t chunk = (size_t)(peak / (STEPS / 2.0));
	int behind = progress_read();

	printf("%s: %.1f s, %.0f MB%s\n", id, span, peak / 1e6, behind ? ", resumed" : "");
	fflush(stdout);
	for (int i = 0; i < STEPS; i++) {
		if (i < STEPS / 2 && chunk) {
			held[i] = malloc(chunk);
			if (!held[i]) {
				printf("out of memory after %.0f of %.0f MB\n",
				       (double)chunk * i / 1e6, peak / 1e6);
				return 1;
			}
			memset(held[i], i + 1, chunk);
		}
		if (i < behind)
			continue;
		pass(span / STEPS);
		progress_write(i + 1);
	}
	for (int i = 0; i < STEPS; i++)
		free(held[i]);
	return 0;
}

static int
run_task(double speed, double shrink)
{
	json_error_t e;
	json_t *task = json_loadf(stdin, 0, &e);
	const char *id = json_string_value(json_object_get(task, "id"));
	double span = json_number_value(json_object_get(task, "span")) / speed;
	double peak = json_number_value(json_object_get(task, "peak_mb")) * 1e6 / shrink;
	int status;

	if (!id || !(span >= 0) || !(peak >= 0)) {
		fprintf(stderr, "no task with id, span and peak_mb: %s\n", task ? "a key" : e.text);
		status = EXIT_FINAL; /* it will not get better by trying again */
	} else if (json_object_get(task, "replies"))
		status = steps_replay(id, task, speed);
	else
		status = span_replay(id, span, peak);
	json_decref(task);
	return status;
}

int
main(int argc, char **argv)
{
	const char *verb = argc > 3 ? argv[argc - 1] : "run_task";
	double speed = argc > 2 ? strtod(argv[1], NULL) : 0;
	double shrink = argc > 2 ? strtod(argv[2], NULL) : 0;

	if (speed > 0 && shrink > 0 && argc <= 5) {
		if (argc == 5 && !strcmp(verb, "get_tasks"))
			return table_print(argv[3]);
		if (!strcmp(verb, "run_task"))
			return run_task(speed, shrink);
		if (!strcmp(verb, "setup"))
			return 0;
	}
	fputs("usage: replay SPEED SHRINK [TABLE] [run_task] < task.json\n"
	      "       replay SPEED SHRINK TABLE get_tasks\n", stderr);
	return EXIT_USAGE;
}
