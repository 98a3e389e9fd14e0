/*
 * super.c - the supervisor of one agent: the table, the queue, the loop.
 *
 *              CLAIMED  JOB       EXITED  LOST     TERM     LIMIT  TIMER          DRAINED
 *   SETUP      -        ready     -       -        leave    -      set up again   -
 *   IDLE       prepare  -         -       -        leave    -      look           leave
 *   PREPARING  -        start     -       clean    free     -      touch          -
 *   WORKING    -        snapshot  finish  stop     stop     stop   touch, sample, -
 *                                                                  snapshot
 *   STOPPING   -        snapshot  finish  (lost)   (term)   -      touch, kill    -
 *   SAVING     -        end       -       clean    (term)   -      touch, give up -
 *   ENDING     -        -         -       clean    (term)   -      write the end  -
 *   CLEANING   -        idle      -       -        (term)   -      -              -
 *
 * Before the loop it dies with a message; in the loop it never does: it says what is wrong and
 * tries again later. Heartbeats go on until the end of an attempt is answered, and whatever may
 * take long is a job in a child.
 */
#include <config.h>

#include "super_impl.h"

#include "log.h"
#include "plugin.h"
#include "program.h"
#include "setup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	TRY_MS = 30000, /* a look at the queue even when nothing woke us */
	FAULT_LAST_MS = 60000,
	TURN_MS = 60000,
};

/* ---- setting up ---- */

struct setup_report {
	char why[320];
};

static int
setup_node(const void *arg, void *report)
{
	const struct super *s = arg;
	struct setup_report *r = report;
	struct err err = { 0 };
	int rc = 0;
	char **argv = plugin_split(s->conf.agent.plugin, "setup", &err);

	if (argv)
		rc = setup_run(argv, s->o->local, s->uuid, &err);
	snprintf(r->why, sizeof(r->why), "%s", err.text);
	plugin_free(argv);
	return argv ? rc : -EINVAL;
}

bool
start_job(struct super *s, job_fn *fn, const void *arg, size_t size)
{
	int rc = job_start(&s->job, fn, arg, size, s->claim.fd);

	if (rc)
		log_warnx("no process can be made: %s", strerror(-rc));
	return rc == 0;
}

/* The node cannot do its part: let nothing wake us for a growing time, or a broken node would go
 * through the whole queue. */
void
pause_for_fault(struct super *s)
{
	s->fault_ms = s->fault_ms ? s->fault_ms * 2 : TROUBLE_LAST_MS / 5;
	if (s->fault_ms > FAULT_LAST_MS)
		s->fault_ms = FAULT_LAST_MS;
	s->next_try = s->hold_until = now_ms() + s->fault_ms;
}

static enum state
setup_timer(struct super *s)
{
	struct err err = { 0 };

	s->next_try = now_ms() + TURN_MS;
	if (s->node_fd < 0)
		s->node_fd = setup_hold(s->o->local, s->uuid, &err);
	if (s->node_fd < 0) {
		pause_for_fault(s);
		log_warnx("this node cannot be set up: %s", err.text);
	} else if (!s->job.pid && !start_job(s, setup_node, s, sizeof(struct setup_report)))
		pause_for_fault(s);
	return SETUP;
}

static enum state
setup_job(struct super *s)
{
	struct setup_report r;
	int rc = job_finish(&s->job, &r);

	if (rc) {
		pause_for_fault(s);
		log_warnx("this node cannot be set up: %s; trying again in %lld s",
			  r.why[0] ? r.why : strerror(-rc), (long long)(s->fault_ms / 1000));
		return SETUP;
	}
	s->fault_ms = s->next_try = 0;
	return IDLE;
}

static enum state
setup_term(struct super *s)
{
	if (s->job.pid) {
		job_kill(&s->job);
		job_finish(&s->job, NULL);
	}
	return leave(s, EXIT_PREEMPTED);
}

/* ---- the queue ---- */

enum state
leave(struct super *s, int status)
{
	s->status = status;
	return GONE;
}

static enum state
idle_term(struct super *s)
{
	return leave(s, EXIT_PREEMPTED);
}

/* An agentd that was killed between the end of a task and its last chore leaves checkpoints that
 * nobody needs. Few, so whoever is the last looks after them. */
