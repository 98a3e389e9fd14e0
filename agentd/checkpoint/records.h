/*
 * records.h - what raser-agentd has noted of attempts, in archives: RUN/sealed/<name>.tar.zst.
 *
 * Packed are whole folders results/T@k.r of attempts that left no files of their own (record, log,
 * trajectory, an empty out/) and links in results/ that point to them, under their paths in the run
 * directory: `tar --zstd -xf FILE -C RUN` puts them back. They are data, never read to decide
 * anything. raser seal and export only.
 */
#ifndef RASER_RECORDS_H
#define RASER_RECORDS_H

#include "log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder below results/ (an open directory) holds nothing that is its agent's own. */
bool
records_are_all(int results, const char *folder);

struct records_result {
	int64_t files, bytes_in, bytes_out;
};

/* Called between files, which may be many: a non-zero return ends the work and is its result. */
typedef int
records_tick_fn(void *arg);

/*
 * Pack names of results/ (folders and links) of a run as sealed/<name>.tar.zst, durably, and read
 * it back to see that it holds what they hold; name must be a new one. 0; or a negative errno and a
 * sentence in err, and then there is no such archive. Nothing is removed.
 */
int
records_pack(const char *run, const char *name, const char *const *names, size_t n,
	     records_tick_fn *tick, void *arg, struct records_result *result, struct err *err);

/* Remove what was packed. In an order that leaves the record of an attempt until last. 0 or the
 * first errno; what could not be removed stays. */
int
records_remove(int results, const char *const *names, size_t n, records_tick_fn *tick, void *arg);

/* A link (target is set), or a file that is called as wanted. path is below results/. */
typedef void
records_entry_fn(void *arg, const char *path, const char *target, const char *data, size_t size);

/* Read an archive: all links, and files called `wanted`, in the order in which they were packed.
 * 0, or a negative errno and a sentence. */
int
records_read(const char *file, const char *wanted, records_entry_fn *fn, void *arg,
	     struct err *err);

#endif
