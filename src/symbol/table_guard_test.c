/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbol/table_guard.h"

#define PAGE  4096u
#define PAGES 4u

static uint8_t *map_file(int *ret_fd)
{
	char path[] = "/tmp/wick-guard-test-XXXXXX";
	static uint8_t page[PAGE];
	*ret_fd = mkstemp(path);
	assert_true(*ret_fd >= 0);
	unlink(path);
	memset(page, 'x', sizeof(page));
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(write(*ret_fd, page, PAGE), PAGE);
	uint8_t *map = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, *ret_fd, 0);
	assert_true(map != MAP_FAILED);
	return map;
}

static void test_lost_pages_read_as_zeroes(void **state)
{
	int fds[2];
	uint8_t *a = map_file(&fds[0]), *b = map_file(&fds[1]);
	unsigned guard_a = table_guard_add(a, PAGES * PAGE), guard_b = table_guard_add(b, PAGES * PAGE);
	assert_true(guard_a > 0 && guard_b > 0 && guard_a != guard_b);
	assert_int_equal(((volatile uint8_t *)a)[3 * PAGE], 'x');
	assert_int_equal(ftruncate(fds[0], PAGE), 0);
	assert_false(table_guard_is_broken(guard_a));
	assert_int_equal(((volatile uint8_t *)a)[3 * PAGE + 17], 0);
	assert_true(table_guard_is_broken(guard_a));
	assert_int_equal(((volatile uint8_t *)a)[PAGE], 0);
	assert_int_equal(((volatile uint8_t *)a)[0], 'x');
	assert_false(table_guard_is_broken(guard_b));
	assert_int_equal(((volatile uint8_t *)b)[3 * PAGE], 'x');
	/* The number is given to another. */
	table_guard_remove(guard_a);
	munmap(a, PAGES * PAGE);
	close(fds[0]);
	a = map_file(&fds[0]);
	assert_int_equal(table_guard_add(a, PAGES * PAGE), guard_a);
	assert_false(table_guard_is_broken(guard_a));
	table_guard_remove(guard_a);
	table_guard_remove(guard_b);
	table_guard_remove(0);
	assert_false(table_guard_is_broken(0));
	munmap(a, PAGES * PAGE);
	munmap(b, PAGES * PAGE);
	close(fds[0]);
	close(fds[1]);
}

/* What is not guarded ends the process as ever. */
static void test_others_faults_are_theirs(void **state)
{
	int fd;
	uint8_t *map = map_file(&fd);
	table_guard_remove(table_guard_add(map, PAGES * PAGE));
	assert_int_equal(ftruncate(fd, 0), 0);
	for (int sent = 0; sent < 2; sent++) {
		pid_t pid = fork();
		if (pid == 0) {
			/* The report of a sanitizer, or of cmocka, whose handler was there before, is not wanted. */
			close(1);
			close(2);
			if (sent)
				raise(SIGBUS);
			_exit(((volatile uint8_t *)map)[PAGE]);
		}
		int status = 0;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	}
	munmap(map, PAGES * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_pages_read_as_zeroes),
		cmocka_unit_test(test_others_faults_are_theirs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
