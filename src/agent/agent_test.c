// SPDX-License-Identifier: Apache-2.0
/*
 * The agent on this machine's kernel, against programs whose profile is known. Without root or BPF the tests are skipped.
 *
 * Tolerances: a timer that fires N times while a process runs a share p of the time sees it N*p times, with a standard
 * deviation of at most sqrt(N*p*(1-p)); four of them, and a sample at either end, are allowed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/test_child.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "profile/merge.h"

#define HZ	  99
#define PERIOD_NS (NS_PER_S / HZ)
#define BURN_S	  0.5 /* what each child of a test uses */
#define BURN_NS	  (NS_PER_S / 2)

static char workload[4096]; /* path; "" if it was not built */

/* ---- what the sink gathers ---- */

struct fixture {
	struct profile *all; /* every flush, merged */
	struct agent *agent;
	unsigned flushes, binaries, idles;
	int64_t started_ns, covered_ns;
	char wanted_build_id[BUILD_ID_HEX_MAX]; /* was it shown? */
	unsigned wanted_shown;
	int fail_with;
	bool stop_when_idle;
	pid_t until_ended;  /* stop when this child has ended */
	double cpu_seconds; /* that it used */
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void on_binary(void *context, const struct agent_binary *binary)
{
	struct fixture *fixture = context;
	char read_id[BUILD_ID_HEX_MAX] = "";

	fixture->binaries++;
	binary_id_read_fd(binary->fd, read_id, NULL);
	assert_string_equal(read_id, binary->build_id); /* the very file */
	fixture->wanted_shown += fixture->wanted_build_id[0] && strcmp(binary->build_id, fixture->wanted_build_id) == 0;
}

static bool kernel_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	*ret = (struct agent_symbol){.name = "some_kernel_function", .module = "[kernel.kallsyms]"};
	return address >> 63;
}

static bool jit_symbol(void *context, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	*ret = (struct agent_symbol){.name = "jitted", .module = "[perf-map]"};
	return address->pid == address->namespace_pid;
}

static int on_profile(void *context, struct profile *profile, struct error *err)
{
	struct fixture *fixture = context;

	fixture->flushes++;
	fixture->covered_ns += profile->duration_ns;
	if (fixture->fail_with)
		return error_set(err, fixture->fail_with, "as asked");
	assert_true(profile->sample_count > 0 && profile->duration_ns > 0);
	/* It ended after the start and before now; a second for a clock that is being set meanwhile. */
	assert_in_range(profile->time_ns + profile->duration_ns, fixture->started_ns - NS_PER_S, time_now_ns() + NS_PER_S);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "cpu");
	assert_string_equal(profile_string(profile, profile->sample_types[0].unit), "nanoseconds");
	return profile_merge(fixture->all, profile, true, err);
}

/* Reaps a child; it must have succeeded. */
static bool has_ended(pid_t pid, double *ret_cpu_seconds)
{
	struct rusage usage;
	int status;

	pid_t ended = wait4(pid, &status, WNOHANG, &usage);
	if (ended == 0)
		return false;
	assert_int_equal(ended, pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	*ret_cpu_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	return true;
}

static bool on_idle(void *context)
{
	struct fixture *fixture = context;
	fixture->idles++;
	if (fixture->until_ended && has_ended(fixture->until_ended, &fixture->cpu_seconds))
		return false;
	return !fixture->stop_when_idle;
}

static int fixture_init(struct fixture *fixture)
{
	assert_int_equal(profile_new(&fixture->all, NULL), 0);
	return 0;
}

static void fixture_release(struct fixture *fixture)
{
	agent_free(fixture->agent);
	profile_free(fixture->all);
}

static void start(struct fixture *fixture, struct agent_options options)
{
	struct agent_sink sink = {fixture, on_binary, kernel_symbol, jit_symbol, on_profile, on_idle};
	struct error error = {0};

	if (!options.frequency_hz)
		options.frequency_hz = HZ;
	fixture->started_ns = time_now_ns();
	int r = agent_new(&options, &sink, &fixture->agent, &error);
	if (r == -EPERM) {
		printf("skipped: %s\n", error.message);
		skip();
	}
	if (r < 0)
		fail_msg("%s", error.message);
}

static void run_for(struct fixture *fixture, double seconds)
{
	struct error error = {0};
	int r = agent_run(fixture->agent, time_monotonic_ns() + (int64_t)(seconds * 1e9), &error);
	if (r < 0)
		fail_msg("%s", error.message);
}

static void run_until_ended(struct fixture *fixture, pid_t pid)
{
	fixture->until_ended = pid;
	run_for(fixture, 600); /* only what has failed already takes that long */
	assert_true(fixture->cpu_seconds > 0);
	fixture->until_ended = 0;
}

static struct agent_stats stats_of(struct fixture *fixture)
{
	struct agent_stats stats;
	agent_get_stats(fixture->agent, &stats);
	return stats;
}

/* But for frames of code without frame pointers, and for events, which are the whole machine's. */
static uint64_t lost(const struct agent_stats *stats)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++) {
		if (i != AGENT_LOSS_NO_MAPPING && i != AGENT_LOSS_EVENTS)
			sum += stats->samples_lost[i];
	}
	return sum;
}

/* ---- questions to the profile ---- */

static const char *label(const struct profile *profile, size_t sample, const char *key)
{
	const char *value = profile_label_value(profile, profile->samples[sample].labels, key);
	return value ? value : "";
}

