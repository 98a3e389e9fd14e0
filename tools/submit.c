/*
 * submit.c - raser submit RUN [--id-field F] [--durations FILE] FILE|-
 *
 * Through a mount it is a copy into new/; the errors of write(2) and close(2) and the receipt
 * tell the rest. On a run directory, and where an option is given, the library does it.
 */
#include <config.h>

#include "durations.h"
#include "raser.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 17, RECEIPT_TRIES = 200, RECEIPT_MS = 10 };

/* What receives the text. */
struct sink {
	int (*put)(void *arg, const char *data, size_t len);
	void *arg;
};

/* Feed everything that fd gives; 0, or the errno of the first failure. */
static int
pump(int fd, const struct sink *sink)
{
	char *buf = malloc(CHUNK);
	int rc = buf ? 0 : -ENOMEM;

	while (!rc) {
		ssize_t n = read(fd, buf, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			break;
		rc = n < 0 ? -errno : sink->put(sink->arg, buf, (size_t)n);
	}
	free(buf);
	return rc;
}

static int
put_file(void *arg, const char *data, size_t len)
{
	return write_all(*(const int *)arg, data, len);
}

/* A line of a receipt that tells why nothing was taken. */
static bool
is_refusal(const char *line)
{
	return *line == '\t' || strstr(line, "\texists already");
}

/* The same for people. */
static void
print_refusal(const char *line)
{
	const char *tab = strchr(line, '\t');

	complain(1, "%.*s%s%s", (int)(tab - line), line, tab > line ? " " : "", tab + 1);
}

/* Count the lines of a receipt; say what it refuses. True when it refuses something. */
static bool
read_receipt(const char *path, long *taken, long *known)
{
	bool refused = false;
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;

	*taken = *known = 0;
	while (f && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (is_refusal(line)) {
			print_refusal(line);
			refused = true;
		} else if (strchr(line, '\t')) {
			++*known;
		} else {
			++*taken;
		}
	}
	free(line);
	if (f)
		fclose(f);
	return refused;
}

static int
submit_by_mount(const struct target *t, int in, const char *name)
{
	char path[PATH_MAX + 64];
	long taken;
	long known;

	snprintf(path, sizeof(path), "%s/new/submit.%ld.%s", t->path, (long)getpid(), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return complain(1, "%s: %s", path, strerror(errno));
	const struct sink sink = { .put = put_file, .arg = &fd };
	int rc = pump(in, &sink);
	if (close(fd) < 0 && !rc)
		rc = -errno;
	bool told = read_receipt(path, &taken, &known);
	/* the close that failed is settled a moment later, and then the receipt says why */
	for (int i = 0; rc && !told && i < RECEIPT_TRIES; i++) {
		poll(NULL, 0, RECEIPT_MS);
		told = read_receipt(path, &taken, &known);
	}
	if (rc)
		return told ? 1 : complain(1, "%s", strerror(-rc));
	printf("%ld tasks taken, %ld were there already\n", taken, known);
	return 0;
}

static int
put_submission(void *arg, const char *data, size_t len)
{
	return submission_feed(arg, data, len, NULL);
}

/* What a receipt says of a rejection. */
static void
print_receipt_tail(const struct submission *s)
{
	char buf[2048];
	int64_t size = submission_receipt_size(s);
	int64_t from = size > (int64_t)sizeof(buf) - 1 ? size - (int64_t)sizeof(buf) + 1 : 0;
	ssize_t n = submission_receipt(s, buf, sizeof(buf) - 1, from);

	buf[n > 0 ? n : 0] = '\0';
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		if (is_refusal(line))
			print_refusal(line);
}

int
submit_by_library(const struct target *t, int in, const char *field, struct durations *durations)
{
	struct err err = { 0 };
	struct submission_totals totals;
	char who[128];
	char host[HOST_TEXT];
	struct queue *q = target_queue(t, false);

	if (!q)
		return 1;
	struct submission *s = submission_new(q, field, &err);
	if (!s) {
		queue_close(q, now_read());
		return complain(1, "%s", err.text);
	}
	if (durations)
		submission_expect(s, durations_expected, durations);
	host_name(host);
	snprintf(who, sizeof(who), "uid %u at %s", (unsigned)getuid(), host);
	const struct sink sink = { .put = put_submission, .arg = s };
	int rc = pump(in, &sink);
	if (!rc)
		rc = submission_finish(s, who, now_read(), &err);
	submission_totals(s, &totals);
	if (rc)
		print_receipt_tail(s);
	else
		printf("%lld tasks taken, %lld were there already\n", (long long)totals.tasks,
		       (long long)totals.duplicates);
	submission_free(s);
	queue_close(q, now_read());
	return rc ? 1 : 0;
}

/* A listing makes the mount look for what came past it. */
static void
look_again(const struct target *t)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/pending", t->path);
	DIR *d = opendir(path);
	if (d)
		closedir(d);
}

int
verb_submit(int argc, char **argv)
{
	static const struct option options[] = {
		{ "id-field", required_argument, NULL, 'i' },
		{ "durations", required_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	struct durations *durations = NULL;
	const char *field = NULL;
	const char *table = NULL;
	struct target t;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'i')
			field = optarg;
		else if (c == 'd')
			table = optarg;
		else
			return usage_error();
	}
	if (argc - optind != 2)
		return usage_error();
	if (!target_find(argv[optind], &t) || (table && !(durations = durations_read(table))))
		return 1;
	const char *file = argv[optind + 1];
	const char *base = strrchr(file, '/');
	int in = !strcmp(file, "-") ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
	int rc;
	if (in < 0)
		rc = complain(1, "%s: %s", file, strerror(errno));
	else if (t.is_mount && !field && !durations)
		rc = submit_by_mount(&t, in, !strcmp(file, "-") ? "stdin" : base ? base + 1 : file);
	else
		rc = submit_by_library(&t, in, field, durations);
	if (in >= 0)
		close(in);
	if (!rc && t.is_mount && (field || durations))
		look_again(&t);
	durations_free(durations);
	return rc;
}
