/*
 * arms.c - one arm of raser bench makespan from its directory to its end: the run that a queue works
 * on, or the blocks; here or on Slurm.
 */
#include <config.h>

#include "contest.h"

#include "figures.h"
#include "mounting.h"
#include "plugin.h"
#include "slurm.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TURN_MS = 250,
	DONE_MS = 2000,	  /* between looks for jobs that are about to end */
	WORK_MS = 20000,  /* and while there is work */
	ARGS_MAX = 128,
	LIMIT_TIMES = 20, /* an arm is given up after so many times what it should take */
	STEAL_LEAST = 6, CHECKPOINT_LEAST = 1, /* seconds */
};

/* ---- programs ---- */

pid_t
arm_fork(const struct arm *a)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid)
		return pid;
	int log = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (log >= 0) {
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	return 0;
}

static pid_t
start(const struct arm *a, char *const *argv)
{
	pid_t pid = arm_fork(a);

	if (pid)
		return pid;
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int
arm_call(const struct arm *a, char *const *argv)
{
	pid_t pid = start(a, argv);
	int status = -1;

	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

static char *
raser(void)
{
	static char self[PATH_MAX];

	if (!self[0])
		sibling("raser", self);
	return self;
}

/* The words that raser run and launch have in common. Returns how many there are. */
static int
agents_line(const struct arm *a, const char *verb, char **argv)
{
	int n = 0;

	argv[n++] = raser();
	argv[n++] = (char *)(uintptr_t)verb;
	argv[n++] = (char *)(uintptr_t)a->dir;
	argv[n++] = (char *)(uintptr_t)"--agents";
	argv[n++] = (char *)(uintptr_t)a->c->agents;
	if (a->c->o->sandbox) {
		argv[n++] = (char *)(uintptr_t)"--sandbox";
		argv[n++] = (char *)(uintptr_t)a->c->o->sandbox;
	}
	return n;
}

/* ---- raser.ini ---- */

/* Copy an ini with a key set, behind the head of its section, and nowhere else in it. */
static void
set_key(FILE *in, FILE *out, const char *section, const char *key, const char *value)
{
	char *line = NULL;
	size_t cap = 0;
	bool in_it = false;
	bool set = false;

	while (getline(&line, &cap, in) > 0) {
		size_t len = strlen(key);
		const char *at = line + strspn(line, " \t");

		if (*at == '[') {
			in_it = !strncmp(at + 1, section, strlen(section)) && at[1 + strlen(section)] == ']';
			fputs(line, out);
			if (in_it && !set)
				fprintf(out, "%s = %s\n", key, value);
			set |= in_it;
			continue;
		}
		/* the lines that go on with the one that is replaced go, too */
		if (in_it && !strncmp(at, key, len) && at[len + strspn(at + len, " \t")] == '=')
			continue;
		fputs(line, out);
	}
	if (!set)
		fprintf(out, "\n[%s]\n%s = %s\n", section, key, value);
	free(line);
}

static int
change_ini(const char *path, const char *section, const char *key, const char *value)
{
	char temp[PATH_MAX + 128];
	FILE *in = fopen(path, "re");

	snprintf(temp, sizeof(temp), "%s.new", path);
	FILE *out = in ? fopen(temp, "we") : NULL;
	if (out)
		set_key(in, out, section, key, value);
	bool good = out && !ferror(in);
	if (in)
		fclose(in);
	if (out && fclose(out))
		good = false;
	return good && rename(temp, path) == 0 ? 0 : complain(1, "%s: %s", path, strerror(errno));
}

/* What passes faster in this run passes faster everywhere. */
static int
scale_ini(const struct arm *a, const char *path)
{
	const struct conf *conf = &a->c->conf;
	char quoted[PLUGIN_TEXT];
	char value[32];
	char *const plugin[] = { (char *)(uintptr_t)a->c->replay, (char *)(uintptr_t)a->c->speed,
				 (char *)(uintptr_t)"1000", (char *)(uintptr_t)a->c->table, NULL };
	double steal = (double)conf->steal_after_ms / 1000 / a->c->factor;
	double checkpoint = (double)conf->agent.checkpoint_every_ms / 1000 / a->c->factor;

	if (!plugin_quote(plugin, quoted, sizeof(quoted)))
		return complain(1, "%s: its path is too long for raser.ini", a->c->replay);
	int status = change_ini(path, "agent", "plugin", quoted);
	snprintf(value, sizeof(value), "%.3g", steal > STEAL_LEAST ? steal : STEAL_LEAST);
	if (!status)
		status = change_ini(path, "run", "steal_after", value);
	snprintf(value, sizeof(value), "%.3g", checkpoint > CHECKPOINT_LEAST ? checkpoint : CHECKPOINT_LEAST);
	if (!status && checkpoint > 0)
		status = change_ini(path, "agent", "checkpoint_every", value);
	return status;
}

/* ---- the directory ---- */

static int
copy(const char *from, const char *to)
{
	char buf[8192];
	size_t n;
	FILE *in = fopen(from, "re");
	FILE *out = in ? fopen(to, "wxe") : NULL;
	bool good = out != NULL;

	while (good && (n = fread(buf, 1, sizeof(buf), in)) > 0)
		good = fwrite(buf, 1, n, out) == n;
	if (in)
		fclose(in);
	if (out && fclose(out))
		good = false;
	return good ? 0 : complain(1, "%s: %s", to, strerror(errno));
}

static int
queue_prepare(const struct arm *a)
{
	char ini[PATH_MAX + 96];
	char base[PATH_MAX + 16];
	char tasks[PATH_MAX + 16];
	char *submit[8];
	int n = 0;
	char *const init[] = { raser(), (char *)(uintptr_t)"init", (char *)(uintptr_t)a->dir, NULL };

	snprintf(base, sizeof(base), "%s/raser.ini", a->c->dir);
	snprintf(ini, sizeof(ini), "%s/raser.ini", a->dir);
	snprintf(tasks, sizeof(tasks), "%s/tasks.jsonl", a->c->dir);
	submit[n++] = raser();
	submit[n++] = (char *)(uintptr_t)"submit";
	if (a->durations) {
		submit[n++] = (char *)(uintptr_t)"--durations";
		submit[n++] = (char *)(uintptr_t)a->durations;
	}
	submit[n++] = (char *)(uintptr_t)a->dir;
	submit[n++] = tasks;
	submit[n] = NULL;
	if (copy(base, ini) || scale_ini(a, ini))
		return 1;
	if (arm_call(a, init) || arm_call(a, submit))
		return complain(1, "%s cannot be made; %s says why", a->dir, a->log);
	return 0;
}

int
arm_prepare(struct arm *a)
{
	if (mkdir(a->dir, 0777) < 0)
		return complain(1, "%s: %s", a->dir, strerror(errno));
	return a->kind == ARM_BLOCKS ? blocks_prepare(a) : queue_prepare(a);
}

/* ---- on Slurm ---- */

/* The arrays that raser launch has submitted, by the names of its records. */
static void
find_jobs(struct arm *a)
{
	char path[sizeof(a->dir) + 16];
	size_t len = 0;

	snprintf(path, sizeof(path), "%s/slurm", a->dir);
	DIR *d = opendir(path);
	for (const struct dirent *e; d && (e = readdir(d));) {
		size_t digits = strspn(e->d_name, "0123456789");

		if (digits && !strcmp(e->d_name + digits, ".json") && len < sizeof(a->jobs))
			len += (size_t)snprintf(a->jobs + len, sizeof(a->jobs) - len, "%s%.*s",
						len ? "," : "", (int)digits, e->d_name);
	}
	if (d)
		closedir(d);
}

static int
submit_blocks(struct arm *a)
{
	const struct conf *conf = &a->c->conf;
	const struct tier *tier = &conf->tiers[0];
	char array[64];
	char memory[64];
	char cpus[64];
	char out[sizeof(a->dir) + 64];
	char file[sizeof(a->dir) + 16];
	char text[1024];
	char *argv[ARGS_MAX];
	int n = 0;

	snprintf(array, sizeof(array), "--array=0-%zu", a->c->nagents - 1);
	snprintf(memory, sizeof(memory), "--mem=%lldM",
		 (long long)((tier->memory + conf->slurm.overhead) >> 20));
	snprintf(cpus, sizeof(cpus), "--cpus-per-task=%d", (int)tier->cpus);
	snprintf(out, sizeof(out), "--output=%s/logs/%%a.out", a->dir);
	snprintf(file, sizeof(file), "%s/static.sh", a->dir);
	static const char *const words[] = { "sbatch", "--parsable", "--requeue", "--open-mode=append",
					     "--job-name=static" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		argv[n++] = (char *)(uintptr_t)words[i];
	argv[n++] = array;
	if (tier->memory)
		argv[n++] = memory;
	argv[n++] = cpus;
	argv[n++] = out;
	for (char *const *s = a->c->o->sbatch; *s && n < ARGS_MAX - 6; s++)
		argv[n++] = *s;
	argv[n++] = file;
	argv[n++] = (char *)(uintptr_t)a->dir;
	argv[n++] = (char *)(uintptr_t)a->c->replay;
	argv[n++] = (char *)(uintptr_t)a->c->speed;
	argv[n] = NULL;
	int rc = slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));
	size_t digits = strspn(text, "0123456789");
	if (rc || !digits)
		return complain(1, "sbatch: %s", rc < 0 ? strerror(-rc) : text);
	snprintf(a->jobs, sizeof(a->jobs), "%.*s", (int)digits, text);
	return 0;
}

static int
launch(struct arm *a)
{
	char *argv[ARGS_MAX];
	int n = agents_line(a, "launch", argv);

	if (*a->c->o->sbatch)
		argv[n++] = (char *)(uintptr_t)"--";
	for (char *const *s = a->c->o->sbatch; *s && n < ARGS_MAX - 1; s++)
		argv[n++] = *s;
	argv[n] = NULL;
	int status = arm_call(a, argv);
	find_jobs(a);
	return status || !a->jobs[0] ? complain(1, "raser launch failed; %s says why", a->log) : 0;
}

/* One of the jobs is still there, as far as Slurm tells. */
static bool
jobs_left(const struct arm *a)
{
	char text[1024];
	char *const argv[] = { (char *)(uintptr_t)"squeue", (char *)(uintptr_t)"-h",
			       (char *)(uintptr_t)"-o", (char *)(uintptr_t)"%i",
			       (char *)(uintptr_t)"-j", (char *)(uintptr_t)a->jobs, NULL };
	int rc = slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));

	/* jobs that ended some minutes ago are forgotten */
	return rc ? !strstr(text, "Invalid job id") : *text != '\0';
}

