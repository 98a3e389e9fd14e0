/*
 * log.c - lines on stderr. Each is one write(2), so lines of threads and processes never mix.
 */
#include <config.h>

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *log_program = "raser";
static enum log_level log_limit = LOG_INFO;

void
log_init(const char *program, enum log_level level)
{
	log_program = program;
	log_limit = level;
	/* whoever started us may have closed them: the next file to be opened, a claim maybe, must
	 * not become what messages are written to */
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void
emit(enum log_level level, int code, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));

static void
emit(enum log_level level, int code, const char *fmt, va_list args)
{
	if (level > log_limit)
		return;
	int saved = errno;
	char line[1024];
	char stamp[32] = "";
	time_t t = time(NULL);
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(stamp, sizeof(stamp), "%H:%M:%S ", &tm);
	int n = snprintf(line, sizeof(line), "%s%s: ", stamp, log_program);
	if (n > 0 && (size_t)n < sizeof(line)) {
		int m = vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, args);
		if (m > 0)
			n += m;
	}
	if (code && n > 0 && (size_t)n < sizeof(line))
		n += snprintf(line + n, sizeof(line) - (size_t)n, ": %s", strerror(code));
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	ssize_t done = write(STDERR_FILENO, line, (size_t)n);
	(void)done; /* nowhere left to complain */
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
