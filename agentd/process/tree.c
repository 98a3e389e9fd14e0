/*
 * tree.c - walking /proc. Every process is known by its number and its start time together, so
 * that a number which has become somebody else's is never signalled.
 */
#include <config.h>

#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- reading ---- */

ssize_t
read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* What stat has behind the name, which may hold anything: from field 3, the state, on. */
static const char *
read_stat(const char *path, char *buf, size_t size)
{
	if (read_text(path, buf, size) <= 0)
		return NULL;
	const char *p = strrchr(buf, ')');
	return p && p[1] == ' ' ? p + 2 : NULL;
}

bool
tree_look(pid_t pid, struct tree_process *p)
{
	char path[64];
	char buf[1024];
	int parent = 0;
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	const char *s = read_stat(path, buf, sizeof(buf));

	/* fields 3, 4 and 22 */
	if (!s ||
	    sscanf(s,
		   "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &p->state, &parent, &start) != 3)
		return false;
	p->pid = pid;
	p->parent = parent;
	p->start = start;
	return true;
}

int
tree_add(struct tree *t, const struct tree_process *p)
{
	if (t->n == t->room) {
		size_t room = t->room ? t->room * 2 : 64;
		struct tree_process *grown = realloc(t->all, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->all = grown;
		t->room = room;
	}
	t->all[t->n++] = *p;
	return 0;
}

/* ---- the walk ---- */

/* Add the children of one thread. -ENOENT: it is gone, or this kernel has no such file. */
static int
add_children(struct tree *t, const char *path, pid_t parent)
{
	FILE *f = fopen(path, "re");
	int rc = 0;
	int pid;

	if (!f)
		return -errno;
	while (!rc && fscanf(f, "%d", &pid) == 1) {
		struct tree_process p;

		/* one that got another parent since is listed there, or next time */
		if (tree_look(pid, &p) && p.parent == parent)
			rc = tree_add(t, &p);
	}
	fclose(f);
	return rc;
}

static int
walk_one(struct tree *t, pid_t pid)
{
	char path[320];
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	if (!d)
		return 0; /* it has just ended */
	for (const struct dirent *e; rc != -ENOMEM && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, e->d_name);
		rc = add_children(t, path, pid);
	}
	closedir(d);
	return rc == -ENOMEM ? rc : 0;
}

int
tree_scan(struct tree *t, pid_t root)
{
	struct tree all = { 0 };
	int rc = 0;

	t->n = 0;
	DIR *d = opendir("/proc");

	if (!d)
		return -errno;
	for (const struct dirent *e; !rc && (e = readdir(d));) {
		struct tree_process p;
		char *end;
		long pid = strtol(e->d_name, &end, 10);

		if (!*end && pid > 0 && tree_look((pid_t)pid, &p))
			rc = tree_add(&all, &p);
	}
	closedir(d);
	/* the list grows while it is gone through: children, their children ... */
	for (size_t i = 0; !rc && i <= t->n; i++) {
		pid_t parent = i ? t->all[i - 1].pid : root;

		for (size_t k = 0; !rc && k < all.n; k++)
			if (all.all[k].parent == parent)
				rc = tree_add(t, &all.all[k]);
	}
	tree_free(&all);
	return rc;
}

int
tree_list(struct tree *t, pid_t root)
{
	int rc;

	t->n = 0;
	if (access("/proc/thread-self/children", R_OK) < 0)
		return tree_scan(t, root);
	rc = walk_one(t, root);
	for (size_t i = 0; !rc && i < t->n; i++)
		rc = walk_one(t, t->all[i].pid);
	return rc;
}

void
tree_free(struct tree *t)
{
	free(t->all);
	*t = (struct tree){ 0 };
}

/* ---- signals ---- */

bool
tree_signal(const struct tree_process *p, int sig)
{
	struct tree_process now;
	int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

	if (fd < 0 && errno == ESRCH)
		return false;
	/* the descriptor holds on to whoever has the number now: look who that is */
	bool same = tree_look(p->pid, &now) && now.start == p->start;
	bool sent = same && (fd < 0 ? kill(p->pid, sig) == 0
				    : syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0);
	if (fd >= 0)
		close(fd);
	return sent;
}

bool
tree_is_still(const struct tree_process *p)
{
	struct tree_process look;
	char path[320];
	char buf[1024];
	bool still = true;

	if (!tree_look(p->pid, &look) || look.start != p->start)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
	DIR *d = opendir(path);
	for (const struct dirent *e; d && still && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)p->pid, e->d_name);
		const char *s = read_stat(path, buf, sizeof(buf));
		still = !s || strchr("TtZX", *s);
	}
	if (d)
		closedir(d);
	return still;
}

