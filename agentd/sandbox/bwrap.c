/*
 * bwrap.c - bubblewrap: namespaces of its own for everything, over a root that layout.c made.
 */
#include <config.h>

#include "box.h"

#include <errno.h>
#include <stdlib.h>

int
bwrap_plan(const struct sandbox_spec *spec, char *const *env, const char *program,
	   struct sandbox_plan *plan, struct err *err)
{
	struct layout l;
	struct words argv = { 0 };
	struct words all = { 0 };
	const char *path = getenv("PATH");
	int rc = layout_make(&l, spec, true, err);

	if (rc)
		goto out;
	words_add(&argv, "%s", program);
	words_add(&argv, "--unshare-all");
	if (spec->network)
		words_add(&argv, "--share-net");
	words_add(&argv, "--die-with-parent");
	words_add(&argv, "--new-session");
	words_add(&argv, "--cap-drop");
	words_add(&argv, "ALL");
	words_add(&argv, "--json-status-fd");
	words_add(&argv, "%d", SANDBOX_REPORT_FD);
	words_add(&argv, "--ro-bind");
	words_add(&argv, "%s", l.root);
	words_add(&argv, "/");
	words_add(&argv, "--proc");
	words_add(&argv, "/proc");
	words_add(&argv, "--dev");
	words_add(&argv, "/dev");
	for (size_t i = 0; i < l.n; i++) {
		words_add(&argv, l.binds[i].rw ? "--bind" : "--ro-bind");
		words_add(&argv, "%s", l.binds[i].from);
		words_add(&argv, "%s", l.binds[i].at);
	}
	words_add(&argv, "--chdir");
	words_add(&argv, BOX_WORK);
	words_add(&argv, "--");
	for (char *const *a = spec->argv; *a; a++)
		words_add(&argv, "%s", *a);
	/* what it gets itself is what the agent gets: nothing is shown by ps(1) */
	words_add(&all, "PATH=%s", path && !box_has_image(spec) ? path : BOX_PATH);
	words_add(&all, "HOME=" BOX_HOME);
	box_env(&all, spec, env, "");
	plan->argv = argv.list;
	plan->env = all.list;
	rc = argv.failed || all.failed ? -ENOMEM : 0;
out:
	layout_free(&l);
	return rc;
}
