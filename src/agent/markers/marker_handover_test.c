/* SPDX-License-Identifier: Apache-2.0 */
/* How files come to a recorder when processes are slow, or quick to end: nothing of them is lost, and nothing is called lost.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "base/time.h"

#define WAIT_STEPS 6000 /* of 10 ms: more than any machine is stopped for */

/* ---- files as the library makes them, of one thread and one site ---- */

static int new_file(void)
{
	int fd = memfd_create(WICKMARK_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)WICKMARK_FILE_BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		_exit(9);
	return fd;
}

static struct wickmark_header *map_file(int fd)
{
	void *at = mmap(NULL, WICKMARK_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		_exit(9);
	return at;
}

static void complete(struct wickmark_header *header)
{
	struct wickmark_thread *thread = (struct wickmark_thread *)((char *)header + WICKMARK_AT_THREADS);
	header->abi = WICKMARK_ABI;
	header->clock = WICKMARK_CLOCK_MONOTONIC;
	header->file_bytes = WICKMARK_FILE_BYTES;
	header->pid = getpid();
	header->string_bytes = 4;
	header->site_count = header->thread_count = 1;
	*thread = (struct wickmark_thread){.state = WICKMARK_ACTIVE, .generation = 1, .tid = getpid()};
	__atomic_store_n(&header->magic, WICKMARK_MAGIC, __ATOMIC_RELEASE);
}

static void make_marker(struct wickmark_header *header)
{
	struct wickmark_thread *thread = (struct wickmark_thread *)((char *)header + WICKMARK_AT_THREADS);
	struct wickmark_record *ring = (struct wickmark_record *)((char *)header + WICKMARK_AT_RINGS);
	ring[thread->head] =
		(struct wickmark_record){.time = (uint64_t)time_monotonic_ns(), .site = 1, .kind = WICKMARK_KIND_INSTANT};
	__atomic_store_n(&thread->head, thread->head + 1, __ATOMIC_RELEASE);
}

static void grant(struct wickmark_header *header)
{
	header->lease_ns = (uint64_t)(time_monotonic_ns() + 60 * NS_PER_S);
	__atomic_store_n(&header->enabled, 1, __ATOMIC_RELEASE);
}

static int call(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path + 1, name, strlen(name));
	if (to < 0 || connect(to, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) != 0)
		_exit(9);
	return to;
}

static bool hand_over(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL) == 1;
}

/* ---- programs, in a child ---- */

typedef void child_function(const char *recorder);

static bool wait_until_recorded(const struct wickmark_header *header)
{
	for (int i = 0; i < WAIT_STEPS; i++, time_sleep_ns(10 * NS_PER_MS))
		if (__atomic_load_n(&header->recorder, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

/* Gets no CPU between connecting and handing over. */
static void slow(const char *recorder)
{
	int fd = new_file(), to = call(recorder);
	struct wickmark_header *header = map_file(fd);
	time_sleep_ns(300 * NS_PER_MS);
	complete(header);
	if (!hand_over(to, fd))
		_exit(8);
	grant(header);
	make_marker(header);
	raise(SIGKILL);
}

/* Is found before its file is complete. */
static void incomplete(const char *recorder)
{
	(void)recorder;
	struct wickmark_header *header = map_file(new_file());
	time_sleep_ns(500 * NS_PER_MS);
	complete(header);
	if (!wait_until_recorded(header))
		_exit(8);
	make_marker(header);
	raise(SIGKILL);
}

/* Was found as the program that it is, when what it was before, which had announced itself, has its turn. */
static void exec_found_first(const char *recorder)
{
	struct wickmark_header *header = map_file(new_file());
	int former = new_file(), to = call(recorder);
	complete(header);
	if (!wait_until_recorded(header))
		_exit(8);
	struct wickmark_header *before = map_file(former);
	complete(before);
	make_marker(before);
	grant(before);
	munmap(before, WICKMARK_FILE_BYTES);
	if (!hand_over(to, former))
		_exit(8);
	/* The recorder hangs up when it has it. Afterwards it looks at both some times. */
	char byte;
	if (read(to, &byte, 1) > 0)
		_exit(8);
	time_sleep_ns(300 * NS_PER_MS);
	make_marker(header);
	raise(SIGKILL);
}

static void run(child_function *program, uint64_t markers, uint64_t processes)
{
	struct marker_recorder *recorder;
	struct marker_recorder_stats stats;
	struct profile *profile;
	int status, go[2];
	char byte = 0;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(marker_recorder_new(false, &recorder, NULL), 0);
	assert_int_equal(pipe(go), 0);
	pid_t child = fork();
	if (child == 0) {
		if (read(go[0], &byte, 1) == 1)
			program(marker_recorder_name(recorder));
		_exit(7);
	}
	assert_int_equal(marker_recorder_follow(recorder, child, NULL), 0);
	assert_int_equal(marker_recorder_start(recorder, NULL), 0);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, SIGKILL);
	assert_int_equal(marker_recorder_stop(recorder, &profile, NULL), 0);
	marker_recorder_get_stats(recorder, &stats);
	assert_int_equal(stats.markers, markers);
	assert_int_equal(stats.processes, processes);
	assert_int_equal(stats.refused + stats.busy + stats.lost + stats.malformed, 0);
	marker_recorder_free(recorder);
	profile_free(profile);
	close(go[0]);
	close(go[1]);
}

static void test_slow(void **state)
{
	run(slow, 1, 1);
}

static void test_incomplete(void **state)
{
	run(incomplete, 1, 1);
}

static void test_exec_found_first(void **state)
{
	run(exec_found_first, 2, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_exec_found_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
