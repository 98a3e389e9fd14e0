/*
 * seal.h - seals: the links of a bay in one file, once all of its tasks are over.
 *
 *   chain/<r>.<bay>/seal.<n>
 *       raser seal 1 UUID R BAY N
 *       T@k.claim TEXT          every link of every task, in the order of tasks and attempts
 *       T@k.end TEXT
 *       sum XXH3
 *
 * seal.c reads them and is the only one to say what they mean; sealer.c writes them.
 *
 * Why links may be removed at all, when the whole protocol rests on links that stay:
 *
 *  1. Nobody lives. The sealer creates its beat and only then lists nodes/; a daemon, or a tool
 *     that changes tasks, creates its beat and only then lists nodes/. Each writes its own name
 *     before it looks for the other's, so of two that start at once at least one sees the other:
 *     the sealer gives way, a daemon waits until the sealer has left or is dead by the rules of
 *     node.h. The sealer goes on only after nodes/ has stayed empty for steal_after.
 *  2. What is in a seal stays true. Only a bay whose tasks are all over is sealed, and everything
 *     that its links said, with every attempt below, is in the file before one of them is removed:
 *     written under a name that was never used, synced, and read back. So at every moment the
 *     links, the seal, or both tell the same, and a sealer may die anywhere. A torn seal is not
 *     used; its links are there.
 *  3. A seal comes first. Up to the attempt that it tells of a task, a fold does not look at links;
 *     above it links decide as ever: failed and cancelled are not final. So it does no harm when a
 *     link at or below it appears again (a create that was repeated by the network for hours), nor
 *     when a sealer that stood still goes on and removes what it had packed: only names at or below
 *     a seal that was whole.
 *  4. Whoever was frozen all that time and then creates a link that had been removed is told: the
 *     create succeeds, but its last good beat is longer ago than half of steal_after, and then it
 *     looks for a seal before it answers anybody (seal_overrules()). An end that the seal has just
 *     as we wrote it was ours before (seal_has_end()). Claims are removed before ends, so whoever
 *     read a claim, and then could make its end, finds the claim gone. And who lives on under
 *     another name knows of no bay what became of it: he looks at each once more, after nodes/ has
 *     shown him no sealer.
 *  5. The next seal is written from the one before it and the links above, under the next number,
 *     and only then the one before it is removed.
 */
#ifndef RASER_SEAL_H
#define RASER_SEAL_H

#include "queue_impl.h"

enum { SEALS_KEPT = 8 };

/* The numbers of the seals that a listing of a bay shows, the highest first. */
struct seal_numbers {
	unsigned n[SEALS_KEPT];
	int count;
};

/* True, and it is noted, when a name in a bay is that of a seal. */
bool
seal_name(struct seal_numbers *s, const char *file);

/* "T@k.claim" or "T@k.end"; false for any other name. The length of T in *len. */
bool
link_parse(const char *file, size_t *len, unsigned *attempt, enum link_kind *kind);

/* The row of that task, in rows that are sorted by name; NULL when it is of no task here. */
struct row *
row_find(const struct bay_rows *rows, const char *name, size_t len);

/* One link of a seal. A non-zero return ends the reading and becomes its result. */
typedef int
seal_link_fn(void *arg, struct row *row, unsigned attempt, enum link_kind kind, const char *text);

/*
 * Read the highest seal that is whole, rows sorted by name, and set *number. fn may be NULL. Fills
 * sealed[i] for rows[i]. 0; -ENOENT when there is none; -EBADMSG when there are only torn ones; or
 * an errno.
 */
int
seal_read(struct queue *q, const struct place *p, const struct seal_numbers *numbers,
	  const struct bay_rows *rows, struct sealed *sealed, unsigned *number, seal_link_fn *fn,
	  void *arg);

/* Take over a seal that a listing has shown and that is newer than the one that is known. How many
 * tasks changed, or an errno; -EBADMSG and no word about tasks when none of them is whole. */
int64_t
seal_take(struct queue *q, const struct place *p, const struct seal_numbers *numbers,
	  const struct bay_rows *rows);

void
seal_path(const struct place *p, unsigned number, char path[DISK_PATH]);
void
seal_head(const struct queue *q, const struct place *p, unsigned number, char *head, size_t size);

#endif
