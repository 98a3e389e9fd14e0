/*
 * log.c - lines on stderr. Each is one write(2), so lines of threads and processes never mix. A
 * daemon lets a thread write them.
 */
#include <config.h>

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 1024, LINES = 256, FORMATS = 64, BURST = 10, BURST_S = 10, EXIT_MS = 200 };

static const char *log_program = "raser";
static enum log_level log_limit = LOG_INFO;

/* The C library's lock of the time zone is not one of those that fork(2) frees in the child. It is
 * taken here only, and never while this one is another thread's. */
static pthread_mutex_t zone = PTHREAD_MUTEX_INITIALIZER;

static void
before_fork(void)
{
	pthread_mutex_lock(&zone);
}

static void
after_fork(void)
{
	pthread_mutex_unlock(&zone);
}

void
log_init(const char *program, enum log_level level)
{
	static bool again;

	log_program = program;
	log_limit = level;
	if (!again)
		pthread_atfork(before_fork, after_fork, after_fork);
	again = true;
	/* whoever started us may have closed them: the next file to be opened, a claim maybe, must
	 * not become what messages are written to */
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* ---- the thread that writes ---- */

/* Lines that wait for it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, empty;
	char text[LINES][LINE];
	size_t len[LINES];
	unsigned first, n;
	unsigned long lost; /* since the last line that found room */
	bool on;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void
put(const char *line, size_t len)
{
	ssize_t done = write(STDERR_FILENO, line, len);

	(void)done; /* nowhere left to complain */
}

static void *
writer(void *arg)
{
	char line[LINE];

	(void)arg;
	pthread_mutex_lock(&queue.lock);
	for (;;) {
		while (!queue.n)
			pthread_cond_wait(&queue.more, &queue.lock);
		size_t len = queue.len[queue.first];

		memcpy(line, queue.text[queue.first], len);
		pthread_mutex_unlock(&queue.lock);
		put(line, len); /* may take for ever, and nobody waits for it */
		pthread_mutex_lock(&queue.lock);
		queue.first = (queue.first + 1) % LINES;
		queue.n--;
		unsigned long lost = queue.n ? 0 : queue.lost;
		if (lost) {
			queue.lost = 0;
			pthread_mutex_unlock(&queue.lock);
			int n = snprintf(line, sizeof(line),
					 "%s: %lu lines were left out: nobody took them\n",
					 log_program, lost);
			put(line, (size_t)n);
			pthread_mutex_lock(&queue.lock);
		}
		if (!queue.n)
			pthread_cond_broadcast(&queue.empty);
	}
	return NULL;
}

static void
hand_over(const char *line, size_t len)
{
	pthread_mutex_lock(&queue.lock);
	if (queue.n < LINES) {
		unsigned at = (queue.first + queue.n++) % LINES;

		memcpy(queue.text[at], line, len);
		queue.len[at] = len;
		pthread_cond_signal(&queue.more);
	} else {
		queue.lost++;
	}
	pthread_mutex_unlock(&queue.lock);
}

void
log_flush(int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000L;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&queue.lock);
	int rc = 0;
	while (queue.on && queue.n && !rc)
		rc = pthread_cond_timedwait(&queue.empty, &queue.lock, &until);
	pthread_mutex_unlock(&queue.lock);
}

static void
flush_at_exit(void)
{
	log_flush(EXIT_MS);
}

int
log_in_background(void)
{
	pthread_condattr_t mono;
	pthread_t thread;

	pthread_cond_init(&queue.more, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&queue.empty, &mono);
	pthread_condattr_destroy(&mono);
	int rc = -pthread_create(&thread, NULL, writer, NULL);
	if (rc)
		return rc;
	pthread_detach(thread);
	queue.on = true;
	return atexit(flush_at_exit) ? -ENOMEM : 0;
}

/* ---- lines ---- */

static void
emit(enum log_level level, int code, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));

/* A warning of this format may be said; *left: how many before it were not. */
static bool
may_say(const char *fmt, unsigned *left)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		const char *fmt;
		time_t since;
		unsigned said, left;
	} seen[FORMATS];
	struct timespec now;
	int at = 0;

	*left = 0;
	/* never waited for: a child of fork(2) may find it taken for ever */
	if (pthread_mutex_trylock(&lock))
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (int i = 0; i < FORMATS; i++) {
		if (seen[i].fmt == fmt || !seen[i].fmt) {
			at = i;
			break;
		}
		if (seen[i].since < seen[at].since)
			at = i; /* all taken: the oldest gives way */
	}
	if (seen[at].fmt != fmt || now.tv_sec - seen[at].since >= BURST_S) {
		*left = seen[at].fmt == fmt ? seen[at].left : 0;
		seen[at].fmt = fmt;
		seen[at].since = now.tv_sec;
		seen[at].said = seen[at].left = 0;
	}
	bool say = seen[at].said < BURST;
	if (say)
		seen[at].said++;
	else
		seen[at].left++;
	pthread_mutex_unlock(&lock);
	return say;
}

static void
emit(enum log_level level, int code, const char *fmt, va_list args)
{
	unsigned left = 0;

	if (level > log_limit)
		return;
	int saved = errno;
	if (level == LOG_WARN && !may_say(fmt, &left)) {
		errno = saved;
		return;
	}
	char line[LINE];
	char stamp[32] = "";
	time_t t = time(NULL);
	struct tm tm;

	pthread_mutex_lock(&zone);
	if (localtime_r(&t, &tm))
		strftime(stamp, sizeof(stamp), "%H:%M:%S ", &tm);
	pthread_mutex_unlock(&zone);
	int n = snprintf(line, sizeof(line), "%s%s: ", stamp, log_program);
	if (n > 0 && (size_t)n < sizeof(line)) {
		int m = vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, args);
		if (m > 0)
			n += m;
	}
	if (code && n > 0 && (size_t)n < sizeof(line))
		n += snprintf(line + n, sizeof(line) - (size_t)n, ": %s", strerror(code));
	if (left && n > 0 && (size_t)n < sizeof(line))
		n += snprintf(line + n, sizeof(line) - (size_t)n,
			      " (%u lines like this one were left out)", left);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (queue.on)
		hand_over(line, (size_t)n);
	else
		put(line, (size_t)n);
	errno = saved;
}

void
log_warn(const char *fmt, ...)
{
	int code = errno;
	va_list args;

	va_start(args, fmt);
	emit(LOG_WARN, code, fmt, args);
	va_end(args);
}

void
log_warnx(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(LOG_WARN, 0, fmt, args);
	va_end(args);
}

void
log_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(LOG_INFO, 0, fmt, args);
	va_end(args);
}

void
log_debug(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(LOG_DEBUG, 0, fmt, args);
	va_end(args);
}

int
err_set(struct err *err, int code, const char *fmt, ...)
{
	if (err) {
		va_list args;

		va_start(args, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, args);
		va_end(args);
	}
	return code;
}
