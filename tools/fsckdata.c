/*
 * fsckdata.c - results without their link, links without their results, and
 * what nobody needs.
 */
#include <config.h>

#include "fsckdata.h"

#include "clock.h"
#include "folder.h"
#include "result.h"
#include "selftest.h"
#include "store.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- results of done tasks ---- */

/* Where a name in results/ leads to: itself, or what it points to. False when
 * it is not there. */
static bool
resolve(struct disk *disk, const char *name, char folder[DISK_PATH])
{
	char path[DISK_PATH];
	struct disk_stat st;

	snprintf(path, sizeof(path), "results/%.400s", name);
	/* an agent that was kept over several attempts has one folder: later names
   * are links to it */
	if (disk_readlink(disk, path, folder, DISK_PATH) < 0)
		snprintf(folder, DISK_PATH, "%.400s", name);
	snprintf(path, sizeof(path), "results/%.400s", folder);
	return !disk_stat(disk, path, &st);
}

/* By links or seals, not by a digest alone: below that a task may be made to run again. */
static void
saved_of_done(const struct fsck_data *d, const char *task)
{
	char path[DISK_PATH];
	char whole[PATH_MAX + DISK_PATH];
	struct disk_stat st;

	snprintf(path, sizeof(path), "checkpoints/%s", task);
	if (disk_stat(fsck_disk(d->f), path, &st) ||
	    !fsck_found(d->f, ODD_SAVED_DONE, path, "is left, but the task is done"))
		return;
	snprintf(whole, sizeof(whole), "%s/%s", d->run, path);
	fsck_mended(d->f, path, store_remove(whole), NULL);
}

void
data_done(void *arg, const struct task *t, unsigned attempt, const char *owner)
{
	const struct fsck_data *d = arg;
	struct disk *disk = fsck_disk(d->f);
	char name[DISK_PATH];
	char path[DISK_PATH];
	char shown[DISK_PATH];
	char accepted[DISK_PATH];

	snprintf(path, sizeof(path), "results/%s", t->name);
	snprintf(name, sizeof(name), "%s@%u.%s", t->name, attempt, owner_random(owner));
	saved_of_done(d, t->name);
	int rc = disk_readlink(disk, path, shown, sizeof(shown));
	if (!*owner || (rc < 0 && rc != -ENOENT))
		return;
	bool there = resolve(disk, name, accepted);
	if (rc < 0 && there) {
		if (fsck_found(d->f, ODD_RESULT_NONE, path,
			       "is missing, but %s@%u is done and its "
			       "result is in results/%s",
			       t->name, attempt, accepted))
			fsck_mended(d->f, path,
				    result_accept(d->run, t->name, accepted, owner_random(owner)),
				    NULL);
	} else if (rc >= 0 && there && strcmp(shown, accepted) != 0) {
		if (fsck_found(d->f, ODD_RESULT_WRONG, path,
			       "points to %s, but %s@%u was accepted, whose "
			       "result is in results/%s",
			       shown, t->name, attempt, accepted))
			fsck_mended(d->f, path,
				    result_accept(d->run, t->name, accepted, owner_random(owner)),
				    NULL);
	} else if (rc >= 0 && !there) {
		fsck_found(d->f, ODD_RESULT_GONE, path,
			   "points to %s, but results/%s, which was "
			   "accepted, is not there",
			   shown, accepted);
	}
}

/* ---- leftovers ---- */

static void
leftover(const struct fsck_data *d, const char *path, const char *what)
{
	char whole[PATH_MAX + DISK_PATH];
	struct disk_stat st;

	if (!fsck_is_old(d->f, path)) {
		fsck_found(d->f, ODD_LEFTOVER_YOUNG, path, "is %s", what);
		return;
	}
	if (!fsck_found(d->f, ODD_LEFTOVER, path, "is %s", what))
		return;
	snprintf(whole, sizeof(whole), "%s/%s", d->run, path);
	folder_remove(whole);
	fsck_mended(d->f, path, disk_stat(fsck_disk(d->f), path, &st) == -ENOENT ? 0 : -EIO,
		    "it cannot be removed");
}

