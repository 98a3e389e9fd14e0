/*
 * slurm.h - Slurm's commands, and what they say of a job. No shell is asked; a command that does not
 * answer is killed. What Slurm does not say changes no task's state.
 *
 * raser job asks at a signal and at a requeue; raser launch and raser status submit and look.
 */
#ifndef RASER_SLURM_H
#define RASER_SLURM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SLURM_LIMIT_MS = 10000, SLURM_TEXT = 16384 };

/* ---- commands ---- */

/* A command that runs, in a child. */
struct slurm_call {
	pid_t pid; /* 0: none */
	int fd;	   /* what it says: readable, or at its end; -1: it has said everything */
	int64_t kill_at; /* boot ms */
	bool reaped, late;
	int status; /* of waitpid(2), once reaped */
	size_t len, room;
	char *text; /* both of its outputs; what does not fit is left out */
	char own[SLURM_TEXT]; /* where the text is, unless it is somebody else's */
};

/* Start argv[0], found by PATH, without the user's defaults for what squeue and scontrol show. It is
 * killed after limit_ms. 0 or a negative errno; what cannot be executed shows as status 127. */
int
slurm_begin(struct slurm_call *c, char *const *argv, int64_t now_ms, int64_t limit_ms);

/* Read what it says, kill it when it is late. True when it has ended and said everything: then
 * slurm_result() tells. */
bool
slurm_turn(struct slurm_call *c, int64_t now_ms);

/* For who reaps children by waitpid(-1): true when it was this one. */
bool
slurm_reaped(struct slurm_call *c, pid_t pid, int status);

/* Its exit status, or -ETIMEDOUT, or -EINTR when somebody killed it. The text then ends with a NUL and
 * without blank space. */
int
slurm_result(struct slurm_call *c);

/* All of it in one: as slurm_result(), or the error of slurm_begin(). text: of size bytes, what was
 * said. */
int
slurm_run(char *const *argv, int64_t limit_ms, char *text, size_t size);

/* ---- this job ---- */

struct slurm_self {
	bool inside; /* this process belongs to a job */
	char id[64]; /* how scontrol and squeue name this job alone: ARRAY_TASK, or the number. The
			number of an array's last task names the whole array to them. */
	char job[24]; /* the number */
	int restarts;
	char node[64]; /* SLURMD_NODENAME: gethostname(2) may say another name */
	double share;  /* CPUs of this job by those of the node, at most 1 */
};

/* From the environment that Slurm gives. */
void
slurm_self(struct slurm_self *s);

/* Seconds of "%L" of squeue(1): DAYS-HH:MM:SS, HH:MM:SS, MM:SS or SS. -1: no limit, or not known. */
int64_t
slurm_seconds(const char *text);

/* What is left of this job's time, in seconds: one call of squeue, unless the environment tells. -1: no limit, or not known, with
 * the reason in why, or an empty text. */
int64_t
slurm_time_left(const struct slurm_self *s, char *why, size_t size);

/* ---- what a signal means ---- */

/* A line of `scontrol -o show job`. */
struct slurm_job {
	char state[32], reason[200];
	int restarts;
	bool preempted; /* PreemptTime is set */
};

/* The first job in the text. False when there is none: an error, or something else altogether. */
bool
slurm_parse(const char *text, struct slurm_job *j);

enum slurm_verdict {
	SLURM_UNKNOWN, /* scontrol did not say: give back, and let Slurm do as it likes */
	SLURM_REQUEUE, /* give back, and have the job requeued */
	SLURM_LEAVE,   /* give back: Slurm has requeued the job, or runs it elsewhere */
	SLURM_NEVER,   /* give back: it was cancelled, and must not come back */
};

/* What a SIGTERM means for a process of the job's run number `restarts`, as the job is shown at that
 * moment (NULL: it is not). why: for people, of 120 bytes at least. Pure. */
enum slurm_verdict
slurm_decide(const struct slurm_job *j, int restarts, char *why, size_t size);

#endif
