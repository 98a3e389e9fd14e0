/*
 * folder.c - walking a tree, and what needs no more than that: emptying it, its fingerprint.
 *
 * The walk keeps its own stack, so depth costs memory only. It holds one descriptor a level down
 * to FDS_KEPT; below, the way up is "..", checked by the inode number.
 */
#include <config.h>

#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <xxhash.h>

enum { FDS_KEPT = 64 };

struct name {
	ino_t ino;
	size_t at; /* in the level's text */
};

/* A directory that the walk is in. */
struct level {
	int fd; /* -1: closed, to be found again by ".." */
	struct stat st;
	bool opened; /* its mode was widened; st has the true one */
	char *text;
	struct name *names;
	size_t n, next;
	size_t path_len;
};

struct walk {
	const struct folder_visitor *v;
	struct level *levels;
	size_t depth, cap;
	char *path;
	size_t path_cap;
	dev_t dev;
};

static int
by_inode(const void *a, const void *b)
{
	const struct name *x = a;
	const struct name *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static int
read_names(struct level *l)
{
	size_t text_len = 0;
	size_t text_cap = 0;
	size_t cap = 0;
	int fd = openat(l->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int rc = 0;

	if (!d) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (;;) {
		errno = 0;
		const struct dirent *e = readdir(d);

		if (!e) {
			rc = -errno;
			break;
		}
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		size_t len = strlen(e->d_name) + 1;
		if (text_len + len > text_cap) {
			text_cap = text_cap * 2 + 1024;
			char *grown = realloc(l->text, text_cap);

			if (!grown) {
				rc = -ENOMEM;
				break;
			}
			l->text = grown;
		}
		if (l->n == cap) {
			cap = cap * 2 + 32;
			struct name *grown = realloc(l->names, cap * sizeof(*grown));

			if (!grown) {
				rc = -ENOMEM;
				break;
			}
			l->names = grown;
		}
		memcpy(l->text + text_len, e->d_name, len);
		l->names[l->n++] = (struct name){ e->d_ino, text_len };
		text_len += len;
	}
	closedir(d);
	if (l->n)
		qsort(l->names, l->n, sizeof(*l->names), by_inode);
	return rc;
}

/* Enter an open directory, which becomes the walk's. */
static int
push(struct walk *w, int fd, const struct stat *st, bool opened, size_t path_len)
{
	if (w->depth == w->cap) {
		size_t cap = w->cap * 2 + 16;
		struct level *grown = realloc(w->levels, cap * sizeof(*grown));

		if (!grown) {
			close(fd);
			return -ENOMEM;
		}
		w->levels = grown;
		w->cap = cap;
	}
	/* the one below keeps its place without a descriptor */
	if (w->depth > FDS_KEPT) {
		close(w->levels[w->depth - 1].fd);
		w->levels[w->depth - 1].fd = -1;
	}
	struct level *l = &w->levels[w->depth++];
	*l = (struct level){ .fd = fd, .st = *st, .opened = opened, .path_len = path_len };
	return read_names(l);
}

/* See that the directory above the deepest one is open. */
static int
open_above(struct walk *w)
{
	const struct level *l = &w->levels[w->depth - 1];
	struct level *up = &w->levels[w->depth - 2];
	struct stat st;

	if (up->fd >= 0)
		return 0;
	up->fd = openat(l->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up->fd < 0 || fstat(up->fd, &st) < 0)
		return -errno;
	return st.st_dev == up->st.st_dev && st.st_ino == up->st.st_ino ? 0 : -ESTALE;
}

/* Forget the deepest directory. */
static void
pop(struct walk *w)
{
	struct level *l = &w->levels[--w->depth];

	if (l->opened && !w->v->change && l->fd >= 0)
		fchmodat(l->fd, ".", l->st.st_mode & 07777, 0); /* it may be O_PATH */
	if (l->fd >= 0)
		close(l->fd);
	free(l->text);
	free(l->names);
}

/* Put name behind the path of the deepest directory; its length, or 0: no memory. */
static size_t
extend_path(struct walk *w, const char *name)
{
	size_t at = w->levels[w->depth - 1].path_len;
	size_t len = strlen(name);

	if (at + len + 2 > w->path_cap) {
		size_t cap = (at + len + 2) * 2;
		char *grown = realloc(w->path, cap);

		if (!grown)
			return 0;
		w->path = grown;
		w->path_cap = cap;
	}
	if (at)
		w->path[at++] = '/';
	memcpy(w->path + at, name, len + 1);
	return at + len;
}

/* Open a directory of the walk, also one that its owner has locked himself out of. */
static int
open_directory(const struct walk *w, const struct folder_entry *e, bool *opened)
{
	mode_t need = w->v->change ? 0700 : 0500;
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

	*opened = false;
	if ((e->st.st_mode & need) != need && e->st.st_uid == geteuid() && geteuid() != 0)
		*opened = !fchmodat(e->dir, e->name, (e->st.st_mode & 07777) | need, 0);
	int fd = openat(e->dir, e->name, flags);
	return fd < 0 ? -errno : fd;
}

static int
visit(struct walk *w, const char *name)
{
	size_t len = extend_path(w, name);
	struct folder_entry e = { .dir = w->levels[w->depth - 1].fd, .name = name, .fd = -1 };
	bool opened = false;

	if (!len)
		return -ENOMEM;
	e.path = w->path;
	if (fstatat(e.dir, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(e.st.st_mode)) {
		e.foreign = e.st.st_dev != w->dev;
		if (!e.foreign) {
			e.fd = open_directory(w, &e, &opened);
			if (e.fd == -ENOENT || e.fd == -ENOTDIR || e.fd == -ELOOP)
				return 0; /* it is gone, or something else by now */
			e.locked = e.fd == -EACCES || e.fd == -EPERM;
			if (e.fd < 0 && !e.locked)
				return e.fd;
		}
	}
	int rc = w->v->enter(w->v->arg, &e);
	if (e.fd < 0)
		return rc;
	int pushed = push(w, e.fd, &e.st, opened, len);
	return rc ? rc : pushed;
}

static int
leave(struct walk *w)
{
	const struct level *l = &w->levels[w->depth - 1];
	int rc = w->depth > 1 ? open_above(w) : 0;

	w->path[l->path_len] = '\0';
	if (!rc && w->v->leave) {
		const char *slash = strrchr(w->path, '/');
		struct folder_entry e = { .dir = l->fd, .name = ".", .path = ".", .fd = l->fd,
					.st = l->st };

		if (w->depth > 1) {
			e.dir = l[-1].fd;
			e.path = w->path;
			e.name = slash ? slash + 1 : w->path;
		}
		rc = w->v->leave(w->v->arg, &e);
	}
	pop(w);
	return rc;
}

int
folder_walk(int root, const struct folder_visitor *v)
{
	struct walk w = { .v = v, .path = calloc(1, 256), .path_cap = 256 };
	struct folder_entry e = { .dir = root, .name = ".", .path = ".", .fd = root };
	int rc = w.path ? 0 : -ENOMEM;

	if (!rc && fstat(root, &e.st) < 0)
		rc = -errno;
	w.dev = e.st.st_dev;
	if (!rc)
		rc = v->enter(v->arg, &e);
	if (!rc) {
		int own = fcntl(root, F_DUPFD_CLOEXEC, 0);

		rc = own < 0 ? -errno : push(&w, own, &e.st, false, 0);
	}
	while (!rc && w.depth) {
		struct level *l = &w.levels[w.depth - 1];

		rc = l->next < l->n ? visit(&w, l->text + l->names[l->next++].at) : leave(&w);
	}
	while (w.depth)
		pop(&w);
	free(w.levels);
	free(w.path);
	return rc;
}

/* ---- emptying ---- */

/* Go on after an error, remember the first. */
static void
remove_one(int *first, const struct folder_entry *e, int flags)
{
	if (unlinkat(e->dir, e->name, flags) < 0 && errno != ENOENT && !*first)
		*first = -errno;
}

static int
remove_enter(void *arg, const struct folder_entry *e)
{
	if (e->fd < 0)
		remove_one(arg, e, S_ISDIR(e->st.st_mode) ? AT_REMOVEDIR : 0);
	return 0;
}

static int
remove_leave(void *arg, const struct folder_entry *e)
{
	if (strcmp(e->path, ".") != 0)
		remove_one(arg, e, AT_REMOVEDIR);
	return 0;
}

int
folder_empty(int root)
{
	int first = 0;
	const struct folder_visitor v = { .enter = remove_enter, .leave = remove_leave,
					.arg = &first, .change = true };
	int rc = folder_walk(root, &v);

	return rc ? rc : first;
}

void
folder_remove(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && chmod(path, 0700) == 0)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		folder_empty(fd);
		close(fd);
		rmdir(path);
	} else {
		unlink(path);
	}
}

/* ---- the fingerprint ---- */

static int
stamp_one(void *arg, const struct folder_entry *e)
{
	uint64_t *sum = arg;
	const uint64_t facts[] = {
		e->st.st_ino, e->st.st_mode, S_ISDIR(e->st.st_mode) ? 0 : (uint64_t)e->st.st_size,
		(uint64_t)e->st.st_mtim.tv_sec, (uint64_t)e->st.st_mtim.tv_nsec,
		(uint64_t)e->st.st_ctim.tv_sec, (uint64_t)e->st.st_ctim.tv_nsec,
	};
	uint64_t path = XXH3_64bits(e->path, strlen(e->path));

	/* a sum, since the order of a listing is nobody's promise */
	*sum += XXH3_64bits_withSeed(facts, sizeof(facts), path);
	return 0;
}

uint64_t
folder_stamp(const char *state)
{
	uint64_t sum = 0;
	const struct folder_visitor v = { .enter = stamp_one, .arg = &sum };
	int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : folder_walk(fd, &v);

	if (fd >= 0)
		close(fd);
	if (rc)
		return 0;
	return sum ? sum : 1;
}

/* ---- for those who copy ---- */

int
folder_open_file(const struct folder_entry *e)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = openat(e->dir, e->name, flags);

	if (fd < 0 && errno == EACCES && e->st.st_uid == geteuid()) {
		/* an agent may take away its own rights; put back what it had */
		mode_t mode = e->st.st_mode & 07777;

		if (fchmodat(e->dir, e->name, mode | 0400, 0) < 0)
			return -errno;
		fd = openat(e->dir, e->name, flags);
		int rc = fd < 0 ? -errno : 0;
		if (fchmodat(e->dir, e->name, mode, 0) < 0 && !rc)
			rc = -errno;
		if (rc && fd >= 0)
			close(fd);
		return rc ? rc : fd;
	}
	return fd < 0 ? -errno : fd;
}

