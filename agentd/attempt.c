/*
 * attempt.c - folders and signs. Every attempt has a folder of its own under results/, named
 * after attempt and owner, so nobody who was late can overwrite a successor's.
 */
#include <config.h>

#include "attempt.h"

#include "clock.h"
#include "disk.h"
#include "folder.h"
#include "log.h"
#include "proc.h"
#include "result.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	UNLOCKED_S = 60, /* longer than anybody needs from mkdtemp() to its lock */
	SCRATCH_TRIES = 8,
};

static const char alive_suffix[] = ".alive";

double
wall_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Folders of other hosts are not ours to judge: where `local` is shared by mistake, their locks
 * may not be seen here. */
static void
scratch_prefix(char prefix[64])
{
	char host[33] = "";

	gethostname(host, sizeof(host) - 1);
	for (char *p = host; *p; p++)
		if (*p == '/' || *p == '.')
			*p = '-';
	snprintf(prefix, 64, "raser-agent.%s.", host);
}

static int
write_file(const char *path, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	int rc = write_all(fd, data, len);
	if (close(fd) < 0 && !rc)
		rc = -errno;
	return rc;
}

static int
make_dir(const char *path, mode_t mode)
{
	return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Whoever finds the lock free knows that nobody needs the folder any more. -EAGAIN: somebody found it
 * so before it was taken, and removes the folder. */
static int
lock_scratch(struct attempt *a)
{
	char path[PATH_MAX + 32];
	struct stat held;
	struct stat there;

	snprintf(path, sizeof(path), "%s/lock", a->scratch);
	a->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (a->lock_fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(a->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(a->lock_fd, &held) < 0)
		return -errno;
	return stat(path, &there) < 0 || there.st_ino != held.st_ino ? -EAGAIN : 0;
}

/* Make the scratch folder, and hold its lock. */
static int
make_scratch(struct attempt *a, const char *local)
{
	char prefix[64];
	int rc = -EAGAIN;

	scratch_prefix(prefix);
	for (int tries = 0; rc == -EAGAIN && tries < SCRATCH_TRIES; tries++) {
		if (a->lock_fd >= 0)
			close(a->lock_fd);
		a->lock_fd = -1;
		snprintf(a->scratch, sizeof(a->scratch), "%.3000s/%sXXXXXX", local, prefix);
		if (!mkdtemp(a->scratch)) {
			rc = -errno;
			log_warn("%s: no workspace can be made there", local);
			a->scratch[0] = '\0';
			return rc;
		}
		rc = lock_scratch(a);
	}
	return rc;
}

int
attempt_begin(struct attempt *a, const struct run_info *run, const struct lease_claim *c,
	      const char *local)
{
	*a = (struct attempt){ .log_fd = -1, .lock_fd = -1, .started = wall_now(),
			       .started_ms = now_read().boot_ms };
	int rc = make_scratch(a, local);
	if (!a->scratch[0])
		return rc;
	snprintf(a->state, sizeof(a->state), "%s/state", a->scratch);
	snprintf(a->work, sizeof(a->work), "%s/state/work", a->scratch);
	snprintf(a->home, sizeof(a->home), "%s/state/home", a->scratch);
	snprintf(a->task_file, sizeof(a->task_file), "%s/task.json", a->scratch);
	snprintf(a->control, sizeof(a->control), "%s/control", a->scratch);
	snprintf(a->results, sizeof(a->results), "%s/results/%s@%u.%s", run->run, c->name,
		 c->attempt, owner_random(c->owner));
	snprintf(a->out, sizeof(a->out), "%s/out", a->results);
	snprintf(a->log, sizeof(a->log), "%s/output.log", a->results);
	snprintf(a->store, sizeof(a->store), "%s/checkpoints/%s", run->run, c->name);
	if (!rc)
		rc = make_dir(a->state, 0700);
	if (!rc)
		rc = write_file(a->task_file, c->payload, c->size);
	if (!rc)
		rc = make_dir(a->results, 0777);
	if (!rc)
		rc = make_dir(a->out, 0777);
	if (!rc) {
		a->log_fd = open(a->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		rc = a->log_fd < 0 ? -errno : 0;
	}
	if (rc) {
		log_warnx("task %s@%u: %s or %s cannot be prepared: %s", c->name, c->attempt, a->scratch,
			  a->results, strerror(-rc));
		attempt_close(a);
		attempt_remove(a->scratch);
	}
	return rc;
}

/* ---- signs of life ---- */

void
attempt_alive(struct attempt *a, const struct lease_claim *c)
{
	char path[sizeof(a->alive)];

	if (a->alive[0] && utimensat(AT_FDCWD, a->alive, NULL, 0) == 0)
		return;
	/* the first one: short attempts never come here, and cost the store nothing */
	if (make_dir(a->store, 0700))
		return;
	/* when it began stands in the name: a file without content needs no room on a full disk */
	snprintf(path, sizeof(path), "%s/%u.%s.%.3f%s", a->store, c->attempt, owner_random(c->owner),
		 a->started, alive_suffix);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	close(fd);
	memcpy(a->alive, path, sizeof(a->alive));
}

/* "K.R.SECONDS.alive"; false when it is another file. */
static bool
parse_alive(const char *name, unsigned *attempt, double *began)
{
	char owner[32];
	char suffix[16];
	int used = 0;

	return sscanf(name, "%u.%31[a-z0-9].%lf%15s%n", attempt, owner, began, suffix, &used) == 4 &&
	       !name[used] && !strcmp(suffix, alive_suffix);
}

double
attempt_redo(const struct attempt *a, const struct lease_claim *c, double taken)
{
	DIR *d = opendir(a->store);
	struct stat st;
	unsigned newest = 0;
	double redo = -1;

	if (!d)
		return -1;
	for (const struct dirent *e; (e = readdir(d));) {
		unsigned k;
		double began;

		if (!parse_alive(e->d_name, &k, &began) || k >= c->attempt || k < newest ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		double ended = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9;
		newest = k;
		/* it began with that checkpoint itself, or made it */
		redo = ended - (taken > began ? taken : began);
	}
	closedir(d);
	return redo < 0 && newest ? 0 : redo;
}

/* ---- the end ---- */

void
attempt_renumber(struct attempt *a, const struct run_info *run, const struct lease_claim *c)
{
	char path[PATH_MAX + 600];

	/* the agent knows its folder by the old name, which stays */
	snprintf(path, sizeof(path), "%s/results/%s@%u.%s", run->run, c->name, c->attempt,
		 owner_random(c->owner));
	if (symlink(strrchr(a->results, '/') + 1, path) < 0 && errno != EEXIST)
		log_warn("%s", path);
	if (a->alive[0])
		unlink(a->alive);
	a->alive[0] = '\0';
	attempt_alive(a, c);
}

void
text_clean(char *text)
{
	json_t *good = json_string(text);

	for (char *p = text; !good && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	json_decref(good);
}

void
attempt_words(struct attempt *a)
{
	off_t size = lseek(a->log_fd, 0, SEEK_END);
	off_t from = size > (off_t)sizeof(a->tail) - 1 ? size - (off_t)sizeof(a->tail) + 1 : 0;
	ssize_t n = pread(a->log_fd, a->tail, sizeof(a->tail) - 1, from);

	while (n > 0 && (a->tail[n - 1] == '\n' || a->tail[n - 1] == ' '))
		n--;
	a->tail[n > 0 ? n : 0] = '\0';
	/* begin with a whole line where there is one */
	const char *whole = from ? strchr(a->tail, '\n') : NULL;
	if (whole)
		memmove(a->tail, whole + 1, strlen(whole));
	const char *line = strrchr(a->tail, '\n');
	snprintf(a->words, sizeof(a->words), "%.199s", line ? line + 1 : a->tail);
	/* evidence for people: no control bytes in messages and logs */
	for (char *p = a->words; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	text_clean(a->words);
	text_clean(a->tail);
}

int
attempt_sync(const struct attempt *a)
{
	char *const roots[] = { (char *)(uintptr_t)a->results, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	int rc = 0;

	if (!fts)
		return -errno;
	for (FTSENT *e; !rc && (e = fts_read(fts));) {
		if (e->fts_info != FTS_F && e->fts_info != FTS_DP)
			continue;
		int fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		/* what the agent made unreadable for itself is its own affair */
		if (fd >= 0 && fsync(fd) < 0 && errno != EINVAL)
			rc = -errno;
		if (fd >= 0)
			close(fd);
	}
	fts_close(fts);
	return rc;
}

void
attempt_accept(const struct attempt *a, const struct run_info *run, const struct lease_claim *c)
{
	if (result_accept(run->run, c->name, strrchr(a->results, '/') + 1, owner_random(c->owner)))
		log_warn("task %s: results/%s cannot point to its result", c->name, c->name);
}

void
attempt_close(struct attempt *a)
{
	if (a->log_fd >= 0)
		close(a->log_fd);
	if (a->lock_fd >= 0)
		close(a->lock_fd);
	a->log_fd = a->lock_fd = -1;
}

void
attempt_remove(const char *scratch)
{
	if (*scratch)
		folder_remove(scratch);
}

/* Nobody needs the scratch folder of that name any more. *lock is to be closed after its removal. */
static bool
is_stale(int dir, const char *name, int *lock)
{
	char path[300];
	struct stat st;

	*lock = -1;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    st.st_uid != geteuid())
		return false;
	snprintf(path, sizeof(path), "%.255s/lock", name);
	*lock = openat(dir, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (*lock < 0) /* its removal was cut, or it is being made this moment */
		return errno == ENOENT && (double)st.st_mtime < wall_now() - UNLOCKED_S;
	return flock(*lock, LOCK_EX | LOCK_NB) == 0;
}

void
attempt_sweep(const char *local)
{
	char prefix[64];
	char path[PATH_MAX];
	DIR *d = opendir(local);

	if (!d)
		return;
	scratch_prefix(prefix);
	for (const struct dirent *e; (e = readdir(d));) {
		int lock;

		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(path, sizeof(path), "%.3000s/%.255s", local, e->d_name);
		if (is_stale(dirfd(d), e->d_name, &lock)) {
			log_info("removing %s: its agentd is dead", path);
			folder_remove(path);
		}
		if (lock >= 0)
			close(lock);
	}
	closedir(d);
}
