/*
 * texts.c - files made of words: status for people, JSON and Prometheus for programs, a page,
 * the last events, leases, nodes, and the mount's own README. All from memory.
 */
#include <config.h>

#include "mount.h"

#include "storage.h"
#include "tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
stamp(int64_t wall, char *out, size_t size)
{
	time_t t = (time_t)wall;
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(out, size, "%lld", (long long)wall);
}

static double
uptime(const struct mount *m)
{
	double s = (double)(now_read().boot_ms - m->started.boot_ms) / 1000;

	return s > 0.001 ? s : 0.001;
}

static int64_t
total(const struct queue_stats *s)
{
	int64_t n = 0;

	for (int i = 0; i < TASK_STATES; i++)
		n += s->count[i];
	return n;
}

/* When something that happened at a boot time was, by the clock of people. */
static int64_t
wall_at(int64_t boot_ms)
{
	struct now now = now_read();

	return now.wall_s - (now.boot_ms - boot_ms) / 1000;
}

static void
write_storage(struct mount *m, const struct disk_state *s, FILE *f)
{
	char text[STORAGE_TEXT];
	char since[32];
	char last[32];

	if (s->mood == DISK_WELL)
		return;
	storage_text(queue_path(m->q), s, text);
	stamp(wall_at(s->since), since, sizeof(since));
	stamp(wall_at(s->last), last, sizeof(last));
	fprintf(f, "%s (since %s, last seen %s)\n", text, since, last);
}

/* A line for each thing that is not as it should be; mostly none. */
static void
write_trouble(struct mount *m, const struct queue_stats *s, FILE *f)
{
	if (m->supervised.restarts)
		fprintf(f, "mounted again %d times", m->supervised.restarts);
	if (m->supervised.before[0])
		fprintf(f, "; the one before: %s", m->supervised.before);
	if (m->supervised.restarts)
		fputc('\n', f);
	if (s->paused)
		fputs("attempts die at once on this node: no claims here for now\n", f);
	if (m->conf->clamped[0])
		fprintf(f, "raser.ini asks for more than site.ini allows: %s\n", m->conf->clamped);
	write_storage(m, &s->storage, f);
}

static void
write_status(struct mount *m, FILE *f)
{
	struct queue_stats s;
	struct node_line nodes[256];
	char owner[OWNER_TEXT];

	queue_stats(m->q, &s);
	queue_owner(m->q, owner);
	fprintf(f, "run %s\nowner %s\n", queue_path(m->q), owner);
	fprintf(f, "tasks %lld in %d batches\n", (long long)total(&s), s.batches);
	for (int i = 0; i < TASK_STATES; i++)
		if (i != TASK_UNREAD || s.count[i])
			fprintf(f, "%s %lld\n", state_names[i], (long long)s.count[i]);
	fprintf(f, "moved up %lld\n", (long long)s.elevated);
	for (int i = 0; i < m->conf->ntiers; i++)
		fprintf(f, "tier %s: %lld ready, %lld working, %lld waiting\n",
			m->conf->tiers[i].name, (long long)queue_ready(m->q, i),
			(long long)s.held[i], (long long)s.waiting[i]);
	fprintf(f, "this daemon: %lld claims, %lld races lost, up %.0f s", (long long)s.claims,
		(long long)s.lost_races, uptime(m));
	if (uptime(m) > 60) /* before, a rate would say nothing */
		fprintf(f, ", %.1f done an hour", (double)s.ends[END_DONE] * 3600 / uptime(m));
	fputc('\n', f);
	if (s.until) {
		char when[32];

		stamp(s.until, when, sizeof(when));
		fprintf(f, "this node's time ends %s: %lld tasks take longer and are left to others\n",
			when, (long long)s.too_long);
	}
	fprintf(f, "living daemons %zu\n", queue_nodes(m->q, nodes, 256));
	write_trouble(m, &s, f);
}

static void
write_json(struct mount *m, FILE *f)
{
	json_t *all = tell_status(m->q, m->started, now_read());

	if (!all)
		return;
	json_object_set_new(all, "restarts", json_integer(m->supervised.restarts));
	json_object_set_new(all, "died", json_string(m->supervised.before));
	json_dumpf(all, f, JSON_INDENT(1));
	fputc('\n', f);
	json_decref(all);
}

