/*
 * box.h - what the kinds of sandboxes share: lists of words, and what is seen inside.
 *
 * A layout is a folder of ours, scratch/box/root, with every mount point made, and a list of
 * what is bound over it, in order. Nothing has to be made inside a sandbox, so nothing of it has
 * to be writable there. sandbox.c and the kinds only.
 */
#ifndef RASER_BOX_H
#define RASER_BOX_H

#include "sandbox.h"

/* A growing NULL-terminated list of strings. Out of memory is remembered, not answered. */
struct words {
	char **list;
	size_t n, room;
	bool failed;
};

void
words_add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void
words_free(struct words *w);

struct bind {
	char *from, *at; /* outside, inside */
	bool rw;
	bool own; /* from is a folder of ours, in which mount points may be made */
};

struct layout {
	struct bind *binds;
	size_t n, room;
	bool failed;
	char box[PATH_MAX];  /* scratch/box */
	char root[PATH_MAX]; /* scratch/box/root */
};

/* whole: with a root of its own; else only what is bound over an image that somebody else
 * brings. 0, or a negative errno and why. Free it in any case. */
int
layout_make(struct layout *l, const struct sandbox_spec *spec, bool whole, struct err *err);
void
layout_free(struct layout *l);

/* ---- layout.c and root.c among themselves ---- */

void
bind_add(struct layout *l, const char *from, const char *at, bool rw, bool own);

/* What covers a path as seen inside: the last of the first n that does, or NULL. */
const struct bind *
bind_cover(const struct layout *l, size_t n, const char *at);

/* Is it the folder itself or below it? What of it is left behind such a folder? */
bool
path_below(const char *path, const char *dir);
const char *
path_rest(const char *path, const char *dir);
/* A top folder of the host that may be seen, or something in one. */
bool
path_is_system(const char *path);
bool
path_is_dir(const char *path);

/* Fill the root folder, and add what of the host or the image is bound in it. */
int
root_lay(struct layout *l, const struct sandbox_spec *spec, const struct layout *wanted,
	 struct err *err);
/* Make the mount points of all binds. */
int
root_points(const struct layout *l, bool whole, struct err *err);

/* ---- all kinds ---- */

/* The inside paths, the same in every real sandbox. */
#define BOX_WORK "/raser/work"
#define BOX_HOME "/raser/home"
#define BOX_TASK "/raser/task.json"
#define BOX_CONTROL "/raser/control"
#define BOX_RESULTS "/raser/results"
#define BOX_CACHE "/raser/cache"
#define BOX_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The environment of what runs inside; prefix stands before every name. No HOME, no PATH. */
void
box_env(struct words *w, const struct sandbox_spec *spec, char *const *env, const char *prefix);

/* Does this path, as seen inside, come with the image? */
bool
box_has_image(const struct sandbox_spec *spec);

/* One function a kind: fill argv, env and what else it needs. */
typedef int
box_plan_fn(const struct sandbox_spec *spec, char *const *env, const char *program,
	    struct sandbox_plan *plan, struct err *err);
box_plan_fn bwrap_plan;
box_plan_fn apptainer_plan;
box_plan_fn gvisor_plan;

#endif
