/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/upload/upload_queue.h"
#include "base/test_faults.h"
#include "base/time.h"

#define HOUR_NS (3600 * NS_PER_S)

struct asked {
	char text[4096];
	size_t count;
};

static void note(void *context, enum upload_what what, const struct upload_key *key, const char *path)
{
	struct asked *asked = context;
	size_t len = strlen(asked->text);
	snprintf(asked->text + len, sizeof(asked->text) - len, "%s%s=%s ", what == UPLOAD_KERNEL ? "kernel " : "", key->id,
		 path);
	asked->count++;
}

static const char *ask(struct upload_queue *queue, int64_t now_ns)
{
	static struct asked asked;
	asked = (struct asked){0};
	size_t count = upload_queue_ask(queue, now_ns, 1000, note, &asked);
	assert_int_equal(count, asked.count);
	return asked.text;
}

static struct upload_queue *make(void)
{
	struct upload_queue *queue = NULL;
	assert_int_equal(upload_queue_new(&queue, NULL), 0);
	return queue;
}

static void add(struct upload_queue *queue, const char *build_id, const char *path, int fd)
{
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &(struct upload_key){.id = build_id}, path, 42, fd), 0);
}

static uint64_t files_of(struct upload_queue *queue)
{
	struct upload_queue_stats stats;
	upload_queue_get_stats(queue, &stats);
	return stats.files;
}

static void test_round(void **state)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	struct upload_item item;
	int64_t ask_ns, send_ns;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	add(queue, "aa", "/a", fd);
	add(queue, "bb", "/b", fd);
	add(queue, "cc", "/c", -1);
	add(queue, "aa", "/again", fd);
	add(queue, "", "/none", fd);
	add(queue, "not hex", "/none", fd);
	close(fd);
	assert_int_equal(files_of(queue), 2);
	assert_string_equal(ask(queue, 10), "aa=/a bb=/b cc=/c ");
	assert_string_equal(ask(queue, 10), "");
	assert_false(upload_queue_take(queue, 10, &item));
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, true, 20);
	upload_queue_answer(queue, &(struct upload_key){.id = "bb"}, false, 30);
	upload_queue_answer(queue, &(struct upload_key){.id = "dd"}, true, 0);
	upload_queue_answer_rest(queue, false, HOUR_NS);
	upload_queue_next(queue, &ask_ns, &send_ns);
	assert_int_equal(ask_ns, 30);
	assert_int_equal(send_ns, 20);
	assert_false(upload_queue_take(queue, 19, &item));
	assert_true(upload_queue_take(queue, 20, &item));
	assert_string_equal(item.build_id, "aa");
	assert_string_equal(item.path, "/a");
	assert_int_equal(item.pid, 42);
	assert_true(item.fd >= 0);
	assert_int_equal(item.tries, 0);
	upload_queue_done(queue, &item, UPLOAD_DONE, HOUR_NS + 1);
	assert_int_equal(files_of(queue), 1);
	assert_string_equal(ask(queue, 29), "");
	assert_string_equal(ask(queue, 30), "bb=/b ");
	upload_queue_answer(queue, &(struct upload_key){.id = "bb"}, false, 40);
	assert_string_equal(ask(queue, HOUR_NS), "bb=/b cc=/c ");
	upload_queue_clear(queue);
	assert_int_equal(files_of(queue), 0);
	assert_string_equal(ask(queue, 10 * HOUR_NS), "");
}

/* Of what is not wanted no descriptor is kept; of what may be wanted later it is. */
static void test_descriptors(void **state)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char build_id[16];
	for (unsigned i = 0; i < UPLOAD_QUEUE_FILES_MAX + 10; i++) {
		snprintf(build_id, sizeof(build_id), "%08x", i);
		add(queue, build_id, "/a", fd);
	}
	assert_int_equal(files_of(queue), UPLOAD_QUEUE_FILES_MAX);
	ask(queue, 0);
	upload_queue_answer(queue, &(struct upload_key){.id = "00000001"}, true, 0);
	upload_queue_answer(queue, &(struct upload_key){.id = "00000002"}, false, 5);
	upload_queue_answer_rest(queue, true, 5);
	assert_int_equal(files_of(queue), UPLOAD_QUEUE_FILES_MAX);
	ask(queue, 5);
	upload_queue_answer(queue, &(struct upload_key){.id = "00000002"}, false, 10);
	upload_queue_answer_rest(queue, false, HOUR_NS);
	assert_int_equal(files_of(queue), 2);
	close(fd);
}

