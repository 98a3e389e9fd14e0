/*
 * start.c - between a claim and a working agent: its folders, its restored workspace, what it will
 * find, its start.
 */
#include <config.h>

#include "super_impl.h"

#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- before its start ---- */

static int
restore(const void *arg, void *result)
{
	const struct super *s = arg;
	struct restore_result *r = result;
	struct err err = { 0 };
	int rc = store_restore(s->attempt.store, s->attempt.state, s->claim.attempt,
			       owner_random(s->claim.owner), s->conf.agent.checkpoint_limit, r, &err);

	if (rc && err.text[0])
		snprintf(r->note, sizeof(r->note), "%s", err.text);
	return rc;
}

static enum state
start_agent(struct super *s);

enum state
work_prepare(struct super *s)
{
	int rc = attempt_begin(&s->attempt, &s->run, &s->claim, s->o->local);

	s->lost = s->adrift = s->done = s->failed_itself = s->wants_save = s->save_asked = false;
	s->limit = WELL;
	s->restored = (struct restore_result){ 0 };
	s->record = (struct record){ .tier = s->o->tier, .sandbox = sandbox_kind_name(s->sandbox),
				     .memory = s->run.memory, .redo = -1 };
	s->next_touch = now_ms() + touch_every(s);
	s->leave_by = s->kill_at = s->next_save = 0;
	s->shot = SHOT_NONE;
	s->bad_lines = 0;
	s->frozen = false;
	s->saved_stamp = 0;
	s->save_ms = 0;
	if (rc)
		return finish_unstarted(s, strerror(-rc));
	if (access(s->attempt.store, F_OK) < 0)
		return start_agent(s); /* nobody has left anything */
	/* the number may change meanwhile, when the mount dies */
	s->restore_attempt = s->claim.attempt;
	snprintf(s->restore_owner, sizeof(s->restore_owner), "%s", owner_random(s->claim.owner));
	if (!start_job(s, restore, s, sizeof(struct restore_result)))
		return finish_unstarted(s, "no process for restoring its checkpoint");
	return PREPARING;
}

enum state
prepare_job(struct super *s)
{
	int rc = job_finish(&s->job, &s->restored);

	snprintf(s->record.restore_note, sizeof(s->record.restore_note), "%s", s->restored.note);
	if (rc && rc != -ENOENT) {
		char why[360];

		snprintf(why, sizeof(why), "its checkpoint cannot be restored here: %.300s",
			 s->restored.note[0] ? s->restored.note : strerror(-rc));
		return finish_unstarted(s, why);
	}
	if (!rc) {
		snprintf(s->record.restored, sizeof(s->record.restored), "%s", s->restored.name);
		s->record.taken = (double)s->restored.taken_ms / 1000;
		s->record.restoring = (double)(now_ms() - s->attempt.started_ms) / 1000;
	}
	return start_agent(s);
}

static void
stop_preparing(struct super *s)
{
	if (!s->job.pid)
		return;
	job_kill(&s->job);
	job_finish(&s->job, NULL);
	/* it was our doing: two of these must not condemn a good checkpoint */
	int rc = store_interrupted(s->attempt.store, s->restore_attempt, s->restore_owner);
	if (rc)
		LOG_TASK(log_warnx, s, "its checkpoint cannot be marked: %s", strerror(-rc));
}

enum state
prepare_lost(struct super *s)
{
	LOG_TASK(log_info, s, "the claim is lost before its agent was started");
	stop_preparing(s);
	return finish_clean(s);
}

enum state
prepare_term(struct super *s)
{
	s->preempted = true;
	s->leave_by = now_ms() + s->run.grace_ms;
	stop_preparing(s);
	return finish_unstarted(s, NULL);
}

enum state
prepare_timer(struct super *s)
{
	int e = now_ms() >= s->next_touch ? beat(s) : -1;

	return e >= 0 ? dispatch(s, (enum event)e) : s->state;
}

/* ---- its start ---- */

struct env {
	char *list[ENV_MAX + 1];
	int n;
};

static void __attribute__((format(printf, 3, 4)))
add_env(struct env *e, const char *name, const char *fmt, ...)
{
	char *value = NULL;
	va_list args;

	va_start(args, fmt);
	int n = vasprintf(&value, fmt, args);
	va_end(args);
	if (n < 0 || e->n == ENV_MAX || asprintf(&e->list[e->n], "%s=%s", name, value) < 0) {
		log_warnx("out of memory: the agent does not get %s", name);
		e->list[e->n] = NULL;
	} else {
		e->n++;
	}
	if (n >= 0)
		free(value);
}

static void
make_env(struct super *s, const struct sandbox_view *v, bool cache, struct env *e)
{
	char id[NAME_LIMIT + 1];
	bool shown = s->queue.mnt && (s->sandbox == SANDBOX_NONE || s->conf.agent.mount);

	if (name_decode(s->claim.name, id) < 0 || strlen(id) == 0)
		snprintf(id, sizeof(id), "%s", s->claim.name);
	add_env(e, "RASER_TASK_ID", "%s", id);
	add_env(e, "RASER_TASK", "%s", s->claim.name);
	add_env(e, "RASER_ATTEMPT", "%u", s->claim.attempt);
	add_env(e, "RASER_FAILURES", "%d", s->claim.failures);
	add_env(e, "RASER_TIER", "%s", s->o->tier);
	add_env(e, "RASER_MEMORY", "%lld", (long long)s->run.memory);
	add_env(e, "RASER_RESUMED", "%d", s->record.restored[0] ? 1 : 0);
	double until = (double)s->o->until;
	double limit = s->conf.agent.time_limit_ms ?
			       wall_now() + (double)s->conf.agent.time_limit_ms / 1000 :
			       0;
	if (!until || (limit > 0 && limit < until))
		until = limit;
	if (until > 0)
		add_env(e, "RASER_DEADLINE", "%.0f", until);
	else
		add_env(e, "RASER_DEADLINE", "%s", "");
	add_env(e, "RASER_TASK_FILE", "%s", v->task_file);
	add_env(e, "RASER_WORKSPACE", "%s", v->work);
	add_env(e, "RASER_RESULTS", "%s", v->results);
	add_env(e, "RASER_CONTROL", "%s", v->control);
	if (cache)
		add_env(e, "RASER_CACHE", "%s", v->cache);
	if (shown)
		add_env(e, "RASER_LEASE", "%s", s->claim.lease);
	if (shown)
		add_env(e, "RASER_MOUNT", "%s", s->queue.mnt);
}

