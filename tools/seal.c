/*
 * seal.c - raser seal RUN: pack the links of finished bays, then the records of their attempts.
 * Links are the queue's (fs/queue/seal.h); what lies under results/ and checkpoints/ is data, and
 * is packed or removed only for bays whose seal stands.
 */
#include <config.h>

#include "raser.h"

#include "records.h"
#include "store.h"
#include "waiting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name below results/ or checkpoints/, and its task. */
struct thing {
	int64_t serial;
	char *name;
	bool link; /* symbolic */
};

struct things {
	struct thing *all;
	size_t n, cap;
};

struct work {
	struct target t;
	struct queue *q;
	struct seal_watcher w;
	int results; /* open directory; -1: there is none */
	struct things kept, saved; /* of results/ and of checkpoints/ */
	int64_t bays, before, unfinished, links, attempts, archives, stores;
	struct waiting waiting;
	int status;
};

static int
tick(void *arg)
{
	struct work *w = arg;

	return queue_seal_beat(w->q, &w->w);
}

/* ---- what attempts left ---- */

static int
by_serial(const void *a, const void *b)
{
	const struct thing *x = a;
	const struct thing *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	/* links before the folders that they point to: T before T@1.r */
	if (x->link != y->link)
		return x->link ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* All names of a folder of the run that belong to tasks, in the order of tasks. */
static int
collect(struct work *w, const char *folder, struct things *out)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", w->t.run, folder);
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : complain(1, "%s: %s", path, strerror(errno));
	for (const struct dirent *e; (e = readdir(d));) {
		const char *at = strchr(e->d_name, '@');
		size_t len = at ? (size_t)(at - e->d_name) : strlen(e->d_name);
		char name[NAME_LIMIT + 1];
		struct task t;

		if (e->d_name[0] == '.' || len > NAME_LIMIT)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)len, e->d_name);
		if (queue_find(w->q, name, &t))
			continue; /* nobody's here */
		if (out->n == out->cap) {
			size_t cap = out->cap ? out->cap * 2 : 1024;
			struct thing *grown = realloc(out->all, cap * sizeof(*grown));

			if (!grown)
				break;
			out->all = grown;
			out->cap = cap;
		}
		struct stat st;
		bool link = !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
			    S_ISLNK(st.st_mode);
		out->all[out->n] = (struct thing){ t.serial, strdup(e->d_name), link };
		if (!out->all[out->n].name)
			break;
		out->n++;
	}
	closedir(d);
	if (out->n)
		qsort(out->all, out->n, sizeof(*out->all), by_serial);
	return 0;
}

/* The first thing of a task at or behind serial. */
static size_t
find_first(const struct things *x, int64_t serial)
{
	size_t low = 0;
	size_t high = x->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (x->all[mid].serial < serial)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A number that no archive of the bay has yet. */
static unsigned
next_archive(const struct work *w, const struct seal_bay *b)
{
	char path[PATH_MAX + 128];
	struct stat st;
	unsigned n = 1;

	for (;; n++) {
		snprintf(path, sizeof(path), "%s/sealed/%s.%d.%u.tar.zst", w->t.run, b->random, b->bay,
			 n);
		if (lstat(path, &st) < 0)
			return n;
	}
}

/* Names that are packed, of those from..to: folders without files of their agents, and links to
 * them. Returns how many. */
static size_t
choose(const struct work *w, size_t from, size_t to, const char **names, int64_t *attempts)
{
	const struct thing *x = w->kept.all;
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const char *folder = x[i].name;
		char target[NAME_MAX + 1];

		if (x[i].link) {
			ssize_t len = readlinkat(w->results, folder, target, sizeof(target) - 1);

			if (len < 0)
				continue;
			target[len] = '\0';
			folder = target;
		}
		struct stat st;
		bool gone = fstatat(w->results, folder, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
			    errno == ENOENT;
		if (strchr(folder, '/') || !(gone ? x[i].link : records_are_all(w->results, folder)))
			continue;
		*attempts += !x[i].link;
		names[n++] = x[i].name;
	}
	return n;
}

static int
pack_records(struct work *w, const struct seal_bay *b)
{
	size_t from = find_first(&w->kept, b->first);
	size_t to = find_first(&w->kept, b->first + b->tasks);
	struct records_result r;
	struct err err = { "" };
	char name[64];
	int64_t attempts = 0;

	if (from == to || w->results < 0)
		return 0;
	const char **names = calloc(to - from, sizeof(*names));
	if (!names)
		return complain(1, "out of memory");
	size_t n = choose(w, from, to, names, &attempts);
	int rc = 0;
	if (n) {
		snprintf(name, sizeof(name), "%s.%d.%u", b->random, b->bay, next_archive(w, b));
		rc = records_pack(w->t.run, name, names, n, tick, w, &r, &err);
	}
	if (rc) {
		w->status = complain(1, "the records of bay %s.%d stay as they are: %s", b->random,
				     b->bay, err.text[0] ? err.text : strerror(-rc));
	} else if (n) {
		rc = records_remove(w->results, names, n, tick, w);
		if (rc)
			w->status = complain(1, "results: %s", strerror(-rc));
		w->attempts += attempts;
		w->archives++;
	}
	free(names);
	return rc == -EOWNERDEAD || rc == -EINTR ? rc : 0;
}

/* What a task could be resumed from, when it is done and will not be. */
static void
remove_stores(struct work *w, const struct seal_bay *b)
{
	size_t to = find_first(&w->saved, b->first + b->tasks);

	for (size_t i = find_first(&w->saved, b->first); i < to; i++) {
		char path[PATH_MAX + 300];
		struct task t;

		if (queue_get(w->q, w->saved.all[i].serial, &t) || t.state != TASK_DONE)
			continue;
		snprintf(path, sizeof(path), "%s/checkpoints/%s", w->t.run, w->saved.all[i].name);
		int rc = store_remove(path);
		if (rc)
			w->status = complain(1, "%s: %s", path, strerror(-rc));
		else
			w->stores++;
	}
}

/* ---- all bays ---- */

static bool
is_chosen(const struct seal_bay *b, char *const *bays, int n)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.%d", b->random, b->bay);
	for (int i = 0; i < n; i++)
		if (!strcmp(bays[i], name))
			return true;
	return n == 0;
}