/* Samples (not nanoseconds) whose label has the value; any value if NULL. */
static double samples_with(const struct profile *profile, const char *key, const char *value)
{
	int64_t sum = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (!value || strcmp(label(profile, i, key), value) == 0)
			sum += profile->values[i];
	}
	return (double)sum / (double)PERIOD_NS;
}

static const struct profile_location *frame(const struct profile *profile, size_t sample, size_t depth, uint32_t *ret_id)
{
	uint32_t locations[512];
	size_t count = profile_stack_locations(profile, profile->samples[sample].stack, locations, 512);
	*ret_id = depth < count ? locations[depth] : 0;
	return &profile->locations[*ret_id];
}

static const char *file_of(const struct profile *profile, const struct profile_location *location)
{
	return profile_string(profile, profile->mappings[location->mapping].file_name);
}

/* ---- programs ---- */

/* A child that waits for a byte, then runs body; release_child() gives the byte. */
struct child {
	pid_t pid;
	int gate;
};

static struct child start_child(void (*body)(const char *), const char *argument)
{
	int gate[2];
	char byte;

	assert_int_equal(pipe(gate), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(gate[1]);
		if (read(gate[0], &byte, 1) == 1)
			body(argument);
		_exit(0);
	}
	close(gate[0]);
	return (struct child){pid, gate[1]};
}

static void release_child(struct child *child)
{
	assert_int_equal(write(child->gate, "", 1), 1);
	close(child->gate);
}

static void run_workload(const char *seconds)
{
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
	execl(workload, "workload", seconds, NULL);
	_exit(127);
}

static double cpu_seconds(pid_t pid)
{
	double seconds = 0;
	while (!has_ended(pid, &seconds))
		time_sleep_ns(10 * NS_PER_MS);
	return seconds;
}

static void need_workload(void)
{
	if (workload[0])
		return;
	printf("skipped: programs/workload was not built (make programs)\n");
	skip();
}

/* The file offset of a function of the workload; the linker lays its code out with offsets equal to addresses. */
struct range {
	uint64_t start, end;
};
static struct range function_range(const char *name)
{
	char command[4200], line[256], type, symbol[128];
	struct range range = {0, 0};
	uint64_t address, size;

	snprintf(command, sizeof(command), "nm -S %s", workload);
	FILE *pipe_file = popen(command, "r");
	assert_non_null(pipe_file);
	while (fgets(line, sizeof(line), pipe_file)) {
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %c %127s", &address, &size, &type, symbol) == 4 &&
		    strcmp(symbol, name) == 0)
			range = (struct range){address, address + size};
	}
	pclose(pipe_file);
	assert_true(range.end > range.start);
	return range;
}

static bool is_in(const struct profile *profile, uint32_t location, struct range range)
{
	uint64_t offset = profile_location_file_offset(profile, location);
	return offset >= range.start && offset < range.end;
}

/* ---- tests ---- */

/* Totals, the shape of stacks, the split between two functions, labels, and that nothing is lost. */
/* Four standard deviations of the number of samples of a process that has a share of a CPU: whether it runs when the timer
 * fires is chance. */
static double sampling_noise(double cpu, double wall, double hz)
{
	double share = cpu / wall < 1 ? cpu / wall : 1;
	return 4 * sqrt(wall * hz * share * (1 - share));
}

/* Not on every machine: a chroot has /sys/fs/cgroup and nothing mounted there. */
static bool has_cgroups(void)
{
	struct cgroups cgroups;
	bool is_found = cgroups_init(&cgroups, NULL) == 0 && cgroups.root_fd >= 0;
	cgroups_release(&cgroups);
	return is_found;
}

static void test_a_known_program(void **state)
{
	struct fixture *fixture = *state;
	struct profile *all = fixture->all;
	struct labels labels = {0};
	double in_long = 0, in_short = 0, shallow = 0, user = 0;
	bool expects_cgroup = has_cgroups();

	need_workload();
	struct range long_task = function_range("longTask"), short_task = function_range("shortTask"),
		     main_function = function_range("main");
	labels_set(&labels, "team", "blue", NULL);
	struct child child = start_child(run_workload, "5");
	start(fixture,
	      (struct agent_options){.pids = &child.pid, .pid_count = 1, .labels = &labels, .flush_interval_ns = NS_PER_S});
	labels_release(&labels);
	int64_t began = time_monotonic_ns();
	release_child(&child);
	run_until_ended(fixture, child.pid);
	double cpu = fixture->cpu_seconds, wall = (double)(time_monotonic_ns() - began) / 1e9;

	double expected = cpu * HZ, seen = samples_with(all, "process.pid", NULL);
	double tolerance = sampling_noise(cpu, wall, HZ) + 2;
	print_message("%.0f samples, %.1f expected, +-%.1f\n", seen, expected, tolerance);
	assert_true(fabs(seen - expected) <= tolerance);

	for (size_t i = 0; i < all->sample_count; i++) {
		double count = (double)all->values[i] / (double)PERIOD_NS;
		uint32_t leaf, caller, root;
		if (frame(all, i, 0, &leaf)->frame_type == PROFILE_FRAME_KERNEL ||
		    strcmp(label(all, i, "process.comm"), "workload") != 0)
			continue;
		frame(all, i, 1, &caller);
		frame(all, i, 2, &root);
		bool in_task = is_in(all, leaf, long_task) || is_in(all, leaf, short_task);
		user += count;
		in_long += is_in(all, leaf, long_task) ? count : 0;
		in_short += is_in(all, leaf, short_task) ? count : 0;
		shallow += in_task && (!root || !is_in(all, caller, main_function)) ? count : 0;
		assert_string_equal(label(all, i, "process.executable.path"), workload);
		assert_string_equal(label(all, i, "process.executable.name"), "workload");
		assert_string_equal(label(all, i, "thread.name"), "workload");
		if (expects_cgroup)
			assert_int_equal(label(all, i, "cgroup")[0], '/');
	}
	assert_true(in_long + in_short > 0.95 * user);
	assert_true(shallow <= 0.01 * user + 1);
	double split = in_long / (in_long + in_short), sigma = sqrt(0.9 * 0.1 / (in_long + in_short));
	print_message("%.1f%% in longTask, 90 expected, +-%.1f\n", 100 * split, 400 * sigma);
	assert_true(fabs(split - 0.9) <= 4 * sigma);

	assert_string_equal(profile_label_value(all, all->resource_labels, "team"), "blue");
	assert_non_null(profile_label_value(all, all->resource_labels, "host.name"));
	assert_non_null(profile_label_value(all, all->resource_labels, "os.version"));
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(lost(&stats), 0);
	assert_int_equal(stats.samples_taken, (uint64_t)lround(seen));
	assert_int_equal(stats.flushes, fixture->flushes > 6 ? fixture->flushes : stats.flushes);
	assert_true(fixture->flushes >= 3);
	assert_true(stats.stacks_sent < 200); /* each chain once */
}

