/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_fixture.h"
#include "base/test_programs.h"
#include "base/thread.h"
#include "base/time.h"
#include "elf/test_elf.h"
#include "symbol/debuginfod_int.h"
#include "symbol/symbol_int.h"

#define ID	 TEST_ELF_BUILD_ID
#define OTHER_ID "ffffffffffffffffffffffffffffffffffffffff"

/* ---- a server that misbehaves as told ---- */

enum behaviour { ANSWER_FILE, ANSWER_MISSING, BREAK_OFF, HANG, SEND_FOR_EVER, ANSWER_BROKEN, ANSWER_PAGE };
struct fixture {
	char directory[64], cache[96], url[64];
	struct buffer file; /* what ANSWER_FILE answers */
	int listener;
	uint16_t port;
	pthread_t thread;
	enum behaviour behaviour;
	unsigned requests;
	atomic_bool stop, release;
	char last[512]; /* request line */
};
static const size_t fixture_bytes = sizeof(struct fixture);

static bool is_set(const atomic_bool *flag)
{
	return atomic_load(flag);
}

static void set(atomic_bool *flag)
{
	atomic_store(flag, true);
}

static bool send_all(int fd, const void *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
	return true;
}

static void send_head(int fd, const char *status, const char *more)
{
	char head[256];
	int n = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nConnection: close\r\n%s\r\n", status, more);
	send_all(fd, head, (size_t)n);
}

static void answer(struct fixture *f, int fd)
{
	char length[64];
	static const char chunk[65536 + 9] = "10000\r\n";
	snprintf(length, sizeof(length), "Content-Length: %zu\r\n", f->file.len);
	switch (__atomic_load_n(&f->behaviour, __ATOMIC_ACQUIRE)) {
	case ANSWER_FILE:
		send_head(fd, "200 OK", length);
		send_all(fd, f->file.data, f->file.len);
		break;
	case ANSWER_MISSING: send_head(fd, "404 Not Found", "Content-Length: 0\r\n"); break;
	case ANSWER_PAGE:
		send_head(fd, "200 OK", "Content-Type: text/html\r\nContent-Length: 35\r\n");
		send_all(fd, "\n<!DOCTYPE html><html>Sign in</html>", 35);
		break;
	case ANSWER_BROKEN: send_head(fd, "503 Service Unavailable", "Content-Length: 0\r\n"); break;
	case BREAK_OFF:
		send_head(fd, "200 OK", length);
		send_all(fd, f->file.data, f->file.len / 2);
		break;
	case HANG:
		while (!is_set(&f->stop) && !is_set(&f->release))
			time_sleep_ns(5 * NS_PER_MS);
		if (is_set(&f->release)) {
			send_head(fd, "200 OK", length);
			send_all(fd, f->file.data, f->file.len);
		}
		break;
	case SEND_FOR_EVER:
		/* Of unknown length, as compressed answers are. */
		send_head(fd, "200 OK", "Transfer-Encoding: chunked\r\n");
		while (!is_set(&f->stop) && send_all(fd, chunk, 7) && send_all(fd, chunk + 7, 65536) && send_all(fd, "\r\n", 2))
			;
		break;
	}
}

static void *serve(void *context)
{
	struct fixture *f = context;
	while (!is_set(&f->stop)) {
		int fd = accept(f->listener, NULL, NULL);
		if (fd < 0)
			break;
		char request[2048];
		size_t len = 0;
		ssize_t n = 1;
		while (n > 0 && len < sizeof(request) - 1 && !memmem(request, len, "\r\n\r\n", 4)) {
			n = recv(fd, request + len, sizeof(request) - 1 - len, 0);
			len += n > 0 ? (size_t)n : 0;
		}
		request[len] = 0;
		if (n > 0) {
			snprintf(f->last, sizeof(f->last), "%.*s", (int)strcspn(request, "\r\n"), request);
			__atomic_add_fetch(&f->requests, 1, __ATOMIC_RELEASE);
			answer(f, fd);
		}
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	return NULL;
}

static void listen_on(struct fixture *f, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);
	int one = 1;
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(f->listener >= 0);
	setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->listener, 16), 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
	f->port = ntohs(address.sin_port);
	f->stop = false;
	assert_int_equal(thread_start(&f->thread, "http", serve, f, NULL), 0);
}

