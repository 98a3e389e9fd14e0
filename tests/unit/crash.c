/*
 * crash.c - a writer that dies at any byte and any call, and storage that fails at any call: the
 * older generation stays usable, and the errno is told.
 *
 * The calls that write a checkpoint are replaced by the linker (--wrap), so that each can fail,
 * or be the last one.
 */
#include <config.h>

#include "store.h"
#include "tap.h"
#include "trees.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char store[300];
static char state[300];
static char into[300];
static char older[CHECKPOINT_NAME];

/* ---- calls that fail ---- */

enum { NEVER = -1, DIE = -1, CORRUPT = -2 };

/* The call that strikes is counted down to; only in the process that saves, in whichever thread. */
static _Atomic int calls_left = NEVER;
static int strike; /* an errno, DIE, or CORRUPT */
static bool struck_at_write;

/* the linker wants these names */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
ssize_t
__real_write(int fd, const void *data, size_t size);
ssize_t
__wrap_write(int fd, const void *data, size_t size);
int
__real_fsync(int fd);
int
__wrap_fsync(int fd);
int
__real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int
__wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int
__real_futimens(int fd, const struct timespec times[2]);
int
__wrap_futimens(int fd, const struct timespec times[2]);
ssize_t
__real_pread(int fd, void *buf, size_t size, off_t offset);
ssize_t
__wrap_pread(int fd, void *buf, size_t size, off_t offset);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* The next read of a file of this size finds that somebody has cut it. */
static off_t cut_size = -1;

ssize_t
__wrap_pread(int fd, void *buf, size_t size, off_t offset)
{
	struct stat st;

	if (cut_size < 0 || fstat(fd, &st) || st.st_size != cut_size)
		return __real_pread(fd, buf, size, offset);
	cut_size = -1;
	return 0;
}

/* True when this call is to fail; does not come back when it is the last one. */
static bool
strikes(void)
{
	if (calls_left == NEVER || calls_left-- != 0)
		return false;
	calls_left = NEVER;
	if (strike == DIE)
		raise(SIGKILL);
	if (strike > 0)
		errno = strike;
	return true;
}

ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
	if (calls_left == 0 && strike != CORRUPT && size > 1) {
		/* half of it gets there */
		struck_at_write = true;
		if (__real_write(fd, data, size / 2) < 0)
			abort();
	}
	return strikes() ? -1 : __real_write(fd, data, size);
}

int
__wrap_fsync(int fd)
{
	if (!strikes())
		return __real_fsync(fd);
	if (strike != CORRUPT)
		return -1;
	/* a disk that says yes and writes something else */
	char byte;
	if (pread(fd, &byte, 1, 1000) != 1)
		return 0;
	byte ^= 1;
	return pwrite(fd, &byte, 1, 1000) == 1 ? __real_fsync(fd) : -1;
}

int
__wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return strikes() ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int
__wrap_futimens(int fd, const struct timespec times[2])
{
	return strikes() ? -1 : __real_futimens(fd, times);
}

/* ---- a store with an older generation ---- */

static int
save(unsigned number, struct checkpoint_result *r, struct err *e)
{
	struct checkpoint_spec s = { .store = store, .state = state, .attempt = 1, .owner = "one",
				     .number = number, .taken_ms = 1700000000123 };

	return checkpoint_save(&s, r, e);
}

