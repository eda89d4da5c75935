/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns the data, and whom the kernel's setting lets read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "server/core/local.h"

static void test_owners(void **state)
{
	static const char *const users[] = {"nobody", "4242"};
	char directory[] = "/tmp/wick-local-test-XXXXXX";
	struct local_access local;
	assert_non_null(mkdtemp(directory));
	bool is_root = geteuid() == 0;
	if (is_root)
		assert_int_equal(chown(directory, 777, 777), 0);
	struct local_options options = {
		.data_directory = directory, .users = users, .user_count = 2, .user_list = "4244,,root", .invoker = 1001};
	assert_int_equal(local_init(&local, &options, NULL), 0);
	const unsigned owners[] = {0, geteuid(), 65534, 4242, 4244, 1001, is_root ? 777 : geteuid()};
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
		assert_true(local_is_owner(&local, owners[i]));
	assert_false(local_is_owner(&local, 4243));
	assert_non_null(strstr(local.names, "root"));
	assert_non_null(strstr(local.names, "nobody"));
	/* Who calls sudo as root, or nobody, adds nobody. */
	options = (struct local_options){.data_directory = directory};
	assert_int_equal(local_init(&local, &options, NULL), 0);
	assert_false(local_is_owner(&local, 1001));
	assert_false(local_is_owner(&local, 65534));
	rmdir(directory);
}

/* In a namespace of few users nobody's id is everybody's. */
static void test_unknown_users(void **state)
{
	struct local_access local = {.owners = {0, 65534, 1000}, .owner_count = 3, .unknown = 65534};
	assert_true(local_is_owner(&local, 65534));
	assert_false(local_is_unknown(&local, 65534));
	local.has_unknown = true;
	assert_true(local_is_unknown(&local, 65534));
	assert_false(local_is_owner(&local, 65534));
	assert_true(local_is_owner(&local, 1000));
	assert_true(local_is_owner(&local, 0));
}

static void test_bad_users(void **state)
{
	static const char *const bad[] = {"no-such-user-here", "-1", "4294967295", "99999999999"};
	struct local_access local;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};
		const struct local_options options = {.data_directory = "/", .users = &bad[i], .user_count = 1};
		assert_int_equal(local_init(&local, &options, &err), -EINVAL);
		assert_non_null(strstr(err.message, bad[i]));
	}
}

static void test_kernel(void **state)
{
	static const struct {
		const char *text;
		bool is_open;
	} cases[] = {{"-1\n", true}, {"0\n", true},  {"1\n", false}, {"2\n", false},
		     {"3\n", false}, {"4\n", false}, {"", false},    {"x\n", false}};
	struct local_access local;
	char path[] = "/tmp/wick-local-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(local_init(&local, &(struct local_options){.data_directory = "/"}, NULL), 0);
	local.paranoid_path = path;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(io_write_file(path, cases[i].text, strlen(cases[i].text), 0600, NULL), 0);
		assert_int_equal(local_is_for_anybody(&local, PERMIT_READ), cases[i].is_open);
		assert_int_equal(local_is_for_anybody(&local, PERMIT_READ_SERVER), cases[i].is_open);
		assert_false(local_is_for_anybody(&local, PERMIT_ADMIN));
		assert_true(local_is_for_anybody(&local, PERMIT_WRITE));
	}
	unlink(path);
	assert_false(local_is_for_anybody(&local, PERMIT_READ)); /* it cannot be read */
	local.read = LOCAL_ANYBODY;
	assert_true(local_is_for_anybody(&local, PERMIT_READ));
	assert_false(local_is_for_anybody(&local, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_owners), cmocka_unit_test(test_unknown_users),
					   cmocka_unit_test(test_bad_users), cmocka_unit_test(test_kernel)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
