/*
 * clocks.c - times of different machines. What two clocks say is never compared: a link was begun
 * before anybody saw it or built on it, so from each such pair follows how far one clock can be
 * ahead of the other at most. Boot times go on at one pace, so a bound holds for the whole run.
 */
#include <config.h>

#include "audit_impl.h"

#include <stdlib.h>
#include <string.h>

/* Lives with one boot id share a clock. */
static void
number_clocks(struct audit *a)
{
	for (size_t i = 0; i < a->nlives; i++) {
		size_t k = 0;

		while (k < i && strcmp(a->lives[k].boot, a->lives[i].boot) != 0)
			k++;
		a->lives[i].clock = k < i ? a->lives[k].clock : a->nclocks++;
	}
}

/* What happened at `at` in life x was before what happened at `later` in life y. */
static void
happened_before(struct audit *a, int x, int64_t at, int y, int64_t later)
{
	int64_t *ahead = &a->ahead[a->lives[x].clock * a->nclocks + a->lives[y].clock];

	if (later - at < *ahead)
		*ahead = later - at;
}

static void
saw(struct audit *a, const struct create *before, const struct create *after)
{
	if (before && after && after->ret)
		happened_before(a, before->life, before->call, after->life, after->ret);
}

/* A link that was made beside a seal of that attempt, by a daemon that had stood still since before:
 * it counts for nobody, and whoever went on had read the seal. */
static bool
is_late(const struct audit *a, size_t i)
{
	const struct link *l = &a->links[i];
	size_t first = i;

	while (first > 0 && !strcmp(a->links[first - 1].task, l->task))
		first--;
	for (size_t k = first; k < a->nlinks && !strcmp(a->links[k].task, l->task); k++)
		if (a->links[k].sealed && a->links[k].attempt >= l->attempt)
			return !l->sealed;
	return false;
}

void
audit_clocks(struct audit *a)
{
	number_clocks(a);
	size_t cells = (size_t)a->nclocks * (size_t)a->nclocks;
	a->ahead = malloc((cells + 1) * sizeof(*a->ahead));
	if (!a->ahead)
		return;
	for (size_t i = 0; i < cells; i++)
		a->ahead[i] = i % ((size_t)a->nclocks + 1) ? INT64_MAX : 0;
	for (size_t i = 0; i < a->nlinks; i++) {
		const struct link *l = &a->links[i];

		/* each link was made by who had read the one before it */
		/* or one below was removed, and made again after it */
		if (i && !strcmp(l[-1].task, l->task) && !audit_excused(a, l->path) && !is_late(a, i - 1))
			saw(a, l[-1].by, l->by);
	}
	for (size_t i = 0; i < a->ncreates; i++) {
		const struct create *c = &a->creates[i];

		if (c->fate != FATE_LOST)
			continue;
		/* what it read instead; creates of one path stand together */
		for (size_t k = i; k-- > 0 && !strcmp(a->creates[k].path, c->path);)
			if (!strcmp(a->creates[k].text, c->found))
				saw(a, &a->creates[k], c);
		for (size_t k = i + 1; k < a->ncreates && !strcmp(a->creates[k].path, c->path); k++)
			if (!strcmp(a->creates[k].text, c->found))
				saw(a, &a->creates[k], c);
	}
}

int64_t
audit_latest(const struct audit *a, int from_life, int64_t at, int in_life)
{
	int64_t ahead = a->ahead ? a->ahead[a->lives[from_life].clock * a->nclocks +
					    a->lives[in_life].clock] :
				   INT64_MAX;

	return ahead == INT64_MAX ? INT64_MAX : at + ahead;
}
