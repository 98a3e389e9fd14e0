/*
 * main.c - raserfs: options, healing a dead mount, mounting, and going to the background.
 */
#include <config.h>

#include "detach.h"
#include "loop.h"
#include "mount.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_WANTED = 65536, FAREWELL_MS = 1000 };

struct options {
	char *run, *mountpoint;
	int foreground, debug, claim_open, help, version;
	int supervise, no_supervise, restarts;
	char *grace;
	char *until, *since;
	char *tmp;
	char *log;
	bool bad;
};

#define OPTION(text, field) { text, offsetof(struct options, field), 1 }

static const struct fuse_opt option_specs[] = {
	OPTION("-f", foreground),
	OPTION("-d", debug),
	OPTION("debug", debug),
	OPTION("-h", help),
	OPTION("--help", help),
	OPTION("-V", version),
	OPTION("--version", version),
	OPTION("claim=open", claim_open),
	OPTION("supervise", supervise),
	OPTION("nosupervise", no_supervise),
	OPTION("restarts=%d", restarts),
	OPTION("grace=%s", grace),
	OPTION("until=%s", until),
	OPTION("since=%s", since),
	OPTION("tmp=%s", tmp),
	OPTION("log=%s", log),
	FUSE_OPT_END,
};

static int
on_option(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct options *o = data;

	(void)out;
	if (key == FUSE_OPT_KEY_NONOPT) {
		char **slot = !o->run ? &o->run : !o->mountpoint ? &o->mountpoint : NULL;

		if (!slot) {
			fprintf(stderr, "raserfs: one RUN and one MOUNTPOINT, not also %s\n", arg);
			o->bad = true;
			return 0;
		}
		*slot = strdup(arg);
		return *slot ? 0 : -1;
	}
	if (!strcmp(arg, "allow_other") || !strcmp(arg, "allow_root") ||
	    strstr(arg, ",allow_other")) {
		fputs("raserfs: a mount is its user's alone; allow_other is not supported\n", stderr);
		o->bad = true;
		return 0;
	}
	return 1; /* libfuse knows it, or says that it does not */
}

static void
usage(FILE *f)
{
	fputs("usage: raserfs [-f] [-d] [-o OPTION,...] RUN MOUNTPOINT\n"
	      "Show the run directory RUN as a task queue at MOUNTPOINT.\n\n"
	      "  -f               stay in the foreground, and do not mount again\n"
	      "  -d               the same, and print every request\n"
	      "  -o supervise     with -f: mount again when the serving process dies, as without -f\n"
	      "  -o nosupervise   do not mount again\n"
	      "  -o claim=open    reading a listed task claims it too\n"
	      "  -o grace=S       seconds to wait for held claims after SIGTERM\n"
	      "  -o until=TIME    end of this node's time, in seconds since 1970: offer no task that is\n"
	      "                   expected to take longer\n"
	      "  -o since=TIME    when that time began (default: now)\n"
	      "  -o tmp=DIR       node-local directory for submissions (default $TMPDIR or /tmp)\n"
	      "  -o log=FILE      where a daemon in the background writes what it has to say\n"
	      "  -V, -h           version, this text\n\n"
	      "End it with `fusermount3 -u MOUNTPOINT` (umount, as root) or SIGTERM. See raserfs(8).\n",
	      f);
}

static bool
is_dev_fd(const char *mountpoint)
{
	return !strncmp(mountpoint, "/dev/fd/", 8);
}

/* Seconds since 1970, of these times; 0 = not said. */
static bool
good_time(const char *name, const char *text, int64_t *out)
{
	enum { LONG_AGO = 1000000000 }; /* smaller numbers are meant to be something else */
	char *end = NULL;
	double v = text ? strtod(text, &end) : 0;

	*out = (int64_t)v;
	if (!text || (end != text && !*end && v >= LONG_AGO && v < 1e11))
		return true;
	fprintf(stderr, "raserfs: %s=%s: not a time in seconds since 1970, as date +%%s prints it\n",
		name, text);
	return false;
}

