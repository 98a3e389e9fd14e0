/*
 * harm.c - what is broken while an arm is at work: agents are preempted at moments that are spread
 * evenly over the time that the arm without a queue takes, and once a command may crash something.
 * Whom it meets is drawn from those whose records say that they are at work.
 */
#include <config.h>

#include "contest.h"

#include "slurm.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGAIN_MS = 1000 };

static const double crash_at = 0.4; /* of the time */

void
harm_begin(struct harm *h, struct arm *a)
{
	/* every arm of a repetition has the same draws */
	*h = (struct harm){ .arm = a,
			    .rng = (uint64_t)a->c->o->seed * 1000003U +
				   (uint64_t)a->repetition * 7919U + 88172645U };
}

static uint64_t
draw(struct harm *h)
{
	h->rng ^= h->rng << 13;
	h->rng ^= h->rng >> 7;
	h->rng ^= h->rng << 17;
	return h->rng;
}

/* It may be at work: nothing later is known of its agent, nor of its task. */
static bool
is_at_work(const struct past_list *l, size_t i)
{
	const struct past *p = &l->all[i];

	if (p->end != PAST_RUNNING)
		return false;
	for (size_t k = 0; k < l->n; k++)
		if (l->all[k].started > p->started &&
		    (!strcmp(l->all[k].agent, p->agent) || !strcmp(l->all[k].task, p->task)))
			return false;
	return true;
}

/* One of them; NULL when there is none. */
static const struct past *
victim(struct harm *h, const struct past_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += is_at_work(l, i);
	if (!n)
		return NULL;
	size_t which = (size_t)(draw(h) % n);
	for (size_t i = 0; i < l->n; i++)
		if (is_at_work(l, i) && !which--)
			return &l->all[i];
	return NULL;
}

/* A process of this arm is still what its record says. */
static bool
is_ours(const struct arm *a, long pid)
{
	char path[64];
	char name[32] = "";

	for (size_t i = 0; a->slots && i < a->c->nagents; i++)
		if (a->slots[i].pid == pid)
			return true;
	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	FILE *f = fopen(path, "re");
	if (f) {
		if (!fgets(name, sizeof(name), f))
			name[0] = '\0';
		fclose(f);
	}
	return !a->slots && pid > 1 && !strncmp(name, "raser-agentd", strlen("raser-agentd"));
}

/*
 * As Slurm preempts: the plain array is requeued. raser job, which decides itself, gets the bare
 * signal; what follows is its to do. Without Slurm both get SIGTERM. False when that was not to be: a
 * record may be of a node that is down, its job waiting to be started again.
 */
static bool
preempt(const struct arm *a, const struct past *p)
{
	char text[1024];
	int rc = 0;
	/* ARRAY_TASK: the number of an array's last job would be the whole array */
	char *const signal_it[] = { "scancel", "--batch", "--signal=TERM", p->agent, NULL };
	char *const requeue[] = { "scontrol", "requeue", p->agent, NULL };

	bool ours = !a->c->o->local || is_ours(a, p->pid);
	if (!a->c->o->local)
		rc = slurm_run(a->kind == ARM_BLOCKS ? requeue : signal_it, SLURM_LIMIT_MS, text,
			       sizeof(text));
	else if (ours)
		rc = kill((pid_t)p->pid, SIGTERM) < 0 ? -errno : 0;
	return ours && !rc;
}

/* RASER_NODE and RASER_PID say where one that is at work is. */
static pid_t
start_crash(const struct arm *a, const struct past *p)
{
	pid_t pid = arm_fork(a);
	char number[24];

	if (pid)
		return pid;
	snprintf(number, sizeof(number), "%ld", p->pid);
	setenv("RASER_NODE", p->place, 1);
	setenv("RASER_PID", number, 1);
	execl("/bin/sh", "sh", "-c", a->c->o->crash, (char *)NULL);
	_exit(127);
}

void
harm_turn(struct harm *h, int64_t now_ms)
{
	const struct makespan_options *o = h->arm->c->o;
	struct past_list list;

	if (!o->faults && !o->crash)
		return;
	double elapsed = h->began ? (double)(now_ms - h->began) / 1000 : 0;
	bool preempts = o->faults > h->done && now_ms >= h->next &&
			elapsed >= o->seconds * ((double)h->done + 0.5) / (double)o->faults;
	bool crashes = o->crash && !h->crashed && elapsed >= o->seconds * crash_at;

	if (h->began && !preempts && !crashes)
		return;
	if (past_read(h->arm->dir, &list))
		return;
	if (!h->began && list.n)
		h->began = now_ms;
	const struct past *p = preempts || crashes ? victim(h, &list) : NULL;
	if (p && crashes) {
		h->crash = start_crash(h->arm, p);
		h->crashed = true;
	} else if (p && preempt(h->arm, p)) {
		h->done++;
	} else if (preempts) {
		h->next = now_ms + AGAIN_MS;
	}
	past_free(&list);
}

void
harm_end(struct harm *h)
{
	while (h->crash > 0 && waitpid(h->crash, NULL, 0) < 0 && errno == EINTR)
		;
	h->crash = 0;
}
