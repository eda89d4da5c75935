// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process.h"
#include "agent/test_child.h"
#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "base/time.h"

#define FAR_PID 4000000 /* beyond the kernel's pid_max: never a real process */

struct fixture {
	struct binaries binaries;
	struct process_table table;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *fixture)
{
	assert_int_equal(binaries_init(&fixture->binaries), 0);
	assert_int_equal(process_table_init(&fixture->table, &fixture->binaries), 0);
	return 0;
}

static void fixture_release(struct fixture *fixture)
{
	process_table_release(&fixture->table);
	binaries_release(&fixture->binaries);
}

/* ---- lists of mappings ---- */

#define PAGES 64

/* The same inserts into a list and into one entry a page. */
static void test_mappings_agree_with_a_page_table(void **state)
{
	struct page {
		uint32_t binary;
		uint64_t offset;
	} pages[PAGES];

	srand(3);
	for (int round = 0; round < 300; round++) {
		struct mapping_list *list = NULL, *shared = NULL;
		memset(pages, 0, sizeof(pages));
		for (int step = 0; step < 60; step++) {
			uint64_t first = (uint64_t)rand() % PAGES, count = 1 + (uint64_t)rand() % 12;
			uint32_t binary = 1 + (uint32_t)rand() % 4;
			uint64_t offset = rand() % 2 ? first : (uint64_t)rand() % 8;
			bool replaced, expected = false;
			if (first + count > PAGES)
				count = PAGES - first;
			for (uint64_t i = 0; i < count; i++) {
				struct page *page = &pages[first + i];
				if (page->binary && (page->binary != binary || page->offset != offset + i))
					expected = true;
				*page = (struct page){binary, offset + i};
			}
			struct process_mapping mapping = {first * 4096, (first + count) * 4096, offset * 4096, binary, 0};
			assert_int_equal(mapping_list_insert(&list, &mapping, &replaced), 0);
			assert_int_equal(replaced, expected);
			for (uint64_t i = 0; i < PAGES; i++) {
				const struct process_mapping *found = mapping_list_find(list, i * 4096 + 17);
				assert_int_equal(found ? found->binary : 0, pages[i].binary);
				if (found)
					assert_int_equal(i * 4096 - found->start + found->offset, pages[i].offset * 4096);
			}
			for (size_t i = 1; i < list->count; i++)
				assert_true(list->items[i - 1].end <= list->items[i].start);
			if (rand() % 8 == 0) { /* as a fork: the next insert must not change it */
				mapping_list_unref(shared);
				shared = list;
				shared->references++;
			}
		}
		mapping_list_unref(shared);
		mapping_list_unref(list);
	}
}

static void test_mappings_are_bounded(void **state)
{
	struct mapping_list *list = NULL;
	bool replaced;
	int r = 0;

	for (uint64_t i = 0; i <= PROCESS_MAPPINGS_MAX && r == 0; i++) {
		struct process_mapping mapping = {i * 8192, i * 8192 + 4096, 0, 1, 0};
		r = mapping_list_insert(&list, &mapping, &replaced);
	}
	assert_int_equal(r, -E2BIG);
	assert_true(list->count <= PROCESS_MAPPINGS_MAX);
	size_t count = list->count;
	struct process_mapping first = {0, 4096, 0, 2, 0}; /* though this one would take the place of another */
	assert_int_equal(mapping_list_insert(&list, &first, &replaced), -E2BIG);
	assert_int_equal(list->count, count);
	mapping_list_unref(list);
}

/* ---- /proc/PID/maps ---- */

