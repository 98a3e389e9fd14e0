/*
 * super.c - the supervisor of one agent.
 *
 *             CLAIMED    EXITED     LOST       TERM       TIMER     DRAINED
 *   IDLE      start      -          -          leave      try       leave
 *   WORKING   -          end        stop       stop       touch     -
 *   STOPPING  -          end        (stop)     (stop)     touch,kill -
 *
 * Before the loop it dies with a message; in the loop it never does: it says what is wrong and
 * tries again later. Heartbeats go on until the end of an attempt is answered.
 */
#include <config.h>

#include "super.h"

#include "attempt.h"
#include "clock.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum state { IDLE, WORKING, STOPPING, GONE, STATES };
enum event { EV_CLAIMED, EV_EXITED, EV_LOST, EV_TERM, EV_TIMER, EV_DRAINED, EVENTS };

enum {
	EXIT_FINAL = 65,
	EXIT_NOT_ITS_FAULT = 75,
	TRY_MS = 30000,		/* a look at the queue even when nothing woke us */
	TROUBLE_FIRST_MS = 200, /* between tries while the mount does not answer */
	TROUBLE_LAST_MS = 5000,
	LOST_GRACE_MS = 2000, /* for an agent whose task another one has */
	OOM_PERCENT = 80,     /* peak memory above this part of the limit: out of memory */
	ENV_MAX = 16,
};

struct super {
	const struct super_options *o;
	struct run_info run;
	enum state state;
	int status; /* of super_run(), once GONE */
	int signal_fd, ready_fd;
	struct lease_claim claim;
	struct attempt attempt;
	struct proc proc;
	bool lost;	/* the claim is another's: write no end */
	bool preempted; /* SIGTERM: leave after this attempt */
	int64_t hold_until; /* no claims before */
	int64_t next_touch, kill_at, next_try, trouble_ms, trouble_since;
	struct sandbox_spec box;
	struct sandbox_view view;
	struct sandbox_plan plan;
	char env_text[ENV_MAX][PATH_MAX + 700];
	char *env[ENV_MAX + 1];
};

static int64_t
now_ms(void)
{
	return now_read().boot_ms;
}

static int64_t
touch_every(const struct super *s)
{
	return s->run.steal_after_ms / 6;
}

/* ---- running ---- */

static void
add_env(struct super *s, int *n, const char *name, const char *value)
{
	snprintf(s->env_text[*n], sizeof(s->env_text[*n]), "%s=%s", name, value);
	s->env[*n] = s->env_text[*n];
	s->env[++*n] = NULL;
}

static void
add_env_number(struct super *s, int *n, const char *name, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	add_env(s, n, name, text);
}

static void
make_env(struct super *s)
{
	char id[NAME_LIMIT + 1];
	int n = 0;

	if (name_decode(s->claim.name, id) < 0 || strlen(id) == 0)
		snprintf(id, sizeof(id), "%s", s->claim.name);
	add_env(s, &n, "RASER_TASK_ID", id);
	add_env(s, &n, "RASER_TASK", s->claim.name);
	add_env_number(s, &n, "RASER_ATTEMPT", s->claim.attempt);
	add_env_number(s, &n, "RASER_FAILURES", s->claim.failures);
	add_env(s, &n, "RASER_TIER", s->o->tier);
	add_env_number(s, &n, "RASER_MEMORY", s->run.memory);
	add_env(s, &n, "RASER_TASK_FILE", s->view.task_file);
	add_env(s, &n, "RASER_WORKSPACE", s->view.work);
	add_env(s, &n, "RASER_RESULTS", s->view.results);
	add_env(s, &n, "RASER_CONTROL", s->view.control);
	if (s->o->sandbox == SANDBOX_NONE) {
		add_env(s, &n, "RASER_LEASE", s->claim.lease);
		add_env(s, &n, "RASER_MOUNT", s->o->mnt);
	}
}

