/*
 * directory.c - what stands in the run directory, and what must stand there: I7, I8, I11.
 */
#include <config.h>

#include "audit_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what stands ---- */

struct bays {
	struct audit *a;
	char bay[DISK_PATH]; /* the one that is listed */
	char **names;
	size_t n, cap;
};

static int
on_bay(void *arg, const char *name)
{
	struct bays *b = arg;
	char **grown = audit_grow(b->names, b->n, &b->cap, sizeof(*b->names));

	if (!grown)
		return -ENOMEM;
	b->names = grown;
	b->names[b->n] = strdup(name);
	return b->names[b->n++] ? 0 : -ENOMEM;
}

static int
add_link(struct audit *a, bool sealed, const char *bay, const char *task, unsigned attempt,
	 enum link_kind kind, const char *text)
{
	char path[DISK_PATH * 2];
	struct link *grown = audit_grow(a->links, a->nlinks, &a->cap_links, sizeof(*a->links));

	if (!grown)
		return -ENOMEM;
	a->links = grown;
	snprintf(path, sizeof(path), "%s/%s@%u.%s", bay, task, attempt,
		 kind == LINK_END ? "end" : "claim");
	struct link *l = &a->links[a->nlinks++];
	*l = (struct link){ .path = strdup(path), .bay = strdup(bay), .task = strdup(task),
			    .attempt = attempt, .kind = kind, .sealed = sealed };
	snprintf(l->text, sizeof(l->text), "%s", text);
	if (kind == LINK_END) {
		l->parses = end_parse(text, &l->end);
	} else {
		claim_parse(text, &l->claim);
		l->parses = l->claim.verb != CLAIM_GARBLED;
	}
	return l->path && l->bay && l->task ? 0 : -ENOMEM;
}

static int
on_file(void *arg, const char *name)
{
	struct bays *b = arg;
	struct audit *a = b->a;
	char stem[NAME_LIMIT + 16];
	char path[DISK_PATH * 2];
	char text[LINK_TEXT];
	const char *dot = strrchr(name, '.');
	size_t len;
	unsigned attempt;

	bool is_end = dot && !strcmp(dot, ".end");
	if (!dot || (!is_end && strcmp(dot, ".claim") != 0) || dot - name >= (ptrdiff_t)sizeof(stem))
		return 0; /* digests and what people leave there; `raser fsck` tells */
	snprintf(stem, sizeof(stem), "%.*s", (int)(dot - name), name);
	if (!name_split(stem, &len, &attempt)) {
		audit_say(a, 1, "%s/%s: no name of a link", b->bay, name);
		return 0;
	}
	snprintf(path, sizeof(path), "%s/%s", b->bay, name);
	int rc = chain_read(a->disk, path, text);
	if (rc)
		return rc;
	stem[len] = '\0';
	return add_link(a, false, b->bay, stem, attempt, is_end ? LINK_END : LINK_CLAIM, text);
}

static int
on_sealed(void *arg, const char *bay, const char *name, unsigned attempt, enum link_kind kind,
	  const char *text)
{
	return add_link(arg, true, bay, name, attempt, kind, text);
}

/* Links that lie beside the seal which tells of them count once, as the seal has them. */
static void
drop_covered(struct audit *a)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->nlinks; i++) {
		struct link *l = &a->links[i];

		if (kept && a->links[kept - 1].sealed && !strcmp(a->links[kept - 1].path, l->path)) {
			free(l->path);
			free(l->bay);
			free(l->task);
		} else {
			a->links[kept++] = *l;
		}
	}
	a->nlinks = kept;
}

static int
by_link(const void *x, const void *y)
{
	const struct link *l = x;
	const struct link *m = y;
	int order = strcmp(l->task, m->task);

	if (!order)
		order = l->attempt < m->attempt ? -1 : l->attempt > m->attempt;
	if (!order)
		order = (int)l->kind - (int)m->kind;
	return order ? order : (int)m->sealed - (int)l->sealed;
}

