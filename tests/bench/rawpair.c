/* rawpair.c - the raw limit: what a claim and a durable end cost the file system, and no more.
 *
 *   rawpair --dir D [--procs P] [--tasks N] [--seconds T] [--sync 0|1]
 *           [--spread 0|1]
 *
 * A pair is two symlinkat(2) of a 40-byte text, `T@1.claim` and `T@1.end`, in the directory of the
 * task's bay (1,024 tasks each), then open, fsync and close of that directory (not with --sync 0).
 * Tasks are handed out in order, without a collision: all processes work at the same front, as
 * daemons do that take the first candidates in submission order. With --spread 1 each process has
 * a range of its own, hence directories of its own.
 */
#include <config.h>

#include "crew.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAY = 1024 };

struct setting {
	bool sync, spread;
};

static int
open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void
make_link(int top, const char *bay, long task, const char *kind)
{
	static const char text[] = "n07.k3v9x2m4q8wz:000017:1796031240:claim";
	char path[64];

	_Static_assert(sizeof text - 1 == 40, "see the head comment");
	snprintf(path, sizeof path, "%s/t%06ld@1.%s", bay, task, kind);
	if (symlinkat(text, top, path))
		err(1, "%s", path);
}

static void
work(struct crew *c, void *arg)
{
	const struct setting *set = arg;
	int top = open_dir(AT_FDCWD, c->dir);
	long own = c->rank * c->tasks / c->procs, own_end = (c->rank + 1) * c->tasks / c->procs;
	char bay[24];

	crew_start(c);
	while (crew_goes_on(c)) {
		long task = !set->spread ? crew_next(c) : own < own_end ? ++own : 0;

		if (!task)
			break;
		snprintf(bay, sizeof bay, "%ld", (task - 1) / BAY);
		make_link(top, bay, task, "claim");
		crew_claimed(c, task);
		make_link(top, bay, task, "end");
		if (set->sync) {
			int fd = open_dir(top, bay);

			if (fsync(fd))
				err(1, "fsync of %s", bay);
			close(fd);
		}
		crew_ended(c);
	}
}

int
main(int argc, char **argv)
{
	const char *sync = "1", *spread = "0";
	const struct crew_option more[] = {
		{ "sync", &sync }, { "spread", &spread }, { NULL, NULL },
	};
	struct crew c;

	crew_init(&c, argc, argv, more);
	struct setting set = { .sync = strcmp(sync, "0"), .spread = strcmp(spread, "0") };
	int top = open_dir(AT_FDCWD, c.dir);
	for (long b = 0; b <= (c.tasks - 1) / BAY; b++) {
		char bay[24];

		snprintf(bay, sizeof bay, "%ld", b);
		if (mkdirat(top, bay, 0777))
			err(1, "%s", bay);
	}
	close(top);
	if (crew_run(&c, work, &set))
		return 1;
	crew_report(&c);
	return 0;
}
