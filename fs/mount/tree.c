/*
 * tree.c - the mount's names: one static table, and the views of tasks. Everything here answers
 * from memory.
 */
#include <config.h>

#include "mount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VIEW_SHIFT = 58, ATTEMPT_SHIFT = 40, COOKIE_BASE = 16, LIST_MAX = 1024 };

#define SERIAL_MASK ((1ULL << ATTEMPT_SHIFT) - 1)

static const struct {
	const char *name;
	mode_t mode;
	enum view view; /* what a directory shows */
	int listing;	/* for queue_list() */
} fixed[FIXED_NAMED_END] = {
	[FIXED_ROOT] = { "", S_IFDIR | 0755, VIEW_FIXED, 0 },
	[FIXED_QUEUE] = { "queue", S_IFDIR | 0755, VIEW_FIXED, 0 },
	[FIXED_LEASES] = { "leases", S_IFDIR | 0755, VIEW_LEASES, TASK_CLAIMED },
	[FIXED_PENDING] = { "pending", S_IFDIR | 0755, VIEW_PENDING, TASK_PENDING },
	[FIXED_DONE] = { "done", S_IFDIR | 0755, VIEW_DONE, TASK_DONE },
	[FIXED_FAILED] = { "failed", S_IFDIR | 0755, VIEW_FAILED, TASK_FAILED },
	[FIXED_CANCELLED] = { "cancelled", S_IFDIR | 0755, VIEW_CANCELLED, TASK_CANCELLED },
	[FIXED_TASKS] = { "tasks", S_IFDIR | 0755, VIEW_TASKS, VIEW_ALL },
	[FIXED_NEW] = { "new", S_IFDIR | 0755, VIEW_NEW, 0 },
	[FIXED_NODES] = { "nodes", S_IFDIR | 0755, VIEW_NODES, 0 },
	[FIXED_CHECKPOINTS] = { "checkpoints", S_IFLNK | 0777, VIEW_FIXED, 0 },
	[FIXED_RESULTS] = { "results", S_IFLNK | 0777, VIEW_FIXED, 0 },
	[FIXED_LOGS] = { "logs", S_IFLNK | 0777, VIEW_FIXED, 0 },
	[FIXED_STATUS] = { "status", S_IFREG | 0444, VIEW_FIXED, 0 },
	[FIXED_STATUS_JSON] = { "status.json", S_IFREG | 0444, VIEW_FIXED, 0 },
	[FIXED_METRICS] = { "metrics", S_IFREG | 0444, VIEW_FIXED, 0 },
	[FIXED_REPORT] = { "report.html", S_IFREG | 0444, VIEW_FIXED, 0 },
	[FIXED_EVENTS] = { "events", S_IFREG | 0444, VIEW_FIXED, 0 },
	[FIXED_README] = { "README", S_IFREG | 0444, VIEW_FIXED, 0 },
};

/* The state whose directory a view is. */
static const enum task_state view_state[] = {
	[VIEW_PENDING] = TASK_PENDING,
	[VIEW_DONE] = TASK_DONE,
	[VIEW_FAILED] = TASK_FAILED,
	[VIEW_CANCELLED] = TASK_CANCELLED,
};

uint64_t
node_pack(struct node_id id)
{
	return (uint64_t)id.view << VIEW_SHIFT | (uint64_t)id.attempt << ATTEMPT_SHIFT |
	       ((uint64_t)id.serial & SERIAL_MASK);
}

struct node_id
node_unpack(uint64_t ino)
{
	return (struct node_id){ .view = (enum view)(ino >> VIEW_SHIFT),
				 .attempt = (unsigned)(ino >> ATTEMPT_SHIFT) & ATTEMPT_LIMIT,
				 .serial = (int64_t)(ino & SERIAL_MASK) };
}

int
fixed_tier(uint64_t ino, enum fixed base)
{
	return ino >= (uint64_t)base && ino < (uint64_t)base + TIERS_MAX ? (int)(ino - base) : -1;
}

enum view
dir_view(uint64_t ino)
{
	int tier = fixed_tier(ino, FIXED_TIER);

	if (tier >= 0)
		return (enum view)(VIEW_QUEUE + tier);
	return ino < FIXED_NAMED_END ? fixed[ino].view : VIEW_FIXED;
}

int
view_listing(enum view v)
{
	if (v >= VIEW_QUEUE)
		return VIEW_TIER + (int)(v - VIEW_QUEUE);
	for (int i = 0; i < FIXED_NAMED_END; i++)
		if (fixed[i].view == v)
			return fixed[i].listing;
	return VIEW_ALL;
}

