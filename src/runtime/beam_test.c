// SPDX-License-Identifier: Apache-2.0
/* Which files hold BEAM: the one that is installed, and changed copies; and what is read of a process made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_symbols.h"
#include "elf/test_elf.h"
#include "runtime/test_beam_image.h"

#define PROGRAMS "/usr/lib/erlang/erts-*/bin/beam.smp"

static int recognize_bytes(struct bytes bytes, struct beam_build *ret, struct error *err)
{
	struct elf_file file;

	*err = (struct error){0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	r = beam_recognize(&file, ret, err);
	elf_file_release(&file);
	return r;
}

/* The first one; NULL if none is installed. */
static uint8_t *read_program(size_t *ret_len)
{
	char path[256] = "";
	struct stat st;
	glob_t found;

	if (glob(PROGRAMS, 0, NULL, &found) == 0)
		snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
	globfree(&found);
	int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) {
		print_message("skipped: Erlang is not installed\n");
		return NULL;
	}
	assert_int_equal(fstat(fd, &st), 0);
	*ret_len = (size_t)st.st_size;
	uint8_t *data = malloc(*ret_len);
	assert_true(data && pread(fd, data, *ret_len, 0) == (ssize_t)*ret_len);
	close(fd);
	return data;
}

/* Where the symbol's bytes are in the file. */
static uint8_t *find_symbol(uint8_t *data, size_t len, const char *name, uint64_t *ret_address)
{
	struct elf_named wanted = {.name = name};
	struct elf_file file;
	uint64_t offset = 0;

	assert_int_equal(elf_file_open_memory(&file, (struct bytes){data, len}, "test", NULL), 0);
	assert_int_equal(elf_named_find(&file, &wanted, 1, NULL), 1);
	bool is_in_file = elf_file_find_loaded(&file, wanted.address, &offset) != NULL;
	elf_file_release(&file);
	*ret_address = wanted.address;
	return is_in_file ? data + offset : NULL;
}

static void test_installed_program(void **state)
{
	struct beam_build build;
	struct error err;
	uint64_t address, index;
	size_t len;

	uint8_t *data = read_program(&len);
	if (!data)
		skip();
	int r = recognize_bytes((struct bytes){data, len}, &build, &err);
	if (r == -ENOTSUP)
		print_message("not known: %s\n", err.message);
	const uint8_t *release = find_symbol(data, len, "etp_otp_release", &address);
	find_symbol(data, len, "the_active_code_index", &index);
	assert_int_equal(build.release, (uint32_t)(release[0] - '0') * 10 + (uint32_t)(release[1] - '0'));
	if (r == 1) {
		assert_int_equal(build.index, index);
		/* Variables of one kind: at multiples of 8, not far from each other. */
		assert_true(build.ranges && build.key && !(build.ranges & 7) && !(build.key & 3));
		assert_true(index - build.ranges < 4096 || build.ranges - index < 4096);
	}
	free(data);
}

static void test_changed_copies(void **state)
{
	struct beam_build build;
	struct error err;
	uint64_t address;
	size_t len;

	uint8_t *data = read_program(&len);
	if (!data)
		skip();
	if (recognize_bytes((struct bytes){data, len}, &build, &err) != 1) {
		free(data);
		skip();
	}
	uint8_t *release = find_symbol(data, len, "etp_otp_release", &address),
		*compiler = find_symbol(data, len, "etp_beamasm", &address),
		*init = find_symbol(data, len, "erts_init_ranges", &address),
		*thread = find_symbol(data, len, "erts_get_scheduler_data", &address), usual = release[1];
	release[1] = '1';
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_string_equal(err.message, "Erlang/OTP 21, which is not known");
	release[1] = 'x';
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "whose release is not in the file"));
	release[1] = usual;
	compiler[0] = 0;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "without its compiler"));
	compiler[0] = 1;
	memset(init, 0x90, 64);
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "table of modules"));
	memset(thread, 0x90, 8);
	for (size_t cut = len - 1; cut > 64; cut /= 2)
		assert_true(recognize_bytes((struct bytes){data, cut}, &build, &err) < 0);
	free(data);
}

