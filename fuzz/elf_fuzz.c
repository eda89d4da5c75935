/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files: headers, notes, and the table that is built of them, as a binary, as a debug file alone, and as both. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/build_id.h"
#include "elf/code_unit.h"
#include "must.h"
#include "symbol/build.h"
#include "symbol/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES 16

struct given {
	int fd;
	unsigned kinds; /* 1 << SYMBOL_FILE_*: what the file is given as */
};

static int open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	const struct given *given = context;
	(void)err;
	if (!(given->kinds & (1u << request->kind)))
		return -ENOENT;
	*ret_fd = dup(given->fd);
	return *ret_fd < 0 ? -errno : 0;
}

/* Whatever is found is named, and by as many frames as are said to be there. */
static void look_up(const struct symbol_table *table, uint64_t address)
{
	struct symbol_frame frames[FRAMES];
	uint64_t start, end;
	uint32_t range = symbol_table_find(table, address);
	if (range == CODE_NONE)
		return;
	size_t count = symbol_table_frames(table, address, range, frames, FRAMES);
	must(count <= FRAMES);
	for (size_t i = 0; i < count; i++)
		must(strlen(frames[i].name) + strlen(frames[i].file) < SIZE_MAX);
	symbol_table_bounds(table, range, &start, &end);
	must(start <= address && address < end);
}

/* What is built must open. */
static void check_table(const struct given *given, uint64_t limit)
{
	struct symbol_build_options options = {.build_id = "", .open_file = open_file, .context = (void *)given};
	struct symbol_build_result result;
	struct symbol_table *table;
	uint64_t address;
	int fd = memfd_create("table", MFD_CLOEXEC);
	must(fd >= 0);
	if (symbol_build(&options, fd, &result, NULL) == 0) {
		must(symbol_table_open(fd, "fuzz", "", &table, NULL) == 0);
		for (uint64_t offset = 0; offset < limit; offset += 13) {
			look_up(table, offset);
			if (symbol_table_offset_to_address(table, offset, &address))
				look_up(table, address);
		}
		if (symbol_table_mapped_to_address(table, 0x7000, 0x8000, 0x7400, &address))
			look_up(table, address);
		symbol_table_free(table);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned kinds[] = {1u << SYMBOL_FILE_BINARY, 1u << SYMBOL_FILE_DEBUG,
					 1u << SYMBOL_FILE_BINARY | 1u << SYMBOL_FILE_DEBUG};
	struct elf_file file;
	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", NULL) < 0)
		return 0;
	char id[BUILD_ID_HEX_MAX];
	must(build_id_read(&file, id, NULL) < 0 || build_id_is_valid(id));
	elf_file_release(&file);
	int fd = memfd_create("elf", MFD_CLOEXEC);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		check_table(&(struct given){fd, kinds[i]}, size);
	close(fd);
	return 0;
}
