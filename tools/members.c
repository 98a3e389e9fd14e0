/*
 * members.c - the array tasks of a run, from its records and from what squeue says.
 */
#include <config.h>

#include "members.h"

#include "clock.h"
#include "disk.h"
#include "launch.h"
#include "node.h"
#include "program.h"
#include "squeue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REASON = 64, RANGES_SHOWN = 12 };

/* What can be said of an array task. */
enum kind { GONE, LIVE, SILENT, WAITS, HELD, STOPPED, ENDS, KINDS };

static const struct {
	const char *one, *many;
} kind_words[KINDS] = {
	[LIVE] = { "live", "live" },
	[SILENT] = { "runs without a beat", "run without a beat" },
	[WAITS] = { "waits", "wait" },
	[HELD] = { "held", "held" },
	[STOPPED] = { "suspended", "suspended" },
	[ENDS] = { "ends", "end" },
	[GONE] = { "gone", "gone" },
};

struct member {
	struct launched what;
	long n;		/* tasks; they count from 1, and a job without an array is task 0 */
	uint8_t *kinds; /* of n + 1 */
	char reason[KINDS][REASON]; /* of the first of a kind */
};

struct members {
	struct member *all;
	int n;
};

/* ---- the records ---- */

static void
members_free(struct members *m)
{
	for (int i = 0; i < m->n; i++)
		free(m->all[i].kinds);
	free(m->all);
}

/* The run's records, each of its tasks gone as far as is known. 0, or a negative errno. */
static int
members_read(struct members *m, const char *run)
{
	struct launched *records = calloc(LAUNCHES_MAX, sizeof(*records));
	int n = records ? launched_read(run, records, LAUNCHES_MAX) : -ENOMEM;

	*m = (struct members){ 0 };
	if (n > 0)
		m->all = calloc((size_t)n, sizeof(*m->all));
	if (n > 0 && !m->all)
		n = -ENOMEM;
	for (int i = 0; i < n; i++) {
		struct member *one = &m->all[i];

		one->what = records[i];
		one->n = *one->what.tier && one->what.agents > 0 ? one->what.agents : 0;
		one->kinds = calloc((size_t)one->n + 1, 1);
		m->n++;
		if (!one->kinds)
			n = -ENOMEM;
	}
	free(records);
	if (n < 0)
		members_free(m);
	return n < 0 ? n : 0;
}

/* ---- what squeue says ---- */

static enum kind
kind_of(const char *state, const char *reason)
{
	static const struct {
		const char *state;
		enum kind kind;
	} states[] = {
		{ "RUNNING", SILENT }, /* until its beat is seen */
		{ "CONFIGURING", WAITS }, { "SUSPENDED", STOPPED }, { "STOPPED", STOPPED },
		{ "COMPLETING", ENDS },	  { "REQUEUE_HOLD", HELD }, { "SPECIAL_EXIT", HELD },
	};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (!strcmp(state, states[i].state))
			return states[i].kind;
	return strstr(reason, "Held") || strstr(reason, "held") ? HELD : WAITS;
}

/* The record that a line ("ARRAY|TASK|STATE|REASON") is about, or NULL. */
static struct member *
member_of(struct members *m, const char *line)
{
	size_t len = strcspn(line, "|");

	for (int i = 0; i < m->n; i++)
		if (strlen(m->all[i].what.job) == len && !strncmp(m->all[i].what.job, line, len))
			return &m->all[i];
	return NULL;
}

static bool
is_ours(void *arg, const char *line)
{
	return member_of(arg, line) != NULL;
}

static void
take_line(struct members *m, char *line)
{
	struct member *one = member_of(m, line);
	char *save = NULL;

	strtok_r(line, "|", &save);
	const char *task = strtok_r(NULL, "|", &save);
	const char *state = strtok_r(NULL, "|", &save);
	const char *reason = strtok_r(NULL, "|", &save);
	if (!one || !task || !state)
		return;
	reason = reason ? reason : "";
	long k = one->n ? strtol(task, NULL, 10) : 0;
	if (k < 0 || k > one->n)
		return;
	enum kind kind = kind_of(state, reason);
	one->kinds[k] = (uint8_t)kind;
	if (!*one->reason[kind] && strcmp(reason, "None") != 0 && kind != SILENT)
		snprintf(one->reason[kind], REASON, "%s", reason);
}

/* The beat of a daemon in one of our jobs, "ARRAY_TASK" or "JOB": that task lives. */
static void
take_beat(struct members *m, const char *job)
{
	size_t len = strcspn(job, "_");

	for (int i = 0; i < m->n; i++) {
		struct member *one = &m->all[i];
		long k = job[len] ? strtol(job + len + 1, NULL, 10) : 0;

		if (strlen(one->what.job) == len && !strncmp(one->what.job, job, len) && k >= 0 &&
		    k <= one->n && one->kinds[k] == SILENT)
			one->kinds[k] = LIVE;
	}
}

static int
on_beat(void *arg, const char *name)
{
	struct {
		struct members *m;
		struct disk *disk;
	} *a = arg;
	char path[DISK_PATH];
	char text[NODE_TEXT];
	struct node_info info;

	snprintf(path, sizeof(path), "nodes/%s", name);
	int n = disk_read(a->disk, path, text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = '\0';
		if (node_parse(text, &info) && *info.job)
			take_beat(a->m, info.job);
	}
	return 0;
}

static void
take_beats(struct members *m, const char *run)
{
	struct disk disk;
	struct {
		struct members *m;
		struct disk *disk;
	} arg = { m, &disk };

	if (disk_open(&disk, run, NULL))
		return;
	(void)disk_list(&disk, "nodes", on_beat, &arg);
	disk_close(&disk);
}

