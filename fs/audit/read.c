/*
 * read.c - histories in: lines to tables. Tolerant: a line that is not whole is counted and left.
 */
#include <config.h>

#include "audit_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 10 };

void *
audit_grow(void *array, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	size_t more = *cap ? *cap * 2 : 64;
	void *grown = realloc(array, more * size);

	if (grown)
		*cap = more;
	return grown;
}

/* The next free element of a table of the audit, zeroed; returns from the caller without one. */
#define NEW(a, table)                                                                               \
	({                                                                                          \
		void *grown_ = audit_grow((a)->table, (a)->n##table, &(a)->cap_##table,             \
					  sizeof(*(a)->table));                                     \
		if (!grown_)                                                                        \
			return -ENOMEM;                                                             \
		(a)->table = grown_;                                                                \
		memset(&(a)->table[(a)->n##table], 0, sizeof(*(a)->table));                         \
		&(a)->table[(a)->n##table++];                                                       \
	})

struct line {
	int number; /* in its source */
	int life;
	int64_t at;
	char *field[FIELDS]; /* from the verb on; "" where there are no more */
};

static int64_t
number(const char *s)
{
	return strtoll(s, NULL, 10);
}

static struct owner *
last_owner(struct audit *a, const char *name)
{
	/* owners are sorted later, and mostly the one that speaks is the youngest */
	for (size_t i = a->nowners; i-- > 0;)
		if (!strcmp(a->owners[i].name, name))
			return &a->owners[i];
	return NULL;
}

static int
on_start(struct audit *a, const struct line *l)
{
	struct life *life = &a->lives[l->life];

	snprintf(life->boot, sizeof(life->boot), "%s", l->field[3]);
	return 0;
}

static int
on_run(struct audit *a, const struct line *l)
{
	snprintf(a->lives[l->life].uuid, UUID_TEXT, "%s", l->field[1]);
	return 0;
}

static int
on_stop(struct audit *a, const struct line *l)
{
	a->lives[l->life].stopped = true;
	return 0;
}

static int
on_owner(struct audit *a, const struct line *l)
{
	struct owner *o = NEW(a, owners);

	o->life = l->life;
	/* its first touch may have been under way for long; older histories do not tell */
	o->born = *l->field[2] ? number(l->field[2]) : l->at;
	snprintf(o->name, sizeof(o->name), "%s", l->field[1]);
	return 0;
}

static int
on_beat(struct audit *a, const struct line *l)
{
	struct owner *o = last_owner(a, l->field[1]);

	if (!o || number(l->field[3]))
		return 0;
	struct beat *grown = audit_grow(o->beats, o->n, &o->cap, sizeof(*o->beats));
	if (!grown)
		return -ENOMEM;
	o->beats = grown;
	o->beats[o->n++] = (struct beat){ .since = number(l->field[2]), .at = l->at };
	return 0;
}

static int
on_over(struct audit *a, const struct line *l)
{
	struct owner *o = last_owner(a, l->field[1]);

	if (o) {
		o->over = l->at;
		o->left = !strcmp(l->field[0], "leave");
	}
	return 0;
}

static int
on_cas(struct audit *a, const struct line *l)
{
	struct create *c = NEW(a, creates);

	*c = (struct create){ .path = strdup(l->field[1]), .text = strdup(l->field[2]),
			      .life = l->life, .line = l->number, .call = l->at };
	return c->path && c->text ? 0 : -ENOMEM;
}

static int
on_returned(struct audit *a, const struct line *l)
{
	enum { BACK = 4096 }; /* creates in flight at once, at most */
	size_t low = a->ncreates > BACK ? a->ncreates - BACK : 0;

	for (size_t i = a->ncreates; i-- > low;) {
		struct create *c = &a->creates[i];

		if (c->fate != FATE_OPEN || c->life != l->life || strcmp(c->path, l->field[1]) != 0 ||
		    strcmp(c->text, l->field[2]) != 0)
			continue;
		c->ret = l->at;
		c->line = l->number;
		c->fate = !strcmp(l->field[0], "won")	 ? FATE_WON :
			  !strcmp(l->field[0], "lost")	 ? FATE_LOST :
			  !strcmp(l->field[0], "failed") ? FATE_FAILED :
							   FATE_UNKNOWN;
		if (c->fate == FATE_LOST)
			c->found = strdup(l->field[3]);
		return 0;
	}
	a->totals.torn++; /* a return without a call */
	return 0;
}

static int
on_told(struct audit *a, const struct line *l)
{
	struct answer *t = NEW(a, answers);

	*t = (struct answer){ .task = strdup(l->field[1]), .attempt = (unsigned)number(l->field[2]),
			      .what = strdup(l->field[3]), .rc = (int)number(l->field[4]),
			      .seq = (uint64_t)number(l->field[6]), .since = number(l->field[7]),
			      .at = l->at, .life = l->life, .line = l->number };
	snprintf(t->owner, sizeof(t->owner), "%s", l->field[5]);
	a->totals.told++;
	return t->task && t->what ? 0 : -ENOMEM;
}

static int
add_note(struct audit *a, const struct line *l, enum note_kind kind, const char *what,
	 const char *whom, const char *n, const char *m)
{
	struct note *x = NEW(a, notes);

	*x = (struct note){ .kind = kind, .what = strdup(what), .whom = strdup(whom),
			    .a = number(n), .b = number(m), .life = l->life, .line = l->number,
			    .at = l->at };
	a->totals.faults += kind == NOTE_FAULT;
	return x->what && x->whom ? 0 : -ENOMEM;
}

static int
on_hand(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_HAND, l->field[1], l->field[2], l->field[3], l->field[4]);
}

static int
on_submitted(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_SUBMITTED, "", l->field[2], l->field[1], l->field[3]);
}

static int
on_fault(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_FAULT, l->field[1], l->field[2], "0", "0");
}

