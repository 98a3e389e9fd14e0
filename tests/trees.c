/*
 * trees.c - trees for tests, made and compared by plain calls, not by the code under test.
 */
#include <config.h>

#include "trees.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A test that cannot make its files has no verdict. */
static void
must(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

const char *
at(const char *dir, const char *name)
{
	static char buf[8][PATH_MAX];
	static unsigned next;
	char *p = buf[next++ % 8];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}

void
put_file(const char *path, const void *data, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size && !fchmod(fd, mode) && !close(fd),
	     path);
}

static void
set_time(const char *path, time_t s, long ns)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { s, ns } };

	must(!utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), path);
}

static void
make_holes(const char *dir)
{
	char block[4096];
	int fd = open(at(dir, "holes"), O_RDWR | O_CREAT, 0640);

	memset(block, 'd', sizeof(block));
	must(fd >= 0 && !ftruncate(fd, 40 << 20), "holes");
	for (int i = 1; i < 8; i += 2) /* begins and ends with a hole */
		must(pwrite(fd, block, sizeof(block), (off_t)i << 20) == sizeof(block), "holes");
	close(fd);
	fd = open(at(dir, "a hole"), O_RDWR | O_CREAT, 0600);
	must(fd >= 0 && !ftruncate(fd, (off_t)5 << 30), "a hole");
	close(fd);
	fd = open(at(dir, "hole first"), O_RDWR | O_CREAT, 0600);
	must(fd >= 0 && pwrite(fd, "end", 3, 3 << 20) == 3, "hole first");
	close(fd);
}

/* A path of more than PATH_MAX bytes, made from inside. */
static void
make_deep(const char *dir)
{
	char name[201];
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	memset(name, 'n', 200);
	name[200] = '\0';
	for (int i = 0; i < 90; i++) {
		name[0] = (char)('a' + i % 26);
		must(!mkdirat(fd, name, 0755), "deep");
		int down = openat(fd, name, O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = down;
	}
	int leaf = openat(fd, "leaf", O_WRONLY | O_CREAT, 0600);
	must(leaf >= 0 && write(leaf, "deep down", 9) == 9, "deep");
	close(leaf);
	close(fd);
}

void
make_odd_tree(const char *path)
{
	char dir[300]; /* path may be one of at()'s */
	static const char *const names[] = {
		"-rf", " ", "a\nb", "tab\t", "x\377\376y", "\303\251", "..x", "...", "a=b", "*", "\\",
		"'\"", "%41", "~",
	};
	char text[300];

	snprintf(dir, sizeof(dir), "%s", path);
	must(!mkdir(dir, 0755), dir);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		put_file(at(dir, names[i]), names[i], strlen(names[i]), 0644);
		set_time(at(dir, names[i]), 1000000000 + (time_t)i, (long)(123456789 * (i % 8)));
	}
	memset(text, 'q', 255);
	text[255] = '\0';
	put_file(at(dir, text), "255", 3, 0600);
	put_file(at(dir, "empty"), "", 0, 0666);
	set_time(at(dir, "empty"), -5, 999999999);	   /* before 1970 */
	put_file(at(dir, "future"), "f", 1, 0600);
	set_time(at(dir, "future"), 5000000000, 1); /* beyond 32 bits */
	for (unsigned m = 0; m < 01000; m += 0111) {
		snprintf(text, sizeof(text), "mode%03o", m);
		put_file(at(dir, text), "m", 1, m | 0400);
	}
	must(!chmod(at(dir, "mode000"), 0) && !chmod(at(dir, "mode222"), 0222), "modes");
	put_file(at(dir, "setuid"), "s", 1, 06755);
	must(!mkdir(at(dir, "sub"), 0700), "sub");
	put_file(at(dir, "sub/first"), "one file", 8, 0600);
	must(!link(at(dir, "sub/first"), at(dir, "second")) &&
		     !link(at(dir, "second"), at(dir, "x third")),
	     "hard links");
	must(!symlink("/etc/passwd", at(dir, "link out")) && !symlink("nowhere", at(dir, "dangling")) &&
		     !symlink("x\377\n", at(dir, "link odd")) && !symlink(".", at(dir, "loop")),
	     "links");
	memset(text, 't', 299);
	text[299] = '\0';
	must(!symlink(text, at(dir, "link long")), "link long");
	must(!link(at(dir, "dangling"), at(dir, "dangling too")), "a link's second name");
	set_time(at(dir, "link out"), 12345, 678);
	must(!mkfifo(at(dir, "fifo"), 0620), "fifo");
	make_holes(dir);
	make_deep(dir);
	put_file(at(dir, "attributes"), "a", 1, 0444);
	must(!chmod(at(dir, "attributes"), 0600), "attributes");
	/* not everywhere: tmpfs has had none for long */
	setxattr(at(dir, "attributes"), "user.plain", "value", 5, 0);
	setxattr(at(dir, "attributes"), "user.empty", "", 0, 0);
	setxattr(at(dir, "attributes"), "user.a=b %41\303\251", "\0\n\377", 3, 0);
	setxattr(at(dir, "sub"), "user.of a directory", "d", 1, 0);
	must(!chmod(at(dir, "attributes"), 0444), "attributes");
	must(!mkdir(at(dir, "closed"), 0700), "closed");
	put_file(at(dir, "closed/in"), "x", 1, 0600);
	must(!mkdir(at(dir, "closed/deeper"), 01700), "closed");
	set_time(at(dir, "closed/deeper"), 77, 7);
	must(!chmod(at(dir, "closed"), 0), "closed");
	must(!mkdir(at(dir, "readonly"), 0700), "readonly");
	put_file(at(dir, "readonly/in"), "x", 1, 0400);
	must(!chmod(at(dir, "readonly"), 02555), "readonly");
	set_time(at(dir, "readonly"), 99, 9);
	set_time(dir, 111, 1);
}

