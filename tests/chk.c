/*
 * chk.c - one call on a path and its exact error, for tests in shell.
 *
 *     chk [-t] VERB ARGUMENT...      prints ok, or the name of the error; -t: and milliseconds
 *
 * Two verbs are programs of their own, in hold.c.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "chk.h"

int
result(long rc)
{
	return rc < 0 ? -errno : 0;
}

int
parse_flags(const char *text)
{
	static const struct {
		const char *word;
		int flag;
	} words[] = {
		{ "r", O_RDONLY },	{ "w", O_WRONLY },     { "rw", O_RDWR },
		{ "creat", O_CREAT },	{ "excl", O_EXCL },    { "trunc", O_TRUNC },
		{ "append", O_APPEND }, { "direct", O_DIRECT }, { "nonblock", O_NONBLOCK },
		{ "dir", O_DIRECTORY }, { "cloexec", O_CLOEXEC },
	};
	char copy[128];
	char *save = NULL;
	int flags = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		size_t i = 0;

		while (i < sizeof(words) / sizeof(words[0]) && strcmp(words[i].word, w) != 0)
			i++;
		if (i == sizeof(words) / sizeof(words[0])) {
			fprintf(stderr, "chk: no flag %s\n", w);
			exit(2);
		}
		flags |= words[i].flag;
	}
	return flags;
}

/* ---- one call each ---- */

static int
do_open(char **a)
{
	int fd = open(a[1], parse_flags(a[0]), 0666);

	return fd < 0 ? -errno : result(close(fd));
}

/* Read a whole file. */
static int
do_read(char **a)
{
	char buf[65536];
	int fd = open(a[1], parse_flags(a[0]));
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	while (n > 0)
		n = read(fd, buf, sizeof(buf));
	int rc = result(n);
	close(fd);
	return rc;
}

static int
do_write(char **a)
{
	int fd = open(a[0], O_WRONLY);

	if (fd < 0)
		return -errno;
	int rc = result(write(fd, a[1], strlen(a[1])));
	if (close(fd) < 0 && !rc)
		rc = -errno;
	return rc;
}

/* Standard input into a new file; says which call failed. */
static int
do_put(char **a)
{
	char buf[65536];
	const char *call = "open";
	int fd = open(a[0], O_WRONLY | O_CREAT | O_TRUNC, 0666);
	int rc = result(fd);
	ssize_t n = 0;

	while (!rc && (n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n) {
			call = "write";
			rc = -errno;
		}
	if (fd >= 0 && close(fd) < 0 && !rc) {
		call = "close";
		rc = -errno;
	}
	if (!rc)
		return 0;
	printf("%s %s", call, error_name(-rc));
	return SAID;
}

static int
do_touch(char **a)
{
	return result(utimensat(AT_FDCWD, a[0], NULL, 0));
}

static int
do_utime(char **a)
{
	const struct timespec t[2] = { { .tv_sec = atol(a[0]) }, { .tv_sec = atol(a[0]) } };

	return result(utimensat(AT_FDCWD, a[1], t, 0));
}

static int
do_rename(char **a)
{
	unsigned flags = !strcmp(a[0], "noreplace") ? RENAME_NOREPLACE :
			 !strcmp(a[0], "exchange")  ? RENAME_EXCHANGE :
						      0;

	return result(renameat2(AT_FDCWD, a[1], AT_FDCWD, a[2], flags));
}

static int
do_unlink(char **a)
{
	return result(unlink(a[0]));
}

static int
do_rmdir(char **a)
{
	return result(rmdir(a[0]));
}

static int
do_mkdir(char **a)
{
	return result(mkdir(a[0], 0777));
}

static int
do_mknod(char **a)
{
	return result(mknod(a[0], S_IFIFO | 0666, 0));
}

static int
do_link(char **a)
{
	return result(link(a[0], a[1]));
}

static int
do_symlink(char **a)
{
	return result(symlink(a[0], a[1]));
}

static int
do_truncate(char **a)
{
	return result(truncate(a[1], atol(a[0])));
}

static int
do_chmod(char **a)
{
	return result(chmod(a[1], (mode_t)strtol(a[0], NULL, 8)));
}

static int
do_chown(char **a)
{
	return result(chown(a[1], (uid_t)atol(a[0]), (gid_t)-1));
}

static int
do_stat(char **a)
{
	struct stat st;

	return result(lstat(a[0], &st));
}

static int
do_getxattr(char **a)
{
	char buf[1024];
	ssize_t n = lgetxattr(a[0], a[1], buf, sizeof(buf));

	if (n < 0)
		return -errno;
	printf("%.*s", (int)n, buf);
	return SAID;
}

/* With a buffer of that size. */
static int
do_getxattr_into(char **a)
{
	char buf[1024];

	return result(lgetxattr(a[1], a[2], buf, (size_t)atol(a[0])));
}

static int
do_setxattr(char **a)
{
	return result(lsetxattr(a[0], a[1], a[2], strlen(a[2]), 0));
}

static int
do_removexattr(char **a)
{
	return result(lremovexattr(a[0], a[1]));
}

static int
do_listxattr(char **a)
{
	char buf[4096];
	ssize_t n = llistxattr(a[0], buf, sizeof(buf));

	if (n < 0)
		return -errno;
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(buf + i) + 1)
		printf("%s%s", i ? " " : "", buf + i);
	return SAID;
}