static void test_failures(void **state)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	struct upload_item item;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	add(queue, "aa", "/a", fd);
	close(fd);
	ask(queue, 0);
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, true, 0);
	for (unsigned tries = 0; tries < 3; tries++) {
		assert_true(upload_queue_take(queue, 100 * tries, &item));
		assert_int_equal(item.tries, tries);
		assert_true(item.fd >= 0);
		assert_false(upload_queue_take(queue, 1000, &(struct upload_item){0}));
		upload_queue_done(queue, &item, UPLOAD_FAILED, 100 * (tries + 1));
		assert_false(upload_queue_take(queue, 100 * tries, &item));
	}
	assert_true(upload_queue_take(queue, 300, &item));
	upload_queue_done(queue, &item, UPLOAD_BUSY, 400);
	assert_int_equal(files_of(queue), 1);
	assert_false(upload_queue_take(queue, 1000, &item));
	assert_string_equal(ask(queue, 400), "aa=/a ");
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, true, 0);
	assert_true(upload_queue_take(queue, 400, &item));
	assert_int_equal(item.tries, 0);
	upload_queue_done(queue, &item, UPLOAD_DONE, HOUR_NS);
	assert_int_equal(files_of(queue), 0);
}

/* When full, what was settled longest ago makes room, and what waits does not. */
static void test_full(void **state)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	struct upload_queue_stats stats;
	char build_id[16];
	for (unsigned i = 0; i < UPLOAD_QUEUE_ENTRIES_MAX; i++) {
		snprintf(build_id, sizeof(build_id), "%08x", i);
		add(queue, build_id, "/a", -1);
	}
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &(struct upload_key){.id = "ffff"}, "/f", 1, -1), -ENOSPC);
	struct asked asked = {0};
	assert_int_equal(upload_queue_ask(queue, 0, 2, note, &asked), 2);
	upload_queue_answer_rest(queue, false, HOUR_NS);
	add(queue, "ffff", "/f", -1);
	add(queue, "eeee", "/e", -1);
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &(struct upload_key){.id = "dddd"}, "/d", 1, -1), -ENOSPC);
	upload_queue_get_stats(queue, &stats);
	assert_int_equal(stats.entries, UPLOAD_QUEUE_ENTRIES_MAX);
	assert_int_equal(stats.refused, 2);
	add(queue, "00000005", "/a", -1);
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &(struct upload_key){.id = "00000001"}, "/a", 1, -1), -ENOSPC);
}

static void test_kernel(void **state)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	assert_int_equal(upload_queue_add(queue, UPLOAD_KERNEL, &(struct upload_key){.id = "abcd"}, "[kernel.kallsyms]", 0, -1),
			 0);
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	assert_string_equal(ask(queue, 0), "kernel abcd=[kernel.kallsyms] ");
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	upload_queue_answer(queue, &(struct upload_key){.id = "abcd"}, false, 5);
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	ask(queue, 5);
	upload_queue_answer(queue, &(struct upload_key){.id = "abcd"}, true, 5);
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	struct upload_item item;
	assert_true(upload_queue_take(queue, 5, &item));
	assert_int_equal(item.what, UPLOAD_KERNEL);
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	upload_queue_done(queue, &item, UPLOAD_DONE, HOUR_NS);
	assert_true(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	ask(queue, HOUR_NS);
	assert_true(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	upload_queue_answer_rest(queue, false, 2 * HOUR_NS);
	assert_true(upload_queue_is_settled(queue, &(struct upload_key){.id = "abcd"}));
	assert_false(upload_queue_is_settled(queue, &(struct upload_key){.id = "ffff"}));
}

static int body(void *context)
{
	_cleanup_(upload_queue_freep) struct upload_queue *queue = NULL;
	struct upload_item item;
	int r = upload_queue_new(&queue, NULL);
	if (r == 0)
		r = upload_queue_add(queue, UPLOAD_BINARY, &(struct upload_key){.id = "aa"}, "/a", 1, STDIN_FILENO);
	if (r < 0)
		return r;
	ask(queue, 0);
	upload_queue_answer_rest(queue, true, 0);
	ask(queue, 0);
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, true, 0);
	if (!upload_queue_take(queue, 0, &item))
		return -ENOMEM;
	upload_queue_done(queue, &item, UPLOAD_DONE, 0);
	return 0;
}

