/*
 * selftest.c - storage with one defect each behind the table, lines of mountinfo of every kind of
 * file system, Slurm's configuration: what is found, word for word.
 */
#include <config.h>

#include "clock.h"
#include "selftest.h"
#include "slurmcheck.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct disk_ops *real;
static struct disk_ops bad;

static enum defect {
	NONE,
	REPLACES,
	SAYS_MADE,
	CUTS,
	CUTS_LONG,
	DIFFERS,
	NO_LINKS,
	NO_READ_BACK,
	LOST_REPLY,
	BLIND_CASE,
	BAD_FILE,
	NO_TOUCH,
	OLD_TIMES,
	LATE_LIST,
	NO_LIST,
	GHOST_LINK,
	NO_SYNC,
	NO_MKDIR,
	NO_CREATE,
	FULL,
} defect;
static int lists;	 /* so far */
static int replies;	 /* of symlink, so far */
static const char *line; /* of mountinfo; NULL = the real one */
static int64_t offset;	 /* of the clock */

static int
bad_symlink(void *ctx, const char *text, const char *path)
{
	char old[300];
	int len = real->readlink(ctx, path, old, sizeof(old));
	bool there = len != -ENOENT;

	if (defect == NO_LINKS)
		return -EOPNOTSUPP;
	if (defect == FULL && replies++ > 0)
		return -ENOSPC;
	if (defect == SAYS_MADE && there)
		return 0;
	if (defect == REPLACES && len >= 0 && real->unlink(ctx, path) == 0)
		return real->symlink(ctx, text, path);
	if (defect == BLIND_CASE && strstr(path, "CLAIM"))
		return -EEXIST;
	int rc = real->symlink(ctx, text, path);
	return defect == LOST_REPLY && replies++ == 0 ? -EIO : rc;
}

static int
bad_readlink(void *ctx, const char *path, char *buf, size_t size)
{
	int n = real->readlink(ctx, path, buf, size);

	if (defect == NO_READ_BACK || (defect == GHOST_LINK && n == -ENOENT))
		return defect == NO_READ_BACK ? -ENOENT : snprintf(buf, size, "ghost");
	if ((defect == CUTS && n > 40) || (defect == CUTS_LONG && n > 100)) {
		n = defect == CUTS ? 40 : 100;
		buf[n] = '\0';
	}
	if (defect == DIFFERS && n > 0)
		buf[n - 1] ^= 1;
	return n;
}

static int
bad_mkdir(void *ctx, const char *path)
{
	return defect == NO_MKDIR ? -EROFS : real->mkdir(ctx, path);
}

static int
bad_create(void *ctx, const char *path, const void *data, size_t len)
{
	return defect == NO_CREATE ? -EDQUOT : real->create(ctx, path, data, len);
}

static int
bad_read(void *ctx, const char *path, void *buf, size_t size)
{
	int n = real->read(ctx, path, buf, size);

	return defect == BAD_FILE && n > 0 ? n - 1 : n;
}

static int
bad_touch(void *ctx, const char *path, int64_t seconds)
{
	return defect == NO_TOUCH ? 0 : real->touch(ctx, path, seconds);
}

static int
bad_stat(void *ctx, const char *path, struct disk_stat *st)
{
	int rc = real->stat(ctx, path, st);

	if (defect == OLD_TIMES)
		st->mtime_s = 1000;
	return rc;
}

static int
no_long_names(void *arg, const char *name)
{
	void *const *to = arg;
	disk_entry_fn *fn = (disk_entry_fn *)to[0];

	return strlen(name) > 100 ? 0 : fn(to[1], name);
}

static int
bad_list(void *ctx, const char *path, disk_entry_fn *fn, void *arg)
{
	void *to[2] = { (void *)fn, arg };

	if (defect == NO_LIST || (defect == LATE_LIST && lists++ < 3))
		return real->list(ctx, path, no_long_names, to);
	return real->list(ctx, path, fn, arg);
}

static int
bad_sync(void *ctx, const char *dir)
{
	return defect == NO_SYNC ? -EOPNOTSUPP : real->sync(ctx, dir);
}

