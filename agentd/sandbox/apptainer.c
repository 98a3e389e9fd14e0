/*
 * apptainer.c - Apptainer 1.1 or newer, unprivileged. The image is somebody else's: nothing of
 * ours has to be in it, and mount points that it lacks are made by Apptainer.
 *
 * Variables go by APPTAINERENV_*, since --env splits values at commas and is shown by ps(1).
 */
#include <config.h>

#include "box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --mount takes a line of CSV: a field is quoted, and a quote in it doubled. */
static void
add_mount(struct words *w, const char *from, const char *at, bool rw)
{
	char text[4 * PATH_MAX];
	size_t n = 0;
	const char *const parts[] = { "type=bind,\"src=", from, "\",\"dst=", at, "\"" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (const char *p = parts[i]; *p && n + 3 < sizeof(text); p++) {
			if (*p == '"' && i % 2)
				text[n++] = '"';
			text[n++] = *p;
		}
	text[n] = '\0';
	words_add(w, "--mount");
	words_add(w, "%s%s", text, rw ? "" : ",ro");
}

/* What the front needs of ours; none of it passes into the container. */
static void
add_front_env(struct words *w)
{
	static const char *const names[] = { "PATH",
					     "HOME",
					     "USER",
					     "LOGNAME",
					     "TMPDIR",
					     "XDG_RUNTIME_DIR",
					     "APPTAINER_CACHEDIR",
					     "APPTAINER_TMPDIR",
					     "APPTAINER_CONFIGDIR" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value)
			words_add(w, "%s=%s", names[i], value);
	}
}

int
apptainer_plan(const struct sandbox_spec *spec, char *const *env, const char *program,
	       struct sandbox_plan *plan, struct err *err)
{
	struct layout l = { 0 };
	struct words argv = { 0 };
	struct words all = { 0 };
	int rc = 0;

	if (!box_has_image(spec))
		return err_set(err, -EINVAL, "sandbox apptainer: it needs an image");
	/* these two options have no quoting */
	if (strpbrk(spec->state, ":,") || strpbrk(spec->scratch, ":,"))
		return err_set(err, -EINVAL,
			       "sandbox apptainer: %s: no colon or comma may be in it",
			       spec->scratch);
	rc = layout_make(&l, spec, false, err);
	if (rc)
		goto out;
	words_add(&argv, "%s", program);
	words_add(&argv, "-q");
	words_add(&argv, "exec");
	words_add(&argv, "--userns");
	words_add(&argv, "--containall");
	words_add(&argv, "--no-mount");
	words_add(&argv, "sys,hostfs,bind-paths");
	words_add(&argv, "--no-privs");
	words_add(&argv, "--workdir"); /* /tmp and /var/tmp: else in memory, and small */
	words_add(&argv, "%s", l.box);
	words_add(&argv, "--home"); /* instead of --no-home: HOME itself can be set by this alone */
	words_add(&argv, "%s/home:" BOX_HOME, spec->state);
	if (!spec->network) {
		words_add(&argv, "--net");
		words_add(&argv, "--network");
		words_add(&argv, "none");
	}
	for (size_t i = 0; i < l.n; i++)
		if (strcmp(l.binds[i].at, BOX_HOME) != 0)
			add_mount(&argv, l.binds[i].from, l.binds[i].at, l.binds[i].rw);
	words_add(&argv, "--pwd");
	words_add(&argv, BOX_WORK);
	words_add(&argv, "%s", spec->image);
	for (char *const *a = spec->argv; *a; a++)
		words_add(&argv, "%s", *a);
	add_front_env(&all);
	box_env(&all, spec, env, "APPTAINERENV_");
	plan->argv = argv.list;
	plan->env = all.list;
	rc = argv.failed || all.failed ? -ENOMEM : 0;
out:
	layout_free(&l);
	return rc;
}
