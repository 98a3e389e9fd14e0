/*
 * storage.c - every call that an operation of the queue makes, failed with every error.
 *
 * An operation is first done on a sound disk, and its calls are counted. Then each of them fails
 * in turn: with every errno, cleanly or with its reply lost, once or for 20 seconds. Each time:
 * what the caller is told is what the table says, or follows from it; another daemon sees the task
 * as it was or as it should become, and nothing else; what was acknowledged is there; and the same
 * operation, repeated without any restart, succeeds.
 */
#include <config.h>

#include "faults.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TASKS = 400, PERIOD_MS = 20000, TEXT = 64 };

static const struct claimer by = { .comm = "test" };
static char run[300];
static struct queue *q;	       /* behind the faults */
static struct queue *observer; /* another's eyes, on the sound disk */
static int used;	       /* tasks of this run */

/* One operation on one task of its own. */
struct trial {
	int number;
	int64_t serial;
	char name[32];
	unsigned attempt;
};

static struct now
now(void)
{
	return faults_now();
}

static void
bail(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(1);
}

/* ---- how a task stands ---- */

static void
tell(struct queue *who, const struct trial *t, char text[TEXT])
{
	static const char *const states[TASK_STATES] = {
		[TASK_PENDING] = "pending", [TASK_CLAIMED] = "claimed", [TASK_DONE] = "done",
		[TASK_FAILED] = "failed",   [TASK_CANCELLED] = "cancelled", [TASK_UNREAD] = "unread",
	};
	struct task row;

	snprintf(text, TEXT, "none");
	if (!queue_find(who, t->name, &row))
		snprintf(text, TEXT, "%s@%u f%d l%d", states[row.state], row.attempt,
			 row.counts.failures, row.counts.losses);
}

static void
observe(const struct trial *t, char text[TEXT])
{
	queue_refresh(observer, now(), 0, 0);
	tell(observer, t, text);
}

/* ---- what others leave on the disk, made by hand ---- */

static void
plant(const struct trial *t, const char *kind, const char *text)
{
	char path[DISK_PATH + 500];
	struct task row;

	if (queue_find(observer, t->name, &row))
		bail("an unknown task");
	char bay[DISK_PATH] = "";
	/* one batch holds them all, and its bays are in order */
	snprintf(path, sizeof(path), "%s/batches/1", run);
	char file[64] = "";
	ssize_t n = readlink(path, file, sizeof(file) - 1);
	if (n < 14)
		bail("no batch");
	file[14] = '\0';
	snprintf(bay, sizeof(bay), "%s/chain/%s.%d", run, file + 2, (int)((row.serial - 1) / 1024));
	mkdir(bay, 0777);
	snprintf(path, sizeof(path), "%s/%s@%u.%s", bay, t->name, t->attempt, kind);
	if (symlink(text, path) < 0)
		bail(path);
}

/* ---- preparations ---- */

static bool
nothing(struct trial *t)
{
	(void)t;
	return true;
}

/* In a batch of its own, of which nobody has claimed anything: new_trial() sees to it. */
static bool
new_bay(struct trial *t)
{
	return t->serial != 0;
}

static bool
claimed(struct trial *t)
{
	struct grant g;

	bool good = !queue_claim(q, t->serial, 1, 0, &by, now(), &g);
	queue_delivered(q, t->serial, 1);
	return good;
}

static bool
failed(struct trial *t)
{
	return claimed(t) && !queue_end(q, t->serial, 1, END_FAILED, WHY_VERDICT, NULL, now());
}

