/* SPDX-License-Identifier: Apache-2.0 */
/* Real programs with the library (tests/programs/markers.c), and shared files that no program of ours would make. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "agent/test_child.h"
#include "base/time.h"

static char program[4200];

#define READING_NS 20000 /* how well two clocks can be read together where others want the CPU, too */

/* ---- programs ---- */

/* Runs the program under a collector, which it announces itself to or not. */
static struct profile *collect(const char *what, const char *count, bool announce, struct marker_recorder_stats *ret_stats,
			       int *ret_status)
{
	struct marker_recorder *recorder;
	struct profile *profile;
	int go[2];
	char byte = 0;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(marker_recorder_new(false, &recorder, NULL), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		if (announce)
			setenv(MARKER_RECORDER_ENVIRONMENT, marker_recorder_name(recorder), 1);
		if (read(go[0], &byte, 1) == 1)
			execl(program, program, what, count, NULL);
		_exit(127);
	}
	assert_int_equal(marker_recorder_follow(recorder, child, NULL), 0);
	assert_int_equal(marker_recorder_start(recorder, NULL), 0);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(waitpid(child, ret_status, 0), child);
	assert_int_equal(marker_recorder_stop(recorder, &profile, NULL), 0);
	marker_recorder_get_stats(recorder, ret_stats);
	marker_recorder_free(recorder);
	close(go[0]);
	close(go[1]);
	return profile;
}

/* The same of one that succeeds. */
static struct profile *collect_all(const char *what, const char *count, bool announce, struct marker_recorder_stats *ret_stats)
{
	int status;
	struct profile *profile = collect(what, count, announce, ret_stats, &status);
	assert_int_equal(status, 0);
	return profile;
}

static const struct profile_marker *find(const struct profile *profile, const char *name, size_t which)
{
	for (size_t i = 0; i < profile_marker_count(profile); i++) {
		const struct profile_marker *marker = &profile->markers->markers[i];
		if (strcmp(profile_string(profile, marker->name), name) == 0 && which-- == 0)
			return marker;
	}
	return NULL;
}

static size_t count_of(const struct profile *profile, const char *name)
{
	size_t count = 0;
	for (size_t i = 0; i < profile_marker_count(profile); i++)
		count += strcmp(profile_string(profile, profile->markers->markers[i].name), name) == 0;
	return count;
}

static const struct profile_thread *thread_of(const struct profile *profile, const struct profile_marker *marker)
{
	return &profile->markers->threads[marker->thread];
}

static const struct profile_marker_value *value_of(const struct profile *profile, const struct profile_marker *marker,
						   size_t field)
{
	return &profile->markers->values[marker->value_first + field];
}

static void check_step(const struct profile *profile)
{
	const struct profile_marker *step = find(profile, "named step", 0), *inner = find(profile, "inner", 0);
	assert_non_null(step);
	assert_non_null(inner);
	assert_true(step->start_ns <= inner->start_ns && inner->end_ns <= step->end_ns);
	assert_int_equal(step->flow, 42);
	const struct profile_marker_schema *schema = &profile->markers->schemas[step->schema];
	assert_string_equal(profile_string(profile, schema->name), "step");
	assert_int_equal(schema->field_count, 6);
	assert_int_equal(value_of(profile, step, 0)->number, -5);
	assert_string_equal(profile_string(profile, value_of(profile, step, 1)->string), "nëighbour");
	assert_true(value_of(profile, step, 2)->real == 0.25);
	assert_int_equal(value_of(profile, step, 3)->number, 1500000);
	assert_int_equal(value_of(profile, step, 4)->number, 4096);
	assert_true(value_of(profile, step, 5)->real == 1.5);
	assert_string_equal(profile_string(profile, profile->markers->categories[step->category].name), "Engine");
}

static void check_others(const struct profile *profile)
{
	const struct profile_marker *request = find(profile, "request", 0), *end = find(profile, "tick", 1),
				    *job = find(profile, "job", 0);
	assert_int_equal(count_of(profile, "request"), 1);
	assert_int_equal(request->phase, PROFILE_MARKER_INTERVAL);
	assert_int_equal(value_of(profile, request, 0)->number, 7);
	assert_int_equal(thread_of(profile, request)->tid, thread_of(profile, request)->pid);
	assert_int_equal(count_of(profile, "tick"), 2);
	const char *names[] = {profile_string(profile, thread_of(profile, end)->name),
			       profile_string(profile, thread_of(profile, find(profile, "tick", 0))->name)};
	assert_true(strcmp(names[0], "a thread with a name of more than fifteen bytes") == 0 ||
		    strcmp(names[1], "a thread with a name of more than fifteen bytes") == 0);
	assert_non_null(job);
	assert_int_equal(job->phase, PROFILE_MARKER_INTERVAL);
	assert_int_equal(value_of(profile, job, 0)->number, 11);
	assert_int_equal(profile_counter_count(profile), 1);
	assert_int_equal(profile->markers->row_count, 10);
	assert_true(profile->markers->rows[9].value == 81);
	assert_string_equal(profile_string(profile, profile->markers->counters[1].name), "queued");
}

static bool no_program(void)
{
	if (access(program, X_OK) == 0)
		return false;
	print_message("skipped: %s was not built (make programs)\n", program);
	skip();
	return true;
}

