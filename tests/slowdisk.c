/*
 * slowdisk.c - a store that is slow or refuses, for LD_PRELOAD: it stands before the calls that
 * fs/queue/disk.c makes.
 *
 * The file that $SLOWDISK names holds rules, a line each, read anew at every call, so that a
 * test can change them while the daemon runs:
 *
 *     CALL PATTERN MILLISECONDS ERROR       symlinkat *.end 0 ENOSPC
 *
 * CALL is one of the functions below or *; PATTERN is matched against the path as the daemon
 * gave it (fsync: the path of the descriptor). The first rule that fits counts: wait so long,
 * then fail with ERROR, or go on when that is "-". "late" instead of an error: do it, and then
 * answer EIO, as a server does whose reply was lost.
 */
#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LATE = -1 };

static const struct {
	const char *name;
	int code;
} codes[] = {
	{ "-", 0 },	    { "late", LATE },	  { "ENOSPC", ENOSPC }, { "EROFS", EROFS },
	{ "EDQUOT", EDQUOT }, { "EIO", EIO },	  { "ESTALE", ESTALE }, { "EACCES", EACCES },
	{ "ETIMEDOUT", ETIMEDOUT }, { "EOPNOTSUPP", EOPNOTSUPP },
};

static int
code_of(const char *name)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (!strcmp(codes[i].name, name))
			return codes[i].code;
	return EIO;
}

/* Wait as the rules say; the error to give, 0 or LATE. */
static int
rule(const char *call, const char *path)
{
	const char *file = getenv("SLOWDISK");
	char text[4096];
	char *save = NULL;

	if (!file)
		return 0;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char name[32];
		char pattern[256];
		char error[32];
		long ms;

		if (sscanf(l, "%31s %255s %ld %31s", name, pattern, &ms, error) != 4 ||
		    (strcmp(name, "*") != 0 && strcmp(name, call) != 0) ||
		    fnmatch(pattern, path, 0) != 0)
			continue;
		struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

		while (ms && nanosleep(&t, &t) < 0 && errno == EINTR)
			;
		return code_of(error);
	}
	return 0;
}

/* The result of a call after a rule was asked. */
static int
answer(int code, int rc)
{
	if (code == LATE && rc >= 0) {
		errno = EIO;
		return -1;
	}
	return rc;
}

#define BEFORE(call, path)                     \
	int code = rule(call, path);           \
	if (code > 0) {                        \
		errno = code;                  \
		return -1;                     \
	}

int
symlinkat(const char *text, int dir, const char *path)
{
	BEFORE("symlinkat", path);
	return answer(code, (int)syscall(SYS_symlinkat, text, dir, path));
}

ssize_t
readlinkat(int dir, const char *path, char *buf, size_t size)
{
	BEFORE("readlinkat", path);
	return syscall(SYS_readlinkat, dir, path, buf, size);
}

int
mkdirat(int dir, const char *path, mode_t mode)
{
	BEFORE("mkdirat", path);
	return answer(code, (int)syscall(SYS_mkdirat, dir, path, mode));
}

int
unlinkat(int dir, const char *path, int flags)
{
	BEFORE("unlinkat", path);
	return answer(code, (int)syscall(SYS_unlinkat, dir, path, flags));
}

int
utimensat(int dir, const char *path, const struct timespec times[2], int flags)
{
	BEFORE("utimensat", path);
	return answer(code, (int)syscall(SYS_utimensat, dir, path, times, flags));
}

int
statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict out)
{
	BEFORE("statx", path);
	return (int)syscall(SYS_statx, dir, path, flags, mask, out);
}

int
openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	BEFORE(flags & O_CREAT ? "create" : "openat", path);
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int
fsync(int fd)
{
	char link[64];
	char path[4096];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	BEFORE("fsync", path);
	return (int)syscall(SYS_fsync, fd);
}
