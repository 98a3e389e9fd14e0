/*
 * fault.c - storage that lies: the queue behind a table of calls that fail when they are told to.
 */
#include <config.h>

#include "faults.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct now now;

/* The next `times` calls of a kind on a path that contains `part` answer code; lost: but are made. */
static void
strike(enum disk_call call, const char *part, int code, int times, bool lost)
{
	faults[0] = (struct fault){ .calls = 1 << call, .part = part, .code = code, .times = times,
				    .done = lost };
}

static struct queue *
join(const char *path)
{
	struct err e = { 0 };
	struct queue *q = faults_queue(path, true, &e);

	if (!q) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	return q;
}

static void
batches(void)
{
	char path[300];
	struct err e = { 0 };
	struct task t;

	new_run(path, "batches");
	struct queue *q = join(path);
	ok(!submit(q, "{\"id\":\"x\"}\n", &e) && !submit(q, "{\"id\":\"y\"}\n", &e), "two batches");
	queue_close(q, now);

	strike(DISK_READLINK, "batches/1", -EIO, -1, false);
	q = join(path);
	ok(queue_find(q, "y", &t) == -ENOENT,
	   "while the first cannot be read the second waits: their order decides");
	faults_pass(10);
	now = faults_now();
	queue_refresh(q, now, 0, 0);
	ok(!queue_drained(q, 2, now.boot_ms), "and nothing is called drained");
	ok(submit(q, "{\"id\":\"x\",\"other\":1}\n", &e) == -EIO,
	   "nor is anything published that cannot be compared: %s", e.text);
	faults_clear();
	ok(submit(q, "{\"id\":\"x\",\"other\":1}\n", &e) == -EEXIST, "later it is compared");
	ok(!queue_find(q, "x", &t) && t.serial == 1 && !queue_find(q, "y", &t) && t.serial == 2,
	   "and both are there, in order");
	queue_close(q, now);
}

static void
unknown_creates(void)
{
	const struct claimer by = { .comm = "test" };
	char path[300];
	struct err e = { 0 };
	struct grant g;

	new_run(path, "creates");
	struct queue *q = join(path);
	submit(q, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n", &e);
	strike(DISK_SYMLINK, "a@1.claim", -EEXIST, 1, true);
	ok(!queue_claim(q, 1, 1, 0, &by, now, &g), "EEXIST for our own success is success");
	strike(DISK_SYMLINK, "a@1.end", -EIO, 3, true);
	ok(!queue_end(q, 1, 1, END_DONE, WHY_NONE, NULL, now), "a reply that was lost is read back");
	strike(DISK_SYMLINK, "b@1.claim", -EIO, 2, false);
	ok(!queue_claim(q, 2, 1, 0, &by, now, &g), "unknown: the same create again until it is known");
	strike(DISK_SYMLINK, "b@1.end", -ENOSPC, 1, false);
	ok(queue_end(q, 2, 1, END_DONE, WHY_NONE, NULL, now) == -ENOSPC &&
		   queue_is_held(q, 2, 1),
	   "a full disk is told, and the claim still held");
	ok(!queue_end(q, 2, 1, END_DONE, WHY_NONE, NULL, now), "later it is done");
	queue_claim(q, 3, 1, 0, &by, now, &g);
	strike(DISK_SYMLINK, "c@1.end", -ENOSPC, 1, true);
	faults[1] = (struct fault){ .calls = 1 << DISK_READLINK, .part = "c@1.end", .code = -ENOENT,
				    .times = 1 };
	ok(queue_end(q, 3, 1, END_DONE, WHY_NONE, NULL, now) == -ENOSPC,
	   "a create was refused, and arrives all the same");
	ok(!queue_end(q, 3, 1, END_DONE, WHY_NONE, NULL, now), "who ends it again is not told that it "
	   "is lost: that end is its own");
	queue_close(q, now);
}

/* A create whose outcome is unknown may arrive hours later: "nothing happened" would be a lie. */
static void
late_create(void)
{
	char path[300];
	char found[LINK_TEXT];

	new_run(path, "late");
	struct disk d = faults_disk(path);
	strike(DISK_SYMLINK, "x@1.claim", -EIO, 1, false);
	disk_mkdir(&d, "chain/b.0");
	int rc = chain_cas(&d, "chain/b.0/x@1.claim", "n.a:1:1", found);
	ok(rc == 1, "after an unknown outcome it is repeated until it is known");
	strike(DISK_SYMLINK, "x@1.claim", -ENOSPC, 1, false);
	ok(chain_cas(&d, "chain/b.0/x@1.claim", "n.a:1:1", found) == 1,
	   "ENOSPC for what stands already is success");
	ok(chain_cas(&d, "chain/b.0/x@1.claim", "n.b:1:1", found) == 0 && !strcmp(found, "n.a:1:1"),
	   "and another's text is a loss");
	disk_close(&d);
}

/* Let time pass, for the queue as well. */
static void
pass(int64_t ms)
{
	faults_pass(ms);
	now = faults_now();
}

/* A claim whose create took longer than steal_after is not stale when it is granted. */
static void
slow_claim(void)
{
	const struct claimer by = { .comm = "test" };
	char path[300];
	struct err e = { 0 };
	struct grant g;

	new_run(path, "slow");
	pass(0);
	struct queue *q = join(path);
	submit(q, "{\"id\":\"a\"}\n", &e);
	strike(DISK_SYMLINK, "a@1.claim", -EIO, 250, false);
	ok(!queue_claim(q, 1, 1, 0, &by, now, &g), "a create that takes minutes is granted at last");
	pass(0);
	queue_tick(q, now);
	ok(queue_is_held(q, 1, 1), "and its agent has its time from then on");
	queue_close(q, now);
}

/* No times can be set for anybody: who lost its own beat meanwhile condemns nobody. */
static void
no_times(void)
{
	char path[300];
	char owner[OWNER_TEXT];
	char beat[DISK_PATH];
	struct disk_stat st;

	new_run(path, "times");
	pass(0);
	struct queue *q = join(path);
	struct disk d = faults_disk(path);
	disk_create(&d, "nodes/other.aaaaaaaaaaaa", "x", 1);
	queue_owner(q, owner);
	snprintf(beat, sizeof(beat), "nodes/%s", owner);
	disk_unlink(&d, beat);
	strike(DISK_TOUCH, "nodes/", -EIO, -1, false);
	faults[0].skip = 1; /* the one that finds its beat gone */
	for (int i = 0; i < 8; i++) {
		pass(conf_beat_ms(queue_conf(q)));
		queue_beat(q, now);
		queue_watch(q, now);
	}
	ok(!disk_stat(&d, "nodes/other.aaaaaaaaaaaa", &st),
	   "a daemon that cannot join again takes no silence for death");
	faults_clear();
	for (int i = 0; i < 8; i++) {
		pass(conf_beat_ms(queue_conf(q)));
		queue_beat(q, now);
		queue_watch(q, now);
	}
	ok(disk_stat(&d, "nodes/other.aaaaaaaaaaaa", &st) == -ENOENT, "but later it does");
	disk_close(&d);
	queue_close(q, now);
}

static int
unlink_above(void *arg, const char *bay)
{
	static const char *const gone[] = { "a@1.end", "a@2.claim", "a@2.end" };
	struct disk *d = arg;
	char path[DISK_PATH];

	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		snprintf(path, sizeof(path), "chain/%.64s/%s", bay, gone[i]);
		disk_unlink(d, path);
	}
	return 0;
}

