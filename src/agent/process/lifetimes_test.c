// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/process/lifetimes.h"
#include "base/fault.h"
#include "profile/markers.h"

#define FAR_PID 4000000 /* beyond the kernel's pid_max: never a real process */
#define WALL_NS 1700000000000000000

struct fixture {
	struct binaries binaries;
	struct process_table table;
	struct lifetimes *lifetimes;
	struct profile *profile;
	int r; /* the first failure */
};

static void begin(struct fixture *f, bool follows_all)
{
	*f = (struct fixture){0};
	assert_int_equal(binaries_init(&f->binaries), 0);
	assert_int_equal(process_table_init(&f->table, &f->binaries), 0);
	assert_int_equal(profile_new(&f->profile, NULL), 0);
	assert_int_equal(lifetimes_new(follows_all, &f->lifetimes, NULL), 0);
}

static void end(struct fixture *f)
{
	lifetimes_free(f->lifetimes);
	process_table_release(&f->table);
	binaries_release(&f->binaries);
	profile_free(f->profile);
}

static void apply(struct fixture *f, const struct event *event)
{
	int r = f->r < 0 ? f->r : lifetimes_before(f->lifetimes, &f->table, event, NULL);
	if (r == 0)
		r = process_table_apply(&f->table, event, NULL);
	f->r = r < 0 ? r : lifetimes_after(f->lifetimes, &f->table, event, NULL);
}

static void fork_to(struct fixture *f, uint64_t ns, pid_t parent, pid_t pid, pid_t tid)
{
	apply(f, &(struct event){.kind = EVENT_FORK, .time_ns = ns, .pid = pid, .tid = tid, .parent = parent});
}

static void exec(struct fixture *f, uint64_t ns, pid_t pid, const char *name)
{
	apply(f, &(struct event){.kind = EVENT_COMM, .time_ns = ns, .pid = pid, .tid = pid, .is_exec = true, .name = name});
}

static void exit_of(struct fixture *f, uint64_t ns, pid_t pid, pid_t tid)
{
	apply(f, &(struct event){.kind = EVENT_EXIT, .time_ns = ns, .pid = pid, .tid = tid});
}

static void move(struct fixture *f, bool is_last)
{
	if (f->r == 0)
		f->r = lifetimes_move(f->lifetimes, &f->table, is_last, WALL_NS, f->profile, NULL);
}

/* start, end: 0 = unknown, else without WALL_NS. */
static void assert_lifetime(const struct fixture *f, pid_t pid, pid_t tid, int64_t start, int64_t end_ns, const char *program)
{
	const struct profile_markers *markers = f->profile->markers;
	assert_non_null(markers);
	for (size_t i = 1; i < markers->lifetime_count; i++) {
		const struct profile_lifetime *lifetime = &markers->lifetimes[i];
		if (lifetime->pid != pid || lifetime->tid != tid || lifetime->start_ns != (start ? start + WALL_NS : 0))
			continue;
		assert_int_equal(lifetime->end_ns, end_ns ? end_ns + WALL_NS : 0);
		assert_string_equal(profile_string(f->profile, lifetime->program), program);
		return;
	}
	fail_msg("no lifetime of %d.%d from %lld", (int)pid, (int)tid, (long long)start);
}

static size_t count(const struct fixture *f)
{
	return f->profile->markers ? f->profile->markers->lifetime_count - 1 : 0;
}

/* A shell forks, the child runs two programs with a thread each. */
static void run(struct fixture *f)
{
	pid_t child = FAR_PID + 1;
	exec(f, 50, FAR_PID, "sh");
	fork_to(f, 100, FAR_PID, child, child);
	exec(f, 200, child, "first");
	fork_to(f, 250, child, child, child + 1);
	fork_to(f, 260, child, child, child + 2);
	exit_of(f, 270, child, child + 2);
	move(f, false);
	exec(f, 300, child, "second");
	fork_to(f, 350, child, child, child + 1);
	/* The first thread is not the last. */
	exit_of(f, 380, child, child);
	exit_of(f, 400, child, child + 1);
	move(f, true);
}

static void test_programs_and_threads(void **state)
{
	struct fixture f;
	begin(&f, true);
	fork_to(&f, 10, 1, FAR_PID, FAR_PID);
	run(&f);
	assert_int_equal(f.r, 0);
	assert_int_equal(count(&f), 8);
	assert_lifetime(&f, FAR_PID, FAR_PID, 10, 50, "");
	assert_lifetime(&f, FAR_PID, FAR_PID, 50, 0, "sh");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 1, 100, 200, "sh");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 1, 200, 300, "first");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 2, 250, 300, "");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 3, 260, 270, "");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 1, 300, 400, "second");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 2, 350, 400, "");
	assert_false(lifetimes_are_pending(f.lifetimes, false));
	/* A lifetime that goes on is reported again at the end, as the same one. */
	move(&f, true);
	assert_int_equal(count(&f), 8);
	end(&f);
}

/* Only what is followed, and what that forks; what was there before has an end. */
static void test_followed(void **state)
{
	struct fixture f;
	begin(&f, false);
	assert_int_equal(lifetimes_follow(f.lifetimes, FAR_PID, NULL), 0);
	fork_to(&f, 100, FAR_PID, FAR_PID + 1, FAR_PID + 1);
	fork_to(&f, 110, FAR_PID + 10, FAR_PID + 11, FAR_PID + 11);
	exec(&f, 120, FAR_PID + 11, "other");
	fork_to(&f, 130, FAR_PID + 1, FAR_PID + 2, FAR_PID + 2);
	exit_of(&f, 140, FAR_PID + 11, FAR_PID + 11);
	exit_of(&f, 150, FAR_PID, FAR_PID);
	exit_of(&f, 160, FAR_PID + 2, FAR_PID + 2);
	move(&f, true);
	assert_int_equal(f.r, 0);
	assert_int_equal(count(&f), 3);
	assert_lifetime(&f, FAR_PID, FAR_PID, 0, 150, "");
	assert_lifetime(&f, FAR_PID + 1, FAR_PID + 1, 100, 0, "");
	assert_lifetime(&f, FAR_PID + 2, FAR_PID + 2, 130, 160, "");
	end(&f);
}

/* A machine that starts processes for weeks: those that nobody sampled do not fill the memory. */
static void test_bounded(void **state)
{
	struct fixture f;
	begin(&f, true);
	for (int i = 0; i < 100000; i++) {
		fork_to(&f, 10 * (uint64_t)i + 1, 1, FAR_PID + 1, FAR_PID + 1);
		exit_of(&f, 10 * (uint64_t)i + 2, FAR_PID + 1, FAR_PID + 1);
		process_table_reap(&f.table, UINT64_MAX);
	}
	move(&f, true);
	assert_int_equal(f.r, 0);
	assert_in_range(count(&f), 1000, 70000);
	end(&f);
}

static void test_no_memory(void **state)
{
	for (unsigned n = 1;; n++) {
		struct fixture f;
		begin(&f, true);
		fault_arm(FAULT_ALLOC, n, 0);
		run(&f);
		bool done = !fault_disarm(FAULT_ALLOC);
		/* In process_table_changed() and the like it does without. */
		assert_true(f.r == 0 || (!done && f.r == -ENOMEM));
		end(&f);
		if (done)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs_and_threads),
		cmocka_unit_test(test_followed),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
