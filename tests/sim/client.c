/*
 * client.c - what a daemon's calls meet on their way: disk.c's table, with all
 * that a network file system may do in between. The truth is in fs.c. What each
 * fault stands for: README.
 */
#include <config.h>

#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that changes something: it travels on its own, whatever becomes of its
 * sender. */
struct call {
	enum disk_call kind;
	struct proc *proc;
	const struct proc *maker; /* who sent it first, also when nobody waits any more */
	struct coro *waiter;	  /* NULL: nobody waits for the answer */
	char path[DISK_PATH];
	char *data;
	size_t len;
	int64_t seconds; /* of a touch, or the client's clock */
	int64_t began;	 /* the sender's call of the queue */
	int rc;
	bool answered, again;
};

struct cached {
	unsigned hash;
	char path[DISK_PATH];
	char text[LINK_TEXT + 64];
	bool there;
	int64_t until;
};

static struct rng *
dice(void)
{
	return &world.fs_rng;
}

static int64_t
travel(void)
{
	const struct manners *m = &world.manners;

	if (rng_chance(dice(), m->slow))
		return rng_range(dice(), m->latency, m->slow_max);
	return rng_range(dice(), m->latency / 2, m->latency * 3 / 2);
}

/* ---- what a client remembers ---- */

static unsigned
path_hash(const char *path)
{
	unsigned h = 5381;

	while (*path)
		h = h * 33 + (unsigned char)*path++;
	return h;
}

static void
forget_at(struct host *h, size_t i)
{
	h->cached[i] = h->cached[--h->ncached];
}

static struct cached *
recall(struct host *h, const char *path)
{
	unsigned hash = path_hash(path);

	for (size_t i = 0; i < h->ncached; i++) {
		if (h->cached[i].hash != hash || strcmp(h->cached[i].path, path) != 0)
			continue;
		if (h->cached[i].until > sim_now)
			return &h->cached[i];
		forget_at(h, i);
		break;
	}
	return NULL;
}

static void
forget_name(struct host *h, const char *path)
{
	const struct cached *c = recall(h, path);

	if (c)
		forget_at(h, (size_t)(c - h->cached));
}

static void
remember(struct host *h, const char *path, const char *text)
{
	if (!world.manners.cache)
		return;
	forget_name(h, path);
	if (h->ncached == h->capcached) {
		h->capcached = h->capcached ? h->capcached * 2 : 64;
		h->cached = realloc(h->cached, h->capcached * sizeof(*h->cached));
		if (!h->cached)
			abort();
	}
	struct cached *c = &h->cached[h->ncached++];
	c->hash = path_hash(path);
	snprintf(c->path, sizeof(c->path), "%s", path);
	snprintf(c->text, sizeof(c->text), "%s", text ? text : "");
	c->there = text != NULL;
	c->until = sim_now + rng_range(dice(), world.manners.cache / 2, world.manners.cache);
}

void
client_forget(struct host *h)
{
	h->ncached = h->nseen = 0;
}

static struct inode *
dir_of(const char *path)
{
	char dir[DISK_PATH];
	const char *slash = strrchr(path, '/');

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	return fs_find(dir);
}

/* A client learns a directory's version: when it is news, everything cached in
 * it is void. */
static void
revalidate(struct host *h, const struct inode *dir, uint64_t was)
{
	struct seen *s = NULL;

	if (!world.manners.cache || !dir)
		return;
	for (size_t i = 0; i < h->nseen && !s; i++)
		if (h->seen[i].ino == dir->ino)
			s = &h->seen[i];
	if (!s) {
		if (h->nseen == h->capseen) {
			h->capseen = h->capseen ? h->capseen * 2 : 16;
			h->seen = realloc(h->seen, h->capseen * sizeof(*h->seen));
			if (!h->seen)
				abort();
		}
		s = &h->seen[h->nseen++];
		*s = (struct seen){ .ino = dir->ino, .version = was + 1 };
	}
	size_t len = strlen(dir->path);
	for (size_t i = 0; s->version != was && i < h->ncached;) {
		const char *p = h->cached[i].path;

		if (!strncmp(p, dir->path, len) && p[len] == '/' && !strchr(p + len + 1, '/'))
			forget_at(h, i);
		else
			i++;
	}
	s->version = dir->version;
}

/* ---- calls that change something ---- */

static bool
is_create(enum disk_call kind)
{
	return kind == DISK_SYMLINK || kind == DISK_MKDIR || kind == DISK_CREATE;
}

static int64_t
held_up(const struct proc *p)
{
	int64_t until = world.stalled_until;

	return p && p->host->cut_until > until ? p->host->cut_until : until;
}

