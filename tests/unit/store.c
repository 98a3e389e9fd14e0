/*
 * store.c - generations: which one is resumed from after what, pruning, fingerprints, clones.
 */
#include <config.h>

#include "store.h"
#include "tap.h"
#include "trees.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char store[300];
static char state[300];
static char into[300];

static void
empty_into(void)
{
	folder_remove(into);
	mkdir(into, 0700);
}

/* Save the state as it is now, with a file that tells which one it is. */
static int
save(unsigned attempt, const char *owner, unsigned number, char name[CHECKPOINT_NAME])
{
	struct checkpoint_result r;
	struct err e = { "" };
	char text[64];
	int n = snprintf(text, sizeof(text), "%u.%s-%u", attempt, owner, number);
	struct checkpoint_spec s = { .store = store, .state = state, .attempt = attempt,
				     .owner = owner, .number = number,
				     .taken_ms = 1000 * (1700000000LL + number) };

	put_file(at(state, "which"), text, (size_t)n, 0600);
	int rc = checkpoint_save(&s, &r, &e);
	if (rc)
		diag("save: %s", e.text);
	snprintf(name, CHECKPOINT_NAME, "%s", r.name);
	return rc;
}

/* Restore as attempt 9 does, and compare which one it was; "": none. */
static bool
resumes(const char *which, int fallbacks)
{
	struct restore_result r;
	struct err e = { "" };
	char text[64] = "";

	empty_into();
	int rc = store_restore(store, into, 9, "nine", 0, &r, &e);
	int fd = open(at(into, "which"), O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	if (strcmp(text, which) != 0 || (rc == 0) != (*which != '\0') || (!rc && r.fallbacks != fallbacks)) {
		diag("%d %s: got %s with %d fallbacks; %s; wanted %s", rc, e.text, text, r.fallbacks,
		     r.note, which);
		return false;
	}
	if (r.note[0])
		diag("%s", r.note);
	return true;
}

static void
new_store(const char *name)
{
	snprintf(store, sizeof(store), "%s/%s", scratch_dir(), name);
	folder_remove(store);
}

static void
put_marks(const char *name, const char *marks)
{
	char file[CHECKPOINT_NAME + 16];

	snprintf(file, sizeof(file), "%s.tried", name);
	put_file(at(store, file), marks, strlen(marks), 0600);
}

/* Files that have the names of checkpoints, and marks; the choice reads no more. */
static void
choices(void)
{
	static const char hash[] = "0123456789abcdef";
	static const struct {
		const char *what, *marks[3]; /* of the newest, the second, the oldest; NULL: not there */
		int pick;		     /* -1: none */
	} cases[] = {
		{ "no store", { NULL }, -1 },
		{ "one, never tried", { "" }, 0 },
		{ "three", { "", "", "" }, 0 },
		{ "begun once", { "begun 2.a\n", "" }, 0 },
		{ "begun twice: it kills", { "begun 2.a\nbegun 3.b\n", "" }, 1 },
		{ "also the only one", { "begun 2.a\nbegun 3.b\n" }, -1 },
		{ "begun and ok any number of times",
		  { "begun 2.a\nok 2.a\nbegun 3.b\nok 3.b\nbegun 4.c\n", "" }, 0 },
		{ "ok, then begun twice", { "begun 2.a\nok 2.a\nbegun 3.b\nbegun 4.c\n", "" }, 1 },
		{ "begun and undone is nothing",
		  { "begun 2.a\nundone 2.a\nbegun 3.b\nundone 3.b\nbegun 4.c\n", "" }, 0 },
		{ "failed once, with an older one", { "begun 2.a\nok 2.a\nfailed 2.a\n", "" }, 1 },
		{ "failed once, the only one", { "begun 2.a\nok 2.a\nfailed 2.a\n" }, 0 },
		{ "failed twice, the only one", { "failed 2.a\nfailed 3.b\n" }, -1 },
		{ "both failed once: the older one again", { "failed 2.a\n", "failed 3.b\n" }, 1 },
		{ "the older one twice: the newer one again", { "failed 2.a\n", "failed 3.b\nfailed 4.c\n" }, 0 },
		{ "both twice", { "failed 2.a\nfailed 5.d\n", "failed 3.b\nfailed 4.c\n" }, -1 },
		{ "the oldest kills: the second is the last", { "failed 2.a\n", "failed 3.b\n",
							       "begun 4.c\nbegun 5.d\n" }, 1 },
		{ "marked as damaged: that is looked at again", { "begun 2.a\ndamaged 2.a\n", "" }, 0 },
		{ "a cut line is no line", { "begun 2.a\nbegun 3.b", "" }, 0 },
		{ "a word from the future", { "begun 2.a\nwhatever 2.a\nbegun 3.b\n", "" }, 0 },
		{ "an empty line", { "\n\nbegun 2.a\nbegun 3.b\n", "" }, 1 },
	};
	char names[3][CHECKPOINT_NAME];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct generations all;

		new_store("choices");
		for (int k = 0; k < 3 && cases[i].marks[k]; k++) {
			mkdir(store, 0700);
			snprintf(names[k], sizeof(names[k]), "1.own-%d.%s.tar.zst", 10 - k, hash);
			put_file(at(store, names[k]), "", 0, 0600);
			if (*cases[i].marks[k])
				put_marks(names[k], cases[i].marks[k]);
		}
		int rc = store_list(store, &all);
		const struct generation *g = store_pick(&all);
		ok(!rc && (cases[i].pick < 0 ? !g : g && !strcmp(g->name, names[cases[i].pick])),
		   "%s: %s", cases[i].what, g ? g->name : "none");
		store_free(&all);
	}
}