/* Values that would only be missed later. */
static bool
good_options(const struct options *o, struct queue_options *qo)
{
	char *end = NULL;

	if (!good_time("until", o->until, &qo->until) || !good_time("since", o->since, &qo->since))
		return false;
	if (o->since && !o->until) {
		fputs("raserfs: since says nothing without until\n", stderr);
		return false;
	}
	if (o->until && !o->since) /* once for all: who is mounted again has no time of its own */
		qo->since = now_read().wall_s;
	if (o->grace && (!(strtod(o->grace, &end) >= 0) || end == o->grace || *end)) {
		fprintf(stderr, "raserfs: grace=%s: not a number of seconds\n", o->grace);
		return false;
	}
	if (o->supervise && (o->no_supervise || o->debug || is_dev_fd(o->mountpoint))) {
		fprintf(stderr, "raserfs: supervise does not go with %s\n",
			o->no_supervise ? "nosupervise" :
			o->debug	? "-d" :
					  "a descriptor: who has mounted it must mount again");
		return false;
	}
	if (o->tmp && access(o->tmp, W_OK | X_OK) < 0) {
		fprintf(stderr, "raserfs: tmp=%s: %s\n", o->tmp, strerror(errno));
		return false;
	}
	return true;
}

/* ---- the mount point ---- */

/* A living mount of ours, by a file that no other file system has. */
static bool
is_raserfs(const char *mountpoint)
{
	char path[PATH_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/status.json", mountpoint);
	if (lstat(path, &st) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/queue", mountpoint);
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A daemon that died leaves a mount that answers ENOTCONN to everything: take it away. */
static int
heal(const char *mountpoint)
{
	struct statfs fs;
	struct stat st;

	/* not stat(2): the kernel would answer that for a dead mount from its cache */
	if (statfs(mountpoint, &fs) == 0) {
		if (stat(mountpoint, &st) < 0 || !S_ISDIR(st.st_mode)) {
			fprintf(stderr, "raserfs: %s: not a directory\n", mountpoint);
			return -1;
		}
		if (fs.f_type == FUSE_SUPER_MAGIC && st.st_ino == FIXED_ROOT &&
		    is_raserfs(mountpoint)) {
			fprintf(stderr, "raserfs: %s: a run is mounted here already\n", mountpoint);
			return -1;
		}
		return 0;
	}
	if (errno != ENOTCONN && errno != ECONNABORTED) {
		fprintf(stderr, "raserfs: %s: %s\n", mountpoint, strerror(errno));
		return -1;
	}
	log_info("%s: taking away the mount of a daemon that died", mountpoint);
	if (mount_detach(mountpoint))
		return 0;
	fprintf(stderr, "raserfs: %s: a dead mount is there and cannot be taken away\n", mountpoint);
	return -1;
}

/* A mount there would hide the run from its own daemon, and from the agents. Both are real paths. */
static bool
is_hidden(const char *run, const char *mountpoint)
{
	size_t len = strlen(mountpoint);

	if (strncmp(run, mountpoint, len) != 0 || (run[len] && run[len] != '/' && len > 1))
		return false;
	fprintf(stderr, "raserfs: %s: the mount would hide %s; mount it elsewhere\n", mountpoint, run);
	return true;
}

/* Half of the longest time that the kernel lets a request take, in ms; 0 = as long as it likes.
 * A request over that limit would abort the whole mount (fuse, request_timeout). */
static int64_t
kernel_patience(void)
{
	static const char *const files[] = { "/proc/sys/fs/fuse/max_request_timeout",
					     "/proc/sys/fs/fuse/default_request_timeout" };
	long least = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *f = fopen(files[i], "re");
		long v = 0;

		if (f && fscanf(f, "%ld", &v) == 1 && v > 0 && (!least || v < least))
			least = v;
		if (f)
			fclose(f);
	}
	return least * 500;
}

/* ---- going to the background ---- */

static int ready_fd = -1;
static int log_fd = -1;

/* Fork before there is any thread; the parent stays until the child says how it went. */
static int
background(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid > 0) {
		char ok = 0;
		ssize_t n;

		close(fds[1]);
		do {
			n = read(fds[0], &ok, 1);
		} while (n < 0 && errno == EINTR);
		_exit(n == 1 && ok ? 0 : 1);
	}
	close(fds[0]);
	ready_fd = fds[1];
	setsid();
	return chdir("/");
}

/* Let go of what the starter has lent, once it serves. */
static void
let_go(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	log_flush(FAREWELL_MS); /* what was said so far is for who started us */
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(log_fd >= 0 ? log_fd : null, STDERR_FILENO);
		close(null);
	}
}

