/*
 * peering.c - `raser doctor --peer`: what one node sees of the other, how late, and a race
 * between both. peer.c brings them together.
 *
 * No clock is compared: the watcher takes the time from when it sees the message "done" (a new
 * name in a listing) until it sees the same change by other means.
 */
#include <config.h>

#include "peer.h"

#include "clock.h"
#include "race.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PINGS = 8,
	RACES = 5,
	SETTLE_MS = 50,	 /* longer than a tick of a server's clock */
	SEE_MS = 100000, /* caches may last 60 s */
	POLL_MS = 3,
	TELL_MS = 15000,
	LATE_MS = 1000,
	/* steps of the conversation */
	STEP_PING = 1,
	STEP_ROUND = 20, /* and 30 */
	STEP_RACE = 40,
};

/* What a watcher looks for, by which means. */
enum means { BY_CREATE, BY_LIST, BY_LOOKUP, BY_STATX, BY_STAT, BY_GONE, MEANS };

static const struct {
	const char *what;
	const char *advice; /* when it comes late */
} means[MEANS] = {
	[BY_CREATE] = { "a new name, by trying to create it", "claims are decided by this" },
	[BY_LIST] = { "a new name, by a listing",
		      "tasks and ends are found by this: others work on later" },
	[BY_LOOKUP] = { "a new name, by a bare look-up",
			"raserfs never relies on it, but people and programs do" },
	[BY_STATX] = { "a beat, by statx", "dead daemons are judged by this: set steal_after to "
					   "several times as much" },
	[BY_STAT] = { "a beat, by stat", "raserfs never relies on it" },
	[BY_GONE] = { "a removal, by a bare look-up", "raserfs never relies on it" },
};

struct seen {
	int64_t ms[MEANS]; /* after the message; -1 = not within SEE_MS */
	bool twice;	   /* BY_CREATE made it again */
	int64_t clocks_ms; /* the watcher's wall clock less the writer's, for people */
};

static int64_t
wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- there and back ---- */

