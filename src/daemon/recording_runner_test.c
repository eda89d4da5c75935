/* SPDX-License-Identifier: Apache-2.0 */
/* Requested recordings, with this test as the recorder: it is run anew with the arguments of `wick record`, and does
 * what the order's name of a unit says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"
#include "daemon/recording_runner.h"

static const char *argument_of(char **arguments, const char *option)
{
	for (; *arguments; arguments++)
		if (strcmp(*arguments, option) == 0)
			return arguments[1] ? arguments[1] : "";
	return "";
}

static int record(char **arguments)
{
	const char *what = argument_of(arguments, "--unit"), *path = argument_of(arguments, "-o");
	unsigned long long most = strtoull(argument_of(arguments, "--max-size"), NULL, 10);
	int fd = strcmp(what, "nothing") == 0 ? -1 : open(path, O_CREAT | O_WRONLY, 0600);
	if (strcmp(what, "too-much") == 0)
		return ftruncate(fd, (off_t)most + 1) < 0;
	if (strcmp(what, "just") == 0)
		return ftruncate(fd, (off_t)most) < 0 || most != RECORDING_PROFILE_MAX;
	if (strcmp(what, "refusal") == 0) {
		fprintf(stderr, "some library: noise\nwick record: the profile is larger than it may be\n");
		return 1;
	}
	return 0;
}

/* Runs a recorder to its end; what is left of it below is gone afterwards. */
static int run(const char *unit, struct error *err)
{
	char below[] = "/tmp/wick-ordered-XXXXXX";
	struct recording_request request = {.id = "1", .duration_ns = NS_PER_S, .frequency_hz = 99, .target_count = 1};
	struct recording_runner runner;
	struct stat file;
	snprintf(request.targets[0].name, sizeof(request.targets[0].name), "%s", unit);
	assert_non_null(mkdtemp(below));
	assert_int_equal(recording_runner_start(&runner, &request, time_now_ns(), NS_PER_S, below, err), 0);
	int r;
	while ((r = recording_runner_check(&runner, err)) > 0)
		time_sleep_ns(NS_PER_MS);
	assert_int_equal(stat(runner.path, &file), strcmp(unit, "nothing") == 0 ? -1 : 0);
	recording_runner_release(&runner);
	assert_int_equal(rmdir(below), 0);
	return r;
}

static void test_sizes(void **state)
{
	struct error err = {0};
	(void)state;
	assert_int_equal(run("just", &err), 0);
	assert_int_equal(run("too-much", &err), -EFBIG);
	assert_string_equal(err.message, "the profile is larger than 64 MiB");
}

static void test_reasons(void **state)
{
	struct error err = {0};
	(void)state;
	assert_int_equal(run("refusal", &err), -EIO);
	assert_string_equal(err.message, "the profile is larger than it may be");
	assert_int_equal(run("nothing", &err), -EIO);
	assert_string_equal(err.message, "the recorder wrote no profile");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_reasons),
	};
	if (argc > 1 && strcmp(argv[1], "record") == 0)
		return record(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
