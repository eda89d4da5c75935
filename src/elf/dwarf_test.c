/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/test_programs.h"
#include "elf/dwarf.h"
#include "elf/test_units.h"

static const char source[] =
	"static inline __attribute__((always_inline)) int add(int a, int b) { asm volatile(\"nop\" : \"+r\"(a)); return a + b "
	"* 3; }\n"
	"static inline __attribute__((always_inline)) int twice(int a)\n"
	"{\n\tint sum = 0;\n\tfor (int i = 0; i < a; i++)\n\t\tsum += add(a, i) / (i + 1);\n\treturn sum;\n}\n"
	"__attribute__((noinline)) int work(int n)\n"
	"{\n\tint total = 0;\n\tfor (int i = 0; i < n; i++)\n\t\ttotal += twice(i) ^ add(i, total);\n"
	"\treturn total;\n}\n"
	"int main(int argc, char **argv) { return work(argc + 10); }\n";
static char directory[64];

static bool run(const char *command)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (chdir(directory) == 0)
			execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	int status;
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int set_up(void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/wick-dwarf-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	char path[128];
	snprintf(path, sizeof(path), "%s/small.c", directory);
	return io_write_file(path, source, sizeof(source) - 1, 0644, NULL);
}

static int tear_down(void **state)
{
	return io_remove_tree(directory, NULL);
}

static int open_beside(void *context, enum dwarf_file_kind kind, const char *name, const char *build_id, int *ret_fd)
{
	*ret_fd = open(name, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -ENOENT : 0;
}

static int read_fd(int fd, struct test_units *units, struct dwarf_result *result, struct error *err)
{
	struct dwarf_options options = {.name = "test", .open_file = open_beside};
	return dwarf_read(fd, &options, test_units_sink, units, result, err);
}

static int open_program(const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static const struct test_unit *only_unit(const struct test_units *units)
{
	assert_int_equal(units->count, 1);
	return &units->items[0];
}

/* What is known of small.c whatever form it comes in. */
static void check_small(const char *name)
{
	struct test_units units = {0};
	struct dwarf_result result;
	struct error err = {0};
	int fd = open_program(name);
	assert_int_equal(read_fd(fd, &units, &result, &err), 0);
	assert_int_equal(result.units_damaged + result.units_incomplete, 0);
	const struct test_unit *unit = only_unit(&units);
	bool seen = false;
	for (size_t i = 0; i < unit->range_count; i++) {
		const struct code_scope *scope = &unit->scopes[unit->ranges[i].scope];
		if (strcmp(scope->name, "add") != 0 || unit->scopes[scope->parent].parent == CODE_NONE)
			continue;
		const struct code_scope *twice = &unit->scopes[scope->parent], *work = &unit->scopes[twice->parent];
		const struct code_row *row = test_find_row(unit, unit->ranges[i].start);
		assert_string_equal(twice->name, "twice");
		assert_string_equal(work->name, "work");
		assert_int_equal(scope->call_line, 6);
		assert_int_equal(twice->call_line, 13);
		assert_int_equal(work->line, 9);
		assert_int_equal(work->parent, CODE_NONE);
		assert_non_null(row);
		assert_non_null(strstr(unit->files[row->file], "/small.c"));
		assert_int_equal(unit->files[row->file][0], '/');
		seen = true;
	}
	assert_true(seen);
	close(fd);
	test_units_release(&units);
}

static void test_forms(void **state)
{
	static const char *const forms[] = {"-gdwarf-2",
					    "-gdwarf-3",
					    "-gdwarf-4",
					    "-gdwarf-5",
					    "-gdwarf-4 -gz=zlib",
					    "-gdwarf-5 -gz=zlib",
					    "-gdwarf-4 -fdebug-types-section"};
	static const char *const compilers[] = {"gcc", "clang"};
	for (size_t c = 0; c < 2; c++)
		for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
			char command[256];
			snprintf(command, sizeof(command), "%s -O1 %s -o program small.c 2>log", compilers[c], forms[i]);
			assert_true(run(command));
			check_small("program");
		}
}

static void test_split(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		char command[256];
		snprintf(command, sizeof(command),
			 "gcc -O1 -gdwarf-%u -gsplit-dwarf -c small.c && gcc -o program small.o && rm small.o", version);
		assert_true(run(command));
		check_small("program");
		assert_true(run("rm small.dwo"));
		struct test_units units = {0};
		struct dwarf_result result;
		int fd = open_program("program");
		assert_int_equal(read_fd(fd, &units, &result, NULL), 0);
		assert_int_equal(result.units_incomplete, 1);
		assert_non_null(strstr(result.problem, "small.dwo"));
		assert_true(only_unit(&units)->row_count > 0);
		assert_int_equal(only_unit(&units)->range_count, 0);
		close(fd);
		test_units_release(&units);
	}
}

