/*
 * checkpoint.c - raser checkpoint ls, verify, extract: the checkpoints of a run, for people. It
 * reads the run directory and leaves no marks.
 */
#include <config.h>

#include "raser.h"

#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void
store_path(const struct target *t, const char *name, char path[PATH_MAX + 300])
{
	snprintf(path, PATH_MAX + 300, "%s/checkpoints/%s", t->run, name);
}

/* The checkpoints of a task as given; false after a message. */
static bool
list_task(const struct target *t, const char *word, char name[NAME_LIMIT + 1],
	  struct generations *all)
{
	char path[PATH_MAX + 300];
	int rc = task_name(word, name) ? 0 : -ENOENT;

	*all = (struct generations){ 0 };
	if (!rc) {
		store_path(t, name, path);
		rc = store_list(path, all);
	}
	if (!rc && all->n)
		return true;
	complain(1, "%s: %s", word,
		 !rc || rc == -ENOENT ? "there is no checkpoint" : strerror(-rc));
	store_free(all);
	return false;
}

/* ---- ls ---- */

static void
print_task(const char *name, const struct generations *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct generation *g = &all->g[i];
		time_t when = (time_t)(g->taken_ms / 1000);
		char text[32] = "";
		struct tm tm;

		if (localtime_r(&when, &tm))
			strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
		printf("%-16s %7u %6u  %s %12" PRId64 "  %-7s  %s\n", name, g->id.attempt,
		       g->id.number, text, g->size, store_state(g), g->name);
	}
}

static void
print_heading(void)
{
	printf("%-16s %7s %6s  %-19s %12s  %-7s  %s\n", "task", "attempt", "number", "when", "bytes",
	       "state", "name");
}

/* ---- verify ---- */

static int
verify_task(const struct target *t, const char *name, const struct generations *all, long *bad)
{
	char path[PATH_MAX + 300];

	store_path(t, name, path);
	for (size_t i = 0; i < all->n; i++) {
		struct restore_result r;
		struct err err = { "" };

		if (checkpoint_verify(path, all->g[i].name, &r, &err)) {
			complain(1, "%s: %s: %s", name, all->g[i].name, err.text);
			++*bad;
		}
	}
	return *bad ? 1 : 0;
}

/* ---- all tasks ---- */

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_task(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* ls or verify, over the tasks that are given or all there are. */
static int
look(const struct target *t, char *const *words, int n, bool verify)
{
	struct dirent **found = NULL;
	char path[PATH_MAX + 300];
	long count = 0;
	long bad = 0;
	int status = 0;
	int nfound = 0;

	if (!n) {
		store_path(t, "", path);
		nfound = scandir(path, &found, is_task, by_name);
		if (nfound < 0 && errno != ENOENT)
			return complain(1, "%s: %s", path, strerror(errno));
	}
	for (int i = 0; i < (n ? n : nfound); i++) {
		char name[NAME_LIMIT + 1];
		struct generations all;

		if (n && !list_task(t, words[i], name, &all)) {
			status = 1;
			continue;
		}
		if (!n) {
			snprintf(name, sizeof(name), "%.*s", NAME_LIMIT, found[i]->d_name);
			store_path(t, name, path);
			int rc = store_list(path, &all);
			if (rc && rc != -ENOTDIR)
				status = complain(1, "%s: %s", path, strerror(-rc));
		}
		if (!verify && all.n && !count)
			print_heading();
		if (verify)
			verify_task(t, name, &all, &bad);
		else
			print_task(name, &all);
		count += (long)all.n;
		store_free(&all);
	}
	for (int i = 0; i < nfound; i++)
		free(found[i]);
	free(found);
	if (verify)
		printf("%ld checkpoints read, %ld bad\n", count, bad);
	return bad ? 1 : status;
}

/* ---- extract ---- */

/* The newest one that can be read, of those that were asked for. */
static int
extract_from(const struct generations *all, const char *path, int into, const char *wanted,
	     unsigned attempt, const char *dir)
{
	bool any = false;

	for (size_t i = 0; i < all->n; i++) {
		const struct generation *g = &all->g[i];
		struct restore_result r;
		struct err err = { "" };

		if ((wanted && strcmp(wanted, g->name) != 0) || (attempt && attempt != g->id.attempt))
			continue;
		any = true;
		int rc = checkpoint_restore(path, g->name, into, 0, &r, &err);
		if (!rc) {
			printf("%s: %" PRId64 " entries, %" PRId64 " bytes in %s\n", g->name, r.files,
			       r.bytes, dir);
			if (r.note[0])
				complain(0, "%s", r.note);
			return 0;
		}
		complain(1, "%s: %s", g->name, err.text);
		if (rc != -EBADMSG && !r.unreadable)
			return 1; /* the older ones would not fare better */
	}
	return any ? 1 : complain(1, "there is no such checkpoint");
}

static int
extract(const struct target *t, const char *word, const char *dir, const char *wanted,
	unsigned attempt)
{
	char name[NAME_LIMIT + 1];
	char path[PATH_MAX + 300];
	struct generations all;

	if (!list_task(t, word, name, &all))
		return 1;
	store_path(t, name, path);
	bool made = mkdir(dir, 0700) == 0;
	int into = made || errno == EEXIST ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int status;
	if (into < 0) {
		status = complain(1, "%s: %s", dir, strerror(errno));
	} else {
		status = extract_from(&all, path, into, wanted, attempt, dir);
		close(into);
	}
	if (status && made)
		rmdir(dir);
	store_free(&all);
	return status;
}

int
verb_checkpoint(int argc, char **argv)
{
	static const struct option options[] = {
		{ "name", required_argument, NULL, 'n' },
		{ "attempt", required_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	const char *wanted = NULL;
	unsigned attempt = 0;
	struct target t;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = NULL;

		if (c == 'n')
			wanted = optarg;
		else if (c == 'a')
			attempt = (unsigned)strtoul(optarg, &end, 10);
		if ((c != 'n' && c != 'a') || (end && (*end || !attempt)))
			return usage_error();
	}
	argv += optind;
	argc -= optind;
	if (argc < 2)
		return usage_error();
	bool is_extract = !strcmp(argv[0], "extract");
	bool is_ls = !strcmp(argv[0], "ls");
	if ((!is_extract && !is_ls && strcmp(argv[0], "verify") != 0) ||
	    (is_extract && argc != 4) || (is_ls && argc > 3) ||
	    (!is_extract && (wanted || attempt)))
		return usage_error();
	if (!target_find(argv[1], &t))
		return 1;
	return is_extract ? extract(&t, argv[2], argv[3], wanted, attempt) :
			    look(&t, argv + 2, argc - 2, !is_ls);
}