double
attr_timeout(uint64_t ino)
{
	/* directories and links never change; files are made of live words */
	bool still = ino < FIXED_NAMED_END ? !S_ISREG(fixed[ino].mode) :
					     fixed_tier(ino, FIXED_TIER) >= 0;

	return still ? 3600 : 0;
}

static void
common_attr(struct mount *m, uint64_t ino, mode_t mode, int64_t size, int64_t mtime,
	    struct stat *st)
{
	*st = (struct stat){ .st_mode = mode, .st_uid = m->uid, .st_gid = m->gid,
			     .st_nlink = S_ISDIR(mode) ? 2 : 1, .st_size = size,
			     .st_blocks = (size + 511) / 512, .st_blksize = 65536 };
	/* below 2^53, for programs whose numbers are doubles; the attempt may coincide */
	struct node_id id = node_unpack(ino);
	st->st_ino = (ino_t)((uint64_t)id.view << 44 | (uint64_t)id.serial);
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = mtime;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void
task_attr(struct mount *m, struct node_id id, const struct task *t, struct stat *st)
{
	mode_t mode = S_IFREG | (id.view >= VIEW_QUEUE || id.view == VIEW_LEASES ? 0644 : 0444);
	int64_t size = t->size;
	int64_t mtime = t->changed;
	struct lease_info info;

	if ((id.view == VIEW_LEASES || (id.view >= VIEW_QUEUE && t->state == TASK_CLAIMED)) &&
	    !queue_lease(m->q, id.serial, id.attempt, &info))
		mtime = later(info.touched, info.since);
	if (id.view == VIEW_LEASES) {
		size_t len = 0;

		free(text_make(m, node_pack(id), &len));
		size = (int64_t)len;
	}
	common_attr(m, node_pack(id), mode, size, mtime, st);
}

/* Attributes of a node whose id is no task's. 0 or ENOENT. */
static int
fixed_attr(struct mount *m, uint64_t ino, struct stat *st)
{
	mode_t mode = S_IFDIR | 0755;
	size_t size = 0;
	int64_t mtime = m->started.wall_s;

	if (ino && ino < FIXED_NAMED_END)
		mode = fixed[ino].mode;
	else if (fixed_tier(ino, FIXED_NEXT) >= 0)
		mode = S_IFREG | 0644;
	else if (fixed_tier(ino, FIXED_READY) >= 0)
		mode = S_IFREG | 0444;
	else if (fixed_tier(ino, FIXED_TIER) < 0)
		return ENOENT;
	if (S_ISLNK(mode)) {
		char path[PATH_MAX];

		size = tree_readlink(m, ino, path, sizeof(path)) ? 0 : strlen(path);
	} else if (S_ISREG(mode) && fixed_tier(ino, FIXED_NEXT) < 0) {
		free(text_make(m, ino, &size));
		if (ino != FIXED_README) /* the others change all the time */
			mtime = now_read().wall_s;
	}
	common_attr(m, ino, mode, (int64_t)size, mtime, st);
	return 0;
}

int
tree_attr(struct mount *m, uint64_t ino, struct stat *st)
{
	struct node_id id = node_unpack(ino);
	struct task t;

	switch (id.view) {
	case VIEW_FIXED:
		return fixed_attr(m, ino, st);
	case VIEW_NEW:
		return new_attr(m, id.serial, st) ? 0 : ENOENT;
	case VIEW_NODES: {
		size_t size = 0;
		char *text = text_make(m, ino, &size);

		free(text);
		common_attr(m, ino, S_IFREG | 0444, (int64_t)size, now_read().wall_s, st);
		return size ? 0 : ENOENT;
	}
	default:
		if (queue_get(m->q, id.serial, &t))
			return ENOENT;
		task_attr(m, id, &t, st);
		return 0;
	}
}

int
tree_readlink(struct mount *m, uint64_t ino, char *buf, size_t size)
{
	if (ino < FIXED_CHECKPOINTS || ino > FIXED_LOGS)
		return EINVAL;
	snprintf(buf, size, "%s/%s", queue_path(m->q), fixed[ino].name);
	return 0;
}

/* ---- look-up ---- */

/* May view show attempt k of t: 0, ENOENT or ESTALE. */
static int
visible(struct mount *m, enum view view, const struct task *t, unsigned k)
{
	struct lease_info info;

	if (view == VIEW_LEASES) {
		int rc = queue_lease(m->q, t->serial, k, &info);

		return -rc;
	}
	if (view >= VIEW_QUEUE)
		return k == t->attempt &&
				       conf_takes(m->conf, (int)(view - VIEW_QUEUE), t->counts.level) &&
				       (t->state == TASK_PENDING || t->state == TASK_CLAIMED) ?
			       0 :
			       ENOENT;
	/* older numbers too, so that mv finds what it has moved */
	return t->state == view_state[view] && k <= t->attempt ? 0 : ENOENT;
}

static int
lookup_task(struct mount *m, enum view view, const char *name, struct node_id *id, struct task *t)
{
	char task[NAME_LIMIT + 1];
	size_t len = strlen(name);
	unsigned k = 0;

	if (view != VIEW_TASKS && !name_split(name, &len, &k)) {
		/* done/T without its number, but nothing else has a short name */
		if (view == VIEW_LEASES || view >= VIEW_QUEUE)
			return ENOENT;
		len = strlen(name);
	}
	if (len > NAME_LIMIT)
		return ENOENT;
	memcpy(task, name, len);
	task[len] = '\0';
	if (queue_find(m->q, task, t))
		return ENOENT;
	*id = (struct node_id){ .view = view, .serial = t->serial, .attempt = k };
	if (view == VIEW_TASKS)
		return 0;
	if (!k)
		id->attempt = k = t->attempt;
	return visible(m, view, t, k);
}

static int
lookup_fixed(struct mount *m, uint64_t parent, const char *name, uint64_t *ino)
{
	int tier = fixed_tier(parent, FIXED_TIER);

	if (parent == FIXED_ROOT) {
		for (uint64_t i = FIXED_ROOT + 1; i < FIXED_NAMED_END; i++)
			if (!strcmp(fixed[i].name, name)) {
				*ino = i;
				return 0;
			}
	} else if (parent == FIXED_QUEUE) {
		int t = conf_tier(m->conf, name);

		if (t >= 0) {
			*ino = (uint64_t)FIXED_TIER + (uint64_t)t;
			return 0;
		}
	} else if (tier >= 0 && (!strcmp(name, "next") || !strcmp(name, "ready"))) {
		*ino = (uint64_t)(name[0] == 'n' ? FIXED_NEXT : FIXED_READY) + (uint64_t)tier;
		return 0;
	}
	return ENOENT;
}

static int
lookup_node(struct mount *m, const char *name, int64_t *number)
{
	struct node_line lines[256];
	size_t n = queue_nodes(m->q, lines, 256);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(lines[i].owner, name)) {
			*number = lines[i].id;
			return 0;
		}
	return ENOENT;
}

