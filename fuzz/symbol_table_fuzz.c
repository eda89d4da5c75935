// SPDX-License-Identifier: Apache-2.0
/*
 * A table as a worker that was taken over may have written it: any bytes, with a checksum that is right, since whoever can
 * write one can also count. What is accepted must be safe to look up in.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "elf/code_unit.h"
#include "symbol/table.h"
#include "symbol/table_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES 64

/* The first byte says whether the fields that nothing is found without are put right. */
static void fix(uint8_t *image, size_t size)
{
	struct symbol_table_header *header = (struct symbol_table_header *)image;
	if (size < sizeof(*header))
		return;
	memcpy(header->magic, "WICKSYM\n", sizeof(header->magic));
	header->version = SYMBOL_TABLE_VERSION;
	header->length = size;
	header->checksum = hash64(image + SYMBOL_TABLE_CHECKSUM_FROM, size - SYMBOL_TABLE_CHECKSUM_FROM);
}

static uint64_t look_up(const struct symbol_table *table, uint64_t address)
{
	struct symbol_frame frames[FRAMES];
	uint64_t start, end, sum = 0;
	uint32_t range = symbol_table_find(table, address);
	if (range == CODE_NONE)
		return 0;
	size_t count = symbol_table_frames(table, address, range, frames, FRAMES);
	for (size_t i = 0; i < count && i < FRAMES; i++)
		sum += strlen(frames[i].name) + strlen(frames[i].file) + strlen(frames[i].start_file);
	symbol_table_bounds(table, range, &start, &end);
	if (start > end)
		abort();
	return sum + symbol_table_frames(table, address, range, NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	uint64_t sum = 0;
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (size < 1)
		return 0;
	uint8_t *image = malloc(size);
	memcpy(image, data + 1, size - 1);
	if (data[0] & 1)
		fix(image, size - 1);
	bool is_written = ftruncate(fd, 0) == 0 && pwrite(fd, image, size - 1, 0) == (ssize_t)(size - 1);
	struct symbol_table *table;
	if (is_written && symbol_table_open(fd, "fuzz", NULL, &table, NULL) == 0) {
		const struct symbol_table_header *header = table->header;
		for (uint32_t i = 0; i < header->range_count && i < 256; i++)
			sum += look_up(table, header->base + table->starts[i]) +
			       look_up(table, header->base + table->starts[i] + 1);
		for (uint32_t i = 0; i < header->block_count && i < 256; i++)
			sum += look_up(table, header->base + table->block_starts[i] + 3);
		for (unsigned shift = 0; shift < 64; shift++) {
			uint64_t address;
			sum += look_up(table, 1ull << shift);
			if (symbol_table_offset_to_address(table, 1ull << shift, &address))
				sum += look_up(table, address);
			if (symbol_table_mapped_to_address(table, 0x7000, 0x7000 + (1ull << shift), 0x7010, &address))
				sum += look_up(table, address);
		}
		symbol_table_free(table);
	}
	__asm__ volatile("" : : "r"(sum)); /* what was read was read for something */
	free(image);
	return 0;
}