/* The names of a directory as the kernel gives them, a few at a time, with a pause between. */
static int
do_list(char **a)
{
	struct entry {
		uint64_t ino;
		int64_t off;
		uint16_t len;
		uint8_t type;
		char name[];
	};
	_Alignas(8) char buf[4096];
	int fd = open(a[1], O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof(buf));

		if (n < 0)
			return -errno;
		if (n == 0)
			exit(0);
		for (long i = 0; i < n;) {
			const struct entry *e = (const struct entry *)(buf + i);

			if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
				puts(e->name);
			i += e->len;
		}
		usleep((useconds_t)atol(a[0]));
	}
}

static void
on_alarm(int sig)
{
	(void)sig;
}

/* An open that a signal with a handler interrupts after so many milliseconds. */
static int
do_alarm(char **a)
{
	const struct sigaction act = { .sa_handler = on_alarm }; /* no SA_RESTART */
	long ms = atol(a[0]);
	const struct timeval in = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	const struct itimerval timer = { .it_value = in };

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	return do_open(a + 1);
}

/* ---- the table ---- */

static const struct {
	const char *verb;
	int args; /* at least */
	int (*run)(char **args);
} verbs[] = {
	{ "open", 2, do_open },		{ "read", 2, do_read },
	{ "write", 2, do_write },	{ "put", 1, do_put },
	{ "touch", 1, do_touch },	{ "utime", 2, do_utime },
	{ "rename", 3, do_rename },	{ "unlink", 1, do_unlink },
	{ "rmdir", 1, do_rmdir },	{ "mkdir", 1, do_mkdir },
	{ "mknod", 1, do_mknod },	{ "link", 2, do_link },
	{ "symlink", 2, do_symlink },	{ "truncate", 2, do_truncate },
	{ "chmod", 2, do_chmod },	{ "chown", 2, do_chown },
	{ "stat", 1, do_stat },		{ "getxattr", 2, do_getxattr },
	{ "getxattr-into", 3, do_getxattr_into }, { "setxattr", 3, do_setxattr },
	{ "removexattr", 2, do_removexattr }, { "listxattr", 1, do_listxattr },
	{ "list", 2, do_list },		{ "alarm", 3, do_alarm },
	{ "hold", 2, do_hold },		{ "fuse", 3, do_fuse },
};

int
main(int argc, char **argv)
{
	bool timed = argc > 1 && !strcmp(argv[1], "-t");
	char **a = argv + 1 + timed;
	int n = argc - 1 - timed;
	struct timespec from;
	struct timespec to;

	for (size_t i = 0; n && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].verb, a[0]) != 0 || n - 1 < verbs[i].args)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &from);
		int rc = verbs[i].run(a + 1);
		clock_gettime(CLOCK_MONOTONIC, &to);
		if (rc != SAID)
			fputs(error_name(-rc), stdout);
		if (timed)
			printf(" %lld", (long long)(to.tv_sec - from.tv_sec) * 1000 +
						(to.tv_nsec - from.tv_nsec) / 1000000);
		putchar('\n');
		return 0;
	}
	fprintf(stderr, "chk: no verb %s, or too few words\n", n ? a[0] : "");
	return 2;
}
