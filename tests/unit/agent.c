/*
 * agent.c - the parts of agentd that decide without a clock or a process: activity and its limits,
 * what agents say, the quoting of a plugin's command, trajectories; and jobs.
 */
#include <config.h>

#include "activity.h"
#include "control.h"
#include "job.h"
#include "plugin.h"
#include "tap.h"
#include "trajectory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- activity, in virtual time ---- */

static struct now now;
static struct activity a;
static struct usage_totals used;
static char why[120];

static void
begin(int64_t hang_after_s)
{
	now = (struct now){ .boot_ms = 1000000, .wall_s = 1800000000 };
	used = (struct usage_totals){ 0 };
	a = (struct activity){ .hang_after_ms = hang_after_s * 1000 };
	activity_start(&a, now);
	why[0] = '\0';
}

/* Let time pass in samples, at these rates; the verdict at the end or at the first limit. */
static enum health
pass(int64_t seconds, uint64_t cpu_ms_per_s, uint64_t io_per_s, uint64_t output_per_s)
{
	enum health h = WELL;

	for (int64_t end = now.boot_ms + seconds * 1000; now.boot_ms < end && h == WELL;) {
		int64_t ms = activity_every_ms(&a);

		now.boot_ms += ms;
		now.wall_s += ms / 1000;
		used.cpu_ms += cpu_ms_per_s * (uint64_t)ms / 1000;
		used.io_bytes += io_per_s * (uint64_t)ms / 1000;
		used.output_bytes += output_per_s * (uint64_t)ms / 1000;
		activity_sample(&a, &used, now);
		h = activity_health(&a, now, why, sizeof(why));
	}
	return h;
}

static void
limits(void)
{
	begin(1800);
	ok(pass(1790, 0, 0, 0) == WELL && pass(20, 0, 0, 0) == HUNG, "silence for hang_after: hung");
	ok(strstr(why, "no CPU time, I/O or output for 18"), "which it says: %s", why);
	begin(1800);
	ok(pass(628, 1, 100, 0) == WELL && pass(5, 200, 0, 0) == WELL && pass(628, 1, 0, 0) == WELL,
	   "two waits of 628 s for a model: well");
	begin(1800);
	ok(pass(7200, 1000, 0, 0) == WELL, "two hours of nothing but CPU time: well");
	begin(1800);
	ok(pass(7200, 2, 1000, 0) == HUNG, "what a program does that waits in a loop does not count");
	begin(1800);
	ok(pass(7200, 0, 5000, 0) == WELL && pass(7200, 0, 0, 1) == WELL, "I/O counts, and output");
	begin(0);
	ok(pass(720000, 0, 0, 0) == WELL, "hang_after = 0: never");

	begin(1800);
	activity_parked(&a, now.wall_s + 7200, now);
	ok(pass(7190, 0, 0, 0) == WELL, "who is parked may be silent");
	ok(pass(1790, 0, 0, 0) == WELL && pass(100, 0, 0, 0) == HUNG,
	   "hang_after begins when the wait is over");
	begin(1800);
	activity_parked(&a, now.wall_s - 5, now);
	ok(a.parked_until == 0, "a time that is over parks nobody");

	begin(1800);
	ok(pass(10, 100, 0, 0) == WELL && pass(1700, 0, 0, 0) == WELL, "nearly hung");
	used.cpu_ms = 0;
	ok(pass(10, 0, 0, 0) == WELL && pass(1700, 0, 0, 0) == WELL, "a count that fell: something ended");

	begin(1800);
	pass(1700, 0, 0, 0);
	int64_t froze = now.boot_ms;
	now.boot_ms += 600000;
	activity_excuse(&a, froze, now);
	ok(pass(60, 0, 0, 0) == WELL && pass(200, 0, 0, 0) == HUNG,
	   "time that it was frozen by us does not count");

	begin(0);
	a.time_limit_ms = 60000;
	ok(pass(50, 100, 0, 0) == WELL && pass(20, 100, 0, 0) == TIMED_OUT, "over its time: %s", why);
	begin(0);
	a.progress_after_ms = 60000;
	ok(pass(50, 100, 0, 10) == WELL, "busy without progress");
	activity_progress(&a, now);
	ok(pass(50, 100, 0, 10) == WELL && pass(20, 100, 0, 10) == LOOPING, "looping: %s", why);
	begin(0);
	a.progress_after_ms = 60000;
	activity_parked(&a, now.wall_s + 300, now);
	ok(pass(290, 0, 0, 0) == WELL && pass(59, 0, 0, 0) == WELL, "waiting is no lack of progress");
	begin(0);
	a.max_steps = 3;
	for (int i = 0; i < 3; i++)
		activity_step(&a);
	ok(pass(1, 0, 0, 0) == WELL, "as many steps as it may");
	activity_step(&a);
	ok(pass(10, 0, 0, 0) == LOOPING && strstr(why, "4 steps"), "one more: %s", why);
}

