/*
 * storage.c - the kinds of file systems, their options, and the verdicts. DESIGN 3, PROTOCOL 1.
 */
#include <config.h>

#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* defaults of the Linux NFS client: nfs(5) */
	NFS_ACREGMAX_S = 60,
	NFS_ACDIRMAX_S = 60,
	FUSE_CACHE_MS = 1000, /* what programs behind FUSE keep as a rule; GlusterFS: md-cache */
	SSHFS_CACHE_MS = 20000,
	SMB_CACHE_S = 1,
};

#define LOCAL_ONLY "only daemons on this machine can take part in a run here"
#define UNTRIED                                                                                    \
	"nobody has tried raserfs on it: run raser doctor --peer from two nodes before you trust " \
	"it"

/* By type, or by type up to a '*'. The first that fits counts. */
static const struct {
	const char *type;
	enum storage_kind kind;
	enum finding_level level;
	const char *name;
	const char *advice;
} types[] = {
	{ "ext*", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "xfs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "btrfs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "zfs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "f2fs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "bcachefs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "jfs", STORAGE_LOCAL, FINDING_NOTE, "a local disk", LOCAL_ONLY },
	{ "tmpfs", STORAGE_MEMORY, FINDING_NOTE, "memory of this machine",
	  LOCAL_ONLY ", and a reboot takes it away" },
	{ "ramfs", STORAGE_MEMORY, FINDING_NOTE, "memory of this machine",
	  LOCAL_ONLY ", and a reboot takes it away" },
	{ "overlay", STORAGE_OVERLAY, FINDING_NOTE, "a layer of a container",
	  LOCAL_ONLY ", and it may go with its container" },
	{ "nfs*", STORAGE_NFS, FINDING_OK, "NFS", "" },
	{ "lustre", STORAGE_LUSTRE, FINDING_OK, "Lustre", "" },
	{ "gpfs", STORAGE_GPFS, FINDING_NOTE, "GPFS",
	  "it must keep exact times (mmlsfs FS -E says yes), or other nodes see beats minutes "
	  "late" },
	{ "ceph", STORAGE_CEPH, FINDING_OK, "CephFS", "" },
	{ "fuse.ceph*", STORAGE_CEPH, FINDING_OK, "CephFS", "" },
	{ "beegfs*", STORAGE_BEEGFS, FINDING_FAILS, "BeeGFS",
	  "a symbolic link is not born whole there: a node can see a claim without its text, and "
	  "the client takes a link back when its text cannot be written. Not supported yet; use "
	  "another file system" },
	{ "fhgfs", STORAGE_BEEGFS, FINDING_FAILS, "BeeGFS",
	  "a symbolic link is not born whole there; not supported yet. Use another file system" },
	{ "fuse.glusterfs", STORAGE_GLUSTER, FINDING_WARNING, "GlusterFS",
	  "bricks must not be added, removed or rebalanced while a run is mounted: two clients may "
	  "then both create one name" },
	{ "fuse.mfs", STORAGE_MOOSEFS, FINDING_OK, "MooseFS", "" },
	{ "moosefs", STORAGE_MOOSEFS, FINDING_OK, "MooseFS", "" },
	{ "fuse.sshfs", STORAGE_SSHFS, FINDING_WARNING, "sshfs", UNTRIED },
	{ "fuse.s3fs", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "s3fs", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.gcsfuse", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.goofys", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.geesefs", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.rclone", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.blobfuse*", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.mount-s3", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "fuse.mountpoint-s3", STORAGE_OBJECT, FINDING_FAILS, "an object store", NULL },
	{ "cifs", STORAGE_SMB, FINDING_WARNING, "an SMB share", UNTRIED },
	{ "smb3", STORAGE_SMB, FINDING_WARNING, "an SMB share", UNTRIED },
	{ "9p", STORAGE_VIRTUAL, FINDING_WARNING, "files of this virtual machine's host", UNTRIED },
	{ "virtiofs", STORAGE_VIRTUAL, FINDING_WARNING, "files of this virtual machine's host",
	  UNTRIED },
	{ "fuse*", STORAGE_FUSE, FINDING_WARNING, "a program's file system", UNTRIED },
};

static const char object_advice[] = "of two clients that create one name both may succeed, so a "
				    "task could be given out twice. Use a file system";

static bool
type_fits(const char *pattern, const char *type)
{
	size_t n = strcspn(pattern, "*");

	return !strncmp(pattern, type, n) && (pattern[n] == '*' || !type[n]);
}

/* Its place in the table, or -1. */
static int
type_find(const char *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (type_fits(types[i].type, type))
			return (int)i;
	return -1;
}

bool
storage_option(const struct storage *s, const char *name, char *value, size_t size)
{
	size_t len = strlen(name);

	for (const char *p = s->options; *p; p += strcspn(p, ","), p += *p == ',') {
		size_t n = strcspn(p, ",");

		if (n < len || strncmp(p, name, len) != 0 || (n > len && p[len] != '='))
			continue;
		if (value)
			snprintf(value, size, "%.*s", n > len ? (int)(n - len - 1) : 0,
				 p + len + 1);
		return true;
	}
	return false;
}

static int64_t
seconds_option(const struct storage *s, const char *name, int64_t otherwise)
{
	char value[32];

	return storage_option(s, name, value, sizeof(value)) && *value ? strtoll(value, NULL, 10)
								       : otherwise;
}

/* How long a node may see what was. Measured where it could be, else as documented. */
static void
find_lags(struct storage *s, bool forced_stat)
{
	bool noac = storage_option(s, "noac", NULL, 0);

	switch (s->kind) {
	case STORAGE_NFS:
		/* statx(2) with AT_STATX_FORCE_SYNC asks the server; older calls do not */
		if (!forced_stat && !noac)
			s->times_ms = 1000 * seconds_option(s, "acregmax", NFS_ACREGMAX_S);
		/* opening a directory asks the server, too, but not with this option */
		if (storage_option(s, "nocto", NULL, 0) && !noac)
			s->names_ms = 1000 * seconds_option(s, "acdirmax", NFS_ACDIRMAX_S);
		break;
	case STORAGE_GLUSTER:
		s->times_ms = FUSE_CACHE_MS; /* inside the client, past any flag of statx(2) */
		break;
	case STORAGE_FUSE:
	case STORAGE_OBJECT: s->times_ms = s->names_ms = FUSE_CACHE_MS; break;
	case STORAGE_SSHFS: s->times_ms = s->names_ms = SSHFS_CACHE_MS; break;
	case STORAGE_SMB:
		s->times_ms = 1000 * seconds_option(s, "acregmax",
						    seconds_option(s, "actimeo", SMB_CACHE_S));
		s->names_ms = 1000 * seconds_option(s, "acdirmax",
						    seconds_option(s, "actimeo", SMB_CACHE_S));
		break;
	default: break;
	}
}

void
storage_parse(const char *line, bool forced_stat, struct storage *s)
{
	char options[512];
	char super[512];
	char source[256];

	*s = (struct storage){ 0 };
	/* id parent device root point options [tag...] - type source options: proc(5) */
	const char *tail = strstr(line, " - ");
	if (!tail || sscanf(line, "%*s %*s %*s %*s %*s %511s", options) != 1 ||
	    sscanf(tail, " - %47s %255s %511s", s->type, source, super) != 3) {
		s->type[0] = '\0';
		return;
	}
	snprintf(s->options, sizeof(s->options), "%s,%s", options, super);
	int i = type_find(s->type);
	s->kind = i >= 0 ? types[i].kind : STORAGE_UNKNOWN;
	/* some versions of its client do not say their name in the type */
	if (!strncmp(source, "mfs#", 4) && !strncmp(s->type, "fuse", 4))
		s->kind = STORAGE_MOOSEFS;
	find_lags(s, forced_stat);
}

/* The C library answers for a kernel that lacks the call, from the attribute cache. */
static bool
has_forced_stat(void)
{
	struct statx x;

	return syscall(SYS_statx, AT_FDCWD, "/", AT_STATX_FORCE_SYNC, STATX_TYPE, &x) == 0;
}

void
storage_look(struct disk *disk, struct storage *s)
{
	char line[4096];

	storage_parse(disk_mountinfo(disk, line, sizeof(line)) ? "" : line, has_forced_stat(), s);
}

static void
judge_kind(const struct storage *s, struct findings *f)
{
	int i = type_find(s->type);

	if (!s->type[0]) {
		finding_add(f, FINDING_WARNING, "file system", UNTRIED,
			    "unknown: /proc/self/mountinfo does not show it");
	} else if (s->kind == STORAGE_MOOSEFS) {
		finding_add(f, FINDING_OK, "file system", NULL, "%s: MooseFS", s->type);
	} else if (i < 0) {
		finding_add(f, FINDING_WARNING, "file system", UNTRIED, "%s: not known", s->type);
	} else {
		const char *advice = types[i].advice ? types[i].advice : object_advice;

		finding_add(f, types[i].level, "file system", advice, "%s: %s", s->type,
			    types[i].name);
	}
}

static void
judge_nfs(const struct storage *s, struct findings *f)
{
	char vers[16] = "";

	for (int i = 0; i < 2; i++) {
		static const char *const bad[] = { "softerr", "soft" };

		if (storage_option(s, bad[i], NULL, 0))
			finding_add(f, FINDING_FORCIBLE, "mount options",
				    "a slow server turns into errors, and every raserfs here would "
				    "give up its claims and results with them. Mount it hard, or "
				    "insist with force = yes in raser.ini",
				    "%s", bad[i]);
	}
	storage_option(s, "vers", vers, sizeof(vers));
	if (!strncmp(vers, "3", 1) || !strncmp(vers, "2", 1) || !strcmp(vers, "4.0"))
		finding_add(f, FINDING_NOTE, "mount options",
			    "it works; from vers=4.1 on the server knows repeated requests again, "
			    "which saves some",
			    "vers=%s", vers);
	else
		finding_add(f, FINDING_OK, "mount options", NULL, "vers=%s, hard",
			    *vers ? vers : "?");
	if (storage_option(s, "nolock", NULL, 0))
		finding_add(f, FINDING_OK, "mount options", NULL,
			    "nolock: no lock is ever used here");
	if (storage_option(s, "noac", NULL, 0))
		finding_add(f, FINDING_NOTE, "mount options",
			    "raserfs does not need it, and every look costs a round trip", "noac");
	if (s->names_ms)
		finding_advise(finding_add(f, FINDING_WARNING, "mount options", NULL, "nocto"),
			       "listings may be %lld s old: new tasks and ends of others are seen "
			       "so much later. Mount without nocto",
			       (long long)(s->names_ms / 1000));
}

void
storage_judge(const struct storage *s, int64_t beat_ms, struct findings *f)
{
	char value[32];

	judge_kind(s, f);
	if (storage_option(s, "ro", NULL, 0))
		finding_add(f, FINDING_FAILS, "mount options",
			    "a run must be written to by every node", "ro: mounted read-only");
	if (s->kind == STORAGE_NFS)
		judge_nfs(s, f);
	if (s->kind == STORAGE_SMB &&
	    (storage_option(s, "mfsymlinks", NULL, 0) || storage_option(s, "sfu", NULL, 0)))
		finding_add(f, FINDING_FAILS, "mount options",
			    "such a link is not born whole: a node can see a claim without its "
			    "text. Use another file system",
			    "symbolic links are made of files");
	if (s->kind == STORAGE_VIRTUAL && storage_option(s, "cache", value, sizeof(value)) &&
	    (!strcmp(value, "loose") || !strcmp(value, "fscache")))
		finding_add(f, FINDING_FAILS, "mount options",
			    "what others do is not seen at all. Mount with cache=none", "cache=%s",
			    value);
	if (s->times_ms >= beat_ms)
		finding_advise(
			finding_add(f, FINDING_WARNING, "attribute cache", NULL,
				    "times may be %.1f s old, and daemons beat every %.1f s",
				    (double)s->times_ms / 1000, (double)beat_ms / 1000),
			"dead daemons are found %.1f s later than steal_after, so that no living "
			"one is taken for dead; a longer steal_after makes that small",
			(double)s->times_ms / 1000);
	else if (s->times_ms)
		finding_add(f, FINDING_NOTE, "attribute cache",
			    "dead daemons are found so much later than steal_after",
			    "times may be %.1f s old", (double)s->times_ms / 1000);
}

/* ---- its troubles ---- */

/* What the calls of a kind are for. */
static const char *const call_purpose[DISK_CALLS] = {
	[DISK_SYMLINK] = "making a link",    [DISK_READLINK] = "reading a link",
	[DISK_MKDIR] = "making a directory", [DISK_UNLINK] = "removing a name",
	[DISK_LIST] = "listing a directory", [DISK_STAT] = "looking at a beat",
	[DISK_TOUCH] = "touching its beat",  [DISK_CREATE] = "making a file",
	[DISK_AMEND] = "writing its beat",   [DISK_READ] = "reading a file",
	[DISK_IMPORT] = "writing a batch",   [DISK_SYNC] = "syncing",
	[DISK_RMDIR] = "removing a directory",
};

void
storage_text(const char *path, const struct disk_state *s, char text[STORAGE_TEXT])
{
	switch (s->mood) {
	case DISK_WELL:
		text[0] = '\0';
		break;
	case DISK_REFUSES:
		snprintf(text, STORAGE_TEXT, "the storage fails: %s: %s", call_purpose[s->call],
			 strerror(s->code));
		break;
	case DISK_SILENT:
		snprintf(text, STORAGE_TEXT, "the storage does not answer: %s", call_purpose[s->call]);
		break;
	case DISK_AWAY:
		snprintf(text, STORAGE_TEXT, "%s: %s; nothing is done until it is back", path,
			 s->code == EXDEV ? "another run is there now" : "the run is not there any more");
		break;
	}
}