pid_t
tree_inner_pid(pid_t pid, int *depth)
{
	static int own; /* how many numbers this process has itself */
	char path[64];
	char buf[4096];
	pid_t inner = 0;
	int n = 0;

	if (!own && pid != getpid()) {
		int zero;

		own = 1;
		tree_inner_pid(getpid(), &zero);
	}
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	const char *p = read_text(path, buf, sizeof(buf)) > 0 ? strstr(buf, "\nNSpid:") : NULL;
	for (p = p ? p + 7 : ""; *p && *p != '\n'; n++) {
		char *end;

		inner = (pid_t)strtol(p, &end, 10);
		if (end == p)
			break;
		p = end;
	}
	if (pid == getpid() && n)
		own = n;
	*depth = n > own ? n - own : 0;
	return inner;
}

/* ---- measures ---- */

static uint64_t
to_ms(unsigned long long ticks)
{
	static long per_second;

	if (!per_second)
		per_second = sysconf(_SC_CLK_TCK);
	return ticks * 1000 / (unsigned long long)per_second;
}

void
tree_usage(const struct tree *t, pid_t root, struct usage *u)
{
	long page = sysconf(_SC_PAGESIZE);
	unsigned long long ticks = 0;

	*u = (struct usage){ .processes = (int)t->n };
	for (size_t i = 0; i <= t->n; i++) {
		pid_t pid = i ? t->all[i - 1].pid : root;
		char path[64];
		char buf[1024];
		unsigned long long user = 0;
		unsigned long long system = 0;
		unsigned long long waited_user = 0;
		unsigned long long waited_system = 0;
		unsigned long long in = 0;
		unsigned long long out = 0;
		long rss = 0;

		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		const char *s = read_stat(path, buf, sizeof(buf));

		/* fields 14 to 17 and 24 */
		if (!s || sscanf(s,
				 "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu"
				 " %*d %*d %*d %*d %*u %*u %ld",
				 &user, &system, &waited_user, &waited_system, &rss) != 5)
			continue;
		ticks += waited_user + waited_system;
		if (i == 0)
			continue; /* the root itself is no part of it, only whom it has reaped */
		ticks += user + system;
		u->rss += (int64_t)rss * page;
		snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
		if (read_text(path, buf, sizeof(buf)) > 0 &&
		    sscanf(buf, "rchar: %llu wchar: %llu", &in, &out) == 2)
			u->io_bytes += in + out;
	}
	u->cpu_ms = to_ms(ticks);
}

/* A figure in kB from smaps_rollup; 0 when it is not there. */
static int64_t
rollup(const char *text, const char *key)
{
	const char *p = strstr(text, key);
	long long kb = 0;

	return p && sscanf(p + strlen(key), "%lld", &kb) == 1 ? kb * 1024 : 0;
}

int64_t
tree_pss(const struct tree *t, bool no_shmem)
{
	int64_t sum = 0;

	for (size_t i = 0; i < t->n; i++) {
		char path[64];
		char buf[2048];
		struct tree one = { .all = &t->all[i], .n = 1 };
		struct usage u;

		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)t->all[i].pid);
		if (read_text(path, buf, sizeof(buf)) > 0) {
			sum += rollup(buf, "\nPss:") - (no_shmem ? rollup(buf, "\nPss_Shmem:") : 0);
			continue;
		}
		/* it may not be looked at: then its pages count as its own */
		tree_usage(&one, 0, &u);
		sum += u.rss;
	}
	return sum;
}

/* Its size in memory if it is the memory file of that name, or -1. */
static int64_t
memory_file(const char *path, const char *name)
{
	char text[256];
	struct stat st;
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	if (strncmp(text, "/memfd:", 7) != 0 || strncmp(text + 7, name, strlen(name)) != 0)
		return -1;
	return stat(path, &st) < 0 ? -1 : (int64_t)st.st_blocks * 512;
}

int64_t
tree_memory_file(const struct tree *t, const char *name, char place[64])
{
	int64_t size = place[0] ? memory_file(place, name) : -1;

	for (size_t i = 0; i < t->n && size < 0; i++) {
		char path[64];
		DIR *d;

		snprintf(path, sizeof(path), "/proc/%d/fd", (int)t->all[i].pid);
		d = opendir(path);
		for (const struct dirent *e; d && size < 0 && (e = readdir(d));) {
			snprintf(place, 64, "/proc/%d/fd/%.20s", (int)t->all[i].pid, e->d_name);
			size = memory_file(place, name);
		}
		if (d)
			closedir(d);
	}
	if (size < 0)
		place[0] = '\0';
	return size < 0 ? 0 : size;
}

/* ---- files ---- */