/* The shortest time of a message and its answer, in us as the first one measures it. */
static int
ping(struct peer *p, int64_t *best_us)
{
	char text[LINK_TEXT] = "";
	int rc = 0;

	*best_us = INT64_MAX;
	for (int i = 0; i < PINGS && !rc; i++) {
		struct timespec a;
		struct timespec b;

		clock_gettime(CLOCK_MONOTONIC, &a);
		if (p->seat == 1)
			rc = peer_say(p, STEP_PING + i, "ping");
		if (!rc)
			rc = peer_hear(p, STEP_PING + i, text);
		if (!rc && p->seat == 2)
			rc = peer_say(p, STEP_PING + i, "pong");
		clock_gettime(CLOCK_MONOTONIC, &b);
		int64_t us = (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
		/* the second one's first wait is for the first one to begin */
		if (us < *best_us && (p->seat == 1 || i))
			*best_us = us;
	}
	return rc;
}

/* ---- one direction ---- */

static int
change_round(struct peer *p, int step, char answer[LINK_TEXT])
{
	static const char *const dirs[] = { "create", "list", "lookup" };
	static const char *const files[] = { "statx", "stat", "gone" };
	char path[DISK_PATH];
	char text[LINK_TEXT];
	int64_t second = now_read().wall_s;
	int rc = 0;

	for (size_t i = 0; i < 3 && !rc; i++) {
		peer_path(p, true, dirs[i], path);
		rc = disk_mkdir(&p->d->disk, path);
		peer_path(p, true, files[i], path);
		rc = rc ? rc : disk_create(&p->d->disk, path, "beat\n", 5);
		rc = rc ? rc : disk_touch(&p->d->disk, path, second);
	}
	rc = rc ? rc : peer_say(p, step, "ready");
	rc = rc ? rc : peer_hear(p, step + 1, text);
	if (rc)
		return rc;
	disk_pause(&p->d->disk, SETTLE_MS);
	for (size_t i = 0; i < 3 && rc >= 0; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s/x@1.claim", dirs[i]);
		peer_path(p, true, name, path);
		rc = chain_cas(&p->d->disk, path, "writer:1:1", text);
	}
	rc = rc < 0 ? rc : 0;
	for (size_t i = 0; i < 2 && !rc; i++) {
		peer_path(p, true, files[i], path);
		rc = disk_touch(&p->d->disk, path, second + 5);
	}
	peer_path(p, true, "gone", path);
	rc = rc ? rc : disk_unlink(&p->d->disk, path);
	snprintf(text, sizeof(text), "%" PRId64, wall_ms());
	rc = rc ? rc : peer_say(p, step + 2, text);
	return rc ? rc : peer_hear(p, step + 3, answer);
}

/* The directory of the run, for plain look-ups that the table does not make. */
static bool
plain_stat(int dir, const struct peer *p, const char *name, struct stat *st)
{
	char path[DISK_PATH];

	peer_path(p, false, name, path);
	return fstatat(dir, path, st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int
on_any(void *arg, const char *name)
{
	if (name[0] == 'x')
		*(bool *)arg = true;
	return 0;
}

struct primed {
	int dir;
	struct disk_stat statx;
	struct stat stat;
};

/* What a means shows now; also fills the caches at first. */
static bool
is_seen(struct peer *p, const struct primed *was, enum means by)
{
	char path[DISK_PATH];
	struct disk_stat x;
	struct stat st;
	bool any = false;

	switch (by) {
	case BY_LIST:
		peer_path(p, false, "list", path);
		disk_list(&p->d->disk, path, on_any, &any);
		return any;
	case BY_LOOKUP: return plain_stat(was->dir, p, "lookup/x@1.claim", &st);
	case BY_STATX:
		peer_path(p, false, "statx", path);
		return disk_stat(&p->d->disk, path, &x) == 0 && x.mtime_s != was->statx.mtime_s;
	case BY_STAT:
		return plain_stat(was->dir, p, "stat", &st) && st.st_mtime != was->stat.st_mtime;
	case BY_GONE: return !plain_stat(was->dir, p, "gone", &st);
	default: return false;
	}
}

/* Try to create what the other has made. */
static int
create_again(struct peer *p, struct seen *s)
{
	char path[DISK_PATH];
	char found[LINK_TEXT];
	int64_t begin = disk_now(&p->d->disk);

	peer_path(p, false, "create/x@1.claim", path);
	int rc = chain_cas(&p->d->disk, path, "watcher:1:1", found);
	s->twice = rc == 1 || (rc == 0 && strcmp(found, "writer:1:1") != 0);
	s->ms[BY_CREATE] = disk_now(&p->d->disk) - begin;
	return rc < 0 ? rc : 0;
}

static int
see_changes(struct peer *p, int step, const struct primed *was, struct seen *s)
{
	int64_t zero = 0;
	int64_t next = disk_now(&p->d->disk) + TELL_MS;
	int left = MEANS - 1;
	int64_t at[MEANS] = { 0 };

	for (;;) {
		int64_t now = disk_now(&p->d->disk);

		if (!zero) {
			char text[LINK_TEXT];
			int rc = peer_heard(p, step + 2);

			if (rc < 0)
				return rc;
			if (rc) {
				zero = now;
				rc = peer_hear(p, step + 2, text);
				rc = rc ? rc : create_again(p, s);
				if (rc)
					return rc;
				s->clocks_ms = wall_ms() - strtoll(text, NULL, 10);
			}
		} else if (p->d->stop) {
			return -EINTR;
		}
		for (int by = BY_LIST; by < MEANS; by++)
			if (!at[by] && is_seen(p, was, (enum means)by)) {
				at[by] = disk_now(&p->d->disk);
				left--;
			}
		if (zero && (!left || now - zero > SEE_MS))
			break;
		if (now > next) {
			fputs("raser doctor: waiting for this node's caches to notice\n", stderr);
			next = now + TELL_MS;
		}
		disk_pause(&p->d->disk, POLL_MS);
	}
	for (int by = BY_LIST; by < MEANS; by++)
		s->ms[by] = !at[by] ? -1 : at[by] > zero ? at[by] - zero : 0;
	return 0;
}

static int
see_round(struct peer *p, int step, struct seen *s)
{
	char text[LINK_TEXT];
	char path[DISK_PATH];
	struct primed was = { 0 };

	int rc = peer_hear(p, step, text);
	if (rc)
		return rc;
	was.dir = open(p->d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (was.dir < 0)
		return -errno;
	/* whatever a cache keeps of the time before, it keeps now */
	peer_path(p, false, "statx", path);
	rc = disk_stat(&p->d->disk, path, &was.statx);
	if (!rc && !plain_stat(was.dir, p, "stat", &was.stat))
		rc = -errno;
	for (int by = BY_LIST; by < MEANS; by++)
		is_seen(p, &was, (enum means)by);
	rc = rc ? rc : peer_say(p, step + 1, "primed");
	rc = rc ? rc : see_changes(p, step, &was, s);
	close(was.dir);
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%d:%lld:%d:%d:%d:%d:%d:%d", s->twice, (long long)s->clocks_ms,
		 (int)s->ms[0], (int)s->ms[1], (int)s->ms[2], (int)s->ms[3], (int)s->ms[4],
		 (int)s->ms[5]);
	return peer_say(p, step + 3, text);
}

static bool
parse_seen(const char *text, struct seen *s)
{
	int twice;
	long long clocks;
	int ms[MEANS];

	if (sscanf(text, "%d:%lld:%d:%d:%d:%d:%d:%d", &twice, &clocks, &ms[0], &ms[1], &ms[2],
		   &ms[3], &ms[4], &ms[5]) != 8)
		return false;
	*s = (struct seen){ .twice = twice, .clocks_ms = clocks };
	for (int i = 0; i < MEANS; i++)
		s->ms[i] = ms[i];
	return true;
}

static void
tell_seen(struct doctor *d, const char *topic, const struct seen *s)
{
	if (s->twice)
		finding_add(&d->findings, FINDING_FAILS, topic,
			    "tasks would be given out twice; use another file system",
			    "one name could be created on both nodes");
	for (int by = 0; by < MEANS; by++) {
		bool counts = by == BY_CREATE || by == BY_LIST || by == BY_STATX;
		bool late = s->ms[by] < 0 || s->ms[by] >= LATE_MS;
		bool fails = s->ms[by] < 0 && counts;
		struct finding *one = finding_add(
			&d->findings,
			fails	 ? FINDING_FAILS
			: !late	 ? FINDING_OK
			: counts ? FINDING_WARNING
				 : FINDING_NOTE,
			topic, NULL, s->ms[by] < 0 ? "%s: not within %lld ms" : "%s: after %lld ms",
			means[by].what, (long long)(s->ms[by] < 0 ? SEE_MS : s->ms[by]));
		if (late)
			finding_advise(one, "%s", means[by].advice);
	}
	finding_add(&d->findings, FINDING_OK, topic, NULL,
		    "its clock differs by %.1f s, which counts for nothing",
		    (double)s->clocks_ms / 1000);
}

static int
both_rounds(struct peer *p)
{
	char answer[LINK_TEXT];
	char topic[32];
	struct seen s = { 0 };

	for (int writer = 1; writer <= 2; writer++) {
		int step = STEP_ROUND + 10 * (writer - 1);
		bool mine = writer == p->seat;
		int rc = mine ? change_round(p, step, answer) : see_round(p, step, &s);

		if (rc)
			return rc;
		if (mine && !parse_seen(answer, &s))
			return -EPROTO;
		snprintf(topic, sizeof(topic), mine ? "%.15s sees of us" : "we see of %.15s",
			 p->host);
		tell_seen(p->d, topic, &s);
	}
	return 0;
}

/* ---- the race ---- */

struct tally {
	int mine;  /* names that this side has won */
	int hands; /* how often the winner changed: both were at it at one time */
	bool good;
};

static int
one_race(struct peer *p, int i, int64_t half_us, struct tally *t)
{
	char name[16];
	char path[DISK_PATH];
	char text[LINK_TEXT];
	char said[LINK_TEXT];
	uint32_t sum = 0;
	int step = STEP_RACE + 4 * i;
	int rc = 0;

	/* in the first one's scratch directory */
	snprintf(name, sizeof(name), "race%d", i);
	peer_path(p, p->seat == 1, name, path);
	if (p->seat == 1)
		rc = disk_mkdir(&p->d->disk, path);
	strncat(path, "/", sizeof(path) - strlen(path) - 1);
	/* both go at one moment: the second waits for as long as its word travels */
	if (p->seat == 1) {
		rc = rc ? rc : peer_say(p, step, "on your marks");
		rc = rc ? rc : peer_hear(p, step, text);
	} else {
		rc = peer_hear(p, step, text);
		rc = rc ? rc : peer_say(p, step, "go");
		if (!rc)
			disk_pause(&p->d->disk, (int)(half_us / 1000));
	}
	int won = 0;
	rc = rc ? rc : race_alone(&p->d->disk, path, p->id, &won);
	/* all is made when both have said so, and the texts can be compared */
	snprintf(text, sizeof(text), "%d", won);
	rc = rc ? rc : peer_say(p, step + 1, text);
	rc = rc ? rc : peer_hear(p, step + 1, said);
	if (rc)
		return rc;
	int theirs = (int)strtol(said, NULL, 10);
	int hands = 0;
	rc = race_sum(&p->d->disk, path, &sum, &hands);
	snprintf(text, sizeof(text), "%" PRIu32, sum);
	rc = rc ? rc : peer_say(p, step + 2, text);
	rc = rc ? rc : peer_hear(p, step + 2, said);
	t->mine += won;
	t->hands += hands;
	t->good &= !rc && won + theirs == RACE_NAMES && !strcmp(text, said);
	return rc;
}

static int
races(struct peer *p, int64_t half_us)
{
	struct tally t = { .good = true };

	for (int i = 0; i < RACES; i++) {
		int rc = one_race(p, i, half_us, &t);

		if (rc)
			return rc;
	}
	if (t.good) {
		struct finding *one = finding_add(
			&p->d->findings, t.hands ? FINDING_OK : FINDING_NOTE, "race of two nodes",
			NULL,
			"%d names: one winner each, and both agree (%d ours, %d of %s, %d times in "
			"turn)",
			RACES * RACE_NAMES, t.mine, RACES * RACE_NAMES - t.mine, p->host, t.hands);
		if (!t.hands)
			finding_advise(one, "each race was over before the other node came: it "
					    "proves little. Once more, maybe");
	} else {
		finding_add(
			&p->d->findings, FINDING_FAILS, "race of two nodes",
			"tasks would be given out twice or lost; use another file system",
			"%d names: the winners do not add up, or the nodes read different texts",
			RACES * RACE_NAMES);
	}
	return 0;
}

void
doctor_peer(struct doctor *d)
{
	struct peer p;
	int64_t best_us;

	if (peer_meet(&p, d))
		return;
	int rc = ping(&p, &best_us);
	if (!rc)
		finding_add(&d->findings, FINDING_OK, "peer", NULL,
			    "%s: a message there and back takes %.1f ms", p.host,
			    (double)best_us / 1e3);
	rc = rc ? rc : both_rounds(&p);
	rc = rc ? rc : races(&p, best_us / 2);
	/* who leaves in the middle takes away what we were looking at */
	if (rc && rc != -EINTR && peer_heard(&p, PEER_STEP_LEFT) == 1)
		rc = -EOWNERDEAD;
	if (rc == -EOWNERDEAD)
		finding_advise(finding_add(&d->findings, FINDING_FAILS, "peer", NULL,
					   "%s was ended, or gives no sign of life", p.host),
			       "start raser doctor %.200s --peer on both nodes again", d->dir);
	else if (rc && rc != -EINTR)
		finding_add(&d->findings, FINDING_FAILS, "peer",
			    "see to it, and start raser doctor --peer on both nodes again",
			    "%s: %s", p.host, strerror(-rc));
	peer_part(&p, rc);
}
