/*
 * layout.c - what is seen inside a sandbox, and from where.
 *
 * In order: the system folders of this host or of the image; a private /tmp; what raser.ini
 * binds; empty folders over whatever of the user's home, the run directory, the mount and the
 * other agents' workspaces these would show; the program; the attempt's own folders.
 */
#include <config.h>

#include "box.h"

#include "folder.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRETS = 8 };

/* What is being made. */
struct making {
	struct layout *l;
	const struct sandbox_spec *spec;
	struct err *err;
	struct layout wanted; /* over the root, in order */
	char secret[SECRETS][PATH_MAX];
	int secrets, homes; /* the first of them are homes */
	char run[PATH_MAX];
	int masks;
};

/* ---- paths ---- */

/* Is it the folder itself or below it? */
bool
path_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (!len)
		return false;
	while (len && dir[len - 1] == '/')
		len--;
	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/');
}

/* What of a path is left behind a folder that it is below: empty, or it begins with a slash. */
const char *
path_rest(const char *path, const char *dir)
{
	return strcmp(dir, "/") ? path + strlen(dir) : path;
}

/* Absolute, and without parts that a look at the text alone could get wrong. */
static bool
is_plain(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *p = path; *p; p++)
		if (p[0] == '/' &&
		    (p[1] == '/' || (p[1] == '.' && (!p[2] || p[2] == '/' ||
						     (p[2] == '.' && (!p[3] || p[3] == '/'))))))
			return false;
	return true;
}

/* A top folder of the host that may be seen, or something in one. */
bool
path_is_system(const char *path)
{
	static const char *const folders[] = { "usr", "bin",   "sbin",	"etc",	 "opt",
					       "lib", "lib32", "lib64", "libx32" };
	size_t len = path[0] == '/' ? strcspn(path + 1, "/") : 0;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strlen(folders[i]) == len && !strncmp(path + 1, folders[i], len))
			return true;
	return false;
}

bool
box_has_image(const struct sandbox_spec *spec)
{
	return spec->image && *spec->image;
}

bool
path_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- lists ---- */

void
bind_add(struct layout *l, const char *from, const char *at, bool rw, bool own)
{
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 32;
		struct bind *grown = realloc(l->binds, room * sizeof(*grown));

		if (!grown) {
			l->failed = true;
			return;
		}
		l->binds = grown;
		l->room = room;
	}
	struct bind b = { .from = strdup(from), .at = strdup(at), .rw = rw, .own = own };
	l->binds[l->n++] = b;
	l->failed |= !b.from || !b.at;
}

void
layout_free(struct layout *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->binds[i].from);
		free(l->binds[i].at);
	}
	free(l->binds);
	l->binds = NULL;
	l->n = l->room = 0;
}

/* What covers a path as seen inside: the last of the first n that does, or NULL. */
const struct bind *
bind_cover(const struct layout *l, size_t n, const char *at)
{
	while (n--)
		if (l->binds[n].at && path_below(at, l->binds[n].at))
			return &l->binds[n];
	return NULL;
}

/* Does the inside show at this path what the outside has there? */
static bool
is_visible(const struct making *m, const char *path)
{
	const struct bind *b = bind_cover(&m->wanted, m->wanted.n, path);

	if (b)
		return !b->own && !strcmp(b->from, b->at);
	return !box_has_image(m->spec) && path_is_system(path);
}

static void
add_secret(struct making *m, const char *path)
{
	struct stat st;

	if (!path || path[0] != '/' || !strcmp(path, "/") || m->secrets == SECRETS ||
	    lstat(path, &st) < 0)
		return;
	for (int i = 0; i < m->secrets; i++)
		if (!strcmp(m->secret[i], path))
			return;
	snprintf(m->secret[m->secrets++], PATH_MAX, "%s", path);
}

static void
find_secrets(struct making *m)
{
	char path[PATH_MAX];
	const char *home = getenv("HOME");
	const struct passwd *pw = getpwuid(getuid());

	if (home && realpath(home, path))
		add_secret(m, path);
	if (pw && pw->pw_dir && realpath(pw->pw_dir, path))
		add_secret(m, path);
	m->homes = m->secrets;
	if (m->spec->run && realpath(m->spec->run, m->run))
		add_secret(m, m->run);
	if (!m->spec->show_mount)
		add_secret(m, m->spec->mnt);
	/* where the workspaces of others are */
	snprintf(path, sizeof(path), "%s", m->spec->scratch);
	char *slash = strrchr(path, '/');
	if (slash && slash != path)
		*slash = '\0';
	char local[PATH_MAX];
	if (realpath(path, local))
		add_secret(m, local);
}

/* Would this folder show too much? It is a secret or part of the run, or the home is in it. A run
 * below it, as in a project's folder, can be covered. */
