/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of hosts that this one is not, from files that they would have. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host_facts.h"
#include "base/io.h"
#include "profile/hosts.h"

static char root[64];

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/wick-facts-XXXXXX");
	assert_non_null(mkdtemp(root));
	return 0;
}

static int teardown(void **state)
{
	return io_remove_tree(root, NULL);
}

static void put(const char *path, const char *text)
{
	char whole[256], directory[256];
	snprintf(whole, sizeof(whole), "%s%s", root, path);
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(whole, '/') - whole), whole);
	assert_int_equal(io_make_dirs(directory, 0755, NULL), 0);
	assert_int_equal(io_write_file(whole, text, strlen(text), 0644, NULL), 0);
}

static const char *get(const struct host_facts *facts, const char *key)
{
	for (size_t i = 0; i < facts->count; i++)
		if (strcmp(facts->items[i].key, key) == 0)
			return facts->items[i].value;
	return NULL;
}

static void test_x86(void **state)
{
	struct host_facts facts;
	put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 106\n"
			     "model name\t: Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz \nmicrocode\t: 0xd0003f5\n"
			     "flags\t\t: fpu vme hypervisor lahf_lm\n\nprocessor\t: 1\nmodel name\t: other\n");
	put("/sys/devices/system/cpu/online", "0-3,6,8-9\n");
	put("/sys/devices/system/node/online", "0-1\n");
	put("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
	put("/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME='Debian GNU/Linux'\nVERSION_ID=\"12\"\n");
	host_facts_read(root, &facts);
	assert_string_equal(get(&facts, "host.cpu.model.name"), "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz");
	assert_string_equal(get(&facts, "host.cpu.vendor.id"), "GenuineIntel");
	assert_string_equal(get(&facts, "host.cpu.microcode"), "0xd0003f5");
	assert_string_equal(get(&facts, "host.cpu.count"), "7");
	assert_string_equal(get(&facts, "host.numa.nodes"), "2");
	assert_string_equal(get(&facts, "host.virtualization"), "amazon");
	assert_string_equal(get(&facts, "os.name"), "Debian GNU/Linux");
	assert_string_equal(get(&facts, "os.description"), "Debian GNU/Linux 12 (bookworm)");
	assert_non_null(get(&facts, "os.version"));
	assert_non_null(get(&facts, "host.arch"));
	assert_string_equal(get(&facts, "agent.version"), WICK_VERSION);
	/* The same machine without a hypervisor, whoever made it */
	put("/proc/cpuinfo", "vendor_id\t: GenuineIntel\nmodel name\t: Intel\nflags\t\t: fpu vme lahf_lm\n");
	host_facts_read(root, &facts);
	assert_string_equal(get(&facts, "host.virtualization"), "none");
	put("/proc/cpuinfo", "model name\t: Intel\nflags\t\t: fpu hypervisor\n");
	put("/sys/class/dmi/id/sys_vendor", "Nobody\n");
	host_facts_read(root, &facts);
	assert_string_equal(get(&facts, "host.virtualization"), "other");
}

static void test_arm(void **state)
{
	struct host_facts facts;
	put("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
			     "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n");
	put("/usr/lib/os-release", "NAME=Fedora\n");
	host_facts_read(root, &facts);
	assert_null(get(&facts, "host.cpu.model.name"));
	assert_string_equal(get(&facts, "host.cpu.vendor.id"), "0x41");
	assert_string_equal(get(&facts, "host.cpu.model.id"), "0xd0c");
	assert_null(get(&facts, "host.virtualization"));
	assert_null(get(&facts, "host.numa.nodes"));
	assert_string_equal(get(&facts, "os.name"), "Fedora");
	assert_null(get(&facts, "os.description"));
}

static void test_nothing(void **state)
{
	struct host_facts facts;
	put("/proc/cpuinfo", "model name\n:::\nflags");
	put("/sys/devices/system/cpu/online", "5-1,,9999999999999999999");
	put("/etc/os-release", "NAME=\"\n");
	host_facts_read(root, &facts);
	assert_null(get(&facts, "host.cpu.model.name"));
	assert_null(get(&facts, "host.cpu.count"));
	assert_null(get(&facts, "os.name"));
}

static void test_profile(void **state)
{
	struct host_facts facts = {.items = {{"host.arch", "arm64"}, {"os.version", "6.1"}}, .count = 2};
	_cleanup_(labels_release) struct labels given = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_label host = {0};
	labels_set(&given, "zone", "a", NULL);
	labels_set(&given, "host_arch", "mine", NULL);
	assert_int_equal(profile_new(&profile, NULL), 0);
	/* Of no host */
	assert_int_equal(host_facts_add(&facts, &given, profile, NULL), 0);
	assert_int_equal(profile->host_labels, 0);
	profile_add_cstring(profile, PROFILE_HOST_LABEL, &host.key, NULL);
	profile_add_cstring(profile, "web-1", &host.value, NULL);
	assert_int_equal(profile_add_label_set(profile, &host, 1, &profile->resource_labels, NULL), 0);
	assert_int_equal(host_facts_add(&facts, &given, profile, NULL), 0);
	assert_int_equal(profile->label_sets[profile->host_labels].count, 3);
	assert_string_equal(profile_label_value(profile, profile->host_labels, "zone"), "a");
	assert_string_equal(profile_label_value(profile, profile->host_labels, "host_arch"), "mine");
	assert_null(profile_label_value(profile, profile->host_labels, "host.arch"));
	assert_string_equal(profile_label_value(profile, profile->host_labels, "os.version"), "6.1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_x86, setup, teardown),
		cmocka_unit_test_setup_teardown(test_arm, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
		cmocka_unit_test(test_profile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
