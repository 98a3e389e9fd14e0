/*
 * progress.c - numbers of a run.
 */
#include <config.h>

#include "progress.h"

#include "tell.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REFRESH_MS = 1000 }; /* as for anybody who looks: raser-tree(5) */

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

/* ---- without a mount ---- */

/* Numbers of each daemon, which are added up. */
static const char *const summed[] = { "claims", "races_lost", "resumed", "redo_seconds" };
static const char *const summed_objects[] = { "ends", "reasons" };

static void
add_number(json_t *to, const char *key, const json_t *more)
{
	const json_t *old = json_object_get(to, key);

	if (json_is_integer(more))
		json_object_set_new(to, key,
				    json_integer(json_integer_value(old) + json_integer_value(more)));
	else if (json_is_real(more))
		json_object_set_new(to, key,
				    json_real(json_number_value(old) + json_real_value(more)));
}

/* What one raser-agentd has counted, which may have died since. */
static void
add_daemon(json_t *all, const json_t *one)
{
	pid_t pid = (pid_t)json_integer_value(json_object_get(one, "pid"));
	bool lives = pid > 0 && kill(pid, 0) == 0;
	const json_t *most = json_object_get(one, "redo_max_seconds");
	const char *key;
	json_t *v;
	size_t i;

	for (i = 0; i < sizeof(summed) / sizeof(summed[0]); i++)
		add_number(all, summed[i], json_object_get(one, summed[i]));
	for (i = 0; i < sizeof(summed_objects) / sizeof(summed_objects[0]); i++) {
		json_t *counts = json_object_get(all, summed_objects[i]);

		json_object_foreach(json_object_get(one, summed_objects[i]), key, v) {
			add_number(counts, key, v);
		}
	}
	if (json_number_value(most) > json_number_value(json_object_get(all, "redo_max_seconds")))
		json_object_set_new(all, "redo_max_seconds", json_real(json_number_value(most)));
	if (lives && json_is_true(json_object_get(one, "paused")))
		json_object_set_new(all, "paused", json_true());
	json_array_foreach(json_object_get(one, "tiers"), i, v) {
		json_t *tier = json_array_get(json_object_get(all, "tiers"), i);

		add_number(tier, "busy_seconds", json_object_get(v, "busy_seconds"));
		if (lives)
			add_number(tier, "working", json_object_get(v, "working"));
	}
}

/* As status.json says it, of the whole run and of all agents of ours. */
static json_t *
gather_status(struct progress *p)
{
	char path[PATH_MAX + 300];
	struct now now = now_read();

	if (now.boot_ms - p->refreshed >= REFRESH_MS) {
		p->refreshed = now.boot_ms;
		queue_refresh(p->queue, now, 0, 0);
	}
	json_t *all = tell_status(p->queue, p->opened, now);
	DIR *d = opendir(p->dir);
	for (const struct dirent *e; d && (e = readdir(d));) {
		size_t len = strlen(e->d_name);

		if (len < 5 || strcmp(e->d_name + len - 5, ".json") != 0)
			continue;
		snprintf(path, sizeof(path), "%.4000s/%.255s", p->dir, e->d_name);
		json_t *one = json_load_file(path, 0, NULL);
		add_daemon(all, one);
		json_decref(one);
	}
	if (d)
		closedir(d);
	return all;
}

/* ---- where the numbers come from ---- */

static json_t *
read_status(struct progress *p)
{
	char path[PATH_MAX + 16];

	if (!p->mnt)
		return gather_status(p);
	snprintf(path, sizeof(path), "%s/status.json", p->mnt);
	return json_load_file(path, 0, NULL);
}

bool
progress_begin(struct progress *p, const char *mnt)
{
	*p = (struct progress){ .mnt = mnt, .began = now_ms() };
	p->first = read_status(p);
	p->now = json_incref(p->first);
	if (!p->first) {
		complain(1, "%s/status.json cannot be read", mnt);
		return false;
	}
	progress_events(p);
	p->nmoves = p->stolen = 0; /* what happened before is not this run's */
	return true;
}

bool
progress_begin_direct(struct progress *p, const struct target *t, const char *dir)
{
	*p = (struct progress){ .dir = dir, .began = now_ms(), .opened = now_read() };
	/* agents would be refused one after the other where the storage will not do */
	const struct queue_options options = { .admit = true };
	struct err err = { 0 };

	p->queue = queue_open(t->run, &options, now_read(), &err);
	if (!p->queue)
		return complain(1, "%s", err.text) == 0;
	p->first = read_status(p);
	p->now = json_incref(p->first);
	return p->first || complain(1, "out of memory") == 0;
}

