/*
 * judge.c - what the end of a sandbox's first process means: the agent's own exit, or a failure
 * of the sandbox, which is the node's fault and not the task's.
 *
 * What a sandbox says about itself goes to the output of the agent, which an agent may imitate:
 * it then gets what exit status 75 would give it, and no more.
 */
#include <config.h>

#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAIL = 4096, FRONT_FAILED = 255, RUNSC_FAILED = 128 };

/* The end of what was printed, without line ends behind it. */
static void
read_tail(int fd, char tail[TAIL])
{
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > TAIL - 1 ? size - TAIL + 1 : 0;
	ssize_t n = pread(fd, tail, TAIL - 1, from);

	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
		n--;
	tail[n > 0 ? n : 0] = '\0';
}

/* The last line that begins with one of these words. */
static const char *
line_with(const char *text, const char *const *words)
{
	const char *found = NULL;

	for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		for (const char *const *w = words; *w; w++)
			if (!strncmp(p, *w, strlen(*w)))
				found = p;
	return found;
}

static const char *
last_line(const char *text)
{
	const char *nl = strrchr(text, '\n');

	return nl ? nl + 1 : text;
}

static void
fail(struct proc_end *end, const char *kind, const char *line)
{
	end->sandbox_failed = true;
	snprintf(end->why, sizeof(end->why), "sandbox %s: %.*s", kind,
		 line ? (int)strcspn(line, "\n") : 0, line ? line : "");
	for (char *p = end->why; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

/* bubblewrap reports the exit of what it started; if it does not, there was none. */
static void
judge_bwrap(int code, const char *report, const char *tail, struct proc_end *end)
{
	static const char *const no_program[] = { "bwrap: execvp ", NULL };
	const char *line = line_with(last_line(tail), no_program);

	if (!strstr(report, "\"exit-code\""))
		fail(end, "bwrap", last_line(tail));
	else if (code == 1 && line)
		fail(end, "bwrap", line);
}

static void
judge_apptainer(int code, const char *tail, struct proc_end *end)
{
	static const char *const fatal[] = { "FATAL:", NULL };
	static const char *const usage[] = { "Error for command \"exec\"", NULL };
	const char *line = line_with(last_line(tail), fatal);

	if (code == FRONT_FAILED && line)
		fail(end, "apptainer", line);
	else if (code == 1 && !strncmp(last_line(tail), "Run 'apptainer --help'", 22))
		/* a list of all options stands between the two */
		fail(end, "apptainer",
		     line_with(tail, usage) ? line_with(tail, usage) : last_line(tail));
}

/* runsc writes errors of its own to its log, and ends with 128. */
static void
judge_gvisor(int code, const char *log, struct proc_end *end)
{
	char text[TAIL];
	int fd = open(log, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (code != RUNSC_FAILED || !strstr(text, "\"level\":\"error\""))
		return;
	char *message = strstr(text, "\"msg\":\"");
	message = message ? message + strlen("\"msg\":\"") : text;
	/* the message ends at the first quote that is not escaped */
	for (char *p = message; *p; p++) {
		if (*p == '"') {
			*p = '\0';
			break;
		}
		if (*p == '\\' && p[1])
			memmove(p, p + 1, strlen(p));
	}
	fail(end, "gvisor", message);
}

void
judge(const struct proc_spec *spec, int status, const char *report, struct proc_end *end)
{
	const struct sandbox_plan *plan = spec->plan;
	char tail[TAIL];

	end->status = status;
	if (end->start_errno) {
		snprintf(end->why, sizeof(end->why), "%s: %s", plan->argv[0],
			 strerror(end->start_errno));
		end->sandbox_failed = plan->kind != SANDBOX_NONE;
		return;
	}
	if (plan->kind == SANDBOX_NONE || status < 0 || !WIFEXITED(status))
		return;
	int code = WEXITSTATUS(status);
	read_tail(spec->output_fd, tail);
	if (plan->kind == SANDBOX_BWRAP)
		judge_bwrap(code, report, tail, end);
	else if (plan->kind == SANDBOX_APPTAINER)
		judge_apptainer(code, tail, end);
	else
		judge_gvisor(code, plan->log, end);
	/* all of them say 128+N for an agent that signal N has ended */
	if (!end->sandbox_failed && code > 128 && code <= 128 + SIGSYS)
		end->status = code - 128;
}
