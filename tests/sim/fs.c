/*
 * fs.c - a tree of names in memory, with what a crash of the server would leave
 * of it.
 */
#include <config.h>

#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HASH = 4096, KEEP_GONE = 10 }; /* seconds for which lagging listings may show a name */

static struct {
	struct inode *hash[HASH];
	uint64_t ino;
	char scratch[256];
} fs;

static unsigned
hash(const char *path)
{
	unsigned h = 5381;

	while (*path)
		h = h * 33 + (unsigned char)*path++;
	return h % HASH;
}

struct inode *
fs_find(const char *path)
{
	for (struct inode *i = fs.hash[hash(path)]; i; i = i->next)
		if (i->gone_at == INT64_MAX && !strcmp(i->path, path))
			return i;
	return NULL;
}

static void
real_path(const struct inode *i, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", fs.scratch, i->name);
}

static void
forget(struct inode *i)
{
	char real[512];
	struct inode **at = &fs.hash[hash(i->path)];

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	if (i->kind == INODE_BATCH) {
		real_path(i, real, sizeof(real));
		unlink(real);
	}
	free(i->names);
	free(i->data);
	free(i);
}

/* Drop names from a directory that nobody can see any more. */
static void
compact(struct inode *dir)
{
	size_t kept = 0;

	for (size_t k = 0; k < dir->n; k++) {
		struct inode *i = dir->names[k];

		if (i->gone_at != INT64_MAX && !i->durable &&
		    sim_now - i->gone_at > KEEP_GONE * SECOND && i->kind != INODE_DIR)
			forget(i);
		else
			dir->names[kept++] = i;
	}
	dir->n = kept;
}

static struct inode *
add(const char *path, enum inode_kind kind, int *rc)
{
	char parent[DISK_PATH];
	struct inode *dir = NULL;
	const char *slash = strrchr(path, '/');

	if (strcmp(path, ".") != 0) {
		snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
			 slash ? path : ".");
		dir = fs_find(parent);
		*rc = !dir		       ? -ENOENT
		      : dir->kind != INODE_DIR ? -ENOTDIR
		      : fs_find(path)	       ? -EEXIST
					       : 0;
		if (*rc)
			return NULL;
	}
	struct inode *i = calloc(1, sizeof(*i));
	if (!i)
		abort();
	snprintf(i->path, sizeof(i->path), "%s", path);
	slash = strrchr(i->path, '/');
	i->name = slash ? slash + 1 : i->path;
	i->kind = kind;
	i->ino = ++fs.ino;
	i->made_at = sim_now;
	i->gone_at = INT64_MAX;
	i->dir = dir;
	unsigned h = hash(path);
	i->next = fs.hash[h];
	fs.hash[h] = i;
	*rc = 0;
	if (!dir)
		return i;
	dir->version++;
	if (dir->n == dir->cap) {
		compact(dir);
		dir->cap = dir->cap ? dir->cap * 2 : 16;
		dir->names = realloc(dir->names, dir->cap * sizeof(struct inode *));
		if (!dir->names)
			abort();
	}
	dir->names[dir->n++] = i;
	return i;
}

static void
set_data(struct inode *i, const void *data, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		abort();
	memcpy(copy, data, len);
	copy[len] = '\0';
	free(i->data);
	i->data = copy;
	i->size = len;
}

void
fs_begin(const char *scratch)
{
	int rc;

	fs.ino = 0;
	snprintf(fs.scratch, sizeof(fs.scratch), "%s", scratch);
	add(".", INODE_DIR, &rc)->durable = true;
}

void
fs_end(void)
{
	for (int h = 0; h < HASH; h++)
		while (fs.hash[h])
			forget(fs.hash[h]);
}

int
fs_symlink(const char *text, const char *path)
{
	int rc;
	struct inode *i = add(path, INODE_LINK, &rc);

	if (!i)
		return rc;
	set_data(i, text, strlen(text));
	rules_changed(i, true);
	return 0;
}

int
fs_mkdir(const char *path)
{
	int rc;

	add(path, INODE_DIR, &rc);
	return rc;
}

int
fs_create(const char *path, const void *data, size_t len, int64_t mtime)
{
	int rc;
	struct inode *i = add(path, INODE_FILE, &rc);

	if (!i)
		return rc;
	set_data(i, data, len);
	i->mtime_s = i->mtime_before = mtime;
	rules_changed(i, true);
	return 0;
}

int
fs_amend(const char *path, const void *data, size_t len, int64_t mtime)
{
	struct inode *i = fs_find(path);

	if (!i)
		return -ENOENT;
	if (len >= i->size)
		set_data(i, data, len);
	else
		memcpy(i->data, data, len);
	i->mtime_s = mtime;
	return 0;
}

int
fs_touch(const char *path, int64_t seconds, bool times_never_fall)
{
	struct inode *i = fs_find(path);

	if (!i)
		return -ENOENT;
	if (times_never_fall && seconds <= i->mtime_s)
		return 0;
	i->mtime_before = i->mtime_s;
	i->mtime_s = seconds;
	i->touched_at = sim_now;
	return 0;
}

int
fs_unlink(const char *path)
{
	struct inode *i = fs_find(path);

	if (!i)
		return -ENOENT;
	i->gone_at = sim_now;
	i->dir->version++;
	rules_changed(i, false);
	return 0;
}

int
fs_import(int local_fd, const char *path)
{
	char real[512];
	char buf[65536];
	int rc;
	struct inode *i = add(path, INODE_BATCH, &rc);

	if (!i)
		return rc;
	real_path(i, real, sizeof(real));
	int fd = open(real, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		abort();
	ssize_t n;
	for (off_t off = 0; (n = pread(local_fd, buf, sizeof(buf), off)) > 0; off += n)
		if (write_all(fd, buf, (size_t)n))
			abort();
	close(fd);
	return 0;
}

int
fs_sync(const char *path)
{
	struct inode *dir = fs_find(path);

	if (!dir)
		return -ENOENT;
	/* a name that is gone is durable when it would come back */
	for (size_t k = 0; k < dir->n; k++)
		dir->names[k]->durable = dir->names[k]->gone_at == INT64_MAX;
	compact(dir);
	return 0;
}

void
fs_locate(const char *path, char *buf, size_t size)
{
	const struct inode *i = fs_find(path);

	if (i && i->kind == INODE_BATCH)
		real_path(i, buf, size);
	else
		snprintf(buf, size, "%s/nothing", fs.scratch);
}

static void
lose_all(struct inode *dir)
{
	for (size_t k = 0; k < dir->n; k++) {
		struct inode *i = dir->names[k];

		i->durable = false;
		if (i->gone_at != INT64_MAX)
			continue;
		i->gone_at = sim_now;
		rules_undone(i);
		rules_changed(i, false);
	}
	dir->version++;
}

int
fs_crash(struct rng *r, double p)
{
	int undone = 0;

	for (int h = 0; h < HASH; h++)
		for (struct inode *i = fs.hash[h]; i; i = i->next) {
			bool there = i->gone_at == INT64_MAX;

			if (there == i->durable || !i->dir || !rng_chance(r, p) ||
			    (there && rules_replayed(i)))
				continue;
			if (!there && (fs_find(i->path) || i->dir->gone_at != INT64_MAX))
				continue;
			undone++;
			i->gone_at = there ? sim_now : INT64_MAX;
			i->dir->version++;
			rules_undone(i);
			rules_changed(i, !there);
			if (there && i->kind == INODE_DIR)
				lose_all(i);
		}
	return undone;
}
