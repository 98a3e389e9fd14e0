/*
 * boxed.c - one agent in a sandbox, without a queue: for what a test has to see from nearby.
 *
 *   boxed [OPTION...] KIND DIR COMMAND...
 *     -i IMAGE   -n network   -b PATH[:DEST][:rw]   -m BYTES   -c (cgroup) or -p (poll)
 *     -s MOUNT   show this mount
 *     -t N       run it N times and print the median time in ms
 *
 * DIR is a folder for scratch. Without -t it says "ok WORKSPACE" and then takes a line a time:
 * freeze, thaw, term, kill: "ok" or "no"; usage: "CPU-MS IO RSS PROCESSES"; wait: how it ended;
 * guard: the number of its guard; crash: this process kills itself.
 */
#include <config.h>

#include "clock.h"
#include "folder.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES_MAX = 100, BINDS_MAX = 8 };

static char scratch[PATH_MAX], state[PATH_MAX], task[PATH_MAX], control[PATH_MAX],
	results[PATH_MAX], output[PATH_MAX];
static int output_fd;

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

static void
path_in(char *path, const char *dir, const char *name, bool folder)
{
	snprintf(path, PATH_MAX, "%.4000s/%s", dir, name);
	if (folder ? mkdir(path, 0700) < 0
		   : close(open(path, O_CREAT | O_RDWR | O_APPEND, 0600)) < 0)
		die(path);
}

static void
make_scratch(const char *dir)
{
	char path[PATH_MAX];

	snprintf(scratch, sizeof(scratch), "%.4000s/boxed.XXXXXX", dir);
	if (!mkdtemp(scratch))
		die(scratch);
	path_in(state, scratch, "state", true);
	path_in(path, state, "work", true);
	path_in(path, state, "home", true);
	path_in(results, scratch, "results", true);
	path_in(task, scratch, "task.json", false);
	path_in(control, scratch, "control", false);
	path_in(output, scratch, "output", false);
	output_fd = open(output, O_RDWR | O_APPEND | O_CLOEXEC);
}

static int
by_value(const void *a, const void *b)
{
	int64_t d = *(const int64_t *)a - *(const int64_t *)b;

	return d < 0 ? -1 : d > 0;
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Plan, start and end it: how long the three take together. */
static int64_t
once(enum sandbox_kind kind, const struct sandbox_spec *spec, const struct proc_spec *like)
{
	struct sandbox_plan plan;
	struct proc_spec ps = *like;
	struct proc p;
	struct proc_end end;
	struct err err;
	int64_t t0 = now_us();

	if (sandbox_plan(kind, spec, NULL, &plan, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(2);
	}
	ps.plan = &plan;
	if (proc_start(&p, &ps))
		die("proc_start");
	struct pollfd w = { .fd = p.fd, .events = POLLIN };
	poll(&w, 1, -1);
	proc_finish(&p, &end);
	int64_t took = now_us() - t0;
	if (end.status) {
		fprintf(stderr, "status 0x%x %s\n", (unsigned)end.status, end.why);
		exit(2);
	}
	sandbox_plan_free(&plan);
	return took;
}

static void
tell_end(struct proc *p)
{
	struct proc_end e;

	proc_finish(p, &e);
	printf("status=%d signal=%d oom=%d polled=%d kills=%d own=%d ours=%d failed=%d peak=%lld "
	       "cpu=%lld by=%s why=%s\n",
	       e.status >= 0 && WIFEXITED(e.status) ? WEXITSTATUS(e.status) : -1,
	       e.status >= 0 && WIFSIGNALED(e.status) ? WTERMSIG(e.status) : 0, e.oom, e.oom_polled,
	       e.oom_kills, e.oom_own, e.killed_by_us, e.sandbox_failed, (long long)e.peak_memory,
	       (long long)e.cpu_ms, e.memory_by, e.why);
}

/* Take orders until it has ended. */
static void
serve(struct proc *p)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		struct usage u = { 0 };
		bool good = true;

		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "wait")) {
			tell_end(p);
			return;
		}
		if (!strcmp(line, "freeze"))
			good = proc_freeze(p);
		else if (!strcmp(line, "thaw"))
			proc_thaw(p);
		else if (!strcmp(line, "term"))
			proc_term(p);
		else if (!strcmp(line, "kill"))
			proc_kill(p);
		else if (!strcmp(line, "crash"))
			raise(SIGKILL);
		else if (!strcmp(line, "usage"))
			good = proc_usage(p, &u);
		else
			good = !strcmp(line, "guard");
		if (!strcmp(line, "usage"))
			printf("%llu %llu %lld %d\n", (unsigned long long)u.cpu_ms,
			       (unsigned long long)u.io_bytes, (long long)u.rss, u.processes);
		else if (!strcmp(line, "guard"))
			printf("%d\n", (int)p->guard);
		else
			puts(good ? "ok" : "no");
	}
}

int
main(int argc, char **argv)
{
	const char *binds[BINDS_MAX + 1] = { NULL };
	struct sandbox_spec spec = { .binds = binds };
	struct proc_spec ps = { 0 };
	struct sandbox_plan plan;
	struct proc p;
	struct err err = { "" };
	int64_t took[TIMES_MAX];
	int times = 0;
	int nbinds = 0;
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init("boxed", LOG_INFO);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	while ((c = getopt(argc, argv, "+i:nb:m:cps:t:")) != -1) {
		if (c == 'i')
			spec.image = optarg;
		else if (c == 'n')
			spec.network = true;
		else if (c == 'b' && nbinds < BINDS_MAX)
			binds[nbinds++] = optarg;
		else if (c == 'm')
			ps.memory = strtoll(optarg, NULL, 10);
		else if (c == 'c')
			ps.memory_by = MEMORY_CGROUP;
		else if (c == 'p')
			ps.memory_by = MEMORY_POLL;
		else if (c == 's')
			spec.mnt = optarg;
		else if (c == 't')
			times = (int)strtol(optarg, NULL, 10);
		else
			return 2;
	}
	int kind = optind + 2 < argc ? sandbox_kind_parse(argv[optind]) : -1;
	if (kind < 0 || times > TIMES_MAX)
		return 2;
	make_scratch(argv[optind + 1]);
	spec.show_mount = spec.mnt;
	spec.argv = argv + optind + 2;
	spec.scratch = ps.scratch = scratch;
	spec.state = state;
	spec.task_file = ps.stdin_path = task;
	spec.control = control;
	spec.results = results;
	ps.output_fd = output_fd;
	proc_init();
	for (int i = 0; i < times; i++)
		took[i] = once((enum sandbox_kind)kind, &spec, &ps);
	if (times) {
		qsort(took, (size_t)times, sizeof(took[0]), by_value);
		int64_t median = took[times / 2];

		printf("%lld.%lld\n", (long long)median / 1000, (long long)median / 100 % 10);
		folder_remove(scratch);
		return 0;
	}
	int rc = sandbox_plan((enum sandbox_kind)kind, &spec, NULL, &plan, &err);
	ps.plan = &plan;
	if (!rc && (rc = proc_start(&p, &ps)) < 0)
		err_set(&err, rc, "start: %s", strerror(-rc));
	if (rc) {
		printf("no %s\n", err.text);
		return 1;
	}
	printf("ok %s/work\n", state);
	serve(&p);
	sandbox_plan_free(&plan);
	folder_remove(scratch);
	return 0;
}
