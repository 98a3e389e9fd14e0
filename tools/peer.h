/*
 * peer.h - two processes on two nodes that meet in a directory, by names alone: no port, no lock,
 * no clock that is compared. `raser doctor --peer` only.
 *
 * They meet in selftest.peer. Whoever makes seat.1 there is the first, seat.2 the second. Each
 * shows that it lives by ever new names beat.ID.N, and says things by names say.SEAT.STEP, whose
 * texts are what is said. Everything is found by listing, which is what a fresh look is.
 */
#ifndef RASER_PEER_H
#define RASER_PEER_H

#include <pthread.h>

#include "doctor.h"

enum { PEER_ID = 13, PEER_STEP_LEFT = 99 };

struct peer {
	struct doctor *d;
	int seat;	  /* 1 or 2; 0: not met */
	char id[PEER_ID]; /* mine; selftest.ID is my scratch directory */
	char other[PEER_ID];
	char host[40];		       /* the other's */
	long beat;		       /* the other's last one, -1 = none seen */
	int64_t alive;		       /* boot ms when that changed */
	bool said[PEER_STEP_LEFT + 1]; /* by the other, as last listed */
	bool seats[3];
	pthread_t beating;
	struct disk beat_disk;
	bool started;
	volatile bool quiet; /* no beat any more */
};

/* Meet the other one: wait for it, bounded, with progress on stderr. 0 or a negative errno after a
 * finding. */
int
peer_meet(struct peer *p, struct doctor *d);

/* Say a step's text, of 40 characters at most. 0 or an errno. */
int
peer_say(struct peer *p, int step, const char *text);

/* Wait until the other has said it. 0; -EOWNERDEAD: it gives no sign of life, or has left;
 * -ETIMEDOUT; -EINTR: we are to stop. */
int
peer_hear(struct peer *p, int step, char text[LINK_TEXT]);

/* One look: has it said that? 1, 0 or an errno as above. */
int
peer_heard(struct peer *p, int step);

/* Leave, and remove what is left; rc: how it went. */
void
peer_part(struct peer *p, int rc);

/* The paths of things in one's own scratch directory, or in the other's. */
void
peer_path(const struct peer *p, bool mine, const char *name, char path[DISK_PATH]);

#endif
