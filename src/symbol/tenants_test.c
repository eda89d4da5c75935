/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolizers of several tenants over one directory of uploads: each names code by what it may see, and they take turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "symbol/source_text.h"
#include "symbol/symbol_int.h"
#include "symbol/test_uploads.h"

static const char *const names[] = {"one", "two"};
static const struct uploads_scope of_one = {&names[0], 1}, of_two = {&names[1], 1},
				  two_and_shared = {(const char *[]){"two", "one"}, 2};
static const struct symbolizer_want patient = {.wait_ns = -1};

static void upload(struct uploads *uploads, const char *tenant, enum upload_kind kind, struct bytes file)
{
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	begin.kind = kind;
	snprintf(begin.tenant, sizeof(begin.tenant), "%s", tenant);
	assert_int_equal(send_all(uploads, &begin, file), 0);
}

static struct symbolizer *make(struct fixture *fixture, const struct uploads_scope *scope, struct build_turns *turns,
			       unsigned workers)
{
	struct symbolizer *s;
	struct symbolizer_options options = {
		.no_host_files = true, .uploads = fixture->uploads, .scope = *scope, .turns = turns, .workers = workers};
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	return s;
}

/* The name at the start of the program's code; "" = none. */
static const char *name_of(struct symbolizer *s)
{
	static char name[64];
	struct symbol_view *view;
	struct symbol_frame frames[4];
	if (symbolizer_view(s, TEST_ELF_BUILD_ID, "", &patient, &view, NULL) < 0)
		return "";
	size_t count = symbol_view_frames(view, TEST_ELF_TEXT_ADDRESS, frames, 4);
	snprintf(name, sizeof(name), "%s", count ? frames[0].name : "");
	symbol_view_free(view);
	return name;
}