static void
tidy(struct super *s)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/checkpoints", s->run.run);
	DIR *d = opendir(path);
	if (!d)
		return;
	for (const struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.' || !s->queue.ops->is_done(&s->queue, e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/checkpoints/%.255s", s->run.run, e->d_name);
		store_remove(path);
	}
	closedir(d);
}

static enum state
idle_drained(struct super *s)
{
	log_info("the queue is drained: nothing is left for tier %s", s->o->tier);
	tidy(s);
	return leave(s, EXIT_DRAINED);
}

/* The queue does not answer: wait for it, but not for ever. */
static enum state
trouble(struct super *s, int rc)
{
	if (!s->trouble_since) {
		s->trouble_since = now_ms();
		s->trouble_ms = TROUBLE_FIRST_MS;
		log_warnx("%s does not answer: %s; waiting for it", s->queue.path, strerror(-rc));
	}
	if (now_ms() - s->trouble_since > s->run.steal_after_ms) {
		log_warnx("%s did not come back", s->queue.path);
		return leave(s, EXIT_TROUBLE);
	}
	s->next_try = now_ms() + s->trouble_ms;
	s->trouble_ms = s->trouble_ms < TROUBLE_LAST_MS ? s->trouble_ms * 2 : TROUBLE_LAST_MS;
	return IDLE;
}

/* Nobody shall take anything more of this run: somebody says so by a file in its directory, or its end
 * has come. */
static bool
is_closed(const struct super *s)
{
	char path[PATH_MAX + 16];
	int64_t end = s->conf.limits.end;

	if (end && now_read().wall_s >= end) {
		log_info("the end of this run ([limits] end) has come; leaving");
		return true;
	}
	snprintf(path, sizeof(path), "%s/drain", s->run.run);
	if (access(path, F_OK) < 0)
		return false;
	log_info("%s is there; leaving", path);
	return true;
}

/* Look for a task. */
static enum state
idle_timer(struct super *s)
{
	if (now_ms() < s->hold_until)
		return IDLE;
	s->next_try = now_ms() + TRY_MS;
	if (is_closed(s))
		return leave(s, EXIT_DRAINED);
	int rc = s->queue.ops->next(&s->queue, &s->claim);
	if (rc == -EINTR) { /* there are signals to be heard first */
		s->next_try = now_ms();
		return IDLE;
	}
	if (!rc || rc == -EAGAIN || rc == -ENODATA)
		s->trouble_since = 0;
	if (!rc)
		return dispatch(s, EV_CLAIMED);
	if (rc == -ENODATA)
		return dispatch(s, EV_DRAINED);
	if (rc == -ETIME) {
		log_info("every task that is left takes longer than there is time here; leaving");
		return leave(s, EXIT_LATE);
	}
	return rc == -EAGAIN ? IDLE : trouble(s, rc);
}

/* ---- the table ---- */

static action_fn *const table[STATES][EVENTS] = {
	[SETUP] = { [EV_JOB] = setup_job, [EV_TERM] = setup_term, [EV_TIMER] = setup_timer },
	[IDLE] = { [EV_CLAIMED] = work_prepare, [EV_TERM] = idle_term, [EV_TIMER] = idle_timer,
		   [EV_DRAINED] = idle_drained },
	[PREPARING] = { [EV_JOB] = prepare_job, [EV_LOST] = prepare_lost,
			[EV_TERM] = prepare_term, [EV_TIMER] = prepare_timer },
	[WORKING] = { [EV_JOB] = shot_job, [EV_EXITED] = work_exited, [EV_LOST] = work_lost,
		      [EV_TERM] = work_term, [EV_LIMIT] = work_limit, [EV_TIMER] = work_timer },
	[STOPPING] = { [EV_JOB] = shot_job, [EV_EXITED] = work_exited, [EV_LOST] = stop_lost,
		       [EV_TERM] = stop_term, [EV_TIMER] = work_timer },
	[SAVING] = { [EV_JOB] = finish_job, [EV_LOST] = finish_lost, [EV_TERM] = finish_term,
		     [EV_TIMER] = finish_timer },
	[ENDING] = { [EV_LOST] = ending_lost, [EV_TERM] = ending_term, [EV_TIMER] = ending_timer },
	[CLEANING] = { [EV_JOB] = clean_job, [EV_TERM] = clean_term },
};

