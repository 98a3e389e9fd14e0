/*
 * launchcheck.c - what raser launch looks at before anything is submitted.
 */
#include <config.h>

#include "launch.h"

#include "brakes.h"
#include "members.h"
#include "slurmcheck.h"
#include "storage.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATE_S = 60 /* Slurm's look at time limits may be that early */ };

/* ---- what is asked for ---- */

bool
launch_check_options(const struct launch *l)
{
	static const struct {
		const char *option, *instead;
	} ours[] = {
		{ "--array", "--agents says how many" },
		{ "-a", "--agents says how many" },
		{ "--wrap", "--command names what agents run" },
		{ "--wait", "raser status --drained RUN tells when it has ended" },
		{ "-W", "raser status --drained RUN tells when it has ended" },
		{ "--test-only", "--dry-run shows what would be submitted" },
	};

	for (char *const *w = l->sbatch; *w; w++)
		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
			size_t len = strcspn(*w, "=");

			if (len == strlen(ours[i].option) && !strncmp(*w, ours[i].option, len))
				return complain(EXIT_USAGE, "%s is not for here: %s", *w,
						ours[i].instead) == 0;
		}
	return true;
}

/* Seconds of sbatch's --time: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. -1: anything else, or no limit. */
static int64_t
time_limit(const char *text)
{
	static const long short_form[] = { 60, 1 };
	static const long clock_form[] = { 3600, 60, 1 };
	char *end;
	int64_t sum = 0;
	long v = strtol(text, &end, 10);
	bool days = end != text && *end == '-';
	int n = 0;
	long fields[3];

	if (days) {
		sum = (int64_t)v * 86400;
		text = end + 1;
		v = strtol(text, &end, 10);
	}
	for (;;) {
		if (end == text || v < 0 || n == 3)
			return -1;
		fields[n++] = v;
		if (*end != ':')
			break;
		text = end + 1;
		v = strtol(text, &end, 10);
	}
	const long *units = days || n == 3 ? clock_form : short_form;
	for (int i = 0; i < n; i++)
		sum += (int64_t)fields[i] * units[i];
	return *end ? -1 : sum;
}

bool
launch_check_time(const struct launch *l)
{
	const char *text = l->time ? l->time : l->conf.slurm.time;
	int64_t limit = time_limit(text);
	int64_t before = l->conf.slurm.signal_before;

	if (limit >= 0 && before && limit <= before)
		return complain(EXIT_USAGE,
				"a time limit of %s leaves nothing: agents are told to save %lld s before its "
				"end; set a longer one, or signal_before in section [slurm] of raser.ini",
				text, (long long)before) == 0;
	if (limit >= 0 && before && limit <= before + LATE_S)
		complain(0, "a time limit of %s leaves little: agents are told to save %lld s before its end, "
			 "or up to %d s earlier", text, (long long)before, LATE_S);
	return true;
}

/* Is there anything to do, and may it be done? */
static bool
is_wanted(const struct launch *l)
{
	char why[200];
	struct brakes b;
	struct queue_stats s;

	brakes_read(&b, l->target.run);
	enum brake brake = brakes_check(&b, &l->conf.limits, (int64_t)time(NULL), -1, why, sizeof(why));
	if (brake)
		return complain(1, "agents would leave at once: %s%s", why,
				brake == BRAKE_DRAIN ? "; remove it first" : "") == 0;
	struct queue *q = target_queue(&l->target, false);
	if (!q)
		return false;
	int64_t rc = queue_refresh(q, now_read(), 0, 0);
	queue_stats(q, &s);
	queue_close(q, now_read());
	if (rc < 0)
		return complain(1, "%s: %s", l->target.run, strerror((int)-rc)) == 0;
	if (s.count[TASK_PENDING] + s.count[TASK_CLAIMED] + s.count[TASK_UNREAD] == 0)
		return complain(1, "there is nothing to do in %s, and agents would leave at once; submit tasks "
				"first", l->target.run) == 0;
	return true;
}

/* Other nodes may not see what lies on a disk of this one. */
static void
warn_of_storage(const struct launch *l)
{
	struct storage s;
	struct disk disk;

	if (disk_open(&disk, l->target.run, NULL))
		return;
	storage_look(&disk, &s);
	disk_close(&disk);
	if (s.kind == STORAGE_LOCAL || s.kind == STORAGE_MEMORY || s.kind == STORAGE_OVERLAY)
		complain(0, "%s lies on %s, which only this machine sees: agents on other nodes would not find "
			 "it", l->target.run, s.type);
}

/* Slurm's own habits, where they are a worry. */
static void
warn_of_slurm(const struct launch *l)
{
	static struct findings f;

	slurm_check(l->conf.grace_ms, &f);
	for (size_t i = 0; i < f.n; i++)
		if (f.all[i].level >= FINDING_WARNING)
			complain(0, "%s: %s%s%s", f.all[i].topic, f.all[i].found, *f.all[i].advice ? "; " : "",
				 f.all[i].advice);
}

bool
launch_check_run(const struct launch *l)
{
	if (!is_wanted(l))
		return false;
	warn_of_storage(l);
	warn_of_slurm(l);
	return true;
}

bool
launch_check_live(const struct launch *l, char list[JOB_LIST])
{
	static char text[400];
	int n = members_live(l->target.run, list, JOB_LIST, text, sizeof(text));

	if (n < 0)
		return complain(1, "whether agents of this run live already is not known: %s", text) == 0;
	if (n && !l->more)
		return complain(1, "this run has agents already, of %s %s (raser status shows them); --more adds "
				"to them", n == 1 ? "array" : "arrays", list) == 0;
	if (!n && l->more)
		complain(0, "no agent of this run lives; these are the first");
	return true;
}
