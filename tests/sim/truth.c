/*
 * truth.c - a reader that no fault touches: the queue's own code folds what is
 * really there.
 */
#include <config.h>

#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
truth_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	const struct inode *i = fs_find(path);

	(void)ctx;
	if (!i || i->kind != INODE_LINK)
		return i ? -EINVAL : -ENOENT;
	return snprintf(buf, size, "%s", i->data);
}

static int
truth_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	const struct inode *dir = fs_find(path);
	int rc = 0;

	(void)ctx;
	if (!dir)
		return -ENOENT;
	for (size_t k = 0; !rc && k < dir->n; k++)
		if (dir->names[k]->gone_at == INT64_MAX)
			rc = fn(arg, dir->names[k]->name);
	return rc;
}

static int
truth_stat(void *ctx, const char *path, struct disk_stat *st)
{
	const struct inode *i = fs_find(path);

	(void)ctx;
	if (!i)
		return -ENOENT;
	*st = (struct disk_stat){ .ino = i->ino, .mtime_s = i->mtime_s, .size = (int64_t)i->size };
	return 0;
}

static int
truth_read(void *ctx, const char *path, void *buf, size_t size)
{
	const struct inode *i = fs_find(path);
	size_t n = i && i->size < size ? i->size : size;

	(void)ctx;
	if (!i || !i->data)
		return -ENOENT;
	memcpy(buf, i->data, n);
	return (int)n;
}

static int
truth_locate(void *ctx, const char *path, char *buf, size_t size)
{
	(void)ctx;
	fs_locate(path, buf, size);
	return 0;
}

static int64_t
truth_now(void *ctx)
{
	(void)ctx;
	return sim_now / 1000;
}

static int
truth_sync(void *ctx, const char *dir)
{
	(void)ctx;
	(void)dir;
	return 0;
}

/* Whoever only looks changes nothing. */
static int
never_text(void *ctx, const char *a, const char *b)
{
	(void)ctx;
	fprintf(stderr, "sim: the judge would make %s -> %s\n", b, a);
	abort();
}

const struct disk_ops truth_ops = {
	.readlink = truth_readlink,
	.list = truth_list,
	.stat = truth_stat,
	.read = truth_read,
	.locate = truth_locate,
	.now = truth_now,
	.symlink = never_text, .sync = truth_sync,
};

struct queue *
truth_open(void)
{
	const struct disk d = { .ops = &truth_ops };
	const struct queue_options o = { .tmp = world.scratch };
	const struct now now = { .boot_ms = sim_now / 1000, .wall_s = sim_now / SECOND };
	struct err e = { 0 };
	struct queue *q = queue_open_disk(d, "run", &o, now, &e);

	if (!q || queue_refresh(q, (struct now){ .boot_ms = now.boot_ms + 1 }, 0, 0) < 0) {
		fprintf(stderr, "sim: the judge cannot read the run: %s\n", e.text);
		abort();
	}
	return q;
}

void
truth_close(struct queue *q)
{
	queue_close(q, (struct now){ .boot_ms = sim_now / 1000 });
}
