/*
 * setup.h - what a plugin prepares once on each node, for all agents of a run there. A folder below
 * the one for workspaces; nothing of it is shared with other nodes. super.c only.
 */
#ifndef RASER_SETUP_H
#define RASER_SETUP_H

#include <limits.h>

#include "log.h"

/* The folder of this node and run that setup may fill and agents see; name: of the run, unique;
 * local: a node-local directory. */
void
setup_cache(const char *local, const char *name, char cache[PATH_MAX]);

/*
 * Run "... setup" unless it was done on this node for this run: waits while another agentd does
 * it. argv ends with that verb. Its output goes to our
 * stderr. 0, or a negative errno and a sentence in err: the node's fault.
 */
int
setup_run(char *const *argv, const char *local, const char *name, struct err *err);

/* Need the node's folder, before setup_run(): a descriptor, or a negative errno and a sentence in
 * err. Then, when the run is over here, give it back: the last one that needs it removes it. */
int
setup_hold(const char *local, const char *name, struct err *err);
void
setup_leave(int held, const char *local, const char *name);

#endif