static void test_lines_of_maps(void **state)
{
	char good[] = "7f12-7f34 r-xp 00026000 fd:01 1234                       /usr/lib/x y.so (deleted)";
	char anonymous[] = "1000-2000 rwxp 00000000 00:00 0 ";
	char data[] = "1000-2000 rw-p 00000000 00:00 0                          [heap]";
	char bad[][48] = {
		"", "zz", "1000", "1000-2000 r-x 0 00:00 0 x", "2000-1000 r-xp 0 00:00 0 x", "1000-2000 r-xp 0 0000 0"};
	struct event event;

	assert_int_equal(process_parse_maps_line(good, &event), 0);
	assert_int_equal(event.start, 0x7f12);
	assert_int_equal(event.length, 0x22);
	assert_int_equal(event.offset, 0x26000);
	assert_int_equal(event.device, makedev(0xfd, 1));
	assert_int_equal(event.inode, 1234);
	assert_string_equal(event.name, "/usr/lib/x y.so (deleted)");
	assert_int_equal(process_parse_maps_line(anonymous, &event), 0);
	assert_string_equal(event.name, "//anon");
	assert_int_equal(process_parse_maps_line(data, &event), 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(process_parse_maps_line(bad[i], &event), -EINVAL);
}

/* ---- events ---- */

static void apply(struct fixture *fixture, struct event event)
{
	assert_int_equal(process_table_apply(&fixture->table, &event, NULL), 0);
}
static void apply_fork(struct fixture *fixture, uint64_t time, pid_t parent, pid_t pid)
{
	apply(fixture, (struct event){.kind = EVENT_FORK, .time_ns = time, .pid = pid, .tid = pid, .parent = parent});
}
static void apply_exec(struct fixture *fixture, uint64_t time, pid_t pid, const char *name)
{
	apply(fixture,
	      (struct event){.kind = EVENT_COMM, .time_ns = time, .pid = pid, .tid = pid, .is_exec = true, .name = name});
}
static void apply_map(struct fixture *fixture, uint64_t time, pid_t pid, uint64_t start, const char *path)
{
	apply(fixture, (struct event){.kind = EVENT_MAP,
				      .time_ns = time,
				      .pid = pid,
				      .start = start,
				      .length = 0x1000,
				      .name = path,
				      .build_id_bytes = 1,
				      .build_id = {(uint8_t)path[1]}});
}
static void apply_exit(struct fixture *fixture, uint64_t time, pid_t pid, pid_t tid)
{
	apply(fixture, (struct event){.kind = EVENT_EXIT, .time_ns = time, .pid = pid, .tid = tid});
}
static const char *path_at(struct fixture *fixture, pid_t pid, uint64_t address)
{
	struct process *process = process_table_find(&fixture->table, pid);
	const struct process_mapping *mapping = process ? process_find_mapping(process, address) : NULL;
	return mapping ? binary_get(&fixture->binaries, mapping->binary)->path : "";
}

static void test_a_life(void **state)
{
	struct fixture *fixture = *state;
	struct process *parent, *child;

	apply_fork(fixture, 10, 1, FAR_PID);
	apply_exec(fixture, 20, FAR_PID, "first");
	apply_map(fixture, 30, FAR_PID, 0x1000, "/bin/first");
	apply_map(fixture, 40, FAR_PID, 0x5000, "/lib/so");
	parent = process_table_find(&fixture->table, FAR_PID);
	assert_non_null(parent);
	assert_string_equal(binary_name(binary_get(&fixture->binaries, parent->executable)), "first");

	apply_fork(fixture, 50, FAR_PID, FAR_PID + 1);
	child = process_table_find(&fixture->table, FAR_PID + 1);
	assert_ptr_equal(child->maps, parent->maps);
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x5fff), "/lib/so");
	apply_map(fixture, 60, FAR_PID + 1, 0x9000, "/lib/plugin"); /* the child's alone */
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x9000), "/lib/plugin");
	assert_string_equal(path_at(fixture, FAR_PID, 0x9000), "");

	uint32_t version = child->version;
	apply_exec(fixture, 70, FAR_PID + 1, "second");
	assert_true(child->version > version);
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x5000), "");
	apply_map(fixture, 80, FAR_PID + 1, 0x1000, "/bin/second");
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x1000), "/bin/second");
	assert_string_equal(path_at(fixture, FAR_PID, 0x1000), "/bin/first");
	assert_string_equal(child->comm, "second");

	/* Two threads: the process ends with the second one, whichever that is. */
	apply(fixture, (struct event){.kind = EVENT_FORK, .time_ns = 90, .pid = FAR_PID + 1, .parent = FAR_PID + 1, .tid = 77});
	apply_exit(fixture, 100, FAR_PID + 1, FAR_PID + 1);
	process_table_reap(&fixture->table, 1000);
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x1000), "/bin/second");
	apply_exit(fixture, 110, FAR_PID + 1, 77);
	process_table_reap(&fixture->table, 110);
	assert_string_equal(path_at(fixture, FAR_PID + 1, 0x1000), "/bin/second");
	process_table_reap(&fixture->table, 111);
	assert_null(process_table_find(&fixture->table, FAR_PID + 1));
}

