/*
 * store.c - the generations of a task's checkpoints, and the marks beside them.
 */
#include <config.h>

#include "store.h"

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	KEEP = 2,
	BEGUN_MAX = 2,	     /* in a row */
	TEMPORARY_AGE = 3600, /* seconds without a write */
	LISTS_MAX = 5,	     /* looks at a store whose files vanish under us */
	MARKS_MAX = 64 * 1024,
	MARKS_NAME = CHECKPOINT_NAME + 8,
};

/* ---- marks ---- */

static int
open_store(const char *store)
{
	int fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Append a line in one write, so that it is there or not, also beside a zombie's. */
static int
mark(const char *store, const char *name, const char *word, unsigned attempt, const char *owner)
{
	char file[MARKS_NAME];
	char line[96];
	int dir = open_store(store);
	int rc;

	if (dir < 0)
		return dir;
	snprintf(file, sizeof(file), "%.*s.tried", CHECKPOINT_NAME - 1, name);
	int n = snprintf(line, sizeof(line), "%s %u.%.32s\n", word, attempt, owner);
	int fd = openat(dir, file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	rc = fd < 0 ? -errno : fchmod(fd, 0600) < 0 ? -errno : write_all(fd, line, (size_t)n);
	/* durable before what it announces: that may take the node down */
	if (!rc && (fsync(fd) < 0 || fsync(dir) < 0))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	close(dir);
	return rc;
}

static void
read_marks(int dir, struct generation *g)
{
	char file[MARKS_NAME];

	snprintf(file, sizeof(file), "%s.tried", g->name);
	int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(MARKS_MAX);
	ssize_t n = text ? read(fd, text, MARKS_MAX - 1) : -1;
	if (n >= 0)
		text[n] = '\0';
	/* a line without its end was cut by a full disk, or is being written */
	char *end;
	for (char *l = n > 0 ? text : NULL; l && (end = strchr(l, '\n')); l = end + 1) {
		l[strcspn(l, " \n")] = '\0';
		if (!strcmp(l, "begun")) {
			g->begun++;
			const char *by = l + strlen(l) + 1;
			snprintf(g->begun_by, sizeof(g->begun_by), "%.*s",
				 by < end ? (int)(end - by) : 0, by);
			continue;
		}
		g->begun = 0;
		if (!strcmp(l, "undone"))
			continue;
		g->damaged = !strcmp(l, "damaged");
		g->ok += !strcmp(l, "ok");
		g->failed += !strcmp(l, "failed");
	}
	free(text);
	if (fd >= 0)
		close(fd);
}

/* ---- generations ---- */

static int
newest_first(const void *a, const void *b)
{
	const struct generation *x = a;
	const struct generation *y = b;

	if (x->id.attempt != y->id.attempt)
		return x->id.attempt > y->id.attempt ? -1 : 1;
	if (x->id.number != y->id.number)
		return x->id.number > y->id.number ? -1 : 1;
	if (x->taken_ms != y->taken_ms)
		return x->taken_ms > y->taken_ms ? -1 : 1;
	return strcmp(y->name, x->name);
}

static int
add_generation(int dir, const char *name, struct generations *all)
{
	struct generation g = { 0 };
	struct stat st;

	if (!checkpoint_parse(name, &g.id))
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	snprintf(g.name, sizeof(g.name), "%s", name);
	g.taken_ms = mtime_ms(&st);
	g.size = st.st_size;
	read_marks(dir, &g);
	struct generation *grown = realloc(all->g, (all->n + 1) * sizeof(g));
	if (!grown)
		return -ENOMEM;
	all->g = grown;
	all->g[all->n++] = g;
	return 0;
}

int
store_list(const char *store, struct generations *all)
{
	*all = (struct generations){ 0 };
	DIR *d = opendir(store);
	int rc = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	for (;;) {
		errno = 0;
		const struct dirent *e = readdir(d);

		if (!e) {
			rc = -errno;
			break;
		}
		rc = add_generation(dirfd(d), e->d_name, all);
		if (rc)
			break;
	}
	closedir(d);
	if (all->n)
		qsort(all->g, all->n, sizeof(*all->g), newest_first);
	return rc;
}

void
store_free(struct generations *all)
{
	free(all->g);
	*all = (struct generations){ 0 };
}

const struct generation *
store_pick(const struct generations *all)
{
	const struct generation *best = NULL;

	/* from the oldest on: the first that is left may fail once more than those behind it */
	for (size_t i = all->n; i > 0; i--) {
		const struct generation *g = &all->g[i - 1];

		if (!g->unusable && g->begun < BEGUN_MAX && g->failed < (best ? 1 : 2))
			best = g;
	}
	return best;
}

const char *
store_state(const struct generation *g)
{
	if (g->damaged)
		return "damaged";
	if (g->begun >= BEGUN_MAX)
		return "fatal";
	if (g->failed)
		return "failed";
	return g->begun || g->ok ? "tried" : "good";
}

/* ---- restoring ---- */

static void __attribute__((format(printf, 2, 3)))
note_add(struct restore_result *r, const char *fmt, ...)
{
	va_list args;
	size_t len = strlen(r->note);

	if (len)
		len += (size_t)snprintf(r->note + len, sizeof(r->note) - len, "; ");
	va_start(args, fmt);
	if (len < sizeof(r->note))
		vsnprintf(r->note + len, sizeof(r->note) - len, fmt, args);
	va_end(args);
}

/* One look at the store, and the tries that follow from it. -EAGAIN: look again. */
static int
restore_from(struct generations *all, const char *store, int into, unsigned attempt,
	     const char *owner, int64_t limit, struct restore_result *r, struct err *err)
{
	int trouble = 0;

	for (;;) {
		const struct generation *best = store_pick(all);
		struct restore_result one;

		if (!best)
			break;
		struct generation *g = &all->g[best - all->g];
		/* a store that takes no mark may still be read */
		mark(store, g->name, "begun", attempt, owner);
		int rc = checkpoint_restore(store, g->name, into, limit, &one, err);
		if (!rc) {
			for (size_t i = 0; &all->g[i] != g; i++)
				if (!all->g[i].unusable)
					note_add(r, "%s was skipped: %s", all->g[i].name,
						 store_state(&all->g[i]));
			if (one.note[0])
				note_add(r, "%s", one.note);
			memcpy(one.note, r->note, sizeof(one.note));
			*r = one;
			r->fallbacks = (int)(g - all->g);
			return 0;
		}
		mark(store, g->name, rc == -EBADMSG ? "damaged" : "undone", attempt, owner);
		if (one.unreadable && (rc == -ENOENT || rc == -ESTALE))
			return -EAGAIN; /* pruned under our eyes */
		/* a limit that is lower now must not hold up the task for ever */
		if (rc != -EBADMSG && rc != -EFBIG && !one.unreadable)
			return rc;
		note_add(r, "%s was skipped: %s", g->name, err->text);
		g->unusable = true;
		g->damaged = rc == -EBADMSG;
		trouble = one.unreadable ? rc : trouble;
	}
	/* to start from nothing because the storage does not answer now would be a loss */
	if (trouble)
		return trouble;
	for (size_t i = 0; i < all->n; i++)
		if (!all->g[i].unusable)
			note_add(r, "%s was skipped: %s", all->g[i].name, store_state(&all->g[i]));
	return err_set(err, -ENOENT, "%s", all->n ? r->note : "there is no checkpoint");
}

int
store_restore(const char *store, const char *state, unsigned attempt, const char *owner,
	      int64_t limit, struct restore_result *result, struct err *err)
{
	struct err own = { "" };
	int rc = -EAGAIN;
	int into = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!err)
		err = &own;
	*result = (struct restore_result){ 0 };
	if (into < 0)
		return err_set(err, -errno, "%s: %s", state, strerror(errno));
	for (int i = 0; i < LISTS_MAX && rc == -EAGAIN; i++) {
		struct generations all;

		result->note[0] = '\0';
		rc = store_list(store, &all);
		if (rc)
			err_set(err, rc, "%s cannot be read: %s", store, strerror(-rc));
		else
			rc = restore_from(&all, store, into, attempt, owner, limit, result, err);
		store_free(&all);
	}
	close(into);
	return rc;
}

int
store_interrupted(const char *store, unsigned attempt, const char *owner)
{
	struct generations all;
	char by[sizeof(all.g->begun_by)];
	int rc = store_list(store, &all);

	snprintf(by, sizeof(by), "%u.%s", attempt, owner);
	for (size_t i = 0; !rc && i < all.n; i++)
		if (all.g[i].begun && !strcmp(all.g[i].begun_by, by))
			rc = mark(store, all.g[i].name, "undone", attempt, owner);
	store_free(&all);
	return rc;
}

int
store_settle(const char *store, const char *name, unsigned attempt, const char *owner,
	     enum store_verdict verdict)
{
	static const char *const words[] = {
		[STORE_OK] = "ok", [STORE_UNDONE] = "undone", [STORE_FAILED] = "failed"
	};
	struct generations all = { 0 };
	int rc = 0;

	if (verdict == STORE_FAILED) {
		rc = store_list(store, &all);
		if (rc || !all.n || strcmp(all.g[0].name, name) != 0) {
			/* it has got further than that, so the next one resumes from there */
			store_free(&all);
			return rc;
		}
	}
	store_free(&all);
	return mark(store, name, words[verdict], attempt, owner);
}

/* ---- pruning ---- */

static void
remove_file(int dir, const char *name, int *first)
{
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT && !*first)
		*first = -errno;
}

