/*
 * handle.c - open files. A handle's number is a slot and how often the slot was used, never a
 * pointer, so that a stale one is noticed.
 */
#include <config.h>

#include "mount.h"

#include <stdlib.h>
#include <string.h>

/* The slot of a number, or NULL. [under lock] */
static struct handle *
slot(struct mount *m, uint64_t fh)
{
	uint32_t i = (uint32_t)fh;

	if (!i || i >= m->nhandles || m->handles[i].kind == HANDLE_NONE ||
	    m->handles[i].life != (uint32_t)(fh >> 32))
		return NULL;
	return &m->handles[i];
}

uint64_t
handle_open(struct mount *m, const struct handle *h)
{
	uint64_t fh = 0;

	pthread_mutex_lock(&m->lock);
	if (!m->free_handle) {
		uint32_t n = m->nhandles ? m->nhandles * 2 : 64;
		struct handle *grown = realloc(m->handles, n * sizeof(*grown));

		if (!grown)
			goto out;
		m->handles = grown;
		memset(&grown[m->nhandles], 0, (n - m->nhandles) * sizeof(*grown));
		/* slot 0 stays unused: a number of 0 is no handle */
		for (uint32_t i = n - 1; i >= (m->nhandles ? m->nhandles : 1); i--) {
			grown[i].next_free = m->free_handle;
			m->free_handle = i;
		}
		m->nhandles = n;
	}
	uint32_t i = m->free_handle;
	struct handle *s = &m->handles[i];
	uint32_t life = s->life + 1;
	m->free_handle = s->next_free;
	*s = *h;
	s->life = life;
	fh = (uint64_t)life << 32 | i;
out:
	pthread_mutex_unlock(&m->lock);
	return fh;
}

bool
handle_get(struct mount *m, uint64_t fh, struct handle *h)
{
	pthread_mutex_lock(&m->lock);
	const struct handle *s = slot(m, fh);
	if (s)
		*h = *s;
	pthread_mutex_unlock(&m->lock);
	return s != NULL;
}

bool
handle_close(struct mount *m, uint64_t fh, struct handle *h)
{
	pthread_mutex_lock(&m->lock);
	struct handle *s = slot(m, fh);
	if (s) {
		*h = *s;
		*s = (struct handle){ .life = h->life, .next_free = m->free_handle };
		m->free_handle = (uint32_t)fh;
	}
	pthread_mutex_unlock(&m->lock);
	if (s && h->poll)
		fuse_pollhandle_destroy(h->poll);
	return s != NULL;
}

void
handle_text(struct mount *m, uint64_t fh, char *text, size_t size, bool replace)
{
	pthread_mutex_lock(&m->lock);
	struct handle *s = slot(m, fh);
	char *old = text;
	if (s && (replace || !s->text)) {
		old = s->text;
		s->text = text;
		s->size = size;
	}
	pthread_mutex_unlock(&m->lock);
	free(old);
}

void
handle_read(struct mount *m, uint64_t fh, uint64_t generation)
{
	pthread_mutex_lock(&m->lock);
	struct handle *s = slot(m, fh);
	if (s)
		s->generation = generation;
	pthread_mutex_unlock(&m->lock);
}

bool
handle_poll(struct mount *m, uint64_t fh, struct fuse_pollhandle *poll, uint64_t generation)
{
	struct fuse_pollhandle *old = NULL;

	pthread_mutex_lock(&m->lock);
	struct handle *s = slot(m, fh);
	bool news = !s || s->generation != generation;
	if (!news && poll) {
		old = s->poll;
		s->poll = poll;
	}
	pthread_mutex_unlock(&m->lock);
	if (old)
		fuse_pollhandle_destroy(old);
	return news;
}

void
handles_free(struct mount *m)
{
	for (uint32_t i = 0; i < m->nhandles; i++) {
		free(m->handles[i].text);
		if (m->handles[i].poll)
			fuse_pollhandle_destroy(m->handles[i].poll);
	}
	free(m->handles);
	m->handles = NULL;
	m->nhandles = 0;
}

void
handles_poll(struct mount *m, int pollers[TIERS_MAX])
{
	uint64_t generation[TIERS_MAX];

	for (int i = 0; i < m->conf->ntiers; i++)
		generation[i] = queue_generation(m->q, i);
	uint64_t any = queue_generation(m->q, -1); /* for files that tell of all tiers */
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 1; i < m->nhandles; i++) {
		struct handle *h = &m->handles[i];

		if (h->kind != HANDLE_TEXT || !h->poll)
			continue;
		int tier = fixed_tier(h->ino, FIXED_READY);
		if (tier >= 0)
			pollers[tier]++;
		if (h->generation == (tier >= 0 ? generation[tier] : any))
			continue;
		/* only a wake-up, which takes no lock of the kernel's: safe anywhere */
		fuse_lowlevel_notify_poll(h->poll);
		fuse_pollhandle_destroy(h->poll);
		h->poll = NULL;
	}
	pthread_mutex_unlock(&m->lock);
}
