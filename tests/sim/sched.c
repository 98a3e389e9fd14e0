/*
 * sched.c - the heap of what is to come, and the coroutines. The only file that
 * switches stacks.
 */
#include <config.h>

#include "sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 256 * 1024, GUARD = 4096 };

struct event {
	int64_t at;
	uint64_t order;
	coro_fn *fn; /* in the scheduler's context, with arg; or NULL: */
	void *arg;
	struct coro *coro;
	uint64_t turn; /* of the coroutine; an older one is over */
	bool woken;
};

struct coro {
	ucontext_t ctx;
	char *stack;
	struct proc *proc;
	struct gate *gate;
	const char *name;
	coro_fn *fn;
	void *arg;
	uint64_t turn;
	bool woken, waiting, held, over, interrupted;
	int64_t call;
	struct coro *next;  /* held by a gate, or free */
	struct coro *older; /* every coroutine that ever was: they are used again,
			     * never freed, since events may still name them */
};

int64_t sim_now;

static struct {
	struct event *heap;
	size_t n, cap;
	uint64_t order, steps;
	struct coro *self;
	ucontext_t main;
	struct coro *all, *unused;
	int count;
	bool stop;
	struct rng rng;
	char **stacks; /* free ones */
	size_t nstacks, capstacks;
} s;

static bool
before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
push(struct event e)
{
	if (s.n == s.cap) {
		s.cap = s.cap ? s.cap * 2 : 1024;
		s.heap = realloc(s.heap, s.cap * sizeof(*s.heap));
		if (!s.heap)
			abort();
	}
	e.order = ++s.order;
	size_t i = s.n++;
	while (i && before(&e, &s.heap[(i - 1) / 2])) {
		s.heap[i] = s.heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	s.heap[i] = e;
}

static struct event
pop(void)
{
	struct event top = s.heap[0];
	struct event last = s.heap[--s.n];
	size_t i = 0;

	for (;;) {
		size_t kid = 2 * i + 1;

		if (kid >= s.n)
			break;
		if (kid + 1 < s.n && before(&s.heap[kid + 1], &s.heap[kid]))
			kid++;
		if (!before(&s.heap[kid], &last))
			break;
		s.heap[i] = s.heap[kid];
		i = kid;
	}
	s.heap[i] = last;
	return top;
}

void
sched_begin(uint64_t seed)
{
	sim_now = 0;
	s.n = 0;
	s.order = s.steps = 0;
	s.stop = false;
	s.rng.state = seed;
}

void
sched_end(void)
{
	s.n = 0;
	if (s.count) {
		fprintf(stderr, "sim: %d coroutines are left over\n", s.count);
		abort();
	}
}

void
sched_stop(void)
{
	s.stop = true;
}

void
sched_at(int64_t at, coro_fn *fn, void *arg)
{
	push((struct event){ .at = at < sim_now ? sim_now : at, .fn = fn, .arg = arg });
}

void
sched_hasten(coro_fn *fn)
{
	struct event *old = s.heap;
	size_t n = s.n;

	s.heap = NULL;
	s.n = s.cap = 0;
	for (size_t i = 0; i < n; i++) {
		if (old[i].fn == fn && old[i].at > sim_now)
			old[i].at = sim_now;
		uint64_t order = s.order;

		s.order = old[i].order - 1; /* as they were sent */
		push(old[i]);
		s.order = order;
	}
	free(old);
}

static void
entry(void)
{
	struct coro *c = s.self;

	c->fn(c->arg);
	c->over = true;
	swapcontext(&c->ctx, &s.main);
}

static char *
stack_new(void)
{
	if (s.nstacks)
		return s.stacks[--s.nstacks];
	char *p = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || mprotect(p, GUARD, PROT_NONE))
		abort();
	return p;
}

static void
stack_free(char *p)
{
	if (s.nstacks == s.capstacks) {
		s.capstacks = s.capstacks ? s.capstacks * 2 : 64;
		s.stacks = realloc(s.stacks, s.capstacks * sizeof(*s.stacks));
		if (!s.stacks)
			abort();
	}
	s.stacks[s.nstacks++] = p;
}