static void stop_listening(struct fixture *f)
{
	if (f->listener < 0)
		return;
	set(&f->stop);
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listener);
	f->listener = -1;
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-debuginfod-test-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->cache, sizeof(f->cache), "%s/a/cache", f->directory);
	static const struct test_symbol symbols[] = {{.name = "main", .start = 0, .size = 16, .type = STT_FUNC}};
	buffer_init(&f->file, MIB);
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1}, &f->file);
	listen_on(f, 0);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u", f->port);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	stop_listening(f);
	buffer_release(&f->file);
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static struct debuginfod *open_client(const struct fixture *f, const struct debuginfod_options *more)
{
	struct debuginfod_options options = more ? *more : (struct debuginfod_options){0};
	struct error err = {0};
	struct debuginfod *d = NULL;
	options.urls = options.urls ? options.urls : f->url;
	options.directory = f->cache;
	if (debuginfod_new(&options, &d, &err) < 0)
		fail_msg("%s", err.message);
	assert_non_null(d);
	return d;
}

static int fetch(struct debuginfod *d, const char *build_id, bool *ret_cached, struct error *err)
{
	int fd = -1;
	int r = debuginfod_fetch(d, DEBUGINFOD_DEBUGINFO, build_id, NULL, NULL, &fd, ret_cached, err);
	assert_true((r == 0) == (fd >= 0));
	io_close(fd);
	return r;
}

static struct debuginfod_stats stats_of(struct debuginfod *d)
{
	struct debuginfod_stats stats;
	debuginfod_get_stats(d, &stats);
	return stats;
}

static unsigned requests(const struct fixture *f)
{
	return __atomic_load_n(&f->requests, __ATOMIC_ACQUIRE);
}

/* ---- tests ---- */

static void test_none_configured(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = (void *)1;
	struct error err = {0};
	int fd = -1;
	assert_int_equal(debuginfod_new(&(struct debuginfod_options){.urls = "  ", .directory = f->cache}, &d, &err), 0);
	assert_null(d);
	unsetenv("DEBUGINFOD_URLS");
	assert_int_equal(debuginfod_new(&(struct debuginfod_options){.directory = f->cache}, &d, &err), 0);
	assert_null(d);
	assert_int_equal(debuginfod_fetch(NULL, DEBUGINFOD_DEBUGINFO, ID, NULL, NULL, &fd, NULL, &err), -ENOENT);
	debuginfod_forget(NULL, ID);
	assert_null(debuginfod_free(NULL));
	assert_int_equal(access(f->cache, F_OK), -1);
}

static void test_library_missing(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = NULL;
	struct debuginfod_options options = {.urls = f->url, .directory = f->cache};
	struct error err = {0};
	debuginfod_set_library("libno-such-debuginfod.so.9");
	assert_int_equal(debuginfod_new(&options, &d, &err), -ENOSYS);
	assert_non_null(strstr(err.message, "libdebuginfod1"));
	assert_true(stats_of(NULL).library_missing);
	/* One that has none of the functions. */
	debuginfod_set_library("libc.so.6");
	assert_int_equal(debuginfod_new(&options, &d, &err), -ENOSYS);
	assert_non_null(strstr(err.message, "debuginfod_begin"));
	debuginfod_set_library(NULL);
	d = open_client(f, NULL);
	assert_false(stats_of(d).library_missing);
	debuginfod_free(d);
}

