/*
 * raser-shell.c - a plugin whose tasks are shell commands: one line of a file, one task.
 *
 *   raser-shell COMMANDS-FILE get_tasks     a task for each line but blank ones and comments (#)
 *   raser-shell COMMANDS-FILE run_task      run one: {"id": ..., "command": ...} on stdin
 *
 * A line is the command, byte for byte. JSON holds text only, so a line that is not UTF-8 is an
 * error, as is one with a NUL or with the carriage return of a foreign text file: all three would
 * run something else than what was written.
 *
 * run_task becomes the command (exec), so its exit status and its signal are the shell's own; it
 * needs no COMMANDS-FILE, which may be missing on the nodes.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EXIT_USAGE = 64, EXIT_FINAL = 65, EXIT_NODE = 75 };

__attribute__((format(printf, 2, 3))) static int
complain(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("raser-shell: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return status;
}

/* FNV-1a: the same line has the same number everywhere. */
static uint32_t
hash(const char *s, size_t len)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619U;
	return h;
}

/* One line as a task; the number in its id keeps two equal lines apart. */
static int
put_task(const char *file, const char *line, size_t len, unsigned number)
{
	const char *wrong = NULL;
	char id[32];
	int status = 1;

	if (memchr(line, '\0', len))
		wrong = "holds a NUL byte";
	else if (line[len - 1] == '\r')
		wrong = "ends in a carriage return";
	if (wrong)
		return complain(1, "%s, line %u %s", file, number, wrong);
	snprintf(id, sizeof(id), "%06u-%08" PRIx32, number, hash(line, len));
	json_t *command = json_stringn(line, len);
	if (!command)
		return complain(1, "%s, line %u is not UTF-8: write such bytes as $(printf '\\377')",
				file, number);
	json_t *task = json_pack("{s:s, s:o, s:i}", "id", id, "command", command, "line", (int)number);
	if (task && !json_dumpf(task, stdout, JSON_COMPACT) && putchar('\n') != EOF)
		status = 0;
	else
		complain(1, "standard output, line %u: %s", number, strerror(errno));
	json_decref(task);
	return status;
}

static int
get_tasks(const char *file)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "re") : stdin;
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int status = 0;

	if (!f)
		return complain(1, "%s: %s", file, strerror(errno));
	errno = 0;
	for (unsigned number = 1; (len = getline(&line, &size, f)) >= 0; number++) {
		if (len > 0 && line[len - 1] == '\n')
			line[--len] = '\0';
		size_t blank = strspn(line, " \t\r");
		if (blank == (size_t)len || line[blank] == '#')
			continue;
		/* all of the wrong lines are named, not only the first */
		if (put_task(file, line, (size_t)len, number))
			status = 1;
	}
	if (ferror(f))
		status = complain(1, "%s: %s", file, strerror(errno));
	free(line);
	if (f != stdin)
		fclose(f);
	if (fflush(stdout))
		status = complain(1, "standard output: %s", strerror(errno));
	return status;
}

/* The payload is read once to know the command, and is the command's standard input after that. */
static int
rewind_stdin(json_t **task, json_error_t *e)
{
	char buf[65536];
	ssize_t n = 0;
	int fd = memfd_create("task", 0);
	FILE *f;

	if (fd < 0)
		return -1;
	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t at = 0, w; at < n; at += w)
			if ((w = write(fd, buf + at, (size_t)(n - at))) < 0)
				goto fail;
	if (n < 0 || lseek(fd, 0, SEEK_SET) || dup2(fd, STDIN_FILENO) < 0 || !(f = fdopen(fd, "r")))
		goto fail;
	*task = json_loadf(f, JSON_ALLOW_NUL, e);
	fclose(f);
	return lseek(STDIN_FILENO, 0, SEEK_SET) < 0 ? -1 : 0;
fail:
	close(fd);
	return -1;
}

static int
run_task(void)
{
	json_error_t e;
	json_t *task = NULL;

	if (rewind_stdin(&task, &e))
		return complain(EXIT_NODE, "standard input: %s", strerror(errno));
	const char *command = json_string_value(json_object_get(task, "command"));
	if (!command) {
		complain(0, "the task has no command: %s", task ? "no such key, or no string" : e.text);
		json_decref(task);
		return EXIT_FINAL; /* it will not get better by trying again */
	}
	execl("/bin/sh", "sh", "-c", "--", command, (char *)NULL);
	complain(0, "/bin/sh: %s", strerror(errno));
	/* a command beyond what the kernel takes will not fit on another node either */
	int status = errno == E2BIG ? EXIT_FINAL : EXIT_NODE;
	json_decref(task);
	return status;
}

int
main(int argc, char **argv)
{
	const char *verb = argc == 3 ? argv[2] : "";

	if (!strcmp(verb, "get_tasks"))
		return get_tasks(argv[1]);
	if (!strcmp(verb, "run_task"))
		return run_task();
	if (!strcmp(verb, "setup"))
		return 0;
	fputs("usage: raser-shell COMMANDS-FILE get_tasks|run_task\n", stderr);
	return EXIT_USAGE;
}
