/*
 * chain.c - link texts, the fold over every damage, and the race for a name.
 */
#include <config.h>

#include "chain.h"
#include "clock.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void
texts(void)
{
	struct claim c = { .owner = "abcdefgh.k3v9x2m4q8wz", .seq = 4294967295, .time = 1796031240,
			   .verb = CLAIM_CANCELLED, .counts = { 0, 0, 15 } };
	struct claim d;
	struct end e = { .owner = "abcdefgh.k3v9x2m4q8wz", .seq = 4294967295, .time = 1796031240,
			 .outcome = END_RETRY, .reason = WHY_OOM, .counts = { 999, 999, 15 } };
	struct end f;
	char text[LINK_TEXT];

	claim_format(&c, text);
	ok(strlen(text) <= 59, "the longest claim has %zu bytes", strlen(text));
	claim_parse(text, &d);
	ok(!memcmp(&c.counts, &d.counts, sizeof(c.counts)) && d.verb == c.verb &&
		   !strcmp(c.owner, d.owner) && c.seq == d.seq && c.time == d.time,
	   "a claim comes back: %s", text);
	end_format(&e, text);
	ok(strlen(text) <= 59, "the longest end has %zu bytes", strlen(text));
	ok(end_parse(text, &f) && f.outcome == END_RETRY && f.reason == WHY_OOM &&
		   f.counts.failures == 999 && f.counts.level == 15,
	   "an end comes back: %s", text);

	static const char *const garbled[] = {
		"", ":", "a:b:c", "n.x:1", "n.x:1:2:3", "n.x:-1:2", "n.x:1:2:stolen:0",
		"n.x:1:2:cancelled:16", "averyveryverylongownername.x:1:2",
	};
	for (size_t i = 0; i < sizeof(garbled) / sizeof(garbled[0]); i++) {
		claim_parse(garbled[i], &d);
		ok(d.verb == CLAIM_GARBLED && !d.owner[0], "garbled claim '%s'", garbled[i]);
		ok(!end_parse(garbled[i], &f), "garbled end '%s'", garbled[i]);
	}
	ok(!end_parse("n.x:1:2:q:-:0:0:0", &f), "no such outcome");
}

static void
counting(void)
{
	struct conf conf;
	char *ini = conf_template("");
	struct counts b = { 0 };
	struct counts a;

	conf_parse(&conf, ini, NULL);
	free(ini);
	ok(count_end(&conf, 5, END_RETRY, &b, &a) == END_RETRY && a.failures == 1 && a.level == 1,
	   "a failure counts and moves up");
	b = (struct counts){ 4, 0, 2 };
	ok(count_end(&conf, 5, END_RETRY, &b, &a) == END_FAILED && a.failures == 5,
	   "the fifth failure is the last");
	ok(count_end(&conf, 0, END_RETRY, &b, &a) == END_RETRY, "0 never gives up");
	b = (struct counts){ 0, 0, 0 };
	ok(count_end(&conf, 5, END_LOST, &b, &a) == END_LOST && a.losses == 1 && !a.failures &&
		   a.level == 0, "one loss moves nothing");
	b = a;
	ok(count_end(&conf, 5, END_LOST, &b, &a) == END_LOST && a.losses == 2 && a.failures == 1,
	   "every second loss in a row counts as a failure");
	b = (struct counts){ 0, 9, 0 };
	ok(count_end(&conf, 0, END_LOST, &b, &a) == END_FAILED, "ten losses in a row end it");
	b = (struct counts){ 1, 3, 1 };
	ok(count_end(&conf, 5, END_FREED, &b, &a) == END_FREED && !memcmp(&a, &b, sizeof(a)),
	   "freed counts nothing");
	ok(count_end(&conf, 5, END_RETRY, &b, &a) == END_RETRY && a.losses == 0,
	   "a failure ends a row of losses");
}

/* ---- runs ---- */

