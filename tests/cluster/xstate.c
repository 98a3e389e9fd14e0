/*
 * xstate.c - lets user-mode Linux 6.1 run on processors with a large register file. For LD_PRELOAD,
 * together with LD_BIND_NOW=1; the rig `nfs` starts its guests with it.
 *
 * Such a kernel keeps the registers of its processes in 2,696 bytes and hands that many to
 * ptrace(PTRACE_SETREGSET, NT_X86_XSTATE). On a processor with AMX they take 11,008, a host refuses
 * anything shorter, and the guest dies with its first process. Here a short image is padded to the
 * size that the host itself reports, and the AMX tiles in it are marked as unused.
 *
 * The first call comes from a clone on a single page of stack: no dlsym(3), no vector registers,
 * bare system calls. Built with -fno-stack-protector -mgeneral-regs-only, for x86-64 alone.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

enum { GETREGSET = 0x4204, SETREGSET = 0x4205, XSTATE = 0x202, PEEK_FIRST = 1, PEEK_LAST = 3 };
enum { XSTATE_BV = 512, AMX_BITS = 17 }; /* where an image says what is in use */

struct part {
	unsigned char *base;
	size_t len;
};

static long
call_ptrace(long request, long pid, void *addr, void *data)
{
	long rc;
	register void *r10 __asm__("r10") = data;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"(101L), "D"(request), "S"(pid), "d"(addr), "r"(r10)
			 : "rcx", "r11", "memory");
	if (rc < 0 && rc > -4096) {
		errno = (int)-rc;
		return -1;
	}
	return rc;
}

long
ptrace(int request, int pid, void *addr, void *data);

long
ptrace(int request, int pid, void *addr, void *data)
{
	static unsigned char full[1 << 16] __attribute__((aligned(64)));
	static size_t size;

	if (request >= PEEK_FIRST && request <= PEEK_LAST) { /* glibc's returns the word */
		long word = 0;

		return call_ptrace(request, pid, addr, &word) < 0 ? -1 : word;
	}
	if (request != SETREGSET || addr != (void *)XSTATE)
		return call_ptrace(request, pid, addr, data);

	const struct part *given = data;
	if (!size) {
		struct part whole = { full, sizeof(full) };

		if (call_ptrace(GETREGSET, pid, addr, &whole) < 0)
			return -1;
		size = whole.len;
	}
	if (given->len >= size)
		return call_ptrace(request, pid, addr, data);
	for (size_t i = 0; i < size; i++)
		full[i] = i < given->len ? given->base[i] : 0;
	*(uint64_t *)(void *)(full + XSTATE_BV) &= ~((uint64_t)3 << AMX_BITS);
	struct part padded = { full, size };
	return call_ptrace(request, pid, addr, &padded);
}
