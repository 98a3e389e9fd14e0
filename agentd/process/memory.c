/*
 * memory.c - memory cgroups, version 1 and 2.
 *
 * Ours are called raser.NAMESPACE.PID.START.N: pid namespace, number and start time of the
 * agentd that made it, and a count. A name whose process is not there any more is a leftover.
 */
#include <config.h>

#include "memory.h"

#include "disk.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "raser."

enum { REMOVE_ROUNDS = 400, REMOVE_PAUSE_MS = 5, FILE_NAME = 64 };

/* ---- files ---- */

static void
file_of(const struct cgroup *cg, const char *name, char path[PATH_MAX + FILE_NAME])
{
	snprintf(path, PATH_MAX + FILE_NAME, "%s/%s", cg->path, name);
}

static int
write_file(const struct cgroup *cg, const char *name, const char *text)
{
	char path[PATH_MAX + FILE_NAME];

	file_of(cg, name, path);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = write_all(fd, text, strlen(text));
	close(fd);
	return rc;
}

static int
write_number(const struct cgroup *cg, const char *name, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	return write_file(cg, name, text);
}

/* A number from a file: the whole of it, or what stands behind key at the start of a line. */
static int64_t
read_number(const char *path, const char *key)
{
	char buf[16384];
	const char *p = buf;

	if (read_text(path, buf, sizeof(buf)) <= 0)
		return -1;
	size_t len = key ? strlen(key) : 0;
	while (key && (strncmp(p, key, len) != 0 || p[len] != ' ')) {
		p = strchr(p, '\n');
		if (!p)
			return -1;
		p++;
	}
	char *end;
	long long value = strtoll(p + len, &end, 10);
	return end == p + len ? -1 : value;
}

/* ---- finding ---- */

const struct memory_roots *
memory_roots_system(void)
{
	static char self[4096];
	static struct memory_roots roots;

	read_text("/proc/self/cgroup", self, sizeof(self));
	roots = (struct memory_roots){
		.cgroup = "/sys/fs/cgroup", .self = self, .vmstat = "/proc/vmstat", .pid = getpid()
	};
	return &roots;
}

/* The path of the memory controller (version 1) or of the unified tree (2) in the text. */
static bool
line_of(const char *self, int version, char *path, size_t size)
{
	for (const char *p = self; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		const char *list = strchr(p, ':');
		const char *colon = list ? strchr(list + 1, ':') : NULL;

		if (!colon)
			return false;
		char names[256];
		snprintf(names, sizeof(names), ",%.*s,", (int)(colon - list - 1), list + 1);
		if (version == 1 ? !strstr(names, ",memory,") : strcmp(names, ",,") != 0)
			continue;
		snprintf(path, size, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1);
		return true;
	}
	return false;
}

static bool
has_pid(const struct cgroup *cg, pid_t pid)
{
	char path[PATH_MAX + FILE_NAME];
	int one = 0;
	bool found = false;

	file_of(cg, "cgroup.procs", path);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fscanf(f, "%d", &one) == 1)
		found = !pid || one == pid;
	fclose(f);
	return found || !pid;
}

bool
cgroup_find(const struct memory_roots *roots, struct cgroup *in)
{
	static const struct {
		int version;
		const char *mount;
		const char *mark; /* a file that only such a one has */
	} places[] = {
		{ 1, "/memory", "memory.limit_in_bytes" },
		{ 2, "", "cgroup.controllers" },
		{ 2, "/unified", "cgroup.controllers" },
	};

	for (size_t i = 0; i < 2 * sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX];
		char file[PATH_MAX + FILE_NAME];
		size_t k = i / 2;

		if (!line_of(roots->self, places[k].version, path, sizeof(path)))
			continue;
		/* in a container the path may be the host's, and what is mounted its own part */
		in->version = places[k].version;
		int n = snprintf(in->path, sizeof(in->path), "%s%s%s", roots->cgroup,
				 places[k].mount, i % 2 || !strcmp(path, "/") ? "" : path);
		if (n >= (int)sizeof(in->path))
			continue;
		file_of(in, places[k].mark, file);
		/* the root of version 1 has that file, that of version 2 has no memory.max */
		if (access(file, F_OK) == 0 && has_pid(in, roots->pid))
			return true;
	}
	*in = (struct cgroup){ 0 };
	return false;
}

/* ---- making ---- */

/* Version 2: may its children have a limit? Only where no process is in it but in the root. */
static int
delegate(const struct cgroup *in)
{
	char path[PATH_MAX + FILE_NAME];
	char buf[512];
	char words[520];

	file_of(in, "cgroup.subtree_control", path);
	if (read_text(path, buf, sizeof(buf)) < 0)
		return -errno;
	buf[strcspn(buf, "\n")] = '\0';
	snprintf(words, sizeof(words), " %s ", buf);
	return strstr(words, " memory ") ? 0 : write_file(in, "cgroup.subtree_control", "+memory");
}

