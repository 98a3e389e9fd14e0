/*
 * seal.c - seals: nothing that links said is lost or changed by them, wherever a sealer dies.
 */
#include <config.h>

#include "clock.h"
#include "runs.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a disk that dies, or refuses once ---- */

static const struct disk_ops *real;
static struct disk_ops fragile;
static struct {
	int calls;  /* made so far */
	int at;	    /* the one that is struck; 0 = none */
	int code;   /* what it says */
	bool dies;  /* and everything behind it */
	bool half;  /* it is done first, a file half of it */
	bool struck;
} disk;

static bool
strikes(void)
{
	bool hit = disk.at && (++disk.calls == disk.at || (disk.dies && disk.calls > disk.at));

	disk.struck |= hit;
	return hit;
}

/* The struck call itself, and not one behind it, is done. */
static bool
goes_on(void)
{
	return !strikes() || (disk.half && disk.calls == disk.at);
}

#define FRAGILE(name, params, args)                                                                \
	static int fragile_##name params                                                           \
	{                                                                                          \
		int rc = goes_on() ? real->name args : disk.code;                                  \
		return disk.at && disk.calls >= disk.at && disk.struck &&                          \
				       (disk.dies || disk.calls == disk.at) ?                      \
			       disk.code :                                                         \
			       rc;                                                                 \
	}

FRAGILE(symlink, (void *c, const char *text, const char *path), (c, text, path))
FRAGILE(readlink, (void *c, const char *path, char *buf, size_t n), (c, path, buf, n))
FRAGILE(unlink, (void *c, const char *path), (c, path))
FRAGILE(list, (void *c, const char *path, disk_entry_fn *fn, void *arg), (c, path, fn, arg))
FRAGILE(stat, (void *c, const char *path, struct disk_stat *st), (c, path, st))
FRAGILE(touch, (void *c, const char *path, int64_t s), (c, path, s))
FRAGILE(create, (void *c, const char *path, const void *data, size_t n),
	(c, path, data, disk.at && disk.calls == disk.at ? n / 2 : n))
FRAGILE(read, (void *c, const char *path, void *buf, size_t n), (c, path, buf, n))
FRAGILE(sync, (void *c, const char *dir), (c, dir))

