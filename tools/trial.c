/*
 * trial.c - the directory under `raser doctor`: races, the time that calls take, room, and load.
 */
#include <config.h>

#include "doctor.h"

#include "folder.h"
#include "gang.h"
#include "load.h"
#include "race.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/quota.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	TIMED = 40,	  /* calls of a kind that are timed */
	NAMES_A_TASK = 7, /* a claim, an end, and what an agent's attempt leaves in results/ */
	SAMPLES_MAX = 400000,
	FILL_A_SECOND = 10000, /* tasks for each second of load, for all processes */
	FILL_MAX = 100000,
	AGENTS = 1000, /* what a rate is explained with */
	SLOW_CALL_US = 50000,
};

static int64_t
clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int
by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* ---- races ---- */

static void
race_in(struct doctor *d, const char *scratch, const char *name, int procs, int threads)
{
	char path[DISK_PATH];
	char where[PATH_MAX + DISK_PATH];
	struct race r;

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	snprintf(where, sizeof(where), "%s/%s", d->dir, path);
	int rc = disk_mkdir(&d->disk, path);
	if (!rc)
		rc = race_run(where, procs, threads, &d->stop, &r);
	if (d->stop)
		return;
	if (rc) {
		finding_add(&d->findings, FINDING_FAILS, "race",
			    "whether a name has one winner here is not known",
			    "%d processes with %d threads could not race: %s", procs, threads,
			    strerror(-rc));
		return;
	}
	if (r.several || r.none || r.disagreed)
		finding_add(&d->findings, FINDING_FAILS, "race",
			    "tasks would be given out twice or lost; use another file system",
			    "%d processes x %d threads, %d names: %d won by several, %d by nobody, "
			    "%d read differently",
			    procs, threads, r.names, r.several, r.none, r.disagreed);
	else if (r.unanswered)
		finding_add(&d->findings, FINDING_FAILS, "race", "see to it, and try again",
			    "%d processes x %d threads: %d creates refused: %s", procs, threads,
			    r.unanswered, strerror(-r.code));
	else
		finding_add(&d->findings, FINDING_OK, "race", NULL,
			    "%d process%s x %d threads, %d names: one winner each (%.2f s)", procs,
			    procs > 1 ? "es" : "", threads, r.names, r.seconds);
}

/* ---- how long calls take ---- */

static uint32_t
median(uint32_t *us)
{
	qsort(us, TIMED, sizeof(*us), by_number);
	return us[TIMED / 2];
}

static void
time_calls(struct doctor *d, const char *scratch)
{
	enum { LINKED, SYNCED, TOUCHED, KINDS };
	uint32_t us[KINDS][TIMED];
	char path[DISK_PATH];
	char found[LINK_TEXT];
	struct disk_stat st;

	snprintf(path, sizeof(path), "%s/beat", scratch);
	int rc = disk_create(&d->disk, path, "beat\n", 5);
	for (int i = 0; i < TIMED && !rc && !d->stop; i++) {
		int64_t t[KINDS + 1];

		snprintf(path, sizeof(path), "%s/t%d@1.claim", scratch, i);
		t[0] = clock_us();
		rc = chain_cas(&d->disk, path, "doctor:1:1", found);
		t[1] = clock_us();
		rc = rc < 0 ? rc : disk_sync(&d->disk, scratch);
		t[2] = clock_us();
		snprintf(path, sizeof(path), "%s/beat", scratch);
		rc = rc ? rc : disk_touch(&d->disk, path, now_read().wall_s + i);
		rc = rc ? rc : disk_stat(&d->disk, path, &st);
		t[3] = clock_us();
		for (int k = 0; k < KINDS; k++)
			us[k][i] = (uint32_t)(t[k + 1] - t[k]);
	}
	if (d->stop)
		return;
	if (rc) {
		finding_add(&d->findings, FINDING_FAILS, "time of calls",
			    "see to it, and try again", "%s", strerror(-rc));
		return;
	}
	uint32_t link = median(us[LINKED]);
	uint32_t sync = median(us[SYNCED]);
	uint32_t touch = median(us[TOUCHED]);
	bool slow = link > SLOW_CALL_US || sync > SLOW_CALL_US || touch > SLOW_CALL_US;
	struct finding *one = finding_add(
		&d->findings, slow ? FINDING_WARNING : FINDING_OK, "time of calls", NULL,
		"a claim %.3f ms, a directory sync %.3f ms, a beat %.3f ms (medians)", link / 1e3,
		sync / 1e3, touch / 1e3);
	if (slow)
		finding_advise(one,
			       "every claim and end waits for that; the storage is slow or busy");
}

/* ---- room ---- */

static void
human(double bytes, char *text, size_t size)
{
	static const char units[] = "KMGTPE";
	int u = -1;

	while (bytes >= 1024 && units[u + 1]) {
		bytes /= 1024;
		u++;
	}
	if (u < 0)
		snprintf(text, size, "%.0f bytes", bytes);
	else
		snprintf(text, size, "%.1f %cB", bytes, units[u]);
}