/* Only what lies where another mapping was is in doubt, and only by what was known before. */
static void test_doubt_is_where_mappings_changed(void **state)
{
	struct fixture *fixture = *state;

	apply_fork(fixture, 10, 1, FAR_PID);
	apply_exec(fixture, 20, FAR_PID, "first");
	struct process *process = process_table_find(&fixture->table, FAR_PID);
	uint32_t before_maps = process->version;
	apply_map(fixture, 30, FAR_PID, 0x1000, "/bin/first");
	apply_map(fixture, 40, FAR_PID, 0x5000, "/plugin");
	assert_int_equal(process->version, before_maps); /* nothing has changed its meaning */
	apply_map(fixture, 50, FAR_PID, 0x5000, "/other");
	uint32_t with_other = process->version;
	assert_int_not_equal(with_other, before_maps);
	assert_true(process_is_in_doubt(process, before_maps, 0x5800));
	assert_false(process_is_in_doubt(process, before_maps, 0x1800));
	assert_false(process_is_in_doubt(process, before_maps, 0x6000));
	assert_false(process_is_in_doubt(process, with_other, 0x5800));
	assert_true(process_is_in_doubt(process, with_other + 1, 0x1800)); /* of nowhere */

	/* A child knows what its parent knew. */
	apply_fork(fixture, 60, FAR_PID, FAR_PID + 1);
	struct process *child = process_table_find(&fixture->table, FAR_PID + 1);
	apply_map(fixture, 70, FAR_PID + 1, 0x1000, "/mine");
	assert_true(process_is_in_doubt(child, before_maps, 0x5800));
	assert_true(process_is_in_doubt(child, with_other, 0x1800));
	assert_false(process_is_in_doubt(child, with_other, 0x5800));
	assert_false(process_is_in_doubt(process, with_other, 0x1800));

	/* Another program: nothing of the old one counts. */
	apply_exec(fixture, 80, FAR_PID, "second");
	assert_true(process_is_in_doubt(process, with_other, 0x9000));
}

/* A range that was replaced settles later, also when it is mapped anew or grown by a neighbour; one that was replaced again
 * before that, much later. */
static void test_replaced_ranges_settle(void **state)
{
	struct process_mapping a = {0x1000, 0x3000, 0, 1, 7}, b = {0x2000, 0x4000, 0, 2, 9},
			       c = {0x4000, 0x5000, 0x2000, 2, 11};
	struct mapping_list *list = NULL;
	bool replaced;
	(void)state;

	assert_int_equal(mapping_list_insert(&list, &a, &replaced), 0);
	assert_int_equal(list->items[0].settles_s, 0);
	assert_int_equal(mapping_list_insert(&list, &b, &replaced), 0);
	assert_true(replaced);
	assert_int_equal(list->items[0].settles_s, 0); /* what is left of it means what it meant */
	uint32_t once = list->items[1].settles_s;
	assert_true(once > 9 && once < 20);
	assert_int_equal(mapping_list_insert(&list, &c, &replaced), 0);
	assert_false(replaced);
	assert_int_equal(list->count, 2);
	assert_int_equal(list->items[1].settles_s, once);
	b.settles_s = 12;
	assert_int_equal(mapping_list_insert(&list, &b, &replaced), 0);
	assert_false(replaced);
	assert_int_equal(list->items[1].settles_s, once);
	a.settles_s = 30;
	assert_int_equal(mapping_list_insert(&list, &a, &replaced), 0);
	assert_true(replaced);
	assert_true(list->items[0].settles_s >= 30 + 10 * (once - 9));
	mapping_list_unref(list);
}