/* Found by itself in /proc, and by what it says of itself. */
static void test_all(void **state)
{
	for (int announce = 0; announce < 2 && !no_program(); announce++) {
		struct marker_recorder_stats stats;
		int64_t before_ns = time_now_ns() - NS_PER_S;
		struct profile *profile = collect_all("all", NULL, announce, &stats);
		assert_int_equal(stats.lost + stats.malformed + stats.refused + stats.busy + stats.left_out, 0);
		assert_int_equal(stats.processes, 1);
		check_step(profile);
		check_others(profile);
		const struct profile_marker *step = find(profile, "named step", 0);
		assert_true(step->start_ns > before_ns && step->end_ns <= time_now_ns() + NS_PER_S);
		assert_string_equal(profile_string(profile, thread_of(profile, step)->process), "markers");
		assert_true(thread_of(profile, step)->start_ns > before_ns - 10 * NS_PER_S);
		profile_free(profile);
	}
}

/* Everything that a thread wrote is there, or was counted as lost. */
static void test_flood(void **state)
{
	struct marker_recorder_stats stats;
	if (no_program())
		return;
	struct profile *profile = collect_all("flood", "300000", true, &stats);
	assert_true(count_of(profile, "tick") >= WICKMARK_RECORDS);
	assert_int_equal(count_of(profile, "tick") + stats.lost, 300000);
	profile_free(profile);
}

/* Each thread is in one of the profiles that are taken while the program runs, with its name. */
static void test_take(void **state)
{
	struct marker_recorder *recorder;
	struct profile *profile;
	struct marker_recorder_stats stats;
	size_t found = 0;
	bool seen[2000] = {0}, ended = false;
	if (no_program())
		return;
	assert_int_equal(marker_recorder_new(false, &recorder, NULL), 0);
	assert_int_equal(marker_recorder_start(recorder, NULL), 0);
	pid_t child = fork();
	if (child == 0) {
		setenv(MARKER_RECORDER_ENVIRONMENT, marker_recorder_name(recorder), 1);
		execl(program, program, "threads", "2000", NULL);
		_exit(127);
	}
	while (!ended) {
		int status;
		time_sleep_ns(5 * NS_PER_MS);
		ended = waitpid(child, &status, WNOHANG) == child;
		if (ended) {
			assert_int_equal(profile_new(&profile, NULL), 0);
			assert_int_equal(marker_recorder_stop(recorder, &profile, NULL), 0);
		} else {
			assert_int_equal(marker_recorder_take(recorder, &profile, NULL), 0);
		}
		for (size_t i = 0; i < profile_marker_count(profile); i++) {
			int number = -1;
			const struct profile_marker *marker = &profile->markers->markers[i];
			const char *name = profile_string(profile, thread_of(profile, marker)->name);
			assert_int_equal(sscanf(name, "worker number %d of this program", &number), 1);
			assert_true(number >= 0 && number < 2000 && !seen[number]);
			assert_string_equal(profile_string(profile, marker->name), "inner");
			assert_string_equal(profile_string(profile, thread_of(profile, marker)->process), "markers");
			seen[number] = true;
			found++;
		}
		profile_free(profile);
	}
	marker_recorder_get_stats(recorder, &stats);
	assert_int_equal(found, 2000);
	assert_int_equal(stats.markers, 2000);
	assert_int_equal(stats.processes, 1);
	marker_recorder_free(recorder);
}

/* Threads end, and their entries are used again. */
static void test_threads(void **state)
{
	struct marker_recorder_stats stats;
	if (no_program())
		return;
	struct profile *profile = collect_all("threads", "500", true, &stats);
	assert_int_equal(count_of(profile, "inner"), 500);
	bool seen[500] = {0};
	for (size_t i = 0; i < 500; i++) {
		int number = -1;
		const char *name = profile_string(profile, thread_of(profile, &profile->markers->markers[i])->name);
		assert_int_equal(sscanf(name, "worker number %d of this program", &number), 1);
		assert_true(number >= 0 && number < 500 && !seen[number]);
		seen[number] = true;
	}
	profile_free(profile);
}

static void test_processes(void **state)
{
	static const struct {
		const char *what, *count;
		size_t spans, processes;
		int signal;
	} cases[] = {{"fork", "40", 40, 41, 0}, {"exec", "20", 20, 20, 0}, {"kill", NULL, 100, 1, 9}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && !no_program(); i++) {
		struct marker_recorder_stats stats;
		int status;
		struct profile *profile = collect(cases[i].what, cases[i].count, true, &stats, &status);
		/* One that execs again before the recorder had the CPU to take its file is not there to be asked whose it is;
		 * the recorder has refused it, or not seen it. */
		for (int tries = 0; tries < 3 && (stats.refused || count_of(profile, "inner") < cases[i].spans); tries++) {
			profile_free(profile);
			profile = collect(cases[i].what, cases[i].count, true, &stats, &status);
		}
		assert_int_equal(WTERMSIG(status), cases[i].signal);
		assert_int_equal(count_of(profile, "inner"), cases[i].spans);
		assert_int_equal(stats.processes, cases[i].processes);
		assert_int_equal(stats.lost + stats.malformed + stats.refused, 0);
		profile_free(profile);
	}
}

/* ---- shared files that no program of ours makes ---- */

