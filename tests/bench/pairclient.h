/* pairclient.h - a mounted queue seen from outside, the same for emptyfs and raserfs: its server
 * process, its mount, and the clients that take and end tasks through `queue/high/next`.
 */
#ifndef BENCH_PAIRCLIENT_H
#define BENCH_PAIRCLIENT_H

#include "crew.h"

#include <sys/types.h>

/* Runs ARGV with its standard output on standard error; fatal unless it exits with 0. */
void command(const char *const argv[]);

/* Forks a process that gets SIGTERM when this one ends. Returns as fork(2), but never -1. */
pid_t server_fork(void);

/* Waits for a SERVER that was told to end, or whose mount is gone. If it does not end within
 * seconds it is killed. Returns 0 if it exited with 0, else -1 after a sentence on stderr. */
int server_wait(pid_t server, const char *mnt) __attribute__((warn_unused_result));

/* Waits until SERVER has mounted MNT: its device is no longer its parent's. Fatal, and the server
 * is ended, when that does not come within seconds. */
void mount_wait(const char *mnt, pid_t server);

/* Takes the mount away, if there is one, without waiting for its users. */
void mount_drop(const char *mnt);

/* A worker for crew_run(); ARG is the mount point. Takes tasks t000001 to tN from tier `high`,
 * reads each whole and ends it on the same descriptor, until none is left or time is over. */
void pair_client(struct crew *c, void *arg);

#endif