static void
order(void)
{
	static const char *const names[] = {
		"10.b-1.0000000000000001.tar.zst", "9.z-11.0000000000000002.tar.gz",
		"9.z-2.0000000000000003.tar.zst", "2.a-99.0000000000000004.tar.zst",
	};
	static const char *const others[] = { "tmp.10.b-2.77", "README", "10.b-3.tar.zst", ".hidden",
					      "10.b-1.0000000000000001.tar.zst.tried" };
	struct generations all;
	bool right = true;

	new_store("order");
	mkdir(store, 0700);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		put_file(at(store, others[i]), "", 0, 0600);
	for (size_t i = 4; i > 0; i--)
		put_file(at(store, names[i - 1]), "", 0, 0600);
	mkdir(at(store, "11.b-1.0000000000000001.tar.zst"), 0700);
	ok(!store_list(store, &all) && all.n == 4, "what is a generation");
	for (size_t i = 0; i < all.n; i++)
		right = right && !strcmp(all.g[i].name, names[i]);
	ok(right, "attempts count first, then numbers, and as numbers");
	store_free(&all);
}

static void
lives(void)
{
	char name[4][CHECKPOINT_NAME];
	struct restore_result r;
	struct err e = { "" };

	new_store("lives");
	empty_into();
	ok(store_restore(store, into, 9, "nine", 0, &r, &e) == -ENOENT, "no store: %s", e.text);
	ok(!save(1, "one", 1, name[0]) && !save(1, "one", 2, name[1]) && !save(2, "two", 1, name[2]),
	   "three generations");
	ok(resumes("2.two-1", 0), "the newest");
	ok(!store_settle(store, name[2], 9, "nine", STORE_OK) && resumes("2.two-1", 0) &&
		   !store_settle(store, name[2], 9, "nine", STORE_OK) && resumes("2.two-1", 0),
	   "as long as agents start from it");
	ok(resumes("2.two-1", 0) == true && resumes("1.one-2", 1),
	   "two restores in a row without an agent: the older one");
	ok(!store_settle(store, name[1], 9, "nine", STORE_OK) &&
		   !store_settle(store, name[1], 9, "nine", STORE_FAILED) && resumes("1.one-2", 1),
	   "a failure does not count against one that is not the newest");
	new_store("lives");
	save(1, "one", 1, name[0]);
	save(1, "one", 2, name[1]);
	ok(resumes("1.one-2", 0) && !store_settle(store, name[1], 9, "nine", STORE_OK) &&
		   !store_settle(store, name[1], 9, "nine", STORE_FAILED) && resumes("1.one-1", 1),
	   "the resumed attempt failed before it saved anything: the older one");
	/* a damaged one */
	int fd = open(at(store, name[0]), O_WRONLY);
	ok(fd >= 0 && pwrite(fd, "XXXX", 4, 100) == 4 && resumes("1.one-2", 0),
	   "that is damaged: the newer one is the last that is left");
	close(fd);
	struct generations all;
	ok(!store_list(store, &all) && !strcmp(store_state(&all.g[1]), "damaged") &&
		   !strcmp(store_state(&all.g[0]), "failed"),
	   "and is remembered as damaged");
	store_free(&all);
	ok(!store_settle(store, name[1], 9, "nine", STORE_FAILED) && resumes("", 0),
	   "which may fail twice; then the attempt starts from nothing");
	save(9, "nine", 1, name[2]);
	ok(resumes("9.nine-1", 0), "a new one is the newest again");
	/* trouble that is not the checkpoint's */
	new_store("lives");
	save(1, "one", 1, name[0]);
	empty_into();
	for (int i = 0; i < 5; i++)
		if (store_restore(store, into, 9, "nine", 100, &r, &e) != -EFBIG || !is_empty(into))
			diag("%s", e.text);
	ok(resumes("1.one-1", 0), "errors of other causes do not count: %s", e.text);
	unlink(at(store, name[0]));
	mkdir(at(store, name[0]), 0700);
	empty_into();
	ok(store_restore(store, into, 9, "nine", 0, &r, &e) == -ENOENT, "not a file: none");
	rmdir(at(store, name[0]));
	ok(!store_remove(store) && access(store, F_OK) < 0 && !store_remove(store),
	   "removed, and again");
}

