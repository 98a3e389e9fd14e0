/*
 * sandbox.c - the table of sandboxes, and what all of them need: words, views, environments.
 */
#include <config.h>

#include "box.h"

#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static box_plan_fn none_plan;

static const struct kind {
	const char *name;
	const char *program; /* that must be there */
	box_plan_fn *plan;
	bool nested, drop_caps;
} kinds[SANDBOX_KINDS] = {
	[SANDBOX_NONE] = { "none", NULL, none_plan, false, false },
	[SANDBOX_BWRAP] = { "bwrap", "bwrap", bwrap_plan, true, true },
	[SANDBOX_APPTAINER] = { "apptainer", "apptainer", apptainer_plan, true, true },
	[SANDBOX_GVISOR] = { "gvisor", "runsc", gvisor_plan, false, true },
};

/* ---- words ---- */

void
words_add(struct words *w, const char *fmt, ...)
{
	va_list ap;

	if (w->n + 1 >= w->room) {
		size_t room = w->room ? w->room * 2 : 64;
		char **grown = realloc(w->list, room * sizeof(*grown));

		if (!grown) {
			w->failed = true;
			return;
		}
		w->list = grown;
		w->room = room;
	}
	va_start(ap, fmt);
	if (vasprintf(&w->list[w->n], fmt, ap) < 0)
		w->failed = true;
	else
		w->n++;
	va_end(ap);
	w->list[w->n] = NULL;
}

static void
free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void
words_free(struct words *w)
{
	free_list(w->list);
	*w = (struct words){ 0 };
}

/* ---- environment ---- */

/* May it pass? NAME=value; a name in the list may end in a star. */
static bool
may_pass(const char *pair, const char *const *names)
{
	size_t len = strcspn(pair, "=");

	for (; names && *names; names++) {
		size_t n = strlen(*names);

		if (n && (*names)[n - 1] == '*' ? !strncmp(pair, *names, n - 1)
						: n == len && !strncmp(pair, *names, n))
			return true;
	}
	return false;
}

/* Is it among these already? */
static bool
is_set(char *const *env, const char *pair)
{
	size_t len = strcspn(pair, "=") + 1;

	for (; env && *env; env++)
		if (!strncmp(*env, pair, len))
			return true;
	return false;
}

void
box_env(struct words *w, const struct sandbox_spec *spec, char *const *env, const char *prefix)
{
	static const char *const always[] = {
		"LANG", "LC_*", "TZ", "TERM", "USER", "LOGNAME", NULL
	};
	static const char *const never[] = { "HOME", "PATH", NULL };

	for (char **e = environ; *e; e++)
		if ((may_pass(*e, always) || may_pass(*e, spec->pass)) && !may_pass(*e, never) &&
		    !is_set(env, *e))
			words_add(w, "%s%s", prefix, *e);
	for (; env && *env; env++)
		words_add(w, "%s%s", prefix, *env);
}

/* ---- none ---- */

static int
none_plan(const struct sandbox_spec *spec, char *const *env, const char *program,
	  struct sandbox_plan *plan, struct err *err)
{
	struct words argv = { 0 };
	struct words all = { 0 };

	(void)program;
	(void)err;
	for (char *const *a = spec->argv; *a; a++)
		words_add(&argv, "%s", *a);
	for (char **e = environ; *e; e++)
		if (!is_set(env, *e))
			words_add(&all, "%s", *e);
	for (; env && *env; env++)
		words_add(&all, "%s", *env);
	plan->argv = argv.list;
	plan->env = all.list;
	return argv.failed || all.failed || !argv.n ? -ENOMEM : 0;
}

/* ---- the table's face ---- */

int
sandbox_kind_parse(const char *name)
{
	for (int i = 0; i < SANDBOX_KINDS; i++)
		if (!strcmp(kinds[i].name, name))
			return i;
	return -1;
}

const char *
sandbox_kind_name(enum sandbox_kind kind)
{
	return kinds[kind].name;
}

void
sandbox_view(enum sandbox_kind kind, const struct sandbox_spec *spec, struct sandbox_view *view)
{
	*view = (struct sandbox_view){ .work = BOX_WORK,
				       .home = BOX_HOME,
				       .task_file = BOX_TASK,
				       .control = BOX_CONTROL,
				       .results = BOX_RESULTS,
				       .cache = BOX_CACHE };
	if (!spec->cache)
		view->cache[0] = '\0';
	if (kind != SANDBOX_NONE)
		return;
	snprintf(view->work, sizeof(view->work), "%.4000s/work", spec->state);
	view->home[0] = '\0';
	snprintf(view->task_file, sizeof(view->task_file), "%s", spec->task_file);
	snprintf(view->control, sizeof(view->control), "%s", spec->control);
	snprintf(view->results, sizeof(view->results), "%s", spec->results);
	snprintf(view->cache, sizeof(view->cache), "%s", spec->cache ? spec->cache : "");
}

int
sandbox_plan(enum sandbox_kind kind, const struct sandbox_spec *spec, char *const *env,
	     struct sandbox_plan *plan, struct err *err)
{
	const struct kind *k = &kinds[kind];
	char program[PATH_MAX] = "";

	*plan = (struct sandbox_plan){ .kind = kind,
				       .nested = k->nested,
				       .drop_caps = k->drop_caps };
	if (err)
		err->text[0] = '\0';
	int rc = k->program ? program_find(k->program, program) : 0;
	if (rc)
		return err_set(err, rc, "sandbox %s: %s is not installed here", k->name,
			       k->program);
	if (asprintf(&plan->work, "%s/work", spec->state) < 0)
		plan->work = NULL;
	rc = plan->work ? k->plan(spec, env, program, plan, err) : -ENOMEM;
	if (rc) {
		sandbox_plan_free(plan);
		if (err && !err->text[0])
			err_set(err, rc, "sandbox %s: %s", k->name, strerror(-rc));
	}
	return rc;
}

void
sandbox_plan_free(struct sandbox_plan *plan)
{
	free_list(plan->argv);
	free_list(plan->env);
	free_list(plan->tool);
	free(plan->work);
	free(plan->id);
	free(plan->log);
	*plan = (struct sandbox_plan){ 0 };
}