enum state
dispatch(struct super *s, enum event e)
{
	action_fn *action = table[s->state][e];

	if (action)
		s->state = action(s);
	return s->state;
}

/* ---- the loop ---- */

static void
earlier(int64_t *next, int64_t at)
{
	if (at && at < *next)
		*next = at;
}

/* When something is due, in boot ms. */
static int64_t
next_due(const struct super *s)
{
	int64_t next = now_ms() + TURN_MS;

	switch (s->state) {
	case SETUP:
	case IDLE:
	case ENDING:
		return s->next_try < next ? s->next_try : next;
	case WORKING:
		earlier(&next, s->shot == SHOT_NONE ? s->next_save : 0);
		earlier(&next, s->next_sample);
		earlier(&next, s->next_touch);
		break;
	case STOPPING:
		earlier(&next, s->kill_at);
		earlier(&next, s->next_touch);
		break;
	case PREPARING:
	case SAVING:
		earlier(&next, s->leave_by);
		earlier(&next, s->next_touch);
		break;
	default:
		break;
	}
	return next;
}

/* Read what has been signalled; true when somebody wants us to leave. */
static bool
has_term(struct super *s)
{
	struct signalfd_siginfo si;
	bool term = false;

	while (read(s->signal_fd, &si, sizeof(si)) == sizeof(si))
		term |= si.ssi_signo != SIGCHLD && si.ssi_signo != SIGCONT;
	return term;
}

bool
hears_term(struct super *s, int64_t ms)
{
	int64_t until = now_ms() + ms;
	bool term = false;

	for (int64_t left = ms; left > 0 && !term; left = until - now_ms()) {
		struct pollfd p = { s->signal_fd, POLLIN, 0 };

		if (poll(&p, 1, (int)left) > 0)
			term = has_term(s);
	}
	return term;
}

/* Something happened to the queue that we should not hear of with the next heartbeat only. */
static void
look_at_queue(struct super *s)
{
	if (!s->queue.ops->heard(&s->queue))
		return;
	s->drift_ms = DRIFT_FIRST_MS;
	switch (s->state) {
	case IDLE:
		if (s->trouble_since)
			s->next_try = 0;
		break;
	case ENDING:
		s->next_try = 0;
		break;
	default:
		s->next_touch = now_ms();
	}
}

static void
turn(struct super *s)
{
	enum { SIGNALS, AGENT, JOB, NEWS, CONTROL, QUEUE, FDS };
	bool agent = s->state == WORKING || s->state == STOPPING;
	bool waits = s->state == IDLE && now_ms() >= s->hold_until && !s->trouble_since;
	struct pollfd p[FDS] = {
		[SIGNALS] = { s->signal_fd, POLLIN, 0 },
		[AGENT] = { agent ? s->proc.fd : -1, POLLIN, 0 },
		[JOB] = { s->job.pid ? s->job.fd : -1, POLLIN, 0 },
		[NEWS] = { waits ? s->queue.news_fd : -1, POLLIN, 0 },
		[CONTROL] = { s->state == WORKING ? s->control.notify_fd : -1, POLLIN, 0 },
		[QUEUE] = { s->queue.watch_fd, s->queue.watch_events, 0 },
	};
	int64_t most = s->queue.ops->turn(&s->queue, waits);
	int64_t ms = next_due(s) - now_ms();
	if (most >= 0 && most < ms)
		ms = most;
	int n = poll(p, FDS, ms < 0 ? 0 : (int)ms);

	if (n < 0)
		return;
	if (p[QUEUE].revents)
		look_at_queue(s);
	if (p[SIGNALS].revents && has_term(s))
		dispatch(s, EV_TERM);
	enum state before = s->state;
	if (before == GONE)
		return;
	if (p[JOB].revents && s->job.pid)
		dispatch(s, EV_JOB);
	if (p[AGENT].revents && (s->state == WORKING || s->state == STOPPING))
		dispatch(s, EV_EXITED);
	else if (p[CONTROL].revents && s->state == before && s->state == WORKING)
		s->next_sample = now_ms(); /* what it says is read with the next sample */
	if (s->state == before && (p[NEWS].revents || next_due(s) <= now_ms()))
		dispatch(s, EV_TIMER);
}

