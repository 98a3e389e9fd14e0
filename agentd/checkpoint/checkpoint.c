/*
 * checkpoint.c - a folder becomes an archive: folder_walk() gives entries, libarchive makes tar of
 * them and compresses it in threads, and its blocks go to the sink. This, restore.c and records.c
 * are the only files that know libarchive.
 */
#include <config.h>

#include "checkpoint.h"

#include "clock.h"
#include "plant.h"
#include "sink.h"
#include "folder.h"

#include <archive.h>
#include <archive_entry.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20, /* one read(2) or write(2) */
	THREADS_MAX = 8, /* of zstd, each with some 20 MB */
	NAMED = 4,	 /* so many are named in a note, the others counted */
	/* libarchive reads at most 1 MiB of what tar keeps beside an entry: path, target, and
	 * attributes, which take up to three times their size there */
	PATH_BYTES_MAX = 100000,
	XATTR_BYTES_MAX = 150000,
};

/* ---- names ---- */

/* "K.R-N", the end of it in *rest. */
static bool
parse_writer(const char *name, struct checkpoint_id *id, const char **rest)
{
	char *end;
	size_t len = strspn(name, "0123456789");

	*id = (struct checkpoint_id){ 0 };
	if (!len || len > 9 || name[len] != '.')
		return false;
	id->attempt = (unsigned)strtoul(name, &end, 10);
	const char *owner = end + 1;
	for (len = 0; isalnum((unsigned char)owner[len]); len++)
		;
	if (!len || len >= sizeof(id->owner) || owner[len] != '-')
		return false;
	memcpy(id->owner, owner, len);
	const char *number = owner + len + 1;
	len = strspn(number, "0123456789");
	if (!len || len > 9)
		return false;
	id->number = (unsigned)strtoul(number, &end, 10);
	*rest = end;
	return true;
}

bool
checkpoint_parse(const char *name, struct checkpoint_id *id)
{
	const char *rest;

	if (!parse_writer(name, id, &rest) || *rest != '.')
		return false;
	if (strspn(++rest, "0123456789abcdef") != 16)
		return false;
	id->hash = strtoull(rest, NULL, 16);
	id->gzip = !strcmp(rest + 16, ".tar.gz");
	return id->gzip || !strcmp(rest + 16, ".tar.zst");
}

bool
checkpoint_parse_temporary(const char *name, struct checkpoint_id *id, long *pid)
{
	const char *rest;
	char *end;

	if (strncmp(name, "tmp.", 4) != 0 || !parse_writer(name + 4, id, &rest) || *rest != '.')
		return false;
	*pid = strtol(rest + 1, &end, 10);
	return *pid > 0 && !*end;
}

/* ---- notes ---- */

/* "a (a socket), b (a device) and 3 more" */
struct note {
	char *text;
	size_t size, len;
	int64_t count;
};

static void __attribute__((format(printf, 2, 3)))
note_add(struct note *n, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (n->len < n->size) {
		int m = vsnprintf(n->text + n->len, n->size - n->len, fmt, args);

		n->len += m > 0 ? (size_t)m : 0;
	}
	va_end(args);
}

static void
note_path(struct note *n, const char *path, const char *what)
{
	char buf[60];

	if (n->count++ < NAMED)
		note_add(n, "%s%s (%s)", n->len ? ", " : "", folder_print(path, buf, sizeof(buf)),
			 what);
}

static void
note_end(struct note *n)
{
	if (n->count > NAMED)
		note_add(n, " and %" PRId64 " more", n->count - NAMED);
}

/* ---- data ---- */

struct segment {
	int64_t offset, size;
};

struct saving {
	const struct checkpoint_spec *spec;
	struct checkpoint_result *result;
	struct err *err;
	struct archive *archive;
	struct archive_entry *entry;
	struct sink sink;
	struct folder_links *links;
	struct note note;
	int64_t spent;
	size_t xattr_bytes; /* of the present entry */
	char *buf;
	struct segment *segments;
	size_t nsegments, segments_cap;
	bool abandoned;	   /* freeing the archive writes its rest, which nobody wants any more */
	const void *zeros; /* a large mapping of zeros */
	size_t nzeros;
};

/* Why libarchive failed. */
static int
archive_code(const struct saving *s)
{
	if (s->sink.code)
		return sink_failed(s->err, s->sink.code, s->spec->store, "written");
	int code = archive_errno(s->archive) == ENOMEM ? -ENOMEM : -EIO;
	const char *text = archive_error_string(s->archive);
	return err_set(s->err, code, "the archive cannot be made: %s", text ? text : "unknown");
}

