// SPDX-License-Identifier: Apache-2.0
/* Workers that behave in every way that is not foreseen. This program is its own worker: what symbol_build() does there is what
 * the first word of the file says that it is given. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "symbol/sandbox.h"
#include "symbol/worker.h"
#include "symbol/worker_int.h"

/* ---- the worker ---- */

struct scene {
	const struct symbol_build_options *options;
	int out_fd, in_fd;
	struct symbol_build_result *ret;
	struct error *err;
};

static int play_done(const struct scene *s)
{
	*s->ret = (struct symbol_build_result){.sources = SYMBOL_SOURCE_DWARF, .functions = 42, .table_bytes = 999};
	memcpy(s->ret->problem, "one\nline \xff", 11);
	return io_write(s->out_fd, "table", 5, "table", s->err);
}

static int play_fail(const struct scene *s)
{
	return error_set(s->err, -EBADMSG, "section 7 is\tdamaged");
}

static int play_fail_as_parent(const struct scene *s)
{
	return error_set(s->err, -ECANCELED, "not its to say");
}

static int play_crash(const struct scene *s)
{
	*(volatile int *)(uintptr_t)(s->ret->functions + 64) = 1;
	return 0;
}

static int play_abort(const struct scene *s)
{
	abort();
}

static int deepen(volatile int depth)
{
	volatile char frame[4096] = {0};
	return depth < 1000000 ? deepen(depth + 1) + frame[depth & 4095] : 0;
}

static int play_recurse(const struct scene *s)
{
	return deepen(0);
}

static int play_spin(const struct scene *s)
{
	volatile uint64_t turns = 1;
	while (turns)
		turns |= 1;
	return 0;
}

static int play_sleep(const struct scene *s)
{
	union worker_message message;
	worker_receive(WORKER_SOCKET, &message, NULL);
	return 0;
}

static int play_hide(const struct scene *s)
{
	close(WORKER_SOCKET);
	return play_spin(s);
}

static int play_exit(const struct scene *s)
{
	_exit(7);
}

/* Address space is what counts, touched or not. */
static int play_memory(const struct scene *s)
{
	for (size_t i = 0; i < 4096; i++)
		if (!mem_alloc(MIB))
			return error_nomem(s->err);
	return 0;
}

static int play_use_memory(const struct scene *s)
{
	char *block = mem_alloc(64 * MIB);
	if (!block)
		return error_nomem(s->err);
	memset(block, 1, 64 * MIB);
	return play_done(s);
}

static int play_output(const struct scene *s)
{
	static char block[64 * 1024];
	for (;;) {
		int r = io_write(s->out_fd, block, sizeof(block), "table", s->err);
		if (r < 0)
			return r;
	}
}

static int play_socket(const struct scene *s)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int play_fork(const struct scene *s)
{
	return (int)fork();
}

static int play_execute(const struct scene *s)
{
	return execl("/bin/true", "true", NULL);
}

static int play_executable_memory(const struct scene *s)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -EIO : 0;
}

