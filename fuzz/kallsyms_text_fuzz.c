/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's list of symbols as an agent sent it. What is accepted becomes a table that opens and can be searched. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "must.h"
#include "symbol/kernel/kallsyms_text.h"
#include "symbol/table.h"
#include "symbol/table_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUILD_ID "0123456789abcdef"
#define START	 KALLSYMS_TEXT_START BUILD_ID "\n"
#define FRAMES	 4

static void look_up(int fd, const struct table_written *written)
{
	struct symbol_table *table;
	struct symbol_frame frames[FRAMES];
	must(symbol_table_open(fd, "fuzz", BUILD_ID, &table, NULL) == 0);
	for (uint64_t address = 0; address < 256; address++) {
		uint32_t range = symbol_table_find(table, address);
		must(range == CODE_NONE || symbol_table_frames(table, address, range, frames, FRAMES) == 1);
		must(range == CODE_NONE || frames[0].name[0]);
		must(range == CODE_NONE || written->ranges > 0);
	}
	symbol_table_free(table);
}

/* The first byte says whether the first line is put right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	int in = memfd_create("list", MFD_CLOEXEC), out = memfd_create("table", MFD_CLOEXEC);
	must(in >= 0 && out >= 0);
	if (data[0] & 1)
		must(write(in, START, strlen(START)) == (ssize_t)strlen(START));
	must(write(in, data + 1, size - 1) == (ssize_t)(size - 1));
	struct table_writer *writer;
	struct table_written written;
	must(table_writer_new(NULL, 0, SYMBOL_TABLE_KERNEL, &writer, NULL) == 0);
	if (kallsyms_text_add(in, BUILD_ID, writer, NULL) == 0) {
		must(table_writer_finish(writer, BUILD_ID, 0, 0, 0, 0, out, &written, NULL) == 0);
		look_up(out, &written);
	}
	table_writer_free(writer);
	close(in);
	close(out);
	return 0;
}
