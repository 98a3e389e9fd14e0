/*
 * usage.c - a walk over a run directory that counts names and bytes, and looks
 * at rights.
 */
#include <config.h>

#include "usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	USERS = 8,
	DEEP = 200 /* directories in each other, each with an open descriptor */
};

static const char *const parts[] = {
	"batches", "chain", "nodes", "results", "checkpoints", "sealed", "logs", "others",
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]), CHAIN = 1, OTHERS = PARTS - 1 };

struct usage {
	struct fsck *f;
	int64_t names[PARTS], bytes[PARTS];
	uid_t users[USERS];
	int nusers;
	int part;
};

/* Whoever owns what daemons and agents made, not what is in their results. */
static void
note_user(struct usage *u, uid_t uid)
{
	for (int i = 0; i < u->nusers; i++)
		if (u->users[i] == uid)
			return;
	if (u->nusers < USERS)
		u->users[u->nusers++] = uid;
}

static void
check_rights(struct usage *u, int dir, const char *name, const char *path, bool folder)
{
	int mode = folder ? R_OK | W_OK | X_OK : R_OK;

	if (faccessat(dir, name, mode, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0 &&
	    (errno == EACCES || errno == EROFS))
		fsck_found(u->f, ODD_DENIED, path, "cannot be %s by this user: %s",
			   folder ? "written to" : "read", strerror(errno));
}

static void
walk(struct usage *u, int dir, const char *path, int depth);

static void
visit(struct usage *u, int dir, const char *name, const char *path, int depth)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* gone meanwhile */
	u->names[u->part]++;
	u->bytes[u->part] += (int64_t)st.st_blocks * 512;
	if (depth <= 1)
		note_user(u, st.st_uid);
	/* directories in which others make names, and files that everybody reads */
	bool ours = depth == 0 || (depth == 1 && u->part <= CHAIN);
	if (ours && !S_ISLNK(st.st_mode) && u->part != OTHERS)
		check_rights(u, dir, name, path, S_ISDIR(st.st_mode));
	if (S_ISDIR(st.st_mode) && depth < DEEP) {
		int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			walk(u, fd, path, depth + 1);
	}
}

/* Closes dir. */
static void
walk(struct usage *u, int dir, const char *path, int depth)
{
	char below[PATH_MAX];
	DIR *d = fdopendir(dir);

	if (!d) {
		close(dir);
		return;
	}
	for (const struct dirent *e; (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (depth == 0) {
			for (u->part = 0;
			     u->part < OTHERS && strcmp(parts[u->part], e->d_name) != 0;)
				u->part++;
			if (!strcmp(e->d_name, "FORMAT") || !strcmp(e->d_name, "raser.ini"))
				check_rights(u, dirfd(d), e->d_name, e->d_name, false);
		}
		snprintf(below, sizeof(below), "%.3000s%s%s", path, *path ? "/" : "", e->d_name);
		visit(u, dirfd(d), e->d_name, below, depth);
	}
	closedir(d);
}

static void
tell_users(const struct usage *u)
{
	char text[300] = "";
	size_t len = 0;

	for (int i = 0; i < u->nusers && len < sizeof(text); i++) {
		const struct passwd *p = getpwuid(u->users[i]);

		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s (%ld)", i ? ", " : "",
					p ? p->pw_name : "?", (long)u->users[i]);
	}
	if (u->nusers > 1)
		fsck_found(u->f, ODD_USERS, ".", "has files of several users: %s", text);
}

int
usage_print(struct fsck *f, const char *run)
{
	struct usage u = { .f = f };
	int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	walk(&u, fd, "", 0);
	tell_users(&u);
	printf("%-12s %10s %14s\n", "part", "names", "bytes");
	for (int i = 0; i < PARTS; i++)
		if (u.names[i])
			printf("%-12s %10lld %14lld\n", parts[i], (long long)u.names[i],
			       (long long)u.bytes[i]);
	return 0;
}
