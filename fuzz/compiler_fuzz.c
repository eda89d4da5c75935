/* SPDX-License-Identifier: Apache-2.0 */
/* Who made a binary: whatever the file says, what becomes a label is short and printable. */
#include <stdlib.h>
#include <string.h>

#include "elf/compiler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t max)
{
	size_t len = strnlen(text, max);
	if (len == max)
		abort();
	for (size_t i = 0; i < len; i++) {
		if (text[i] < ' ' || text[i] > '~')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file file;
	struct compiler compiler;

	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", NULL) < 0)
		return 0;
	if (compiler_read(&file, &compiler, NULL) == 0) {
		check_text(compiler.name, sizeof(compiler.name));
		check_text(compiler.go_build_id, sizeof(compiler.go_build_id));
	}
	elf_file_release(&file);
	return 0;
}
