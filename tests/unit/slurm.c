/*
 * slurm.c - what a real Slurm has said of jobs in every situation (scontrol.txt), and what is made of
 * it; commands that hang, fail and babble; a run's brakes.
 */
#include <config.h>

#include "brakes.h"
#include "clock.h"
#include "slurm.h"
#include "tap.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const verdicts[] = { [SLURM_UNKNOWN] = "unknown", [SLURM_REQUEUE] = "requeue",
					[SLURM_LEAVE] = "leave", [SLURM_NEVER] = "never" };

/* ---- what scontrol says ---- */

/* Lines "restarts verdict situation", each with what scontrol said behind it. */
static void
recorded(void)
{
	static char head[256];
	static char said[SLURM_TEXT];
	const char *dir = getenv("srcdir");
	char path[PATH_MAX];
	char why[160];
	int n = 0;

	snprintf(path, sizeof(path), "%s/tests/unit/scontrol.txt", dir ? dir : "..");
	FILE *f = fopen(path, "re");
	if (!ok(f, "%s can be read", path))
		return;
	while (fgets(head, sizeof(head), f) && fgets(said, sizeof(said), f)) {
		struct slurm_job j;
		char wanted[16];
		int restarts;
		int at = 0;

		head[strcspn(head, "\n")] = '\0';
		if (sscanf(head, "%d %15s %n", &restarts, wanted, &at) < 2)
			break;
		bool known = slurm_parse(said, &j);
		enum slurm_verdict v = slurm_decide(known ? &j : NULL, restarts, why, sizeof(why));
		if (!ok(!strcmp(verdicts[v], wanted), "%s: %s", head + at, wanted))
			diag("it was %s: %s", verdicts[v], why);
		n++;
	}
	ok(feof(f) && n >= 14, "all of them");
	fclose(f);
}

static void
fields(void)
{
	static const char line[] =
		"JobId=7 JobName=x JobState=FAILED Reason=None y UserId=u(1) JobState=COMPLETING "
		"Reason=ReqNodeNotAvail, UnavailableNodes:n[1-2] Dependency=(null) Requeue=1 Restarts=3 "
		"BatchFlag=1 Reboot=0 PreemptTime=None Comment=z JobState=RUNNING Reason=None "
		"Dependency=(null) Requeue=1 Restarts=9 BatchFlag=1 PreemptTime=2026-12-01T01:22:16\n";
	static const char *const nonsense[] = {
		"", "\n\n", "slurm_load_jobs error: Invalid job id specified\n",
		"JobId=7 JobName=x", "JobState=RUNNING Reason=None",
		"JobId=7 JobName=x JobState= Reason= Dependency= Requeue= Restarts= BatchFlag=",
		"scontrol: error: Unable to contact slurm controller (connect failure)\n",
	};
	struct slurm_job j;
	char two[2 * sizeof(line) + 40];

	ok(slurm_parse(line, &j) && !strcmp(j.state, "COMPLETING") && j.restarts == 3 && !j.preempted &&
		   !strcmp(j.reason, "ReqNodeNotAvail, UnavailableNodes:n[1-2]"),
	   "names and comments that look like fields are none; a reason has blanks and commas");
	snprintf(two, sizeof(two), "slurm: warning: something\n%s%s", line, line);
	ok(slurm_parse(two, &j) && j.restarts == 3, "a line of warning before it is passed over");
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
		ok(!slurm_parse(nonsense[i], &j), "no job: \"%.*s\"", (int)strcspn(nonsense[i], "\n"),
		   nonsense[i]);
}

static void
decisions(void)
{
	static const struct {
		struct slurm_job job;
		int restarts;
		enum slurm_verdict verdict;
	} cases[] = {
		{ { .state = "RUNNING", .reason = "None", .restarts = 1 }, 0, SLURM_LEAVE },
		{ { .state = "COMPLETING", .reason = "TimeLimit", .restarts = 2 }, 1, SLURM_LEAVE },
		{ { .state = "COMPLETING", .reason = "TimeLimit", .restarts = 1 }, 1, SLURM_REQUEUE },
		{ { .state = "COMPLETING", .reason = "Whatever, it is new" }, 0, SLURM_NEVER },
		{ { .state = "CANCELLED", .reason = "None" }, 0, SLURM_NEVER },
		{ { .state = "TIMEOUT", .reason = "TimeLimit" }, 0, SLURM_REQUEUE },
		{ { .state = "PREEMPTED", .reason = "None" }, 0, SLURM_LEAVE },
		{ { .state = "DEADLINE", .reason = "None" }, 0, SLURM_NEVER },
		{ { .state = "SOMETHING_NEW", .reason = "" }, 0, SLURM_NEVER },
	};
	char why[160];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct slurm_job *j = &cases[i].job;

		ok(slurm_decide(j, cases[i].restarts, why, sizeof(why)) == cases[i].verdict,
		   "%s, %s, restart %d of %d: %s", j->state, j->reason, j->restarts, cases[i].restarts,
		   verdicts[cases[i].verdict]);
	}
	ok(slurm_decide(NULL, 0, why, sizeof(why)) == SLURM_UNKNOWN, "nothing is known without an answer");
}

