/*
 * blocks.c - the arm without a queue: an array of slots, each with a block of neighbouring tasks that
 * it does one after the other. What kills a slot makes it begin its block anew, as a plain script does
 * that Slurm has requeued. Its script writes records as raser-agentd does, so that it is judged by
 * the same figures.
 *
 *   order                 the names of the tasks
 *   blocks/SLOT/N.task    a task as JSON   N.name   its name   N.head   the beginning of its record
 *   results/              as in a run
 *   work/                 where tasks run
 */
#include <config.h>

#include "contest.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	RESTART_MS = 200, /* as long as raser run waits */
};

static const char script[] =
	"#!/bin/sh\n"
	"# One slot of an array that divides its tasks in advance: static.sh DIR REPLAY SPEED [SLOT RESTARTS]\n"
	"dir=$1 replay=$2 speed=$3\n"
	"slot=${SLURM_ARRAY_TASK_ID-$4} restarts=${SLURM_RESTART_COUNT-${5-0}}\n"
	"now() { date +%s.%3N; }\n"
	"record() { # what else is known\n"
	"\tprintf '%s,\"attempt\":%d,\"owner\":\"static.s%sr%s\",\"agentd\":%d,\"host\":\"slot%s\",\"started\":%s%s%s}\\n' \\\n"
	"\t\t\"$head\" $((restarts + 1)) \"$slot\" \"$restarts\" $$ \"$slot\" \"$started\" \"$slurm\" \"$1\" >\"$folder/.new\"\n"
	"\tmv \"$folder/.new\" \"$folder/attempt.json\"\n"
	"}\n"
	"slurm=\n"
	"[ -z \"${SLURM_JOB_ID-}\" ] || slurm=\",\\\"slurm\\\":{\\\"job\\\":\\\"$SLURM_JOB_ID\\\",\\\"array_job\\\":\\\"$SLURM_ARRAY_JOB_ID\\\",\\\"array_task\\\":\\\"$slot\\\",\\\"node\\\":\\\"$SLURMD_NODENAME\\\"}\"\n"
	"pid= folder=\n"
	"beat() { while sleep 1; do : >\"$1/alive\"; done; }\n"
	"leave() {\n"
	"\t[ -z \"$pid\" ] || kill \"$pid\" \"$beat\" 2>/dev/null\n"
	"\t[ -z \"$folder\" ] || record \",\\\"ended\\\":$(now),\\\"verb\\\":\\\"free preempted\\\"\"\n"
	"\texit 143\n"
	"}\n"
	"trap leave TERM\n"
	"for task in \"$dir/blocks/$slot\"/*.task; do\n"
	"\t[ -e \"$task\" ] || continue # it has none\n"
	"\tIFS= read -r name <\"${task%.task}.name\"\n"
	"\tIFS= read -r head <\"${task%.task}.head\"\n"
	"\tfolder=\"$dir/results/$name@$((restarts + 1)).s$slot\"r$restarts\n"
	"\tmkdir -p \"$folder\"\n"
	"\tstarted=$(now)\n"
	"\trecord \"\"\n"
	"\twork=$(mktemp -d \"$dir/work/$slot.XXXXXX\") && cd \"$work\" || exit 1\n"
	"\t\"$replay\" \"$speed\" 1000 run_task <\"$task\" >\"$folder/output.log\" 2>&1 &\n"
	"\tpid=$!\n"
	"\tbeat \"$folder\" &\n"
	"\tbeat=$!\n"
	"\twait $pid\n"
	"\tstatus=$?\n"
	"\tkill $beat\n"
	"\tpid=\n"
	"\t[ $status -lt 128 ] || sleep 2 # a node that dies does not kill all at once\n"
	"\tverb=done\n"
	"\t[ $status = 0 ] || verb=\"failed status $status\"\n"
	"\trecord \",\\\"ended\\\":$(now),\\\"verb\\\":\\\"$verb\\\"\"\n"
	"\t[ $status = 0 ] && ln -sfn \"${folder##*/}\" \"$dir/results/$name\"\n"
	"\tfolder=\n"
	"\tcd \"$dir\" && rm -rf \"$work\"\n"
	"done\n";

/* A file of an arm with a line in it. False after a message. */
static bool
put_file(const struct arm *a, const char *name, const char *text, bool append)
{
	char path[sizeof(a->dir) + 64];

	snprintf(path, sizeof(path), "%s/%s", a->dir, name);
	FILE *f = fopen(path, append ? "ae" : "we");
	bool good = f && fputs(text, f) >= 0 && putc('\n', f) != EOF;

	if (f && fclose(f))
		good = false;
	return good || complain(0, "%s: %s", path, strerror(errno)) != 0;
}

