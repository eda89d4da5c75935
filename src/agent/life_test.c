// SPDX-License-Identifier: Apache-2.0
/* Real processes in unusual places: whose file was replaced or deleted, who run from memory, in other namespaces, or who fork
 * and end all the time. As root; skipped otherwise. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/process/process.h"
#include "agent/test_child.h"
#include "base/test_fixture.h"
#include "base/time.h"

#define HEAP_GROWS_MAX (2u << 20)
#define FAR_PID	       4000000 /* beyond the kernel's pid_max: never a real process */

struct fixture {
	struct binaries binaries;
	struct process_table table;
	char directory[32], program[64];
	char sleep_id[BUILD_ID_HEX_MAX], other_id[BUILD_ID_HEX_MAX];
	pid_t child;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void copy(const char *from, const char *to)
{
	char command[256];
	snprintf(command, sizeof(command), "cp %s %s.new && mv %s.new %s", from, to, to, to);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void read_id(const char *path, char *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(build_id_read_fd(fd, ret, NULL), 0);
	close(fd);
}

static int fixture_init(struct fixture *f)
{
	assert_int_equal(binaries_init(&f->binaries), 0);
	assert_int_equal(process_table_init(&f->table, &f->binaries), 0);
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-life-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->program, sizeof(f->program), "%s/program", f->directory);
	copy("/bin/sleep", f->program);
	read_id("/bin/sleep", f->sleep_id);
	read_id("/bin/ls", f->other_id);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	if (f->child > 0) {
		kill(-f->child, SIGKILL); /* those of a storm */
		kill(f->child, SIGKILL);
		waitpid(f->child, NULL, 0);
	}
	unlink(f->program);
	rmdir(f->directory);
	process_table_release(&f->table);
	binaries_release(&f->binaries);
}

static void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: needs root\n");
	skip();
}

/* `prepare` runs in the child, before it becomes the program. */
static void start(struct fixture *f, void (*prepare)(struct fixture *f))
{
	f->child = fork();
	if (f->child == 0) {
		if (prepare)
			prepare(f);
		execl(f->program, "program", "60", (char *)NULL);
		_exit(127);
	}
	bool sleeps = child_wait_sleeps(f->child);
	int status;
	pid_t ended = waitpid(f->child, &status, WNOHANG);
	if (ended == f->child && WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		f->child = 0;
		print_message("skipped: no mounts of one's own can be made here\n");
		skip();
	}
	assert_int_equal(ended, 0);
	assert_true(sleeps);
}

/* The mapping of the executable as /proc has it, and that its file is the one that runs. */
static const struct process_mapping *find_executable(struct fixture *f, struct process *process)
{
	assert_int_not_equal(process->executable, BINARY_NONE);
	for (size_t i = 0; i < process->maps->count; i++) {
		if (process->maps->items[i].binary == process->executable)
			return &process->maps->items[i];
	}
	fail_msg("the executable is not mapped");
	return NULL;
}

static struct process *check_runs_sleep(struct fixture *f)
{
	struct process *process;
	char build_id[BUILD_ID_HEX_MAX];

	assert_int_equal(process_table_lookup(&f->table, f->child, (uint64_t)time_monotonic_ns(), "", &process, NULL), 0);
	assert_false(process->unknown);
	const struct process_mapping *mapping = find_executable(f, process);
	int fd = binary_open(binary_get(&f->binaries, process->executable), f->child, mapping, build_id);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(build_id, f->sleep_id);

	/* The same as in an event: by build-id, with a mapping whose addresses are no VMA's. */
	struct event event = {.kind = EVENT_MAP, .name = binary_get(&f->binaries, process->executable)->path};
	for (; build_id[2 * event.build_id_bytes]; event.build_id_bytes++)
		sscanf(build_id + 2 * event.build_id_bytes, "%2hhx", &event.build_id[event.build_id_bytes]);
	struct process_mapping part = *mapping;
	uint32_t id;
	part.start += 4096;
	assert_int_equal(binaries_add(&f->binaries, &event, &id), 0);
	fd = binary_open(binary_get(&f->binaries, id), f->child, &part, build_id);
	assert_true(fd >= 0);
	close(fd);
	return process;
}

