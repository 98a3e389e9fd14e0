/*
 * ballast.c - every free byte, and every free block of the last one. What is allocated is not
 * written where the file system can do that.
 */
#include <config.h>

#include "ballast.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LOAD_MS = 2000, PAGE = 4096 };

static bool
has_room(const struct ballast *b, int64_t more)
{
	struct statvfs s;

	if (b->size + more > b->limit)
		return false;
	/* without a floor the storage itself says when it is full */
	return !b->floor || (fstatvfs(b->fd, &s) == 0 &&
			     (int64_t)(s.f_bavail * s.f_frsize) - more >= b->floor);
}

/* One piece more: 0 or an errno. */
static int
grow(struct ballast *b, int64_t more)
{
	static const char zeros[PAGE];

	if (fallocate(b->fd, 0, b->size, more) == 0) {
		b->size += more;
		return 0;
	}
	if (errno != EOPNOTSUPP)
		return -errno;
	for (int64_t done = 0; done < more;) {
		int64_t rest = more - done;
		ssize_t n = pwrite(b->fd, zeros, rest < PAGE ? (size_t)rest : PAGE, b->size);

		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		b->size += n;
		done += n;
	}
	return 0;
}

bool
ballast_load(struct ballast *b)
{
	static const int64_t pieces[] = { 1 << 26, 1 << 20, 1 << 14, PAGE, 1 };
	int64_t until = now_read().boot_ms + LOAD_MS;
	bool refused = false;

	if (b->fd < 0)
		b->fd = open(b->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return errno == ENOSPC || errno == EDQUOT;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		int rc = 0;

		while (!rc && has_room(b, pieces[i]) && now_read().boot_ms < until)
			rc = grow(b, pieces[i]);
		refused |= rc == -ENOSPC || rc == -EDQUOT;
	}
	return refused;
}

void
ballast_drop(struct ballast *b)
{
	if (b->fd < 0)
		return;
	unlink(b->path);
	close(b->fd);
	b->fd = -1;
	b->size = 0;
}
