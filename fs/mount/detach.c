/*
 * detach.c - umount(2), fusermount3 and fusectl.
 */
#include <config.h>

#include "detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

bool
mount_detach(const char *mountpoint)
{
	if (umount2(mountpoint, MNT_DETACH) == 0)
		return true;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", mountpoint,
		       (char *)NULL);
		_exit(127);
	}
	int status = 1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char *
mount_break(const char *mountpoint, unsigned minor)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", minor);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, "1", 1) == 1;
	if (fd >= 0)
		close(fd);
	if (done)
		return "fusectl";
	/* without fusectl the same is done by an unmount by force, which only root may ask for */
	return umount2(mountpoint, MNT_FORCE | MNT_DETACH) == 0 ? "umount -f" : NULL;
}
