/*
 * plugin.c - quoting, get_tasks, setup.
 */
#include <config.h>

#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

enum { LINE_FULL = 120, EXIT_NO_VERB = 64 };

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
plugin_split(const char *text, const char *more, struct err *err)
{
	wordexp_t w;
	int rc = wordexp(text, &w, WRDE_NOCMD | WRDE_UNDEF);

	if (rc || !w.we_wordc) {
		err_set(err, -EINVAL, "raser.ini: plugin = %.200s: %s", text,
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

void
plugin_free(char **argv)
{
	for (char **a = argv; a && *a; a++)
		free(*a);
	free(argv);
}

/* Run a command and wait for it; its wait status, or -1 with errno. out and log: descriptors for
 * its stdout and stderr, -1 = ours. */
static int
run_command(char *const *argv, int out, int log)
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
		if (log >= 0)
			dup2(log, STDERR_FILENO);
		execv(argv[0], argv);
		dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static void
describe(int status, char *text, size_t size)
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
	full[n] = (char[]){ "get_tasks" };
	int status = run_command(full, fileno(f), -1);
	free(full);
	if (status == 0) {
		rewind(f);
		return f;
	}
	describe(status, how, sizeof(how));
	err_set(err, -EIO, "%s get_tasks %s; no run was made", argv[0], how);
	fclose(f);
	return NULL;
}

static void
node_folder(const char *local, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.3800s/raser-node.%.64s.%u", local, name, (unsigned)getuid());
}

void
plugin_cache(const char *local, const char *name, char cache[PATH_MAX])
{
	snprintf(cache, PATH_MAX, "%.3800s/raser-node.%.64s.%u/cache", local, name, (unsigned)getuid());
}

/* The folder of a run on this node must be ours and nobody else's. */
static int
make_node_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	/* in a directory that all may write to, somebody else may have been there before */
	if (lstat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) ? 0 : -EPERM;
}

int
plugin_setup(char *const *argv, const char *local, const char *name, struct err *err)
{
	char dir[PATH_MAX];
	char cache[PATH_MAX];
	char path[PATH_MAX + 16];
	char how[64];

	node_folder(local, name, dir);
	plugin_cache(local, name, cache);
	int rc = make_node_folder(dir);
	if (rc)
		return err_set(err, rc, "%s cannot be used for this node's files: %s", dir,
			       strerror(-rc));
	if (mkdir(cache, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "%s: %s", cache, strerror(errno));
	snprintf(path, sizeof(path), "%s/setup", dir);
	/* node-local, so the lock is one of this kernel; held by this process and let go by its end.
	 * A byte in the file says that it was done */
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
			goto end;
		}
	char done;
	if (pread(fd, &done, 1, 0) == 1)
		goto end;
	setenv("RASER_CACHE", cache, 1);
	int status = run_command(argv, STDERR_FILENO, -1);
	unsetenv("RASER_CACHE");
	if (status >= 0 && WIFEXITED(status) &&
	    (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_NO_VERB)) {
		if (pwrite(fd, "1", 1, 0) != 1)
			rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
	} else {
		describe(status, how, sizeof(how));
		rc = err_set(err, -EIO, "%s setup %s", argv[0], how);
	}
end:
	close(fd);
	return rc;
}