static void
metric(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
write_metrics(struct mount *m, FILE *f)
{
	struct queue_stats s;

	queue_stats(m->q, &s);
	metric(f, "raser_tasks", "gauge", "Tasks by state.");
	for (int i = 0; i < TASK_STATES; i++)
		fprintf(f, "raser_tasks{state=\"%s\"} %lld\n", state_names[i],
			(long long)s.count[i]);
	metric(f, "raser_ready", "gauge", "Tasks that a tier could be given now.");
	for (int i = 0; i < m->conf->ntiers; i++)
		fprintf(f, "raser_ready{tier=\"%s\"} %lld\n", m->conf->tiers[i].name,
			(long long)queue_ready(m->q, i));
	metric(f, "raser_agents", "gauge", "Agents at this daemon.");
	for (int i = 0; i < m->conf->ntiers; i++)
		fprintf(f,
			"raser_agents{tier=\"%s\",doing=\"working\"} %lld\n"
			"raser_agents{tier=\"%s\",doing=\"waiting\"} %lld\n",
			m->conf->tiers[i].name, (long long)s.held[i], m->conf->tiers[i].name,
			(long long)s.waiting[i]);
	metric(f, "raser_claims_total", "counter", "Claims granted by this daemon.");
	fprintf(f, "raser_claims_total %lld\n", (long long)s.claims);
	metric(f, "raser_races_lost_total", "counter", "Claims that another daemon won.");
	fprintf(f, "raser_races_lost_total %lld\n", (long long)s.lost_races);
	metric(f, "raser_ends_total", "counter", "Attempts ended by this daemon, by outcome.");
	for (size_t i = 0; i < OUTCOMES; i++)
		fprintf(f, "raser_ends_total{outcome=\"%s\"} %lld\n", outcome_names[i].name,
			(long long)s.ends[outcome_names[i].outcome]);
	metric(f, "raser_reasons_total", "counter", "Attempts ended by this daemon, by reason.");
	for (int c = 0; c < 128; c++)
		if (*reason_name((enum reason)c))
			fprintf(f, "raser_reasons_total{reason=\"%s\"} %lld\n",
				reason_name((enum reason)c), (long long)s.why[c]);
	metric(f, "raser_resumed_total", "counter", "Attempts that went on after another.");
	fprintf(f, "raser_resumed_total %lld\n", (long long)s.resumed);
	metric(f, "raser_redo_seconds_total", "counter", "Work that was lost with an attempt.");
	fprintf(f, "raser_redo_seconds_total %.3f\n", (double)s.redo_ms / 1000);
	metric(f, "raser_restarts_total", "counter", "How often the supervisor has mounted again.");
	fprintf(f, "raser_restarts_total %d\n", m->supervised.restarts);
	metric(f, "raser_storage_well", "gauge", "0 while calls fail or are not answered.");
	fprintf(f, "raser_storage_well %d\n", s.storage.mood == DISK_WELL);
	metric(f, "raser_storage_calls_total", "counter", "Calls on the run directory.");
	for (int i = 0; i < DISK_CALLS; i++)
		fprintf(f, "raser_storage_calls_total{call=\"%s\"} %llu\n", disk_call_names[i],
			(unsigned long long)s.calls[i]);
}

/* Text that may hold anything, into a page. */
static void
put_html(FILE *f, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '&': fputs("&amp;", f); break;
		default: fputc(*text, f);
		}
}

enum { REPORT_FAILED = 200 };

struct failed_list {
	struct task *all;
	size_t n;
};

static int
add_failed(void *arg, const struct task *t)
{
	struct failed_list *l = arg;

	l->all[l->n++] = *t;
	return l->n == REPORT_FAILED;
}

/* Every task that is given up, and why: the first thing that people look for. */
static void
write_failed(struct mount *m, FILE *f)
{
	struct failed_list l = { .all = calloc(REPORT_FAILED, sizeof(struct task)) };
	char text[160];

	if (!l.all)
		return;
	queue_list(m->q, TASK_FAILED, 0, add_failed, &l);
	if (l.n)
		fputs("<table><tr><th>failed</th><th>attempts</th><th>why</th></tr>\n", f);
	for (size_t i = 0; i < l.n; i++) {
		fputs("<tr><td>", f);
		put_html(f, l.all[i].name);
		fprintf(f, "</td><td>%u</td><td class=\"text\">%s ", l.all[i].attempt,
			reason_name(l.all[i].reason));
		queue_evidence(m->q, l.all[i].serial, text, sizeof(text));
		put_html(f, text);
		fputs("</td></tr>\n", f);
	}
	if (l.n)
		fputs("</table>\n", f);
	if (l.n == REPORT_FAILED)
		fputs("<p>and perhaps more: see failed/</p>\n", f);
	free(l.all);
}

