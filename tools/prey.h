/*
 * prey.h - the processes on this machine that belong to one run and to this user. raser chaos only.
 *
 * A daemon is known by its beat: boot, pid namespace, pid and start time must be those of a process
 * here. An agentd without a mount is one of them; any other is known by the mount that its command line
 * names: in its mount namespace that must be a raserfs of this run. An agent is a descendant of such an agentd. Whatever else the user runs,
 * other runs included, is never listed.
 */
#ifndef RASER_PREY_H
#define RASER_PREY_H

#include "tree.h"
#include "queue.h"

enum prey_kind { PREY_DAEMON, PREY_AGENTD, PREY_AGENT };

struct prey {
	enum prey_kind kind;
	struct tree_process process;
	char owner[OWNER_TEXT];	   /* of a daemon, and of an agentd that is one; or "" */
	char task[NAME_LIMIT + 1]; /* of an agent, or "" */
};

struct prey_list {
	struct prey *all;
	size_t n, cap;
};

/* List them anew. run: as realpath(3) gives it. 0 or an errno. */
int
prey_find(struct prey_list *p, struct disk *disk, const char *run);
void
prey_free(struct prey_list *p);

/* The value of a variable in a process's environment. False when it has none or cannot be read. */
bool
prey_environ(pid_t pid, const char *name, char *out, size_t size);

#endif
