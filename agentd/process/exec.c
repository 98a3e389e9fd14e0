/*
 * exec.c - from a fork of the guard to the agent, or to the sandbox around it.
 */
#include <config.h>

#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel looks for memory at the agent first, not at agentd or the file system's daemon. */
static void
be_the_victim(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		errno = 0; /* then it is as likely as others */
	if (fd >= 0)
		close(fd);
}

/* What goes on between two polls has bounds: twice the limit, and no less than what a runtime
 * of many threads has as private memory without using it. */
static int
limit_data(int64_t memory)
{
	const int64_t least = (int64_t)512 << 20;
	rlim_t most = (rlim_t)(memory > least ? memory * 2 : memory + least);
	const struct rlimit limit = { most, most };

	return setrlimit(RLIMIT_DATA, &limit);
}

/* bubblewrap refuses to start with capabilities that a user namespace around us handed down. */
static void
drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &header, data) == 0) {
		data[0].inheritable = data[1].inheritable = 0;
		syscall(SYS_capset, &header, data);
	}
}

/* What the user's session holds, Kerberos tickets for instance, is no more an agent's in a sandbox
 * than the user's home. */
static void
leave_keys(void)
{
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

static bool
set_files(const struct proc_spec *s, int sandbox_report)
{
	int in = open(s->stdin_path, O_RDONLY);

	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(s->output_fd, STDOUT_FILENO) < 0 ||
	    dup2(s->output_fd, STDERR_FILENO) < 0 || chdir(s->plan->work) < 0)
		return false;
	if (in > STDERR_FILENO)
		close(in);
	return s->plan->kind != SANDBOX_BWRAP || dup2(sandbox_report, SANDBOX_REPORT_FD) >= 0;
}

void
agent_exec(const struct guard *g, int fd, int sandbox_report)
{
	const struct proc_spec *s = g->spec;
	const struct rlimit no_core = { 0, 0 };
	sigset_t none;
	int rc;

	/* out of the way of the number that bubblewrap is told */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, SANDBOX_REPORT_FD + 1);
	sandbox_report = fcntl(sandbox_report, F_DUPFD_CLOEXEC, SANDBOX_REPORT_FD + 1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);	  /* agentd ignores it */
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the guard be killed as well */
	setsid();
	setrlimit(RLIMIT_CORE, &no_core);
	be_the_victim();
	rc = g->cgroup.version ? cgroup_enter(&g->cgroup) : 0;
	if (rc) {
		errno = -rc;
		goto fail;
	}
	if (!set_files(s, sandbox_report) || (g->poll_memory && limit_data(s->memory) < 0))
		goto fail;
	if (s->plan->drop_caps)
		drop_capabilities();
	if (s->plan->kind != SANDBOX_NONE)
		leave_keys();
	execve(s->plan->argv[0], s->plan->argv, s->plan->env);
fail:;
	int code = errno;
	ssize_t n = write(fd, &code, sizeof(code));
	(void)n;
	_exit(127);
}
