/*
 * relay.c - blocks between two threads, under one lock; they are large, so it is taken rarely.
 */
#include <config.h>

#include "relay.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct relay {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t size;
	unsigned count;
	unsigned first, full; /* blocks that wait to be read, or are being read */
	bool reading;	      /* the first of them is */
	bool ended, stopped;
	int code;
	char *memory;
	size_t *used;
};

struct relay *
relay_new(size_t size, unsigned count)
{
	struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->size = size;
	r->count = count;
	r->memory = malloc(size * count);
	r->used = calloc(count, sizeof(*r->used));
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	if (!r->memory || !r->used) {
		relay_free(r);
		return NULL;
	}
	return r;
}

void
relay_free(struct relay *r)
{
	if (!r)
		return;
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r->memory);
	free(r->used);
	free(r);
}

void *
relay_room(struct relay *r)
{
	pthread_mutex_lock(&r->lock);
	while (r->full == r->count && !r->stopped)
		pthread_cond_wait(&r->changed, &r->lock);
	/* only the filling thread moves the end, so its block stays its own without the lock */
	char *block = r->stopped ? NULL : r->memory + (r->first + r->full) % r->count * r->size;
	pthread_mutex_unlock(&r->lock);
	return block;
}

void
relay_pass(struct relay *r, size_t n)
{
	pthread_mutex_lock(&r->lock);
	r->used[(r->first + r->full) % r->count] = n;
	r->full++;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

void
relay_end(struct relay *r, int code)
{
	pthread_mutex_lock(&r->lock);
	r->ended = true;
	r->code = code;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

ssize_t
relay_next(struct relay *r, const void **block)
{
	ssize_t n;

	pthread_mutex_lock(&r->lock);
	if (r->reading) {
		r->first = (r->first + 1) % r->count;
		r->full--;
		r->reading = false;
		pthread_cond_signal(&r->changed);
	}
	while (!r->full && !r->ended)
		pthread_cond_wait(&r->changed, &r->lock);
	if (r->full) {
		*block = r->memory + r->first * r->size;
		n = (ssize_t)r->used[r->first];
		r->reading = true;
	} else {
		n = r->code;
	}
	pthread_mutex_unlock(&r->lock);
	return n;
}

void
relay_stop(struct relay *r)
{
	pthread_mutex_lock(&r->lock);
	r->stopped = true;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}
