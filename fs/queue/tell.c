/*
 * tell.c - what a queue knows, in JSON.
 */
#include <config.h>

#include "tell.h"

#include <string.h>

const char *const state_names[TASK_STATES] = {
	[TASK_PENDING] = "pending", [TASK_CLAIMED] = "claimed",	    [TASK_DONE] = "done",
	[TASK_FAILED] = "failed",   [TASK_CANCELLED] = "cancelled", [TASK_UNREAD] = "unread",
};

const struct outcome_name outcome_names[OUTCOMES] = {
	{ END_DONE, "done" }, { END_FAILED, "failed" },	   { END_RETRY, "retry" },
	{ END_LOST, "lost" }, { END_FREED, "freed" }, { END_CANCELLED, "cancelled" },
};

static json_t *
storage_json(const struct disk_state *s, struct now now)
{
	static const char *const moods[] = { [DISK_WELL] = "well", [DISK_REFUSES] = "fails",
					     [DISK_SILENT] = "silent", [DISK_AWAY] = "away" };
	json_t *o = json_pack("{s:s}", "state", moods[s->mood]);

	if (s->mood == DISK_REFUSES || s->mood == DISK_SILENT)
		json_object_set_new(o, "call", json_string(disk_call_names[s->call]));
	if (s->code)
		json_object_set_new(o, "error", json_string(strerror(s->code)));
	if (s->mood != DISK_WELL)
		json_object_set_new(o, "since", json_integer(now.wall_s - (now.boot_ms - s->since) / 1000));
	return o;
}

json_t *
tell_status(struct queue *q, struct now began, struct now now)
{
	const struct conf *conf = queue_conf(q);
	double up = (double)(now.boot_ms - began.boot_ms) / 1000;
	struct queue_stats s;
	struct node_line nodes[256];
	char owner[OWNER_TEXT];
	char job[JOB_TEXT];
	int job_restarts;

	queue_stats(q, &s);
	queue_owner(q, owner);
	host_job(job, &job_restarts);
	int64_t total = 0;
	for (int i = 0; i < TASK_STATES; i++)
		total += s.count[i];
	json_t *tasks = json_object();
	json_t *ends = json_object();
	json_t *reasons = json_object();
	json_t *tiers = json_array();
	json_t *calls = json_object();

	for (int i = 0; i < TASK_STATES; i++)
		json_object_set_new(tasks, state_names[i], json_integer(s.count[i]));
	for (size_t i = 0; i < OUTCOMES; i++)
		json_object_set_new(ends, outcome_names[i].name,
				    json_integer(s.ends[outcome_names[i].outcome]));
	for (int c = 0; c < 128; c++)
		if (s.why[c] && *reason_name((enum reason)c))
			json_object_set_new(reasons, reason_name((enum reason)c),
					    json_integer(s.why[c]));
	for (int i = 0; i < conf->ntiers; i++)
		json_array_append_new(
			tiers, json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "name",
					 conf->tiers[i].name, "memory",
					 (json_int_t)conf->tiers[i].memory, "ready",
					 (json_int_t)queue_ready(q, i), "working",
					 (json_int_t)s.held[i], "waiting", (json_int_t)s.waiting[i],
					 "busy_seconds", (double)s.busy_ms[i] / 1000));
	for (int i = 0; i < DISK_CALLS; i++)
		json_object_set_new(calls, disk_call_names[i], json_integer((json_int_t)s.calls[i]));
	return json_pack(
		"{s:s, s:s, s:s, s:f, s:I, s:i, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:i, s:b, s:f, s:f,"
		" s:I, s:f, s:f, s:o, s:s, s:I, s:I, s:s, s:i}",
		"run", queue_path(q), "owner", owner, "version", PACKAGE_VERSION, "uptime",
		up > 0.001 ? up : 0.001, "total", (json_int_t)total, "batches", s.batches, "tasks", tasks,
		"moved_up", (json_int_t)s.elevated, "tiers", tiers, "ends", ends, "reasons",
		reasons, "claims", (json_int_t)s.claims, "races_lost", (json_int_t)s.lost_races,
		"calls", calls, "nodes", (int)queue_nodes(q, nodes, 256), "paused", s.paused,
		"steal_after", (double)conf->steal_after_ms / 1000, "grace",
		(double)conf->grace_ms / 1000, "resumed", (json_int_t)s.resumed, "redo_seconds",
		(double)s.redo_ms / 1000, "redo_max_seconds", (double)s.redo_max_ms / 1000,
		"storage", storage_json(&s.storage, now), "clamped", conf->clamped, "until",
		(json_int_t)s.until, "too_long", (json_int_t)s.too_long, "job", job,
		"job_restarts", job_restarts);
}
