/*
 * bays.c - fsck of chain/: its bays, and what is in them.
 */
#include <config.h>

#include "fsck_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The names of all bays of the run, sorted; the caller frees them. How many, or
 * -ENOMEM. */
enum { BAY_NAME = 32 };
typedef char bay_name[BAY_NAME];

static int64_t
all_bays(struct fsck *f, bay_name **names)
{
	struct seal_bay b;
	int64_t n = 0;

	while (!queue_seal_bay(f->q, n, &b))
		n++;
	*names = calloc((size_t)n + 1, sizeof(**names));
	if (!*names)
		return -ENOMEM;
	for (int64_t i = 0; i < n && !queue_seal_bay(f->q, i, &b); i++)
		snprintf((*names)[i], BAY_NAME, "%s.%d", b.random, b.bay);
	qsort(*names, (size_t)n, sizeof(**names), by_name);
	return n;
}

/* ---- the names in chain/ ---- */

struct names {
	struct fsck *f;
	bay_name *bays;
	size_t n;
};

static int
on_chain(void *arg, const char *name)
{
	struct names *x = arg;
	char path[DISK_PATH];
	char again[BAY_NAME];
	char r[RANDOM_TEXT];
	int bay;

	snprintf(path, sizeof(path), "chain/%.255s", name);
	bool bay_like = sscanf(name, "%12[a-z2-7].%d", r, &bay) == 2 && bay >= 0;
	if (bay_like) {
		snprintf(again, sizeof(again), "%s.%d", r, bay);
		bay_like = !strcmp(again, name);
	}
	if (!bay_like)
		fsck_found(x->f, ODD_CHAIN_FOREIGN, path, "is no bay");
	else if (!x->n || !bsearch(name, x->bays, x->n, sizeof(*x->bays), by_name))
		fsck_found(x->f, ODD_BAY_NO_BATCH, path, "belongs to no batch that can be read");
	return 0;
}

/* ---- a bay ---- */

struct bay {
	struct fsck *f;
	int64_t number;
	char path[DISK_PATH];
	bool sealable; /* something that sealing it anew mends */
	bool lost;     /* a seal is damaged that may have been all that there was */
	bool bad_digest;
	int64_t mends; /* of that */
};

static void
on_odd(void *arg, enum bay_oddity what, const char *file, const char *more)
{
	static const char *const words[BAY_ODDITIES] = {
		[BAY_FOREIGN] = "is neither a link of a task, nor a digest, nor a seal",
		[BAY_NO_TASK] = "is of no task of this bay",
		[BAY_NO_LINK] = "is no symbolic link",
		[BAY_GARBLED] = "says what no daemon writes: ",
		[BAY_GAP] = "",
		[BAY_END_ALONE] = "has no claim beside it",
		[BAY_CLAIM_UNENDED] = "has no end beside it, but a later attempt was made",
		[BAY_ABOVE_DONE] = "stands above the end of a finished task: ",
		[BAY_DIGEST_BAD] = "is torn, or not of this bay",
		[BAY_DIGEST_DIFFERS] = "says what no links say: ",
		[BAY_SEAL_BAD] = "is torn",
		[BAY_SEAL_LOST] = "is torn or damaged. Tasks that nothing else tells of: ",
		[BAY_SEAL_OLD] = "was replaced by ",
		[BAY_COVERED] = "has ",
	};
	struct bay *b = arg;
	char path[DISK_PATH];

	snprintf(path, sizeof(path), "%.100s%s%.300s", b->path, *file ? "/" : "", file);
	bool mend = fsck_found(b->f, (int)what, path, "%s%s", words[what], more);
	b->lost |= what == BAY_SEAL_LOST;
	if (!mend)
		return;
	b->mends++;
	if (what == BAY_DIGEST_BAD)
		b->bad_digest = true;
	else
		b->sealable = true;
}

static void
on_done(void *arg, const struct task *t, unsigned attempt, const char *owner)
{
	const struct bay *b = arg;

	if (!b->f->watcher && b->f->o.done)
		b->f->o.done(b->f->o.arg, t, attempt, owner);
}

static void
on_held(void *arg, const struct task *t, unsigned attempt, const char *owner)
{
	const struct bay *b = arg;
	char path[DISK_PATH];

	if (!*owner || fsck_has_beat(b->f, owner))
		return;
	link_path(path, b->path, t->name, attempt, LINK_CLAIM);
	fsck_found(b->f, ODD_HELD_DEAD, path, "is held by %s, which has no beat", owner);
}

/* What is wrong with the bay is what a sealer removes. In the second round
 * only. */
static int
mend_bay(const struct bay *b, struct err *err)
{
	char path[DISK_PATH];
	struct seal_bay out;
	struct fsck *f = b->f;

	if (b->bad_digest) {
		snprintf(path, sizeof(path), "%.100s/digest", b->path);
		fsck_mended(f, path, disk_unlink(&f->disk, path), NULL);
	}
	if (!b->sealable || b->lost)
		return 0;
	int rc = queue_seal(f->q, b->number, f->watcher, &out, err);
	if (rc == -EINTR || rc == -EOWNERDEAD)
		return rc;
	const char *why = rc ? err->text : NULL;
	if (!rc && out.result != SEAL_SEALED && out.result != SEAL_CLEAN) {
		rc = -EAGAIN;
		why = "not all tasks of the bay are over; raser seal does it when they are";
	}
	for (int64_t i = b->bad_digest; i < b->mends; i++)
		fsck_mended(f, b->path, rc, why);
	return 0;
}

int
fsck_chain(struct fsck *f, struct err *err)
{
	struct names x = { .f = f };
	struct bay b = { .f = f };
	const struct bay_examiner e = {
		.arg = &b, .odd = on_odd, .done = on_done, .held = on_held
	};
	struct seal_bay sb;
	int64_t n = all_bays(f, &x.bays);
	int rc = n < 0 ? err_set(err, (int)n, "out of memory") : 0;

	x.n = rc ? 0 : (size_t)n;
	if (!rc)
		rc = disk_list(&f->disk, "chain", on_chain, &x);
	free(x.bays);
	if (rc == -ENOENT)
		return 0; /* that was told */
	if (rc)
		return err_set(err, rc, "chain/: %s", strerror(-rc));
	for (int64_t i = 0; !rc && !queue_seal_bay(f->q, i, &sb); i++) {
		b = (struct bay){ .f = f, .number = i };
		bay_path(b.path, sb.random, sb.bay);
		rc = queue_examine(f->q, i, &e, &f->totals.bays, err);
		if (!rc && f->watcher)
			rc = queue_seal_beat(f->q, f->watcher);
		if (!rc && f->watcher)
			rc = mend_bay(&b, err);
	}
	return rc;
}
