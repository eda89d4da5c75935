/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of several binaries of one id. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/test_uploads.h"

#define KEY(digit) digit digit digit digit digit digit digit digit
static const char *const keys[] = {KEY("1111"), KEY("2222"), KEY("3333"), KEY("4444"), KEY("5555")};

static void make_program(struct buffer *out, const char *name)
{
	const struct test_symbol symbol = {name, 0, 16, STT_FUNC, STB_GLOBAL, 0};
	buffer_release(out);
	buffer_init(out, MIB);
	test_elf_build(&(struct test_elf){.symbols = &symbol, .symbol_count = 1}, out);
}

static struct upload_begin begin_content(const char *content_key, const struct buffer *file)
{
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file->len);
	snprintf(begin.content_key, sizeof(begin.content_key), "%s", content_key);
	return begin;
}

static size_t count_contents(struct fixture *fixture)
{
	char contents[8][UPLOAD_CONTENT_HEX];
	return uploads_list_contents(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents, 8);
}

/* Several binaries of one id: each has its file, also after a restart. */
static void test_contents_of_one_id(void **state)
{
	struct fixture *fixture = *state;
	struct buffer files[2] = {{0}};
	struct uploads_stats stats;
	for (size_t i = 0; i < 2; i++) {
		make_program(&files[i], i == 0 ? "one" : "two");
		struct upload_begin begin = begin_content(keys[i], &files[i]);
		assert_false(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[i]));
		assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[i])), 0);
		assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[i])), -EEXIST);
	}
	for (size_t start = 0; start < 2; start++) {
		uploads_get_stats(fixture->uploads, &stats);
		assert_int_equal(stats.files, 2);
		assert_int_equal(count_contents(fixture), 2);
		assert_true(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[0]));
		assert_true(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[1]));
		assert_false(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[2]));
		assert_false(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_EXECUTABLE, keys[0]));
		reopen(fixture, NULL);
	}
	/* The same file of a third binary, such as one that differs in its data only, is no other content. */
	struct upload_begin begin = begin_content(keys[2], &files[0]);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[0])), 0);
	assert_int_equal(count_contents(fixture), 2);
	/* By force: of that binary only. */
	begin = begin_content(keys[0], &files[1]);
	begin.force = true;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[1])), 0);
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 3);
	for (size_t i = 0; i < 2; i++)
		buffer_release(&files[i]);
}

/* One that nobody says what it is of. */
static void test_uploads_without_content(void **state)
{
	struct fixture *fixture = *state;
	struct buffer files[3] = {{0}};
	for (size_t i = 0; i < 3; i++)
		make_program(&files[i], (const char *const[]){"one", "two", "three"}[i]);
	/* It replaces the only one, by force, and then stands for the id. */
	struct upload_begin begin = begin_content(keys[0], &files[0]);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[0])), 0);
	begin = begin_content("", &files[1]);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[1])), -EEXIST);
	begin.force = true;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[1])), 0);
	assert_int_equal(count_contents(fixture), 1);
	assert_false(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[0]));
	/* The same file once more, by somebody who knows: it is known now. */
	begin = begin_content(keys[1], &files[1]);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[1])), 0);
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 1);
	/* Of two, nobody knows which it is to replace: it comes beside them, and replaces the next of its kind. */
	begin = begin_content(keys[0], &files[0]);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[0])), 0);
	for (size_t i = 0; i < 2; i++) {
		begin = begin_content("", &files[2]);
		begin.force = true;
		assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&files[2])), 0);
		assert_int_equal(count_contents(fixture), 3);
		make_program(&files[2], "four");
	}
	reopen(fixture, NULL);
	assert_int_equal(count_contents(fixture), 3);
	for (size_t i = 0; i < 3; i++)
		buffer_release(&files[i]);
}

