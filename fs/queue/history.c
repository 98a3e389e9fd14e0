/*
 * history.c - lines of evidence, to a file or a function.
 */
#include <config.h>

#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048 };

struct history {
	int fd; /* -1: to fn */
	history_fn *fn;
	void *arg;
};

struct history *
history_open(const char *dir, int64_t boot_ms, struct err *err)
{
	char path[4096];
	char host[72] = "";
	char boot[40] = "";

	gethostname(host, sizeof(host) - 1);
	int id = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = id < 0 ? 0 : read(id, boot, sizeof(boot) - 1);
	if (id >= 0)
		close(id);
	boot[n > 0 ? n : 0] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
	struct history *h = history_hook(NULL, NULL);
	if (!h) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	for (int i = 0; i < 1000 && h->fd < 0; i++) {
		snprintf(path, sizeof(path), "%.3900s/%s.%ld.%lld.history", dir, host, (long)getpid(),
			 (long long)boot_ms + i);
		h->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
		if (h->fd < 0 && errno != EEXIST)
			break;
	}
	if (h->fd < 0) {
		err_set(err, -errno, "%s: no history can be written there (RASER_HISTORY): %s", dir,
			strerror(errno));
		free(h);
		return NULL;
	}
	history_write(h, boot_ms, "start\t%s\t%ld\t%s\t%s\t%lld", program_invocation_short_name,
		      (long)getpid(), boot, host, (long long)time(NULL));
	return h;
}

struct history *
history_hook(history_fn *fn, void *arg)
{
	struct history *h = malloc(sizeof(*h));

	if (h)
		*h = (struct history){ .fd = -1, .fn = fn, .arg = arg };
	return h;
}

void
history_close(struct history *h)
{
	if (h && h->fd >= 0)
		close(h->fd);
	free(h);
}

void
history_write(struct history *h, int64_t boot_ms, const char *fmt, ...)
{
	int saved = errno;
	char line[LINE];
	va_list args;

	int n = snprintf(line, sizeof(line), "%lld\t", (long long)boot_ms);
	va_start(args, fmt);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, args);
	va_end(args);
	if (m > 0)
		n += m < LINE - n - 2 ? m : LINE - n - 2;
	line[n++] = '\n';
	if (h->fn) {
		h->fn(h->arg, line, (size_t)n);
	} else {
		ssize_t done = write(h->fd, line, (size_t)n);

		if (done != n) /* evidence with a hole would accuse or acquit wrongly */
			log_warnx("a line of the history is lost: %s",
				  done < 0 ? strerror(errno) : "short write");
	}
	errno = saved;
}