static int new_file(uint64_t size, int seals)
{
	int fd = memfd_create(WICKMARK_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void put(int fd, uint64_t at, const void *data, size_t size)
{
	assert_int_equal(pwrite(fd, data, size, (off_t)at), (ssize_t)size);
}

static const struct wickmark_header good = {.magic = WICKMARK_MAGIC,
					    .abi = WICKMARK_ABI,
					    .clock = WICKMARK_CLOCK_MONOTONIC,
					    .file_bytes = WICKMARK_FILE_BYTES,
					    .string_bytes = 4,
					    .thread_count = 1};

/* What cannot be opened: sizes that could change, other sizes, versions, clocks, and what is no file in memory. */
static void test_refused(void **state)
{
	struct marker_clock clock;
	struct marker_output output;
	struct marker_file *file;
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	for (int i = 0; i < 6; i++) {
		struct wickmark_header header = good;
		struct error err = {0};
		header.magic += i == 2;
		header.abi += i == 3;
		header.clock = i == 4 ? 77 : header.clock;
		int fd = i == 5 ? open("/dev/null", O_RDWR | O_CLOEXEC)
				: new_file(WICKMARK_FILE_BYTES - (i == 0), i == 1 ? F_SEAL_GROW : F_SEAL_SHRINK);
		if (i < 5)
			put(fd, 0, &header, sizeof(header));
		assert_int_equal(marker_file_open(&output, fd, getpid(), &file, &err), -EBADMSG);
		assert_true(err.message[0] != 0);
	}
	marker_output_release(&output);
	marker_clock_release(&clock);
}

/* A ring with one record, or a claim about it, behind a header that says what it wants. */
static void take_claims(const struct wickmark_header *header, const struct wickmark_thread *thread,
			const struct wickmark_site_entry *site, const struct wickmark_record *record,
			struct marker_recorder_stats *ret)
{
	struct marker_clock clock;
	struct marker_output output;
	struct marker_file *file;
	int fd = new_file(WICKMARK_FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	put(fd, 0, header, sizeof(*header));
	put(fd, WICKMARK_AT_THREADS, thread, sizeof(*thread));
	put(fd, WICKMARK_AT_SITES, site, sizeof(*site));
	put(fd, WICKMARK_AT_RINGS, record, sizeof(*record));
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	assert_int_equal(marker_file_open(&output, fd, getpid(), &file, NULL), 0);
	assert_int_equal(marker_clock_tick(&clock), 0);
	assert_int_equal(marker_file_drain(file, NULL), 0);
	assert_int_equal(marker_file_finish(file, NULL), 0);
	*ret = output.stats;
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
}

static void test_claims(void **state)
{
	const struct wickmark_thread thread = {.state = WICKMARK_ACTIVE, .generation = 1, .tid = 1, .head = 1};
	const struct wickmark_site_entry site = {.name = 4, .field_count = 1, .fields = {{4, 4, 1}}};
	const struct wickmark_record instant = {
		.time = (uint64_t)time_monotonic_ns() + NS_PER_S, .site = 1, .kind = WICKMARK_KIND_INSTANT};
	for (int i = 0; i < 14; i++) {
		struct wickmark_header header = good;
		struct wickmark_thread t = thread;
		struct wickmark_site_entry s = site;
		struct wickmark_record r = instant;
		struct marker_recorder_stats stats;
		bool counts = i <= 6;
		header.site_count = i == 7 ? 0 : i == 1 ? UINT32_MAX : 1;
		header.thread_count = i == 2 ? UINT32_MAX : 1;
		header.string_bytes = i == 3 ? UINT32_MAX : 4;
		header.long_count = i == 4 ? UINT32_MAX : 0;
		s.field_count = i == 5 ? UINT32_MAX : s.field_count;
		s.fields[0].format = i == 6 ? UINT32_MAX : s.fields[0].format;
		r.site = i == 8 ? UINT16_MAX : r.site;
		r.kind = i == 9 ? 200 : r.kind;
		r.more = i == 10 ? 1 : r.more;
		r.value_count = i == 11 ? 200 : r.value_count;
		r.flags = i == 12 ? WICKMARK_HAS_NAME : r.flags;
		t.head = i == 13 ? UINT64_MAX : t.head;
		take_claims(&header, &t, &s, &r, &stats);
		assert_int_equal(stats.markers, counts);
		assert_int_equal(stats.malformed, !counts);
	}
}

/* One thread's ring, with one site of no name, in a file of this process. */
static struct marker_file *open_ring(struct marker_output *output, const struct wickmark_record *records, size_t count)
{
	const struct wickmark_thread thread = {.state = WICKMARK_ACTIVE, .generation = 1, .tid = 1, .head = count};
	const struct wickmark_site_entry site = {0};
	struct wickmark_header header = good;
	struct marker_file *file;
	int fd = new_file(WICKMARK_FILE_BYTES, F_SEAL_SHRINK);
	header.site_count = 1;
	put(fd, 0, &header, sizeof(header));
	put(fd, WICKMARK_AT_THREADS, &thread, sizeof(thread));
	put(fd, WICKMARK_AT_SITES, &site, sizeof(site));
	put(fd, WICKMARK_AT_RINGS, records, count * sizeof(*records));
	assert_int_equal(marker_file_open(output, fd, getpid(), &file, NULL), 0);
	return file;
}

/* A span whose beginning is kept takes no more room; each marker beyond the most is counted once. */
static void test_full(void **state)
{
	struct marker_clock clock;
	struct marker_output output;
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	const uint64_t now_ns = (uint64_t)time_monotonic_ns();
	const struct wickmark_record records[] = {
		{.time = now_ns, .number = 7, .site = 1, .kind = WICKMARK_KIND_ASYNC_BEGIN},
		{.time = now_ns, .number = 8, .site = 1, .kind = WICKMARK_KIND_ASYNC_BEGIN},
		{.time = now_ns, .site = 1, .kind = WICKMARK_KIND_INSTANT},
		{.time = now_ns, .number = 7, .site = 1, .kind = WICKMARK_KIND_ASYNC_END},
		{.time = now_ns, .number = 8, .site = 1, .kind = WICKMARK_KIND_ASYNC_END},
	};
	output.max = 1;
	output.downsample.is_stuck = true; /* no room can be made */
	struct marker_file *file = open_ring(&output, records, sizeof(records) / sizeof(records[0]));
	assert_int_equal(marker_file_drain(file, NULL), 0);
	assert_int_equal(output.stats.markers, 1);
	assert_int_equal(output.stats.left_out, 3);
	assert_int_equal(profile_marker_count(output.profile), 1);
	assert_int_equal(output.profile->markers->markers[0].phase, PROFILE_MARKER_INTERVAL);
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
}

/* An id that is used again before the ring of who ends is read, or that of who begins; and more often than ends are kept. */
static void test_ids_again(void **state)
{
	enum { SPANS = 2 * MARKER_ASYNCS_OF_ID };
	(void)state;
	for (int turn = 0; turn < 4; turn++) {
		struct wickmark_record records[2 * SPANS];
		struct marker_clock clock;
		struct marker_output output;
		uint64_t spans = turn < 2 ? MARKER_ASYNCS_OF_ID : SPANS;
		assert_int_equal(marker_clock_init(&clock), 0);
		assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
		const uint64_t now_ns = (uint64_t)time_monotonic_ns();
		clock.end_ns = INT64_MAX;
		for (uint64_t i = 0; i < 2 * spans; i++) {
			bool is_end = (i >= spans) == (turn % 2 == 0);
			records[i] =
				(struct wickmark_record){.time = now_ns + 100 * (i % spans) + (is_end ? 60 : 0),
							 .number = 7,
							 .site = 1,
							 .kind = is_end ? WICKMARK_KIND_ASYNC_END : WICKMARK_KIND_ASYNC_BEGIN};
		}
		struct marker_file *file = open_ring(&output, records, 2 * spans);
		assert_int_equal(marker_file_drain(file, NULL), 0);
		size_t whole = 0;
		for (size_t i = 0; i < profile_marker_count(output.profile); i++) {
			const struct profile_marker *marker = &output.profile->markers->markers[i];
			whole += marker->phase == PROFILE_MARKER_INTERVAL;
			if (marker->phase == PROFILE_MARKER_INTERVAL)
				assert_int_equal(marker->end_ns - marker->start_ns, 60);
		}
		assert_int_equal(whole, MARKER_ASYNCS_OF_ID);
		assert_int_equal(profile_marker_count(output.profile), 2 * spans - whole);
		assert_int_equal(file->asyncs.count, turn < 3 ? 0 : MARKER_ASYNCS_OF_ID);
		marker_file_free(file);
		marker_output_release(&output);
		marker_clock_release(&clock);
	}
}

/* Events that are too many for a number, when rows are downsampled and when they come. */
static void test_events_without_end(void **state)
{
	enum { ROWS = 64 };
	struct wickmark_record records[ROWS];
	const struct wickmark_site_entry site = {.what = WICKMARK_IS_EVENTS};
	struct marker_clock clock;
	struct marker_output output;
	(void)state;
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	const uint64_t now_ns = (uint64_t)time_monotonic_ns();
	clock.end_ns = INT64_MAX;
	for (uint64_t i = 0; i < ROWS; i++) {
		double many = 1.7e308;
		records[i] = (struct wickmark_record){
			.time = now_ns + i, .site = 1, .kind = WICKMARK_KIND_COUNTER, .value_count = 1};
		memcpy(&records[i].value, &many, sizeof(many));
	}
	output.max = 8;
	struct marker_file *file = open_ring(&output, records, ROWS);
	put(file->fd, WICKMARK_AT_SITES, &site, sizeof(site));
	assert_int_equal(marker_file_drain(file, NULL), 0);
	assert_int_equal(marker_file_finish(file, NULL), 0);
	assert_true(output.stats.left_out > 0 && output.profile->markers->row_count > 0);
	for (size_t i = 0; i < output.profile->markers->row_count; i++)
		assert_true(isfinite(output.profile->markers->rows[i].value));
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
}

/* Strings that overlap: each claims to be as long as can be, of the bytes that those behind it are made of. */
static void test_strings(void **state)
{
	static uint32_t lens[WICKMARK_STRING_BYTES / sizeof(uint32_t)];
	static struct wickmark_record records[WICKMARK_RECORDS];
	struct marker_clock clock;
	struct marker_output output;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		lens[i] = WICKMARK_STRING_MAX - (uint32_t)(i % 512);
	for (size_t i = 0; i < WICKMARK_RECORDS; i += 2) {
		uint64_t name = 4 * (1 + i / 2);
		records[i] = (struct wickmark_record){.time = (uint64_t)time_monotonic_ns() + NS_PER_S,
						      .site = 1,
						      .kind = WICKMARK_KIND_INSTANT,
						      .flags = WICKMARK_HAS_NAME,
						      .more = 1};
		memcpy(&records[i + 1], &name, sizeof(name));
	}
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	struct marker_file *file = open_ring(&output, records, WICKMARK_RECORDS);
	const uint32_t bytes = WICKMARK_STRING_BYTES;
	put(file->fd, WICKMARK_AT_STRINGS, lens, sizeof(lens));
	put(file->fd, offsetof(struct wickmark_header, string_bytes), &bytes, sizeof(bytes));
	assert_int_equal(marker_file_drain(file, NULL), 0);
	assert_int_equal(output.stats.markers, WICKMARK_RECORDS / 2);
	assert_true(file->string_bytes > WICKMARK_STRING_BYTES / 2 && file->string_bytes <= WICKMARK_STRING_BYTES);
	assert_true(file->strings.count >= 256 && file->strings.count < 512);
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
}

/* What is made while other rings are emptied has its own time. */
static void test_time(void **state)
{
	struct marker_clock clock;
	struct marker_output output;
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	const struct wickmark_record record = {.time = (uint64_t)time_monotonic_ns(), .site = 1, .kind = WICKMARK_KIND_INSTANT};
	struct marker_file *file = open_ring(&output, &record, 1);
	assert_int_equal(marker_file_drain(file, NULL), 0);
	assert_int_equal(profile_marker_count(output.profile), 1);
	assert_int_equal(output.profile->markers->markers[0].start_ns, (int64_t)record.time + clock.to_wall_ns);
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
}

/* What is made, lost or under way before a recording begins that was switched on a little earlier. */
static void test_before(void **state)
{
	struct marker_clock clock;
	struct marker_output output;
	(void)state;
	for (int begun = 0; begun < 2; begun++) {
		assert_int_equal(marker_clock_init(&clock), 0);
		assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
		uint64_t now_ns = (uint64_t)time_monotonic_ns();
		struct wickmark_record record = {.time = now_ns, .site = 1, .kind = WICKMARK_KIND_INSTANT};
		struct wickmark_long job = {.start = now_ns - NS_PER_S, .site = 1, .tid = 1};
		struct marker_file *file = open_ring(&output, &record, 1);
		put(file->fd, WICKMARK_AT_LONGS, &job, sizeof(job));
		file->header->long_count = 1;
		file->header->lost_sites = 3;
		assert_int_equal(marker_clock_begin(&clock, begun ? 0 : time_now_ns() + 3600 * NS_PER_S), 0);
		int64_t begin_ns = clock.begin_ns;
		assert_int_equal(marker_file_drain(file, NULL), 0);
		time_sleep_ns(NS_PER_MS);
		assert_int_equal(marker_clock_tick(&clock), 0);
		assert_int_equal(marker_file_finish(file, NULL), 0);
		/* The lost ones, and the job since the beginning. */
		assert_int_equal(profile_marker_count(output.profile), begun ? 2 : 0);
		assert_int_equal(output.stats.lost, begun ? 3 : 0);
		for (size_t i = 0; i < profile_marker_count(output.profile); i++)
			assert_true(output.profile->markers->markers[i].start_ns >= begin_ns);
		marker_file_free(file);
		marker_output_release(&output);
		marker_clock_release(&clock);
	}
}

/* Rings may be emptied at any time: at once, soon after a look at the clock, and long after it. What is in them by then has the
 * time that the clock showed. */
static void test_clock(void **state)
{
#if defined(__x86_64__)
	static const int64_t pauses_ns[] = {
		0,	20000,		NS_PER_MS, 2 * NS_PER_MS,  3 * NS_PER_MS, 50000, 9 * NS_PER_MS,
		300000, 11 * NS_PER_MS, 0,	   40 * NS_PER_MS, NS_PER_MS};
	enum { COUNT = 12 };
	struct marker_clock clock;
	int64_t before_ns[COUNT], after_ns[COUNT];
	uint64_t ticks[COUNT];
	unsigned a, b, c, d;
	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
		skip();
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_clock_begin(&clock, 0), 0);
	for (size_t i = 0; i < COUNT; i++) {
		time_sleep_ns(pauses_ns[i]);
		before_ns[i] = time_monotonic_ns() + clock.to_wall_ns;
		ticks[i] = __rdtsc();
		after_ns[i] = time_monotonic_ns() + clock.to_wall_ns;
		assert_int_equal(marker_clock_tick(&clock), 0);
		for (size_t k = 0; k <= i; k++) {
			int64_t wall_ns = marker_clock_wall_ns(&clock, WICKMARK_CLOCK_TSC, ticks[k]);
			assert_in_range(wall_ns, before_ns[k] - READING_NS, after_ns[k] + READING_NS);
		}
	}
	marker_clock_release(&clock);
#else
	skip();
#endif
	(void)state;
}

/* ---- more than there is room for ---- */

#define THIN_ROUNDS   40
#define THIN_INSTANTS 1000
#define THIN_SPANS    200 /* of a millisecond */
#define THIN_FLOWS    100 /* from one round to the next */
#define THIN_ASYNCS   100 /* likewise */
#define THIN_EVENTS   100
#define THIN_RECORDS  (THIN_INSTANTS + THIN_SPANS + 2 * THIN_FLOWS + 2 * THIN_FLOWS + 2 * THIN_ASYNCS + THIN_EVENTS + 1)

/* One of each kind after the other, and one long span; *ret_count records. A flow takes two, for its number. */
static void make_round(uint64_t round, uint64_t begin_ns, struct wickmark_record *out, size_t *ret_count)
{
	size_t n = 0;
	uint64_t at = begin_ns + round * NS_PER_S;
	for (uint64_t i = 0; i < THIN_INSTANTS; i++) {
		out[n++] = (struct wickmark_record){.time = at + i, .site = 1, .kind = WICKMARK_KIND_INSTANT};
		if (i < THIN_SPANS)
			out[n++] = (struct wickmark_record){
				.time = at + i, .number = NS_PER_MS, .site = 2, .kind = WICKMARK_KIND_SPAN};
		if (i < THIN_EVENTS) {
			double one = 1;
			out[n] = (struct wickmark_record){
				.time = at + i, .site = 3, .kind = WICKMARK_KIND_COUNTER, .value_count = 1};
			memcpy(&out[n++].value, &one, sizeof(one));
		}
		for (int end = 0; end < 2 && i < THIN_ASYNCS; end++)
			out[n++] = (struct wickmark_record){.time = at + i,
							    .number = (round + !end) * THIN_ASYNCS + i,
							    .site = 4,
							    .kind = end ? WICKMARK_KIND_ASYNC_END : WICKMARK_KIND_ASYNC_BEGIN};
		for (int end = 0; end < 2 && i < THIN_FLOWS; end++) {
			out[n++] = (struct wickmark_record){.time = at + i,
							    .site = 5,
							    .kind = WICKMARK_KIND_INSTANT,
							    .flags = WICKMARK_HAS_FLOW | (end ? WICKMARK_FLOW_ENDS : 0),
							    .more = 1};
			uint64_t flow[4] = {(round + !end) * THIN_FLOWS + i + 1};
			memcpy(&out[n++], flow, sizeof(flow));
		}
	}
	out[n++] = (struct wickmark_record){.time = at, .number = NS_PER_S / 2, .site = 2, .kind = WICKMARK_KIND_SPAN};
	assert_int_equal(n, THIN_RECORDS);
	*ret_count = n;
}

struct thinned {
	size_t notices, instants[THIN_ROUNDS], spans, longest, flow_ends[2], starts, ends, whole;
	double events;
};

static void count_thinned(const struct marker_output *output, int64_t begin_ns, struct thinned *ret)
{
	const struct profile *profile = output->profile;
	const struct profile_markers *markers = profile->markers;
	bool begun[(THIN_ROUNDS + 1) * THIN_FLOWS + 1] = {0}, ended[(THIN_ROUNDS + 1) * THIN_FLOWS + 1] = {0};
	*ret = (struct thinned){0};
	for (size_t i = 0; i < markers->marker_count; i++) {
		const struct profile_marker *marker = &markers->markers[i];
		bool is_long = marker->phase == PROFILE_MARKER_INTERVAL && marker->end_ns - marker->start_ns == NS_PER_S / 2;
		if (marker->schema == output->lost_schema)
			ret->notices++;
		else if (marker->flow)
			(marker->flow_ends ? ended : begun)[marker->flow] = true;
		else if (marker->phase == PROFILE_MARKER_INSTANT)
			ret->instants[(marker->start_ns - begin_ns) / NS_PER_S]++;
		else if (marker->phase == PROFILE_MARKER_START)
			ret->starts++;
		else if (marker->phase == PROFILE_MARKER_END)
			ret->ends++;
		else if (marker->end_ns - marker->start_ns > NS_PER_S / 2)
			ret->whole++;
		else if (is_long)
			ret->longest++;
		else
			ret->spans++;
	}
	/* Flows of the first and the last round have one end. */
	for (size_t i = THIN_FLOWS + 1; i <= THIN_ROUNDS * THIN_FLOWS; i++) {
		ret->flow_ends[0] += begun[i];
		ret->flow_ends[1] += ended[i];
		assert_int_equal(begun[i], ended[i]);
	}
	for (size_t i = 0; i < markers->row_count; i++)
		ret->events += markers->rows[i].value;
}

/* What is kept covers the whole time, has what is rare, no halves of what belongs together, and all events; what is not is
 * counted. */
static void test_thinned(void **state)
{
	static struct wickmark_record records[THIN_RECORDS];
	struct wickmark_header header = good;
	struct wickmark_thread thread = {.state = WICKMARK_ACTIVE, .generation = 1, .tid = 1};
	struct marker_clock clock;
	struct marker_output output;
	struct marker_file *file;
	struct thinned found;
	header.site_count = 5;
	int fd = new_file(WICKMARK_FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	put(fd, 0, &header, sizeof(header));
	for (uint64_t i = 0; i < 5; i++) {
		struct wickmark_site_entry site = {.what = i == 2 ? WICKMARK_IS_EVENTS : WICKMARK_IS_MARKER};
		put(fd, WICKMARK_AT_SITES + i * sizeof(site), &site, sizeof(site));
	}
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&output, &clock, NULL), 0);
	output.max = 4000;
	clock.end_ns = INT64_MAX;
	uint64_t begin_ns = (uint64_t)(clock.begin_ns - clock.to_wall_ns);
	assert_int_equal(marker_file_open(&output, dup(fd), getpid(), &file, NULL), 0);
	size_t made = 0, entries = 0;
	for (uint64_t round = 0; round < THIN_ROUNDS; round++) {
		size_t count;
		make_round(round, begin_ns, records, &count);
		for (size_t i = 0; i < count; i++)
			put(fd, WICKMARK_AT_RINGS + (thread.head + i) % WICKMARK_RECORDS * sizeof(*records), &records[i],
			    sizeof(*records));
		thread.head += count;
		thread.lost++;
		made += count - 2 * THIN_FLOWS;
		put(fd, WICKMARK_AT_THREADS, &thread, offsetof(struct wickmark_thread, tail));
		assert_int_equal(marker_file_drain(file, NULL), 0);
		entries = output.profile->markers->marker_count + output.profile->markers->row_count;
		assert_true(entries <= output.max);
	}
	assert_int_equal(output.stats.malformed, 0);
	assert_int_equal(output.stats.lost, THIN_ROUNDS);
	assert_int_equal(marker_file_finish(file, NULL), 0);
	assert_int_equal(output.stats.rows, output.profile->markers->row_count);
	count_thinned(&output, clock.begin_ns, &found);
	assert_int_equal(output.stats.markers + found.notices, output.profile->markers->marker_count);
	assert_true(found.notices < THIN_ROUNDS);
	assert_int_equal(found.longest, THIN_ROUNDS);
	assert_true(found.events == THIN_ROUNDS * THIN_EVENTS);
	assert_true(found.spans > 0 && found.flow_ends[0] > 0);
	/* Each round alike: as many as of the others, but for chance (four deviations). */
	size_t all = 0;
	for (size_t i = 0; i < THIN_ROUNDS; i++)
		all += found.instants[i];
	double mean = (double)all / THIN_ROUNDS;
	for (size_t i = 0; i < THIN_ROUNDS; i++)
		assert_true(fabs((double)found.instants[i] - mean) < 4 * sqrt(mean) + 1);
	/* Only the first round's ends have no beginning, and the last one's beginnings no end. */
	assert_true(found.ends <= THIN_ASYNCS && found.starts <= THIN_ASYNCS && found.whole > 0);
	/* Two ends that came together are one marker, whether it is kept or went later; others went by themselves. */
	uint64_t counted = output.stats.markers + output.stats.rows + output.stats.left_out;
	assert_true(counted <= made && counted >= made - THIN_ROUNDS * THIN_ASYNCS);
	marker_file_free(file);
	marker_output_release(&output);
	marker_clock_release(&clock);
	close(fd);
}

/* Whether somebody holds the lease of a process. */
static bool is_recorded(pid_t pid)
{
	struct wickmark_header header = {0};
	int fd = marker_process_open_file(pid);
	bool read = fd >= 0 && pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header);
	if (fd >= 0)
		close(fd);
	return read && header.enabled;
}

