/*
 * proc.c - process trees, memory cgroups on made-up trees, guards, and what the end of a
 * sandbox means.
 */
#include <config.h>

#include "folder.h"
#include "guard.h"
#include "tap.h"

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

/* ---- helpers ---- */

static void
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) < 0) {
		perror(path);
		exit(1);
	}
}

static void
get(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

/* A path that is good for all of the test. */
static const char *
at(const char *dir, const char *name)
{
	static char paths[256][512];
	static size_t next;
	char *path = paths[next++];

	if (next == sizeof(paths) / sizeof(paths[0]))
		abort();
	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static const char *
subdir(const char *dir, const char *name)
{
	const char *path = at(dir, name);

	if (mkdir(path, 0755) < 0)
		perror(path);
	return path;
}

/* ---- trees ---- */

/* A child with two children, one of which has a child; each says that it is there. */
static pid_t
grow(int ready)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	pid_t first = fork();
	pid_t second = fork();
	if (first == 0 && second > 0)
		fork();
	else if (first == 0)
		setsid();
	if (write(ready, "x", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

static void
trees(void)
{
	int fds[2];
	char buf[8];
	struct tree t = { 0 };
	struct usage u;
	int depth = -1;
	int got = 0;

	if (pipe(fds) < 0)
		exit(1);
	pid_t top = grow(fds[1]);
	while (got < 5) {
		ssize_t n = read(fds[0], buf, sizeof(buf));

		if (n <= 0)
			break;
		got += (int)n;
	}
	ok(tree_list(&t, getpid()) == 0 && t.n == 5,
	   "five descendants, one of them in another session (%d)", (int)t.n);
	ok(t.n && t.all[0].pid == top && t.all[0].parent == getpid(), "the child comes first");
	struct tree scanned = { 0 };
	tree_scan(&scanned, getpid());
	bool same = scanned.n == t.n;
	for (size_t i = 0; i < scanned.n; i++) {
		bool found = false;

		for (size_t k = 0; k < t.n; k++)
			found |= t.all[k].pid == scanned.all[i].pid &&
				 t.all[k].start == scanned.all[i].start;
		same &= found;
	}
	ok(same, "a look at all processes finds the same");
	tree_free(&scanned);
	bool good = true;
	for (size_t i = 1; i < t.n; i++) {
		bool found = false;

		for (size_t k = 0; k < i; k++)
			found |= t.all[k].pid == t.all[i].parent;
		good &= found;
	}
	ok(good, "and every parent before its children");
	tree_usage(&t, getpid(), &u);
	ok(u.processes == 5 && u.rss > 0, "they use memory");
	int64_t pss = tree_pss(&t, false);
	ok(pss > 0 && pss < u.rss, "shared pages are divided (%lld of %lld)", (long long)pss,
	   (long long)u.rss);
	ok(tree_inner_pid(top, &depth) == top && depth == 0, "no pid namespace is between us");

	struct tree_process other = t.all[1];
	other.start++;
	ok(!tree_signal(&other, SIGKILL), "another process of the same number is not signalled");
	struct tree_process look;
	ok(tree_look(t.all[1].pid, &look) && look.state != 'Z', "and lives");
	ok(!tree_is_still(&t.all[1]), "it does not stand still");
	tree_signal(&t.all[1], SIGSTOP);
	for (int i = 0; i < 1000 && !tree_is_still(&t.all[1]); i++)
		poll(NULL, 0, 1);
	ok(tree_is_still(&t.all[1]), "stopped it does");
	ok(kill_descendants(), "all are killed");
	ok(tree_list(&t, getpid()) == 0 && t.n == 0, "none is left");
	close(fds[0]);
	close(fds[1]);
	tree_free(&t);
}

static void
folders(const char *tmp)
{
	const char *dir = subdir(tmp, "stubborn");

	subdir(dir, "a");
	subdir(at(dir, "a"), "b");
	put(at(dir, "a/b/file"), "x");
	chmod(at(dir, "a/b"), 0500);
	chmod(at(dir, "a"), 0);
	folder_remove(dir);
	ok(access(dir, F_OK) < 0, "a folder that was closed is removed all the same");
}

/* ---- memory ---- */

static void
version1(const char *tmp)
{
	const char *root = subdir(tmp, "v1");
	const char *job = at(root, "memory/slurm/job_7");
	const struct memory_roots roots = { .cgroup = root,
					    .vmstat = at(tmp, "vmstat"),
					    .pid = getpid(),
					    .self = "11:freezer:/slurm/job_7\n5:cpu,cpuacct:/\n"
						    "4:memory:/slurm/job_7\n0::/\n" };
	struct cgroup cg;
	struct cgroup own;
	struct err err;
	char text[64];

	ok(!cgroup_find(&roots, &cg), "v1: nothing is mounted");
	ok(cgroup_make(&roots, 1000, &own, &err) == -ENOENT && own.version == 0,
	   "nothing is made: %s", err.text);
	subdir(root, "memory");
	subdir(root, "memory/slurm");
	subdir(root, "memory/slurm/job_7");
	put(at(job, "memory.limit_in_bytes"), "9223372036854771712\n");
	put(at(job, "cgroup.procs"), "1\n");
	ok(!cgroup_find(&roots, &cg), "a cgroup that we are not in is not ours");
	snprintf(text, sizeof(text), "1\n%d\n", (int)getpid());
	put(at(job, "cgroup.procs"), text);
	ok(cgroup_find(&roots, &cg) && cg.version == 1 && !strcmp(cg.path, job), "ours is found");
	put(at(job, "memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	ok(memory_oom_kills(&roots) == 3, "its counter counts");
	put(at(job, "memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\n");
	put(roots.vmstat, "pgfault 12\noom_kill 17\nxoom_kill 4\n");
	ok(memory_oom_kills(&roots) == 17, "an old kernel has none: the node's does");
	unlink(roots.vmstat);
	ok(memory_oom_kills(&roots) == -1, "and without that nothing is known");

	/* no file of a cgroup can be there beforehand: its limit cannot be set */
	ok(cgroup_make(&roots, 1000, &own, &err) == -ENOENT && own.version == 0, "no limit: %s",
	   err.text);
	snprintf(own.path, sizeof(own.path), "%s/raser.x", job);
	own.version = 1;
	mkdir(own.path, 0755);
	put(at(own.path, "memory.max_usage_in_bytes"), "123456\n");
	put(at(own.path, "memory.oom_control"), "oom_kill 1\n");
	put(at(own.path, "cgroup.procs"), "");
	ok(cgroup_peak(&own) == 123456 && cgroup_oom_kills(&own) == 1, "peak and kills are read");
	ok(cgroup_enter(&own) == 0, "entered");
	get(at(own.path, "cgroup.procs"), text, sizeof(text));
	ok(strtol(text, NULL, 10) == getpid(), "by this process's number");
}

static void
version2(const char *tmp)
{
	const char *root = subdir(tmp, "v2");
	const struct memory_roots roots = { .cgroup = root,
					    .vmstat = at(tmp, "vmstat"),
					    .pid = 0,
					    .self = "0::/user.slice/job\n" };
	struct cgroup cg;
	struct cgroup own;
	struct err err;
	char text[64];

	subdir(root, "user.slice");
	const char *job = subdir(root, "user.slice/job");
	put(at(job, "cgroup.controllers"), "cpu memory pids\n");
	put(at(job, "cgroup.procs"), "");
	ok(cgroup_find(&roots, &cg) && cg.version == 2 && !strcmp(cg.path, job),
	   "v2: ours is found");
	ok(cgroup_make(&roots, 1000, &own, &err) == -ENOENT, "no subtree_control, no child: %s",
	   err.text);
	put(at(job, "cgroup.subtree_control"), "");
	cgroup_make(&roots, 1000, &own, &err);
	get(at(job, "cgroup.subtree_control"), text, sizeof(text));
	ok(!strcmp(text, "+memory"), "memory is asked for");
	put(at(job, "cgroup.subtree_control"), "cpu memory\n");
	cgroup_make(&roots, 1000, &own, &err);
	get(at(job, "cgroup.subtree_control"), text, sizeof(text));
	ok(!strcmp(text, "cpu memory"), "and not where it is there");
	put(at(job, "memory.events"),
	    "low 0\nhigh 0\nmax 8\noom 1\noom_kill 2\noom_group_kill 0\n");
	ok(memory_oom_kills(&roots) == 2, "its counter counts");
	put(at(job, "memory.peak"), "4096\n");
	ok(cgroup_peak(&cg) == 4096, "its peak is read");

	/* leftovers: of a process that is not there, of this one, and of somebody else's */
	struct stat ns;
	struct tree_process me;
	char dead[128];
	char mine[128];
	stat("/proc/self/ns/pid", &ns);
	tree_look(getpid(), &me);
	snprintf(dead, sizeof(dead), "raser.%llu.%d.%llu.0", (unsigned long long)ns.st_ino,
		 (int)getpid(), (unsigned long long)me.start + 1);
	snprintf(mine, sizeof(mine), "raser.%llu.%d.%llu.0", (unsigned long long)ns.st_ino,
		 (int)getpid(), (unsigned long long)me.start);
	const char *gone = subdir(job, dead);
	const char *kept = subdir(job, mine);
	const char *foreign = subdir(job, "raser.1.1.1.0");
	cgroup_sweep(&roots);
	ok(access(gone, F_OK) < 0, "what a dead agentd has left is removed");
	ok(access(kept, F_OK) == 0 && access(foreign, F_OK) == 0,
	   "what belongs to a living one, or to another pid namespace, is not");
}

/* ---- guards ---- */

struct running {
	struct sandbox_plan plan;
	struct proc_spec spec;
	struct proc proc;
	char scratch[PATH_MAX], counter[PATH_MAX + 16], output[PATH_MAX + 16];
};

/* A shell in kind none, in a scratch folder of its own. */
static void
run(struct running *r, const char *tmp, const char *name, const char *script)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	char state[PATH_MAX + 16];
	struct sandbox_spec box = { .argv = argv, .state = state };

	snprintf(r->scratch, sizeof(r->scratch), "%.4000s", subdir(tmp, name));
	snprintf(state, sizeof(state), "%s/state", r->scratch);
	subdir(r->scratch, "state");
	subdir(r->scratch, "state/work");
	snprintf(r->counter, sizeof(r->counter), "%s/state/work/n", r->scratch);
	snprintf(r->output, sizeof(r->output), "%s/output", r->scratch);
	put(r->output, "");
	if (sandbox_plan(SANDBOX_NONE, &box, NULL, &r->plan, NULL))
		exit(1);
	r->spec = (struct proc_spec){ .plan = &r->plan,
				      .scratch = r->scratch,
				      .stdin_path = "/dev/null" };
	r->spec.output_fd = open(r->output, O_RDWR | O_APPEND | O_CLOEXEC);
	if (proc_start(&r->proc, &r->spec))
		exit(1);
}

static void
end(struct running *r, struct proc_end *e)
{
	struct pollfd p = { .fd = r->proc.fd, .events = POLLIN };

	if (poll(&p, 1, 20000) != 1)
		proc_kill(&r->proc);
	proc_finish(&r->proc, e);
	close(r->spec.output_fd);
	sandbox_plan_free(&r->plan);
}

/* Wait until a file holds something else than that. */
static bool
moves(const char *path, const char *old)
{
	char text[32];

	for (int i = 0; i < 5000; i++) {
		get(path, text, sizeof(text));
		if (text[0] && strcmp(text, old) != 0)
			return true;
		poll(NULL, 0, 2);
	}
	return false;
}

static void
freezing(const char *tmp)
{
	struct running r = { 0 };
	struct proc_end e;
	struct usage u;
	char before[32];
	char after[32];

	run(&r, tmp, "freeze",
	    "sleep 100 & kill -STOP $!; echo $! >stopped\n"
	    "setsid sh -c 'while :; do : $((i += 1)); echo $i >m; mv m n; done' & wait");
	ok(moves(r.counter, ""), "a tree counts");
	bool frozen = true;
	bool same = true;
	bool goes_on = true;
	for (int i = 0; i < 50 && frozen && same && goes_on; i++) {
		frozen = proc_freeze(&r.proc);
		get(r.counter, before, sizeof(before));
		poll(NULL, 0, 5);
		get(r.counter, after, sizeof(after));
		same = !strcmp(before, after);
		proc_thaw(&r.proc);
		goes_on = moves(r.counter, after);
	}
	ok(frozen, "frozen fifty times");
	ok(same, "it stands still");
	ok(goes_on, "and goes on");
	char stopped[32];
	struct tree_process p;
	get(at(at(r.scratch, "state/work"), "stopped"), stopped, sizeof(stopped));
	ok(tree_look((pid_t)strtol(stopped, NULL, 10), &p) && p.state == 'T',
	   "what it had stopped itself is still stopped");
	ok(proc_usage(&r.proc, &u) && u.processes >= 3 && u.cpu_ms > 0 && u.io_bytes > 0,
	   "its use is measured: %d processes, %llu ms, %llu bytes", u.processes,
	   (unsigned long long)u.cpu_ms, (unsigned long long)u.io_bytes);
	ok(proc_freeze(&r.proc), "frozen once more");
	proc_kill(&r.proc);
	end(&r, &e);
	ok(e.killed_by_us && WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGKILL && !e.oom,
	   "a frozen tree can be killed");
	ok(e.cpu_ms > 0 && e.peak_rss > 0 && e.peak_memory >= e.peak_rss &&
		   !strcmp(e.memory_by, "none"),
	   "its use is in the report");
}

static void
ends(const char *tmp)
{
	struct running r = { 0 };
	struct proc_end e;

	run(&r, tmp, "exit3", "exit 3");
	end(&r, &e);
	ok(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 3 && !e.sandbox_failed, "exit 3");
	run(&r, tmp, "segv", "kill -SEGV $$");
	end(&r, &e);
	ok(WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGSEGV, "signal 11");
	run(&r, tmp, "term", "trap 'exit 9' TERM; echo 1 >n; while :; do sleep 0.01; done");
	moves(r.counter, "");
	proc_term(&r.proc);
	end(&r, &e);
	ok(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 9 && !e.killed_by_us, "SIGTERM arrives");
	run(&r, tmp, "guard", "setsid sh -c 'echo $$ >n; exec sleep 100' & wait");
	moves(r.counter, "");
	char deep[32];
	struct tree_process p;
	get(r.counter, deep, sizeof(deep));
	kill(r.proc.guard, SIGKILL);
	end(&r, &e);
	ok(WIFSIGNALED(e.status), "the guard is killed");
	ok(!tree_look((pid_t)strtol(deep, NULL, 10), &p) || p.state == 'Z', "and all of its tree");
}

/* ---- judgements ---- */

static void
judged(enum sandbox_kind kind, int code, const char *report, const char *out, const char *log,
       bool failed, int status, const char *why, const char *tmp)
{
	static int n;
	char name[32];
	struct proc_end e = { 0 };

	snprintf(name, sizeof(name), "judge%d", n++);
	char file[PATH_MAX];
	snprintf(file, sizeof(file), "%s", at(tmp, name));
	put(file, out);
	char log_file[PATH_MAX + 8];
	snprintf(log_file, sizeof(log_file), "%s.log", file);
	put(log_file, log);
	struct sandbox_plan plan = { .kind = kind, .log = log_file };
	struct proc_spec spec = { .plan = &plan, .output_fd = open(file, O_RDWR | O_CLOEXEC) };
	judge(&spec, code << 8, report, &e);
	close(spec.output_fd);
	ok(e.sandbox_failed == failed && (failed || e.status == status) && !strcmp(e.why, why),
	   "%s, status %d: %s", sandbox_kind_name(kind), code, failed ? e.why : "the agent's own");
}

/* ---- plans ---- */

static bool
has(char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static void
plans(const char *tmp)
{
	char *argv[] = { (char *)"/bin/true", NULL };
	char *env[] = { (char *)"RASER_X=1", NULL };
	const char *binds[] = { NULL, NULL };
	const char *pass[] = { "PASS*", NULL };
	const char *dir = subdir(tmp, "plans");
	const char *run_dir = subdir(dir, "run");
	const char *scratch = subdir(dir, "scratch");
	struct sandbox_spec spec = { .argv = argv,
				     .scratch = scratch,
				     .state = at(scratch, "state"),
				     .run = run_dir,
				     .task_file = "/etc/passwd",
				     .control = "/etc/passwd",
				     .results = "/etc",
				     .image = tmp,
				     .binds = binds,
				     .pass = pass };
	struct sandbox_plan plan;
	struct err err;
	char program[PATH_MAX];

	/* a program that is only looked for */
	snprintf(program, sizeof(program), "%s", at(dir, "apptainer"));
	put(program, "");
	chmod(program, 0755);
	setenv("PATH", dir, 1);
	setenv("HOME", tmp, 1);
	setenv("SECRET", "x", 1);
	setenv("PASSED", "y", 1);
	setenv("APPTAINER_BINDPATH", "/", 1);
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == 0, "a plan for Apptainer");
	ok(has(plan.argv, "--containall") && has(plan.argv, "--userns") && has(plan.argv, "none"),
	   "contained, without network");
	ok(has(plan.env, "APPTAINERENV_RASER_X=1") && has(plan.env, "APPTAINERENV_PASSED=y"),
	   "variables go by its own names");
	ok(!has(plan.env, "SECRET=x") && !has(plan.env, "APPTAINERENV_SECRET=x") &&
		   !has(plan.env, "APPTAINER_BINDPATH=/"),
	   "and no others");
	sandbox_plan_free(&plan);
	spec.network = true;
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == 0 &&
		   !has(plan.argv, "--net"),
	   "with network");
	sandbox_plan_free(&plan);
	spec.image = NULL;
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == -EINVAL, "no image: %s",
	   err.text);
	spec.image = tmp;
	binds[0] = run_dir;
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == -EINVAL, "%s", err.text);
	binds[0] = "/:/host";
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == -EINVAL, "%s", err.text);
	binds[0] = "/etc:/x/../y";
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == -EINVAL, "%s", err.text);
	binds[0] = "/no/such";
	ok(sandbox_plan(SANDBOX_APPTAINER, &spec, env, &plan, &err) == -ENOENT, "%s", err.text);
	ok(sandbox_plan(SANDBOX_BWRAP, &spec, env, &plan, &err) == -ENOENT, "%s", err.text);
}

static void
judgements(const char *tmp)
{
	static const char done[] = "{ \"child-pid\": 5 }\n{ \"exit-code\": 1 }\n";

	judged(SANDBOX_NONE, 139, "", "", "", false, 139 << 8, "", tmp);
	judged(SANDBOX_BWRAP, 1, done, "x\nbwrap: y\n", "", false, 1 << 8, "", tmp);
	judged(SANDBOX_BWRAP, 139, done, "", "", false, 11, "", tmp);
	judged(SANDBOX_BWRAP, 255, done, "", "", false, 255 << 8, "", tmp);
	judged(SANDBOX_BWRAP, 1, "{ \"child-pid\": 5 }\n",
	       "bwrap: No permissions to create new namespace\n", "", true, 0,
	       "sandbox bwrap: bwrap: No permissions to create new namespace", tmp);
	judged(SANDBOX_BWRAP, 1, done, "bwrap: execvp /x: No such file or directory\n", "", true, 0,
	       "sandbox bwrap: bwrap: execvp /x: No such file or directory", tmp);
	judged(SANDBOX_APPTAINER, 255, "", "said\nFATAL:   no image\n", "", true, 0,
	       "sandbox apptainer: FATAL:   no image", tmp);
	judged(SANDBOX_APPTAINER, 255, "", "FATAL:   no image\nsaid\n", "", false, 255 << 8, "",
	       tmp);
	judged(SANDBOX_APPTAINER, 1, "",
	       "Error for command \"exec\": unknown flag: --x\n\nOptions:\n\n"
	       "Run 'apptainer --help' for more detailed usage information.\n",
	       "", true, 0, "sandbox apptainer: Error for command \"exec\": unknown flag: --x",
	       tmp);
	judged(SANDBOX_APPTAINER, 137, "", "", "", false, 9, "", tmp);
	judged(SANDBOX_GVISOR, 128, "", "", "", false, 128 << 8, "", tmp);
	judged(SANDBOX_GVISOR, 128, "", "",
	       "{\"msg\":\"no \\\"x\\\"\",\"level\":\"error\",\"time\":\"t\"}", true, 0,
	       "sandbox gvisor: no \"x\"", tmp);
	judged(SANDBOX_GVISOR, 143, "", "", "", false, 15, "", tmp);
}

int
main(void)
{
	const char *tmp = scratch_dir();

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGPIPE, SIG_IGN);
	log_init("proc", LOG_WARN);
	trees();
	folders(tmp);
	version1(tmp);
	version2(tmp);
	freezing(tmp);
	ends(tmp);
	judgements(tmp);
	plans(tmp);
	return done_testing();
}
