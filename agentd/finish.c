/*
 * finish.c - how an attempt ends: what its exit says, what is saved of it, the end in its lease,
 * and the cleaning up behind it.
 */
#include <config.h>

#include "super_impl.h"

#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
	EXIT_FINAL = 65,
	EXIT_NOT_ITS_FAULT = 75,
	MB_SHIFT = 20,
	TERM_MS = 1000,
};

/* ---- what its exit says ---- */

static void
oom_verb(struct super *s, const char *words)
{
	const struct proc_end *e = &s->end;
	int64_t peak = e->peak_memory > e->peak_rss ? e->peak_memory : e->peak_rss;
	char how[64] = "";

	if (e->oom_own)
		snprintf(how, sizeof(how), "the kernel killed %d of its processes, ", e->oom_kills);
	char limit[32] = "";
	if (s->run.memory)
		snprintf(limit, sizeof(limit), " of %lld MB", (long long)s->run.memory >> MB_SHIFT);
	snprintf(s->verb, sizeof(s->verb), "retry oom %speak %lld MB%s%s%.70s", how,
		 (long long)peak >> MB_SHIFT, limit, *words ? ": " : "", words);
}

/* It ended as if it had failed. Where Slurm tracks processes by their parents, a SIGTERM for the job
 * goes to all of them at once, and an agent may end of it before we hear of ours. */
static bool
was_preempted(struct super *s)
{
	int status = s->end.status;

	return getenv("SLURM_JOB_ID") && !s->lost && s->limit == WELL && !s->end.oom && status > 0 &&
	       (!WIFEXITED(status) || (WEXITSTATUS(status) != EXIT_FINAL &&
				       WEXITSTATUS(status) != EXIT_NOT_ITS_FAULT)) &&
	       hears_term(s, TERM_MS);
}

/* Choose the verb that tells how the attempt ended, and what has to be saved before. */
static void
decide(struct super *s)
{
	static const char *const limits[] = { [HUNG] = "hung", [LOOPING] = "looping",
					      [TIMED_OUT] = "timeout" };
	const struct proc_end *e = &s->end;
	const char *words = s->attempt.words;
	const char *colon = *words ? ": " : "";
	char *verb = s->verb;
	size_t size = sizeof(s->verb);
	int code = e->status >= 0 && WIFEXITED(e->status) ? WEXITSTATUS(e->status) : -1;

	if (e->status < 0 || (e->sandbox_failed && !s->preempted)) {
		snprintf(verb, size, "free not-its-fault the node cannot start it: %.120s", e->why);
		pause_for_fault(s);
		return;
	}
	int64_t fault = s->fault_ms;
	s->fault_ms = 0;
	if (code == 0 && (!e->oom || s->conf.agent.oom_done)) {
		snprintf(verb, size, "done"); /* even after a SIGTERM: it finished in its grace */
		s->done = true;
	} else if (code == EXIT_FINAL) {
		snprintf(verb, size, "failed status %d%s%.120s", code, colon, words);
	} else if (s->limit != WELL) {
		snprintf(verb, size, "retry %s %.60s%s%.80s", limits[s->limit], s->limit_why, colon,
			 words);
		s->wants_save = true;
	} else if (s->preempted) {
		snprintf(verb, size, "free preempted");
		s->wants_save = true;
	} else if (code == EXIT_NOT_ITS_FAULT) {
		snprintf(verb, size, "free not-its-fault %.120s", words);
		s->wants_save = true;
	} else if (code == EXIT_PREEMPTED) {
		/* nobody told it to; one that always says so must not go round and round */
		snprintf(verb, size, "free preempted %.120s", words);
		s->wants_save = true;
		s->fault_ms = fault;
		pause_for_fault(s);
	} else if (e->oom) {
		oom_verb(s, words);
	} else if (code >= 0) {
		snprintf(verb, size, "retry exit status %d%s%.120s", code, colon, words);
		s->failed_itself = code != 128 + SIGKILL;
	} else {
		snprintf(verb, size, "retry crash signal %d%s%.120s", WTERMSIG(e->status), colon, words);
		s->failed_itself = WTERMSIG(e->status) != SIGKILL;
	}
	text_clean(verb);
}

/* ---- saving what must outlive it ---- */

static enum state
begin_ending(struct super *s)
{
	record_write(&s->attempt, &s->claim, &s->record, &s->end, s->verb);
	s->ending_since = now_ms();
	s->trouble_ms = TROUBLE_FIRST_MS;
	s->next_try = 0;
	s->state = ENDING; /* the end may come at once, or the news that it is lost */
	return ending_timer(s);
}

