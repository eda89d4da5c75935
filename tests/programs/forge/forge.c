// SPDX-License-Identifier: Apache-2.0
/*
 * A library that lies about the interpreter which loads it. A program of Python, PHP, Ruby, Java or JavaScript loads it from
 * within its functions; what runs then, before the call returns, puts forged functions in the place of those on the stack,
 * spins in a native function with the name of the forgery, goes on to the next one, and ends the process. The process is an
 * ordinary one of a real interpreter up to there, so that a profiler reads what it would read of any.
 *
 *   FORGE	  the interpreter: python, php, ruby, jvm, v8
 *   FORGE_MS	  CPU time of the main thread for each forgery
 *   FORGE_ONLY	  one forgery
 *
 * Offsets are those of CPython 3.11, PHP 8.2, Ruby 3.1 and Node.js 20, and those that the Java virtual machine publishes.
 */
#include "forge.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ARENA_BYTES   (1ull << 31)
#define CHANGE_PERIOD 1000 /* us */

static const struct forger *const forgers[] = {&forge_python, &forge_php, &forge_ruby, &forge_jvm, &forge_v8};
static char *arena, *arena_next;
static uint64_t functions[FLOOD_FUNCTIONS], slots[FORGED_FUNCTIONS], names[FORGED_FUNCTIONS];
static volatile enum forgery now = FORGERIES_COUNT;
static const struct forger *forger;

/* ---- memory ---- */

void *forge_alloc(size_t bytes)
{
	char *at = arena_next;

	arena_next += (bytes + 15) & ~(size_t)15;
	if (arena_next > arena + ARENA_BYTES)
		abort();
	return at;
}

int forge_peek(uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)address, bytes};
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

void *forge_copy(uint64_t from, size_t bytes, size_t room)
{
	void *to = forge_alloc(room > bytes ? room : bytes);
	while (bytes && forge_peek(from, to, bytes) < 0)
		bytes /= 2;
	return to;
}

uint64_t forge_word(uint64_t address)
{
	uint64_t word = 0;
	return forge_peek(address, &word, sizeof(word)) < 0 ? 0 : word;
}

void forge_stack(uint64_t *ret_from, uint64_t *ret_to)
{
	pthread_attr_t attributes;
	void *start;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0 || pthread_attr_getstack(&attributes, &start, &size) != 0)
		abort();
	*ret_from = (uint64_t)__builtin_frame_address(0);
	*ret_to = (uint64_t)start + size;
}

/* ---- what is forged ---- */

static const char *const nasty[] = {
	"\x1b[31mred\x1b[0m\x07", "<script>alert('forged')</script>",	  "\"><img src=x onerror=alert(1)>",	   "two;frames",
	"line\nbreak\r\ttab 7",	  "\xff\xfe no \xc3( utf-8 \xed\xa0\x80", "\xe2\x80\xae rtl, {\"json\": \\u0000}", "",
};

static void make_names(void)
{
	size_t count = sizeof(nasty) / sizeof(nasty[0]);

	for (size_t i = 0; i < count; i++)
		functions[i] = forger->make(nasty[i], nasty[i], 0, (uint32_t)i);
	forger->put(functions, count, 0);
}

static void make_cycle(void)
{
	for (size_t i = 0; i < 3; i++)
		functions[i] = forger->make("cycle", "cycle", 0, 100 + (uint32_t)i);
	forger->put(functions, 3, 1);
}

static void make_giant(void)
{
	static const uint64_t claimed[] = {1ull << 31, 1ull << 62, UINT64_MAX, 0xffff, 1ull << 20, UINT32_MAX};

	for (size_t i = 0; i < 6; i++)
		functions[i] = forger->make("giant", "giant", claimed[i], 200 + (uint32_t)i);
	forger->put(functions, 6, 0);
}

static const uint64_t nowhere[] = {
	8, 0x7fffffffe000, 0xffff800000000000, 0xffffffff81000000, 0x8000000000000000, UINT64_MAX - 7, 0x1237, 0};
#define NOWHERE (sizeof(nowhere) / sizeof(nowhere[0]))

static void make_unmapped(void)
{
	for (size_t i = 0; i < NOWHERE; i++) {
		functions[i] = forger->make("unmapped", "unmapped", 0, 300 + (uint32_t)i);
		forge_set((void *)forger->name_slot(functions[i]), 0, nowhere[i]);
		functions[NOWHERE + i] = nowhere[i];
	}
	forger->put(functions, 2 * NOWHERE, 0);
}

static void make_flood(void)
{
	static char name[1024], file[1024];

	memset(name, 'n', sizeof(name) - 1);
	memset(file, 'f', sizeof(file) - 1);
	for (size_t i = 0; i < FLOOD_FUNCTIONS; i++)
		functions[i] = forger->make(name, file, FORGE_FULL, 1000 + (uint32_t)i);
	forger->put(functions, FORGED_FUNCTIONS, 0);
}

static void make_changing(void)
{
	for (size_t i = 0; i < FORGED_FUNCTIONS; i++) {
		functions[i] = forger->make("changing", "changing", 0, 4000 + (uint32_t)i);
		slots[i] = forger->name_slot(functions[i]);
		names[i] = forge_word(slots[i]);
	}
	forger->put(functions, FORGED_FUNCTIONS, 0);
}

/* ---- running ---- */

static void *change(void *arg)
{
	for (uint32_t number = 0;; number += FORGED_FUNCTIONS) {
		for (uint32_t i = 0; now == FORGE_flood && i < FORGED_FUNCTIONS; i++)
			forger->point(i, functions[(number + i) % FLOOD_FUNCTIONS]);
		for (uint32_t i = 0; now == FORGE_changing && i < FORGED_FUNCTIONS; i++)
			forge_set((void *)slots[i], 0, (number + i) & 1 ? nowhere[(number + i) % NOWHERE] : names[i]);
		usleep(CHANGE_PERIOD);
	}
	return arg;
}

static int64_t cpu_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

#define FORGED(name)                                                                                                           \
	static __attribute__((noinline)) void forged_##name(int64_t ms)                                                        \
	{                                                                                                                      \
		make_##name();                                                                                                 \
		now = FORGE_##name;                                                                                            \
		for (int64_t end = cpu_ms() + ms; cpu_ms() < end;) {                                                           \
			for (volatile int i = 0; i < 20000; i++)                                                               \
				;                                                                                              \
		}                                                                                                              \
		now = FORGERIES_COUNT;                                                                                         \
	}
FORGERIES(FORGED)
#define FORGE_ROW(name) {#name, forged_##name},
static const struct {
	const char *name;
	void (*run)(int64_t ms);
} forgeries[] = {FORGERIES(FORGE_ROW)};

static __attribute__((constructor)) void forge(void)
{
	const char *of = getenv("FORGE"), *ms = getenv("FORGE_MS"), *only = getenv("FORGE_ONLY");
	pthread_t changer;

	for (size_t i = 0; of && i < sizeof(forgers) / sizeof(forgers[0]); i++)
		forger = strcmp(forgers[i]->name, of) == 0 ? forgers[i] : forger;
	if (!forger)
		return;
	arena = arena_next =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED || forger->begin() < 0) {
		fprintf(stderr, "forge: not the interpreter that was expected\n");
		_exit(2);
	}
	if (pthread_create(&changer, NULL, change, NULL) != 0)
		_exit(1);
	for (size_t i = 0; i < FORGERIES_COUNT; i++) {
		if (!only || strcmp(only, forgeries[i].name) == 0)
			forgeries[i].run(ms ? strtol(ms, NULL, 10) : 1000);
	}
	_exit(0);
}
