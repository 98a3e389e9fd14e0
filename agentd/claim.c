/*
 * claim.c - the queue by plain file operations on a mount.
 */
#include <config.h>

#include "claim.h"

#include "conf.h"
#include "disk.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The mount that agentd works on. */
static struct {
	int id; /* as this namespace numbers it; 0 = there is none */
	unsigned minor;
} top;

static int
mount_open(struct queue_access *a, struct run_info *info, struct err *err)
{
	char path[PATH_MAX + 16];
	json_error_t e;
	struct stat st;

	snprintf(path, sizeof(path), "%s/FORMAT", a->path);
	if (stat(path, &st) == 0)
		return err_set(err, -EINVAL, "%s is a run directory: give a mount of it, or --direct",
			       a->path);
	snprintf(path, sizeof(path), "%s/status.json", a->path);
	if (stat(path, &st) < 0)
		return err_set(err, -errno, "%s is no mount of raserfs: %s", a->path,
			       strerror(errno));
	json_t *root = json_load_file(path, 0, &e);
	if (!root)
		return err_set(err, -EIO, "%s cannot be read", path);
	*info = (struct run_info){ .memory = -1 };
	snprintf(info->run, sizeof(info->run), "%s", json_string_value(json_object_get(root, "run")));
	info->steal_after_ms =
		(int64_t)(json_number_value(json_object_get(root, "steal_after")) * 1000);
	info->grace_ms = (int64_t)(json_number_value(json_object_get(root, "grace")) * 1000);
	size_t i;
	const json_t *t;
	json_array_foreach(json_object_get(root, "tiers"), i, t) {
		const char *name = json_string_value(json_object_get(t, "name"));

		if (name && !strcmp(name, a->tier))
			info->memory = json_integer_value(json_object_get(t, "memory"));
	}
	json_decref(root);
	if (info->memory < 0)
		return err_set(err, -ENOENT, "%s: no mount of raserfs with a tier %s", a->path,
			       a->tier);
	return 0;
}

/* Everything that fd gives, allocated. */
static int
read_all(int fd, char **out, size_t *size)
{
	size_t cap = 1 << 16;
	size_t len = 0;
	char *buf = malloc(cap);

	while (buf) {
		if (len + 1 == cap) {
			char *grown = realloc(buf, cap * 2);

			if (!grown)
				break;
			buf = grown;
			cap *= 2;
		}
		ssize_t n = read(fd, buf + len, cap - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int rc = -errno;

			free(buf);
			return rc;
		}
		if (n == 0) {
			buf[len] = '\0';
			*out = buf;
			*size = len;
			return 0;
		}
		len += (size_t)n;
	}
	free(buf);
	return -ENOMEM;
}

/* 0 or an errno, and then the text is empty. */
static int
get_attr(const char *path, const char *name, char *buf, size_t size)
{
	ssize_t n = getxattr(path, name, buf, size - 1);

	buf[n > 0 ? n : 0] = '\0';
	return n < 0 ? -errno : 0;
}

static void
let_go(struct lease_claim *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	free(c->payload);
	c->payload = NULL;
}

/* Open a file that claims, and read all of it. */
static int
open_claim(const char *path, struct lease_claim *c, char **text, size_t *size)
{
	*c = (struct lease_claim){ .fd = -1 };
	do {
		c->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	} while (c->fd < 0 && errno == EINTR);
	if (c->fd < 0)
		return -errno;
	int rc = read_all(c->fd, text, size);
	if (rc)
		let_go(c);
	return rc;
}

/* What the lease tells of a claim that has its lease. Without it there is no claim: folders are
 * named after its owner. */
static int
ask_lease(struct lease_claim *c)
{
	char number[16];
	int rc = get_attr(c->lease, "user.raser.claimer", c->owner, sizeof(c->owner));

	if (!rc)
		rc = get_attr(c->lease, "user.raser.failures", number, sizeof(number));
	if (!rc && !c->owner[0])
		rc = -ESTALE;
	if (rc) {
		let_go(c);
		return rc;
	}
	c->failures = (int)strtol(number, NULL, 10);
	return 0;
}