static int
refusal(const struct call *c)
{
	if (world.readonly_until > sim_now && c->kind != DISK_SYNC)
		return -EROFS;
	if (world.touchless_until > sim_now && c->kind == DISK_TOUCH)
		return -EIO;
	if (world.full_until > sim_now && (is_create(c->kind) || c->kind == DISK_AMEND))
		return rng_chance(dice(), 0.5) ? -ENOSPC : -EDQUOT;
	return 0;
}

static int64_t
file_time(const struct call *c)
{
	return world.manners.times_of_client ? c->seconds : 1700000000 + sim_now / SECOND;
}

static int
perform(struct call *c)
{
	switch (c->kind) {
	case DISK_SYMLINK:
		return fs_symlink(c->data, c->path);
	case DISK_MKDIR:
		return fs_mkdir(c->path);
	case DISK_UNLINK:
		return fs_unlink(c->path);
	case DISK_TOUCH:
		return fs_touch(c->path, c->seconds, world.manners.times_never_fall);
	case DISK_CREATE:
		return fs_create(c->path, c->data, c->len, file_time(c));
	case DISK_AMEND:
		return fs_amend(c->path, c->data, c->len, file_time(c));
	case DISK_SYNC:
		return fs_sync(c->path);
	default:
		abort();
	}
}

static void
call_free(void *arg)
{
	struct call *c = arg;

	free(c->data);
	free(c);
}

static void
arrive(void *arg);

/* The same message once more, and nobody waits for what it does. */
static void
send_again(const struct call *c, int64_t at)
{
	struct call *copy = malloc(sizeof(*copy));

	if (!copy)
		abort();
	*copy = *c;
	copy->again = true;
	copy->waiter = NULL;
	copy->proc = NULL;
	copy->data = malloc(c->len + 1);
	if (!copy->data)
		abort();
	memcpy(copy->data, c->data, c->len + 1);
	sched_at(at, arrive, copy);
}

static void
answer(void *arg)
{
	struct call *c = arg;

	c->answered = true;
	if (c->waiter)
		sched_wake(c->waiter);
	else
		call_free(c);
}

static int64_t
much_later(void)
{
	return sim_now + rng_log(dice(), 1000, (double)world.manners.again_max);
}

static void
arrive(void *arg)
{
	struct call *c = arg;
	const struct manners *m = &world.manners;
	int64_t until = held_up(c->proc);

	if (until > sim_now) {
		sched_at(until + travel(), arrive, c);
		return;
	}
	double errors = c->again ? 0 : world.errors_until > sim_now ? 0.3 : 0;
	int refused = refusal(c);
	c->rc = refused;
	if (!refused && !c->again && rng_chance(dice(), m->lost_call + errors)) {
		c->rc = -EIO;
	} else if (!refused && !c->again && rng_chance(dice(), m->late_call + errors / 3)) {
		c->rc = rng_chance(dice(), 0.5) ? -ETIMEDOUT : -EIO;
		send_again(c, much_later());
	} else if (!refused) {
		const struct inode *dir = dir_of(c->path);
		uint64_t was = dir ? dir->version : 0;

		c->rc = perform(c);
		struct inode *made = c->rc || !is_create(c->kind) ? NULL : fs_find(c->path);
		if (made)
			made->maker = c->maker;
		if (!c->again && !c->rc && c->kind == DISK_SYMLINK)
			rules_made(c->proc, c->path, c->data, c->began);
		if (!c->again && !c->rc && c->kind == DISK_TOUCH)
			rules_touched(c->path);
		if (sim_trace && (c->kind != DISK_TOUCH && c->kind != DISK_SYNC))
			trace("%s %s%s%s%s = %d", disk_call_names[c->kind], c->path,
			      c->kind == DISK_SYMLINK ? " -> " : "",
			      c->kind == DISK_SYMLINK ? c->data : "", c->again ? " (again)" : "",
			      c->rc);
		if (!c->again && c->proc && !c->rc && c->kind != DISK_TOUCH)
			revalidate(c->proc->host, dir, was);
		/* what was refused was not done, and is not done later */
		if (!c->again && (is_create(c->kind) || c->kind == DISK_UNLINK) &&
		    (!c->rc || c->rc == -EEXIST) && rng_chance(dice(), m->again))
			send_again(c, much_later());
		if (!c->rc && (is_create(c->kind) || c->kind == DISK_UNLINK) &&
		    rng_chance(dice(), m->eexist))
			c->rc = c->kind == DISK_UNLINK ? -ENOENT : -EEXIST;
		else if (rng_chance(dice(), m->lost_reply + errors))
			c->rc = rng_chance(dice(), 0.5) ? -ETIMEDOUT : -EIO;
	}
	if (c->proc)
		forget_name(c->proc->host, c->path);
	if (c->again)
		call_free(c);
	else
		sched_at(sim_now + travel(), answer, c);
}

