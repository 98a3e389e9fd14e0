/*
 * pack.c - texts with a head and a checksum. They are small: some 100 bytes a link of 1,024 tasks.
 */
#include <config.h>

#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SUM_LINE = 4 + 16 + 1 }; /* "sum ", 16 digits, newline */

int
pack_begin(struct pack *p, const char *head)
{
	*p = (struct pack){ 0 };
	p->f = open_memstream(&p->text, &p->len);
	if (!p->f)
		return -ENOMEM;
	fprintf(p->f, "%s\n", head);
	return 0;
}

int
pack_end(struct pack *p)
{
	/* flushing shows the text so far */
	if (fflush(p->f) || ferror(p->f))
		return -ENOMEM;
	fprintf(p->f, "sum %016llx\n", (unsigned long long)XXH3_64bits(p->text, p->len));
	int rc = fclose(p->f) ? -ENOMEM : 0;
	p->f = NULL;
	return rc;
}

void
pack_free(struct pack *p)
{
	if (p->f)
		fclose(p->f);
	free(p->text);
	*p = (struct pack){ 0 };
}

/* Read all of a file; a NUL is put behind it. The length or an errno. */
static int64_t
read_whole(struct disk *disk, const char *path, char **text)
{
	size_t size = (size_t)64 << 10; /* most fit */

	for (;;) {
		struct disk_stat st;
		char *buf = malloc(size + 1);

		if (!buf)
			return -ENOMEM;
		int n = disk_read(disk, path, buf, size);
		if (n >= 0 && (size_t)n < size) {
			buf[n] = '\0';
			*text = buf;
			return n;
		}
		free(buf);
		if (n < 0)
			return n;
		int rc = disk_stat(disk, path, &st);
		if (rc)
			return rc;
		if (st.size >= INT32_MAX)
			return -EFBIG;
		size = (size_t)st.size + 1 > 2 * size ? (size_t)st.size + 1 : 2 * size;
	}
}

int
pack_read(struct disk *disk, const char *path, const char *head, char **lines)
{
	char *text = NULL;
	char sum[SUM_LINE + 1];
	size_t hlen = strlen(head);
	int64_t n = read_whole(disk, path, &text);

	if (n < 0)
		return (int)n;
	size_t len = (size_t)n;
	bool good = len > hlen + SUM_LINE && !memcmp(text, head, hlen) && text[hlen] == '\n' &&
		    strlen(text) == len;
	if (good) {
		len -= SUM_LINE;
		snprintf(sum, sizeof(sum), "sum %016llx\n",
			 (unsigned long long)XXH3_64bits(text, len));
		good = text[len - 1] == '\n' && !strcmp(text + len, sum);
	}
	if (!good) {
		free(text);
		return -EBADMSG;
	}
	text[len] = '\0';
	memmove(text, text + hlen + 1, len - hlen);
	*lines = text;
	return 0;
}

int
pack_compare(struct disk *disk, const char *path, const char *text, size_t len)
{
	char *got = NULL;
	int64_t n = read_whole(disk, path, &got);

	if (n < 0)
		return (int)n;
	int rc = got && (size_t)n == len && !memcmp(got, text, len) ? 0 : -EBADMSG;
	free(got);
	return rc;
}
