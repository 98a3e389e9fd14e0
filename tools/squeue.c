/*
 * squeue.c - one call of squeue a minute for a whole run, whose answer all read.
 */
#include <config.h>

#include "squeue.h"

#include "slurm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	ASK_LIMIT_MS = 30000,
	AHEAD_MINUTES = 60, /* no clock is that wrong; a name further ahead is nobody's */
	PATH_ROOM = PATH_MAX + 64,
};

static bool
minute_of(const char *name, int64_t *minute)
{
	char *end;

	if (strncmp(name, "squeue.", 7) != 0)
		return false;
	*minute = strtoll(name + 7, &end, 10);
	return end != name + 7 && !*end;
}

static void
said_path(const char *run, int64_t minute, char path[PATH_ROOM])
{
	snprintf(path, PATH_ROOM, "%s/slurm/squeue.%lld", run, (long long)minute);
}

/* Read the answer of a minute into a buffer; false when it has not come. */
static bool
said_load(const char *run, int64_t minute, struct said *s, char *buf, size_t size)
{
	char path[PATH_ROOM];

	said_path(run, minute, path);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, size - 1, f) : 0;
	if (f)
		fclose(f);
	buf[n] = '\0';
	char *end = strchr(buf, '\n');
	char *at = strchr(buf, ' ');
	if (!end || !at || at > end)
		return false;
	s->good = !strncmp(buf, "at ", 3);
	s->at = strtoll(at + 1, NULL, 10);
	s->minute = minute;
	s->text = end + 1;
	return true;
}

void
squeue_find(const char *run, int64_t below, bool good, struct said *s, char *buf, size_t size)
{
	char path[PATH_ROOM];
	int64_t tried = below;

	*s = (struct said){ .newest = -1, .minute = -1 };
	snprintf(path, sizeof(path), "%s/slurm", run);
	for (;;) {
		DIR *dir = opendir(path);
		const struct dirent *e;
		int64_t best = -1;
		int64_t minute;

		while (dir && (e = readdir(dir)))
			if (minute_of(e->d_name, &minute) && minute < below) {
				s->newest = minute > s->newest ? minute : s->newest;
				if (minute < tried && minute > best)
					best = minute;
			}
		if (dir)
			closedir(dir);
		if (best < 0 || (said_load(run, best, s, buf, size) && (s->good || !good)))
			break;
		tried = best;
		s->minute = -1;
	}
}

/* What was said before is of no more use. */
static void
forget_before(const char *run, int64_t minute)
{
	char path[PATH_ROOM];
	const struct dirent *e;
	int64_t other;

	snprintf(path, sizeof(path), "%s/slurm", run);
	DIR *dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (minute_of(e->d_name, &other) &&
		    (other < minute || other > minute + AHEAD_MINUTES))
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
}

int
squeue_ask(const char *run, squeue_keep_fn *keep, void *arg, char *text, size_t size)
{
	char path[PATH_ROOM];
	struct stat st;
	char uid[24];
	char *const argv[] = { "squeue", "-h", "-r", "-u", uid, "-o", "%F|%K|%T|%r", NULL };

	/* whoever looks, the jobs are of the one who launched them */
	snprintf(path, sizeof(path), "%s/slurm", run);
	uid_t owner = stat(path, &st) < 0 ? getuid() : st.st_uid;
	snprintf(uid, sizeof(uid), "%lu", (unsigned long)owner);
	int status = slurm_run(argv, ASK_LIMIT_MS, text, size);
	if (status) {
		if (status == -ETIMEDOUT)
			snprintf(text, size, "squeue does not answer");
		else if (!*text)
			snprintf(text, size, "squeue ended with status %d", status);
		text[strcspn(text, "\n")] = '\0';
		return -1;
	}
	/* what is of other jobs is left out */
	char *to = text;
	for (char *p = text; *p;) {
		size_t len = strcspn(p, "\n");
		size_t whole = len + (p[len] == '\n');

		if (keep(arg, p)) {
			memmove(to, p, whole);
			to += whole;
		}
		p += whole;
	}
	*to = '\0';
	return 0;
}

void
squeue_write(const char *run, int64_t minute, bool good, const char *text)
{
	char draft[PATH_ROOM];
	char path[PATH_ROOM];

	snprintf(draft, sizeof(draft), "%s/slurm/.squeue.%ld", run, (long)getpid());
	said_path(run, minute, path);
	FILE *f = fopen(draft, "we");
	if (!f)
		return;
	fprintf(f, "%s %lld\n%s", good ? "at" : "failed", (long long)time(NULL), text);
	bool whole = fclose(f) == 0 && rename(draft, path) == 0;
	if (!whole)
		unlink(draft);
	else if (good)
		forget_before(run, minute);
}

void
squeue_renew(const char *run, squeue_keep_fn *keep, void *arg, char *buf, size_t size)
{
	int64_t minute = (int64_t)time(NULL) / 60;
	char path[PATH_ROOM];
	struct said s;

	squeue_find(run, minute + AHEAD_MINUTES, false, &s, buf, size);
	if (s.newest >= minute)
		return;
	said_path(run, minute, path);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return; /* somebody else does, or may not write here */
	close(fd);
	bool good = squeue_ask(run, keep, arg, buf, size) == 0;
	squeue_write(run, minute, good, buf);
}
