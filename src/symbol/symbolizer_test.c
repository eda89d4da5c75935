/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"
#include "symbol/symbol_int.h"
#include "symbol/uploads.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct test_symbol exported[] = {
	{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
	{"_ZN3foo3barEi", 0x40, 0x20, STT_FUNC, STB_GLOBAL},
	{"bad\xff\xfename", 0x80, 0x10, STT_FUNC, STB_GLOBAL},
};
static const struct test_symbol all[] = {
	{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
	{"hidden", 0x100, 0x20, STT_FUNC, STB_LOCAL},
};
static const struct test_elf binary = {exported, COUNT(exported)};
static const struct test_elf stripped = {exported, COUNT(exported), .stripped = true};
static const struct test_elf separate = {all, COUNT(all), .debug_only = true};

/* ---- a directory for each test ---- */

struct fixture {
	char directory[64], cache[128], debug[128], program[128];
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-symbol-test-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->cache, sizeof(f->cache), "%s/cache", f->directory);
	snprintf(f->debug, sizeof(f->debug), "%s/debug", f->directory);
	snprintf(f->program, sizeof(f->program), "%s/program", f->directory);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static void write_elf(const char *path, const struct test_elf *elf)
{
	struct buffer b;
	test_elf_build(elf, &b);
	assert_int_equal(io_write_file(path, b.data, b.len, 0755, NULL), 0);
	buffer_release(&b);
}

static void write_debug_file(const struct fixture *f, const struct test_elf *elf)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%.2s", f->debug, TEST_ELF_BUILD_ID);
	assert_int_equal(io_make_dirs(path, 0755, NULL), 0);
	snprintf(path, sizeof(path), "%s/%.2s/%s.debug", f->debug, TEST_ELF_BUILD_ID, TEST_ELF_BUILD_ID + 2);
	write_elf(path, elf);
}

static void cache_path(const struct fixture *f, char out[static 256])
{
	snprintf(out, 256, "%s/%.2s/%s.sym", f->cache, TEST_ELF_BUILD_ID, TEST_ELF_BUILD_ID + 2);
}

static struct symbolizer *new_symbolizer(const struct fixture *f, bool with_cache)
{
	struct symbolizer_options options = {.cache_directory = with_cache ? f->cache : NULL};
	struct symbolizer *s;
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	s->debug_directory = f->debug;
	return s;
}

static int offer(struct symbolizer *s, const char *build_id, const struct test_elf *elf, struct error *err)
{
	struct buffer b;
	test_elf_build(elf, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	int r = symbolizer_offer(s, build_id, "", "offered", fd, err);
	close(fd);
	buffer_release(&b);
	return r;
}

/* ---- profiles ---- */

static uint32_t add_string(struct profile *p, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(p, text, &id, NULL), 0);
	return id;
}

/* The text is mapped at `start`; addresses count from the beginning of the text. */
static uint32_t add_location(struct profile *p, const char *path, const char *build_id, uint64_t start, uint64_t text_offset)
{
	struct profile_mapping mapping = {.start = start,
					  .limit = start + 0x1000,
					  .offset = 0,
					  .file_name = add_string(p, path),
					  .build_id = add_string(p, build_id)};
	struct profile_location location = {.address = start + TEST_ELF_TEXT_OFFSET + text_offset};
	uint32_t id;
	assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(p, &location, NULL, 0, &id, NULL), 0);
	return id;
}

static const struct profile_function *function_of(const struct profile *p, uint32_t location)
{
	static const struct profile_function none;
	const struct profile_location *l = &p->locations[location];
	return l->line_count == 0 ? &none : &p->functions[p->lines[l->line_first].function];
}

static void assert_name(const struct profile *p, uint32_t location, const char *expected)
{
	assert_string_equal(profile_string(p, function_of(p, location)->name), expected);
}

static struct profile *new_profile(void)
{
	struct profile *p;
	assert_int_equal(profile_new(&p, NULL), 0);
	return p;
}

/* The name that a fresh profile's location gets. */
static void assert_resolves(struct symbolizer *s, const char *path, const char *build_id, uint64_t text_offset,
			    const char *expected)
{
	struct profile *p = new_profile();
	uint32_t location = add_location(p, path, build_id, 0x7f0000000000, text_offset);
	struct symbolizer_coverage coverage;
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
	assert_int_equal(coverage.resolved, expected[0] != 0);
	assert_int_equal(coverage.missing, expected[0] == 0);
	assert_int_equal(coverage.pending, 0);
	assert_name(p, location, expected);
	profile_free(p);
}

/* Is there a table that knows file offsets? */
static bool has(struct symbolizer *s, const char *build_id)
{
	struct symbol_view *view;
	uint64_t address;
	if (symbolizer_view(s, build_id, "", NULL, &view, NULL) < 0)
		return false;
	bool knows = symbol_view_address(view, &(struct symbol_place){.file_offset = TEST_ELF_TEXT_OFFSET}, &address);
	symbol_view_free(view);
	return knows;
}

static struct symbol_status status_of(struct symbolizer *s, const char *build_id)
{
	struct symbol_list_options options = {.text = build_id};
	struct symbol_status *list, found;
	size_t count;
	assert_int_equal(symbolizer_list(s, &options, &list, &count, NULL, NULL, NULL), 0);
	assert_int_equal(count, 1);
	found = list[0];
	mem_free(list);
	return found;
}

/* ---- tests ---- */

