/*
 * conf.c - raser.ini and site.ini: defaults, values, errors, and what a run may not loosen.
 */
#include <config.h>

#include "conf.h"
#include "tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void
one_file(void)
{
	struct conf c = { 0 };
	struct err e = { 0 };
	int64_t n;
	char *text = conf_template("");

	ok(text && conf_parse(&c, text, &e) == 0, "the default raser.ini parses: %s", e.text);
	ok(c.steal_after_ms == 180000 && c.max_failures == 5 && c.ntiers == 3, "its values");
	ok(c.tiers[2].elevated_first && c.tiers[2].failures == FAILURES_ALL &&
		   c.tiers[0].memory == 1LL << 30, "its tiers");
	ok(conf_level(&c, 0, 0) == 0 && conf_level(&c, 0, 1) == 1 && conf_level(&c, 0, 2) == 2 &&
		   conf_level(&c, 2, 0) == 2 && conf_level(&c, 0, 99) == 2,
	   "failures move a task up, nothing moves it down");
	ok(conf_level_for_memory(&c, 1500 << 20) == 1 &&
		   conf_level_for_memory(&c, 5LL << 30) == -1, "memory finds its tier");
	free(text);

	static const struct {
		const char *ini, *says;
	} bad[] = {
		{ "[run]\nsteal_after = soon\n[tier a]\n", "line 2: steal_after must be a number" },
		{ "[run]\nsteal_after = 0.1\n[tier a]\n", "line 2: steal_after must be" },
		{ "[run]\nstael_after = 1\n[tier a]\n", "line 2: [run] has no key stael_after" },
		{ "[tiers]\nx = 1\n", "no section [tiers]" },
		{ "[run]\nsteal_after = 3\n", "names no [tier NAME]" },
		{ "[tier a/b]\nmemory = 1G\n", "not a tier's name" },
		{ "[tier a]\n[tier b]\nmemory = 1G\n", "[tier a] has no keys" },
		{ "[tier a]\nfailures = 3\n", "must have failures = all" },
		{ "[tier a]\nmemory = lots\n", "line 2: memory must be a size" },
		{ "[agent]\nsandbox = box\n[tier a]\n", "sandbox must be one of auto none bwrap" },
		{ "[agent]\nsandbox = auto none\n[tier a]\n", "sandbox must be one of" },
		{ "[agent]\nmax_steps = 1.5\n[tier a]\n", "max_steps must be a whole number" },
		{ "[agent]\nenv = X\n  bind = /data\n[tier a]\nmemory = 1\n", "goes on with the one before" },
		{ "hello\n", "line 1" },
		{ "[slurm]\nsignal_before = 65536\n", "signal_before must be a whole number from 0 to 65535" },
		{ "[slurm]\noverhead = some\n", "overhead must be a size" },
		{ "[limits]\nmax_requeues = -1\n", "max_requeues must be a whole number from 0" },
		{ "[limits]\nnode_hours =\n", "line 2: node_hours must be a number" },
		{ "[limits]\nend = tomorrow\n", "end must be a local date or time" },
		{ "[limits]\nend = 2027-02-31\n", "end must be a local date or time" },
		{ "[limits]\nend = 2027-03-31T18\n", "end must be a local date or time" },
		{ "[accept]\nsurvival = all\n", "survival must be a number" },
		{ "[tier a]\ncpus = 0\n", "cpus must be a whole number from 1" },
		{ "[tier a]\nladder = no\n", "every tier has ladder = no" },
		{ "[tier a]\nfailures = 1\n[tier b]\nladder = no\n",
		  "the last tier of the ladder, a, must have failures = all" },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e.text[0] = '\0';
		int rc = conf_parse(&c, bad[i].ini, &e);
		ok(rc == -EINVAL && strstr(e.text, bad[i].says), "refused: %s", e.text);
	}
	ok(conf_parse(&c, "[run]\nsteal_after = 1.5\n[tier a]\nfailures = all\n", &e) == 0 &&
		   c.steal_after_ms == 1500, "times take fractions");
	ok(conf_parse(&c, "[agent]\nenv = A B\n  C\nenv = D\nhang_after = 0\n[tier a]\nmemory = 0\n", &e) == 0 &&
		   !strcmp(c.agent.env, "A B C D") && c.agent.hang_after_ms == 0 &&
		   c.agent.checkpoint_every_ms == 300000 && !strcmp(c.agent.sandbox, "auto"),
	   "lists go on; what is not said has its default");
	ok(parse_size("1G", &n) && n == 1LL << 30 && parse_size("1.5k", &n) && n == 1536 &&
		   parse_size("2MiB", &n) && n == 2 << 20 && parse_size("7", &n) && n == 7,
	   "sizes");
	ok(!parse_size("", &n) && !parse_size("-1", &n) && !parse_size("1Q", &n) &&
		   !parse_size("nan", &n), "no sizes");
}