static void follow(pid_t child, struct marker_recorder **ret)
{
	assert_int_equal(marker_recorder_new(false, ret, NULL), 0);
	assert_int_equal(marker_recorder_follow(*ret, child, NULL), 0);
	assert_int_equal(marker_recorder_start(*ret, NULL), 0);
}

static void stop(struct marker_recorder *recorder, struct marker_recorder_stats *ret)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(marker_recorder_stop(recorder, &profile, NULL), 0);
	marker_recorder_get_stats(recorder, ret);
	marker_recorder_free(recorder);
	profile_free(profile);
}

/* A recorder beside another: it has no markers, and says whose it cannot have. */
static void test_two(void **state)
{
	struct marker_recorder *first, *second;
	struct marker_recorder_stats stats;
	if (no_program())
		return;
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, "spin", "1000000", NULL);
		_exit(127);
	}
	follow(child, &first);
	for (int i = 0; i < 12000 && !is_recorded(child); i++)
		time_sleep_ns(10 * NS_PER_MS);
	/* Until it had the time to look. */
	for (int i = 1; i < 100; i++) {
		follow(child, &second);
		time_sleep_ns((i < 20 ? i : 20) * 100 * NS_PER_MS);
		stop(second, &stats);
		assert_int_equal(stats.processes, 0);
		if (stats.busy)
			break;
	}
	assert_int_equal(stats.busy, 1);
	stop(first, &stats);
	assert_int_equal(stats.processes, 1);
	assert_int_equal(stats.busy, 0);
	assert_false(is_recorded(child));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A collector that runs all the time gives way to a recorder, and takes over when that has ended; each has what was made in its
 * time, and neither counts what the other lost. */
