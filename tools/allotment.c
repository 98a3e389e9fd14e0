/*
 * allotment.c - how long a job may work.
 */
#include <config.h>

#include "allotment.h"

#include "clock.h"
#include "log.h"

#include <stdio.h>
#include <string.h>

enum { OUT_SHARE = 4, START_SHARE = 10, START_MOST_S = 120 };

void
allotment_find(struct allotment *a, const struct slurm_self *self, int64_t out)
{
	char why[200] = "";
	int64_t left = self->inside ? slurm_time_left(self, why, sizeof(why)) : -1;

	*a = (struct allotment){ 0 };
	if (*why)
		log_warnx("how much time this job has is not known: %s", why);
	if (left < 0)
		return;
	if (out > left / OUT_SHARE)
		out = left / OUT_SHARE;
	/* what a start takes is no part of it, or a task that needs just about all of it would fit into
	 * no job */
	int64_t start = (left - out) / START_SHARE;
	if (start > START_MOST_S)
		start = START_MOST_S;
	long long now = now_read().wall_s;
	long long work = left - out;
	snprintf(a->until, sizeof(a->until), "%lld", now + work);
	snprintf(a->since, sizeof(a->since), "%lld", now + (long long)start);
	log_info("%lld s are left, of which agents may use %lld", (long long)left, work);
}

void
allotment_options(const struct allotment *a, const char *local, char *text, size_t size)
{
	bool known = *a->until;
	bool dir = !strchr(local, ','); /* which would begin another option: it finds one itself */

	snprintf(text, size, "%s%s%s%s%s%s%s", dir ? "tmp=" : "", dir ? local : "",
		 dir && known ? "," : "", known ? "until=" : "", a->until, known ? ",since=" : "",
		 a->since);
}
