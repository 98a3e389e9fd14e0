/*
 * ingest.h - JSON in, tasks out: JSON Lines, one object, or an array of objects (raser(1)).
 *
 * Text arrives in pieces of any size and every task that is complete goes to a builder at
 * once, so memory stays bounded by the largest task. JSON itself is jansson's. The first error
 * sticks and says line, column and reason.
 */
#ifndef RASER_INGEST_H
#define RASER_INGEST_H

#include "batch.h"

struct ingest;

/* Each task that was accepted (fresh) or was there twice: for receipts. */
typedef int
ingest_task_fn(void *arg, const char *name, bool fresh);

/* id_field may be NULL: then id, instance_id or task_id. The builder stays the caller's. */
struct ingest *
ingest_new(const struct conf *conf, const char *id_field, struct builder *builder,
	   ingest_task_fn *fn, void *arg);
void
ingest_free(struct ingest *in);

/* How many seconds a task of that file name is expected to take; 0 or less: not known. */
typedef int64_t
ingest_expected_fn(void *arg, const char *name);
/* Ask for tasks that do not say it themselves (no member "expected", or null). It becomes the
 * task's, and no part of its payload: of what is compared it changes nothing. */
void
ingest_expect(struct ingest *in, ingest_expected_fn *fn, void *arg);

/* What follows goes to another builder. */
void
ingest_to(struct ingest *in, struct builder *builder);

/* 0, or -EINVAL, -EEXIST (one id, two payloads), -ENOMEM, -ENOSPC with err; the same again
 * ever after. */
int
ingest_feed(struct ingest *in, const char *data, size_t len, struct err *err);

/*
 * The text may end here. 0 when everything so far is complete; -EINVAL with err when a task is
 * cut in the middle: more text may still complete it (a close in the middle of a pipeline).
 */
int
ingest_flush(struct ingest *in, struct err *err);

#endif
