/*
 * sealer.c - sealing a run, and waiting for who does. seal.h tells why this is safe.
 */
#include <config.h>

#include "seal.h"

#include "mutant.h"
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- who is there ---- */

static void
describe(const struct watched *o, char *text, size_t size)
{
	time_t t = (time_t)o->seen_wall;
	char when[32] = "?";
	struct tm tm;

	if (o->seen_wall && localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	if (o->info_read)
		snprintf(text, size, "%s on %.40s, process %ld, last beat %s", o->owner, o->info.host,
			 o->info.pid, when);
	else
		snprintf(text, size, "%s, last beat %s", o->owner, when);
}

static int
on_node(void *arg, const char *name)
{
	if (!owner_is_sealer(name) || strlen(name) >= OWNER_TEXT)
		return 0;
	snprintf(arg, OWNER_TEXT, "%s", name);
	return 1;
}

/* Beat while nothing else can be done; a beat that is gone is made anew, under a new name. */
static int
beat_waiting(struct queue *q, int64_t began)
{
	int64_t boot = disk_now(&q->disk);
	int64_t wall = q->now.wall_s + (boot - began) / 1000;

	if (boot - q->last_beat < conf_beat_ms(&q->conf))
		return 0;
	int rc = node_beat(&q->node, wall);
	if (rc == -EOWNERDEAD)
		rc = node_join(&q->node, &q->disk, q->kind, wall);
	if (!rc) {
		q->last_beat = boot;
		beat_said(q);
	}
	return rc;
}

/* A look at the sealer, and our own beat; when to look again, in ms. *wrong: what failed, or 0. */
static int
wait_round(struct queue *q, const char *sealer, int64_t began, int *wrong)
{
	enum { AGAIN_MS = 1000 };
	const char *wanted[] = { sealer };

	*wrong = beat_waiting(q, began);
	/* who cannot say that it lives does not know whether the other can */
	int64_t due = watch_round(&q->watch, q->node.owner, wanted, 1, *wrong != 0);
	if (due < 0)
		*wrong = (int)due;
	const struct watched *o = watch_owner(&q->watch, sealer);
	if (o && o->verdict == DEAD_PROVEN)
		watch_bury(&q->watch, sealer); /* it holds no claims */
	return due < 0 ? AGAIN_MS : (int)due;
}

int
sealer_wait(struct queue *q, struct err *err)
{
	enum { LOOK_MS = 200 };
	int64_t began = disk_now(&q->disk);
	int64_t round_at = began;
	int64_t good_at = began; /* the last time that nothing failed */
	char sealer[OWNER_TEXT];
	char who[200];
	bool seen = false;
	bool said = false;

	for (;;) {
		int wrong = 0;
		int rc = disk_list(&q->disk, "nodes", on_node, sealer);
		int64_t at = disk_now(&q->disk);

		if (!rc) /* an errno is below, a sealer above */
			break;
		if (rc < 0)
			wrong = rc;
		else if (at >= round_at)
			round_at = at + wait_round(q, sealer, began, &wrong);
		seen |= rc > 0;
		if (!wrong)
			good_at = at;
		/* what fails now and then only makes the waiting longer */
		if (wrong && (!seen || at - good_at >= q->conf.steal_after_ms))
			return err_set(err, wrong, "%s/nodes: %s", q->path, strerror(-wrong));
		const struct watched *o = rc > 0 ? watch_owner(&q->watch, sealer) : NULL;
		if (!said && o) {
			describe(o, who, sizeof(who));
			log_warnx("%s is being sealed by %s; waiting until that has ended", q->path,
				  who);
			said = true;
		}
		disk_pause(&q->disk, LOOK_MS);
	}
	if (said)
		log_warnx("%s: sealing has ended; going on", q->path);
	return 0;
}

/* ---- before sealing ---- */

int
queue_seal_beat(struct queue *q, const struct seal_watcher *w)
{
	struct now now = w->now(w->arg);

	if (w->stopped && w->stopped(w->arg))
		return -EINTR;
	if (now.boot_ms - q->last_beat < conf_beat_ms(&q->conf))
		return 0;
	/* one that cannot be touched is tried again; others judge us by it */
	return queue_beat(q, now) == -EOWNERDEAD ? -EOWNERDEAD : 0;
}

enum presence { NOBODY, SILENT, LIVES };

/* Who else is in the last listing of nodes/; who: one of those who count most. */
static enum presence
others(struct queue *q, char *who, size_t size)
{
	enum presence most = NOBODY;

	pthread_mutex_lock(&q->watch_lock);
	for (size_t i = 0; i < q->watch.n; i++) {
		const struct watched *o = &q->watch.owners[i];

		if (!o->listed || !strcmp(o->owner, q->node.owner))
			continue;
		/* one that this machine sees, and not as dead, needs no waiting for its next beat */
		bool lives = o->verdict == ALIVE &&
			     (o->moved || (o->info_read && o->looks && node_is_here(&o->info)));
		enum presence is = lives ? LIVES : SILENT;

		if (is > most) {
			most = is;
			describe(o, who, size);
		}
	}
	pthread_mutex_unlock(&q->watch_lock);
	return most;
}

static int
nobody_lives(struct queue *q, const struct seal_watcher *w, struct err *err)
{
	enum { LOOK_MS = 1000 };
	int64_t beat = conf_beat_ms(&q->conf);
	int64_t empty = 0; /* end of the first look that found nobody */
	int64_t last = 0;  /* start of the last look */
	char who[200] = "";
	char why[300];

	for (;;) {
		int rc = queue_seal_beat(q, w);
		if (rc)
			return rc;
		struct now now = w->now(w->arg);
		int64_t due = queue_watch(q, now);
		struct now after = w->now(w->arg);
		enum presence is = others(q, who, sizeof(who));
		bool failed = !q->watch.last_round; /* this thread alone uses it */

		if (is == LIVES)
			return err_set(err, -EBUSY, "the run is in use: %.100s lives", who);
		if (failed || is != NOBODY || now.boot_ms - last > 2 * beat)
			empty = 0;
		if (!failed && is == NOBODY && !empty)
			empty = after.boot_ms;
		last = now.boot_ms;
		int64_t left = q->conf.steal_after_ms - (empty ? now.boot_ms - empty : 0);
		if (left <= 0)
			return 0;
		if (is == SILENT)
			snprintf(why, sizeof(why), "%.200s: is it dead?", who);
		else
			snprintf(why, sizeof(why), failed ? "nodes/ cannot be read" : "nobody is there");
		if (w->waits)
			w->waits(w->arg, left, why);
		int64_t pause = due < LOOK_MS ? due : LOOK_MS;
		disk_pause(&q->disk, (int)(empty && left < pause ? left : pause));
	}
}

int
queue_seal_wait(struct queue *q, const struct seal_watcher *w, struct err *err)
{
	int rc = MUTANT(SEAL_ALONE) ? 0 : nobody_lives(q, w, err);

	if (rc == -EOWNERDEAD)
		return err_set(err, rc, "somebody has removed nodes/%s, the sign that this process "
			       "seals", q->node.owner);
	if (rc)
		return rc;
	/* what was read before may be old */
	int64_t got = queue_refresh(q, w->now(w->arg), 0, 0);
	return got < 0 ? err_set(err, (int)got, "%s cannot be read: %s", q->path,
				 strerror((int)-got)) : 0;
}

/* ---- a bay ---- */

struct link {
	struct row *row;
	unsigned attempt;
	enum link_kind kind;
	bool stands;  /* in the bay, to be removed */
	bool covered; /* in the seal before, or at or below what that says: not to be read */
	char text[LINK_TEXT];
};

struct sealing {
	struct queue *q;
	struct place p;
	struct bay_rows rows; /* by name */
	struct sealed *sealed; /* by row: what the seal before says */
	struct seal_numbers numbers;
	unsigned number; /* of the seal before; 0 = none */
	struct link *links;
	size_t n, cap;
	bool digest;
};

static struct link *
add_link(struct sealing *s, struct row *row, unsigned attempt, enum link_kind kind)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : (size_t)3 * BAY_TASKS;
		struct link *grown = realloc(s->links, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		s->links = grown;
		s->cap = cap;
	}
	struct link *l = &s->links[s->n++];
	*l = (struct link){ .row = row, .attempt = attempt, .kind = kind };
	return l;
}

