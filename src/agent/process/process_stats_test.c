// SPDX-License-Identifier: Apache-2.0
/* Differences of readings made by hand, and, with root, those of this machine's kernel against getrusage(). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_stats.h"
#include "base/alloc.h"
#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "base/time.h"

struct fixture {
	struct binaries binaries;
	struct process_table table;
	struct cgroups cgroups;
	struct sample_labels labels;
	struct process_stats *stats;
	struct profile *profile;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int add_process(struct fixture *f, pid_t pid, const char *comm)
{
	struct process *process;
	int r = process_table_add(&f->table, pid, &process);
	if (r == 0)
		snprintf(process->comm, sizeof(process->comm), "%s", comm);
	return r;
}

static int fixture_init(struct fixture *f)
{
	*f = (struct fixture){.cgroups.root_fd = -1};
	f->labels = (struct sample_labels){.binaries = &f->binaries, .cgroups = &f->cgroups, .host = "h", .release = "6"};
	int r = binaries_init(&f->binaries);
	if (r == 0)
		r = intern_init(&f->cgroups.paths, 1 << 20);
	if (r == 0)
		r = process_table_init(&f->table, &f->binaries);
	if (r == 0 && !(f->stats = mem_zalloc(sizeof(*f->stats))))
		r = -ENOMEM;
	return r;
}

static void fixture_release(struct fixture *f)
{
	profile_free(f->profile);
	process_stats_free(f->stats);
	process_table_release(&f->table);
	binaries_release(&f->binaries);
	map64_release(&f->cgroups.known);
	intern_release(&f->cgroups.paths);
}

/* A record whose counters are all `total`, in a process that began at `started`. */
static struct stats_record record_of(unsigned kind, unsigned pid, uint64_t started, uint64_t total)
{
	return (struct stats_record){.kind = kind,
				     .pid = pid,
				     .started_ns = started,
				     .cpu_ns = total,
				     .minor_faults = total + 1,
				     .major_faults = total + 2,
				     .voluntary_switches = total + 3,
				     .involuntary_switches = total + 4,
				     .read_bytes = total + 5,
				     .written_bytes = total + 6,
				     .rss_pages = kind == STATS_LEADER ? 7 : 0,
				     .threads = kind == STATS_LEADER ? 3 : 0};
}

static int add(struct fixture *f, unsigned kind, unsigned pid, uint64_t started, uint64_t total)
{
	struct stats_record record = record_of(kind, pid, started, total);
	return process_stats_add(f->stats, &record);
}

static int make(struct fixture *f)
{
	f->profile = profile_free(f->profile);
	return process_stats_make(f->stats, &f->table, &f->labels, 100, 10, &f->profile, NULL);
}

/* The row of a process, NULL if it has none. */
static const int64_t *row_of(const struct fixture *f, int pid)
{
	const struct profile *profile = f->profile;
	for (size_t i = 0; profile && i < profile->sample_count; i++) {
		const struct profile_label_set *set = &profile->label_sets[profile->samples[i].labels];
		for (uint32_t l = set->first; l < set->first + set->count; l++)
			if (!strcmp(profile_string(profile, profile->labels[l].key), "process.pid") &&
			    profile->labels[l].number == pid)
				return &profile->values[i * PROCESS_STATS_COLUMNS];
	}
	return NULL;
}

static void assert_row(const struct fixture *f, int pid, const int64_t want[PROCESS_STATS_COLUMNS])
{
	const int64_t *got = row_of(f, pid);
	assert_non_null(got);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		if (got[i] != want[i])
			fail_msg("%s is %lld instead of %lld", process_stats_columns[i].column, (long long)got[i],
				 (long long)want[i]);
}

static void test_differences(void **state)
{
	struct fixture *f = *state;
	int64_t page = sysconf(_SC_PAGESIZE);

	assert_int_equal(add_process(f, 42, "worker"), 0);
	assert_int_equal(add_process(f, 43, "young"), 0);
	assert_int_equal(add_process(f, 44, "idle"), 0);
	process_stats_begin(f->stats, NS_PER_S / 2);
	process_stats_begin(f->stats, NS_PER_S);
	assert_int_equal(add(f, STATS_THREAD, 42, 5, 100), 0); /* a thread may come before the first one */
	assert_int_equal(add(f, STATS_LEADER, 42, 5, 1000), 0);
	assert_int_equal(add(f, STATS_LEADER, 44, 5, 50), 0);
	assert_int_equal(make(f), 0);
	assert_null(row_of(f, 42)); /* nobody knows since when */
	process_stats_begin(f->stats, 2 * NS_PER_S);
	assert_int_equal(add(f, STATS_LEADER, 42, 5, 1500), 0);
	assert_int_equal(add(f, STATS_THREAD, 42, 5, 700), 0);
	assert_int_equal(add(f, STATS_LEADER, 43, NS_PER_S + 1, 300), 0);
	assert_int_equal(add(f, STATS_LEADER, 44, 5, 50), 0);
	assert_int_equal(add(f, STATS_LEADER, 99, NS_PER_S + 1, 300), 0); /* the process table knows of no such */
	assert_int_equal(make(f), 0);
	assert_int_equal(f->profile->sample_count, 2);
	assert_row(f, 42, (const int64_t[]){1100, 7 * page, 1100, 1100, 1100, 1100, 1100, 1100, 3});
	assert_row(f, 43, (const int64_t[]){300, 7 * page, 301, 302, 303, 304, 305, 306, 3});
}

