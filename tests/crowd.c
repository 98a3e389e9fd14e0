/*
 * crowd.c - many clients of a mount at once, and what came of it in one line.
 *
 *     crowd waiters N PATH    N threads in open(PATH), under orders (see do_waiters)
 *     crowd race PROCS N PREFIX DIR...   who wins the names PREFIX1@1 to PREFIXN@1
 *     crowd storm MNT TIER WAITERS ADDS ROUNDS    holders that are killed at any moment
 *     crowd ends THREADS write|rename MNT < NAMES    completions in parallel; milliseconds
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chk.h"

enum { ERRORS = 256, NAME = 256 };

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void
nap(int ms)
{
	poll(NULL, 0, ms);
}

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

static void
many_files(void)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

static void
print_errors(const int counts[ERRORS])
{
	for (int i = 1; i < ERRORS; i++)
		if (counts[i])
			printf(" %s=%d", error_name(i), counts[i]);
	putchar('\n');
	fflush(stdout);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- waiters ---- */

struct waiter {
	const char *path;
	char name[NAME]; /* first line of what it got */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int answered, errors_seen[ERRORS];
static int64_t last_answer;

static void *
wait_in_open(void *arg)
{
	struct waiter *w = arg;
	char buf[NAME];
	int fd = open(w->path, O_RDONLY | O_CLOEXEC);
	int code = fd < 0 ? errno : 0;
	ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

	if (n > 0) {
		buf[n] = '\0';
		snprintf(w->name, sizeof(w->name), "%.*s", (int)strcspn(buf, "\n"), buf);
	}
	pthread_mutex_lock(&lock);
	answered++;
	errors_seen[code]++;
	last_answer = now_us();
	pthread_mutex_unlock(&lock);
	return NULL; /* the file stays open */
}

static void
tell_waiters(struct waiter *all, int n, int64_t mark)
{
	char **names = calloc((size_t)n, sizeof(*names));
	int got = 0;
	int distinct = 0;

	if (!names)
		die("calloc");
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n; i++)
		if (all[i].name[0])
			names[got++] = all[i].name;
	qsort(names, (size_t)got, sizeof(*names), by_text);
	for (int i = 0; i < got; i++)
		distinct += i == 0 || strcmp(names[i], names[i - 1]) != 0;
	printf("answered=%d got=%d distinct=%d ms=%lld", answered, got, distinct,
	       (long long)(last_answer - mark) / 1000);
	print_errors(errors_seen);
	pthread_mutex_unlock(&lock);
	free(names);
}

/* Orders: mark (the clock starts), wait MS (until all are answered; then tell), tell, quit. */
static int
do_waiters(char **a)
{
	int n = atoi(a[0]);
	struct waiter *all = calloc((size_t)n, sizeof(*all));
	pthread_attr_t attr;
	char line[64];
	int64_t mark = now_us();

	if (!all)
		die("calloc");
	many_files();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (int i = 0; i < n; i++) {
		pthread_t t;

		all[i].path = a[1];
		errno = pthread_create(&t, &attr, wait_in_open, &all[i]);
		if (errno)
			die("pthread_create");
	}
	puts("ok");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "mark", 4)) {
			mark = now_us();
			puts("ok");
			fflush(stdout);
		} else if (!strncmp(line, "wait", 4)) {
			int64_t end = now_us() + atoll(line + 5) * 1000;
			int done = 0;

			while (done < n && now_us() < end) {
				nap(2);
				pthread_mutex_lock(&lock);
				done = answered;
				pthread_mutex_unlock(&lock);
			}
			tell_waiters(all, n, mark);
		} else if (!strncmp(line, "tell", 4)) {
			tell_waiters(all, n, mark);
		} else {
			break;
		}
	}
	_exit(0);
}

/* ---- the race ---- */

struct scores {
	int errors[ERRORS];
	int wins[];
};

static void
racer(struct scores *s, int me, int n, const char *prefix, const char *dir)
{
	char path[PATH_MAX];
	char buf[4096];
	unsigned seed = (unsigned)me;

	for (int from = 1; from <= n; from += 16) {
		/* nearly the same order for all, or they would hardly meet */
		int turn = rand_r(&seed) % 16;

		for (int k = 0; k < 16; k++) {
			int i = from + (k + turn) % 16;

			if (i > n)
				continue;
			snprintf(path, sizeof(path), "%s/%s%d@1", dir, prefix, i);
			int fd = open(path, O_RDWR | O_CLOEXEC);
			if (fd < 0) {
				__atomic_add_fetch(&s->errors[errno % ERRORS], 1, __ATOMIC_RELAXED);
				continue;
			}
			__atomic_add_fetch(&s->wins[i], 1, __ATOMIC_RELAXED);
			if (read(fd, buf, sizeof(buf)) <= 0 || write(fd, "done", 4) != 4)
				__atomic_add_fetch(&s->errors[errno % ERRORS], 1, __ATOMIC_RELAXED);
			close(fd);
		}
	}
}

