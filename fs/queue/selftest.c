/*
 * selftest.c - exclusive creation, whole texts, times that move, names that come and go.
 *
 * Links are made here by the raw call, since that is what is on trial; everybody else goes
 * through chain_cas().
 */
#include <config.h>

#include "selftest.h"

#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	TEXT_SHORT = 59, /* what a claim or an end may have */
	TEXT_LONG = 255,
	NAME_LONG = 243, /* the longest name of a link: 230 bytes and "@262143.claim" */
	TRIES = 3,	 /* of a call whose outcome is unknown */
	LIST_TRIES = 10,
	LIST_PAUSE_MS = 100,
};

/* A task's link as it may be called, and the same for a file system that ignores case. */
#define LINK "a%2Fb@1.claim"
#define LINK_CAPITAL "A%2FB@1.CLAIM"

struct trial {
	struct disk *disk;
	struct findings *f;
	char dir[SELFTEST_NAME];
	char text[TEXT_LONG + 1];
	char name[NAME_LONG + 1];
	int broken; /* errno of storage that does not let us try */
};

static void
path_in(const struct trial *t, const char *name, char path[DISK_PATH])
{
	snprintf(path, DISK_PATH, "%s/%s", t->dir, name);
}

/* The storage's trouble, not its nature: nothing is said of that by it. */
static bool
is_trouble(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EROFS || rc == -EACCES || rc == -EIO ||
	       rc == -ESTALE || rc == -ETIMEDOUT || rc == -EINTR || rc == -ENOMEM;
}

static void
fails(struct trial *t, const char *topic, const char *found, const char *advice)
{
	finding_add(t->f, FINDING_FAILS, topic, advice, "%s", found);
}

/* Create a link and read it back: 0, or an errno when it is not there. A lost reply is allowed
 * for, as the queue does: the text that is read decides. */
static int
make_link(struct trial *t, const char *name, const char *text, char found[TEXT_LONG + 2], int *len)
{
	char path[DISK_PATH];
	int rc = 0;

	path_in(t, name, path);
	*len = -ENOENT;
	for (int i = 0; i < TRIES && *len < 0; i++) {
		rc = disk_symlink(t->disk, text, path);
		*len = disk_readlink(t->disk, path, found, TEXT_LONG + 2);
		if (rc && rc != -EEXIST && !is_trouble(rc))
			break;
	}
	if (*len < 0 && is_trouble(rc))
		t->broken = rc;
	return *len >= 0 ? 0 : rc && rc != -EEXIST ? rc : *len;
}

/* False when nothing can be said of links any more. */
static bool
whole_text(struct trial *t, const char *name, int size)
{
	char text[TEXT_LONG + 1];
	char found[TEXT_LONG + 2];
	char what[160];
	int len;

	snprintf(text, sizeof(text), "%.*s", size, t->text);
	int rc = make_link(t, name, text, found, &len);
	if (t->broken)
		return false;
	if (rc == -ENOENT) {
		fails(t, "read-back", "a new symbolic link cannot be read by who made it",
		      "raserfs reads every claim back; here it could never tell who has a task");
	} else if (rc) {
		snprintf(what, sizeof(what),
			 "no symbolic link with a name of %zu bytes can be made: %s", strlen(name),
			 strerror(-rc));
		fails(t, "symbolic links", what,
		      "they are what claims are made of; use another file system");
	} else if (len != size || strcmp(found, text) != 0) {
		snprintf(what, sizeof(what), "a link of %d bytes reads as %d%s", size, len,
			 len == size ? " others" : "");
		fails(t, "read-back", what,
		      "raserfs reads every claim back; here it could never tell who has a task");
	} else {
		finding_add(t->f, FINDING_OK, "read-back", NULL,
			    "a link of %d bytes reads as it was made", size);
		return true;
	}
	return false;
}

/* A second create over a name must say EEXIST and change nothing. */
static void
exclusive(struct trial *t)
{
	static const struct {
		const char *name, *what;
	} over[] = { { "file", "a file" }, { "dir", "a directory" }, { LINK, "a link" } };
	char path[DISK_PATH];
	char found[TEXT_LONG + 2] = "";
	char what[160] = "";

	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]) && !*what; i++) {
		path_in(t, over[i].name, path);
		int rc = disk_symlink(t->disk, "second", path);

		if (is_trouble(rc)) {
			t->broken = rc;
			return;
		}
		if (rc != -EEXIST)
			snprintf(what, sizeof(what), "symlink over %s says %s, not EEXIST",
				 over[i].what, rc ? strerror(-rc) : "that it was made");
	}
	path_in(t, LINK, path);
	int len = disk_readlink(t->disk, path, found, sizeof(found));
	if (len >= 0 && (len != TEXT_SHORT || memcmp(found, t->text, TEXT_SHORT) != 0))
		snprintf(what, sizeof(what), "symlink over a link replaces it");
	if (*what)
		fails(t, "exclusive creation", what,
		      "two daemons could both claim one task; use another file system");
	else
		finding_add(t->f, FINDING_OK, "exclusive creation", NULL,
			    "symlink over a file, a directory and a link says EEXIST");
	path_in(t, LINK_CAPITAL, path);
	int rc = disk_symlink(t->disk, "capital", path);
	if (rc == -EEXIST)
		finding_add(t->f, FINDING_FAILS, "names",
			    "tasks whose ids differ in nothing else would be taken for one; use "
			    "another file system",
			    "capital letters do not count");
	else if (!rc)
		disk_unlink(t->disk, path);
}

