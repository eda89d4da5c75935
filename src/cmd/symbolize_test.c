/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses get names on this machine, and which do not, since they were other machines' or other times'. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include <sys/utsname.h>

#include "cmd/symbolize.h"
#include "cmd/test_cmd.h"
#include "profile/test_profile.h"
#include "symbol/worker.h"

/* A profile of one JIT address without a name, of a process whose perf map is here. host NULL = it does not say. */
static struct profile *make(const char *host, const char *file, uint64_t address, enum profile_frame_type type)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	struct profile_mapping mapping = {.start = 0, .limit = UINT64_MAX, .file_name = test_string(profile, file)};
	struct profile_location location = {.address = address, .frame_type = type};
	uint32_t id;
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
	if (host) {
		struct profile_label label = {.key = test_string(profile, "host.name"), .value = test_string(profile, host)};
		assert_int_equal(profile_add_label_set(profile, &label, 1, &profile->resource_labels, NULL), 0);
	}
	return profile;
}

static const char *name_of(const struct profile *profile)
{
	const struct profile_location *location = &profile->locations[1];
	if (location->line_count == 0)
		return "(none)";
	return profile_string(profile, profile->functions[profile->lines[location->line_first].function].name);
}

static void check(const char *host, const char *file, uint64_t address, enum symbols_how how, const char *want)
{
	_cleanup_(profile_freep) struct profile *profile = make(host, file, address, PROFILE_FRAME_JIT);
	struct error err = {0};
	if (symbolize_profile(profile, how, &err) != 0)
		fail_msg("%s", err.message);
	assert_string_equal(name_of(profile), want);
}

static void test_jit(void **state)
{
	struct utsname here;
	char file[64], other[80];
	(void)state;
	assert_int_equal(uname(&here), 0);
	snprintf(file, sizeof(file), "/tmp/perf-%d.map", (int)getpid());
	assert_int_equal(io_write_file(file, "1000 20 compiled\n2000 10 other\n", 31, 0600, NULL), 0);
	check(here.nodename, file, 0x1000, SYMBOLS_AUTO, "compiled");
	check(here.nodename, file, 0x101f, SYMBOLS_AUTO, "compiled");
	check(here.nodename, file, 0x1020, SYMBOLS_AUTO, "(none)");
	check(here.nodename, file, 0x2005, SYMBOLS_ALWAYS, "other");
	check(here.nodename, file, 0x1000, SYMBOLS_NEVER, "(none)");
	check("elsewhere", file, 0x1000, SYMBOLS_AUTO, "(none)");
	check("elsewhere", file, 0x1000, SYMBOLS_ALWAYS, "compiled");
	check(NULL, file, 0x1000, SYMBOLS_AUTO, "(none)");
	snprintf(other, sizeof(other), "%s.old", file);
	check(here.nodename, other, 0x1000, SYMBOLS_ALWAYS, "(none)");
	check(here.nodename, "/tmp/perf-0.map", 0x1000, SYMBOLS_ALWAYS, "(none)");
	check(here.nodename, "/tmp/perf--1.map", 0x1000, SYMBOLS_ALWAYS, "(none)");
	check(here.nodename, "/tmp/perf-99999999999999999999.map", 0x1000, SYMBOLS_ALWAYS, "(none)");
	check(here.nodename, "perf-1.map", 0x1000, SYMBOLS_ALWAYS, "(none)");
	assert_int_equal(unlink(file), 0);
}

/* Of a kernel only if it is this one; of modules only at addresses of kernels. */
static void test_other_kernel(void **state)
{
	static const struct {
		const char *file;
		uint64_t address;
	} cases[] = {{"[kernel.kallsyms]", 0x1000},
		     {"[kernel.kallsyms]", 0xffffffff81000000},
		     {"/lib/modules/6.1/kernel/net/nf-tables.ko.xz", 0x1000},
		     {"[no_such_module]", 0xffffffffc0000000},
		     {"", 0xffffffff81000000}};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile_freep) struct profile *profile =
			make(NULL, cases[i].file, cases[i].address, PROFILE_FRAME_KERNEL);
		assert_int_equal(symbolize_profile(profile, SYMBOLS_ALWAYS, NULL), 0);
		assert_string_equal(name_of(profile), "(none)");
	}
}

int main(int argc, char **argv)
{
	/* Symbolization starts this program again as its worker, which must not run the tests (and start workers without end).
	 */
	if (argc == 2 && strcmp(argv[1], SYMBOL_WORKER_VERB) == 0)
		return symbol_worker_main();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jit),
		cmocka_unit_test(test_other_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