/* ---- what agents say ---- */

static struct order_text order;
static char order_words[200];

static void
parse(const char *line)
{
	static char copy[CONTROL_LINE];

	json_decref(order.step);
	snprintf(copy, sizeof(copy), "%s", line);
	control_parse(copy, 1000, &order);
	snprintf(order_words, sizeof(order_words), "%s", order.text ? order.text : "");
}

static void
on_line(void *arg, const struct order_text *o)
{
	char *seen = arg;

	sprintf(seen + strlen(seen), "%d ", (int)o->order);
}

static void
control(void)
{
	static const char *const bad[] = {
		"", "  ", "dance", "parked", "parked soon", "parked +", "parked -5", "parked 1e99",
		"set", "set max_steps", "set max_steps many", "set colour 3", "step", "step 3",
		"step {\"n\":1}", "step {\"kind\":7}", "step {", "PROGRESS",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		parse(bad[i]);
		ok(order.order == ORDER_BAD && order_words[0], "\"%s\" is not understood: %s", bad[i],
		   order_words);
	}
	parse("parked +2.5 rate limit");
	ok(order.order == ORDER_PARKED && order.number == 1003 && !strcmp(order_words, "rate limit"),
	   "parked from now on");
	parse("parked 1796031240");
	ok(order.order == ORDER_PARKED && order.number == 1796031240, "parked until");
	parse("progress 12 of 40");
	ok(order.order == ORDER_PROGRESS && !strcmp(order_words, "12 of 40"), "progress");
	parse("set progress_after 1.5");
	ok(order.order == ORDER_SET && order.number == 1500 && !strcmp(order.name, "progress_after"), "set");
	parse("checkpoint");
	ok(order.order == ORDER_CHECKPOINT, "checkpoint");
	parse("step {\"kind\": \"model\", \"tokens\": 5}");
	ok(order.order == ORDER_STEP && json_integer_value(json_object_get(order.step, "tokens")) == 5,
	   "step");
	json_decref(order.step);
	order.step = NULL;

	char path[PATH_MAX];
	char seen[200] = "";
	static struct control c;
	snprintf(path, sizeof(path), "%s/control", scratch_dir());
	ok(control_open(&c, path) == 0, "a control file");
	int fd = open(path, O_WRONLY | O_APPEND);
	static const char first[] = "progress\r\nprog";
	static const char second[] = "ress\ncheckpoint\n";
	ok(write(fd, first, sizeof(first) - 1) > 0, "one line, and the beginning of another");
	struct pollfd p = { .fd = c.notify_fd, .events = POLLIN };
	ok(poll(&p, 1, 5000) == 1, "it is heard of");
	control_read(&c, 0, on_line, seen);
	ok(!strcmp(seen, "1 "), "a line is read when it is whole: %s", seen);
	ok(write(fd, second, sizeof(second) - 1) > 0, "the rest");
	control_read(&c, 0, on_line, seen);
	ok(!strcmp(seen, "1 1 4 "), "then the next ones: %s", seen);
	static char filler[2 * CONTROL_LINE];
	memset(filler, 'x', sizeof(filler));
	ok(write(fd, filler, sizeof(filler)) > 0 && write(fd, "\nprogress\n", 10) == 10, "a line without end");
	seen[0] = '\0';
	ok(control_read(&c, 0, on_line, seen) && !seen[0], "is not read at once");
	while (control_read(&c, 0, on_line, seen))
		;
	ok(!strcmp(seen, "5 1 "), "is dropped, not what follows: %s", seen);
	ok(ftruncate(fd, 0) == 0 && write(fd, "checkpoint\n", 11) == 11, "written with > instead of >>");
	seen[0] = '\0';
	control_read(&c, 0, on_line, seen);
	ok(!strcmp(seen, "4 "), "is read as well: %s", seen);
	close(fd);
	control_close(&c);
}

/* ---- plugins ---- */