/* The verb that tells how the attempt ended. */
static void
make_verb(struct super *s, const struct proc_end *end, char *verb, size_t size)
{
	const char *words = s->attempt.words;
	int64_t limit = s->run.memory;
	int code = WIFEXITED(end->status) ? WEXITSTATUS(end->status) : -1;

	if (end->status == -1 || end->sandbox_failed)
		snprintf(verb, size, "free not-its-fault %s", end->why);
	else if (code == 0)
		snprintf(verb, size, "done"); /* even after a SIGTERM: it finished in its grace */
	else if (code == EXIT_FINAL)
		snprintf(verb, size, "failed status %d: %.120s", code, words);
	else if (s->preempted)
		snprintf(verb, size, "free preempted");
	else if (code == EXIT_NOT_ITS_FAULT)
		snprintf(verb, size, "free not-its-fault %.120s", words);
	else if (code == EXIT_PREEMPTED)
		snprintf(verb, size, "free preempted %.120s", words);
	else if (end->oom || (limit && end->peak_rss >= limit / 100 * OOM_PERCENT))
		snprintf(verb, size, "retry oom peak %lld MB of %lld MB: %.90s",
			 (long long)end->peak_memory >> 20, (long long)limit >> 20, words);
	else if (code >= 0)
		snprintf(verb, size, "retry exit status %d: %.120s", code, words);
	else
		snprintf(verb, size, "retry crash signal %d: %.120s", WTERMSIG(end->status), words);
	text_clean(verb);
}

/* Read what has been signalled; true when somebody wants us to leave. */
static bool
has_term(struct super *s)
{
	struct signalfd_siginfo si;
	bool term = false;

	while (read(s->signal_fd, &si, sizeof(si)) == sizeof(si))
		term |= si.ssi_signo != SIGCHLD;
	return term;
}

/* Write the end until it is answered, beating meanwhile. True: accepted. */
static bool
write_end(struct super *s, const char *verb)
{
	int64_t pause = TROUBLE_FIRST_MS;
	int64_t since = now_ms();

	for (;;) {
		int rc = claim_verb(&s->claim, verb);

		if (!rc)
			return true;
		/* no storage takes so long: the mount is gone, and the claim ends without us */
		if (now_ms() - since > (s->preempted ? s->run.grace_ms : s->run.steal_after_ms)) {
			log_warnx("task %s@%u: its end, \"%s\", was never taken: %s", s->claim.name,
				  s->claim.attempt, verb, strerror(-rc));
			return false;
		}
		if (rc == -ESTALE || rc == -ENOENT || rc == -EPERM) {
			log_info("task %s@%u: this attempt is over already; its result stays in %s",
				 s->claim.name, s->claim.attempt, s->attempt.results);
			return false;
		}
		if (rc == -EINVAL) {
			log_warnx("task %s@%u: the mount does not know \"%s\"", s->claim.name,
				  s->claim.attempt, verb);
			return false;
		}
		log_warnx("task %s@%u: its end is not taken yet (%s); trying again", s->claim.name,
			  s->claim.attempt, strerror(-rc));
		claim_touch(&s->claim);
		struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
		if (poll(&p, 1, (int)pause) > 0 && has_term(s))
			s->preempted = true;
		pause = pause < TROUBLE_LAST_MS ? pause * 2 : TROUBLE_LAST_MS;
	}
}

/* ---- actions: each returns the next state ---- */

static enum state
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

static enum state
idle_drained(struct super *s)
{
	return leave(s, EXIT_DRAINED);
}

/* The mount does not answer: wait for it, but not for ever. */
static enum state
trouble(struct super *s, int rc)
{
	if (!s->trouble_since) {
		s->trouble_since = now_ms();
		s->trouble_ms = TROUBLE_FIRST_MS;
		log_warnx("%s does not answer: %s; waiting for it", s->o->mnt, strerror(-rc));
	}
	if (now_ms() - s->trouble_since > s->run.steal_after_ms) {
		log_warnx("%s did not come back", s->o->mnt);
		return leave(s, EXIT_TROUBLE);
	}
	s->next_try = now_ms() + s->trouble_ms;
	s->trouble_ms = s->trouble_ms < TROUBLE_LAST_MS ? s->trouble_ms * 2 : TROUBLE_LAST_MS;
	if (s->ready_fd >= 0)
		close(s->ready_fd); /* of a mount that is gone */
	s->ready_fd = -1;
	return IDLE;
}

static enum state
dispatch(struct super *s, enum event e);