static bool
has_prefix(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

static int
on_root(void *arg, const char *name)
{
	if (has_prefix(name, SELFTEST_PREFIX))
		leftover(arg, name, "a scratch directory of raser doctor, raser init or a mount");
	else if (has_prefix(name, "raser-batch."))
		leftover(arg, name, "a submission that was being read");
	return 0;
}

static int
on_sealed(void *arg, const char *name)
{
	char path[DISK_PATH];

	snprintf(path, sizeof(path), "sealed/%.255s", name);
	if (has_prefix(name, "tmp."))
		leftover(arg, path, "an archive that was being written");
	return 0;
}

/* ---- results/ ---- */

/* "T@k.r", or "T"; the length of T. 0 when it is neither. */
static size_t
result_task(const char *name, bool *attempt)
{
	const char *at = strchr(name, '@');
	char r[32];
	unsigned k;
	int used = 0;

	*attempt = at != NULL;
	if (!at)
		return strlen(name) <= NAME_LIMIT ? strlen(name) : 0;
	if (sscanf(at, "@%u.%31[a-z2-7]%n", &k, r, &used) != 2 || at[used])
		return 0;
	return at - name <= NAME_LIMIT ? (size_t)(at - name) : 0;
}

/* The task of that name. Where somebody works it may have been submitted since.
 */
static bool
find_task(struct fsck_data *d, const char *name, struct task *t)
{
	enum { AGAIN_MS = 1000 };
	struct now now = now_read();

	if (!queue_find(fsck_queue(d->f), name, t))
		return true;
	if (!fsck_has_beats(d->f) || now.boot_ms < d->refreshed + AGAIN_MS)
		return false;
	queue_refresh(fsck_queue(d->f), now, 1, 1);
	d->refreshed = now_read().boot_ms;
	return !queue_find(fsck_queue(d->f), name, t);
}

/* The attempt whose folder is named is done, by its links: it may be since. */
static bool
is_done_now(const struct fsck_data *d, const struct task *t, const char *folder)
{
	const char *at = strchr(folder, '@');
	char bay[DISK_PATH];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	struct end end;
	unsigned k;

	if (!at || sscanf(at, "@%u.", &k) != 1 || !queue_bay(fsck_queue(d->f), t->serial, bay))
		return false;
	link_path(path, bay, t->name, k, LINK_END);
	return !chain_read(fsck_disk(d->f), path, text) && end_parse(text, &end) &&
	       end.outcome == END_DONE;
}

static int
on_result(void *arg, const char *name)
{
	struct fsck_data *d = arg;
	char path[DISK_PATH];
	char text[DISK_PATH];
	char task[NAME_LIMIT + 1];
	struct task t;
	bool attempt;

	snprintf(path, sizeof(path), "results/%.255s", name);
	if (has_prefix(name, SELFTEST_PREFIX) && !strchr(name, '@')) {
		leftover(d, path, "a scratch directory of raser doctor, raser init or a mount");
		return 0;
	}
	if (result_is_temporary(name)) {
		leftover(d, path, "a link that was being made");
		return 0;
	}
	size_t len = result_task(name, &attempt);
	if (!len || name[0] == '.') {
		fsck_found(d->f, ODD_RESULT_FOREIGN, path, "is not of raserfs");
		return 0;
	}
	memcpy(task, name, len);
	task[len] = '\0';
	if (!find_task(d, task, &t))
		fsck_found(d->f, ODD_RESULT_ORPHAN, path, "is of task %s, which no batch has",
			   task);
	else if (!attempt && t.state != TASK_DONE &&
		 disk_readlink(fsck_disk(d->f), path, text, sizeof(text)) >= 0 &&
		 !is_done_now(d, &t, text))
		fsck_found(d->f, ODD_RESULT_NOT_DONE, path,
			   "points to %s, but the task is not done", text);
	return 0;
}

/* ---- checkpoints/ ---- */

struct store_look {
	const struct fsck_data *d;
	const char *task;
};

static int
on_saved(void *arg, const char *name)
{
	const struct store_look *s = arg;
	struct checkpoint_id id;
	char path[DISK_PATH];
	long pid;

	if (!checkpoint_parse_temporary(name, &id, &pid))
		return 0;
	snprintf(path, sizeof(path), "checkpoints/%.230s/%.200s", s->task, name);
	leftover(s->d, path, "a checkpoint that was being written");
	return 0;
}

static int
on_store(void *arg, const char *name)
{
	struct fsck_data *d = arg;
	struct store_look s = { d, name };
	char path[DISK_PATH];
	struct task t;

	snprintf(path, sizeof(path), "checkpoints/%.255s", name);
	if (name[0] == '.' || strlen(name) > NAME_LIMIT || strchr(name, '@')) {
		fsck_found(d->f, ODD_SAVED_FOREIGN, path, "is not of raserfs");
	} else if (!find_task(d, name, &t)) {
		fsck_found(d->f, ODD_SAVED_ORPHAN, path, "is of a task that no batch has");
	} else {
		disk_list(fsck_disk(d->f), path, on_saved, &s);
	}
	return 0;
}

int
data_check(struct fsck_data *d, struct err *err)
{
	static const struct {
		const char *dir;
		disk_entry_fn *fn;
	} dirs[] = {
		{ "results", on_result },
		{ "checkpoints", on_store },
		{ "sealed", on_sealed },
		{ ".", on_root },
	};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		int rc = disk_list(fsck_disk(d->f), dirs[i].dir, dirs[i].fn, d);

		if (rc && rc != -ENOENT)
			return err_set(err, rc, "%s/: %s", dirs[i].dir, strerror(-rc));
	}
	return 0;
}