static void test_found_and_cached(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	bool cached = true;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	assert_string_equal(f->last, "GET /buildid/" ID "/debuginfo HTTP/1.1");
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_true(cached);
	int fd = -1;
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_EXECUTABLE, ID, NULL, NULL, &fd, NULL, NULL), 0);
	uint64_t size = 0;
	assert_int_equal(io_file_size(fd, &size, "", NULL), 0);
	assert_int_equal(size, f->file.len);
	io_close(fd);
	assert_string_equal(f->last, "GET /buildid/" ID "/executable HTTP/1.1");
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_SOURCE, ID, "/usr/src/a b.c", NULL, &fd, NULL, NULL), 0);
	io_close(fd);
	assert_string_equal(f->last, "GET /buildid/" ID "/source/usr/src/a%20b.c HTTP/1.1");
	struct debuginfod_stats stats = stats_of(d);
	assert_int_equal(stats.requests, 3);
	assert_int_equal(stats.found, 3);
	assert_int_equal(stats.cache_hits, 1);
	assert_int_equal(stats.bytes_fetched, 3 * f->file.len);
	assert_int_equal(stats.servers, 1);
	debuginfod_free(d);
	/* Another time, and with nobody there. */
	stop_listening(f);
	d = open_client(f, NULL);
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_true(cached);
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_SOURCE, ID, "/usr/src/a b.c", NULL, &fd, &cached, NULL), 0);
	io_close(fd);
	assert_true(cached);
	assert_true(stats_of(d).cache_bytes >= 3 * f->file.len);
	debuginfod_free(d);
}

static void test_bad_names(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	int fd = -1;
	char long_path[PATH_MAX];
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/', long_path[sizeof(long_path) - 1] = 0;
	assert_int_equal(fetch(d, "../../etc", NULL, NULL), -ENOENT);
	assert_int_equal(fetch(d, "", NULL, NULL), -ENOENT);
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_SOURCE, ID, "a.c", NULL, &fd, NULL, NULL), -ENOENT);
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_SOURCE, ID, NULL, NULL, &fd, NULL, NULL), -ENOENT);
	assert_int_equal(debuginfod_fetch(d, DEBUGINFOD_SOURCE, ID, long_path, NULL, &fd, NULL, NULL), -ENOENT);
	assert_int_equal(requests(f), 0);
	debuginfod_free(d);
}

/* False if the machine was too slow for so short a memory. */
static bool check_memory(struct fixture *f, int64_t missing_ns)
{
	struct debuginfod_options options = {.missing_ns = missing_ns};
	assert_int_equal(io_remove_tree(f->cache, NULL), 0);
	struct debuginfod *d = open_client(f, &options);
	struct error err = {0};
	bool cached = true;
	unsigned before = requests(f);
	int64_t began_ns = time_monotonic_ns();
	f->behaviour = ANSWER_MISSING;
	assert_int_equal(fetch(d, ID, &cached, &err), -ENOENT);
	assert_false(cached);
	assert_non_null(strstr(err.message, ID));
	assert_int_equal(fetch(d, ID, &cached, NULL), -ENOENT);
	if (time_monotonic_ns() - began_ns >= missing_ns) {
		debuginfod_free(d);
		return false;
	}
	assert_true(cached);
	assert_int_equal(requests(f), before + 1);
	assert_int_equal(fetch(d, OTHER_ID, &cached, NULL), -ENOENT);
	assert_int_equal(requests(f), before + 2);
	/* It arrives late. */
	f->behaviour = ANSWER_FILE;
	time_sleep_ns(options.missing_ns + 50 * NS_PER_MS);
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	struct debuginfod_stats stats = stats_of(d);
	assert_int_equal(stats.missing, 2);
	assert_int_equal(stats.missing_cached, 1);
	assert_int_equal(stats.found, 1);
	assert_int_equal(stats.failures, 0);
	debuginfod_free(d);
	return true;
}

static void test_missing_is_remembered(void **state)
{
	int64_t missing_ns = 300 * NS_PER_MS;
	while (!check_memory(*state, missing_ns) && missing_ns < 60 * NS_PER_S)
		missing_ns *= 2;
	assert_true(missing_ns < 60 * NS_PER_S);
}

/* A symbolizer that looks again finds servers asked again, the first time too. */
static void test_missing_is_forgotten_before_a_retry(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	bool cached = true;
	f->behaviour = ANSWER_MISSING;
	assert_int_equal(fetch(d, ID, &cached, NULL), -ENOENT);
	debuginfod_free(d);
	/* As if that had been when a symbolizer first decided to look again now. */
	char path[256];
	int64_t made_ns = time_now_ns() - SYMBOL_RETRY_NS_DEFAULT;
	struct timespec at = {.tv_sec = made_ns / NS_PER_S, .tv_nsec = made_ns % NS_PER_S}, times[2] = {at, at};
	snprintf(path, sizeof(path), "%s/" ID "/debuginfo", f->cache);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	d = open_client(f, NULL);
	f->behaviour = ANSWER_FILE;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	debuginfod_free(d);
}

