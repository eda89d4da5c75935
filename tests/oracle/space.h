/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the oracles of the unwinder know of a process: its executable mappings, as /proc/PID/maps tells them, and of each file
 * behind them the code, the function symbols, and the unwind table that is checked. Nothing of the agent's own process table is
 * used. These are test programs: they exit with a message when memory or a file that they need is missing.
 */
#ifndef WICK_TESTS_ORACLE_SPACE_H
#define WICK_TESTS_ORACLE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "bpf/unwind.h"
#include "elf/elf_file.h"
#include "elf/elf_symbols.h"

struct space_binary {
	char *path;
	uint8_t *bytes; /* the whole file */
	size_t size;
	struct elf_file file;
	struct elf_symbols symbols; /* sorted by address */
	struct buffer table;	    /* empty: the file has no CFI */
};
struct space_mapping {
	uint64_t start, end, offset;
	struct space_binary *binary; /* NULL: no file */
};
struct space {
	struct space_mapping *mappings; /* executable ones, sorted */
	size_t mapping_count;
	struct space_binary **binaries; /* kept over space_read(), by path */
	size_t binary_count;
};

/* (Re-)reads the mappings of a process; tables of new files are built. */
void space_read(struct space *space, pid_t pid);
void space_release(struct space *space);
const struct space_mapping *space_find(const struct space *space, uint64_t ip);
/* The table's rule for an address; NULL if there is no mapping, table or row. */
const struct unwind_rule *space_rule(const struct space *space, uint64_t ip);
/* The code at an address, up to `want` bytes; *ret_len as many as the mapping has. */
const uint8_t *space_code(const struct space *space, uint64_t ip, size_t *ret_len);
/* The function symbol that covers an address, or the nearest before it in the file (then *ret_covered is false), or NULL. */
const struct elf_symbol *space_symbol(const struct space *space, uint64_t ip, uint64_t *ret_start, bool *ret_covered);
/* "FUNCTION+0x12 (FILE+0x345)", in a static buffer. */
const char *space_name(const struct space *space, uint64_t ip);

__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);
void *must(void *memory);

#endif
