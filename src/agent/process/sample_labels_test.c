// SPDX-License-Identifier: Apache-2.0
/* The labels of samples, with processes and cgroups made by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/sample_labels.h"
#include "base/cleanup.h"
#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "client/wickmark_abi.h"
#include "elf/build_id.h"

#define ID     "3f4e1c9d7a5b2086f1e0d9c8b7a695847362514039281706f5e4d3c2b1a09f8e"
#define CGROUP 77

struct fixture {
	struct binaries binaries;
	struct cgroups cgroups;
	struct sample_labels labels;
	struct profile *profile;
	struct process process;
	struct labels given;
	struct relabel *relabel;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int add_cgroup(struct cgroups *cgroups, uint64_t id, const char *path)
{
	uint32_t text;
	int r = intern_add_string(&cgroups->paths, path, &text);
	return r < 0 ? r : map64_put(&cgroups->known, id, text);
}

static int fixture_init(struct fixture *f)
{
	struct event program = {.kind = EVENT_MAP, .name = "/opt/bin/program", .build_id = {0xab, 0xcd}, .build_id_bytes = 2};

	*f = (struct fixture){.process = {.pid = 42, .id = 1, .comm = "program"}, .cgroups.root_fd = -1};
	f->labels = (struct sample_labels){
		.binaries = &f->binaries, .cgroups = &f->cgroups, .host = "host1", .release = "6.1.0", .given = &f->given};
	int r = binaries_init(&f->binaries);
	if (r == 0)
		r = intern_init(&f->cgroups.paths, 1 << 20);
	if (r == 0)
		r = add_cgroup(&f->cgroups, CGROUP, "/system.slice/docker-" ID ".scope");
	if (r == 0)
		r = binaries_add(&f->binaries, &program, &f->process.executable);
	if (r == 0)
		r = labels_set(&f->given, "env", "prod", NULL);
	return r < 0 ? r : profile_new(&f->profile, NULL);
}

static void fixture_release(struct fixture *f)
{
	profile_free(f->profile);
	sample_labels_release(&f->labels);
	labels_release(&f->given);
	relabel_free(f->relabel);
	map64_release(&f->cgroups.known);
	intern_release(&f->cgroups.paths);
	binaries_release(&f->binaries);
}

static int add(struct fixture *f, const char *thread, uint64_t cgroup, uint32_t *ret_set)
{
	struct abi_sample sample = {.cgroup = cgroup};
	memcpy(sample.comm, thread, strnlen(thread, sizeof(sample.comm)));
	return sample_labels_add(&f->labels, f->profile, &f->process, &sample, ret_set, NULL);
}

static void assert_label(const struct fixture *f, uint32_t set, const char *name, const char *value)
{
	const char *got = profile_label_value(f->profile, set, name);
	if (!value ? got != NULL : !got || strcmp(got, value) != 0)
		fail_msg("%s is '%s' instead of '%s'", name, got ? got : "(absent)", value ? value : "(absent)");
}

static void test_labels(void **state)
{
	struct fixture *f = *state;
	uint32_t set;

	assert_int_equal(add(f, "0123456789abcdef", CGROUP, &set), 0); /* 16 bytes without an end */
	assert_label(f, set, "process.executable.name", "program");
	assert_label(f, set, "process.executable.path", "/opt/bin/program");
	assert_label(f, set, "process.comm", "program");
	assert_label(f, set, "thread.name", "0123456789abcdef");
	assert_label(f, set, "cgroup", "/system.slice/docker-" ID ".scope");
	assert_label(f, set, "container.id", ID);
	assert_label(f, set, "container.runtime.name", "docker");
	assert_label(f, set, "systemd.unit", "docker-" ID ".scope");
	assert_label(f, set, "systemd.slice", "system.slice");
	assert_label(f, set, "container.name", NULL);
	assert_label(f, set, "k8s.pod.uid", NULL);
	assert_label(f, set, "systemd.user_unit", NULL);
}

