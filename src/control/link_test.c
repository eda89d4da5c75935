/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "control/link.h"

static void test_binary_arrives_with_its_descriptor(void **state)
{
	(void)state;
	int fds[2], got = -1;
	assert_int_equal(link_new(fds, NULL), 0);
	struct link_message sent = {.kind = LINK_BINARY, .binary = {.build_id = "abcd", .path = "/bin/true"}}, received;
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(link_send(fds[1], &sent, file), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, NULL), 1);
	assert_string_equal(received.binary.build_id, "abcd");
	struct stat a, b;
	assert_int_equal(fstat(file, &a), 0);
	assert_int_equal(fstat(got, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	io_close(got);
	io_close(file);
	io_close(fds[0]);
	io_close(fds[1]);
}

static void test_end_of_link(void **state)
{
	(void)state;
	int fds[2], got = -1;
	assert_int_equal(link_new(fds, NULL), 0);
	struct link_message message = {.kind = LINK_STATS, .stats = {.samples_taken = 5}};
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	io_close(fds[1]);
	memset(&message, 0, sizeof(message));
	assert_int_equal(link_receive(fds[0], &message, &got, NULL), 1);
	assert_int_equal(message.stats.samples_taken, 5);
	assert_int_equal(got, -1);
	assert_int_equal(link_receive(fds[0], &message, &got, NULL), 0);
	io_close(fds[0]);
}

static void test_a_full_link_drops_and_does_not_wait(void **state)
{
	(void)state;
	int fds[2], r = 0, sent = 0;
	assert_int_equal(link_new(fds, NULL), 0);
	struct link_message message = {.kind = LINK_STATS};
	while ((r = link_send(fds[1], &message, -1)) == 0)
		assert_true(++sent < 1000000);
	assert_int_equal(r, -EAGAIN);
	assert_true(sent > 10);
	io_close(fds[0]);
	assert_int_equal(link_send(fds[1], &message, -1), -EPIPE);
	io_close(fds[1]);
}

static void test_malformed_messages_are_refused(void **state)
{
	(void)state;
	int fds[2], got = -1;
	struct error err = {0};
	assert_int_equal(link_new(fds, NULL), 0);
	struct link_message message = {.kind = 99}, received;
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), -EBADMSG);
	message = (struct link_message){.kind = LINK_STATS, .stats = {.loss_count = LINK_LOSSES_MAX + 1}};
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), -EBADMSG);
	message = (struct link_message){.kind = LINK_STATS, .stats = {.cost_count = LINK_LOSSES_MAX + 1}};
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), -EBADMSG);
	message = (struct link_message){.kind = LINK_STATS, .stats = {.jit_problem_count = LINK_LOSSES_MAX + 1}};
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), -EBADMSG);
	assert_int_equal(send(fds[1], "short", 5, 0), 5);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), -EBADMSG);
	message = (struct link_message){.kind = LINK_BINARY};
	memset(&message.binary, 'x', sizeof(message.binary)); /* nothing is terminated */
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), 1);
	assert_int_equal(strlen(received.binary.path), sizeof(received.binary.path) - 1);
	message = (struct link_message){.kind = LINK_STATS, .stats.target_count = LINK_TARGETS_MAX};
	for (size_t i = 0; i < LINK_TARGETS_MAX; i++)
		memset(message.stats.targets[i].name, 'x', sizeof(message.stats.targets[i].name));
	assert_int_equal(link_send(fds[1], &message, -1), 0);
	assert_int_equal(link_receive(fds[0], &received, &got, &err), 1);
	for (size_t i = 0; i < LINK_TARGETS_MAX; i++)
		assert_int_equal(strnlen(received.stats.targets[i].name, sizeof(received.stats.targets[i].name)),
				 sizeof(received.stats.targets[i].name) - 1);
	io_close(fds[0]);
	io_close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binary_arrives_with_its_descriptor),
		cmocka_unit_test(test_end_of_link),
		cmocka_unit_test(test_a_full_link_drops_and_does_not_wait),
		cmocka_unit_test(test_malformed_messages_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
