/*
 * probe.c - whether a sandbox works on this node: a shell is run in it as an agent would be.
 */
#include <config.h>

#include "proc.h"

#include "disk.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROBE_MS = 60000, PROBE_STATUS = 42 };

static int
make_file(const char *dir, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.4000s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static int
make_dir(const char *dir, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.4000s/%s", dir, name);
	return mkdir(path, 0700) < 0 ? -errno : 0;
}

static int
run(const struct sandbox_plan *plan, const char *scratch, const char *task, int output,
    struct err *err)
{
	const struct proc_spec spec = {
		.plan = plan, .scratch = scratch, .stdin_path = task, .output_fd = output
	};
	struct proc p;
	struct proc_end end;
	int rc = proc_start(&p, &spec);

	if (rc)
		return err_set(err, rc, "a process cannot be started: %s", strerror(-rc));
	struct pollfd w = { .fd = p.fd, .events = POLLIN };
	if (poll(&w, 1, PROBE_MS) <= 0)
		proc_kill(&p);
	proc_finish(&p, &end);
	if (end.status >= 0 && WIFEXITED(end.status) && WEXITSTATUS(end.status) == PROBE_STATUS)
		return 0;
	if (end.why[0])
		return err_set(err, -ENOTSUP, "%s", end.why);
	return err_set(err, -ENOTSUP, "sandbox %s: a shell in it ended with status 0x%x",
		       sandbox_kind_name(plan->kind), (unsigned)end.status);
}

int
sandbox_probe(enum sandbox_kind kind, const struct sandbox_spec *spec, const char *local,
	      struct err *err)
{
	static char *const argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)"exit 42", NULL };
	char scratch[PATH_MAX];
	char paths[5][PATH_MAX];
	struct sandbox_plan plan;
	int rc = 0;
	int output = -1;

	snprintf(scratch, sizeof(scratch), "%.4000s/raser-probe.XXXXXX", local);
	if (!mkdtemp(scratch))
		return err_set(err, -errno, "%s: %s", local, strerror(errno));
	rc = make_dir(scratch, "state", paths[0]);
	rc = rc ? rc : make_dir(paths[0], "work", paths[1]);
	rc = rc ? rc : make_dir(paths[0], "home", paths[1]);
	rc = rc ? rc : make_dir(scratch, "results", paths[1]);
	for (int i = 2; !rc && i < 5; i++) {
		static const char *const names[] = { "task.json", "control", "output" };
		int fd = make_file(scratch, names[i - 2], paths[i]);

		if (fd < 0)
			rc = fd;
		else if (i < 4)
			close(fd);
		else
			output = fd;
	}
	struct sandbox_spec s = { .argv = argv,
				  .scratch = scratch,
				  .state = paths[0],
				  .results = paths[1],
				  .task_file = paths[2],
				  .control = paths[3],
				  .image = spec->image,
				  .binds = spec->binds,
				  .run = spec->run,
				  .mnt = spec->mnt,
				  .network = spec->network };
	if (rc)
		err_set(err, rc, "%s: %s", scratch, strerror(-rc));
	else
		rc = sandbox_plan(kind, &s, NULL, &plan, err);
	if (!rc) {
		rc = run(&plan, scratch, paths[2], output, err);
		sandbox_plan_free(&plan);
	}
	if (output >= 0)
		close(output);
	folder_remove(scratch);
	return rc;
}