static void test_other_files(void **state)
{
	const struct test_symbol symbols[] = {{"etp_otp_release", 0x10, 3, STT_OBJECT, STB_GLOBAL, 0},
					      {"the_active_code_index", 0x40, 4, STT_OBJECT, STB_GLOBAL, 0}};
	struct beam_build build;
	struct error err;
	struct buffer b;

	for (size_t count = 1; count <= 2; count++) {
		test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = count, .stripped = true}, &b);
		assert_int_equal(recognize_bytes(buffer_bytes(&b), &build, &err), count < 2 ? 0 : -ENOTSUP);
		buffer_release(&b);
	}
}

/* ---- modules ---- */

static int read_modules(struct image *image, struct beam_modules *modules)
{
	return beam_read_modules(&image->build, IMAGE_BIAS, &image->memory, modules);
}

static void test_modules(void **state)
{
	struct beam_modules modules = {0};
	struct beam_process place;
	struct image *image = image_new(25);

	assert_int_equal(read_modules(image, &modules), 0);
	assert_int_equal(modules.count, 2);
	assert_null(beam_find_module(&modules, IMAGE_ONE - 1));
	assert_ptr_equal(beam_find_module(&modules, IMAGE_ONE), &modules.items[0]);
	assert_ptr_equal(beam_find_module(&modules, IMAGE_ONE + IMAGE_MODULE - 1), &modules.items[0]);
	assert_null(beam_find_module(&modules, IMAGE_ONE + IMAGE_MODULE));
	assert_ptr_equal(beam_find_module(&modules, IMAGE_TWO + 5), &modules.items[1]);
	assert_int_equal(beam_place(&image->build, IMAGE_BIAS, &image->memory, &modules, &place), 0);
	assert_int_equal(place.kind, RUNTIME_KIND_BEAM);
	assert_true(place.low < IMAGE_SHARED && place.high > IMAGE_TWO + IMAGE_MODULE);
	assert_int_equal(place.normal_exit, IMAGE_SHARED);
	assert_int_equal(place.shared_start, place.low);
	assert_int_equal(place.shared_end, IMAGE_ONE);
	assert_int_equal(place.key, IMAGE_KEY);
	/* Between two modules. */
	image_put_word(image, IMAGE_EXIT, IMAGE_TWO - 0x40);
	assert_int_equal(beam_place(&image->build, IMAGE_BIAS, &image->memory, &modules, &place), 0);
	assert_int_equal(place.shared_start, IMAGE_ONE + IMAGE_MODULE);
	assert_int_equal(place.shared_end, IMAGE_TWO);
	image_put_word(image, IMAGE_EXIT, IMAGE_ONE + 0x40);
	assert_int_equal(beam_place(&image->build, IMAGE_BIAS, &image->memory, &modules, &place), -EBADMSG);
	image_put_word(image, IMAGE_EXIT, 0);
	assert_int_equal(beam_place(&image->build, IMAGE_BIAS, &image->memory, &modules, &place), -EAGAIN);
	beam_modules_release(&modules);
	test_free(image);
}

/* One that is unloaded, and another one in its place, are told apart. */
static void test_modules_change(void **state)
{
	const uint64_t unloaded[] = {IMAGE_ONE, IMAGE_ONE, IMAGE_TWO, IMAGE_TWO + IMAGE_MODULE},
		       loaded[] = {IMAGE_ONE, IMAGE_ONE + IMAGE_MODULE, IMAGE_TWO, IMAGE_TWO + IMAGE_MODULE};
	struct beam_modules modules = {0};
	struct image *image = image_new(27);

	assert_int_equal(read_modules(image, &modules), 0);
	uint64_t first = modules.items[0].since, second = modules.items[1].since;
	assert_int_equal(read_modules(image, &modules), 0);
	assert_int_equal(modules.items[0].since, first);
	image_put_ranges(image, 2, unloaded, 2);
	assert_int_equal(read_modules(image, &modules), 0);
	assert_int_equal(modules.count, 1);
	assert_null(beam_find_module(&modules, IMAGE_ONE));
	assert_int_equal(modules.items[0].since, second);
	image_put_ranges(image, 0, loaded, 2);
	assert_int_equal(read_modules(image, &modules), 0);
	assert_int_not_equal(modules.items[0].since, first);
	assert_int_equal(modules.items[1].since, second);
	beam_modules_release(&modules);
	test_free(image);
}