static bool
is_known_bad(const struct generation *g)
{
	return g->damaged || g->failed || g->begun >= BEGUN_MAX;
}

/* May this temporary file be removed? Its writer gives each write(2) a new mtime, so an hour
 * without one is a dead writer, or one that has stood still for so long that its task was taken
 * away; that one's rename fails, and with it only its checkpoint. The folder's own mtime is "now"
 * by the same clock or earlier: its latest change. */
static bool
is_left_behind(int dir, const char *name, unsigned attempt, const char *owner)
{
	struct checkpoint_id id;
	struct stat st;
	struct stat now;
	long pid;

	if (!checkpoint_parse_temporary(name, &id, &pid))
		return false;
	if (id.attempt == attempt && !strcmp(id.owner, owner))
		return true; /* our own, and we are not saving */
	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !fstat(dir, &now) &&
	       now.st_mtim.tv_sec - st.st_mtim.tv_sec > TEMPORARY_AGE;
}

/* Marks whose checkpoint is gone. */
static bool
is_orphan(int dir, const char *file)
{
	char name[MARKS_NAME];
	struct checkpoint_id id;
	struct stat st;
	size_t len = strlen(file);

	if (len < 7 || len >= sizeof(name) || strcmp(file + len - 6, ".tried") != 0)
		return false;
	memcpy(name, file, len - 6);
	name[len - 6] = '\0';
	return checkpoint_parse(name, &id) &&
	       fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int
store_prune(const char *store, unsigned attempt, const char *owner)
{
	struct generations all;
	size_t good = 0;
	int first = store_list(store, &all);
	bool whole = !first;
	DIR *d = opendir(store);

	for (size_t i = 0; d && whole && i < all.n; i++) {
		if (good >= KEEP)
			remove_file(dirfd(d), all.g[i].name, &first);
		else if (!is_known_bad(&all.g[i]))
			good++;
	}
	for (const struct dirent *e; d && (e = readdir(d));)
		if (is_left_behind(dirfd(d), e->d_name, attempt, owner) ||
		    is_orphan(dirfd(d), e->d_name))
			remove_file(dirfd(d), e->d_name, &first);
	if (d)
		closedir(d);
	store_free(&all);
	return first;
}

int
store_remove(const char *store)
{
	int dir = open_store(store);

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	int rc = folder_empty(dir);
	close(dir);
	if (rmdir(store) < 0 && errno != ENOENT && !rc)
		rc = -errno;
	return rc;
}