static bool
put_task(const struct arm *a, size_t slot, size_t i)
{
	const struct contest_task *t = &a->c->tasks[i];
	json_t *name = json_string(t->name);
	char *quoted = json_dumps(name, JSON_ENCODE_ANY);
	char file[64];
	char *head = NULL;
	bool good = quoted && asprintf(&head, "{\"task\":%s", quoted) > 0;

	snprintf(file, sizeof(file), "blocks/%zu/%06zu.task", slot, i);
	good = good && put_file(a, file, t->line, false);
	memcpy(strrchr(file, '.'), ".name", sizeof(".name"));
	good = good && put_file(a, file, t->name, false);
	memcpy(strrchr(file, '.'), ".head", sizeof(".head"));
	good = good && put_file(a, file, head, false) && put_file(a, "order", t->name, true);
	json_decref(name);
	free(quoted);
	free(head);
	return good;
}

static bool
make_folder(const struct arm *a, const char *name)
{
	char path[sizeof(a->dir) + 64];

	snprintf(path, sizeof(path), "%s/%s", a->dir, name);
	return mkdir(path, 0777) == 0 || complain(0, "%s: %s", path, strerror(errno)) != 0;
}

int
blocks_prepare(const struct arm *a)
{
	size_t agents = a->c->nagents;
	size_t n = a->c->ntasks;
	char folder[64];

	if (!make_folder(a, "blocks") || !make_folder(a, "results") || !make_folder(a, "work") ||
	    !make_folder(a, "logs") || !put_file(a, "static.sh", script, false))
		return 1;
	for (size_t s = 0; s < agents; s++) {
		snprintf(folder, sizeof(folder), "blocks/%zu", s);
		if (!make_folder(a, folder))
			return 1;
		for (size_t i = n * s / agents; i < n * (s + 1) / agents; i++)
			if (!put_task(a, s, i))
				return 1;
	}
	return 0;
}

/* ---- without Slurm ---- */

static void
start_slot(struct arm *a, size_t i)
{
	struct slot *s = &a->slots[i];
	pid_t parent = getpid();

	s->restart_at = 0;
	s->pid = fork();
	if (s->pid)
		return;
	char file[sizeof(a->dir) + 16];
	char slot[24];
	char restarts[24];
	int log = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0);
	dup2(log, STDERR_FILENO);
	dup2(log, STDOUT_FILENO);
	snprintf(file, sizeof(file), "%s/static.sh", a->dir);
	snprintf(slot, sizeof(slot), "%zu", i);
	snprintf(restarts, sizeof(restarts), "%d", s->restarts);
	execl("/bin/sh", "sh", file, a->dir, a->c->replay, a->c->speed, slot, restarts, (char *)NULL);
	_exit(127);
}

int
blocks_start(struct arm *a)
{
	a->slots = calloc(a->c->nagents, sizeof(*a->slots));
	if (!a->slots)
		return complain(1, "out of memory");
	for (size_t i = 0; i < a->c->nagents; i++) {
		start_slot(a, i);
		if (a->slots[i].pid < 0) {
			a->slots[i].pid = 0;
			return complain(1, "a slot cannot be started: %s", strerror(errno));
		}
	}
	return 0;
}

bool
blocks_turn(struct arm *a, int64_t now_ms)
{
	bool any = false;

	for (size_t i = 0; i < a->c->nagents; i++) {
		struct slot *s = &a->slots[i];
		int status;

		if (s->pid > 0 && waitpid(s->pid, &status, WNOHANG) == s->pid) {
			kill(-s->pid, SIGKILL); /* what it has left, as Slurm sees to it */
			s->pid = 0;
			/* requeued: 143 is what its trap exits with */
			if (WIFSIGNALED(status) || WEXITSTATUS(status) == 128 + SIGTERM) {
				s->restarts++;
				s->restart_at = now_ms + RESTART_MS;
			}
		}
		if (!s->pid && s->restart_at && s->restart_at <= now_ms)
			start_slot(a, i);
		any |= s->pid > 0 || s->restart_at;
	}
	return any;
}

void
blocks_stop(struct arm *a)
{
	for (size_t i = 0; a->slots && i < a->c->nagents; i++) {
		struct slot *s = &a->slots[i];

		s->restart_at = 0;
		if (s->pid <= 0)
			continue;
		kill(-s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
		s->pid = 0;
	}
	free(a->slots);
	a->slots = NULL;
}