static void test_wrong_modules(void **state)
{
	static const uint64_t wrong[][4] = {{IMAGE_ONE + 8, IMAGE_ONE, IMAGE_TWO, IMAGE_TWO + 8},
					    {IMAGE_TWO, IMAGE_TWO + 8, IMAGE_ONE, IMAGE_ONE + 8},
					    {IMAGE_ONE, IMAGE_TWO + 8, IMAGE_TWO, IMAGE_TWO + 16},
					    {IMAGE_ONE, IMAGE_ONE + 8, IMAGE_TWO, UINT64_MAX}};
	struct beam_modules modules = {0};
	struct image *image = image_new(25);
	uint32_t index = 3;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		image_put_ranges(image, 0, wrong[i], 2);
		assert_int_equal(read_modules(image, &modules), -EBADMSG);
	}
	image_put(image, IMAGE_INDEX, &index, sizeof(index));
	assert_int_equal(read_modules(image, &modules), -EBADMSG);
	image_put_ranges(image, 0, wrong[0], 0);
	assert_int_equal(read_modules(image, &modules), -EAGAIN);
	image_put_word(image, IMAGE_RANGES + 8, BEAM_MODULES_MAX + 1);
	image_put_word(image, IMAGE_RANGES + 16, BEAM_MODULES_MAX + 1);
	assert_int_equal(read_modules(image, &modules), -EBADMSG);
	memset(image->bytes, 0, 0x300); /* a process that has just begun */
	assert_int_equal(read_modules(image, &modules), -EAGAIN);
	assert_null(modules.items);
	test_free(image);
}

/* ---- functions ---- */

static int read_function(struct image *image, uint64_t module, uint64_t offset, struct runtime_function *ret,
			 uint32_t *ret_line)
{
	const struct beam_range range = {module, module + IMAGE_MODULE, 1};

	return beam_read_function(&image->build, IMAGE_BIAS, &image->memory, &range, module + offset, ret, ret_line);
}

static void test_functions(void **state)
{
	static const struct {
		uint64_t module;
		uint32_t offset, line, first_line;
		const char *name, *file;
	} cases[] = {
		{IMAGE_ONE, 0x200, 10, 10, "one:first/1", "src/one.erl"},
		{IMAGE_ONE, 0x23f, 10, 10, "one:first/1", "src/one.erl"},
		{IMAGE_ONE, 0x240, 12, 10, "one:first/1", "src/one.erl"},
		{IMAGE_ONE, 0x2ff, 15, 10, "one:first/1", "src/one.erl"},
		{IMAGE_ONE, 0x300, 20, 20,
		 "one:gr\xc3\xbc\xc3\x9f"
		 "e/0",
		 "included.hrl"},
		{IMAGE_TWO, 0x250, 0, 0, "Two.run/2", ""},
	};
	static const uint32_t releases[] = {25, 26, 27};
	struct runtime_function function;
	uint32_t line;

	for (size_t release = 0; release < sizeof(releases) / sizeof(releases[0]); release++) {
		struct image *image = image_new(releases[release]);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			assert_int_equal(read_function(image, cases[i].module, cases[i].offset, &function, &line), 0);
			assert_string_equal(function.name, cases[i].name);
			assert_string_equal(function.file, cases[i].file);
			assert_int_equal(line, cases[i].line);
			assert_int_equal(function.first_line, cases[i].first_line);
		}
		assert_int_equal(read_function(image, IMAGE_ONE, 0x100, &function, &line), -ENOENT);
		assert_int_equal(read_function(image, IMAGE_ONE, 0x400, &function, &line), -ENOENT);
		image_put_lines(image, 2);
		assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), 0);
		assert_int_equal(line, 12);
		/* Whatever cannot be read. */
		for (uint32_t absent = 1, r = 1; r; absent++) {
			image->absent = absent;
			r = read_function(image, IMAGE_ONE, 0x250, &function, &line) < 0;
			assert_true(absent < 100);
		}
		test_free(image);
	}
}

