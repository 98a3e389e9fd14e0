/*
 * control.h - what an agent tells agentd: lines that it appends to a plain file, RASER_CONTROL,
 * since a plain file is what every language can write and every sandbox can show. super.c only.
 */
#ifndef RASER_CONTROL_H
#define RASER_CONTROL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CONTROL_LINE = 65536 };

struct control {
	int fd;	       /* of the file, -1: none */
	int notify_fd; /* inotify: readable when it was written to; -1: none, then it is polled */
	off_t at;
	size_t len;
	bool skipping; /* in a line that is too long */
	char line[CONTROL_LINE];
};

/* What a line says. */
enum order { ORDER_PARKED, ORDER_PROGRESS, ORDER_STEP, ORDER_SET, ORDER_CHECKPOINT, ORDER_BAD };

struct order_text {
	enum order order;
	int64_t number;	  /* PARKED: wall seconds until when; SET: the value, seconds in ms */
	char name[32];	  /* SET */
	const char *text; /* what follows, for people; BAD: what is wrong with it */
	json_t *step;	  /* STEP: an object, the reader's until control_read() goes on */
};

typedef void
control_fn(void *arg, const struct order_text *o);

/* Make the file, empty, and watch it. 0 or a negative errno. */
int
control_open(struct control *c, const char *path);
void
control_close(struct control *c);

/* Read what is new, line by line, but not endlessly. now: wall seconds. True: there is more. */
bool
control_read(struct control *c, int64_t now, control_fn *fn, void *arg);

/* One line, without its end; for control_read() and its test. */
void
control_parse(char *line, int64_t now, struct order_text *o);

#endif
