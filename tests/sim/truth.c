/*
 * truth.c - a reader that no fault touches: the queue's own code folds what is
 * really there.
 */
#include <config.h>

#include "pack.h"
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

/* The number of a bay's highest seal that is whole, and its lines, which the caller frees; 0: none. */
static unsigned
highest_seal(const struct inode *bay, char **lines)
{
	struct disk d = { .ops = &truth_ops };
	char head[PACK_HEAD];
	char random[64];
	unsigned best = 0;
	int number;

	*lines = NULL;
	if (!bay || sscanf(bay->name, "%63[a-z2-7].%d", random, &number) != 2)
		return 0;
	for (size_t i = 0; i < bay->n; i++) {
		const struct inode *seal = bay->names[i];
		unsigned n;
		char *found;

		if (seal->gone_at != INT64_MAX || sscanf(seal->name, "seal.%u", &n) != 1 || n < best)
			continue;
		snprintf(head, sizeof(head), "raser seal 1 %s %s %d %u", world.uuid, random, number,
			 n);
		if (pack_read(&d, seal->path, head, &found))
			continue;
		free(*lines);
		*lines = found;
		best = n;
	}
	return best;
}

const struct inode *
truth_sealed(const char *bay, const char *name, unsigned k, enum link_kind kind,
	     char text[LINK_TEXT])
{
	char line[NAME_LIMIT + 64];
	char path[DISK_PATH];
	bool found = false;
	char *lines;
	unsigned number = highest_seal(fs_find(bay), &lines);
	size_t len = (size_t)snprintf(line, sizeof(line), "%s@%u.%s ", name, k,
				      kind == LINK_END ? "end" : "claim");

	for (const char *at = lines; !found && at && *at; at = strchr(at, '\n') + 1)
		if (!strncmp(at, line, len)) {
			snprintf(text, LINK_TEXT, "%.*s", (int)strcspn(at + len, "\n"), at + len);
			found = true;
		}
	free(lines);
	snprintf(path, sizeof(path), "%.400s/seal.%u", bay, number);
	return found ? fs_find(path) : NULL;
}

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
