/*
 * prey.c - finding the processes of one run, and nothing else.
 */
#include <config.h>

#include "prey.h"

#include "mountinfo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMAND_TEXT = 65536, ENVIRON_TEXT = 1 << 18 };

static bool
is_ours(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	return pid > 1 && pid != getpid() && stat(path, &st) == 0 && st.st_uid == geteuid();
}

static struct prey *
add(struct prey_list *p, enum prey_kind kind, const struct tree_process *process)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct prey *grown = realloc(p->all, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		p->all = grown;
		p->cap = cap;
	}
	struct prey *x = &p->all[p->n++];
	*x = (struct prey){ .kind = kind, .process = *process };
	return x;
}

bool
prey_environ(pid_t pid, const char *name, char *out, size_t size)
{
	char path[64];
	size_t len = strlen(name);
	char *text = malloc(ENVIRON_TEXT);
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%ld/environ", (long)pid);
	ssize_t n = text ? read_text(path, text, ENVIRON_TEXT) : -1;
	for (ssize_t i = 0; i < n && !found; i += (ssize_t)strlen(text + i) + 1) {
		found = !strncmp(text + i, name, len) && text[i + (ssize_t)len] == '=';
		if (found)
			snprintf(out, size, "%s", text + i + len + 1);
	}
	free(text);
	return found;
}

static bool
is_program(pid_t pid, const char *name)
{
	char path[64];
	char comm[32] = "";

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	if (read_text(path, comm, sizeof(comm)) <= 0)
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return !strcmp(comm, name);
}

/* ---- what is below an agentd ---- */

/* An agentd works on one task at a time, which its agent's environment names. */
static int
add_tree(struct prey_list *p, pid_t agentd)
{
	struct tree t = { 0 };
	char task[NAME_LIMIT + 1] = "";
	size_t first = p->n;
	int rc = tree_list(&t, agentd);

	for (size_t i = 0; !rc && i < t.n; i++) {
		if (!is_ours(t.all[i].pid) || t.all[i].state == 'Z')
			continue;
		if (!add(p, PREY_AGENT, &t.all[i]))
			rc = -ENOMEM;
		if (!task[0])
			prey_environ(t.all[i].pid, "RASER_TASK", task, sizeof(task));
	}
	for (size_t i = first; i < p->n; i++)
		memcpy(p->all[i].task, task, sizeof(task));
	tree_free(&t);
	return rc;
}

/* ---- daemons ---- */

struct beats {
	struct prey_list *list;
	struct disk *disk;
	int rc;
};

static int
on_beat(void *arg, const char *name)
{
	struct beats *b = arg;
	char path[DISK_PATH];
	char text[NODE_TEXT];
	struct node_info info;
	struct tree_process process;

	snprintf(path, sizeof(path), "nodes/%.100s", name);
	int n = disk_read(b->disk, path, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (!node_parse(text, &info) || strcmp(info.owner, name) != 0 || !node_is_here(&info) ||
	    !is_ours((pid_t)info.pid) || !tree_look((pid_t)info.pid, &process) ||
	    process.start != info.start)
		return 0;
	bool direct = is_program(process.pid, "raser-agentd");
	struct prey *x = add(b->list, direct ? PREY_AGENTD : PREY_DAEMON, &process);
	if (!x)
		return -ENOMEM;
	memcpy(x->owner, info.owner, sizeof(x->owner));
	return direct ? add_tree(b->list, process.pid) : 0;
}

/* ---- agentds on mounts ---- */

/* An agentd names its mount on its command line. Where words name mounts of several runs, it is
 * nobody's. */
static bool
is_agentd_of(pid_t pid, const char *run)
{
	char path[64];
	char *text = malloc(COMMAND_TEXT);
	char cwd[PATH_MAX] = "";
	int ours = 0;
	int others = 0;

	if (!text || !is_program(pid, "raser-agentd")) {
		free(text);
		return false;
	}
	snprintf(path, sizeof(path), "/proc/%ld/cwd", (long)pid);
	ssize_t c = readlink(path, cwd, sizeof(cwd) - 1);
	cwd[c > 0 ? c : 0] = '\0';
	snprintf(path, sizeof(path), "/proc/%ld/cmdline", (long)pid);
	ssize_t n = read_text(path, text, COMMAND_TEXT);
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(text + i) + 1) {
		char word[2 * PATH_MAX];
		struct mount_entry e;

		int len = snprintf(word, sizeof(word), "%s%s%.4000s", text[i] == '/' ? "" : cwd,
				   text[i] == '/' ? "" : "/", text + i);
		while (len > 1 && word[len - 1] == '/')
			word[--len] = '\0';
		if (!mountinfo_top_of(pid, word, &e) || !e.fuse)
			continue;
		ours += !strcmp(e.source, run);
		others += strcmp(e.source, run) != 0;
	}
	free(text);
	return ours && !others;
}

static int
find_agentds(struct prey_list *p, const char *run)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	int rc = 0;

	if (!proc)
		return -errno;
	while (!rc && (e = readdir(proc)) != NULL) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		struct tree_process process;

		if (!isdigit((unsigned char)e->d_name[0]) || !is_ours(pid) ||
		    !is_agentd_of(pid, run) || !tree_look(pid, &process) || process.state == 'Z')
			continue;
		rc = add(p, PREY_AGENTD, &process) ? add_tree(p, pid) : -ENOMEM;
	}
	closedir(proc);
	return rc;
}

int
prey_find(struct prey_list *p, struct disk *disk, const char *run)
{
	struct beats b = { .list = p, .disk = disk };

	p->n = 0;
	int rc = disk_list(disk, "nodes", on_beat, &b);
	return rc ? rc : find_agentds(p, run);
}

void
prey_free(struct prey_list *p)
{
	free(p->all);
	*p = (struct prey_list){ 0 };
}