/* The mapping by which a jitdump is found, the start, and the user follow forks, and end with the program. */
/* A program that had a runtime in it is expected to have one whenever it is executed; what is forked from it is no exec. */
static void test_programs_with_a_runtime_are_expected(void **state)
{
	struct fixture *fixture = *state;

	apply_fork(fixture, 10, 1, FAR_PID);
	apply_exec(fixture, 20, FAR_PID, "python");
	apply_map(fixture, 30, FAR_PID, 0x1000, "/bin/python");
	struct process *process = process_table_find(&fixture->table, FAR_PID);
	assert_false(process->expects_runtime);
	binary_get(&fixture->binaries, process->executable)->has_runtime = true;

	apply_fork(fixture, 40, FAR_PID, FAR_PID + 1);
	process = process_table_find(&fixture->table, FAR_PID + 1);
	assert_false(process->expects_runtime);
	apply_exec(fixture, 50, FAR_PID + 1, "python");
	assert_false(process->expects_runtime);
	apply_map(fixture, 60, FAR_PID + 1, 0x1000, "/bin/python");
	assert_true(process->expects_runtime);
	apply_exec(fixture, 70, FAR_PID + 1, "ls");
	apply_map(fixture, 80, FAR_PID + 1, 0x1000, "/bin/ls");
	apply_map(fixture, 90, FAR_PID + 1, 0x5000, "/bin/python"); /* as a library */
	assert_false(process->expects_runtime);
}

static void test_what_names_of_jit_code_need(void **state)
{
	struct fixture *fixture = *state;
	struct event dump = {.kind = EVENT_MAP,
			     .time_ns = 30,
			     .pid = FAR_PID,
			     .start = 0x7000,
			     .length = 0x1000,
			     .name = "/tmp/jit-5.dump",
			     .device = 3,
			     .inode = 4};

	apply_fork(fixture, 10, 1, FAR_PID);
	apply_exec(fixture, 20, FAR_PID, "first");
	struct process *process = process_table_find(&fixture->table, FAR_PID);
	assert_int_equal(process->started_ns, 20);
	assert_int_equal(process->uid, (uid_t)-1);
	assert_int_equal(process->jitdump.binary, BINARY_NONE);
	apply(fixture, dump);
	apply_map(fixture, 40, FAR_PID, 0x7000, "/lib/over"); /* which unmaps it, but it was said where the file is */
	assert_string_equal(binary_get(&fixture->binaries, process->jitdump.binary)->path, "/tmp/jit-5.dump");
	assert_int_equal(process->jitdump.start, 0x7000);
	process_find_jitdump(&fixture->table, process); /* as when the mappings are read once more */
	assert_int_equal(process->jitdump.start, 0x7000);
	process->uid = 1234;

	apply_fork(fixture, 50, FAR_PID, FAR_PID + 1);
	struct process *child = process_table_find(&fixture->table, FAR_PID + 1);
	assert_int_equal(child->started_ns, 50);
	assert_int_equal(child->uid, 1234);
	assert_int_equal(child->jitdump.binary, process->jitdump.binary);
	apply_exec(fixture, 60, FAR_PID + 1, "second");
	assert_int_equal(child->started_ns, 60);
	assert_int_equal(child->jitdump.binary, BINARY_NONE);
	binaries_sweep_begin(&fixture->binaries);
	process_table_mark_binaries(&fixture->table);
	assert_int_equal(binaries_sweep_end(&fixture->binaries), 0);
	assert_true(binary_get(&fixture->binaries, process->jitdump.binary)->is_jitdump);
}

static void test_a_pid_is_used_again(void **state)
{
	struct fixture *fixture = *state;

	apply_fork(fixture, 10, 1, FAR_PID);
	apply_map(fixture, 20, FAR_PID, 0x1000, "/old");
	uint32_t old = process_table_find(&fixture->table, FAR_PID)->id;
	apply_exit(fixture, 30, FAR_PID, FAR_PID);
	apply_fork(fixture, 40, 1, FAR_PID); /* before the old one was forgotten */
	assert_true(process_table_find(&fixture->table, FAR_PID)->id != old);
	assert_string_equal(path_at(fixture, FAR_PID, 0x1000), "");
	process_table_reap(&fixture->table, 1000);
	assert_non_null(process_table_find(&fixture->table, FAR_PID));
}

