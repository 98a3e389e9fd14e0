/*
 * comeback.h - whether a job comes back when it ends, by what signals have said, and the request for it.
 * job.c only.
 */
#ifndef RASER_COMEBACK_H
#define RASER_COMEBACK_H

#include "slurm.h"

struct comeback {
	struct slurm_self self;
	bool warned; /* by SIGUSR1 */
	bool told;   /* by SIGTERM or the like, which may be a cancel */
	bool again;  /* so while scontrol was being asked about another one */
	struct slurm_call call;
	enum slurm_verdict verdict; /* on the last of them */
};

/* This job, from the environment. */
void
comeback_init(struct comeback *c);

/* A signal that ends the job has come. Slurm is asked about each, once, but for a SIGUSR1: a cancel may
 * follow anything else. */
void
comeback_signal(struct comeback *c, int signo);

/* Slurm is being asked; c->call.fd tells when there is something for comeback_turn(). */
bool
comeback_busy(const struct comeback *c);
void
comeback_turn(struct comeback *c);

/* Shall it be requeued? unless_told: if no signal says anything else. */
bool
comeback_wanted(const struct comeback *c, bool unless_told);

enum comeback_answer { COMEBACK_DONE, COMEBACK_REFUSED, COMEBACK_FAILED };

/* Ask Slurm to requeue it: its answer is a SIGTERM and, after KillWait, a SIGKILL. Waits for it; says
 * what came of it. */
enum comeback_answer
comeback_ask(const struct comeback *c);

#endif
