/*
 * loop.h - serve a mounted session until it ends. main.c only.
 */
#ifndef RASER_LOOP_H
#define RASER_LOOP_H

#include "mount.h"

/* Serve until SIGTERM, SIGINT, SIGHUP or an unmount from outside; detaches the mount. The caller
 * has blocked these signals in every thread and started the workers. 0 or a negative errno. */
int
loop_run(struct mount *m);

#endif