static void test_profile(void **state)
{
	struct fixture *f = *state;
	struct profile_type type;

	assert_int_equal(add_process(f, 42, "worker"), 0);
	process_stats_begin(f->stats, 0);
	process_stats_begin(f->stats, NS_PER_S);
	assert_int_equal(add(f, STATS_LEADER, 42, 5, 1000), 0);
	assert_int_equal(make(f), 0);
	const struct profile *profile = f->profile;
	assert_int_equal(profile->sample_type_count, PROCESS_STATS_COLUMNS);
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		profile_type_of(profile, i, NULL, &type);
		assert_true(profile_type_is_process_stats(&type));
		assert_int_equal(process_stats_column_of(type.sample_type, type.sample_unit), i);
	}
	assert_int_equal(profile->time_ns, 100);
	assert_int_equal(profile->duration_ns, 10);
	assert_int_equal(profile->samples[0].time_ns, 110);
	assert_int_equal(profile->samples[0].stack, 0);
	uint32_t set = profile->samples[0].labels;
	assert_string_equal(profile_label_value(profile, set, "process.comm"), "worker");
	assert_null(profile_label_value(profile, set, "thread.name"));
	assert_string_equal(profile_label_value(profile, profile->resource_labels, "host.name"), "h");
}

/* Process 42 has used 1000 at the first reading, and 1300 when it ends before the second. */
static void add_ended(struct fixture *f)
{
	assert_int_equal(add_process(f, 42, "worker"), 0);
	process_stats_begin(f->stats, NS_PER_S);
	assert_int_equal(add(f, STATS_LEADER, 42, 5, 1000), 0);
	process_stats_begin(f->stats, 2 * NS_PER_S);
	assert_int_equal(add(f, STATS_ENDED, 42, 5, 1300), 0);
}

static void test_ends(void **state)
{
	struct fixture *f = *state;

	add_ended(f);
	assert_int_equal(add(f, STATS_THREAD, 42, 5, 300), 0); /* on its way out: in the total already */
	assert_int_equal(make(f), 0);
	assert_row(f, 42, (const int64_t[]){300, 0, 300, 300, 300, 300, 300, 300, 0});
	process_stats_begin(f->stats, 3 * NS_PER_S);
	assert_int_equal(make(f), 0);
	assert_null(f->profile);
}

/* Told of only one reading after it left the list. */
static void test_late_end(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_process(f, 42, "worker"), 0);
	process_stats_begin(f->stats, NS_PER_S / 2);
	process_stats_begin(f->stats, NS_PER_S);
	assert_int_equal(add(f, STATS_LEADER, 42, 5, 1000), 0);
	process_stats_begin(f->stats, 2 * NS_PER_S);
	assert_int_equal(make(f), 0);
	assert_null(f->profile);
	process_stats_begin(f->stats, 3 * NS_PER_S);
	assert_int_equal(add(f, STATS_ENDED, 42, 5, 1300), 0);
	assert_int_equal(make(f), 0);
	assert_int_equal(row_of(f, 42)[PROCESS_STATS_CPU], 300);
	/* The same for one that was never listed. */
	process_stats_begin(f->stats, 4 * NS_PER_S);
	assert_int_equal(make(f), 0);
	process_stats_begin(f->stats, 5 * NS_PER_S);
	assert_int_equal(add(f, STATS_ENDED, 42, 3 * NS_PER_S + 1, 70 * NS_PER_MS), 0);
	assert_int_equal(make(f), 0);
	assert_int_equal(row_of(f, 42)[PROCESS_STATS_CPU], 70 * NS_PER_MS);
}