/* Addresses as the file was linked, and no mapping: what Parca's agents send. */
static void test_linked_addresses(void **state)
{
	struct fixture *f = *state;
	static const uint64_t places[] = {TEST_ELF_TEXT_ADDRESS + 0x10, TEST_ELF_TEXT_ADDRESS + 0x300,
					  TEST_ELF_TEXT_OFFSET + 0x10};
	for (unsigned kernel = 0; kernel < 2; kernel++) {
		struct symbolizer *s = new_symbolizer(f, false);
		assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &binary, NULL), 0);
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			struct profile *p = new_profile();
			struct profile_mapping mapping = {.build_id = add_string(p, TEST_ELF_BUILD_ID)};
			struct profile_location location = {.address = places[i]};
			uint32_t id;
			profile_mapping_set_linked(&mapping);
			if (kernel)
				location.frame_type = PROFILE_FRAME_KERNEL;
			assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
			assert_int_equal(profile_add_location(p, &location, NULL, 0, &id, NULL), 0);
			assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
			assert_name(p, id, i == 0 && !kernel ? "alpha" : "");
			profile_free(p);
		}
		symbolizer_free(s);
	}
}

static void test_a_whole_profile(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &binary, NULL), 0);
	struct profile *p = new_profile();
	uint32_t a = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x10000, 0x10);
	uint32_t b = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x990000, 0x2f);
	uint32_t c = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x10000, 0x44);
	uint32_t d = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x10000, 0x88);
	uint32_t gap = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x10000, 0x300);
	uint32_t other = add_location(p, "/other", "ffff", 0x20000, 0x10);
	uint32_t beyond = add_location(p, "/gone", TEST_ELF_BUILD_ID, 0x10000, 0x1000);
	/* Somebody else's names stay. */
	struct profile_function named = {.name = add_string(p, "theirs")};
	struct profile_line line = {.line = 7};
	assert_int_equal(profile_add_function(p, &named, &line.function, NULL), 0);
	struct profile_location location = {.mapping = p->locations[a].mapping,
					    .address = 0x10000 + TEST_ELF_TEXT_OFFSET + 0x11};
	uint32_t theirs;
	assert_int_equal(profile_add_location(p, &location, &line, 1, &theirs, NULL), 0);

	struct symbolizer_coverage coverage;
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
	assert_int_equal(coverage.resolved, 4);
	assert_int_equal(coverage.missing, 3);
	assert_name(p, a, "alpha");
	assert_name(p, b, "alpha");
	assert_name(p, c, "foo::bar(int)");
	assert_string_equal(profile_string(p, function_of(p, c)->system_name), "_ZN3foo3barEi");
	assert_name(p, d, "bad\xef\xbf\xbd\xef\xbf\xbdname");
	assert_name(p, gap, "");
	assert_name(p, other, "");
	assert_name(p, beyond, "");
	assert_name(p, theirs, "theirs");
	/* One function however many locations. */
	assert_ptr_equal(function_of(p, a), function_of(p, b));
	/* Again: nothing left but what has no name. */
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
	assert_int_equal(coverage.resolved, 0);
	assert_int_equal(coverage.missing, 3);
	struct symbolizer_stats stats;
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.tables, 1);
	assert_int_equal(stats.builds, 2); /* one in vain */
	assert_int_equal(stats.hits, 4);
	assert_int_equal(stats.lookups, 10);
	profile_free(p);
	symbolizer_free(s);
}

static void test_offers(void **state)
{
	struct fixture *f = *state;
	struct error err = {0};
	struct test_elf other = binary;
	struct symbolizer *s = new_symbolizer(f, false);
	assert_int_equal(offer(s, "../../../etc/passwd", &binary, &err), -EINVAL);
	assert_int_equal(offer(s, "", &binary, &err), -EINVAL);
	assert_int_equal(offer(s, "ABCD", &binary, &err), -EINVAL);
	other.build_id_first = 0xff;
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &other, &err), 0);
	assert_resolves(s, "", TEST_ELF_BUILD_ID, 0x10, "");
	struct symbol_status status = status_of(s, TEST_ELF_BUILD_ID);
	assert_int_equal(status.state, SYMBOL_FAILED);
	assert_non_null(strstr(status.why, "ff23456789"));
	/* It was wrong; the next one is right, and not waited for. */
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &binary, NULL), 0);
	assert_true(has(s, TEST_ELF_BUILD_ID));
	assert_int_equal(status_of(s, TEST_ELF_BUILD_ID).state, SYMBOL_PARTIAL);
	/* Known: not even looked at. */
	assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, "", "closed", -1, &err), 0);
	symbolizer_free(s);

	s = new_symbolizer(f, false);
	other = binary;
	other.no_build_id = true;
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &other, &err), 0);
	assert_false(has(s, TEST_ELF_BUILD_ID));
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, "", "pipe", pipe_fds[0], &err), 0);
	assert_false(has(s, TEST_ELF_BUILD_ID));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	struct symbolizer_stats stats;
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.build_failures, 2);
	symbolizer_free(s);
}

/* The file is gone, as when a program was updated while it runs, but the descriptor still leads to it. */
static void test_deleted_file(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	write_elf(f->program, &binary);
	int fd = open(f->program, O_RDONLY | O_CLOEXEC);
	assert_int_equal(unlink(f->program), 0);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "");
	assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, "", f->program, fd, NULL), 0);
	/* The miss is forgotten. */
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	close(fd);
	symbolizer_free(s);
}

static void test_files_of_this_host(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	write_elf(f->program, &binary);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	/* Another file than the profile's. */
	assert_resolves(s, f->program, "00112233", 0x10, "");
	/* Paths that are none. */
	assert_resolves(s, "[vdso]", "aabb", 0x10, "");
	assert_resolves(s, "//anon", "aabc", 0x10, "");
	assert_resolves(s, "program", "", 0x10, "");
	symbolizer_free(s);

	struct symbolizer_options options = {.no_host_files = true};
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "");
	assert_resolves(s, f->program, "", 0x10, "");
	symbolizer_free(s);
}