/* ---- the beginning ---- */

/* The words of a list of raser.ini, and those of the command line, for as long as we live. */
static char **
split_words(char *text, char *const *more)
{
	size_t n = 0;
	size_t nmore = 0;
	char *save = NULL;

	while (more[nmore])
		nmore++;
	char **words = calloc(strlen(text) / 2 + 2 + nmore, sizeof(*words));

	for (char *w = words ? strtok_r(text, " \t\r\n", &save) : NULL; w;
	     w = strtok_r(NULL, " \t\r\n", &save))
		words[n++] = w;
	if (words)
		memcpy(words + n, more, nmore * sizeof(*words));
	return words;
}

/* "auto": what works here. A sandbox that was asked for by name must work. */
static bool
choose_sandbox(struct super *s)
{
	const char *asked = s->o->sandbox ? s->o->sandbox : s->conf.agent.sandbox;
	const char *name = conf_sandbox(&s->conf, asked);
	const struct sandbox_spec spec = {
		.image = s->conf.agent.image, .binds = (const char *const *)s->binds,
		.network = s->conf.agent.network, .run = s->run.run,
	};
	if (strcmp(name, asked) != 0)
		log_warnx("site.ini asks for sandbox %s; %s does not count", name, asked);
	bool chosen = !strcmp(name, "auto"); /* by us; but an image asks for some sandbox */
	int kind = chosen ? SANDBOX_BWRAP : sandbox_kind_parse(name);
	struct err err = { 0 };

	if (kind < 0) {
		log_warnx("there is no sandbox called %s", name);
		return false;
	}
	s->sandbox = (enum sandbox_kind)kind;
	if (s->sandbox == SANDBOX_NONE || !sandbox_probe(s->sandbox, &spec, s->o->local, &err))
		return true;
	if (!chosen || s->conf.agent.image[0]) {
		log_warnx("%s", err.text);
		return false;
	}
	log_warnx("agents run without a sandbox: %s", err.text);
	s->sandbox = SANDBOX_NONE;
	return true;
}

/* The version of a cgroup that can be made here, or 0 and why not. */
static int
try_cgroup(const struct super *s, struct err *err)
{
	struct cgroup own = { 0 };

	if (cgroup_make(memory_roots_system(), s->run.memory, &own, err))
		return 0;
	cgroup_remove(&own);
	return own.version;
}

/* Who asks for cgroups must get them. */
static bool
check_memory(const struct super *s)
{
	struct err err = { 0 };

	if (s->memory_by != MEMORY_CGROUP || !s->run.memory || try_cgroup(s, &err))
		return true;
	log_warnx("memory cannot be limited by a cgroup on this node: %s", err.text);
	return false;
}

static bool
choose_command(struct super *s)
{
	struct err err = { 0 };

	if (s->o->command) {
		char path[PATH_MAX];
		int rc = s->conf.agent.image[0] ? 0 : program_find(s->o->command[0], path);

		if (rc)
			log_warnx("%s: %s", s->o->command[0], strerror(-rc));
		s->command = (char **)(uintptr_t)s->o->command;
		return rc == 0;
	}
	if (!s->conf.agent.plugin[0]) {
		log_warnx("no command is given, and raser.ini names no plugin");
		return false;
	}
	s->is_plugin = true;
	s->command = plugin_split(s->conf.agent.plugin, "run_task", &err);
	if (!s->command)
		log_warnx("%s", err.text);
	return s->command;
}

/* The run's unique name, from FORMAT. */
static void
read_uuid(struct super *s)
{
	char path[PATH_MAX + 16];
	char text[128] = "";

	snprintf(path, sizeof(path), "%s/FORMAT", s->run.run);
	FILE *f = fopen(path, "re");
	const char *line = f ? fgets(text, sizeof(text), f) : NULL;
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	const char *last = line ? strrchr(text, ' ') : NULL;
	snprintf(s->uuid, sizeof(s->uuid), "%.63s", last ? last + 1 : "run");
}

