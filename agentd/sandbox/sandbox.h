/*
 * sandbox.h - how an agent is boxed in. One table entry a kind; see SANDBOXES in raser-agentd(8).
 *
 * A plan tells what has to be exec'd, with which environment, and how it is dealt with later.
 * It is made before every attempt and belongs to its scratch folder. Inside a real sandbox the
 * paths are always the same, so that what a checkpoint holds fits on the next node.
 *
 * super.c makes plans, proc.c carries them out.
 */
#ifndef RASER_SANDBOX_H
#define RASER_SANDBOX_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "log.h"

enum sandbox_kind {
	SANDBOX_NONE,
	SANDBOX_BWRAP,
	SANDBOX_APPTAINER,
	SANDBOX_GVISOR,
	SANDBOX_KINDS
};

/* bubblewrap reports into this descriptor; proc.c provides it to every kind. */
enum { SANDBOX_REPORT_FD = 9 };

/* What one attempt needs. All paths are absolute and as seen outside. */
struct sandbox_spec {
	char *const *argv;	  /* program (absolute path) and arguments */
	const char *scratch;	  /* folder of this attempt, private to it; box/ is made in it */
	const char *state;	  /* scratch/state: holds work/ and home/, both bound read-write */
	const char *task_file;	  /* read-only */
	const char *control;	  /* a regular file: appended to from inside, read outside */
	const char *results;	  /* read-write */
	const char *cache;	  /* NULL: none */
	bool cache_rw;		  /* only for setup */
	const char *run;	  /* the run directory: cannot be reached */
	const char *mnt;	  /* the mount: at the same path, only if show_mount */
	const char *image; /* a root folder or image; NULL or "": this host's system folders */
	const char *const *binds; /* "PATH[:DEST][:rw]", NULL-terminated, or NULL */
	const char *const *pass;  /* names of variables that may pass, NULL-terminated, or NULL */
	bool network, show_mount;
};

/* Where these are as seen from inside. */
struct sandbox_view {
	char work[PATH_MAX], home[PATH_MAX]; /* home: empty when it stays what it is */
	char task_file[PATH_MAX], control[PATH_MAX], results[PATH_MAX], cache[PATH_MAX];
};

struct sandbox_plan {
	enum sandbox_kind kind;
	char **argv;	/* what has to be exec'd */
	char **env;	/* all of its environment */
	char *work;	/* its current directory, as seen outside */
	bool nested;	/* the agent is in a pid namespace of its own */
	bool drop_caps; /* it refuses to start with capabilities that were handed down */
	char **tool;	/* gvisor: runsc and the options that name the sandbox's state */
	char *id;	/* gvisor: its name there */
	char *log;	/* gvisor: where runsc says what is wrong */
};

/* The kind of that name, or -1; "auto" is the caller's. */
int
sandbox_kind_parse(const char *name);
const char *
sandbox_kind_name(enum sandbox_kind kind);

void
sandbox_view(enum sandbox_kind kind, const struct sandbox_spec *spec, struct sandbox_view *view);

/*
 * Make a plan. env: further variables, RASER_*=..., with paths as seen inside. 0, or a negative
 * errno and what is wrong; nothing has to be freed then.
 */
int
sandbox_plan(enum sandbox_kind kind, const struct sandbox_spec *spec, char *const *env,
	     struct sandbox_plan *plan, struct err *err);
void
sandbox_plan_free(struct sandbox_plan *plan);

/*
 * Does it work on this node? Runs a shell in it, below the folder local. spec: image, binds and
 * network are looked at, and may all be unset. 0, or a negative errno and what is missing.
 * probe.c; takes as long as one start.
 */
int
sandbox_probe(enum sandbox_kind kind, const struct sandbox_spec *spec, const char *local,
	      struct err *err);

#endif