static int
on_task(void *arg, const struct task *t)
{
	struct audit *a = arg;
	struct task *grown = audit_grow(a->tasks, a->ntasks, &a->cap_tasks, sizeof(*a->tasks));

	if (!grown)
		return 1;
	a->tasks = grown;
	a->tasks[a->ntasks++] = *t;
	return 0;
}

int
audit_collect(struct audit *a, struct err *err)
{
	struct bays b = { .a = a };
	int64_t read = queue_refresh(a->queue, (struct now){ .boot_ms = disk_now(a->disk) }, 0, 0);

	if (read < 0)
		return err_set(err, (int)read, "the run cannot be read: %s", strerror((int)-read));
	queue_list(a->queue, VIEW_ALL, 0, on_task, a);
	int rc = disk_list(a->disk, "chain", on_bay, &b);
	for (size_t i = 0; i < b.n; i++) {
		snprintf(b.bay, sizeof(b.bay), "chain/%.200s", b.names[i]);
		if (!rc)
			rc = disk_list(a->disk, b.bay, on_file, &b);
		if (rc == -ENOTDIR)
			rc = 0; /* a file that somebody left there */
		free(b.names[i]);
	}
	free(b.names);
	for (int64_t i = 0; !rc; i++)
		rc = queue_sealed_links(a->queue, i, on_sealed, a);
	rc = rc == -ERANGE ? 0 : rc;
	if (a->nlinks)
		qsort(a->links, a->nlinks, sizeof(*a->links), by_link);
	drop_covered(a);
	return rc ? err_set(err, rc, "chain/ cannot be read: %s", strerror(-rc)) : 0;
}

/* ---- I7: what was acknowledged ---- */

struct count {
	struct audit *a;
	int number;
	int64_t n, missing;
};

static int
on_counted(void *arg, int64_t line, const struct task_spec *spec)
{
	struct count *c = arg;
	struct task t;

	(void)line;
	c->n++;
	c->missing += queue_find(c->a->queue, spec->name, &t) != 0;
	return 0;
}

static void
check_batch(struct audit *a, const struct note *n)
{
	enum { CHUNK = 1024 };
	char path[DISK_PATH];
	char text[128] = "";
	char r[RANDOM_TEXT];
	struct batch batch;
	struct count c = { .a = a, .number = (int)n->a };
	struct err err = { 0 };

	snprintf(path, sizeof(path), "batches/%d", c.number);
	if (disk_readlink(a->disk, path, text, sizeof(text)) < 0 || strcmp(text, n->whom) != 0 ||
	    sscanf(text, "b.%12[a-z2-7].sqlite", r) != 1) {
		audit_say(a, 7, "%s is '%s', but %s was acknowledged as it (%s)", path, text, n->whom,
			  audit_where(a, n->life, n->line));
		return;
	}
	int rc = batch_open(&batch, a->disk, c.number, r, &err);
	if (!rc) {
		int64_t after = 0;
		int64_t next;

		while ((next = batch_tasks(&batch, a->disk, after, CHUNK, on_counted, &c)) > after)
			after = next;
		if (next < 0)
			rc = (int)next;
		batch_close(&batch);
		pthread_mutex_destroy(&batch.lock);
	}
	if (rc || c.n != n->b || c.missing)
		audit_say(a, 7, "%s (%s): %lld tasks were acknowledged, %lld are in it, %lld of them "
			  "are not in the queue%s%s (%s)", path, n->whom, (long long)n->b,
			  (long long)c.n, (long long)c.missing, rc ? ": " : "",
			  rc ? strerror(-rc) : "", audit_where(a, n->life, n->line));
}

static const char *const state_names[] = {
	[TASK_PENDING] = "pending", [TASK_CLAIMED] = "claimed",	    [TASK_DONE] = "done",
	[TASK_FAILED] = "failed",   [TASK_CANCELLED] = "cancelled", [TASK_UNREAD] = "unread",
};

