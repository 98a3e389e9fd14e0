/*
 * attempt.c - workspace, results and record of one attempt. Every attempt has a folder of its
 * own, named after attempt and owner, so nobody who was late can overwrite a successor's.
 */
#include <config.h>

#include "attempt.h"

#include "clock.h"
#include "disk.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int
write_file(const char *path, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	int rc = write_all(fd, data, len);
	if (close(fd) < 0 && !rc)
		rc = -errno;
	return rc;
}

int
attempt_begin(struct attempt *a, const struct run_info *run, const struct lease_claim *c,
	      const char *local)
{
	*a = (struct attempt){ .log_fd = -1 };
	struct now now = now_read();
	a->started = now.wall_s;
	a->started_ms = now.boot_ms;
	snprintf(a->scratch, sizeof(a->scratch), "%.3000s/raser-agent.XXXXXX", local);
	if (!mkdtemp(a->scratch)) {
		int rc = -errno;

		log_warn("%s: no workspace can be made there", local);
		a->scratch[0] = '\0';
		return rc;
	}
	snprintf(a->state, sizeof(a->state), "%s/state", a->scratch);
	snprintf(a->workspace, sizeof(a->workspace), "%s/work", a->state);
	snprintf(a->task_file, sizeof(a->task_file), "%s/task.json", a->scratch);
	snprintf(a->control, sizeof(a->control), "%s/control", a->scratch);
	snprintf(a->results, sizeof(a->results), "%s/results/%s@%u.%s", run->run, c->name,
		 c->attempt, owner_random(c->owner));
	snprintf(a->out, sizeof(a->out), "%s/out", a->results);
	snprintf(a->log, sizeof(a->log), "%s/output.log", a->results);
	char home[PATH_MAX + 48];
	snprintf(home, sizeof(home), "%s/home", a->state);
	int rc = mkdir(a->state, 0700) < 0 || mkdir(a->workspace, 0700) < 0 || mkdir(home, 0700) < 0 ?
			 -errno :
			 0;
	if (!rc)
		rc = write_file(a->task_file, c->payload, c->size);
	if (!rc)
		rc = write_file(a->control, "", 0);
	if (!rc && mkdir(a->results, 0777) < 0 && errno != EEXIST)
		rc = -errno;
	if (!rc && mkdir(a->out, 0777) < 0 && errno != EEXIST)
		rc = -errno;
	if (!rc) {
		a->log_fd = open(a->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		rc = a->log_fd < 0 ? -errno : 0;
	}
	if (rc) {
		log_warnx("task %s@%u: %s cannot be prepared: %s", c->name, c->attempt, a->results,
			  strerror(-rc));
		attempt_end(a);
	}
	return rc;
}

void
text_clean(char *text)
{
	json_t *good = json_string(text);

	for (char *p = text; !good && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	json_decref(good);
}

void
attempt_words(struct attempt *a)
{
	char tail[sizeof(a->words)];
	off_t size = lseek(a->log_fd, 0, SEEK_END);
	off_t from = size > (off_t)sizeof(tail) - 1 ? size - (off_t)sizeof(tail) + 1 : 0;
	ssize_t n = pread(a->log_fd, tail, sizeof(tail) - 1, from);

	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
		n--;
	tail[n > 0 ? n : 0] = '\0';
	const char *line = strrchr(tail, '\n');
	snprintf(a->words, sizeof(a->words), "%s", line ? line + 1 : tail);
	/* a line of evidence for people: no control bytes in messages and logs */
	for (char *p = a->words; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	text_clean(a->words);
}

void
attempt_record(struct attempt *a, const struct lease_claim *c, const struct proc_end *end,
	       const char *tier, int64_t memory, const char *verb)
{
	char path[sizeof(a->results) + 32];
	char tmp[sizeof(a->results) + 32];
	char host[72] = "";
	struct now now = now_read();

	gethostname(host, sizeof(host) - 1);
	json_t *r = json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:f, s:s, s:I, s:I}", "task",
			      c->name, "attempt", (json_int_t)c->attempt, "owner", c->owner, "host",
			      host, "tier", tier, "started", (json_int_t)a->started, "ended",
			      (json_int_t)now.wall_s, "seconds",
			      (double)(now.boot_ms - a->started_ms) / 1000, "verb", verb,
			      "peak_rss", (json_int_t)end->peak_rss, "memory", (json_int_t)memory);
	if (!r)
		return;
	if (end->status >= 0 && WIFEXITED(end->status))
		json_object_set_new(r, "exit", json_integer(WEXITSTATUS(end->status)));
	if (end->status >= 0 && WIFSIGNALED(end->status))
		json_object_set_new(r, "signal", json_integer(WTERMSIG(end->status)));
	if (end->start_errno)
		json_object_set_new(r, "not_started", json_string(strerror(end->start_errno)));
	json_object_set_new(r, "last_output", json_string(a->words));
	snprintf(path, sizeof(path), "%s/attempt.json", a->results);
	snprintf(tmp, sizeof(tmp), "%s/.attempt.json", a->results);
	if (json_dump_file(r, tmp, JSON_INDENT(1)) || rename(tmp, path) < 0)
		log_warn("task %s@%u: %s cannot be written", c->name, c->attempt, path);
	json_decref(r);
}

void
attempt_accept(const struct attempt *a, const struct run_info *run, const struct lease_claim *c)
{
	char path[PATH_MAX + 300];
	char tmp[PATH_MAX + 340];
	const char *folder = strrchr(a->results, '/') + 1;

	snprintf(path, sizeof(path), "%s/results/%s", run->run, c->name);
	snprintf(tmp, sizeof(tmp), "%s/results/.%ld.%s", run->run, (long)getpid(),
		 owner_random(c->owner));
	unlink(tmp);
	if (symlink(folder, tmp) < 0 || rename(tmp, path) < 0)
		log_warn("task %s: results/%s cannot point to its result", c->name, c->name);
}

void
attempt_end(struct attempt *a)
{
	if (a->log_fd >= 0)
		close(a->log_fd);
	a->log_fd = -1;
	if (a->scratch[0])
		remove_tree(a->scratch);
	a->scratch[0] = '\0';
}
