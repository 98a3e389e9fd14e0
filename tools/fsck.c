/*
 * fsck.c - raser fsck RUN [--repair]: what is odd in a run directory, what it
 * means, what to do.
 */
#include <config.h>

#include "raser.h"

#include "fsckdata.h"
#include "usage.h"
#include "waiting.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_ODD = 1, EXIT_UNREAD = 2, WORTH_SEALING = 1000 };

struct work {
	struct target t;
	struct fsck *f;
	struct fsck_data data;
	bool repair;
};

static void
say(void *arg, enum fsck_level level, const char *path, const char *found, const char *means)
{
	(void)arg;
	printf("%s%s %s\n", level == FSCK_NOTE ? "note: " : "", path, found);
	if (means)
		printf("    %s.\n", means);
}

static void
mended(void *arg, const char *path, const char *why)
{
	(void)arg;
	if (why)
		printf("not repaired: %s: %s\n", path, why);
	else
		printf("repaired: %s\n", path);
}

static void
on_done(void *arg, const struct task *t, unsigned attempt, const char *owner)
{
	struct work *w = arg;

	data_done(&w->data, t, attempt, owner);
}

/* A round of all parts. */
static int
look(struct work *w, struct err *err)
{
	int rc = fsck_nodes(w->f, err);

	if (!rc)
		rc = fsck_batches(w->f, err);
	if (!rc)
		rc = fsck_chain(w->f, err);
	return rc ? rc : data_check(&w->data, err);
}

static void
print_unsaid(const struct fsck *f)
{
	const char *means;

	for (int i = 0; i < ODDITIES; i++) {
		int64_t n = fsck_unsaid(f, i, &means);

		if (n)
			printf("and %lld more of which is said: %s.\n", (long long)n, means);
	}
}

/* What can be repaired only when nobody else works on the run. */
static void
repair_alone(struct work *w)
{
	const struct queue_options o = { .join = true, .as = OWNER_SEALER };
	struct seal_watcher watcher;
	struct waiting waiting;
	struct err err = { "" };
	char who[200];

	if (fsck_living(w->f, who, sizeof(who))) {
		printf("not repaired, as the run is in use: %s lives. What is to be "
		       "removed is removed "
		       "only when nobody works on it\n",
		       who);
		return;
	}
	/* before others can see us: who ends us then leaves no beat behind */
	waiting_begin(&waiting, &watcher);
	struct queue *q = queue_open(w->t.run, &o, now_read(), &err);
	if (!q) {
		printf("not repaired: %s\n", err.text);
		return;
	}
	int rc = queue_seal_wait(q, &watcher, &err);
	waiting_end(&waiting);
	if (!rc) {
		fsck_second(w->f, q, &watcher);
		rc = look(w, &err);
	}
	if (rc == -EINTR)
		printf("stopped; what is repaired is repaired\n");
	else if (rc)
		printf("not repaired: %s\n", err.text[0] ? err.text : strerror(-rc));
	queue_close(q, now_read());
}

static void
print_tasks(struct queue *q)
{
	struct queue_stats s;
	int64_t all = 0;

	queue_stats(q, &s);
	for (int i = 0; i < TASK_STATES; i++)
		all += s.count[i];
	printf("tasks %lld in %d batches: done %lld, failed %lld, cancelled %lld, "
	       "pending %lld, claimed "
	       "%lld\n",
	       (long long)all, s.batches, (long long)s.count[TASK_DONE],
	       (long long)s.count[TASK_FAILED], (long long)s.count[TASK_CANCELLED],
	       (long long)s.count[TASK_PENDING], (long long)s.count[TASK_CLAIMED]);
	if (s.count[TASK_UNREAD])
		printf("ends that cannot be read: %lld\n", (long long)s.count[TASK_UNREAD]);
}

static int
check(struct work *w)
{
	struct fsck_totals totals;
	struct err err = { "" };
	int rc = look(w, &err);

	if (rc)
		return complain(EXIT_UNREAD, "%s", err.text[0] ? err.text : strerror(-rc));
	print_tasks(fsck_queue(w->f));
	rc = usage_print(w->f, w->t.run);
	if (rc)
		return complain(EXIT_UNREAD, "%s: %s", w->t.run, strerror(-rc));
	print_unsaid(w->f);
	fsck_totals(w->f, &totals);
	printf("links %lld, of which raser seal would remove %lld%s\n",
	       (long long)totals.bays.links, (long long)totals.bays.packable,
	       totals.bays.packable >= WORTH_SEALING
		       ? ", and the records of their attempts: worth it, once nobody "
			 "works on the run"
		       : "");
	if (w->repair && totals.alone)
		repair_alone(w);
	fsck_totals(w->f, &totals);
	int64_t left = totals.odd - totals.mended;
	if (!totals.odd)
		printf("fsck: nothing is odd\n");
	else if (w->repair)
		printf("fsck: %lld oddities, %lld repaired, %lld left\n", (long long)totals.odd,
		       (long long)totals.mended, (long long)(left > 0 ? left : 0));
	else
		printf("fsck: %lld oddities%s\n", (long long)totals.odd,
		       totals.odd ? "; --repair repairs those of which it is said" : "");
	return left > 0 ? EXIT_ODD : 0;
}

/* A run directory whose FORMAT is missing is to be looked at as well. */
static bool
find_run(const char *path, struct target *t)
{
	char below[PATH_MAX + 16];
	struct stat st;

	snprintf(below, sizeof(below), "%s/queue", path);
	bool mount = stat(below, &st) == 0;
	snprintf(below, sizeof(below), "%s/FORMAT", path);
	if (mount || lstat(below, &st) == 0)
		return target_find(path, t);
	*t = (struct target){ 0 };
	if (realpath(path, t->run))
		return true;
	complain(EXIT_UNREAD, "%s: %s", path, strerror(errno));
	return false;
}

int
verb_fsck(int argc, char **argv)
{
	static const struct option options[] = {
		{ "repair", no_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	struct work w = { 0 };
	struct err err = { "" };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'r')
			return usage_error();
		w.repair = true;
	}
	if (argc - optind != 1)
		return usage_error();
	if (!find_run(argv[optind], &w.t))
		return EXIT_UNREAD;
	/* all that the library would warn of is told below, once and with what to do
   */
	log_init("raser fsck", LOG_NOTHING);
	const struct fsck_options o = {
		.repair = w.repair, .say = say, .mended = mended, .done = on_done, .arg = &w
	};
	w.f = fsck_open(w.t.run, &o, &err);
	if (!w.f)
		return complain(EXIT_UNREAD, "%s", err.text);
	w.data = (struct fsck_data){ .f = w.f, .run = w.t.run };
	int status = check(&w);
	fsck_close(w.f);
	return fflush(stdout) || ferror(stdout) ? complain(EXIT_UNREAD, "%s", strerror(errno))
						: status;
}