/* A short life is worth a series if it used something, or was sampled. */
static void test_brief(void **state)
{
	struct fixture *f = *state;

	for (unsigned pid = 1; pid <= 4; pid++)
		assert_int_equal(add_process(f, (pid_t)pid, "brief"), 0);
	process_table_find(&f->table, 2)->wanted = true;
	process_stats_begin(f->stats, NS_PER_S);
	process_stats_begin(f->stats, 2 * NS_PER_S);
	for (unsigned pid = 1; pid <= 3; pid++)
		assert_int_equal(add(f, STATS_ENDED, pid, NS_PER_S + 5, pid == 3 ? 11 * NS_PER_MS : 9 * NS_PER_MS), 0);
	assert_int_equal(add(f, STATS_LEADER, 4, NS_PER_S + 5, 1), 0); /* lives */
	assert_int_equal(make(f), 0);
	assert_null(row_of(f, 1));
	assert_non_null(row_of(f, 2));
	assert_non_null(row_of(f, 3));
	assert_non_null(row_of(f, 4));
	assert_int_equal(f->stats->left_out, 0);
}

static void test_pid_used_again(void **state)
{
	struct fixture *f = *state;

	add_ended(f);
	assert_int_equal(add(f, STATS_LEADER, 42, NS_PER_S + 5, 20), 0);
	assert_int_equal(make(f), 0);
	assert_int_equal(row_of(f, 42)[PROCESS_STATS_CPU], 20); /* not 20 - 1000 */
	/* One that is old and was never seen: its share of the interval is not known. */
	process_stats_begin(f->stats, 3 * NS_PER_S);
	assert_int_equal(add(f, STATS_LEADER, 42, 7, 5000), 0);
	assert_int_equal(make(f), 0);
	assert_null(f->profile);
}

static void test_most(void **state)
{
	struct fixture *f = *state;

	process_stats_begin(f->stats, 0);
	process_stats_begin(f->stats, NS_PER_S);
	for (unsigned pid = 1; pid <= PROCESS_STATS_ROWS_MAX + 10; pid++) {
		assert_int_equal(add_process(f, (pid_t)pid, "many"), 0);
		assert_int_equal(add(f, STATS_LEADER, pid, 5, 1000 + pid), 0);
	}
	assert_int_equal(make(f), 0);
	assert_int_equal(f->profile->sample_count, PROCESS_STATS_ROWS_MAX);
	assert_null(row_of(f, 10));
	assert_non_null(row_of(f, 11));
}

/* ---- failures ---- */

static int round_trip(void *context)
{
	struct fixture f;
	int r = fixture_init(&f);
	if (r == 0)
		r = add_process(&f, 42, "worker");
	if (r == 0) {
		process_stats_begin(f.stats, 0);
		process_stats_begin(f.stats, NS_PER_S);
		r = add(&f, STATS_LEADER, 42, 5, 1000);
	}
	if (r == 0)
		r = make(&f);
	if (r == 0)
		assert_non_null(f.profile);
	else
		assert_null(f.profile);
	fixture_release(&f);
	return r;
}

static void test_memory(void **state)
{
	assert_true(test_each_allocation(round_trip, NULL) > 13);
}

/* ---- the kernel ---- */

#define FAULT_BYTES ((size_t)32 << 20)

