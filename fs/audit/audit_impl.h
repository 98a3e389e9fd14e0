/*
 * audit_impl.h - what the files of the audit share. Nobody else includes it.
 */
#ifndef RASER_AUDIT_IMPL_H
#define RASER_AUDIT_IMPL_H

#include "audit.h"
#include "queue.h"

/* One file: one life of a daemon or tool, or of an injector of faults. */
struct life {
	char name[128]; /* of the file, for sentences */
	int lines;
	char boot[40];
	char uuid[UUID_TEXT];
	int clock;	 /* lives with one boot id share one */
	int64_t first, last;
	bool stopped;	 /* ended in order */
	bool foreign;	 /* of another run */
};

struct beat {
	int64_t since, at;
};

struct owner {
	char name[OWNER_TEXT];
	int life;
	int64_t born;
	int64_t over;  /* boot ms of `dead` or `leave`; 0 = neither */
	bool left;
	struct beat *beats; /* the good ones */
	size_t n, cap;
};

enum fate { FATE_OPEN, FATE_WON, FATE_LOST, FATE_FAILED, FATE_UNKNOWN };

/* A create, from its call to its return. */
struct create {
	char *path, *text, *found;
	int life, line;
	int64_t call, ret;
	enum fate fate;
};

struct answer {
	char *task, *what;
	unsigned attempt;
	int life, line;
	int64_t at, since;
	int rc;
	char owner[OWNER_TEXT];
	uint64_t seq;
};

enum note_kind { NOTE_HAND, NOTE_SUBMITTED, NOTE_FAULT, NOTE_VERDICT, NOTE_UNLINK,
		 NOTE_OVERRULED };

/* The rarer lines: what, whom, and two numbers as the verb has them. */
struct note {
	enum note_kind kind;
	char *what, *whom;
	int64_t a, b;
	int life, line;
	int64_t at;
};

/* A link that stands, or that a seal tells of. */
struct link {
	char *path; /* whole */
	char *bay, *task;
	unsigned attempt;
	enum link_kind kind;
	char text[LINK_TEXT];
	struct claim claim;
	struct end end;
	bool parses, sealed;
	const struct create *by; /* who says that it wrote it; NULL = nobody */
};

struct audit {
	struct life *lives;
	struct owner *owners;	/* sorted by name once all is read */
	struct create *creates; /* then by path, text */
	struct answer *answers; /* then by task, attempt, life, line */
	struct note *notes;
	struct link *links; /* by task, attempt, kind */
	struct task *tasks; /* by name */
	size_t nlives, nowners, ncreates, nanswers, nnotes, nlinks, ntasks;
	size_t cap_lives, cap_owners, cap_creates, cap_answers, cap_notes, cap_links,
		cap_tasks;
	int nclocks;
	int64_t *ahead; /* [of][in]: at most so many ms to add to a time of one clock */
	char uuid[UUID_TEXT];
	struct disk *disk;
	struct queue *queue;
	const struct audit_options *o;
	int64_t slack;
	audit_fn *fn;
	void *arg;
	struct audit_totals totals;
};

/* Room for one more element; NULL when memory is out. */
void *
audit_grow(void *array, size_t n, size_t *cap, size_t size);

/* Say a violation of I`invariant`, or a remark (0). */
void
audit_say(struct audit *a, int invariant, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* "file:line", good until the fourth call after. */
const char *
audit_where(const struct audit *a, int life, int line);

struct owner *
audit_owner(const struct audit *a, const char *name);

/* The answers about one attempt, in their order; how many. */
size_t
audit_answers(const struct audit *a, const char *task, unsigned attempt,
	      const struct answer **first);

/* The link of an attempt, or NULL. */
const struct link *
audit_link(const struct audit *a, const char *task, unsigned attempt, enum link_kind kind);
/* The links of one task, in their order; how many. */
size_t
audit_links(const struct audit *a, const char *task, const struct link **first);

/* Somebody deleted inside chain/ where this link or others of its task are. */
bool
audit_excused(const struct audit *a, const char *path);

/* A moment of one life's clock in another's: the latest that it can have been; INT64_MAX when
 * nothing is known. */
int64_t
audit_latest(const struct audit *a, int from_life, int64_t at, int in_life);

/* ---- the parts, in the order in which they run ---- */

void
audit_sort(struct audit *a);		    /* read.c: what was read */
int
audit_collect(struct audit *a, struct err *err); /* directory.c: what stands */
void
audit_chains(struct audit *a);		    /* chains.c: I1 I2 I3 */
void
audit_directory(struct audit *a);	    /* directory.c: I7 I8 I11 */
void
audit_writers(struct audit *a);		    /* words.c: I5 */
void
audit_clocks(struct audit *a);		    /* clocks.c */
void
audit_words(struct audit *a);		    /* words.c: I4 I6 I10 */
void
audit_thefts(struct audit *a);		    /* thefts.c: I9 */
void
audit_times(struct audit *a);		    /* thefts.c: I12 */

#endif
