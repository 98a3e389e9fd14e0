/*
 * beats.c - fsck of nodes/: who is there, and who may be.
 */
#include <config.h>

#include "fsck_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int
on_name(void *arg, const char *name)
{
	char path[DISK_PATH];

	if (strlen(name) < OWNER_TEXT && name[0] != '.' && strchr(name, '.'))
		return 0;
	snprintf(path, sizeof(path), "nodes/%.255s", name);
	fsck_found(arg, ODD_BEAT_FOREIGN, path, "is no beat");
	return 0;
}

static int
by_owner(const void *a, const void *b)
{
	return strcmp(((const struct watched *)a)->owner, ((const struct watched *)b)->owner);
}

static void
describe(const struct watched *o, char *text, size_t size)
{
	time_t t = (time_t)o->seen_wall;
	char when[32] = "?";
	struct tm tm;

	if (o->seen_wall && localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(text, size, "of process %ld on %.40s, last beat %s by that clock", o->info.pid,
		 o->info.host, when);
}

/* Its process is there, on this machine. */
static bool
is_seen(const struct watched *o)
{
	return o->verdict == ALIVE && o->info_read && o->looks && node_is_here(&o->info);
}

static void
tell(struct fsck *f, const struct watched *o)
{
	char path[DISK_PATH];
	char text[200];

	snprintf(path, sizeof(path), "nodes/%s", o->owner);
	describe(o, text, sizeof(text));
	if (!o->info_read)
		fsck_found(f, ODD_BEAT_TORN, path, "cannot be parsed");
	else if (o->verdict != ALIVE)
		fsck_found(f, ODD_BEAT_DEAD, path, "is %s", text);
	else if (owner_is_sealer(o->owner))
		fsck_found(f, ODD_SEALER, path, "is %s", text);
	else if (!is_seen(o))
		fsck_found(f, ODD_BEAT_SILENT, path, "is %s", text);
}

int
fsck_nodes(struct fsck *f, struct err *err)
{
	enum { BEAT_MS = 30000 }; /* of no consequence: nobody is judged by silence here */
	const char *wanted[1] = { "" };

	if (f->watched)
		return 0;
	f->watched = true;
	watch_init(&f->watch, &f->disk, queue_uuid(f->q), BEAT_MS);
	/* the first round looks at each of them, for none was seen to move before */
	int64_t due = watch_round(&f->watch, "", wanted, 0, false);
	if (due < 0 && due != -ENOENT)
		return err_set(err, (int)due, "nodes/: %s", strerror((int)-due));
	disk_list(&f->disk, "nodes", on_name, f);
	if (f->watch.n)
		qsort(f->watch.owners, f->watch.n, sizeof(*f->watch.owners), by_owner);
	for (size_t i = 0; i < f->watch.n; i++)
		tell(f, &f->watch.owners[i]);
	return 0;
}

bool
fsck_living(struct fsck *f, char *who, size_t size)
{
	for (size_t i = 0; i < f->watch.n; i++) {
		const struct watched *o = &f->watch.owners[i];

		if (!is_seen(o))
			continue;
		snprintf(who, size, "%s on %.40s, process %ld", o->owner, o->info.host,
			 o->info.pid);
		return true;
	}
	return false;
}

bool
fsck_has_beat(struct fsck *f, const char *owner)
{
	char path[DISK_PATH];
	struct disk_stat st;

	for (size_t i = 0; i < f->watch.n; i++)
		if (!strcmp(f->watch.owners[i].owner, owner))
			return true;
	/* it may have come since */
	snprintf(path, sizeof(path), "nodes/%s", owner);
	return disk_stat(&f->disk, path, &st) != -ENOENT;
}

bool
fsck_has_beats(const struct fsck *f)
{
	return f->watch.n > 0;
}
