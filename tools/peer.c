/*
 * peer.c - meeting, signs of life, messages, and parting.
 */
#include <config.h>

#include "peer.h"

#include "folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE SELFTEST_PREFIX "peer"

enum {
	BEAT_MS = 500,
	DEAD_MS = 10000, /* without a new beat */
	LOOK_MS = 5,
	MEET_MS = 600000,
	STEP_MS = 240000, /* a step takes no longer while both live */
	TELL_MS = 15000,  /* between two lines of progress */
	PART_MS = 5000,
	MEET_TRIES = 3,
};

/* Nobody is dead before what it does must have been seen. */
static int64_t
dead_ms(const struct peer *p)
{
	return DEAD_MS + p->d->storage.names_ms;
}

void
peer_path(const struct peer *p, bool mine, const char *name, char path[DISK_PATH])
{
	snprintf(path, DISK_PATH, SELFTEST_PREFIX "%s/%s", mine ? p->id : p->other, name);
}

static void
remove_place(struct peer *p, const char *name)
{
	char path[PATH_MAX + DISK_PATH];

	snprintf(path, sizeof(path), "%s/%s", p->d->dir, name);
	folder_remove(path);
}

static void
remove_scratch(struct peer *p, const char *id)
{
	char name[SELFTEST_NAME];

	if (!*id)
		return;
	snprintf(name, sizeof(name), SELFTEST_PREFIX "%s", id);
	remove_place(p, name);
}

/* ---- signs of life ---- */

static void *
beat(void *arg)
{
	struct peer *p = arg;
	char path[DISK_PATH];
	char before[DISK_PATH] = "";
	char found[LINK_TEXT];

	for (long n = 1; !p->quiet; n++) {
		snprintf(path, sizeof(path), PLACE "/beat.%s.%ld", p->id, n);
		if (chain_cas(&p->beat_disk, path, p->id, found) == 1 && *before)
			disk_unlink(&p->beat_disk, before);
		memcpy(before, path, sizeof(before));
		for (int ms = 0; ms < BEAT_MS && !p->quiet; ms += LOOK_MS)
			disk_pause(&p->beat_disk, LOOK_MS);
	}
	return NULL;
}

static int
beat_start(struct peer *p)
{
	int rc = disk_open(&p->beat_disk, p->d->dir, NULL);

	if (rc)
		return rc;
	p->quiet = false;
	rc = -pthread_create(&p->beating, NULL, beat, p);
	p->started = !rc;
	if (rc)
		disk_close(&p->beat_disk);
	return rc;
}

static void
beat_end(struct peer *p)
{
	if (!p->started)
		return;
	p->quiet = true;
	atomic_store(&p->beat_disk.stopping, true);
	pthread_join(p->beating, NULL);
	disk_close(&p->beat_disk);
	p->started = false;
}

/* ---- looking ---- */

static int
on_name(void *arg, const char *name)
{
	struct peer *p = arg;
	char id[PEER_ID];
	int seat;
	int step;
	long n;

	if (sscanf(name, "seat.%d", &seat) == 1 && seat >= 1 && seat <= 2) {
		p->seats[seat] = true;
	} else if (sscanf(name, "say.%d.%d", &seat, &step) == 2) {
		if (seat == 3 - p->seat && step >= 0 && step <= PEER_STEP_LEFT)
			p->said[step] = true;
	} else if (sscanf(name, "beat.%12[^.].%ld", id, &n) == 2 && !strcmp(id, p->other) &&
		   n > p->beat) {
		p->beat = n;
		p->alive = disk_now(&p->d->disk);
	}
	return 0;
}

/* 0; -ENOENT: the place is gone; or another errno. */
static int
look(struct peer *p)
{
	memset(p->seats, 0, sizeof(p->seats));
	return disk_list(&p->d->disk, PLACE, on_name, p);
}

int
peer_heard(struct peer *p, int step)
{
	int rc = look(p);

	if (p->d->stop)
		return -EINTR;
	if (p->said[step])
		return 1;
	if (rc == -ENOENT || p->said[PEER_STEP_LEFT] ||
	    disk_now(&p->d->disk) - p->alive > dead_ms(p))
		return -EOWNERDEAD;
	return rc;
}

static void
tell(struct peer *p, int64_t *next, const char *what)
{
	int64_t now = disk_now(&p->d->disk);

	if (now < *next)
		return;
	*next = now + TELL_MS;
	fprintf(stderr, "raser doctor: %s\n", what);
}

int
peer_hear(struct peer *p, int step, char text[LINK_TEXT])
{
	char path[DISK_PATH];
	int64_t begin = disk_now(&p->d->disk);
	int64_t next = begin + TELL_MS;
	int rc;

	while ((rc = peer_heard(p, step)) == 0) {
		if (disk_now(&p->d->disk) - begin > STEP_MS)
			return -ETIMEDOUT;
		tell(p, &next, "waiting for the other node to finish its step");
		disk_pause(&p->d->disk, LOOK_MS);
	}
	snprintf(path, sizeof(path), PLACE "/say.%d.%d", 3 - p->seat, step);
	return rc < 0 ? rc : chain_read(&p->d->disk, path, text);
}

int
peer_say(struct peer *p, int step, const char *text)
{
	char path[DISK_PATH];
	char found[LINK_TEXT];

	snprintf(path, sizeof(path), PLACE "/say.%d.%d", p->seat, step);
	int rc = chain_cas(&p->d->disk, path, text, found);
	return rc == 1 ? 0 : rc == -ENOENT ? -EOWNERDEAD : rc < 0 ? rc : -EEXIST;
}