void
client_flush(void)
{
	sched_hasten(arrive);
}

static int
dead(struct proc *p)
{
	/* a process that was killed makes no calls; its code runs out on errors */
	if (++p->dead_calls > 1000000) {
		fprintf(stderr, "sim: seed %llu: a killed daemon does not run out: %s\n",
			(unsigned long long)world.seed, sched_name());
		abort();
	}
	return -EIO;
}

/* Errors that a cut-off client makes itself, after a while. */
static bool
cut_off(const struct proc *p)
{
	if (p->host->errors_until <= sim_now)
		return false;
	sched_sleep(rng_range(dice(), SECOND / 10, 5 * SECOND));
	return true;
}

static int
change(struct proc *p, enum disk_call kind, const char *path, const void *data, size_t len,
       int64_t seconds)
{
	if (p->dead)
		return dead(p);
	rules_sent(p, kind, path, data);
	sealing_call(p);
	world.calls++;
	struct call *c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	c->kind = kind;
	c->proc = p;
	c->maker = p;
	c->seconds = seconds;
	c->began = sched_call();
	snprintf(c->path, sizeof(c->path), "%s", path);
	c->len = len;
	c->data = malloc(len + 1);
	if (!c->data)
		abort();
	memcpy(c->data, data ? data : "", len);
	c->data[len] = '\0';
	if (p->host->errors_until > sim_now) {
		/* the message may still get out of the machine, later */
		if (rng_chance(dice(), 0.3))
			send_again(c, p->host->errors_until + travel());
		call_free(c);
		cut_off(p);
		return p->dead ? dead(p) : -EIO;
	}
	c->waiter = sched_self();
	sched_at(sim_now + travel(), arrive, c);
	while (!c->answered && !p->dead)
		sched_wait(INT64_MAX);
	if (!c->answered) {
		c->waiter = NULL; /* the message travels on */
		return dead(p);
	}
	int rc = c->rc;
	call_free(c);
	return p->dead ? dead(p) : rc;
}

/* ---- the table ---- */

static int
client_symlink(void *ctx, const char *text, const char *path)
{
	return change(ctx, DISK_SYMLINK, path, text, strlen(text), 0);
}

static int
client_mkdir(void *ctx, const char *path)
{
	return change(ctx, DISK_MKDIR, path, NULL, 0, 0);
}

static int
client_unlink(void *ctx, const char *path)
{
	return change(ctx, DISK_UNLINK, path, NULL, 0, 0);
}

static int
client_touch(void *ctx, const char *path, int64_t seconds)
{
	return change(ctx, DISK_TOUCH, path, NULL, 0, seconds);
}

static int
client_create(void *ctx, const char *path, const void *data, size_t len)
{
	return change(ctx, DISK_CREATE, path, data, len, proc_now(ctx).wall_s);
}

static int
client_amend(void *ctx, const char *path, const void *data, size_t len)
{
	return change(ctx, DISK_AMEND, path, data, len, proc_now(ctx).wall_s);
}

static int
client_sync(void *ctx, const char *dir)
{
	struct proc *p = ctx;

	/* whoever is dead must leave the loops that wait for a sync */
	return p->dead ? 0 : change(p, DISK_SYNC, dir, NULL, 0, 0);
}

/* The way to the server; 0, or why it was not reached. */
static int
reach(struct proc *p)
{
	if (p->dead)
		return dead(p);
	sealing_call(p);
	world.calls++;
	if (cut_off(p))
		return p->dead ? dead(p) : -EIO;
	sched_sleep(travel());
	while (!p->dead && held_up(p) > sim_now)
		sched_sleep(held_up(p) - sim_now + travel());
	if (p->dead)
		return dead(p);
	double errors = world.errors_until > sim_now ? 0.3 : 0;
	if (rng_chance(dice(), world.manners.read_error + errors))
		return rng_chance(dice(), 0.8) ? -EIO : -ESTALE;
	return 0;
}

/* The way back: what was read may be old by the time it is heard. */
static int
come_back(struct proc *p, int rc)
{
	sched_sleep(travel());
	return p->dead ? dead(p) : rc;
}

