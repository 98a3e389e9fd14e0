/* emptyfs.c - the limit of FUSE: a file system that answers what a raserfs client asks per pair,
 * from memory, with no policy and no storage behind it.
 *
 *   emptyfs --dir D [--procs P] [--tasks N] [--seconds T]
 *
 * It has one file, queue/high/next, whose name is cached for good. A pair costs five requests:
 * OPEN (hands out the next task, ENODATA after the last), READ (its name, 200 bytes in all), WRITE
 * (any verb is taken), FLUSH, RELEASE. One thread serves them in libfuse's plain loop.
 */
#include <config.h>

#define FUSE_USE_VERSION 314
#include "pairclient.h"

#include <err.h>
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 200 };

/* The tree: node i + 1 (FUSE_ROOT_ID is 1) is the only child of node i. */
static const char *const names[] = { "", "queue", "high", "next" };
enum { NODES = sizeof names / sizeof *names, NEXT = NODES };

static const double forever = 1e6;
static long tasks, given;

static struct stat
node_stat(fuse_ino_t ino)
{
	return (struct stat){
		.st_ino = ino,
		.st_mode = ino == NEXT ? S_IFREG | 0600 : S_IFDIR | 0700,
		.st_nlink = ino == NEXT ? 1 : 2,
		.st_size = ino == NEXT ? TEXT : 0,
		.st_uid = getuid(),
		.st_gid = getgid(),
	};
}

static void
fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {
		.ino = parent + 1,
		.entry_timeout = forever,
		.attr_timeout = forever,
	};

	if (parent >= NODES || strcmp(name, names[parent]) != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	e.attr = node_stat(e.ino);
	fuse_reply_entry(req, &e);
}

static void
fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = node_stat(ino);

	(void)fi;
	fuse_reply_attr(req, &st, forever);
}

static void
fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	if (given == tasks) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	fi->fh = (uint64_t)++given;
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void
fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	char text[TEXT + 1];
	int head = snprintf(text, sizeof text, "leases/t%06ld@1\n", (long)fi->fh);
	size_t left = off < TEXT ? (size_t)(TEXT - off) : 0;

	(void)ino;
	memset(text + head, 'x', (size_t)(TEXT - head));
	fuse_reply_buf(req, text + TEXT - left, size < left ? size : left);
}

static void
fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	 struct fuse_file_info *fi)
{
	(void)ino, (void)buf, (void)off, (void)fi;
	fuse_reply_write(req, size);
}

static void
fs_closing(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino, (void)fi;
	fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = fs_lookup,
	.getattr = fs_getattr,
	.open = fs_open,
	.read = fs_read,
	.write = fs_write,
	.flush = fs_closing,
	.release = fs_closing,
};

/* The server process: ends with 0 when its mount was taken away or a signal told it to. */
static int
serve(const char *mnt)
{
	char *argv[] = { "emptyfs", "-ofsname=emptyfs", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	struct fuse_session *se = fuse_session_new(&args, &ops, sizeof ops, NULL);
	int rc = -1;

	if (!se)
		return 1;
	if (!fuse_set_signal_handlers(se) && !fuse_session_mount(se, mnt)) {
		rc = fuse_session_loop(se);
		fuse_session_unmount(se);
	}
	fuse_remove_signal_handlers(se);
	fuse_session_destroy(se);
	fuse_opt_free_args(&args);
	return rc < 0;
}

int
main(int argc, char **argv)
{
	struct crew c;
	char *mnt;

	crew_init(&c, argc, argv, NULL);
	tasks = c.tasks;
	if (asprintf(&mnt, "%s/mnt", c.dir) < 0 || mkdir(mnt, 0700))
		err(1, "%s", c.dir);

	pid_t server = server_fork();
	if (server == 0)
		_exit(serve(mnt));
	mount_wait(mnt, server);
	int failed = crew_run(&c, pair_client, mnt);
	mount_drop(mnt);
	failed += server_wait(server, mnt) != 0;
	free(mnt);
	if (failed)
		return 1;
	crew_report(&c);
	return 0;
}