static void test_paths_that_would_block(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	assert_int_equal(mkfifo(f->program, 0600), 0);
	assert_resolves(s, f->program, "aabb", 0x10, "");
	assert_resolves(s, f->program, "", 0x10, "");
	assert_resolves(s, "/dev/zero", "aacc", 0x10, "");
	assert_resolves(s, f->directory, "aadd", 0x10, "");
	symbolizer_free(s);
}

static void test_without_a_build_id(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	struct test_elf elf = binary;
	elf.no_build_id = true;
	write_elf(f->program, &elf);
	assert_resolves(s, f->program, "", 0x10, "alpha");
	assert_resolves(s, f->program, "", 0x44, "foo::bar(int)");
	struct symbolizer_stats stats;
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.builds, 1);
	/* Another file in its place is another binary. */
	static const struct test_symbol changed[] = {{"changed", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
	struct test_elf replacement = {changed, 1, .no_build_id = true};
	write_elf(f->program, &replacement);
	assert_resolves(s, f->program, "", 0x10, "changed");
	/* Nothing of this goes to disk. */
	assert_int_equal(rmdir(f->cache), 0);
	symbolizer_free(s);
}

static void test_cache_on_disk(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &binary, NULL), 0);
	assert_true(has(s, TEST_ELF_BUILD_ID));
	symbolizer_free(s);
	s = new_symbolizer(f, true);
	assert_true(has(s, TEST_ELF_BUILD_ID));
	symbolizer_free(s);
	s = new_symbolizer(f, true);
	assert_resolves(s, "/gone", TEST_ELF_BUILD_ID, 0x44, "foo::bar(int)");
	struct symbolizer_stats stats;
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.cache_hits, 1);
	assert_int_equal(stats.builds, 0);
	symbolizer_free(s);
}

/* A damaged cache file is removed and made anew. */
static void test_damaged_cache(void **state)
{
	struct fixture *f = *state;
	char path[256];
	cache_path(f, path);
	write_elf(f->program, &binary);
	for (unsigned damage = 0; damage < 4; damage++) {
		struct symbolizer *s = new_symbolizer(f, true);
		assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
		symbolizer_free(s);
		struct stat before, after;
		assert_int_equal(stat(path, &before), 0);
		if (damage == 0)
			assert_int_equal(truncate(path, 100), 0);
		else if (damage == 1)
			assert_int_equal(truncate(path, 0), 0);
		else if (damage == 2)
			assert_int_equal(io_write_file(path, "not a table", 11, 0644, NULL), 0);
		else
			assert_int_equal(truncate(path, before.st_size + 1), 0);
		s = new_symbolizer(f, true);
		assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
		struct symbolizer_stats stats;
		symbolizer_get_stats(s, &stats);
		assert_int_equal(stats.cache_hits, 0);
		assert_int_equal(stats.builds, 1);
		assert_int_equal(stat(path, &after), 0);
		assert_int_equal(after.st_size, before.st_size);
		symbolizer_free(s);
	}
	/* A FIFO or a directory in its place blocks nothing. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	struct symbolizer *s = new_symbolizer(f, true);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	symbolizer_free(s);
}

static void test_cache_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	write_elf(f->program, &binary);
	fault_arm(FAULT_WRITE, 1, 0);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	assert_true(fault_disarm(FAULT_WRITE));
	symbolizer_free(s);
}

static void test_separate_debug_file(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	write_elf(f->program, &stripped);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x100, "");
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x44, "foo::bar(int)");
	/* It is installed later: seen after the retry interval. */
	write_debug_file(f, &separate);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x100, "");
	symbolizer_free(s);
	s = new_symbolizer(f, true);
	s->retry_interval_ns = 0;
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x100, "hidden");
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x44, "foo::bar(int)");
	symbolizer_free(s);
	/* And it is in the cache now. */
	assert_int_equal(unlink(f->program), 0);
	s = new_symbolizer(f, true);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x100, "hidden");
	symbolizer_free(s);
}

static void test_debug_file_of_another_build(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	struct test_elf wrong = separate;
	wrong.build_id_first = 0xff;
	write_elf(f->program, &stripped);
	write_debug_file(f, &wrong);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x100, "");
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	symbolizer_free(s);
}

/* The binary is nowhere, its debug file is here: known by the size of the mapping; the binary itself is still wanted. */
static void test_debug_file_alone(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	write_debug_file(f, &separate);
	struct profile *p = new_profile();
	uint64_t start = 0x7f0000000000;
	struct profile_mapping mapping = {
		.start = start, .limit = start + 0x1000, .offset = 0x7000, .build_id = add_string(p, TEST_ELF_BUILD_ID)};
	struct profile_location location = {.address = start + (TEST_ELF_TEXT_ADDRESS & 0xfff) + 0x108};
	uint32_t id;
	assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(p, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
	assert_name(p, id, "hidden");
	profile_free(p);
	assert_false(has(s, TEST_ELF_BUILD_ID));
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &stripped, NULL), 0);
	assert_true(has(s, TEST_ELF_BUILD_ID));
	assert_resolves(s, "", TEST_ELF_BUILD_ID, 0x108, "hidden");
	assert_resolves(s, "", TEST_ELF_BUILD_ID, 0x44, "foo::bar(int)");
	symbolizer_free(s);
}

static void test_a_miss_is_remembered(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "");
	write_elf(f->program, &binary);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "");
	symbolizer_free(s);
	s = new_symbolizer(f, false);
	s->retry_interval_ns = 0;
	assert_int_equal(unlink(f->program), 0);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "");
	write_elf(f->program, &binary);
	assert_resolves(s, f->program, TEST_ELF_BUILD_ID, 0x10, "alpha");
	symbolizer_free(s);
}

