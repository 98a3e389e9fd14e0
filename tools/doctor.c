/*
 * doctor.c - raser doctor DIR: everything that raserfs needs of a directory and a node, tried, with
 * a plain verdict a line. DIR may be a run or a directory that is to become one.
 */
#include <config.h>

#include "doctor.h"

#include "slurmcheck.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_WARNING = 1, EXIT_FAILS = 2, EXIT_STOPPED = 130, LOAD_MAX = 200 };

static struct doctor *stopping;

static void
on_signal(int signo)
{
	(void)signo;
	stopping->stop = true;
}

/* All of ours that wait are interrupted: what has been made is removed before we end. */
static void
catch_signals(struct doctor *d)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	stopping = d;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
}

/* ---- what is asked for ---- */

struct request {
	const char *dir;
	int load;
	double seconds;
	bool peer, json;
};

static bool
parse(int argc, char **argv, struct request *r)
{
	*r = (struct request){ .seconds = 3 };
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		char *end = NULL;

		if (!strcmp(argv[i], "--peer")) {
			r->peer = true;
		} else if (!strcmp(argv[i], "--json")) {
			r->json = true;
		} else if (!strcmp(argv[i], "--load")) {
			long n = strtol(value, &end, 10);

			if (end == value || *end || n < 1 || n > LOAD_MAX)
				return false;
			r->load = (int)n;
			i++;
		} else if (!strcmp(argv[i], "--seconds")) {
			r->seconds = strtod(value, &end);
			if (end == value || *end || !(r->seconds >= 0.1 && r->seconds <= 3600))
				return false;
			i++;
		} else if (argv[i][0] == '-' || r->dir) {
			return false;
		} else {
			r->dir = argv[i];
		}
	}
	return r->dir;
}

/* Open the directory, and read what there is of a run in it. False after a message. */
static bool
open_dir(struct doctor *d, const char *dir)
{
	char *ini = conf_template("");
	char format[PATH_MAX + 16];
	struct err e = { 0 };
	struct target t;
	struct stat st;

	d->tasks = -1;
	if (!ini || conf_parse(&d->conf, ini, &e)) {
		complain(EXIT_FAILS, "%s", ini ? e.text : "out of memory");
		free(ini);
		return false;
	}
	free(ini);
	if (!realpath(dir, d->dir)) {
		complain(EXIT_FAILS, "%s: %s", dir, strerror(errno));
		return false;
	}
	snprintf(format, sizeof(format), "%s/FORMAT", d->dir);
	d->is_run = lstat(format, &st) == 0;
	if (!d->is_run) {
		/* a mount tells where its run lies */
		snprintf(format, sizeof(format), "%s/status.json", d->dir);
		if (lstat(format, &st) == 0 && target_find(d->dir, &t)) {
			memcpy(d->dir, t.run, sizeof(d->dir));
			d->is_run = true;
		}
	}
	if (disk_open(&d->disk, d->dir, &e)) {
		complain(EXIT_FAILS, "%s", e.text);
		return false;
	}
	return true;
}

static void
check_run(struct doctor *d)
{
	char uuid[UUID_TEXT];
	struct err e = { 0 };
	const struct queue_options o = { .join = false };
	struct queue_stats s;

	if (!d->is_run) {
		finding_add(&d->findings, FINDING_NOTE, "run", NULL, "%.150s is no run (yet)",
			    d->dir);
		return;
	}
	int rc = format_read(&d->disk, uuid);
	if (rc)
		finding_add(&d->findings, FINDING_FAILS, "FORMAT",
			    "not a version that this raserfs can read", "%s", strerror(-rc));
	else
		selftest_format(&d->disk, d->dir, uuid, &d->findings);
	struct conf conf;
	if (conf_load(&conf, d->dir, &e)) {
		finding_add(&d->findings, FINDING_FAILS, "raser.ini",
			    "nothing can be mounted until that is mended", "%.180s", e.text);
		return;
	}
	d->conf = conf;
	struct queue *q = rc ? NULL : queue_open(d->dir, &o, now_read(), &e);
	if (!q) {
		finding_add(&d->findings, FINDING_FAILS, "run",
			    "nothing can be mounted until that is mended", "%.180s", e.text);
		return;
	}
	queue_stats(q, &s);
	queue_close(q, now_read());
	d->tasks = s.count[TASK_PENDING] + s.count[TASK_CLAIMED] + s.count[TASK_UNREAD];
}

static void
storage_part(struct doctor *d)
{
	storage_look(&d->disk, &d->storage);
	storage_judge(&d->storage, conf_beat_ms(&d->conf), &d->findings);
}

/* What every mount tries; false when it fails. */
static bool
quick_part(struct doctor *d)
{
	size_t n = d->findings.n;
	int rc = selftest_quick(&d->disk, &d->findings);

	while (n < d->findings.n && d->findings.all[n].level < FINDING_FAILS)
		n++;
	return !rc && n == d->findings.n;
}

/* ---- what is told ---- */

static void
print_table(const struct doctor *d)
{
	for (size_t i = 0; i < d->findings.n; i++) {
		const struct finding *one = &d->findings.all[i];
		enum finding_level level = one->level;

		/* insisted on */
		if (level == FINDING_FORCIBLE && d->conf.force)
			level = FINDING_WARNING;
		printf("%-8s%-20s %s\n", finding_word(level), one->topic, one->found);
		if (*one->advice)
			printf("%-8s%-20s   %s\n", "", "", one->advice);
	}
}

static void
print_json(const struct doctor *d, enum finding_level worst)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->findings.n; i++) {
		const struct finding *one = &d->findings.all[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "verdict",
						      finding_word(one->level), "topic", one->topic,
						      "found", one->found, "advice", one->advice));
	}
	json_t *all = json_pack("{s:s, s:s, s:o}", "directory", d->dir, "verdict",
				finding_word(worst), "findings", list);
	if (all)
		json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

/* The worst of it, with what people insist on taken for a warning. */
static enum finding_level
verdict(const struct doctor *d)
{
	enum finding_level worst = d->findings.worst;

	return worst == FINDING_FORCIBLE && d->conf.force ? FINDING_WARNING : worst;
}

int
verb_doctor(int argc, char **argv)
{
	static struct doctor d;
	struct request r;

	if (!parse(argc, argv, &r))
		return usage_error();
	if (!open_dir(&d, r.dir))
		return EXIT_FAILS;
	/* what the library would log is in the table */
	log_init("raser", LOG_NOTHING);
	catch_signals(&d);
	storage_part(&d);
	check_run(&d);
	/* where that fails the rest would only repeat it, or never end */
	bool sound = quick_part(&d);
	if (r.peer) {
		if (sound && !d.stop)
			doctor_peer(&d);
	} else {
		if (sound && !d.stop)
			doctor_trial(&d);
		if (sound && !d.stop && r.load)
			doctor_load(&d, r.load, r.seconds);
		if (!d.stop)
			doctor_node(&d);
		if (!d.stop)
			slurm_check(d.conf.grace_ms, &d.findings);
	}
	disk_close(&d.disk);
	if (d.stop)
		return complain(EXIT_STOPPED, "ended by a signal; what it had made is removed");
	enum finding_level worst = verdict(&d);
	if (r.json)
		print_json(&d, worst);
	else
		print_table(&d);
	return worst >= FINDING_FORCIBLE ? EXIT_FAILS : worst == FINDING_WARNING ? EXIT_WARNING : 0;
}