int
tree_lookup(struct mount *m, uint64_t parent, const char *name, struct fuse_entry_param *e)
{
	enum view view = dir_view(parent);
	struct node_id id = { .view = view };
	struct task t;
	int rc;

	*e = (struct fuse_entry_param){ 0 };
	rc = lookup_fixed(m, parent, name, &e->ino);
	if (!rc) {
		e->attr_timeout = attr_timeout(e->ino);
		e->entry_timeout = 3600;
		return fixed_attr(m, e->ino, &e->attr);
	}
	switch (view) {
	case VIEW_FIXED:
		return ENOENT;
	case VIEW_NEW:
		rc = new_lookup(m, name, &id.serial);
		break;
	case VIEW_NODES:
		rc = lookup_node(m, name, &id.serial);
		break;
	default:
		rc = lookup_task(m, view, name, &id, &t);
		if (rc == ENOENT)
			mount_want_refresh(m); /* others may know it by now */
		break;
	}
	if (rc)
		return rc;
	e->ino = node_pack(id);
	if (view == VIEW_NEW || view == VIEW_NODES)
		return tree_attr(m, e->ino, &e->attr);
	task_attr(m, id, &t, &e->attr);
	return 0;
}

/* ---- listing ---- */

struct lister {
	struct mount *m;
	fuse_req_t req;
	char *buf;
	size_t size, len;
	bool plus;
};

/* Add one entry; false when the buffer is full. */
static bool
add_entry(struct lister *l, const char *name, uint64_t ino, const struct stat *st, off_t cookie)
{
	size_t n;

	if (l->plus) {
		struct fuse_entry_param e = { .ino = ino, .attr = *st };

		/* a second, so that ls -l need not ask again; nothing is decided by it */
		e.attr_timeout = e.entry_timeout = 1;
		n = fuse_add_direntry_plus(l->req, l->buf + l->len, l->size - l->len, name, &e,
					   cookie);
	} else {
		n = fuse_add_direntry(l->req, l->buf + l->len, l->size - l->len, name, st, cookie);
	}
	if (n > l->size - l->len)
		return false;
	l->len += n;
	return true;
}