static void test_memory_limit(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	struct symbolizer_stats stats;
	assert_int_equal(offer(s, TEST_ELF_BUILD_ID, &binary, NULL), 0);
	assert_true(has(s, TEST_ELF_BUILD_ID));
	symbolizer_get_stats(s, &stats);
	s->memory_max_bytes = stats.table_bytes * 3;
	char id[BUILD_ID_HEX_MAX];
	for (unsigned i = 1; i < 20; i++) {
		struct test_elf elf = binary;
		elf.build_id_first = (uint8_t)(0x20 + i);
		snprintf(id, sizeof(id), "%02x%s", 0x20 + i, TEST_ELF_BUILD_ID + 2);
		assert_int_equal(offer(s, id, &elf, NULL), 0);
		assert_true(has(s, id));
		/* Used all the time, so it stays. */
		assert_resolves(s, "", TEST_ELF_BUILD_ID, 0x10, "alpha");
		symbolizer_get_stats(s, &stats);
		assert_true(stats.tables <= 3 && stats.table_bytes <= s->memory_max_bytes);
	}
	assert_int_equal(stats.cache_hits, 0);
	/* One that went comes back from disk. */
	snprintf(id, sizeof(id), "21%s", TEST_ELF_BUILD_ID + 2);
	assert_resolves(s, "", id, 0x10, "alpha");
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.cache_hits, 1);
	/* A table larger than all memory allowed is used nevertheless. */
	s->memory_max_bytes = 10;
	snprintf(id, sizeof(id), "22%s", TEST_ELF_BUILD_ID + 2);
	assert_resolves(s, "", id, 0x10, "alpha");
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.tables, 1);
	symbolizer_free(s);
}

static void test_faults(void **state)
{
	struct fixture *f = *state;
	write_elf(f->program, &binary);
	for (uint64_t n = 1;; n++) {
		struct profile *p = new_profile();
		uint32_t location = add_location(p, f->program, TEST_ELF_BUILD_ID, 0x10000, 0x44);
		struct symbolizer_options options = {0};
		struct symbolizer *s = NULL;
		struct error err = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = symbolizer_new(&options, &s, &err);
		if (r == 0)
			r = symbolizer_resolve(s, p, 1, NULL, NULL, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		if (r == 0)
			assert_name(p, location, "foo::bar(int)");
		else
			assert_true(r == -ENOMEM && err.message[0] != 0);
		symbolizer_free(s);
		profile_free(p);
		if (!reached) {
			assert_int_equal(r, 0);
			assert_true(n > 10);
			break;
		}
	}
	/* A file that cannot be read is a miss, not an error. */
	static const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_READ};
	for (size_t kind = 0; kind < COUNT(kinds); kind++) {
		for (uint64_t n = 1;; n++) {
			struct symbolizer *s = new_symbolizer(f, false);
			struct profile *p = new_profile();
			add_location(p, f->program, TEST_ELF_BUILD_ID, 0x10000, 0x44);
			fault_arm(kinds[kind], n, 0);
			assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
			bool reached = fault_disarm(kinds[kind]);
			profile_free(p);
			symbolizer_free(s);
			if (!reached)
				break;
		}
	}
}

static void *resolve_repeatedly(void *context)
{
	struct symbolizer *s = context;
	for (unsigned i = 0; i < 200; i++) {
		char id[BUILD_ID_HEX_MAX];
		snprintf(id, sizeof(id), "%02x%s", 0x21 + i % 5, TEST_ELF_BUILD_ID + 2);
		struct profile *p;
		if (profile_new(&p, NULL) < 0)
			return context;
		struct profile_mapping mapping = {.start = 0x1000, .limit = 0x3000};
		struct profile_location location = {.address = 0x1000 + TEST_ELF_TEXT_OFFSET + 0x18};
		uint32_t location_id;
		struct symbolizer_coverage coverage = {0};
		bool failed = profile_add_cstring(p, id, &mapping.build_id, NULL) < 0 ||
			      profile_add_mapping(p, &mapping, &location.mapping, NULL) < 0 ||
			      profile_add_location(p, &location, NULL, 0, &location_id, NULL) < 0 ||
			      symbolizer_resolve(s, p, 1, NULL, &coverage, NULL) < 0 || coverage.resolved != 1;
		profile_free(p);
		if (failed)
			return context;
	}
	return NULL;
}

/* Tables come and go under a tight limit while others use them. */
static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, true);
	for (unsigned i = 1; i <= 5; i++) {
		struct test_elf elf = binary;
		elf.build_id_first = (uint8_t)(0x20 + i);
		char id[BUILD_ID_HEX_MAX];
		snprintf(id, sizeof(id), "%02x%s", 0x20 + i, TEST_ELF_BUILD_ID + 2);
		assert_int_equal(offer(s, id, &elf, NULL), 0);
	}
	s->memory_max_bytes = 1000; /* three of the five */
	pthread_t threads[4];
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_repeatedly, s), 0);
	for (size_t i = 0; i < COUNT(threads); i++) {
		void *result;
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	symbolizer_free(s);
}

