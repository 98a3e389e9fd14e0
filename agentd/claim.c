/*
 * claim.c - plain file operations on the mount.
 */
#include <config.h>

#include "claim.h"

#include "conf.h"
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

int
run_info_read(const char *mnt, const char *tier, struct run_info *info)
{
	char path[PATH_MAX + 16];
	json_error_t e;
	struct stat st;

	snprintf(path, sizeof(path), "%s/status.json", mnt);
	if (stat(path, &st) < 0)
		return -errno;
	json_t *root = json_load_file(path, 0, &e);
	if (!root)
		return -EIO;
	*info = (struct run_info){ .memory = -1 };
	snprintf(info->run, sizeof(info->run), "%s", json_string_value(json_object_get(root, "run")));
	info->steal_after_ms =
		(int64_t)(json_number_value(json_object_get(root, "steal_after")) * 1000);
	info->grace_ms = (int64_t)(json_number_value(json_object_get(root, "grace")) * 1000);
	size_t i;
	const json_t *t;
	json_array_foreach(json_object_get(root, "tiers"), i, t) {
		const char *name = json_string_value(json_object_get(t, "name"));

		if (name && !strcmp(name, tier))
			info->memory = json_integer_value(json_object_get(t, "memory"));
	}
	json_decref(root);
	return info->memory < 0 ? -ENOENT : 0;
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

static void
get_attr(const char *path, const char *name, char *buf, size_t size)
{
	ssize_t n = getxattr(path, name, buf, size - 1);

	buf[n > 0 ? n : 0] = '\0';
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
		claim_close(c);
	return rc;
}

/* What the lease tells of a claim that has its lease. */
static void
ask_lease(struct lease_claim *c)
{
	char number[16];

	get_attr(c->lease, "user.raser.claimer", c->owner, sizeof(c->owner));
	get_attr(c->lease, "user.raser.failures", number, sizeof(number));
	c->failures = (int)strtol(number, NULL, 10);
}

int
claim_next(const char *mnt, const char *tier, struct lease_claim *c)
{
	char path[PATH_MAX + 64];
	char *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/queue/%s/next", mnt, tier);
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
		claim_close(c);
		return -EPROTO;
	}
	snprintf(c->lease, sizeof(c->lease), "%s/%s", mnt, text);
	memcpy(c->name, text + 7, len);
	c->name[len] = '\0';
	c->size = size - (size_t)(nl + 1 - text);
	c->payload = text;
	memmove(text, nl + 1, c->size + 1);
	ask_lease(c);
	return 0;
}

int
claim_again(const char *mnt, const char *tier, struct lease_claim *c)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	struct lease_claim next;
	char *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/queue/%s/%s@%u", mnt, tier, c->name, c->attempt + 1);
	int rc = open_claim(path, &next, &text, &size);
	if (rc)
		return rc;
	next.attempt = c->attempt + 1;
	next.payload = text;
	next.size = size;
	memcpy(next.name, c->name, sizeof(next.name));
	snprintf(next.lease, sizeof(next.lease), "%s/leases/%s@%u", mnt, next.name, next.attempt);
	ask_lease(&next);
	claim_close(c);
	*c = next;
	return 0;
}

bool
claim_orphaned(const struct lease_claim *c)
{
	char byte;

	/* a read: attributes may be answered from the kernel's cache */
	return pread(c->fd, &byte, 1, 0) < 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

enum claim_fate
claim_fate(const char *mnt, const struct lease_claim *c)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	char text[16];
	char number[16];
	char again[16];

	snprintf(path, sizeof(path), "%s/tasks/%s", mnt, c->name);
	get_attr(path, "user.raser.attempt", number, sizeof(number));
	get_attr(path, "user.raser.state", text, sizeof(text));
	get_attr(path, "user.raser.attempt", again, sizeof(again));
	/* the claim may end between two of these, and number and state then do not belong together */
	if (!*number || strcmp(number, again) != 0)
		return FATE_UNKNOWN;
	unsigned long attempt = strtoul(number, NULL, 10);
	if (attempt == c->attempt && !strcmp(text, "claimed"))
		return FATE_STANDS;
	return attempt == c->attempt + 1 && !strcmp(text, "pending") ? FATE_FREE :
	       *text						  ? FATE_OVER :
								    FATE_UNKNOWN;
}

bool
claim_stands(const char *mnt, const struct lease_claim *c, const char *verb)
{
	char path[PATH_MAX + NAME_LIMIT + 64];
	char number[16];
	char state[16];

	snprintf(path, sizeof(path), "%s/tasks/%s", mnt, c->name);
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

int
claim_touch(const struct lease_claim *c)
{
	return utimensat(AT_FDCWD, c->lease, NULL, 0) < 0 ? -errno : 0;
}

int
claim_verb(const struct lease_claim *c, const char *verb)
{
	int fd = open(c->lease, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int rc = write_all(fd, verb, strlen(verb));
	close(fd);
	return rc;
}

void
claim_close(struct lease_claim *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	free(c->payload);
	c->payload = NULL;
}