static void
no_pause(void *ctx, int ms)
{
	(void)ctx;
	(void)ms;
}

static int64_t
bad_now(void *ctx)
{
	return real->now(ctx) + offset;
}

static int
bad_mountinfo(void *ctx, char *buf, size_t size)
{
	if (!line)
		return real->mountinfo(ctx, buf, size);
	snprintf(buf, size, "%s", line);
	return 0;
}

static struct disk
open_disk(const char *path)
{
	struct disk d;
	struct err e = { 0 };

	if (disk_open(&d, path, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	real = d.ops;
	bad = *real;
	bad.symlink = bad_symlink;
	bad.readlink = bad_readlink;
	bad.mkdir = bad_mkdir;
	bad.create = bad_create;
	bad.read = bad_read;
	bad.touch = bad_touch;
	bad.stat = bad_stat;
	bad.list = bad_list;
	bad.sync = bad_sync;
	bad.pause = no_pause;
	bad.now = bad_now;
	bad.mountinfo = bad_mountinfo;
	d.ops = &bad;
	return d;
}

static int
count_name(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static void
new_dir(char path[300], const char *name)
{
	snprintf(path, 300, "%s/%s", scratch_dir(), name);
	if (mkdir(path, 0777) < 0) {
		printf("Bail out! %s\n", path);
		exit(1);
	}
}

/* ---- the quick part ---- */

static void
sound(void)
{
	struct findings f = { 0 };
	unsigned long long calls = 0;
	char path[300];
	struct disk d;
	int left = 0;

	new_dir(path, "sound");
	d = open_disk(path);
	int64_t begin = disk_now(&d);
	ok(!selftest_quick(&d, &f) && f.worst == FINDING_OK && f.n == 7,
	   "a sound file system is ok");
	int64_t ms = disk_now(&d) - begin;
	for (int i = 0; i < DISK_CALLS; i++)
		calls += d.calls[i];
	ok(calls == SELFTEST_CALLS, "it takes %llu calls", calls);
	diag("%lld ms", (long long)ms);
	d.ops->list(d.ctx, ".", count_name, &left);
	ok(left == 0, "and nothing is left behind");
	disk_close(&d);
}

static const struct {
	enum defect defect;
	int rc;
	enum finding_level worst;
	const char *topic, *found;
} defects[] = {
	{ REPLACES, 0, FINDING_FAILS, "exclusive creation", "symlink over a link replaces it" },
	{ SAYS_MADE, 0, FINDING_FAILS, "exclusive creation",
	  "symlink over a file says that it was made, not EEXIST" },
	{ CUTS, 0, FINDING_FAILS, "read-back", "a link of 59 bytes reads as 40" },
	{ CUTS_LONG, 0, FINDING_FAILS, "read-back", "a link of 255 bytes reads as 100" },
	{ DIFFERS, 0, FINDING_FAILS, "read-back", "a link of 59 bytes reads as 59 others" },
	{ NO_LINKS, 0, FINDING_FAILS, "symbolic links",
	  "no symbolic link with a name of 13 bytes can be made: Operation not supported" },
	{ NO_READ_BACK, 0, FINDING_FAILS, "read-back",
	  "a new symbolic link cannot be read by who made it" },
	{ LOST_REPLY, 0, FINDING_OK, "read-back", "a link of 59 bytes reads as it was made" },
	{ BLIND_CASE, 0, FINDING_FAILS, "names", "capital letters do not count" },
	{ BAD_FILE, 0, FINDING_FAILS, "files",
	  "a file that was written, synced and closed does not read as it was written" },
	{ NO_TOUCH, 0, FINDING_FAILS, "times", "stat shows no change of a second after a touch" },
	{ OLD_TIMES, 0, FINDING_FAILS, "times", "stat shows no change of a second after a touch" },
	{ LATE_LIST, 0, FINDING_WARNING, "listings", "show a new name 300 ms late to who made it" },
	{ NO_LIST, 0, FINDING_FAILS, "listings",
	  "do not show a new name to who made it within a second" },
	{ GHOST_LINK, 0, FINDING_FAILS, "removal",
	  "a name that was removed is still there for who removed it" },
	{ NO_SYNC, 0, FINDING_FAILS, "durability",
	  "a directory cannot be synced: Operation not supported" },
	{ NO_MKDIR, -EROFS, FINDING_FAILS, "writing",
	  "nothing can be made here: Read-only file system" },
	{ NO_CREATE, -EDQUOT, FINDING_FAILS, "writing",
	  "nothing can be made here: Disk quota exceeded" },
	{ FULL, -ENOSPC, FINDING_FAILS, "writing",
	  "nothing can be made here: No space left on device" },
};

static void
defective(void)
{
	for (size_t i = 0; i < sizeof(defects) / sizeof(defects[0]); i++) {
		struct findings f = { 0 };
		char path[300];
		char name[32];
		struct disk d;
		int left = 0;

		snprintf(name, sizeof(name), "defect%zu", i);
		new_dir(path, name);
		d = open_disk(path);
		defect = defects[i].defect;
		lists = replies = 0;
		int rc = selftest_quick(&d, &f);
		const struct finding *one = findings_worst(&f);

		if (!one) {
			ok(false, "defect %zu: nothing is found", i);
			continue;
		}
		ok(rc == defects[i].rc && one->level == defects[i].worst &&
			   !strcmp(one->topic, defects[i].topic) &&
			   !strcmp(one->found, defects[i].found),
		   "%s: %s: %s", finding_word(one->level), one->topic, one->found);
		ok(!*one->advice == (one->level == FINDING_OK), "and what to do: %s", one->advice);
		real->list(d.ctx, ".", count_name, &left);
		ok(left == 0, "nothing is left behind");
		defect = NONE;
		disk_close(&d);
	}
}

/* ---- kinds of file systems ---- */

#define M "36 35 98:0 / /mnt rw,noatime master:1 - "
#define NFS4 M "nfs4 srv:/x rw,vers=4.2,rsize=1048576,namlen=255,"
#define SURE "hard,proto=tcp,timeo=600,retrans=2,sec=sys"

static const struct {
	const char *line;
	bool old_kernel;
	enum storage_kind kind;
	enum finding_level worst;
	int64_t times_ms, names_ms;
	const char *found; /* of the worst */
} mounts[] = {
	{ M "ext4 /dev/vda rw", 0, STORAGE_LOCAL, FINDING_NOTE, 0, 0, "ext4: a local disk" },
	{ M "xfs /dev/vda rw,attr2", 0, STORAGE_LOCAL, FINDING_NOTE, 0, 0, "xfs: a local disk" },
	{ M "tmpfs tmpfs rw,size=5k", 0, STORAGE_MEMORY, FINDING_NOTE, 0, 0,
	  "tmpfs: memory of this machine" },
	{ "22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c", 0,
	  STORAGE_OVERLAY, FINDING_NOTE, 0, 0, "overlay: a layer of a container" },
	{ NFS4 SURE, 0, STORAGE_NFS, FINDING_OK, 0, 0, "nfs4: NFS" },
	{ NFS4 SURE, 1, STORAGE_NFS, FINDING_WARNING, 60000, 0,
	  "times may be 60.0 s old, and daemons beat every 30.0 s" },
	{ NFS4 SURE ",acregmin=1,acregmax=1,acdirmin=1,acdirmax=1", 1, STORAGE_NFS, FINDING_NOTE,
	  1000, 0, "times may be 1.0 s old" },
	{ NFS4 SURE ",noac", 1, STORAGE_NFS, FINDING_NOTE, 0, 0, "noac" },
	{ NFS4 SURE ",nocto,acdirmax=45", 0, STORAGE_NFS, FINDING_WARNING, 0, 45000, "nocto" },
	{ NFS4 SURE ",lookupcache=none,sync", 0, STORAGE_NFS, FINDING_OK, 0, 0, "nfs4: NFS" },
	{ NFS4 "soft,timeo=50", 0, STORAGE_NFS, FINDING_FORCIBLE, 0, 0, "soft" },
	{ NFS4 "softerr,softreval", 0, STORAGE_NFS, FINDING_FORCIBLE, 0, 0, "softerr" },
	{ M "nfs srv:/x rw,vers=3,hard,nolock,local_lock=all", 0, STORAGE_NFS, FINDING_NOTE, 0, 0,
	  "vers=3" },
	{ M "nfs4 srv:/x rw,vers=4.0," SURE, 0, STORAGE_NFS, FINDING_NOTE, 0, 0, "vers=4.0" },
	{ "36 35 98:0 / /mnt ro,noatime - nfs4 srv:/x rw,vers=4.2," SURE, 0, STORAGE_NFS,
	  FINDING_FAILS, 0, 0, "ro: mounted read-only" },
	{ M "lustre 10.0.0.1@tcp:/x rw,flock,lazystatfs", 0, STORAGE_LUSTRE, FINDING_OK, 0, 0,
	  "lustre: Lustre" },
	{ M "lustre 10.0.0.1@tcp:/x rw,localflock", 0, STORAGE_LUSTRE, FINDING_OK, 0, 0,
	  "lustre: Lustre" },
	{ M "lustre 10.0.0.1@tcp:/x rw,noflock", 0, STORAGE_LUSTRE, FINDING_OK, 0, 0,
	  "lustre: Lustre" },
	{ M "gpfs fs1 rw,relatime", 0, STORAGE_GPFS, FINDING_NOTE, 0, 0, "gpfs: GPFS" },
	{ M "ceph 10.0.0.1:/ rw,acl", 0, STORAGE_CEPH, FINDING_OK, 0, 0, "ceph: CephFS" },
	{ M "fuse.ceph-fuse ceph-fuse rw", 0, STORAGE_CEPH, FINDING_OK, 0, 0,
	  "fuse.ceph-fuse: CephFS" },
	{ M "beegfs beegfs_nodev rw,cfgFile=/etc/x", 0, STORAGE_BEEGFS, FINDING_FAILS, 0, 0,
	  "beegfs: BeeGFS" },
	{ M "fuse.glusterfs h:/v rw,user_id=0", 0, STORAGE_GLUSTER, FINDING_WARNING, 1000, 0,
	  "fuse.glusterfs: GlusterFS" },
	{ M "fuse.mfs h:9421 rw", 0, STORAGE_MOOSEFS, FINDING_OK, 0, 0, "fuse.mfs: MooseFS" },
	{ M "fuse mfs#h:9421 rw,user_id=0", 0, STORAGE_MOOSEFS, FINDING_OK, 0, 0, "fuse: MooseFS" },
	{ M "fuse.sshfs u@h:/x rw", 0, STORAGE_SSHFS, FINDING_WARNING, 20000, 20000,
	  "fuse.sshfs: sshfs" },
	{ M "fuse.s3fs s3fs rw", 0, STORAGE_OBJECT, FINDING_FAILS, 1000, 1000,
	  "fuse.s3fs: an object store" },
	{ M "fuse.gcsfuse b rw", 0, STORAGE_OBJECT, FINDING_FAILS, 1000, 1000,
	  "fuse.gcsfuse: an object store" },
	{ M "fuse.goofys b rw", 0, STORAGE_OBJECT, FINDING_FAILS, 1000, 1000,
	  "fuse.goofys: an object store" },
	{ M "fuse.rclone r: rw", 0, STORAGE_OBJECT, FINDING_FAILS, 1000, 1000,
	  "fuse.rclone: an object store" },
	{ M "fuse.juicefs J:v rw", 0, STORAGE_FUSE, FINDING_WARNING, 1000, 1000,
	  "fuse.juicefs: a program's file system" },
	{ M "cifs //h/x rw,vers=3.1.1,actimeo=2", 0, STORAGE_SMB, FINDING_WARNING, 2000, 2000,
	  "cifs: an SMB share" },
	{ M "cifs //h/x rw,mfsymlinks", 0, STORAGE_SMB, FINDING_FAILS, 1000, 1000,
	  "symbolic links are made of files" },
	{ M "9p share rw,cache=loose,trans=virtio", 0, STORAGE_VIRTUAL, FINDING_FAILS, 0, 0,
	  "cache=loose" },
	{ M "virtiofs share rw", 0, STORAGE_VIRTUAL, FINDING_WARNING, 0, 0,
	  "virtiofs: files of this virtual machine's host" },
	{ M "newfs x rw", 0, STORAGE_UNKNOWN, FINDING_WARNING, 0, 0, "newfs: not known" },
	{ "", 0, STORAGE_UNKNOWN, FINDING_WARNING, 0, 0,
	  "unknown: /proc/self/mountinfo does not show it" },
	{ "36 35 98:0 / /mnt rw - ext4", 0, STORAGE_UNKNOWN, FINDING_WARNING, 0, 0,
	  "unknown: /proc/self/mountinfo does not show it" },
};

static void
kinds(void)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		struct findings f = { 0 };
		struct storage s;

		storage_parse(mounts[i].line, !mounts[i].old_kernel, &s);
		storage_judge(&s, 30000, &f);
		const struct finding *one = findings_worst(&f);
		ok(s.kind == mounts[i].kind && s.times_ms == mounts[i].times_ms &&
			   s.names_ms == mounts[i].names_ms && f.worst == mounts[i].worst &&
			   !strcmp(one->found, mounts[i].found),
		   "%s: %s, %s, times %lld ms, names %lld ms", s.type, finding_word(f.worst),
		   one->found, (long long)s.times_ms, (long long)s.names_ms);
	}
}

static void
really(void)
{
	struct storage s;
	struct disk d = open_disk("/proc");

	storage_look(&d, &s);
	ok(!strcmp(s.type, "proc") && storage_option(&s, "rw", NULL, 0),
	   "the mount that a directory is in is found: %s, %s", s.type, s.options);
	disk_close(&d);
}

/* ---- what follows from it ---- */

static const char soft[] = NFS4 "soft,timeo=50";

static struct queue *
join(const char *path, const char *mountinfo, struct err *e)
{
	const struct queue_options o = { .join = true, .admit = true };

	line = mountinfo;
	struct queue *q = queue_open_disk(open_disk(path), path, &o, now_read(), e);
	line = NULL;
	return q;
}

static void
admission(void)
{
	static const char ini[] = "[run]\nforce = yes\n[tier a]\nfailures = all\n";
	const struct init_options options = { .force = true };
	char path[300];
	char file[400];
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/run", scratch_dir());
	ok(!queue_init(path, "", &e), "a run");
	struct queue *q = join(path, NULL, &e);
	ok(q, "which opens where it lies: %s", e.text);
	if (q)
		queue_close(q, now_read());
	q = join(path, soft, &e);
	ok(!q && strstr(e.text,
			": no run here: mount options: soft: a slow server turns into errors"),
	   "a soft mount is refused: %s", e.text);
	defect = SAYS_MADE;
	q = join(path, NULL, &e);
	ok(!q && strstr(e.text, "no run here: exclusive creation: symlink over a file says that it "
				"was made"),
	   "and so is what fails the test: %s", e.text);
	defect = NONE;

	snprintf(file, sizeof(file), "%s/raser.ini", path);
	FILE *f = fopen(file, "we");
	if (f) {
		fputs(ini, f);
		fclose(f);
	}
	q = join(path, soft, &e);
	ok(q, "with force = yes a soft mount is taken");
	if (q)
		queue_close(q, now_read());
	q = join(path, M "beegfs beegfs_nodev rw", &e);
	ok(!q && strstr(e.text, "beegfs: BeeGFS: a symbolic link is not born whole there"),
	   "but not BeeGFS: %s", e.text);

	snprintf(path, sizeof(path), "%s/forced", scratch_dir());
	struct conf conf = { 0 };
	ok(!queue_make(path, &options, &e) && !conf_load(&conf, path, &e) && conf.force,
	   "init --force writes force = yes");
}

/* ms of the observer's clock until a foreign beat that never moves is unlinked */
static int64_t
silence(const char *name, const char *mountinfo)
{
	static const char text[] = "owner x.aaaaaaaaaaaa\nboot other\npid 1\n";
	char path[300];
	char file[400];
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/%s", scratch_dir(), name);
	if (queue_init(path, "", &e))
		return -1;
	snprintf(file, sizeof(file), "%s/raser.ini", path);
	FILE *f = fopen(file, "we");
	if (!f)
		return -1;
	fputs("[run]\nsteal_after = 0.6\n[tier a]\nfailures = all\n", f);
	fclose(f);
	struct queue *q = join(path, mountinfo, &e);
	if (!q)
		return -1;
	snprintf(file, sizeof(file), "%s/nodes/x.aaaaaaaaaaaa", path);
	f = fopen(file, "we");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
	offset = 0;
	while (access(file, F_OK) == 0 && offset < 10000) {
		struct now now = now_read();

		now.boot_ms += offset;
		queue_beat(q, now);
		queue_watch(q, now);
		offset += 100;
	}
	int64_t ms = offset;
	queue_close(q, now_read());
	offset = 0;
	return ms;
}

static void
windows(void)
{
	int64_t local = silence("local", M "ext4 /dev/vda rw");
	int64_t slow = silence("slow", M "fuse.glusterfs h:/v rw");

	ok(local >= 400 && local <= 900, "a silent daemon is found after %lld ms",
	   (long long)local);
	ok(slow >= local + 800 && slow <= local + 1200,
	   "where times may be a second old, after %lld ms", (long long)slow);
}

/* ---- Slurm ---- */

static const char slurm[] = "Configuration data as of 2026-11-30T20:00:00\n"
			    "JobRequeue              = 1\n"
			    "KillWait                = 30 sec\n"
			    "MaxArraySize            = 1001\n"
			    "PreemptMode             = REQUEUE\n"
			    "PreemptType             = preempt/partition_prio\n"
			    "ProctrackType           = proctrack/cgroup\n"
			    "RequeueExit             = 99\n"
			    "SLURM_VERSION           = 22.05.8\n"
			    "SlurmctldParameters     = enable_configless,preempt_send_user_signal\n";
static const char strict[] = "JobRequeue              = 0\n"
			     "KillWait                = 20 sec\n"
			     "PreemptMode             = CANCEL\n"
			     "PreemptParameters       = (null)\n"
			     "PreemptType             = preempt/qos\n"
			     "ProctrackType           = proctrack/linuxproc\n";

static bool
has(const struct findings *f, enum finding_level level, const char *found)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->all[i].level == level && !strcmp(f->all[i].found, found))
			return true;
	return false;
}