static void
cancel_jobs(const struct arm *a)
{
	char *argv[ARGS_MAX] = { (char *)(uintptr_t)"scancel" };
	char copy_of[sizeof(a->jobs)];
	char text[1024];
	char *save = NULL;
	int n = 1;

	snprintf(copy_of, sizeof(copy_of), "%s", a->jobs);
	for (char *w = strtok_r(copy_of, ",", &save); w && n < ARGS_MAX - 1; w = strtok_r(NULL, ",", &save))
		argv[n++] = w;
	if (n > 1)
		slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));
}

static bool
all_done(const struct arm *a)
{
	struct task_list t;

	if (tasks_read(a->dir, &t))
		return false;
	bool done = t.ndone == t.n;
	tasks_free(&t);
	return done;
}

/* ---- here ---- */

static int
start_run(struct arm *a)
{
	char *argv[ARGS_MAX];

	argv[agents_line(a, "run", argv)] = NULL;
	a->run = start(a, argv);
	return a->run < 0 ? complain(1, "raser run cannot be started: %s", strerror(errno)) : 0;
}

/* ---- from start to end ---- */

static int
arm_start(struct arm *a)
{
	if (a->c->o->local)
		return a->kind == ARM_BLOCKS ? blocks_start(a) : start_run(a);
	return a->kind == ARM_BLOCKS ? submit_blocks(a) : launch(a);
}