static int play_kill_parent(const struct scene *s)
{
	return (int)syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static int play_trace(const struct scene *s)
{
	return prctl(PR_SET_DUMPABLE, 1);
}

/* Libraries do that; it is no crime. */
static int play_open(const struct scene *s)
{
	if (open("/etc/passwd", O_RDONLY) >= 0 || errno != ENOENT)
		return -EIO;
	return play_done(s);
}

static int play_looks_around(const struct scene *s)
{
	/* 0 to 2, the socket, the table, the file. */
	for (int fd = 0; fd < 256; fd++) {
		bool is_known = fd <= WORKER_SOCKET || fd == s->out_fd || fd == s->in_fd;
		if ((fcntl(fd, F_GETFD) >= 0) != is_known)
			return error_set(s->err, -EBADMSG, "descriptor %d", fd);
	}
	if (environ && environ[0])
		return error_set(s->err, -EBADMSG, "the environment has %s", environ[0]);
	return play_done(s);
}

static int play_announced(const struct scene *s)
{
	struct symbol_file_request request = {.kind = SYMBOL_FILE_DEBUG};
	int fd;
	int r = s->options->open_file(s->options->context, &request, &fd, NULL);
	if (r < 0)
		return r;
	s->ret->functions = (uint64_t)r;
	return io_close(fd) < 0 ? 0 : -EIO;
}

static int play_floods(const struct scene *s)
{
	struct symbol_file_request request = {.kind = SYMBOL_FILE_DWO};
	unsigned found = 0;
	for (int i = 0; i < 20; i++) {
		int fd;
		if (s->options->open_file(s->options->context, &request, &fd, NULL) == 0)
			found += io_close(fd) < 0;
	}
	s->ret->functions = found;
	return 0;
}

static int play_floods_for_ever(const struct scene *s)
{
	struct symbol_file_request request = {.kind = SYMBOL_FILE_DWO};
	for (int fd;;)
		if (s->options->open_file(s->options->context, &request, &fd, NULL) == 0)
			close(fd);
	return 0;
}

static int send_raw(const void *data, size_t len)
{
	struct iovec part = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	return sendmsg(WORKER_SOCKET, &header, 0) < 0 ? -errno : 0;
}

static int play_garbage(const struct scene *s)
{
	send_raw("hello, is anybody there?", 24);
	return play_sleep(s);
}

static int play_short(const struct scene *s)
{
	uint32_t kind = WORKER_DONE;
	send_raw(&kind, sizeof(kind));
	return play_sleep(s);
}

static int play_long(const struct scene *s)
{
	static char block[sizeof(union worker_message) + 1] = {WORKER_OPEN};
	send_raw(block, sizeof(block));
	return play_sleep(s);
}

static int play_unended(const struct scene *s)
{
	union worker_message message = {.open = {.kind = WORKER_OPEN}};
	memset(message.open.request.name, 'x', sizeof(message.open.request.name));
	send_raw(&message, worker_message_size(WORKER_OPEN));
	return play_sleep(s);
}

static int play_bad_kind(const struct scene *s)
{
	union worker_message message = {.open = {.kind = WORKER_OPEN, .request = {.kind = SYMBOL_FILE_KINDS}}};
	send_raw(&message, worker_message_size(WORKER_OPEN));
	return play_sleep(s);
}

static int play_bad_build_id(const struct scene *s)
{
	union worker_message message = {.open = {.kind = WORKER_OPEN, .request = {.build_id = "../../etc"}}};
	send_raw(&message, worker_message_size(WORKER_OPEN));
	return play_sleep(s);
}

/* Asks and does not read: the parent must not wait for it. */
static int play_deaf(const struct scene *s)
{
	union worker_message message = {.open = {.kind = WORKER_OPEN, .request = {.kind = SYMBOL_FILE_DWO}}};
	for (;;)
		if (send_raw(&message, worker_message_size(WORKER_OPEN)) < 0)
			return play_sleep(s);
}

static int play_sends_descriptors(const struct scene *s)
{
	union worker_message message = {.done = {.kind = WORKER_DONE}};
	worker_send(WORKER_SOCKET, &message, s->in_fd);
	return play_sleep(s);
}

static const struct {
	const char *name;
	int (*play)(const struct scene *scene);
} plays[] = {
	{"done", play_done},
	{"fail", play_fail},
	{"fail_as_parent", play_fail_as_parent},
	{"crash", play_crash},
	{"abort", play_abort},
	{"recurse", play_recurse},
	{"spin", play_spin},
	{"sleep", play_sleep},
	{"hide", play_hide},
	{"exit", play_exit},
	{"memory", play_memory},
	{"use_memory", play_use_memory},
	{"output", play_output},
	{"socket", play_socket},
	{"fork", play_fork},
	{"execute", play_execute},
	{"executable_memory", play_executable_memory},
	{"kill_parent", play_kill_parent},
	{"trace", play_trace},
	{"open", play_open},
	{"looks_around", play_looks_around},
	{"announced", play_announced},
	{"floods", play_floods},
	{"floods_for_ever", play_floods_for_ever},
	{"garbage", play_garbage},
	{"short", play_short},
	{"long", play_long},
	{"unended", play_unended},
	{"bad_kind", play_bad_kind},
	{"bad_build_id", play_bad_build_id},
	{"deaf", play_deaf},
	{"sends_descriptors", play_sends_descriptors},
};

int symbol_build(const struct symbol_build_options *options, int out_fd, struct symbol_build_result *ret, struct error *err)
{
	struct scene scene = {.options = options, .out_fd = out_fd, .ret = ret, .err = err};
	struct symbol_file_request request = {.kind = SYMBOL_FILE_BINARY, .name = "scene"};
	char name[64] = {0};
	memcpy(request.build_id, options->build_id, strlen(options->build_id) + 1);
	int r = options->open_file(options->context, &request, &scene.in_fd, err);
	if (r < 0)
		return r;
	if (io_pread(scene.in_fd, name, sizeof(name) - 1, 0, "scene", err) < 0)
		return -EIO;
	for (size_t i = 0; i < sizeof(plays) / sizeof(*plays); i++)
		if (strcmp(plays[i].name, name) == 0)
			return plays[i].play(&scene);
	return error_set(err, -EINVAL, "there is no scene %s", name);
}

/* ---- the parent ---- */

struct theatre {
	const char *scene; /* NULL: there is no file */
	int64_t open_ns;   /* how long opening takes */
	bool announced;
	unsigned opened;
};

static int open_scene(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	struct theatre *theatre = context;
	theatre->opened++;
	if (!theatre->scene)
		return -ENOENT;
	if (theatre->open_ns)
		time_sleep_ns(theatre->open_ns);
	int fd = memfd_create("scene", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, theatre->scene, strlen(theatre->scene), "scene", NULL), 0);
	*ret_fd = fd;
	return theatre->announced ? SYMBOL_FILE_ANNOUNCED : 0;
}