static void
say_ready(void)
{
	if (ready_fd < 0)
		return;
	let_go();
	if (write(ready_fd, "\1", 1) != 1)
		log_warn("the parent process is gone");
	close(ready_fd);
	ready_fd = -1;
}

/* ---- serving ---- */

static void
on_serving(struct mount *m)
{
	char owner[OWNER_TEXT];

	if (m->supervised.fd < 0) {
		say_ready();
		return;
	}
	/* the supervisor says so, once it has let go as well */
	if (ready_fd >= 0) {
		let_go();
		close(ready_fd);
		ready_fd = -1;
	}
	queue_owner(m->q, owner);
	tell_serving(&m->supervised, owner, queue_uuid(m->q));
}

/* Mount, serve, unmount: an exit status. */
static int
serve_mount(struct mount *m, const char *mountpoint)
{
	struct mount_entry top;

	tell_mounting(&m->supervised, m->conf->wedged_after_ms);
	if (fuse_session_mount(m->se, mountpoint))
		return 1;
	if (m->mountpoint && mountinfo_top(m->mountpoint, &top) && top.fuse)
		m->minor = top.minor;
	fcntl(fuse_session_fd(m->se), F_SETFL, fcntl(fuse_session_fd(m->se), F_GETFL) | O_NONBLOCK);
	int rc = work_start(m);
	if (!rc) {
		on_serving(m);
		rc = loop_run(m);
	}
	if (rc == -ECONNABORTED)
		log_warnx("%s: the connection was broken off, and not by an unmount", mountpoint);
	else if (rc)
		log_warnx("serving: %s", strerror(-rc));
	fuse_session_unmount(m->se);
	return rc == -ECONNABORTED && m->supervised.fd >= 0 ? EXIT_BROKEN : rc ? 1 : 0;
}

static int
serve_run(struct options *o, const struct queue_options *qo, struct fuse_args *args,
	  struct mount *m)
{
	struct err err = { 0 };
	char source[PATH_MAX + 64];
	sigset_t set;

	/* each submission, batch and client takes some */
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max < FILES_WANTED ? files.rlim_max : FILES_WANTED;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/* every thread inherits this; the loop reads them from a descriptor */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	int rc = log_in_background();
	if (rc) {
		fprintf(stderr, "raserfs: no thread can be started: %s\n", strerror(-rc));
		return 1;
	}

	m->q = queue_open(o->run, qo, now_read(), &err);
	if (!m->q) {
		fprintf(stderr, "raserfs: %s\n", err.text);
		return 1;
	}
	int status = 1;
	if (m->supervised.uuid[0] && strcmp(m->supervised.uuid, queue_uuid(m->q)) != 0) {
		log_warnx("%s is another run by now; leaving", o->run);
		status = EXIT_OTHER_RUN;
		goto out;
	}
	m->conf = queue_conf(m->q);
	m->grace_ms = o->grace ? llround(strtod(o->grace, NULL) * 1000) : m->conf->grace_ms;
	snprintf(source, sizeof(source), "-ofsname=%s,subtype=raserfs", queue_path(m->q));
	/* a comma or backslash would end the option */
	for (char *p = source + 10; *p; p++)
		if ((*p == ',' && strcmp(p, ",subtype=raserfs") != 0) || *p == '\\')
			*p = '_';
	if (!fuse_opt_add_arg(args, source))
		m->se = fuse_session_new(args, &mount_ops, sizeof(mount_ops), m);
	if (m->se)
		status = serve_mount(m, o->mountpoint);
out:
	new_free(m);
	handles_free(m);
	queue_close(m->q, now_read());
	if (m->se)
		fuse_session_destroy(m->se);
	return status;
}