/* Local time, as mktime() has it. */
static int64_t
at(int year, int month, int day, int hour, int minute, int second)
{
	struct tm tm = { .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour,
			 .tm_min = minute, .tm_sec = second, .tm_isdst = -1 };

	return mktime(&tm);
}

static void
under_slurm(void)
{
	static const struct {
		const char *text;
		int hour, minute, second;
	} ends[] = {
		{ "2027-03-31", 0, 0, 0 },
		{ "2027-03-31T18:30", 18, 30, 0 },
		{ "2027-03-31 18:30", 18, 30, 0 },
		{ "2027-03-31T18:30:07", 18, 30, 7 },
	};
	struct conf c = { 0 };
	struct err e = { 0 };
	char *text = conf_template("");

	ok(text && !conf_parse(&c, text, &e) && !*c.slurm.time && !*c.slurm.partition &&
		   !*c.slurm.sbatch && !*c.slurm.local && c.slurm.signal_before == 120 &&
		   c.slurm.overhead == 256 << 20,
	   "[slurm] has defaults: %s", e.text);
	ok(c.limits.max_requeues == 100 && c.limits.node_hours == 0 && c.limits.end == 0,
	   "[limits] has defaults");
	ok(isnan(c.accept.makespan_gain) && isnan(c.accept.restore_seconds) &&
		   isnan(c.accept.utilisation) && isnan(c.accept.survival),
	   "nothing is agreed");
	ok(c.tiers[0].ladder && c.tiers[0].cpus == 1 && !*c.tiers[0].sbatch, "so have tiers");
	ok(text && strstr(text, "\n;max_requeues = 100\n") && strstr(text, "\n;partition = \n") &&
		   strstr(text, "\n;ladder = yes\n"),
	   "raser init leaves them to the site");
	free(text);
	ok(!conf_parse(&c, "[slurm]\ntime = 4:00:00\npartition = a,b\nsbatch = --qos=x\n"
			   "  --comment='a b'\nsignal_before = 60\nlocal = /scratch\noverhead = 1G\n"
			   "[limits]\nmax_requeues = 0\nnode_hours = 12.5\n"
			   "[accept]\nmakespan_gain = 20.5\nsurvival =\n"
			   "[tier a]\nladder = yes\n[tier gpu]\nladder = no\ncpus = 8\n"
			   "sbatch = --gres=gpu:1\n", &e),
	   "values are taken: %s", e.text);
	ok(!strcmp(c.slurm.time, "4:00:00") && !strcmp(c.slurm.partition, "a,b") &&
		   !strcmp(c.slurm.sbatch, "--qos=x --comment='a b'") && c.slurm.signal_before == 60 &&
		   !strcmp(c.slurm.local, "/scratch") && c.slurm.overhead == 1 << 30,
	   "those of [slurm]");
	ok(c.limits.max_requeues == 0 && c.limits.node_hours == 12.5 && c.accept.makespan_gain == 20.5 &&
		   isnan(c.accept.survival), "of [limits] and [accept]");
	ok(!c.tiers[1].ladder && c.tiers[1].cpus == 8 && !strcmp(c.tiers[1].sbatch, "--gres=gpu:1") &&
		   c.tiers[0].cpus == 1, "of tiers");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char ini[96];

		snprintf(ini, sizeof(ini), "[limits]\nend = %s\n[tier a]\nmemory = 0\n", ends[i].text);
		ok(!conf_parse(&c, ini, &e) &&
			   c.limits.end == at(2027, 3, 31, ends[i].hour, ends[i].minute, ends[i].second),
		   "%s is local time", ends[i].text);
	}
}

