/*
 * replay.c - an agent that does what a recorded one did: it takes as long and as much memory.
 *
 *   replay SPEED SHRINK      the task on stdin: {"id": ..., "span": seconds, "peak_mb": MB}
 *
 * Time passes SPEED times faster, memory is SHRINK times smaller. The memory is touched page by
 * page and grows to its peak in the first half of the span, so a limit below it is really met.
 */
#include <config.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 50, EXIT_FINAL = 65 };

static void
pass(double seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

int
main(int argc, char **argv)
{
	double speed = argc == 3 ? strtod(argv[1], NULL) : 0;
	double shrink = argc == 3 ? strtod(argv[2], NULL) : 0;
	json_error_t e;

	if (!(speed > 0) || !(shrink > 0)) {
		fputs("usage: replay SPEED SHRINK < task.json\n", stderr);
		return 2;
	}
	json_t *task = json_loadf(stdin, 0, &e);
	const char *id = json_string_value(json_object_get(task, "id"));
	double span = json_number_value(json_object_get(task, "span")) / speed;
	double peak = json_number_value(json_object_get(task, "peak_mb")) * 1e6 / shrink;
	if (!id || !(span >= 0) || !(peak >= 0)) {
		fprintf(stderr, "no task with id, span and peak_mb: %s\n", task ? "a key" : e.text);
		return EXIT_FINAL; /* it will not get better by trying again */
	}
	printf("%s: %.1f s, %.0f MB\n", id, span, peak / 1e6);
	fflush(stdout);
	static char *held[STEPS];
	size_t chunk = (size_t)(peak / (STEPS / 2.0));
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
		pass(span / STEPS);
	}
	for (int i = 0; i < STEPS; i++)
		free(held[i]);
	json_decref(task);
	return 0;
}