/* One generation, the first; the workspace is as in it. */
static void
begin(const char *dir)
{
	struct checkpoint_result r;
	struct err e = { "" };

	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(into, sizeof(into), "%s/into", dir);
	mkdir(into, 0700);
	make_plain_tree(state, 30, 100000, 11); /* some writes of a megabyte */
	if (save(1, &r, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	snprintf(older, sizeof(older), "%s", r.name);
}

static void
end(void)
{
	folder_remove(store);
	folder_remove(state);
	folder_remove(into);
}

/* What is in the store can be resumed from and is the workspace; then only the first is left. */
static bool
is_usable(bool may_be_newer)
{
	struct restore_result r;
	struct err e = { "" };
	int rc = store_restore(store, into, 2, "two", 0, &r, &e);
	bool good = !rc && !r.fallbacks && same_trees(state, into);

	if (!may_be_newer && strcmp(r.name, older) != 0)
		good = false;
	if (!good)
		diag("%d %s, %s instead of %s", rc, e.text, r.name, older);
	int fd = open(into, O_RDONLY | O_DIRECTORY);
	folder_empty(fd);
	close(fd);
	store_prune(store, 1, "one");
	if (count_names(store, "tmp.")) {
		diag("a temporary file was not removed");
		good = false;
	}
	struct generations all;
	if (!store_list(store, &all))
		for (size_t i = 0; i < all.n; i++)
			if (strcmp(all.g[i].name, older) != 0)
				unlink(at(store, all.g[i].name));
	store_free(&all);
	/* and no marks, since a restore leaves one each time */
	char marks[CHECKPOINT_NAME + 8];
	snprintf(marks, sizeof(marks), "%s.tried", older);
	unlink(at(store, marks));
	store_prune(store, 1, "one");
	return good;
}

/* ---- death ---- */

static int
save_child(void *arg)
{
	struct checkpoint_result r;
	struct err e = { "" };

	(void)arg;
	return save(2, &r, &e) ? 2 : 0;
}

static void
death_at_calls(void)
{
	int deaths = 0;
	bool good = true;
	int call = 0;

	for (; call < 100; call++) {
		calls_left = call;
		strike = DIE;
		int rc = in_child(save_child, NULL, false);
		calls_left = NEVER;
		good = is_usable(true) && good;
		if (rc == 0)
			break; /* there was no such call any more */
		deaths += rc == -1;
	}
	ok(good && deaths == call && call >= 7, "death in the middle of each of %d calls", deaths);
}

struct byte_limit {
	rlim_t bytes;
};

static int
limited_child(void *arg)
{
	const struct byte_limit *l = arg;
	const struct rlimit limit = { l->bytes, l->bytes };
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &limit); /* SIGXFSZ ends us as soon as a file would be longer */
	return save_child(NULL);
}

static void
death_at_bytes(void)
{
	struct stat st;
	int deaths = 0;
	int tried = 0;
	bool good = true;

	if (stat(at(store, older), &st))
		st.st_size = 1;
	for (off_t b = 0; b < st.st_size; b += b < 8 ? 1 : st.st_size / 50) {
		struct byte_limit l = { (rlim_t)b };

		deaths += in_child(limited_child, &l, false) == -1;
		good = is_usable(false) && good;
		tried++;
	}
	ok(good && deaths == tried && tried > 50, "death at each of %d byte counts", tried);
}

static void
death_at_times(void)
{
	int deaths = 0;
	bool good = true;

	srandom(1);
	for (int i = 0; i < 40; i++) {
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0)
			_exit(save_child(NULL));
		/* any time will do, so nothing is waited for */
		const struct timespec pause = { .tv_nsec = random() % 30000000 };
		ppoll(NULL, 0, &pause, NULL);
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		deaths += WIFSIGNALED(status);
		good = is_usable(true) && good;
	}
	ok(good && deaths > 0, "death at random times, %d of 40 before the end", deaths);
}

/* ---- errors ---- */

static void
errors_at_calls(void)
{
	static const int codes[] = { ENOSPC, EDQUOT, EIO };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		bool good = true;
		int call = 0;

		for (; call < 100 && good; call++) {
			struct checkpoint_result r;
			struct err e = { "" };

			calls_left = call;
			strike = codes[i];
			struck_at_write = false;
			int rc = save(2, &r, &e);
			bool struck = calls_left == NEVER;
			calls_left = NEVER;
			if (!struck) { /* there was no such call any more */
				good = !rc && is_usable(true);
				break;
			}
			/* only when the folder's sync fails, the last call, the new one is there */
			int n = count_names(store, "");
			good = rc == -codes[i] && strstr(e.text, strerror(codes[i])) && !r.name[0] &&
			       (n == 1 || (n == 2 && !struck_at_write)) && is_usable(n == 2);
			if (!good)
				diag("call %d: %d %s, %d files", call, rc, e.text, n);
		}
		ok(good && call >= 7, "%s at each of %d calls is told, and nothing is left",
		   strerror(codes[i]), call);
	}
}