void
progress_free(struct progress *p)
{
	if (p->queue)
		queue_close(p->queue, now_read());
	json_decref(p->first);
	json_decref(p->now);
	for (int i = 0; i < MOVES_SHOWN; i++)
		free(p->moves[i]);
}

/* A number at a path of two keys, now or at the beginning. */
static long
number(const json_t *root, const char *a, const char *b)
{
	const json_t *v = json_object_get(root, a);

	if (b)
		v = json_object_get(v, b);
	return (long)json_integer_value(v);
}

static long
since_first(const struct progress *p, const char *a, const char *b)
{
	return number(p->now, a, b) - number(p->first, a, b);
}

int
progress_restarts(const struct progress *p)
{
	return (int)number(p->now, "restarts", NULL);
}

/* Subtract the numbers of one tree from those of another, in place; what is missing is 0. */
static void
subtract(json_t *from, json_t *what)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_integer(from))
		json_integer_set(from, json_integer_value(from) - json_integer_value(what));
	else if (json_is_real(from))
		json_real_set(from, json_real_value(from) - json_number_value(what));
	for (i = 0; i < json_array_size(from); i++)
		subtract(json_array_get(from, i), json_array_get(what, i));
	json_object_foreach(what, key, v) {
		if (json_is_integer(v) && !json_object_get(from, key))
			json_object_set_new(from, key, json_integer(0));
		subtract(json_object_get(from, key), v);
	}
}

/* Another daemon serves, which counts and numbers its events from the beginning: what the one before
 * it had counted when it was last asked is kept. */
static void
another_daemon(struct progress *p, const json_t *now)
{
	const char *died = json_string_value(json_object_get(now, "died"));

	complain(0, "raserfs died%s%s%s; mounted again as %s", died && *died ? " (" : "",
		 died ? died : "", died && *died ? ")" : "",
		 json_string_value(json_object_get(now, "owner")));
	json_t *first = json_deep_copy(p->first);
	if (!first)
		return;
	subtract(first, p->now);
	/* this one is told to the next */
	json_object_set(first, "restarts", json_object_get(p->first, "restarts"));
	json_decref(p->first);
	p->first = first;
	p->last_event = 0;
}

void
progress_read(struct progress *p)
{
	json_t *now = read_status(p);

	if (!now)
		return; /* the mount is ending, or not there again yet; the last numbers stand */
	/* the first alone misses who mounts by hand, the second who has lived only for a moment */
	if (number(now, "restarts", NULL) != number(p->now, "restarts", NULL) ||
	    json_number_value(json_object_get(now, "uptime")) <
		    json_number_value(json_object_get(p->now, "uptime")))
		another_daemon(p, now);
	json_decref(p->now);
	p->now = now;
	if (!number(now, "tasks", "pending") && !number(now, "tasks", "claimed")) {
		if (!p->ended)
			p->ended = now_ms();
	} else {
		p->ended = 0;
	}
}

void
progress_events(struct progress *p)
{
	char path[PATH_MAX + 16];
	char *line = NULL;
	size_t cap = 0;

	if (!p->mnt) {
		p->nmoves = since_first(p, "moved_up", NULL);
		p->stolen = since_first(p, "reasons", "stale") + since_first(p, "reasons", "revoked") +
			    since_first(p, "reasons", "dead-owner");
		return;
	}
	snprintf(path, sizeof(path), "%s/events", p->mnt);
	FILE *f = fopen(path, "re");
	while (f && getline(&line, &cap, f) > 0) {
		char *end;
		uint64_t n = strtoull(line, &end, 10);

		if (n <= p->last_event)
			continue;
		p->last_event = n;
		line[strcspn(line, "\n")] = '\0';
		/* NUMBER SECONDS TASK@k outcome ... */
		const char *what = *end ? strchr(end + 1, ' ') : NULL;
		if (!what)
			continue;
		if (strstr(what, " moves up to ")) {
			if (p->nmoves < MOVES_SHOWN) {
				free(p->moves[p->nmoves]);
				p->moves[p->nmoves] = strdup(what + 1);
			}
			p->nmoves++;
		}
		if (strstr(what, " lost stale") || strstr(what, " freed revoked") ||
		    strstr(what, " lost dead-owner"))
			p->stolen++;
	}
	free(line);
	if (f)
		fclose(f);
}

static void
print_span(double seconds, char *buf, size_t size)
{
	if (seconds < 100)
		snprintf(buf, size, "%.0f s", seconds);
	else if (seconds < 6000)
		snprintf(buf, size, "%.0f min", seconds / 60);
	else
		snprintf(buf, size, "%.1f h", seconds / 3600);
}