static void test_contents_are_limited(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	char id[UPLOAD_CONTENTS_MAX][UPLOAD_ID_MAX], fifth[UPLOAD_ID_MAX];
	uint64_t offset;
	struct uploads_stats stats;
	/* Two are there, two on their way. */
	for (size_t i = 0; i < UPLOAD_CONTENTS_MAX; i++) {
		struct upload_begin begin = begin_content(keys[i], &fixture->elf);
		if (i < 2)
			assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
		else
			assert_int_equal(uploads_begin(fixture->uploads, &begin, id[i], &offset, NULL), 0);
	}
	assert_true(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[2]));
	assert_false(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[0]));
	struct upload_begin begin = begin_content(keys[4], &fixture->elf);
	struct error err = {0};
	assert_int_equal(uploads_begin(fixture->uploads, &begin, fifth, &offset, &err), -EDQUOT);
	assert_non_null(strstr(err.message, "4 different files"));
	begin.force = true;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, fifth, &offset, NULL), -EDQUOT);
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.contents_refused, 2);
	assert_int_equal(stats.refused, 2);
	/* Others have room of their own. */
	snprintf(begin.tenant, sizeof(begin.tenant), "other");
	assert_int_equal(uploads_begin(fixture->uploads, &begin, fifth, &offset, NULL), 0);
	/* One that is known goes on. */
	begin = begin_content(keys[3], &fixture->elf);
	set_hash(&begin, file);
	assert_int_equal(uploads_abort(fixture->uploads, id[3], NULL), 0);
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	/* And what is no key is none. */
	static const char *const bad[] = {"x", "../../../../../../../../../../etc", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin = begin_content(bad[i], &fixture->elf);
		assert_int_equal(uploads_begin(fixture->uploads, &begin, fifth, &offset, NULL), -EINVAL);
	}
}

/* An upload is resumed as what it was begun as. */
static void test_contents_are_resumed(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	char ids[2][UPLOAD_ID_MAX], again[UPLOAD_ID_MAX];
	uint64_t offset;
	for (size_t i = 0; i < 2; i++) {
		struct upload_begin begin = begin_content(keys[i], &fixture->elf);
		set_hash(&begin, file);
		assert_int_equal(uploads_begin(fixture->uploads, &begin, ids[i], &offset, NULL), 0);
		assert_int_equal(offset, 0);
		assert_int_equal(uploads_write(fixture->uploads, ids[i], 0, (struct bytes){file.data, 600 + i}, &offset, NULL),
				 0);
	}
	reopen(fixture, NULL);
	for (size_t i = 0; i < 2; i++) {
		struct upload_begin begin = begin_content(keys[i], &fixture->elf), found;
		set_hash(&begin, file);
		assert_int_equal(uploads_get(fixture->uploads, ids[i], &found, &offset, NULL), 0);
		assert_string_equal(found.content_key, keys[i]);
		assert_int_equal(uploads_begin(fixture->uploads, &begin, again, &offset, NULL), 0);
		assert_string_equal(again, ids[i]);
		assert_int_equal(offset, 600 + i);
		assert_int_equal(send_all(fixture->uploads, &begin, file), -EBUSY);
		assert_int_equal(uploads_write(fixture->uploads, ids[i], offset,
					       (struct bytes){file.data + offset, file.len - offset}, &offset, NULL),
				 0);
		assert_int_equal(uploads_finish(fixture->uploads, ids[i], NULL), 0);
		assert_true(uploads_has_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, keys[i]));
	}
}

static void test_version_2_goes_on(void **state)
{
	struct fixture *fixture = *state;
	char command[200], id[UPLOAD_ID_MAX];
	uint64_t offset = 0;
	struct uploads_stats stats;
	fixture->uploads = uploads_close(fixture->uploads);
	io_remove_tree(fixture->directory, NULL);
	snprintf(command, sizeof(command), "cp -r tests/symbol/golden/uploads_v2 %s", fixture->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(try_open(fixture, NULL), 0);
	assert_true(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	for (size_t start = 0; start < 2; start++) {
		uploads_get_stats(fixture->uploads, &stats);
		assert_int_equal(stats.files, 1);
		assert_int_equal(stats.open, 1);
		reopen(fixture, NULL);
	}
	struct upload_begin begin = {.kind = UPLOAD_EXECUTABLE, .size = 1048, .build_id = TEST_ELF_BUILD_ID, .hash = "abc"};
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(offset, 600);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
	const struct CMUnitTest tests[] = {
		TEST(test_contents_of_one_id),	 TEST(test_uploads_without_content), TEST(test_contents_are_limited),
		TEST(test_contents_are_resumed), TEST(test_version_2_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