/* This program, as the loader describes it. */
static void test_this_program(void **state)
{
	struct fixture *f = *state;
	struct symbolizer *s = new_symbolizer(f, false);
	struct buffer maps;
	buffer_init(&maps, 1 << 20);
	assert_int_equal(io_read_file("/proc/self/maps", 1 << 20, &maps, NULL), 0);
	uint64_t address = (uint64_t)(uintptr_t)&test_this_program;
	struct profile *p = new_profile();
	uint32_t location_id = 0;
	for (char *line = (char *)buffer_string(&maps); line && *line;) {
		unsigned long long start, limit, offset;
		char path[512] = "";
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %511s", &start, &limit, &offset, path) >= 3 && address >= start &&
		    address < limit) {
			struct profile_mapping mapping = {
				.start = start, .limit = limit, .offset = offset, .file_name = add_string(p, path)};
			struct profile_location location = {.address = address};
			assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
			assert_int_equal(profile_add_location(p, &location, NULL, 0, &location_id, NULL), 0);
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	assert_true(location_id > 0);
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
	assert_name(p, location_id, "test_this_program");
	profile_free(p);
	buffer_release(&maps);
	symbolizer_free(s);
}

/* The kernel's own library in every process is in no file; whoever offers it copies it from memory. */
static void test_vdso(void **state)
{
	struct fixture *f = *state;
	const uint8_t *image = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	struct elf_file file;
	char build_id[BUILD_ID_HEX_MAX];
	int fd = image ? test_elf_file((struct bytes){image, 4096}) : -1;
	if (fd < 0 || build_id_read_fd(fd, build_id, NULL) < 0) {
		printf("skipped: no vdso with a build-id here\n");
		skip();
	}
	close(fd);
	/* Its section headers are its last part. */
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	struct bytes whole = {image, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize};
	fd = test_elf_file(whole);
	struct symbolizer *s = new_symbolizer(f, false);
	assert_int_equal(symbolizer_offer(s, build_id, "", "[vdso]", fd, NULL), 0);
	assert_int_equal(elf_file_open(&file, fd, "[vdso]", NULL), 0);
	struct elf_symbols list;
	elf_symbols_init(&list);
	assert_int_equal(elf_symbols_add_file(&list, &file, NULL), 0);
	assert_true(list.count > 0);
	struct profile *p = new_profile();
	struct profile_mapping mapping = {.start = 0x7ffff000, .limit = 0x80000000, .build_id = add_string(p, build_id)};
	struct profile_location location = {.address = mapping.start + list.items[0].address};
	uint32_t id;
	assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(p, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
	assert_true(strncmp(profile_string(p, function_of(p, id)->name), "__vdso_", 7) == 0);
	profile_free(p);
	elf_symbols_release(&list);
	elf_file_release(&file);
	symbolizer_free(s);
	close(fd);
}

/* ---- several files of one id ---- */

static const char one_content[] = "11111111111111111111111111111111", two_content[] = "22222222222222222222222222222222";

static void upload_content(struct uploads *uploads, const char *content, const struct test_elf *elf)
{
	struct buffer b;
	struct upload_begin begin = {.build_id = TEST_ELF_BUILD_ID, .kind = UPLOAD_DEBUGINFO, .force = true};
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	test_elf_build(elf, &b);
	begin.size = b.len;
	snprintf(begin.content_key, sizeof(begin.content_key), "%s", content);
	assert_int_equal(uploads_begin(uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(uploads, id, 0, buffer_bytes(&b), &offset, NULL), 0);
	assert_int_equal(uploads_finish(uploads, id, NULL), 0);
	buffer_release(&b);
}

static struct symbolizer *new_symbolizer_with_uploads(struct fixture *f, struct uploads **ret)
{
	char directory[256];
	snprintf(directory, sizeof(directory), "%s/uploads", f->directory);
	const struct uploads_options options = {.directory = directory};
	assert_int_equal(uploads_open(&options, ret, NULL), 0);
	struct symbolizer *s = new_symbolizer(f, true);
	s->uploads = *ret;
	return s;
}

/* A name is given where all that say one say the same, and nowhere else. */
static void test_ambiguous_ids(void **state)
{
	static const struct test_symbol firsts[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						    {"first", 0x40, 16, STT_FUNC, STB_GLOBAL, 0},
						    {"only_here", 0x80, 16, STT_FUNC, STB_GLOBAL, 0}};
	static const struct test_symbol seconds[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						     {"second", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}};
	const struct test_elf first = {.symbols = firsts, .symbol_count = 3}, second = {.symbols = seconds, .symbol_count = 2};
	struct fixture *f = *state;
	_cleanup_(uploads_closep) struct uploads *uploads = NULL;
	struct symbolizer *s = new_symbolizer_with_uploads(f, &uploads);
	for (unsigned i = 0; i < 3; i++) {
		/* Both orders; then both the same. */
		if (i == 0)
			upload_content(uploads, two_content, &second);
		if (i < 2)
			upload_content(uploads, one_content, &first);
		if (i == 1)
			upload_content(uploads, two_content, &second);
		if (i == 2)
			upload_content(uploads, two_content, &first);
		symbolizer_arrived(s, TEST_ELF_BUILD_ID);
		struct profile *p;
		assert_int_equal(profile_new(&p, NULL), 0);
		uint32_t same = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0);
		uint32_t differs = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0x40);
		struct symbolizer_coverage coverage;
		assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
		assert_string_equal(profile_string(p, function_of(p, same)->name), "same");
		assert_string_equal(profile_string(p, function_of(p, differs)->name), i < 2 ? "" : "first");
		assert_int_equal(coverage.ambiguous, i < 2);
		assert_int_equal(coverage.missing, i < 2);
		assert_int_equal(coverage.resolved, i < 2 ? 1 : 2);
		profile_free(p);
		struct symbol_status *list;
		size_t count, counts[SYMBOL_STATES], listed = 0;
		assert_int_equal(symbolizer_list(s, &(struct symbol_list_options){0}, &list, &count, NULL, counts, NULL), 0);
		assert_int_equal(count, 1);
		for (size_t k = 0; k < SYMBOL_STATES; k++)
			listed += counts[k];
		assert_int_equal(listed, 1);
		assert_int_equal(list[0].contents, i < 2 ? 2 : 1);
		assert_int_equal(strstr(list[0].why, "ambiguous") != NULL, i < 2);
		mem_free(list);
	}
	symbolizer_free(s);
}

/* What agents tell of: while the second is awaited nothing is said of the code, and then what both say. */
static void test_contents_that_agents_tell_of(void **state)
{
	static const struct test_symbol firsts[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						    {"first", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}};
	static const struct test_symbol seconds[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						     {"second", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}};
	struct fixture *f = *state;
	_cleanup_(uploads_closep) struct uploads *uploads = NULL;
	struct symbolizer *s = new_symbolizer_with_uploads(f, &uploads);
	upload_content(uploads, one_content, &(struct test_elf){.symbols = firsts, .symbol_count = 2});
	struct symbolizer_coverage coverage;
	struct profile *p = NULL;
	for (unsigned step = 0; step < 5; step++) {
		static const enum symbol_contents expected[] = {SYMBOL_CONTENT_ONLY, SYMBOL_CONTENT_SEVERAL,
								SYMBOL_CONTENT_SEVERAL, SYMBOL_CONTENT_SEVERAL,
								SYMBOL_CONTENT_TOO_MANY};
		const char *told = step == 0 ? one_content : two_content;
		for (unsigned i = 0; step == 4 && i < 2; i++) {
			char other[33];
			snprintf(other, sizeof(other), "%032u", i);
			assert_int_equal(symbolizer_note_content(s, TEST_ELF_BUILD_ID, other, ""), SYMBOL_CONTENT_SEVERAL);
		}
		if (step == 4)
			told = "55555555555555555555555555555555";
		assert_int_equal(symbolizer_note_content(s, TEST_ELF_BUILD_ID, told, ""), expected[step]);
		if (step == 1)
			assert_true(symbolizer_wants_content(s, TEST_ELF_BUILD_ID, told, "", NULL));
		if (step == 2) /* it does not come */
			entries_find(s, TEST_ELF_BUILD_ID)->contents[1].wanted_ns -= 3600 * NS_PER_S;
		if (step == 3) {
			upload_content(uploads, two_content, &(struct test_elf){.symbols = seconds, .symbol_count = 2});
			symbolizer_arrived(s, TEST_ELF_BUILD_ID);
		}
		assert_int_equal(profile_new(&p, NULL), 0);
		uint32_t same = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0);
		uint32_t differs = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0x40);
		assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
		static const char *const names[][2] = {{"same", "first"}, {"", ""}, {"same", "first"}, {"same", ""}, {"", ""}};
		assert_string_equal(profile_string(p, function_of(p, same)->name), names[step][0]);
		assert_string_equal(profile_string(p, function_of(p, differs)->name), names[step][1]);
		assert_int_equal(coverage.pending, step == 1 ? 2 : 0);
		static const size_t ambiguous[] = {0, 0, 0, 1, 2};
		assert_int_equal(coverage.ambiguous, ambiguous[step]);
		profile_free(p);
		/* The same when a function is looked at by itself. */
		struct symbol_view *view = NULL;
		int r = symbolizer_view(s, TEST_ELF_BUILD_ID, "", NULL, &view, NULL);
		assert_int_equal(r, step == 1 ? -ENOENT : 0);
		for (unsigned i = 0; r == 0 && i < 2; i++) {
			struct symbol_frame frames[4];
			uint64_t address, start, end;
			address = TEST_ELF_TEXT_ADDRESS + 0x40 * i;
			bool is_named = names[step][i][0];
			assert_int_equal(symbol_view_frames(view, address, frames, 4), is_named);
			assert_int_equal(symbol_view_bounds(view, address, &start, &end), is_named);
			assert_int_equal(symbol_view_contents(view) > 1, step > 1);
		}
		symbol_view_free(view);
	}
	struct symbolizer_stats stats;
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.ambiguous, 3);
	assert_int_equal(stats.contents_refused, 1);
	symbolizer_free(s);
}