static void test_what_is_not_dwarf(void **state)
{
	struct test_units units = {0};
	struct dwarf_result result;
	assert_true(run("gcc -O1 -o program small.c && gcc -O1 -g -c small.c"));
	int fd = open_program("program");
	assert_int_equal(read_fd(fd, &units, &result, NULL), -ENOENT);
	close(fd);
	fd = open_program("small.o");
	assert_int_equal(read_fd(fd, &units, &result, NULL), -ENOTSUP);
	close(fd);
	fd = open_program("small.c");
	assert_int_equal(read_fd(fd, &units, &result, NULL), -ENOEXEC);
	close(fd);
	assert_int_equal(units.count, 0);
}

static int fail_sink(void *context, const struct code_unit *unit, struct error *err)
{
	return error_set(err, -EBADMSG, "no");
}

static void test_sink_ends_it(void **state)
{
	struct dwarf_options options = {.name = "test"};
	struct dwarf_result result;
	assert_true(run("gcc -O1 -g -o program small.c"));
	int fd = open_program("program");
	assert_int_equal(dwarf_read(fd, &options, fail_sink, NULL, &result, NULL), -EBADMSG);
	assert_int_equal(result.units_damaged, 0);
	close(fd);
}

/* Bytes of the debug sections turned into others: whatever comes of it keeps the rules of code_unit.h and ends. */
static void test_damage(void **state)
{
	struct buffer file = {0};
	char path[128];
	assert_true(run("gcc -O1 -g -o whole small.c && objcopy --only-keep-debug whole program"));
	snprintf(path, sizeof(path), "%s/program", directory);
	assert_int_equal(io_read_file(path, 1 << 20, &file, NULL), 0);
	uint64_t seed = 7;
	for (unsigned round = 0; round < 3000; round++) {
		uint8_t kept[4];
		size_t at[4];
		for (unsigned i = 0; i < 4; i++) {
			seed = hash64_mix(seed + i + 1);
			at[i] = 0x200 + seed % (file.len - 0x200);
			kept[i] = file.data[at[i]];
			file.data[at[i]] = (uint8_t)(seed >> 40);
		}
		int fd = memfd_create("damaged", MFD_CLOEXEC);
		struct test_units units = {0};
		struct dwarf_result result;
		struct error err = {0};
		assert_int_equal(io_pwrite(fd, file.data, round % 5 ? file.len : seed % file.len, 0, "damaged", NULL), 0);
		int r = read_fd(fd, &units, &result, &err);
		assert_int_not_equal(r, -EINVAL);
		close(fd);
		test_units_release(&units);
		for (unsigned i = 4; i-- > 0;)
			file.data[at[i]] = kept[i];
	}
	buffer_release(&file);
}

static void test_faults(void **state)
{
	assert_true(run("gcc -O1 -gdwarf-5 -gsplit-dwarf -c small.c && gcc -o program small.o && rm small.o"));
	int fd = open_program("program");
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
	for (size_t k = 0; k < 2; k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			struct test_units units = {0};
			struct dwarf_result result;
			struct error err = {0};
			fault_arm(kinds[k], n, 0);
			int r = read_fd(fd, &units, &result, &err);
			reached = fault_disarm(kinds[k]);
			assert_true(!reached || r < 0 || result.units_incomplete + result.units_damaged > 0);
			if (r < 0)
				assert_int_equal(err.code, r);
			test_units_release(&units);
		}
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	     cmocka_unit_test(test_split),  cmocka_unit_test(test_what_is_not_dwarf),
		cmocka_unit_test(test_sink_ends_it), cmocka_unit_test(test_damage), cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