static void run_many(const char *count)
{
	for (long i = strtol(count, NULL, 10); i > 0; i--) {
		pid_t pid = fork();
		if (pid == 0)
			run_workload("0.03cpu"); /* a busy machine gives a tenth of that in as much time */
		waitpid(pid, NULL, 0);
	}
}

/* Processes that ended long before the flush keep their names, their binaries, and their stacks. */
static void test_short_lived_processes(void **state)
{
	struct fixture *fixture = *state;
	struct profile *all = fixture->all;
	double total = 0, named = 0, resolved = 0;

	need_workload();
	struct child child = start_child(run_many, "200");
	start(fixture, (struct agent_options){.pids = &child.pid, .pid_count = 1, .flush_interval_ns = 600 * NS_PER_S});
	release_child(&child);
	run_until_ended(fixture, child.pid);
	struct range main_function = function_range("main");
	for (size_t i = 0; i < all->sample_count; i++) {
		double count = (double)all->values[i] / (double)PERIOD_NS;
		uint32_t leaf, caller;
		const struct profile_location *location = frame(all, i, 0, &leaf);
		if (strcmp(label(all, i, "thread.name"), "workload") != 0)
			continue;
		total += count;
		named += strcmp(label(all, i, "process.executable.path"), workload) == 0 ? count : 0;
		frame(all, i, 1, &caller);
		resolved +=
			location->frame_type == PROFILE_FRAME_KERNEL ||
					(strcmp(file_of(all, location), workload) == 0 && is_in(all, caller, main_function)) ||
					strstr(file_of(all, location), "ld-linux") || strstr(file_of(all, location), "vdso")
				? count
				: 0;
	}
	print_message("%.0f samples of short-lived processes, %.1f%% named, %.1f%% resolved\n", total, 100 * named / total,
		      100 * resolved / total);
	assert_true(total > 100);
	assert_true(named >= 0.95 * total && resolved >= 0.95 * total);
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(lost(&stats), 0);
	assert_true(fixture->binaries > 0);
}

/* CPU time, not wall time: what is expected must not depend on who else is busy. */
static volatile unsigned long burnt;
static __attribute__((noinline)) void burn(double seconds)
{
	for (int64_t end = time_thread_cpu_ns() + (int64_t)(seconds * 1e9); time_thread_cpu_ns() < end;) {
		for (int i = 0; i < 100000; i++)
			burnt += (unsigned long)i;
	}
}

static void run_deleted(const char *path)
{
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
	execl(path, "gone", "3600", NULL); /* until it is stopped */
	_exit(127);
}

/* A library that is loaded when sampling has long begun. */
static void run_plugin(const char *library)
{
	static uint8_t data[1 << 20];

	time_sleep_ns(200 * NS_PER_MS);
	void *handle = dlopen(library, RTLD_NOW);
	unsigned long (*crc)(unsigned long, const uint8_t *, unsigned) = handle ? dlsym(handle, "crc32") : NULL;
	for (int64_t end = time_thread_cpu_ns() + BURN_NS; crc && time_thread_cpu_ns() < end;)
		burnt += crc(0, data, sizeof(data));
}

static void *run_thread(void *name)
{
	prctl(PR_SET_NAME, name);
	burn(BURN_S);
	return NULL;
}

static void run_threads(const char *argument)
{
	static char alpha[] = "alpha", beta[] = "beta";
	pthread_t a, b;

	pthread_create(&a, NULL, run_thread, alpha);
	pthread_create(&b, NULL, run_thread, beta);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}

/* Two generations down, without exec. */
static void run_forks(const char *argument)
{
	if (fork() == 0) {
		if (fork() == 0) {
			prctl(PR_SET_NAME, "grandchild");
			burn(BURN_S);
			_exit(0);
		}
		wait(NULL);
		_exit(0);
	}
	wait(NULL);
}

static void run_jit(const char *argument)
{
#ifdef __x86_64__
	static const uint8_t code[] = {0xb9, 0x00, 0x00, 0x10, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3}; /* mov; dec; jnz; ret */
	uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(memory, code, sizeof(code));
	mprotect(memory, 4096, PROT_READ | PROT_EXEC);
	void (*made)(void);
	memcpy(&made, &memory, sizeof(made));
	for (int64_t end = time_thread_cpu_ns() + BURN_NS; time_thread_cpu_ns() < end;)
		made();
#endif
}

