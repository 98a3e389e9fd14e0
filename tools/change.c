/*
 * change.c - raser retry, cancel and evict: what people change. On a mount they are the plain
 * moves that raser-tree(5) describes; on a run directory the library does the same.
 */
#include <config.h>

#include "raser.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A change of tasks: which directories of a mount they come from and go to. */
struct change {
	const char *from[2], *to;
	enum task_state states[2]; /* the same, for the library */
	int (*queue)(struct queue *q, int64_t serial, unsigned attempt, struct now now);
	const char *done; /* "cancelled" */
};

static const struct change retry = {
	.from = { "failed", "cancelled" },
	.to = "pending",
	.states = { TASK_FAILED, TASK_CANCELLED },
	.queue = queue_reopen,
	.done = "pending again",
};

static const struct change cancel = {
	.from = { "pending", "leases" },
	.to = "cancelled",
	.states = { TASK_PENDING, TASK_CLAIMED },
	.queue = queue_cancel,
	.done = "cancelled",
};

/* Move one name of a mount; 0 or a positive errno. */
static int
move(const char *mnt, const char *from, const char *name, const char *to)
{
	char a[PATH_MAX + 300];
	char b[PATH_MAX + 300];

	snprintf(a, sizeof(a), "%s/%s/%s", mnt, from, name);
	snprintf(b, sizeof(b), "%s/%s/%s", mnt, to, name);
	return rename(a, b) < 0 ? errno : 0;
}

/* Ids are escaped on the command line as in the mount, or not. */
bool
task_name(const char *word, char name[NAME_LIMIT + 1])
{
	size_t len;
	unsigned k;
	char id[NAME_LIMIT + 1];
	char copy[NAME_LIMIT + 1];

	if (!name_split(word, &len, &k))
		len = strlen(word);
	if (len > NAME_LIMIT)
		return false;
	memcpy(copy, word, len);
	copy[len] = '\0'; /* without the number of T@3 as a listing shows it */
	if (name_decode(copy, id) > 0) {
		memcpy(name, copy, sizeof(copy));
		return true;
	}
	return name_encode(word, strlen(word), name) == 0;
}

/* The state that a task of a mount is in, as the directory that shows it now, with its number. */
static int
change_on_mount(const struct target *t, const struct change *c, const char *name)
{
	char path[PATH_MAX + 300];
	int rc = ENOENT;

	for (int i = 0; i < 2 && rc; i++) {
		if (!strcmp(c->from[i], "leases")) {
			/* a lease has its number only: look for it */
			DIR *d;
			const struct dirent *e;

			snprintf(path, sizeof(path), "%s/leases", t->path);
			d = opendir(path);
			while (d && (e = readdir(d))) {
				size_t len;
				unsigned k;

				if (name_split(e->d_name, &len, &k) && strlen(name) == len &&
				    !strncmp(e->d_name, name, len))
					rc = move(t->path, "leases", e->d_name, c->to);
			}
			if (d)
				closedir(d);
			continue;
		}
		rc = move(t->path, c->from[i], name, c->to);
	}
	return rc;
}

static int
on_task(void *arg, const struct task *t)
{
	FILE *f = arg;

	fprintf(f, "%lld\n", (long long)t->serial);
	return 0;
}

/* Changing many tasks may take longer than a beat may be silent. */
static void
keep_beat(struct queue *q, int64_t *last)
{
	struct now now = now_read();

	if (now.boot_ms - *last < conf_beat_ms(queue_conf(q)))
		return;
	*last = now.boot_ms;
	queue_beat(q, now);
}