static void
check_state(struct audit *a, const struct task *t)
{
	int64_t *count[] = {
		[TASK_PENDING] = &a->totals.pending, [TASK_CLAIMED] = &a->totals.claimed,
		[TASK_DONE] = &a->totals.done,	     [TASK_FAILED] = &a->totals.failed,
		[TASK_CANCELLED] = &a->totals.cancelled,
	};

	a->totals.tasks++;
	if (t->state == TASK_UNREAD) {
		audit_say(a, 7, "task %s@%u: its end cannot be read, so it is in no state", t->name,
			  t->attempt);
		return;
	}
	++*count[t->state];
	if (a->o->settled && (t->state == TASK_PENDING || t->state == TASK_CLAIMED))
		audit_say(a, t->state == TASK_CLAIMED ? 11 : 7,
			  "task %s@%u is still %s, though the faults are over and agents worked on",
			  t->name, t->attempt, state_names[t->state]);
}

/* ---- I8: results ---- */

/* The folder that results/name names, itself or by a link. */
static void
result_folder(struct audit *a, const char *name, char folder[DISK_PATH])
{
	char path[DISK_PATH];

	snprintf(path, sizeof(path), "results/%.400s", name);
	if (disk_readlink(a->disk, path, folder, DISK_PATH) < 0)
		snprintf(folder, DISK_PATH, "%.400s", name);
}

static void
check_result(struct audit *a, const struct task *t)
{
	char folder[DISK_PATH];
	char accepted[DISK_PATH];
	char path[DISK_PATH];
	const struct link *l;
	struct disk_stat st;

	if (t->state != TASK_DONE)
		return;
	result_folder(a, t->name, folder);
	if (!strcmp(folder, t->name))
		return; /* an agent without raser-agentd publishes none */
	size_t n = audit_links(a, t->name, &l);
	if (!n || l[n - 1].kind != LINK_END || !l[n - 1].parses)
		return;
	const struct link *end = &l[n - 1];
	snprintf(path, sizeof(path), "%s@%u.%s", t->name, end->attempt, owner_random(end->end.owner));
	/* an agent that was kept over several attempts has one folder: the later names are links to it */
	result_folder(a, path, accepted);
	if (strcmp(folder, accepted) != 0)
		audit_say(a, 8, "task %s@%u: accepted from %s, but results/%s points to %s", t->name,
			  end->attempt, end->end.owner, t->name, folder);
	snprintf(path, sizeof(path), "results/%.400s", folder);
	if (disk_stat(a->disk, path, &st))
		audit_say(a, 8, "task %s@%u: results/%s points to %s, which is not there", t->name,
			  end->attempt, t->name, folder);
}

/* ---- I11: at rest ---- */

/* By what is told of a daemon, it is dead; a beat of which nothing is told may be anybody's. */
static bool
is_dead(const struct audit *a, const char *name)
{
	const struct owner *o = audit_owner(a, name);

	if (o && (o->over || a->lives[o->life].stopped))
		return true;
	for (size_t i = 0; i < a->nnotes; i++)
		if (a->notes[i].kind == NOTE_FAULT && !strcmp(a->notes[i].what, "kill") &&
		    !strcmp(a->notes[i].whom, name))
			return true;
	return false;
}

struct rest {
	struct audit *a;
	int dead, living;
	char names[16][OWNER_TEXT]; /* of dead ones, the first of them */
};

static int
on_node(void *arg, const char *name)
{
	struct rest *r = arg;

	if (!is_dead(r->a, name))
		r->living++;
	else if (r->dead < 16)
		snprintf(r->names[r->dead++], OWNER_TEXT, "%s", name);
	return 0;
}

/* Where nobody lives, nobody can have cleared up. */
static void
check_beats(struct audit *a)
{
	struct rest r = { .a = a };

	disk_list(a->disk, "nodes", on_node, &r);
	for (int i = 0; r.living && i < r.dead; i++)
		audit_say(a, 11, "nodes/%s is still there, though that daemon is dead and others live",
			  r.names[i]);
}

void
audit_directory(struct audit *a)
{
	for (size_t i = 0; i < a->nnotes; i++)
		if (a->notes[i].kind == NOTE_SUBMITTED)
			check_batch(a, &a->notes[i]);
	for (size_t i = 0; i < a->ntasks; i++) {
		check_state(a, &a->tasks[i]);
		check_result(a, &a->tasks[i]);
	}
	if (a->o->settled)
		check_beats(a);
}
