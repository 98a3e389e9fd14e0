/*
 * sink.h - the file that an archive goes into, in a task's store. checkpoint.c only.
 */
#ifndef RASER_SINK_H
#define RASER_SINK_H

#include "checkpoint.h"
#include "relay.h"

#include <pthread.h>
#include <stddef.h>
#include <xxhash.h>

struct sink {
	int dir, fd; /* the store, the temporary file */
	char tmp[CHECKPOINT_NAME];
	/* a thread of its own writes, so that slow storage does not hold up the compression */
	struct relay *relay;
	pthread_t thread;
	bool running;
	XXH3_state_t *hash;
	int64_t bytes, pushed;
	_Atomic int code; /* why writing failed */
};

/* Make the store if there is none, and a temporary file in it. 0 or an errno; in any case
 * sink_close() comes last. */
int
sink_open(struct sink *s, const struct checkpoint_spec *spec);

/* Write behind what is there. 0, or why something could not be written, now or before; that stays
 * in s->code. */
int
sink_write(struct sink *s, const void *data, size_t size);

/* Wait until all is written; 0 or s->code. */
int
sink_finish(struct sink *s);

/* After that: make it durable, read it back, give it its name; fills name, bytes_out and the times of r. */
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
