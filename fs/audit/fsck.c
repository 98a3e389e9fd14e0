/*
 * fsck.c - what each oddity means, counting and telling them, and the two
 * rounds.
 */
#include <config.h>

#include "fsck_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAID = 20 /* of a kind; the others are counted */ };

static const char again[] =
	"Links were deleted, or lost by the storage. The highest attempt decides, so at worst "
	"a task runs twice. Nothing needs to be done but to find out who deletes";

static const struct kind {
	enum fsck_level level;
	enum fsck_mend mend;
	const char *means;
} kinds[ODDITIES] = {
	[BAY_FOREIGN] = { FSCK_ODD, MEND_NOT, "Daemons do not look at it. Move it away" },
	[BAY_NO_TASK] = { FSCK_ODD, MEND_NOT,
		"No daemon looks at it. It tells of a task of a batch that was lost since, or "
		"somebody copied it here: compare batches/, and remove it when nothing is missing "
		"there" },
	[BAY_NO_LINK] = { FSCK_ODD, MEND_NOT,
		"Only people make such files. While it is there the attempt cannot be claimed or "
		"ended in order; remove it" },
	[BAY_GARBLED] = { FSCK_ODD, MEND_NOT,
		"No daemon wrote it. A claim with such a text belongs to nobody and is ended "
		"after steal_after; an end with such a text counts nothing, and the task goes on" },
	[BAY_GAP] = { FSCK_NOTE, MEND_NOT, again },
	[BAY_END_ALONE] = { FSCK_NOTE, MEND_NOT,
		"Its claim was deleted, or lost by the storage. An end counts by its own text. "
		"Nothing needs to be done" },
	[BAY_CLAIM_UNENDED] = { FSCK_NOTE, MEND_NOT, again },
	[BAY_ABOVE_DONE] = { FSCK_ODD, MEND_NOT,
		"A finished task was begun again, which no daemon does: its end was deleted and "
		"came back, or storage lost it for a while. The highest attempt decides. When the "
		"task is to be done by the lower attempt, wait until the run is drained" },
	[BAY_DIGEST_BAD] = { FSCK_ODD, MEND_ALONE,
		"Daemons do not use it, and read links instead, which costs time only. --repair "
		"removes it, and the next daemon writes it again" },
	[BAY_DIGEST_DIFFERS] = { FSCK_ODD, MEND_NOT,
		"Links were deleted below a digest. Daemons believe the digest when they start: "
		"when these tasks are to run again, remove the digest and mount anew; else leave "
		"it" },
	[BAY_SEAL_BAD] = { FSCK_ODD, MEND_ALONE,
		"Its sealer was killed, or the disk was full. All its links are there, so nothing "
		"is lost. --repair, or the next raser seal, seals the bay again and removes it" },
	[BAY_SEAL_LOST] = { FSCK_ODD, MEND_NOT,
		"It may be all that is known of these tasks, so no daemon opens the run while it "
		"is there. Bring it back from a copy. When there is none, read in it what became "
		"of them (it is plain text), and move it away: then those tasks run again" },
	[BAY_SEAL_OLD] = { FSCK_ODD, MEND_ALONE,
		"A sealer was killed before it had removed it. --repair, or the next raser seal, "
		"does" },
	[BAY_COVERED] = { FSCK_ODD, MEND_ALONE,
		"A sealer was killed before it had removed them, or tasks were sealed while the "
		"storage repeated an old request. They change nothing. --repair, or the next "
		"raser seal, removes them, once all tasks of the bay are over" },
	[ODD_FOREIGN_ROOT] = { FSCK_NOTE, MEND_NOT, "No part of a run. Nothing looks at it" },
	[ODD_NO_DIR] = { FSCK_ODD, MEND_ANYTIME,
		"Daemons or agents fail without it. --repair makes it, empty" },
	[ODD_NO_CHAIN] = { FSCK_ODD, MEND_NOT,
		"All that it held is lost. Is this the right directory, and is its file system "
		"mounted? Bring it back from a copy. Only when there is none, make it with mkdir: "
		"then every task begins anew, or is submitted anew" },
	[ODD_DENIED] = { FSCK_ODD, MEND_NOT,
		"Daemons and agents of this user will fail there. Give them the rights (chown, "
		"chmod, or the group), or work as the user whom it belongs to" },
	[ODD_USERS] = { FSCK_NOTE, MEND_NOT,
		"Several users work on it. Each of them needs to write in every directory: see "
		"umask(2), setgid directories, or ACLs" },
	[ODD_NO_FORMAT] = { FSCK_ODD, MEND_ANYTIME,
		"Nothing can be mounted without it. --repair writes it again, with the name of "
		"the run that its digests and seals have" },
	[ODD_BAD_FORMAT] = { FSCK_ODD, MEND_NOT,
		"It was made by another version, or it is cut. When it is empty or cut, remove "
		"it, and raser fsck --repair writes it again" },
	[ODD_BAD_INI] = { FSCK_ODD, MEND_NOT,
		"Nothing can be mounted before it is corrected. Below, tiers are taken to be the "
		"usual ones" },
	[ODD_BATCH_FOREIGN] = { FSCK_ODD, MEND_NOT, "Daemons do not look at it. Move it away" },
	[ODD_BATCH_TARGET] = { FSCK_ODD, MEND_NOT,
		"The submission of that number is lost, and is passed over. If its file is there "
		"(one that has no number), link it again with ln -s" },
	[ODD_BATCH_GONE] = { FSCK_ODD, MEND_NOT,
		"The tasks of that submission are lost, and passed over. Bring the file back from "
		"a copy; or submit the tasks again under a new number: what is known of them in "
		"chain/ stays unused" },
	[ODD_BATCH_BAD] = { FSCK_ODD, MEND_NOT,
		"Its tasks cannot be read, and submissions behind it may wait for it for ever. "
		"Bring the file back from a copy. When there is none, remove the file, not the "
		"number: then its tasks are given up, and those behind it go on; submit them "
		"again" },
	[ODD_BATCH_GAP] = { FSCK_ODD, MEND_NOT,
		"Its number was deleted, for numbers are given without gaps. Its file, if it is "
		"still there, is one without a number: link it again with ln -s. No daemon waits "
		"for it" },
	[ODD_BATCH_TWICE] = { FSCK_ODD, MEND_NOT,
		"Somebody made it by hand. The second one adds nothing; remove it" },
	[ODD_BATCH_LOOSE] = { FSCK_NOTE, MEND_NOT,
		"Either its submission was cut before it was acknowledged, and it may be removed; "
		"or its number was deleted, and ln -s brings it back under the missing one, or "
		"the next one. Only people can tell" },
	[ODD_BATCH_TORN] = { FSCK_ODD, MEND_ALONE,
		"Its submission was cut while it was written, and refused. --repair removes it" },
	[ODD_BATCH_YOUNG] = { FSCK_NOTE, MEND_NOT, "Somebody may be submitting it this moment" },
	[ODD_CHAIN_FOREIGN] = { FSCK_ODD, MEND_NOT, "Daemons do not look at it. Move it away" },
	[ODD_BAY_NO_BATCH] = { FSCK_ODD, MEND_NOT,
		"It tells of tasks of a submission that cannot be read now, or is lost. See what "
		"is said of batches/, and keep it until that is settled" },
	[ODD_HELD_DEAD] = { FSCK_NOTE, MEND_NOT,
		"That daemon is gone. The next daemon ends the claim, and the task goes on" },
	[ODD_BEAT_FOREIGN] = { FSCK_ODD, MEND_NOT, "No name of an owner. Move it away" },
	[ODD_BEAT_TORN] = { FSCK_ODD, MEND_NOT,
		"It is judged by whether it moves. If it does not, the next daemon removes it "
		"within steal_after; raser evict does at once" },
	[ODD_BEAT_DEAD] = { FSCK_NOTE, MEND_NOT,
		"Its process is gone. The next daemon ends its claims, and removes it" },
	[ODD_BEAT_SILENT] = { FSCK_NOTE, MEND_NOT,
		"Whether it lives cannot be judged at once, and not from another machine: if it "
		"does not move for steal_after, the next daemon removes it" },
	[ODD_SEALER] = { FSCK_NOTE, MEND_NOT,
		"Somebody seals the run. Daemons and tools that change tasks wait until that has "
		"ended" },
	[ODD_RESULT_NONE] = { FSCK_ODD, MEND_ANYTIME,
		"raser-agentd was killed between its task's end and the link. --repair makes it, "
		"as raser-agentd would have" },
	[ODD_RESULT_WRONG] = { FSCK_ODD, MEND_ANYTIME,
		"It shows a result that was not accepted. --repair makes it point to the accepted "
		"one" },
	[ODD_RESULT_GONE] = { FSCK_ODD, MEND_NOT,
		"The task is done, but its result was deleted. Bring it back from a copy, or "
		"submit the task again under another id" },
	[ODD_RESULT_NOT_DONE] = { FSCK_ODD, MEND_NOT,
		"Links of that task were deleted since. It will be made anew when the task is "
		"done" },
	[ODD_RESULT_ORPHAN] = { FSCK_ODD, MEND_NOT,
		"It may be all that is left of a lost submission. When nothing is missing in "
		"batches/, remove it" },
	[ODD_RESULT_FOREIGN] = { FSCK_NOTE, MEND_NOT, "No result. Nothing looks at it" },
	[ODD_SAVED_DONE] = { FSCK_ODD, MEND_ANYTIME,
		"raser-agentd was killed before it had removed it. Nobody resumes a task that is "
		"done. --repair removes it" },
	[ODD_SAVED_ORPHAN] = { FSCK_ODD, MEND_NOT,
		"It may be needed by a submission that cannot be read now. When nothing is "
		"missing in batches/, remove it" },
	[ODD_SAVED_FOREIGN] = { FSCK_NOTE, MEND_NOT, "No checkpoint. Nothing looks at it" },
	[ODD_LEFTOVER] = { FSCK_ODD, MEND_ALONE,
		"Whoever made it was killed. --repair removes it when nobody works on the run" },
	[ODD_LEFTOVER_YOUNG] = { FSCK_NOTE, MEND_NOT,
		"Younger than an hour: somebody may need it still" },
};