static int
on_file(void *arg, const char *file)
{
	struct sealing *s = arg;
	enum link_kind kind;
	unsigned k;
	size_t len;

	s->digest |= !strcmp(file, "digest");
	if (seal_name(&s->numbers, file) || !link_parse(file, &len, &k, &kind))
		return 0;
	struct row *row = row_find(&s->rows, file, len);
	if (!row)
		return 0; /* of no task here: it stays */
	struct link *l = add_link(s, row, k, kind);
	if (!l)
		return -ENOMEM;
	l->stands = true;
	return 0;
}

static int
on_old(void *arg, struct row *row, unsigned attempt, enum link_kind kind, const char *text)
{
	struct link *l = add_link(arg, row, attempt, kind);

	if (!l)
		return -ENOMEM;
	l->covered = true;
	snprintf(l->text, sizeof(l->text), "%s", text);
	return 0;
}

/* Texts that could not stand in a line belong to nobody known, and stay so. */
static void
clean_text(char text[LINK_TEXT])
{
	bool good = text[0] != '\0';

	for (const char *p = text; *p; p++)
		good &= *p > 0x20 && *p < 0x7f;
	if (!good)
		snprintf(text, LINK_TEXT, "?");
}

static void
place_link(const struct sealing *s, const struct link *l, char path[DISK_PATH])
{
	char bay[DISK_PATH];

	place_bay(&s->p, bay);
	link_path(path, bay, l->row->task.name, l->attempt, l->kind);
}