static void
enough_names(struct doctor *d, const char *topic, const char *whose, int64_t left)
{
	int64_t need = d->tasks > 0 ? d->tasks * NAMES_A_TASK : 0;
	bool few = left < need || left < 1000;
	struct finding *one = finding_add(&d->findings, few ? FINDING_WARNING : FINDING_OK, topic,
					  NULL,
					  "%s %" PRId64 " more files: about %" PRId64 " attempts",
					  whose, left, left / NAMES_A_TASK);

	if (left < need)
		finding_advise(one,
			       "%" PRId64 " tasks are not done yet and need about %" PRId64
			       ". When there are no more, ends wait until some are freed. Get a "
			       "higher limit, or split the run",
			       d->tasks, need);
	else if (few)
		finding_advise(one, "every attempt needs about %d", (int)NAMES_A_TASK);
}

/* The user's quota, where the kernel answers for this file system: quotactl(2). */
static void
quota(struct doctor *d, int fd)
{
	struct dqblk q = { 0 };
	char left[32];

#ifdef SYS_quotactl_fd
	/* QCMD() shifts a signed number too far */
	if (syscall(SYS_quotactl_fd, fd, (unsigned)Q_GETQUOTA << SUBCMDSHIFT | USRQUOTA, geteuid(),
		    &q) < 0)
#endif
		q.dqb_valid = 0;
	(void)fd;
	if (q.dqb_valid & QIF_ILIMITS && (q.dqb_isoftlimit || q.dqb_ihardlimit)) {
		uint64_t limit = q.dqb_isoftlimit ? q.dqb_isoftlimit : q.dqb_ihardlimit;

		enough_names(d, "quota", "your quota allows",
			     limit > q.dqb_curinodes ? (int64_t)(limit - q.dqb_curinodes) : 0);
	}
	if (q.dqb_valid & QIF_BLIMITS && (q.dqb_bsoftlimit || q.dqb_bhardlimit)) {
		/* limits in blocks of 1 KiB, use in bytes */
		double limit = 1024.0 *
			       (double)(q.dqb_bsoftlimit ? q.dqb_bsoftlimit : q.dqb_bhardlimit);

		human(limit > (double)q.dqb_curspace ? limit - (double)q.dqb_curspace : 0, left,
		      sizeof(left));
		finding_add(&d->findings, FINDING_OK, "quota", NULL, "your quota allows %s more",
			    left);
	}
	if (d->storage.kind == STORAGE_LUSTRE)
		finding_advise(finding_add(&d->findings, FINDING_NOTE, "quota", NULL,
					   "Lustre keeps its own"),
			       "lfs quota -hu $USER %.200s tells it", d->dir);
	else if (d->storage.kind == STORAGE_GPFS)
		finding_add(&d->findings, FINDING_NOTE, "quota", "mmlsquota -u $USER tells it",
			    "GPFS keeps its own");
	else if (d->storage.kind == STORAGE_NFS)
		finding_add(&d->findings, FINDING_NOTE, "quota", "quota -s may tell it",
			    "of an NFS server cannot be asked from here");
}

static void
room(struct doctor *d)
{
	struct statvfs v;
	char left[32];

	if (statvfs(d->dir, &v) < 0) {
		finding_add(&d->findings, FINDING_NOTE, "room", NULL, "unknown: %s",
			    strerror(errno));
		return;
	}
	double bytes = (double)v.f_bavail * (double)v.f_frsize;
	human(bytes, left, sizeof(left));
	bool few = bytes < 100e6;
	struct finding *one = finding_add(&d->findings, few ? FINDING_WARNING : FINDING_OK, "room",
					  NULL, "%s free", left);
	if (few)
		finding_advise(one, "submissions, results and checkpoints lie here");
	if (v.f_files && v.f_favail < (fsfilcnt_t)INT64_MAX)
		enough_names(d, "room", "the file system has room for", (int64_t)v.f_favail);
	int fd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		quota(d, fd);
		close(fd);
	}
}

/* ---- leftovers ---- */

static int
on_leftover(void *arg, const char *name)
{
	if (!strncmp(name, SELFTEST_PREFIX, strlen(SELFTEST_PREFIX)))
		++*(int *)arg;
	return 0;
}

/* Make a scratch directory; false after a finding. */
static bool
scratch_make(struct doctor *d, char name[SELFTEST_NAME])
{
	int rc = selftest_scratch(&d->disk, name);

	if (rc)
		finding_add(&d->findings, FINDING_FAILS, "writing", "see to it, and try again",
			    "nothing can be made here: %s", strerror(-rc));
	return rc == 0;
}

static void
scratch_remove(struct doctor *d, const char *name)
{
	char path[PATH_MAX + DISK_PATH];

	snprintf(path, sizeof(path), "%s/%s", d->dir, name);
	folder_remove(path);
}

