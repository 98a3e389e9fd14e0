/*
 * faults.c - the table of faulty calls, one disk at a time.
 */
#include <config.h>

#include "faults.h"

#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault faults[FAULTS];
enum disk_call fault_trace[TRACE_MAX];
int fault_calls;

static const struct disk_ops *real;
static struct now clock_now;
static int pauses; /* since faults_trace() or faults_clear() */

enum { PAUSES_MAX = 10000 };

void
faults_trace(void)
{
	fault_calls = 0;
}

void
faults_clear(void)
{
	memset(faults, 0, sizeof(faults));
	pauses = 0;
}

struct now
faults_now(void)
{
	if (!clock_now.boot_ms)
		clock_now = now_read();
	return clock_now;
}

void
faults_pass(int64_t ms)
{
	faults_now();
	clock_now.wall_s += (clock_now.boot_ms % 1000 + ms) / 1000;
	clock_now.boot_ms += ms;
}

/* The fault that strikes this call, or NULL. */
static const struct fault *
strikes(enum disk_call call, const char *path)
{
	if (fault_calls < TRACE_MAX)
		fault_trace[fault_calls] = call;
	fault_calls++;
	for (int i = 0; i < FAULTS; i++) {
		struct fault *f = &faults[i];

		if (!f->code || !f->times || (f->calls && !(f->calls & 1 << call)) ||
		    (f->part && !strstr(path, f->part)) ||
		    (f->until && faults_now().boot_ms >= f->until))
			continue;
		if (f->skip > 0) {
			f->skip--;
			continue;
		}
		if (f->times > 0)
			f->times--;
		return f;
	}
	return NULL;
}

/* Answer as the fault says, having made the call or not; without one as the disk does. */
#define ANSWER(kind, path, call)                                \
	do {                                                    \
		const struct fault *f = strikes((kind), (path)); \
		if (!f)                                         \
			return (call);                          \
		int code = f->code;                             \
		if (f->done)                                    \
			(void)(call);                           \
		return code;                                    \
	} while (0)

static int
faulty_symlink(void *ctx, const char *text, const char *path)
{
	ANSWER(DISK_SYMLINK, path, real->symlink(ctx, text, path));
}

static int
faulty_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	ANSWER(DISK_READLINK, path, real->readlink(ctx, path, buf, size));
}

static int
faulty_mkdir(void *ctx, const char *path)
{
	ANSWER(DISK_MKDIR, path, real->mkdir(ctx, path));
}

static int
faulty_unlink(void *ctx, const char *path)
{
	ANSWER(DISK_UNLINK, path, real->unlink(ctx, path));
}

static int
faulty_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	ANSWER(DISK_LIST, path, real->list(ctx, path, fn, arg));
}

static int
faulty_stat(void *ctx, const char *path, struct disk_stat *st)
{
	ANSWER(DISK_STAT, path, real->stat(ctx, path, st));
}

static int
faulty_touch(void *ctx, const char *path, int64_t seconds)
{
	ANSWER(DISK_TOUCH, path, real->touch(ctx, path, seconds));
}

static int
faulty_create(void *ctx, const char *path, const void *data, size_t len)
{
	ANSWER(DISK_CREATE, path, real->create(ctx, path, data, len));
}

static int
faulty_amend(void *ctx, const char *path, const void *data, size_t len)
{
	ANSWER(DISK_AMEND, path, real->amend(ctx, path, data, len));
}

static int
faulty_read(void *ctx, const char *path, void *buf, size_t size)
{
	ANSWER(DISK_READ, path, real->read(ctx, path, buf, size));
}

static int
faulty_import(void *ctx, int local_fd, const char *path)
{
	ANSWER(DISK_IMPORT, path, real->import(ctx, local_fd, path));
}

static int
faulty_sync(void *ctx, const char *dir)
{
	ANSWER(DISK_SYNC, dir, real->sync(ctx, dir));
}

static int
faulty_home(void *ctx, const char *format)
{
	ANSWER(DISK_READ, "FORMAT", real->home(ctx, format));
}

static void
faulty_pause(void *ctx, int ms)
{
	(void)ctx;
	faults_pass(ms);
	/* no fault lasts for hours: whoever still waits waits for ever */
	if (++pauses > PAUSES_MAX) {
		printf("Bail out! somebody waits for ever\n");
		exit(1);
	}
}

static int64_t
faulty_now(void *ctx)
{
	(void)ctx;
	return faults_now().boot_ms;
}

static struct disk_ops faulty = {
	.symlink = faulty_symlink, .readlink = faulty_readlink, .mkdir = faulty_mkdir,
	.unlink = faulty_unlink,   .list = faulty_list,	  .stat = faulty_stat,
	.touch = faulty_touch,	   .create = faulty_create,	  .amend = faulty_amend,
	.read = faulty_read,	   .import = faulty_import,	  .sync = faulty_sync,
	.home = faulty_home,	   .pause = faulty_pause,	  .now = faulty_now,
};

struct disk
faults_disk(const char *path)
{
	struct disk d;
	struct err e = { 0 };

	if (disk_open(&d, path, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	real = d.ops;
	faulty.locate = real->locate;
	faulty.close = real->close;
	d.ops = &faulty;
	return d;
}

struct queue *
faults_queue(const char *path, bool join, struct err *err)
{
	const struct queue_options o = { .join = join };

	return queue_open_disk(faults_disk(path), path, &o, faults_now(), err);
}

int
submit(struct queue *q, const char *text, struct err *err)
{
	struct submission *s = submission_new(q, NULL, err);
	int rc = s ? submission_feed(s, text, strlen(text), err) : -ENOMEM;

	if (!rc)
		rc = submission_finish(s, "test", faults_now(), err);
	submission_free(s);
	return rc;
}

void
new_run(char path[300], const char *name)
{
	struct err e = { 0 };

	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	if (queue_init(path, "", &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
}
