/*
 * mountinfo.c - reading /proc/self/mountinfo: proc(5).
 */
#include <config.h>

#include "mountinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mountinfo[] = "/proc/self/mountinfo";

/* Blanks and backslashes are written as three octal digits. */
static void
unescape(char *text)
{
	char *out = text;

	for (const char *p = text; *p; p++) {
		unsigned code;

		if (*p == '\\' && sscanf(p + 1, "%3o", &code) == 1) {
			*out++ = (char)code;
			p += 3;
		} else {
			*out++ = *p;
		}
	}
	*out = '\0';
}

/* One line; its parent, and its mount point in place. False when it cannot be understood. */
static bool
parse(char *line, struct mount_entry *e, int *parent, char **point)
{
	char *save = NULL;
	char *words[5];

	for (int i = 0; i < 5; i++) {
		words[i] = strtok_r(i ? NULL : line, " \n", &save);
		if (!words[i])
			return false;
	}
	*e = (struct mount_entry){ .id = (int)strtol(words[0], NULL, 10) };
	*parent = (int)strtol(words[1], NULL, 10);
	const char *colon = strchr(words[2], ':');
	e->minor = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
	*point = words[4];
	unescape(*point);
	/* optional fields end with a hyphen */
	const char *w;
	while ((w = strtok_r(NULL, " \n", &save)) && strcmp(w, "-") != 0)
		;
	const char *type = w ? strtok_r(NULL, " \n", &save) : NULL;
	char *source = type ? strtok_r(NULL, " \n", &save) : NULL;
	if (!source)
		return false;
	unescape(source);
	e->fuse = !strcmp(type, "fuse.raserfs");
	snprintf(e->source, sizeof(e->source), "%s", source);
	return e->id > 0;
}

static bool
top_of(const char *file, const char *path, struct mount_entry *top)
{
	static _Thread_local struct mount_entry e; /* of paths, a page */
	FILE *f = fopen(file, "re");
	char *line = NULL;
	char *point;
	size_t cap = 0;
	int parent;
	int below = 0; /* of the one that is on top so far */

	*top = (struct mount_entry){ 0 };
	while (f && getline(&line, &cap, f) > 0) {
		if (!parse(line, &e, &parent, &point) || strcmp(point, path) != 0)
			continue;
		if (top->id && below == e.id)
			continue;
		*top = e;
		below = parent;
	}
	free(line);
	if (f)
		fclose(f);
	return top->id;
}

bool
mountinfo_top(const char *path, struct mount_entry *top)
{
	return top_of(mountinfo, path, top);
}

bool
mountinfo_top_of(pid_t pid, const char *path, struct mount_entry *top)
{
	char file[64];

	snprintf(file, sizeof(file), "/proc/%ld/mountinfo", (long)pid);
	return top_of(file, path, top);
}

int
mountinfo_watch(void)
{
	return open(mountinfo, O_RDONLY | O_CLOEXEC);
}