/* What the agent will find, and the plan of its sandbox. */
static int
make_plan(struct super *s, struct err *err)
{
	struct agent_conf *c = &s->conf.agent;
	bool cache = s->is_plugin && access(s->cache, F_OK) == 0;
	const struct sandbox_spec spec = {
		.argv = s->command, .scratch = s->attempt.scratch, .state = s->attempt.state,
		.task_file = s->attempt.task_file, .control = s->attempt.control,
		.results = s->attempt.out, .cache = cache ? s->cache : NULL, .run = s->run.run,
		.mnt = s->queue.mnt, .image = c->image, .binds = (const char *const *)s->binds,
		.pass = (const char *const *)s->pass, .network = c->network,
		.show_mount = c->mount && s->queue.mnt,
	};
	static struct sandbox_view view; /* of paths, each a page */
	struct env env = { 0 };

	sandbox_view(s->sandbox, &spec, &view);
	make_env(s, &view, cache, &env);
	int rc = sandbox_plan(s->sandbox, &spec, env.list, &s->plan, err);
	for (int i = 0; i < env.n; i++)
		free(env.list[i]);
	return rc;
}

static int
make_folders(struct super *s, struct err *err)
{
	const char *const dirs[] = { s->attempt.work, s->attempt.home };

	for (size_t i = 0; i < 2; i++)
		if (mkdir(dirs[i], 0700) < 0 && errno != EEXIST)
			return err_set(err, -errno, "%s: %s", dirs[i], strerror(errno));
	int rc = control_open(&s->control, s->attempt.control);
	return rc ? err_set(err, rc, "%s: %s", s->attempt.control, strerror(-rc)) : 0;
}

/* Tell the queue what is being done again, for its report. */
static void
tell_redo(struct super *s)
{
	char verb[64];

	if (s->claim.attempt == 1)
		return;
	s->record.redo = attempt_redo(&s->attempt, &s->claim, s->record.taken);
	if (s->record.redo < 0 && !s->record.restored[0])
		return; /* whoever was there before left nothing, not even a sign */
	if (s->record.redo < 0)
		s->record.redo = 0;
	attempt_alive(&s->attempt, &s->claim);
	snprintf(verb, sizeof(verb), "resumed %.3f", s->record.redo);
	int rc = s->queue.ops->verb(&s->queue, &s->claim, verb);
	if (rc)
		LOG_TASK(log_debug, s, "%s: %s", verb, strerror(-rc));
}

static enum state
start_agent(struct super *s)
{
	static char state_path[PATH_MAX + 64];
	static char results_path[PATH_MAX + 640];
	struct err err = { 0 };

	tell_redo(s);
	snprintf(state_path, sizeof(state_path), "%s/trajectory.jsonl", s->attempt.state);
	snprintf(results_path, sizeof(results_path), "%s/trajectory.jsonl", s->attempt.results);
	trajectory_open(&s->trajectory, state_path, results_path);
	s->record.steps = s->trajectory.steps;
	int rc = make_folders(s, &err);
	if (!rc)
		rc = make_plan(s, &err);
	if (rc)
		return finish_unstarted(s, err.text);
	record_write(&s->attempt, &s->claim, &s->record, NULL, NULL);
	const struct proc_spec spec = {
		.plan = &s->plan, .scratch = s->attempt.scratch, .stdin_path = s->attempt.task_file,
		.output_fd = s->attempt.log_fd, .memory = s->run.memory, .memory_by = s->memory_by,
	};
	rc = proc_start(&s->proc, &spec);
	if (rc)
		return finish_unstarted(s, strerror(-rc));
	settle_checkpoint(s, STORE_OK);
	const struct agent_conf *c = &s->conf.agent;
	s->activity = (struct activity){ .time_limit_ms = c->time_limit_ms,
					 .hang_after_ms = c->hang_after_ms,
					 .progress_after_ms = c->progress_after_ms,
					 .max_steps = c->max_steps };
	struct now now = now_read();
	activity_start(&s->activity, now);
	s->next_sample = now.boot_ms + activity_every_ms(&s->activity);
	s->next_save = c->checkpoint_every_ms ? now.boot_ms + c->checkpoint_every_ms : 0;
	if (s->record.restored[0])
		LOG_TASK(log_info, s, "started (%s), resumed from %s%s%s", s->record.sandbox,
			 s->record.restored, s->record.restore_note[0] ? "; " : "",
			 s->record.restore_note);
	else
		LOG_TASK(log_info, s, "started (%s)%s%s", s->record.sandbox,
			 s->record.restore_note[0] ? ", from the beginning: " : "",
			 s->record.restore_note);
	return WORKING;
}
