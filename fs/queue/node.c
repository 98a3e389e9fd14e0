/*
 * node.c - one's own beat, and looking at the beats of others.
 */
#include <config.h>

#include "node.h"

#include "history.h"
#include "mutant.h"
#include "names.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FOLLOWED = 3,	/* owners behind one's own that must be seen to move */
	WANTED_MAX = 8, /* owners of wanted tasks looked at in a round */
	INFOS_MAX = 8,	/* owners of whom nothing is known yet, read in a round */
	LOOKS_MIN = 4,
	MISSING_MS = 1000,
	WRITE_S = 60, /* longer than writing a note takes */
};

#define FORMAT_LINE "raserfs 1 "

void
random_text(char *out, size_t len)
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char r[64];

	while (getrandom(r, len, 0) != (ssize_t)len)
		;
	for (size_t i = 0; i < len; i++)
		out[i] = alphabet[r[i] & 31];
	out[len] = '\0';
}

static const char *const kind_names[] = {
	[OWNER_DAEMON] = "daemon",
	[OWNER_HAND] = "hand",
	[OWNER_SEALER] = "seal",
};

void
owner_draw(char owner[OWNER_TEXT], enum owner_kind kind)
{
	enum { HOST_PART = 8 };
	char host[HOST_TEXT] = "";
	size_t all = 0;
	size_t n = 0;

	if (kind == OWNER_DAEMON)
		host_name(host);
	else
		snprintf(host, sizeof(host), "%s", kind_names[kind]);
	for (const char *p = host; *p && *p != '.'; p++)
		all += isalnum((unsigned char)*p) != 0;
	/* of a long name the end, in which the nodes of a cluster differ */
	for (const char *p = host; *p && *p != '.'; p++)
		if (isalnum((unsigned char)*p) && all-- <= HOST_PART)
			owner[n++] = (char)tolower((unsigned char)*p);
	if (!n)
		owner[n++] = 'n';
	/* a host may be called as what is no daemon */
	if (kind == OWNER_DAEMON && n == 4 &&
	    (!strncmp(owner, kind_names[OWNER_HAND], n) || !strncmp(owner, kind_names[OWNER_SEALER], n)))
		owner[n++] = '0';
	owner[n++] = '.';
	random_text(owner + n, 12);
	if (MUTANT(FRESH_OWNER))
		memset(owner + n, 'a', 12);
}

size_t
owner_host(const char *owner)
{
	return strcspn(owner, ".");
}

bool
owner_is_sealer(const char *owner)
{
	size_t n = strlen(kind_names[OWNER_SEALER]);

	return !strncmp(owner, kind_names[OWNER_SEALER], n) && owner[n] == '.';
}

static void
read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");

	buf[0] = '\0';
	if (!f)
		return;
	if (fgets(buf, (int)size, f))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(f);
}

static uint64_t
pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 ? 0 : (uint64_t)st.st_ino;
}

/* The start time of a process, or 0 when it cannot be read: proc(5), stat, field 22. *over: nothing of
 * it runs any more, and only its parent has not asked yet. */
static uint64_t
process_start(long pid, bool *over)
{
	char path[64];
	char line[1024];
	char state = '?';
	long threads = 0;
	unsigned long long start = 0;

	*over = false;
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	read_line(path, line, sizeof(line));
	const char *p = strrchr(line, ')'); /* the name may hold blanks and brackets */
	if (!p || sscanf(p + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
				" %*s %ld %*s %llu", &state, &threads, &start) != 3)
		return 0;
	/* the first thread may have ended while another hangs in the storage */
	*over = state == 'Z' && threads <= 1;
	return start;
}

static void
node_text(struct node *node)
{
	char boot[40];
	bool over;

	read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	/* the last lines have a fixed width, so that amending them never changes the size */
	snprintf(node->text, sizeof(node->text),
		 "owner %s\nkind %s\nhost %s\nboot %s\npidns %llu\npid %ld\nstart %llu\nversion %s\n"
		 "job %s\nrestarts %d\ndied %-3d\npaused %d\nagents %-*.*s\n",
		 node->owner, kind_names[node->kind], node->host, boot,
		 (unsigned long long)pid_namespace(), (long)getpid(),
		 (unsigned long long)process_start(getpid(), &over), PACKAGE_VERSION, node->job,
		 node->restarts, node->died < 999 ? node->died : 999, node->paused, NODE_NOTE - 1, NODE_NOTE - 1, node->note);
}

static void
node_path(char path[DISK_PATH], const char *owner)
{
	snprintf(path, DISK_PATH, "nodes/%s", owner);
}