struct performance {
	struct symbol_worker_options worker;
	struct theatre theatre;
	uint64_t table_bytes_max;
	struct symbol_build_result result;
	struct error err;
	char table[64];
	ssize_t table_len;
};

static int perform(struct performance *p, const char *scene)
{
	struct symbol_build_options options = {
		.build_id = "abcd",
		.open_file = open_scene,
		.context = &p->theatre,
		.table_bytes_max = p->table_bytes_max,
	};
	p->theatre.scene = scene;
	p->worker.program = "/proc/self/exe";
	p->err = (struct error){0};
	int out_fd = memfd_create("table", MFD_CLOEXEC);
	assert_true(out_fd >= 0);
	int r = symbol_worker_build(&p->worker, &options, out_fd, &p->result, &p->err);
	p->table_len = io_pread(out_fd, p->table, sizeof(p->table), 0, "table", NULL);
	io_close(out_fd);
	assert_int_equal(p->err.code, r);
	return r;
}

static void assert_ending(const char *scene, int code, const char *message)
{
	struct performance p = {0};
	int r = perform(&p, scene);
	if (r != code || strcmp(p.err.message, message) != 0)
		fail_msg("%s: %d (%s) instead of %d (%s)", scene, r, p.err.message, code, message);
}

static void test_done(void **state)
{
	struct performance p = {0};
	assert_int_equal(perform(&p, "done"), 0);
	assert_int_equal(p.result.functions, 42);
	assert_int_equal(p.result.sources, SYMBOL_SOURCE_DWARF);
	/* The parent knows better. */
	assert_int_equal(p.result.table_bytes, 5);
	assert_string_equal(p.result.problem, "one?line ?");
	assert_int_equal(p.table_len, 5);
	assert_memory_equal(p.table, "table", 5);
	assert_true(p.result.cpu_ns > 0 && p.result.cpu_ns < 10ull * NS_PER_S);
	assert_int_equal(p.theatre.opened, 1);
}