void
make_plain_tree(const char *path, int n, size_t size, unsigned seed)
{
	char dir[300];
	char name[32];
	char *data = calloc(1, size + 1);
	uint64_t x = seed * 0x9e3779b97f4a7c15u;

	snprintf(dir, sizeof(dir), "%s", path);
	must(data && !mkdir(dir, 0755), dir);
	for (int i = 0; i < n; i++) {
		for (size_t k = 0; seed && k + 8 <= size; k += 8) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(data + k, &x, 8);
		}
		snprintf(name, sizeof(name), "file%d", i);
		put_file(at(dir, name), data, size, 0600);
	}
	free(data);
}

/* ---- comparing ---- */

static bool
differ(const char *name, const char *what)
{
	diag("%s: %s", name, what);
	return false;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of an open directory. */
static char **
read_names(int dir, size_t *n)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY));
	char **names = NULL;

	*n = 0;
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		char **grown = realloc(names, (*n + 1) * sizeof(*names));
		must(grown, "memory");
		names = grown;
		names[(*n)++] = strdup(e->d_name);
	}
	if (d)
		closedir(d);
	if (*n)
		qsort(names, *n, sizeof(*names), by_name);
	return names;
}

static void
free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* An attribute has the same value in two lists of the same length. */
static bool
same_xattrs(int a, int b)
{
	char list[2][1024];
	ssize_t n = flistxattr(a, list[0], sizeof(list[0]));
	ssize_t m = flistxattr(b, list[1], sizeof(list[1]));

	if (n < 0 || n != m)
		return n == m;
	for (const char *p = list[0]; p < list[0] + n; p += strlen(p) + 1) {
		char value[2][256];
		ssize_t x = fgetxattr(a, p, value[0], sizeof(value[0]));
		ssize_t y = fgetxattr(b, p, value[1], sizeof(value[1]));

		if (x < 0 || x != y || memcmp(value[0], value[1], (size_t)x) != 0)
			return false;
	}
	return true;
}

static bool
same_data(int a, int b, off_t size)
{
	static char buf[2][1 << 16];

	for (off_t pos = 0; pos < size;) {
		/* over the holes of both */
		off_t x = lseek(a, pos, SEEK_DATA);
		off_t y = lseek(b, pos, SEEK_DATA);

		if (x < 0 || y < 0)
			return x == y;
		pos = x < y ? x : y;
		ssize_t n = pread(a, buf[0], sizeof(buf[0]), pos);
		ssize_t m = pread(b, buf[1], sizeof(buf[1]), pos);
		if (n <= 0 || n != m || memcmp(buf[0], buf[1], (size_t)n) != 0)
			return false;
		pos += n;
	}
	return true;
}

static int
open_anyhow(int dir, const char *name, const struct stat *st)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW);

	if (fd < 0 && !fchmodat(dir, name, (st->st_mode & 07777) | 0500, 0)) {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW);
		if (S_ISREG(st->st_mode))
			fchmodat(dir, name, st->st_mode & 07777, 0);
	}
	return fd;
}

static bool
same_directories(int a, int b);