int
folder_xattrs(int fd, folder_xattr_fn *fn, void *arg)
{
	char names[1024];
	char *list = names;
	ssize_t len = flistxattr(fd, names, sizeof(names));
	int rc = 0;

	if (len < 0 && errno == ERANGE) {
		list = malloc(XATTR_LIST_MAX);
		if (!list)
			return -ENOMEM;
		len = flistxattr(fd, list, XATTR_LIST_MAX);
	}
	char *value = len > 0 ? malloc(XATTR_SIZE_MAX) : NULL;
	if (len < 0)
		rc = errno == ENOTSUP ? 0 : -errno;
	else if (len && !value)
		rc = -ENOMEM;
	for (const char *n = list; !rc && n < list + len; n += strlen(n) + 1) {
		if (strncmp(n, "user.", 5) != 0)
			continue;
		ssize_t size = fgetxattr(fd, n, value, XATTR_SIZE_MAX);
		struct stat st;
		if (size < 0 && errno == EACCES && !fstat(fd, &st) &&
		    !fchmod(fd, (st.st_mode & 07777) | 0400)) {
			/* its mode counts for attributes even when it is open */
			size = fgetxattr(fd, n, value, XATTR_SIZE_MAX);
			int code = errno;
			fchmod(fd, st.st_mode & 07777);
			errno = code;
		}
		if (size >= 0)
			rc = fn(arg, n, value, (size_t)size);
		else if (errno != ENODATA)
			rc = -errno;
	}
	free(value);
	if (list != names)
		free(list);
	return rc;
}

