/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens in files: what is one, and what becomes of a client's when its file is replaced, spoilt or taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/test_files.h"
#include "net/client_int.h"

static void check_token(struct test_files *files, const char *text, mode_t mode, int want, const char *token)
{
	_cleanup_(mem_freep) char *got = NULL;
	struct error err = {0};
	int r = net_token_read(test_write(files, "token", text, mode), &got, &err);
	if (r != want)
		fail_msg("'%s' with mode %o: %d %s", text, mode, r, err.message);
	if (r == 0)
		assert_string_equal(got, token);
	else
		assert_null(got);
	if (r < 0)
		assert_non_null(strstr(err.message, files->directory));
}

static void test_token(void **state)
{
	struct test_files files;
	struct error err = {0};
	char *token = NULL;
	(void)state;
	test_files_make(&files);
	check_token(&files, "12345678", 0600, 0, "12345678");
	check_token(&files, "  \t12345678 \r\nsecond line\n", 0400, 0, "12345678");
	check_token(&files, "\n\n12345678\n", 0640, 0, "12345678"); /* its group may read */
	check_token(&files, "12345678", 0660, -EACCES, NULL);
	check_token(&files, "12345678", 0644, -EACCES, NULL);
	check_token(&files, "12345678", 0602, -EACCES, NULL);
	check_token(&files, "12345678", 0601, -EACCES, NULL);
	check_token(&files, "1234567", 0600, -EINVAL, NULL);
	check_token(&files, "", 0600, -EINVAL, NULL);
	check_token(&files, "\n \n", 0600, -EINVAL, NULL);
	check_token(&files, "12345678\0019", 0600, -EINVAL, NULL);
	assert_int_equal(net_token_read(test_path(&files, "missing"), &token, &err), -ENOENT);
	assert_non_null(strstr(err.message, "cannot read the token file"));
	assert_null(token);
	test_files_remove(&files);
}

/* As a request would do a second or more after the one before. */
static const char *token_now(struct net_client *client)
{
	client->token_looked_ns -= 2 * NS_PER_S;
	client_token_renew(client);
	return client->token;
}

static void test_renewal(void **state)
{
	struct test_files files;
	struct net_client *client;
	struct error err = {0};
	char first[PATH_MAX], second[PATH_MAX], link[PATH_MAX];
	(void)state;
	test_files_make(&files);
	snprintf(first, sizeof(first), "%s", test_write(&files, "first", "token-number-one\n", 0600));
	snprintf(second, sizeof(second), "%s", test_write(&files, "second", "token-number-two\n", 0600));
	snprintf(link, sizeof(link), "%s", test_path(&files, "link"));
	assert_int_equal(symlink(first, link), 0);
	struct net_client_options options = {.url = "http://127.0.0.1:1", .token = "not this one", .token_file = link};
	assert_int_equal(net_client_new(&options, &client, &err), 0);
	assert_string_equal(client->token, "token-number-one");
	assert_string_equal(token_now(client), "token-number-one");

	/* In place, by rename, and as another target of a link. */
	test_write(&files, "first", "token-number-1b\n", 0600);
	assert_string_equal(token_now(client), "token-number-1b");
	test_write(&files, "other", "token-number-1c\n", 0600);
	assert_int_equal(rename(test_path(&files, "other"), first), 0);
	assert_string_equal(token_now(client), "token-number-1c");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink(second, link), 0);
	assert_string_equal(token_now(client), "token-number-two");

	/* What is no token leaves the one before, until it is one. */
	test_write(&files, "second", "short", 0600);
	assert_string_equal(token_now(client), "token-number-two");
	assert_int_equal(unlink(link), 0);
	assert_string_equal(token_now(client), "token-number-two");
	test_write(&files, "second", "token-number-2b", 0644);
	assert_int_equal(symlink(second, link), 0);
	assert_string_equal(token_now(client), "token-number-two");
	assert_int_equal(chmod(second, 0600), 0);
	assert_string_equal(token_now(client), "token-number-2b");

	/* It is not looked at with each request. */
	test_write(&files, "second", "token-number-2c!", 0600);
	client->token_looked_ns = INT64_MAX;
	client_token_renew(client);
	assert_string_equal(client->token, "token-number-2b");
	client->token_looked_ns = 0;
	client_token_renew(client);
	assert_string_equal(client->token, "token-number-2c!");
	net_client_free(client);

	/* Of a new client it is an error. */
	assert_int_equal(unlink(link), 0);
	assert_int_equal(net_client_new(&options, &client, &err), -ENOENT);
	assert_non_null(strstr(err.message, link));
	test_files_remove(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_renewal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