/* ---- showing ---- */

static const char *
stamp(int64_t at, char out[32])
{
	time_t t = (time_t)at;
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(out, 32, "%lld", (long long)at);
	return out;
}

/* "1-3,5"; many of them are for squeue to tell */
static void
print_tasks(const struct member *one, enum kind kind, FILE *out)
{
	const char *comma = "";
	int ranges = 0;

	for (long k = 1; k <= one->n; k++) {
		long from = k;

		if (one->kinds[k] != kind)
			continue;
		while (k < one->n && one->kinds[k + 1] == kind)
			k++;
		if (ranges++ == RANGES_SHOWN) {
			fputs(",...", out);
			return;
		}
		fprintf(out, from == k ? "%s%ld" : "%s%ld-%ld", comma, from, k);
		comma = ",";
	}
}

static void
print_array(const struct member *one, FILE *out)
{
	const char *comma = " ";

	fprintf(out, "array %s %s:", one->what.job, one->what.tier);
	for (int i = 0; i < KINDS; i++) {
		enum kind kind = (enum kind)((i + 1) % KINDS); /* what is gone last */
		long n = 0;

		for (long k = 1; k <= one->n; k++)
			n += one->kinds[k] == kind;
		if (!n)
			continue;
		fprintf(out, "%s%ld %s (", comma, n,
			n == 1 ? kind_words[kind].one : kind_words[kind].many);
		print_tasks(one, kind, out);
		fprintf(out, "%s%s)", *one->reason[kind] ? ": " : "", one->reason[kind]);
		comma = ", ";
	}
	fputc('\n', out);
}

static bool
all_gone(const struct member *one)
{
	for (long k = 0; k <= one->n; k++)
		if (one->kinds[k] != GONE)
			return false;
	return true;
}

static void
print_member(const struct member *one, FILE *out)
{
	if (one->n) {
		print_array(one, out);
		return;
	}
	enum kind kind = (enum kind)one->kinds[0];
	const char *reason = one->reason[kind];

	fprintf(out, "job %s then: %s%s%s%s\n", one->what.job, kind == SILENT ? "runs" : kind_words[kind].one,
		*reason ? " (" : "", reason, *reason ? ")" : "");
}

static char *
said_buffer(void)
{
	char *buf = malloc(SQUEUE_SIZE);

	if (!buf)
		complain(1, "out of memory");
	return buf;
}

static void
take_text(struct members *m, char *text)
{
	char *save = NULL;

	/* lines are taken apart where they are */
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_line(m, line);
}

static void
print_all(struct members *m, const char *run, FILE *out, char *buf)
{
	char when[32];
	struct said s;
	char squeue[PATH_MAX];
	const char *gone = "gone:";

	if (program_find("squeue", squeue))
		fprintf(out, "slurm cannot be asked from here: squeue is not in PATH\n");
	else
		squeue_renew(run, is_ours, m, buf, SQUEUE_SIZE);
	squeue_find(run, INT64_MAX, false, &s, buf, SQUEUE_SIZE);
	if (s.minute >= 0 && !s.good) {
		fprintf(out, "slurm at %s: %s\n", stamp(s.at, when), s.text);
		squeue_find(run, s.minute, true, &s, buf, SQUEUE_SIZE);
	}
	if (s.minute < 0) {
		fprintf(out, "slurm has not said yet which agents live\n");
		return;
	}
	fprintf(out, "slurm at %s\n", stamp(s.at, when));
	take_text(m, s.text);
	take_beats(m, run);
	for (int i = 0; i < m->n; i++)
		if (!all_gone(&m->all[i]))
			print_member(&m->all[i], out);
	for (int i = 0; i < m->n; i++)
		if (all_gone(&m->all[i])) {
			fprintf(out, "%s %s", gone, m->all[i].what.job);
			gone = "";
		}
	if (!*gone)
		fputc('\n', out);
}

void
members_print(const char *run, FILE *out)
{
	struct members m;
	int rc = members_read(&m, run);

	if (rc)
		fprintf(out, "slurm: the records in %s/slurm cannot be read: %s\n", run, strerror(-rc));
	if (rc || !m.n)
		return;
	char *buf = said_buffer();
	if (buf)
		print_all(&m, run, out, buf);
	free(buf);
	members_free(&m);
}

int
members_live(const char *run, char *list, size_t size, char *why, size_t why_size)
{
	struct members m;
	int live = 0;
	int rc = members_read(&m, run);

	list[0] = '\0';
	if (rc) {
		snprintf(why, why_size, "%s", strerror(-rc));
		return -1;
	}
	char *buf = m.n ? said_buffer() : NULL;
	if (m.n && (!buf || squeue_ask(run, is_ours, &m, buf, SQUEUE_SIZE))) {
		snprintf(why, why_size, "%.*s", (int)why_size - 1, buf ? buf : "out of memory");
		live = -1;
	} else if (m.n) {
		squeue_write(run, (int64_t)time(NULL) / 60, true, buf);
		take_text(&m, buf);
	}
	for (int i = 0; live >= 0 && i < m.n; i++) {
		size_t len = strlen(list);

		/* what comes then is no agent */
		if (!m.all[i].n || all_gone(&m.all[i]))
			continue;
		live++;
		if (len + JOB_ID + 1 < size)
			snprintf(list + len, size - len, "%s%s", len ? ":" : "", m.all[i].what.job);
	}
	free(buf);
	members_free(&m);
	return live;
}
