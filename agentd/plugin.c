/*
 * plugin.c - quoting, and get_tasks.
 */
#include <config.h>

#include "plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

enum { LINE_FULL = 120 };

/* One word. Blanks stand between double quotes and the rest behind a backslash, so that neither
 * wordexp(3) nor the parser of raser.ini, which takes " ;" for a comment, sees anything in it. */
static bool
quote_word(const char *word, FILE *f)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";

	if (!*word)
		fputs("\"\"", f);
	for (const char *p = word; *p; p++) {
		if (*p == '\n' || *p == '\r')
			return false;
		if (*p == ' ' || *p == '\t')
			fprintf(f, "\"%c\"", *p);
		else
			fprintf(f, "%s%c", strchr(plain, *p) || (unsigned char)*p >= 0x80 ? "" : "\\", *p);
	}
	return true;
}

bool
plugin_quote(char *const *argv, char *text, size_t size)
{
	size_t line = 0;
	bool good = true;
	FILE *f = fmemopen(text, size, "w");

	if (!f)
		return false;
	for (char *const *a = argv; good && *a; a++) {
		long before = ftell(f);

		if (a > argv && line > LINE_FULL) {
			fputs("\n    ", f); /* the parser goes on with an indented line */
			line = 0;
		} else if (a > argv) {
			fputc(' ', f);
		}
		good = quote_word(*a, f);
		size_t len = (size_t)(ftell(f) - before);
		line += len;
		good = good && len < PLUGIN_WORD && line < PLUGIN_WORD;
	}
	fflush(f);
	good = good && !ferror(f) && (size_t)ftell(f) < size;
	return fclose(f) == 0 && good;
}

char **
plugin_words(const char *text, const char *more, const char *what, struct err *err)
{
	wordexp_t w;
	int rc = wordexp(text, &w, WRDE_NOCMD | WRDE_UNDEF);

	if (rc || !w.we_wordc) {
		err_set(err, -EINVAL, "%s %.200s: %s", what, text,
			!rc		    ? "there is no word in it" :
			rc == WRDE_BADVAL   ? "it names an unset variable" :
			rc == WRDE_CMDSUB ? "it must not run commands" :
			rc == WRDE_NOSPACE  ? "out of memory" :
					      "it is not quoted as for a shell");
		if (!rc)
			wordfree(&w);
		return NULL;
	}
	char **argv = calloc(w.we_wordc + 2, sizeof(*argv));
	bool good = argv;
	for (size_t i = 0; good && i < w.we_wordc; i++)
		good = (argv[i] = strdup(w.we_wordv[i]));
	if (good && more)
		good = (argv[w.we_wordc] = strdup(more));
	wordfree(&w);
	if (!good) {
		plugin_free(argv);
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	return argv;
}

char **
plugin_split(const char *text, const char *more, struct err *err)
{
	return plugin_words(text, more, "raser.ini: plugin =", err);
}

void
plugin_free(char **argv)
{
	for (char **a = argv; a && *a; a++)
		free(*a);
	free(argv);
}

int
plugin_run(char *const *argv, int out)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -1;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		execv(argv[0], argv);
		dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

void
plugin_how(int status, char *text, size_t size)
{
	if (status < 0)
		snprintf(text, size, "cannot be started: %s", strerror(errno));
	else if (WIFSIGNALED(status))
		snprintf(text, size, "ended by signal %d", WTERMSIG(status));
	else
		snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
}

FILE *
plugin_tasks(char *const *argv, struct err *err)
{
	size_t n = 0;
	char how[64];

	while (argv[n])
		n++;
	char **full = calloc(n + 2, sizeof(*full));
	FILE *f = tmpfile();
	if (!full || !f) {
		err_set(err, -errno, "no temporary file for the tasks: %s", strerror(errno));
		free(full);
		if (f)
			fclose(f);
		return NULL;
	}
	memcpy(full, argv, n * sizeof(*full));
	static char verb[] = "get_tasks";
	full[n] = verb;
	int status = plugin_run(full, fileno(f));
	free(full);
	if (status == 0) {
		rewind(f);
		return f;
	}
	plugin_how(status, how, sizeof(how));
	err_set(err, -EIO, "%s get_tasks %s; no run was made", argv[0], how);
	fclose(f);
	return NULL;
}
