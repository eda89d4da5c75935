/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: lines, gaps that are said, rotation by others and by itself. */
#include "server/access/audit.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "codec/json.h"

struct fixture {
	char directory[32], path[64];
};

static int set_up(void **state)
{
	static struct fixture fixture;
	fixture = (struct fixture){.directory = "/tmp/wick-audit-XXXXXX"};
	if (!mkdtemp(fixture.directory))
		return -1;
	snprintf(fixture.path, sizeof(fixture.path), "%s/audit.log", fixture.directory);
	*state = &fixture;
	return 0;
}

static int tear_down(void **state)
{
	return io_remove_tree(((struct fixture *)*state)->directory, NULL);
}

static struct audit *open_it(const struct fixture *fixture, uint64_t bytes_max)
{
	const struct audit_options options = {.path = fixture->path, .bytes_max = bytes_max};
	struct audit *audit = NULL;
	struct error err = {0};
	if (audit_open(&options, &audit, &err) < 0)
		fail_msg("%s", err.message);
	return audit;
}

static struct bytes contents(const char *path, struct buffer *text)
{
	assert_int_equal(io_read_file(path, 64 * 1024 * 1024, text, NULL), 0);
	return buffer_bytes(text);
}

static const struct audit_entry call = {.event = AUDIT_CALL,
					.name = "ops",
					.kind = "token",
					.address = "10.1.2.3",
					.method = "POST",
					.target = "/api/v1/delete?query=\"a\"",
					.tenant = "team-a",
					.status = 200};

static void test_line(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(buffer_release) struct buffer text = {0};
	char hostile[5000];
	struct stat info;
	struct audit *audit = open_it(fixture, 0);
	memset(hostile, '\n', sizeof(hostile) - 1);
	hostile[sizeof(hostile) - 1] = '\0';
	hostile[0] = (char)0xff;
	audit_add(audit, &call);
	audit_add(audit, &(struct audit_entry){.event = AUDIT_REFUSAL, .target = hostile, .status = 401, .reason = hostile});
	audit_add(NULL, &call);
	audit_close(audit);
	assert_int_equal(stat(fixture->path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	struct bytes rest = contents(fixture->path, &text), line = bytes_take_line(&rest);
	_cleanup_(json_decrefp) json_t *first = json_loadb((const char *)line.data, line.len, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(first, "event")), "call");
	assert_string_equal(json_string_value(json_object_get(first, "name")), "ops");
	assert_string_equal(json_string_value(json_object_get(first, "target")), call.target);
	assert_int_equal(json_integer_value(json_object_get(first, "status")), 200);
	assert_null(json_object_get(first, "left_out"));
	line = bytes_take_line(&rest);
	_cleanup_(json_decrefp) json_t *second = json_loadb((const char *)line.data, line.len, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(second, "status")), 401);
	assert_null(json_object_get(second, "name"));
	assert_int_equal(rest.len, 0); /* no text makes a line of its own */
}

/* Refusals beyond a rate are counted in the next line; calls are never left out for them. */
static void test_refusals(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(buffer_release) struct buffer text = {0};
	struct audit *audit = open_it(fixture, 0);
	struct audit_stats stats;
	for (unsigned i = 0; i < 5000; i++)
		audit_add(audit, &(struct audit_entry){.event = AUDIT_REFUSAL, .status = 401});
	audit_add(audit, &call);
	audit_add(audit, &call);
	audit_get_stats(audit, &stats);
	audit_close(audit);
	assert_true(stats.dropped > 4000 && stats.dropped < 5000);
	assert_int_equal(stats.written + stats.dropped, 5002);
	char wanted[64];
	contents(fixture->path, &text);
	snprintf(wanted, sizeof(wanted), "\"left_out\":");
	assert_non_null(strstr(buffer_string(&text), wanted));
	const char *first = strstr(buffer_string(&text), "\"event\":\"call\"");
	assert_non_null(first);
	assert_non_null(strstr(first, wanted));
	assert_null(strstr(strchr(first, '\n'), wanted)); /* once */
}

static void wait_for(struct audit *audit, const char *path)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	for (unsigned i = 0; i < 1000; i++) {
		if (access(path, R_OK) == 0 && contents(path, &text).len > 0)
			return;
		usleep(10000);
	}
	fail_msg("%s was not written", path);
}

static void test_rotation(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(buffer_release) struct buffer text = {0};
	char moved[80];
	snprintf(moved, sizeof(moved), "%s.0", fixture->path);
	struct audit *audit = open_it(fixture, 1000);
	audit_add(audit, &call);
	wait_for(audit, fixture->path);
	assert_int_equal(rename(fixture->path, moved), 0); /* by another program */
	audit_add(audit, &call);
	wait_for(audit, fixture->path);
	for (unsigned i = 0; i < 40; i++) {
		audit_add(audit, &call);
		usleep(5000);
	}
	audit_close(audit);
	snprintf(moved, sizeof(moved), "%s.1", fixture->path);
	size_t kept = contents(moved, &text).len;
	assert_true(kept > 0 && kept < 20000);
	assert_true(contents(fixture->path, &text).len > 0);
}

static void test_failures(void **state)
{
	struct fixture *fixture = *state;
	struct audit *audit = NULL;
	struct error err = {0};
	const struct audit_options nowhere = {.path = "/nonexistent/audit.log"};
	struct audit_stats stats;
	assert_int_equal(audit_open(&nowhere, &audit, &err), -ENOENT);
	assert_null(audit);
	audit = open_it(fixture, 0);
	assert_int_equal(io_remove_tree(fixture->directory, NULL), 0);
	audit_add(audit, &call);
	for (unsigned i = 0; i < 1000; i++) {
		audit_get_stats(audit, &stats);
		if (stats.dropped)
			break;
		usleep(10000);
	}
	assert_int_equal(stats.dropped, 1);
	assert_int_equal(stats.written, 0);
	assert_int_equal(mkdir(fixture->directory, 0700), 0);
	audit_add(audit, &call);
	audit_close(audit);
	_cleanup_(buffer_release) struct buffer text = {0};
	contents(fixture->path, &text);
	assert_non_null(strstr(buffer_string(&text), "\"left_out\":1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rotation, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
