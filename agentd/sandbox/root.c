/*
 * root.c - the root folder of a sandbox: what of the host or an image stands in it, and every
 * mount point. All of it is made in a folder of ours, and never through a link, since the links
 * of an image may point anywhere.
 */
#include <config.h>

#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 64 };

struct laying {
	struct layout *l;
	const struct sandbox_spec *spec;
	const struct layout *wanted; /* what is bound over the root */
	struct err *err;
	struct words deep; /* folders of the root that are laid out entry by entry */
};

/* ---- its entries ---- */

/* A folder in which something must be bound that it does not have is laid out, as are those
 * above it. */
static void
find_deep(struct laying *m, const char *root, const char *at)
{
	char path[2 * PATH_MAX];
	struct stat st;

	for (const char *slash = strchr(at + 1, '/');; slash = strchr(slash + 1, '/')) {
		int len = slash ? (int)(slash - at) : (int)strlen(at);

		if (!strcmp(root, "/") && !path_is_system(at))
			return;
		snprintf(path, sizeof(path), "%s%.*s", strcmp(root, "/") ? root : "", len, at);
		bool there = lstat(path, &st) == 0;
		if (there && S_ISLNK(st.st_mode) && slash)
			return;
		if (!there || S_ISLNK(st.st_mode)) {
			for (const char *up = strchr(at + 1, '/'); up && up <= at + len - 1;
			     up = strchr(up + 1, '/'))
				words_add(&m->deep, "%.*s", (int)(up - at), at);
			return;
		}
		if (!slash || !S_ISDIR(st.st_mode))
			return;
	}
}

static bool
is_listed(const struct words *w, const char *text)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->list[i], text))
			return true;
	return false;
}

static bool
is_wanted(const struct laying *m, const char *at)
{
	for (size_t i = 0; i < m->wanted->n; i++)
		if (!strcmp(m->wanted->binds[i].at, at))
			return true;
	return false;
}

/* Lay out one folder of the root: at is empty for the root itself. */
static int
lay(struct laying *m, const char *root, const char *at, int depth)
{
	static const char *const private[] = { "/proc", "/dev", "/sys", "/tmp", "/run" };
	char path[2 * PATH_MAX];
	char inside[PATH_MAX];
	char ours[2 * PATH_MAX];
	int rc = 0;

	snprintf(path, sizeof(path), "%s%s/", root, at);
	DIR *d = opendir(path);
	if (!d)
		return err_set(m->err, -errno, "%s: %s", path, strerror(errno));
	for (const struct dirent *e; !rc && depth < DEPTH && (e = readdir(d));) {
		struct stat st;
		bool skip = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");

		snprintf(inside, sizeof(inside), "%.3700s/%s", at, e->d_name);
		snprintf(path, sizeof(path), "%s%s", strcmp(root, "/") ? root : "", inside);
		snprintf(ours, sizeof(ours), "%s%s", m->l->root, inside);
		for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++)
			skip |= !strcmp(inside, private[i]);
		if (skip || (!strcmp(root, "/") && !path_is_system(inside)) || lstat(path, &st) < 0)
			continue;
		if (S_ISLNK(st.st_mode) && !is_wanted(m, inside)) {
			char text[PATH_MAX];
			ssize_t n = readlink(path, text, sizeof(text) - 1);

			text[n > 0 ? n : 0] = '\0';
			if (symlink(text, ours) < 0)
				rc = -errno;
		} else if (S_ISDIR(st.st_mode) && is_listed(&m->deep, inside)) {
			rc = mkdir(ours, 0755) < 0 ? -errno : lay(m, root, inside, depth + 1);
		} else if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) {
			bind_add(m->l, path, inside, false, false);
		}
	}
	closedir(d);
	return rc;
}

int
root_lay(struct layout *l, const struct sandbox_spec *spec, const struct layout *wanted,
	 struct err *err)
{
	struct laying m = { .l = l, .spec = spec, .wanted = wanted, .err = err };
	const char *root = box_has_image(spec) ? spec->image : "/";

	if (!path_is_dir(root))
		return err_set(err, -ENOTDIR, "image %s: this sandbox takes a folder", root);
	for (size_t i = 0; i < wanted->n; i++)
		find_deep(&m, root, wanted->binds[i].at);
	int rc = m.deep.failed ? -ENOMEM : lay(&m, root, "", 0);
	words_free(&m.deep);
	return rc;
}

/* ---- mount points ---- */

/* Make a folder or an empty file below base, never through a link. */
static int
make_point(const char *base, const char *path, bool dir)
{
	char name[NAME_MAX + 1];
	int rc = 0;
	int at = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (at < 0)
		return -errno;
	while (!rc && *path) {
		path += strspn(path, "/");
		size_t len = strcspn(path, "/");
		bool last = !path[len];

		if (!len)
			break;
		if (len > NAME_MAX) {
			rc = -ENAMETOOLONG;
			break;
		}
		snprintf(name, sizeof(name), "%.*s", (int)len, path);
		path += len;
		if (last && !dir) {
			int fd =
				openat(at, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

			if (fd < 0)
				rc = -errno;
			else
				close(fd);
			break;
		}
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
			rc = -errno;
		int next =
			rc ? -1 : openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (!rc && next < 0)
			rc = -errno;
		close(at);
		at = next;
	}
	if (at >= 0)
		close(at);
	return rc;
}

int
root_points(const struct layout *l, bool whole, struct err *err)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct bind *b = &l->binds[i];
		const struct bind *over = bind_cover(l, i, b->at);
		char path[2 * PATH_MAX];
		struct stat st;
		int rc = 0;

		if (over ? over->own : whole) {
			rc = make_point(over ? over->from : l->root,
					over ? path_rest(b->at, over->at) : b->at,
					path_is_dir(b->from));
		} else if (over) {
			snprintf(path, sizeof(path), "%s%s", over->from,
				 path_rest(b->at, over->at));
			rc = lstat(path, &st) < 0 ? -errno : 0;
		}
		if (rc)
			return err_set(err, rc, "%s cannot be bound at %s: %s", b->from, b->at,
				       strerror(-rc));
	}
	return 0;
}