static int
file_failed(struct err *err, int rc, const char *path)
{
	return err_set(err, rc, "%s: %s", path, strerror(-rc));
}

/* Everything that the bay holds, and the seal before. */
static int
read_bay(struct sealing *s, const struct seal_watcher *w, struct err *err)
{
	char path[DISK_PATH];

	place_bay(&s->p, path);
	int rc = disk_list(&s->q->disk, path, on_file, s);
	if (rc)
		return rc == -ENOENT ? 0 : file_failed(err, rc, path);
	size_t listed = s->n;
	rc = seal_read(s->q, &s->p, &s->numbers, &s->rows, s->sealed, &s->number, on_old, s);
	if (rc == -ENOENT || rc == -EBADMSG) {
		/* none, or torn ones, whose links are all there */
		memset(s->sealed, 0, BAY_TASKS * sizeof(*s->sealed));
		s->n = listed;
		s->number = 0;
		rc = 0;
	}
	if (rc) {
		seal_path(&s->p, s->numbers.n[0], path);
		return file_failed(err, rc, path);
	}
	for (size_t i = 0; i < listed; i++) {
		struct link *l = &s->links[i];

		l->covered = l->attempt <= s->sealed[l->row - s->rows.rows].attempt;
		if (l->covered)
			continue;
		place_link(s, l, path);
		rc = chain_read(&s->q->disk, path, l->text);
		if (rc)
			return file_failed(err, rc, path);
		clean_text(l->text);
		rc = queue_seal_beat(s->q, w);
		if (rc)
			return rc;
	}
	return 0;
}

static int
by_order(const void *a, const void *b)
{
	const struct link *x = a;
	const struct link *y = b;

	if (x->row->task.serial != y->row->task.serial)
		return x->row->task.serial < y->row->task.serial ? -1 : 1;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

/* Links that the next seal has: those of the one before, and those above it. */
static bool
is_packed(const struct link *l)
{
	return l->stands != l->covered;
}

/* Every task of the bay is over, by what was just read. Links are in their order. */
static bool
all_over(const struct sealing *s)
{
	int over = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct link *l = &s->links[i];
		struct fold f;

		if (!is_packed(l))
			continue;
		size_t next = i + 1;
		while (next < s->n && s->links[next].row == l->row && !is_packed(&s->links[next]))
			next++;
		if (next < s->n && s->links[next].row == l->row)
			continue; /* not its last one */
		if (!fold_link(l->attempt, l->kind, l->text, &f) || !is_over(f.state))
			return false;
		over++;
	}
	return over == s->rows.n;
}

/* Write the next seal, and see that it stands as it was written. */
static int
write_seal(struct sealing *s, unsigned number, struct err *err)
{
	char head[PACK_HEAD];
	char path[DISK_PATH];
	struct pack pack;

	seal_head(s->q, &s->p, number, head, sizeof(head));
	seal_path(&s->p, number, path);
	int rc = pack_begin(&pack, head);
	for (size_t i = 0; !rc && i < s->n; i++) {
		const struct link *l = &s->links[i];

		if (is_packed(l))
			fprintf(pack.f, "%s@%u.%s %s\n", l->row->task.name, l->attempt,
				l->kind == LINK_END ? "end" : "claim", l->text);
	}
	if (!rc)
		rc = pack_end(&pack);
	if (!rc)
		rc = disk_create(&s->q->disk, path, pack.text, pack.len);
	if (!rc)
		rc = bay_sync(s->q, &s->p);
	if (!rc)
		rc = pack_compare(&s->q->disk, path, pack.text, pack.len);
	pack_free(&pack);
	return rc ? file_failed(err, rc, path) : 0;
}

static int
remove_file(struct sealing *s, const char *path, struct err *err)
{
	int rc = disk_unlink(&s->q->disk, path);

	return rc && rc != -ENOENT ? file_failed(err, rc, path) : 0;
}

/* Remove the links that a whole seal tells of: claims first (seal.h, 4), and older seals. */
static int
remove_links(struct sealing *s, const struct seal_watcher *w, int64_t *removed, struct err *err)
{
	static const enum link_kind kinds[] = { LINK_CLAIM, LINK_END };
	char path[DISK_PATH];
	int rc = 0;

	for (int k = 0; k < 2; k++)
		for (size_t i = 0; !rc && i < s->n; i++) {
			if (!s->links[i].stands || s->links[i].kind != kinds[k])
				continue;
			rc = queue_seal_beat(s->q, w);
			if (rc)
				break;
			place_link(s, &s->links[i], path);
			rc = remove_file(s, path, err);
			++*removed;
		}
	for (int i = 0; !rc && i < s->numbers.count; i++)
		if (s->numbers.n[i] != s->number) {
			seal_path(&s->p, s->numbers.n[i], path);
			rc = remove_file(s, path, err);
		}
	return rc;
}

