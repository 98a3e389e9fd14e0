/*
 * control.c - lines of RASER_CONTROL, raser-plugin(7).
 */
#include <config.h>

#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MAX = CONTROL_LINE }; /* at once */

int
control_open(struct control *c, const char *path)
{
	c->at = 0;
	c->len = 0;
	c->skipping = false;
	c->notify_fd = -1;
	c->fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (c->fd < 0)
		return -errno;
	/* without a watch the file is read at the next turn, some hundred milliseconds later */
	c->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (c->notify_fd >= 0 && inotify_add_watch(c->notify_fd, path, IN_MODIFY) < 0) {
		close(c->notify_fd);
		c->notify_fd = -1;
	}
	return 0;
}

void
control_close(struct control *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->notify_fd >= 0)
		close(c->notify_fd);
	c->fd = c->notify_fd = -1;
}

static void
bad(struct order_text *o, const char *why)
{
	*o = (struct order_text){ .order = ORDER_BAD, .text = why };
}

/* "+SECONDS" from now, or seconds since the Epoch. */
static bool
parse_until(const char *word, int64_t now, int64_t *until)
{
	char *end;
	bool from_now = *word == '+';
	double v = strtod(word + from_now, &end);

	if (end == word + from_now || *end || !(v >= 0) || v > 1e12)
		return false;
	/* rounded up: a wait must not end before its time */
	*until = (int64_t)v + (v > (double)(int64_t)v) + (from_now ? now : 0);
	return true;
}

static const struct {
	const char *name;
	int64_t unit; /* of what is stored, in that of the line */
} settings[] = { { "max_steps", 1 }, { "progress_after", 1000 }, { "hang_after", 1000 } };

static void
parse_set(char *name, const char *value, struct order_text *o)
{
	char *end;

	for (size_t i = 0; name && value && i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(settings[i].name, name) != 0)
			continue;
		double v = strtod(value, &end);
		if (end == value || *end || !(v >= 0) || v > 1e9) {
			bad(o, "the value must be a number");
			return;
		}
		o->number = (int64_t)(v * (double)settings[i].unit);
		snprintf(o->name, sizeof(o->name), "%s", name);
		return;
	}
	bad(o, "there is max_steps, progress_after and hang_after, each with a number");
}

void
control_parse(char *line, int64_t now, struct order_text *o)
{
	char *rest = NULL;
	char *word = strtok_r(line, " \t", &rest);

	*o = (struct order_text){ .text = rest ? rest : "" };
	if (!word) {
		bad(o, "an empty line");
	} else if (!strcmp(word, "parked")) {
		char *until = strtok_r(NULL, " \t", &rest);

		o->order = ORDER_PARKED;
		o->text = rest;
		if (!until || !parse_until(until, now, &o->number))
			bad(o, "parked needs a time: seconds since the Epoch, or +SECONDS");
	} else if (!strcmp(word, "progress")) {
		o->order = ORDER_PROGRESS;
	} else if (!strcmp(word, "checkpoint")) {
		o->order = ORDER_CHECKPOINT;
	} else if (!strcmp(word, "set")) {
		char *name = strtok_r(NULL, " \t", &rest);

		o->order = ORDER_SET;
		parse_set(name, strtok_r(NULL, " \t", &rest), o);
	} else if (!strcmp(word, "step")) {
		o->order = ORDER_STEP;
		o->step = json_loads(o->text, 0, NULL);
		if (!json_is_object(o->step) || !json_is_string(json_object_get(o->step, "kind"))) {
			json_decref(o->step);
			bad(o, "a step is a JSON object with a kind");
		}
	} else {
		bad(o, "it is none of parked, progress, step, set, checkpoint");
	}
}

static void
take_line(struct control *c, int64_t now, control_fn *fn, void *arg)
{
	struct order_text o;

	if (c->skipping) {
		bad(&o, "the line is too long");
		c->skipping = false;
	} else {
		c->line[c->len] = '\0';
		if (c->len && c->line[c->len - 1] == '\r')
			c->line[c->len - 1] = '\0';
		control_parse(c->line, now, &o);
	}
	c->len = 0;
	fn(arg, &o);
	json_decref(o.step);
}

bool
control_read(struct control *c, int64_t now, control_fn *fn, void *arg)
{
	char buf[4096];
	struct stat st;
	ssize_t n;

	if (c->fd < 0)
		return false;
	if (!fstat(c->fd, &st) && st.st_size < c->at)
		c->at = 0; /* somebody wrote with > instead of >> */
	while (c->notify_fd >= 0 && read(c->notify_fd, buf, sizeof(buf)) > 0)
		; /* the news itself says nothing */
	for (off_t end = c->at + READ_MAX; c->at < end;) {
		n = pread(c->fd, buf, sizeof(buf), c->at);
		if (n <= 0)
			return false;
		c->at += n;
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] == '\n')
				take_line(c, now, fn, arg);
			else if (c->len + 1 < sizeof(c->line))
				c->line[c->len++] = buf[i];
			else
				c->skipping = true;
		}
	}
	return true;
}
