// SPDX-License-Identifier: Apache-2.0
/* Which files hold Lua: the interpreters and libraries that are installed, and programs that are linked with the library, whose
 * symbols tell what has to be found without them. */
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
#include <string.h>
#include <unistd.h>

#include "base/test_programs.h"
#include "elf/test_elf.h"
#include "runtime/lua.h"

static int recognize(const char *path, struct lua_build *ret, struct error *err)
{
	struct elf_file file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	*err = (struct error){0};
	assert_int_equal(elf_file_open(&file, fd, path, err), 0);
	int r = lua_recognize(&file, ret, err);
	elf_file_release(&file);
	close(fd);
	return r;
}

static void check_installed(const char *path, uint32_t version)
{
	struct lua_build build;
	struct lua_process place;
	struct error err;

	assert_int_equal(recognize(path, &build, &err), 1);
	assert_int_equal(build.version, version);
	assert_true(build.loop_end - build.loop_start >= 4096 && build.loop_end - build.loop_start <= 64 * 1024);
	/* The others have it in memory. */
	assert_int_equal(build.pc_register < LUA_REGISTERS_NONE, version == 0x0501 || version == 0x0504);
	lua_place(&build, 0x100000, &place);
	assert_int_equal(place.listed.kind, RUNTIME_KIND_LUA);
	assert_true(place.listed.flags & LISTED_STATES);
	assert_int_equal(place.listed.loop_start, build.loop_start + 0x100000);
	assert_int_equal(place.listed.loop_end, build.loop_end + 0x100000);
	assert_int_equal(place.listed.cold_end, build.cold_end ? build.cold_end + 0x100000 : 0);
	assert_int_equal(place.pc_register, build.pc_register);
}

static void test_installed(void **state)
{
	static const char *const patterns[] = {"/usr/bin/lua5.",      "",	  "/usr/lib/*/liblua5.", ".so.0",
					       "/usr/lib/*/liblua5.", "-c++.so.0"};
	bool any = false;

	for (uint32_t minor = 1; minor <= 4; minor++) {
		for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i += 2) {
			char pattern[64];
			glob_t found;
			snprintf(pattern, sizeof(pattern), "%s%u%s", patterns[i], minor, patterns[i + 1]);
			if (glob(pattern, 0, NULL, &found) == 0) {
				check_installed(found.gl_pathv[0], 0x0500 | minor);
				any = true;
			}
			globfree(&found);
		}
	}
	if (!any)
		skip();
}

/* Runs a command that prints two numbers in hexadecimal. */
static bool run(const char *command, uint64_t ret[static 2])
{
	char line[256] = "";
	FILE *out = popen(command, "r");

	assert_non_null(out);
	char *got = fgets(line, sizeof(line), out);
	return pclose(out) == 0 && got && sscanf(line, "%lx %lx", &ret[0], &ret[1]) == 2;
}

/* A program that holds the library: by its symbols, and stripped. */
static void test_linked(void **state)
{
	char folder[] = "/tmp/wick-lua-XXXXXX", command[1024], path[64];
	struct lua_build build;
	struct error err;
	bool any = false;

	if (!test_program_is_there("gcc") || !test_program_is_there("nm") || !test_program_is_there("strip"))
		skip();
	assert_non_null(mkdtemp(folder));
	for (uint32_t minor = 1; minor <= 4; minor++) {
		uint64_t loop[2];
		snprintf(command, sizeof(command),
			 "cd %s && echo 'void *luaL_newstate(void); int main(void) { return !luaL_newstate(); }' >p.c && "
			 "gcc -rdynamic -o program p.c -Wl,--whole-archive -l:liblua5.%u.a -Wl,--no-whole-archive -lm -ldl "
			 "2>err && "
			 "nm -S program | awk '$4 == \"luaV_execute\" { print $1, $2 }' && strip -o stripped program",
			 folder, minor);
		if (!run(command, loop))
			continue;
		any = true;
		for (unsigned i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "%s/%s", folder, i ? "stripped" : "program");
			assert_int_equal(recognize(path, &build, &err), 1);
			assert_int_equal(build.version, 0x0500 | minor);
			assert_int_equal(build.loop_start, loop[0]);
			/* Up to the end of its call frame information, or of the symbol. */
			assert_int_equal(build.loop_end, loop[0] + loop[1]);
		}
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	if (!any)
		skip();
}

/* A release that is in no table, by its own words. */
static void test_unknown(void **state)
{
	struct lua_build build;
	struct error err = {0};
	struct elf_file file;
	int fd = open("/usr/bin/lua5.4", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip();
	size_t len = (size_t)lseek(fd, 0, SEEK_END);
	uint8_t *data = malloc(len);
	assert_true(data && pread(fd, data, len, 0) == (ssize_t)len);
	close(fd);
	uint8_t *text = memmem(data, len, "$LuaVersion: Lua 5.4.", 21);
	assert_non_null(text);
	memcpy(text + 13, "Lua 5.7.1", 9);
	assert_int_equal(elf_file_open_memory(&file, (struct bytes){data, len}, "test", &err), 0);
	assert_int_equal(lua_recognize(&file, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "5.7.1"));
	elf_file_release(&file);
	free(data);
}

static void test_others(void **state)
{
	struct lua_build build;
	struct error err;

	assert_int_equal(recognize("/proc/self/exe", &build, &err), 0);
	if (access("/usr/bin/luajit", R_OK) == 0)
		assert_int_equal(recognize("/usr/bin/luajit", &build, &err), 0);
}

static void test_layouts(void **state)
{
	struct lua_layout layout;

	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		assert_true(lua_layout_of(version, version == 0x0503 ? 6 : 4, &layout));
		const struct lua_process *walk = &layout.walk;
		assert_true(walk->state_bytes <= LISTED_READ_WORDS * 8 && walk->call_bytes <= LISTED_READ_WORDS * 8);
		assert_true(walk->state_error + 8 <= walk->state_bytes && walk->call_pc + 8 <= walk->call_bytes);
		assert_true(walk->prototype_from + walk->prototype_bytes <= layout.prototype.bytes);
		assert_int_equal(walk->prototype_code + walk->prototype_from, layout.prototype.code);
		assert_int_equal(walk->prototype_size + walk->prototype_from, layout.prototype.code_count);
		assert_int_equal(walk->prototype_source + walk->prototype_from, layout.prototype.source);
		assert_int_equal(walk->prototype_line + walk->prototype_from, layout.prototype.first_line);
	}
	assert_false(lua_layout_of(0x0504, 1, &layout)); /* its calls do not say what the loop was entered for */
	assert_false(lua_layout_of(0x0503, 2, &layout));
	assert_false(lua_layout_of(0x0505, 0, &layout));
	assert_false(lua_layout_of(0x0500, 0, &layout));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed), cmocka_unit_test(test_linked),  cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_others),	  cmocka_unit_test(test_layouts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
