/*
 * errname.c - names of errors, for the helpers of the shell tests.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>

#include "chk.h"

const char *
error_name(int code)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
		{ 0, "ok" },
		{ EACCES, "EACCES" },
		{ EAGAIN, "EAGAIN" },
		{ EBADF, "EBADF" },
		{ EBUSY, "EBUSY" },
		{ ECONNABORTED, "ECONNABORTED" },
		{ EDQUOT, "EDQUOT" },
		{ EEXIST, "EEXIST" },
		{ EINTR, "EINTR" },
		{ EINVAL, "EINVAL" },
		{ EIO, "EIO" },
		{ EISDIR, "EISDIR" },
		{ ENAMETOOLONG, "ENAMETOOLONG" },
		{ ENODATA, "ENODATA" },
		{ ENODEV, "ENODEV" },
		{ ENOENT, "ENOENT" },
		{ ENOMEM, "ENOMEM" },
		{ ENOSPC, "ENOSPC" },
		{ ENOSYS, "ENOSYS" },
		{ ENOTCONN, "ENOTCONN" },
		{ ENOTDIR, "ENOTDIR" },
		{ ENOTEMPTY, "ENOTEMPTY" },
		{ EOPNOTSUPP, "EOPNOTSUPP" },
		{ EPERM, "EPERM" },
		{ ERANGE, "ERANGE" },
		{ EROFS, "EROFS" },
		{ ESTALE, "ESTALE" },
		{ ETIME, "ETIME" },
		{ EXDEV, "EXDEV" },
	};
	static char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].code == code)
			return names[i].name;
	snprintf(number, sizeof(number), "%d", code);
	return number;
}