/* A stripped copy has nothing to say; of other code, what is not here, or not named, may be anything. */
static void check_programs(struct fixture *f, bool is_one_old)
{
	static const struct test_symbol firsts[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						    {"first", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}};
	static const struct test_symbol seconds[] = {{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0}};
	static const char *const contents[] = {one_content, two_content, "33333333333333333333333333333333"};
	static const uint64_t codes[] = {1, 1, 2};
	static const char *const names[][2] = {{"same", "first"}, {"same", "first"}, {"", ""}, {"", ""}, {"same", ""}};
	_cleanup_(uploads_closep) struct uploads *uploads = NULL;
	struct symbolizer *s = new_symbolizer_with_uploads(f, &uploads);
	upload_content(uploads, one_content, &(struct test_elf){.symbols = firsts, .symbol_count = 2});
	/* Once an older agent has told of one, and not what its code is. */
	if (is_one_old)
		symbolizer_note_content(s, TEST_ELF_BUILD_ID, "44444444444444444444444444444444", "");
	for (unsigned step = 0; step < (is_one_old ? 4u : 5u); step++) {
		if (step < 3) {
			symbolizer_note_content(s, TEST_ELF_BUILD_ID, contents[step], "");
			symbolizer_note_code(s, TEST_ELF_BUILD_ID, contents[step], codes[step]);
			symbolizer_note_code(s, TEST_ELF_BUILD_ID, "00000000000000000000000000000000", 3); /* not noted */
		}
		if (step == 3) { /* after a restart */
			symbolizer_free(s);
			s = new_symbolizer(f, true);
			s->uploads = uploads;
		}
		if (step == 4) {
			upload_content(uploads, contents[2], &(struct test_elf){.symbols = seconds, .symbol_count = 1});
			symbolizer_arrived(s, TEST_ELF_BUILD_ID);
		}
		struct profile *p;
		struct symbolizer_coverage coverage;
		assert_int_equal(profile_new(&p, NULL), 0);
		uint32_t same = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0);
		uint32_t differs = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0x40);
		assert_int_equal(symbolizer_resolve(s, p, 1, NULL, &coverage, NULL), 0);
		assert_string_equal(profile_string(p, function_of(p, same)->name), names[step][0]);
		assert_string_equal(profile_string(p, function_of(p, differs)->name), names[step][1]);
		assert_int_equal(coverage.ambiguous, !names[step][0][0] + !names[step][1][0]);
		profile_free(p);
		struct symbol_view *view = NULL;
		struct symbol_frame frames[4];
		assert_int_equal(symbolizer_view(s, TEST_ELF_BUILD_ID, "", NULL, &view, NULL), 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(symbol_view_frames(view, TEST_ELF_TEXT_ADDRESS + 0x40 * i, frames, 4),
					 names[step][i][0] != 0);
		symbol_view_free(view);
	}
	symbolizer_free(s);
}

