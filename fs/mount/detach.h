/*
 * detach.h - taking away mounts whose daemon is dead or does not answer. main.c and supervise.c, and
 * tools/place.c.
 */
#ifndef RASER_DETACH_H
#define RASER_DETACH_H

#include <stdbool.h>

/* Detach the topmost mount at a path, as root or by fusermount3. Sends it no request. False when
 * neither may. */
bool
mount_detach(const char *mountpoint);

/* Break off connection number minor, which is mounted at a path: everybody who waits for its daemon
 * gets ECONNABORTED. Returns what it was done with, for people, or NULL when that may not be done
 * here. */
const char *
mount_break(const char *mountpoint, unsigned minor);

#endif
