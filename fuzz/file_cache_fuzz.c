// SPDX-License-Identifier: Apache-2.0
/*
 * What stands behind a table in the cache of symbol tables (src/symbol/file_cache.c): any bytes, with a checksum that is right.
 * The first byte says which fields are put right, without which nothing behind them would be looked at.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "symbol/table_write.h"

#include "symbol/file_cache.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUILD_ID "0123456789abcdef"

static const struct file_identity binary = {1, 2, 3, 4, 5};

/* An empty table, at the beginning of the file. Returns its length. */
static uint64_t make_table(int fd, struct symbol_table_header *ret)
{
	struct table_writer *writer;
	struct table_written written;
	if (table_writer_new(NULL, 0, 0, &writer, NULL) < 0 ||
	    table_writer_finish(writer, BUILD_ID, 1, 0, 0, 0, fd, &written, NULL) < 0 ||
	    pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		abort();
	table_writer_free(writer);
	return written.bytes;
}

static void fix(uint8_t which, uint8_t *image, size_t size, const struct symbol_table_header *header)
{
	struct trailer *trailer = (struct trailer *)image, right;
	if (size < sizeof(*trailer))
		return;
	fill_trailer(&right, &binary, BUILD_ID);
	if (which & 1) {
		memcpy(trailer, &right, offsetof(struct trailer, file_count));
		trailer->builder = right.builder;
		trailer->table_length = header->length;
		trailer->table_checksum = header->checksum;
		trailer->records_length = size - sizeof(*trailer);
	}
	if (which & 2) {
		trailer->binary = binary;
		memcpy(trailer->build_id, right.build_id, sizeof(right.build_id));
	}
	trailer->checksum = checksum_of(trailer, (struct bytes){image + sizeof(*trailer), size - sizeof(*trailer)});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static uint64_t length;
	static struct symbol_table_header header;
	static struct symbolizer symbolizer = {.own_files = true};
	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		length = make_table(fd, &header);
	}
	if (size < 1)
		return 0;
	struct seen_files seen = {.binary = binary, .has_binary = true};
	struct source_job job = {.symbolizer = &symbolizer, .seen = &seen, .build_id = BUILD_ID, .path = "/program"};
	struct symbol_build_result result;
	struct symbol_table *table = NULL;
	uint8_t *image = malloc(size);
	memcpy(image, data + 1, size - 1);
	fix(data[0], image, size - 1, &header);
	bool is_written =
		ftruncate(fd, (off_t)length) == 0 && pwrite(fd, image, size - 1, (off_t)length) == (ssize_t)(size - 1);
	if (is_written && load(&symbolizer, fd, length + size - 1, &job, &result, &table) == 0) {
		size_t sum = strlen(job.from) + strlen(job.lacks) + strlen(result.problem);
		__asm__ volatile("" : : "r"(sum)); /* what was read was read for something */
		symbol_table_free(table);
	}
	free(image);
	return 0;
}