static int
workspace_failed(const struct saving *s, int code, const char *path)
{
	char buf[160];

	return err_set(s->err, code, "the workspace cannot be read: %s: %s",
		       folder_print(path, buf, sizeof(buf)), strerror(-code));
}

static int
save_spend(struct saving *s, int64_t bytes)
{
	s->spent += bytes;
	if (s->spec->limit && s->spent > s->spec->limit)
		return err_set(s->err, -EFBIG,
			       "the workspace holds more than the limit of %" PRId64 " bytes",
			       s->spec->limit);
	return 0;
}

static int
add_segment(struct saving *s, int64_t offset, int64_t size)
{
	if (s->nsegments == s->segments_cap) {
		size_t cap = s->segments_cap * 2 + 16;
		struct segment *grown = realloc(s->segments, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->segments = grown;
		s->segments_cap = cap;
	}
	s->segments[s->nsegments++] = (struct segment){ offset, size };
	return 0;
}

/* Where a file has data; the sum of it, or a negative errno. */
static int64_t
find_segments(struct saving *s, int fd, const struct stat *st)
{
	int64_t sum = 0;
	int64_t at = 0;
	int64_t size = st->st_size;

	s->nsegments = 0;
	if (st->st_blocks >= size / 512) {
		int rc = size ? add_segment(s, 0, size) : 0;

		return rc ? rc : size;
	}
	while (at < size) {
		off_t from = lseek(fd, at, SEEK_DATA);
		if (from < 0 && errno == ENXIO)
			break; /* a hole to the end */
		off_t to = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
		if (from < 0 || to < 0) {
			from = at; /* it cannot tell */
			to = size;
		}
		if (from >= size)
			break;
		if (to > size)
			to = size;
		int rc = add_segment(s, from, to - from);
		if (rc)
			return rc;
		sum += to - from;
		at = to;
	}
	lseek(fd, 0, SEEK_SET);
	return sum;
}

static int
put(struct saving *s, const void *data, size_t size)
{
	return archive_write_data(s->archive, data, size) < 0 ? archive_code(s) : 0;
}

/* A hole: libarchive wants its bytes and throws them away, so they come from a mapping that is
 * large and never touched. */
static int
put_hole(struct saving *s, int64_t size)
{
	int rc = 0;

	if (!size)
		return 0;
	for (size_t want = (size_t)1 << 36; !s->zeros && want >= BLOCK; want >>= 4) {
		void *map = mmap(NULL, want, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				 -1, 0);

		if (map != MAP_FAILED) {
			s->zeros = map;
			s->nzeros = want;
		}
	}
	if (!s->zeros)
		return -ENOMEM;
	while (!rc && size > 0) {
		size_t n = size > (int64_t)s->nzeros ? s->nzeros : (size_t)size;

		rc = put(s, s->zeros, n);
		size -= (int64_t)n;
	}
	return rc;
}

/* The data of the present entry. What the file has lost since its size was asked becomes zeros,
 * what it has gained is not saved. */
static int
put_data(struct saving *s, int fd, const char *path, int64_t size)
{
	int64_t at = 0;

	for (size_t i = 0; i < s->nsegments; i++) {
		const struct segment *g = &s->segments[i];
		int64_t left = g->size;
		int rc = put_hole(s, g->offset - at);

		while (!rc && left > 0) {
			size_t want = left > BLOCK ? BLOCK : (size_t)left;
			ssize_t n = pread(fd, s->buf, want, g->offset + g->size - left);

			if (n < 0 && errno == EINTR)
				continue;
			/* another kind of file has its name by now, or none */
			bool other = n < 0 && (errno == EISDIR || errno == ESPIPE ||
					       errno == EINVAL || errno == ESTALE);
			if (n < 0 && !other)
				return workspace_failed(s, -errno, path);
			if (n == 0 || other) {
				note_path(&s->note, path, "cut meanwhile");
				/* zeros for the rest, of which libarchive needs to see the first */
				return put(s, "", 1);
			}
			rc = put(s, s->buf, (size_t)n);
			left -= n;
		}
		if (rc)
			return rc;
		at = g->offset + g->size;
	}
	return put_hole(s, size - at);
}

/* ---- entries ---- */

/* Leave something out. */
static int
skip(struct saving *s, const char *path, const char *what)
{
	note_path(&s->note, path, what);
	s->result->skipped++;
	return 0;
}

static int
save_xattr(void *arg, const char *name, const void *value, size_t size)
{
	struct saving *s = arg;

	bool told = s->xattr_bytes > XATTR_BYTES_MAX;
	s->xattr_bytes += size + strlen(name);
	if (s->xattr_bytes > XATTR_BYTES_MAX)
		return told ? 0 : skip(s, archive_entry_pathname(s->entry), "some attributes");
	archive_entry_xattr_add_entry(s->entry, name, value, size);
	return save_spend(s, (int64_t)size);
}

static int
save_header(struct saving *s)
{
	int rc = save_spend(s, PLANT_ENTRY_COST);

	if (rc)
		return rc;
	/* it warns of a name that is no text in this locale, and keeps its bytes */
	if (archive_write_header(s->archive, s->entry) < ARCHIVE_WARN)
		return archive_code(s);
	s->result->files++;
	return 0;
}

static int
save_file(struct saving *s, const struct folder_entry *e)
{
	int fd = folder_open_file(e);

	if (fd == -ENOENT || fd == -ELOOP || fd == -ENXIO || fd == -ESTALE)
		return 0; /* it is gone, or something else by now */
	if (fd == -EACCES || fd == -EPERM)
		return skip(s, e->path, "not readable");
	if (fd < 0)
		return workspace_failed(s, fd, e->path);
	int64_t sum = find_segments(s, fd, &e->st);
	int rc = sum < 0 ? (int)sum : save_spend(s, sum);
	archive_entry_set_size(s->entry, e->st.st_size);
	if (!rc && sum < e->st.st_size) {
		for (size_t i = 0; i < s->nsegments; i++)
			archive_entry_sparse_add_entry(s->entry, s->segments[i].offset,
						       s->segments[i].size);
		if (!sum) /* all hole; without any entry it would not be sparse */
			archive_entry_sparse_add_entry(s->entry, 0, 0);
	}
	if (!rc)
		rc = folder_xattrs(fd, save_xattr, s);
	if (!rc)
		rc = save_header(s);
	if (!rc)
		rc = put_data(s, fd, e->path, e->st.st_size);
	s->result->bytes_in += sum;
	close(fd);
	return rc;
}

static int
save_link(struct saving *s, const struct folder_entry *e)
{
	char target[4096];
	ssize_t n = readlinkat(e->dir, e->name, target, sizeof(target) - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : workspace_failed(s, -errno, e->path);
	target[n] = '\0';
	archive_entry_copy_symlink(s->entry, target);
	return save_header(s);
}

static int
save_directory(struct saving *s, const struct folder_entry *e)
{
	if (e->foreign)
		return skip(s, e->path, "another file system");
	if (e->locked)
		skip(s, e->path, "not readable");
	int rc = e->locked ? 0 : folder_xattrs(e->fd, save_xattr, s);
	return rc ? rc : save_header(s);
}

static int
save_type(struct saving *s, const struct folder_entry *e)
{
	switch (e->st.st_mode & S_IFMT) {
	case S_IFREG:
		return save_file(s, e);
	case S_IFDIR:
		return save_directory(s, e);
	case S_IFLNK:
		return save_link(s, e);
	case S_IFIFO:
		return save_header(s);
	case S_IFSOCK:
		return skip(s, e->path, "a socket");
	default:
		return skip(s, e->path, "a device");
	}
}

static int
save_entry(void *arg, const struct folder_entry *e)
{
	struct saving *s = arg;
	const struct stat *st = &e->st;

	if (strlen(e->path) > PATH_BYTES_MAX)
		return skip(s, e->path, "its path is too long");
	s->xattr_bytes = 0;
	archive_entry_clear(s->entry);
	archive_entry_copy_pathname(s->entry, e->path);
	archive_entry_set_filetype(s->entry, st->st_mode & S_IFMT);
	archive_entry_set_perm(s->entry, st->st_mode & 07777);
	archive_entry_set_uid(s->entry, st->st_uid);
	archive_entry_set_gid(s->entry, st->st_gid);
	archive_entry_set_mtime(s->entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(s->entry, 0);
	if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
		return save_type(s, e);
	const char *first = folder_links_find(s->links, st);
	if (first) {
		archive_entry_copy_hardlink(s->entry, first);
		return save_header(s);
	}
	int64_t before = s->result->files;
	int rc = save_type(s, e);
	if (!rc && s->result->files > before)
		folder_links_add(s->links, st, e->path);
	return rc;
}

/* ---- the archive ---- */

/* The processors that we may use, which on a shared node are not all that are there. */
static int
processors(void)
{
	cpu_set_t set;
	/* the set is too small for a machine with more than 1024 */
	int n = sched_getaffinity(0, sizeof(set), &set) < 0 ? THREADS_MAX : CPU_COUNT(&set);

	return n > THREADS_MAX ? THREADS_MAX : n;
}

/* libarchive's write callback. */
static la_ssize_t
on_write(struct archive *a, void *arg, const void *data, size_t size)
{
	struct saving *s = arg;
	int rc = s->abandoned ? 0 : sink_write(&s->sink, data, size);

	if (rc)
		archive_set_error(a, -rc, "write");
	return rc ? -1 : (la_ssize_t)size;
}

static int
open_archive(struct saving *s)
{
	struct archive *a = s->archive;
	char threads[16];
	int rc = archive_write_set_format_pax(a);

	/* of the two ways to write attributes the one that keeps every name */
	archive_write_set_format_option(a, "pax", "xattrheader", "LIBARCHIVE");
	if (s->spec->gzip) {
		rc = rc < ARCHIVE_WARN ? rc : archive_write_add_filter_gzip(a);
		archive_write_set_filter_option(a, "gzip", "compression-level", "6");
		archive_write_set_filter_option(a, "gzip", "timestamp", NULL);
	} else {
		snprintf(threads, sizeof(threads), "%d", processors());
		rc = rc < ARCHIVE_WARN ? rc : archive_write_add_filter_zstd(a);
		archive_write_set_filter_option(a, "zstd", "compression-level", "3");
		archive_write_set_filter_option(a, "zstd", "threads", threads);
	}
	archive_write_set_bytes_per_block(a, BLOCK);
	archive_write_set_bytes_in_last_block(a, 1);
	if (rc >= ARCHIVE_WARN)
		rc = archive_write_open2(a, s, NULL, on_write, NULL, NULL);
	return rc < ARCHIVE_WARN ? archive_code(s) : 0;
}

static int
write_archive(struct saving *s)
{
	const struct folder_visitor v = { .enter = save_entry, .arg = s };
	int root = open(s->spec->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return workspace_failed(s, -errno, s->spec->state);
	int rc = open_archive(s);
	if (!rc)
		rc = folder_walk(root, &v);
	if (!rc && archive_write_close(s->archive) < ARCHIVE_WARN)
		rc = archive_code(s);
	if (!rc && sink_finish(&s->sink))
		rc = archive_code(s);
	close(root);
	if (rc && s->err && !s->err->text[0])
		workspace_failed(s, rc, s->spec->state);
	return rc;
}

int
checkpoint_save(const struct checkpoint_spec *spec, struct checkpoint_result *result,
		struct err *err)
{
	struct err own = { "" };
	struct saving s = { .spec = spec, .result = result, .err = err ? err : &own };
	int64_t began = now_read().boot_ms;

	*result = (struct checkpoint_result){ 0 };
	s.err->text[0] = '\0';
	s.note = (struct note){ .text = result->note, .size = sizeof(result->note) };
	s.archive = archive_write_new();
	s.entry = archive_entry_new();
	s.links = folder_links_new();
	s.buf = malloc(BLOCK);
	int rc = sink_open(&s.sink, spec);
	if (rc)
		sink_failed(s.err, rc, spec->store, "begun");
	else if (!s.archive || !s.entry || !s.links || !s.buf)
		rc = err_set(s.err, -ENOMEM, "out of memory");
	else
		rc = write_archive(&s);
	result->write_ms = now_read().boot_ms - began;
	if (!rc)
		rc = sink_publish(&s.sink, spec, result, s.err);
	note_end(&s.note);
	archive_entry_free(s.entry);
	s.abandoned = rc != 0;
	archive_write_free(s.archive);
	if (rc)
		result->name[0] = '\0';
	sink_close(&s.sink);
	folder_links_free(s.links);
	if (s.zeros)
		munmap((void *)(uintptr_t)s.zeros, s.nzeros);
	free(s.segments);
	free(s.buf);
	result->ms = now_read().boot_ms - began;
	return rc;
}