static int
on_verdict(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_VERDICT, l->field[2], l->field[1], "0", "0");
}

static int
on_unlink(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_UNLINK, "", l->field[1], l->field[2], "0");
}

static int
on_overruled(struct audit *a, const struct line *l)
{
	return add_note(a, l, NOTE_OVERRULED, "", l->field[1], l->field[2], "0");
}

static const struct {
	const char *verb;
	int fields; /* at least, the verb included */
	int (*fn)(struct audit *a, const struct line *l);
} verbs[] = {
	{ "start", 6, on_start },   { "run", 3, on_run },	   { "stop", 1, on_stop },
	{ "owner", 2, on_owner },   { "beat", 4, on_beat },	   { "dead", 2, on_over },
	{ "leave", 2, on_over },    { "verdict", 3, on_verdict },  { "unlink", 3, on_unlink },
	{ "cas", 3, on_cas },	    { "won", 3, on_returned },	   { "lost", 4, on_returned },
	{ "failed", 4, on_returned }, { "unknown", 3, on_returned }, { "told", 8, on_told },
	{ "hand", 5, on_hand },	    { "submitted", 4, on_submitted }, { "fault", 3, on_fault },
	{ "overruled", 3, on_overruled },
};

int
audit_source(struct audit *a, const char *name)
{
	struct life *life = NEW(a, lives);

	snprintf(life->name, sizeof(life->name), "%s", name);
	return (int)a->nlives - 1;
}

