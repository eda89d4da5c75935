// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/sample/events.h"
#include "base/time.h"

/* ---- decoding ---- */

struct record {
	uint8_t bytes[512];
	size_t size;
};

static void put(struct record *record, const void *data, size_t len)
{
	memcpy(record->bytes + record->size, data, len);
	record->size += len;
}
static void put32(struct record *record, uint32_t value)
{
	put(record, &value, sizeof(value));
}
static void put64(struct record *record, uint64_t value)
{
	put(record, &value, sizeof(value));
}
/* Pads, adds the time, and fills in the header, whose place was left free. */
static void finish(struct record *record, uint32_t type, uint16_t misc, uint64_t time)
{
	record->size = (record->size + 7) & ~7ull;
	put64(record, time);
	struct perf_event_header header = {.type = type, .misc = misc, .size = (uint16_t)record->size};
	memcpy(record->bytes, &header, sizeof(header));
}

static struct record make_map(bool with_build_id, const char *path)
{
	struct record record = {.size = sizeof(struct perf_event_header)};

	put32(&record, 7);
	put32(&record, 8);
	put64(&record, 0x1000);
	put64(&record, 0x2000);
	put64(&record, 0x3000);
	if (with_build_id) {
		put(&record, "\4\0\0\0\xde\xad\xbe\xef\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
	} else {
		put32(&record, 0xfd);
		put32(&record, 1);
		put64(&record, 1234);
		put64(&record, 1);
	}
	put64(&record, 0); /* protection and flags */
	put(&record, path, strlen(path) + 1);
	finish(&record, PERF_RECORD_MMAP2, with_build_id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0, 99);
	return record;
}

static void test_records_are_decoded(void **state)
{
	struct record record = make_map(false, "/usr/bin/x");
	struct event event;

	assert_true(event_decode(record.bytes, record.size, &event));
	assert_int_equal(event.kind, EVENT_MAP);
	assert_int_equal(event.time_ns, 99);
	assert_int_equal(event.pid, 7);
	assert_int_equal(event.start, 0x1000);
	assert_int_equal(event.length, 0x2000);
	assert_int_equal(event.offset, 0x3000);
	assert_int_equal(event.inode, 1234);
	assert_int_equal(event.build_id_bytes, 0);
	assert_string_equal(event.name, "/usr/bin/x");

	record = make_map(true, "//anon");
	assert_true(event_decode(record.bytes, record.size, &event));
	assert_int_equal(event.build_id_bytes, 4);
	assert_memory_equal(event.build_id, "\xde\xad\xbe\xef", 4);
	assert_int_equal(event.inode, 0);
	assert_int_equal(event.device, 0);
}

#if UNWIND_REGISTERS == 16
#define KERNEL_REGISTERS 16
#else
#define KERNEL_REGISTERS UNWIND_REGISTERS
#endif

static struct record make_sample(uint64_t abi, uint64_t stack_bytes, uint64_t real)
{
	struct record record = {.size = sizeof(struct perf_event_header)};

	put64(&record, 0x401000);
	put32(&record, 7);
	put32(&record, 8);
	put64(&record, 99);
	put64(&record, abi);
	for (uint64_t i = 0; abi && i < KERNEL_REGISTERS; i++)
		put64(&record, 0x100 + i);
	if (abi) {
		put64(&record, stack_bytes);
		for (size_t i = 0; i < 64; i++)
			put(&record, "S", 1);
		put64(&record, real);
	}
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = (uint16_t)record.size};
	memcpy(record.bytes, &header, sizeof(header));
	return record;
}

static void test_samples_are_decoded(void **state)
{
	struct record record = make_sample(PERF_SAMPLE_REGS_ABI_64, 64, 40);
	struct event event;

	assert_true(event_decode(record.bytes, record.size, &event));
	assert_int_equal(event.kind, EVENT_SAMPLE);
	assert_true(event.time_ns == 99 && event.pid == 7 && event.tid == 8 && event.sample.ip == 0x401000);
	assert_true(event.sample.is_64);
	assert_int_equal(event.sample.stack_bytes, 40);
	assert_memory_equal(event.sample.stack, "SSSS", 4);
	assert_int_equal(event.sample.registers[0], 0x100);
#if UNWIND_REGISTERS == 16 /* the kernel's order is ax, bx, cx, dx, si, di, bp, sp, r8 ... */
	assert_int_equal(event.sample.registers[3], 0x101);
	assert_int_equal(event.sample.registers[UNWIND_REGISTER_FP], 0x106);
	assert_int_equal(event.sample.registers[UNWIND_REGISTER_SP], 0x107);
	assert_int_equal(event.sample.registers[15], 0x10f);
#endif
	record = make_sample(PERF_SAMPLE_REGS_ABI_32, 64, 40);
	assert_true(event_decode(record.bytes, record.size, &event));
	assert_false(event.sample.is_64);
	record = make_sample(PERF_SAMPLE_REGS_ABI_64, 64, 1ull << 40); /* more than there is */
	assert_true(event_decode(record.bytes, record.size, &event));
	assert_int_equal(event.sample.stack_bytes, 64);
	record = make_sample(PERF_SAMPLE_REGS_ABI_64, ~7ull, 40);
	assert_false(event_decode(record.bytes, record.size, &event));
}