static int
unreadable(void *arg)
{
	char name[CHECKPOINT_NAME];
	struct restore_result r;
	struct err e = { "" };

	snprintf(store, sizeof(store), "%s/store", (const char *)arg);
	snprintf(state, sizeof(state), "%s/state", (const char *)arg);
	snprintf(into, sizeof(into), "%s/into", (const char *)arg);
	mkdir(state, 0700);
	empty_into();
	int rc = save(1, "one", 1, name);
	chmod(at(store, name), 0);
	if (!rc)
		rc = store_restore(store, into, 9, "nine", 0, &r, &e);
	folder_remove(store);
	folder_remove(state);
	folder_remove(into);
	return rc == -EACCES ? 0 : 1;
}

static void
pruning(void)
{
	char name[6][CHECKPOINT_NAME];
	struct generations all;
	struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };

	new_store("pruning");
	ok(store_prune(store, 1, "one") == 0, "no store");
	for (unsigned i = 0; i < 5; i++)
		save(1, "one", i + 1, name[i]);
	put_marks(name[0], "begun 2.x\n");
	put_marks(name[4], "failed 2.x\n");
	put_file(at(store, "tmp.1.one-9.999"), "mine", 4, 0600);
	put_file(at(store, "tmp.1.other-9.999"), "fresh", 5, 0600);
	put_file(at(store, "tmp.7.other-9.999"), "old", 3, 0600);
	utimensat(AT_FDCWD, at(store, "tmp.7.other-9.999"), old, 0);
	put_file(at(store, "notes"), "not ours", 8, 0600);
	utimensat(AT_FDCWD, at(store, "notes"), old, 0);
	put_marks("1.one-1.0123456789abcdef.tar.zst", "begun 1.a\n");
	ok(!store_prune(store, 1, "one"), "pruned");
	ok(!store_list(store, &all) && all.n == 3 && !strcmp(all.g[0].name, name[4]) &&
		   !strcmp(all.g[1].name, name[3]) && !strcmp(all.g[2].name, name[2]),
	   "two that are not known to be bad stay, and what is newer");
	store_free(&all);
	ok(count_names(store, "tmp.") == 1 && count_names(store, "tmp.1.other") == 1,
	   "temporary files: our own and old ones go, one that may be written stays");
	ok(count_names(store, "notes") == 1 && count_names(store, "1.one-1.") == 0,
	   "marks go with their checkpoint, what is not ours stays");
	save(2, "two", 1, name[5]);
	ok(!store_prune(store, 2, "two") && !store_list(store, &all) && all.n == 3 &&
		   !strcmp(all.g[2].name, name[3]),
	   "a later attempt's counts first");
	store_free(&all);
	save(1, "one", 7, name[0]);
	ok(!store_prune(store, 1, "one") && resumes("2.two-1", 0),
	   "a zombie that saves and prunes takes nothing of its successor's");
	store_remove(store);
}

