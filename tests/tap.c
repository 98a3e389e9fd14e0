/*
 * tap.c - TAP for tests in C.
 */
#include <config.h>

#include "tap.h"

#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int tests, failures;
static char scratch[PATH_MAX];
static pid_t scratch_owner;

bool
tap_ok(bool good, const char *file, int line, const char *fmt, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++tests);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	if (!good) {
		failures++;
		printf("# at %s:%d\n", file, line);
	}
	fflush(stdout);
	return good;
}

void
diag(const char *fmt, ...)
{
	va_list args;

	fputs("# ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void
skip(int n, const char *fmt, ...)
{
	for (int i = 0; i < n; i++) {
		va_list args;

		printf("ok %d # SKIP ", ++tests);
		va_start(args, fmt);
		vprintf(fmt, args);
		va_end(args);
		putchar('\n');
	}
	fflush(stdout);
}

void
skip_all(const char *why)
{
	if (getenv("RASER_MUST_RUN")) {
		printf("1..1\nnot ok 1 - must run, but: %s\n", why);
		exit(1);
	}
	printf("1..0 # SKIP %s\n", why);
	exit(0);
}

int
done_testing(void)
{
	printf("1..%d\n", tests);
	return failures ? 1 : 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void
remove_scratch(void)
{
	if (getpid() == scratch_owner)
		nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

const char *
scratch_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	if (!scratch[0]) {
		snprintf(scratch, sizeof(scratch), "%s/raser-test.XXXXXX", tmp ? tmp : "/tmp");
		if (!mkdtemp(scratch)) {
			perror(scratch);
			exit(1);
		}
		scratch_owner = getpid();
		atexit(remove_scratch);
	}
	return scratch;
}