static void
ladder(void)
{
	struct conf c = { 0 };
	struct err e = { 0 };

	ok(!conf_parse(&c, "[tier gpu]\nmemory = 64G\nladder = no\n"
			   "[tier low]\nmemory = 1G\nfailures = 0\n"
			   "[tier side]\nmemory = 2G\nladder = no\nfailures = 0\n"
			   "[tier high]\nmemory = 4G\n[tier last]\nmemory = 128G\nladder = no\n", &e),
	   "tiers off the ladder anywhere: %s", e.text);
	ok(conf_level(&c, 0, 0) == 0 && conf_level(&c, 2, 9) == 2 && conf_level(&c, 4, 9) == 4,
	   "failures move no task out of a tier off the ladder");
	ok(conf_level(&c, 1, 1) == 3 && conf_level(&c, 3, 99) == 3, "and none into one");
	ok(conf_level(&c, 5, 0) == 3, "tasks of a tier that is gone go to the top of the ladder");
	ok(conf_level_for_memory(&c, 2LL << 30) == 3 && conf_level_for_memory(&c, 8LL << 30) == -1,
	   "memory finds only tiers of the ladder");
	ok(conf_first(&c) == 1, "what names none begins at its foot");
	static const bool takes[5][5] = { /* by tier, then level */
		{ 1, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 1, 0, 1, 0 }, { 0, 0, 0, 0, 1 },
	};
	bool all = true;
	for (int tier = 0; tier < 5; tier++)
		for (int level = 0; level < 5; level++)
			all &= conf_takes(&c, tier, level) == takes[tier][level];
	ok(all, "who takes what");
}

/* ---- the site ---- */

static const char *
site(const char *text)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/site.ini", scratch_dir());
	FILE *f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
		diag("%s: %s", path, strerror(errno));
		exit(99);
	}
	setenv("RASER_SITE_INI", path, 1);
	return path;
}

#define TIER_A "[tier a]\nmemory = 0\n"

static void
site_defaults(void)
{
	struct conf c = { 0 };
	struct err e = { 0 };

	site("[run]\nsteal_after = 60\n[agent]\nenv = A B\nimage = /img\nnetwork = yes\n"
	     "[slurm]\npartition = work\nsbatch = --account=x\n"
	     "[tier a]\ncpus = 4\nsbatch = --gres=gpu:1\n[tier b]\nmemory = 1G\n");
	ok(!conf_parse(&c, "[agent]\nenv = C\n  D\n" TIER_A, &e) && c.steal_after_ms == 60000 &&
		   c.agent.network && !strcmp(c.slurm.partition, "work"),
	   "what a run does not set is the site's: %s", e.text);
	ok(!strcmp(c.agent.env, "C D"), "a run's list stands for the site's: %s", c.agent.env);
	ok(c.ntiers == 1 && c.tiers[0].cpus == 4 && !strcmp(c.tiers[0].sbatch, "--gres=gpu:1"),
	   "tiers are the run's, with the site's values");
	ok(!conf_parse(&c, "[slurm]\npartition = mine\n[run]\nsteal_after = 90\n" TIER_A
			   "sbatch = --gres=gpu:2\n", &e) &&
		   !strcmp(c.slurm.partition, "mine") && c.steal_after_ms == 90000 &&
		   !strcmp(c.tiers[0].sbatch, "--gres=gpu:2") && !*c.clamped,
	   "these a run may set as it likes");
	char *text = conf_template("");
	ok(text && !conf_parse(&c, text, &e) && c.steal_after_ms == 60000 && !strcmp(c.agent.image, "/img") &&
		   !strcmp(c.slurm.partition, "work"),
	   "raser init does not write over them: %s", e.text);
	free(text);
}

