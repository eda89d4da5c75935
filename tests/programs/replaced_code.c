// SPDX-License-Identifier: Apache-2.0
/*
 * replaced_code SECONDS MOMENT [early]: for so much CPU time, code made at run time that keeps no frame pointer, uses rbp as a
 * counter, and calls back; a moment later it is replaced, at the same address, by code with a frame of another size, which
 * another function calls. What is called back has the same letter as who called the code, so a stack with two letters is wrong.
 * early: as long as in the middle it is at its very beginning, where rbp still leads to its caller's caller.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void made_function(long);

static uint8_t *page;
static volatile long sink;
static double end_s;
static int is_early;

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#define CALLED_BACK(name)                                                                                                      \
	__attribute__((noinline)) static void name(long n)                                                                     \
	{                                                                                                                      \
		for (long i = 0; i < n; i++)                                                                                   \
			sink = sink * 31 + i;                                                                                  \
	}
CALLED_BACK(back_a)
CALLED_BACK(back_b)
CALLED_BACK(back_c)

static size_t put(size_t at, const void *bytes, size_t len)
{
	memcpy(page + at, bytes, len);
	return at + len;
}

/* pushes: 0 to 2. At the beginning of the page, whatever was there. */
static void make(unsigned pushes, uint32_t room, made_function *back)
{
	static const uint8_t push[] = {0x53, 0x41, 0x54}, pop[] = {0x41, 0x5c, 0x5b}, save[] = {0x55, 0x48, 0x81, 0xec};
	static const uint8_t loop[] = {0xbd, 0x00, 0x20, 0x00, 0x00, 0xff, 0xcd, 0x75, 0xfc, 0x48, 0xb8}; /* 8,192 times */
	static const uint8_t call[] = {0xff, 0xd0, 0x48, 0x81, 0xc4}, end[] = {0x5d, 0xc3};
	static const uint8_t early[] = {0xb9, 0x00, 0x20, 0x00, 0x00, 0xff, 0xc9, 0x75, 0xfc};
	size_t at = put(0, early, is_early ? sizeof(early) : 0);
	at = put(at, push, pushes ? pushes * 2 - 1 : 0);
	at = put(at, save, sizeof(save));
	at = put(at, &room, 4);
	at = put(at, loop, sizeof(loop));
	at = put(at, &back, 8);
	at = put(at, call, sizeof(call));
	at = put(at, &room, 4);
	at = put(at, end, 1);
	at = put(at, pop + (2 - pushes) * (pushes == 1 ? 2 : 1), pushes ? pushes * 2 - 1 : 0);
	put(at, end + 1, 1);
}

#define CALLS(name, pushes, room, back)                                                                                        \
	__attribute__((noinline)) static void name(double seconds)                                                             \
	{                                                                                                                      \
		double until = now() + seconds;                                                                                \
		make(pushes, room, back);                                                                                      \
		while (now() < until && now() < end_s)                                                                         \
			for (int i = 0; i < 20; i++)                                                                           \
				((made_function *)(uintptr_t)page)(8192);                                                      \
		sink++;                                                                                                        \
	}
CALLS(call_a, 0, 64, back_a)
CALLS(call_b, 1, 200, back_b)
CALLS(call_c, 2, 1080, back_c)

int main(int argc, char **argv)
{
	double moment = argc > 2 ? strtod(argv[2], NULL) : 0.02;
	is_early = argc > 3;
	end_s = now() + (argc > 1 ? strtod(argv[1], NULL) : 1);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	while (now() < end_s) {
		call_a(moment);
		call_b(moment);
		call_c(moment);
	}
	return 0;
}
