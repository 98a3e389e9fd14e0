/*
 * slurmcheck.c - what this cluster's Slurm does with jobs that are preempted, killed or requeued,
 * as `scontrol show config` tells it to everybody.
 */
#include <config.h>

#include "slurmcheck.h"

#include "program.h"
#include "slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS = 15000, CONFIG_TEXT = 65536 };

/* The value behind "Key   = value" in a line of the text; false when there is none. */
static bool
value_of(const char *text, const char *key, char *value, size_t size)
{
	size_t len = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		p += strspn(p, " \t");
		if (strncmp(p, key, len) != 0)
			continue;
		const char *v = p + len + strspn(p + len, " \t");
		if (*v != '=')
			continue;
		v += 1 + strspn(v + 1, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(v, "\n"), v);
		return true;
	}
	return false;
}

static void
judge_ends(const char *text, int64_t grace_ms, struct findings *f)
{
	char value[128];

	if (value_of(text, "KillWait", value, sizeof(value))) {
		long wait = strtol(value, NULL, 10);
		bool late = grace_ms >= 1000 * wait;
		struct finding *one = finding_add(f, late ? FINDING_WARNING : FINDING_OK, "Slurm",
						  NULL, "KillWait is %ld s, grace %lld s", wait,
						  (long long)(grace_ms / 1000));
		if (late)
			finding_advise(one,
				       "SIGKILL comes before the last checkpoint: set grace in "
				       "raser.ini to less than %ld",
				       wait);
	}
	if (value_of(text, "JobRequeue", value, sizeof(value))) {
		bool on = strtol(value, NULL, 10) != 0;
		struct finding *one = finding_add(f, on ? FINDING_OK : FINDING_NOTE, "Slurm", NULL,
						  "JobRequeue is %d", on);
		if (!on)
			finding_advise(
				one,
				"jobs are requeued only when they ask for it: sbatch --requeue");
	}
	if (value_of(text, "RequeueExit", value, sizeof(value)) && strstr(value, "99"))
		finding_add(f, FINDING_OK, "Slurm", NULL,
			    "RequeueExit is %.100s: a job that ends with 99 comes back by itself",
			    value);
}

static void
judge_preemption(const char *text, struct findings *f)
{
	char type[64] = "";
	char mode[128] = "";
	char parameters[256] = "";
	char controller[512] = "";

	value_of(text, "PreemptType", type, sizeof(type));
	value_of(text, "PreemptMode", mode, sizeof(mode));
	value_of(text, "PreemptParameters", parameters, sizeof(parameters));
	value_of(text, "SlurmctldParameters", controller, sizeof(controller));
	if (!*type || !strcmp(type, "preempt/none") || !strcmp(type, "(null)")) {
		finding_add(f, FINDING_OK, "Slurm", NULL, "jobs are not preempted");
		return;
	}
	if (strstr(mode, "REQUEUE"))
		finding_add(f, FINDING_OK, "Slurm", NULL, "PreemptMode is %.100s", mode);
	else
		finding_add(f, FINDING_WARNING, "Slurm",
			    "a preempted job does not come back by itself; its tasks go to the "
			    "jobs that are left",
			    "PreemptMode is %.100s", mode);
	if (strstr(parameters, "send_user_signal") || strstr(controller, "preempt_send_user_signal"))
		finding_add(f, FINDING_OK, "Slurm", NULL,
			    "preemption is announced by the signal of sbatch --signal");
	else
		finding_add(f, FINDING_NOTE, "Slurm",
			    "they hear of it with KillWait left; checkpoints between keep the loss "
			    "small",
			    "preemption is not announced to batch scripts");
}

void
slurm_judge(const char *text, int64_t grace_ms, struct findings *f)
{
	char value[128] = "";

	if (value_of(text, "SLURM_VERSION", value, sizeof(value)))
		finding_add(f, FINDING_OK, "Slurm", NULL, "version %.100s", value);
	judge_ends(text, grace_ms, f);
	judge_preemption(text, f);
	if (value_of(text, "ProctrackType", value, sizeof(value)) && !strstr(value, "cgroup"))
		finding_add(f, FINDING_NOTE, "Slurm",
			    "what leaves its job's process group may outlive the job; raser-agentd "
			    "ends its agents itself",
			    "ProctrackType is %.100s", value);
	if (value_of(text, "MaxArraySize", value, sizeof(value)))
		finding_add(f, FINDING_OK, "Slurm", NULL, "arrays may have %ld jobs at most",
			    strtol(value, NULL, 10) - 1);
}

void
slurm_check(int64_t grace_ms, struct findings *f)
{
	static const char *const tools[] = { "sbatch", "squeue", "sinfo" };
	static char text[CONFIG_TEXT];
	char *const argv[] = { "scontrol", "show", "config", NULL };
	char path[PATH_MAX];

	if (program_find("scontrol", path)) {
		finding_add(f, FINDING_NOTE, "Slurm", NULL, "no Slurm here");
		return;
	}
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (program_find(tools[i], path))
			finding_add(f, FINDING_WARNING, "Slurm",
				    "jobs cannot be submitted or seen from this node",
				    "%s is not in PATH", tools[i]);
	if (slurm_run(argv, ASK_MS, text, sizeof(text)) != 0) {
		text[strcspn(text, "\n")] = '\0';
		finding_add(f, FINDING_WARNING, "Slurm",
			    "what Slurm would do with jobs is not known",
			    "scontrol show config: %.120s", *text ? text : "no answer");
		return;
	}
	slurm_judge(text, grace_ms, f);
}