static int
client_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	struct proc *p = ctx;

	if (p->dead) {
		dead(p);
		return snprintf(buf, size, "dead"); /* an answer, so that nobody asks for ever */
	}
	const struct cached *c = recall(p->host, path);
	if (c) {
		bool there = c->there;
		int n = snprintf(buf, size, "%s", c->text);

		sched_sleep(rng_range(dice(), 1, 20));
		return there ? n : -ENOENT;
	}
	int rc = reach(p);
	if (!rc) {
		const struct inode *i = fs_find(path);

		if (!i || i->kind == INODE_LINK)
			remember(p->host, path, i ? i->data : NULL);
		rc = !i			     ? -ENOENT
		     : i->kind != INODE_LINK ? -EINVAL
					     : snprintf(buf, size, "%s", i->data);
		rc = come_back(p, rc);
	}
	return p->dead ? snprintf(buf, size, "dead") : rc;
}

static int
client_stat(void *ctx, const char *path, struct disk_stat *st)
{
	struct proc *p = ctx;
	int rc = reach(p);

	if (rc)
		return rc;
	const struct inode *i = fs_find(path);
	if (!i)
		return come_back(p, -ENOENT);
	bool lags = sim_now - i->touched_at < world.manners.stat_lag && rng_chance(dice(), 0.5);
	*st = (struct disk_stat){ .ino = i->ino,
				  .size = (int64_t)i->size,
				  .mtime_s = lags ? i->mtime_before : i->mtime_s };
	return come_back(p, 0);
}

static int
client_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	struct proc *p = ctx;
	const struct manners *m = &world.manners;
	int rc = reach(p);

	/* an answer to whoever is dead, so that it does not ask for ever */
	if (p->dead)
		return 0;
	if (rc)
		return rc;
	const struct inode *dir = fs_find(path);
	if (!dir)
		return come_back(p, -ENOENT);
	revalidate(p->host, dir, dir->version);
	char(*names)[NAME_LIMIT + 16] = malloc((dir->n * 2 + 1) * sizeof(*names));
	if (!names)
		abort();
	size_t n = 0;
	for (size_t k = 0; k < dir->n; k++) {
		const struct inode *i = dir->names[k];
		bool there = i->gone_at == INT64_MAX;
		int64_t age = sim_now - (there ? i->made_at : i->gone_at);

		if (m->list_lag && age < m->list_lag && rng_chance(dice(), 0.5))
			there = !there;
		for (int times = 0; there && times < (rng_chance(dice(), m->list_twice) ? 2 : 1);
		     times++)
			snprintf(names[n++], sizeof(*names), "%s", i->name);
	}
	rc = come_back(p, 0);
	if (p->dead)
		n = 0, rc = 0;
	for (size_t k = 0; !rc && k < n; k++)
		rc = fn(arg, names[k]);
	free(names);
	return rc;
}

static int
client_read(void *ctx, const char *path, void *buf, size_t size)
{
	struct proc *p = ctx;
	int rc = reach(p);

	if (rc)
		return rc;
	const struct inode *i = fs_find(path);
	if (!i || !i->data)
		return come_back(p, -ENOENT);
	if (!strcmp(path, "FORMAT") && !strcmp(sched_name(), "watch"))
		fates_tempt(p);
	size_t n = i->size < size ? i->size : size;
	memcpy(buf, i->data, n);
	return come_back(p, (int)n);
}

static int
client_import(void *ctx, int local_fd, const char *path)
{
	struct proc *p = ctx;
	const struct call like = { .kind = DISK_CREATE };
	int rc = reach(p);

	if (!rc)
		rc = refusal(&like);
	if (!rc)
		rc = fs_import(local_fd, path);
	if (!rc)
		fs_find(path)->maker = p;
	return come_back(p, rc);
}

static int
client_locate(void *ctx, const char *path, char *buf, size_t size)
{
	struct proc *p = ctx;
	int rc = reach(p);

	if (!rc)
		fs_locate(path, buf, size);
	return rc;
}

static void
client_pause(void *ctx, int ms)
{
	const struct proc *p = ctx;

	if (!p->dead)
		sched_sleep(ms * INT64_C(1000));
}

static int64_t
client_now(void *ctx)
{
	/* no time passes in here: the calls and locks around it are where anything
	 * may happen */
	return proc_now(ctx).boot_ms;
}

const struct disk_ops client_ops = {
	.symlink = client_symlink,
	.readlink = client_readlink,
	.mkdir = client_mkdir,
	.unlink = client_unlink,
	.list = client_list,
	.stat = client_stat,
	.touch = client_touch,
	.create = client_create,
	.amend = client_amend,
	.read = client_read,
	.import = client_import,
	.sync = client_sync,
	.locate = client_locate,
	.pause = client_pause,
	.now = client_now,
};