static void
site_tightens(void)
{
	static const char strict[] =
		"[agent]\ntime_limit = 3600\nnetwork = no\nmount = no\nsandbox = bwrap\n"
		"[limits]\nmax_requeues = 10\nnode_hours = 100\nend = 2027-03-31\n";
	static const char all[] = "[agent] sandbox, [agent] network, [agent] mount, [agent] time_limit, "
				  "[limits] max_requeues, [limits] node_hours, [limits] end";
	struct conf c = { 0 };
	struct err e = { 0 };

	site(strict);
	ok(!conf_parse(&c, "[agent]\ntime_limit = 7200\nnetwork = yes\nmount = yes\nsandbox = none\n"
			   "[limits]\nmax_requeues = 50\nnode_hours = 100.5\nend = 2027-04-01\n" TIER_A, &e),
	   "a run that asks for more is taken: %s", e.text);
	ok(c.agent.time_limit_ms == 3600000 && !c.agent.network && !c.agent.mount &&
		   !strcmp(c.agent.sandbox, "bwrap") && c.limits.max_requeues == 10 &&
		   c.limits.node_hours == 100 && c.limits.end == at(2027, 3, 31, 0, 0, 0),
	   "and gets what the site allows");
	ok(!strcmp(c.clamped, all), "which is told: %s", c.clamped);
	ok(!strcmp(conf_sandbox(&c, "none"), "bwrap") && !strcmp(conf_sandbox(&c, "auto"), "bwrap") &&
		   !strcmp(conf_sandbox(&c, "gvisor"), "gvisor") && !conf_network(&c, true),
	   "options are held like raser.ini");
	ok(!conf_parse(&c, "[agent]\ntime_limit = 60\nsandbox = gvisor\n"
			   "[limits]\nmax_requeues = 0\nnode_hours = 1\nend = 2027-03-30\n" TIER_A, &e) &&
		   c.agent.time_limit_ms == 60000 && !strcmp(c.agent.sandbox, "gvisor") &&
		   c.limits.max_requeues == 0 && c.limits.node_hours == 1 &&
		   c.limits.end == at(2027, 3, 30, 0, 0, 0) && !*c.clamped,
	   "a run may tighten all of it: %s", c.clamped);
	ok(!conf_parse(&c, "[agent]\ntime_limit = 0\nsandbox = auto\n[limits]\nnode_hours = 0\n"
			   "end =\n" TIER_A, &e) &&
		   c.agent.time_limit_ms == 3600000 && !strcmp(c.agent.sandbox, "bwrap") &&
		   c.limits.node_hours == 100 && c.limits.end && !*c.clamped,
	   "no limit is more than the site's, and no wish where it is the default: %s", c.clamped);
	ok(!conf_parse(&c, "[agent]\nsandbox = apptainer\n" TIER_A, &e) &&
		   !strcmp(c.agent.sandbox, "apptainer"), "as strict as the site's will do");
	site("[limits]\nmax_requeues = 0\nnode_hours = 0\n[agent]\nnetwork = yes\nsandbox = auto\n");
	ok(!conf_parse(&c, "[limits]\nmax_requeues = 5\nnode_hours = 7\n[agent]\nnetwork = no\n"
			   "sandbox = none\n" TIER_A, &e) &&
		   c.limits.max_requeues == 0 && c.limits.node_hours == 7 && !c.agent.network &&
		   !strcmp(c.agent.sandbox, "auto") &&
		   !strcmp(c.clamped, "[agent] sandbox, [limits] max_requeues"),
	   "0 requeues are the fewest, 0 node-hours any: %s", c.clamped);
}

static void
site_errors(void)
{
	struct conf c = { 0 };
	struct err e = { 0 };
	char says[4200];

	snprintf(says, sizeof(says), "%s line 3: end must be", site("[limits]\nnode_hours = 1\nend = x\n"));
	ok(conf_parse(&c, TIER_A, &e) == -EINVAL && strstr(e.text, says), "its errors name it: %s", e.text);
	ok(conf_parse(&c, "[limits]\nend = y\n" TIER_A, &e) == -EINVAL && strstr(e.text, says),
	   "and come first");
	site("[limits]\nnode_hours = 1\n");
	ok(conf_parse(&c, "[limits]\nend = y\n" TIER_A, &e) == -EINVAL &&
		   strstr(e.text, "raser.ini line 2"), "those of a run name raser.ini: %s", e.text);
	setenv("RASER_SITE_INI", "/nonexistent/site.ini", 1);
	ok(conf_parse(&c, TIER_A, &e) == -ENOENT && strstr(e.text, "/nonexistent/site.ini"),
	   "one that was named must be there: %s", e.text);
	setenv("RASER_SITE_INI", "", 1);
	ok(!conf_parse(&c, TIER_A, &e) && c.limits.node_hours == 0, "none was named");
	ok(!strcmp(conf_sandbox(&c, "none"), "none") && conf_network(&c, true) && !conf_network(&c, false),
	   "then options say what counts");
}

int
main(void)
{
	setenv("RASER_SITE_INI", "", 1);
	one_file();
	under_slurm();
	ladder();
	site_defaults();
	site_tightens();
	site_errors();
	return done_testing();
}