/* Take the news that there is something as read, so that none gets lost before the next look. */
static int
read_news(struct queue_access *a)
{
	char path[PATH_MAX + 64];
	char buf[32];

	if (a->news_fd < 0) {
		snprintf(path, sizeof(path), "%s/queue/%s/ready", a->path, a->tier);
		a->news_fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return a->news_fd < 0 || pread(a->news_fd, buf, sizeof(buf), 0) < 0 ? -errno : 0;
}

static int
take_next(struct queue_access *a, struct lease_claim *c)
{
	char path[PATH_MAX + 64];
	char *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/queue/%s/next", a->path, a->tier);
	int rc = open_claim(path, c, &text, &size);
	if (rc)
		return rc;
	/* first line: leases/T@k */
	char *nl = text ? memchr(text, '\n', size) : NULL;
	size_t len = 0;
	if (nl)
		*nl = '\0';
	if (!text || !nl || strncmp(text, "leases/", 7) != 0 || !name_split(text + 7, &len, &c->attempt) ||
	    len > NAME_LIMIT) {
		free(text);
		let_go(c);
		return -EPROTO;
	}
	snprintf(c->lease, sizeof(c->lease), "%s/%s", a->path, text);
	memcpy(c->name, text + 7, len);
	c->name[len] = '\0';
	c->size = size - (size_t)(nl + 1 - text);
	c->payload = text;
	memmove(text, nl + 1, c->size + 1);
	rc = ask_lease(c);
	/* taken away already: there are others */
	return rc == -ESTALE || rc == -ENOENT ? -EAGAIN : rc;
}

static int
mount_next(struct queue_access *a, struct lease_claim *c)
{
	int rc = read_news(a);

	if (!rc)
		rc = take_next(a, c);
	if (rc && rc != -EAGAIN && rc != -ENODATA && a->news_fd >= 0) {
		close(a->news_fd); /* of a mount that is gone */
		a->news_fd = -1;
	}
	return rc;
}

/* The daemon of the mount, as its status says. */
static void
ask_owner(const char *mnt, char *owner, size_t size)
{
	char path[PATH_MAX + 16];
	char line[PATH_MAX + 16];

	owner[0] = '\0';
	snprintf(path, sizeof(path), "%s/status", mnt);
	FILE *f = fopen(path, "re");
	while (f && !owner[0] && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "owner ", 6))
			snprintf(owner, size, "%.31s", line + 6);
	}
	if (f)
		fclose(f);
}

static int
mount_again(struct queue_access *a, struct lease_claim *c, unsigned attempt)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	struct lease_claim next;
	char *text = NULL;
	size_t size = 0;

	ask_owner(a->path, c->tried, sizeof(c->tried));
	snprintf(path, sizeof(path), "%s/queue/%s/%s@%u", a->path, a->tier, c->name, attempt);
	int rc = open_claim(path, &next, &text, &size);
	if (rc == -EBUSY || rc == -ENOENT)
		c->tried[0] = '\0';
	if (rc)
		return rc;
	next.attempt = attempt;
	next.payload = text;
	next.size = size;
	memcpy(next.name, c->name, sizeof(next.name));
	snprintf(next.lease, sizeof(next.lease), "%s/leases/%s@%u", a->path, next.name, next.attempt);
	rc = ask_lease(&next);
	if (rc)
		return rc;
	let_go(c);
	*c = next;
	return 0;
}

static bool
mount_orphaned(struct queue_access *a, const struct lease_claim *c)
{
	char byte;

	(void)a;
	/* a read: attributes may be answered from the kernel's cache */
	return pread(c->fd, &byte, 1, 0) < 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

/* A claim of an attempt behind ours. Through a daemon that died before its answer reached us it is
 * our own, for all that we know; a living daemon of this mount names who holds it. */
static bool
may_be_ours(const char *path, const struct lease_claim *c)
{
	char text[64];
	char own[64];

	get_attr(path, "user.raser.claimer", text, sizeof(text));
	if (!c->tried[0] || strcmp(text, c->tried) != 0)
		return false;
	get_attr(path, "user.raser.agent", text, sizeof(text));
	snprintf(own, sizeof(own), "raser-agentd[%ld]", (long)getpid());
	return !text[0] || !strcmp(text, own);
}

static enum claim_fate
mount_fate(struct queue_access *a, const struct lease_claim *c, unsigned *next)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	char state[16];
	char reason[32];
	char number[16];
	char again[16];

	snprintf(path, sizeof(path), "%s/tasks/%s", a->path, c->name);
	get_attr(path, "user.raser.attempt", number, sizeof(number));
	get_attr(path, "user.raser.state", state, sizeof(state));
	get_attr(path, "user.raser.reason", reason, sizeof(reason));
	bool ours = may_be_ours(path, c);
	get_attr(path, "user.raser.attempt", again, sizeof(again));
	unsigned long attempt = strtoul(number, NULL, 10);
	/* the claim may end between two of these, and they then do not belong together; and a daemon
	 * that has just started has not read every end */
	if (!*number || strcmp(number, again) != 0 || !*state || !strcmp(state, "unread") ||
	    attempt < c->attempt)
		return FATE_UNKNOWN;
	*next = (unsigned)attempt;
	if (!strcmp(state, "claimed"))
		return attempt == c->attempt || ours ? FATE_STANDS : FATE_OVER;
	if (strcmp(state, "pending") != 0 || attempt == c->attempt)
		return FATE_OVER;
	/* whoever had those in between has nothing to show for it: we, or one like us */
	return attempt == c->attempt + 1 || !strcmp(reason, "restart") ||
			       !strcmp(reason, "undelivered") ?
		       FATE_FREE :
		       FATE_OVER;
}