/* Let the clock of file times go on, which may stand for 10 ms. */
static void
next_tick(void)
{
	struct timespec a;
	struct timespec b;

	clock_gettime(CLOCK_REALTIME_COARSE, &a);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &b);
	while (a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec);
}

static void
stamps(void)
{
	uint64_t a = folder_stamp(state);

	ok(a && folder_stamp(state) == a, "a fingerprint");
	put_file(at(state, "new"), "n", 1, 0600);
	uint64_t b = folder_stamp(state);
	ok(b && b != a, "changes with a new file");
	next_tick();
	put_file(at(state, "new"), "m", 1, 0600);
	uint64_t c = folder_stamp(state);
	ok(c != b, "with new content of the same size");
	rename(at(state, "new"), at(state, "old"));
	ok(folder_stamp(state) != c, "with a name");
	c = folder_stamp(state);
	chmod(at(state, "old"), 0644);
	ok(folder_stamp(state) != c, "with a mode");
	c = folder_stamp(state);
	mkdir(at(state, "sub"), 0700);
	put_file(at(state, "sub/x"), "n", 1, 0600);
	ok(folder_stamp(state) != c, "below a directory");
	c = folder_stamp(state);
	ok(folder_stamp(state) == c && !folder_stamp(at(state, "nothing")), "and not without a change");
	unlink(at(state, "old"));
}

/* ---- clones ---- */