static void touch(const struct event *event)
{
	volatile uint8_t sum = 0;
	for (size_t i = 0; event->kind == EVENT_SAMPLE && i < event->sample.stack_bytes; i++)
		sum = (uint8_t)(sum + event->sample.stack[i]);
}

/* Any record cut short or with its bytes changed is decoded within its bounds or refused. */
static void test_damaged_records(void **state)
{
	struct event event;

	srand(4);
	for (int round = 0; round < 20000; round++) {
		struct record record = rand() % 3 ? make_map(rand() % 2, "/a/rather/long/path/to/something")
						  : make_sample(PERF_SAMPLE_REGS_ABI_64, 64, 64);
		for (int i = rand() % 4; i > 0; i--)
			record.bytes[(size_t)rand() % record.size] = (uint8_t)rand();
		size_t size = (size_t)rand() % (record.size + 1);
		uint8_t *copy = malloc(size + 1); /* exact, so that the sanitizer sees a step too far */
		memcpy(copy, record.bytes, size);
		bool good = event_decode(copy, size, &event);
		if (good)
			touch(&event);
		if (good && event.name)
			assert_true(strlen(event.name) < size);
		free(copy);
	}
	struct record endless = make_map(false, "x");
	memset(endless.bytes + sizeof(struct perf_event_header) + 64, 'x',
	       endless.size - sizeof(struct perf_event_header) - 64);
	assert_false(event_decode(endless.bytes, endless.size, &event)); /* a path without an end */
}

/* ---- the kernel's own ---- */

struct seen {
	int fork, exec, exit;
	int maps; /* with a build-id */
	uint64_t last;
	bool in_order;
};

static void read_events(struct events *events, pid_t pid, const char *comm, struct seen *seen)
{
	for (unsigned cpu = 0; cpu < events_cpu_limit(events); cpu++) {
		struct event_ring *ring = events_ring(events, cpu);
		struct event event;
		uint64_t time, last = 0;
		if (!ring)
			continue;
		event_ring_open(events, ring);
		while (event_ring_peek(events, ring, &time)) {
			seen->in_order = seen->in_order && time >= last;
			last = time;
			if (!event_ring_next(events, ring, &event) || event.pid != pid)
				continue;
			assert_int_equal(event.time_ns, time);
			seen->last = time > seen->last ? time : seen->last;
			seen->fork += event.kind == EVENT_FORK;
			seen->exit += event.kind == EVENT_EXIT;
			seen->exec += event.kind == EVENT_COMM && event.is_exec && strcmp(event.name, comm) == 0;
			seen->maps += event.kind == EVENT_MAP && (event.build_id_bytes || event.inode);
		}
		event_ring_release(ring);
	}
}

/* /bin/true once and again, a few times around the rings. */
static void test_processes_are_reported(void **state)
{
	struct events *events = NULL;
	struct cpu_set online;
	struct error error;

	assert_int_equal(cpu_set_read("online", &online, NULL), 0);
	assert_int_equal(events_new(16384, &events, &error), 0);
	int r = events_set_cpus(events, &online, -1, 0, &error);
	if (r == -EPERM) {
		printf("skipped: %s\n", error.message);
		events_free(events);
		skip();
	}
	assert_int_equal(r, 0);
	for (int i = 0; i < 60; i++) {
		struct seen seen = {.in_order = true};
		uint64_t before = (uint64_t)time_monotonic_ns();
		read_events(events, -1, "", &seen);
		pid_t pid = fork();
		if (pid == 0) {
			execl("/bin/true", "true", NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
		read_events(events, pid, "true", &seen);
		assert_true(seen.in_order);
		assert_int_equal(seen.fork, 1);
		assert_int_equal(seen.exec, 1);
		assert_int_equal(seen.exit, 1);
		assert_true(seen.maps >= 3); /* the program, its loader, libc */
		assert_true(seen.last >= before && seen.last <= (uint64_t)time_monotonic_ns());
	}
	events_free(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records_are_decoded),
		cmocka_unit_test(test_samples_are_decoded),
		cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_processes_are_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
