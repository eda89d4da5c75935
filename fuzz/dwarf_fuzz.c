// SPDX-License-Identifier: Apache-2.0
/*
 * Debug information of a damaged file, which is its own dwz file and its own .dwo, too. What comes out is held to what
 * elf/code_unit.h promises: whoever makes tables of it does not check again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/dwarf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OPENS_MAX 8

struct opened {
	int fd;
	unsigned count;
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static int open_itself(void *context, enum dwarf_file_kind kind, const char *name, const char *build_id, int *ret_fd)
{
	struct opened *opened = context;
	check(strlen(name) < 1u << 20 && strlen(build_id) < 1u << 10);
	if (opened->count++ >= OPENS_MAX || (kind == DWARF_FILE_DWP && opened->count % 2))
		return -ENOENT;
	*ret_fd = fcntl(opened->fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? -errno : 0;
}

static void check_scopes(const struct code_unit *unit, uint64_t *sum)
{
	for (size_t i = 0; i < unit->scope_count; i++) {
		const struct code_scope *scope = &unit->scopes[i];
		check(scope->parent == CODE_NONE || scope->parent < i);
		check(scope->file == CODE_NONE || scope->file < unit->file_count);
		check(scope->call_file == CODE_NONE || scope->call_file < unit->file_count);
		*sum += strlen(scope->name) + strlen(scope->linkage_name);
	}
}

static int take_unit(void *context, const struct code_unit *unit, struct error *err)
{
	uint64_t *sum = context;
	*sum += strlen(unit->name);
	for (size_t i = 0; i < unit->file_count; i++)
		*sum += strlen(unit->files[i]);
	check_scopes(unit, sum);
	for (size_t i = 0; i < unit->range_count; i++) {
		const struct code_range *range = &unit->ranges[i];
		check(range->start < range->end && range->scope < unit->scope_count);
		check(i == 0 || unit->ranges[i - 1].end <= range->start);
	}
	for (size_t i = 0; i < unit->row_count; i++) {
		const struct code_row *row = &unit->rows[i];
		check(row->end || row->file == CODE_NONE || row->file < unit->file_count);
		check(i == 0 || unit->rows[i - 1].address <= row->address);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	struct opened opened = {.fd = fd};
	struct dwarf_options options = {.name = "fuzz", .open_file = open_itself, .context = &opened};
	struct dwarf_result result = {0};
	struct error err = {0};
	uint64_t sum = 0;
	int r = dwarf_read(fd, &options, take_unit, &sum, &result, &err);
	check(r <= 0 && (r == 0 || err.code == r));
	check(strlen(result.problem) < sizeof(result.problem));
	return 0;
}