static void
lying_disk(void)
{
	struct err seen = { "" };
	bool good = true;

	/* one of the calls is the sync of the file */
	for (int call = 0; call < 10; call++) {
		struct checkpoint_result r;
		struct err e = { "" };

		calls_left = call;
		strike = CORRUPT;
		if (save(2, &r, &e) == -EIO && count_names(store, "") == 1)
			seen = e;
		calls_left = NEVER;
		good = is_usable(true) && good;
	}
	ok(strstr(seen.text, "read back") && good, "a disk that lies is found out by reading back: %s",
	   seen.text);
}

/* ---- files that change ---- */

static void
cut_files(void)
{
	struct checkpoint_result r;
	struct restore_result got = { 0 };
	struct err e = { "" };
	char sparse[320];
	int good = 0;

	folder_remove(state);
	make_plain_tree(state, 2, 1000, 3);
	snprintf(sparse, sizeof(sparse), "%s/sparse", state);
	for (int i = 0; i < 3; i++) {
		/* one with data, one with a hole before it, one with a hole behind it */
		static const off_t sizes[] = { 4, (1 << 20) + 4, 1 << 20 };
		int fd = open(sparse, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		bool made = pwrite(fd, "data", 4, i == 1 ? 1 << 20 : 0) == 4 &&
			    !ftruncate(fd, sizes[i]);

		close(fd);
		cut_size = sizes[i];
		int rc = save(9, &r, &e);
		if (made && !rc && strstr(r.note, "sparse (cut meanwhile)"))
			rc = checkpoint_verify(store, r.name, &got, &e);
		good += !rc && cut_size < 0 && got.files == r.files;
		diag("%d %s; %s", rc, e.text, r.note);
		cut_size = -1;
		unlink(at(store, r.name));
	}
	ok(good == 3, "a file that is cut while it is read spoils nothing else, %d of 3", good);
}

/* ---- a real full disk ---- */

static int
full_disk(void *arg)
{
	struct checkpoint_result r;
	struct restore_result got;
	struct err e = { "" };
	const char *dir = arg;

	if (!private_mounts() || mount("tmpfs", dir, "tmpfs", 0, "size=8m"))
		return 77;
	begin(dir); /* 3 MB, and 3 MB of archive */
	int rc = save(2, &r, &e);
	diag("save: %s", e.text);
	if (rc != -ENOSPC || count_names(store, "") != 1)
		return 1;
	rc = store_restore(store, into, 2, "two", 0, &got, &e);
	diag("restore: %s", e.text);
	if (rc != -ENOSPC || !is_empty(into))
		return 2;
	folder_remove(state);
	rc = store_restore(store, into, 2, "two", 0, &got, &e);
	if (rc || count_names(into, "file") != 30)
		return 3;
	umount2(dir, MNT_DETACH);
	return 0;
}

int
main(void)
{
	char dir[300];

	log_init("crash.t", LOG_NOTHING);
	snprintf(dir, sizeof(dir), "%s/run", scratch_dir());
	mkdir(dir, 0700);
	begin(dir);
	death_at_calls();
	death_at_bytes();
	death_at_times();
	errors_at_calls();
	lying_disk();
	cut_files();
	end();
	snprintf(dir, sizeof(dir), "%s/full", scratch_dir());
	mkdir(dir, 0700);
	int rc = in_child(full_disk, dir, false);
	if (rc == 77 && !getenv("RASER_MUST_RUN"))
		skip(1, "no file system can be mounted here");
	else
		ok(!rc, "a disk that is full: saving and restoring say so, and leave nothing (%d)", rc);
	return done_testing();
}