int
node_join(struct node *node, struct disk *disk, enum owner_kind kind, int64_t wall)
{
	char path[DISK_PATH];

	*node = (struct node){ .disk = disk, .kind = kind, .second = wall };
	owner_draw(node->owner, kind);
	host_name(node->host);
	host_job(node->job, &node->restarts);
	node_text(node);
	node_path(path, node->owner);
	int rc = disk_create(disk, path, node->text, strlen(node->text));
	if (MUTANT(FRESH_OWNER) && rc == -EEXIST)
		rc = 0;
	int64_t since = disk_now(disk);
	if (!rc)
		rc = disk_touch(disk, path, node->second);
	if (!rc)
		history_say(disk, "owner\t%s\t%lld", node->owner, (long long)since);
	if (rc)
		disk_unlink(disk, path); /* or each try would leave a beat behind that nobody beats */
	return rc;
}

int
node_beat(struct node *node, int64_t wall)
{
	char path[DISK_PATH];

	node_path(path, node->owner);
	/* strictly increasing, whatever the clock does: coarse file systems keep seconds only */
	int64_t next = wall > node->second ? wall : node->second + 1;
	/* a clock that was set back: what we wrote since may carry a later time than any touch, and
	 * on some file systems times never fall (Lustre) */
	if (wall < node->wall)
		next = node->second + WRITE_S;
	node->wall = wall;
	int64_t since = node->disk->history ? disk_now(node->disk) : 0;
	int rc = disk_touch(node->disk, path, next);
	if (MUTANT(BEAT_ONCE) && rc == -ENOENT)
		rc = disk_create(node->disk, path, node->text, strlen(node->text));
	/* also when it failed: it may have been done, and the same time again would move nothing */
	node->second = next;
	history_say(node->disk, "beat\t%s\t%lld\t%d", node->owner, (long long)since, rc);
	if (rc == -ENOENT)
		history_say(node->disk, "dead\t%s", node->owner);
	/* ESTALE may be the storage's own trouble, and is no verdict */
	return rc == -ENOENT ? -EOWNERDEAD : rc;
}

int
node_note(struct node *node, const char *note, int died, bool paused)
{
	char path[DISK_PATH];

	if (!strcmp(node->note, note) && node->died == died && node->paused == paused)
		return 0;
	snprintf(node->note, sizeof(node->note), "%s", note);
	node->died = died;
	node->paused = paused;
	node_text(node);
	node_path(path, node->owner);
	int rc = disk_amend(node->disk, path, node->text, strlen(node->text));
	if (rc)
		node->died = -1; /* once more at the next beat */
	return rc == -ENOENT ? -EOWNERDEAD : rc;
}

void
node_leave(struct node *node)
{
	char path[DISK_PATH];

	if (!node->owner[0])
		return;
	node_path(path, node->owner);
	disk_unlink(node->disk, path);
	history_say(node->disk, "leave\t%s", node->owner);
	node->owner[0] = '\0';
}

/* Copy the value of "key value\n" out of text, trailing blanks removed. */
static void
field(const char *text, const char *key, char *out, size_t size)
{
	size_t klen = strlen(key);

	out[0] = '\0';
	for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		if (strncmp(p, key, klen) != 0 || p[klen] != ' ')
			continue;
		size_t n = strcspn(p + klen + 1, "\n");

		if (n >= size)
			n = size - 1;
		memcpy(out, p + klen + 1, n);
		while (n && out[n - 1] == ' ')
			n--;
		out[n] = '\0';
		return;
	}
}

bool
node_parse(const char *text, struct node_info *info)
{
	char num[32];

	*info = (struct node_info){ 0 };
	field(text, "owner", info->owner, sizeof(info->owner));
	field(text, "host", info->host, sizeof(info->host));
	field(text, "boot", info->boot, sizeof(info->boot));
	field(text, "version", info->version, sizeof(info->version));
	field(text, "agents", info->agents, sizeof(info->agents));
	field(text, "job", info->job, sizeof(info->job));
	field(text, "restarts", num, sizeof(num));
	info->restarts = (int)strtol(num, NULL, 10);
	field(text, "died", num, sizeof(num));
	info->died = (int)strtol(num, NULL, 10);
	field(text, "paused", num, sizeof(num));
	info->paused = num[0] == '1';
	field(text, "pidns", num, sizeof(num));
	info->pidns = strtoull(num, NULL, 10);
	field(text, "pid", num, sizeof(num));
	info->pid = strtol(num, NULL, 10);
	field(text, "start", num, sizeof(num));
	info->start = strtoull(num, NULL, 10);
	return info->owner[0] && info->pid > 0;
}

bool
node_is_here(const struct node_info *info)
{
	char boot[40];

	read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	return boot[0] && !strcmp(boot, info->boot) && info->pidns && info->pid > 0 &&
	       info->pidns == pid_namespace();
}

