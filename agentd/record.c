/*
 * record.c - attempt.json by jansson, replaced as a whole.
 */
#include <config.h>

#include "record.h"

#include "clock.h"
#include "log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void
set_text(json_t *o, const char *key, const char *text)
{
	if (text && *text)
		json_object_set_new(o, key, json_string(text));
}

static void
set_number(json_t *o, const char *key, int64_t n)
{
	json_object_set_new(o, key, json_integer(n));
}

static void
set_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_real(v));
}

/* So that sacct finds it. */
static void
set_slurm(json_t *o)
{
	static const char *const names[][2] = {
		{ "job", "SLURM_JOB_ID" }, { "array_job", "SLURM_ARRAY_JOB_ID" },
		{ "array_task", "SLURM_ARRAY_TASK_ID" }, { "restarts", "SLURM_RESTART_COUNT" },
		{ "node", "SLURMD_NODENAME" },
	};
	json_t *slurm = json_object();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		set_text(slurm, names[i][0], getenv(names[i][1]));
	if (json_object_size(slurm))
		json_object_set(o, "slurm", slurm);
	json_decref(slurm);
}

static void
set_end(json_t *o, const struct attempt *a, const struct proc_end *end, const char *verb)
{
	set_real(o, "ended", wall_now());
	set_real(o, "seconds", (double)(now_read().boot_ms - a->started_ms) / 1000);
	set_text(o, "verb", verb);
	if (end->status >= 0 && WIFEXITED(end->status))
		set_number(o, "exit", WEXITSTATUS(end->status));
	if (end->status >= 0 && WIFSIGNALED(end->status))
		set_number(o, "signal", WTERMSIG(end->status));
	if (end->status < 0 || end->sandbox_failed)
		set_text(o, "not_started", end->why);
	set_number(o, "peak_memory", end->peak_memory);
	set_number(o, "peak_rss", end->peak_rss);
	set_text(o, "memory_by", end->memory_by);
	if (end->oom_kills >= 0)
		set_number(o, "oom_kills", end->oom_kills);
	if (end->oom_polled)
		json_object_set_new(o, "oom_polled", json_true());
	set_real(o, "cpu_seconds", (double)end->cpu_ms / 1000);
	set_text(o, "last_output", a->words);
	set_text(o, "output_tail", a->tail);
}

static void
set_checkpoints(json_t *o, const struct record *r)
{
	if (r->restored[0]) {
		set_text(o, "restored", r->restored);
		set_real(o, "restored_taken", r->taken);
		set_real(o, "restore_seconds", r->restoring);
	}
	if (r->redo >= 0)
		set_real(o, "lost_seconds", r->redo);
	set_text(o, "restore_note", r->restore_note);
	set_number(o, "checkpoints", r->saved);
	if (r->last_saved[0]) {
		set_text(o, "checkpoint", r->last_saved);
		set_real(o, "checkpoint_taken", r->last_taken);
		set_real(o, "checkpoint_seconds", r->save_seconds);
		set_number(o, "checkpoint_data", r->saved_in);
		set_number(o, "checkpoint_size", r->saved_out);
	}
	set_text(o, "checkpoint_note", r->save_note);
}

void
record_write(const struct attempt *a, const struct lease_claim *c, const struct record *r,
	     const struct proc_end *end, const char *verb)
{
	char path[sizeof(a->results) + 32];
	char tmp[sizeof(a->results) + 32];
	char host[72] = "";
	json_t *o = json_object();

	gethostname(host, sizeof(host) - 1);
	set_text(o, "task", c->name);
	set_number(o, "attempt", c->attempt);
	set_text(o, "owner", c->owner);
	set_text(o, "state", end ? "ended" : "running");
	set_text(o, "host", host);
	set_number(o, "agentd", (int64_t)getpid());
	set_slurm(o);
	set_text(o, "tier", r->tier);
	set_text(o, "sandbox", r->sandbox);
	set_number(o, "memory", r->memory);
	set_number(o, "failures", c->failures);
	set_real(o, "started", a->started);
	if (end)
		set_end(o, a, end, verb);
	set_checkpoints(o, r);
	set_number(o, "steps", r->steps);
	snprintf(path, sizeof(path), "%s/attempt.json", a->results);
	snprintf(tmp, sizeof(tmp), "%s/.attempt.json", a->results);
	if (json_dump_file(o, tmp, JSON_INDENT(1) | JSON_REAL_PRECISION(13)) || rename(tmp, path) < 0) {
		log_warn("task %s@%u: %s cannot be written", c->name, c->attempt, path);
		unlink(tmp);
	}
	json_decref(o);
}