static void test_programs_that_agents_tell_of(void **state)
{
	check_programs(*state, false);
	assert_int_equal(fixture_tear_down(state), 0);
	assert_int_equal(fixture_set_up(state), 0);
	check_programs(*state, true);
}

/* Uploads that are known by a Go build-id are those of the file of that hash, whatever comes first, if no other file has it. */
static void test_go_ids(void **state)
{
	static const char go_id[] = "676f6275696c642d69642d6f662d736f6d652d70726f6772616d",
			  first[] = "11111111222222223333333344444444", second[] = "55555555666666667777777788888888";
	static const struct test_symbol symbols[] = {{"in_go", 0, 16, STT_FUNC, STB_GLOBAL, 0}};
	for (unsigned order = 0; order < 2; order++) {
		struct fixture *f = *state;
		char directory[256];
		_cleanup_(uploads_closep) struct uploads *uploads = NULL;
		struct buffer elf;
		uint64_t offset;
		char id[UPLOAD_ID_MAX];
		struct upload_begin begin = {.kind = UPLOAD_DEBUGINFO, .id_type = FILE_ID_GO, .without_build_id = true};
		snprintf(directory, sizeof(directory), "%s/uploads%u", f->directory, order);
		assert_int_equal(uploads_open(&(struct uploads_options){.directory = directory}, &uploads, NULL), 0);
		struct symbolizer *s = new_symbolizer(f, false);
		s->uploads = uploads;
		test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .no_build_id = true}, &elf);
		begin.size = elf.len;
		snprintf(begin.build_id, sizeof(begin.build_id), "%s", go_id);
		for (unsigned step = 0; step < 4; step++) {
			if (step == 1 + order) {
				assert_int_equal(uploads_begin(uploads, &begin, id, &offset, NULL), 0);
				assert_int_equal(uploads_write(uploads, id, 0, buffer_bytes(&elf), &offset, NULL), 0);
				assert_int_equal(uploads_finish(uploads, id, NULL), 0);
				symbolizer_arrived(s, go_id);
			}
			if (step == 2 - order)
				symbolizer_note_go_id(s, first, go_id);
			if (step == 3) /* another one has it too */
				symbolizer_note_go_id(s, second, go_id);
			struct profile *p;
			assert_int_equal(profile_new(&p, NULL), 0);
			uint32_t of_first = add_location(p, "/nowhere", first, 0x5000, 0);
			uint32_t of_second = add_location(p, "/nowhere", second, 0x5000, 0);
			assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
			assert_string_equal(profile_string(p, function_of(p, of_first)->name), step == 2 ? "in_go" : "");
			assert_string_equal(profile_string(p, function_of(p, of_second)->name), "");
			profile_free(p);
		}
		buffer_release(&elf);
		symbolizer_free(s);
	}
}

/* A stripped copy that came last names nothing: the names are those of the other all the same. */
static void test_a_stripped_copy_that_comes_last(void **state)
{
	static const struct test_symbol symbols[] = {{"exported", 0, 16, STT_FUNC, STB_GLOBAL, 0},
						     {"hidden", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}};
	struct fixture *f = *state;
	_cleanup_(uploads_closep) struct uploads *uploads = NULL;
	struct symbolizer *s = new_symbolizer_with_uploads(f, &uploads);
	for (unsigned order = 0; order < 2; order++) {
		for (unsigned i = 0; i < 2; i++) {
			bool is_stripped = i != order;
			const char *content = is_stripped ? two_content : one_content;
			symbolizer_note_content(s, TEST_ELF_BUILD_ID, content, "");
			upload_content(uploads, content,
				       &(struct test_elf){.symbols = symbols,
							  .symbol_count = is_stripped ? 1 : 2,
							  .stripped = is_stripped});
		}
		symbolizer_arrived(s, TEST_ELF_BUILD_ID);
		struct profile *p;
		assert_int_equal(profile_new(&p, NULL), 0);
		uint32_t public = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0);
		uint32_t private = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0x40);
		assert_int_equal(symbolizer_resolve(s, p, 1, NULL, NULL, NULL), 0);
		assert_string_equal(profile_string(p, function_of(p, public)->name), "exported");
		assert_string_equal(profile_string(p, function_of(p, private)->name), "hidden");
		profile_free(p);
	}
	symbolizer_free(s);
}

