/*
 * launched.c - RUN/slurm: the scripts that were submitted, and a record of each submission. A record is
 * written under another name first, so that nobody reads half of one.
 */
#include <config.h>

#include "launch.h"

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRIPTS_MAX = 100000, PATH_ROOM = PATH_MAX + 2 * SCRIPT_NAME };

static void
path_of(const char *run, const char *name, char path[PATH_ROOM])
{
	snprintf(path, PATH_ROOM, "%s/slurm/%s", run, name);
}

void
script_name(const struct launch *l, const char *tier, char name[SCRIPT_NAME])
{
	char path[PATH_ROOM];
	struct stat st;

	for (int n = 1; n < SCRIPTS_MAX; n++) {
		snprintf(name, SCRIPT_NAME, "%.*s.%d.sh", TIER_NAME, tier, n);
		path_of(l->target.run, name, path);
		if (lstat(path, &st) < 0)
			return;
	}
}

/* A new file, whole and on the disk. 0 or a negative errno; then it is not there. */
static int
write_new(const char *path, mode_t mode, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0)
		return -errno;
	int rc = write_all(fd, text, len);
	if (!rc && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && !rc)
		rc = -errno;
	if (rc)
		unlink(path);
	return rc;
}

int
script_write(const struct launch *l, const char *name, const char *text, char path[PATH_MAX])
{
	char dir[PATH_ROOM];
	char full[PATH_ROOM];

	path_of(l->target.run, "", dir);
	path_of(l->target.run, name, full);
	if (strlen(full) >= PATH_MAX) {
		complain(1, "%s: %s", full, strerror(ENAMETOOLONG));
		return -ENAMETOOLONG;
	}
	int rc = mkdir(dir, 0777) < 0 && errno != EEXIST ? -errno : 0;
	if (rc) {
		complain(1, "%s: %s", dir, strerror(-rc));
		return rc;
	}
	rc = write_new(full, 0777, text, strlen(text));
	if (rc)
		complain(1, "%s: %s", full, strerror(-rc));
	memcpy(path, full, strlen(full) + 1);
	return rc;
}

int
launched_write(const struct launch *l, const struct launched *one)
{
	char draft[PATH_ROOM];
	char path[PATH_ROOM];
	char name[JOB_ID + 16];
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I}", "job", one->job, "tier", one->tier, "script",
			      one->script, "agents", (json_int_t)one->agents, "at", (json_int_t)one->at);
	char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;

	json_decref(o);
	if (!text)
		return -ENOMEM;
	snprintf(name, sizeof(name), ".%s.%ld", one->job, (long)getpid());
	path_of(l->target.run, name, draft);
	snprintf(name, sizeof(name), "%s.json", one->job);
	path_of(l->target.run, name, path);
	int rc = write_new(draft, 0666, text, strlen(text));
	free(text);
	if (!rc && rename(draft, path) < 0) {
		rc = -errno;
		unlink(draft);
	}
	return rc;
}

static bool
read_one(const char *path, struct launched *one)
{
	const char *job = NULL;
	const char *tier = NULL;
	const char *script = NULL;
	json_int_t agents = 0;
	json_int_t at = 0;
	json_t *o = json_load_file(path, 0, NULL);
	bool good = o && !json_unpack(o, "{s:s, s:s, s:s, s:I, s:I}", "job", &job, "tier", &tier, "script",
				      &script, "agents", &agents, "at", &at);

	*one = (struct launched){ .agents = (long)agents, .at = at };
	if (good) {
		snprintf(one->job, sizeof(one->job), "%s", job);
		snprintf(one->tier, sizeof(one->tier), "%s", tier);
		snprintf(one->script, sizeof(one->script), "%s", script);
	}
	json_decref(o);
	return good;
}

static int
by_job(const void *a, const void *b)
{
	const struct launched *x = a;
	const struct launched *y = b;
	long long m = strtoll(x->job, NULL, 10);
	long long n = strtoll(y->job, NULL, 10);

	return m < n ? -1 : m > n;
}

int
launched_read(const char *run, struct launched *all, size_t max)
{
	char path[PATH_ROOM];
	const struct dirent *e;
	size_t n = 0;

	path_of(run, "", path);
	DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (n < max && (e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		if (len < 6 || len >= JOB_ID || strcmp(e->d_name + len - 5, ".json") != 0 ||
		    e->d_name[0] == '.')
			continue;
		path_of(run, e->d_name, path);
		n += read_one(path, &all[n]);
	}
	closedir(dir);
	qsort(all, n, sizeof(*all), by_job);
	return (int)n;
}