static void
write_tasks(const char *run, int n, const char *prefix)
{
	const struct queue_options o = { 0 };
	struct err e = { 0 };
	struct queue *q = queue_open(run, &o, now_read(), &e);
	struct submission *s = q ? submission_new(q, NULL, &e) : NULL;
	char line[64];

	if (!s) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	for (int i = 0; i < n; i++) {
		int len = snprintf(line, sizeof(line), "{\"id\":\"%s%05d\"}\n", prefix, i);

		submission_feed(s, line, (size_t)len, &e);
	}
	int rc = submission_finish(s, "test", now_read(), &e);
	submission_free(s);
	queue_close(q, now_read());
	if (rc) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
}

static void
new_run(char *path, size_t size, const char *name)
{
	struct err e = { 0 };

	snprintf(path, size, "%s/%s", scratch_dir(), name);
	if (queue_init(path, "", &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
}

/* ---- every subset of links folds, and the run drains ---- */

static struct {
	long long claimed, done;
} drained;

/* Take and end everything that can be taken; dead owners' claims are ended on the way. */
static void
drain(struct queue *q)
{
	const struct claimer by = { .comm = "drain" };
	struct now now = now_read();

	for (int idle = 0; idle < 200; idle++) {
		struct grant g;

		while (queue_next(q, 2, &by, now, &g) == 0) {
			drained.claimed++;
			if (!queue_end(q, g.serial, g.attempt, END_DONE, WHY_NONE, NULL, now))
				drained.done++;
			idle = 0;
		}
		/* virtual time for our own duties: the beats of others are gone for good */
		now.boot_ms += 200000;
		queue_beat(q, now);
		queue_look(q, now);
		queue_watch(q, now);
		queue_refresh(q, now, 0, 0);
		if (queue_drained(q, 2, now.boot_ms))
			return;
		/* two listings of nodes/ must be a second apart for a verdict */
		usleep(20000);
	}
}

/* A random history of one task as its links, and then some of them deleted. */
static void
damage(int dir, const char *name, unsigned *seed)
{
	static const char outcomes[] = "rlfrlfrlfdxc";
	char path[300];
	char text[80];
	int last = 1 + rand_r(seed) % 5;
	char outcome = 'f';

	for (int k = 1; k <= last && strchr("rlf", outcome); k++) {
		int kind = rand_r(seed) % 12;

		snprintf(text, sizeof(text), "gone.aaaaaaaaaaa%c:%d:1%s", 'a' + rand_r(seed) % 3, k,
			 kind == 0 ? ":cancelled:1" : kind == 1 ? ":reopened:1" : "");
		if (kind == 2)
			snprintf(text, sizeof(text), "what is this");
		snprintf(path, sizeof(path), "%s@%d.claim", name, k);
		if (rand_r(seed) % 3 && symlinkat(text, dir, path) < 0)
			perror(path);
		if (kind < 2 || (k == last && rand_r(seed) % 2))
			continue;
		outcome = outcomes[rand_r(seed) % 12];
		snprintf(text, sizeof(text), "gone.aaaaaaaaaaaa:%d:1:%c:E:%d:%d:%d", k, outcome,
			 k % 4, k % 3, k % 3);
		if (rand_r(seed) % 16 == 0)
			snprintf(text, sizeof(text), "garbage");
		snprintf(path, sizeof(path), "%s@%d.end", name, k);
		if (rand_r(seed) % 3 && symlinkat(text, dir, path) < 0)
			perror(path);
	}
}

static void
fold_is_total(void)
{
	enum { RUNS = 10, TASKS = 400 };
	const struct queue_options o = { .join = true };
	int undrained = 0;
	int illegal = 0;

	for (int run = 0; run < RUNS; run++) {
		char path[300];
		char sub[40];
		char name[40];
		unsigned seed = (unsigned)run + 1;
		struct err e = { 0 };
		struct queue_stats st;

		snprintf(sub, sizeof(sub), "damaged%d", run);
		new_run(path, sizeof(path), sub);
		write_tasks(path, TASKS, "t");
		/* one batch of one bay: its directory's name holds the batch's */
		char link[400];
		char text[100] = "";
		snprintf(link, sizeof(link), "%s/batches/1", path);
		ssize_t len = readlink(link, text, sizeof(text) - 1);
		text[len > 0 ? len : 0] = '\0';
		snprintf(link, sizeof(link), "%s/chain/%.12s.0", path, text + 2);
		mkdir(link, 0777);
		int dir = open(link, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		for (int i = 0; i < TASKS; i++) {
			snprintf(name, sizeof(name), "t%05d", i);
			damage(dir, name, &seed);
		}
		close(dir);
		struct queue *q = queue_open(path, &o, now_read(), &e);
		if (!q) {
			ok(false, "a damaged run opens: %s", e.text);
			return;
		}
		drain(q);
		queue_stats(q, &st);
		if (st.count[TASK_PENDING] || st.count[TASK_CLAIMED] || st.count[TASK_UNREAD]) {
			undrained++;
			diag("seed %d: %lld pending, %lld claimed, %lld unread", run + 1,
			     (long long)st.count[TASK_PENDING], (long long)st.count[TASK_CLAIMED],
			     (long long)st.count[TASK_UNREAD]);
		}
		int64_t sum = 0;
		for (int i = 0; i < TASK_STATES; i++)
			sum += st.count[i];
		illegal += sum != TASKS;
		queue_close(q, now_read());
	}
	ok(undrained == 0, "%d damaged histories: every run drains", RUNS * TASKS);
	ok(illegal == 0, "every task is in one state");
	ok(drained.done == drained.claimed && drained.done > 0, "%lld claims, all done",
	   drained.claimed);
}

/* ---- a race ---- */

static void
race(void)
{
	enum { PROCESSES = 8, NAMES = 1500 };
	char path[300];
	int won[2];
	int go[2];

	new_run(path, sizeof(path), "race");
	write_tasks(path, NAMES, "r");
	if (pipe(won) < 0 || pipe(go) < 0) {
		ok(false, "pipes");
		return;
	}
	for (int p = 0; p < PROCESSES; p++) {
		if (fork())
			continue;
		const struct queue_options o = { .join = true };
		const struct claimer by = { .comm = "race" };
		struct err e = { 0 };
		struct queue *q = queue_open(path, &o, now_read(), &e);
		char c;
		int bad = !q;

		close(go[1]);
		if (read(go[0], &c, 1) < 0)
			bad = 1;
		for (int64_t i = 1; !bad && i <= NAMES; i++) {
			struct grant g;
			int rc = queue_claim(q, i, 1, 2, &by, now_read(), &g);

			if (rc && rc != -EBUSY && rc != -ENOENT)
				bad = 1;
			if (!rc && write(won[1], &i, sizeof(i)) != sizeof(i))
				bad = 1;
		}
		/* leave claims standing: _exit() is the kill -9 of a test */
		_exit(bad);
	}
	close(go[1]);
	close(won[1]);
	static int wins[NAMES + 1];
	int64_t i;
	int total = 0;
	while (read(won[0], &i, sizeof(i)) == sizeof(i)) {
		wins[i]++;
		total++;
	}
	int status;
	int bad = 0;
	for (int p = 0; p < PROCESSES; p++)
		if (wait(&status) < 0 || status)
			bad++;
	int twice = 0;
	for (int k = 1; k <= NAMES; k++)
		twice += wins[k] != 1;
	ok(!bad, "no outcome but won, EBUSY and ENOENT");
	ok(!twice && total == NAMES, "8 processes, %d names: each is won exactly once", NAMES);
}

int
main(void)
{
	log_init("chain.t", LOG_WARN);
	texts();
	counting();
	race();
	fold_is_total();
	return done_testing();
}