const char *
folder_print(const char *path, char *buf, size_t size)
{
	size_t len = strlen(path);
	const char *from = len < size ? path : path + len - size + 4;

	snprintf(buf, size, "%s%s", from == path ? "" : "...", from);
	for (char *p = buf; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	return buf;
}

/* A table of open addresses; a slot without a path is free. */
struct folder_links {
	struct link {
		dev_t dev;
		ino_t ino;
		char *path;
	} *slots;
	size_t n, cap;
};

struct folder_links *
folder_links_new(void)
{
	return calloc(1, sizeof(struct folder_links));
}

void
folder_links_free(struct folder_links *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->cap; i++)
		free(l->slots[i].path);
	free(l->slots);
	free(l);
}

static struct link *
slot_of(struct link *slots, size_t cap, dev_t dev, ino_t ino)
{
	const uint64_t key[] = { dev, ino };
	size_t i = XXH3_64bits(key, sizeof(key)) & (cap - 1);

	while (slots[i].path && (slots[i].dev != dev || slots[i].ino != ino))
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

const char *
folder_links_find(const struct folder_links *l, const struct stat *st)
{
	return l->cap ? slot_of(l->slots, l->cap, st->st_dev, st->st_ino)->path : NULL;
}

void
folder_links_add(struct folder_links *l, const struct stat *st, const char *path)
{
	if (l->n * 2 >= l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct link *slots = calloc(cap, sizeof(*slots));

		if (!slots)
			return;
		for (size_t i = 0; i < l->cap; i++)
			if (l->slots[i].path)
				*slot_of(slots, cap, l->slots[i].dev, l->slots[i].ino) = l->slots[i];
		free(l->slots);
		l->slots = slots;
		l->cap = cap;
	}
	struct link *s = slot_of(l->slots, l->cap, st->st_dev, st->st_ino);
	if (!s->path) {
		*s = (struct link){ st->st_dev, st->st_ino, strdup(path) };
		l->n += s->path != NULL;
	}
}
