/*
 * brakes.c - a run's brakes, as files and figures.
 */
#include <config.h>

#include "brakes.h"

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR_S = 3600 };

bool
brakes_drain(const char *run)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/drain", run);
	return access(path, F_OK) == 0;
}

/* ---- node-hours ---- */

static double
read_use(int dir, const char *name)
{
	char text[64] = "";
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *end;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	double v = strtod(text, &end);
	return end > text && v > 0 && v < 1e12 ? v : 0;
}

void
brakes_read(struct brakes *b, const char *run)
{
	char path[PATH_MAX + 16];
	double seconds = 0;

	*b = (struct brakes){ .drain = brakes_drain(run) };
	snprintf(path, sizeof(path), "%s/slurm/use", run);
	DIR *d = opendir(path);
	if (!d)
		return;
	for (const struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			seconds += read_use(dirfd(d), e->d_name);
	closedir(d);
	b->node_hours = seconds / HOUR_S;
}

int
brakes_use(const char *run, const char *job, int restarts, double node_seconds)
{
	char dir[PATH_MAX + 16];
	char tmp[PATH_MAX + 80];
	char path[PATH_MAX + 80];
	char text[32];

	snprintf(dir, sizeof(dir), "%s/slurm", run);
	mkdir(dir, 0777); /* what cannot be made shows below */
	snprintf(dir, sizeof(dir), "%s/slurm/use", run);
	mkdir(dir, 0777);
	snprintf(path, sizeof(path), "%s/%.32s.%d", dir, job, restarts);
	/* two copies of one job may run */
	snprintf(tmp, sizeof(tmp), "%s/.%.32s.%d.%ld", dir, job, restarts, (long)getpid());
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	int rc = write_all(fd, text, (size_t)snprintf(text, sizeof(text), "%.1f\n", node_seconds));
	if (close(fd) < 0 && !rc)
		rc = -errno;
	if (!rc && rename(tmp, path) < 0)
		rc = -errno;
	if (rc)
		unlink(tmp);
	return rc;
}

/* ---- judging ---- */

static void
local_time(int64_t seconds, char text[32])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	text[0] = '\0';
	if (localtime_r(&t, &tm))
		strftime(text, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

enum brake
brakes_check(const struct brakes *b, const struct limits_conf *limits, int64_t now_s, int restarts,
	     char *why, size_t size)
{
	char when[32];

	if (b->drain) {
		snprintf(why, size, "the run is being drained (file drain in its directory)");
		return BRAKE_DRAIN;
	}
	if (limits->end && now_s >= limits->end) {
		local_time(limits->end, when);
		snprintf(why, size, "the end of the run has come ([limits] end, %s)", when);
		return BRAKE_END;
	}
	if (limits->node_hours > 0 && b->node_hours >= limits->node_hours) {
		snprintf(why, size, "%.2f of %.2f node-hours are used ([limits] node_hours)",
			 b->node_hours, limits->node_hours);
		return BRAKE_HOURS;
	}
	if (restarts >= 0 && restarts >= limits->max_requeues) {
		snprintf(why, size, "this job was requeued %d times, %lld are allowed ([limits] "
			 "max_requeues)", restarts, (long long)limits->max_requeues);
		return BRAKE_REQUEUES;
	}
	why[0] = '\0';
	return BRAKE_NONE;
}

/* ---- showing ---- */

static void __attribute__((format(printf, 3, 4)))
add(char *text, size_t size, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, size - len, fmt, args);
	va_end(args);
}

void
brakes_describe(const char *run, const struct limits_conf *limits, int64_t now_s, const char *indent,
		char *text, size_t size)
{
	struct brakes b;
	char when[32];

	text[0] = '\0';
	brakes_read(&b, run);
	if (b.drain)
		add(text, size, "%sdrain: on, agents take nothing more (rm %s/drain ends that)\n", indent,
		    run);
	if (limits->end) {
		local_time(limits->end, when);
		add(text, size, "%send: %s%s\n", indent, when, now_s >= limits->end ? ", over" : "");
	}
	if (limits->node_hours > 0)
		add(text, size, "%snode-hours: %.2f of %.2f%s\n", indent, b.node_hours,
		    limits->node_hours, b.node_hours >= limits->node_hours ? ", used up" : "");
	else if (b.node_hours > 0)
		add(text, size, "%snode-hours: %.2f\n", indent, b.node_hours);
	if (limits->max_requeues != 100)
		add(text, size, "%srequeues: at most %lld of each array task\n", indent,
		    (long long)limits->max_requeues);
}
