/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a real program's threads (tests/programs/markers.c) that nobody records, and shared files that no program of ours
 * would make. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc.h"
#include "agent/process/thread_names.h"
#include "agent/test_child.h"
#include "base/time.h"
#include "client/wickmark_abi.h"

static char program[4200];

static void test_names_without_a_recorder(void **state)
{
	struct thread_names names;
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, "workers", "4", NULL);
		_exit(127);
	}
	struct process process = {.pid = child, .id = 7};
	thread_names_init(&names);
	names.first_check_ns = 0;
	size_t found = 0;
	for (unsigned tries = 0; found < 4 && tries < 500; tries++) {
		DIR *threads = proc_open_threads(child);
		bool seen[4] = {0};
		found = 0;
		for (pid_t tid; (tid = proc_next(threads)) > 0;) {
			const char *name = thread_names_find(&names, &process, (uint32_t)tid);
			int number = -1;
			if (!name || sscanf(name, "worker number %d of this program", &number) != 1)
				continue;
			assert_in_range(number, 0, 3);
			found += !seen[number];
			seen[number] = true;
		}
		closedir(threads);
		thread_names_clear(&names);
		time_sleep_ns(10 * NS_PER_MS);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(found, 4);
	assert_null(thread_names_find(&names, &process, 0));
	thread_names_clear(&names);
	thread_names_clear(&names); /* nobody asked meanwhile */
	assert_int_equal(names.processes.count, 0);
	assert_int_equal(names.file_count, 0);
	thread_names_release(&names);
}

/* Nothing is looked for in a process that was seen only just now. */
static void test_short_processes_cost_nothing(void **state)
{
	struct thread_names names;
	struct process process = {.pid = getpid(), .id = 1};
	thread_names_init(&names);
	for (uint32_t i = 0; i < THREAD_NAMES_PROCESSES_MAX + 10; i++) {
		process.id = i + 1;
		assert_null(thread_names_find(&names, &process, (uint32_t)getpid()));
	}
	assert_int_equal(names.processes.count, THREAD_NAMES_PROCESSES_MAX);
	assert_int_equal(names.file_count, 0);
	thread_names_release(&names);
}

struct shared {
	int fd;
	struct wickmark_header *header;
	struct wickmark_thread *threads;
};

static void make_shared(struct shared *shared)
{
	shared->fd = memfd_create(WICKMARK_NAME, MFD_CLOEXEC);
	assert_true(shared->fd >= 0);
	assert_int_equal(ftruncate(shared->fd, (off_t)WICKMARK_FILE_BYTES), 0);
	shared->header = mmap(NULL, WICKMARK_AT_SITES, PROT_READ | PROT_WRITE, MAP_SHARED, shared->fd, 0);
	assert_ptr_not_equal(shared->header, MAP_FAILED);
	*shared->header = (struct wickmark_header){.magic = WICKMARK_MAGIC, .abi = WICKMARK_ABI, .thread_count = 1};
	shared->threads = (struct wickmark_thread *)((char *)shared->header + WICKMARK_AT_THREADS);
	shared->threads[0] = (struct wickmark_thread){.state = WICKMARK_ACTIVE, .tid = 42, .name = "forty-two"};
}

static const char *name_of(struct thread_names *names, uint32_t tid)
{
	struct process process = {.pid = getpid(), .id = 1};
	thread_names_clear(names);
	return thread_names_find(names, &process, tid);
}

static void test_hostile_files(void **state)
{
	struct shared shared;
	struct thread_names names;
	make_shared(&shared);
	thread_names_init(&names);
	names.first_check_ns = 0;
	assert_string_equal(name_of(&names, 42), "forty-two");
	assert_null(name_of(&names, 43));
	/* Not terminated, and not printable. */
	memset(shared.threads[0].name, 'x', sizeof(shared.threads[0].name));
	shared.threads[0].name[1] = '\n';
	assert_int_equal(strlen(name_of(&names, 42)), THREAD_NAME_BYTES - 1);
	assert_int_equal(name_of(&names, 42)[1], '?');
	/* A thread that lives comes before one that ended with the same number. */
	shared.threads[1] = (struct wickmark_thread){.state = WICKMARK_ENDED, .tid = 43, .name = "old"};
	shared.threads[2] = (struct wickmark_thread){.state = WICKMARK_ACTIVE, .tid = 43, .name = "new"};
	shared.threads[3] = (struct wickmark_thread){.state = WICKMARK_FREE, .tid = 44, .name = "free"};
	shared.threads[4] = (struct wickmark_thread){.state = WICKMARK_ACTIVE, .tid = 45, .name_changes = 1, .name = "torn"};
	shared.header->thread_count = UINT32_MAX;
	assert_string_equal(name_of(&names, 43), "new");
	assert_null(name_of(&names, 44));
	assert_null(name_of(&names, 45));
	shared.header->abi = 99;
	assert_null(name_of(&names, 43));
	shared.header->abi = WICKMARK_ABI;
	assert_non_null(name_of(&names, 43));
	assert_int_equal(ftruncate(shared.fd, sizeof(struct wickmark_header) + 10), 0);
	assert_null(name_of(&names, 43));
	assert_int_equal(ftruncate(shared.fd, 0), 0);
	assert_null(name_of(&names, 43));
	thread_names_release(&names);
	munmap(shared.header, WICKMARK_AT_SITES);
	close(shared.fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_without_a_recorder),
		cmocka_unit_test(test_short_processes_cost_nothing),
		cmocka_unit_test(test_hostile_files),
	};
	child_program("markers", program, sizeof(program));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
