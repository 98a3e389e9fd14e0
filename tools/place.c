/*
 * place.c - a job's folder on its node, and what dead jobs have left.
 */
#include <config.h>

#include "place.h"

#include "detach.h"
#include "log.h"
#include "mountinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

enum { YOUNG_S = 60 /* longer than anybody needs from mkdtemp(3) to its lock */ };

/* Folders of other hosts are not ours to judge: where the directory is shared by mistake, their locks
 * may not be seen here. */
static void
make_prefix(const struct place *p, char *prefix, size_t size)
{
	char host[33] = "";

	gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		if (*c == '/' || *c == '.')
			*c = '-';
	snprintf(prefix, size, "raser-job.%s.%s.", host, p->uuid);
}

/* ---- what dead jobs have left ---- */

/* The mount of a dead daemon is in the way of everything, and is taken away first. */
static bool
remove_folder(const char *dir, const char *point)
{
	static struct mount_entry e; /* it holds a path */

	while (mountinfo_top(point, &e) && e.fuse)
		if (!mount_detach(point))
			break;
	return (rmdir(point) == 0 || errno == ENOENT) && (rmdir(dir) == 0 || errno == ENOENT);
}

static void
sweep_one(const char *dir, int fd)
{
	char point[PATH_MAX];
	struct stat st;

	/* its lock is on the folder itself; one without may have been made this moment */
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mtime > time(NULL) - YOUNG_S ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	snprintf(point, sizeof(point), "%.4000s/mnt", dir);
	if (remove_folder(dir, point))
		log_info("removed %s, which a dead job of this run has left", dir);
	else
		log_warn("%s, which a dead job of this run has left, cannot be removed", dir);
}

static void
sweep(const struct place *p)
{
	char prefix[128];
	char dir[PATH_MAX];
	DIR *d = opendir(p->local);

	if (!d)
		return;
	make_prefix(p, prefix, sizeof(prefix));
	for (const struct dirent *e; (e = readdir(d));) {
		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(dir, sizeof(dir), "%.3800s/%.255s", p->local, e->d_name);
		int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		sweep_one(dir, fd);
		close(fd);
	}
	closedir(d);
}

/* ---- ours ---- */

/* [slurm] local names a directory for each user or job by variables. */
static void
expand(const char *text, char path[PATH_MAX])
{
	wordexp_t w;

	path[0] = '\0';
	if (!*text || wordexp(text, &w, WRDE_NOCMD))
		return;
	if (w.we_wordc == 1)
		snprintf(path, PATH_MAX, "%s", w.we_wordv[0]);
	wordfree(&w);
}

static bool
try_local(const char *dir, char local[PATH_MAX])
{
	return dir && *dir && realpath(dir, local) && access(local, W_OK | X_OK) == 0;
}

static bool
choose_local(struct place *p, const char *wanted)
{
	char first[PATH_MAX];

	expand(wanted, first);
	if (*wanted && try_local(first, p->local))
		return true;
	if (*wanted)
		log_warn("the node-local directory of raser.ini, %s, cannot be used here", wanted);
	if (try_local(getenv("SLURM_TMPDIR"), p->local) || try_local(getenv("TMPDIR"), p->local) ||
	    try_local("/tmp", p->local))
		return true;
	log_warn("there is no node-local directory for workspaces: set local in section [slurm] of "
		 "raser.ini");
	return false;
}

static bool
read_uuid(struct place *p, const char *run)
{
	struct disk disk;
	struct err err = { 0 };

	if (disk_open(&disk, run, &err)) {
		log_warnx("%s", err.text);
		return false;
	}
	int rc = format_read(&disk, p->uuid);
	disk_close(&disk);
	if (rc)
		log_warnx("%s/FORMAT: %s", run, strerror(-rc));
	return rc == 0;
}

bool
place_make(struct place *p, const char *run, const char *wanted, const char *job, int restarts)
{
	char prefix[128];

	*p = (struct place){ .lock_fd = -1 };
	if (!read_uuid(p, run) || !choose_local(p, wanted))
		return false;
	sweep(p);
	make_prefix(p, prefix, sizeof(prefix));
	snprintf(p->dir, sizeof(p->dir), "%.3800s/%s%.64s-%d.XXXXXX", p->local, prefix,
		 *job ? job : "0", restarts);
	if (!mkdtemp(p->dir)) {
		log_warn("%s: no folder can be made there", p->local);
		p->dir[0] = '\0';
		return false;
	}
	snprintf(p->point, sizeof(p->point), "%.4000s/mnt", p->dir);
	p->lock_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->lock_fd < 0 || flock(p->lock_fd, LOCK_EX | LOCK_NB) < 0 || mkdir(p->point, 0700) < 0) {
		log_warn("%s", p->dir);
		place_end(p);
		return false;
	}
	return true;
}

void
place_end(struct place *p)
{
	if (p->dir[0] && !remove_folder(p->dir, p->point))
		log_warn("%s cannot be removed", p->dir);
	p->dir[0] = '\0';
	if (p->lock_fd >= 0)
		close(p->lock_fd);
	p->lock_fd = -1;
}
