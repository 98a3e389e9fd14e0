/*
 * checkpoint.c - archives: everything survives, limits hold, nothing gets out, damage is seen.
 */
#include <config.h>

#include "checkpoint.h"
#include "tap.h"
#include "folder.h"
#include "trees.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

static char store[300];
static unsigned number;

static struct checkpoint_spec
spec_of(const char *state)
{
	number++;
	return (struct checkpoint_spec){ .store = store, .state = state, .attempt = 1,
					 .owner = "k3v9x2m4q8wz", .number = number,
					 .taken_ms = 1700000000123 };
}

/* Restore into a new folder of that name; it stays when that fails. */
static int
restore(const char *name, const char *into, int64_t limit, struct restore_result *r, struct err *e)
{
	mkdir(into, 0700);
	int fd = open(into, O_RDONLY | O_DIRECTORY);
	int rc = checkpoint_restore(store, name, fd, limit, r, e);

	close(fd);
	return rc;
}

/* ---- everything survives ---- */

static int
round_trip(void *arg)
{
	char odd[300];
	char copy[300];
	const char *dir = arg;
	struct checkpoint_result r;
	struct restore_result got;
	struct err e = { "" };
	struct stat st;
	bool good = true;

	umask(0);
	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(odd, sizeof(odd), "%s/odd", dir);
	snprintf(copy, sizeof(copy), "%s/copy", dir);
	make_odd_tree(odd);
	for (int gzip = 0; gzip < 2; gzip++) {
		struct checkpoint_spec s = spec_of(odd);

		s.gzip = gzip;
		int rc = checkpoint_save(&s, &r, &e);
		if (rc || r.note[0] || r.skipped)
			return diag("save: %d %s %s", rc, e.text, r.note), 1;
		struct checkpoint_id id;
		if (!checkpoint_parse(r.name, &id) || id.attempt != 1 || id.number != number ||
		    strcmp(id.owner, s.owner) != 0 || id.gzip != s.gzip)
			return diag("%s", r.name), 1;
		if (stat(at(store, r.name), &st) || (st.st_mode & 07777) != 0600 ||
		    mtime_ms(&st) != s.taken_ms || st.st_size != r.bytes_out || stat(store, &st) ||
		    (st.st_mode & 07777) != 0700)
			return diag("modes or time of %s", r.name), 1;
		rc = restore(r.name, copy, 0, &got, &e);
		if (rc || got.note[0] || got.files != r.files || got.bytes != r.bytes_in ||
		    got.taken_ms != s.taken_ms)
			return diag("restore: %d %s %s", rc, e.text, got.note), 1;
		good = good && same_trees(odd, copy);
		good = good && !checkpoint_verify(store, r.name, &got, &e) && got.files == r.files;
		folder_remove(copy);
	}
	good = good && count_names(store, "") == 2;
	folder_remove(odd);
	if (count_names(dir, "") != 1)
		return diag("not all could be removed again"), 1;
	return !good;
}

static void
survival(void)
{
	char dir[280];

	snprintf(dir, sizeof(dir), "%s/mine", scratch_dir());
	mkdir(dir, 0700);
	ok(!in_child(round_trip, dir, false), "odd names, holes, links, modes, times, attributes, a "
					      "path of 18,000 bytes: all as before, zstd and gzip");
	snprintf(dir, sizeof(dir), "%s/nobody", scratch_dir());
	mkdir(dir, 0777);
	chmod(dir, 0777);
	chmod(scratch_dir(), 0755);
	ok(!in_child(round_trip, dir, true), "the same for an ordinary user, who has locked himself "
					     "out of some of them");
}