static bool
is_broad(const struct making *m, const char *path)
{
	char dir[PATH_MAX];

	if (!realpath(path, dir))
		return true;
	if (!strcmp(dir, "/") || !strcmp(dir, "/tmp") || !strcmp(dir, "/var/tmp") ||
	    path_below(dir, m->run))
		return true;
	for (int i = 0; i < m->secrets; i++)
		if (i < m->homes ? path_below(m->secret[i], dir) : !strcmp(m->secret[i], dir))
			return true;
	return false;
}

/* ---- what raser.ini binds, and what must not show through ---- */

static void
mask(struct making *m, const char *at)
{
	char path[PATH_MAX];
	const struct bind *b = bind_cover(&m->wanted, m->wanted.n, at);

	if (b && b->own)
		return; /* it lies in an empty folder already */
	snprintf(path, sizeof(path), "%.4000s/mask%d", m->l->box, m->masks++);
	if (mkdir(path, 0755) < 0)
		m->wanted.failed = true;
	bind_add(&m->wanted, path, at, false, true);
}

/* Cover every secret that shows below a bound folder. */
static void
mask_below(struct making *m, const char *from, const char *at)
{
	char path[2 * PATH_MAX];

	for (int i = 0; i < m->secrets; i++) {
		if (!path_below(m->secret[i], from) || !strcmp(m->secret[i], from))
			continue;
		snprintf(path, sizeof(path), "%s%s", strcmp(at, "/") ? at : "",
			 path_rest(m->secret[i], from));
		mask(m, path);
	}
}

/* "PATH[:DEST][:rw]" */
static int
user_bind(struct making *m, const char *text, bool in_home)
{
	char copy[PATH_MAX];
	char from[PATH_MAX];
	bool rw = false;
	bool inside = false;

	snprintf(copy, sizeof(copy), "%s", text);
	char *at = strchr(copy, ':');
	if (at)
		*at++ = '\0';
	char *mode = at ? strrchr(at, ':') : NULL;
	if (mode)
		*mode++ = '\0';
	if (at && !mode && (!strcmp(at, "rw") || !strcmp(at, "ro"))) {
		mode = at;
		at = NULL;
	}
	if (mode && !strcmp(mode, "rw"))
		rw = true;
	else if (mode && strcmp(mode, "ro") != 0)
		return err_set(m->err, -EINVAL, "binds: %s: only ro or rw may stand at the end",
			       text);
	if (!at || !*at)
		at = copy;
	if (!is_plain(copy) || !is_plain(at) || !strcmp(at, "/"))
		return err_set(m->err, -EINVAL,
			       "binds: %s: absolute paths without . and .. are taken", text);
	if (!realpath(copy, from))
		return err_set(m->err, -errno, "binds: %s: %s", copy, strerror(errno));
	if (path_below(from, m->run) || (m->run[0] && !strcmp(from, "/")))
		return err_set(m->err, -EINVAL, "binds: %s would show the run directory", text);
	for (int i = 0; i < m->homes; i++)
		inside |= path_below(from, m->secret[i]);
	if (inside != in_home)
		return 0;
	bind_add(&m->wanted, from, at, rw, false);
	mask_below(m, from, at);
	return 0;
}

/* ---- the program ---- */

static void
add_path(struct making *m, const char *path)
{
	char folder[PATH_MAX];
	char file[2 * PATH_MAX];
	struct stat st;

	if (path_below(path, "/proc") || path_below(path, "/sys") ||
	    (path_below(path, "/dev") && !path_below(path, "/dev/shm")) || !is_plain(path))
		return;
	if (box_has_image(m->spec)) {
		snprintf(file, sizeof(file), "%s%s", m->spec->image, path);
		if ((path_is_system(path) && !path_below(path, "/opt")) || access(file, F_OK) == 0)
			return; /* the image's own is meant */
	}
	if (!m->spec->show_mount && m->spec->mnt && path_below(path, m->spec->mnt))
		return;
	if (stat(path, &st) < 0 || is_visible(m, path))
		return;
	snprintf(folder, sizeof(folder), "%s", path);
	if (S_ISREG(st.st_mode)) {
		*strrchr(folder, '/') = '\0';
		/* an installation, such as a virtual environment, has more beside bin */
		char *name = strrchr(folder, '/');
		if (name && name != folder && !strcmp(name, "/bin")) {
			*name = '\0';
			if (is_broad(m, folder))
				*name = '/';
		}
		if (!folder[0] || is_broad(m, folder))
			snprintf(folder, sizeof(folder), "%s", path); /* the file alone */
	} else if (!S_ISDIR(st.st_mode) || is_broad(m, path)) {
		return;
	}
	bind_add(&m->wanted, folder, folder, false, false);
	mask_below(m, folder, folder);
}

