/*
 * wrap.c - what the queue asks of libc and the kernel, answered by the world
 * (--wrap): locks that block coroutines, chance from the seed, a host name,
 * process ids, and a descriptor to be woken by.
 */
#include <config.h>

#include "world.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { FAKE_FD = 1 << 20 };

/* What a mutex or a condition variable is here: who has it, and who waits. */
struct waiter {
	struct coro *coro;
	bool called;
	struct waiter *next;
};
struct lock {
	struct coro *owner;
	bool taken;
	bool made; /* by pthread_mutex_init(): the queue's; the others are of log.c */
	struct waiter *waiters;
};
static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits into a mutex");
static_assert(sizeof(struct waiter *) <= sizeof(pthread_cond_t), "a list fits into a condition");

/* clang-format off */
#define WRAP(type, name, ...) type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)
#define REAL(type, name, ...) type __real_##name(__VA_ARGS__)
/* clang-format on */

static void
wait_in(struct waiter **list)
{
	struct waiter me = { .coro = sched_self() };
	struct waiter **end = list;

	while (*end)
		end = &(*end)->next;
	*end = &me;
	while (!me.called)
		sched_wait(INT64_MAX);
}

static void
call_first(struct waiter **list)
{
	struct waiter *w = *list;

	if (!w)
		return;
	*list = w->next;
	w->called = true;
	sched_wake(w->coro);
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	struct lock *l = (void *)m;

	(void)attr;
	*l = (struct lock){ .made = true };
	return 0;
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
	const struct lock *l = (void *)m;

	if (l->taken || l->waiters)
		abort();
	return 0;
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *m)
{
	struct lock *l = (void *)m;
	const struct proc *p = sched_proc();

	/* other threads may come in between wherever a lock is asked for; not in a message, or a world
	 * that is looked at would be another one */
	if (p && !p->dead && l->made && rng_chance(&world.fs_rng, 0.02))
		sched_sleep(rng_range(&world.fs_rng, 0, 50));
	while (l->taken)
		wait_in(&l->waiters);
	l->taken = true;
	l->owner = sched_self();
	return 0;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *m)
{
	struct lock *l = (void *)m;

	if (!l->taken || l->owner != sched_self())
		abort();
	l->taken = false;
	call_first(&l->waiters);
	return 0;
}

/* Asked for by log.c alone, which says less while lines come fast by the real clock: taken. */
WRAP(int, pthread_mutex_trylock, pthread_mutex_t *m)
{
	(void)m;
	return EBUSY;
}

WRAP(int, pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *attr)
{
	(void)attr;
	memset(c, 0, sizeof(pthread_cond_t));
	return 0;
}

WRAP(int, pthread_cond_destroy, pthread_cond_t *c)
{
	if (*(struct waiter **)c)
		abort();
	return 0;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m)
{
	struct waiter **list = (void *)c;

	__wrap_pthread_mutex_unlock(m);
	wait_in(list);
	return __wrap_pthread_mutex_lock(m);
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *c)
{
	struct waiter **list = (void *)c;

	while (*list)
		call_first(list);
	return 0;
}

/* ---- chance and names ---- */

WRAP(ssize_t, getrandom, void *buf, size_t len, unsigned flags)
{
	unsigned char *p = buf;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)rng_next(&world.q_rng);
	return (ssize_t)len;
}

WRAP(int, gethostname, char *name, size_t len)
{
	const struct proc *p = sched_proc();

	snprintf(name, len, "%s", p ? p->host->name : "judge");
	return 0;
}

WRAP(pid_t, getpid, void)
{
	const struct proc *p = sched_proc();

	return p ? (pid_t)p->pid : 1;
}

WRAP(int, kill, pid_t pid, int sig)
{
	const struct proc *p = sched_proc();

	if (sig)
		abort();
	if (!p || !proc_gone(pid, p->host))
		return 0;
	errno = ESRCH;
	return -1;
}

/* The files of proc(5) that node.c reads. */
REAL(FILE *, fopen, const char *path, const char *mode);
WRAP(FILE *, fopen, const char *path, const char *mode)
{
	const struct proc *p = sched_proc();
	static char text[128];
	long pid;

	if (!p || strncmp(path, "/proc/", 6) != 0)
		return __real_fopen(path, mode);
	if (!strcmp(path, "/proc/sys/kernel/random/boot_id"))
		snprintf(text, sizeof(text), "%s\n", p->host->boot_id);
	else if (sscanf(path, "/proc/%ld/stat", &pid) == 1 && !proc_gone(pid, p->host))
		snprintf(text, sizeof(text),
			 "%ld (sim) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %ld 0\n", pid, pid * 7);
	else {
		errno = ENOENT;
		return NULL;
	}
	return fmemopen(text, strlen(text), "r");
}

/* log lines carry the time of day */
REAL(time_t, time, time_t *t);
WRAP(time_t, time, time_t *t)
{
	const struct proc *p = sched_proc();
	time_t now = p ? (time_t)proc_now(p).wall_s : 0;

	if (t)
		*t = now;
	return now;
}

/* ---- the descriptor that wakes a loop ---- */

WRAP(int, eventfd, unsigned count, int flags)
{
	(void)count;
	(void)flags;
	return FAKE_FD + proc_fd();
}

REAL(ssize_t, write, int fd, const void *buf, size_t len);
WRAP(ssize_t, write, int fd, const void *buf, size_t len)
{
	if (fd == STDERR_FILENO && sim_trace) {
		trace("%.*s", (int)len - 1, (const char *)buf);
		return (ssize_t)len;
	}
	if (fd < FAKE_FD)
		return __real_write(fd, buf, len);
	proc_woken(fd - FAKE_FD);
	return (ssize_t)len;
}

REAL(ssize_t, read, int fd, void *buf, size_t len);
WRAP(ssize_t, read, int fd, void *buf, size_t len)
{
	return fd < FAKE_FD ? __real_read(fd, buf, len) : (ssize_t)len;
}

REAL(int, close, int fd);
WRAP(int, close, int fd)
{
	return fd < FAKE_FD ? __real_close(fd) : 0;
}