static void
times(void)
{
	static const struct {
		const char *text;
		int64_t seconds;
	} cases[] = {
		{ "0:59", 59 }, { "1:00:00", 3600 }, { "2-03:04:05", 2 * 86400 + 3 * 3600 + 4 * 60 + 5 },
		{ "45", 45 }, { "0:00", 0 }, { "UNLIMITED", -1 }, { "INVALID", -1 }, { "NOT_SET", -1 },
		{ "", -1 }, { "1:", -1 }, { "1-", -1 }, { "-1:00", -1 }, { "1:2:3:4", -1 }, { "5 x", 5 },
		{ "5x", -1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(slurm_seconds(cases[i].text) == cases[i].seconds, "\"%s\" is %lld s", cases[i].text,
		   (long long)cases[i].seconds);
}

/* ---- commands ---- */

/* A command of that name on PATH, as a script. */
static void
stand_in(const char *name, const char *script)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", scratch_dir(), name);
	FILE *f = fopen(path, "we");
	if (f) {
		fprintf(f, "#!/bin/sh\n%s\n", script);
		fclose(f);
		chmod(path, 0755);
	}
}

static void
commands(void)
{
	char *const argv[] = { "scontrol", "a b", "$HOME;*", NULL };
	char *const none[] = { "no-such-command-of-slurm", NULL };
	static char text[SLURM_TEXT];
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s:%s", scratch_dir(), getenv("PATH"));
	setenv("PATH", path, 1);
	setenv("SQUEUE_FORMAT", "%i", 1);
	setenv("SCONTROL_ALL", "1", 1);
	stand_in("scontrol", "echo \"$1|$2|${SQUEUE_FORMAT-none}|${SCONTROL_ALL-none}\"; echo oops >&2; exit 3");
	ok(slurm_run(argv, 5000, text, sizeof(text)) == 3, "the exit status of a command");
	ok(!strcmp(text, "a b|$HOME;*|none|none\noops"),
	   "its words as they are, no defaults of the user, both of its outputs");
	ok(slurm_run(none, 5000, text, sizeof(text)) == 127 && strstr(text, "No such file"),
	   "one that is not there");
	stand_in("scontrol", "yes 123456789 | head -n 20000; exit 0");
	ok(slurm_run(argv, 5000, text, sizeof(text)) == 0 && strlen(text) >= SLURM_TEXT - 20,
	   "one that says more than we keep does not block");
	stand_in("scontrol", "sleep 100");
	int64_t began = now_read().boot_ms;
	ok(slurm_run(argv, 200, text, sizeof(text)) == -ETIMEDOUT, "one that hangs is killed");
	ok(now_read().boot_ms - began < 4000, "when its time is over");
	stand_in("scontrol", "sleep 100 & exit 0");
	began = now_read().boot_ms;
	ok(slurm_run(argv, 300, text, sizeof(text)) == -ETIMEDOUT && now_read().boot_ms - began < 4000,
	   "so is what it leaves behind with its output");
	stand_in("scontrol", "kill -9 $$");
	ok(slurm_run(argv, 5000, text, sizeof(text)) == -EINTR, "one that somebody kills");

	static struct slurm_self self;
	char why[200];
	setenv("SLURM_JOB_ID", "12", 1);
	slurm_self(&self);
	ok(self.inside && !strcmp(self.id, "12") && self.restarts == 0, "a job");
	setenv("SLURM_ARRAY_JOB_ID", "12", 1);
	setenv("SLURM_ARRAY_TASK_ID", "3", 1);
	setenv("SLURM_RESTART_COUNT", "2", 1);
	setenv("SLURM_CPUS_ON_NODE", "100000", 1);
	slurm_self(&self);
	ok(!strcmp(self.id, "12_3") && !strcmp(self.job, "12") && self.restarts == 2 && self.share == 1,
	   "an array's last task, whose number is that of the array");
	stand_in("squeue", "[ \"$*\" = '-h -j 12_3 -o %L' ] && echo 1:30");
	ok(slurm_time_left(&self, why, sizeof(why)) == 90 && !*why, "what is left of its time");
	stand_in("squeue", "echo UNLIMITED");
	ok(slurm_time_left(&self, why, sizeof(why)) == -1 && !*why, "no limit");
	stand_in("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
	ok(slurm_time_left(&self, why, sizeof(why)) == -1 && strstr(why, "Unable to contact"),
	   "not known, and why");
	char end[32];
	snprintf(end, sizeof(end), "%lld", (long long)now_read().wall_s + 1000);
	setenv("SLURM_JOB_END_TIME", end, 1);
	int64_t told = slurm_time_left(&self, why, sizeof(why));
	ok(told > 990 && told <= 1000, "a Slurm that tells the end in the environment is not asked");
	unsetenv("SLURM_JOB_END_TIME");
	stand_in("squeue", "head -c 300 /dev/zero");
	ok(slurm_time_left(&self, why, sizeof(why)) == -1 && *why, "nonsense is not known");
}

/* ---- brakes ---- */

static void
touch(const char *run, const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", run, name);
	FILE *f = fopen(path, "we");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static void
brakes(void)
{
	const struct limits_conf open = { .max_requeues = 100 };
	const struct limits_conf tight = { .max_requeues = 2, .node_hours = 1, .end = 1000 };
	char run[PATH_MAX];
	struct brakes b;
	char why[200];
	char text[1000];

	snprintf(run, sizeof(run), "%s/run", scratch_dir());
	mkdir(run, 0700);
	brakes_read(&b, run);
	ok(!b.drain && b.node_hours == 0 && !brakes_check(&b, &open, 5000, 99, why, sizeof(why)),
	   "a run without any");
	brakes_describe(run, &open, 5000, "", text, sizeof(text));
	ok(!*text, "of which nothing is to be said");
	ok(brakes_check(&b, &open, 5000, 100, why, sizeof(why)) == BRAKE_REQUEUES &&
		   !brakes_check(&b, &open, 5000, -1, why, sizeof(why)),
	   "requeues count for who wants one");
	ok(!brakes_use(run, "12", 0, 1799) && !brakes_use(run, "12", 1, 1200) &&
		   !brakes_use(run, "12", 0, 1800) && !brakes_use(run, "13", 0, 540),
	   "what lives of jobs have used");
	touch(run, "slurm/use/14.0", "not a number\n");
	touch(run, "slurm/use/15.0", "-3000\n");
	touch(run, "slurm/use/.16.0.4711", "3000\n");
	brakes_read(&b, run);
	ok(b.node_hours > 0.98 && b.node_hours < 0.99,
	   "each counts once, as last written; what is no number or half written does not");
	ok(!brakes_check(&b, &tight, 999, 1, why, sizeof(why)), "everything within its limits");
	ok(brakes_check(&b, &tight, 999, 2, why, sizeof(why)) == BRAKE_REQUEUES, "enough requeues");
	ok(brakes_check(&b, &tight, 1000, 0, why, sizeof(why)) == BRAKE_END, "the end");
	brakes_use(run, "13", 0, 600);
	brakes_read(&b, run);
	ok(brakes_check(&b, &tight, 999, 0, why, sizeof(why)) == BRAKE_HOURS && strstr(why, "1.00 of 1.00"),
	   "the node-hours are used up");
	touch(run, "drain", "");
	brakes_read(&b, run);
	ok(brakes_check(&b, &tight, 999, 0, why, sizeof(why)) == BRAKE_DRAIN, "a file drains it");
	brakes_describe(run, &tight, 1000, "  ", text, sizeof(text));
	ok(strstr(text, "  drain: on") && strstr(text, ", over\n") && strstr(text, "  node-hours: 1.00 of 1.00, used up\n") &&
		   strstr(text, "  requeues: at most 2 of each array task\n"),
	   "all of which is shown");
	ok(brakes_use("/proc/nowhere", "12", 0, 1) < 0, "what cannot be written down");
}

int
main(void)
{
	log_init("slurm.t", LOG_NOTHING);
	recorded();
	fields();
	decisions();
	times();
	commands();
	brakes();
	return done_testing();
}
