/*
 * setup.c - a node's folder of a run, and the plugin's verb setup, once in it.
 */
#include <config.h>

#include "setup.h"

#include "plugin.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NO_VERB = 64 };

static void
node_folder(const char *local, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.3800s/raser-node.%.64s.%u", local, name, (unsigned)getuid());
}

void
setup_cache(const char *local, const char *name, char cache[PATH_MAX])
{
	snprintf(cache, PATH_MAX, "%.3800s/raser-node.%.64s.%u/cache", local, name, (unsigned)getuid());
}

/* The folder of a run on this node must be ours and nobody else's. */
static int
make_node_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	/* in a directory that all may write to, somebody else may have been there before */
	if (lstat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) ? 0 : -EPERM;
}

int
setup_run(char *const *argv, const char *local, const char *name, struct err *err)
{
	char dir[PATH_MAX];
	char cache[PATH_MAX];
	char path[PATH_MAX + 16];
	char how[64];

	node_folder(local, name, dir);
	setup_cache(local, name, cache);
	int rc = 0;
	if (mkdir(cache, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "%s: %s", cache, strerror(errno));
	snprintf(path, sizeof(path), "%s/setup", dir);
	/* node-local, so the lock is one of this kernel; held by this process and let go by its end.
	 * A byte in the file says that it was done */
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
			goto end;
		}
	char done;
	if (pread(fd, &done, 1, 0) == 1)
		goto end;
	setenv("RASER_CACHE", cache, 1);
	int status = plugin_run(argv, STDERR_FILENO);
	unsetenv("RASER_CACHE");
	if (status >= 0 && WIFEXITED(status) &&
	    (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_NO_VERB)) {
		if (pwrite(fd, "1", 1, 0) != 1)
			rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
	} else {
		plugin_how(status, how, sizeof(how));
		rc = err_set(err, -EIO, "%s setup %s", argv[0], how);
	}
end:
	close(fd);
	return rc;
}

int
setup_hold(const char *local, const char *name, struct err *err)
{
	char dir[PATH_MAX];
	char path[PATH_MAX + 16];
	struct stat here;
	struct stat held;

	node_folder(local, name, dir);
	snprintf(path, sizeof(path), "%s/users", dir);
	for (;;) {
		int rc = make_node_folder(dir);

		if (rc)
			return err_set(err, rc, "%s cannot be used for this node's files: %s", dir,
				       strerror(-rc));
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0 && flock(fd, LOCK_SH) == 0 && !fstat(fd, &held) && !stat(path, &here) &&
		    held.st_ino == here.st_ino && held.st_dev == here.st_dev)
			return fd;
		rc = fd < 0 && errno != ENOENT ? -errno : 0;
		if (fd >= 0)
			close(fd);
		if (rc)
			return err_set(err, rc, "%s: %s", path, strerror(-rc));
		/* the last of those before us was just removing it */
	}
}

void
setup_leave(int held, const char *local, const char *name)
{
	char dir[PATH_MAX];

	node_folder(local, name, dir);
	if (flock(held, LOCK_EX | LOCK_NB) == 0)
		folder_remove(dir);
	close(held);
}