/* Ids that a file carries, contents by key, and what is on its way are a tenant's as well. */
static void test_tenants_see_nothing_of_others(void **state)
{
	struct fixture *fixture = *state;
	static const char key[] = "11111111111111111111111111111111";
	const struct uploads_scope one = of_one, two = of_two;
	char id[UPLOAD_ID_MAX], content[UPLOAD_CONTENT_HEX], contents[1][UPLOAD_CONTENT_HEX];
	struct uploads *uploads = fixture->uploads;
	struct uploads_stats stats;
	uint64_t offset;
	int fd;
	struct upload_begin begin = begin_of(OTHER_BUILD_ID, fixture->elf.len);
	begin.without_build_id = true;
	begin.id_type = FILE_ID_HASH;
	snprintf(begin.tenant, sizeof(begin.tenant), "one");
	snprintf(begin.content_key, sizeof(begin.content_key), "%s", key);
	set_hash(&begin, buffer_bytes(&fixture->elf));
	assert_int_equal(uploads_begin(uploads, &begin, id, &offset, NULL), 0);
	assert_true(uploads_is_coming(uploads, &one, OTHER_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_false(uploads_is_coming(uploads, &two, OTHER_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_int_equal(uploads_write(uploads, id, 0, buffer_bytes(&fixture->elf), &offset, NULL), 0);
	assert_int_equal(uploads_finish(uploads, id, NULL), 0);
	assert_string_equal(fixture->arrivals.tenant, "one");
	for (unsigned start = 0; start < 2; start++) {
		static const char *const ids[] = {OTHER_BUILD_ID, TEST_ELF_BUILD_ID};
		uploads = fixture->uploads;
		for (unsigned i = 0; i < 2; i++) {
			assert_true(uploads_has(uploads, &one, ids[i], UPLOAD_DEBUGINFO));
			assert_int_equal(uploads_list_contents(uploads, &one, ids[i], contents, 1), 1);
			memcpy(content, contents[0], sizeof(content));
			assert_true(uploads_has_other_content(uploads, &one, ids[i], UPLOAD_DEBUGINFO, "x"));
			assert_false(uploads_has(uploads, &two, ids[i], UPLOAD_DEBUGINFO));
			assert_false(uploads_has_content(uploads, &two, ids[i], UPLOAD_DEBUGINFO, key));
			assert_false(uploads_has_other_content(uploads, &two, ids[i], UPLOAD_DEBUGINFO, "x"));
			assert_false(uploads_has_same(uploads, &two, ids[i], UPLOAD_DEBUGINFO, begin.hash));
			assert_int_equal(uploads_list_contents(uploads, &two, ids[i], contents, 1), 0);
			assert_int_equal(uploads_open_content(uploads, &two, ids[i], content, &fd, NULL), -ENOENT);
			assert_int_equal(uploads_open_file(uploads, &two, ids[i], UPLOAD_DEBUGINFO, &fd, NULL), -ENOENT);
		}
		assert_true(uploads_has_content(uploads, &one, OTHER_BUILD_ID, UPLOAD_DEBUGINFO, key));
		uploads_get_tenant_stats(uploads, "one", &stats);
		assert_int_equal(stats.files, 1);
		assert_int_equal(stats.bytes, fixture->elf.len);
		uploads_get_tenant_stats(uploads, "two", &stats);
		assert_int_equal(stats.files + stats.bytes + stats.open, 0);
		reopen(fixture, NULL);
	}
}

/* Who sends much pushes out what is his own, and takes no more than his part of the uploads at once. */
static void test_tenants_do_not_push_each_other_out(void **state)
{
	struct fixture *fixture = *state;
	const struct uploads_scope small = of_one, large = of_two;
	struct bytes file = buffer_bytes(&fixture->elf);
	struct uploads_stats stats;
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	reopen(fixture, &(struct uploads_options){.bytes_max = 4 * file.len, .open_max = 4, .tenant_open_max = 2});
	for (unsigned i = 0; i < 12; i++) {
		struct upload_begin begin = begin_of("", file.len);
		begin.without_build_id = true;
		snprintf(begin.build_id, sizeof(begin.build_id), "%08x", i);
		snprintf(begin.tenant, sizeof(begin.tenant), "%s", names[i > 0]);
		assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	}
	assert_true(uploads_has(fixture->uploads, &small, "00000000", UPLOAD_DEBUGINFO)); /* the oldest of all */
	assert_true(uploads_has(fixture->uploads, &large, "0000000b", UPLOAD_DEBUGINFO));
	assert_false(uploads_has(fixture->uploads, &large, "00000001", UPLOAD_DEBUGINFO));
	uploads_get_stats(fixture->uploads, &stats);
	assert_in_range(stats.bytes, 1, 4 * file.len);
	for (unsigned i = 0; i < 5; i++) {
		struct upload_begin begin = begin_of("", file.len);
		begin.without_build_id = true;
		snprintf(begin.build_id, sizeof(begin.build_id), "%08x", i + 100);
		snprintf(begin.tenant, sizeof(begin.tenant), "%s", names[i < 3]);
		assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), i == 2 ? -EAGAIN : 0);
	}
}

static void test_names_by_own_uploads(void **state)
{
	struct fixture *fixture = *state;
	static const struct test_symbol others[] = {{"of_two", 0, 16, STT_FUNC, STB_GLOBAL, 0}};
	_cleanup_(buffer_release) struct buffer changed = {0};
	test_elf_build(&(struct test_elf){.symbols = others, .symbol_count = 1}, &changed);
	upload(fixture->uploads, "one", UPLOAD_DEBUGINFO, buffer_bytes(&fixture->elf));
	struct symbolizer *one = make(fixture, &of_one, NULL, 0), *two = make(fixture, &of_two, NULL, 0);
	struct symbolizer *shared = make(fixture, &two_and_shared, NULL, 0);
	struct symbolizer *none = make(fixture, &(struct uploads_scope){0}, NULL, 0);
	bool later;
	assert_string_equal(name_of(one), "main");
	assert_string_equal(name_of(two), "");
	assert_string_equal(name_of(none), "");
	assert_string_equal(name_of(shared), "main");
	/* Who lacks it is asked for it, although somebody else has it. */
	assert_true(symbolizer_wants(two, TEST_ELF_BUILD_ID, "", &later));
	assert_false(symbolizer_wants(one, TEST_ELF_BUILD_ID, "", &later));
	upload(fixture->uploads, "one", UPLOAD_EXECUTABLE, buffer_bytes(&fixture->elf));
	upload(fixture->uploads, "two", UPLOAD_DEBUGINFO, buffer_bytes(&changed));
	symbolizer_arrived(two, TEST_ELF_BUILD_ID);
	symbolizer_arrived(shared, TEST_ELF_BUILD_ID);
	assert_string_equal(name_of(two), "of_two");
	assert_string_equal(name_of(shared), "of_two"); /* what is shared takes no part */
	assert_string_equal(name_of(one), "main");
	assert_string_equal(name_of(none), "");
	symbolizer_free(one);
	symbolizer_free(two);
	symbolizer_free(shared);
	symbolizer_free(none);
}

static void test_code_of_others(void **state)
{
	struct fixture *fixture = *state;
	upload(fixture->uploads, "one", UPLOAD_EXECUTABLE, buffer_bytes(&fixture->elf));
	static const struct uploads_scope *const scopes[] = {&of_one, &of_two, &two_and_shared};
	for (unsigned i = 0; i < 3; i++) {
		struct code_bytes code;
		struct symbolizer *s = make(fixture, scopes[i], NULL, 0);
		int r = code_bytes_read(s, TEST_ELF_BUILD_ID, "", TEST_ELF_TEXT_ADDRESS, 4, NULL, &code, NULL);
		assert_int_equal(r, i == 1 ? -ENOENT : 0);
		if (r == 0)
			buffer_release(&code.bytes);
		symbolizer_free(s);
	}
}

/* All come to their end by one turn, and who waits for one can be ended. */
static void test_turns(void **state)
{
	struct fixture *fixture = *state;
	struct build_turns *turns;
	struct symbolizer *all[4];
	atomic_bool stop = false;
	upload(fixture->uploads, "one", UPLOAD_DEBUGINFO, buffer_bytes(&fixture->elf));
	assert_int_equal(build_turns_new(1, &turns, NULL), 0);
	assert_true(build_turns_take(turns, &stop));
	for (unsigned i = 0; i < 4; i++) {
		all[i] = make(fixture, i % 2 ? &two_and_shared : &of_one, turns, 2);
		symbolizer_note(all[i], TEST_ELF_BUILD_ID, "", 1);
	}
	all[0] = symbolizer_free(all[0]);
	struct symbolizer_stats stats;
	for (unsigned i = 1; i < 4; i++) {
		symbolizer_get_stats(all[i], &stats);
		assert_int_equal(stats.builds + stats.running, 0);
	}
	build_turns_give(turns);
	for (unsigned i = 1; i < 4; i++) {
		assert_string_equal(name_of(all[i]), "main");
		symbolizer_free(all[i]);
	}
	atomic_store(&stop, true);
	assert_true(build_turns_take(turns, &stop)); /* it is there */
	assert_false(build_turns_take(turns, &stop));
	build_turns_free(turns);
}

/* A limit that becomes smaller holds soon, also for what is there. */
static void test_limits_that_change(void **state)
{
	struct fixture *fixture = *state;
	struct symbolizer *s = make(fixture, &of_one, NULL, 0);
	struct symbolizer_stats stats;
	struct symbol_status *list;
	size_t count;
	char id[16];
	upload(fixture->uploads, "one", UPLOAD_DEBUGINFO, buffer_bytes(&fixture->elf));
	assert_string_equal(name_of(s), "main");
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.tables, 1);
	symbolizer_set_limits(s, &(struct symbolizer_limits){.memory_max_bytes = 1, .entries_max = 4});
	symbolizer_get_stats(s, &stats);
	assert_int_equal(stats.tables, 0);
	assert_string_equal(name_of(s), "main");
	symbolizer_set_limits(s, &(struct symbolizer_limits){.entries_max = 20});
	for (unsigned i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "%08x", i);
		symbolizer_note(s, id, "", 1);
	}
	symbolizer_set_limits(s, &(struct symbolizer_limits){.entries_max = 5});
	symbolizer_note(s, "ffffffff", "", 1);
	assert_int_equal(symbolizer_list(s, &(struct symbol_list_options){0}, &list, &count, NULL, NULL, NULL), 0);
	assert_in_range(count, 1, 6);
	free(list);
	symbolizer_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
	const struct CMUnitTest tests[] = {
		TEST(test_tenants_see_nothing_of_others),
		TEST(test_tenants_do_not_push_each_other_out),
		TEST(test_names_by_own_uploads),
		TEST(test_code_of_others),
		TEST(test_turns),
		TEST(test_limits_that_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
