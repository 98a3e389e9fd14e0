/*
 * proc.h - an agent's whole process tree: start it, stop it, freeze it, measure it, and never
 * leave any of it behind.
 *
 * Between agentd and the agent stands a guard (guard.c): a fork of agentd that adopts every
 * orphan of the tree (PR_SET_CHILD_SUBREAPER), takes orders over a socket, reports how the agent
 * ended, and kills the tree and removes its scratch folder and cgroup when agentd dies, however
 * it dies (PR_SET_PDEATHSIG). If both are killed at once the agent's first process dies with
 * the guard, and with it what is in its pid namespace. super.c only.
 *
 * The death signal is sent when the thread that started the guard ends: start agents from the
 * main thread.
 */
#ifndef RASER_PROC_H
#define RASER_PROC_H

#include "memory.h"
#include "sandbox.h"
#include "tree.h"

struct proc_spec {
	const struct sandbox_plan *plan;
	const char *scratch; /* removed by the guard when agentd dies */
	const char *stdin_path;
	int output_fd;	/* stdout and stderr; must be open for reading too */
	int64_t memory; /* bytes, 0 = none */
	enum memory_by memory_by;
};

struct proc {
	pid_t guard;
	int fd;	 /* readable when the agent has ended; poll it */
	int cmd; /* orders */
	struct cgroup cgroup; /* of its own, if it has one; the guard removes it */
};

struct proc_end {
	int status;	     /* of the agent, as from waitpid(2); -1: it never started */
	int start_errno;     /* why not, if that is known; else see why */
	bool sandbox_failed; /* the sandbox failed, or found no program: the node's fault */
	char why[160];	     /* a sentence, when it did not start or the sandbox failed */
	int64_t peak_memory; /* bytes, of the tree: the cgroup's, or the highest poll */
	int64_t peak_rss;    /* bytes, of its largest process */
	int64_t cpu_ms;
	int oom_kills; /* by the kernel: here if oom_own, else by anybody meanwhile; -1: unknown */
	bool oom_own;	     /* counted in a cgroup that was the agent's alone */
	bool oom_polled;     /* the guard killed it for its memory */
	bool oom;	     /* all in all: some process of it was killed for memory */
	bool killed_by_us;   /* proc_kill() was asked */
	char memory_by[16];  /* "cgroup v1", "cgroup v2", "poll", "none" */
};

/* Once, before the first start: look after what agentds that are gone have left. */
void
proc_init(void);

/* Start it. 0 or a negative errno. */
int
proc_start(struct proc *p, const struct proc_spec *spec);

/* SIGTERM, and SIGCONT behind it, to every process of the agent, but not to the sandbox's own.
 * It thaws what was frozen. */
void
proc_term(const struct proc *p);
/* SIGKILL to all of it, until there is none. */
void
proc_kill(const struct proc *p);

/* Make all of it stand still but what is stopped already. Waits 2 s at most; false: it goes on
 * as before. While it is frozen nothing of it writes. */
bool
proc_freeze(const struct proc *p);
void
proc_thaw(const struct proc *p);

/* What it uses now; cheap enough for every second. False: it has ended. */
bool
proc_usage(const struct proc *p, struct usage *u);

/* The agent has ended (p->fd is readable): collect how; what it left behind is dead. If somebody
 * has killed the guard, this kills all descendants of the caller, who must be a subreaper. */
void
proc_finish(struct proc *p, struct proc_end *end);

#endif
