/*
 * gantt.h - the attempts of a run over time, a row an agent, as an SVG. raser bench only.
 */
#ifndef RASER_GANTT_H
#define RASER_GANTT_H

#include "figures.h"

#include <stdio.h>

/*
 * Write the picture: `list` as figures_make() left it, with its lanes. `bound` in seconds is drawn as
 * a line. 0 or a negative errno.
 */
int
gantt_write(FILE *f, const char *title, const struct past_list *list, const size_t *lane,
	    const struct figures *figures, double bound);

/* The same as a file, replaced as a whole. False after a message. */
bool
gantt_save(const char *path, const char *title, const struct past_list *list, const size_t *lane,
	   const struct figures *figures, double bound);

#endif