/* True only when this machine can see that the process is gone; unreadable proves nothing. */
static bool
is_proven_dead(const struct node_info *info)
{
	bool over;

	if (!node_is_here(info))
		return false;
	if (kill((pid_t)info->pid, 0) < 0 && errno == ESRCH)
		return true;
	uint64_t start = process_start(info->pid, &over);
	return start && info->start && (over || start != info->start);
}

void
watch_init(struct watch *w, struct disk *disk, const char *uuid, int64_t beat_ms)
{
	/* silent: unchanged for steal_after less two beats, that is four beats */
	*w = (struct watch){ .disk = disk,
			     .beat_ms = beat_ms,
			     .window_ms = 4 * beat_ms,
			     .missing_ms = MISSING_MS };
	snprintf(w->uuid, sizeof(w->uuid), "%s", uuid);
}

void
watch_allow(struct watch *w, int64_t times_ms, int64_t names_ms)
{
	w->window_ms += times_ms;
	w->missing_ms += names_ms;
}

void
watch_free(struct watch *w)
{
	free(w->owners);
	w->owners = NULL;
	w->n = w->cap = 0;
}

struct watched *
watch_owner(struct watch *w, const char *owner)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->owners[i].owner, owner))
			return &w->owners[i];
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;
		struct watched *grown = realloc(w->owners, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		w->owners = grown;
		w->cap = cap;
	}
	struct watched *o = &w->owners[w->n++];
	*o = (struct watched){ .id = w->next_id++ };
	snprintf(o->owner, sizeof(o->owner), "%s", owner);
	return o;
}

int
format_read(struct disk *disk, char uuid[UUID_TEXT])
{
	char text[128];
	int n = disk_read(disk, "FORMAT", text, sizeof(text) - 1);

	if (n < 0)
		return n;
	text[n] = '\0';
	if (strncmp(text, FORMAT_LINE, strlen(FORMAT_LINE)) != 0)
		return -EINVAL;
	const char *u = text + strlen(FORMAT_LINE);
	size_t len = strcspn(u, "\n");
	if (len == 0 || len >= UUID_TEXT)
		return -EINVAL;
	memcpy(uuid, u, len);
	uuid[len] = '\0';
	return 0;
}

void
format_text(char *buf, size_t size, const char *uuid)
{
	snprintf(buf, size, FORMAT_LINE "%s\n", uuid);
}

static bool
format_holds(struct watch *w)
{
	char text[128];

	format_text(text, sizeof(text), w->uuid);
	return disk_home(w->disk, text) >= 0;
}

static void
restart_windows(struct watch *w)
{
	for (size_t i = 0; i < w->n; i++) {
		w->owners[i].since = 0;
		w->owners[i].looks = 0;
		w->owners[i].missing = 0;
	}
}

static int
on_listed(void *arg, const char *name)
{
	struct watch *w = arg;

	/* dots hide foreign files such as .nfs0000 */
	if (name[0] == '.' || strlen(name) >= OWNER_TEXT || !strchr(name, '.'))
		return 0;
	struct watched *o = watch_owner(w, name);
	if (!o)
		return -ENOMEM;
	o->listed = true;
	o->missing = 0;
	return 0;
}