static bool
mount_stands(struct queue_access *a, const struct lease_claim *c, const char *verb)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	char number[16];
	char state[16];

	snprintf(path, sizeof(path), "%s/tasks/%s", a->path, c->name);
	get_attr(path, "user.raser.attempt", number, sizeof(number));
	unsigned long attempt = strtoul(number, NULL, 10);
	get_attr(path, "user.raser.state", state, sizeof(state));
	/* nobody but the holder ends an attempt so */
	if (attempt == c->attempt)
		return (!strcmp(verb, "done") && !strcmp(state, "done")) ||
		       (strcmp(verb, "done") != 0 && !strcmp(state, "failed"));
	get_attr(path, "user.raser.failures", number, sizeof(number));
	return attempt == c->attempt + 1 && !strcmp(state, "pending") && !strncmp(verb, "retry ", 6) &&
	       strtol(number, NULL, 10) > c->failures;
}

static int
mount_touch(struct queue_access *a, const struct lease_claim *c)
{
	(void)a;
	return utimensat(AT_FDCWD, c->lease, NULL, 0) < 0 ? -errno : 0;
}

static int
mount_verb(struct queue_access *a, const struct lease_claim *c, const char *verb)
{
	(void)a;
	int fd = open(c->lease, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int rc = write_all(fd, verb, strlen(verb));
	close(fd);
	return rc;
}

static void
mount_drop(struct queue_access *a, struct lease_claim *c)
{
	(void)a;
	let_go(c);
}

static bool
mount_is_done(struct queue_access *a, const char *name)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	char state[16];

	snprintf(path, sizeof(path), "%s/tasks/%.255s", a->path, name);
	return !get_attr(path, "user.raser.state", state, sizeof(state)) && !strcmp(state, "done");
}

/* ---- the mount itself ---- */

static int
mount_join(struct queue_access *a, struct err *err)
{
	(void)a;
	(void)err; /* its daemon has joined for us */
	return 0;
}

/* Something was mounted or unmounted. A mount that was taken away is a daemon that died: who waits
 * for the next heartbeat would find its task taken by another, and who waits for the mount loses
 * time. */
static bool
mount_heard(struct queue_access *a)
{
	static struct mount_entry now; /* it holds a path */

	mountinfo_top(a->path, &now);
	/* as long as we hold a descriptor of it, neither number is given to another */
	bool same = now.id == top.id && now.minor == top.minor;
	top.id = now.id;
	top.minor = now.minor;
	return !same;
}

static int64_t
mount_turn(struct queue_access *a, bool waits)
{
	(void)a;
	(void)waits; /* who polls `ready` waits: the daemon sees it */
	return -1;
}

static void
mount_leave(struct queue_access *a)
{
	if (a->news_fd >= 0)
		close(a->news_fd);
	a->news_fd = -1;
}

static const struct queue_ops mount_ops = {
	.open = mount_open, .join = mount_join, .turn = mount_turn, .heard = mount_heard,
	.leave = mount_leave, .next = mount_next, .touch = mount_touch, .verb = mount_verb,
	.drop = mount_drop, .is_done = mount_is_done, .orphaned = mount_orphaned,
	.fate = mount_fate, .again = mount_again, .stands = mount_stands,
};

void
access_mount(struct queue_access *a)
{
	a->ops = &mount_ops;
	a->mnt = a->path;
	a->news_fd = -1;
	a->watch_fd = mountinfo_watch();
	a->watch_events = POLLPRI;
	mount_heard(a);
}