/* A digest that does not say how it stands now spares nobody anything. */
static int
renew_digest(struct sealing *s, struct err *err)
{
	char path[DISK_PATH];
	char bay[DISK_PATH];
	struct pack pack = { 0 };

	place_bay(&s->p, bay);
	snprintf(path, sizeof(path), "%.400s/digest", bay);
	int rc = digest_text(s->q, &s->p, &pack);
	if (rc == -EAGAIN) { /* somebody has reopened a task this moment: none is due */
		pack_free(&pack);
		return 0;
	}
	int same = !rc && s->digest ? pack_compare(&s->q->disk, path, pack.text, pack.len) : -ENOENT;
	if (!rc && same && same != -EBADMSG && same != -ENOENT)
		rc = same;
	if (!rc && same == -EBADMSG)
		rc = disk_unlink(&s->q->disk, path);
	if (!rc && same)
		rc = disk_create(&s->q->disk, path, pack.text, pack.len);
	pack_free(&pack);
	return rc ? file_failed(err, rc, path) : 0;
}

static int
seal_bay(struct sealing *s, const struct seal_watcher *w, struct seal_bay *out, struct err *err)
{
	char path[DISK_PATH];
	int rc = read_bay(s, w, err);

	if (rc || !s->n) {
		out->result = SEAL_NONE;
		return rc;
	}
	bool stands = false;
	bool news = false;
	for (size_t i = 0; i < s->n; i++) {
		stands |= s->links[i].stands;
		news |= s->links[i].stands && !s->links[i].covered;
	}
	qsort(s->links, s->n, sizeof(*s->links), by_order);
	if (!all_over(s)) {
		out->result = SEAL_UNFINISHED;
		return 0;
	}
	/* the last chance to see that we stood still, and others have begun */
	rc = queue_seal_beat(s->q, w);
	if (rc)
		return rc;
	if (stands && !news) {
		/* whoever wrote the seal may have died before its name was durable */
		rc = bay_sync(s->q, &s->p);
		if (rc) {
			seal_path(&s->p, s->number, path);
			return file_failed(err, rc, path);
		}
	}
	if (news) {
		unsigned number = s->numbers.count ? s->numbers.n[0] + 1 : 1;

		rc = write_seal(s, number, err);
		if (rc)
			return rc;
		s->number = number;
	}
	out->result = news ? SEAL_SEALED : SEAL_CLEAN;
	rc = remove_links(s, w, &out->links, err);
	return rc ? rc : renew_digest(s, err);
}

/* Bay i of the run, counted over all batches. */
static bool
find_bay(struct queue *q, int64_t i, struct place *p)
{
	bool found = false;

	pthread_mutex_lock(&q->lock);
	for (int b = 0; b < q->nbatches && !found; b++) {
		found = i < q->batches[b]->nbays;
		if (found)
			*p = (struct place){ .entry = q->batches[b], .bay = (int)i };
		else
			i -= q->batches[b]->nbays;
	}
	pthread_mutex_unlock(&q->lock);
	return found;
}

int
queue_seal_bay(struct queue *q, int64_t i, struct seal_bay *out)
{
	struct place p;

	if (!find_bay(q, i, &p))
		return -ERANGE;
	*out = (struct seal_bay){ .random = p.entry->batch.random, .bay = p.bay,
				  .first = p.entry->batch.base + (int64_t)p.bay * BAY_TASKS };
	out->tasks = p.entry->batch.base + p.entry->batch.lines - out->first;
	if (out->tasks > BAY_TASKS)
		out->tasks = BAY_TASKS;
	return 0;
}

int
queue_seal(struct queue *q, int64_t i, const struct seal_watcher *w, struct seal_bay *out,
	   struct err *err)
{
	struct sealing s = { .q = q };
	int rc = queue_seal_bay(q, i, out);

	if (rc)
		return rc;
	find_bay(q, i, &s.p);
	s.sealed = calloc(BAY_TASKS, sizeof(*s.sealed));
	rc = s.sealed ? bay_rows(q, &s.p, &s.rows) : -ENOMEM;
	if (rc)
		err_set(err, rc, "out of memory");
	if (!rc) {
		rows_sort(&s.rows);
		rc = seal_bay(&s, w, out, err);
	}
	if (rc == -EOWNERDEAD)
		err_set(err, rc, "this process stood still for so long that it was taken for dead");
	free(s.rows.rows);
	free(s.sealed);
	free(s.links);
	return rc;
}