/* Look for a task. The news is marked as read first, so that none gets lost in between. */
static enum state
idle_try(struct super *s)
{
	char buf[32];

	s->next_try = now_ms() + TRY_MS;
	if (s->ready_fd < 0) {
		char path[PATH_MAX + 64];

		snprintf(path, sizeof(path), "%s/queue/%s/ready", s->o->mnt, s->o->tier);
		s->ready_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (s->ready_fd < 0)
			return trouble(s, -errno);
	}
	if (pread(s->ready_fd, buf, sizeof(buf), 0) < 0)
		return trouble(s, -errno);
	int rc = claim_next(s->o->mnt, s->o->tier, &s->claim);
	if (!rc || rc == -EAGAIN || rc == -ENODATA)
		s->trouble_since = 0;
	if (!rc)
		return dispatch(s, EV_CLAIMED);
	if (rc == -ENODATA)
		return dispatch(s, EV_DRAINED);
	return rc == -EAGAIN ? IDLE : trouble(s, rc);
}

static enum state
idle_start(struct super *s)
{
	int rc = attempt_begin(&s->attempt, &s->run, &s->claim, s->o->local);

	s->lost = false;
	if (!rc) {
		struct err err = { "" };

		s->box = (struct sandbox_spec){
			.argv = s->o->command, .scratch = s->attempt.scratch, .state = s->attempt.state,
			.task_file = s->attempt.task_file, .control = s->attempt.control,
			.results = s->attempt.out, .run = s->run.run, .mnt = s->o->mnt,
			.image = s->o->image, .network = s->o->network, .pass = s->o->pass,
			.binds = s->o->binds,
		};
		sandbox_view(s->o->sandbox, &s->box, &s->view);
		make_env(s);
		rc = sandbox_plan(s->o->sandbox, &s->box, s->env, &s->plan, &err);
		if (rc)
			log_warnx("%s", err.text);
	}
	if (!rc) {
		const struct proc_spec spec = {
			.plan = &s->plan, .scratch = s->attempt.scratch,
			.stdin_path = s->attempt.task_file, .output_fd = s->attempt.log_fd,
			.memory = s->run.memory, .memory_by = s->o->memory_by,
		};
		rc = proc_start(&s->proc, &spec);
		if (rc)
			sandbox_plan_free(&s->plan);
	}
	if (rc) {
		/* the node's fault, not the task's: give it back and let things calm down */
		char verb[200];

		snprintf(verb, sizeof(verb), "free not-its-fault the node cannot start it: %s",
			 strerror(-rc));
		write_end(s, verb);
		attempt_end(&s->attempt);
		claim_close(&s->claim);
		/* and let nothing wake us before: a broken node must not go through the whole queue */
		s->hold_until = s->next_try = now_ms() + TROUBLE_LAST_MS;
		return s->preempted ? leave(s, EXIT_PREEMPTED) : IDLE;
	}
	log_info("task %s@%u: started", s->claim.name, s->claim.attempt);
	s->next_touch = now_ms() + touch_every(s);
	s->kill_at = 0;
	return WORKING;
}

static enum state
work_exited(struct super *s)
{
	struct proc_end end;
	char verb[200];

	proc_finish(&s->proc, &end);
	sandbox_plan_free(&s->plan);
	if (end.sandbox_failed)
		log_warnx("task %s@%u: %s", s->claim.name, s->claim.attempt, end.why);
	attempt_words(&s->attempt);
	make_verb(s, &end, verb, sizeof(verb));
	attempt_record(&s->attempt, &s->claim, &end, s->o->tier, s->run.memory,
		       s->lost ? "lost" : verb);
	if (!s->lost && write_end(s, verb)) {
		log_info("task %s@%u: %s", s->claim.name, s->claim.attempt, verb);
		if (!strcmp(verb, "done"))
			attempt_accept(&s->attempt, &s->run, &s->claim);
	}
	attempt_end(&s->attempt);
	claim_close(&s->claim);
	s->next_try = 0;
	return s->preempted ? leave(s, EXIT_PREEMPTED) : IDLE;
}

static enum state
stop(struct super *s, int64_t grace_ms)
{
	proc_term(&s->proc);
	s->kill_at = now_ms() + grace_ms;
	return STOPPING;
}

