/*
 * clone.c - a copy of a tree that shares its data, where the file system can do that.
 */
#include <config.h>

#include "folder.h"

#include "plant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct cloning {
	struct plant *plant;
	struct folder_links *links;
	struct err *err;
};

static int
clone_xattr(void *arg, const char *name, const void *value, size_t size)
{
	const struct cloning *c = arg;

	return plant_xattr(c->plant, name, value, size, c->err);
}

static int
clone_file(struct cloning *c, const struct folder_entry *e, const struct plant_spec *spec)
{
	int fd = folder_open_file(e);

	if (fd == -ENOENT || fd == -ELOOP)
		return 0; /* it is gone, or something else by now */
	if (fd == -EACCES || fd == -EPERM)
		return -EOPNOTSUPP;
	if (fd < 0)
		return fd;
	int rc = plant_entry(c->plant, spec, c->err);
	if (!rc)
		rc = folder_xattrs(fd, clone_xattr, c);
	if (!rc && spec->size)
		rc = plant_share(c->plant, fd, c->err);
	close(fd);
	/* what file systems without it say */
	if (rc == -ENOTTY || rc == -EINVAL || rc == -EXDEV || rc == -ENOSYS)
		rc = -EOPNOTSUPP;
	return rc;
}

static int
clone_entry(void *arg, const struct folder_entry *e)
{
	struct cloning *c = arg;
	char target[4096] = "";
	struct plant_spec spec = { .path = e->path, .target = target, .mode = e->st.st_mode,
				   .uid = e->st.st_uid, .gid = e->st.st_gid,
				   .size = e->st.st_size, .mtime = e->st.st_mtim };

	if (e->foreign || e->locked || S_ISCHR(spec.mode) || S_ISBLK(spec.mode))
		return -EOPNOTSUPP; /* an archive of the tree itself names them */
	if (S_ISLNK(spec.mode)) {
		ssize_t n = readlinkat(e->dir, e->name, target, sizeof(target) - 1);

		if (n < 0)
			return errno == ENOENT || errno == EINVAL ? 0 : -errno;
		target[n] = '\0';
	}
	bool several = e->st.st_nlink > 1 && !S_ISDIR(spec.mode);
	if (several)
		spec.hardlink = folder_links_find(c->links, &e->st);
	int64_t before = plant_entries(c->plant);
	int rc = S_ISREG(spec.mode) && !spec.hardlink ? clone_file(c, e, &spec) :
							plant_entry(c->plant, &spec, c->err);
	if (!rc && S_ISDIR(spec.mode))
		rc = folder_xattrs(e->fd, clone_xattr, c);
	if (!rc && several && !spec.hardlink && plant_entries(c->plant) > before)
		folder_links_add(c->links, &e->st, e->path);
	return rc;
}

int
folder_clone(const char *state, const char *copy, struct err *err)
{
	struct cloning c = { .links = folder_links_new(), .err = err };
	const struct folder_visitor v = { .enter = clone_entry, .arg = &c };
	int from = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = from < 0 ? -errno : 0;
	int to = -1;
	bool made = false;

	if (!rc && mkdir(copy, 0700) < 0)
		rc = -errno;
	made = !rc;
	if (!rc) {
		to = open(copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = to < 0 ? -errno : 0;
	}
	if (!rc) {
		c.plant = plant_new(to, 0);
		rc = c.plant && c.links ? folder_walk(from, &v) : -ENOMEM;
		if (!rc)
			rc = plant_finish(c.plant, err);
		plant_free(c.plant);
		if (rc)
			folder_empty(to);
	}
	if (rc && made)
		rmdir(copy);
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	folder_links_free(c.links);
	if (rc)
		err_set(err, rc, "%s cannot be cloned: %s", state, strerror(-rc));
	return rc;
}
