/* SPDX-License-Identifier: Apache-2.0 */
/* C: stacks of every shape that a C compiler and a C library make, each function of which says that it is there (shadow.h). */
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef SHADOW_STATIC
#include <dlfcn.h>
#endif

#include "scenario.h"

/* ---- recursion through callbacks of libc ---- */

static int levels; /* how many more times a comparison sorts or searches itself */

SHADOWED static void shadowed_qsort(unsigned count);
SHADOWED static void shadowed_bsearch(unsigned count);

SHADOWED static int shadowed_compare(const void *a, const void *b)
{
	SHADOW();
	if (levels > 0 && (*(const unsigned *)a & 15) == 0) {
		levels--;
		shadowed_qsort(12);
		shadowed_bsearch(64);
		levels++;
	}
	return (*(const unsigned *)a > *(const unsigned *)b) - (*(const unsigned *)a < *(const unsigned *)b);
}

SHADOWED static void shadowed_qsort(unsigned count)
{
	SHADOW();
	unsigned items[512];
	for (unsigned i = 0; i < count; i++)
		items[i] = (i * 7919u) ^ (unsigned)sink;
	qsort(items, count, sizeof(*items), shadowed_compare);
	sink += items[0];
}

SHADOWED static void shadowed_bsearch(unsigned count)
{
	SHADOW();
	unsigned items[512];
	for (unsigned i = 0; i < count; i++)
		items[i] = i * 2;
	for (unsigned i = 0; i < count; i += 5)
		sink += bsearch(&i, items, count, sizeof(*items), shadowed_compare) != NULL;
}

static void run_qsort(void)
{
	levels = 3;
	shadowed_qsort(400);
}

static void run_bsearch(void)
{
	levels = 2;
	shadowed_bsearch(500);
}

SHADOWED static int shadowed_compare_keys(const void *a, const void *b)
{
	SHADOW();
	return strcmp(a, b);
}

SHADOWED static void shadowed_tree(void)
{
	SHADOW();
	static char keys[200][16];
	void *root = NULL;
	for (unsigned i = 0; i < 200; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%x", i * 2654435761u);
		tsearch(keys[i], &root, shadowed_compare_keys);
	}
	for (unsigned i = 0; i < 200; i++)
		tdelete(keys[i], &root, shadowed_compare_keys);
}

/* ---- signal handlers ---- */

static char alternate_stack[65536];

SHADOWED static void shadowed_handler(int number)
{
	SHADOW_FLAGS(SHADOW_HANDLER);
	(void)number;
	unsigned items[64];
	for (unsigned i = 0; i < 64; i++)
		items[i] = i * 7919u % 64;
	qsort(items, 64, sizeof(*items), shadowed_compare);
	shadowed_spin(20000);
}

SHADOWED static void shadowed_interrupted(unsigned n)
{
	SHADOW();
	char text[600];
	if (n > 0) {
		shadowed_interrupted(n - 1);
		return;
	}
	uint64_t end = scenario_now_ns() + 10000000;
	while (scenario_now_ns() < end) {
		memset(text, 'x', sizeof(text) - 1);
		text[sizeof(text) - 1] = 0;
		sink += strlen(text) + (uint64_t)rand();
		shadowed_spin(100);
	}
}

static void signals(int which, int number, int flags)
{
	stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack)};
	stack_t none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = shadowed_handler, .sa_flags = flags | SA_RESTART}, old;
	struct itimerval every = {{0, 700}, {0, 700}}, off = {{0, 0}, {0, 0}};
	levels = 0;
	sigaltstack(&stack, NULL);
	sigaction(number, &action, &old);
	setitimer(which, &every, NULL);
	shadowed_interrupted(4);
	setitimer(which, &off, NULL);
	action.sa_handler = SIG_IGN; /* one may be on its way */
	sigaction(number, &action, NULL);
	sigaltstack(&none, NULL);
}

static void run_signals(void)
{
	signals(ITIMER_REAL, SIGALRM, 0);
	signals(ITIMER_PROF, SIGPROF, SA_SIGINFO);
}

static void run_sigaltstack(void)
{
	signals(ITIMER_REAL, SIGALRM, SA_ONSTACK);
}

/* ---- frames of unusual form ---- */