static void test_missing_survives_restart_until_forgotten(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	bool cached = true;
	f->behaviour = ANSWER_MISSING;
	assert_int_equal(fetch(d, ID, &cached, NULL), -ENOENT);
	debuginfod_free(d);
	d = open_client(f, NULL);
	assert_int_equal(fetch(d, ID, &cached, NULL), -ENOENT);
	assert_true(cached);
	assert_int_equal(requests(f), 1);
	f->behaviour = ANSWER_FILE;
	debuginfod_forget(d, ID);
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	debuginfod_free(d);
}

static void test_wrong_file(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	struct error err = {0};
	bool cached = true;
	assert_int_equal(fetch(d, OTHER_ID, &cached, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "sent a file of build-id " ID " as the debuginfo of build-id " OTHER_ID));
	assert_int_equal(fetch(d, OTHER_ID, &cached, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "a wrong file"));
	assert_true(cached);
	assert_int_equal(requests(f), 1);
	/* A proxy's page, that says who should sign in. */
	f->behaviour = ANSWER_PAGE;
	assert_int_equal(fetch(d, "00" OTHER_ID, &cached, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "sent an HTML page as"));
	f->behaviour = ANSWER_FILE;
	/* And one that was damaged in the cache is fetched again. */
	assert_int_equal(fetch(d, ID, NULL, NULL), 0);
	char path[256];
	snprintf(path, sizeof(path), "%s/" ID "/debuginfo", f->cache);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, 3), 0);
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	debuginfod_free(d);
}

static void test_broken_transfer_is_no_miss(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	struct error err = {0};
	bool cached = true;
	debuginfod_set_backoff(d, NS_PER_MS, 2 * NS_PER_MS);
	f->behaviour = BREAK_OFF;
	assert_int_equal(fetch(d, ID, &cached, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.message, "was interrupted"));
	time_sleep_ns(5 * NS_PER_MS);
	f->behaviour = ANSWER_FILE;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	assert_int_equal(stats_of(d).failures, 1);
	assert_int_equal(stats_of(d).missing, 0);
	debuginfod_free(d);
}

/* False if the machine was too slow for so short a pause. */
static bool check_backoff(struct fixture *f, int64_t pause_ns)
{
	struct debuginfod *d = open_client(f, NULL);
	struct error err = {0};
	bool cached = false, in_time = true;
	uint16_t port = f->port;
	debuginfod_set_backoff(d, pause_ns, 60 * NS_PER_S);
	stop_listening(f);
	int64_t began_ns = time_monotonic_ns();
	assert_int_equal(fetch(d, ID, &cached, &err), -EHOSTUNREACH);
	assert_int_equal(err.code, -EHOSTUNREACH);
	assert_false(cached);
	assert_int_equal(fetch(d, ID, &cached, &err), -EHOSTUNREACH);
	in_time = time_monotonic_ns() - began_ns < pause_ns;
	if (in_time) {
		assert_true(cached);
		assert_non_null(strstr(err.message, "next attempt is in "));
		assert_int_equal(stats_of(d).requests, 1);
		time_sleep_ns(pause_ns * 11 / 10);
		began_ns = time_monotonic_ns();
		assert_int_equal(fetch(d, ID, &cached, &err), -EHOSTUNREACH);
		assert_false(cached);
		assert_int_equal(stats_of(d).requests, 2);
		/* Twice as long now. */
		time_sleep_ns(pause_ns * 11 / 10);
		assert_int_equal(fetch(d, ID, &cached, &err), -EHOSTUNREACH);
		in_time = time_monotonic_ns() - began_ns < 2 * pause_ns;
	}
	if (in_time)
		assert_true(cached);
	listen_on(f, port);
	time_sleep_ns(in_time ? pause_ns * 11 / 10 : 0);
	if (in_time) {
		assert_int_equal(fetch(d, ID, &cached, &err), 0);
		assert_int_equal(fetch(d, OTHER_ID, &cached, &err), -EBADMSG); /* asked at once: servers answer again */
		assert_false(cached);
	}
	debuginfod_free(d);
	return in_time;
}