/* ---- meeting ---- */

/* Who sits there: its id and host. False when nobody does. */
static bool
read_seat(struct peer *p, int seat)
{
	char path[DISK_PATH];
	char text[LINK_TEXT] = "";

	snprintf(path, sizeof(path), PLACE "/seat.%d", seat);
	return chain_read(&p->d->disk, path, text) == 0 &&
	       sscanf(text, "%12[a-z2-7]:%39s", p->other, p->host) == 2;
}

/* 1: the seat is mine, 0: somebody else's, or an errno. */
static int
take_seat(struct peer *p, int seat)
{
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char found[LINK_TEXT];
	char host[40] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(path, sizeof(path), PLACE "/seat.%d", seat);
	snprintf(text, sizeof(text), "%s:%s", p->id, host);
	return chain_cas(&p->d->disk, path, text, found);
}

/* Does the owner of the first seat beat? */
static bool
is_alive(struct peer *p)
{
	int64_t end = disk_now(&p->d->disk) + dead_ms(p);
	int64_t next = disk_now(&p->d->disk) + 4L * BEAT_MS;
	long first = -1;

	p->beat = -1;
	while (!p->d->stop && disk_now(&p->d->disk) < end && look(p) == 0) {
		if (first < 0)
			first = p->beat;
		else if (p->beat > first)
			return true;
		tell(p, &next, "somebody was here before: waiting for a sign of life");
		disk_pause(&p->d->disk, LOOK_MS);
	}
	return false;
}

/* The first one: wait until the second seat is taken. */
static int
wait_for_second(struct peer *p)
{
	int64_t begin = disk_now(&p->d->disk);
	int64_t next = begin + TELL_MS;

	fprintf(stderr, "raser doctor: on another node, now:\n    raser doctor %s --peer\n",
		p->d->dir);
	for (;;) {
		int rc = look(p);

		if (p->d->stop)
			return -EINTR;
		if (rc)
			return rc;
		if (p->seats[2] && read_seat(p, 2)) {
			p->alive = disk_now(&p->d->disk);
			p->beat = -1;
			return 0;
		}
		if (disk_now(&p->d->disk) - begin > MEET_MS)
			return -ETIMEDOUT;
		tell(p, &next, "waiting for the other node");
		disk_pause(&p->d->disk, LOOK_MS * 4);
	}
}

/* 0: met; -EAGAIN: what a dead meeting left is removed; -EBUSY: two others are at it. */
static int
join(struct peer *p)
{
	int rc = disk_mkdir(&p->d->disk, PLACE);

	*p->other = '\0';
	if (rc && rc != -EEXIST)
		return rc;
	rc = take_seat(p, 1);
	if (rc < 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	if (rc == 1) {
		p->seat = 1;
		rc = beat_start(p);
		return rc ? rc : wait_for_second(p);
	}
	if (!read_seat(p, 1))
		return -EAGAIN;
	if (!is_alive(p)) {
		if (p->d->stop)
			return -EINTR;
		fputs("raser doctor: it is dead; what it left is removed\n", stderr);
		read_seat(p, 1);
		remove_scratch(p, p->other);
		if (read_seat(p, 2))
			remove_scratch(p, p->other);
		remove_place(p, PLACE);
		return -EAGAIN;
	}
	rc = take_seat(p, 2);
	if (rc != 1)
		return rc < 0 ? rc : -EBUSY;
	p->seat = 2;
	p->alive = disk_now(&p->d->disk);
	return beat_start(p);
}

int
peer_meet(struct peer *p, struct doctor *d)
{
	int rc = -EAGAIN;

	*p = (struct peer){ .d = d, .beat = -1 };
	random_text(p->id, PEER_ID - 1);
	for (int i = 0; i < MEET_TRIES && rc == -EAGAIN; i++)
		rc = join(p);
	if (!rc) {
		char name[SELFTEST_NAME];

		fprintf(stderr, "raser doctor: met %s\n", p->host);
		snprintf(name, sizeof(name), SELFTEST_PREFIX "%s", p->id);
		rc = disk_mkdir(&d->disk, name);
	}
	if (rc && rc != -EINTR)
		finding_advise(
			finding_add(&d->findings, FINDING_FAILS, "peer", NULL, "%s",
				    rc == -EBUSY ? "two other nodes are at it in this directory"
				    : rc == -ETIMEDOUT ? "no other node came within ten minutes"
						       : strerror(-rc)),
			"start raser doctor %.200s --peer on two nodes", d->dir);
	if (rc)
		peer_part(p, rc);
	return rc;
}

/* ---- parting ---- */

void
peer_part(struct peer *p, int rc)
{
	bool met = p->seat && *p->other;
	bool over = !met || rc == -EOWNERDEAD; /* nobody is there but us */

	if (!p->seat)
		return;
	beat_end(p);
	if (!over) {
		int64_t end = disk_now(&p->d->disk) + (rc ? 0 : PART_MS);

		peer_say(p, PEER_STEP_LEFT, "left");
		/* who sees that the other one has left turns off the light */
		while (look(p) == 0 && !p->said[PEER_STEP_LEFT] && disk_now(&p->d->disk) < end)
			disk_pause(&p->d->disk, LOOK_MS);
		over = p->said[PEER_STEP_LEFT];
	}
	remove_scratch(p, p->id);
	if (over) {
		remove_scratch(p, p->other);
		remove_place(p, PLACE);
	}
	p->seat = 0;
}
