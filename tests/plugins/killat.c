/*
 * killat.c - kill a program at a chosen moment of its work, for LD_PRELOAD.
 *
 *   KILLAT="NAME N before|after"    SIGKILL around the N-th rename(2) to a file called NAME
 *
 * A plugin saves its state by renaming a complete file into place, so these are the two moments
 * around each save: work done but not saved, and saved but nothing done since.
 */
#include <config.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
rename(const char *from, const char *to)
{
	static int (*real)(const char *, const char *);
	static int seen;
	const char *text = getenv("KILLAT");
	const char *base = strrchr(to, '/');
	char name[64];
	char when[8];
	int n = 0;

	if (!real)
		real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
	bool hit = text && sscanf(text, "%63s %d %7s", name, &n, when) == 3 &&
		   !strcmp(base ? base + 1 : to, name) && ++seen == n;
	if (hit && !strcmp(when, "before"))
		raise(SIGKILL);
	int rc = real(from, to);
	if (hit)
		raise(SIGKILL);
	return rc;
}