/* Whether all bays that were named are there; those that are not are said. */
static bool
are_there(const struct work *w, char *const *chosen, int nchosen)
{
	int missing = 0;

	for (int k = 0; k < nchosen; k++) {
		struct seal_bay b;
		bool found = false;

		for (int64_t i = 0; !found && !queue_seal_bay(w->q, i, &b); i++)
			found = is_chosen(&b, chosen + k, 1);
		if (!found)
			missing = complain(1, "there is no bay %s (ls %s/chain)", chosen[k], w->t.run);
	}
	return !missing;
}

static int
seal_bays(struct work *w, char *const *chosen, int nchosen)
{
	struct seal_bay b;
	struct err err = { "" };
	int rc = 0;

	for (int64_t i = 0; !rc && !queue_seal_bay(w->q, i, &b); i++) {
		if (!is_chosen(&b, chosen, nchosen))
			continue;
		rc = queue_seal(w->q, i, &w->w, &b, &err);
		w->links += b.links;
		w->bays += !rc && b.result == SEAL_SEALED;
		w->before += !rc && b.result == SEAL_CLEAN;
		w->unfinished += !rc && b.result == SEAL_UNFINISHED;
		if (rc || (b.result != SEAL_SEALED && b.result != SEAL_CLEAN))
			continue;
		remove_stores(w, &b);
		rc = pack_records(w, &b);
	}
	if (rc == -EINTR)
		return complain(1, "stopped; what is sealed is sealed, and the rest is as it was");
	return rc ? complain(1, "%s", err.text[0] ? err.text : strerror(-rc)) : w->status;
}

static void
sum_up(const struct work *w)
{
	printf("%lld bays sealed, %lld were before, %lld are unfinished\n", (long long)w->bays,
	       (long long)w->before, (long long)w->unfinished);
	printf("%lld links removed; %lld attempts packed into %lld archives; checkpoints of %lld done "
	       "tasks removed\n", (long long)w->links, (long long)w->attempts,
	       (long long)w->archives, (long long)w->stores);
}

static void
things_free(struct things *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->all[i].name);
	free(x->all);
}

static int
seal_run(struct work *w, char *const *chosen, int nchosen)
{
	char path[PATH_MAX + 16];
	struct err err = { "" };
	int rc = queue_seal_wait(w->q, &w->w, &err);

	waiting_end(&w->waiting);
	if (rc == -EINTR)
		return complain(1, "stopped before anything was done");
	if (rc)
		return complain(1, "%s%s", err.text,
				rc == -EBUSY ? "; sealing needs a run that nobody works on" : "");
	snprintf(path, sizeof(path), "%s/results", w->t.run);
	w->results = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int status = collect(w, "results", &w->kept) || collect(w, "checkpoints", &w->saved) ? 1 : 0;
	if (!status) {
		status = seal_bays(w, chosen, nchosen);
		sum_up(w);
	}
	if (w->results >= 0)
		close(w->results);
	return status;
}

int
verb_seal(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bay", required_argument, NULL, 'b' },
		{ NULL, 0, NULL, 0 },
	};
	const struct queue_options o = { .join = true, .as = OWNER_SEALER };
	struct work w = { .results = -1 };
	char **chosen = calloc((size_t)argc + 1, sizeof(*chosen));
	int nchosen = 0;
	struct err err = { "" };
	int c;

	while (chosen && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'b') {
			free(chosen);
			return usage_error();
		}
		chosen[nchosen++] = optarg;
	}
	int status = 1;
	if (!chosen)
		complain(1, "out of memory");
	else if (argc - optind != 1)
		status = usage_error();
	else if (target_find(argv[optind], &w.t) && w.t.is_mount)
		complain(1, "%s is a mount, and a run is sealed when nobody works on it: unmount it, "
			 "and seal %s", argv[optind], w.t.run);
	else if (w.t.run[0]) {
		/* before others can see us: who ends us then leaves no beat behind */
		waiting_begin(&w.waiting, &w.w);
		w.q = queue_open(w.t.run, &o, now_read(), &err);
		if (!w.q)
			complain(1, "%s", err.text);
	}
	if (w.q) {
		status = are_there(&w, chosen, nchosen) ? seal_run(&w, chosen, nchosen) : 1;
		queue_close(w.q, now_read());
	}
	things_free(&w.kept);
	things_free(&w.saved);
	free(chosen);
	return fflush(stdout) || ferror(stdout) ? complain(1, "%s", strerror(errno)) : status;
}