static bool __attribute__((format(printf, 1, 2)))
run(const char *fmt, ...)
{
	char command[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	return system(command) == 0; /* NOLINT(cert-env33-c): a test's own words */
}

/* 0: right, 1: wrong, 77: cannot be tried here */
static int
clone_on(void *arg)
{
	const char *fs = arg;
	char image[300];
	char dir[300];
	char odd[320];
	char copy[320];
	struct err e = { "" };
	struct checkpoint_result a;
	struct checkpoint_result b;

	snprintf(image, sizeof(image), "%s/%s.img", scratch_dir(), fs);
	snprintf(dir, sizeof(dir), "%s/%s", scratch_dir(), fs);
	snprintf(odd, sizeof(odd), "%s/odd", dir);
	snprintf(copy, sizeof(copy), "%s/copy", dir);
	mkdir(dir, 0700);
	put_file(image, "", 0, 0600);
	if (truncate(image, 400 << 20) || !run("mkfs.%s -q %s >/dev/null 2>&1", fs, image) ||
	    !private_mounts() || !run("mount -o loop %s %s 2>/dev/null", image, dir))
		return 77;
	make_odd_tree(odd);
	make_plain_tree(at(dir, "odd/plain"), 20, 100000, 7);
	int rc = folder_clone(odd, copy, &e);
	bool good = rc == 0 && same_trees(odd, copy);
	if (!good)
		diag("%s: %d %s", fs, rc, e.text);
	struct checkpoint_spec s = { .store = store, .state = odd, .attempt = 1, .owner = "one",
				     .number = 1, .taken_ms = 1000 };
	good = good && !checkpoint_save(&s, &a, &e);
	s.state = copy;
	s.number = 2;
	good = good && !checkpoint_save(&s, &b, &e) && a.bytes_in == b.bytes_in && a.files == b.files;
	if (good)
		diag("%s: %lld files", fs, (long long)a.files);
	good = good && folder_clone(odd, copy, &e) == -EEXIST && count_names(copy, "plain") == 1;
	/* more attributes than tar can hold */
	char *value = calloc(1, 50000);
	for (int i = 0; value && i < 30; i++) {
		char name[32];

		snprintf(name, sizeof(name), "user.large%d", i);
		if (setxattr(at(copy, "empty"), name, value, 50000, 0))
			break; /* not here */
	}
	free(value);
	struct restore_result r;
	s.number = 3;
	good = good && !checkpoint_save(&s, &b, &e) && !checkpoint_verify(store, b.name, &r, &e);
	diag("%s: %s %s", fs, b.note, e.text);
	umount2(dir, MNT_DETACH);
	return good ? 0 : 1;
}

static void
clones(void)
{
	struct err e = { "" };
	char copy[300];
	static const char *const kinds[] = { "btrfs", "xfs" };

	new_store("clones");
	snprintf(copy, sizeof(copy), "%s/clone", scratch_dir());
	int rc = folder_clone(state, copy, &e);
	ok((rc == -EOPNOTSUPP && access(copy, F_OK) < 0) || (!rc && same_trees(state, copy)),
	   "a clone, or nothing of it is left: %s", rc ? e.text : "made");
	for (int i = 0; i < 2; i++) {
		char kind[8];

		snprintf(kind, sizeof(kind), "%s", kinds[i]);
		rc = in_child(clone_on, kind, false);
		if (rc == 77)
			skip(1, "no %s can be mounted here: it needs root, loop devices, mkfs.%s",
			     kind, kind);
		else
			ok(!rc, "a clone on %s is the same in everything, and so is its archive", kind);
	}
}

/* A restore that we stopped ourselves says nothing of the checkpoint; that of others does. */
static void
interruptions(void)
{
	char name[CHECKPOINT_NAME];
	struct generations all;

	new_store("interrupted");
	ok(!save(1, "one", 1, name), "a checkpoint");
	put_marks(name, "begun 8.eight\nbegun 9.nine\n");
	ok(!store_interrupted(store, 3, "three") && resumes("", 0), "another's interruption: it stays fatal");
	put_marks(name, "begun 8.eight\nbegun 9.nine\n");
	ok(!store_interrupted(store, 9, "nine"), "ours");
	ok(!store_list(store, &all) && all.n == 1 && all.g[0].begun == 0, "is undone");
	store_free(&all);
	ok(resumes("1.one-1", 0), "and it is used");
}

/* Who lowers the limit gets nothing that is above it, but is not held up. */
static void
lower_limit(void)
{
	char small[CHECKPOINT_NAME];
	char large[CHECKPOINT_NAME];
	struct restore_result r;
	struct err e = { "" };
	static char data[100000];

	new_store("limit");
	ok(!save(1, "one", 1, small), "a small one");
	put_file(at(state, "large"), data, sizeof(data), 0600);
	ok(!save(1, "one", 2, large), "a large one");
	unlink(at(state, "large"));
	empty_into();
	ok(!store_restore(store, into, 2, "two", 50000, &r, &e) && !strcmp(r.name, small) && r.fallbacks == 1,
	   "one above the limit is skipped: %s", r.note);
	empty_into();
	ok(store_restore(store, into, 3, "three", 10, &r, &e) == -ENOENT, "both above it: none: %s", e.text);
	ok(resumes("1.one-2", 0), "with the old limit it is as good as ever");
}

int
main(void)
{
	char dir[300];

	log_init("store.t", LOG_NOTHING);
	snprintf(state, sizeof(state), "%s/state", scratch_dir());
	snprintf(into, sizeof(into), "%s/into", scratch_dir());
	make_plain_tree(state, 3, 1000, 3);
	choices();
	order();
	lives();
	snprintf(dir, sizeof(dir), "%s/nobody", scratch_dir());
	mkdir(dir, 0777);
	chmod(dir, 0777);
	chmod(scratch_dir(), 0755);
	ok(!in_child(unreadable, dir, true),
	   "one that cannot be read now is no reason to start from nothing");
	interruptions();
	lower_limit();
	pruning();
	stamps();
	clones();
	return done_testing();
}
