/*
 * trajectory.c - trajectory.jsonl, in two places.
 */
#include <config.h>

#include "trajectory.h"

#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copy the whole lines of a restored trajectory into the new results, and count them. A line that
 * a kill cut in the middle is dropped in both. */
static void
continue_from(struct trajectory *t)
{
	char buf[65536];
	off_t whole = 0;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(t->state_fd, buf, sizeof(buf), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] == '\n') {
				t->steps++;
				whole = at + i + 1;
			}
		at += n;
	}
	if (whole < at && ftruncate(t->state_fd, whole) < 0)
		return;
	for (at = 0; t->results_fd >= 0 && at < whole && (n = pread(t->state_fd, buf, sizeof(buf), at)) > 0;
	     at += n)
		if (write_all(t->results_fd, buf, (size_t)n))
			return;
}

static int
open_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void
trajectory_open(struct trajectory *t, const char *state_path, const char *results_path)
{
	struct stat st;

	*t = (struct trajectory){ .state_fd = -1, .results_fd = -1, .state_path = state_path,
				  .results_path = results_path };
	if (stat(state_path, &st) < 0)
		return; /* nothing to go on from, and who reports no steps gets no files */
	t->state_fd = open_file(state_path);
	t->results_fd = open_file(results_path);
	if (t->state_fd >= 0)
		continue_from(t);
}

void
trajectory_close(struct trajectory *t)
{
	if (t->state_fd >= 0)
		close(t->state_fd);
	if (t->results_fd >= 0)
		close(t->results_fd);
	t->state_fd = t->results_fd = -1;
}

int
trajectory_add(struct trajectory *t, json_t *step, unsigned attempt, double now)
{
	t->steps++;
	if (t->state_fd < 0)
		t->state_fd = open_file(t->state_path);
	if (t->results_fd < 0)
		t->results_fd = open_file(t->results_path);
	json_object_set_new(step, "step", json_integer(t->steps));
	json_object_set_new(step, "attempt", json_integer(attempt));
	if (!json_object_get(step, "start")) {
		double seconds = json_number_value(json_object_get(step, "seconds"));

		json_object_set_new(step, "start", json_real(now - seconds));
	}
	char *line = json_dumps(step, JSON_COMPACT);
	char *grown = line ? realloc(line, strlen(line) + 2) : NULL;
	if (!grown) {
		free(line);
		return -ENOMEM;
	}
	size_t len = strlen(grown);
	grown[len++] = '\n';
	/* each is one append: a kill cuts the last line at most */
	int rc = t->state_fd < 0 ? -EIO : write_all(t->state_fd, grown, len);
	if (t->results_fd >= 0 && !rc)
		rc = write_all(t->results_fd, grown, len);
	free(grown);
	return rc;
}