/* ---- telling ---- */

bool
fsck_found(struct fsck *f, int what, const char *path, const char *fmt, ...)
{
	const struct kind *kind = &kinds[what];
	char text[600];
	va_list args;

	if (f->watcher) /* all else was told in the first round */
		return kind->mend == MEND_ALONE;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (++f->found[what] <= SAID)
		f->o.say(f->o.arg, kind->level, path, text,
			 f->found[what] == 1 ? kind->means : NULL);
	if (kind->level == FSCK_NOTE) {
		f->totals.notes++;
		return false;
	}
	f->totals.odd++;
	f->totals.alone += kind->mend == MEND_ALONE;
	return f->o.repair && kind->mend == MEND_ANYTIME;
}

void
fsck_mended(struct fsck *f, const char *path, int rc, const char *why)
{
	f->totals.mended += !rc;
	f->o.mended(f->o.arg, path, !rc ? NULL : why ? why : strerror(-rc));
}

int64_t
fsck_unsaid(const struct fsck *f, int what, const char **means)
{
	*means = kinds[what].means;
	return f->found[what] > SAID ? f->found[what] - SAID : 0;
}

bool
fsck_is_old(struct fsck *f, const char *path)
{
	enum { OLD_S = 3600 };
	struct disk_stat st;

	if (!f->storage_now) {
		f->storage_now = (int64_t)time(NULL);
		/* a sealer's own beat was made there since */
		if (f->watcher && !disk_stat(&f->disk, "nodes", &st))
			f->storage_now = st.mtime_s;
	}
	return !disk_stat(&f->disk, path, &st) && f->storage_now - st.mtime_s > OLD_S;
}

/* ---- rounds ---- */

struct fsck *
fsck_open(const char *run, const struct fsck_options *options, struct err *err)
{
	struct fsck *f = calloc(1, sizeof(*f));

	if (!f) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	f->o = *options;
	snprintf(f->run, sizeof(f->run), "%s", run);
	if (disk_open(&f->disk, run, err) || fsck_head(f, err)) {
		fsck_close(f);
		return NULL;
	}
	f->q = f->own;
	return f;
}

void
fsck_second(struct fsck *f, struct queue *sealer, const struct seal_watcher *w)
{
	f->q = sealer;
	f->watcher = w;
	f->storage_now = 0;
}

void
fsck_close(struct fsck *f)
{
	if (!f)
		return;
	if (f->own)
		queue_close(f->own, (struct now){ .boot_ms = disk_now(&f->disk) });
	watch_free(&f->watch);
	disk_close(&f->disk);
	free(f);
}

struct queue *
fsck_queue(struct fsck *f)
{
	return f->q;
}

struct disk *
fsck_disk(struct fsck *f)
{
	return &f->disk;
}

void
fsck_totals(const struct fsck *f, struct fsck_totals *t)
{
	*t = f->totals;
}