static int
do_race(char **a)
{
	int procs = atoi(a[0]);
	int n = atoi(a[1]);
	int dirs = 0;
	size_t size = sizeof(struct scores) + ((size_t)n + 1) * sizeof(int);
	struct scores *s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int once = 0;
	int more = 0;
	int failed = 0;

	if (s == MAP_FAILED)
		die("mmap");
	while (a[3 + dirs])
		dirs++;
	if (!dirs)
		die("no directory to race in");
	for (int i = 0; i < procs; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			racer(s, i, n, a[2], a[3 + i % dirs]);
			_exit(0);
		}
	}
	for (int status; wait(&status) > 0;)
		failed += status != 0;
	for (int i = 1; i <= n; i++) {
		once += s->wins[i] == 1;
		more += s->wins[i] > 1;
	}
	printf("once=%d more=%d none=%d failed=%d", once, more, n - once - more, failed);
	print_errors(s->errors);
	return 0;
}

/* ---- the storm ---- */

struct report {
	pid_t pid;
	char name[NAME]; /* "leases/T@k" */
};

struct child {
	pid_t pid; /* 0 = none */
	char name[NAME];
};

/* Wait for a task, say which one it is, and hold it until killed. */
static void
storm_child(const char *next, int out)
{
	struct report r = { .pid = getpid() };
	char buf[4096];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((fd = open(next, O_RDWR)) < 0) {
		if (errno != EINTR && errno != ENODATA && errno != EAGAIN)
			_exit(1);
		nap(5);
	}
	ssize_t n = read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		_exit(1);
	buf[n] = '\0';
	snprintf(r.name, sizeof(r.name), "%.*s", (int)strcspn(buf, "\n"), buf);
	if (write(out, &r, sizeof(r)) != sizeof(r))
		_exit(1);
	for (;;)
		pause();
}

struct storm {
	const char *mnt;
	char next[PATH_MAX];
	int waiters, in, out;
	struct child *child;
	int killed, killed_holding, added, done, odd;
};

static void
take_reports(struct storm *s)
{
	struct report r;

	while (read(s->in, &r, sizeof(r)) == sizeof(r))
		for (int i = 0; i < s->waiters; i++)
			if (s->child[i].pid == r.pid)
				memcpy(s->child[i].name, r.name, sizeof(r.name));
}

static void
kill_child(struct storm *s, int i)
{
	int status;

	kill(s->child[i].pid, SIGKILL);
	waitpid(s->child[i].pid, &status, 0);
	if (WIFEXITED(status))
		s->odd++; /* it had given up by itself */
	s->child[i].pid = 0;
	take_reports(s); /* of others; its own, if any, finds nobody */
}

static void
fill(struct storm *s)
{
	for (int i = 0; i < s->waiters; i++) {
		if (s->child[i].pid)
			continue;
		s->child[i].name[0] = '\0';
		s->child[i].pid = fork();
		if (s->child[i].pid == 0)
			storm_child(s->next, s->out);
	}
}

static void
add(struct storm *s, int n)
{
	char path[PATH_MAX];
	char text[65536];
	size_t len = 0;

	snprintf(path, sizeof(path), "%s/new/storm.%d", s->mnt, s->added);
	for (int i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "{\"id\":\"storm%d\"}\n",
					++s->added);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) < 0)
		die(path);
}

/* Names in leases/ that a storm made. */
static int
list_leases(struct storm *s, char (**names)[NAME])
{
	char path[PATH_MAX];
	int n = 0;
	int cap = 0;

	*names = NULL;
	snprintf(path, sizeof(path), "%s/leases", s->mnt);
	DIR *d = opendir(path);
	if (!d)
		die(path);
	for (const struct dirent *e; (e = readdir(d));) {
		if (strncmp(e->d_name, "storm", 5) != 0)
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 256;
			*names = realloc(*names, (size_t)cap * sizeof(**names));
			if (!*names)
				die("realloc");
		}
		snprintf((*names)[n++], NAME, "leases/%.200s", e->d_name);
	}
	closedir(d);
	return n;
}

/* Every lease is of a child that lives and has read it, and the other way round. */
static bool
is_settled(struct storm *s)
{
	char(*names)[NAME];
	int n = list_leases(s, &names);
	int holding = 0;
	int living = 0;
	int matched = 0;

	take_reports(s);
	for (int i = 0; i < s->waiters; i++) {
		if (!s->child[i].pid)
			continue;
		living++;
		if (!s->child[i].name[0])
			continue;
		holding++;
		for (int k = 0; k < n; k++)
			matched += !strcmp(names[k], s->child[i].name);
	}
	free(names);
	int left = s->added - s->done;
	return matched == holding && n == holding && holding == (living < left ? living : left);
}

