/*
 * result.c - results/T points to the accepted attempt.
 */
#include <config.h>

#include "result.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int
result_accept(const char *run, const char *task, const char *folder, const char *r)
{
	char path[PATH_MAX + 300];
	char tmp[PATH_MAX + 340];

	snprintf(path, sizeof(path), "%s/results/%s", run, task);
	snprintf(tmp, sizeof(tmp), "%s/results/.%ld.%s", run, (long)getpid(), r);
	unlink(tmp);
	return symlink(folder, tmp) < 0 || rename(tmp, path) < 0 ? -errno : 0;
}

_Bool
result_is_temporary(const char *name)
{
	char r[32];
	long pid;
	int used = 0;

	return sscanf(name, ".%ld.%31[a-z2-7]%n", &pid, r, &used) == 2 && !name[used];
}