static void
clusters(void)
{
	struct findings good = { 0 };
	struct findings hard = { 0 };

	slurm_judge(slurm, 25000, &good);
	ok(good.worst == FINDING_OK && good.n == 7 &&
		   has(&good, FINDING_OK, "KillWait is 30 s, grace 25 s") &&
		   has(&good, FINDING_OK,
		       "preemption is announced by the signal of sbatch --signal") &&
		   has(&good, FINDING_OK, "arrays may have 1000 jobs at most"),
	   "a friendly Slurm");
	slurm_judge(strict, 25000, &hard);
	ok(has(&hard, FINDING_WARNING, "KillWait is 20 s, grace 25 s"),
	   "SIGKILL before the end of grace");
	ok(has(&hard, FINDING_WARNING, "PreemptMode is CANCEL"), "jobs that do not come back");
	ok(has(&hard, FINDING_NOTE, "JobRequeue is 0") &&
		   has(&hard, FINDING_NOTE, "preemption is not announced to batch scripts") &&
		   has(&hard, FINDING_NOTE, "ProctrackType is proctrack/linuxproc"),
	   "what is worth knowing");
}

static void
many(void)
{
	struct findings f = { 0 };

	for (int i = 0; i < FINDINGS_MAX + 5; i++)
		finding_add(&f, FINDING_OK, "x", NULL, "%d", i);
	finding_add(&f, FINDING_FAILS, "last", NULL, "worst");
	ok(f.n == FINDINGS_MAX && f.worst == FINDING_FAILS &&
		   !strcmp(findings_worst(&f)->topic, "last"),
	   "a list that is full keeps its worst");
}

int
main(void)
{
	log_init("selftest.t", LOG_NOTHING);
	sound();
	defective();
	kinds();
	really();
	admission();
	windows();
	clusters();
	many();
	return done_testing();
}
