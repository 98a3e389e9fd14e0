/*
 * program.c - finding a program.
 */
#include <config.h>

#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int
try_file(const char *file, char path[PATH_MAX])
{
	struct stat st;

	if (stat(file, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || access(file, X_OK) < 0)
		return -EACCES;
	/* the directory is made absolute, the last part is kept: some programs go by it */
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", file);
	char *slash = strrchr(copy, '/');
	char dir[PATH_MAX];
	if (slash)
		*slash = '\0';
	if (!realpath(!slash ? "." : slash == copy ? "/" : copy, dir))
		return -errno;
	int n = snprintf(path, PATH_MAX, "%s/%s", dir, slash ? slash + 1 : file);
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int
program_find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	char file[PATH_MAX];
	int rc = -ENOENT;

	if (strchr(name, '/'))
		return try_file(name, path);
	for (const char *p = dirs ? dirs : "/usr/bin:/bin"; p;) {
		const char *colon = strchr(p, ':');
		int len = colon ? (int)(colon - p) : (int)strlen(p);

		snprintf(file, sizeof(file), "%.*s%s%s", len, p, len ? "/" : "./", name);
		int one = try_file(file, path);
		if (!one)
			return 0;
		if (one == -EACCES)
			rc = one;
		p = colon ? colon + 1 : NULL;
	}
	return rc;
}
