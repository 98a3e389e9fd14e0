/*
 * fault.c - storage that lies: the queue behind a table of calls that fail when they are told to.
 */
#include <config.h>

#include "clock.h"
#include "queue.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct now now;
static const struct disk_ops *real;
static struct disk_ops faulty;

/* The next `times` calls of a kind on a path that contains `part` answer `code`; a negative
 * times is for ever. done: the call is made all the same, as by a server whose reply was lost. */
static struct fault {
	const char *part;
	int code, times;
	bool done;
} on_symlink, on_readlink;

static bool
strikes(struct fault *f, const char *path)
{
	if (!f->part || !f->times || !strstr(path, f->part))
		return false;
	f->times--;
	return true;
}

static int
faulty_symlink(void *ctx, const char *text, const char *path)
{
	if (!strikes(&on_symlink, path))
		return real->symlink(ctx, text, path);
	if (on_symlink.done)
		real->symlink(ctx, text, path);
	return on_symlink.code;
}

static int
faulty_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	return strikes(&on_readlink, path) ? on_readlink.code :
					     real->readlink(ctx, path, buf, size);
}

static void
no_pause(void *ctx, int ms)
{
	(void)ctx;
	(void)ms;
}

static struct disk
open_disk(const char *path)
{
	struct disk d;
	struct err e = { 0 };

	if (disk_open(&d, path, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	real = d.ops;
	faulty = *real;
	faulty.symlink = faulty_symlink;
	faulty.readlink = faulty_readlink;
	faulty.pause = no_pause;
	d.ops = &faulty;
	return d;
}

static struct queue *
join(const char *path)
{
	const struct queue_options o = { .join = true };
	struct err e = { 0 };
	struct queue *q = queue_open_disk(open_disk(path), path, &o, now, &e);

	if (!q) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	return q;
}

/* Submit one text; 0 or the errno. */
static int
submit(struct queue *q, const char *text, struct err *e)
{
	struct submission *s = submission_new(q, NULL, e);
	int rc = s ? submission_feed(s, text, strlen(text), e) : -ENOMEM;

	if (!rc)
		rc = submission_finish(s, "test", now, e);
	submission_free(s);
	return rc;
}

static void
new_run(char path[300], const char *name)
{
	struct err e = { 0 };

	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	if (queue_init(path, "", &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
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

	on_readlink = (struct fault){ .part = "batches/1", .code = -EIO, .times = -1 };
	q = join(path);
	ok(queue_find(q, "y", &t) == -ENOENT,
	   "while the first cannot be read the second waits: their order decides");
	now.boot_ms += 10;
	queue_refresh(q, now, 0, 0);
	ok(!queue_drained(q, 2, now.boot_ms), "and nothing is called drained");
	ok(submit(q, "{\"id\":\"x\",\"other\":1}\n", &e) == -EIO,
	   "nor is anything published that cannot be compared: %s", e.text);
	on_readlink.times = 0;
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
	on_symlink = (struct fault){ .part = "a@1.claim", .code = -EEXIST, .times = 1, .done = true };
	ok(!queue_claim(q, 1, 1, 0, &by, now, &g), "EEXIST for our own success is success");
	on_symlink = (struct fault){ .part = "a@1.end", .code = -EIO, .times = 3, .done = true };
	ok(!queue_end(q, 1, 1, END_DONE, WHY_NONE, NULL, now), "a reply that was lost is read back");
	on_symlink = (struct fault){ .part = "b@1.claim", .code = -EIO, .times = 2 };
	ok(!queue_claim(q, 2, 1, 0, &by, now, &g), "unknown: the same create again until it is known");
	on_symlink = (struct fault){ .part = "b@1.end", .code = -ENOSPC, .times = 1 };
	ok(queue_end(q, 2, 1, END_DONE, WHY_NONE, NULL, now) == -ENOSPC &&
		   queue_is_held(q, 2, 1),
	   "a full disk is told, and the claim still held");
	ok(!queue_end(q, 2, 1, END_DONE, WHY_NONE, NULL, now), "later it is done");
	queue_claim(q, 3, 1, 0, &by, now, &g);
	on_symlink = (struct fault){ .part = "c@1.end", .code = -ENOSPC, .times = 1, .done = true };
	on_readlink = (struct fault){ .part = "c@1.end", .code = -ENOENT, .times = 1 };
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
	struct disk d = open_disk(path);
	on_symlink = (struct fault){ .part = "x@1.claim", .code = -EIO, .times = 1 };
	disk_mkdir(&d, "chain/b.0");
	int rc = chain_cas(&d, "chain/b.0/x@1.claim", "n.a:1:1", found);
	ok(rc == 1, "after an unknown outcome it is repeated until it is known");
	on_symlink = (struct fault){ .part = "x@1.claim", .code = -ENOSPC, .times = 1 };
	ok(chain_cas(&d, "chain/b.0/x@1.claim", "n.a:1:1", found) == 1,
	   "ENOSPC for what stands already is success");
	ok(chain_cas(&d, "chain/b.0/x@1.claim", "n.b:1:1", found) == 0 && !strcmp(found, "n.a:1:1"),
	   "and another's text is a loss");
	disk_close(&d);
}

int
main(void)
{
	log_init("fault.t", LOG_NOTHING);
	now = now_read();
	batches();
	unknown_creates();
	late_create();
	return done_testing();
}
