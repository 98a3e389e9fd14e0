/*
 * slurm.c - asking Slurm, and understanding it.
 */
#include <config.h>

#include "slurm.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- commands ---- */

/* Users' defaults for the outputs of Slurm's commands would change what we read. */
static void
drop_defaults(void)
{
	static const char *const prefixes[] = { "SQUEUE_", "SCONTROL_", "SLURM_TIME_FORMAT" };
	char name[64];

	for (char **e = environ; *e;) {
		bool ours = false;

		for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
			ours |= !strncmp(*e, prefixes[i], strlen(prefixes[i]));
		size_t len = strcspn(*e, "=");
		if (!ours || len >= sizeof(name)) {
			e++;
			continue;
		}
		memcpy(name, *e, len);
		name[len] = '\0';
		unsetenv(name); /* the next one takes its place */
	}
}

static void
exec_command(char *const *argv, int out)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	drop_defaults();
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int
slurm_begin(struct slurm_call *c, char *const *argv, int64_t now_ms, int64_t limit_ms)
{
	int fds[2];

	*c = (struct slurm_call){ .fd = -1, .text = c->own, .room = sizeof(c->own) };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	c->pid = fork();
	if (c->pid < 0) {
		int rc = -errno;

		c->pid = 0;
		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (c->pid == 0)
		exec_command(argv, fds[1]);
	close(fds[1]);
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	c->fd = fds[0];
	c->kill_at = now_ms + limit_ms;
	return 0;
}

static void
read_some(struct slurm_call *c)
{
	char rest[512];

	while (c->fd >= 0) {
		bool room = c->len + 1 < c->room;
		ssize_t n = room ? read(c->fd, c->text + c->len, c->room - 1 - c->len) :
				   read(c->fd, rest, sizeof(rest));

		if (n > 0 && room)
			c->len += (size_t)n;
		if (n > 0 || (n < 0 && errno == EINTR))
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		close(c->fd);
		c->fd = -1;
	}
}

bool
slurm_turn(struct slurm_call *c, int64_t now_ms)
{
	if (!c->pid)
		return true;
	read_some(c);
	if (!c->late && now_ms >= c->kill_at) {
		c->late = true;
		kill(-c->pid, SIGKILL);
		kill(c->pid, SIGKILL); /* it may not have its own group yet */
	}
	/* something that it has left behind may keep the pipe open */
	if (c->late && c->reaped && c->fd >= 0) {
		close(c->fd);
		c->fd = -1;
	}
	return c->reaped && c->fd < 0;
}

bool
slurm_reaped(struct slurm_call *c, pid_t pid, int status)
{
	if (!c->pid || c->pid != pid || c->reaped)
		return false;
	c->reaped = true;
	c->status = status;
	return true;
}

int
slurm_result(struct slurm_call *c)
{
	c->text[c->len] = '\0';
	while (c->len && strchr(" \t\r\n", c->text[c->len - 1]))
		c->text[--c->len] = '\0';
	c->pid = 0;
	if (c->late)
		return -ETIMEDOUT;
	return WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -EINTR;
}

int
slurm_run(char *const *argv, int64_t limit_ms, char *text, size_t size)
{
	static struct slurm_call c; /* large, and there is one at a time */
	int status;

	text[0] = '\0';
	int rc = slurm_begin(&c, argv, now_read().boot_ms, limit_ms);
	if (rc)
		return rc;
	c.text = text;
	c.room = size;
	while (!slurm_turn(&c, now_read().boot_ms)) {
		struct pollfd p = { .fd = c.fd, .events = POLLIN };
		int64_t left = c.kill_at - now_read().boot_ms;

		/* once its pipe is closed it ends, or is late */
		poll(&p, 1, c.fd < 0 ? 10 : left > 0 && !c.late ? (int)left : 10);
		if (!c.reaped && waitpid(c.pid, &status, WNOHANG) == c.pid)
			slurm_reaped(&c, c.pid, status);
	}
	rc = slurm_result(&c);
	c.text = c.own;
	return rc;
}

/* ---- this job ---- */

static long
number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : 0;
}

void
slurm_self(struct slurm_self *s)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *array = getenv("SLURM_ARRAY_JOB_ID");
	const char *task = getenv("SLURM_ARRAY_TASK_ID");
	const char *node = getenv("SLURMD_NODENAME");
	long cpus = number_of("SLURM_CPUS_ON_NODE");
	long all = sysconf(_SC_NPROCESSORS_CONF);

	*s = (struct slurm_self){ .inside = job && *job };
	snprintf(s->job, sizeof(s->job), "%s", job ? job : "");
	if (array && *array && task && *task)
		snprintf(s->id, sizeof(s->id), "%s_%s", array, task);
	else
		snprintf(s->id, sizeof(s->id), "%s", s->job);
	snprintf(s->node, sizeof(s->node), "%s", node ? node : "");
	s->restarts = (int)number_of("SLURM_RESTART_COUNT");
	s->share = cpus > 0 && all > cpus ? (double)cpus / (double)all : 1;
}

