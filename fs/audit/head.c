/*
 * head.c - fsck of what every daemon needs first: the directories, FORMAT and
 * raser.ini.
 */
#include <config.h>

#include "fsck_impl.h"

#include "selftest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	bool vital; /* what it holds cannot be made anew */
} dirs[] = {
	{ "batches", true },	  { "chain", true },	{ "nodes", false },
	{ "checkpoints", false }, { "results", false }, { "logs", false },
};
enum { DIRS = sizeof(dirs) / sizeof(dirs[0]) };

struct root {
	struct fsck *f;
	bool there[DIRS];
	bool format;
};

static int
on_name(void *arg, const char *name)
{
	struct root *r = arg;

	r->format |= !strcmp(name, "FORMAT");
	for (int i = 0; i < DIRS; i++)
		r->there[i] |= !strcmp(name, dirs[i].name);
	return 0;
}

static int
on_foreign(void *arg, const char *name)
{
	static const char *const ours[] = { "FORMAT", "raser.ini", "sealed", "drain", "slurm" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strcmp(name, ours[i]))
			return 0;
	for (int i = 0; i < DIRS; i++)
		if (!strcmp(name, dirs[i].name))
			return 0;
	if (strncmp(name, SELFTEST_PREFIX, strlen(SELFTEST_PREFIX)) != 0 &&
	    strncmp(name, "raser-batch.", 12) != 0)
		fsck_found(arg, ODD_FOREIGN_ROOT, name, "is not of raserfs");
	return 0;
}

static void
check_dirs(struct root *r)
{
	for (int i = 0; i < DIRS; i++) {
		if (r->there[i])
			continue;
		if (fsck_found(r->f, dirs[i].vital ? ODD_NO_CHAIN : ODD_NO_DIR, dirs[i].name,
			       "is missing"))
			fsck_mended(r->f, dirs[i].name, disk_mkdir(&r->f->disk, dirs[i].name),
				    NULL);
	}
}

/* ---- FORMAT ---- */

struct witness {
	struct disk *disk;
	char bay[DISK_PATH];
	char uuid[UUID_TEXT]; /* that all of them have; "" = none yet */
	bool differ;
};

static int
on_bay_file(void *arg, const char *name)
{
	struct witness *w = arg;
	char path[DISK_PATH];
	char head[200];
	char uuid[UUID_TEXT];

	if (strcmp(name, "digest") != 0 && strncmp(name, "seal.", 5) != 0)
		return 0;
	snprintf(path, sizeof(path), "%.300s/%.100s", w->bay, name);
	int n = disk_read(w->disk, path, head, sizeof(head) - 1);
	if (n <= 0)
		return 0;
	head[n] = '\0';
	if (sscanf(head, "raser digest 1 %32[a-z2-7] ", uuid) != 1 &&
	    sscanf(head, "raser seal 1 %32[a-z2-7] ", uuid) != 1)
		return 0;
	w->differ |= w->uuid[0] && strcmp(w->uuid, uuid) != 0;
	memcpy(w->uuid, uuid, sizeof(uuid));
	return 0;
}

static int
on_bay(void *arg, const char *name)
{
	struct witness *w = arg;

	snprintf(w->bay, sizeof(w->bay), "chain/%.255s", name);
	disk_list(w->disk, w->bay, on_bay_file, w);
	return 0;
}

static int
on_beat(void *arg, const char *name)
{
	(void)arg, (void)name;
	return 1;
}

/* Make FORMAT anew, and tell so. Those who live believe only in the name that
 * they know. */
static void
check_format(struct fsck *f, char text[128])
{
	struct witness w = { .disk = &f->disk };
	char uuid[UUID_TEXT];

	disk_list(&f->disk, "chain", on_bay, &w);
	memcpy(uuid, w.uuid, sizeof(uuid));
	if (!uuid[0])
		random_text(uuid, UUID_TEXT - 1);
	format_text(text, 128, uuid);
	if (!fsck_found(f, ODD_NO_FORMAT, "FORMAT", "is missing"))
		return;
	const char *why = NULL;
	int rc = 0;
	if (w.differ)
		why = "digests and seals have different names of runs: parts of several "
		      "lie here";
	else if (!w.uuid[0] && disk_list(&f->disk, "nodes", on_beat, NULL) == 1)
		why = "no digest or seal has its name, and who is in nodes/ may live; move "
		      "that away first";
	if (why)
		rc = -EBUSY;
	if (!rc)
		rc = disk_create(&f->disk, "FORMAT", text, strlen(text));
	if (!rc)
		rc = disk_sync(&f->disk, ".");
	fsck_mended(f, "FORMAT", rc, why);
}

int
fsck_head(struct fsck *f, struct err *err)
{
	struct root r = { .f = f };
	const struct queue_options look = { .damaged = true };
	char format[128] = "";
	char uuid[UUID_TEXT];
	char *ini = NULL;
	struct err why = { "" };
	struct conf conf;
	struct disk disk;

	int rc = disk_list(&f->disk, ".", on_name, &r);
	if (rc)
		return err_set(err, rc, "%s: %s", f->run, strerror(-rc));
	if (!r.format && !r.there[0] && !r.there[1])
		return err_set(err, -ENOENT,
			       "%s is no run directory: it has neither FORMAT nor batches/ "
			       "nor chain/",
			       f->run);
	check_dirs(&r);
	rc = r.format ? format_read(&f->disk, uuid) : 0;
	if (rc)
		fsck_found(f, ODD_BAD_FORMAT, "FORMAT", "%s",
			   rc == -EINVAL ? "is of no version that this raserfs can read"
					 : strerror(-rc));
	if (!r.format || rc) {
		if (!r.format)
			check_format(f, format);
		else
			format_text(format, sizeof(format), "unknown");
	}
	if (conf_load(&conf, f->run, &why)) {
		fsck_found(f, ODD_BAD_INI, "raser.ini", "cannot be used: %s", why.text);
		ini = conf_template("");
		if (!ini)
			return err_set(err, -ENOMEM, "out of memory");
	}
	disk_list(&f->disk, ".", on_foreign, f);
	rc = looking_open(&disk, &f->disk, format[0] ? strdup(format) : NULL, ini);
	if (rc)
		return err_set(err, rc, "out of memory");
	const struct now now = { .boot_ms = disk_now(&f->disk) };
	f->own = queue_open_disk(disk, f->run, &look, now, err);
	if (!f->own)
		return -EIO;
	int64_t got = queue_refresh(f->own, now, 0, 0);
	if (got == -EBADMSG)
		return 0; /* seals: their bays tell */
	return got < 0 ? err_set(err, (int)got, "%s cannot be read: %s", f->run,
				 strerror((int)-got))
		       : 0;
}