static void
report_trouble(struct mount *m, const struct queue_stats *s, FILE *f)
{
	char *text = NULL;
	size_t size;
	FILE *t = open_memstream(&text, &size);

	if (t)
		write_trouble(m, s, t);
	if (t && fclose(t) == 0 && *text) {
		fputs("<pre>", f);
		put_html(f, text);
		fputs("</pre>\n", f);
	}
	free(text);
}

static void
write_report(struct mount *m, FILE *f)
{
	struct queue_stats s;
	char when[32];

	queue_stats(m->q, &s);
	stamp(now_read().wall_s, when, sizeof(when));
	fprintf(f,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<title>raserfs</title>\n<style>body{font:16px sans-serif;margin:2em}"
		"table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;"
		"padding:.3em .8em;text-align:left}td+td{text-align:right}td.text{text-align:left}</style></head><body>\n"
		"<h1>raserfs</h1>\n<p>%s</p>\n",
		when);
	report_trouble(m, &s, f);
	fprintf(f, "<table><tr><th>tasks</th><th>%lld</th></tr>\n", (long long)total(&s));
	for (int i = 0; i < TASK_STATES; i++)
		fprintf(f, "<tr><td>%s</td><td>%lld</td></tr>\n", state_names[i],
			(long long)s.count[i]);
	fputs("</table>\n<table><tr><th>tier</th><th>ready</th><th>working</th>"
	      "<th>waiting</th></tr>\n", f);
	for (int i = 0; i < m->conf->ntiers; i++)
		fprintf(f,
			"<tr><td>%s</td><td>%lld</td><td>%lld</td><td>%lld</td></tr>\n",
			m->conf->tiers[i].name, (long long)queue_ready(m->q, i),
			(long long)s.held[i], (long long)s.waiting[i]);
	fputs("</table>\n<table><tr><th>attempts ended here</th><th></th></tr>\n", f);
	for (size_t i = 0; i < OUTCOMES; i++)
		fprintf(f, "<tr><td>%s</td><td>%lld</td></tr>\n", outcome_names[i].name,
			(long long)s.ends[outcome_names[i].outcome]);
	fputs("</table>\n", f);
	if (s.resumed)
		fprintf(f,
			"<p>%lld attempts went on after one that had ended; %.0f s of work had to be done"
			" again, %.1f s at most at a time.</p>\n",
			(long long)s.resumed, (double)s.redo_ms / 1000, (double)s.redo_max_ms / 1000);
	write_failed(m, f);
	fputs("</body></html>\n", f);
}

static void
write_readme(struct mount *m, FILE *f)
{
	const char *tier = m->conf->tiers[0].name;

	fprintf(f,
		"This directory is a task queue. See raser-tree(5) for all of it.\n\n"
		"  cp tasks.jsonl new/             submit tasks, a JSON object a line\n"
		"  ls queue/%s                    look: reading never claims\n"
		"  exec 3<>queue/%s/T@1           take: opening read-write claims T, attempt 1\n"
		"  cat queue/%s/next              take the best task, waiting for one\n"
		"  touch leases/T@1               keep: the heartbeat, every %lld s or oftener\n"
		"  mv leases/T@1 done/            end it: done/, failed/, or pending/ to give back\n"
		"  echo done > leases/T@1         the same without the kernel's rename lock\n"
		"  rm leases/T@1                  take a claim away from its holder\n"
		"  mv pending/T@1 cancelled/      cancel; mv failed/T@3 pending/ tries again\n\n"
		"\"Stale file handle\" means: that attempt is over, another has the task.\n",
		tier, tier, tier, (long long)(m->conf->steal_after_ms / 3000));
}

static void
write_lease(struct mount *m, struct node_id id, FILE *f)
{
	struct lease_info l;
	struct task t;
	char when[32];

	if (queue_get(m->q, id.serial, &t))
		return;
	fprintf(f, "task %s\nattempt %u\n", t.name, id.attempt);
	if (queue_lease(m->q, id.serial, id.attempt, &l)) {
		fputs("over\n", f);
		return;
	}
	stamp(l.since, when, sizeof(when));
	fprintf(f, "owner %s\nsince %s\n", l.owner, when);
	if (!l.mine) {
		fputs("held through another daemon\n", f);
		return;
	}
	stamp(l.touched, when, sizeof(when));
	fprintf(f, "tier %s\nagent %s[%ld]\ntouched %s\n", m->conf->tiers[l.tier].name, l.comm,
		l.pid, when);
	if (l.parked_until) {
		stamp(l.parked_until, when, sizeof(when));
		fprintf(f, "parked until %s\n", when);
	}
	if (l.note[0])
		fprintf(f, "activity %s\n", l.note);
	if (l.over)
		fputs("over\n", f);
}