int64_t
slurm_seconds(const char *text)
{
	static const long units[] = { 1, 60, 3600 };
	long fields[3];
	int n = 0;
	char *end;
	long days = 0;
	long v = strtol(text, &end, 10);

	if (end == text || v < 0)
		return -1;
	if (*end == '-') {
		days = v;
		text = end + 1;
		v = strtol(text, &end, 10);
		if (end == text || v < 0)
			return -1;
	}
	for (fields[n++] = v; *end == ':' && n < 3; fields[n++] = v) {
		text = end + 1;
		v = strtol(text, &end, 10);
		if (end == text || v < 0)
			return -1;
	}
	if (*end && *end != '\n' && *end != ' ')
		return -1;
	int64_t seconds = (int64_t)days * 86400;
	for (int i = 0; i < n; i++)
		seconds += (int64_t)fields[n - 1 - i] * units[i];
	return seconds;
}

int64_t
slurm_time_left(const struct slurm_self *s, char *why, size_t size)
{
	const char *end = getenv("SLURM_JOB_END_TIME"); /* of Slurm 23.02 and later */
	int64_t known = end ? strtoll(end, NULL, 10) - now_read().wall_s : 0;
	char id[64];
	char *const argv[] = { "squeue", "-h", "-j", id, "-o", "%L", NULL };
	char text[400];

	why[0] = '\0';
	if (known > 0)
		return known;
	snprintf(id, sizeof(id), "%s", s->id);
	int rc = slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));
	if (rc) {
		snprintf(why, size, "%s", rc == -ETIMEDOUT ? "squeue did not answer" :
					  *text		    ? text :
								"squeue failed");
		return -1;
	}
	int64_t left = slurm_seconds(text);
	if (left < 0 && strcmp(text, "UNLIMITED") != 0)
		snprintf(why, size, "squeue says \"%.40s\"", text);
	return left;
}

/* ---- what a signal means ---- */

/* Part n of a match. */
static void
take(const char *line, const regmatch_t *m, char *to, size_t size)
{
	int len = (int)(m->rm_eo - m->rm_so);

	snprintf(to, size, "%.*s", len < 0 ? 0 : len, line + m->rm_so);
}

/* A line of scontrol. Its fields have a fixed order; names before those that we look for, and comments
 * behind them, may hold anything, fields like ours too. */
static bool
parse_line(char *line, struct slurm_job *j)
{
	static const char fields[] = "^JobId=.* JobState=([A-Z_]+) Reason=(.*) Dependency=[^ ]* "
				     "Requeue=[0-9]+ Restarts=([0-9]+)$";
	enum { WHOLE, STATE, REASON, RESTARTS, PARTS };
	char *behind = strstr(line, " BatchFlag=");
	regmatch_t m[PARTS];
	regex_t re;
	char number[16];

	if (!behind || regcomp(&re, fields, REG_EXTENDED))
		return false;
	*behind = '\0';
	bool found = regexec(&re, line, PARTS, m, 0) == 0;
	regfree(&re);
	if (!found)
		return false;
	take(line, &m[STATE], j->state, sizeof(j->state));
	take(line, &m[REASON], j->reason, sizeof(j->reason));
	take(line, &m[RESTARTS], number, sizeof(number));
	j->restarts = (int)strtol(number, NULL, 10);
	const char *at = strstr(behind + 1, " PreemptTime=");
	at = at ? at + strlen(" PreemptTime=") : "None";
	j->preempted = *at >= '0' && *at <= '9';
	return true;
}

bool
slurm_parse(const char *text, struct slurm_job *j)
{
	static char line[SLURM_TEXT];
	bool found = false;

	*j = (struct slurm_job){ 0 };
	while (*text && !found) {
		size_t len = strcspn(text, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		text += len + (text[len] == '\n');
		found = parse_line(line, j);
	}
	return found;
}

enum slurm_verdict
slurm_decide(const struct slurm_job *j, int restarts, char *why, size_t size)
{
	/* The first row that applies decides; NULL: any. Of a job that is being ended Slurm does not say
	 * how it ends, but a cancelled one has no reason; whatever else is not known is taken for a
	 * cancel, since a job that comes back from that can hardly be ended at all. */
	static const struct {
		const char *state, *reason;
		enum slurm_verdict verdict;
		const char *words;
	} rows[] = {
		{ "RUNNING", NULL, SLURM_REQUEUE, "a signal" },
		{ "SUSPENDED", NULL, SLURM_REQUEUE, "a signal" },
		{ "COMPLETING", "TimeLimit", SLURM_REQUEUE, "the time limit" },
		{ "TIMEOUT", NULL, SLURM_REQUEUE, "the time limit" },
		{ "PREEMPTED", NULL, SLURM_LEAVE, "preempted" },
		{ "PENDING", NULL, SLURM_LEAVE, "requeued already" },
		{ "REQUEUED", NULL, SLURM_LEAVE, "requeued already" },
		{ "COMPLETING", "None", SLURM_NEVER, "cancelled" },
		{ NULL, NULL, SLURM_NEVER, "ended" },
	};

	if (!j) {
		snprintf(why, size, "scontrol does not tell why");
		return SLURM_UNKNOWN;
	}
	if (j->restarts > restarts) {
		snprintf(why, size, "Slurm has requeued this job (restart %d)", j->restarts);
		return SLURM_LEAVE;
	}
	size_t i = 0;
	while ((rows[i].state && strcmp(rows[i].state, j->state) != 0) ||
	       (rows[i].reason && strcmp(rows[i].reason, j->reason) != 0))
		i++;
	snprintf(why, size, "%s (%s, %.60s)",
		 rows[i].verdict == SLURM_REQUEUE && j->preempted ? "preempted" : rows[i].words, j->state,
		 j->reason);
	return rows[i].verdict;
}
