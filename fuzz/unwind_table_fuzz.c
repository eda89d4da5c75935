/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an image of an unwind table: if the check lets them through, every lookup must stay inside and end. Then as an
 * ELF file: what is built from it must pass the check.
 */
#include <stdlib.h>
#include <string.h>

#include "unwind/unwind_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up_all(const uint8_t *image, uint64_t step)
{
	struct unwind_table table;
	memcpy(&table, image, sizeof(table));
	uint64_t start = (uint64_t)table.first_page << UNWIND_PAGE_SHIFT;
	uint64_t length = (uint64_t)table.page_count << UNWIND_PAGE_SHIFT;
	static const uint64_t far[] = {0, UINT32_MAX, 1ull << 40, UINT64_MAX};
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		unwind_table_find(image, far[i]);
	if (length / step > 4096)
		step = length / 4096 + 1;
	for (uint64_t offset = 0; offset < length + 512; offset += step) {
		const struct unwind_rule *rule = unwind_table_find(image, start + offset);
		if (rule && (rule->cfa == UNWIND_CFA_NONE || rule->cfa_register >= UNWIND_REGISTERS))
			abort();
	}
}

static void check_image(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size and aligned, as an image is. The length is the only number that a fuzzer cannot guess
	 * well. */
	uint8_t *image = malloc(size ? size : 1);
	if (!image)
		abort();
	if (size > 0)
		memcpy(image, data, size);
	if (unwind_table_check(image, size))
		look_up_all(image, 1);
	if (size >= sizeof(struct unwind_table)) {
		uint32_t bytes = (uint32_t)size;
		memcpy(image + offsetof(struct unwind_table, bytes), &bytes, sizeof(bytes));
		if (unwind_table_check(image, size))
			look_up_all(image, 3);
	}
	free(image);
}

static void check_build(const uint8_t *data, size_t size)
{
	struct elf_file file;
	struct buffer image;
	struct error err;
	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", &err) < 0)
		return;
	buffer_init(&image, UNWIND_TABLE_BYTES_MAX);
	if (unwind_table_build(&file, &image, NULL, &err) == 0 && image.len > 0) {
		if (!unwind_table_check(image.data, image.len))
			abort();
		look_up_all(image.data, 7);
	}
	buffer_release(&image);
	elf_file_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_image(data, size);
	check_build(data, size);
	return 0;
}
