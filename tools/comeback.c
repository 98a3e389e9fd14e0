/*
 * comeback.c - a job's end as Slurm means it.
 */
#include <config.h>

#include "comeback.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

void
comeback_init(struct comeback *c)
{
	*c = (struct comeback){ .call.fd = -1 };
	slurm_self(&c->self);
}

static void
look(struct comeback *c)
{
	char *const argv[] = { "scontrol", "-o", "show", "job", c->self.id, NULL };
	int rc = slurm_begin(&c->call, argv, now_read().boot_ms, SLURM_LIMIT_MS);

	if (rc)
		log_warnx("scontrol: %s", strerror(-rc));
}

void
comeback_signal(struct comeback *c, int signo)
{
	if (signo == SIGUSR1) {
		c->warned = true;
		return;
	}
	c->told = true;
	if (!c->self.inside)
		return;
	if (c->call.pid)
		c->again = true;
	else
		look(c);
}

bool
comeback_busy(const struct comeback *c)
{
	return c->call.pid;
}

void
comeback_turn(struct comeback *c)
{
	struct slurm_job shown;
	char why[160];

	if (!c->call.pid || !slurm_turn(&c->call, now_read().boot_ms))
		return;
	int rc = slurm_result(&c->call);
	bool known = rc == 0 && slurm_parse(c->call.text, &shown);
	c->verdict = slurm_decide(known ? &shown : NULL, c->self.restarts, why, sizeof(why));
	if (known)
		log_info("%s", why);
	else
		log_warnx("scontrol does not tell why this job is to end: %.200s",
			  rc == -ETIMEDOUT ? "no answer" : c->call.text);
	if (c->again)
		look(c);
	c->again = false;
}

bool
comeback_wanted(const struct comeback *c, bool unless_told)
{
	if (!c->self.inside)
		return false;
	if (c->told)
		return c->verdict == SLURM_REQUEUE || (c->verdict == SLURM_UNKNOWN && c->warned);
	return c->warned || unless_told;
}

enum comeback_answer
comeback_ask(const struct comeback *c)
{
	char id[sizeof(c->self.id)];
	char *const argv[] = { "scontrol", "requeue", id, NULL };
	char text[400];

	memcpy(id, c->self.id, sizeof(id));
	int rc = slurm_run(argv, SLURM_LIMIT_MS, text, sizeof(text));
	/* or somebody was faster */
	if (!rc || strstr(text, "pending execution")) {
		log_info("requeued");
		return COMEBACK_DONE;
	}
	log_warnx("scontrol requeue %s: %s", id, rc == -ETIMEDOUT ? "no answer" : text);
	return strstr(text, "disabled") ? COMEBACK_REFUSED : COMEBACK_FAILED; /* sbatch --no-requeue */
}
