/*
 * log.h - what a daemon says to people: one line on stderr per event, and error texts.
 *
 * Anybody may call these, from any thread. errno survives every call. Of warnings that repeat (the
 * same format) ten are printed in ten seconds, and how many were left out.
 */
#ifndef RASER_LOG_H
#define RASER_LOG_H

#include <stddef.h>

enum log_level { LOG_NOTHING, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* A sentence for people that travels beside a negative errno. Empty when nobody filled it. */
struct err {
	char text[320];
};

/* Set the program's name (kept by reference) and the chattiest level that is printed, and see that
 * descriptors 0 to 2 are open: the first thing that a program does. */
void
log_init(const char *program, enum log_level level);

/*
 * From now on a thread of its own writes the lines, so that nobody who speaks ever waits for who
 * listens: a full pipe, a log on a dead file system. What does not fit is counted and left out. What
 * is left at exit(3) gets 200 ms. 0 or an errno.
 */
int
log_in_background(void);
/* Wait at most ms until everything is written: before _exit(2). */
void
log_flush(int ms);

/* Something that a person should look at. log_warn() adds the text of errno. */
void
log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void
log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line per state change, and the rest. */
void
log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void
log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Fill err (which may be NULL) and return code, so that a failing line is one return. */
int
err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