/* 0 or an exit status. */
static int
configure(struct super *s)
{
	struct err err = { 0 };

	if (s->queue.ops->open(&s->queue, &s->run, &err)) {
		log_warnx("%s", err.text);
		return EXIT_TROUBLE;
	}
	if (conf_load(&s->conf, s->run.run, &err)) {
		log_warnx("%s", err.text);
		return EXIT_UNFIT;
	}
	struct agent_conf *c = &s->conf.agent;
	if (s->o->image)
		snprintf(c->image, sizeof(c->image), "%s", s->o->image);
	if (s->o->network && !conf_network(&s->conf, true))
		log_warnx("site.ini lets no agent use the network; --network does not count");
	else if (s->o->network)
		c->network = true;
	const char *by = s->o->memory_by ? s->o->memory_by : c->memory_by;
	s->memory_by = !strcmp(by, "cgroup") ? MEMORY_CGROUP :
		       !strcmp(by, "poll")   ? MEMORY_POLL :
					       MEMORY_AUTO;
	s->binds = split_words(c->bind, s->o->binds);
	s->pass = split_words(c->env, s->o->pass);
	read_uuid(s);
	setup_cache(s->o->local, s->uuid, s->cache);
	if (c->mount && !s->queue.mnt)
		log_warnx("raser.ini wants agents to see the mount, and there is none");
	return s->binds && s->pass && choose_command(s) && choose_sandbox(s) && check_memory(s) ?
		       0 :
		       EXIT_UNFIT;
}

/* What agents on this node run in: for people, before any of them does. */
static void
describe(const struct super *s, char *text, size_t size)
{
	struct err err = { 0 };
	int version = s->run.memory && s->memory_by != MEMORY_POLL ? try_cgroup(s, &err) : 0;
	const char *by = !s->run.memory ? "not limited" :
			 version == 1	? "limited by cgroup v1" :
			 version == 2	? "limited by cgroup v2" :
					  "polled";

	bool boxed = s->sandbox != SANDBOX_NONE;

	snprintf(text, size, "%sagents run %s%s%s, their memory is %s%s%s%s",
		 s->o->direct ? "without a mount, " : "",
		 boxed ? "in the sandbox " : "without a sandbox",
		 boxed ? sandbox_kind_name(s->sandbox) : "",
		 !boxed			 ? "" :
		 s->conf.agent.network ? ", with the network" :
					 ", without network",
		 by, err.text[0] ? " (no cgroup: " : "", err.text, err.text[0] ? ")" : "");
}

int
super_run(const struct super_options *o)
{
	static struct super s; /* large: it holds paths and a line of an agent's */
	sigset_t set;

	s = (struct super){ .o = o, .node_fd = -1, .claim.fd = -1, .attempt.log_fd = -1, .attempt.lock_fd = -1,
			    .proc.fd = -1, .job.fd = -1, .control.fd = -1,
			    .control.notify_fd = -1, .trajectory.state_fd = -1,
			    .trajectory.results_fd = -1 };
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signal_fd < 0) {
		log_warn("signals");
		return EXIT_TROUBLE;
	}
	/* if somebody kills the guard, its orphans come to us */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	s.queue = (struct queue_access){ .path = o->path, .tier = o->tier, .local = o->local,
					 .until = o->until, .since = o->since, .status = o->status,
					 .urgent_fd = s.signal_fd };
	if (o->direct)
		access_direct(&s.queue);
	else
		access_mount(&s.queue);
	int status = configure(&s);
	if (status)
		return status;
	char text[480];
	describe(&s, text, sizeof(text));
	if (o->check)
		return puts(text) < 0 || fflush(stdout) ? EXIT_TROUBLE : 0;
	log_info("%s", text);
	struct err err = { 0 };
	int rc;
	while ((rc = s.queue.ops->join(&s.queue, &err)) == -EINTR)
		if (has_term(&s))
			return EXIT_PREEMPTED;
	if (rc) {
		log_warnx("%s", err.text);
		return EXIT_TROUBLE;
	}
	attempt_sweep(o->local);
	proc_init();
	s.state = s.is_plugin ? SETUP : IDLE;
	while (s.state != GONE)
		turn(&s);
	if (s.status == EXIT_DRAINED && s.node_fd >= 0)
		setup_leave(s.node_fd, o->local, s.uuid);
	s.queue.ops->leave(&s.queue);
	close(s.signal_fd);
	return s.status;
}