static void test_sampled_processes_are_kept_longer(void **state)
{
	struct fixture *fixture = *state;

	for (pid_t pid = FAR_PID; pid < FAR_PID + 4; pid++)
		apply_fork(fixture, 10, 1, pid);
	process_table_find(&fixture->table, FAR_PID + 1)->wanted = true;
	for (pid_t pid = FAR_PID; pid < FAR_PID + 3; pid++)
		apply_exit(fixture, 20, pid, pid);
	process_table_reap_unsampled(&fixture->table, 21);
	assert_null(process_table_find(&fixture->table, FAR_PID));
	assert_non_null(process_table_find(&fixture->table, FAR_PID + 1));
	assert_null(process_table_find(&fixture->table, FAR_PID + 2));
	assert_non_null(process_table_find(&fixture->table, FAR_PID + 3)); /* lives */
	process_table_reap(&fixture->table, 21);
	assert_null(process_table_find(&fixture->table, FAR_PID + 1));
}

static void test_unknown_processes_are_made_up(void **state)
{
	struct fixture *fixture = *state;
	struct process *process;

	assert_int_equal(process_table_lookup(&fixture->table, FAR_PID, 5, "ghost", &process, NULL), 0);
	assert_true(process->unknown);
	assert_string_equal(process->comm, "ghost");
	process_table_check(&fixture->table);
	process_table_reap(&fixture->table, UINT64_MAX);
	assert_null(process_table_find(&fixture->table, FAR_PID));
}

/* ---- the real /proc ---- */

static const char *own_path(struct fixture *fixture)
{
	return path_at(fixture, getpid(), (uint64_t)(uintptr_t)own_path);
}

static void test_the_snapshot_knows_us(void **state)
{
	struct fixture *fixture = *state;
	struct process *self;
	char path[4096] = "", comm[16] = "";

	assert_int_equal(process_table_snapshot(&fixture->table, NULL), 0);
	self = process_table_find(&fixture->table, getpid());
	assert_non_null(self);
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	assert_string_equal(own_path(fixture), path);
	assert_string_equal(binary_get(&fixture->binaries, self->executable)->path, path);
	snprintf(comm, sizeof(comm), "%.15s", strrchr(path, '/') + 1);
	assert_string_equal(self->comm, comm);
	assert_int_equal(self->threads, 1);
	assert_int_equal(process_namespace_pid(self), getpid());
	if (self->uid ==
	    (uid_t)-1) /* on a machine of many threads the kernel's iterators are asked, which leave it for later */
		process_read_user(self);
	assert_int_equal(self->uid, geteuid());
	assert_non_null(process_table_find(&fixture->table, getppid())); /* 1 may be hidden from the iterators */
}

/* A child that lives until the other end of its gate is closed. */
static pid_t fork_behind(int gate[2])
{
	char byte;

	assert_int_equal(pipe(gate), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) != 0);
	}
	return pid;
}

static void end_behind(const int gate[2], pid_t pid)
{
	close(gate[1]);
	waitpid(pid, NULL, 0);
	close(gate[0]);
}

/* Numbers of processes begin anew: this child is read before its parent. */
static void test_a_child_of_a_lower_number_shares(void **state)
{
	struct fixture *fixture = *state;
	int gate[2];
	FILE *last = getpid() > 400 ? fopen("/proc/sys/kernel/ns_last_pid", "w") : NULL;

	if (!last) {
		print_message("skipped: the next process's number cannot be chosen here\n");
		skip();
	}
	fputs("310", last);
	fclose(last);
	pid_t pid = fork_behind(gate);
	assert_int_equal(process_table_snapshot(&fixture->table, NULL), 0);
	struct process *process = process_table_find(&fixture->table, pid);
	assert_non_null(process);
	assert_ptr_equal(process->maps, process_table_find(&fixture->table, getpid())->maps);
	end_behind(gate, pid);
}