static void test_a_replaced_and_deleted_file(void **state)
{
	struct fixture *f = *state;

	need_root();
	start(f, NULL);
	check_runs_sleep(f);
	copy("/bin/ls", f->program);
	process_table_distrust(&f->table);
	check_runs_sleep(f);
	unlink(f->program);
	process_table_distrust(&f->table);
	check_runs_sleep(f);
}

/* Another file system over the directory, with a file of the same name that only the child sees. */
static void hide_directory(struct fixture *f)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("wick", f->directory, "tmpfs", 0, NULL) < 0)
		_exit(77);
	copy("/bin/sleep", f->program);
}

static void test_another_mount_namespace(void **state)
{
	struct fixture *f = *state;
	char build_id[BUILD_ID_HEX_MAX];

	need_root();
	copy("/bin/ls", f->program);
	start(f, hide_directory);
	read_id(f->program, build_id);
	assert_string_equal(build_id, f->other_id); /* what we see under the name */
	check_runs_sleep(f);
}

/* Upper and lower file systems and what they make together, in one tmpfs. */
static void overlay(struct fixture *f)
{
	char options[256], path[64];
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("wick", f->directory, "tmpfs", 0, NULL) < 0)
		_exit(77);
	static const char *const names[] = {"lower", "upper", "work"};
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", f->directory, names[i]);
		mkdir(path, 0755);
	}
	snprintf(path, sizeof(path), "%s/lower/program", f->directory);
	copy("/bin/sleep", path);
	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", f->directory, f->directory,
		 f->directory);
	if (mount("wick", f->directory, "overlay", 0, options) < 0)
		_exit(77);
}

static void test_an_overlay(void **state)
{
	struct fixture *f = *state;
	struct process_table table;
	struct process *process;

	need_root();
	f->child = fork();
	if (f->child == 0) {
		overlay(f);
		execl(f->program, "program", "60", (char *)NULL);
		_exit(127);
	}
	bool sleeps = child_wait_sleeps(f->child);
	int status;
	if (waitpid(f->child, &status, WNOHANG) == f->child) {
		f->child = 0;
		assert_int_equal(WEXITSTATUS(status), 77);
		print_message("skipped: no overlay, or no mounts of one's own, can be made here\n");
		skip();
	}
	assert_true(sleeps);
	check_runs_sleep(f);
	/* The iterator gives the path that the process sees, too. */
	assert_int_equal(process_table_init(&table, &f->binaries), 0);
	if (process_snapshot_by_iterator(&table, NULL) == 0) {
		process = process_table_find(&table, f->child);
		assert_non_null(process);
		assert_string_equal(binary_get(&f->binaries, process->executable)->path, f->program);
	}
	process_table_release(&table);
}

static void run_from_memory(struct fixture *f)
{
	char name[] = "program", seconds[] = "60", *arguments[] = {name, seconds, NULL}, buffer[65536];
	int file = open(f->program, O_RDONLY), memory = memfd_create("program", MFD_CLOEXEC);
	ssize_t n;

	while ((n = read(file, buffer, sizeof(buffer))) > 0) {
		if (write(memory, buffer, (size_t)n) != n)
			_exit(1);
	}
	fexecve(memory, arguments, environ);
	_exit(1);
}

static void test_a_program_in_memory(void **state)
{
	struct fixture *f = *state;
	const struct agent_sink sink = {0};

	need_root();
	start(f, run_from_memory);
	struct process *process = check_runs_sleep(f);
	struct binary *binary = binary_get(&f->binaries, process->executable);
	assert_string_equal(binary->path, "/memfd:program");
	assert_false(binary_is_generated(binary, f->child, find_executable(f, process)));
	binary_prepare(&f->binaries, process->executable, f->child, find_executable(f, process), &sink);
	assert_int_equal(binary->kind, BINARY_FILE);
	assert_string_equal(binary->build_id, f->sleep_id);
}