static void run_system_calls(const char *argument)
{
	static char data[1 << 16];
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	for (int64_t end = time_thread_cpu_ns() + BURN_NS; time_thread_cpu_ns() < end;)
		burnt += (unsigned long)read(fd, data, sizeof(data));
}

static int make_copy(const char *from, const char *to)
{
	struct buffer contents;
	buffer_init(&contents, 1 << 24);
	int r = io_read_file(from, contents.max, &contents, NULL);
	if (r == 0)
		r = io_write_file(to, contents.data, contents.len, 0755, NULL);
	buffer_release(&contents);
	return r;
}

/* Samples below a child whose leaf is in a file (its name ends so) and of the frame type. */
static double leaf_samples(const struct profile *profile, pid_t pid, const char *file_end, enum profile_frame_type type)
{
	int64_t sum = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t leaf;
		const struct profile_label_set *set = &profile->label_sets[profile->samples[i].labels];
		const struct profile_location *location = frame(profile, i, 0, &leaf);
		const char *file = file_of(profile, location);
		bool same_pid = false;
		for (uint32_t j = 0; j < set->count; j++)
			same_pid = same_pid || profile->labels[set->first + j].number == pid;
		size_t len = strlen(file), end_len = strlen(file_end);
		if (same_pid && location->frame_type == type && len >= end_len && strcmp(file + len - end_len, file_end) == 0)
			sum += profile->values[i];
	}
	return (double)sum / (double)PERIOD_NS;
}

