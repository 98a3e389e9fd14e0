/*
 * node.h - who is alive: this daemon's beat, and the beats of others (DESIGN 3).
 *
 * An owner is one life of one daemon, "<host, 8 at most>.<12 random>", drawn at its start and
 * never reused. It is alive while its file nodes/<owner> exists and moves. No clock is compared
 * with another machine's: an owner is silent when this observer has seen its beat unchanged for
 * four beats of the observer's own CLOCK_BOOTTIME. The verdict is published by unlinking.
 *
 * Every function may block on the storage. A struct node is used by one thread at a time, and
 * so is a struct watch; they may be two threads.
 */
#ifndef RASER_NODE_H
#define RASER_NODE_H

#include "chain.h"
#include "host.h"

enum { NODE_TEXT = 1024, NODE_NOTE = 160, UUID_TEXT = 33 };

/* What an owner is, as its beat and, but for daemons, its name say. */
enum owner_kind {
	OWNER_DAEMON,
	OWNER_HAND,   /* a tool that changes tasks: "hand.<12 random>" */
	OWNER_SEALER, /* raser seal: "seal.<12 random>" */
};

struct node {
	struct disk *disk;
	enum owner_kind kind;
	char owner[OWNER_TEXT];
	char host[HOST_TEXT], job[JOB_TEXT]; /* as they were when it joined */
	int restarts;
	int64_t second; /* the last time written, in whole seconds */
	int64_t wall;	/* the clock at the last beat */
	char text[NODE_TEXT];
	char note[NODE_NOTE]; /* "low=5 high=2": agents by tier, as last written */
	int died;	      /* attempts in a row that died at once, likewise */
	bool paused;
};

/* What the text of a beat says; fields that it lacks are empty or 0. */
struct node_info {
	char owner[OWNER_TEXT];
	char host[HOST_TEXT];
	char boot[40];
	uint64_t pidns;
	long pid;
	uint64_t start; /* of the process, in clock ticks since boot */
	char version[32];
	char agents[NODE_NOTE];
	char job[JOB_TEXT]; /* of Slurm, "" outside of it */
	int restarts;	    /* of that job */
	int died;	    /* attempts in a row that died at once through it */
	bool paused;	    /* it does not claim for that */
};

/* Draw a new owner name. */
void
owner_draw(char owner[OWNER_TEXT], enum owner_kind kind);

/* The name is one that only a sealer has. */
bool
owner_is_sealer(const char *owner);

/* Draw len characters of [a-z2-7], and a NUL. */
void
random_text(char *out, size_t len);

/* Draw an owner and create its beat; wall in seconds. 0 or an errno. */
int
node_join(struct node *node, struct disk *disk, enum owner_kind kind, int64_t wall);

/* Beat once. -EOWNERDEAD: the beat is gone, so this owner is dead (by a verdict or by hand). */
int
node_beat(struct node *node, int64_t wall);

/* Tell others how many agents are here, in their tiers, and whether attempts die at once. Hints only;
 * never creates the beat. */
int
node_note(struct node *node, const char *note, int died, bool paused);

/* The part of an owner's name that is its host's: how long it is. */
size_t
owner_host(const char *owner);

/* Unlink the beat. */
void
node_leave(struct node *node);

bool
node_parse(const char *text, struct node_info *info);

/* Its pid means the same process here: the same boot, and the same pid namespace. */
bool
node_is_here(const struct node_info *info);

enum verdict {
	ALIVE,
	DEAD_LOST,   /* silent, or its beat is gone: its claims end as lost */
	DEAD_PROVEN, /* its process is gone: its claims end as freed (restart), then bury it */
};

struct watched {
	char owner[OWNER_TEXT];
	enum verdict verdict;
	bool listed;	    /* in the last listing of nodes/ */
	bool moved;	    /* its beat has changed under my eyes */
	bool info_read;
	struct disk_stat sig;
	int64_t since;	    /* end of the first look that showed sig; 0 = no look yet */
	int64_t last;	    /* start of the last look */
	int looks;
	int64_t missing;    /* end of the first listing without it; 0 = it was there */
	int64_t seen_wall;  /* mtime of the beat, for people only */
	uint32_t id;	    /* stable in this daemon, for node ids and cookies */
	struct node_info info;
};

struct watch {
	struct disk *disk;
	char uuid[UUID_TEXT];
	int64_t beat_ms, window_ms;
	int64_t missing_ms; /* for so long an owner is not listed before that is believed */
	int64_t last_round; /* start of the last good round; 0 = none */
	uint32_t next_id;
	struct watched *owners;
	size_t n, cap;
};

void
watch_init(struct watch *w, struct disk *disk, const char *uuid, int64_t beat_ms);
/* What is seen here of others may be so old: wait that much longer before a verdict. */
void
watch_allow(struct watch *w, int64_t times_ms, int64_t names_ms);
void
watch_free(struct watch *w);

/* The entry of an owner, made when it is new; NULL when memory is out. Pointers are good until
 * the next call. */
struct watched *
watch_owner(struct watch *w, const char *owner);

/*
 * One round: list nodes/ afresh, look at the owners that follow self and at the wanted ones
 * (flagged by the caller with watch_want()), and judge. restart: something of our own went
 * wrong since the last round (a late or failed beat), so every window begins anew.
 * Returns the milliseconds until the next round is due, or an errno of the storage, after which
 * every window begins anew as well.
 */
int64_t
watch_round(struct watch *w, const char *self, const char *const *wanted, size_t nwanted,
	    bool restart);

/* All claims of a proven dead owner are ended: unlink its beat. It stays proven dead when that fails. */
void
watch_bury(struct watch *w, const char *owner);

/* Read FORMAT: 0 and the uuid, -EINVAL when it is not ours. */
int
format_read(struct disk *disk, char uuid[UUID_TEXT]);
/* The text of a new FORMAT. */
void
format_text(char *buf, size_t size, const char *uuid);

#endif