/* Links are deleted so that an old claim of ours is the highest: nobody else could end it. */
static void
claim_below(void)
{
	const struct claimer by = { .comm = "test" };
	const struct queue_options looks = { .join = false };
	char path[300];
	struct err e = { 0 };
	struct grant g;
	struct task t;

	new_run(path, "below");
	pass(0);
	struct queue *q = join(path);
	struct disk d = faults_disk(path);
	submit(q, "{\"id\":\"a\"}\n", &e);
	queue_claim(q, 1, 1, 0, &by, now, &g);
	queue_end(q, 1, 1, END_FREED, WHY_RELEASED, NULL, now);
	queue_claim(q, 1, 2, 0, &by, now, &g);
	queue_end(q, 1, 2, END_DONE, WHY_NONE, NULL, now);
	pass(2 * queue_conf(q)->steal_after_ms);
	queue_tick(q, now);
	disk_list(&d, "chain", unlink_above, &d);
	for (int i = 0; i < 4; i++) {
		pass(30000);
		queue_refresh(q, now, 0, 0);
	}
	struct queue *other = queue_open_disk(faults_disk(path), path, &looks, now, &e);
	pass(1);
	queue_refresh(other, now, 0, 0);
	ok(!queue_find(other, "a", &t) && t.state == TASK_DONE,
	   "who knows that it is over ends its old claim again");
	queue_close(other, now);
	disk_close(&d);
	queue_close(q, now);
}

/* A process that is gone, and a beat of it that cannot be removed for a while. */
static void
unburied(void)
{
	char path[300];
	char beat[400];
	char owner[OWNER_TEXT] = "";
	int fds[2];
	int status;

	new_run(path, "unburied");
	if (pipe(fds))
		return;
	pid_t pid = fork();
	if (!pid) {
		queue_owner(join(path), owner);
		_exit(write(fds[1], owner, sizeof(owner)) != sizeof(owner));
	}
	waitpid(pid, &status, 0);
	bool told = read(fds[0], owner, sizeof(owner)) == sizeof(owner);
	snprintf(beat, sizeof(beat), "%s/nodes/%.30s", path, owner);
	struct queue *q = join(path);
	strike(DISK_UNLINK, owner, -EACCES, -1, false);
	queue_watch(q, now);
	ok(told && !access(beat, F_OK), "a dead owner's beat cannot be removed");
	faults_clear();
	queue_watch(q, now);
	ok(access(beat, F_OK) != 0, "it is, as soon as it can be");
	queue_close(q, now);
	close(fds[0]);
	close(fds[1]);
}

/* A batch whose publisher may have died before its sync is used by nobody who cannot sync it. */
static void
unsynced_batch(void)
{
	char path[300];
	struct err e = { 0 };
	struct task t;

	new_run(path, "unsynced");
	pass(0);
	struct queue *q = join(path);
	struct queue *other = join(path);
	ok(!submit(q, "{\"id\":\"a\"}\n", &e), "a batch is published");
	strike(DISK_SYNC, "batches", -EIO, -1, false);
	pass(1);
	ok(queue_refresh(other, now, 0, 0) == -EIO && queue_find(other, "a", &t) == -ENOENT,
	   "another daemon that cannot sync it does not know it yet");
	faults_clear();
	pass(1);
	ok(queue_refresh(other, now, 0, 0) >= 0 && !queue_find(other, "a", &t), "and then it does");
	queue_close(other, now);
	queue_close(q, now);
}

int
main(void)
{
	log_init("fault.t", LOG_NOTHING);
	now = faults_now();
	batches();
	unknown_creates();
	late_create();
	slow_claim();
	no_times();
	claim_below();
	unsynced_batch();
	unburied();
	return done_testing();
}