static void
left_out(void)
{
	char dir[280];
	struct checkpoint_result r;
	struct restore_result got;
	struct err e = { "" };
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(dir, sizeof(dir), "%s/left", scratch_dir());
	mkdir(dir, 0700);
	put_file(at(dir, "kept"), "k", 1, 0600);
	snprintf(a.sun_path, sizeof(a.sun_path), "%.100s", at(dir, "a\nsocket"));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ok(!bind(fd, (struct sockaddr *)&a, sizeof(a)), "a socket in a folder");
	bool device = !mknod(at(dir, "null"), S_IFCHR | 0666, 0x103);
	struct checkpoint_spec s = spec_of(dir);
	ok(!checkpoint_save(&s, &r, &e) && r.skipped == 1 + device && r.files == 2 &&
		   strstr(r.note, "a?socket (a socket)") && (!device || strstr(r.note, "null (a device)")),
	   "is left out and named, and so is a device: %s", r.note);
	ok(!restore(r.name, at(scratch_dir(), "left.copy"), 0, &got, &e) &&
		   count_names(at(scratch_dir(), "left.copy"), "") == 1,
	   "the rest is there");
	close(fd);
	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "pipe%d", i);
		snprintf(a.sun_path, sizeof(a.sun_path), "%.100s", at(dir, name));
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
			diag("%s", strerror(errno));
		close(fd);
	}
	ok(!checkpoint_save(&s, &r, &e) && strstr(r.note, " more"), "many are counted: %s", r.note);
}

/* ---- limits ---- */

static void
limits(void)
{
	char dir[280];
	char into[280];
	struct checkpoint_result r;
	struct restore_result got;
	struct err e = { "" };

	snprintf(dir, sizeof(dir), "%s/limits", scratch_dir());
	snprintf(into, sizeof(into), "%s/limits.copy", scratch_dir());
	make_plain_tree(dir, 10, 1000, 1);
	struct checkpoint_spec s = spec_of(dir);
	s.limit = 10 * 1000 + 11 * 512;
	ok(!checkpoint_save(&s, &r, &e), "a workspace of just the limit");
	ok(!restore(r.name, into, s.limit, &got, &e), "is restored with that limit");
	folder_remove(into);
	ok(restore(r.name, into, s.limit - 1, &got, &e) == -EFBIG && is_empty(into),
	   "not with less, and nothing is left: %s", e.text);
	int before = count_names(store, "");
	s.limit--;
	ok(checkpoint_save(&s, &r, &e) == -EFBIG && e.text[0] && !r.name[0] &&
		   count_names(store, "") == before,
	   "nor is it saved with less: %s", e.text);
	truncate(at(dir, "file3"), (off_t)1 << 40);
	s.limit = 10 * 1000 + 11 * 512 + 4096;
	ok(!checkpoint_save(&s, &r, &e) && !restore(r.name, into, s.limit, &got, &e) &&
		   same_trees(dir, into),
	   "holes do not count: 1 TB of them");
	put_file(at(into, "another"), "", 0, 0600);
	ok(restore(r.name, into, 0, &got, &e) == -ENOTEMPTY && count_names(into, "") == 11,
	   "nothing is restored into a folder that is not empty, nor is it emptied");
	folder_remove(into);
	folder_remove(dir);
}

/* ---- archives that somebody made up ---- */

struct made_entry {
	const char *path;
	mode_t mode;
	const char *link, *hardlink, *data;
	int64_t size; /* a file of so many zeros */
};

/* An archive in the store with a right name. */
static void
make_archive(const struct made_entry *list, size_t n, char name[CHECKPOINT_NAME])
{
	const size_t cap = 8 << 20;
	char *memory = malloc(cap);
	size_t used = 0;
	static const char zeros[65536];
	struct archive *a = archive_write_new();

	archive_write_set_format_pax(a);
	archive_write_add_filter_zstd(a);
	archive_write_open_memory(a, memory, cap, &used);
	for (size_t i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();
		int64_t size = list[i].data ? (int64_t)strlen(list[i].data) : list[i].size;

		archive_entry_copy_pathname(e, list[i].path);
		archive_entry_set_mode(e, list[i].mode);
		archive_entry_set_uid(e, geteuid());
		archive_entry_set_gid(e, getegid());
		archive_entry_set_size(e, size);
		if (list[i].link)
			archive_entry_copy_symlink(e, list[i].link);
		if (list[i].hardlink)
			archive_entry_copy_hardlink(e, list[i].hardlink);
		archive_write_header(a, e);
		if (list[i].data)
			archive_write_data(a, list[i].data, (size_t)size);
		for (int64_t at_byte = 0; !list[i].data && at_byte < size; at_byte += sizeof(zeros))
			archive_write_data(a, zeros, sizeof(zeros));
		archive_entry_free(e);
	}
	archive_write_close(a);
	archive_write_free(a);
	snprintf(name, CHECKPOINT_NAME, "9.made-%u.%016" PRIx64 ".tar.zst", ++number,
		 (uint64_t)XXH3_64bits(memory, used));
	mkdir(store, 0700);
	put_file(at(store, name), memory, used, 0600);
	free(memory);
}

