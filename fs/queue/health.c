/*
 * health.c - what calls on the run directory tell of the storage: which kind fails since when and
 * why, which call hangs, and whether the run is still where its path leads. Only the wrappers in
 * disk.c report here; anybody may ask. No locks: the answers are for people and for patience.
 */
#include <config.h>

#include "disk.h"

#include <errno.h>
#include <string.h>

enum { SILENT_MS = 5000 };

int
health_enter(struct disk *d, enum disk_call call)
{
	struct disk_health *h = &d->health;
	long long now = disk_now(d);

	atomic_fetch_add_explicit(&d->calls[call], 1, memory_order_relaxed);
	if (atomic_load(&h->away))
		return HEALTH_REFUSED;
	for (int i = 0; i < DISK_THREADS; i++) {
		long long none = 0;

		if (atomic_compare_exchange_strong(&h->busy[i].since, &none, now ? now : 1)) {
			atomic_store(&h->busy[i].call, (int)call);
			return i;
		}
	}
	return -1; /* more threads than we have: that one is not timed */
}

/* An answer of a storage that does its work. */
static bool
is_answer(int rc)
{
	switch (-rc) {
	case ENOENT:
	case EEXIST:
	case EINVAL:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENOTEMPTY:
	case ENAMETOOLONG:
	case ENOMEM: /* ours */
		return true;
	default:
		return rc >= 0;
	}
}

/* Of all errors those that tell that nothing has happened, and EIO. */
static int
in_our_words(int rc)
{
	switch (-rc) {
	case EROFS:
	case ENOSPC:
	case EDQUOT:
	case EACCES:
	case EOPNOTSUPP: /* it cannot, whoever asks: the trial of a file system tells */
	case ENOSYS:
		return rc;
	case EPERM:
		return -EACCES;
	case EMLINK: /* a directory that can take no more */
		return -ENOSPC;
	default:
		return is_answer(rc) ? rc : -EIO;
	}
}

int
health_leave(struct disk *d, enum disk_call call, int slot, int rc)
{
	struct disk_health *h = &d->health;

	if (slot >= 0)
		atomic_store(&h->busy[slot].since, 0);
	if (is_answer(rc)) {
		if (atomic_load(&h->failing[call].code))
			atomic_store(&h->failing[call].code, 0);
		return rc;
	}
	long long now = disk_now(d);
	atomic_store(&h->failing[call].last, now);
	if (!atomic_load(&h->failing[call].code))
		atomic_store(&h->failing[call].since, now);
	atomic_store(&h->failing[call].code, -rc);
	return in_our_words(rc);
}

/* The run as its FORMAT says, read where we are. */
static int
format_here(struct disk *d, const char *format)
{
	char text[128];
	int n = d->ops->read(d->ctx, "FORMAT", text, sizeof(text));

	if (n < 0)
		return n;
	return (size_t)n >= strlen(format) && !memcmp(text, format, strlen(format)) ? 0 : -EXDEV;
}

int
disk_home(struct disk *d, const char *format)
{
	struct disk_health *h = &d->health;
	int slot = health_enter(d, DISK_READ);
	int rc = d->ops->home ? d->ops->home(d->ctx, format) : format_here(d, format);
	bool gone = rc == -ENOENT || rc == -ENOTDIR || rc == -EXDEV;

	rc = gone ? rc : health_leave(d, DISK_READ, slot, rc);
	if (gone && slot >= 0)
		atomic_store(&h->busy[slot].since, 0);
	if (gone) {
		if (!atomic_exchange(&h->away, rc == -EXDEV ? EXDEV : ENOENT))
			atomic_store(&h->away_since, disk_now(d));
	} else if (rc >= 0) {
		atomic_store(&h->away, 0);
	}
	return rc;
}

bool
disk_is_away(struct disk *d)
{
	return atomic_load(&d->health.away) != 0;
}

void
disk_state(struct disk *d, int64_t boot_ms, struct disk_state *state)
{
	struct disk_health *h = &d->health;

	*state = (struct disk_state){ .mood = DISK_WELL };
	for (int i = 0; i < DISK_CALLS; i++) {
		int code = atomic_load(&h->failing[i].code);
		int64_t since = atomic_load(&h->failing[i].since);

		if (!code || (state->mood != DISK_WELL && state->since <= since))
			continue;
		*state = (struct disk_state){ .mood = DISK_REFUSES, .call = (enum disk_call)i,
					      .code = code, .since = since,
					      .last = atomic_load(&h->failing[i].last) };
	}
	for (int i = 0; i < DISK_THREADS; i++) {
		int64_t since = atomic_load(&h->busy[i].since);

		if (!since || boot_ms - since < SILENT_MS ||
		    (state->mood == DISK_SILENT && state->since <= since))
			continue;
		*state = (struct disk_state){ .mood = DISK_SILENT, .since = since, .last = boot_ms,
					      .call = (enum disk_call)atomic_load(&h->busy[i].call) };
	}
	int away = atomic_load(&h->away);
	if (away)
		*state = (struct disk_state){ .mood = DISK_AWAY, .code = away, .last = boot_ms,
					      .since = atomic_load(&h->away_since) };
}