/* Files of one id that are not the same, and ids of two types that are written alike. */
static void test_contents(void **state)
{
	static const char one[] = "11111111111111111111111111111111", two[] = "22222222222222222222222222222222";
	_cleanup_(upload_queue_freep) struct upload_queue *queue = make();
	const struct upload_key first = {.id = "aa", .content = one}, second = {.id = "aa", .content = two},
				hash = {.id = "aa", .id_type = FILE_ID_HASH, .content = one},
				bad = {.id = "aa", .content = "../../2222222222222222222222222"};
	struct upload_item item, other;
	int64_t ask_ns, send_ns;
	(void)state;
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &first, "/1", 0, -1), 0);
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &second, "/2", 0, -1), 0);
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &hash, "/3", 0, -1), 0);
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &second, "/4", 0, -1), 0);
	assert_string_equal(ask(queue, 0), "aa=/1 aa=/2 aa=/3 ");
	/* The second is wanted, and none of the others. */
	upload_queue_answer(queue, &second, true, 0);
	upload_queue_answer_rest(queue, false, HOUR_NS);
	assert_true(upload_queue_is_settled(queue, &first));
	assert_false(upload_queue_is_settled(queue, &second));
	assert_true(upload_queue_is_settled(queue, &hash));
	assert_true(upload_queue_take(queue, 0, &item));
	assert_string_equal(item.path, "/2");
	assert_string_equal(item.content, two);
	assert_int_equal(item.id_type, FILE_ID_GNU);
	assert_false(upload_queue_take(queue, 0, &other));
	upload_queue_done(queue, &item, UPLOAD_DONE, 2 * HOUR_NS);
	assert_true(upload_queue_is_settled(queue, &second));
	upload_queue_next(queue, &ask_ns, &send_ns);
	assert_int_equal(ask_ns, HOUR_NS);
	/* A server that knows no contents speaks of the id; each answer is of one of those in question. */
	assert_string_equal(ask(queue, 2 * HOUR_NS), "aa=/1 aa=/2 aa=/3 ");
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, true, 0);
	upload_queue_answer(queue, &(struct upload_key){.id = "aa"}, false, 3 * HOUR_NS);
	upload_queue_answer_rest(queue, false, 4 * HOUR_NS);
	assert_true(upload_queue_take(queue, 0, &item));
	assert_string_equal(item.path, "/1");
	upload_queue_done(queue, &item, UPLOAD_DONE, 5 * HOUR_NS);
	/* What is no key is as good as none. */
	assert_int_equal(upload_queue_add(queue, UPLOAD_BINARY, &bad, "/5", 0, -1), 0);
	assert_string_equal(ask(queue, 2 * HOUR_NS), "aa=/5 ");
	assert_false(upload_queue_is_settled(queue, &bad));
	upload_queue_answer(queue, &(struct upload_key){.id = "aa", .content = "x"}, true, 0);
	assert_false(upload_queue_take(queue, 0, &other));
}

static void test_memory(void **state)
{
	test_each_allocation(body, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),  cmocka_unit_test(test_descriptors), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_full),   cmocka_unit_test(test_contents),	   cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
