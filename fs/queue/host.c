/*
 * host.c - names from the environment that Slurm gives to its jobs, or from the system.
 */
#include <config.h>

#include "host.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A variable that is set, or NULL. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Lines and blanks would be taken for something else where these are written down. */
static void
one_word(char *text)
{
	for (; *text; text++)
		if (!isgraph((unsigned char)*text))
			*text = '?';
}

void
host_name(char out[HOST_TEXT])
{
	const char *node = variable("SLURM_JOB_ID") ? variable("SLURMD_NODENAME") : NULL;

	out[0] = out[HOST_TEXT - 1] = '\0';
	if (node)
		snprintf(out, HOST_TEXT, "%s", node);
	else
		gethostname(out, HOST_TEXT - 1);
	one_word(out);
}

void
host_job(char out[JOB_TEXT], int *restarts)
{
	const char *job = variable("SLURM_JOB_ID");
	const char *array = variable("SLURM_ARRAY_JOB_ID");
	const char *task = variable("SLURM_ARRAY_TASK_ID");
	const char *count = variable("SLURM_RESTART_COUNT");
	long n = count ? strtol(count, NULL, 10) : 0;

	out[0] = '\0';
	*restarts = job && n > 0 && n < 1000000 ? (int)n : 0;
	if (job && array && task)
		snprintf(out, JOB_TEXT, "%s_%s", array, task);
	else if (job)
		snprintf(out, JOB_TEXT, "%s", job);
	one_word(out);
}
