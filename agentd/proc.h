/*
 * proc.h - an agent's whole process tree: start it, end it, and never leave any of it behind.
 *
 * Between agentd and the agent stands a guard: a fork of agentd that adopts every orphan of the
 * tree (PR_SET_CHILD_SUBREAPER), reports how the agent ended, and kills the tree when agentd
 * dies, however it dies (PR_SET_PDEATHSIG). super.c only.
 */
#ifndef RASER_PROC_H
#define RASER_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_spec {
	char *const *argv;
	char *const *env;	 /* added to our environment, "NAME=value", NULL-terminated */
	const char *workspace;	 /* current directory of the agent */
	const char *scratch;	 /* removed by the guard when agentd dies; holds the workspace */
	const char *stdin_path;
	int output_fd;		 /* stdout and stderr */
	int64_t memory;		 /* RLIMIT_AS in bytes, 0 = none */
};

struct proc {
	pid_t guard;
	int fd; /* readable when the agent has ended; poll it */
};

struct proc_end {
	int status;	  /* as from waitpid(2); -1 when it could not be started */
	int start_errno;  /* why not */
	int64_t peak_rss; /* bytes, of its largest process */
};

/* Start it. 0 or a negative errno. */
int
proc_start(struct proc *p, const struct proc_spec *spec);

/* SIGTERM to every process of the tree, SIGCONT behind it. */
void
proc_term(const struct proc *p);
/* SIGKILL to every process of the tree, until there is none. */
void
proc_kill(const struct proc *p);

/* The agent has ended (p->fd is readable): collect how; kills what it left behind. */
void
proc_finish(struct proc *p, struct proc_end *end);

/* Remove a directory and all in it. */
void
remove_tree(const char *path);

#endif