#define OTHER(p, m) { .path = (p), .mode = (m) }
#define FILE(p) { .path = (p), .mode = S_IFREG | 0644, .data = "x" }
#define BIG(p, n) { .path = (p), .mode = S_IFREG | 0644, .size = (n) }
#define DIR(p) { .path = (p), .mode = S_IFDIR | 0755 }
#define LINK(p, to) { .path = (p), .mode = S_IFLNK | 0777, .link = (to) }
#define NAME(p, of) { .path = (p), .mode = S_IFREG | 0644, .hardlink = (of) }

static void
hostile(void)
{
	static const struct {
		const char *what;
		struct made_entry e[4];
		int want;
	} cases[] = {
		{ "an absolute path", { FILE("/tmp/raser-evil") }, -EBADMSG },
		{ "..", { FILE("../evil") }, -EBADMSG },
		{ ".. in the middle", { DIR("a"), FILE("a/../../evil") }, -EBADMSG },
		{ ".. at the end", { DIR("a"), DIR("a/..") }, -EBADMSG },
		{ "a way through a link out", { LINK("l", ".."), FILE("l/evil") },
		  -EBADMSG },
		{ "a way through a link inside",
		  { DIR("d"), LINK("l", "d"), FILE("l/x") }, -EBADMSG },
		{ "a file over a link", { LINK("l", "../evil"), FILE("l") },
		  -EBADMSG },
		{ "a directory over a link", { LINK("l", ".."), DIR("l") }, -EBADMSG },
		{ "another name for a file outside", { NAME("h", "../outside") }, -EBADMSG },
		{ "another name for an absolute path", { NAME("h", "/etc/passwd") }, -EBADMSG },
		{ "another name through a link",
		  { LINK("l", ".."), NAME("h", "l/outside") }, -EBADMSG },
		{ "another name for a directory", { DIR("d"), NAME("h", "d") }, -EBADMSG },
		{ "another name for nothing", { NAME("h", "gone") }, -EBADMSG },
		{ "a device", { OTHER("null", S_IFCHR | 0666) }, -EBADMSG },
		{ "a block device", { OTHER("sda", S_IFBLK | 0666) }, -EBADMSG },
		{ "the same name twice", { FILE("a"), FILE("a") }, -EBADMSG },
		{ "a file below a file", { FILE("a"), FILE("a/b") },
		  -EBADMSG },
		{ "a file before its directory", { FILE("a/b"), DIR("a") }, -EBADMSG },
		{ "an empty name in a path", { DIR("a"), FILE("a//b") }, -EBADMSG },
		{ "a dot in a path", { DIR("a"), FILE("a/./b") }, -EBADMSG },
		{ "a bomb of data", { BIG("big", 64 << 20) }, -EFBIG },
		{ "a link out that nobody follows", { LINK("l", "/etc/passwd"),
						      NAME("h", "l") }, 0 },
		{ "a directory that forbids its content",
		  { OTHER("d", S_IFDIR | 0), FILE("d/x") }, 0 },
	};
	char into[280];
	char name[CHECKPOINT_NAME];
	struct restore_result r;
	struct err e;

	snprintf(into, sizeof(into), "%s/hostile", scratch_dir());
	put_file(at(scratch_dir(), "outside"), "secret", 6, 0600);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = 0;

		while (n < 4 && cases[i].e[n].path)
			n++;
		make_archive(cases[i].e, n, name);
		e.text[0] = '\0';
		int rc = restore(name, into, 1 << 20, &r, &e);
		ok(rc == cases[i].want && (!rc || is_empty(into)) && count_names(scratch_dir(), "evil") == 0,
		   "%s: %d, %s", cases[i].what, rc, e.text);
		folder_remove(into);
	}
	ok(access("/tmp/raser-evil", F_OK) < 0, "nothing was written to where a path pointed");
	struct stat st;
	ok(!stat(at(scratch_dir(), "outside"), &st) && st.st_nlink == 1, "nothing outside got a name");

	struct made_entry *many = calloc(3000, sizeof(*many));
	char(*names)[16] = calloc(3000, sizeof(*names));
	for (int i = 0; i < 3000; i++) {
		snprintf(names[i], sizeof(names[i]), "%d", i);
		many[i] = (struct made_entry)FILE(names[i]);
	}
	make_archive(many, 3000, name);
	ok(restore(name, into, 1 << 20, &r, &e) == -EFBIG && is_empty(into), "a bomb of entries: %s",
	   e.text);
	folder_remove(into);
	free(many);
	free(names);
	make_archive((struct made_entry[]){ OTHER("s", S_IFREG | 06755) }, 1, name);
	ok(!restore(name, into, 0, &r, &e) && !stat(at(into, "s"), &st) && (st.st_mode & 07777) == 06755,
	   "setuid stays on a file of our own");
	folder_remove(into);
}

