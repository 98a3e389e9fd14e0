/*
 * launchscript.c - the batch scripts of raser launch. All that Slurm is told stands in them, so that
 * they can be read, kept, changed and submitted by hand.
 */
#include <config.h>

#include "launch.h"

#include "plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOB_NAME = 96, LINE_LIMIT = 4096, MEGABYTE = 1 << 20 };

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";

/* ---- words ---- */

static bool
is_plain(const char *word)
{
	return *word && word[strspn(word, plain)] == '\0';
}

void
put_word(FILE *f, const char *word)
{
	if (is_plain(word)) {
		fputs(word, f);
		return;
	}
	fputc('\'', f);
	for (const char *p = word; *p; p++)
		if (*p == '\'')
			fputs("'\\''", f);
		else
			fputc(*p, f);
	fputc('\'', f);
}

/* sbatch takes a line of options apart by itself: between double quotes all characters are ordinary ones
 * but these and the backslash. pattern: it is a path in which Slurm would replace what follows a '%'. */
static void
put_text(FILE *f, const char *word, bool pattern)
{
	bool quoted = !is_plain(word);

	fputs(quoted ? "\"" : "", f);
	for (const char *p = word; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', f);
		fputs(*p == '%' && pattern ? "%" : "", f);
		fputc(*p, f);
	}
	fputs(quoted ? "\"" : "", f);
}

static void
put_option(FILE *f, const char *word)
{
	put_text(f, word, false);
}

/* A line of options that somebody has written, quoted as for a shell. */
static int
put_quoted(FILE *f, const char *text, const char *where, struct err *err)
{
	char what[TIER_NAME + 40];

	if (!text[strspn(text, " \t\n")])
		return 0;
	snprintf(what, sizeof(what), "raser.ini: [%s] sbatch =", where);
	char **words = plugin_words(text, NULL, what, err);
	if (!words)
		return -EINVAL;
	fputs("#SBATCH", f);
	for (char **w = words; *w; w++) {
		fputc(' ', f);
		put_option(f, *w);
	}
	fputc('\n', f);
	plugin_free(words);
	return 0;
}

static void
put_words(FILE *f, char *const *words)
{
	if (!words || !*words)
		return;
	fputs("#SBATCH", f);
	for (char *const *w = words; *w; w++) {
		fputc(' ', f);
		put_option(f, *w);
	}
	fputc('\n', f);
}

/* ---- what both scripts say ---- */

/* raser-RUN-KIND, of characters that every tool can show. */
static void
job_name(const struct launch *l, const char *kind, char name[JOB_NAME])
{
	const char *slash = strrchr(l->target.run, '/');

	snprintf(name, JOB_NAME, "raser-%.40s-%.31s", slash && slash[1] ? slash + 1 : "run", kind);
	for (char *p = name; *p; p++)
		if (!strchr(plain, *p) || strchr("/=:,@%+", *p))
			*p = '_';
}

static void
put_head(const struct launch *l, const char *kind, FILE *f)
{
	char name[JOB_NAME];
	char when[32] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	job_name(l, kind, name);
	fprintf(f, "#!/bin/sh\n# made by raser launch, %s; submitted by: sbatch THIS-FILE\n", when);
	fprintf(f, "#SBATCH --job-name=%s\n", name);
}

static void
put_tail(const struct launch *l, const char *pattern, FILE *f)
{
	fputs("#SBATCH --chdir=", f);
	put_option(f, l->target.run);
	fputs("\n#SBATCH --output=", f);
	put_text(f, l->target.run, true);
	fprintf(f, "/logs/slurm-%s.out\n", pattern);
}

/* The variables that go along: what programs need to be found and to speak, what the daemons of ours
 * read, and what agents may have. Nothing else, above all no keys. */
static void
put_export(const struct launch *l, FILE *f)
{
	static const char always[] = "PATH,HOME,USER,LOGNAME,SHELL,LANG,LC_ALL,LC_CTYPE,TZ,LD_LIBRARY_PATH,"
				     "RASER_SITE_INI,RASER_HISTORY";
	char copy[sizeof(l->conf.agent.env)];
	char *save = NULL;

	fprintf(f, "#SBATCH --export=%s", always);
	snprintf(copy, sizeof(copy), "%s", l->conf.agent.env);
	for (char *w = strtok_r(copy, " \t\n", &save); w; w = strtok_r(NULL, " \t\n", &save))
		fprintf(f, ",%.*s", (int)strcspn(w, "="), w);
	for (size_t i = 0; i + 1 < l->crew.noptions; i++)
		if (!strcmp(l->crew.options[i], "--pass"))
			fprintf(f, ",%.*s", (int)strcspn(l->crew.options[i + 1], "="),
				l->crew.options[i + 1]);
	fputc('\n', f);
}

/* A line's end would end a line of options, and nothing can quote it. */
static bool
has_newline(const struct launch *l)
{
	const char *words[] = { l->target.run, l->raser, l->time, l->partition, l->then, l->then_nodes };
	bool found = false;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		found |= words[i] && strpbrk(words[i], "\r\n");
	for (char *const *w = l->sbatch; w && *w; w++)
		found |= strpbrk(*w, "\r\n") != NULL;
	return found;
}