static void test_backoff(void **state)
{
	int64_t pause_ns = 200 * NS_PER_MS;
	while (!check_backoff(*state, pause_ns) && pause_ns < 20 * NS_PER_S)
		pause_ns *= 2;
	assert_true(pause_ns < 20 * NS_PER_S);
}

static void test_stalled(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, &(struct debuginfod_options){.timeout_ns = 300 * NS_PER_MS});
	struct error err = {0};
	f->behaviour = HANG;
	assert_int_equal(fetch(d, ID, NULL, &err), -EHOSTUNREACH);
	debuginfod_free(d);
}

static void test_too_large(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, &(struct debuginfod_options){.file_bytes_max = 64});
	bool cached = true;
	/* Announced. */
	assert_int_equal(fetch(d, ID, &cached, NULL), -E2BIG);
	assert_false(cached);
	assert_int_equal(fetch(d, ID, &cached, NULL), -E2BIG);
	assert_true(cached);
	debuginfod_free(d);
	/* Not announced. */
	d = open_client(f, &(struct debuginfod_options){.file_bytes_max = 4 * MIB});
	f->behaviour = SEND_FOR_EVER;
	assert_int_equal(fetch(d, OTHER_ID, &cached, NULL), -E2BIG);
	assert_int_equal(fetch(d, OTHER_ID, &cached, NULL), -E2BIG);
	assert_true(cached);
	char path[256];
	snprintf(path, sizeof(path), "%s/" OTHER_ID, f->cache);
	assert_int_equal(access(path, F_OK), -1);
	debuginfod_free(d);
}

struct asker {
	struct debuginfod *debuginfod;
	pthread_t thread;
	atomic_bool cancel;
	int result;
};

static void *ask(void *context)
{
	struct asker *asker = context;
	int fd = -1;
	asker->result = debuginfod_fetch(asker->debuginfod, DEBUGINFOD_DEBUGINFO, ID, NULL, &asker->cancel, &fd, NULL, NULL);
	io_close(fd);
	return NULL;
}

static void test_cancel_is_no_miss(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	struct asker askers[2] = {{.debuginfod = d}, {.debuginfod = d}};
	f->behaviour = HANG;
	for (int i = 0; i < 2; i++)
		assert_int_equal(thread_start(&askers[i].thread, "ask", ask, &askers[i], NULL), 0);
	while (requests(f) == 0)
		time_sleep_ns(NS_PER_MS);
	for (int i = 0; i < 2; i++) {
		set(&askers[i].cancel);
		pthread_join(askers[i].thread, NULL);
		assert_int_equal(askers[i].result, -ECANCELED);
	}
	stop_listening(f);
	f->behaviour = ANSWER_FILE;
	listen_on(f, f->port);
	bool cached = true;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	debuginfod_free(d);
}

static void test_one_transfer_for_many(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	struct asker askers[8];
	f->behaviour = HANG;
	for (int i = 0; i < 8; i++) {
		askers[i] = (struct asker){.debuginfod = d};
		assert_int_equal(thread_start(&askers[i].thread, "ask", ask, &askers[i], NULL), 0);
	}
	while (requests(f) == 0)
		time_sleep_ns(NS_PER_MS);
	time_sleep_ns(20 * NS_PER_MS);
	set(&f->release);
	for (int i = 0; i < 8; i++) {
		pthread_join(askers[i].thread, NULL);
		assert_int_equal(askers[i].result, 0);
	}
	assert_int_equal(requests(f), 1);
	assert_int_equal(stats_of(d).found, 1);
	debuginfod_free(d);
}

/* Threads that open and close files beside fetches: nobody but they may close theirs. */
static void *open_and_close(void *context)
{
	const atomic_bool *stop = context;
	while (!is_set(stop)) {
		int fds[8];
		for (int i = 0; i < 8; i++)
			fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		for (int i = 0; i < 8; i++)
			if (close(fds[i]) < 0)
				return context; /* closed by somebody else */
	}
	return NULL;
}

