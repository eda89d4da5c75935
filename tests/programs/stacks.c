/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks SECONDS KIND [PLUGIN...]: a load whose stacks are unusual, and whose outermost function is known. Without frame
 * pointers. What the agent's first samples of a process cannot show (one copy of up to 32 KiB of one stack is all they have)
 * begins after half a second of other work.
 *
 *   plugins    loads and unloads the shared objects in turn, 100 times a second, and works in them and beside them
 *   ucontext   makecontext(): each context has work to do, and goes back and forth
 *   planted    coroutines whose stacks are prepared by hand: the first function returns to the first byte of another
 *   second     the same, with the second byte of a function, behind a nop, in its place: as Go does
 *   zero       the same, with 0 in its place
 *   finish     the same by assembly without CFI, to the middle of a function, behind a jump, on stacks that were used before
 *   higher     work on another stack, which lies above the caller's; the caller finds its own by rbp
 *   rbx        the same, and the caller finds it by rbx
 *   leaf       assembly without CFI that pushes and calls back, below callers that use rbp
 *   enter      the same, by a function that begins with enter
 *   hidden     the same, by code that cannot be understood
 *   deep       1,900 frames
 *   signals    a handler that works
 *   pages      coroutines whose first frame ends where the memory of the stack ends
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES 65536
#define LOADS_HZ    100

static double end_s;
static volatile uint64_t sink;

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) void work_leaf(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = sink * 3 + i;
}

__attribute__((noinline)) void work_middle(unsigned n)
{
	work_leaf(n);
	sink++;
}

/* Until the kernel has the process's mappings and rules. Its own work, so that it counts neither as right nor as wrong. */
__attribute__((noinline)) void settle(void)
{
	for (double until = now_s() + 0.5; now_s() < until;)
		for (unsigned i = 0; i < 100000; i++)
			sink = sink * 5 + i;
}

/* ---- plugins ---- */

static void plugins(char **paths, int count)
{
	for (int i = 0; now_s() < end_s; i++) {
		double next = now_s() + 1.0 / LOADS_HZ;
		void *plugin = dlopen(paths[i % count], RTLD_NOW | RTLD_LOCAL);
		void (*work)(unsigned) = plugin ? (void (*)(unsigned))dlsym(plugin, "plugin_work") : NULL;
		if (!work) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
		while (now_s() < next - 0.5 / LOADS_HZ)
			work(2000);
		dlclose(plugin);
		while (now_s() < next)
			work_middle(2000);
	}
}

/* ---- makecontext ---- */

#define CONTEXTS 8
static ucontext_t scheduler, contexts[CONTEXTS];
static int current;

__attribute__((noinline)) void context_main(void)
{
	for (;;) {
		work_middle(100000);
		swapcontext(&contexts[current], &scheduler);
	}
}

static void run_contexts(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(STACK_BYTES);
		contexts[i].uc_stack.ss_size = STACK_BYTES;
		contexts[i].uc_link = &scheduler;
		makecontext(&contexts[i], context_main, 0);
	}
	for (current = 0; now_s() < end_s; current = (current + 1) % CONTEXTS)
		swapcontext(&scheduler, &contexts[current]);
}

/* ---- by hand ---- */

#if defined(__x86_64__)
/* switch_stack(&save, to): what every library of coroutines has. With CFI, which is right on either stack. */
void switch_stack(void **save, void *to);
/* on_stack_rbp(top, function, n), on_stack_rbx(...): calls it there. */
void on_stack_rbp(void *top, void (*function)(unsigned), unsigned n);
void on_stack_rbx(void *top, void (*function)(unsigned), unsigned n);
void planted_end(void), planted_nop(void);
__asm__(".text\n"
	".globl switch_stack\n.type switch_stack,@function\n.p2align 4\nswitch_stack:\n.cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbp,0\npush %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset "
	"%rbx,0\n"
	"push %r12\n.cfi_adjust_cfa_offset 8\npush %r13\n.cfi_adjust_cfa_offset 8\npush %r14\n.cfi_adjust_cfa_offset 8\n"
	"push %r15\n.cfi_adjust_cfa_offset 8\nmov %rsp,(%rdi)\nmov %rsi,%rsp\npop %r15\n.cfi_adjust_cfa_offset -8\n"
	"pop %r14\n.cfi_adjust_cfa_offset -8\npop %r13\n.cfi_adjust_cfa_offset -8\npop %r12\n.cfi_adjust_cfa_offset -8\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\npop %rbp\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbp\n"
	"ret\n.cfi_endproc\n.size switch_stack,.-switch_stack\n"
	".globl on_stack_rbp\n.type on_stack_rbp,@function\n.p2align 4\non_stack_rbp:\n.cfi_startproc\n"
	"push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\nmov %rsp,%rbp\n.cfi_def_cfa_register %rbp\n"
	"mov %rdi,%rsp\nmov %edx,%edi\ncall *%rsi\nleave\n.cfi_def_cfa %rsp,8\nret\n.cfi_endproc\n"
	".size on_stack_rbp,.-on_stack_rbp\n"
	".globl on_stack_rbx\n.type on_stack_rbx,@function\n.p2align 4\non_stack_rbx:\n.cfi_startproc\n"
	"push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx,-16\nmov %rsp,%rbx\n.cfi_def_cfa_register %rbx\n"
	"mov %rdi,%rsp\nmov %edx,%edi\ncall *%rsi\nmov %rbx,%rsp\n.cfi_def_cfa_register %rsp\npop %rbx\n"
	".cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size on_stack_rbx,.-on_stack_rbx\n"
	/* Right behind on_stack_rbx(), so that the byte before it has a rule. */
	".globl planted_end\n.type planted_end,@function\n.p2align 4\nplanted_end:\n.cfi_startproc\n"
	"ud2\n.cfi_endproc\n.size planted_end,.-planted_end\n"
	".globl planted_nop\n.type planted_nop,@function\n.p2align 4\nplanted_nop:\n.cfi_startproc\n"
	"nop\ncall abort@plt\nnop\n.cfi_endproc\n.size planted_nop,.-planted_nop\n");