static bool
claimed_elsewhere(struct trial *t)
{
	char beat[400];

	snprintf(beat, sizeof(beat), "%s/nodes/far.aaaaaaaaaaaa", run);
	int fd = open(beat, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
	plant(t, "claim", "far.aaaaaaaaaaaa:1:1");
	return fd >= 0 && queue_refresh(q, now(), 0, 0) >= 0;
}

/* Its owner has left no beat, and one look has seen that already. */
static bool
orphaned(struct trial *t)
{
	char claim[LINK_TEXT];

	snprintf(claim, sizeof(claim), "dead.%012d:1:1", t->number);
	plant(t, "claim", claim);
	faults_pass(10);
	bool good = queue_refresh(q, now(), 0, 0) >= 0;
	queue_watch(q, now());
	faults_pass(1500);
	return good;
}

static bool
ended_elsewhere(struct trial *t)
{
	plant(t, "claim", "far.aaaaaaaaaaaa:1:1");
	plant(t, "end", "far.aaaaaaaaaaaa:2:1:r:e:1:0:1");
	return true;
}

static bool
held_and_stolen(struct trial *t)
{
	bool good = claimed(t);

	plant(t, "end", "far.aaaaaaaaaaaa:2:1:l:o:0:1:0");
	return good;
}

static bool
silent(struct trial *t)
{
	bool good = claimed(t);

	/* the daemon is well all the while: one that is cut off judges no agent */
	for (int i = 0; i < 8; i++) {
		faults_pass(queue_conf(q)->steal_after_ms / 7);
		good = good && !queue_beat(q, now()) && !queue_look(q, now());
	}
	return good;
}

static bool
foreign_beat(struct trial *t)
{
	char beat[400];

	(void)t;
	snprintf(beat, sizeof(beat), "%s/nodes/far.aaaaaaaaaaaa", run);
	int fd = open(beat, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* ---- operations ---- */

static int
do_submit(struct trial *t)
{
	char text[80];
	struct err e = { 0 };

	snprintf(text, sizeof(text), "{\"id\":\"%s\"}\n", t->name);
	int rc = submit(q, text, &e);
	if (rc && !e.text[0])
		bail("a submission is refused without a word");
	return rc;
}

static int
do_claim(struct trial *t)
{
	struct grant g;
	int rc = queue_claim(q, t->serial, 1, 0, &by, now(), &g);

	/* repeated after success, or what an error left half done: then it must be ours */
	return rc == -EBUSY && queue_is_held(q, t->serial, 1) ? 0 : rc;
}

static int
do_next(struct trial *t)
{
	struct grant g;

	if (queue_is_held(q, t->serial, 1))
		return 0;
	int rc = queue_next(q, 0, &by, now(), &g);
	if (!rc && g.serial != t->serial) {
		diag("next gives %s and not %s", g.name, t->name);
		return -EINVAL;
	}
	return rc;
}

static int
do_touch(struct trial *t)
{
	return queue_touch(q, t->serial, 1, now());
}

static int
do_payload(struct trial *t)
{
	char *body;
	size_t size;
	int rc = queue_payload(q, t->serial, &body, &size);

	if (!rc)
		free(body);
	return rc;
}

static int
do_beat(struct trial *t)
{
	const int waiting[TIERS_MAX] = { t->number % 100 + 1 }; /* another note each time */

	queue_idle(q, waiting);
	return queue_beat(q, now());
}

static int
do_look(struct trial *t)
{
	(void)t;
	return queue_look(q, now());
}

static int
do_watch(struct trial *t)
{
	struct task row;

	queue_watch(q, now());
	return queue_find(q, t->name, &row) ? -EINVAL : row.state == TASK_PENDING ? 0 : -EIO;
}

static int
do_refresh(struct trial *t)
{
	(void)t;
	faults_pass(10);
	int64_t n = queue_refresh(q, now(), 0, 0);
	return n < 0 ? (int)n : 0;
}

static int
end(struct trial *t, enum outcome outcome, enum reason why)
{
	return queue_end(q, t->serial, 1, outcome, why, NULL, now());
}

static int
do_done(struct trial *t)
{
	return end(t, END_DONE, WHY_NONE);
}

static int
do_failed(struct trial *t)
{
	return end(t, END_FAILED, WHY_VERDICT);
}

static int
do_retry(struct trial *t)
{
	return end(t, END_RETRY, WHY_EXIT);
}

static int
do_freed(struct trial *t)
{
	return end(t, END_FREED, WHY_RELEASED);
}

/* What has no answer is asked for its effect. */
static int
still_claimed(struct trial *t)
{
	struct task row;

	return !queue_find(q, t->name, &row) && row.state == TASK_PENDING ? 0 : -EIO;
}

static int
do_tick(struct trial *t)
{
	queue_tick(q, now());
	return still_claimed(t);
}

static int
do_closed(struct trial *t)
{
	if (queue_is_held(q, t->serial, 1))
		queue_closed(q, t->serial, 1, true, now());
	queue_tick(q, now()); /* which repeats what was refused */
	return still_claimed(t);
}

static int
do_revoke(struct trial *t)
{
	struct task row;
	int rc = queue_revoke(q, t->serial, 1, now());

	/* what is revoked already is over, as for everybody */
	return rc == -ESTALE && !queue_find(q, t->name, &row) && row.reason == WHY_REVOKED ? 0 : rc;
}

static int
do_cancel(struct trial *t)
{
	return queue_cancel(q, t->serial, 0, now());
}

static int
do_reopen(struct trial *t)
{
	return queue_reopen(q, t->serial, 0, now());
}

static int
do_evict(struct trial *t)
{
	(void)t;
	int rc = queue_evict(q, "far.aaaaaaaaaaaa");

	return rc == -ENOENT ? 0 : rc; /* the one before was done */
}

/*
 * Each call of an operation in its order, and what the caller gets when it alone fails: with an
 * error of refusal (ENOSPC, EDQUOT, EROFS, EACCES) or with one of no answer (EIO, ESTALE,
 * ETIMEDOUT; EPERM counts as EACCES), each first cleanly, then with only the reply lost.
 * '=': it is told, a refusal as it is and the rest as EIO; '0': success.
 */
static const struct op {
	const char *name;
	bool (*prepare)(struct trial *t);
	int (*run)(struct trial *t);
	const char *before, *after; /* how the task stands */
	const char *calls;
	bool vague; /* it says EIO whatever it was, or only shows by its effect */
} ops[] = {
	{ "submit", nothing, do_submit, "none", "pending@1 f0 l0",
	  "list ====, import ====, symlink =000, readlink 0000, sync 0000, list 0000, sync 0000, readlink 0000", false },
	{ "claim", nothing, do_claim, "pending@1 f0 l0", "claimed@1 f0 l0",
	  "symlink =000, readlink 0000", false },
	{ "claim, first of its bay", new_bay, do_claim, "pending@1 f0 l0", "claimed@1 f0 l0",
	  "symlink =0=0, readlink 0000, mkdir =0=0, symlink =000, readlink 0000", false },
	{ "next", nothing, do_next, "pending@1 f0 l0", "claimed@1 f0 l0",
	  "symlink =000, readlink 0000", false },
	{ "touch", claimed, do_touch, "claimed@1 f0 l0", "claimed@1 f0 l0", "", false },
	{ "payload", nothing, do_payload, "pending@1 f0 l0", "pending@1 f0 l0", "", false },
	{ "beat", claimed, do_beat, "claimed@1 f0 l0", "claimed@1 f0 l0",
	  "read 0000, touch ====, amend ====", false },
	{ "look", claimed, do_look, "claimed@1 f0 l0", "claimed@1 f0 l0",
	  "list ====, readlink ====, readlink ====", true },
	{ "look and lose", held_and_stolen, do_look, "pending@2 f0 l1", "pending@2 f0 l1",
	  "list ====, readlink 0000", true },
	{ "watch", orphaned, do_watch, "claimed@1 f0 l0", "pending@2 f0 l1",
	  "list ====, read ====, readlink ====, symlink =000, readlink 0000, sync 0000", true },
	{ "refresh", ended_elsewhere, do_refresh, "pending@2 f1 l0", "pending@2 f1 l0",
	  "list ====, list ====, list ====, readlink ====", true },
	{ "end: done", claimed, do_done, "claimed@1 f0 l0", "done@1 f0 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "end: failed", claimed, do_failed, "claimed@1 f0 l0", "failed@1 f0 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "end: retry", claimed, do_retry, "claimed@1 f0 l0", "pending@2 f1 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "end: freed", claimed, do_freed, "claimed@1 f0 l0", "pending@2 f0 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "end: stale", silent, do_tick, "claimed@1 f0 l0", "pending@2 f0 l1",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync 0000", true },
	{ "end: closed", claimed, do_closed, "claimed@1 f0 l0", "pending@2 f1 l0",
	  "readlink 0000, symlink 0000, readlink 0000, readlink 0000, sync 0000", true },
	{ "revoke", claimed, do_revoke, "claimed@1 f0 l0", "pending@2 f0 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "revoke another's", claimed_elsewhere, do_revoke, "claimed@1 f0 l0", "pending@2 f0 l0",
	  "readlink ====, symlink =000, readlink 0000, sync ====", false },
	{ "cancel", nothing, do_cancel, "pending@1 f0 l0", "cancelled@1 f0 l0",
	  "symlink =000, readlink 0000, sync ====", false },
	{ "cancel a claimed one", claimed, do_cancel, "claimed@1 f0 l0", "cancelled@1 f0 l0",
	  "readlink =0=0, symlink =000, readlink 0000, readlink 0000, sync ====", false },
	{ "cancel another's", claimed_elsewhere, do_cancel, "claimed@1 f0 l0", "cancelled@1 f0 l0",
	  "readlink ====, symlink =000, readlink 0000, sync ====", false },
	{ "reopen", failed, do_reopen, "failed@1 f0 l0", "pending@3 f0 l0",
	  "symlink =000, readlink 0000, sync ====", false },
	{ "evict", foreign_beat, do_evict, "pending@1 f0 l0", "pending@1 f0 l0",
	  "unlink ====", false },
};


static const int refusals[] = { ENOSPC, EDQUOT, EROFS, EACCES, EPERM };
static const int silences[] = { EIO, ESTALE, ETIMEDOUT, ENXIO };

/* What a caller is told of an error of the storage. */
static int
in_words(int code)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i] == code)
			return code == EPERM ? EACCES : code;
	return EIO;
}

/* ---- a run for each operation ---- */

static void
begin(void)
{
	const struct queue_options eyes = { 0 };
	static int n;
	char name[32];
	struct err e = { 0 };
	char *text = malloc(TASKS * (size_t)24);
	size_t len = 0;

	used = 0;
	snprintf(name, sizeof(name), "run%d", ++n);
	new_run(run, name);
	q = faults_queue(run, true, &e);
	observer = queue_open(run, &eyes, now(), &e);
	for (int i = 1; text && i <= TASKS; i++)
		len += (size_t)snprintf(text + len, 24, "{\"id\":\"t%d\"}\n", i);
	if (!q || !observer || !text || submit(q, text, &e))
		bail(e.text);
	free(text);
	faults_pass(10);
	queue_refresh(observer, now(), 0, 0);
}

static void
finish(void)
{
	queue_close(q, now());
	queue_close(observer, now());
}

static void
new_trial(const struct op *op, struct trial *t)
{
	static int n;
	struct task row;

	*t = (struct trial){ .number = ++n, .attempt = 1 };
	if (op->run == do_submit || op->prepare == new_bay)
		snprintf(t->name, sizeof(t->name), "new%d", n);
	if (op->run == do_submit)
		return;
	if (op->prepare == new_bay) {
		if (do_submit(t) || queue_find(q, t->name, &row))
			bail("no submission");
		t->serial = row.serial;
		return;
	}
	/* in order, so that next finds it as well */
	snprintf(t->name, sizeof(t->name), "t%d", ++used);
	if (queue_find(q, t->name, &row))
		bail("too few tasks");
	t->serial = row.serial;
	faults_pass(100);
	queue_beat(q, now());
	queue_look(q, now());
	if (!op->prepare(t)) {
		diag("%s of %s cannot be prepared", op->name, t->name);
		bail("no trial");
	}
}

/* Once more, without a restart and with the daemon's own duties done. */
static int
repeat(const struct op *op, struct trial *t)
{
	int rc = -1;

	for (int i = 0; rc && i < 3; i++) {
		queue_beat(q, now());
		rc = op->run(t);
		if (rc)
			faults_pass(1500);
	}
	return rc;
}

/* One operation with one fault. The letter for its table, '!' when a promise is broken. */
static char
try(const struct op *op, int call, int code, bool lost, bool period)
{
	struct trial t;
	char seen[TEXT];
	char later[TEXT];
	char own[TEXT];

	new_trial(op, &t);
	faults[0] = (struct fault){ .code = -code, .skip = call, .times = period ? -1 : 1,
				    .done = lost,
				    .until = period ? now().boot_ms + PERIOD_MS : 0 };
	int rc = op->run(&t);
	faults_clear();
	observe(&t, seen);
	bool before = !strcmp(seen, op->before);
	bool after = !strcmp(seen, op->after);
	bool right = rc == -in_words(code) || (op->vague && rc == -EIO);
	bool good = rc ? right && (before || after) : after;
	/* what is refused must not be there all the same */
	if (rc && (op->run == do_submit || op->run == do_claim || op->run == do_next))
		good = good && before;
	int again = repeat(op, &t);
	observe(&t, later);
	faults_pass(10);
	queue_refresh(q, now(), 0, 0);
	tell(q, &t, own);
	good = good && !again && !strcmp(later, op->after) && !strcmp(own, op->after);
	if (!good)
		diag("%s: call %d, %s%s%s: %s, then %s; repeated: %s, then %s, itself says %s", op->name,
		     call + 1, strerrorname_np(code), lost ? ", reply lost" : "",
		     period ? ", for a while" : "", rc ? strerrorname_np(-rc) : "0", seen,
		     again ? strerrorname_np(-again) : "0", later, own);
	return !good ? '!' : rc ? '=' : '0';
}

/* The same letter for every error of a kind, or '?'. */
static char
letter(const struct op *op, int call, const int *codes, size_t n, bool lost, int *trials)
{
	char all = 0;

	for (size_t i = 0; i < n; i++) {
		char one = try(op, call, codes[i], lost, false);
		/* for a while: one error of a kind stands for all */
		char long_one = i ? one : try(op, call, codes[i], lost, true);

		*trials += i ? 1 : 2;
		all = long_one == '!' || one == '!' ? '!' : !all || all == one ? one : '?';
		if (all == '!')
			return all;
	}
	return all;
}

static void
operation(const struct op *op)
{
	enum { REFUSALS = sizeof(refusals) / sizeof(refusals[0]),
	       SILENCES = sizeof(silences) / sizeof(silences[0]) };
	struct trial t;
	char script[1000] = "";
	char seen[TEXT];
	enum disk_call kinds[TRACE_MAX];
	size_t len = 0;
	int trials = 0;

	begin();
	/* not the very first one, which makes a directory that all others find */
	new_trial(op, &t);
	int rc = op->run(&t);
	new_trial(op, &t);
	faults_trace();
	rc = rc ? rc : op->run(&t);
	int n = fault_calls < TRACE_MAX ? fault_calls : TRACE_MAX;
	memcpy(kinds, fault_trace, sizeof(kinds));
	observe(&t, seen);
	ok(!rc && !strcmp(seen, op->after), "%s: %d calls, %s", op->name, n, seen);
	for (int i = 0; i < n; i++) {
		len += (size_t)snprintf(script + len, sizeof(script) - len, "%s%s ", i ? ", " : "",
					disk_call_names[kinds[i]]);
		script[len++] = letter(op, i, refusals, REFUSALS, false, &trials);
		script[len++] = letter(op, i, silences, SILENCES, false, &trials);
		script[len++] = letter(op, i, refusals, REFUSALS, true, &trials);
		script[len++] = letter(op, i, silences, SILENCES, true, &trials);
	}
	if (!ok(!strcmp(script, op->calls), "%s: %d faults, and what each is answered", op->name,
		trials)) {
		diag("is     %s", script);
		diag("should %s", op->calls);
	}
	finish();
}

/* ---- the beginning and the end of a daemon ---- */

static int
count_one(void *arg, const char *name)
{
	int *n = arg;

	(void)name;
	++*n;
	return 0;
}

static int
count_names(const char *dir)
{
	struct disk d = faults_disk(run);
	int n = 0;

	(void)disk_list(&d, dir, count_one, &n);
	disk_close(&d);
	return n;
}

/* Open it with one fault; the letter. What fails says why, and leaves no beat behind. */
static char
try_open(int call, int code, bool lost)
{
	struct err e = { 0 };
	int beats = count_names("nodes");

	faults[0] = (struct fault){ .code = -code, .skip = call, .times = 1, .done = lost };
	struct queue *other = faults_queue(run, true, &e);
	faults_clear();
	bool good = other || (e.text[0] && count_names("nodes") == beats);
	if (other)
		queue_close(other, now());
	struct queue *again = faults_queue(run, true, &e);
	if (!good || !again)
		diag("open: call %d, %s%s: %s", call + 1, strerrorname_np(code),
		     lost ? ", reply lost" : "", e.text);
	char letter = !good || !again ? '!' : other ? '0' : '=';
	if (again)
		queue_close(again, now());
	return letter;
}

/* Close it with a claim held and one fault: the claim is ended or stands, and never half. */
static char
try_close(int call, int code, bool lost)
{
	struct trial t = { .attempt = 1, .serial = 1 };
	struct grant g;
	struct err e = { 0 };
	char seen[TEXT];

	begin();
	snprintf(t.name, sizeof(t.name), "t1");
	struct queue *other = faults_queue(run, true, &e);
	if (!other || queue_claim(other, 1, 1, 0, &by, now(), &g))
		bail("nothing to close");
	faults[0] = (struct fault){ .code = -code, .skip = call, .times = 1, .done = lost };
	queue_close(other, now());
	faults_clear();
	observe(&t, seen);
	bool freed = !strcmp(seen, "pending@2 f0 l0");
	if (!freed && strcmp(seen, "claimed@1 f0 l0") != 0)
		diag("close: call %d, %s%s: %s", call + 1, strerrorname_np(code),
		     lost ? ", reply lost" : "", seen);
	char letter = freed ? '0' : !strcmp(seen, "claimed@1 f0 l0") ? '=' : '!';
	finish();
	return letter;
}

/* A table of a daemon's life, as those above. */
static void
life(const char *name, char (*try_it)(int call, int code, bool lost), int n,
     const enum disk_call *kinds, const char *calls)
{
	char script[1000] = "";
	size_t len = 0;

	for (int i = 0; i < n; i++) {
		len += (size_t)snprintf(script + len, sizeof(script) - len, "%s%s ", i ? ", " : "",
					disk_call_names[kinds[i]]);
		for (int k = 0; k < 4; k++)
			script[len++] = try_it(i, k & 1 ? EIO : ENOSPC, k > 1);
	}
	if (!ok(!strcmp(script, calls), "%s: what each of its %d calls is answered", name, n)) {
		diag("is     %s", script);
		diag("should %s", calls);
	}
}

static void
lives(void)
{
	enum disk_call kinds[TRACE_MAX];
	struct err e = { 0 };
	struct grant g;

	begin();
	faults_trace();
	struct queue *other = faults_queue(run, true, &e);
	int n = fault_calls;
	memcpy(kinds, fault_trace, sizeof(kinds));
	if (!other || queue_claim(other, 1, 1, 0, &by, now(), &g))
		bail(e.text);
	faults_trace();
	queue_close(other, now());
	int m = fault_calls;
	enum disk_call close_kinds[TRACE_MAX];
	memcpy(close_kinds, fault_trace, sizeof(close_kinds));
	life("open", try_open, n, kinds,
	     "read ====, read ====, create ====, touch ====, list ====, list ====, "
	     "sync ====, readlink 0000, list ====");
	finish();
	/* what it cannot end others find, when its beat is gone or its process is */
	life("close", try_close, m, close_kinds,
	     "readlink ====, symlink ==00, readlink 0000, readlink 0000, sync 0000, sync 0000, "
	     "unlink 0000");
}

int
main(void)
{
	log_init("storage.t", LOG_NOTHING);
	lives();
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		operation(&ops[i]);
	return done_testing();
}