static bool
add_fixed(struct lister *l, const char *name, uint64_t ino, off_t cookie)
{
	struct stat st = { .st_ino = ino };

	if (ino < FIXED_NAMED_END)
		st.st_mode = fixed[ino].mode;
	else
		st.st_mode = S_IFDIR | 0755;
	if (l->plus && fixed_attr(l->m, ino, &st))
		return true;
	return add_entry(l, name, ino, &st, cookie);
}

struct rows {
	struct task *tasks;
	int n, max;
};

static int
on_row(void *arg, const struct task *t)
{
	struct rows *r = arg;

	r->tasks[r->n++] = *t;
	return r->n == r->max;
}

static void
list_tasks(struct lister *l, enum view view, off_t off)
{
	/* an entry has at least 32 bytes, with attributes 152 */
	struct rows r = { .max = (int)(l->size / (l->plus ? 152 : 32)) + 1 };
	int64_t after = off >= COOKIE_BASE ? off - COOKIE_BASE : 0;

	if (r.max > LIST_MAX)
		r.max = LIST_MAX;
	r.tasks = malloc((size_t)r.max * sizeof(*r.tasks));
	if (!r.tasks)
		return;
	queue_list(l->m->q, view_listing(view), after, on_row, &r);
	for (int i = 0; i < r.n; i++) {
		const struct task *t = &r.tasks[i];
		struct node_id id = { .view = view, .serial = t->serial,
				      .attempt = view == VIEW_TASKS ? 0 : t->attempt };
		struct stat st = { .st_mode = S_IFREG };
		char name[NAME_LIMIT + 16];

		snprintf(name, sizeof(name), view == VIEW_TASKS ? "%s" : "%s@%u", t->name,
			 t->attempt);
		if (l->plus)
			task_attr(l->m, id, t, &st);
		else
			st.st_ino = (ino_t)((uint64_t)id.view << 44 | (uint64_t)id.serial);
		if (!add_entry(l, name, node_pack(id), &st, t->serial + COOKIE_BASE))
			break;
	}
	free(r.tasks);
}

static void
list_new(struct lister *l, off_t off)
{
	int64_t number = off >= COOKIE_BASE ? off - COOKIE_BASE : 0;
	char name[256];

	while (new_next(l->m, number, &number, name)) {
		struct node_id id = { .view = VIEW_NEW, .serial = number };
		struct stat st;

		if (new_attr(l->m, number, &st) &&
		    !add_entry(l, name, node_pack(id), &st, number + COOKIE_BASE))
			break;
	}
}

static void
list_nodes(struct lister *l, off_t off)
{
	struct node_line lines[256];
	size_t n = queue_nodes(l->m->q, lines, 256);

	for (size_t i = off >= COOKIE_BASE ? (size_t)(off - COOKIE_BASE) : 0; i < n; i++) {
		struct node_id id = { .view = VIEW_NODES, .serial = lines[i].id };
		struct stat st = { .st_mode = S_IFREG, .st_ino = lines[i].id };

		if (l->plus && tree_attr(l->m, node_pack(id), &st))
			continue;
		if (!add_entry(l, lines[i].owner, node_pack(id), &st,
			       (off_t)i + 1 + COOKIE_BASE))
			break;
	}
}

size_t
tree_list(struct mount *m, fuse_req_t req, uint64_t dir, char *buf, size_t size, off_t off,
	  bool plus)
{
	struct lister l = { .m = m, .req = req, .buf = buf, .size = size, .plus = plus };
	enum view view = dir_view(dir);

	/* cookies: 1 and 2 for the dots, then fixed names, or COOKIE_BASE + a serial */
	if (off < 1 && !add_fixed(&l, ".", dir, 1))
		return l.len;
	if (off < 2 && !add_fixed(&l, "..", dir >= FIXED_TIER ? FIXED_QUEUE : FIXED_ROOT, 2))
		return l.len;
	switch (view) {
	case VIEW_NEW:
		list_new(&l, off);
		break;
	case VIEW_NODES:
		list_nodes(&l, off);
		break;
	case VIEW_FIXED:
		for (off_t i = off < 2 ? 0 : off - 2;; i++) {
			uint64_t ino = dir == FIXED_ROOT ? (uint64_t)i + FIXED_ROOT + 1 :
							   (uint64_t)i + FIXED_TIER;

			if (dir == FIXED_ROOT ? ino >= FIXED_NAMED_END : i >= m->conf->ntiers)
				break;
			if (!add_fixed(&l, dir == FIXED_ROOT ? fixed[ino].name :
							       m->conf->tiers[i].name,
				       ino, i + 3))
				break;
		}
		break;
	default:
		list_tasks(&l, view, off);
		break;
	}
	return l.len;
}
