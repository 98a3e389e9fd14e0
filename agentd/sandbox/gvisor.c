/*
 * gvisor.c - gVisor's runsc, for code that is hostile until shown otherwise: the agent's system
 * calls are answered by a kernel in user space.
 *
 * Debian's runsc (2022), rootless, traces its processes (platform ptrace), which needs no
 * device and no right. All of its state lies in the scratch folder and vanishes with it. Uid 0
 * inside is the user outside: no other has a number in rootless mode, and files could not be
 * made with one.
 */
#include <config.h>

#include "box.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *
mount_entry(const char *at, const char *type, const char *from, bool rw)
{
	return json_pack("{s:s, s:s, s:s, s:[s, s]}", "destination", at, "type", type, "source",
			 from, "options", "rbind", rw ? "rw" : "ro");
}

/* NULL when one of them is no UTF-8: it must not be left out. */
static json_t *
text_list(char *const *list)
{
	json_t *all = json_array();

	for (; all && list && *list; list++)
		if (json_array_append_new(all, json_string(*list)) < 0) {
			json_decref(all);
			all = NULL;
		}
	return all;
}

static json_t *
process(const struct sandbox_spec *spec, char *const *env)
{
	return json_pack(
		"{s:{s:i, s:i}, s:o, s:o, s:s, s:b, s:b, s:{s:[], s:[], s:[], s:[], s:[]}}", "user",
		"uid", 0, "gid", 0, "args", text_list(spec->argv), "env", text_list(env), "cwd",
		BOX_WORK, "noNewPrivileges", 1, "terminal", 0, "capabilities", "bounding",
		"effective", "inheritable", "permitted", "ambient");
}

/* Write box/config.json, an OCI runtime configuration. */
static int
write_config(const struct layout *l, const struct sandbox_spec *spec, char *const *env)
{
	char path[PATH_MAX + 32];
	char host[72] = "";
	json_t *mounts = json_array();

	gethostname(host, sizeof(host) - 1);
	json_array_append_new(mounts, json_pack("{s:s, s:s, s:s}", "destination", "/proc", "type",
						"proc", "source", "proc"));
	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(mounts, mount_entry(l->binds[i].at, "bind", l->binds[i].from,
							  l->binds[i].rw));
	json_t *c = json_pack(
		"{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:{s:[{s:s}, {s:s}, {s:s}, {s:s}]}}",
		"ociVersion", "1.0.0", "process", process(spec, env), "root", "path", l->root,
		"readonly", 1, "hostname", host, "mounts", mounts, "linux", "namespaces", "type",
		"pid", "type", "mount", "type", "ipc", "type", "uts");
	if (!c)
		return -EINVAL; /* a path or a variable is no UTF-8 */
	snprintf(path, sizeof(path), "%s/config.json", l->box);
	int rc = json_dump_file(c, path, 0) ? -EIO : 0;
	json_decref(c);
	return rc;
}

/* A name for the sandbox that nobody else on this node has: runsc's socket is called after it. */
static char *
make_id(const struct sandbox_spec *spec)
{
	const char *slash = strrchr(spec->scratch, '/');
	char *id = NULL;

	if (asprintf(&id, "%.80s-%d", slash ? slash + 1 : spec->scratch, (int)getpid()) < 0)
		return NULL;
	for (char *p = id; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '.' && *p != '-')
			*p = '_';
	return id;
}

static void
add_options(struct words *w, const struct sandbox_spec *spec, const struct layout *l,
	    const char *program)
{
	words_add(w, "%s", program);
	words_add(w, "--rootless");
	words_add(w, "--platform=ptrace");
	words_add(w, "--network=%s", spec->network ? "host" : "none");
	words_add(w, "--ignore-cgroups");	     /* the limit is around all of it */
	words_add(w, "--file-access-mounts=shared"); /* what is written is seen outside at once */
	words_add(w, "--root=%s/runsc", l->box);
	words_add(w, "--log=%s/runsc.log", l->box);
	words_add(w, "--log-format=json");
}

int
gvisor_plan(const struct sandbox_spec *spec, char *const *env, const char *program,
	    struct sandbox_plan *plan, struct err *err)
{
	static const char *const front[] = { "PATH", "TMPDIR" };
	struct layout l;
	struct words argv = { 0 };
	struct words all = { 0 };
	struct words inside = { 0 };
	struct words tool = { 0 };
	const char *path = getenv("PATH");
	int rc = layout_make(&l, spec, true, err);

	if (rc)
		goto out;
	words_add(&inside, "PATH=%s", path && !box_has_image(spec) ? path : BOX_PATH);
	words_add(&inside, "HOME=" BOX_HOME);
	box_env(&inside, spec, env, "");
	rc = inside.failed ? -ENOMEM : write_config(&l, spec, inside.list);
	if (rc) {
		err_set(err, rc, "sandbox gvisor: %s/config.json: %s", l.box, strerror(-rc));
		goto out;
	}
	add_options(&argv, spec, &l, program);
	add_options(&tool, spec, &l, program);
	plan->id = make_id(spec);
	if (asprintf(&plan->log, "%s/runsc.log", l.box) < 0)
		plan->log = NULL;
	words_add(&argv, "run");
	words_add(&argv, "--bundle=%s", l.box);
	words_add(&argv, "%s", plan->id ? plan->id : "");
	for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++)
		if (getenv(front[i]))
			words_add(&all, "%s=%s", front[i], getenv(front[i]));
	words_add(&all, "HOME=%s", l.box);
	plan->argv = argv.list;
	plan->env = all.list;
	plan->tool = tool.list;
	rc = argv.failed || all.failed || tool.failed || !plan->id || !plan->log ? -ENOMEM : 0;
out:
	words_free(&inside);
	layout_free(&l);
	return rc;
}