static void test_gives_way(void **state)
{
	(void)state;
	struct marker_clock clock;
	struct marker_output collector, recorder;
	struct marker_file *behind, *before;
	struct wickmark_header *header;
	uint64_t soon = (uint64_t)time_monotonic_ns() + 60 * (uint64_t)NS_PER_S;
	uint32_t always = 4 | 1 | WICKMARK_GIVES_WAY, once = 8 | 1, other = 16 | 1;
	int fd = new_file(WICKMARK_FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	put(fd, 0, &good, sizeof(good));
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(header != MAP_FAILED);
	assert_int_equal(marker_clock_init(&clock), 0);
	assert_int_equal(marker_output_init(&collector, &clock, NULL), 0);
	assert_int_equal(marker_output_init(&recorder, &clock, NULL), 0);
	assert_int_equal(marker_file_open(&collector, dup(fd), getpid(), &behind, NULL), 0);
	assert_int_equal(marker_file_open(&recorder, dup(fd), getpid(), &before, NULL), 0);

	/* One that was started by a recorder, and waits for it, is that one's. */
	header->lease_ns = soon;
	header->enabled = 1;
	assert_false(marker_file_lease(behind, always, soon));
	assert_true(marker_file_lease(before, once, soon));
	marker_file_switch_off(before, once);
	before->is_held = false;

	assert_true(marker_file_lease(behind, always, soon));
	assert_int_equal(header->recorder, always);
	assert_true(marker_file_lease(before, once, soon));
	assert_int_equal(header->recorder, once);
	assert_false(marker_file_lease(behind, always, soon));
	assert_false(behind->is_held);
	assert_false(marker_file_lease(behind, other, soon)); /* recorders do not give way to each other */
	marker_file_switch_off(behind, always);		      /* nor is it switched off by who does not have it */
	assert_int_equal(header->enabled, 1);

	header->lost_sites = 5;
	assert_int_equal(marker_file_drain(before, NULL), 0);
	assert_int_equal(recorder.stats.lost, 5);
	marker_file_switch_off(before, once);
	assert_true(marker_file_lease(behind, always, soon));
	assert_true(behind->is_held);
	assert_int_equal(marker_file_drain(behind, NULL), 0);
	assert_int_equal(collector.stats.lost, 0);
	header->lost_sites = 7;
	assert_int_equal(marker_file_drain(behind, NULL), 0);
	assert_int_equal(collector.stats.lost, 2);

	marker_file_free(behind);
	marker_file_free(before);
	marker_output_release(&collector);
	marker_output_release(&recorder);
	marker_clock_release(&clock);
	munmap(header, sizeof(*header));
	close(fd);
}

/* The least of some looks, for the collector reads /proc meanwhile. */
static size_t open_descriptors(void)
{
	size_t least = SIZE_MAX;
	for (int i = 0; i < 20; i++) {
		size_t count = 0;
		DIR *dir = opendir("/proc/self/fd");
		assert_non_null(dir);
		while (readdir(dir))
			count++;
		closedir(dir);
		least = count < least ? count : least;
		time_sleep_ns(NS_PER_MS);
	}
	return least;
}

/* Hands over as many descriptors in one message, and waits until the collector has hung up. */
static void hand_over(const struct marker_recorder *recorder, size_t count)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *name = marker_recorder_name(recorder);
	char byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes};
	int fds[4] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
	int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(to >= 0);
	memcpy(address.sun_path + 1, name, strlen(name));
	assert_int_equal(connect(to, (struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
			 0);
	message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
	assert_int_equal(sendmsg(to, &message, MSG_NOSIGNAL), 1);
	assert_true(read(to, &byte, 1) <= 0);
	close(to);
}

/* No file of markers, and more than one: nothing stays open. */
static void test_handed_over(void **state)
{
	struct marker_recorder *recorder;
	struct marker_recorder_stats stats;
	follow(getpid(), &recorder);
	hand_over(recorder, 1);
	size_t before = open_descriptors();
	for (size_t i = 0; i < 12; i++)
		hand_over(recorder, 1 + i % 4);
	/* Threads of the recorder have a few open at times, also when they were counted before: fewer than are handed over
	 * here. */
	size_t now = open_descriptors();
	for (int i = 0; i < 600 && now > before; i++) {
		time_sleep_ns(100 * NS_PER_MS);
		now = open_descriptors();
	}
	assert_in_range(now, 1, before);
	stop(recorder, &stats);
	assert_int_equal(stats.processes, 0);
	assert_int_equal(stats.refused, 13);
}

/* Nobody makes markers. */
static void test_nobody(void **state)
{
	struct marker_recorder *recorder;
	struct profile *profile;
	struct marker_recorder_stats stats;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(marker_recorder_new(false, &recorder, NULL), 0);
	assert_true(strlen(marker_recorder_name(recorder)) > 10);
	assert_int_equal(marker_recorder_start(recorder, NULL), 0);
	assert_int_equal(marker_recorder_stop(recorder, &profile, NULL), 0);
	marker_recorder_get_stats(recorder, &stats);
	assert_int_equal(stats.markers + stats.processes, 0);
	assert_null(profile->markers);
	marker_recorder_free(recorder);
	profile_free(profile);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),	    cmocka_unit_test(test_flood),
		cmocka_unit_test(test_threads),	    cmocka_unit_test(test_processes),
		cmocka_unit_test(test_refused),	    cmocka_unit_test(test_claims),
		cmocka_unit_test(test_two),	    cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_handed_over), cmocka_unit_test(test_full),
		cmocka_unit_test(test_time),	    cmocka_unit_test(test_strings),
		cmocka_unit_test(test_take),	    cmocka_unit_test(test_ids_again),
		cmocka_unit_test(test_before),	    cmocka_unit_test(test_events_without_end),
		cmocka_unit_test(test_clock),	    cmocka_unit_test(test_thinned),
		cmocka_unit_test(test_gives_way),
	};
	child_program("markers", program, sizeof(program));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