static bool
same_entries(int a, int b, const char *name)
{
	struct stat x;
	struct stat y;

	if (fstatat(a, name, &x, AT_SYMLINK_NOFOLLOW) || fstatat(b, name, &y, AT_SYMLINK_NOFOLLOW))
		return differ(name, "missing");
	if (x.st_mode != y.st_mode) {
		diag("%o, %o", x.st_mode, y.st_mode);
		return differ(name, "mode");
	}
	if (x.st_uid != y.st_uid || x.st_gid != y.st_gid)
		return differ(name, "owner");
	if (x.st_mtim.tv_sec != y.st_mtim.tv_sec || x.st_mtim.tv_nsec != y.st_mtim.tv_nsec)
		return differ(name, "time");
	if (!S_ISDIR(x.st_mode) && (x.st_size != y.st_size || x.st_nlink != y.st_nlink))
		return differ(name, "size or number of names");
	if (S_ISLNK(x.st_mode)) {
		char t[2][PATH_MAX] = { "", "" };

		return readlinkat(a, name, t[0], PATH_MAX - 1) >= 0 &&
				       readlinkat(b, name, t[1], PATH_MAX - 1) >= 0 &&
				       !strcmp(t[0], t[1]) ?
			       true :
			       differ(name, "target");
	}
	if (!S_ISDIR(x.st_mode) && !S_ISREG(x.st_mode))
		return true;
	if (S_ISREG(x.st_mode) && y.st_blocks > x.st_blocks + 64)
		return differ(name, "its holes are filled");
	int fa = open_anyhow(a, name, &x);
	int fb = open_anyhow(b, name, &y);
	bool same = fa >= 0 && fb >= 0;
	if (!same)
		differ(name, "cannot be opened");
	else if (!same_xattrs(fa, fb))
		same = differ(name, "attributes");
	else if (S_ISDIR(x.st_mode))
		same = same_directories(fa, fb);
	else if (!same_data(fa, fb, x.st_size))
		same = differ(name, "data");
	if (S_ISDIR(x.st_mode)) {
		fchmodat(a, name, x.st_mode & 07777, 0);
		fchmodat(b, name, y.st_mode & 07777, 0);
	}
	if (fa >= 0)
		close(fa);
	if (fb >= 0)
		close(fb);
	return same;
}

static bool
same_directories(int a, int b)
{
	size_t n;
	size_t m;
	char **x = read_names(a, &n);
	char **y = read_names(b, &m);
	bool same = n == m;

	if (!same)
		diag("%zu and %zu entries", n, m);
	for (size_t i = 0; same && i < n; i++)
		same = !strcmp(x[i], y[i]) ? same_entries(a, b, x[i]) : differ(x[i], "missing");
	free_names(x, n);
	free_names(y, m);
	return same;
}

bool
same_trees(const char *a, const char *b)
{
	int fa = open(a, O_RDONLY | O_DIRECTORY);
	int fb = open(b, O_RDONLY | O_DIRECTORY);
	bool same = fa >= 0 && fb >= 0 && same_directories(fa, fb);
	struct stat x;
	struct stat y;

	if (same && (fstat(fa, &x) || fstat(fb, &y) || x.st_mode != y.st_mode ||
		     x.st_mtim.tv_sec != y.st_mtim.tv_sec || x.st_mtim.tv_nsec != y.st_mtim.tv_nsec))
		same = differ(b, "mode or time of the folder itself");
	if (fa >= 0)
		close(fa);
	if (fb >= 0)
		close(fb);
	return same;
}

int
count_names(const char *dir, const char *prefix)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	size_t n;
	int hits = 0;

	if (fd < 0)
		return 0;
	char **names = read_names(fd, &n);
	for (size_t i = 0; i < n; i++)
		hits += !strncmp(names[i], prefix, strlen(prefix));
	free_names(names, n);
	close(fd);
	return hits;
}

bool
is_empty(const char *dir)
{
	return count_names(dir, "") == 0;
}

/* ---- children ---- */

int
in_child(int (*fn)(void *arg), void *arg, bool as_nobody)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (as_nobody && geteuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(125);
		int rc = fn(arg);
		fflush(stdout);
		_exit(rc);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool
write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

bool
private_mounts(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0) {
		if (unshare(CLONE_NEWNS))
			return false;
	} else {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
			return false;
		snprintf(map, sizeof(map), "0 %u 1", uid);
		if (!write_text("/proc/self/uid_map", map))
			return false;
		snprintf(map, sizeof(map), "0 %u 1", gid);
		if (!write_text("/proc/self/setgroups", "deny") ||
		    !write_text("/proc/self/gid_map", map))
			return false;
	}
	return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