static void test_no_foreign_descriptors(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, &(struct debuginfod_options){.missing_ns = 1});
	atomic_bool stop = false;
	pthread_t thread;
	f->behaviour = ANSWER_MISSING;
	assert_int_equal(thread_start(&thread, "open", open_and_close, &stop, NULL), 0);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(fetch(d, ID, NULL, NULL), -ENOENT);
		if (i == 100)
			assert_int_equal(io_remove_tree(f->cache, NULL), 0);
	}
	set(&stop);
	void *complaint = NULL;
	pthread_join(thread, &complaint);
	assert_null(complaint);
	debuginfod_free(d);
}

static void test_cache_limit(void **state)
{
	struct fixture *f = *state;
	char path[256];
	struct debuginfod *d = open_client(f, NULL);
	assert_int_equal(fetch(d, ID, NULL, NULL), 0);
	debuginfod_free(d);
	/* Older files of others, an unfinished one, and what is not ours. */
	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "%s/aaaa%02x", f->cache, (unsigned)i);
		assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
		snprintf(path, sizeof(path), "%s/aaaa%02x/%s", f->cache, (unsigned)i,
			 i == 9 ? "debuginfo.abCD12" : "debuginfo");
		static const char data[10000];
		assert_int_equal(io_write_file(path, data, sizeof(data), i == 9 ? 0600 : 0400, NULL), 0);
		struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000}};
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	snprintf(path, sizeof(path), "%s/notes", f->cache);
	assert_int_equal(io_write_file(path, "x", 1, 0600, NULL), 0);
	/* 9 * 14096 and one of ours are more than the limit: at least the four that were used longest ago go. */
	uint64_t ours = f->file.len + 4096;
	d = open_client(f, &(struct debuginfod_options){.bytes_max = 6 * 14096 + ours});
	struct debuginfod_stats stats = stats_of(d);
	assert_true(stats.cache_bytes <= 6 * 14096 + ours && stats.cache_bytes >= 3 * 14096);
	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "%s/aaaa%02x", f->cache, (unsigned)i);
		if (i < 3 || i == 9)
			assert_int_equal(access(path, F_OK), -1);
		else if (i >= 5)
			assert_int_equal(access(path, F_OK), 0);
	}
	snprintf(path, sizeof(path), "%s/notes", f->cache);
	assert_int_equal(access(path, F_OK), 0);
	bool cached = false;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_true(cached);
	debuginfod_free(d);
	/* A file that goes over the limit: the others make room, it is handed out all the same. */
	d = open_client(f, &(struct debuginfod_options){.bytes_max = 1});
	assert_int_equal(stats_of(d).cache_bytes, 0);
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_int_equal(stats_of(d).cache_bytes, 0);
	debuginfod_free(d);
}

static unsigned count_build_ids(const struct fixture *f)
{
	char command[160];
	unsigned count = 0;
	snprintf(command, sizeof(command), "ls -d %s/*/ 2>/dev/null | wc -l", f->cache);
	FILE *pipe = popen(command, "r");
	assert_int_equal(fscanf(pipe, "%u", &count), 1);
	pclose(pipe);
	return count;
}

