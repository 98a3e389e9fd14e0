/*
 * orphans.c - children that are none of ours.
 */
#include <config.h>

#include "orphans.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	LOOK_MS = 500,
	ORPHAN_MS = 1000,
	GUARD_MS = 60000, /* a guard ends a tree and removes a workspace, which may be large */
};

static int64_t
since(const struct orphans *o, pid_t pid, int64_t now)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->all[i].pid == pid)
			return o->all[i].since;
	return now;
}

static bool
is_guard(pid_t pid)
{
	char path[64];
	char comm[32] = "";

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	FILE *f = fopen(path, "re");
	bool guard = f && fgets(comm, sizeof(comm), f) && !strcmp(comm, "raser-guard\n");
	if (f)
		fclose(f);
	return guard;
}

size_t
orphans_end(struct orphans *o, orphan_known_fn *known, const void *arg, int64_t now_ms)
{
	char path[64];
	int pid;
	struct orphan seen[ORPHANS_MAX];
	size_t n = 0;

	if (now_ms < o->next)
		return o->n;
	o->next = now_ms + LOOK_MS;
	snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
	FILE *f = fopen(path, "re");
	while (f && n < ORPHANS_MAX && fscanf(f, "%d", &pid) == 1) {
		if (known(arg, pid))
			continue;
		seen[n] = (struct orphan){ pid, since(o, pid, now_ms) };
		if (now_ms - seen[n].since >= (is_guard(pid) ? GUARD_MS : ORPHAN_MS))
			kill(pid, SIGKILL);
		n++;
	}
	if (f)
		fclose(f);
	memcpy(o->all, seen, n * sizeof(*seen));
	o->n = n;
	return n;
}