/* Of a file that is there: this very program. */
static void test_executable(void **state)
{
	struct fixture *f = *state;
	char path[1024], build_id[BUILD_ID_HEX_MAX], compiler[64];
	struct stat status;
	uint32_t set;

	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	assert_true(n > 0);
	path[n] = 0;
	assert_int_equal(stat(path, &status), 0);
	struct event event = {.kind = EVENT_MAP, .name = path, .device = status.st_dev, .inode = status.st_ino};
	assert_int_equal(binaries_add(&f->binaries, &event, &f->process.executable), 0);
	f->process.pid = getpid();
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(build_id_read_fd(fd, build_id, NULL), 0);
#ifdef __clang__
	snprintf(compiler, sizeof(compiler), "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
	snprintf(compiler, sizeof(compiler), "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
	for (int i = 0; i < 2; i++) {
		assert_int_equal(add(f, i ? "a" : "b", CGROUP, &set), 0);
		assert_label(f, set, "process.executable.path", path);
		assert_label(f, set, "process.executable.build_id.gnu", build_id);
		assert_label(f, set, "process.executable.compiler", compiler);
		assert_label(f, set, "process.executable.build_id.go", NULL);
	}
	assert_int_equal(binary_get(&f->binaries, f->process.executable)->describe_tries, 1); /* once */
}

static void test_sets_are_made_once(void **state)
{
	struct fixture *f = *state;
	uint32_t first, again, other;

	assert_int_equal(add(f, "a", CGROUP, &first), 0);
	assert_int_equal(add(f, "a", CGROUP, &again), 0);
	assert_int_equal(again, first);
	assert_int_equal(f->labels.count, 1);
	assert_int_equal(add(f, "b", CGROUP, &other), 0);
	assert_int_not_equal(other, first);
	assert_int_equal(add(f, "a", 78, &other), 0);
	assert_label(f, other, "container.id", NULL);
	snprintf(f->process.comm, sizeof(f->process.comm), "renamed");
	assert_int_equal(add(f, "a", CGROUP, &other), 0);
	assert_label(f, other, "process.comm", "renamed");
	f->process.executable = 0;
	assert_int_equal(add(f, "a", CGROUP, &other), 0);
	assert_label(f, other, "process.executable.name", "renamed");
	assert_label(f, other, "process.executable.path", NULL);
	assert_int_equal(f->labels.count, 5);
	sample_labels_clear(&f->labels);
	assert_int_equal(f->labels.count, 0);
}

static void add_rule(struct fixture *f, struct relabel_rule rule)
{
	if (!f->relabel)
		assert_int_equal(relabel_new(&f->relabel, NULL), 0);
	rule.source_count = rule.source_labels[0] ? 1 : 0;
	rule.has_sources = rule.source_count;
	assert_int_equal(relabel_add(f->relabel, &rule, NULL), 0);
	f->labels.relabel = f->relabel;
}

static void test_resource(void **state)
{
	struct fixture *f = *state;
	uint32_t set;

	assert_int_equal(sample_labels_add_resource(&f->labels, f->profile, NULL), 0);
	assert_label(f, f->profile->resource_labels, "host.name", "host1");
	assert_label(f, f->profile->resource_labels, "os.version", "6.1.0");
	assert_label(f, f->profile->resource_labels, "env", "prod");
	assert_int_equal(add(f, "a", CGROUP, &set), 0);
	assert_label(f, set, "host.name", NULL);

	/* What rules may touch moves to the samples; the rest stays. */
	add_rule(f, (struct relabel_rule){.regex = "os_version", .action = "labeldrop"});
	add_rule(f, (struct relabel_rule){.source_labels = {"env"}, .target_label = "env", .replacement = "$1-$1"});
	add_rule(f, (struct relabel_rule){.source_labels = {"host_name"}, .target_label = "node"});
	sample_labels_clear(&f->labels);
	assert_int_equal(sample_labels_add_resource(&f->labels, f->profile, NULL), 0);
	assert_label(f, f->profile->resource_labels, "host.name", "host1");
	assert_label(f, f->profile->resource_labels, "os.version", NULL);
	assert_label(f, f->profile->resource_labels, "env", NULL);
	assert_int_equal(add(f, "a", CGROUP, &set), 0);
	assert_label(f, set, "host.name", NULL);
	assert_label(f, set, "os.version", NULL);
	assert_label(f, set, "env", "prod-prod");
	assert_label(f, set, "node", "host1");
}

static void test_rules_drop(void **state)
{
	struct fixture *f = *state;
	uint32_t set = 1234;

	add_rule(f, (struct relabel_rule){.source_labels = {"thread_name"}, .regex = "idle.*", .action = "drop"});
	add_rule(f, (struct relabel_rule){.source_labels = {"env"}, .regex = "prod", .action = "keep"});
	assert_int_equal(add(f, "idle/1", CGROUP, &set), 1);
	assert_int_equal(add(f, "idle/1", CGROUP, &set), 1);
	assert_int_equal(set, 1234);
	assert_int_equal(f->labels.count, 1);
	assert_int_equal(add(f, "busy", CGROUP, &set), 0);
	assert_label(f, set, "env", NULL);
}

/* The name that a program gave its thread comes before the kernel's; threads of one kernel's name are distinguished. */
static void test_full_names_of_threads(void **state)
{
	struct fixture *f = *state;
	uint32_t set, other;
	struct thread_names names;
	int fd = memfd_create(WICKMARK_NAME, MFD_CLOEXEC);
	struct wickmark_header header = {.magic = WICKMARK_MAGIC, .abi = WICKMARK_ABI, .thread_count = 1};
	struct wickmark_thread thread = {.state = WICKMARK_ACTIVE, .tid = 7001, .name = "a name of more than fifteen bytes"};
	assert_int_equal(ftruncate(fd, WICKMARK_AT_SITES), 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pwrite(fd, &thread, sizeof(thread), WICKMARK_AT_THREADS), sizeof(thread));
	void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mapped, MAP_FAILED);
	thread_names_init(&names);
	names.first_check_ns = 0;
	f->labels.names = &names;
	f->process.pid = getpid();
	struct abi_sample sample = {.tid = 7001, .cgroup = CGROUP};
	memcpy(sample.comm, "a name of more ", sizeof(sample.comm));
	assert_int_equal(sample_labels_add(&f->labels, f->profile, &f->process, &sample, &set, NULL), 0);
	assert_label(f, set, "thread.name", thread.name);
	sample.tid = 7002;
	assert_int_equal(sample_labels_add(&f->labels, f->profile, &f->process, &sample, &other, NULL), 0);
	assert_label(f, other, "thread.name", "a name of more ");
	sample.tid = 7001;
	assert_int_equal(sample_labels_add(&f->labels, f->profile, &f->process, &sample, &other, NULL), 0);
	assert_int_equal(other, set);
	f->labels.names = NULL;
	thread_names_release(&names);
	munmap(mapped, 4096);
	close(fd);
}

/* The pid stays a number, unless a rule makes text of it. */
static void test_pid_is_a_number(void **state)
{
	struct fixture *f = *state;
	uint32_t set;

	assert_int_equal(add(f, "a", CGROUP, &set), 0);
	assert_label(f, set, "process.pid", NULL);
	sample_labels_clear(&f->labels);
	add_rule(f, (struct relabel_rule){
			    .source_labels = {"process_pid"}, .target_label = "process_pid", .replacement = "pid$1"});
	add_rule(f, (struct relabel_rule){.source_labels = {"process_pid"},
					  .target_label = "process_pid",
					  .regex = "pid(.*)",
					  .replacement = "${1}x"});
	assert_int_equal(add(f, "a", CGROUP, &set), 0);
	assert_label(f, set, "process.pid", "42x");
}

static int some_labels(void *context)
{
	struct fixture f;
	uint32_t set;
	char name[16];
	int r = fixture_init(&f);

	for (int i = 0; i < 20 && r == 0; i++) {
		snprintf(name, sizeof(name), "thread %d", i);
		r = add(&f, name, CGROUP, &set);
	}
	fixture_release(&f);
	return r;
}

static void test_memory_runs_out(void **state)
{
	assert_true(test_each_allocation(some_labels, NULL) > 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_labels),
		FIXTURE_TEST(test_executable),
		FIXTURE_TEST(test_sets_are_made_once),
		FIXTURE_TEST(test_resource),
		FIXTURE_TEST(test_rules_drop),
		FIXTURE_TEST(test_full_names_of_threads),
		FIXTURE_TEST(test_pid_is_a_number),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
