/*
 * history.h - what one life of a daemon (or tool) did, saw and told: evidence for audit.h.
 *
 * Off unless RASER_HISTORY names a directory, and then it costs a write(2) a line. A file per
 * life; every line is one write, so that a kill tears the last one at most. A leaf like log.c:
 * the queue's files say things here in one line each, and nothing comes back. The injectors of
 * faults write files of the same form.
 *
 * A line is fields with tabs in between, which no name has: boot, verb, fields. boot: the
 * CLOCK_BOOTTIME of this host in ms. `since`: the same, when the call began that is reported.
 *
 *   start PROGRAM PID BOOT-ID HOST WALL    the first line; boot times of one BOOT-ID compare
 *   run UUID STEAL-AFTER-MS                the run that it opened
 *   stop                                   its orderly end
 *   owner OWNER since                      a name was drawn, and its beat made and touched
 *   beat OWNER since RC                    touched; RC 0 or a negative errno
 *   dead OWNER                             ENOENT at its own beat
 *   leave OWNER                            its own beat unlinked
 *   verdict OWNER silent|proven|missing    judged so; silent and proven are published by
 *   unlink OWNER RC                        unlinking its beat
 *   cas PATH TEXT                          a create begins, and how it ended:
 *   won PATH TEXT
 *   lost PATH TEXT FOUND
 *   failed PATH TEXT RC                    nothing happened
 *   unknown PATH TEXT                      given up without an answer
 *   overruled TASK ATTEMPT                 what was won tells nothing: a seal does, or may
 *   told TASK ATTEMPT WHAT RC OWNER SEQ since   an answer to an agent; what: claim, touch, park,
 *                                          note, resumed, or how it asked to end
 *   hand WHAT TASK ATTEMPT RC              revoke, cancel, reopen; `evict` with an owner, and with
 *                                          -EINPROGRESS before it is done
 *   submitted NUMBER FILE COUNT            acknowledged: a batch of so many tasks
 *   fault WHAT WHOM                        kill, stop, cont (an owner), agent (a pid), remove,
 *                                          cut, heal, clock, fill, drain, other: see audit.h
 */
#ifndef RASER_HISTORY_H
#define RASER_HISTORY_H

#include "disk.h"

struct history;

/* One line, its newline included. Called from any thread. */
typedef void
history_fn(void *arg, const char *line, size_t len);

/* A new file in dir, with its `start` line. NULL and err when it cannot be made. */
struct history *
history_open(const char *dir, int64_t boot_ms, struct err *err);

/* The same lines to a function, for simulators; the `start` line is theirs to make. */
struct history *
history_hook(history_fn *fn, void *arg);

/* NULL is fine. */
void
history_close(struct history *h);

void
history_write(struct history *h, int64_t boot_ms, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Say something about a disk's run, if anybody listens; the arguments are not evaluated else. */
#define history_say(disk, ...)                                                          \
	((disk)->history ? history_write((disk)->history, disk_now(disk), __VA_ARGS__) : \
			   (void)0)

#endif
