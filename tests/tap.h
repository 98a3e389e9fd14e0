/*
 * tap.h - TAP for tests in C. One plan at the end; ok() says what was expected to hold.
 */
#ifndef RASER_TAP_H
#define RASER_TAP_H

#include <stdbool.h>

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

bool
tap_ok(bool good, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A comment line. */
void
diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* n assertions that cannot be made here. */
void
skip(int n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Skip everything that would follow; with RASER_MUST_RUN set that is a failure. Never returns. */
void
skip_all(const char *why) __attribute__((noreturn));

/* Print the plan; the exit status of main(). */
int
done_testing(void);

/* A new directory under $TMPDIR, removed at exit. */
const char *
scratch_dir(void);

#endif
