/*
 * save.c - checkpoints of a working agent, and the last one behind it.
 *
 * While the agent works a checkpoint must show one moment: the tree is stopped, and the archive
 * is written, or, where the file system can clone, the workspace is cloned, the agent goes on and
 * the clone is archived. A job does it; an archive that is not finished never counts.
 */
#include <config.h>

#include "super_impl.h"

#include "folder.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { AGAIN_MS = 10000, FULL_MS = 3600000 };

struct clone_report {
	uint64_t stamp;
	bool unchanged;
	char why[320];
};

static void
clone_path(const struct super *s, char *path, size_t size)
{
	snprintf(path, size, "%s/clone", s->attempt.scratch);
}

static int
clone_job(const void *arg, void *report)
{
	const struct super *s = arg;
	struct clone_report *r = report;
	char path[PATH_MAX + 32];

	r->stamp = folder_stamp(s->attempt.state);
	r->unchanged = r->stamp == s->saved_stamp;
	clone_path(s, path, sizeof(path));
	struct err err = { 0 };
	int rc = r->unchanged ? 0 : folder_clone(s->attempt.state, path, &err);
	snprintf(r->why, sizeof(r->why), "%s", err.text);
	return rc;
}

void
settle_checkpoint(struct super *s, enum store_verdict verdict)
{
	int rc = !s->record.restored[0] ?
			 0 :
			 store_settle(s->attempt.store, s->record.restored, s->claim.attempt,
				      owner_random(s->claim.owner), verdict);

	if (rc)
		LOG_TASK(log_warnx, s, "checkpoint %s cannot be marked: %s", s->record.restored,
			 strerror(-rc));
}

/* Write the archive, and remove what it makes superfluous. */
static int
archive(const struct super *s, const char *state, struct save_report *r)
{
	struct err err = { 0 };
	const struct checkpoint_spec spec = {
		.store = s->attempt.store, .state = state, .attempt = s->claim.attempt,
		.owner = owner_random(s->claim.owner), .number = s->save_number,
		.gzip = !strcmp(s->conf.agent.checkpoint_format, "gzip"),
		.limit = s->conf.agent.checkpoint_limit,
		.taken_ms = (int64_t)s->shot_time.tv_sec * 1000 + s->shot_time.tv_nsec / 1000000,
	};
	int rc = checkpoint_save(&spec, &r->result, &err);

	snprintf(r->why, sizeof(r->why), "%s", err.text);
	if (!rc)
		store_prune(s->attempt.store, s->claim.attempt, owner_random(s->claim.owner));
	return rc;
}

int
save_job(const void *arg, void *report)
{
	const struct super *s = arg;
	struct save_report *r = report;

	r->stamp = folder_stamp(s->attempt.state);
	r->unchanged = r->stamp == s->saved_stamp;
	return r->unchanged ? 0 : archive(s, s->attempt.state, r);
}

static int
save_clone_job(const void *arg, void *report)
{
	const struct super *s = arg;
	char path[PATH_MAX + 32];

	clone_path(s, path, sizeof(path));
	int rc = archive(s, path, report);
	folder_remove(path);
	return rc;
}

static void
thaw(struct super *s)
{
	if (!s->frozen)
		return;
	proc_thaw(&s->proc);
	s->frozen = false;
	s->frozen_ms = now_ms() - s->shot_ms;
	activity_excuse(&s->activity, s->shot_ms, now_read());
}

/* When the next one is due: not so soon that an agent stands still most of its time. */
static void
plan_next(struct super *s)
{
	int64_t every = s->conf.agent.checkpoint_every_ms;
	int64_t next = s->shot_ms + every;
	int64_t soonest = now_ms() + 2 * s->frozen_ms;

	if (s->save_asked) /* while the last one was being taken */
		s->next_save = soonest;
	else
		s->next_save = !every ? 0 : next > soonest ? next : soonest;
}

