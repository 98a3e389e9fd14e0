/*
 * chk.h - what the helpers of the shell tests share.
 */
#ifndef RASER_CHK_H
#define RASER_CHK_H

enum { SAID = 1 }; /* a verb that has printed its own answer */

/* The result of a call as verbs return it: 0 or a negative errno. */
int
result(long rc);

/* The flags of open(2) from words such as "rw,nonblock"; exits when one is unknown. */
int
parse_flags(const char *text);

/* The name of an error as the manual pages write it; "ok" for 0. */
const char *
error_name(int code);

int
do_hold(char **args);
int
do_fuse(char **args);

#endif