/* The worker learns where the parent has a file from. */
static void test_announced(void **state)
{
	struct performance p = {0};
	for (int announced = 0; announced < 2; announced++) {
		p.theatre.announced = announced;
		assert_int_equal(perform(&p, "announced"), 0);
		assert_int_equal(p.result.functions, announced ? SYMBOL_FILE_ANNOUNCED : 0);
		assert_int_equal(p.theatre.opened, 2 * (announced + 1));
	}
}

/* That of the worker, not of the process that started it. */
static void test_memory_peak(void **state)
{
	struct performance p = {0};
	char *large = mem_alloc(300 * MIB);
	memset(large, 1, 300 * MIB);
	assert_int_equal(perform(&p, "use_memory"), 0);
	mem_free(large);
	assert_in_range(p.result.memory_peak_bytes, 64 * MIB, 200 * MIB);
}

static void test_failures(void **state)
{
	struct performance p = {.result = {.functions = 1}};
	assert_int_equal(perform(&p, NULL), -ENOENT);
	assert_int_equal(p.result.functions, 1);
	assert_ending("fail", -EBADMSG, "section 7 is?damaged");
	assert_ending("fail_as_parent", -EIO, "the worker failed with error -125: not its to say");
	assert_ending("exit", -EFAULT, "the worker exited with status 7 and without a result");
	assert_ending("no such scene", -EINVAL, "there is no scene no such scene");
}

static void test_crashes(void **state)
{
	assert_ending("crash", -EFAULT, "the worker crashed with signal 11 (Segmentation fault)");
	assert_ending("abort", -EFAULT, "the worker crashed with signal 6 (Aborted)");
	assert_ending("recurse", -EFAULT, "the worker crashed with signal 11 (Segmentation fault)");
}

static void test_forbidden(void **state)
{
	static const struct {
		const char *scene;
		long call;
	} cases[] = {
		{"socket", SYS_socket},		 {"fork", SYS_clone},	      {"execute", SYS_execve},
		{"executable_memory", SYS_mmap}, {"kill_parent", SYS_tgkill}, {"trace", SYS_prctl},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char message[128];
		snprintf(message, sizeof(message), "the worker violated its sandbox (system call %ld)", cases[i].call);
		assert_ending(cases[i].scene, -EPERM, message);
	}
}

static void test_harmless(void **state)
{
	struct performance p = {0};
	assert_int_equal(perform(&p, "open"), 0);
	int r = perform(&p, "looks_around");
	if (r < 0)
		fail_msg("%s", p.err.message);
}

static void test_nonsense(void **state)
{
	static const char *const scenes[] = {"garbage",	 "short",	 "long", "unended",
					     "bad_kind", "bad_build_id", "deaf", "sends_descriptors"};
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		assert_ending(scenes[i], -EPERM, "the worker violated its sandbox (malformed message)");
}

static void test_processor_time(void **state)
{
	struct performance p = {.worker = {.cpu_max_ns = NS_PER_S}};
	assert_int_equal(perform(&p, "spin"), -ETIME);
	assert_string_equal(p.err.message, "the worker needed more than 1 s of CPU time");
}

static void test_wall_time(void **state)
{
	struct performance p = {.worker = {.wall_max_ns = 200 * NS_PER_MS}};
	assert_int_equal(perform(&p, "sleep"), -ETIME);
	assert_string_equal(p.err.message, "the worker needed more than 200 ms");
	/* The time that it takes to find a file is not the worker's. */
	p = (struct performance){.worker = {.wall_max_ns = 2 * NS_PER_S}, .theatre = {.open_ns = 2200 * NS_PER_MS}};
	assert_int_equal(perform(&p, "done"), 0);
}

/* It is killed although its socket is closed. */
static void test_hiding(void **state)
{
	struct performance p = {0};
	assert_int_equal(perform(&p, "hide"), -EFAULT);
}