static void test_code_made_in_memory(void **state)
{
	struct fixture *f = *state;
	const struct agent_sink sink = {0};
	struct process *process;
	int memory = memfd_create("jit", MFD_CLOEXEC);

	need_root();
	assert_int_equal(ftruncate(memory, 8192), 0);
	void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
	assert_ptr_not_equal(code, MAP_FAILED);
	assert_int_equal(process_table_lookup(&f->table, getpid(), 1, "", &process, NULL), 0);
	const struct process_mapping *mapping = process_find_mapping(process, (uint64_t)(uintptr_t)code);
	assert_non_null(mapping);
	assert_int_equal(binary_get(&f->binaries, mapping->binary)->kind, BINARY_MEMFD);
	assert_true(binary_is_generated(binary_get(&f->binaries, mapping->binary), getpid(), mapping));
	binary_prepare(&f->binaries, mapping->binary, getpid(), mapping, &sink);
	assert_int_equal(binary_get(&f->binaries, mapping->binary)->kind, BINARY_JIT);
	munmap(code, 8192);
	close(memory);
}

static void test_another_pid_namespace(void **state)
{
	struct fixture *f = *state;

	need_root();
	/* The first child after unshare() is number 1 there. */
	pid_t parent = fork();
	if (parent == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(77);
		pid_t pid = fork();
		if (pid == 0) {
			execl(f->program, "program", "60", (char *)NULL);
			_exit(127);
		}
		struct process *process;
		int ok = child_wait_sleeps(pid) && process_table_lookup(&f->table, pid, 1, "", &process, NULL) == 0 &&
			 !process->unknown && process_namespace_pid(process) == 1;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		_exit(!ok);
	}
	int status;
	waitpid(parent, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped: no pid namespaces\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* ---- many mappings ---- */

/* A list as long as allowed, inherited by a child that maps and maps: no reading of /proc for each, at most a millisecond of
 * CPU time each. */
static void test_changes_of_a_long_list_are_cheap(void **state)
{
	struct fixture *f = *state;
	struct event event = {.kind = EVENT_MAP, .name = "//anon", .length = 4096, .pid = getpid()};
	struct process *process;
	int64_t all = 0;

	assert_int_equal(process_table_add(&f->table, getpid(), &process), 0);
	for (uint32_t i = 0; i < PROCESS_MAPPINGS_MAX - 400; i++) { /* apart, so that they stay as many */
		struct process_mapping mapping = {i * 8192ull, i * 8192ull + 4096, 0, 0, 0};
		bool replaced;
		assert_int_equal(mapping_list_insert(&process->maps, &mapping, &replaced), 0);
	}
	process->reread_at = PROCESS_MAPPINGS_MAX;
	process->read_cost_us = 100000;
	process->read_ns = 1;
	const struct event forked = {.kind = EVENT_FORK, .time_ns = 50, .pid = FAR_PID, .tid = FAR_PID, .parent = getpid()};
	assert_int_equal(process_table_apply(&f->table, &forked, NULL), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		event.pid = FAR_PID;
		event.time_ns = 100 + i;
		event.start = (i % 100) * 8192 + 1024;
		event.name = i / 100 % 2 ? "/one" : "/another"; /* no change is without effect */
		event.length = 1024;
		int64_t start_ns = time_thread_cpu_ns();
		assert_int_equal(process_table_apply(&f->table, &event, NULL), 0);
		all += time_thread_cpu_ns() - start_ns;
	}
	process = process_table_find(&f->table, FAR_PID);
	assert_false(process->read);
	assert_true(process->maps->count >= PROCESS_MAPPINGS_MAX - 400 + 200);
	print_message("%.1f us a change\n", (double)all / 1e6);
	assert_true(all < 1000 * NS_PER_MS);
}

/* ---- births and deaths ---- */

#define STORM_LEAST 600 /* one in 50 sleeps */

static void *exec_sleep(void *context)
{
	execl("/bin/sleep", "sleep", "600", (char *)NULL);
	return NULL;
}

/* One of the ways to live. Never returns. */
static void live(unsigned way)
{
	pthread_t thread;

	switch (way % 5) {
	case 0: _exit(0);
	case 1: execl("/bin/true", "true", (char *)NULL); break;
	case 2: /* another thread than the first execs, and takes its place */
		if (way % 50 == 2) {
			pthread_create(&thread, NULL, exec_sleep, NULL);
			pause();
		}
		break;
	case 3:
		if (vfork() == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		wait(NULL);
		break;
	case 4:
		for (volatile unsigned i = 0; i < 200000; i++)
			;
		break;
	}
	_exit(0);
}

/* Starts processes for some seconds, and so many that some sleep, who outlive it; then says so. */
static void storm(int done)
{
	int64_t end = time_monotonic_ns() + 4 * NS_PER_S;

	setpgid(0, 0);
	for (unsigned i = 0; i < STORM_LEAST || time_monotonic_ns() < end; i++) {
		if (fork() == 0)
			live(i);
		if (i % 2)
			wait(NULL); /* the others are zombies for a while */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (i % 400 == 0)
			time_sleep_ns(20 * NS_PER_MS);
	}
	if (write(done, "", 1) == 1)
		pause();
	_exit(0);
}

static bool is_equal(const struct binaries *a, const struct process *x, const struct binaries *b, const struct process *y)
{
	size_t n = x->maps ? x->maps->count : 0;

	if (n && x->maps->items[n - 1].start >> 63) /* vsyscall, which has no event */
		n--;
	if (n != (y->maps ? y->maps->count : 0) || x->threads != y->threads || strcmp(x->comm, y->comm) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct process_mapping *p = &x->maps->items[i], *q = &y->maps->items[i];
		if (p->start != q->start || p->end != q->end || p->offset != q->offset ||
		    strcmp(binary_get((struct binaries *)(uintptr_t)a, p->binary)->path,
			   binary_get((struct binaries *)(uintptr_t)b, q->binary)->path) != 0)
			return false;
	}
	return true;
}

/* The children of the storm that live, as /proc knows them, against what events told; 0 if one differs, which *ret_wrong names.
 */
static unsigned count_survivors(struct fixture *f, struct agent *agent, pid_t *ret_wrong)
{
	size_t cursor = 0;
	uint64_t pid, value;
	unsigned count = 0;

	while (map64_next(&f->table.by_pid, &cursor, &pid, &value)) {
		const struct process *expected = (const struct process *)(uintptr_t)value;
		struct process *told = process_table_find(&agent->processes, (pid_t)pid);
		if (expected->parent != f->child || strcmp(expected->comm, "sleep") != 0)
			continue;
		*ret_wrong = (pid_t)pid;
		if (!told || told->exit_ns || !is_equal(&f->binaries, expected, &agent->binaries, told))
			return 0;
		count++;
	}
	*ret_wrong = 0;
	return count;
}

/* Entries whose process has been gone for longer than its events take: the rings are read when there is a CPU. */
static unsigned count_left_over(struct agent *agent)
{
	pid_t gone[1024];
	size_t cursor = 0, gone_count = 0;
	uint64_t pid, value;
	unsigned count = 0;

	while (gone_count < 1024 && map64_next(&agent->processes.by_pid, &cursor, &pid, &value)) {
		const struct process *process = (const struct process *)(uintptr_t)value;
		if (!process->exit_ns && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			gone[gone_count++] = (pid_t)pid;
	}
	for (int attempt = 0; attempt < 100 && (attempt == 0 || count); attempt++) {
		assert_int_equal(agent_run(agent, time_monotonic_ns() + 100 * NS_PER_MS, NULL), 0);
		count = 0;
		for (size_t i = 0; i < gone_count; i++) {
			const struct process *process = process_table_find(&agent->processes, gone[i]);
			count += process && !process->exit_ns && kill(gone[i], 0) < 0;
		}
	}
	return count;
}

/* Of the heap. What is resident grows with the windows to the kernel too, which a busy machine fills further. */
static size_t used_bytes(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void test_births_and_deaths(void **state)
{
	struct fixture *f = *state;
	const struct agent_options options = {.frequency_hz = 99, .flush_interval_ns = NS_PER_S};
	const struct agent_sink sink = {0};
	struct error error = {0};
	struct agent *agent = NULL;
	int ends[2];

	need_root();
	int r = agent_new(&options, &sink, &agent, &error);
	if (r == -EPERM || r == -ENOSYS) {
		print_message("skipped: %s\n", error.message);
		skip();
	}
	assert_int_equal(r, 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	f->child = fork();
	if (f->child == 0)
		storm(ends[1]);
	close(ends[1]);
	struct pollfd done = {.fd = ends[0], .events = POLLIN};
	assert_int_equal(agent_run(agent, time_monotonic_ns() + 2 * NS_PER_S, NULL), 0);
	size_t middle = used_bytes();
	/* Until two seconds after the last birth. */
	for (int i = 0; i < 60 && poll(&done, 1, 0) == 0; i++)
		assert_int_equal(agent_run(agent, time_monotonic_ns() + 2 * NS_PER_S, NULL), 0);
	assert_int_equal(done.revents, POLLIN);
	close(ends[0]);
	assert_int_equal(agent_run(agent, time_monotonic_ns() + 2 * NS_PER_S, NULL), 0);
	size_t last = used_bytes();
	/* Other programs of the machine come and go: what it holds for them goes with them. */
	for (int i = 0; i < 15 && last >= middle + HEAP_GROWS_MAX; i++) {
		assert_int_equal(agent_run(agent, time_monotonic_ns() + 2 * NS_PER_S, NULL), 0);
		last = used_bytes();
	}
	/* The last ones may still be on their way to what they will be. */
	unsigned survivors = 0;
	pid_t wrong = 0;
	for (int i = 0; i < 20 && !survivors; i++) {
		process_table_release(&f->table);
		assert_int_equal(process_table_init(&f->table, &f->binaries), 0);
		assert_int_equal(process_snapshot_by_proc(&f->table, NULL), 0);
		survivors = count_survivors(f, agent, &wrong);
		if (!survivors)
			assert_int_equal(agent_run(agent, time_monotonic_ns() + NS_PER_S, NULL), 0);
	}
	if (wrong && !agent->events_lost) { /* lost events are not reported */
		const struct process *told = process_table_find(&agent->processes, wrong);
		const struct process *expected = process_table_find(&f->table, wrong);
		fail_msg("process %d %s: %s, %u threads, %zu mappings for %s, %u threads, %zu mappings; %u events lost",
			 (int)wrong,
			 !told		 ? "is missing"
			 : told->exit_ns ? "is taken for dead"
					 : "differs",
			 told ? told->comm : "", told ? told->threads : 0, told && told->maps ? told->maps->count : 0,
			 expected->comm, expected->threads, expected->maps ? expected->maps->count : 0,
			 (unsigned)agent->events_lost);
	}
	unsigned left_over = count_left_over(agent);
	print_message("%u processes were started, %u survived, %u are left over; heap %.1f, then %.1f MB; %u events lost\n",
		      agent->processes.next_id, survivors, left_over, (double)middle / 1e6, (double)last / 1e6,
		      (unsigned)agent->events_lost);
	if (!agent->events_lost) {
		assert_true(survivors > 5);
		assert_int_equal(left_over, 0);
	}
	assert_true(last < middle + HEAP_GROWS_MAX);
	kill(-f->child, SIGKILL);
	agent_free(agent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_a_replaced_and_deleted_file),
		FIXTURE_TEST(test_another_mount_namespace),
		FIXTURE_TEST(test_an_overlay),
		FIXTURE_TEST(test_a_program_in_memory),
		FIXTURE_TEST(test_code_made_in_memory),
		FIXTURE_TEST(test_another_pid_namespace),
		FIXTURE_TEST(test_births_and_deaths),
		FIXTURE_TEST(test_changes_of_a_long_list_are_cheap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