static void
finish_held(struct storm *s)
{
	char path[PATH_MAX];

	for (int i = 0; i < s->waiters; i++) {
		if (!s->child[i].pid || !s->child[i].name[0])
			continue;
		snprintf(path, sizeof(path), "%s/%.250s", s->mnt, s->child[i].name);
		int fd = open(path, O_WRONLY);
		if (fd >= 0 && write(fd, "done", 4) == 4)
			s->done++;
		else
			s->odd++;
		close(fd);
		kill_child(s, i);
	}
}

static int
do_storm(char **a)
{
	struct storm s = { .mnt = a[0], .waiters = atoi(a[2]) };
	int adds = atoi(a[3]);
	int rounds = atoi(a[4]);
	int unsettled = 0;
	int fds[2];
	unsigned seed = 42;

	snprintf(s.next, sizeof(s.next), "%s/queue/%s/next", a[0], a[1]);
	s.child = calloc((size_t)s.waiters, sizeof(*s.child));
	if (!s.child || pipe2(fds, O_CLOEXEC) < 0)
		die("storm");
	s.in = fds[0];
	s.out = fds[1];
	fcntl(s.in, F_SETFL, O_NONBLOCK);
	for (int round = 0; round < rounds; round++) {
		fill(&s);
		for (int part = 0; part < 3; part++) {
			add(&s, adds / 3);
			for (int k = 0; k < s.waiters / 10; k++) {
				int i = rand_r(&seed) % s.waiters;

				usleep((useconds_t)(rand_r(&seed) % 1000));
				take_reports(&s);
				if (!s.child[i].pid)
					continue;
				s.killed++;
				s.killed_holding += s.child[i].name[0] != '\0';
				kill_child(&s, i);
			}
		}
		int64_t end = now_us() + 5000000;
		bool settled = is_settled(&s);
		for (; !settled && now_us() < end; settled = is_settled(&s))
			nap(5);
		unsettled += !settled;
		finish_held(&s);
	}
	/* what is left goes to the last waiters */
	for (int64_t end = now_us() + 10000000; s.done < s.added && now_us() < end; nap(5)) {
		fill(&s);
		take_reports(&s);
		finish_held(&s);
	}
	for (int i = 0; i < s.waiters; i++)
		if (s.child[i].pid)
			kill_child(&s, i);
	printf("added=%d done=%d unsettled=%d odd=%d killed=%d holding=%d", s.added, s.done,
	       unsettled, s.odd, s.killed, s.killed_holding);
	free(s.child);
	return SAID;
}

/* ---- completions ---- */

struct ends {
	const char *mnt;
	bool rename;
	char (*names)[NAME];
	int n, next, failed;
};

static void *
end_some(void *arg)
{
	struct ends *e = arg;
	char a[PATH_MAX];
	char b[PATH_MAX];

	for (int i; (i = __atomic_fetch_add(&e->next, 1, __ATOMIC_RELAXED)) < e->n;) {
		bool good;

		snprintf(a, sizeof(a), "%s/leases/%s", e->mnt, e->names[i]);
		snprintf(b, sizeof(b), "%s/done/%s", e->mnt, e->names[i]);
		if (e->rename) {
			good = rename(a, b) == 0;
		} else {
			int fd = open(a, O_WRONLY);

			good = fd >= 0 && write(fd, "done", 4) == 4;
			close(fd);
		}
		if (!good)
			__atomic_add_fetch(&e->failed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int
do_ends(char **a)
{
	int threads = atoi(a[0]);
	struct ends e = { .mnt = a[2], .rename = !strcmp(a[1], "rename") };
	pthread_t *t = calloc((size_t)threads, sizeof(*t));
	char line[NAME];

	e.names = calloc(100000, sizeof(*e.names));
	if (!t || !e.names)
		die("calloc");
	while (e.n < 100000 && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		memcpy(e.names[e.n++], line, sizeof(line));
	}
	int64_t from = now_us();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, end_some, &e))
			die("pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("%lld", (long long)(now_us() - from) / 1000);
	if (e.failed)
		printf(" failed=%d", e.failed);
	free(t);
	free(e.names);
	return SAID;
}

/* ---- the table ---- */

int
main(int argc, char **argv)
{
	static const struct {
		const char *verb;
		int args;
		int (*run)(char **args);
	} verbs[] = {
		{ "waiters", 2, do_waiters },
		{ "race", 4, do_race },
		{ "storm", 5, do_storm },
		{ "ends", 3, do_ends },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].verb, argv[1]) != 0 || argc - 2 < verbs[i].args)
			continue;
		if (verbs[i].run(argv + 2) == SAID)
			putchar('\n');
		return 0;
	}
	fprintf(stderr, "crowd: no such verb, or too few words\n");
	return 2;
}