SHADOWED static void shadowed_alloca(unsigned n)
{
	SHADOW();
	unsigned bytes = 16 + (n * 193u) % 900;
	volatile char *place = __builtin_alloca(bytes);
	for (unsigned i = 0; i < bytes; i += 8)
		place[i] = (char)i;
	if (n > 0)
		shadowed_alloca(n - 1);
	else
		shadowed_spin(2000);
	sink += (unsigned char)place[bytes / 2];
}

SHADOWED static void shadowed_large(unsigned n)
{
	SHADOW();
	volatile char place[100000];
	place[n * 3 % sizeof(place)] = 1;
	shadowed_spin(500);
	if (n > 0)
		shadowed_large(n - 1);
	sink += (unsigned char)place[n % sizeof(place)];
}

SHADOWED static void shadowed_aligned(unsigned n)
{
	SHADOW();
	_Alignas(64) volatile unsigned char place[192];
	for (unsigned i = 0; i < sizeof(place); i++)
		place[i] = (unsigned char)(i * n);
	shadowed_spin(200);
	if (n > 0)
		shadowed_aligned(n - 1);
	sink += place[n % sizeof(place)];
}

/* Realigned and of variable size: the compiler keeps the CFA in memory (an expression in the CFI). */
SHADOWED static void shadowed_aligned_alloca(unsigned n, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
					     unsigned g)
{
	SHADOW();
	_Alignas(128) volatile unsigned char place[128];
	volatile char *more = __builtin_alloca(32 + n * 16);
	for (unsigned i = 0; i < sizeof(place); i++)
		place[i] = (unsigned char)(i * n);
	more[n] = (char)n;
	shadowed_spin(200);
	if (n > 0)
		shadowed_aligned_alloca(n - 1, b, c, d, e, f, g, a);
	sink += place[n % sizeof(place)] + (unsigned char)more[n] + a + g;
}

#if defined(__x86_64__)
typedef double wide __attribute__((vector_size(32)));
SHADOWED __attribute__((target("avx2"))) static void shadowed_wide(unsigned n)
{
	SHADOW();
	volatile wide sum = {1, 2, 3, 4};
	for (unsigned i = 0; i < 300; i++)
		sum = sum * (wide){1.01, 1.02, 1.03, 1.04} + (wide){n, i, 2, 3};
	if (n > 0)
		shadowed_wide(n - 1);
	sink += (uint64_t)(sum[0] > 5);
}
#endif

static void run_frames(void)
{
	shadowed_alloca(20);
	shadowed_large(5);
	shadowed_aligned(6);
	shadowed_aligned_alloca(6, 1, 2, 3, 4, 5, 6, 7);
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		shadowed_wide(5);
#endif
}

/* ---- tail calls: the caller is gone while the callee runs ---- */

typedef unsigned tail(unsigned n);
static tail *volatile tails[3];

/* Not instrumented: a node would have to be wiped after the call. */
#define TAIL(name, which)                                                                                                      \
	SHADOWED static unsigned name(unsigned n)                                                                              \
	{                                                                                                                      \
		shadowed_spin(50 + n % 7);                                                                                     \
		if (n == 0)                                                                                                    \
			return 1;                                                                                              \
		return tails[(n + which) % 3](n - 1);                                                                          \
	}
TAIL(tail0, 0)
TAIL(tail1, 1)
TAIL(tail2, 2)

SHADOWED static void shadowed_tails(void)
{
	SHADOW();
	tails[0] = tail0;
	tails[1] = tail1;
	tails[2] = tail2;
	sink += tails[0](500);
}

/* ---- small functions of libc through the PLT ---- */

static char words[64][32];

SHADOWED static void shadowed_plt(void)
{
	SHADOW();
	for (unsigned i = 0; i < 64; i++)
		memset(words[i], 'a' + (int)(i % 26), i % 31);
	for (unsigned i = 0; i < 3000; i++) {
		char *a = words[i % 64], *b = words[(i * 7) % 64];
		sink += strlen(a) + (uint64_t)memcmp(a, b, 16) + (uint64_t)rand() + (uint64_t)strcmp(a, b);
		sink += (uint64_t)(strchr(a, 'q') != NULL) + (uint64_t)abs((int)i) + (uint64_t)labs(-3L);
		memmove(a, b, 8);
	}
}

SHADOWED static void shadowed_clock(void)
{
	SHADOW();
	struct timespec now;
	for (unsigned i = 0; i < 2000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += (uint64_t)now.tv_nsec + (uint64_t)time(NULL);
	}
	sink += (uint64_t)getppid();
}