static int
sync_job(const void *arg, void *report)
{
	const struct super *s = arg;

	(void)report;
	return attempt_sync(&s->attempt);
}

static void
drop_job(struct super *s)
{
	if (!s->job.pid)
		return;
	job_kill(&s->job);
	job_finish(&s->job, NULL);
	s->shot = SHOT_NONE;
}

enum state
work_exited(struct super *s)
{
	listen_last(s);
	proc_finish(&s->proc, &s->end);
	s->frozen = false;
	if (!s->preempted && was_preempted(s)) {
		s->preempted = true;
		s->leave_by = now_ms() + s->run.grace_ms;
	}
	attempt_words(&s->attempt);
	decide(s);
	if (s->lost) {
		snprintf(s->verb, sizeof(s->verb), "lost");
		s->done = false;
		record_write(&s->attempt, &s->claim, &s->record, &s->end, s->verb);
		return finish_clean(s);
	}
	/* it died while its snapshot was taken: that is the last good one there will be */
	if (s->job.pid && s->shot == SHOT_ARCHIVE && !s->wants_save && !s->done)
		return SAVING;
	drop_job(s);
	bool started = false;
	s->synced_again = false;
	if (s->done) {
		started = start_job(s, sync_job, s, 0);
	} else if (s->wants_save) {
		s->save_number++;
		s->frozen_ms = 0;
		s->shot_ms = now_ms();
		clock_gettime(CLOCK_REALTIME, &s->shot_time);
		started = start_job(s, save_job, s, sizeof(struct save_report));
	}
	return started ? SAVING : begin_ending(s);
}

enum state
finish_job(struct super *s)
{
	if (s->done) {
		int rc = job_finish(&s->job, NULL);

		/* somebody may have killed the job: that alone must not cost a finished task */
		if (rc && !s->synced_again) {
			s->synced_again = true;
			if (start_job(s, sync_job, s, 0))
				return SAVING;
		}
		if (rc) {
			/* a result that is not there must not be called done */
			s->done = false;
			snprintf(s->verb, sizeof(s->verb), "free not-its-fault its results cannot be "
				 "made durable: %s", strerror(-rc));
			LOG_TASK(log_warnx, s, "%s", s->verb + sizeof("free not-its-fault"));
		}
	} else {
		struct save_report r;
		int rc = job_finish(&s->job, &r);

		s->shot = SHOT_NONE;
		save_done(s, rc, &r);
	}
	return begin_ending(s);
}

enum state
finish_timer(struct super *s)
{
	if (s->leave_by && now_ms() >= s->leave_by) {
		LOG_TASK(log_warnx, s, "the grace is over before everything is saved; the checkpoint "
			 "before it counts");
		snprintf(s->record.save_note, sizeof(s->record.save_note),
			 "the grace was over before the last checkpoint was written");
		if (s->done)
			snprintf(s->verb, sizeof(s->verb), "free preempted");
		s->done = false;
		drop_job(s);
		return begin_ending(s);
	}
	int e = now_ms() >= s->next_touch ? beat(s) : -1;
	return e >= 0 ? dispatch(s, (enum event)e) : s->state;
}

enum state
finish_lost(struct super *s)
{
	LOG_TASK(log_info, s, "the claim is lost while its workspace was being saved");
	s->lost = true;
	s->done = false;
	drop_job(s);
	snprintf(s->verb, sizeof(s->verb), "lost");
	record_write(&s->attempt, &s->claim, &s->record, &s->end, s->verb);
	return finish_clean(s);
}

enum state
finish_term(struct super *s)
{
	if (!s->preempted)
		s->leave_by = now_ms() + s->run.grace_ms;
	s->preempted = true;
	return SAVING;
}

enum state
finish_unstarted(struct super *s, const char *why)
{
	s->end = (struct proc_end){ .status = -1, .oom_kills = -1 };
	settle_checkpoint(s, STORE_UNDONE);
	if (why) {
		snprintf(s->verb, sizeof(s->verb), "free not-its-fault the node cannot start it: %.120s",
			 why);
		snprintf(s->end.why, sizeof(s->end.why), "%s", why);
		text_clean(s->verb);
		pause_for_fault(s);
	} else {
		snprintf(s->verb, sizeof(s->verb), "free preempted");
	}
	if (s->attempt.log_fd >= 0)
		return begin_ending(s);
	/* not even its folders are there */
	s->ending_since = now_ms();
	s->trouble_ms = TROUBLE_FIRST_MS;
	s->next_try = 0;
	s->state = ENDING;
	return ending_timer(s);
}

