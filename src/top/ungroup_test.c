/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "render/test_render.h"
#include "top/ungroup.h"

static struct profile *make(void)
{
	struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_stack(profile, "process_executable_name=shop;host_name=web-1;process_pid=42;thread_name=;main;parse", 5);
	test_add_stack(profile, "process_executable_name=shop;host_name=web-1;process_pid=7;thread_name=io;main;parse", 3);
	test_add_stack(profile, "main;process_pid=1;parse", 2); /* a name like any other */
	test_add_stack(profile, "process_pidx=1;main", 1);
	return profile;
}

static void expect(const struct profile *profile, size_t sample, const char *label, const char *value)
{
	const char *own = profile_label_value(profile, profile->samples[sample].labels, label);
	if (value)
		assert_string_equal(own, value);
	else
		assert_null(own);
}

static void test_labels(void **state)
{
	_cleanup_(profile_freep) struct profile *from = make(), *profile = NULL;
	assert_int_equal(top_ungroup(from, &profile, NULL), 0);
	assert_int_equal(profile->sample_count, 4);
	assert_int_equal(profile_total(profile, 0), 11);
	expect(profile, 0, "process.pid", "42");
	expect(profile, 0, "host.name", "web-1");
	expect(profile, 0, "process.executable.name", "shop");
	expect(profile, 0, "thread.name", NULL); /* it has none */
	expect(profile, 1, "thread.name", "io");
	expect(profile, 2, "process.pid", NULL);
	/* The stacks are as they were before they were grouped. */
	assert_int_equal(profile->samples[0].stack, profile->samples[1].stack);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), 2);
	assert_int_equal(profile_stack_depth(profile, profile->samples[2].stack), 3);
	assert_int_equal(profile_stack_depth(profile, profile->samples[3].stack), 2);
}

static int ungroup(void *context)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	return top_ungroup(context, &profile, NULL);
}

static void test_memory(void **state)
{
	_cleanup_(profile_freep) struct profile *from = make();
	assert_true(test_each_allocation(ungroup, from) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
