/*
 * nodecheck.c - what this node gives raserfs and its agents, tried for real where it can be.
 */
#include <config.h>

#include "doctor.h"

#include "memory.h"
#include "mounting.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { CGROUP_TRIAL = 64 << 20, LOCAL_LEAST = 1 << 30 };

static const char *
local_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && *tmp ? tmp : "/tmp";
}

/* ---- FUSE ---- */

static void
request_timeout(struct findings *f, const char *name)
{
	char path[80];
	long v = 0;

	snprintf(path, sizeof(path), "/proc/sys/fs/fuse/%s", name);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%ld", &v) == 1 && v > 0)
		finding_add(f, FINDING_NOTE, "FUSE",
			    "whoever waits for a task is told to ask again after half of that",
			    "fs.fuse.%s is %ld s", name, v);
	fclose(file);
}

static void
check_fuse(struct findings *f)
{
	static const char unmounted[] = "nothing can be mounted on this node: raser run and raser job let "
					"agents work on the run directory itself";
	char path[PATH_MAX];
	struct err why = { 0 };
	struct err visible = { 0 };

	if (access("/dev/fuse", R_OK | W_OK) < 0) {
		finding_add(f, FINDING_NOTE, "FUSE", unmounted, "/dev/fuse: %s", strerror(errno));
		return;
	}
	bool set_id = mounting_fusermount(path, &visible);
	bool alone = mounting_try(local_dir(), &why) == 0;
	bool root = geteuid() == 0;

	if (alone)
		finding_add(f, FINDING_OK, "FUSE", NULL, "a mount in a namespace of its own works");
	else
		finding_add(f, FINDING_NOTE, "FUSE",
			    set_id ? "raser run mounts by fusermount3, and a job that is killed "
				     "leaves the mount behind"
				   : unmounted,
			    "no mount in a namespace of its own: %.120s", why.text);
	if (set_id)
		finding_add(f, FINDING_OK, "FUSE", NULL, "%s can mount for users", path);
	else if (!root)
		finding_add(f, FINDING_NOTE, "FUSE",
			    "raserfs by hand needs it, or unshare -Urm; raser run does not", "%.190s",
			    visible.text);
	request_timeout(f, "default_request_timeout");
	request_timeout(f, "max_request_timeout");
}

/* ---- agents ---- */

static void
check_cgroup(struct findings *f)
{
	struct cgroup own;
	struct err why = { 0 };

	if (cgroup_make(memory_roots_system(), CGROUP_TRIAL, &own, &why)) {
		finding_add(f, FINDING_NOTE, "memory",
			    "raser-agentd watches the memory of agents itself (memory_by = poll)",
			    "no cgroup for an agent: %.140s", why.text);
		return;
	}
	finding_add(f, FINDING_OK, "memory", NULL, "agents can have a cgroup (version %d) each",
		    own.version);
	cgroup_remove(&own);
}

static void
check_sandboxes(struct doctor *d)
{
	const struct sandbox_spec spec = { .run = d->dir };
	int good = 0;

	proc_init();
	for (int kind = SANDBOX_NONE + 1; kind < SANDBOX_KINDS && !d->stop; kind++) {
		struct err why = { 0 };

		/* the sentence names the kind */
		if (sandbox_probe((enum sandbox_kind)kind, &spec, local_dir(), &why)) {
			finding_add(&d->findings, FINDING_NOTE, "sandbox", NULL, "%.190s",
				    why.text);
		} else {
			finding_add(&d->findings, FINDING_OK, "sandbox", NULL, "%s works",
				    sandbox_kind_name((enum sandbox_kind)kind));
			good++;
		}
	}
	if (!good)
		finding_add(&d->findings, FINDING_NOTE, "sandbox",
			    "agents run as plain processes of yours (sandbox = auto)",
			    "none works here");
}

/* ---- the node ---- */

static void
check_local(struct findings *f)
{
	struct disk disk;
	struct storage s;
	struct statvfs v;
	struct err why = { 0 };
	const char *dir = local_dir();

	if (disk_open(&disk, dir, &why) || access(dir, W_OK | X_OK) < 0) {
		finding_add(f, FINDING_FAILS, "local files",
			    "submissions and workspaces need a local directory: set TMPDIR",
			    "%.100s: %s", dir, strerror(errno));
		return;
	}
	storage_look(&disk, &s);
	disk_close(&disk);
	double free_bytes = statvfs(dir, &v) == 0 ? (double)v.f_bavail * (double)v.f_frsize : 0;
	bool shared = s.kind > STORAGE_OVERLAY;
	bool small = free_bytes < LOCAL_LEAST;
	struct finding *one = finding_add(f,
					  shared || small	     ? FINDING_WARNING
					  : s.kind == STORAGE_MEMORY ? FINDING_NOTE
								     : FINDING_OK,
					  "local files", NULL, "%.100s (%s) has %.1f GB free", dir,
					  s.type, free_bytes / 1e9);
	if (shared)
		finding_advise(one, "that is not local: workspaces would load the shared storage. "
				    "Set TMPDIR to a disk of the node");
	else if (small)
		finding_advise(
			one,
			"workspaces of agents lie here, and submissions while they are written");
	else if (s.kind == STORAGE_MEMORY)
		finding_advise(one, "workspaces there count as memory of the job");
}

static void
check_clock(struct findings *f)
{
	struct timespec boot;
	struct timespec mono;
	struct utsname u;

	if (uname(&u) == 0)
		finding_add(f, FINDING_OK, "kernel", NULL, "%s %s", u.sysname, u.release);
	if (clock_gettime(CLOCK_BOOTTIME, &boot) < 0 || clock_gettime(CLOCK_MONOTONIC, &mono) < 0) {
		finding_add(f, FINDING_FAILS, "clock", NULL, "no CLOCK_BOOTTIME: %s",
			    strerror(errno));
		return;
	}
	double asleep = (double)(boot.tv_sec - mono.tv_sec) +
			(double)(boot.tv_nsec - mono.tv_nsec) / 1e9;
	if (asleep > 1)
		finding_add(f, FINDING_NOTE, "clock",
			    "claims of its agents are lost when that lasts longer than steal_after",
			    "this machine has been suspended for %.0f s since it started", asleep);
	else
		finding_add(f, FINDING_OK, "clock", NULL, "boot time is counted; never suspended");
}

void
doctor_node(struct doctor *d)
{
	check_clock(&d->findings);
	check_fuse(&d->findings);
	check_local(&d->findings);
	check_cgroup(&d->findings);
	check_sandboxes(d);
}