static struct queue *
open_as(const char *path, enum owner_kind kind, bool on_fragile)
{
	const struct queue_options o = { .join = true, .as = kind };
	struct err e = { "" };
	struct disk d;

	memset(&disk, 0, sizeof(disk));
	if (disk_open(&d, path, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	real = d.ops;
	fragile = *real;
	fragile.symlink = fragile_symlink;
	fragile.readlink = fragile_readlink;
	fragile.unlink = fragile_unlink;
	fragile.list = fragile_list;
	fragile.stat = fragile_stat;
	fragile.touch = fragile_touch;
	fragile.create = fragile_create;
	fragile.read = fragile_read;
	fragile.sync = fragile_sync;
	if (on_fragile)
		d.ops = &fragile;
	struct queue *q = queue_open_disk(d, path, &o, now, &e);
	if (!q) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	return q;
}

/* ---- what a run says ---- */

struct text {
	FILE *f;
	char *s;
	size_t len;
};

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What the files of the first bay say: every link, in a seal or not, each once. */
static char *
facts(const char *path)
{
	static char *all[10000];
	int n = 0;
	char dir[400];
	char *out = NULL;
	size_t len;

	run_file(path, 0, "", dir);
	DIR *d = opendir(dir);
	for (const struct dirent *e; d && (e = readdir(d));) {
		char file[700];
		char text[64];

		snprintf(file, sizeof(file), "%s%s", dir, e->d_name);
		ssize_t got = readlink(file, text, sizeof(text) - 1);
		if (got > 0) {
			text[got] = '\0';
			if (asprintf(&all[n], "%s %s", e->d_name, text) > 0)
				n++;
		}
		char *seal = NULL;
		if (!strncmp(e->d_name, "seal.", 5))
			run_load(file, &seal, &len);
		/* a torn one proves nothing: only those with their last line */
		if (seal && len > 22 && !strncmp(seal + len - 21, "sum ", 4)) {
			char *save = NULL;

			for (char *w = strtok_r(seal, "\n", &save); w; w = strtok_r(NULL, "\n", &save))
				if (strncmp(w, "raser seal", 10) != 0 && strncmp(w, "sum ", 4) != 0)
					all[n++] = strdup(w);
		}
		free(seal);
	}
	if (d)
		closedir(d);
	qsort(all, (size_t)n, sizeof(*all), by_text);
	FILE *f = open_memstream(&out, &len);
	for (int i = 0; i < n; i++) {
		if (!i || strcmp(all[i], all[i - 1]) != 0)
			fprintf(f, "%s\n", all[i]);
	}
	for (int i = 0; i < n; i++)
		free(all[i]);
	fclose(f);
	return out;
}

/* ---- sealing ---- */

static void
take(struct queue *q, enum outcome outcome, enum reason why)
{
	struct grant g;

	if (queue_next(q, 2, &run_agent, now, &g) ||
	    queue_end(q, g.serial, g.attempt, outcome, why, NULL, now))
		ok(false, "a task is taken and ended");
}

/* Tasks that came to their ends in every way there is. */
static void
make_history(const char *path)
{
	struct queue *q = run_open(path, true);
	struct grant g;

	take(q, END_DONE, WHY_NONE);
	take(q, END_FAILED, WHY_VERDICT);
	take(q, END_FAILED, WHY_VERDICT); /* t3 stays so */
	queue_reopen(q, 2, 0, now);
	queue_cancel(q, 4, 0, now);
	queue_cancel(q, 5, 0, now);
	queue_reopen(q, 5, 0, now);
	queue_claim(q, 6, 1, 0, &run_agent, now, &g);
	queue_end(q, 6, 1, END_RETRY, WHY_EXIT, NULL, now);
	queue_claim(q, 6, 2, 2, &run_agent, now, &g);
	queue_cancel(q, 6, 2, now);
	queue_claim(q, 7, 1, 0, &run_agent, now, &g);
	queue_end(q, 7, 1, END_LOST, WHY_STALE, NULL, now);
	while (!queue_next(q, 2, &run_agent, now, &g))
		queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(q, now);
}

static void
sealed_and_on(void)
{
	char path[300];
	struct task t;
	struct seal_bay bay;
	struct err e = { "" };

	run_new(path, "on", 8, "t");
	make_history(path);
	char *before = run_states(path);
	char *said = facts(path);
	ok(strstr(before, "t3 3 @1") && strstr(before, "t4 4 @1") && strstr(before, "t6 4 @2 f1"),
	   "there are tasks done, failed and cancelled");

	struct queue *q = open_as(path, OWNER_SEALER, false);
	queue_refresh(q, now, 0, 0);
	int rc = queue_seal(q, 0, run_watcher(), &bay, &e);
	ok(!rc && bay.result == SEAL_SEALED && bay.links > 16 && bay.tasks == 8,
	   "a bay is sealed: %lld links", (long long)bay.links);
	ok(queue_seal(q, 1, run_watcher(), &bay, &e) == -ERANGE, "there is no other one");
	queue_close(q, now);
	char *after = run_states(path);
	char *still = facts(path);
	ok(!strcmp(before, after), "everybody sees what was there before");
	ok(!strcmp(said, still), "and every link is told of");
	ok(run_files(path, "@") == 0 && run_files(path, "seal.") == 1 && run_files(path, "digest") == 1,
	   "by one file, and a digest");
	free(after);
	free(still);
	run_seal(path);
	after = run_states(path);
	ok(!strcmp(before, after) && run_files(path, "seal.1") == 1, "sealing again changes nothing");
	free(after);

	/* the digest is a hint here as well */
	char digest[400];
	unlink(run_file(path, 0, "digest", digest));
	after = run_states(path);
	ok(!strcmp(before, after), "without the digest the seal tells");
	free(after);
	free(before);
	free(said);

	/* reopened, extended, worked on */
	q = run_open(path, true);
	queue_refresh(q, now, 0, 0);
	ok(!queue_reopen(q, 3, 1, now) && !queue_find(q, "t3", &t) && t.state == TASK_PENDING &&
		   t.attempt == 3 && t.counts.level == 0,
	   "a sealed task that failed is reopened");
	ok(queue_reopen(q, 1, 1, now) == -EPERM, "one that is done is not");
	queue_close(q, now);
	run_submit(path, 3, "u");
	before = run_states(path);
	run_seal(path);
	after = run_states(path);
	ok(!strcmp(before, after) && run_files(path, "@") == 1, "an unfinished bay is left alone");
	free(before);
	free(after);
	q = run_open(path, true);
	struct grant g;
	queue_refresh(q, now, 0, 0);
	ok(!queue_find(q, "t3", &t) && !queue_claim(q, t.serial, 3, 2, &run_agent, now, &g) &&
		   !queue_end(q, t.serial, 3, END_RETRY, WHY_EXIT, NULL, now) &&
		   !queue_find(q, "t3", &t) && t.attempt == 4 && t.counts.failures == 1,
	   "its counters go on from there");
	while (!queue_next(q, 2, &run_agent, now, &g))
		queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now);
	queue_close(q, now);
	before = run_states(path);
	said = facts(path);
	ok(strstr(before, "t3 2 @4") && strstr(before, "u3 2 @1"), "all of it is worked on");
	run_seal(path);
	after = run_states(path);
	still = facts(path);
	ok(!strcmp(before, after) && !strcmp(said, still), "and sealed again, it says the same");
	ok(run_files(path, "@") == 0 && run_files(path, "seal.") == 1 && run_files(path, "seal.2") == 1,
	   "by the next seal alone");
	free(before);
	free(after);
	free(said);
	free(still);
}

/* Kill the sealer, or refuse it, at every call that it makes; again: there is a seal already, and
 * links on top of it. */
static void
every_call(const char *name, int code, bool dies, bool half, bool again)
{
	char path[300];
	char *before = NULL;
	char *said = NULL;
	int n = 0;
	int wrong = 0;
	int told = 0;

	for (bool more = true; more;) {
		struct seal_bay bay;
		struct err e = { "" };
		char run[64];

		snprintf(run, sizeof(run), "%s-%d-%d", name, again, ++n);
		run_new(path, run, 8, "t");
		make_history(path);
		if (again) {
			run_seal(path);
			struct queue *q = run_open(path, true);
			queue_refresh(q, now, 0, 0);
			queue_reopen(q, 3, 0, now);
			take(q, END_DONE, WHY_NONE);
			queue_reopen(q, 4, 0, now);
			queue_cancel(q, 4, 0, now);
			queue_close(q, now);
		}
		before = run_states(path);
		said = facts(path);
		struct queue *q = open_as(path, OWNER_SEALER, true);
		queue_refresh(q, now, 0, 0);
		disk.at = n;
		disk.code = code;
		disk.dies = dies;
		disk.half = half;
		int rc = run_seal_all(q, &bay, &e);
		more = disk.struck;
		told += rc == code && e.text[0];
		/* a refused call may be one that it can do without */
		wrong += rc && rc != code;
		if (rc && rc != code)
			diag("struck at call %d it said %d: %s", n, rc, e.text);
		if (!disk.dies)
			disk.at = 0;
		queue_close(q, now);
		disk.at = 0;
		run_bury(path);
		char *after = run_states(path);
		char *still = facts(path);
		if (strcmp(before, after) != 0 || strcmp(said, still) != 0) {
			diag("struck at call %d: %s\nbefore:\n%s\nafter:\n%s", n, e.text,
			     before, after);
			wrong++;
		}
		free(after);
		free(still);
		run_seal(path);
		after = run_states(path);
		still = facts(path);
		wrong += strcmp(before, after) != 0 || strcmp(said, still) != 0 ||
			 run_files(path, "@") != 0 || run_files(path, "seal.") != 1;
		free(after);
		free(still);
		free(before);
		free(said);
	}
	ok(!wrong && told > n / 2, "%s%s: at each of %d calls nothing was lost, and %d times it said so",
	   name, again ? ", sealed again" : "", n - 1, told);
}

static int
refuse_sync(void *c, const char *dir)
{
	(void)c;
	(void)dir;
	return -EIO;
}

/* A seal whose name may be gone after a crash: the links must stay, for the next sealer as well. */
static void
unsynced(void)
{
	char path[300];
	struct seal_bay bay;
	struct err e = { "" };
	int wrong = 0;

	run_new(path, "unsynced", 8, "t");
	make_history(path);
	int links = run_files(path, "@");
	for (int i = 0; i < 2; i++) {
		struct queue *q = open_as(path, OWNER_SEALER, true);

		queue_refresh(q, now, 0, 0);
		fragile.sync = refuse_sync;
		wrong += run_seal_all(q, &bay, &e) != -EIO;
		queue_close(q, now);
	}
	ok(!wrong && run_files(path, "seal.1") == 1 && run_files(path, "@") == links,
	   "no link is removed before the seal is durable, whoever wrote it: %s", e.text);
	run_seal(path);
	ok(run_files(path, "seal.") == 1 && run_files(path, "@") == 0, "then they are");
}

/* Links at or below a seal that appear again, and names that were removed. */
static void
late(void)
{
	char path[300];
	char file[400];
	struct task t;

	run_new(path, "late", 8, "t");
	make_history(path);
	char *before = run_states(path);
	run_seal(path);
	bool made = !symlink("n01.aaaaaaaaaaaa:1:1", run_file(path, 0, "t7@1.claim", file)) &&
		    !symlink("n01.aaaaaaaaaaaa:1:1", run_file(path, 0, "t3@1.claim", file)) &&
		    !symlink("n01.aaaaaaaaaaaa:1:1:c:-:0:0:0", run_file(path, 0, "t1@1.end", file));
	char digest[400];
	unlink(run_file(path, 0, "digest", digest));
	char *after = run_states(path);
	ok(made && !strcmp(before, after), "links that appear again below a seal change nothing");
	free(after);
	struct queue *q = run_open(path, true);
	queue_refresh(q, now, 0, 0);
	queue_watch(q, now);
	now.boot_ms += 2000;
	queue_watch(q, now);
	ok(!queue_find(q, "t3", &t) && t.state == TASK_FAILED && t.attempt == 1,
	   "nor does a claim of a dead owner among them");
	queue_close(q, now);
	run_seal(path);
	after = run_states(path);
	ok(!strcmp(before, after) && run_files(path, "@") == 0, "the next sealing removes them");
	free(after);
	free(before);
}

/* Links above a seal that somebody deletes. */
static void
deleted(void)
{
	char path[300];
	char file[400];
	struct grant g;
	struct task t;

	run_new(path, "deleted", 8, "t");
	make_history(path);
	run_seal(path);
	struct queue *a = run_open(path, true);
	struct queue *b = run_open(path, true);
	bool taken = !queue_reopen(a, 3, 0, now) && !queue_reopen(a, 6, 0, now) &&
		     !queue_claim(a, 3, 3, 2, &run_agent, now, &g) &&
		     !queue_claim(a, 6, 4, 2, &run_agent, now, &g);
	queue_refresh(b, now, 0, 0);
	ok(taken && !queue_find(b, "t3", &t) && t.state == TASK_CLAIMED && t.attempt == 3,
	   "sealed tasks are claimed again");
	unlink(run_file(path, 0, "t3@2.claim", file));
	unlink(run_file(path, 0, "t3@3.claim", file));
	unlink(run_file(path, 0, "t6@3.claim", file));
	queue_refresh(b, now, 0, 0);
	ok(!queue_find(b, "t3", &t) && t.state == TASK_FAILED && t.attempt == 1,
	   "all links above a seal are deleted: then it tells again");
	char *s = run_states(path);
	ok(strstr(s, "t3 3 @1 ") && strstr(s, "t6 1 @4 f1 "),
	   "the last one before a claim is deleted: the seal has the counters");
	free(s);
	queue_close(b, now);
	queue_close(a, now);
}

static void
damaged(void)
{
	const struct queue_options o = { 0 };
	char path[300];
	char file[400];
	char *text = NULL;
	size_t len;
	struct err e = { "" };

	run_new(path, "damaged", 8, "t");
	make_history(path);
	char *before = run_states(path);
	run_seal(path);
	run_load(run_file(path, 0, "seal.1", file), &text, &len);
	text[len / 2] ^= 1;
	run_store(file, text, len);
	char *after = run_states(path);
	ok(!strcmp(before, after), "a seal that was damaged: the digest tells");
	free(after);
	char digest[400];
	unlink(run_file(path, 0, "digest", digest));
	struct queue *q = queue_open(path, &o, now, &e);
	ok(!q && strstr(e.text, path), "without a digest the run is not opened, or all would run again: %s",
	   e.text);
	text[len / 2] ^= 1;
	run_store(file, text, len);
	after = run_states(path);
	ok(!strcmp(before, after), "put right, it is");
	free(after);
	free(before);
	free(text);
}

/* Who may begin. steal_after is 600 ms here. */
static void
announcing(void)
{
	char path[300];
	char ini[400];
	char *text = NULL;
	size_t len;
	struct err e = { "" };

	run_new(path, "announcing", 8, "t");
	snprintf(ini, sizeof(ini), "%s/raser.ini", path);
	run_load(ini, &text, &len);
	static const char value[] = "0.6";
	char *at = strstr(text, "steal_after = 180") + strlen("steal_after = ");
	for (size_t i = 0; i < strlen(value); i++)
		at[i] = value[i];
	run_store(ini, text, len);
	free(text);
	make_history(path);
	now = now_read();
	struct queue *d = run_open(path, true);
	struct queue *q = open_as(path, OWNER_SEALER, false);
	char owner[OWNER_TEXT];
	char pid[32];
	queue_owner(d, owner);
	snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	ok(queue_seal_wait(q, run_watcher(), &e) == -EBUSY && strstr(e.text, owner) && strstr(e.text, pid),
	   "while an owner lives it is refused: %s", e.text);
	queue_close(d, now_read());
	int64_t began = now_read().boot_ms;
	ok(!queue_seal_wait(q, run_watcher(), &e), "when it has left it is waited for");
	int64_t took = now_read().boot_ms - began;
	ok(took >= 600 && took < 5000, "for steal_after: %lld ms", (long long)took);

	/* a beat of a machine that is no more; it is nobody's here */
	char beat[400];
	snprintf(beat, sizeof(beat), "%s/nodes/n99.aaaaaaaaaaaa", path);
	run_store(beat, "owner n99.aaaaaaaaaaaa\nhost n99\npid 1\n", 39);
	began = now_read().boot_ms;
	ok(!queue_seal_wait(q, run_watcher(), &e) && access(beat, F_OK) != 0,
	   "a beat that does not move is judged as by every daemon");
	ok(now_read().boot_ms - began >= 600 + 400, "and waited for: %lld ms",
	   (long long)(now_read().boot_ms - began));
	queue_owner(q, owner);
	ok(!strncmp(owner, "seal.", 5), "a sealer is known by its name");
	ok(!queue_evict(q, owner) && queue_seal_wait(q, run_watcher(), &e) == -EOWNERDEAD,
	   "one that was declared dead ends: %s", e.text);
	queue_close(q, now_read());
}

int
main(void)
{
	log_init("seal.t", LOG_NOTHING);
	now = now_read();
	sealed_and_on();
	for (int again = 0; again < 2; again++) {
		every_call("killed before", -EIO, true, false, again);
		every_call("killed behind", -EIO, true, true, again);
		every_call("full disk", -ENOSPC, false, false, again);
		every_call("input error", -EIO, false, false, again);
	}
	unsynced();
	late();
	deleted();
	damaged();
	announcing();
	return done_testing();
}
