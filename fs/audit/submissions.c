/*
 * submissions.c - fsck of batches/: the numbers that publish, and the files
 * that they name.
 */
#include <config.h>

#include "fsck_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct number {
	int n;
	char r[RANDOM_TEXT]; /* of the file that it names; "" = none */
};

struct file {
	char r[RANDOM_TEXT];
	bool named; /* by a number */
};

struct batches {
	struct fsck *f;
	struct number *numbers;
	struct file *files;
	size_t nnumbers, nfiles, cap_numbers, cap_files;
};

/* "b.<r>.sqlite" */
static bool
parse_file(const char *name, char r[RANDOM_TEXT])
{
	return sscanf(name, "b.%12[a-z2-7].sqlite", r) == 1 && strlen(name) == strlen(r) + 9 &&
	       !strcmp(name + 2 + strlen(r), ".sqlite");
}

static int
on_name(void *arg, const char *name)
{
	struct batches *b = arg;
	char path[DISK_PATH];
	char r[RANDOM_TEXT];
	char *end;
	long v = strtol(name, &end, 10);

	if (!*end && v >= 1 && v <= INT_MAX && *name != '0') {
		if (b->nnumbers == b->cap_numbers) {
			size_t cap = b->cap_numbers ? 2 * b->cap_numbers : 64;
			struct number *grown = realloc(b->numbers, cap * sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			b->numbers = grown;
			b->cap_numbers = cap;
		}
		b->numbers[b->nnumbers++] = (struct number){ .n = (int)v };
		return 0;
	}
	if (parse_file(name, r)) {
		if (b->nfiles == b->cap_files) {
			size_t cap = b->cap_files ? 2 * b->cap_files : 64;
			struct file *grown = realloc(b->files, cap * sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			b->files = grown;
			b->cap_files = cap;
		}
		struct file *file = &b->files[b->nfiles++];
		*file = (struct file){ 0 };
		memcpy(file->r, r, sizeof(file->r));
		return 0;
	}
	snprintf(path, sizeof(path), "batches/%.255s", name);
	fsck_found(b->f, ODD_BATCH_FOREIGN, path, "is neither a number nor b.<random>.sqlite");
	return 0;
}

static int
by_number(const void *a, const void *b)
{
	return ((const struct number *)a)->n < ((const struct number *)b)->n ? -1 : 1;
}

static int
by_random(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->r, ((const struct file *)b)->r);
}

/* Read a batch whole. As batch_check(). */
static int
read_batch(struct fsck *f, int number, const char *r, int64_t *tasks, struct err *err)
{
	struct batch batch;
	int rc = batch_open(&batch, &f->disk, number, r, err);

	*tasks = 0;
	if (rc)
		return rc;
	rc = batch_check(&batch, &f->disk, tasks, err);
	batch_close(&batch);
	pthread_mutex_destroy(&batch.lock);
	return rc;
}

static void
check_number(struct batches *b, struct number *n)
{
	struct fsck *f = b->f;
	struct err err = { "" };
	struct file key = { .named = false };
	char path[DISK_PATH];
	char text[DISK_PATH] = "";
	int64_t tasks;

	snprintf(path, sizeof(path), "batches/%d", n->n);
	int rc = disk_readlink(&f->disk, path, text, sizeof(text));
	if (rc < 0 || !parse_file(text, n->r)) {
		n->r[0] = '\0';
		if (rc < 0)
			fsck_found(f, ODD_BATCH_TARGET, path, "is no symbolic link (%s)",
				   strerror(-rc));
		else
			fsck_found(f, ODD_BATCH_TARGET, path,
				   "points to %s, which is not the name of a "
				   "batch",
				   text);
		return;
	}
	memcpy(key.r, n->r, sizeof(key.r));
	struct file *file = b->nfiles ? bsearch(&key, b->files, b->nfiles, sizeof(key), by_random)
				      : NULL;
	if (!file) {
		fsck_found(f, ODD_BATCH_GONE, path, "points to %s, which is not there", text);
		return;
	}
	if (file->named)
		fsck_found(f, ODD_BATCH_TWICE, path, "points to %s, as another number does", text);
	file->named = true;
	if (read_batch(f, n->n, n->r, &tasks, &err))
		fsck_found(f, ODD_BATCH_BAD, path, "points to %s, which is torn or damaged: %s",
			   text, err.text);
}

/* A file without a number: of a submission that was cut, or its number was
 * deleted. */
static void
check_loose(struct batches *b, const struct file *file, int gaps)
{
	struct fsck *f = b->f;
	struct err err = { "" };
	char path[DISK_PATH];
	int64_t tasks;

	snprintf(path, sizeof(path), "batches/b.%s.sqlite", file->r);
	if (!fsck_is_old(f, path)) {
		fsck_found(f, ODD_BATCH_YOUNG, path, "has no number, and is younger than an hour");
		return;
	}
	int rc = read_batch(f, 0, file->r, &tasks, &err);
	if (!rc) {
		fsck_found(f, ODD_BATCH_LOOSE, path, "holds %lld tasks and has no number%s",
			   (long long)tasks, gaps ? ", and a number is missing" : "");
		return;
	}
	if (fsck_found(f, ODD_BATCH_TORN, path, "has no number, and is torn: %s", err.text))
		fsck_mended(f, path, disk_unlink(&f->disk, path), NULL);
}

int
fsck_batches(struct fsck *f, struct err *err)
{
	struct batches b = { .f = f };
	char path[DISK_PATH];
	int gaps = 0;
	int rc = disk_list(&f->disk, "batches", on_name, &b);

	if (b.nnumbers)
		qsort(b.numbers, b.nnumbers, sizeof(*b.numbers), by_number);
	if (b.nfiles)
		qsort(b.files, b.nfiles, sizeof(*b.files), by_random);
	for (size_t i = 0; !rc && i < b.nnumbers; i++) {
		int before = i ? b.numbers[i - 1].n : 0;

		if (b.numbers[i].n != before + 1) {
			gaps++;
			snprintf(path, sizeof(path), "batches/%d", before + 1);
			fsck_found(f, ODD_BATCH_GAP, path, "is missing, but batches/%d is there",
				   b.numbers[i].n);
		}
		check_number(&b, &b.numbers[i]);
	}
	for (size_t i = 0; !rc && i < b.nfiles; i++)
		if (!b.files[i].named)
			check_loose(&b, &b.files[i], gaps);
	free(b.numbers);
	free(b.files);
	return rc == -ENOENT ? 0 : rc ? err_set(err, rc, "batches/: %s", strerror(-rc)) : 0;
}