SHADOWED static void shadowed_libc(void)
{
	SHADOW();
	char text[128];
	regex_t pattern;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "%d %s %.17g %a", (int)i, "word", 1.0 / (i + 3), (double)i);
		sink += (uint64_t)(strtod(text + 5, NULL) * 1000);
		free(realloc(malloc(100 + i * 50), 3000 * i + 1));
	}
	if (regcomp(&pattern, "^([a-z]+|[0-9]+)* (word|[x-z]{2,3})", REG_EXTENDED) == 0) {
		for (unsigned i = 0; i < 5; i++)
			sink += (uint64_t)regexec(&pattern, text, 0, NULL, 0);
		regfree(&pattern);
	}
}

static jmp_buf jump;

/* Not instrumented: it is left without its epilogue. */
static __attribute__((noinline)) void jump_out(unsigned n)
{
	if (n == 0 && sink != 1)
		longjmp(jump, 1);
	if (n > 0)
		jump_out(n - 1);
	sink++;
}

SHADOWED static void shadowed_jumps(void)
{
	SHADOW();
	for (volatile unsigned i = 0; i < 300; i++)
		if (setjmp(jump) == 0)
			jump_out(i % 20);
}

/* ---- threads and processes ---- */

SHADOWED static void *shadowed_thread(void *argument)
{
	SHADOW();
	shadowed_alloca(3 + (unsigned)(uintptr_t)argument);
	shadowed_plt();
	shadowed_aligned(3);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[4];
	unsigned started = 0;
	for (; started < 4; started++)
		if (pthread_create(&threads[started], NULL, shadowed_thread, (void *)(uintptr_t)started) != 0)
			break;
	while (started-- > 0)
		pthread_join(threads[started], NULL);
}

SHADOWED static void shadowed_recurse(unsigned n)
{
	SHADOW();
	if (n > 0)
		shadowed_recurse(n - 1);
	else
		shadowed_spin(100000);
	sink++;
}

SHADOWED static void shadowed_fork(void)
{
	SHADOW();
	pid_t child = fork();
	if (child == 0) {
		shadowed_recurse(8);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SHADOWED static void shadowed_vfork(void)
{
	SHADOW();
	pid_t child = vfork();
	if (child == 0) {
		shadowed_spin(100000);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

extern char **environ;
SHADOWED static void shadowed_spawn(void)
{
	SHADOW();
	char *arguments[] = {(char *)scenario_program, "child", NULL};
	pid_t child;
	if (posix_spawn(&child, scenario_program, NULL, NULL, arguments, environ) == 0)
		waitpid(child, NULL, 0);
}

static void run_processes(void)
{
	shadowed_fork();
	shadowed_vfork();
	shadowed_spawn();
}

static void run_deep(void)
{
	shadowed_recurse(300);
}

static void run_deeper(void)
{
	shadowed_recurse(2500);
}

/* ---- code that is loaded later ---- */

#ifndef SHADOW_STATIC
SHADOWED static void shadowed_back(unsigned n)
{
	SHADOW();
	shadowed_spin(n);
}

static void run_dlopen(void)
{
	static void (*entry)(void (*back)(unsigned), unsigned n);
	char path[1024];
	if (!entry) {
		snprintf(path, sizeof(path), "%s.so", scenario_program);
		void *library = dlopen(path, RTLD_NOW);
		if (library)
			entry = (void (*)(void (*)(unsigned), unsigned))dlsym(library, "shadowed_entry");
		if (!entry) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
	}
	entry(shadowed_back, 12);
}
#endif

static const struct scenario scenarios[] = {
#ifndef SHADOW_STATIC
	{"dlopen", run_dlopen},
#endif
	{"qsort", run_qsort},
	{"bsearch", run_bsearch},
	{"tree", shadowed_tree},
	{"signals", run_signals},
	{"sigaltstack", run_sigaltstack},
	{"frames", run_frames},
	{"tails", shadowed_tails},
	{"plt", shadowed_plt},
	{"clock", shadowed_clock},
	{"libc", shadowed_libc},
	{"jumps", shadowed_jumps},
	{"threads", run_threads},
	{"processes", run_processes},
	{"deep", run_deep},
	{"deeper", run_deeper, 1}, /* more frames than are taken: the result says so */
};

int main(int argc, char **argv)
{
	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