/* ---- a tree that is written meanwhile ---- */

/* Change it in every way, until we are killed. */
static int
restless(void *arg)
{
	const char *dir = arg;
	static char data[200000];

	srandom(7);
	for (int i = 1; i < INT_MAX; i++) {
		char a[300];
		char b[300];

		if (i % 100 == 0) { /* directories are moved into directories for ever otherwise */
			int fd = open(dir, O_RDONLY | O_DIRECTORY);
			folder_empty(fd);
			close(fd);
		}

		snprintf(a, sizeof(a), "%s/%ld", dir, random() % 12);
		snprintf(b, sizeof(b), "%s/%ld/%ld", dir, random() % 12, random() % 3);
		switch (random() % 9) {
		case 0:
		case 1: {
			int fd = open(random() % 2 ? a : b, O_WRONLY | O_CREAT | O_NONBLOCK, 0600);
			if (fd >= 0 && write(fd, data, (size_t)(random() % (long)sizeof(data))) < 0)
				unlink(a);
			close(fd);
			break;
		}
		case 2:
			truncate(a, random() % 300000);
			break;
		case 3:
			rename(a, b);
			break;
		case 4:
			rename(b, a);
			break;
		case 5:
			unlink(a);
			rmdir(a);
			break;
		case 6:
			mkdir(a, 0700);
			mkdir(b, 0700);
			break;
		case 7:
			symlink("nowhere", a);
			mkfifo(b, 0600);
			break;
		default:
			link(a, b);
		}
	}
	return 0;
}

