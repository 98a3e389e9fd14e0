/*
 * waiting.c - one line that counts down on a terminal, a line now and then
 * elsewhere.
 */
#include <config.h>

#include "waiting.h"

#include "clock.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static struct now
clock_now(void *arg)
{
	(void)arg;
	return now_read();
}

static void
say(void *arg, int64_t ms_left, const char *why)
{
	enum { EVERY_MS = 30000 };
	struct waiting *w = arg;
	bool terminal = isatty(STDOUT_FILENO);
	int64_t now = now_read().boot_ms;

	if (!terminal && w->said_at && now - w->said_at < EVERY_MS)
		return;
	w->said_at = now;
	printf("%swaiting for %lld s more until it is certain that nobody works on "
	       "it (%s)%s",
	       terminal ? "\r\033[K" : "", (long long)(ms_left + 999) / 1000, why,
	       terminal ? "" : "\n");
	fflush(stdout);
}

static bool
is_stopped(void *arg)
{
	(void)arg;
	return stop;
}

void
waiting_begin(struct waiting *w, struct seal_watcher *watcher)
{
	const struct sigaction on_stop = { .sa_handler = on_signal };

	*w = (struct waiting){ 0 };
	*watcher = (struct seal_watcher){
		.now = clock_now, .waits = say, .stopped = is_stopped, .arg = w
	};
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	sigaction(SIGHUP, &on_stop, NULL);
}

void
waiting_end(const struct waiting *w)
{
	if (w->said_at && isatty(STDOUT_FILENO))
		puts("\r\033[K");
}
