/*
 * looking.c - a run directory that nobody can change by accident, and that can
 * be read although its FORMAT or its raser.ini cannot.
 */
#include <config.h>

#include "fsck_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct disk *
real(void *ctx)
{
	return ((struct looking *)ctx)->real;
}

static int
no_symlink(void *ctx, const char *text, const char *path)
{
	(void)ctx, (void)text, (void)path;
	return -EROFS;
}

static int
no_path(void *ctx, const char *path)
{
	(void)ctx, (void)path;
	return -EROFS;
}

static int
no_touch(void *ctx, const char *path, int64_t seconds)
{
	(void)ctx, (void)path, (void)seconds;
	return -EROFS;
}

static int
no_write(void *ctx, const char *path, const void *data, size_t len)
{
	(void)ctx, (void)path, (void)data, (void)len;
	return -EROFS;
}

static int
no_import(void *ctx, int fd, const char *path)
{
	(void)ctx, (void)fd, (void)path;
	return -EROFS;
}

/* Reading wants to know that what it has read is durable; nothing was changed here. */
static int
look_sync(void *ctx, const char *dir)
{
	(void)ctx, (void)dir;
	return 0;
}

static int
look_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	return disk_readlink(real(ctx), path, buf, size);
}

static int
look_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	int rc = disk_list(real(ctx), path, fn, arg);

	/* a directory of the run that is missing is told of once, and then taken for
   * an empty one */
	return rc == -ENOENT && !strchr(path, '/') ? 0 : rc;
}

static int
look_stat(void *ctx, const char *path, struct disk_stat *st)
{
	return disk_stat(real(ctx), path, st);
}

static int
look_read(void *ctx, const char *path, void *buf, size_t size)
{
	const struct looking *l = ctx;
	const char *text = !strcmp(path, "FORMAT")	? l->format
			   : !strcmp(path, "raser.ini") ? l->ini
							: NULL;

	if (!text)
		return disk_read(l->real, path, buf, size);
	size_t n = strlen(text) < size ? strlen(text) : size;
	memcpy(buf, text, n);
	return (int)n;
}

static int
look_locate(void *ctx, const char *path, char *buf, size_t size)
{
	return disk_locate(real(ctx), path, buf, size);
}

static void
look_pause(void *ctx, int ms)
{
	disk_pause(real(ctx), ms);
}

static int64_t
look_now(void *ctx)
{
	return disk_now(real(ctx));
}

static int
look_mountinfo(void *ctx, char *line, size_t size)
{
	return disk_mountinfo(real(ctx), line, size);
}

static void
look_close(void *ctx)
{
	struct looking *l = ctx;

	free(l->format);
	free(l->ini);
	free(l);
}

static const struct disk_ops looking_ops = {
	.symlink = no_symlink,
	.readlink = look_readlink,
	.mkdir = no_path,
	.unlink = no_path,
	.rmdir = no_path,
	.list = look_list,
	.stat = look_stat,
	.touch = no_touch,
	.create = no_write,
	.amend = no_write,
	.read = look_read,
	.import = no_import,
	.sync = look_sync,
	.locate = look_locate,
	.pause = look_pause,
	.now = look_now,
	.mountinfo = look_mountinfo,
	.close = look_close,
};

int
looking_open(struct disk *disk, struct disk *below, char *format, char *ini)
{
	struct looking *l = malloc(sizeof(*l));

	if (!l) {
		free(format);
		free(ini);
		return -ENOMEM;
	}
	*l = (struct looking){ below, format, ini };
	*disk = (struct disk){ .ops = &looking_ops, .ctx = l };
	return 0;
}