/* Change every task that is in one of the states. Returns the exit status. */
static int
change_all_by_library(struct queue *q, const struct change *c, long *changed)
{
	int64_t beat = now_read().boot_ms;
	int status = 0;

	for (int i = 0; i < 2; i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&text, &size);

		if (!f)
			return complain(1, "out of memory");
		queue_list(q, (int)c->states[i], 0, on_task, f);
		fclose(f);
		char *save = NULL;
		for (char *w = strtok_r(text, "\n", &save); w; w = strtok_r(NULL, "\n", &save)) {
			struct task t;
			int rc = queue_get(q, strtoll(w, NULL, 10), &t);

			if (!rc)
				rc = c->queue(q, t.serial, t.attempt, now_read());
			if (rc)
				status = complain(1, "%s: %s", t.name, strerror(-rc));
			else
				++*changed;
			keep_beat(q, &beat);
		}
		free(text);
	}
	return status;
}

static int
change_all_on_mount(const struct target *t, const struct change *c, long *changed)
{
	int status = 0;

	for (int i = 0; i < 2; i++) {
		char path[PATH_MAX + 16];

		snprintf(path, sizeof(path), "%s/%s", t->path, c->from[i]);
		DIR *d = opendir(path);
		if (!d)
			return complain(1, "%s: %s", path, strerror(errno));
		for (const struct dirent *e;
		     (e = readdir(d));) {
			size_t len;
			unsigned k;

			if (!name_split(e->d_name, &len, &k))
				continue;
			int rc = move(t->path, c->from[i], e->d_name, c->to);
			if (rc && rc != ENOENT && rc != ESTALE)
				status = complain(1, "%s: %s", e->d_name, strerror(rc));
			else if (!rc)
				++*changed;
		}
		closedir(d);
	}
	return status;
}

static const char *
why_not(const struct change *c, int rc)
{
	if (rc == ENOENT)
		return c == &retry ? "it is neither failed nor cancelled, or there is none" :
				     "it is neither pending nor claimed, or there is none";
	if (rc == EPERM)
		return c == &retry ? "it is neither failed nor cancelled" :
				     "it is done or failed, and that is final";
	return strerror(rc);
}

static int
verb_change(int argc, char **argv, const struct change *c)
{
	struct target t;
	struct queue *q = NULL;
	long changed = 0;
	int status = 0;

	if (argc < 3)
		return usage_error();
	if (!target_find(argv[1], &t))
		return 1;
	if (!t.is_mount) {
		q = target_queue(&t, true);
		if (!q)
			return 1;
		queue_refresh(q, now_read(), 0, 0);
	}
	if (!strcmp(argv[2], "--all") && argc == 3) {
		status = q ? change_all_by_library(q, c, &changed) :
			     change_all_on_mount(&t, c, &changed);
	} else {
		for (int i = 2; i < argc; i++) {
			char name[NAME_LIMIT + 1];
			struct task task;
			int rc = ENOENT;

			if (!task_name(argv[i], name))
				rc = ENOENT;
			else if (!q)
				rc = change_on_mount(&t, c, name);
			else if (!queue_find(q, name, &task))
				rc = task.state != c->states[0] && task.state != c->states[1] ?
					     EPERM :
					     -c->queue(q, task.serial, task.attempt, now_read());
			if (rc)
				status = complain(1, "%s: %s", argv[i], why_not(c, rc));
			else
				changed++;
		}
	}
	printf("%ld %s\n", changed, c->done);
	if (q)
		queue_close(q, now_read());
	return status;
}

int
verb_retry(int argc, char **argv)
{
	return verb_change(argc, argv, &retry);
}

int
verb_cancel(int argc, char **argv)
{
	return verb_change(argc, argv, &cancel);
}

int
verb_evict(int argc, char **argv)
{
	struct target t;
	int status = 0;

	if (argc < 3)
		return usage_error();
	if (!target_find(argv[1], &t))
		return 1;
	struct queue *q = target_queue(&t, false);
	if (!q)
		return 1;
	for (int i = 2; i < argc; i++) {
		int rc = queue_evict(q, argv[i]);

		if (rc)
			status = complain(1, "%s: %s", argv[i],
					  rc == -ENOENT ? "no such daemon lives" : strerror(-rc));
	}
	queue_close(q, now_read());
	return status;
}