static void burn(double seconds)
{
	struct rusage usage;
	do
		getrusage(RUSAGE_SELF, &usage);
	while ((double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 < seconds);
}

static int64_t cpu_ns_of(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_S +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

static void assert_near(const char *what, int64_t got, int64_t want, int64_t slack)
{
	if (got < want - slack || got > want + slack)
		fail_msg("%s is %lld instead of %lld +- %lld", what, (long long)got, (long long)want, (long long)slack);
}

/* A child that faults 32 MiB in, uses CPU time, reports its usage, and waits for the signal to end. */
static void child(int to_parent, int from_parent)
{
	struct rusage usage;
	char byte;
	char *memory = mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, FAULT_BYTES, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < FAULT_BYTES; at += 4096)
		memory[at] = 1;
	burn(0.1);
	/* Twice, the first time for practice: what the calls fault in must not come behind the account. */
	for (int i = 0; i < 2; i++) {
		getrusage(RUSAGE_SELF, &usage);
		if (write(to_parent, &usage, sizeof(usage)) != sizeof(usage) || read(from_parent, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* The end of a process is reported when RCU has released it: membarrier() waits for as long, and what is left is the call
 * itself.
 */
static void wait_grace_period(void)
{
	for (int i = 0; i < 2; i++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	time_sleep_ns(100 * NS_PER_MS);
}

static void start_or_skip(struct fixture *f, struct process_stats **ret)
{
	struct error err = {0};
	(void)f;
	if (process_stats_new(false, ret, &err) < 0) {
		print_message("skipped: %s\n", err.message);
		skip();
	}
}

static void take(struct fixture *f, struct process_stats *stats)
{
	struct error err = {0};
	f->profile = profile_free(f->profile);
	if (process_stats_take(stats, &f->table, &f->labels, 1, 1, &f->profile, &err) < 0)
		fail_msg("%s", err.message);
}

static void test_kernel(void **state)
{
	struct fixture *f = *state;
	_cleanup_(process_stats_freep) struct process_stats *stats = NULL;
	struct rusage usage;
	int up[2], down[2], status;

	start_or_skip(f, &stats);
	assert_int_equal(pipe(up) | pipe(down), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(down[1]); /* it ends with the test, however that ends */
		child(up[1], down[0]);
	}
	assert_int_equal(add_process(f, pid, "child"), 0);
	assert_int_equal(read(up[0], &usage, sizeof(usage)), sizeof(usage));
	assert_int_equal(write(down[1], "x", 1), 1);
	assert_int_equal(read(up[0], &usage, sizeof(usage)), sizeof(usage));
	take(f, stats);
	const int64_t *row = row_of(f, pid);
	assert_non_null(row);
	assert_near("CPU time", row[PROCESS_STATS_CPU], cpu_ns_of(&usage), 12 * NS_PER_MS);
	assert_near("minor faults", row[PROCESS_STATS_MINOR_FAULTS], usage.ru_minflt, 2);
	assert_near("voluntary switches", row[PROCESS_STATS_VOLUNTARY_SWITCHES], usage.ru_nvcsw, 4);
	assert_near("involuntary switches", row[PROCESS_STATS_INVOLUNTARY_SWITCHES], usage.ru_nivcsw, 4);
	/* Counted on each CPU, up to 32 pages at a time. */
	assert_near("RSS", row[PROCESS_STATS_RSS], usage.ru_maxrss * 1024, 4 * 1024 * 1024);
	assert_int_equal(row[PROCESS_STATS_THREADS], 1);

	/* Then its end, after which the process is gone. The kernel tells of it when it gets to it. */
	int64_t before = cpu_ns_of(&usage);
	assert_int_equal(write(down[1], "x", 1), 1);
	assert_int_equal(wait4(pid, &status, 0, &usage), pid);
	assert_int_equal(status, 0);
	row = NULL;
	for (int i = 0; i < 200 && !row; i++) {
		wait_grace_period();
		take(f, stats);
		row = row_of(f, pid);
	}
	assert_non_null(row);
	assert_near("CPU time of the end", row[PROCESS_STATS_CPU], cpu_ns_of(&usage) - before, 12 * NS_PER_MS);
	assert_int_equal(row[PROCESS_STATS_RSS], 0);
	take(f, stats);
	assert_null(row_of(f, pid));
	close(up[0]), close(up[1]), close(down[0]), close(down[1]);
}

/* A whole life between two readings. The kernel reports an exit with a delay, and it must come before the second reading. */
static const int64_t *take_short_life(struct fixture *f, int64_t pause_ns, struct process_stats **ret_stats,
				      struct rusage *usage)
{
	int status;
	*ret_stats = process_stats_free(*ret_stats);
	start_or_skip(f, ret_stats);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		burn(0.05);
		_exit(0);
	}
	assert_int_equal(add_process(f, pid, "short"), 0);
	assert_int_equal(wait4(pid, &status, 0, usage), pid);
	wait_grace_period();
	time_sleep_ns(pause_ns);
	take(f, *ret_stats);
	return row_of(f, pid);
}

static void test_short_life(void **state)
{
	struct fixture *f = *state;
	_cleanup_(process_stats_freep) struct process_stats *stats = NULL;
	struct rusage usage;
	const int64_t *row = take_short_life(f, 0, &stats, &usage);
	for (int64_t pause_ns = NS_PER_S; !row && pause_ns <= 16 * NS_PER_S; pause_ns *= 2)
		row = take_short_life(f, pause_ns, &stats, &usage);
	assert_non_null(row);
	/* The kernel reports the end before the process has given its memory back, which takes CPU time, and on a busy machine
	 * other processes run meanwhile: wait4() counts that too. */
	int64_t gap_ns = cpu_ns_of(&usage) - row[PROCESS_STATS_CPU];
	assert_true(gap_ns > -NS_PER_MS && gap_ns < 20 * NS_PER_MS);
	assert_int_equal(row[PROCESS_STATS_MINOR_FAULTS], usage.ru_minflt);
	assert_in_range(usage.ru_nvcsw - row[PROCESS_STATS_VOLUNTARY_SWITCHES], 0, 4);
	assert_in_range(usage.ru_nivcsw - row[PROCESS_STATS_INVOLUNTARY_SWITCHES], 0, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_differences), FIXTURE_TEST(test_profile),    FIXTURE_TEST(test_ends),
		FIXTURE_TEST(test_late_end),	FIXTURE_TEST(test_brief),      FIXTURE_TEST(test_pid_used_again),
		FIXTURE_TEST(test_most),	cmocka_unit_test(test_memory), FIXTURE_TEST(test_kernel),
		FIXTURE_TEST(test_short_life),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