/* switch_bare(&save, to), as libraries of coroutines have it that are written in assembly without CFI. A new coroutine begins
 * in start_bare, which has its function in rbx and where it returns to, the inside of the function before it, in rbp. */
void switch_bare(void **save, void *to);
void start_bare(void), finish_bare(void);
__asm__(".text\n"
	".globl switch_bare\n.type switch_bare,@function\n.p2align 4\nswitch_bare:\n"
	"push %rbp\npush %rbx\npush %r15\npush %r14\npush %r13\npush %r12\nmov %rsp,(%rdi)\nmov %rsi,%rsp\n"
	"pop %r12\npop %r13\npop %r14\npop %r15\npop %rbx\npop %rbp\npop %r8\njmp *%r8\n.size switch_bare,.-switch_bare\n"
	".globl prepare_bare\n.type prepare_bare,@function\n.p2align 4\nprepare_bare:\n"
	"lea -64(%rdi),%rax\nlea start_bare(%rip),%rcx\nmov %rcx,48(%rax)\nmov %rsi,32(%rax)\n"
	"lea finish_bare(%rip),%rcx\nmov %rcx,40(%rax)\nret\n"
	".globl start_bare\nstart_bare:\npush %rbp\njmp *%rbx\n"
	".globl finish_bare\nfinish_bare:\nxor %edi,%edi\ncall _exit@plt\nhlt\n.size prepare_bare,.-prepare_bare\n");
void *prepare_bare(void *top, void (*function)(void));

static void *scheduler_sp, *coroutine_sp[CONTEXTS];

__attribute__((noinline)) void coroutine_main(void)
{
	for (;;) {
		work_middle(100000);
		switch_stack(&coroutine_sp[current], scheduler_sp);
	}
}

static void coroutines(uint64_t outermost, size_t spare)
{
	for (int i = 0; i < CONTEXTS; i++) {
		char *memory = mmap(NULL, 2 * STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(memory, STACK_BYTES, PROT_READ | PROT_WRITE);
		uint64_t *top = (uint64_t *)(memory + STACK_BYTES - spare) - 7;
		memset(memory, 0x5a, STACK_BYTES);
		memset(top, 0, 6 * 8);
		top[6] = (uint64_t)coroutine_main;
		if (spare)
			top[7] = outermost;
		coroutine_sp[i] = top;
	}
	for (current = 0; now_s() < end_s; current = (current + 1) % CONTEXTS)
		switch_stack(&scheduler_sp, coroutine_sp[current]);
}

__attribute__((noinline)) void bare_main(void)
{
	for (;;) {
		work_middle(100000);
		switch_bare(&coroutine_sp[current], scheduler_sp);
	}
}

static void bare_coroutines(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		char *memory = malloc(STACK_BYTES);
		memset(memory, 0x5a, STACK_BYTES);
		/* 16 bytes more each: what lies above a stack is anything. */
		coroutine_sp[i] = prepare_bare(memory + STACK_BYTES - 256 - i * 16, bare_main);
	}
	for (current = 0; now_s() < end_s; current = (current + 1) % CONTEXTS)
		switch_bare(&scheduler_sp, coroutine_sp[current]);
}

__attribute__((noinline)) void on_lower(unsigned n)
{
	work_middle(n);
	sink++;
}

static char *higher_top;
static void (*volatile on_stack)(void *, void (*)(unsigned), unsigned);

__attribute__((noinline)) void go_up(unsigned n)
{
	on_stack(higher_top, on_lower, n);
	sink++;
}