void
progress_print(const struct progress *p, bool live)
{
	double elapsed = (double)(now_ms() - p->began) / 1000;
	long done = number(p->now, "tasks", "done");
	long failed = number(p->now, "tasks", "failed");
	long pending = number(p->now, "tasks", "pending");
	long claimed = number(p->now, "tasks", "claimed");
	double ended = (double)(since_first(p, "ends", "done") + since_first(p, "ends", "failed"));
	double rate = elapsed > 0.5 ? ended / elapsed : 0;
	char span[32];
	char left[32] = "";
	char tiers[256] = "";
	size_t n = 0;
	size_t i;
	const json_t *t;

	print_span(elapsed, span, sizeof(span));
	if (rate > 0)
		print_span((double)(pending + claimed) / rate, left, sizeof(left));
	json_array_foreach(json_object_get(p->now, "tiers"), i, t) {
		if (n < sizeof(tiers))
			n += (size_t)snprintf(tiers + n, sizeof(tiers) - n, "%s%s %ld", n ? ", " : "",
					      json_string_value(json_object_get(t, "name")),
					      number(t, "working", NULL));
	}
	bool paused = json_is_true(json_object_get(p->now, "paused"));
	printf("%s%ld of %ld done, %ld failed, %ld working (%s), %ld pending; %.0f a minute; %s%s%s%s%s",
	       live ? "\r\033[K" : "", done, number(p->now, "total", NULL), failed, claimed, tiers,
	       pending, rate * 60, span, *left ? ", about " : "", left,
	       *left ? " left" : "",
	       paused ? "; PAUSED: attempts die at once on this node" : "");
	if (!live)
		putchar('\n');
	fflush(stdout);
}

void
progress_end(struct progress *p, bool live)
{
	p->refreshed = 0;
	progress_read(p);
	if (!p->ended)
		p->ended = now_ms();
	if (live)
		fputs("\r\033[K", stdout);
}

/* "3 crash, 2 oom" of what was counted during this run. */
static void
print_reasons(const struct progress *p)
{
	const char *name;
	json_t *v;
	bool any = false;

	json_object_foreach(json_object_get(p->now, "reasons"), name, v) {
		long n = since_first(p, "reasons", name);

		if (!n)
			continue;
		printf("%s%ld %s", any ? ", " : "", n, name);
		any = true;
	}
	puts(any ? "" : "none");
}

bool
progress_summary(struct progress *p)
{
	double makespan = (double)(p->ended - p->began) / 1000;
	double busy = 0;
	long total = number(p->now, "total", NULL);
	long done = number(p->now, "tasks", "done");
	size_t i;
	const json_t *t;

	progress_events(p);
	json_array_foreach(json_object_get(p->now, "tiers"), i, t) {
		const json_t *before = json_array_get(json_object_get(p->first, "tiers"), i);

		busy += json_number_value(json_object_get(t, "busy_seconds")) -
			json_number_value(json_object_get(before, "busy_seconds"));
	}
	printf("\n%ld of %ld tasks done, %ld failed, %ld cancelled, %ld left\n", done, total,
	       number(p->now, "tasks", "failed"), number(p->now, "tasks", "cancelled"),
	       number(p->now, "tasks", "pending") + number(p->now, "tasks", "claimed"));
	printf("attempts   %ld: %ld done, %ld retried, %ld lost, %ld freed, %ld failed\n",
	       since_first(p, "claims", NULL), since_first(p, "ends", "done"),
	       since_first(p, "ends", "retry"), since_first(p, "ends", "lost"),
	       since_first(p, "ends", "freed"), since_first(p, "ends", "failed"));
	printf("reasons    ");
	print_reasons(p);
	printf("taken away %ld claims: stale, of a dead daemon, or by hand\n", p->stolen);
	printf(p->mnt ? "moved up   %ld times a task went to a higher tier\n" :
			"moved up   %ld tasks went to a higher tier\n", p->nmoves);
	for (long k = 0; p->mnt && k < p->nmoves && k < MOVES_SHOWN; k++)
		printf("           %.140s\n", p->moves[k]);
	long resumed = since_first(p, "resumed", NULL);
	if (resumed)
		printf("resumed    %ld attempts followed one that had been at work; %.1f s of that had to "
		       "be done again, %.1f s at most at a time\n", resumed,
		       json_number_value(json_object_get(p->now, "redo_seconds")) -
			       json_number_value(json_object_get(p->first, "redo_seconds")),
		       json_number_value(json_object_get(p->now, "redo_max_seconds")));
	long again = since_first(p, "restarts", NULL);
	if (again > 0)
		printf("raserfs    died and was mounted again %ld times; what was counted in its last "
		       "moments is missing above\n", again);
	printf("makespan   %.1f s\n", makespan);
	if (p->agents && makespan > 0)
		printf("agents     %d, at work %.0f %% of the time\n", p->agents,
		       100 * busy / (p->agents * makespan));
	fflush(stdout);
	return done == total;
}