/* A child that maps what its parent maps costs no list of its own; after lost events it is read anew. */
static void test_children_share_and_losses_heal(void **state)
{
	struct fixture *fixture = *state;
	struct process *process;
	int gate[2];

	pid_t pid = fork_behind(gate);
	assert_int_equal(process_table_snapshot(&fixture->table, NULL), 0);
	process = process_table_find(&fixture->table, pid);
	assert_non_null(process);
	assert_ptr_equal(process->maps, process_table_find(&fixture->table, getpid())->maps);

	apply_map(fixture, (uint64_t)time_monotonic_ns(), pid, (uint64_t)(uintptr_t)own_path & ~0xfffull, "/wrong");
	assert_string_equal(path_at(fixture, pid, (uint64_t)(uintptr_t)own_path), "/wrong");
	apply(fixture, (struct event){.kind = EVENT_LOST, .lost = 3});
	/* Long after, for on a busy machine the first reading may have taken so long that there is to be none for a while. */
	uint64_t later_ns = (uint64_t)time_monotonic_ns() + 3600 * (uint64_t)NS_PER_S;
	assert_int_equal(process_table_lookup(&fixture->table, pid, later_ns, "", &process, NULL), 0);
	assert_string_equal(path_at(fixture, pid, (uint64_t)(uintptr_t)own_path), own_path(fixture));
	/* What is older than the reading is in it already. */
	apply_map(fixture, 5, pid, (uint64_t)(uintptr_t)own_path & ~0xfffull, "/wrong");
	assert_string_equal(path_at(fixture, pid, (uint64_t)(uintptr_t)own_path), own_path(fixture));

	end_behind(gate, pid);
	process_table_check(&fixture->table); /* no event said so, but it is gone */
	process_table_reap(&fixture->table, UINT64_MAX);
	assert_null(process_table_find(&fixture->table, pid));
}

static bool is_same_binary(const struct fixture *a, uint32_t x, const struct fixture *b, uint32_t y)
{
	const struct binary *ours = binary_get(&a->binaries, x), *theirs = binary_get(&b->binaries, y);
	return !x == !y && (!x || (strcmp(ours->path, theirs->path) == 0 && ours->kind == theirs->kind &&
				   ours->device == theirs->device && ours->inode == theirs->inode));
}

static size_t count_without_vsyscall(const struct mapping_list *list)
{
	size_t count = list ? list->count : 0;
	return count && list->items[count - 1].start >> 63 ? count - 1 : count;
}

static bool is_same(const struct fixture *a, const struct process *ours, const struct fixture *b, const struct process *theirs)
{
	size_t count = count_without_vsyscall(ours->maps);

	/* /proc adds to the names of kernel threads what they work on. */
	if (count != count_without_vsyscall(theirs->maps) || (count && strcmp(ours->comm, theirs->comm) != 0) ||
	    ours->threads != theirs->threads || !is_same_binary(a, ours->executable, b, theirs->executable))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct process_mapping *x = &ours->maps->items[i], *y = &theirs->maps->items[i];
		if (x->start != y->start || x->end != y->end || x->offset != y->offset ||
		    !is_same_binary(a, x->binary, b, y->binary))
			return false;
	}
	return true;
}

/* Of the processes that were the same before and after, how many the snapshot in between has right; 0 if it has one wrong. */
static unsigned count_right(struct fixture *between, struct fixture *before, struct fixture *after)
{
	size_t cursor = 0;
	uint64_t pid, value;
	unsigned count = 0;

	while (map64_next(&before->table.by_pid, &cursor, &pid, &value)) {
		struct process *first = (struct process *)(uintptr_t)value;
		struct process *last = process_table_find(&after->table, (pid_t)pid);
		struct process *ours = process_table_find(&between->table, (pid_t)pid);
		/* One whose maps may not be read, even by root, may be hidden from the iterators as well. */
		if (!last || last->unknown || !is_same(before, first, after, last))
			continue;
		if (!ours || !is_same(between, ours, after, last)) {
			print_message("process %d (%s) differs\n", (int)pid, last->comm);
			return 0;
		}
		count++;
	}
	return count;
}

/* One round: /proc, the kernel's iterators, /proc. Negative: there are no iterators. */
static int compare_snapshots(unsigned *ret_count, const void *code, pid_t child_pid, const char *child_path, struct error *err)
{
	void *before = NULL, *between = NULL, *after = NULL;
	int64_t times[3];

	assert_int_equal(fixture_set_up(&before), 0);
	assert_int_equal(fixture_set_up(&between), 0);
	assert_int_equal(fixture_set_up(&after), 0);
	struct fixture *fixture = between;
	assert_int_equal(process_snapshot_by_proc(&((struct fixture *)before)->table, NULL), 0);
	times[0] = time_monotonic_ns();
	int r = process_snapshot_by_iterator(&fixture->table, err);
	times[1] = time_monotonic_ns();
	assert_int_equal(process_snapshot_by_proc(&((struct fixture *)after)->table, NULL), 0);
	times[2] = time_monotonic_ns();
	if (r >= 0) {
		*ret_count = count_right(fixture, before, after);
		print_message("%u processes; by iterator %.1f ms, by /proc %.1f ms\n", *ret_count,
			      (double)(times[1] - times[0]) / NS_PER_MS, (double)(times[2] - times[1]) / NS_PER_MS);
		assert_string_equal(path_at(fixture, getpid(), (uint64_t)(uintptr_t)code), "[anon]");
		struct process *child = process_table_find(&fixture->table, child_pid);
		assert_non_null(child);
		assert_string_equal(binary_get(&fixture->binaries, child->executable)->path, child_path);
	}
	fixture_tear_down(&before);
	fixture_tear_down(&between);
	fixture_tear_down(&after);
	return r < 0 ? r : 0;
}

