/*
 * hold.c - verbs of chk that are programs of their own: an open file that does what its standard
 * input says, a line each, and answers a line each; and a daemon on a descriptor of /dev/fuse.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chk.h"

/* ---- an open file under orders ---- */

struct held {
	int fd;
	int copies[16], ncopies;
	char *text;
	size_t size;
	void *map;
};

static int
hold_read(struct held *h, const char *arg)
{
	size_t cap = h->size + 65536;
	ssize_t n;

	(void)arg;
	do {
		if (h->size + 65536 > cap || !h->text) {
			cap = (h->size + 65536) * 2;
			h->text = realloc(h->text, cap);
			if (!h->text)
				return -ENOMEM;
		}
		n = read(h->fd, h->text + h->size, 65535);
		if (n > 0)
			h->size += (size_t)n;
	} while (n > 0);
	h->text[h->size] = '\0';
	return result(n);
}

/* The file again from its beginning: its first line. */
static int
hold_again(struct held *h, const char *arg)
{
	char buf[4096];
	ssize_t n = pread(h->fd, buf, sizeof(buf) - 1, 0);

	(void)arg;
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	printf("%.*s\n", (int)strcspn(buf, "\n"), buf);
	return SAID;
}

/* Line number arg of what was read. */
static int
hold_line(struct held *h, const char *arg)
{
	const char *p = h->text ? h->text : "";

	for (long n = atol(arg); n > 1; n--)
		p += strcspn(p, "\n") + (strchr(p, '\n') != NULL);
	printf("%.*s\n", (int)strcspn(p, "\n"), p);
	return SAID;
}

static int
hold_size(struct held *h, const char *arg)
{
	(void)arg;
	printf("%zu\n", h->size);
	return SAID;
}

static int
hold_write(struct held *h, const char *arg)
{
	return result(write(h->fd, arg, strlen(arg)));
}

static int
hold_touch(struct held *h, const char *arg)
{
	(void)arg;
	return result(futimens(h->fd, NULL));
}

static int
hold_fsync(struct held *h, const char *arg)
{
	(void)arg;
	return result(fsync(h->fd));
}

static int
hold_close(struct held *h, const char *arg)
{
	int fd = h->fd;

	(void)arg;
	h->fd = -1;
	return result(close(fd));
}

static int
hold_dup(struct held *h, const char *arg)
{
	(void)arg;
	h->copies[h->ncopies] = dup(h->fd);
	return result(h->copies[h->ncopies++]);
}

static int
hold_undup(struct held *h, const char *arg)
{
	(void)arg;
	return result(close(h->copies[--h->ncopies]));
}

/* A child that only inherits; prints its pid. */
static int
hold_fork(struct held *h, const char *arg)
{
	pid_t pid = fork();

	(void)h;
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		if (!strcmp(arg, "exec"))
			execlp("sleep", "sleep", "1000", (char *)NULL);
		for (;;)
			pause();
	}
	printf("%ld\n", (long)pid);
	return SAID;
}

static int
hold_mmap(struct held *h, const char *arg)
{
	int how = !strcmp(arg, "shared") ? MAP_SHARED : MAP_PRIVATE;

	h->map = mmap(NULL, 4096, PROT_READ, how, h->fd, 0);
	return h->map == MAP_FAILED ? -errno : 0;
}

static int
hold_munmap(struct held *h, const char *arg)
{
	(void)arg;
	return result(munmap(h->map, 4096));
}

static int
hold_poll(struct held *h, const char *arg)
{
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	int n = poll(&p, 1, atoi(arg));

	if (n < 0)
		return -errno;
	puts(n == 0 ? "timeout" : p.revents & POLLIN ? "in" : "other");
	return SAID;
}

static int
hold_quit(struct held *h, const char *arg)
{
	(void)h;
	(void)arg;
	exit(0);
}

static const struct {
	const char *word;
	int (*run)(struct held *h, const char *arg);
} orders[] = {
	{ "read", hold_read },	 { "again", hold_again }, { "line", hold_line },
	{ "size", hold_size },	 { "write", hold_write }, { "touch", hold_touch },
	{ "fsync", hold_fsync }, { "close", hold_close }, { "dup", hold_dup },
	{ "undup", hold_undup }, { "fork", hold_fork },	  { "mmap", hold_mmap },
	{ "munmap", hold_munmap }, { "poll", hold_poll }, { "quit", hold_quit },
};

static int
obey(struct held *h, char *line)
{
	char *arg = strchr(line, ' ');

	if (arg)
		*arg++ = '\0';
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		if (!strcmp(orders[i].word, line))
			return orders[i].run(h, arg ? arg : "");
	return -ENOSYS;
}

int
do_hold(char **a)
{
	struct held h = { .fd = open(a[1], parse_flags(a[0]), 0666) };
	char line[4096];

	puts(error_name(h.fd < 0 ? errno : 0));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		int rc = obey(&h, line);

		if (rc != SAID)
			puts(error_name(-rc));
		fflush(stdout);
	}
	exit(0);
}

/* ---- a mount that somebody else made ---- */

static void
put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* An own user and mount namespace in which this user keeps its number. */
static void
own_namespace(void)
{
	char map[64];
	unsigned uid = geteuid();
	unsigned gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		perror("unshare");
		exit(77);
	}
	put_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	put_text("/proc/self/gid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	put_text("/proc/self/uid_map", map);
}

static pid_t
start(char **argv)
{
	pid_t pid = argv[0] ? fork() : -1;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	return pid;
}

/*
 * plain|own MNT DAEMON... -- COMMAND...: mount here, start the daemon on /dev/fd/N, which stands
 * for {} in its words, then the command; its exit status is ours.
 */
int
do_fuse(char **a)
{
	char options[128];
	char path[32];
	struct stat st;
	char **command = a + 2;
	int status = 1;

	if (!strcmp(a[0], "own"))
		own_namespace();
	int fd = open("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd,
		 (unsigned)geteuid(), (unsigned)getegid());
	if (fd < 0 || mount("raser", a[1], "fuse.raserfs", MS_NOSUID | MS_NODEV, options) < 0) {
		perror(a[1]);
		exit(1);
	}
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	for (; *command && strcmp(*command, "--") != 0; command++)
		if (!strcmp(*command, "{}"))
			*command = path;
	if (!*command)
		exit(2);
	*command++ = NULL;
	pid_t daemon = start(a + 2);
	close(fd); /* the daemon has its own: when it dies the connection is over */
	if (stat(a[1], &st) < 0)
		perror(a[1]);
	pid_t pid = start(command);
	waitpid(pid, &status, 0);
	kill(daemon, SIGTERM);
	int ended = 0;
	waitpid(daemon, &ended, 0);
	umount2(a[1], MNT_DETACH);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) + (WEXITSTATUS(ended) ? 64 : 0) : 128);
}
