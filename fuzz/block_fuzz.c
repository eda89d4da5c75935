/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged blocks: patches to the files of a valid one, (file, offset, byte) of 4 bytes each, behind their checksums' backs.
 * Whatever can be read around them is read: series, tables of names, hashes of stacks, rows; and the block is looked through as
 * repair does it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "fuzz/must.h"
#include "store/block/block_scan.h"
#include "store/store_int.h"

#define FILES	    (BLOCK_FILE_COUNT + 1)
#define PATCHES_MAX 64
#define STACKS	    40

static char directory[PATH_MAX], block_path[PATH_MAX];
static struct buffer files[FILES];

static uint32_t text(struct profile *profile, const char *format, ...) __attribute__((format(printf, 2, 3)));
static uint32_t text(struct profile *profile, const char *format, ...)
{
	char name[64];
	uint32_t id;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	must(profile_add_cstring(profile, name, &id, NULL) == 0);
	return id;
}

static struct profile *make_profile(void)
{
	struct profile *profile;
	uint32_t parent = 0;
	must(profile_new(&profile, NULL) == 0);
	must(profile_add_sample_type(profile, text(profile, "samples"), text(profile, "count"), NULL) == 0);
	profile->time_ns = 1700000000000000000;
	for (int i = 0; i < STACKS; i++) {
		struct profile_function function = {.name = text(profile, "function%d", i % 13),
						    .file_name = text(profile, "file%d.c", i % 3)};
		struct profile_line line = {.line = i};
		struct profile_mapping mapping = {
			.start = 0x1000, .limit = 0x9000, .file_name = text(profile, "/bin/program%d", i % 2)};
		struct profile_location location = {.address = 0x1000u + (unsigned)i};
		uint32_t id;
		int64_t value = 1 + i;
		must(profile_add_function(profile, &function, &line.function, NULL) == 0);
		must(profile_add_mapping(profile, &mapping, &location.mapping, NULL) == 0);
		must(profile_add_location(profile, &location, &line, (size_t)(i % 2), &id, NULL) == 0);
		must(profile_add_stack(profile, i % 5 ? parent : 0, id, &parent, NULL) == 0);
		must(profile_add_sample(profile, &(struct profile_sample){.stack = parent}, &value, NULL) == 0);
	}
	return profile;
}

static void remove_directory(void)
{
	io_remove_tree(directory, NULL);
}

/* A block, as a store writes it. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct store *store = NULL;
	(void)argc, (void)argv;
	snprintf(directory, sizeof(directory), "/tmp/block-fuzz-XXXXXX");
	must(mkdtemp(directory) != NULL);
	atexit(remove_directory);
	const struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .late_window_ns = -1, .manual = true};
	must(store_open(&options, &store, NULL) == 0);
	struct profile *profile = make_profile();
	must(store_append(store, profile, &(struct store_append_options){.received_ns = profile->time_ns}, NULL, NULL) == 0);
	must(store_cut(store, NULL) == 0);
	snprintf(block_path, sizeof(block_path), "%s", local_of(store)->blocks[0]->path);
	store_close(store);
	profile_free(profile);
	for (size_t i = 0; i < FILES; i++) {
		char path[PATH_MAX];
		buffer_init(&files[i], 1 << 24);
		must(io_join_path(path, sizeof(path), block_path, block_file_names[i]) == 0);
		if (access(path, F_OK) == 0)
			must(io_read_file(path, 1 << 24, &files[i], NULL) == 0);
	}
	return 0;
}

static void write_file(size_t file)
{
	char path[PATH_MAX];
	must(io_join_path(path, sizeof(path), block_path, block_file_names[file]) == 0);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && write(fd, files[file].data, files[file].len) == (ssize_t)files[file].len);
	close(fd);
}

static void patch(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 4 <= size && i < PATCHES_MAX * 4; i += 4) {
		struct buffer *file = &files[data[i] % FILES];
		size_t at = data[i + 1] | (size_t)data[i + 2] << 8;
		if (file->len)
			file->data[at % file->len] ^= data[i + 3];
	}
}

static void write_patched(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 4 <= size && i < PATCHES_MAX * 4; i += 4)
		if (files[data[i] % FILES].len)
			write_file(data[i] % FILES);
}

static int on_run(void *context, const struct block_run *run, struct error *err)
{
	const struct block_tables *tables = context;
	for (size_t i = 0; i < run->count; i++)
		must((size_t)run->stacks[i] < tables->stack_count);
	return 0;
}

static int on_lost(void *context, const struct block_lost *lost, const char *why)
{
	must(why[0] != '\0');
	return 0;
}

static void scan(const struct block *block, const struct block_series *series, const struct block_tables *tables)
{
	uint8_t *wanted = mem_alloc(series->columns.count + 1);
	struct block_scan scan = {.block = block,
				  .file = BLOCK_SAMPLES,
				  .wanted = wanted,
				  .id_count = series->columns.count,
				  .stack_count = tables->stack_count,
				  .ranges = &block_all_times,
				  .range_count = 1,
				  .need_times = true,
				  .on_run = on_run,
				  .on_lost = on_lost,
				  .context = (void *)(uintptr_t)tables};
	must(wanted != NULL);
	memset(wanted, 1, series->columns.count + 1);
	block_scan(&scan, NULL);
	mem_free(wanted);
}

/* All stacks become those of a profile, whatever is known of them. */
static void materialize(const struct block_tables *tables)
{
	struct profile *profile;
	uint32_t *stacks = mem_alloc_array(tables->stack_count, sizeof(*stacks));
	uint32_t *ids = mem_alloc_array(tables->stack_count, sizeof(*ids));
	must(stacks && ids && profile_new(&profile, NULL) == 0);
	for (size_t i = 0; i < tables->stack_count; i++)
		stacks[i] = (uint32_t)i;
	materialize_stacks(tables, stacks, tables->stack_count, SIZE_MAX, profile, ids, NULL);
	profile_free(profile);
	mem_free(stacks);
	mem_free(ids);
}

static void on_damage(void *context, const char *message)
{
	must(message[0] != '\0');
}

static void read_block(void)
{
	struct block *block;
	struct block_series *series = NULL;
	struct block_tables *tables = NULL;
	struct block_hashes *hashes = NULL;
	struct block_healed healed;
	uint64_t bytes = 0;
	if (block_open_loosely(block_path, &block, NULL) < 0)
		return;
	block_series_load(block, &series, &bytes, NULL);
	if (block_tables_load(block, &tables, &bytes, NULL) == 0)
		materialize(tables);
	if (damage_load_hashes(block, &hashes, &bytes, NULL) == 0)
		must(hashes->count == block->meta.files[BLOCK_STACKS].rows);
	if (series && tables)
		scan(block, series, tables);
	block_verify_all(block, on_damage, NULL, NULL);
	block_heal(block_path, false, on_damage, NULL, &healed, NULL);
	block_series_free(series);
	block_tables_free(tables);
	block_hashes_free(hashes);
	block_free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	patch(data, size);
	write_patched(data, size);
	read_block();
	patch(data, size); /* twice is as before */
	write_patched(data, size);
	return 0;
}
