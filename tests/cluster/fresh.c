/*
 * fresh.c - does a listing of ours find what another client made in the same tick of the server's clock?
 *
 *     fresh look TOP FILE     lists directory TOP/I all the time, I as FILE says; at -1, after a rest,
 *                             prints in how many of the directories names are missing
 *     fresh make TOP FILE     in another client: fills one directory after the other
 *
 * FILE is reached by both without the file system under test.
 */
#include <config.h>

#include "disk.h"

#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { DIRS = 30, NAMES = 12, TICK_MS = 4, PAUSE_MS = 150, REST_MS = 2000 };

static struct disk disk;

static int
one_more(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static int
count(int i)
{
	char dir[16];
	int n = 0;

	snprintf(dir, sizeof(dir), "%d", i);
	int rc = disk_list(&disk, dir, one_more, &n);
	if (rc)
		errx(1, "%s: %s", dir, strerror(-rc));
	return n;
}

static int
look(const char *file)
{
	int wrong = 0;
	int i = 0;

	while (i >= 0) {
		FILE *f = fopen(file, "re");

		if (f && fscanf(f, "%d", &i) == 1 && i >= 0)
			count(i);
		if (f)
			fclose(f);
	}
	poll(NULL, 0, REST_MS);
	for (i = 0; i < DIRS; i++)
		wrong += count(i) != NAMES;
	printf("%d\n", wrong);
	return 0;
}

static void
tell(const char *file, int i)
{
	FILE *f = fopen(file, "we");

	if (!f || fprintf(f, "%d\n", i) < 0 || fclose(f))
		err(1, "%s", file);
}

static int
make(const char *file)
{
	for (int i = 0; i < DIRS; i++) {
		char path[32];

		snprintf(path, sizeof(path), "%d", i);
		int rc = disk_mkdir(&disk, path);
		if (rc)
			errx(1, "%s: %s", path, strerror(-rc));
		tell(file, i);
		poll(NULL, 0, PAUSE_MS);
		for (int k = 0; k < NAMES && !rc; k++) {
			snprintf(path, sizeof(path), "%d/%d", i, k);
			rc = disk_symlink(&disk, "text", path);
			poll(NULL, 0, TICK_MS);
		}
		if (rc)
			errx(1, "%s: %s", path, strerror(-rc));
		poll(NULL, 0, PAUSE_MS);
	}
	tell(file, -1);
	return 0;
}

int
main(int argc, char **argv)
{
	struct err e = { 0 };

	if (argc != 4 || (strcmp(argv[1], "look") != 0 && strcmp(argv[1], "make") != 0))
		errx(2, "usage: fresh look|make TOP FILE");
	if (disk_open(&disk, argv[2], &e))
		errx(1, "%s", e.text);
	return strcmp(argv[1], "look") ? make(argv[3]) : look(argv[3]);
}