/* From this stack to a lower one, and from there to one above it. */
static void higher(void (*how)(void *, void (*)(unsigned), unsigned))
{
	char *memory = mmap(NULL, 3 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	higher_top = memory + 3 * STACK_BYTES;
	on_stack = how;
	while (now_s() < end_s)
		how(memory + STACK_BYTES, go_up, 100000);
}
/* ---- without CFI ---- */

unsigned long asm_leaf(unsigned n);
void asm_call_back(void (*function)(unsigned), unsigned n);
void asm_enter(void (*function)(unsigned), unsigned n);
unsigned long asm_hidden(unsigned n);
__asm__(".text\n"
	".globl asm_leaf\n.type asm_leaf,@function\n.p2align 4\nasm_leaf:\n"
	"push %rbx\nsub $32,%rsp\nmov %edi,%ebx\n1: mov %rbx,(%rsp)\nadd (%rsp),%rax\ndec %ebx\njnz 1b\n"
	"add $32,%rsp\npop %rbx\nret\n.size asm_leaf,.-asm_leaf\n"
	".globl asm_call_back\n.type asm_call_back,@function\n.p2align 4\nasm_call_back:\n"
	"push %r12\nmov %rdi,%r12\nsub $16,%rsp\nmov %esi,%edi\ncall *%r12\nadd $16,%rsp\npop %r12\nret\n"
	".size asm_call_back,.-asm_call_back\n"
	".globl asm_enter\n.type asm_enter,@function\n.p2align 4\nasm_enter:\n"
	"enter $48,$0\nmov %rdi,%rax\nmov %esi,%edi\ncall *%rax\nleave\nret\n"
	".size asm_enter,.-asm_enter\n"
	/* How far the stack goes down is in a register. */
	".globl asm_hidden\n.type asm_hidden,@function\n.p2align 4\nasm_hidden:\n"
	"mov $64,%ecx\nsub %rcx,%rsp\n1: mov %rdi,(%rsp)\nadd (%rsp),%rax\ndec %edi\njnz 1b\nadd %rcx,%rsp\nret\n"
	".size asm_hidden,.-asm_hidden\n");

__attribute__((noinline)) void asm_worker(unsigned n)
{
	sink += asm_leaf(n);
	sink++;
}

unsigned long call_by_enter(unsigned n)
{
	asm_enter(asm_worker, n);
	return sink++;
}

/* Room of a size that is not known keeps a frame pointer. */
__attribute__((noinline)) void with_frame(unsigned long (*leaf)(unsigned), unsigned n)
{
	volatile char room[n % 7 + 10];
	room[0] = 1;
	if (leaf == asm_leaf)
		asm_call_back(asm_worker, n);
	else
		sink += leaf(n);
	sink += (uint64_t)room[0];
}

__attribute__((noinline)) void above_frame(unsigned long (*leaf)(unsigned), unsigned n)
{
	volatile char room[n % 5 + 10];
	room[0] = 1;
	with_frame(leaf, n);
	sink += (uint64_t)room[0];
}
#endif

/* ---- and more ---- */

__attribute__((noinline)) void recurse(unsigned depth)
{
	if (depth)
		recurse(depth - 1);
	else
		work_leaf(100000);
	sink++;
}

__attribute__((noinline)) void on_signal(int number)
{
	work_leaf(100000 + (unsigned)number);
	sink++;
}

__attribute__((noinline)) void raise_signal(void)
{
	raise(SIGUSR1);
	sink++;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	end_s = now_s() + strtod(argv[1], NULL);
	if (!strcmp(argv[2], "plugins"))
		plugins(argv + 3, argc - 3);
	else if (!strcmp(argv[2], "ucontext"))
		run_contexts();
#if defined(__x86_64__)
	else if (!strcmp(argv[2], "planted"))
		coroutines((uint64_t)planted_end, 16);
	else if (!strcmp(argv[2], "second"))
		coroutines((uint64_t)planted_nop + 1, 512);
	else if (!strcmp(argv[2], "zero"))
		coroutines(0, 16);
	else if (!strcmp(argv[2], "finish"))
		bare_coroutines();
	else if (!strcmp(argv[2], "pages"))
		coroutines(0, 0);
	else if (!strcmp(argv[2], "higher"))
		settle(), higher(on_stack_rbp);
	else if (!strcmp(argv[2], "rbx"))
		settle(), higher(on_stack_rbx);
	else if (!strcmp(argv[2], "leaf"))
		while (now_s() < end_s)
			above_frame(asm_leaf, 100000);
	else if (!strcmp(argv[2], "enter"))
		while (now_s() < end_s)
			above_frame(call_by_enter, 100000);
	else if (!strcmp(argv[2], "hidden"))
		while (now_s() < end_s)
			above_frame(asm_hidden, 100000);
#endif
	else if (!strcmp(argv[2], "deep"))
		for (settle(); now_s() < end_s;)
			recurse(1900);
	else if (!strcmp(argv[2], "signals"))
		for (signal(SIGUSR1, on_signal); now_s() < end_s;)
			raise_signal();
	else
		return 2;
	return 0;
}