static void
file_content(struct trial *t)
{
	char path[DISK_PATH];
	char found[64] = "";

	path_in(t, "file", path);
	int n = disk_read(t->disk, path, found, sizeof(found) - 1);
	if (is_trouble(n))
		t->broken = n;
	else if (n != TEXT_SHORT || memcmp(found, t->text, TEXT_SHORT) != 0)
		fails(t, "files",
		      "a file that was written, synced and closed does not read as it was written",
		      "results and submissions would be lost; use another file system");
	else
		finding_add(t->f, FINDING_OK, "files", NULL, "a new file reads as it was written");
}

/* A beat is a touch, in whole seconds, and is seen by a stat. */
static void
times_move(struct trial *t)
{
	struct disk_stat st[3] = { { 0 } };
	char path[DISK_PATH];

	path_in(t, "file", path);
	int rc = disk_stat(t->disk, path, &st[0]);
	/* forwards only: Lustre has dropped what would set a time back */
	for (int i = 1; i < 3 && !rc; i++) {
		rc = disk_touch(t->disk, path, st[0].mtime_s + i);
		if (!rc)
			rc = disk_stat(t->disk, path, &st[i]);
	}
	if (is_trouble(rc)) {
		t->broken = rc;
	} else if (rc) {
		finding_add(t->f, FINDING_FAILS, "times",
			    "a daemon that lives could not show it; use another file system",
			    "a file cannot be touched: %s", strerror(-rc));
	} else if (st[2].mtime_s == st[1].mtime_s || st[1].mtime_s == st[0].mtime_s) {
		fails(t, "times", "stat shows no change of a second after a touch",
		      "a daemon that lives would look dead to others. Mount without caches of "
		      "attributes, or use another file system");
	} else {
		finding_add(t->f, FINDING_OK, "times", NULL,
			    "a touch moves what stat shows by a second");
	}
}

struct listing {
	const struct trial *t;
	unsigned seen; /* bits: file, dir, the link, the long name */
};

static int
on_name(void *arg, const char *name)
{
	struct listing *l = arg;

	l->seen |= !strcmp(name, "file")       ? 1U
		   : !strcmp(name, "dir")      ? 2U
		   : !strcmp(name, LINK)       ? 4U
		   : !strcmp(name, l->t->name) ? 8U
					       : 0;
	return 0;
}

static void
listing(struct trial *t)
{
	struct listing l = { .t = t };

	for (int i = 0; i < LIST_TRIES; i++) {
		l.seen = 0;
		int rc = disk_list(t->disk, t->dir, on_name, &l);
		if (rc) {
			t->broken = rc;
			return;
		}
		if (l.seen == 15) {
			if (i)
				finding_add(
					t->f, FINDING_WARNING, "listings",
					"tasks are found later, and now and then claimed in vain",
					"show a new name %d ms late to who made it",
					i * LIST_PAUSE_MS);
			else
				finding_add(t->f, FINDING_OK, "listings", NULL,
					    "show new names at once");
			return;
		}
		disk_pause(t->disk, LIST_PAUSE_MS);
	}
	fails(t, "listings", "do not show a new name to who made it within a second",
	      "daemons would not find the tasks; use another file system");
}

static void
removal(struct trial *t)
{
	char path[DISK_PATH];
	char found[TEXT_LONG + 2];
	struct disk_stat st;

	path_in(t, LINK, path);
	int rc = disk_unlink(t->disk, path);
	int gone = disk_readlink(t->disk, path, found, sizeof(found));
	if (!rc) {
		path_in(t, "file", path);
		rc = disk_unlink(t->disk, path);
	}
	int file_gone = disk_stat(t->disk, path, &st);
	if (is_trouble(rc))
		t->broken = rc;
	else if (rc || gone != -ENOENT || file_gone != -ENOENT)
		fails(t, "removal", "a name that was removed is still there for who removed it",
		      "the claims of dead daemons could not be taken over; use another file "
		      "system");
	else
		finding_add(t->f, FINDING_OK, "removal", NULL, "a removed name is gone at once");
}