static enum state
work_lost(struct super *s)
{
	log_info("task %s@%u: the claim is lost; stopping its agent", s->claim.name,
		 s->claim.attempt);
	s->lost = true;
	return stop(s, s->run.grace_ms < LOST_GRACE_MS ? s->run.grace_ms : LOST_GRACE_MS);
}

static enum state
work_term(struct super *s)
{
	log_info("task %s@%u: SIGTERM; stopping its agent, then giving it back", s->claim.name,
		 s->claim.attempt);
	s->preempted = true;
	return stop(s, s->run.grace_ms);
}

static enum state
stop_term(struct super *s)
{
	s->preempted = true;
	return STOPPING;
}

static enum state
stop_lost(struct super *s)
{
	s->lost = true;
	return STOPPING;
}

static enum state
work_touch(struct super *s)
{
	if (s->state == STOPPING && s->kill_at && now_ms() >= s->kill_at) {
		log_info("task %s@%u: its agent does not end by itself; killing it", s->claim.name,
			 s->claim.attempt);
		proc_kill(&s->proc);
		s->kill_at = 0;
	}
	if (now_ms() < s->next_touch)
		return s->state;
	s->next_touch = now_ms() + touch_every(s);
	int rc = s->lost ? 0 : claim_touch(&s->claim);
	if (rc == -ESTALE || rc == -ENOENT || rc == -EPERM)
		return dispatch(s, EV_LOST);
	if (rc)
		log_warnx("task %s@%u: no heartbeat: %s", s->claim.name, s->claim.attempt,
			  strerror(-rc));
	return s->state;
}

static enum state (*const table[STATES][EVENTS])(struct super *) = {
	[IDLE] = { [EV_CLAIMED] = idle_start, [EV_TERM] = idle_term, [EV_TIMER] = idle_try,
		   [EV_DRAINED] = idle_drained },
	[WORKING] = { [EV_EXITED] = work_exited, [EV_LOST] = work_lost, [EV_TERM] = work_term,
		      [EV_TIMER] = work_touch },
	[STOPPING] = { [EV_EXITED] = work_exited, [EV_LOST] = stop_lost, [EV_TERM] = stop_term,
		       [EV_TIMER] = work_touch },
};

static enum state
dispatch(struct super *s, enum event e)
{
	enum state (*action)(struct super *) = table[s->state][e];

	if (action)
		s->state = action(s);
	return s->state;
}

/* ---- the loop ---- */

static int
wait_ms(const struct super *s)
{
	int64_t next = s->state == IDLE ? s->next_try : s->next_touch;

	if (s->state == STOPPING && s->kill_at && s->kill_at < next)
		next = s->kill_at;
	int64_t ms = next - now_ms();
	return ms < 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

static void
on_signals(struct super *s)
{
	if (has_term(s))
		dispatch(s, EV_TERM);
}

static void
turn(struct super *s)
{
	bool working = s->state != IDLE;
	struct pollfd p[2] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = working			      ? s->proc.fd :
			s->hold_until > now_ms() ? -1 :
						   s->ready_fd,
		  .events = POLLIN },
	};
	int n = poll(p, 2, wait_ms(s));

	if (n < 0)
		return;
	if (p[0].revents)
		on_signals(s);
	if (s->state == GONE)
		return;
	if (p[1].revents && working)
		dispatch(s, EV_EXITED);
	else if ((p[1].revents && !s->trouble_since) || wait_ms(s) == 0)
		dispatch(s, EV_TIMER);
}

int
super_run(const struct super_options *o)
{
	static struct super s; /* large: it holds an environment */
	sigset_t set;

	s = (struct super){ .o = o, .ready_fd = -1, .claim.fd = -1, .attempt.log_fd = -1,
			    .proc.fd = -1 };
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
	proc_init();
	int rc = run_info_read(o->mnt, o->tier, &s.run);
	if (rc) {
		log_warnx(rc == -ENOENT ? "%s: no mount of raserfs with a tier %s" :
					  "%s: cannot be read for tier %s",
			  o->mnt, o->tier);
		return EXIT_TROUBLE;
	}
	while (s.state != GONE)
		turn(&s);
	if (s.ready_fd >= 0)
		close(s.ready_fd);
	close(s.signal_fd);
	return s.status;
}