static ino_t
pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 ? 0 : st.st_ino;
}

static int
set_limit(const struct cgroup *own, int64_t limit)
{
	int rc;

	if (own->version == 1) {
		rc = write_number(own, "memory.limit_in_bytes", limit);
		/* there is none where the kernel does not count swap */
		if (!rc)
			write_number(own, "memory.memsw.limit_in_bytes", limit);
	} else {
		rc = write_number(own, "memory.max", limit);
		if (!rc)
			write_number(own, "memory.swap.max", 0);
	}
	return rc;
}

int
cgroup_make(const struct memory_roots *roots, int64_t limit, struct cgroup *own, struct err *err)
{
	static unsigned count;
	struct cgroup in;
	struct tree_process me;

	own->version = 0;
	if (!cgroup_find(roots, &in))
		return err_set(err, -ENOENT, "no memory cgroup is mounted below %s", roots->cgroup);
	int rc = in.version == 2 ? delegate(&in) : 0;
	if (rc)
		return err_set(err, rc, "%s: its children may not have a limit of memory: %s",
			       in.path, strerror(-rc));
	if (!tree_look(getpid(), &me))
		return err_set(err, -ENOENT, "/proc does not show this process");
	int n = snprintf(own->path, sizeof(own->path), "%s/" PREFIX "%llu.%d.%llu.%u", in.path,
			 (unsigned long long)pid_namespace(), (int)me.pid,
			 (unsigned long long)me.start, count++);
	if (n >= (int)sizeof(own->path))
		return err_set(err, -ENAMETOOLONG, "%s: too long", in.path);
	if (mkdir(own->path, 0755) < 0)
		return err_set(err, -errno, "%s: no cgroup can be made there: %s", in.path,
			       strerror(errno));
	own->version = in.version;
	rc = set_limit(own, limit);
	if (rc) {
		rmdir(own->path);
		own->version = 0;
		return err_set(err, rc, "%s: no limit of memory can be set: %s", own->path,
			       strerror(-rc));
	}
	return 0;
}

int
cgroup_enter(const struct cgroup *own)
{
	return write_number(own, "cgroup.procs", getpid());
}

/* ---- reading ---- */

int64_t
cgroup_peak(const struct cgroup *cg)
{
	char path[PATH_MAX + FILE_NAME];

	file_of(cg, cg->version == 1 ? "memory.max_usage_in_bytes" : "memory.peak", path);
	int64_t peak = read_number(path, NULL);
	return peak > 0 ? peak : 0;
}

int
cgroup_oom_kills(const struct cgroup *cg)
{
	char path[PATH_MAX + FILE_NAME];

	file_of(cg, cg->version == 1 ? "memory.oom_control" : "memory.events", path);
	return (int)read_number(path, "oom_kill");
}

int64_t
memory_oom_kills(const struct memory_roots *roots)
{
	struct cgroup in;
	int n = -1;

	if (cgroup_find(roots, &in))
		n = cgroup_oom_kills(&in);
	return n >= 0 ? n : read_number(roots->vmstat, "oom_kill");
}

/* ---- removing ---- */

bool
cgroup_remove(const struct cgroup *own)
{
	char path[PATH_MAX + FILE_NAME];
	int pid;

	file_of(own, "cgroup.procs", path);
	for (int i = 0; i < REMOVE_ROUNDS; i++) {
		if (rmdir(own->path) == 0 || errno == ENOENT)
			return true;
		FILE *f = fopen(path, "re");
		while (f && fscanf(f, "%d", &pid) == 1)
			if (pid > 1)
				kill(pid, SIGKILL);
		if (f)
			fclose(f);
		poll(NULL, 0, REMOVE_PAUSE_MS);
	}
	return false;
}

/* Is it a name of ours whose agentd is not there any more? */
static bool
is_leftover(const char *name)
{
	unsigned long long ns;
	unsigned long long start;
	int pid;
	struct tree_process p;

	if (sscanf(name, PREFIX "%llu.%d.%llu.", &ns, &pid, &start) != 3 || ns != pid_namespace())
		return false;
	return !tree_look(pid, &p) || p.start != start || p.state == 'Z' || p.state == 'X';
}

void
cgroup_sweep(const struct memory_roots *roots)
{
	struct cgroup in;

	if (!cgroup_find(roots, &in))
		return;
	DIR *d = opendir(in.path);
	if (!d)
		return;
	for (const struct dirent *e; (e = readdir(d));) {
		struct cgroup one = { .version = in.version };

		if (!is_leftover(e->d_name))
			continue;
		int n = snprintf(one.path, sizeof(one.path), "%s/%s", in.path, e->d_name);
		if (n < (int)sizeof(one.path) && cgroup_remove(&one))
			log_info("removed %s, which an agentd that is gone has left", one.path);
	}
	closedir(d);
}
