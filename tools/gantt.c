/*
 * gantt.c - bars, marks and an axis in seconds from the first start on.
 */
#include <config.h>

#include "gantt.h"

#include "raser.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WIDTH = 1200,
	LEFT = 92,
	RIGHT = 24,
	TOP = 74,
	ROW = 24,
	BAR = 18,
	BOTTOM = 74,
	LETTER = 6,  /* width of one in a bar */
	TICKS = 14,
};

static const struct look {
	const char *colour, *legend;
} looks[PAST_ENDS] = {
	[PAST_DONE] = { "#5aae7a", "done" },
	[PAST_FREED] = { "#f0b44c", "given back (preempted)" },
	[PAST_RETRY] = { "#e0675f", "to be retried" },
	[PAST_FAILED] = { "#8c2d2d", "failed" },
	[PAST_LOST] = { "#a678c8", "lost" },
	[PAST_RUNNING] = { "#9aa5ad", "no end was written" },
};

struct plot {
	FILE *f;
	const struct past_list *list;
	const struct figures *figures;
	const size_t *lane;
	size_t *row;	   /* of a lane */
	double scale;	   /* pixels a second */
	double length;	   /* seconds */
	size_t rows;
};

static double
at(const struct plot *p, double wall)
{
	return LEFT + (wall - p->figures->began) * p->scale;
}

static void
put_text(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", f);
		else if (*s == '>')
			fputs("&gt;", f);
		else if (*s == '&')
			fputs("&amp;", f);
		else if (*s == '"')
			fputs("&quot;", f);
		else if ((unsigned char)*s >= ' ')
			putc(*s, f);
	}
}

/* ---- rows ---- */

struct row {
	size_t lane;
	const struct past *first;
};

/* By tier, then by the agent's name, numbers in it by their value. */
static int
by_agent(const void *a, const void *b)
{
	const struct row *x = a;
	const struct row *y = b;
	int d = strcmp(x->first->tier, y->first->tier);

	return d ? d : strverscmp(x->first->agent, y->first->agent);
}

static bool
place_rows(struct plot *p)
{
	struct row *rows = calloc(p->rows ? p->rows : 1, sizeof(*rows));
	size_t number = 0;

	p->row = calloc(p->rows ? p->rows : 1, sizeof(*p->row));
	if (!rows || !p->row) {
		free(rows);
		return false;
	}
	for (size_t i = 0; i < p->list->n; i++) {
		struct row *r = &rows[p->lane[i]];

		if (!r->first || p->list->all[i].started < r->first->started)
			*r = (struct row){ p->lane[i], &p->list->all[i] };
	}
	if (p->rows)
		qsort(rows, p->rows, sizeof(*rows), by_agent);
	for (size_t i = 0; i < p->rows; i++) {
		const char *tier = rows[i].first->tier;

		p->row[rows[i].lane] = i;
		number = i && !strcmp(tier, rows[i - 1].first->tier) ? number + 1 : 1;
		fprintf(p->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\"><title>", LEFT - 8,
			TOP + (int)i * ROW + BAR - 5);
		put_text(p->f, rows[i].first->agent);
		fputs("</title>", p->f);
		put_text(p->f, *tier ? tier : "agent");
		fprintf(p->f, " %zu</text>\n", number);
	}
	free(rows);
	return true;
}

/* ---- the axis ---- */