static void test_memory_limit(void **state)
{
	if (!SANDBOX_HAS_MEMORY_LIMIT) {
		print_message("skipped: address space cannot be limited under AddressSanitizer\n");
		skip();
	}
	struct performance p = {.worker = {.memory_max_bytes = 512 * MIB}};
	assert_int_equal(perform(&p, "memory"), -ENOMEM);
	assert_string_equal(p.err.message, "the worker needed more than 512.0 MiB of memory");
}

static void test_output_limit(void **state)
{
	struct performance p = {.table_bytes_max = MIB};
	assert_int_equal(perform(&p, "output"), -E2BIG);
	assert_string_equal(p.err.message, "its table is larger than 1.0 MiB");
}

static void test_request_limit(void **state)
{
	struct performance p = {.worker = {.files_max = 10}};
	assert_int_equal(perform(&p, "floods"), 0);
	assert_int_equal(p.theatre.opened, 10);
	assert_int_equal(p.result.functions, 9);
	assert_int_equal(perform(&p, "floods_for_ever"), -EPERM);
	assert_string_equal(p.err.message, "the worker violated its sandbox (more than 65546 files requested)");
	assert_int_equal(p.theatre.opened, 20);
}

static void *cancel_soon(void *context)
{
	time_sleep_ns(100 * NS_PER_MS);
	cancel_request(context);
	return NULL;
}

static void test_cancel(void **state)
{
	atomic_bool cancel = false;
	struct performance p = {.worker = {.cancel = &cancel}};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
	assert_int_equal(perform(&p, "spin"), -ECANCELED);
	pthread_join(thread, NULL);
}

static void test_no_program(void **state)
{
	struct symbol_worker_options worker = {.program = "/nonexistent/wick"};
	struct symbol_build_options options = {.build_id = "", .open_file = open_scene};
	struct symbol_build_result result;
	struct error err;
	assert_int_equal(symbol_worker_build(&worker, &options, 0, &result, &err), -ENOENT);
	assert_string_equal(err.message, "cannot start /nonexistent/wick as a worker: No such file or directory");
	/* A program that knows nothing of workers. */
	worker.program = "/bin/true";
	assert_int_equal(symbol_worker_build(&worker, &options, 0, &result, &err), -EFAULT);
	assert_string_equal(err.message, "the worker exited with status 0 and without a result");
}

static unsigned count_descriptors(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void *perform_many(void *context)
{
	static const char *const scenes[] = {"done", "crash", "fail", "socket"};
	static const int codes[] = {0, -EFAULT, -EBADMSG, -EPERM};
	intptr_t wrong = 0;
	for (size_t i = 0; i < 8; i++) {
		struct performance p = {0};
		wrong += perform(&p, scenes[i % 4]) != codes[i % 4];
	}
	return (void *)wrong;
}

static void test_parallel(void **state)
{
	pthread_t threads[8];
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, perform_many, NULL), 0);
	for (size_t i = 0; i < 8; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

/* Every test leaves as many descriptors as there were, and no process. */
static int setup(void **state)
{
	*state = (void *)(uintptr_t)count_descriptors();
	return 0;
}

static int teardown(void **state)
{
	if (count_descriptors() != (uintptr_t)*state) {
		print_error("descriptors: %u instead of %u\n", count_descriptors(), (unsigned)(uintptr_t)*state);
		return -1;
	}
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
		print_error("a worker was left behind\n");
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], SYMBOL_WORKER_VERB) == 0)
		return symbol_worker_main();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_done),	  TEST(test_memory_peak), TEST(test_failures),	   TEST(test_crashes),
		TEST(test_forbidden),	  TEST(test_harmless),	  TEST(test_nonsense),	   TEST(test_processor_time),
		TEST(test_wall_time),	  TEST(test_hiding),	  TEST(test_memory_limit), TEST(test_output_limit),
		TEST(test_request_limit), TEST(test_cancel),	  TEST(test_no_program),   TEST(test_parallel),
		TEST(test_announced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