/* What the kernel's iterators give is what /proc gives, with a thread, a deleted program and code without a file about. */
static void test_two_ways_of_a_snapshot_agree(void **state)
{
	struct error error = {0};
	unsigned count = 0;
	int r = 0;

	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	char directory[] = "/tmp/wick-snapshot-XXXXXX", path[64], command[256];
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sleep", directory);
	snprintf(command, sizeof(command), "cp /bin/sleep '%s' && exec '%s' 60", path, path);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	assert_true(child_wait_sleeps(pid));
	unlink(path);
	void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* A process that maps something for a moment is other in between than before and after; one that is read wrong is so in
	 * each round. */
	for (unsigned round = 0; round < 10 && r == 0 && count == 0; round++)
		r = compare_snapshots(&count, code, pid, path, &error);
	if (r < 0) {
		print_message("skipped: %s\n", error.message);
		assert_true(r == -EPERM || r == -ENOENT || r == -EINVAL);
	} else {
		assert_true(count >= 2);
	}
	munmap(code, 8192);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	rmdir(directory);
}

static int some_life(void *context)
{
	struct binaries binaries = {0};
	struct process_table table = {0};
	struct process *process;
	struct event events[] = {
		{.kind = EVENT_FORK, .time_ns = 1, .pid = FAR_PID, .tid = FAR_PID, .parent = 1},
		{.kind = EVENT_COMM, .time_ns = 2, .pid = FAR_PID, .tid = FAR_PID, .is_exec = true, .name = "x"},
		{.kind = EVENT_MAP, .time_ns = 3, .pid = FAR_PID, .start = 0x1000, .length = 0x1000, .name = "/x"},
		{.kind = EVENT_FORK, .time_ns = 4, .pid = FAR_PID + 1, .tid = FAR_PID + 1, .parent = FAR_PID},
		{.kind = EVENT_MAP, .time_ns = 5, .pid = FAR_PID + 1, .start = 0x1800, .length = 0x1000, .name = "/y"},
		{.kind = EVENT_EXIT, .time_ns = 6, .pid = FAR_PID, .tid = FAR_PID},
	};

	int r = binaries_init(&binaries);
	if (r == 0)
		r = process_table_init(&table, &binaries);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events) && r == 0; i++)
		r = process_table_apply(&table, &events[i], NULL);
	if (r == 0)
		r = process_table_lookup(&table, getpid(), 7, "self", &process, NULL);
	process_table_release(&table);
	binaries_release(&binaries);
	return r;
}

static void test_memory_runs_out(void **state)
{
	assert_true(test_each_allocation(some_life, NULL) > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings_agree_with_a_page_table),
		cmocka_unit_test(test_mappings_are_bounded),
		cmocka_unit_test(test_lines_of_maps),
		FIXTURE_TEST(test_doubt_is_where_mappings_changed),
		cmocka_unit_test(test_replaced_ranges_settle),
		FIXTURE_TEST(test_a_life),
		FIXTURE_TEST(test_programs_with_a_runtime_are_expected),
		FIXTURE_TEST(test_what_names_of_jit_code_need),
		FIXTURE_TEST(test_a_pid_is_used_again),
		FIXTURE_TEST(test_sampled_processes_are_kept_longer),
		FIXTURE_TEST(test_unknown_processes_are_made_up),
		FIXTURE_TEST(test_the_snapshot_knows_us),
		FIXTURE_TEST(test_a_child_of_a_lower_number_shares),
		FIXTURE_TEST(test_children_share_and_losses_heal),
		FIXTURE_TEST(test_two_ways_of_a_snapshot_agree),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