/* Made-up build-ids leave a mark each, which takes a block: they are kept within the limit, too. */
static void test_misses_count(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, &(struct debuginfod_options){.bytes_max = 16 * 4096});
	char build_id[] = "aaaaaa00";
	f->behaviour = ANSWER_MISSING;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(build_id, sizeof(build_id), "aaaaaa%02x", i);
		assert_int_equal(fetch(d, build_id, NULL, NULL), -ENOENT);
		assert_true(count_build_ids(f) <= 16);
		assert_int_equal(stats_of(d).cache_bytes, count_build_ids(f) * 4096);
	}
	uint64_t bytes = stats_of(d).cache_bytes;
	debuginfod_forget(d, build_id);
	assert_int_equal(stats_of(d).cache_bytes, bytes - 4096);
	debuginfod_free(d);
	/* The same one again and again is one; too old, it is none. */
	assert_int_equal(io_remove_tree(f->cache, NULL), 0);
	d = open_client(f, &(struct debuginfod_options){.missing_ns = 1});
	for (unsigned i = 0; i < 3; i++) {
		time_sleep_ns(NS_PER_MS);
		assert_int_equal(fetch(d, ID, NULL, NULL), -ENOENT);
		assert_int_equal(stats_of(d).cache_bytes, 4096);
	}
	/* What is not what was asked for leaves nothing. */
	f->behaviour = ANSWER_FILE;
	assert_int_equal(fetch(d, OTHER_ID, NULL, NULL), -EBADMSG);
	assert_int_equal(count_build_ids(f), 1);
	debuginfod_free(d);
	time_sleep_ns(NS_PER_MS);
	d = open_client(f, &(struct debuginfod_options){.missing_ns = 1});
	assert_int_equal(stats_of(d).cache_bytes, 0);
	assert_int_equal(count_build_ids(f), 0);
	debuginfod_free(d);
}

/* More than can be put in order is no reason not to start. */
static void test_too_many_to_order(void **state)
{
	struct fixture *f = *state;
	struct debuginfod_cache cache;
	char path[256];
	for (unsigned i = 0; i < 12; i++) {
		snprintf(path, sizeof(path), "%s/bbbb%02x", f->cache, i);
		assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
		snprintf(path, sizeof(path), "%s/bbbb%02x/debuginfo", f->cache, i);
		assert_int_equal(io_write_file(path, "x", i < 6 ? 1 : 0, 0400, NULL), 0);
	}
	assert_int_equal(debuginfod_cache_open(&cache, f->cache, GIB, 600 * NS_PER_S, NULL), 0);
	assert_int_equal(cache.bytes, 6 * 4097 + 6 * 4096);
	cache.files_max = 4;
	assert_int_equal(debuginfod_cache_trim(&cache, NULL), 0);
	assert_int_equal(cache.bytes, count_build_ids(f) * 4096 + 6);
	assert_in_range(count_build_ids(f), 6, 10);
	/* Nothing is in order that could not be removed: in several goes it gets there. */
	cache.bytes_max = 1;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(debuginfod_cache_trim(&cache, NULL), 0);
	assert_int_equal(cache.bytes, 0);
	debuginfod_cache_close(&cache);
}

static void test_directory_removed(void **state)
{
	struct fixture *f = *state;
	struct debuginfod *d = open_client(f, NULL);
	char parent[96];
	snprintf(parent, sizeof(parent), "%s/a", f->directory);
	assert_int_equal(io_remove_tree(parent, NULL), 0);
	bool cached = true;
	assert_int_equal(fetch(d, ID, &cached, NULL), 0);
	assert_false(cached);
	/* Something else in its place: our trouble, not the servers'. */
	assert_int_equal(io_remove_tree(parent, NULL), 0);
	assert_int_equal(io_write_file(parent, "", 0, 0600, NULL), 0);
	struct error err = {0};
	assert_true(fetch(d, OTHER_ID, &cached, &err) < 0);
	assert_int_not_equal(err.code, -ENOENT);
	assert_int_not_equal(err.code, -EHOSTUNREACH);
	debuginfod_free(d);
}

static void test_faults(void **state)
{
	struct fixture *f = *state;
	static const enum fault_kind faults[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_WRITE, FAULT_RENAME, FAULT_SYNC, FAULT_READ};
	for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
		bool reached = true;
		for (unsigned n = 1; reached; n++) {
			assert_true(n < 1000);
			assert_int_equal(io_remove_tree(f->cache, NULL), 0);
			struct debuginfod_options options = {.urls = f->url, .directory = f->cache, .bytes_max = 1};
			struct debuginfod *d = NULL;
			struct error err = {0};
			fault_arm(faults[k], n, 0);
			int r = debuginfod_new(&options, &d, &err);
			if (r == 0)
				r = fetch(d, ID, NULL, &err);
			reached = fault_disarm(faults[k]);
			assert_true(reached || r == 0);
			if (r < 0)
				assert_true(err.code == r && err.message[0]);
			if (d) {
				debuginfod_forget(d, ID);
				assert_int_equal(fetch(d, ID, NULL, &err), 0);
			}
			debuginfod_free(d);
		}
	}
}