/* As Elixir's stack traces have them. */
static void test_elixir_names(void **state)
{
	static const struct {
		const char *module, *name, *shown;
	} cases[] = {
		{"Elixir.Two", "run!", "Two.run!/2"},
		{"Elixir.A.B", "-run/0-fun-0-", "anonymous fn/2 in A.B.run/0"},
		{"Elixir.A.B", "-a/b/11-fun-12-", "anonymous fn/2 in A.B.a/b/11"},
		{"Elixir.Enum", "-map/2-lists^map/1-0-", "Enum.-map/2-lists^map/1-0-/2"},
		{"Elixir.A", "-run/0-a-b-0-", "A.-run/0-a-b-0-/2"},
		{"Elixir.A", "-run/0-fun-0", "A.-run/0-fun-0/2"},
		{"Elixir.A", "-", "A.-/2"},
		{"Elixir.A", "-/", "A.-//2"},
		{"Elixir.A", "-/---", "anonymous fn/2 in A./"},
		{"Elixir.A", "", "A./2"},
		{"Elixir.", "-run/0-fun-0-", "Elixir.:-run/0-fun-0-/2"},
		{"two", "-run/0-fun-0-", "two:-run/0-fun-0-/2"},
	};
	struct runtime_function function;
	uint32_t line;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct image *image = image_new(25);
		uint64_t module = image_put_atom(image, cases[i].module), name = image_put_atom(image, cases[i].name);
		image_put_function(image, IMAGE_TWO, 0, module, name, 2);
		assert_int_equal(read_function(image, IMAGE_TWO, 0x250, &function, &line), 0);
		assert_string_equal(function.name, cases[i].shown);
		test_free(image);
	}
}

static void test_wrong_functions(void **state)
{
	struct runtime_function function;
	struct image *image = image_new(25);
	uint64_t name = IMAGE_ONE + 0x200 + 16, list = image_put_list(image, "x");
	uint32_t line;

	image_put_word(image, name, 0x3b); /* no atom */
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	image_put_word(image, name, (1ull << 33) << 6 | 0xb);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	image_put_word(image, name, 0 << 6 | 0xb);
	image_put_word(image, name + 16, 256); /* arity */
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	image_put_word(image, name + 16, 1);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), 0);
	image_put_word(image, IMAGE_ONE, BEAM_FUNCTIONS_MAX + 1);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	image_put_word(image, IMAGE_ONE, 2);
	image_put_word(image, image_function_at(image, IMAGE_ONE, 1), IMAGE_TWO + IMAGE_MODULE);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	/* A list that leads to itself ends. */
	image_put_word(image, image_function_at(image, IMAGE_ONE, 1), IMAGE_ONE + 0x300);
	image_put_word(image, (list & ~7ull) + 8, list);
	uint64_t table = 0, files = 0;
	assert_int_equal(image_read(image, IMAGE_ONE + image->build.layout.header_lines, &table, 8), 0);
	assert_int_equal(image_read(image, table, &files, 8), 0);
	image_put_word(image, files, list);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), 0);
	assert_true(strlen(function.file) < RUNTIME_NAME_BYTES_MAX && strspn(function.file, "x") == strlen(function.file));
	image_put_word(image, files, list & ~3ull);
	assert_int_equal(read_function(image, IMAGE_ONE, 0x250, &function, &line), -EBADMSG);
	test_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed_program), cmocka_unit_test(test_changed_copies),
		cmocka_unit_test(test_other_files),	  cmocka_unit_test(test_modules),
		cmocka_unit_test(test_modules_change),	  cmocka_unit_test(test_wrong_modules),
		cmocka_unit_test(test_functions),	  cmocka_unit_test(test_wrong_functions),
		cmocka_unit_test(test_elixir_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