void
save_done(struct super *s, int rc, const struct save_report *report)
{
	struct record *r = &s->record;

	plan_next(s);
	if (rc) {
		snprintf(r->save_note, sizeof(r->save_note), "%s",
			 report->why[0] ? report->why : strerror(-rc));
		LOG_TASK(log_warnx, s, "no checkpoint: %s", r->save_note);
		if (rc == -EFBIG && s->next_save) /* it will hardly shrink soon */
			s->next_save = now_ms() + FULL_MS;
		return;
	}
	attempt_alive(&s->attempt, &s->claim); /* who goes on from it counts from here */
	r->last_taken = (double)s->shot_time.tv_sec + (double)s->shot_time.tv_nsec / 1e9;
	s->saved_stamp = report->stamp;
	if (report->unchanged)
		return; /* the last one shows this moment as well */
	s->save_ms = now_ms() - s->shot_ms;
	r->saved++;
	snprintf(r->last_saved, sizeof(r->last_saved), "%s", report->result.name);
	snprintf(r->save_note, sizeof(r->save_note), "%s", report->result.note);
	r->save_seconds = (double)s->save_ms / 1000;
	r->saved_in = report->result.bytes_in;
	r->saved_out = report->result.bytes_out;
	LOG_TASK(log_info, s, "checkpoint %s, %lld kB from %lld kB in %lld ms, of which its agent stood "
		 "still for %lld%s%s", r->last_saved, (long long)r->saved_out / 1024,
		 (long long)r->saved_in / 1024, (long long)s->save_ms, (long long)s->frozen_ms,
		 r->save_note[0] ? "; " : "", r->save_note);
}

static void
shot_end(struct super *s)
{
	thaw(s);
	s->shot = SHOT_NONE;
	int64_t every = s->conf.agent.checkpoint_every_ms;
	int64_t again = every && every < AGAIN_MS ? every : AGAIN_MS;
	s->next_save = every || s->save_asked ? now_ms() + again : 0; /* what was asked for is owed */
}

void
shot_begin(struct super *s)
{
	s->shot_ms = now_ms();
	clock_gettime(CLOCK_REALTIME, &s->shot_time);
	s->frozen = true;
	if (!proc_freeze(&s->proc)) {
		LOG_TASK(log_warnx, s, "no checkpoint: its processes cannot be stopped for it");
		shot_end(s);
		return;
	}
	listen_last(s); /* the steps that the workspace shows are in the trajectory beside it */
	s->save_number++;
	s->shot = s->no_clone ? SHOT_ARCHIVE : SHOT_CLONE;
	if (!start_job(s, s->no_clone ? save_job : clone_job, s,
		       s->no_clone ? sizeof(struct save_report) : sizeof(struct clone_report)))
		shot_end(s);
	else
		s->save_asked = false;
}

/* The workspace is cloned, or cannot be. */
static void
clone_done(struct super *s)
{
	struct clone_report r;
	int rc = job_finish(&s->job, &r);
	bool started;

	s->shot = SHOT_ARCHIVE;
	if (rc == -EOPNOTSUPP) {
		s->no_clone = true; /* scratch stays on the same file system as long as we live */
		started = start_job(s, save_job, s, sizeof(struct save_report));
	} else if (rc || r.unchanged) {
		struct save_report report = { .stamp = r.stamp, .unchanged = r.unchanged };

		memcpy(report.why, r.why, sizeof(report.why));
		thaw(s);
		s->shot = SHOT_NONE;
		save_done(s, rc, &report);
		return;
	} else {
		thaw(s);
		s->clone_stamp = r.stamp;
		started = start_job(s, save_clone_job, s, sizeof(struct save_report));
	}
	if (!started)
		shot_end(s);
}

enum state
shot_job(struct super *s)
{
	struct save_report r;

	if (s->shot == SHOT_CLONE) {
		clone_done(s);
		return s->state;
	}
	int rc = job_finish(&s->job, &r);
	bool cloned = !s->frozen;
	thaw(s);
	s->shot = SHOT_NONE;
	if (cloned)
		r.stamp = s->clone_stamp;
	save_done(s, rc, &r);
	return s->state;
}

void
shot_drop(struct super *s)
{
	/* of a clone, or of who is dead, the archive is as good as ever */
	if (s->shot == SHOT_NONE || (s->shot == SHOT_ARCHIVE && !s->frozen))
		return;
	job_kill(&s->job);
	job_finish(&s->job, NULL);
	shot_end(s);
}
