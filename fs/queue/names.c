/*
 * names.c - ids <-> file names. Pure functions.
 */
#include <config.h>

#include "names.h"

#include <errno.h>
#include <string.h>

static bool
is_plain(unsigned char c, bool first)
{
	if (c < 0x20 || c == 0x7f || c == '/' || c == '%' || c == '@')
		return false;
	return !(first && c == '.');
}

int
name_encode(const char *id, size_t len, char *out)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	if (len == 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)id[i];
		bool plain = is_plain(c, i == 0);

		if (n + (plain ? 1 : 3) > NAME_LIMIT)
			return -ENAMETOOLONG;
		if (plain) {
			out[n++] = (char)c;
		} else {
			out[n++] = '%';
			out[n++] = hex[c >> 4];
			out[n++] = hex[c & 15];
		}
	}
	out[n] = '\0';
	return 0;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int
name_decode(const char *name, char *out)
{
	int n = 0;

	for (size_t i = 0; name[i]; i++) {
		if (n >= NAME_LIMIT)
			return -EINVAL;
		if (name[i] != '%') {
			if (!is_plain((unsigned char)name[i], i == 0))
				return -EINVAL;
			out[n++] = name[i];
			continue;
		}
		int hi = hex_value(name[i + 1]);
		int lo = hi < 0 ? -1 : hex_value(name[i + 2]);

		/* one id, one name: what needs no escape must not have one */
		if (lo < 0 || is_plain((unsigned char)(hi << 4 | lo), i == 0))
			return -EINVAL;
		out[n++] = (char)(hi << 4 | lo);
		i += 2;
	}
	out[n] = '\0';
	return n ? n : -EINVAL;
}

bool
name_split(const char *file, size_t *task_len, unsigned *attempt)
{
	const char *at = strrchr(file, '@');
	unsigned long k = 0;

	if (!at || at == file || at - file > NAME_LIMIT || at[1] < '1' || at[1] > '9')
		return false;
	for (const char *p = at + 1; *p; p++) {
		if (*p < '0' || *p > '9')
			return false;
		k = k * 10 + (unsigned long)(*p - '0');
		if (k > ATTEMPT_LIMIT)
			return false;
	}
	*task_len = (size_t)(at - file);
	*attempt = (unsigned)k;
	return true;
}

const char *
owner_random(const char *owner)
{
	const char *dot = strrchr(owner, '.');

	return dot ? dot + 1 : owner;
}
