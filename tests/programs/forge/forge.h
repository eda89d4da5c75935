/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of tests/programs/forge/: see forge.c. */
#ifndef WICK_TEST_FORGE_H
#define WICK_TEST_FORGE_H

#include <stddef.h>
#include <stdint.h>

#define FORGE_FULL	 65536u /* as `claimed`: texts as they are, and the largest tables that are read */
#define FORGED_FUNCTIONS 1200u	/* more than are shown of a stack */
#define FLOOD_FUNCTIONS	 32768u

/* What is forged; each is a native function, forged_NAME(), that the time goes by in. */
#define FORGERIES(each)                                                                                                        \
	each(names)	       /* control characters, escape sequences, HTML, separators, no UTF-8 */                          \
		each(cycle)    /* a list that comes back to itself */                                                          \
		each(giant)    /* texts of 2^62 bytes, tables of 2^31 entries */                                               \
		each(unmapped) /* pointers to nothing, to the kernel, to what is not aligned */                                \
		each(flood)    /* other functions each millisecond, with long names and the largest tables that are read */    \
		each(changing) /* pointers that are right and wrong in turn, while they are read */

#define FORGE_NUMBER(name) FORGE_##name,
enum forgery { FORGERIES(FORGE_NUMBER) FORGERIES_COUNT };

/* An interpreter. Objects are made in an arena, as the first function on the stack is, and then put in the place of that. */
struct forger {
	const char *name;
	/* Finds the innermost function. 0, or negative if the interpreter is another one than this is for. */
	int (*begin)(void);
	/* A function with these texts, which have `claimed` bytes if that is not 0, and tables of that many entries. number:
	 * makes it another one than others. Its address. */
	uint64_t (*make)(const char *name, const char *file, uint64_t claimed, uint32_t number);
	/* Where a function has a pointer that leads to its name. */
	uint64_t (*name_slot)(uint64_t function);
	/* Makes one the function of the i-th frame that put() has made. */
	void (*point)(size_t i, uint64_t function);
	/* Makes them the functions of the stack, innermost first; is_cycle: the last one was called by the first one. */
	void (*put)(const uint64_t *functions, size_t count, int is_cycle);
};
extern const struct forger forge_python, forge_php, forge_ruby, forge_jvm, forge_v8;

/* Memory that is never freed, at a multiple of 16. */
void *forge_alloc(size_t bytes);
/* A copy of memory of this process, in at least `room` bytes. */
void *forge_copy(uint64_t from, size_t bytes, size_t room);
/* 0, or negative if the memory is not there. */
int forge_peek(uint64_t address, void *to, size_t bytes);
uint64_t forge_word(uint64_t address); /* 0 if it is not there */
/* The stack of the calling thread above its caller, to its end. */
void forge_stack(uint64_t *ret_from, uint64_t *ret_to);

static inline void forge_set(void *object, size_t offset, uint64_t word)
{
	*(volatile uint64_t *)((char *)object + offset) = word;
}
static inline void forge_set_half(void *object, size_t offset, uint32_t half)
{
	*(volatile uint32_t *)((char *)object + offset) = half;
}

#endif
