/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what readers know of a binary, and writes its table. Not thread-safe. */
#ifndef WICK_SYMBOL_TABLE_WRITE_H
#define WICK_SYMBOL_TABLE_WRITE_H

#include "elf/code_unit.h"
#include "symbol/ranges.h"
#include "symbol/table.h"

struct table_writer;
/* Segments first: addresses outside of them are left out. segment_count may be 0 (then base is 0 and all are taken). */
int table_writer_new(const struct symbol_table_segment *segments, size_t segment_count, uint32_t flags,
		     struct table_writer **ret, struct error *err);
struct table_writer *table_writer_free(struct table_writer *writer);
DEFINE_CLEANUP_POINTER(table_writer_free, struct table_writer);
/* Where the addresses of units that follow are too low by (a debug file of a binary that was relocated later). */
void table_writer_set_bias(struct table_writer *writer, uint64_t bias);
/* More of enum symbol_table_flags. */
void table_writer_add_flags(struct table_writer *writer, uint32_t flags);
/* Symbols count from the writer's base; ascending, not overlapping; once. */
int table_writer_add_symbols(struct table_writer *writer, const struct symbol_range *ranges, size_t count, struct error *err);
/* Of units that claim the same address the first has it. -EBADMSG when the unit breaks the rules of code_unit.h. */
int table_writer_add_unit(void *writer, const struct code_unit *unit, struct error *err);
uint64_t table_writer_base(const struct table_writer *writer);
struct table_written {
	uint64_t bytes, functions, ranges, rows;
};
int table_writer_finish(struct table_writer *writer, const char *build_id, uint32_t sources, uint32_t machine, uint64_t kernel,
			uint64_t bytes_max, int out_fd, struct table_written *ret, struct error *err);

#endif
