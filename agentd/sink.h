/*
 * sink.h - the file that an archive goes into, in a task's store. checkpoint.c only.
 */
#ifndef RASER_SINK_H
#define RASER_SINK_H

#include "checkpoint.h"

#include <stddef.h>
#include <xxhash.h>

struct sink {
	int dir, fd; /* the store, the temporary file */
	char tmp[CHECKPOINT_NAME];
	XXH3_state_t *hash;
	int64_t bytes, pushed;
	int code; /* why writing failed */
};

/* Make the store if there is none, and a temporary file in it. 0 or an errno; in any case
 * sink_close() comes last. */
int
sink_open(struct sink *s, const struct checkpoint_spec *spec);

/* 0 or a negative errno, which stays in s->code. */
int
sink_write(struct sink *s, const void *data, size_t size);

/* Make it durable, read it back, give it its name; fills name, bytes_out and the times of r. */
int
sink_publish(struct sink *s, const struct checkpoint_spec *spec, struct checkpoint_result *r,
	     struct err *err);

/* Remove the temporary, if it has not become a checkpoint. */
void
sink_close(struct sink *s);

/* The sentence for an error of the store; returns code. */
int
sink_failed(struct err *err, int code, const char *store, const char *doing);

#endif