static void
restlessness(void)
{
	char dir[280];
	char into[280];
	struct err e = { "" };
	int good = 0;

	snprintf(dir, sizeof(dir), "%s/restless", scratch_dir());
	snprintf(into, sizeof(into), "%s/restless.copy", scratch_dir());
	mkdir(dir, 0700);
	pid_t pid = fork();
	if (pid == 0)
		_exit(restless(dir));
	for (int i = 0; i < 60; i++) {
		struct checkpoint_spec s = spec_of(dir);
		struct checkpoint_result r;
		struct restore_result got;
		int rc = checkpoint_save(&s, &r, &e);

		if (!rc)
			rc = restore(r.name, into, 0, &got, &e);
		good += !rc;
		if (rc)
			diag("%d: %s", rc, e.text);
		folder_remove(into);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(good == 60, "of a tree that somebody changes in every way each archive is whole, %d of 60",
	   good);
	folder_remove(dir);
}

/* ---- damage ---- */

static void
damage(void)
{
	char dir[280];
	char into[280];
	struct checkpoint_result r;
	struct restore_result got;
	struct err e = { "" };

	snprintf(dir, sizeof(dir), "%s/damage", scratch_dir());
	snprintf(into, sizeof(into), "%s/damage.copy", scratch_dir());
	make_plain_tree(dir, 20, 3000, 5);
	for (int gzip = 0; gzip < 2; gzip++) {
		struct checkpoint_spec s = spec_of(dir);
		int bad = 0;
		int tried = 0;

		s.gzip = gzip;
		ok(!checkpoint_save(&s, &r, &e), "a checkpoint to damage");
		char *data = malloc((size_t)r.bytes_out);
		int fd = open(at(store, r.name), O_RDWR);
		bool whole = read(fd, data, (size_t)r.bytes_out) == r.bytes_out;
		for (int64_t i = 0; whole && i < r.bytes_out; i += i < 40 ? 1 : 977) {
			char flipped = (char)(data[i] ^ (1 << i % 8));

			whole = pwrite(fd, &flipped, 1, i) == 1;
			bad += restore(r.name, into, 0, &got, &e) == -EBADMSG && is_empty(into);
			bad += checkpoint_verify(store, r.name, &got, &e) == -EBADMSG;
			whole = whole && pwrite(fd, &data[i], 1, i) == 1;
			tried += 2;
		}
		ok(whole && bad == tried && tried > 100, "%s: a flipped bit anywhere is seen, %d of %d",
		   gzip ? "gzip" : "zstd", bad, tried);
		bad = tried = 0;
		for (int64_t i = r.bytes_out - 1; whole && i >= 0; i -= i < 20 ? 1 : 1013) {
			whole = !ftruncate(fd, i);
			bad += restore(r.name, into, 0, &got, &e) == -EBADMSG && is_empty(into);
			tried++;
		}
		ok(whole && bad == tried && tried > 50, "cut anywhere, too, %d of %d", bad, tried);
		whole = pwrite(fd, data, (size_t)r.bytes_out, 0) == r.bytes_out &&
			pwrite(fd, "x", 1, r.bytes_out) == 1;
		ok(whole && restore(r.name, into, 0, &got, &e) == -EBADMSG && is_empty(into),
		   "and a byte too many: %s", e.text);
		ok(!ftruncate(fd, r.bytes_out) && !restore(r.name, into, 0, &got, &e) &&
			   same_trees(dir, into),
		   "as it was it is good");
		close(fd);
		free(data);
		folder_remove(into);
	}
	ok(restore("1.x-1.0123456789abcdef.tar.zst", into, 0, &got, &e) == -ENOENT && got.unreadable,
	   "one that is not there: %s", e.text);
	folder_remove(into);
}

static void
names(void)
{
	static const char *const good[] = { "1.k3v9-1.0123456789abcdef.tar.zst",
					    "262143.a-999.ffffffffffffffff.tar.gz" };
	static const char *const bad[] = {
		"", ".", "1", "1.a", "1.a-1", "1.a-1.tar.zst", "1.a-1.0123456789abcdef", "x.a-1.0123456789abcdef.tar.zst",
		"1.a-1.0123456789abcdeF.tar.zst", "1.a-1.0123456789abcde.tar.zst", "1.a-1.0123456789abcdef0.tar.zst",
		"1.a-1.0123456789abcdef.tar.zst.tried", "1.a-1.0123456789abcdef.tar.xz",
		"1.-1.0123456789abcdef.tar.zst", "1.a/b-1.0123456789abcdef.tar.zst",
		"-1.a-1.0123456789abcdef.tar.zst", "1.a--1.0123456789abcdef.tar.zst", "tmp.1.a-1.77",
		"9999999999.a-1.0123456789abcdef.tar.zst",
	};
	struct checkpoint_id id;
	int right = 0;
	long pid;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		right += checkpoint_parse(good[i], &id);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		right += !checkpoint_parse(bad[i], &id);
	ok(right == (int)(sizeof(good) / sizeof(good[0]) + sizeof(bad) / sizeof(bad[0])),
	   "names of checkpoints, and what is none");
	ok(checkpoint_parse_temporary("tmp.3.abc-4.567", &id, &pid) && id.attempt == 3 && id.number == 4 &&
		   pid == 567 && !checkpoint_parse_temporary("tmp.3.abc-4.", &id, &pid) &&
		   !checkpoint_parse_temporary("tmp.3.abc-4.5x", &id, &pid),
	   "names of temporary files");
}

int
main(void)
{
	log_init("checkpoint.t", LOG_NOTHING);
	snprintf(store, sizeof(store), "%s/store/task", scratch_dir());
	names();
	survival();
	left_out();
	limits();
	hostile();
	restlessness();
	damage();
	return done_testing();
}