static void
directory_sync(struct trial *t)
{
	int rc = disk_sync(t->disk, t->dir);

	if (rc)
		finding_add(t->f, FINDING_FAILS, "durability",
			    "an end could be lost after it was acknowledged",
			    "a directory cannot be synced: %s", strerror(-rc));
}

int
selftest_scratch(struct disk *disk, char name[SELFTEST_NAME])
{
	char random[13];

	random_text(random, 12);
	snprintf(name, SELFTEST_NAME, SELFTEST_PREFIX "%s", random);
	int rc = disk_mkdir(disk, name);
	if (rc != -EACCES && rc != -EPERM)
		return rc;
	/* a run whose FORMAT and raser.ini are protected from those who use it */
	snprintf(name, SELFTEST_NAME, "results/" SELFTEST_PREFIX "%s", random);
	return disk_mkdir(disk, name) ? rc : 0;
}

static void
clean_up(struct trial *t)
{
	const char *const names[] = { LINK, t->name, "file" };
	char path[DISK_PATH];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_in(t, names[i], path);
		disk_unlink(t->disk, path);
	}
	path_in(t, "dir", path);
	disk_rmdir(t->disk, path);
	if (disk_rmdir(t->disk, t->dir))
		log_warnx("%s, a scratch directory, cannot be removed", t->dir);
}

static int
cannot_try(struct findings *f, int rc)
{
	finding_add(f, FINDING_FAILS, "writing",
		    "see to it, and try again; whether raserfs can be used here is not known",
		    "nothing can be made here: %s", strerror(-rc));
	return rc;
}

int
selftest_quick(struct disk *disk, struct findings *f)
{
	struct trial t = { .disk = disk, .f = f };
	char path[DISK_PATH];

	memset(t.text, 'x', TEXT_LONG);
	random_text(t.text, 12); /* nobody else's text */
	t.text[12] = ':';
	memset(t.name, 'n', NAME_LONG);
	int rc = selftest_scratch(disk, t.dir);
	if (rc)
		return cannot_try(f, rc);
	path_in(&t, "dir", path);
	rc = disk_mkdir(disk, path);
	path_in(&t, "file", path);
	if (!rc)
		rc = disk_create(disk, path, t.text, TEXT_SHORT);
	if (rc) {
		clean_up(&t);
		return cannot_try(f, rc);
	}
	static void (*const steps[])(struct trial *) = {
		file_content, exclusive, times_move, listing, directory_sync, removal,
	};
	/* where no link can be made the rest would only repeat that */
	bool links = whole_text(&t, LINK, TEXT_SHORT) && whole_text(&t, t.name, TEXT_LONG);
	for (size_t i = 0; links && !t.broken && i < sizeof(steps) / sizeof(steps[0]); i++)
		steps[i](&t);
	clean_up(&t);
	return t.broken ? cannot_try(f, t.broken) : 0;
}

void
selftest_format(struct disk *disk, const char *path, const char *uuid, struct findings *f)
{
	struct disk again;
	char found[UUID_TEXT] = "";
	int rc = format_read(disk, found);

	if (!rc && !strcmp(found, uuid) && !(rc = disk_open(&again, path, NULL))) {
		rc = format_read(&again, found);
		disk_close(&again);
	}
	if (rc || strcmp(found, uuid) != 0)
		finding_add(f, FINDING_FAILS, "FORMAT",
			    "something else was mounted over it: try again",
			    "%s is not the run that was opened", path);
	else
		finding_add(f, FINDING_OK, "FORMAT", NULL, "run %s, by path as well", uuid);
}

int
selftest_admit(struct disk *disk, const char *path, int64_t beat_ms, bool forced, struct err *err)
{
	struct findings f = { 0 };
	struct storage s;

	storage_look(disk, &s);
	storage_judge(&s, beat_ms, &f);
	/* what is refused by its kind is not written to */
	int rc = f.worst == FINDING_FAILS ? 0 : selftest_quick(disk, &f);
	if (rc)
		return err_set(err, rc, "%s cannot be written: %s", path, strerror(-rc));
	for (size_t i = 0; i < f.n; i++) {
		const struct finding *one = &f.all[i];

		if (one->level == FINDING_FAILS || (one->level == FINDING_FORCIBLE && !forced))
			return err_set(err, -ENOTSUP, "%s: no run here: %s: %s: %s", path,
				       one->topic, one->found, one->advice);
	}
	for (size_t i = 0; i < f.n; i++)
		if (f.all[i].level >= FINDING_WARNING)
			log_warnx("%s: %s: %s: %s", path, f.all[i].topic, f.all[i].found,
				  f.all[i].advice);
	return 0;
}