static void
add_program(struct making *m)
{
	char path[PATH_MAX];

	for (char *const *a = m->spec->argv; *a; a++) {
		if ((*a)[0] != '/' || strlen(*a) >= PATH_MAX)
			continue;
		add_path(m, *a);
		/* a link needs what it points to */
		if (realpath(*a, path) && strcmp(path, *a) != 0)
			add_path(m, path);
	}
}

/* ---- all of it ---- */

static void
add_network(struct making *m, bool whole)
{
	char path[PATH_MAX];

	if (!m->spec->network || !whole || !realpath("/etc/resolv.conf", path))
		return;
	if (box_has_image(m->spec))
		bind_add(&m->wanted, path, "/etc/resolv.conf", false, false);
	else if (!path_is_system(path))
		bind_add(&m->wanted, path, path, false, false);
}

static void
add_own(struct making *m)
{
	const struct sandbox_spec *s = m->spec;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4000s/work", s->state);
	bind_add(&m->wanted, path, BOX_WORK, true, false);
	snprintf(path, sizeof(path), "%.4000s/home", s->state);
	bind_add(&m->wanted, path, BOX_HOME, true, false);
	bind_add(&m->wanted, s->task_file, BOX_TASK, false, false);
	bind_add(&m->wanted, s->control, BOX_CONTROL, true, false);
	bind_add(&m->wanted, s->results, BOX_RESULTS, true, false);
	if (s->cache)
		bind_add(&m->wanted, s->cache, BOX_CACHE, s->cache_rw, false);
	if (s->show_mount && s->mnt)
		bind_add(&m->wanted, s->mnt, s->mnt, true, false);
}

/* An empty folder in the box. */
static int
make_dir(struct making *m, const char *name, mode_t mode)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4000s%s", m->l->box, name);
	if (mkdir(path, 0755) < 0 || chmod(path, mode) < 0)
		return err_set(m->err, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int
make_box(struct making *m, bool whole)
{
	static const struct {
		const char *name;
		mode_t mode;
	} dirs[] = {
		{ "", 0755 },	       { "/tmp", 01777 },      { "/var_tmp", 01777 },
		{ "/root", 0755 },     { "/root/proc", 0755 }, { "/root/dev", 0755 },
		{ "/root/sys", 0755 }, { "/root/tmp", 0755 },  { "/root/run", 0755 },
	};
	char path[PATH_MAX];
	int rc = 0;

	folder_remove(m->l->box); /* of a start that was not finished */
	for (size_t i = 0; !rc && i < sizeof(dirs) / sizeof(dirs[0]); i++)
		rc = make_dir(m, dirs[i].name, dirs[i].mode);
	if (rc || !whole)
		return rc;
	snprintf(path, sizeof(path), "%.4000s/tmp", m->l->box);
	bind_add(&m->wanted, path, "/tmp", true, true);
	snprintf(path, sizeof(path), "%.4000s/var_tmp", m->l->box);
	bind_add(&m->wanted, path, "/var/tmp", true, true);
	return 0;
}

static int
make_wanted(struct making *m, bool whole)
{
	int rc = make_box(m, whole);

	add_network(m, whole);
	for (const char *const *b = m->spec->binds; b && *b && !rc; b++)
		rc = user_bind(m, *b, false);
	/* what the system folders would show */
	for (int i = 0; i < m->secrets && !box_has_image(m->spec) && whole; i++)
		if (path_is_system(m->secret[i]))
			mask(m, m->secret[i]);
	for (const char *const *b = m->spec->binds; b && *b && !rc; b++)
		rc = user_bind(m, *b, true);
	if (!rc) {
		add_program(m);
		add_own(m);
	}
	return rc;
}

int
layout_make(struct layout *l, const struct sandbox_spec *spec, bool whole, struct err *err)
{
	struct making m = { .l = l, .spec = spec, .err = err };

	*l = (struct layout){ 0 };
	snprintf(l->box, sizeof(l->box), "%.4000s/box", spec->scratch);
	snprintf(l->root, sizeof(l->root), "%.4000s/root", l->box);
	find_secrets(&m);
	int rc = make_wanted(&m, whole);
	if (!rc && whole)
		rc = root_lay(l, spec, &m.wanted, err);
	for (size_t i = 0; !rc && i < m.wanted.n; i++)
		bind_add(l, m.wanted.binds[i].from, m.wanted.binds[i].at, m.wanted.binds[i].rw,
			 m.wanted.binds[i].own);
	if (!rc && (l->failed || m.wanted.failed))
		rc = err_set(err, -ENOMEM, "no memory for a sandbox, or %s is full", l->box);
	if (!rc)
		rc = root_points(l, whole, err);
	layout_free(&m.wanted);
	return rc;
}