/* 1, 2 or 5 times a power of ten. */
static double
tick_step(double length)
{
	double step = 1e-3;

	for (int i = 0; length / step > TICKS; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	return step;
}

static void
put_axis(const struct plot *p)
{
	double step = tick_step(p->length);
	int bottom = TOP + (int)p->rows * ROW;

	for (int i = 0; i * step <= p->length; i++) {
		double x = LEFT + i * step * p->scale;

		fprintf(p->f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#e3e3e3\"/>"
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
			x, TOP - 4, x, bottom, x, bottom + 15, i * step);
	}
	fprintf(p->f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#888\"/>"
		"<text x=\"%d\" y=\"%d\" text-anchor=\"end\">seconds</text>\n",
		LEFT, bottom, WIDTH - RIGHT, bottom, LEFT - 8, bottom + 15);
}

/* An upright line at a time, with its name above, `up` lines higher. */
static void
put_line(const struct plot *p, const char *name, double seconds, const char *dashes, int up)
{
	double x = LEFT + seconds * p->scale;
	bool to_left = seconds > p->length / 2;
	int top = TOP - 12 - 12 * up;

	fprintf(p->f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#222\" "
		"stroke-width=\"1.5\" stroke-dasharray=\"%s\"/>"
		"<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s %.1f s</text>\n",
		x, top - 8, x, TOP + (int)p->rows * ROW, dashes, x + (to_left ? -4 : 4), top,
		to_left ? "end" : "start", name, seconds);
}

/* ---- attempts ---- */

static bool
has_next(const struct plot *p, size_t i)
{
	return i + 1 < p->list->n && !strcmp(p->list->all[i].task, p->list->all[i + 1].task);
}

/* What had to be done again because of this attempt; 0 when nobody went on with its task. */
static double
lost_of(const struct plot *p, size_t i)
{
	const struct past *one = &p->list->all[i];

	if (!has_next(p, i) || !(one[1].lost > 0))
		return 0;
	return fmin(one[1].lost, one->ended - one->started);
}

static void
put_bar(const struct plot *p, double from, double to, int y, const char *fill)
{
	fprintf(p->f, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>", at(p, from), y,
		fmax(0.5, (to - from) * p->scale), BAR, fill);
}

/* As much of the end of a task's name as fits; ends tell more than beginnings. */
static void
put_name(const struct plot *p, const struct past *one, int y)
{
	size_t room = (size_t)fmax(0, ((one->ended - one->started) * p->scale - 14) / LETTER);
	const char *name = one->task;
	size_t len = strlen(name);

	if (room < 3)
		return;
	if (len > room) {
		name += len - room;
		while (((unsigned char)*name & 0xc0) == 0x80)
			name++; /* not in the middle of a letter */
	}
	fprintf(p->f, "<text x=\"%.1f\" y=\"%d\" class=\"n\">", at(p, one->started) + 10, y + BAR - 5);
	put_text(p->f, name);
	fputs("</text>", p->f);
}

static void
put_attempt(const struct plot *p, size_t i)
{
	const struct past *one = &p->list->all[i];
	int y = TOP + (int)p->row[p->lane[i]] * ROW;
	double lost = lost_of(p, i);
	double x = at(p, one->started);

	fputs("<g><title>", p->f);
	put_text(p->f, one->task);
	fprintf(p->f, "@%u, %.1f to %.1f s%s: %s", one->attempt, one->started - p->figures->began,
		one->ended - p->figures->began, one->guessed ? " or so" : "", looks[one->end].legend);
	if (one->resumed)
		fprintf(p->f, ", resumed from a checkpoint");
	if (lost > 0)
		fprintf(p->f, ", %.1f s of it were done again", lost);
	fputs("; ", p->f);
	put_text(p->f, one->place);
	fputs("</title>", p->f);
	put_bar(p, one->started, one->ended, y, looks[one->end].colour);
	if (lost > 0)
		put_bar(p, one->ended - lost, one->ended, y, "url(#again)");
	fprintf(p->f, "<path d=\"M%.2f %dv%d\" stroke=\"#fff\"/>", x, y, BAR);
	if (one->resumed)
		fprintf(p->f, "<path d=\"M%.2f %dl8 %dl-8 %dz\" fill=\"#15356e\"/>", x, y, BAR / 2, BAR / 2);
	if (one->end != PAST_DONE && (one->end != PAST_RUNNING || has_next(p, i)))
		fprintf(p->f, "<path d=\"M%.2f %dv%d\" stroke=\"#111\" stroke-width=\"3\"/>",
			at(p, one->ended) - 1.5, y - 2, BAR + 4);
	put_name(p, one, y);
	fputs("</g>\n", p->f);
}

/* ---- words ---- */

static void
put_head(const struct plot *p, const char *title)
{
	const struct figures *f = p->figures;
	int height = TOP + (int)p->rows * ROW + BOTTOM;

	fprintf(p->f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n"
		"<style>.n{font-size:9.5px;fill:#12251a}</style>\n"
		"<defs><pattern id=\"again\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
		"patternTransform=\"rotate(45)\"><path d=\"M1.5 0v6\" stroke=\"#5b1a10\" "
		"stroke-width=\"2\"/></pattern></defs>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"20\" font-size=\"15\">",
		WIDTH, height, WIDTH, height, WIDTH, height, LEFT);
	put_text(p->f, title);
	fprintf(p->f, "</text>\n<text x=\"%d\" y=\"38\">%zu of %zu tasks done by %zu agents, busy %.0f %% of "
		"the time; %zu attempts, %zu given back, %zu retried, %zu lost or without an end; %.1f s done "
		"again</text>\n", LEFT, f->done, f->tasks, f->agents, figures_utilisation(f), f->attempts,
		f->ends[PAST_FREED], f->ends[PAST_RETRY], f->ends[PAST_LOST] + f->ends[PAST_RUNNING],
		f->lost);
}

static void
put_legend(const struct plot *p)
{
	int y = TOP + (int)p->rows * ROW + 40;
	int x = LEFT;

	for (int i = 0; i < PAST_ENDS; i++) {
		if (!p->figures->ends[i])
			continue;
		fprintf(p->f, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" fill=\"%s\"/>"
			"<text x=\"%d\" y=\"%d\">%s</text>\n", x, y - 10, looks[i].colour, x + 19, y,
			looks[i].legend);
		x += 34 + (int)strlen(looks[i].legend) * LETTER;
	}
	fprintf(p->f, "<path d=\"M%d %dl8 7l-8 7z\" fill=\"#15356e\"/><text x=\"%d\" y=\"%d\">resumed</text>\n"
		"<path d=\"M%d %dv14\" stroke=\"#111\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\">"
		"interrupted</text>\n"
		"<rect x=\"%d\" y=\"%d\" width=\"22\" height=\"12\" fill=\"url(#again)\"/>"
		"<text x=\"%d\" y=\"%d\">done again</text>\n",
		x, y - 11, x + 13, y, x + 74, y - 11, x + 81, y, x + 158, y - 10, x + 185, y);
}

int
gantt_write(FILE *f, const char *title, const struct past_list *list, const size_t *lane,
	    const struct figures *figures, double bound)
{
	struct plot p = { .f = f, .list = list, .figures = figures, .lane = lane,
			  .rows = figures->lanes };

	p.length = fmax(figures->makespan, bound);
	for (size_t i = 0; i < list->n; i++)
		p.length = fmax(p.length, list->all[i].ended - figures->began);
	p.length = p.length > 0 ? p.length : 1;
	p.scale = (WIDTH - LEFT - RIGHT) / p.length;
	put_head(&p, title);
	put_axis(&p);
	if (!place_rows(&p)) {
		free(p.row);
		return -ENOMEM;
	}
	for (size_t i = 0; i < list->n; i++)
		put_attempt(&p, i);
	if (bound > 0)
		put_line(&p, "bound", bound, "5 4", 0);
	put_line(&p, "makespan", figures->makespan, "none", 1);
	put_legend(&p);
	fputs("</svg>\n", f);
	free(p.row);
	return ferror(f) ? -EIO : 0;
}

bool
gantt_save(const char *path, const char *title, const struct past_list *list, const size_t *lane,
	   const struct figures *figures, double bound)
{
	char temp[PATH_MAX + 32];

	snprintf(temp, sizeof(temp), "%s.%ld.new", path, (long)getpid());
	FILE *f = fopen(temp, "we");
	if (!f)
		return complain(0, "%s: %s", temp, strerror(errno)) != 0;
	int rc = gantt_write(f, title, list, lane, figures, bound);
	if (fclose(f) && !rc)
		rc = -errno;
	if (!rc && rename(temp, path) < 0)
		rc = -errno;
	if (!rc)
		return true;
	unlink(temp);
	return complain(0, "%s: %s", path, strerror(-rc)) != 0;
}