/* ---- Debian's server, in a network of its own, as it listens on all addresses ---- */

static bool enter_private_network(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return false;
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
	close(fd);
	return up;
}

static int against_real_server(struct fixture *f)
{
	char files[96], log[96];
	snprintf(files, sizeof(files), "%s/files", f->directory);
	snprintf(log, sizeof(log), "%s/log", f->directory);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT, 0600);
		dup2(fd, 1);
		dup2(fd, 2);
		execlp("debuginfod", "debuginfod", "-F", files, "-d", ":memory:", "-p", "8002", "-t", "1", "-vv", NULL);
		_exit(127);
	}
	struct debuginfod *d = NULL;
	struct debuginfod_options options = {
		.urls = "http://127.0.0.1:8002", .directory = f->cache, .missing_ns = 200 * NS_PER_MS};
	int r = debuginfod_new(&options, &d, NULL), status = 0;
	if (r == 0)
		debuginfod_set_backoff(d, 20 * NS_PER_MS, 50 * NS_PER_MS);
	/* It begins to listen, scans, and has it. */
	bool was_missing = false;
	int64_t until = time_monotonic_ns() + 120 * NS_PER_S;
	do {
		time_sleep_ns(100 * NS_PER_MS);
		r = r < 0 && !d ? r : fetch(d, ID, NULL, NULL);
		was_missing |= d && fetch(d, OTHER_ID, NULL, NULL) == -ENOENT;
	} while (r < 0 && d && time_monotonic_ns() < until && waitpid(pid, &status, WNOHANG) == 0);
	struct debuginfod_stats stats = stats_of(d);
	printf("debuginfod: %llu requests, %llu found, %llu missing, %llu failures\n", (unsigned long long)stats.requests,
	       (unsigned long long)stats.found, (unsigned long long)stats.missing, (unsigned long long)stats.failures);
	debuginfod_free(d);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return r == 0 && was_missing && stats.bytes_fetched == f->file.len ? 0 : 1;
}

static void test_real_server(void **state)
{
	struct fixture *f = *state;
	char path[128];
	if (access("/usr/bin/debuginfod", X_OK) != 0) {
		print_message("skipped: no debuginfod\n");
		skip();
	}
	stop_listening(f);
	buffer_release(&f->file);
	snprintf(path, sizeof(path), "%s/files", f->directory);
	assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
	snprintf(path, sizeof(path), "%s/files/program.debug", f->directory);
	static const struct test_symbol symbols[] = {{.name = "main", .start = 0, .size = 16, .type = STT_FUNC}};
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .debug_only = true}, &f->file);
	assert_int_equal(io_write_file(path, f->file.data, f->file.len, 0600, NULL), 0);
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(enter_private_network() ? against_real_server(f) : 77);
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped: no network namespaces here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_none_configured),
		FIXTURE_TEST(test_library_missing),
		FIXTURE_TEST(test_found_and_cached),
		FIXTURE_TEST(test_bad_names),
		FIXTURE_TEST(test_missing_is_remembered),
		FIXTURE_TEST(test_missing_is_forgotten_before_a_retry),
		FIXTURE_TEST(test_missing_survives_restart_until_forgotten),
		FIXTURE_TEST(test_wrong_file),
		FIXTURE_TEST(test_broken_transfer_is_no_miss),
		FIXTURE_TEST(test_backoff),
		FIXTURE_TEST(test_stalled),
		FIXTURE_TEST(test_too_large),
		FIXTURE_TEST(test_cancel_is_no_miss),
		FIXTURE_TEST(test_one_transfer_for_many),
		FIXTURE_TEST(test_no_foreign_descriptors),
		FIXTURE_TEST(test_cache_limit),
		FIXTURE_TEST(test_misses_count),
		FIXTURE_TEST(test_too_many_to_order),
		FIXTURE_TEST(test_directory_removed),
		FIXTURE_TEST(test_faults),
		FIXTURE_TEST(test_real_server),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