/* What the agent of this host passes, which is not uploaded: each is read, and both have to agree. */
static void check_offered_contents(struct fixture *f, unsigned workers)
{
	static const struct test_symbol symbols[2][2] = {
		{{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0}, {"first", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}},
		{{"same", 0, 16, STT_FUNC, STB_GLOBAL, 0}, {"second", 0x40, 16, STT_FUNC, STB_GLOBAL, 0}}};
	struct content_key keys[2];
	const struct symbolizer_options options = {.workers = workers};
	const struct symbolizer_want want = {.wait_ns = -1};
	struct symbolizer *s;
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	s->debug_directory = f->debug;
	for (unsigned i = 0; i < 2; i++) {
		struct buffer b;
		test_elf_build(&(struct test_elf){.symbols = symbols[i], .symbol_count = 2}, &b);
		int fd = test_elf_file(buffer_bytes(&b));
		assert_int_equal(content_key_read_fd(fd, &keys[i], NULL), 0);
		assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, keys[i].key, "/gone", fd, NULL), 0);
		/* What claims to be another content is no table of it. */
		assert_int_equal(symbolizer_offer(s, TEST_ELF_BUILD_ID, keys[i].key, "/gone", fd, NULL), 0);
		close(fd);
		buffer_release(&b);
	}
	struct symbolizer_coverage coverage;
	struct profile *p = NULL;
	assert_int_equal(profile_new(&p, NULL), 0);
	uint32_t same = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0);
	uint32_t differs = add_location(p, "/nowhere", TEST_ELF_BUILD_ID, 0x5000, 0x40);
	assert_int_equal(symbolizer_resolve(s, p, 1, &want, &coverage, NULL), 0);
	assert_string_equal(profile_string(p, function_of(p, same)->name), "same");
	assert_string_equal(profile_string(p, function_of(p, differs)->name), "");
	assert_int_equal(coverage.ambiguous, 1);
	profile_free(p);
	/* A profile that says which of them it is: each by itself, also at one path. */
	assert_int_equal(profile_new(&p, NULL), 0);
	uint32_t of[2];
	for (unsigned i = 0; i < 2; i++) {
		struct profile_mapping mapping = {.start = 0x5000,
						  .limit = 0x6000,
						  .file_name = add_string(p, "/nowhere"),
						  .build_id = add_string(p, TEST_ELF_BUILD_ID),
						  .content = add_string(p, keys[i].key)};
		struct profile_location location = {.address = 0x5000 + TEST_ELF_TEXT_OFFSET + 0x40};
		assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
		assert_int_equal(profile_add_location(p, &location, NULL, 0, &of[i], NULL), 0);
	}
	assert_int_equal(symbolizer_resolve(s, p, 1, &want, &coverage, NULL), 0);
	assert_name(p, of[0], "first");
	assert_name(p, of[1], "second");
	assert_int_equal(coverage.resolved, 2);
	profile_free(p);
	symbolizer_free(s);
}

/* A server that is started anew knows that there are several, and finds those that are where they were. */
static void test_contents_after_a_restart(void **state)
{
	struct fixture *f = *state;
	char path[512];
	for (unsigned start = 0; start < 3; start++) {
		struct symbolizer *s = new_symbolizer(f, true);
		for (unsigned i = 0; start == 0 && i < 2; i++)
			symbolizer_note_content(s, TEST_ELF_BUILD_ID, i == 0 ? one_content : two_content, "/a path");
		/* What was cut off, and what makes no sense. */
		snprintf(path, sizeof(path), "%s/contents", f->cache);
		int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
		static const char nonsense[] = "x y z\n\n../../etc 11111111111111111111111111111111 /\nabcd 1111";
		assert_int_equal(write(fd, nonsense, strlen(nonsense)), strlen(nonsense));
		close(fd);
		const struct symbol_entry *entry = entries_find(s, TEST_ELF_BUILD_ID);
		assert_non_null(entry);
		assert_int_equal(entry->content_count, 2);
		assert_string_equal(entry->contents[0].key, one_content);
		assert_string_equal(entry->contents[1].key, two_content);
		assert_string_equal(entry->contents[1].path, "/a path");
		assert_int_equal(symbolizer_note_content(s, TEST_ELF_BUILD_ID, one_content, ""), SYMBOL_CONTENT_SEVERAL);
		symbolizer_free(s);
	}
}

/* Also where others build the tables: whoever waits does so for all that are compared. */
static void test_contents_that_are_offered(void **state)
{
	check_offered_contents(*state, 0);
	check_offered_contents(*state, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_linked_addresses),
		FIXTURE_TEST(test_a_whole_profile),
		FIXTURE_TEST(test_offers),
		FIXTURE_TEST(test_deleted_file),
		FIXTURE_TEST(test_files_of_this_host),
		FIXTURE_TEST(test_paths_that_would_block),
		FIXTURE_TEST(test_without_a_build_id),
		FIXTURE_TEST(test_cache_on_disk),
		FIXTURE_TEST(test_damaged_cache),
		FIXTURE_TEST(test_cache_that_cannot_be_written),
		FIXTURE_TEST(test_separate_debug_file),
		FIXTURE_TEST(test_debug_file_of_another_build),
		FIXTURE_TEST(test_debug_file_alone),
		FIXTURE_TEST(test_a_miss_is_remembered),
		FIXTURE_TEST(test_memory_limit),
		FIXTURE_TEST(test_faults),
		FIXTURE_TEST(test_threads),
		FIXTURE_TEST(test_this_program),
		FIXTURE_TEST(test_vdso),
		FIXTURE_TEST(test_ambiguous_ids),
		FIXTURE_TEST(test_contents_that_agents_tell_of),
		FIXTURE_TEST(test_programs_that_agents_tell_of),
		FIXTURE_TEST(test_a_stripped_copy_that_comes_last),
		FIXTURE_TEST(test_go_ids),
		FIXTURE_TEST(test_contents_that_are_offered),
		FIXTURE_TEST(test_contents_after_a_restart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
