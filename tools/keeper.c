/*
 * keeper.c - the other end of a pipe. When its last writer is gone, whoever that was killed by,
 * everything it was told of is undone.
 */
#include <config.h>

#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t keeper;

/* Wait for the end of the pipe; then continue and remove. */
static void
keep(int fd, const char *ballast)
{
	struct tree_process *owed = NULL;
	struct tree_process p;
	size_t n = 0;

	while (read(fd, &p, sizeof(p)) == (ssize_t)sizeof(p)) {
		struct tree_process *grown = realloc(owed, (n + 1) * sizeof(*owed));

		if (!grown) {
			tree_signal(&p, SIGCONT);
			continue;
		}
		owed = grown;
		owed[n++] = p;
	}
	for (size_t i = 0; i < n; i++)
		tree_signal(&owed[i], SIGCONT);
	unlink(ballast);
	_exit(0);
}

int
keeper_start(const char *ballast)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	keeper = fork();
	if (keeper < 0) {
		int rc = -errno;

		close(fd[0]);
		close(fd[1]);
		return rc;
	}
	if (!keeper) {
		static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

		/* a Ctrl-C or a kill of the group is not for it */
		setsid();
		for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
			signal(ignored[i], SIG_IGN);
		close(fd[1]);
		keep(fd[0], ballast);
	}
	close(fd[0]);
	return fd[1];
}

int
keeper_owes(int fd, const struct tree_process *p)
{
	/* one write is whole: it is smaller than PIPE_BUF */
	return write(fd, p, sizeof(*p)) == (ssize_t)sizeof(*p) ? 0 : -errno;
}

void
keeper_end(int fd)
{
	close(fd);
	while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
		;
}