int
main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct options o = { 0 };
	struct queue_options qo = { .join = true, .admit = true };
	struct mount m = { .uid = geteuid(), .gid = getegid(), .supervised.fd = -1 };
	int rc = 1;

	log_init("raserfs", LOG_INFO);
	if (fuse_opt_parse(&args, &o, option_specs, on_option) < 0)
		goto out;
	if (o.help || o.version) {
		if (o.version)
			printf("raserfs %s, libfuse %s\n", PACKAGE_VERSION, fuse_pkgversion());
		else
			usage(stdout);
		rc = 0;
		goto out;
	}
	if (!o.bad && !good_options(&o, &qo))
		goto out;
	if (o.bad || !o.run || !o.mountpoint) {
		usage(stderr);
		goto out;
	}
	/* both must still mean the same after chdir(2) */
	char *run = realpath(o.run, NULL);
	if (!run) {
		fprintf(stderr, "raserfs: %s: %s\n", o.run, strerror(errno));
		goto out;
	}
	free(o.run);
	o.run = run;
	if (!is_dev_fd(o.mountpoint)) {
		if (heal(o.mountpoint))
			goto out;
		char *mnt = realpath(o.mountpoint, NULL);

		if (mnt) {
			free(o.mountpoint);
			o.mountpoint = mnt;
		}
		if (is_hidden(o.run, o.mountpoint))
			goto out;
	}
#ifdef SYS_close_range
	/* what its starter has open, such as the lock of a script, is none of a daemon's */
	if (!o.foreground && !o.debug && !is_dev_fd(o.mountpoint))
		syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
	if (o.log) {
		log_fd = open(o.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (log_fd < 0) {
			fprintf(stderr, "raserfs: %s: %s\n", o.log, strerror(errno));
			goto out;
		}
	}
	if (o.tmp) {
		char *tmp = realpath(o.tmp, NULL);

		if (tmp) {
			free(o.tmp);
			o.tmp = tmp;
		}
		qo.tmp = o.tmp;
	}
	if (o.debug) {
		log_init("raserfs", LOG_DEBUG);
		if (fuse_opt_add_arg(&args, "-odebug"))
			goto out;
	}
	if (!o.foreground && !o.debug && background()) {
		perror("raserfs: going to the background");
		goto out;
	}
	m.supervised.restarts = o.restarts;
	bool back = ready_fd >= 0;
	const struct supervision sup = { .run = o.run, .mountpoint = o.mountpoint,
					 .restarts = o.restarts, .ready = back ? say_ready : NULL };
	if (is_dev_fd(o.mountpoint)) {
		if (back && !o.no_supervise)
			log_info("%s: who has mounted it must mount again should this daemon die",
				 o.mountpoint);
	} else if (o.supervise || (back && !o.no_supervise)) {
		rc = supervise(&sup, &m.supervised);
		if (rc >= 0)
			goto out;
		rc = 1;
	}
	m.mountpoint = is_dev_fd(o.mountpoint) ? NULL : o.mountpoint;
	m.started = now_read();
	m.patience_ms = kernel_patience();
	pthread_mutex_init(&m.lock, NULL);
	m.claim_on_open = o.claim_open;
	m.duty_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	park_init(&m);
	if (m.duty_fd >= 0)
		rc = serve_run(&o, &qo, &args, &m);
	park_free(&m);
	close(m.duty_fd);
	pthread_mutex_destroy(&m.lock);
out:
	fuse_opt_free_args(&args);
	free(o.run);
	free(o.mountpoint);
	free(o.grace);
	free(o.until);
	free(o.since);
	free(o.tmp);
	free(o.log);
	return rc;
}