static void
read_info(struct watch *w, struct watched *o)
{
	char path[DISK_PATH];
	char text[NODE_TEXT];

	node_path(path, o->owner);
	int n = disk_read(w->disk, path, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	o->info_read = node_parse(text, &o->info);
}

static void
judge_missing(struct watch *w, struct watched *o, int64_t start, int64_t listed)
{
	if (!o->missing) {
		o->missing = listed;
	} else if (start - o->missing >= w->missing_ms && format_holds(w)) {
		o->verdict = DEAD_LOST;
		history_say(w->disk, "verdict\t%s\tmissing", o->owner);
	}
}

/* One fresh look at a listed owner, and the verdict when its window is full. */
static void
look(struct watch *w, struct watched *o)
{
	char path[DISK_PATH];
	struct disk_stat st;
	int64_t start = disk_now(w->disk);

	node_path(path, o->owner);
	int rc = disk_stat(w->disk, path, &st);
	if (rc) {
		o->since = 0;
		o->looks = 0;
		return; /* the next listing tells whether it is gone */
	}
	int64_t end = disk_now(w->disk);
	o->seen_wall = st.mtime_s;
	/* a call that hung in an outage is a gap as well: the round's other looks, or its listing */
	bool gap = !MUTANT(OWN_GAP) && end - o->last > 2 * w->beat_ms;
	bool same = o->since && st.ino == o->sig.ino && st.mtime_s == o->sig.mtime_s &&
		    st.mtime_ns == o->sig.mtime_ns;
	if (!same || gap) {
		o->moved |= o->since && !same;
		o->sig = st;
		o->since = end;
		o->looks = 1;
		/* a moving beat may carry a new note */
		read_info(w, o);
	} else {
		o->looks++;
	}
	o->last = start;
	if (o->info_read && is_proven_dead(&o->info)) {
		o->verdict = DEAD_PROVEN;
		history_say(w->disk, "verdict\t%s\tproven", o->owner);
		log_info("node %s: its process %ld is gone", o->owner, o->info.pid);
		return;
	}
	/* the last look under a second old, or a frozen observer would judge by an old one */
	if (o->looks >= LOOKS_MIN && start - o->since >= w->window_ms && format_holds(w) &&
	    (MUTANT(LAST_LOOK) || disk_now(w->disk) - start < MISSING_MS)) {
		history_say(w->disk, "verdict\t%s\tsilent", o->owner);
		rc = disk_unlink(w->disk, path);
		history_say(w->disk, "unlink\t%s\t%d", o->owner, rc);
		if (rc && rc != -ENOENT) {
			log_warnx("node %s is silent, but its beat cannot be unlinked: %s",
				  o->owner, strerror(-rc));
			return;
		}
		o->verdict = DEAD_LOST;
		log_info("node %s: silent for %lld ms, its claims may be stolen", o->owner,
			 (long long)(end - o->since));
	}
}

static int
by_random(const void *a, const void *b)
{
	return strcmp(owner_random(((const struct watched *)a)->owner),
		      owner_random(((const struct watched *)b)->owner));
}

int64_t
watch_round(struct watch *w, const char *self, const char *const *wanted, size_t nwanted,
	    bool restart)
{
	int64_t start = disk_now(w->disk);
	bool soon = false;

	for (size_t i = 0; i < w->n; i++)
		w->owners[i].listed = false;
	int rc = disk_list(w->disk, "nodes", on_listed, w);
	if (rc) {
		restart_windows(w);
		w->last_round = 0;
		return rc;
	}
	int64_t listed = disk_now(w->disk); /* a listing that took long was not made at its start */
	if (!MUTANT(OWN_GAP) &&
	    (restart || !w->last_round || start - w->last_round > 2 * w->beat_ms))
		restart_windows(w);
	w->last_round = start;
	/* who has left and is wanted by nobody is forgotten; the wanted ones are judged */
	size_t kept = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct watched *o = &w->owners[i];
		bool want = false;

		for (size_t k = 0; k < nwanted && !want; k++)
			want = !strcmp(wanted[k], o->owner);
		if (!o->listed && !want)
			continue;
		w->owners[kept++] = *o;
	}
	w->n = kept;
	for (size_t k = 0; k < nwanted; k++) {
		struct watched *o = watch_owner(w, wanted[k]);

		if (!o)
			return -ENOMEM;
		if (!o->listed && o->verdict == ALIVE && strcmp(o->owner, self) != 0) {
			judge_missing(w, o, start, listed);
			soon |= o->verdict == ALIVE;
		}
	}
	if (w->n)
		qsort(w->owners, w->n, sizeof(*w->owners), by_random);
	size_t first = 0;
	while (first < w->n && strcmp(owner_random(w->owners[first].owner), owner_random(self)) <= 0)
		first++;
	int moving = 0;
	for (size_t i = 0; i < w->n && moving < FOLLOWED; i++) {
		struct watched *o = &w->owners[(first + i) % w->n];

		if (!o->listed || o->verdict != ALIVE || !strcmp(o->owner, self))
			continue;
		look(w, o);
		moving += o->moved && o->verdict == ALIVE;
	}
	for (size_t k = 0; k < nwanted && k < WANTED_MAX; k++) {
		struct watched *o = watch_owner(w, wanted[k]);

		if (o && o->listed && o->verdict == ALIVE && o->last < start &&
		    strcmp(o->owner, self) != 0)
			look(w, o);
	}
	/* of the others at least what they said first: their host, their job */
	int infos = 0;
	for (size_t i = 0; i < w->n && infos < INFOS_MAX; i++) {
		struct watched *o = &w->owners[(first + i) % w->n];

		if (!o->listed || o->info_read || o->verdict != ALIVE || !strcmp(o->owner, self))
			continue;
		read_info(w, o);
		infos++;
	}
	return soon && w->beat_ms > w->missing_ms ? w->missing_ms : w->beat_ms;
}

void
watch_bury(struct watch *w, const char *owner)
{
	char path[DISK_PATH];

	node_path(path, owner);
	int rc = disk_unlink(w->disk, path);
	history_say(w->disk, "unlink\t%s\t%d", owner, rc);
	if (rc && rc != -ENOENT) {
		log_warnx("node %s is dead, but its beat cannot be unlinked: %s", owner,
			  strerror(-rc));
		return; /* the next round tries again */
	}
	struct watched *o = watch_owner(w, owner);
	if (o)
		o->verdict = DEAD_LOST;
}
