/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/oracle/space.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "unwind/unwind_table.h"

#define FILE_BYTES_MAX (512u << 20)

void die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

void *must(void *memory)
{
	if (!memory)
		die("out of memory");
	return memory;
}

static int by_address(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* Of aliases, the one with a size and the shortest name comes last and is found. */
	if (x->is_unsized != y->is_unsized)
		return x->is_unsized ? -1 : 1;
	return (x->name_len < y->name_len) - (x->name_len > y->name_len);
}

/* The vdso has no file: its image is in the memory of the process. */
static void read_vdso(pid_t pid, uint64_t start, uint64_t end, struct buffer *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	struct error err = {0};
	int fd = io_open(path, O_RDONLY, 0, &err);
	uint8_t *bytes = must(mem_alloc(end - start));
	if (fd < 0 || io_pread(fd, bytes, end - start, start, path, &err) != (ssize_t)(end - start))
		die("the vdso cannot be read: %s", err.message);
	io_close(fd);
	buffer_append(ret, bytes, end - start);
	mem_free(bytes);
}

static struct space_binary *load(pid_t pid, const char *path, uint64_t start, uint64_t end)
{
	struct space_binary *binary = must(mem_zalloc(sizeof(*binary)));
	struct error err = {0};
	struct buffer bytes;
	buffer_init(&bytes, FILE_BYTES_MAX);
	if (strcmp(path, "[vdso]") == 0)
		read_vdso(pid, start, end, &bytes);
	else if (io_read_file(path, FILE_BYTES_MAX, &bytes, &err) < 0)
		die("%s", err.message);
	binary->path = must(mem_strdup(path));
	binary->bytes = bytes.data;
	binary->size = bytes.len;
	buffer_init(&binary->table, UNWIND_TABLE_BYTES_MAX);
	elf_symbols_init(&binary->symbols);
	if (elf_file_open_memory(&binary->file, buffer_bytes(&bytes), binary->path, &err) < 0)
		die("%s", err.message);
	if (elf_symbols_add_file(&binary->symbols, &binary->file, &err) < 0)
		die("%s: symbols: %s", path, err.message);
	if (binary->symbols.count > 0)
		qsort(binary->symbols.items, binary->symbols.count, sizeof(*binary->symbols.items), by_address);
	if (unwind_table_build(&binary->file, &binary->table, NULL, &err) < 0)
		die("%s: unwind table: %s", path, err.message);
	return binary;
}

static struct space_binary *find_or_load(struct space *space, pid_t pid, const char *path, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < space->binary_count; i++)
		if (strcmp(space->binaries[i]->path, path) == 0)
			return space->binaries[i];
	space->binaries = must(mem_realloc_array(space->binaries, space->binary_count + 1, sizeof(*space->binaries)));
	return space->binaries[space->binary_count++] = load(pid, path, start, end);
}

void space_read(struct space *space, pid_t pid)
{
	char path[64], line[4500], name[4200];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "r");
	if (!maps)
		die("%s cannot be read", path);
	space->mapping_count = 0;
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset;
		char mode[8];
		name[0] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %4199s", &start, &end, mode, &offset, name) <
			    4 ||
		    mode[2] != 'x' || strcmp(name, "[vsyscall]") == 0)
			continue;
		space->mappings = must(mem_realloc_array(space->mappings, space->mapping_count + 1, sizeof(*space->mappings)));
		struct space_mapping *mapping = &space->mappings[space->mapping_count++];
		*mapping = (struct space_mapping){.start = start, .end = end, .offset = offset};
		if (name[0] == '/' || strcmp(name, "[vdso]") == 0)
			mapping->binary = find_or_load(space, pid, name, start, end);
	}
	fclose(maps);
}

void space_release(struct space *space)
{
	for (size_t i = 0; i < space->binary_count; i++) {
		struct space_binary *binary = space->binaries[i];
		elf_symbols_release(&binary->symbols);
		elf_file_release(&binary->file);
		buffer_release(&binary->table);
		mem_free(binary->bytes);
		mem_free(binary->path);
		mem_free(binary);
	}
	mem_free(space->binaries);
	mem_free(space->mappings);
	*space = (struct space){0};
}

const struct space_mapping *space_find(const struct space *space, uint64_t ip)
{
	for (size_t i = 0; i < space->mapping_count; i++)
		if (ip >= space->mappings[i].start && ip < space->mappings[i].end)
			return &space->mappings[i];
	return NULL;
}

const struct unwind_rule *space_rule(const struct space *space, uint64_t ip)
{
	const struct space_mapping *mapping = space_find(space, ip);
	if (!mapping || !mapping->binary || mapping->binary->table.len == 0)
		return NULL;
	return unwind_table_find(mapping->binary->table.data, ip - mapping->start + mapping->offset);
}

const uint8_t *space_code(const struct space *space, uint64_t ip, size_t *ret_len)
{
	const struct space_mapping *mapping = space_find(space, ip);
	*ret_len = 0;
	if (!mapping || !mapping->binary)
		return NULL;
	uint64_t offset = ip - mapping->start + mapping->offset;
	if (offset >= mapping->binary->size)
		return NULL;
	*ret_len = mapping->binary->size - offset;
	return mapping->binary->bytes + offset;
}

const struct elf_symbol *space_symbol(const struct space *space, uint64_t ip, uint64_t *ret_start, bool *ret_covered)
{
	const struct space_mapping *mapping = space_find(space, ip);
	uint64_t address;
	if (!mapping || !mapping->binary ||
	    !elf_file_offset_to_address(&mapping->binary->file, ip - mapping->start + mapping->offset, &address))
		return NULL;
	const struct elf_symbols *symbols = &mapping->binary->symbols;
	size_t low = 0, high = symbols->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (symbols->items[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	const struct elf_symbol *symbol = &symbols->items[low - 1];
	*ret_start = ip - (address - symbol->address);
	*ret_covered = address - symbol->address < symbol->size;
	return symbol;
}

const char *space_name(const struct space *space, uint64_t ip)
{
	static char name[400];
	const struct space_mapping *mapping = space_find(space, ip);
	if (!mapping) {
		snprintf(name, sizeof(name), "%#" PRIx64, ip);
		return name;
	}
	const char *file = mapping->binary ? mapping->binary->path : "no file";
	const char *slash = strrchr(file, '/');
	uint64_t start, offset = ip - mapping->start + mapping->offset;
	bool covered;
	const struct elf_symbol *symbol = space_symbol(space, ip, &start, &covered);
	if (symbol)
		snprintf(name, sizeof(name), "%s%.80s+%#" PRIx64 " (%s+%#" PRIx64 ")", covered ? "" : "behind ", symbol->name,
			 ip - start, slash ? slash + 1 : file, offset);
	else
		snprintf(name, sizeof(name), "(%s+%#" PRIx64 ")", slash ? slash + 1 : file, offset);
	return name;
}
