/*
 * result.h - which attempt's folder results/T shows: raser-agentd's to say when
 * an attempt of its own is accepted, and raser fsck's for an agentd that was
 * killed before it could.
 */
#ifndef RASER_RESULT_H
#define RASER_RESULT_H

/* Make results/TASK of a run a symbolic link to folder, in one step. r: the
 * random part of the owner, so that nobody else has the temporary name. 0 or a
 * negative errno, which is in errno too. */
int
result_accept(const char *run, const char *task, const char *folder, const char *r);

/* A temporary name of result_accept() in results/. */
_Bool
result_is_temporary(const char *name);

#endif