static void
begin_at(struct coro *c, void (*fn)(void))
{
	getcontext(&c->ctx);
	c->ctx.uc_stack.ss_sp = c->stack + GUARD;
	c->ctx.uc_stack.ss_size = STACK;
	makecontext(&c->ctx, fn, 0);
}

struct coro *
sched_spawn(struct proc *proc, struct gate *gate, const char *name, coro_fn *fn, void *arg)
{
	struct coro *c = s.unused;

	if (c) {
		s.unused = c->next;
	} else {
		c = calloc(1, sizeof(*c));
		if (!c)
			abort();
		c->older = s.all;
		s.all = c;
	}
	c->woken = c->waiting = c->held = c->over = c->interrupted = false;
	c->call = 0;
	c->proc = proc;
	c->gate = gate;
	c->name = name;
	c->fn = fn;
	c->arg = arg;
	c->stack = stack_new();
	begin_at(c, entry);
	s.count++;
	push((struct event){ .at = sim_now, .coro = c, .turn = c->turn });
	return c;
}

bool
sched_wait(int64_t until)
{
	struct coro *c = s.self;

	c->turn++;
	c->woken = false;
	c->waiting = true;
	if (until != INT64_MAX)
		push((struct event){
			.at = until < sim_now ? sim_now : until, .coro = c, .turn = c->turn });
	swapcontext(&c->ctx, &s.main);
	c->waiting = false;
	return c->woken;
}

void
sched_sleep(int64_t us)
{
	int64_t until = sim_now + us;

	/* somebody may wake it for another reason: that is no end of a sleep */
	while (!s.self->interrupted && sched_wait(until) && sim_now < until)
		;
}

void
sched_wake(struct coro *c)
{
	if (!c->waiting || c->woken)
		return;
	c->woken = true;
	if (c->held)
		return; /* it learns that when its gate opens */
	push((struct event){ .at = sim_now, .coro = c, .turn = c->turn, .woken = true });
}

void
sched_interrupt(const struct proc *proc)
{
	for (struct coro *c = s.all; c; c = c->older)
		if (c->proc == proc && !c->over) {
			c->interrupted = true;
			sched_wake(c);
		}
}

struct coro *
sched_self(void)
{
	return s.self;
}

struct proc *
sched_proc(void)
{
	return s.self ? s.self->proc : NULL;
}

const char *
sched_name(void)
{
	return s.self ? s.self->name : "world";
}

int
sched_count(void)
{
	return s.count;
}

uint64_t
sched_steps(void)
{
	return s.steps;
}

void
sched_set_call(int64_t began)
{
	s.self->call = began;
}

int64_t
sched_call(void)
{
	return s.self ? s.self->call : sim_now;
}

void
gate_close(struct gate *g)
{
	g->closed++;
}

void
gate_open(struct gate *g, int64_t spread)
{
	if (--g->closed)
		return;
	while (g->held) {
		struct coro *c = g->held;

		g->held = c->next;
		c->held = false;
		push((struct event){
			.at = sim_now + rng_range(&s.rng, 0, spread), .coro = c, .turn = c->turn });
	}
}

static void
resume(struct coro *c)
{
	c->turn++; /* whatever else would have woken it is over */
	s.self = c;
	s.steps++;
	swapcontext(&s.main, &c->ctx);
	s.self = NULL;
	if (!c->over)
		return;
	stack_free(c->stack);
	c->proc = NULL;
	c->next = s.unused;
	s.unused = c;
	s.count--;
}

void
sched_run(void)
{
	s.stop = false;
	while (s.n && !s.stop) {
		struct event e = pop();

		sim_now = e.at;
		if (e.fn) {
			e.fn(e.arg);
			continue;
		}
		struct coro *c = e.coro;
		if (c->turn != e.turn)
			continue;
		if (c->gate && c->gate->closed) {
			c->turn++;
			c->held = true;
			c->next = c->gate->held;
			c->gate->held = c;
			continue;
		}
		resume(c);
	}
}