int
audit_line(struct audit *a, int source, const char *line, size_t len)
{
	char copy[2048];
	struct line l = { .life = source };
	int n = 0;

	l.number = ++a->lives[source].lines;
	if (len && line[len - 1] == '\n')
		len--;
	if (len >= sizeof(copy)) {
		a->totals.torn++;
		return 0;
	}
	memcpy(copy, line, len);
	copy[len] = '\0';
	for (int i = 0; i < FIELDS; i++)
		l.field[i] = copy + len;
	char *rest = strchr(copy, '\t');
	while (rest && n < FIELDS) {
		*rest++ = '\0';
		l.field[n++] = rest;
		rest = strchr(rest, '\t');
	}
	l.at = number(copy);
	for (size_t i = 0; n && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].verb, l.field[0]) != 0)
			continue;
		if (n < verbs[i].fields)
			break;
		struct life *life = &a->lives[l.life];

		if (!life->last)
			life->first = l.at;
		life->last = l.at;
		return verbs[i].fn(a, &l);
	}
	a->totals.torn++;
	return 0;
}

static int
read_file(struct audit *a, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	if (!f)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	int source = audit_source(a, slash ? slash + 1 : path);
	int rc = source < 0 ? source : 0;
	while (!rc && (n = getline(&line, &size, f)) > 0) {
		if (line[n - 1] != '\n') { /* its writer was killed in the middle */
			a->totals.torn++;
			break;
		}
		rc = audit_line(a, source, line, (size_t)n);
	}
	if (!rc && ferror(f))
		rc = -EIO;
	free(line);
	fclose(f);
	return rc ? err_set(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

int
audit_read(struct audit *a, const char *path, struct err *err)
{
	struct dirent **names;
	int rc = 0;
	int n = scandir(path, &names, NULL, alphasort);

	if (n < 0)
		return errno == ENOTDIR ? read_file(a, path, err) :
					  err_set(err, -errno, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *dot = strrchr(names[i]->d_name, '.');
		char file[4096];

		if (!rc && dot && !strcmp(dot, ".history")) {
			snprintf(file, sizeof(file), "%.3800s/%s", path, names[i]->d_name);
			rc = read_file(a, file, err);
		}
		free(names[i]);
	}
	free(names);
	return rc;
}

/* ---- once all is read ---- */

static int
by_owner(const void *x, const void *y)
{
	return strcmp(((const struct owner *)x)->name, ((const struct owner *)y)->name);
}

static int
by_path(const void *x, const void *y)
{
	const struct create *c = x;
	const struct create *d = y;
	int order = strcmp(c->path, d->path);

	return order ? order : strcmp(c->text, d->text);
}

static int
by_attempt(const void *x, const void *y)
{
	const struct answer *p = x;
	const struct answer *q = y;
	int order = strcmp(p->task, q->task);

	if (!order)
		order = p->attempt < q->attempt ? -1 : p->attempt > q->attempt;
	if (!order)
		order = p->life - q->life;
	return order ? order : p->line - q->line;
}

static bool
is_foreign(const struct audit *a, int life)
{
	return a->lives[life].foreign;
}

/* Leave out what another run's daemons said; histories may lie in one directory. */
#define KEEP_OURS(a, table)                                       \
	do {                                                      \
		size_t kept_ = 0;                                 \
		for (size_t i_ = 0; i_ < (a)->n##table; i_++)     \
			if (!is_foreign(a, (a)->table[i_].life))  \
				(a)->table[kept_++] = (a)->table[i_]; \
		(a)->n##table = kept_;                            \
	} while (0)

void
audit_sort(struct audit *a)
{
	for (size_t i = 0; i < a->nlives; i++) {
		struct life *l = &a->lives[i];

		l->foreign = l->uuid[0] && strcmp(l->uuid, a->uuid) != 0;
		a->totals.lives += l->uuid[0] && !l->foreign;
	}
	KEEP_OURS(a, owners);
	KEEP_OURS(a, creates);
	KEEP_OURS(a, answers);
	KEEP_OURS(a, notes);
	a->totals.owners = (int64_t)a->nowners;
	if (a->nowners)
		qsort(a->owners, a->nowners, sizeof(*a->owners), by_owner);
	if (a->ncreates)
		qsort(a->creates, a->ncreates, sizeof(*a->creates), by_path);
	if (a->nanswers)
		qsort(a->answers, a->nanswers, sizeof(*a->answers), by_attempt);
}