static void
write_node(struct mount *m, int64_t id, FILE *f)
{
	struct node_line lines[256];
	char when[32];
	size_t n = queue_nodes(m->q, lines, 256);

	for (size_t i = 0; i < n; i++) {
		if (lines[i].id != (uint32_t)id)
			continue;
		stamp(lines[i].beat, when, sizeof(when));
		fprintf(f, "owner %s\nhost %s\npid %ld\nversion %s\nagents %s\nbeat %s\n",
			lines[i].owner, lines[i].info.host, lines[i].info.pid,
			lines[i].info.version, lines[i].info.agents, when);
		if (lines[i].info.job[0])
			fprintf(f, "job %s\nrestarts %d\n", lines[i].info.job, lines[i].info.restarts);
	}
}

char *
text_make(struct mount *m, uint64_t ino, size_t *size)
{
	struct node_id id = node_unpack(ino);
	char *text = NULL;
	FILE *f = open_memstream(&text, size);

	if (!f)
		return NULL;
	if (id.view == VIEW_LEASES) {
		write_lease(m, id, f);
	} else if (id.view == VIEW_NODES) {
		write_node(m, id.serial, f);
	} else if (fixed_tier(ino, FIXED_READY) >= 0) {
		fprintf(f, "%lld\n", (long long)queue_ready(m->q, fixed_tier(ino, FIXED_READY)));
	} else {
		switch (ino) {
		case FIXED_STATUS: write_status(m, f); break;
		case FIXED_STATUS_JSON: write_json(m, f); break;
		case FIXED_METRICS: write_metrics(m, f); break;
		case FIXED_REPORT: write_report(m, f); break;
		case FIXED_EVENTS: queue_events(m->q, 0, f); break;
		case FIXED_README: write_readme(m, f); break;
		default: break;
		}
	}
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- extended attributes ---- */

const char *const xattr_names[XATTRS] = {
	"user.raser.state",    "user.raser.attempt", "user.raser.failures", "user.raser.losses",
	"user.raser.tier",     "user.raser.priority", "user.raser.submitter", "user.raser.claimer",
	"user.raser.node",     "user.raser.agent",   "user.raser.reason",   "user.raser.expected",
	"user.raser.evidence",
};

int
task_xattr(struct mount *m, int64_t serial, const char *name, char *buf, size_t size)
{
	struct task t;
	struct lease_info l = { 0 };
	int64_t wall;
	int which = -1;

	for (int i = 0; i < XATTRS; i++)
		if (!strcmp(xattr_names[i], name))
			which = i;
	if (which < 0 || queue_get(m->q, serial, &t))
		return -1;
	bool claimed = t.state == TASK_CLAIMED && !queue_lease(m->q, serial, t.attempt, &l);
	const char *dot = strrchr(l.owner, '.');
	switch (which) {
	case 0: return snprintf(buf, size, "%s", state_names[t.state]);
	case 1: return snprintf(buf, size, "%u", t.attempt);
	case 2: return snprintf(buf, size, "%d", t.counts.failures);
	case 3: return snprintf(buf, size, "%d", t.counts.losses);
	case 4: return snprintf(buf, size, "%s", m->conf->tiers[t.counts.level].name);
	case 5: return snprintf(buf, size, "%lld", (long long)t.priority);
	case 6:
		queue_origin(m->q, serial, buf, size, &wall);
		return (int)strlen(buf);
	case 7: return snprintf(buf, size, "%s", claimed ? l.owner : "");
	case 8: return snprintf(buf, size, "%.*s", dot ? (int)(dot - l.owner) : 0, l.owner);
	case 9:
		return claimed && l.mine ? snprintf(buf, size, "%s[%ld]", l.comm, l.pid) :
					   snprintf(buf, size, "%s", "");
	case 10: return snprintf(buf, size, "%s", reason_name(t.reason));
	case 11: return snprintf(buf, size, "%lld", (long long)t.expected);
	default:
		queue_evidence(m->q, serial, buf, size);
		return (int)strlen(buf);
	}
}