/* The text is finished, or there is none. */
static char *
finish(FILE *f, char **text, int rc, struct err *err)
{
	bool full = ferror(f);

	if ((fclose(f) || full) && !rc)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc)
		return *text;
	free(*text);
	return NULL;
}

static FILE *
begin(const struct launch *l, char **text, size_t *size, struct err *err)
{
	FILE *f = NULL;

	*text = NULL;
	if (has_newline(l))
		err_set(err, -EINVAL, "a path or an option has a line's end in it, which no batch script "
			"can hold");
	else if (!(f = open_memstream(text, size)))
		err_set(err, -ENOMEM, "out of memory");
	return f;
}

/* ---- an array ---- */

static void
put_command(const struct launch *l, const struct lane *lane, FILE *f)
{
	fputs("exec ", f);
	put_word(f, l->raser);
	fputs(" job ", f);
	put_word(f, l->target.run);
	fputs(" --tier ", f);
	put_word(f, lane->tier->name);
	for (size_t i = 0; i < l->crew.noptions; i++) {
		fputc(' ', f);
		put_word(f, l->crew.options[i]);
	}
	if (l->command)
		fputs(" --", f);
	for (char **w = l->command; w && *w; w++) {
		fputc(' ', f);
		put_word(f, *w);
	}
	fputc('\n', f);
}

char *
script_array(const struct launch *l, const struct lane *lane, struct err *err)
{
	const struct slurm_conf *slurm = &l->conf.slurm;
	const char *limit = l->time ? l->time : slurm->time;
	const char *partition = l->partition ? l->partition : slurm->partition;
	char where[TIER_NAME + 16];
	char *text;
	size_t size;
	FILE *f = begin(l, &text, &size, err);

	if (!f)
		return NULL;
	put_head(l, lane->tier->name, f);
	fprintf(f, "#SBATCH --array=1-%ld\n", lane->agents);
	/* a tier without a limit takes what the partition gives */
	if (lane->tier->memory)
		fprintf(f, "#SBATCH --mem=%lldM\n",
			(long long)((lane->tier->memory + slurm->overhead + MEGABYTE - 1) / MEGABYTE));
	fprintf(f, "#SBATCH --cpus-per-task=%lld\n", (long long)lane->tier->cpus);
	if (*limit) {
		fputs("#SBATCH --time=", f);
		put_option(f, limit);
		fputc('\n', f);
	}
	if (*partition) {
		fputs("#SBATCH --partition=", f);
		put_option(f, partition);
		fputc('\n', f);
	}
	fputs("#SBATCH --requeue --open-mode=append\n", f);
	if (slurm->signal_before)
		fprintf(f, "#SBATCH --signal=B:USR1@%lld\n", (long long)slurm->signal_before);
	put_tail(l, "%A_%a", f);
	put_export(l, f);
	int rc = put_quoted(f, slurm->sbatch, "slurm", err);
	snprintf(where, sizeof(where), "tier %s", lane->tier->name);
	rc = rc ? rc : put_quoted(f, lane->tier->sbatch, where, err);
	put_words(f, l->sbatch);
	put_command(l, lane, f);
	return finish(f, &text, rc, err);
}

/* ---- what comes then ---- */

/* The lines for sbatch at the head of the program, since sbatch reads only ours. */
static void
copy_options(const char *path, FILE *to)
{
	char line[LINE_LIMIT];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f) && (line[0] == '#' || line[0] == '\n'))
		if (!strncmp(line, "#SBATCH", 7) && strchr(line, '\n'))
			fputs(line, to);
	if (f)
		fclose(f);
}

char *
script_then(const struct launch *l, const char *after, struct err *err)
{
	char *text;
	size_t size;
	FILE *f = begin(l, &text, &size, err);

	if (!f)
		return NULL;
	put_head(l, "then", f);
	put_tail(l, "%j", f);
	if (l->partition || l->conf.slurm.partition[0]) {
		fputs("#SBATCH --partition=", f);
		put_option(f, l->partition ? l->partition : l->conf.slurm.partition);
		fputc('\n', f);
	}
	/* such as an account; what the program says itself comes later, and holds */
	int rc = put_quoted(f, l->conf.slurm.sbatch, "slurm", err);
	put_words(f, l->sbatch);
	copy_options(l->then, f);
	if (l->then_nodes) {
		fputs("#SBATCH --nodes=", f);
		put_option(f, l->then_nodes);
		fputc('\n', f);
	}
	fprintf(f, "#SBATCH --dependency=afterany:%s\n", after);
	put_export(l, f);
	/* that the arrays have ended does not mean that they have finished */
	put_word(f, l->raser);
	fputs(" status --drained ", f);
	put_word(f, l->target.run);
	fputs(" || exit\nexec ", f);
	put_word(f, l->then);
	fputc('\n', f);
	return finish(f, &text, rc, err);
}