/* On a busy machine a child may take its time until it executes the program. */
static void run_until_executed(struct fixture *fixture, pid_t pid, const char *path)
{
	char link[32], target[128] = "";
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	for (unsigned i = 0; i < 1200 && strcmp(target, path) != 0; i++) {
		run_for(fixture, 0.1);
		ssize_t len = readlink(link, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
	}
	run_for(fixture, 0.1);
}

/* And until it has had some time of the CPUs. */
static void run_until_sampled(struct fixture *fixture, pid_t pid, const char *file)
{
	for (unsigned i = 0; i < 1200 && leaf_samples(fixture->all, pid, file, PROFILE_FRAME_NATIVE) <= 5; i++)
		run_for(fixture, 0.1);
}

/* All that happens to processes while they are watched, side by side. */
static void test_lives(void **state)
{
	struct fixture *fixture = *state;
	struct profile *all = fixture->all;
	char directory[] = "/tmp/wick-agent-XXXXXX", gone[64];
	pid_t pids[6];

	need_workload();
	assert_non_null(mkdtemp(directory));
	snprintf(gone, sizeof(gone), "%s/gone", directory);
	assert_int_equal(make_copy(workload, gone), 0);
	struct child children[6] = {
		start_child(run_deleted, gone), start_child(run_plugin, "libz.so.1"),
		start_child(run_threads, ""),	start_child(run_forks, ""),
		start_child(run_jit, ""),	start_child(run_system_calls, ""),
	};
	for (int i = 0; i < 6; i++)
		pids[i] = children[i].pid;
	int fd = open(workload, O_RDONLY | O_CLOEXEC);
	assert_int_equal(build_id_read_fd(fd, fixture->wanted_build_id, NULL), 0);
	close(fd);
	start(fixture, (struct agent_options){.pids = pids, .pid_count = 6, .flush_interval_ns = 500 * NS_PER_MS});
	for (int i = 0; i < 6; i++)
		release_child(&children[i]);
	run_until_executed(fixture, pids[0], gone);
	assert_int_equal(unlink(gone), 0);
	rmdir(directory);
	run_until_sampled(fixture, pids[0], gone);
	kill(pids[0], SIGTERM);
	assert_int_equal(waitpid(pids[0], NULL, 0), pids[0]);
	for (int i = 1; i < 6; i++)
		run_until_ended(fixture, pids[i]);

	assert_true(leaf_samples(all, pids[0], gone, PROFILE_FRAME_NATIVE) > 5);
	assert_int_equal(fixture->wanted_shown, 1); /* though it was deleted */
	assert_true(leaf_samples(all, pids[1], "/libz.so.1.2.13", PROFILE_FRAME_NATIVE) +
			    leaf_samples(all, pids[1], "/libz.so.1", PROFILE_FRAME_NATIVE) >
		    5);
	assert_true(samples_with(all, "thread.name", "alpha") > 5);
	assert_true(samples_with(all, "thread.name", "beta") > 5);
	assert_true(samples_with(all, "thread.name", "grandchild") > 5);
	assert_true(samples_with(all, "process.comm", "grandchild") > 5);
	assert_true(samples_with(all, "process.comm", "alpha") == 0);
	assert_true(samples_with(all, "process.executable.name", "agent_test") > 25);
#ifdef __x86_64__
	assert_true(leaf_samples(all, pids[4], "[perf-map]", PROFILE_FRAME_JIT) > 5);
#endif
	assert_true(leaf_samples(all, pids[5], "[kernel.kallsyms]", PROFILE_FRAME_KERNEL) > 5);
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(lost(&stats), 0);
}

/* The whole machine: other processes, and the agent itself like any other. */
static void test_everything(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(run_forks, "");
	_cleanup_(fd_closep) int bpf_stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME); /* as long as it is open */

	/* Room for what runs on a busy machine until somebody looks. */
	start(fixture, (struct agent_options){.no_kernel = true, .ring_bytes = 4 << 20, .flush_interval_ns = 200 * NS_PER_MS});
	release_child(&child);
	burn(BURN_S); /* ourselves */
	run_until_ended(fixture, child.pid);
	assert_true(leaf_samples(fixture->all, getpid(), "agent_test", PROFILE_FRAME_NATIVE) > 10);
	assert_true(samples_with(fixture->all, "thread.name", "grandchild") > 10);
	for (size_t i = 1; i < fixture->all->location_count; i++)
		assert_int_not_equal(fixture->all->locations[i].frame_type, PROFILE_FRAME_KERNEL);
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(stats.samples_lost[AGENT_LOSS_COUNTS_FULL], 0);
	assert_true(stats.processes > 2 && stats.mappings > 4 && stats.binaries > 2);
	assert_int_equal(stats.cpus_online, sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(stats.bpf_run_count >= stats.samples_taken && stats.bpf_run_ns > 100 * stats.bpf_run_count);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed */
	assert_true(mem_resident_bytes() < 100 * 1000 * 1000);
#endif
	assert_int_equal(agent_add_pid(fixture->agent, 1, NULL), -EINVAL); /* there is no filter */
}

static void run_until_killed(const char *argument)
{
	for (;;)
		burn(1);
}

/* All CPUs are busy, so every tick of every CPU must be a sample; but for those of the time that a host takes from its guests,
 * that no clock shows. So of some stretches of time one must be without a gap, and all of them together must not have more than
 * there were ticks. One stretch may: on a busy machine a profile ends some ticks after the time that it says, which the next
 * one lacks. */
static void test_no_tick_is_missed(void **state)
{
	struct fixture *fixture = *state;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pid_t pids[64];
	bool is_whole = false;
	double expected_before = 0, seen_before = 0, lost_before = 0;

	assert_true(cpus > 0);
	cpus = cpus < 64 ? cpus : 64;
	for (long i = 0; i < cpus; i++) {
		struct child child = start_child(run_until_killed, "");
		pids[i] = child.pid;
		release_child(&child);
	}
	time_sleep_ns(300 * NS_PER_MS); /* until each has its CPU */
	start(fixture, (struct agent_options){.flush_interval_ns = NS_PER_S});
	for (int i = 0; i < 6 && !is_whole; i++) {
		run_for(fixture, 4);
		struct agent_stats stats = stats_of(fixture);
		double lost = (double)stats.samples_lost[AGENT_LOSS_COUNTS_FULL],
		       expected = (double)fixture->covered_ns / (double)PERIOD_NS * (double)stats.cpus_online,
		       seen = (double)profile_total(fixture->all, 0) / (double)PERIOD_NS, here = expected - expected_before;
		print_message("%.0f samples of all CPUs, %.0f expected, %.0f lost\n", seen - seen_before, here,
			      lost - lost_before);
		is_whole = seen < 1.03 * expected && fabs(seen - seen_before - here) < 0.03 * here && lost == lost_before;
		expected_before = expected;
		seen_before = seen;
		lost_before = lost;
	}
	for (long i = 0; i < cpus; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	assert_true(is_whole);
}

static void run_burn(const char *seconds)
{
	burn(strtod(seconds, NULL));
}

/* The kernel lowers its limit by itself, and for good, when a busy machine's timer interrupts have taken too long. */
static unsigned allowed_hz(unsigned wanted)
{
	struct buffer file = {0};
	unsigned limit = wanted;
	if (io_read_file("/proc/sys/kernel/perf_event_max_sample_rate", 64, &file, NULL) == 0)
		limit = (unsigned)strtoul(buffer_string(&file), NULL, 10);
	buffer_release(&file);
	return limit / 2 < wanted ? limit / 2 : wanted; /* near the limit it throttles */
}

/* Far too small a ring that nobody reads: every sample is either there or counted as lost. */
static void test_full_rings_are_counted(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(run_burn, "1.5");
	unsigned hz = allowed_hz(4999);

	start(fixture,
	      (struct agent_options){
		      .pids = &child.pid, .pid_count = 1, .frequency_hz = hz, .ring_bytes = 1, .flush_interval_ns = NS_PER_S});
	int64_t began = time_monotonic_ns();
	release_child(&child);
	double cpu = cpu_seconds(child.pid), wall = (double)(time_monotonic_ns() - began) / 1e9;
	run_for(fixture, 0.01);
	struct agent_stats stats = stats_of(fixture);
	double expected = cpu * hz, tolerance = 0.05 * expected + sampling_noise(cpu, wall, hz),
	       seen = (double)stats.samples_taken, full = (double)stats.samples_lost[AGENT_LOSS_COUNTS_FULL];
	print_message("%.0f taken, %.0f lost, %.0f expected, +-%.0f\n", seen, full, expected, tolerance);
	assert_true(full > seen);
	assert_true(fabs(seen + full - expected) < tolerance);
	assert_true(stats.samples_lost[AGENT_LOSS_STACKS_FULL] > 0);
	assert_true((double)profile_total(fixture->all, 0) == seen * (double)(NS_PER_S / hz));
	bool unknown = false;
	for (size_t i = 1; i < fixture->all->function_count; i++)
		unknown = unknown ||
			  strcmp(profile_string(fixture->all, fixture->all->functions[i].name), "[unknown stack]") == 0;
	assert_true(unknown);
}

/* What a process runs before the exec that is waited for is another program's: nobody reads files of it to walk stacks that
 * nobody wants. */
static void test_nothing_before_the_exec_is_walked(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(run_burn, "1");

	start(fixture, (struct agent_options){.pids = &child.pid, .pid_count = 1, .at_exec = true});
	release_child(&child);
	run_until_ended(fixture, child.pid);
	struct agent_stats stats = stats_of(fixture);
	assert_true(stats.samples_taken > 20);
	assert_int_equal(stats.unwind.resumed, 0);
	assert_int_equal(stats.unwind.built + stats.unwind.cached, 0);
	for (size_t i = 0; i < UNWIND_RESULTS; i++)
		assert_int_equal(stats.unwind.results[i], 0);
	assert_int_equal(fixture->all->sample_count, 0);
}

/* At a high rate the ring is drained between flushes, before it is full. */
static void test_wakeup(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(run_burn, "1.5");
	unsigned hz = allowed_hz(1999);

	start(fixture, (struct agent_options){.pids = &child.pid,
					      .pid_count = 1,
					      .frequency_hz = hz,
					      .ring_bytes = 65536,
					      .flush_interval_ns = 600 * NS_PER_S});
	release_child(&child);
	run_until_ended(fixture, child.pid);
	double cpu = fixture->cpu_seconds;
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(fixture->flushes, 1);
	assert_true((double)stats.samples_taken > 0.9 * cpu * hz);
	assert_true((double)stats.samples_lost[AGENT_LOSS_COUNTS_FULL] < 0.01 * (double)stats.samples_taken);
}

/* Process events that do not fit are counted, and what they told is read from /proc. */
static void test_lost_events_heal(void **state)
{
	struct fixture *fixture = *state;

	need_workload();
	struct child child = start_child(run_workload, "2");
	start(fixture, (struct agent_options){.pids = &child.pid, .pid_count = 1, .event_ring_bytes = 4096});
	for (int i = 0; i < 1000; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	release_child(&child); /* its exec is lost too */
	run_until_ended(fixture, child.pid);
	struct agent_stats stats = stats_of(fixture);
	print_message("%" PRIu64 " events lost\n", stats.samples_lost[AGENT_LOSS_EVENTS]);
	assert_true(stats.samples_lost[AGENT_LOSS_EVENTS] > 100);
	double seen = samples_with(fixture->all, "process.pid", NULL);
	assert_true(samples_with(fixture->all, "process.executable.path", workload) > 0.9 * seen - 3);
}

/* ---- running, stopping, failing ---- */

static void *stop_soon(void *agent)
{
	time_sleep_ns(300 * NS_PER_MS);
	agent_stop(agent);
	return NULL;
}

static void test_stopping(void **state)
{
	struct fixture *fixture = *state;
	struct error error = {0};
	pthread_t thread;

	int64_t before = time_monotonic_ns();
	start(fixture, (struct agent_options){.flush_interval_ns = 3600 * NS_PER_S});
	int64_t began = time_monotonic_ns();
	pthread_create(&thread, NULL, stop_soon, fixture->agent);
	burn(0.1);
	assert_int_equal(agent_run(fixture->agent, 0, &error), 0);
	pthread_join(thread, NULL);
	assert_true(time_monotonic_ns() - began < 600 * NS_PER_S); /* did not wait for the flush */
	assert_int_equal(fixture->flushes, 1);			   /* the last one */

	burn(0.1);
	int64_t again = time_monotonic_ns();
	run_for(fixture, 0.1);
	assert_int_equal(fixture->flushes, 2);
	/* All the time, also that between the two runs: from within start() to within the second run. */
	assert_in_range(fixture->covered_ns, again - began, time_monotonic_ns() - before);
	burn(0.1);
	fixture->stop_when_idle = true;
	run_for(fixture, 10);
	assert_int_equal(fixture->flushes, 3);
	burn(0.1);
	fixture->fail_with = -EPIPE;
	assert_int_equal(agent_run(fixture->agent, 0, &error), -EPIPE);
	assert_string_equal(error.message, "as asked");
}

/* Who starts an agent to look at something sees it after a second; a fleet that was started at once spreads later. */
static void test_first_flushes_come_early(void **state)
{
	struct agent agent = {.jitter = 1}, asked = {.flush_interval_ns = 3 * NS_PER_S, .flush_number = 1};
	int64_t least = INT64_MAX, most = 0;
	(void)state;

	assert_int_equal(agent_next_interval_ns(&agent), NS_PER_S);
	agent.flush_number++;
	assert_int_equal(agent_next_interval_ns(&agent), 2 * NS_PER_S);
	agent.flush_number++;
	assert_int_equal(agent_next_interval_ns(&agent), 5 * NS_PER_S);
	for (agent.flush_number++; agent.flush_number < 1000; agent.flush_number++) {
		int64_t interval = agent_next_interval_ns(&agent);
		least = interval < least ? interval : least;
		most = interval > most ? interval : most;
	}
	assert_in_range(least, 9 * NS_PER_S, 9 * NS_PER_S + 100 * NS_PER_MS);
	assert_in_range(most, 11 * NS_PER_S - 100 * NS_PER_MS, 11 * NS_PER_S);
	assert_int_equal(agent_next_interval_ns(&asked), 3 * NS_PER_S);
}

static void test_bad_options(void **state)
{
	struct fixture *fixture = *state;
	struct agent_sink sink = {0};
	struct error error;

	assert_int_equal(agent_new(&(struct agent_options){.frequency_hz = 10001}, &sink, &fixture->agent, &error), -EINVAL);
	assert_int_equal(agent_new(&(struct agent_options){.flush_interval_ns = -1}, &sink, &fixture->agent, &error), -EINVAL);
	assert_int_equal(agent_new(&(struct agent_options){.frequency_least_hz = 20}, &sink, &fixture->agent, &error), -EINVAL);
	assert_string_equal(error.message, "the minimum sampling frequency, 20 Hz, is above the frequency, 19 Hz");
	assert_null(fixture->agent);
}

/* In a child, since privileges do not come back. */
static int live_without_privileges(void)
{
	struct fixture fixture = {.started_ns = time_now_ns()};
	struct agent_options options = {.frequency_hz = HZ, .flush_interval_ns = 100 * NS_PER_MS};
	struct agent_sink sink = {&fixture, on_binary, kernel_symbol, jit_symbol, on_profile, NULL};
	char line[256], caps[64] = "";

	profile_new(&fixture.all, NULL);
	if (agent_new(&options, &sink, &fixture.agent, NULL) < 0)
		return 77;
	if (agent_drop_privileges(NULL) < 0)
		return 1;
	FILE *status = fopen("/proc/self/status", "re");
	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "CapEff: %63s", caps);
	if (status)
		fclose(status);
	/* DAC_READ_SEARCH 2, SYS_PTRACE 19, SYSLOG 34, PERFMON 38, BPF 39, CHECKPOINT_RESTORE 40 */
	if (strtoull(caps, NULL, 16) & ~(1ull << 2 | 1ull << 19 | 1ull << 34 | 7ull << 38))
		return 2;
	/* On a busy machine the agent itself may not run for a while. */
	for (int64_t until = time_monotonic_ns() + 180 * NS_PER_S; time_monotonic_ns() < until;) {
		burn(0.3);
		if (agent_run(fixture.agent, time_monotonic_ns() + NS_PER_S / 2, NULL) < 0)
			return 3;
		if (samples_with(fixture.all, "process.executable.name", "agent_test") >= 10 && fixture.binaries)
			return 0;
	}
	return 4;
}

static void test_privileges_are_dropped(void **state)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(live_without_privileges());
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		printf("skipped: no root or no BPF\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- rates that change, and time spent waiting ---- */

static const unsigned rates[] = {499, 97, 211, 37, 401, 149};

static bool change_rate(void *context)
{
	struct fixture *fixture = context;

	assert_int_equal(sampler_set_frequency(fixture->agent->sampler, rates[fixture->idles % 6], NULL), 0);
	return on_idle(context);
}

/*
 * Each sample says what it stands for, so the total is right however often the rate changes. A timer of period p that runs for
 * a stretch whose ends are at random places between its ticks is off by p^2 / 6 (variance), as long as the program runs; one
 * that runs a share s of the time adds at most n * s * (1 - s) * p^2 for n periods.
 */
static void test_totals_hold_when_the_rate_changes(void **state)
{
	struct fixture *fixture = *state;
	int64_t total = 0;

	need_workload();
	struct child child = start_child(run_workload, "5");
	start(fixture, (struct agent_options){.pids = &child.pid, .pid_count = 1, .flush_interval_ns = NS_PER_S / 2});
	fixture->agent->sink.on_idle = change_rate; /* also after each wake-up */
	int64_t began = time_monotonic_ns();
	release_child(&child);
	run_until_ended(fixture, child.pid);
	double wall = (double)(time_monotonic_ns() - began) / 1e9, share = fixture->cpu_seconds / wall, variance = 0;
	for (unsigned i = 0; i < fixture->idles; i++) {
		double period = 1.0 / rates[i % 6];
		variance += period * period / 6 + wall / fixture->idles * period * share * (share < 1 ? 1 - share : 0);
	}
	for (size_t i = 0; i < fixture->all->sample_count; i++)
		total += fixture->all->values[i];
	print_message("%.3f s, %.3f expected, +-%.3f, %u rates\n", (double)total / 1e9, fixture->cpu_seconds,
		      4 * sqrt(variance), fixture->idles);
	assert_true(fixture->idles >= 9);
	assert_true(fabs((double)total / 1e9 - fixture->cpu_seconds) <= 4 * sqrt(variance));
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(lost(&stats), 0);
}

static bool burn_a_little(void *context)
{
	burn(0.1);
	return on_idle(context);
}

/* A budget that nothing can keep: the rate falls to half after ten seconds. */
static void test_the_budget_lowers_the_rate(void **state)
{
	struct fixture *fixture = *state;
	pid_t self = getpid();

	start(fixture,
	      (struct agent_options){
		      .pids = &self, .pid_count = 1, .budget = 1e-9, .frequency_hz = 100, .flush_interval_ns = NS_PER_S});
	fixture->agent->sink.on_idle = burn_a_little;
	run_for(fixture, 13);
	struct agent_stats stats = stats_of(fixture);
	assert_int_equal(stats.frequency_hz, 50);
	assert_int_equal(stats.frequency_asked_hz, 100);
	assert_int_equal(stats.rate_changes, 1);
	assert_true(stats.sampling_share > 0 && stats.sampling_share <= stats.cost_share && stats.cost_share < 1);
	assert_true(stats.cost_ns[AGENT_COST_SAMPLES] > 0 && stats.cost_ns[AGENT_COST_PROFILES] > 0);
	assert_true(stats.budget == 1e-9);
	assert_int_equal(fixture->all->comment_count, 1); /* once, although every profile since says it */
	assert_string_equal(profile_string(fixture->all, fixture->all->comments[0]),
			    "sampled at 50 Hz instead of 100 Hz, to stay within 1e-07% of a CPU");
}

/* What the machine may be asked for, whatever it has. */
static void test_the_default_budget(void **state)
{
	struct fixture *fixture = *state;
	pid_t self = getpid();

	start(fixture, (struct agent_options){.pids = &self, .pid_count = 1, .budget = AGENT_BUDGET_DEFAULT});
	struct agent_stats stats = stats_of(fixture);
	double machine = 0.001 * (double)stats.cpus_online;
	assert_true(fabs(stats.budget - (machine > 0.005 ? machine : 0.005)) < 1e-9);
}

static int sum_off_cpu(void *context, struct profile *profile, struct error *err)
{
	struct fixture *fixture = context;

	if (strcmp(profile_string(profile, profile->sample_types[0].type), "off_cpu") != 0)
		return 0;
	assert_string_equal(profile_string(profile, profile->period_type.type), "off_cpu");
	return profile_merge(fixture->all, profile, true, err);
}

static void run_sleeper(const char *milliseconds)
{
	for (int i = 0; i < 1000; i++)
		usleep((useconds_t)strtoul(milliseconds, NULL, 10) * 1000);
}

static int64_t watch_sleeper(struct fixture *fixture, const char *milliseconds, struct agent_options options)
{
	struct child child = start_child(run_sleeper, milliseconds);
	int64_t total = 0;

	options.pids = &child.pid;
	options.pid_count = 1;
	options.flush_interval_ns = NS_PER_S;
	start(fixture, options);
	fixture->agent->sink.on_profile = sum_off_cpu;
	release_child(&child);
	fixture->until_ended = child.pid;
	run_for(fixture, 60);
	fixture->until_ended = 0;
	for (size_t i = 0; i < fixture->all->sample_count; i++)
		total += fixture->all->values[i];
	return total;
}

/* 1,000 waits of 3 ms and a little, one in four of them looked at: the total has a standard deviation of sqrt(3 / 1000). */
static void test_waits_by_chance(void **state)
{
	struct fixture *fixture = *state;
	int64_t began = time_monotonic_ns();
	int64_t total = watch_sleeper(fixture, "3", (struct agent_options){.off_cpu_chance = 1u << 30});
	double expected = 3.0, most = (double)(time_monotonic_ns() - began) / 1e9;
	struct agent_stats stats = stats_of(fixture);

	print_message("%.3f s of 3 and a little, %llu waits\n", (double)total / 1e9,
		      (unsigned long long)stats.off_cpu_intervals);
	assert_in_range(stats.off_cpu_intervals, 250 - 4 * 14, 250 + 4 * 14 + 4);
	assert_true((double)total / 1e9 >= expected * (1 - 4 * sqrt(0.003)) &&
		    (double)total / 1e9 <= most * (1 + 4 * sqrt(0.003)));
	assert_int_equal(lost(&stats), 0);
}

/* Shorter waits than the least leave nothing; longer ones all. */
static void test_waits_by_duration(void **state)
{
	struct fixture *fixture = *state;
	int64_t total = watch_sleeper(
		fixture, "2", (struct agent_options){.off_cpu_chance = ABI_CHANCE_ALWAYS, .off_cpu_least_ns = NS_PER_S});
	struct agent_stats stats = stats_of(fixture);

	assert_int_equal(total, 0);
	assert_true(stats.off_cpu_intervals >= 1000);
	assert_int_equal(lost(&stats), 0);
}

static void test_the_doctor(void **state)
{
	struct doctor_row rows[32];
	size_t count = agent_examine(rows, 32);

	assert_true(count >= 10);
	for (size_t i = 0; i < count; i++) {
		print_message("%d %s: %s%s%s\n", rows[i].verdict, rows[i].what, rows[i].found, rows[i].fix[0] ? " -> " : "",
			      rows[i].fix);
		assert_true(rows[i].what[0] && rows[i].found[0]);
		assert_true((rows[i].verdict == DOCTOR_OK) == (rows[i].fix[0] == 0));
	}
	assert_int_equal(agent_examine(rows, 3), 3);
}

/* What a user may not look at is not said to be missing. */
static void test_the_doctor_of_a_user(void **state)
{
	int status;
	if (geteuid() != 0)
		skip();
	pid_t child = fork();
	if (child == 0) {
		struct doctor_row rows[32];
		if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		size_t count = agent_examine(rows, 32);
		for (size_t i = 0; i < count; i++)
			if (strstr(rows[i].found, strerror(EACCES)) && strstr(rows[i].found, "no cycle counter"))
				_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_doctor_of_a_user),
		FIXTURE_TEST(test_a_known_program),
		FIXTURE_TEST(test_short_lived_processes),
		FIXTURE_TEST(test_lives),
		FIXTURE_TEST(test_everything),
		FIXTURE_TEST(test_no_tick_is_missed),
		FIXTURE_TEST(test_full_rings_are_counted),
		FIXTURE_TEST(test_nothing_before_the_exec_is_walked),
		FIXTURE_TEST(test_wakeup),
		FIXTURE_TEST(test_lost_events_heal),
		FIXTURE_TEST(test_stopping),
		cmocka_unit_test(test_first_flushes_come_early),
		FIXTURE_TEST(test_bad_options),
		cmocka_unit_test(test_privileges_are_dropped),
		FIXTURE_TEST(test_totals_hold_when_the_rate_changes),
		FIXTURE_TEST(test_the_budget_lowers_the_rate),
		FIXTURE_TEST(test_the_default_budget),
		FIXTURE_TEST(test_waits_by_chance),
		FIXTURE_TEST(test_waits_by_duration),
		cmocka_unit_test(test_the_doctor),
	};
	child_program("workload", workload, sizeof(workload));
	if (access(workload, X_OK) != 0)
		workload[0] = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