/* ---- the end in the lease ---- */

/* The end stands. */
static enum state
accepted(struct super *s)
{
	LOG_TASK(log_info, s, "%s", s->verb);
	if (s->done)
		attempt_accept(&s->attempt, &s->run, &s->claim);
	/* it failed with what that checkpoint gave it, and has left none that is newer */
	if (s->failed_itself && !s->record.saved)
		settle_checkpoint(s, STORE_FAILED);
	return finish_clean(s);
}

/* The end is not taken: no storage takes so long, and the claim ends without us. */
static bool
is_hopeless(const struct super *s)
{
	int64_t now = now_ms();

	return s->leave_by ? now >= s->leave_by + s->run.grace_ms / 4 :
			     now - s->ending_since > s->run.steal_after_ms;
}

static enum state
not_taken(struct super *s, int rc)
{
	if (is_hopeless(s)) {
		LOG_TASK(log_warnx, s, "its end, \"%s\", was never taken: %s", s->verb, strerror(-rc));
		s->done = false;
		return finish_clean(s);
	}
	if (s->trouble_ms == TROUBLE_FIRST_MS)
		LOG_TASK(log_warnx, s, "its end is not taken yet (%s); trying again", strerror(-rc));
	s->next_try = now_ms() + s->trouble_ms;
	s->trouble_ms = s->trouble_ms < TROUBLE_LAST_MS ? s->trouble_ms * 2 : TROUBLE_LAST_MS;
	s->queue.ops->touch(&s->queue, &s->claim);
	return ENDING;
}

enum state
ending_timer(struct super *s)
{
	/* the daemon may have died of the end itself, as it were: taken, and not said */
	if (s->adrift && s->queue.ops->stands(&s->queue, &s->claim, s->verb))
		return accepted(s);
	if (s->adrift && drift(s) == EV_LOST)
		return ending_lost(s);
	if (s->adrift) {
		s->trouble_ms = s->drift_ms; /* it has been told; and look often */
		return not_taken(s, -ENOTCONN);
	}
	int rc = s->queue.ops->verb(&s->queue, &s->claim, s->verb);
	if (!rc)
		return accepted(s);
	if (rc == -EINTR) { /* there are signals to be heard first */
		s->next_try = now_ms();
		return ENDING;
	}
	if (claim_orphaned(&s->queue, &s->claim)) {
		go_adrift(s);
		return not_taken(s, rc);
	}
	if (rc == -ESTALE || rc == -ENOENT || rc == -EPERM)
		return ending_lost(s);
	if (rc == -EINVAL) {
		LOG_TASK(log_warnx, s, "its queue does not know \"%s\"", s->verb);
		s->done = false;
		return finish_clean(s);
	}
	return not_taken(s, rc);
}

enum state
ending_lost(struct super *s)
{
	LOG_TASK(log_info, s, "this attempt is over already; its result stays in %s",
		 s->attempt.results);
	s->done = false;
	return finish_clean(s);
}

enum state
ending_term(struct super *s)
{
	if (!s->preempted)
		s->leave_by = now_ms() + s->run.grace_ms;
	s->preempted = true;
	return ENDING;
}

/* ---- cleaning up ---- */

static int
remove_job(const void *arg, void *report)
{
	const struct super *s = arg;

	(void)report;
	if (s->done) /* what it could be tried again with is of no use any more */
		store_remove(s->attempt.store);
	attempt_remove(s->attempt.scratch);
	return 0;
}

enum state
finish_clean(struct super *s)
{
	drop_job(s);
	sandbox_plan_free(&s->plan);
	control_close(&s->control);
	trajectory_close(&s->trajectory);
	s->queue.ops->drop(&s->queue, &s->claim); /* so that it ends, should its end not have been taken */
	if (!start_job(s, remove_job, s, 0)) {
		remove_job(s, NULL);
		attempt_close(&s->attempt);
		s->next_try = 0;
		return s->preempted ? leave(s, EXIT_PREEMPTED) : IDLE;
	}
	return CLEANING;
}

enum state
clean_job(struct super *s)
{
	job_finish(&s->job, NULL);
	attempt_close(&s->attempt);
	s->next_try = s->hold_until > now_ms() ? s->hold_until : 0;
	return s->preempted ? leave(s, EXIT_PREEMPTED) : IDLE;
}

enum state
clean_term(struct super *s)
{
	s->preempted = true;
	return CLEANING;
}