void
doctor_trial(struct doctor *d)
{
	char scratch[SELFTEST_NAME];
	int old = 0;

	if (disk_list(&d->disk, ".", on_leftover, &old) == 0 && old)
		finding_add(&d->findings, FINDING_NOTE, "leftovers",
			    "none of them is used by a run; when no raser doctor runs, remove them",
			    "%d directories " SELFTEST_PREFIX "* of trials", old);
	if (scratch_make(d, scratch)) {
		race_in(d, scratch, "one", 1, RACE_THREADS);
		if (!d->stop)
			race_in(d, scratch, "several", 4, RACE_THREADS / 4);
		if (!d->stop)
			time_calls(d, scratch);
		scratch_remove(d, scratch);
	}
	room(d);
}

/* ---- load ---- */

struct bench {
	char run[PATH_MAX + DISK_PATH];
	double seconds;
	atomic_long pairs, lost;
	atomic_llong last; /* clock_us() of the last end in time */
	int64_t began_us;
	struct err err; /* of a worker that failed */
	atomic_uint nsamples;
	uint32_t samples[SAMPLES_MAX]; /* us from asking to the durable end */
};

struct client {
	struct gang *gang;
	struct bench *bench;
	int64_t asked;
};

static void
client_start(void *arg)
{
	struct client *c = arg;

	gang_start(c->gang);
}

static bool
client_goes_on(void *arg)
{
	struct client *c = arg;

	c->asked = clock_us();
	return (double)(c->asked - c->bench->began_us) < c->bench->seconds * 1e6;
}

static void
client_claimed(void *arg, long task)
{
	(void)arg;
	(void)task;
}

static void
client_ended(void *arg)
{
	struct client *c = arg;
	struct bench *b = c->bench;
	int64_t now = clock_us();
	unsigned i = atomic_fetch_add(&b->nsamples, 1);

	if (i < SAMPLES_MAX)
		b->samples[i] = (uint32_t)(now - c->asked);
	atomic_fetch_add(&b->pairs, 1);
	long long last = atomic_load(&b->last);
	while (now > last && !atomic_compare_exchange_weak(&b->last, &last, now))
		;
}

static int
client(struct gang *g, int rank, void *arg)
{
	static const struct load_hooks hooks = { client_start, client_goes_on, client_claimed,
						 client_ended };
	struct client c = { .gang = g, .bench = arg };
	struct err e = { 0 };
	long lost = 0;

	(void)rank;
	int rc = load_work(c.bench->run, &hooks, &c, &lost, &e);
	if (rc)
		c.bench->err = e;
	atomic_fetch_add(&c.bench->lost, lost);
	return rc != 0;
}

static void
client_begin(void *arg)
{
	((struct bench *)arg)->began_us = clock_us();
}

static void
tell_load(struct doctor *d, struct bench *b, int n)
{
	unsigned count = atomic_load(&b->nsamples);
	long pairs = atomic_load(&b->pairs);

	if (count > SAMPLES_MAX)
		count = SAMPLES_MAX;
	if (!count) {
		finding_add(&d->findings, FINDING_WARNING, "load",
			    "the storage is very slow: try a longer --seconds",
			    "%d processes: no task was done within %.1f s", n, b->seconds);
		return;
	}
	qsort(b->samples, count, sizeof(*b->samples), by_number);
	double rate = (double)pairs * 1e6 / (double)(atomic_load(&b->last) - b->began_us);
	uint32_t middle = b->samples[count / 2];
	uint32_t worst = b->samples[count - 1 - count / 100];
	double p99 = worst / 1e3;
	bool slow = p99 > (double)conf_beat_ms(&d->conf);
	finding_advise(finding_add(&d->findings, slow ? FINDING_WARNING : FINDING_OK, "load", NULL,
				   "%d processes: %.0f durable claims and ends a second, p50 %.2f "
				   "ms, p99 %.2f ms, %ld races lost of %ld",
				   n, rate, middle / 1e3, p99, atomic_load(&b->lost),
				   atomic_load(&b->lost) + pairs),
		       "it keeps %d agents busy whose tasks take %.1f s or longer%s", AGENTS,
		       AGENTS / rate,
		       slow ? "; but one in a hundred waits longer than a beat" : "");
}

void
doctor_load(struct doctor *d, int n, double seconds)
{
	char scratch[SELFTEST_NAME];
	struct err e = { 0 };
	double fill = FILL_A_SECOND * seconds;

	struct bench *b = gang_memory(sizeof(*b));
	if (!b || !scratch_make(d, scratch))
		return;
	snprintf(b->run, sizeof(b->run), "%s/%s/run", d->dir, scratch);
	b->seconds = seconds;
	int rc = load_fill(b->run, fill > FILL_MAX ? FILL_MAX : (long)fill, "raser doctor", &e);
	if (!rc) {
		rc = gang_run(n, client, client_begin, b, &d->stop);
		if (rc > 0 && !b->err.text[0])
			snprintf(b->err.text, sizeof(b->err.text), "a process of it was killed");
		else if (rc < 0)
			snprintf(b->err.text, sizeof(b->err.text), "%s", strerror(-rc));
	} else {
		b->err = e;
	}
	if (!d->stop && rc)
		finding_add(&d->findings, FINDING_FAILS, "load", "see to it, and try again",
			    "%.190s", b->err.text);
	else if (!d->stop)
		tell_load(d, b, n);
	scratch_remove(d, scratch);
	munmap(b, sizeof(*b));
}