/* Something of it is at work. next: when Slurm may be asked again, boot ms. */
static bool
at_work(struct arm *a, int64_t now, int64_t *next)
{
	if (a->slots)
		return blocks_turn(a, now);
	if (a->c->o->local) {
		if (a->run > 0 && waitpid(a->run, NULL, WNOHANG) == a->run)
			a->run = 0;
		return a->run > 0;
	}
	/* a requeued slot of the blocks begins anew although its tasks are done */
	int64_t soon = *next - WORK_MS + DONE_MS;
	if (now < *next && (now < soon || !all_done(a)))
		return true;
	*next = now + WORK_MS;
	return jobs_left(a);
}

static void
arm_stop(struct arm *a)
{
	if (a->jobs[0])
		cancel_jobs(a);
	blocks_stop(a);
	if (a->run > 0) {
		kill(a->run, SIGTERM);
		while (waitpid(a->run, NULL, 0) < 0 && errno == EINTR)
			;
		a->run = 0;
	}
}

int
arm_run(struct arm *a)
{
	int64_t began = now_read().boot_ms;
	int64_t limit = began + (int64_t)(a->c->o->seconds * 1000) * LIMIT_TIMES + 120000;
	int64_t next = began + WORK_MS;
	struct harm harm;
	int status = arm_start(a);

	harm_begin(&harm, a);
	while (!status) {
		int64_t now = now_read().boot_ms;

		if (!at_work(a, now, &next))
			break;
		if (contest_stopped)
			status = complain(1, "interrupted");
		else if (now > limit)
			status = complain(1, "%s: it is not done after %lld s; %s may say why", a->dir,
					  (long long)(now - began) / 1000, a->log);
		harm_turn(&harm, now);
		poll(NULL, 0, TURN_MS);
	}
	arm_stop(a);
	harm_end(&harm);
	return status;
}
