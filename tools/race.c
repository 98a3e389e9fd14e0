/*
 * race.c - contenders in step, and their account in shared memory.
 */
#include <config.h>

#include "race.h"

#include "clock.h"
#include "gang.h"
#include "node.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
	CONTENDERS_MAX = 64,
	RACE_MS = 20000, /* slow storage: fewer names */
	LEAP = 3,
};

/* In memory that all processes share. */
struct board {
	char dir[DISK_PATH * 8];
	int procs, threads;
	pthread_barrier_t barrier;
	bool over; /* written by the first one only, before the barrier that shows it to all */
	int raced; /* names */
	struct now began;
	struct contender {
		int rc[RACE_NAMES]; /* of chain_cas() */
		char found[RACE_NAMES][LINK_TEXT];
	} all[CONTENDERS_MAX];
};

struct racer {
	struct board *board;
	int number;
	bool failed;
};

static void *
race(void *arg)
{
	struct racer *me = arg;
	struct board *b = me->board;
	struct contender *c = &b->all[me->number];
	struct disk disk;
	char path[DISK_PATH];
	char text[LINK_TEXT];
	struct err e = { 0 };

	/* a descriptor each, as daemons have */
	me->failed = disk_open(&disk, b->dir, &e) != 0;
	for (int i = 0; i < RACE_NAMES; i++) {
		snprintf(path, sizeof(path), "n%d@1.claim", i);
		snprintf(text, sizeof(text), "racer.%d:%d", me->number, i);
		if (me->number == 0 && now_read().boot_ms - b->began.boot_ms > RACE_MS)
			b->over = true;
		pthread_barrier_wait(&b->barrier);
		if (b->over)
			break;
		if (me->number == 0)
			b->raced = i + 1;
		c->rc[i] = me->failed ? -EIO : chain_cas(&disk, path, text, c->found[i]);
		if (c->rc[i] == 1)
			memcpy(c->found[i], text, sizeof(text));
	}
	pthread_barrier_wait(&b->barrier);
	if (!me->failed)
		disk_close(&disk);
	return NULL;
}

static int
race_process(struct gang *g, int rank, void *arg)
{
	struct board *b = arg;
	struct racer racers[CONTENDERS_MAX];
	pthread_t threads[CONTENDERS_MAX];

	gang_start(g);
	for (int i = 0; i < b->threads; i++) {
		racers[i] = (struct racer){ .board = b, .number = rank * b->threads + i };
		/* without one the others would wait at the barrier for ever */
		if (pthread_create(&threads[i], NULL, race, &racers[i]) != 0)
			return 1;
	}
	int failed = 0;
	for (int i = 0; i < b->threads; i++) {
		pthread_join(threads[i], NULL);
		failed |= racers[i].failed;
	}
	return failed;
}

static void
begin(void *arg)
{
	((struct board *)arg)->began = now_read();
}

static void
judge(const struct board *b, struct race *r)
{
	int n = b->procs * b->threads;

	r->names = b->raced;
	for (int i = 0; i < b->raced; i++) {
		int won = 0;
		bool differ = false;
		const char *text = NULL;

		for (int k = 0; k < n; k++) {
			const struct contender *c = &b->all[k];

			if (c->rc[i] < 0) {
				r->unanswered++;
				r->code = c->rc[i];
				continue;
			}
			won += c->rc[i];
			differ |= text && strcmp(text, c->found[i]) != 0;
			text = c->found[i];
		}
		r->several += won > 1;
		r->none += won == 0;
		r->disagreed += differ;
	}
}

int
race_run(const char *dir, int procs, int threads, const volatile bool *stop, struct race *r)
{
	pthread_barrierattr_t shared;

	*r = (struct race){ 0 };
	if (procs * threads > CONTENDERS_MAX)
		return -EINVAL;
	struct board *b = gang_memory(sizeof(*b));
	if (!b)
		return -ENOMEM;
	snprintf(b->dir, sizeof(b->dir), "%s", dir);
	b->procs = procs;
	b->threads = threads;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	int rc = -pthread_barrier_init(&b->barrier, &shared, (unsigned)(procs * threads));
	if (!rc)
		rc = gang_run(procs, race_process, begin, b, stop);
	if (*stop)
		rc = -EINTR;
	else if (rc > 0)
		rc = -EIO;
	if (!rc) {
		r->seconds = (double)(now_read().boot_ms - b->began.boot_ms) / 1000;
		judge(b, r);
	}
	pthread_barrierattr_destroy(&shared);
	munmap(b, sizeof(*b));
	return rc;
}

static void
lone_name(char path[DISK_PATH], const char *prefix, int i)
{
	snprintf(path, DISK_PATH, "%sn%d@1.claim", prefix, i);
}

int
race_alone(struct disk *disk, const char *prefix, const char *who, int *won)
{
	bool tried[RACE_NAMES] = { false };
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];

	*won = 0;
	/* who loses a name is behind and, having to read, would stay there: it leaps ahead, and in
	 * a second pass tries what it has left out */
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < RACE_NAMES; i++) {
			if (tried[i])
				continue;
			tried[i] = true;
			lone_name(path, prefix, i);
			snprintf(text, sizeof(text), "%.30s:%d", who, i);
			int rc = chain_cas(disk, path, text, found);
			if (rc < 0)
				return rc;
			*won += rc;
			if (!rc && !pass)
				i += LEAP;
		}
	return 0;
}

int
race_sum(struct disk *disk, const char *prefix, uint32_t *sum, int *hands)
{
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char before[LINK_TEXT] = "";

	*hands = 0;
	*sum = 2166136261U; /* FNV-1a */
	for (int i = 0; i < RACE_NAMES; i++) {
		lone_name(path, prefix, i);
		int rc = chain_read(disk, path, text);
		if (rc)
			return rc;
		size_t who = strcspn(text, ":");
		*hands += *before && strncmp(before, text, who + 1) != 0;
		memcpy(before, text, sizeof(before));
		for (const char *p = text; *p; p++)
			*sum = (*sum ^ (unsigned char)*p) * 16777619U;
	}
	return 0;
}
