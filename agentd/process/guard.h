/*
 * guard.h - the process between agentd and an agent. proc.c only.
 */
#ifndef RASER_GUARD_H
#define RASER_GUARD_H

#include "proc.h"

/* Orders, one byte each. FREEZE is answered by a byte: 1 all stand still, 0 they do not. */
enum guard_order { ORDER_TERM = 'T', ORDER_KILL = 'K', ORDER_FREEZE = 'F', ORDER_THAW = 'W' };

enum { FREEZE_MS = 2000 };

struct guard {
	const struct proc_spec *spec;
	pid_t agentd;
	int report_fd, cmd_fd;
	struct cgroup cgroup;	/* version 0: none */
	bool poll_memory;
	int64_t oom_before;
};

/* Never returns. */
void
guard_main(const struct guard *g) __attribute__((noreturn));

/* Kill every descendant of this process; false when something hangs in the kernel. */
bool
kill_descendants(void);

/* In the child that becomes the agent: never returns either; writes an errno to fd on failure. */
void
agent_exec(const struct guard *g, int fd, int sandbox_report) __attribute__((noreturn));

/* judge.c: what the exit of a sandbox's front process means. report: what came through
 * SANDBOX_REPORT_FD. Fills status, sandbox_failed and why. */
void
judge(const struct proc_spec *spec, int status, const char *report, struct proc_end *end);

#endif