static void
quoting(void)
{
	static const char *const words[] = {
		"/opt/my plugin/run", "a;b", " ;x", "#hash", "it's", "$HOME", "`id`", "*", "\\", "", "tab\there",
		"x=1", "\xc3\xa9", "two  blanks ", "(", "~", NULL,
	};
	char text[PLUGIN_TEXT];
	struct err err = { 0 };

	ok(plugin_quote((char *const *)(uintptr_t)words, text, sizeof(text)), "any words can be quoted");
	/* what inih makes of a line that goes on: both, with a blank in between */
	for (char *p = text; (p = strchr(p, '\n'));)
		*p = ' ';
	char **argv = plugin_split(text, "run_task", &err);
	size_t n = 0;
	bool same = argv;
	for (; same && words[n]; n++)
		same = argv[n] && !strcmp(argv[n], words[n]);
	ok(same && argv[n] && !strcmp(argv[n], "run_task") && !argv[n + 1], "and come back, %zu of them, "
	   "with the verb behind: %s", n, err.text);
	plugin_free(argv);
	const char *const line_end[] = { "a", "b\nc", NULL };
	ok(!plugin_quote((char *const *)(uintptr_t)line_end, text, sizeof(text)), "not a line's end");
	char *longest = malloc(400);
	memset(longest, 'x', 399);
	longest[399] = '\0';
	const char *const too_long[] = { "a", longest, NULL };
	ok(!plugin_quote((char *const *)(uintptr_t)too_long, text, sizeof(text)), "nor a word longer than a line");
	free(longest);
	static const char *const bad[] = { "", "a $(id)", "'a", "a | b", "$NO_SUCH_VARIABLE_HERE" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(!plugin_split(bad[i], NULL, &err) && err.text[0], "refused: %s", err.text);
}

/* ---- trajectories ---- */

static void
trajectories(void)
{
	char state[PATH_MAX];
	char results[PATH_MAX];
	char again[PATH_MAX];
	struct trajectory t;
	json_t *step = json_pack("{s:s, s:f}", "kind", "model", "seconds", 1.5);

	snprintf(state, sizeof(state), "%s/state.jsonl", scratch_dir());
	snprintf(results, sizeof(results), "%s/results.jsonl", scratch_dir());
	snprintf(again, sizeof(again), "%s/again.jsonl", scratch_dir());
	trajectory_open(&t, state, results);
	ok(t.steps == 0 && access(state, F_OK) < 0, "no steps, no file");
	ok(!trajectory_add(&t, step, 1, 100) && !trajectory_add(&t, step, 1, 101) && t.steps == 2, "two steps");
	trajectory_close(&t);
	int fd = open(state, O_WRONLY | O_APPEND);
	ok(write(fd, "{\"kind\":\"mo", 11) == 11, "a third one, cut by a kill");
	close(fd);
	trajectory_open(&t, state, again);
	ok(t.steps == 2, "a restored one goes on behind the whole lines");
	ok(!trajectory_add(&t, step, 2, 102), "a step of the next attempt");
	trajectory_close(&t);
	json_decref(step);
	FILE *f = fopen(again, "re");
	char line[256];
	int lines = 0;
	json_int_t last = 0;
	json_int_t attempt = 0;
	while (f && fgets(line, sizeof(line), f)) {
		json_t *o = json_loads(line, 0, NULL);

		lines += json_integer_value(json_object_get(o, "step")) == last + 1;
		last = json_integer_value(json_object_get(o, "step"));
		attempt = json_integer_value(json_object_get(o, "attempt"));
		json_decref(o);
	}
	if (f)
		fclose(f);
	ok(lines == 3 && last == 3 && attempt == 2, "its results have all three, numbered, with their attempts");
}

/* ---- jobs ---- */

static int
answer(const void *arg, void *result)
{
	*(int *)result = *(const int *)arg + 1;
	return -ENOSPC;
}

static int
hang(const void *arg, void *result)
{
	(void)arg;
	(void)result;
	do {
		pause();
	} while (!*(volatile int *)result);
	return 0;
}

static int
align(const void *arg, void *result)
{
	(void)arg;
	return (int)((uintptr_t)result % _Alignof(max_align_t));
}

static void
jobs(void)
{
	struct job j = { 0 };
	int arg = 41;
	int result = 0;

	ok(!job_start(&j, answer, &arg, sizeof(result), -1), "a job");
	ok(job_finish(&j, &result) == -ENOSPC && result == 42 && !j.pid, "its answer and its error");
	ok(!job_start(&j, hang, NULL, sizeof(result), -1), "one that hangs");
	job_kill(&j);
	struct pollfd p = { .fd = j.fd, .events = POLLIN };
	ok(poll(&p, 1, 5000) == 1 && job_finish(&j, &result) == -EIO && result == 0, "is killed, and that is seen");
	ok(job_start(&j, answer, &arg, 1 << 20, -1) == -EINVAL, "a result that would not fit");
	ok(!job_start(&j, align, NULL, 0, -1) && job_finish(&j, NULL) == 0, "any structure may be a result");
}

int
main(void)
{
	limits();
	control();
	quoting();
	trajectories();
	jobs();
	return done_testing();
}
