/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_programs.h"
#include "base/text.h"
#include "codec/compress.h"
#include "elf/build_id.h"
#include "format/firefox/firefox_ids.h"
#include "server/viewer/local_viewer_int.h"

/* A program with a function that others are inlined into, and whose debug information names what it likes. */
static const char program[] = "static inline __attribute__((always_inline)) int inner(int x)\n"
			      "{\n"
			      "	return x * 7 + (x >> 3);\n"
			      "}\n"
			      "__attribute__((noinline)) int outer(volatile int *x)\n"
			      "{\n"
			      "	int sum = 0;\n"
			      "	for (int i = 0; i < *x; i++)\n"
			      "		sum += inner(*x);\n"
			      "	return sum;\n"
			      "}\n"
			      "#line 1 \"/etc/passwd\"\n"
			      "__attribute__((noinline)) int liar(volatile int *x) { return *x + 1; }\n"
			      "#line 100 \"program.c\"\n"
			      "int main(int argc, char **argv) { return outer(&argc) + liar(&argc); }\n";

#define START 0x10000000u
#define PAGE  "<!doctype html><title>profile</title>"

static char directory[] = "/tmp/wick-opened-XXXXXX", build_id[BUILD_ID_HEX_MAX], debug_id[LOCAL_VIEWER_DEBUG_ID_MAX];
static uint64_t outer_at, outer_size, liar_at;

struct fixture {
	struct profile *profile;
	struct symbolizer *symbolizer;
	struct local_viewer *viewer;
	pthread_t thread;
	char port[8], host[32];
};

/* ---- what is shown ---- */

static const char *in_directory(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static int make_program(void **state)
{
	char line[512];
	_cleanup_(buffer_release) struct buffer id = {0};
	(void)state;
	buffer_init(&id, sizeof(debug_id));
	if (!mkdtemp(directory) || chmod(directory, 0755) < 0 ||
	    io_write_file(in_directory("program.c"), program, strlen(program), 0600, NULL) < 0)
		return -1;
	snprintf(line, sizeof(line), "cd %s && gcc -g -O2 -Wl,--build-id=sha1 -o program $PWD/program.c", directory);
	if (system(line) != 0)
		return -1;
	snprintf(line, sizeof(line), "nm -S %s", in_directory("program"));
	FILE *nm = popen(line, "r");
	while (nm && fgets(line, sizeof(line), nm)) {
		if (strstr(line, " outer\n"))
			sscanf(line, "%lx %lx", &outer_at, &outer_size);
		if (strstr(line, " liar\n"))
			sscanf(line, "%lx", &liar_at);
	}
	if (nm)
		pclose(nm);
	_cleanup_(fd_closep) int fd = open(in_directory("program"), O_RDONLY | O_CLOEXEC);
	if (build_id_read_fd(fd, build_id, NULL) < 0 || firefox_append_breakpad_id(bytes_of_string(build_id), &id) < 0)
		return -1;
	snprintf(debug_id, sizeof(debug_id), "%.*s", (int)id.len, (const char *)id.data);
	return outer_size && liar_at ? 0 : -1;
}

static int remove_program(void **state)
{
	(void)state;
	return io_remove_tree(directory, NULL);
}

static uint32_t add_string(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static struct profile *make_profile(void)
{
	struct profile *profile;
	uint32_t mapping, location, stack;
	int64_t value = 1;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, add_string(profile, "samples"), add_string(profile, "count"), NULL),
			 0);
	struct profile_mapping binary = {.start = START,
					 .limit = START + 0x100000,
					 .file_name = add_string(profile, in_directory("program")),
					 .build_id = add_string(profile, build_id)};
	assert_int_equal(profile_add_mapping(profile, &binary, &mapping, NULL), 0);
	struct profile_location at = {.mapping = mapping, .address = START + outer_at, .frame_type = PROFILE_FRAME_NATIVE};
	assert_int_equal(profile_add_location(profile, &at, NULL, 0, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, NULL), 0);
	struct profile_sample sample = {.stack = stack};
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	return profile;
}

static void *run(void *viewer)
{
	assert_int_equal(local_viewer_run(viewer, NULL), 0);
	return NULL;
}

static int start(void **state)
{
	static struct fixture f;
	struct symbolizer_options symbols = {.own_files = true};
	f = (struct fixture){.profile = make_profile()};
	assert_int_equal(symbolizer_new(&symbols, &f.symbolizer, NULL), 0);
	struct local_viewer_options options = {.profile = f.profile, .page = bytes_of_string(PAGE), .symbolizer = f.symbolizer};
	assert_int_equal(local_viewer_new(&options, &f.viewer, NULL), 0);
	snprintf(f.host, sizeof(f.host), "%s", net_server_address(f.viewer->server));
	snprintf(f.port, sizeof(f.port), "%s", strrchr(f.host, ':') + 1);
	local_viewer_link_once(f.viewer, local_viewer_page_link(f.viewer));
	assert_int_equal(pthread_create(&f.thread, NULL, run, f.viewer), 0);
	*state = &f;
	return 0;
}

static int stop(void **state)
{
	struct fixture *f = *state;
	local_viewer_stop(f->viewer);
	pthread_join(f->thread, NULL);
	local_viewer_free(f->viewer);
	symbolizer_free(f->symbolizer);
	profile_free(f->profile);
	return 0;
}

/* ---- asking ---- */

struct reply {
	int status;
	struct buffer all;
	const char *head, *body; /* in `all` */
	size_t body_len;
};

static void reply_release(struct reply *reply)
{
	buffer_release(&reply->all);
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			return; /* refused before all of it came */
		data += n;
		len -= (size_t)n;
	}
}

/* path: behind the token. headers: lines that end in \r\n. host NULL = the right one. */
static struct reply request_as(const struct fixture *f, const char *method, const char *target, const char *host,
			       const char *headers, const char *body)
{
	struct reply reply = {0};
	char head[2048], part[4096];
	ssize_t n;
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)strtoul(f->port, NULL, 10)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	buffer_init(&reply.all, 16 * MIB);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", method,
		 target, host ? host : f->host, headers, strlen(body));
	send_all(fd, head, strlen(head));
	send_all(fd, body, strlen(body));
	while ((n = recv(fd, part, sizeof(part), 0)) > 0)
		assert_int_equal(buffer_append(&reply.all, part, (size_t)n), 0);
	close(fd);
	reply.head = buffer_string(&reply.all);
	assert_non_null(reply.head);
	const char *end = strstr(reply.head, "\r\n\r\n");
	if (!end || sscanf(reply.head, "HTTP/1.1 %d", &reply.status) != 1)
		fail_msg("no answer: %s", reply.head);
	reply.body = end + 4;
	reply.body_len = reply.all.len - (size_t)(reply.body - reply.head);
	return reply;
}

static const char *path_of(const struct fixture *f, const char *path)
{
	static char target[256];
	snprintf(target, sizeof(target), "/%s%s", f->viewer->token, path);
	return target;
}

#define request(f, method, path, headers, body) request_as(f, method, path_of(f, path), NULL, headers, body)

static void expect_status(struct reply reply, int status)
{
	if (reply.status != status)
		fail_msg("%d instead of %d: %s", reply.status, status, reply.head);
	reply_release(&reply);
}

/* The answer of a POST, which must hold all the texts. */
static void expect_answer(const struct fixture *f, const char *path, const char *body, int status, ...)
{
	_cleanup_(reply_release) struct reply reply = request(f, "POST", path, "", body);
	va_list texts;
	const char *text;
	if (reply.status != status)
		fail_msg("%.200s: %d instead of %d: %s", body, reply.status, status, reply.body);
	va_start(texts, status);
	while ((text = va_arg(texts, const char *)))
		if (!strstr(reply.body, text))
			fail_msg("%.200s: no %s in %s", body, text, reply.body);
	va_end(texts);
}

/* ---- who may ---- */

static void test_hosts(void **state)
{
	const struct fixture *f = *state;
	char host[64];
	static const char *const others[] = {
		"evil.example:", "127.0.0.1.evil.example:", "localhost.evil.example:", "127.0.0.2:", "[::1]:", ":",
		"x127.0.0.1:"};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		snprintf(host, sizeof(host), "%s%s", others[i], f->port);
		expect_status(request_as(f, "GET", path_of(f, "/profile.json"), host, "", ""), 421);
	}
	expect_status(request_as(f, "GET", path_of(f, "/profile.json"), "127.0.0.1", "", ""), 421);
	expect_status(request_as(f, "GET", path_of(f, "/profile.json"), "127.0.0.1:1", "", ""), 421);
	snprintf(host, sizeof(host), "localhost:%s", f->port);
	expect_status(request_as(f, "GET", path_of(f, "/"), host, "", ""), 200);
	expect_status(request(f, "GET", "/", "", ""), 200);
}

static void test_tokens(void **state)
{
	const struct fixture *f = *state;
	char path[128];
	static const char *const paths[] = {"/",
					    "/profile.json",
					    "/symbolicate/v5",
					    "//profile.json",
					    "/../profile.json",
					    "/once/",
					    "/00000000000000000000000000000000/profile.json"};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		expect_status(request_as(f, "GET", paths[i], NULL, "", ""), 404);
	for (size_t i = 0; f->viewer->token[i]; i++) {
		snprintf(path, sizeof(path), "/%s/profile.json", f->viewer->token);
		path[1 + i] = path[1 + i] == '0' ? '1' : '0';
		expect_status(request_as(f, "GET", path, NULL, "", ""), 404);
	}
	snprintf(path, sizeof(path), "/%.31s", f->viewer->token);
	expect_status(request_as(f, "GET", path, NULL, "", ""), 404);
	expect_status(request(f, "GET", "", "", ""), 404);
	expect_status(request(f, "GET", "/etc/passwd", "", ""), 404);
	expect_status(request(f, "GET", "/../../../etc/passwd", "", ""), 404);
	expect_status(request(f, "GET", "/%2e%2e/%2e%2e/etc/passwd", "", ""), 404);
	expect_status(request(f, "POST", "/profile.json", "", "{}"), 405);
	expect_status(request(f, "GET", "/asm/v1", "", ""), 405);
}

/* Larger than what other answers may be. */
static void test_a_large_page(void **state)
{
	struct fixture *f = *state;
	struct bytes page = f->viewer->page, large = {.len = 257 * MIB};
	void *zeros = mmap(NULL, large.len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(zeros != MAP_FAILED);
	large.data = zeros;
	f->viewer->page = large;
	_cleanup_(reply_release) struct reply reply = request(f, "HEAD", "/", "", "");
	f->viewer->page = page;
	munmap(zeros, large.len);
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.head, "Content-Length: 269484032\r\n"));
}

static void test_origins(void **state)
{
	const struct fixture *f = *state;
	char own[64];
	static const char *const others[] = {"https://evil.example",
					     "null",
					     "http://profiler.firefox.com",
					     "https://profiler.firefox.com.evil.example",
					     "https://profiler.firefox.com:444",
					     ""};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		snprintf(own, sizeof(own), "Origin: %s\r\n", others[i]);
		_cleanup_(reply_release) struct reply reply = request(f, "GET", "/profile.json", own, "");
		assert_int_equal(reply.status, 403);
		assert_null(strstr(reply.head, "Access-Control"));
		expect_status(request(f, "OPTIONS", "/profile.json", own, ""), 403);
	}
	_cleanup_(reply_release) struct reply reply =
		request(f, "GET", "/profile.json", "Origin: https://profiler.firefox.com\r\n", "");
	assert_int_equal(reply.status, 200);
	assert_non_null(strstr(reply.head, "Access-Control-Allow-Origin: https://profiler.firefox.com\r\n"));
	assert_non_null(strstr(reply.head, "Vary: Origin\r\n"));
	snprintf(own, sizeof(own), "Origin: http://%s\r\n", f->host);
	_cleanup_(reply_release) struct reply page = request(f, "GET", "/", own, "");
	assert_int_equal(page.status, 200);
	assert_null(strstr(page.head, "Access-Control"));
	/* The token does not help a wrong host or origin to learn that it is right, nor the other way round. */
	expect_status(request_as(f, "GET", "/wrong/profile.json", NULL, "Origin: https://profiler.firefox.com\r\n", ""), 404);
}

static void test_preflight(void **state)
{
	const struct fixture *f = *state;
	static const char *const paths[] = {"/", "/profile.json", "/symbolicate/v5", "/source/v1", "/asm/v1"};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		_cleanup_(reply_release) struct reply reply =
			request(f, "OPTIONS", paths[i],
				"Origin: https://profiler.firefox.com\r\nAccess-Control-Request-Method: POST\r\n"
				"Access-Control-Request-Private-Network: true\r\n",
				"");
		assert_int_equal(reply.status, 204);
		assert_non_null(strstr(reply.head, "Access-Control-Allow-Methods: GET, POST\r\n"));
		assert_non_null(strstr(reply.head, "Access-Control-Allow-Private-Network: true\r\n"));
	}
}

/* ---- what is there ---- */

static void test_page(void **state)
{
	const struct fixture *f = *state;
	_cleanup_(reply_release) struct reply page = request(f, "GET", "/", "", "");
	assert_string_equal(page.body, PAGE);
	assert_non_null(strstr(page.head, "Referrer-Policy: no-referrer\r\n"));
	assert_non_null(strstr(page.head, "Cache-Control: no-store\r\n"));
	assert_non_null(strstr(page.head, "frame-ancestors 'none'"));
}

static void test_profile(void **state)
{
	const struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer unpacked = {0};
	buffer_init(&unpacked, MIB);
	_cleanup_(reply_release) struct reply plain = request(f, "GET", "/profile.json", "", "");
	_cleanup_(reply_release) struct reply packed =
		request(f, "GET", "/profile.json", "Accept-Encoding: deflate, gzip;q=0.8, br\r\n", "");
	assert_non_null(strstr(plain.body, "\"preprocessedProfileVersion\":60"));
	assert_non_null(strstr(plain.body, debug_id));
	assert_null(strstr(plain.head, "Content-Encoding"));
	assert_non_null(strstr(packed.head, "Content-Encoding: gzip\r\n"));
	assert_int_equal(gzip_decompress((struct bytes){(const uint8_t *)packed.body, packed.body_len}, &unpacked, NULL), 0);
	assert_string_equal(buffer_string(&unpacked), plain.body);
	_cleanup_(reply_release) struct reply refused = request(f, "GET", "/profile.json", "Accept-Encoding: gzip;q=0\r\n", "");
	assert_null(strstr(refused.head, "Content-Encoding"));
}

static void test_links(void **state)
{
	const struct fixture *f = *state;
	char want[512];
	snprintf(want, sizeof(want), "http://%s/%s/", f->host, f->viewer->token);
	assert_string_equal(local_viewer_page_link(f->viewer), want);
	snprintf(want, sizeof(want),
		 "https://profiler.firefox.com/from-url/http%%3A%%2F%%2F127.0.0.1%%3A%s%%2F%s%%2Fprofile.json/"
		 "?symbolServer=http%%3A%%2F%%2F127.0.0.1%%3A%s%%2F%s",
		 f->port, f->viewer->token, f->port, f->viewer->token);
	assert_string_equal(local_viewer_profiler_link(f->viewer), want);
}

static void test_once(void **state)
{
	const struct fixture *f = *state;
	char path[64], want[256];
	snprintf(path, sizeof(path), "/once/%s", f->viewer->once);
	snprintf(want, sizeof(want), "Location: %s\r\n", local_viewer_page_link(f->viewer));
	assert_true(strcmp(f->viewer->once, f->viewer->token) != 0);
	expect_status(request_as(f, "HEAD", path, NULL, "", ""), 404); /* of who looks whether a link is good */
	_cleanup_(reply_release) struct reply first = request_as(f, "GET", path, NULL, "", "");
	assert_int_equal(first.status, 303);
	assert_non_null(strstr(first.head, want));
	_cleanup_(reply_release) struct reply second = request_as(f, "GET", path, NULL, "", "");
	assert_int_equal(second.status, 404);
	assert_null(strstr(second.head, f->viewer->token));
}

/* ---- names, sources, code ---- */

static void test_symbolicate(void **state)
{
	const struct fixture *f = *state;
	char body[1024], offset[64];
	snprintf(body, sizeof(body),
		 "{\"jobs\":[{\"memoryMap\":[[\"program\",\"%s\"],[\"other\",\"%s\"],[\"program\",\"\"]],"
		 "\"stacks\":[[[0,%lu],[0,%lu],[1,5],[-1,6],[7,8]],[]]}]}",
		 debug_id, debug_id, outer_at, outer_at + outer_size / 2);
	snprintf(offset, sizeof(offset), "\"module_offset\":\"0x%lx\",\"module\":\"program\",\"function\":\"outer\"", outer_at);
	char size[64], found[128], missing[128];
	snprintf(size, sizeof(size), "\"function_offset\":\"0x0\",\"function_size\":\"0x%lx\"", outer_size);
	snprintf(found, sizeof(found), "\"program/%s\":true", debug_id);
	snprintf(missing, sizeof(missing), "\"other/%s\":false,\"program/\":null", debug_id);
	expect_answer(f, "/symbolicate/v5", body, 200, offset, size, found, missing, "/program.c\"",
		      "{\"frame\":2,\"module_offset\":\"0x5\",\"module\":\"other\"}",
		      "{\"frame\":3,\"module_offset\":\"0x6\",\"module\":\"\"}", "[]", NULL);
	/* One that something is inlined at. */
	bool inlined = false;
	for (uint64_t at = 0; at < outer_size && !inlined; at++) {
		snprintf(body, sizeof(body), "{\"memoryMap\":[[\"program\",\"%s\"]],\"stacks\":[[[0,%lu]]]}", debug_id,
			 outer_at + at);
		_cleanup_(reply_release) struct reply reply = request(f, "POST", "/symbolicate/v5", "", body);
		assert_int_equal(reply.status, 200);
		inlined = strstr(reply.body, "\"inlines\":[{\"function\":\"inner\"") != NULL;
	}
	assert_true(inlined);
}

static void test_malformed_questions(void **state)
{
	const struct fixture *f = *state;
	static const char *const names[] = {"",
					    "x",
					    "[]",
					    "{}",
					    "{\"jobs\":{}}",
					    "{\"jobs\":[1]}",
					    "{\"jobs\":[{\"memoryMap\":[],\"stacks\":{}}]}",
					    "{\"jobs\":[{\"memoryMap\":[],\"stacks\":[1]}]}",
					    "{\"jobs\":[{\"memoryMap\":[[1,2]],\"stacks\":[]}]}",
					    "{\"jobs\":[{\"memoryMap\":[],\"stacks\":[[[0]]]}]}",
					    "{\"jobs\":[{\"memoryMap\":[],\"stacks\":[[[0,-1]]]}]}",
					    "{\"jobs\":[{\"memoryMap\":[],\"stacks\":[[[\"a\",1]]]}]}"};
	static const char *const others[] = {
		"",
		"{}",
		"{\"debugName\":\"program\",\"debugId\":\"x\",\"startAddress\":16,\"size\":16}",
		"{\"debugName\":\"program\",\"debugId\":\"x\",\"startAddress\":\"0x\",\"size\":\"0x1\"}",
		"{\"debugName\":\"program\",\"debugId\":\"x\",\"startAddress\":\"-0x1\",\"size\":\"0x1\"}",
		"{\"debugName\":\"program\",\"debugId\":\"x\",\"startAddress\":\"0x1g\",\"size\":\"0x1\"}",
		"{\"debugName\":\"program\",\"debugId\":\"x\",\"startAddress\":\"0x11111111111111111\",\"size\":\"0x1\"}",
		"{\"debugId\":\"x\",\"startAddress\":\"0x1\",\"size\":\"0x1\"}",
		"{\"debugName\":1,\"debugId\":\"x\",\"moduleOffset\":\"0x1\",\"file\":\"a.c\"}",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		expect_answer(f, "/symbolicate/v5", names[i], 400, "\"error\"", NULL);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		expect_answer(f, "/asm/v1", others[i], 400, "\"error\"", NULL);
		expect_answer(f, "/source/v1", others[i], 400, "\"error\"", NULL);
	}
	expect_answer(f, "/symbolicate/v5", "{\"jobs\":[]}", 200, "{\"results\":[]}", NULL);
}

static void test_huge_bodies(void **state)
{
	const struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer body = {0};
	buffer_init(&body, 32 * MIB);
	assert_int_equal(buffer_reserve(&body, 17 * MIB), 0);
	memset(body.data, '[', 17 * MIB);
	body.len = 70 * KIB;
	expect_answer(f, "/asm/v1", buffer_string(&body), 413, NULL);
	body.len = 60 * KIB;
	memset(body.data, '[', 70 * KIB + 1);
	expect_answer(f, "/source/v1", buffer_string(&body), 400, NULL); /* too deep */
	memset(body.data, '[', 17 * MIB);
	body.len = 17 * MIB;
	expect_answer(f, "/symbolicate/v5", buffer_string(&body), 413, NULL);
}

static void request_source(const struct fixture *f, uint64_t offset, const char *file, const char *want)
{
	char body[1024];
	snprintf(body, sizeof(body),
		 "{\"debugName\":\"program\",\"debugId\":\"%s\",\"moduleOffset\":\"0x%lx\",\"file\":\"%s\"}", debug_id, offset,
		 file);
	expect_answer(f, "/source/v1", body, 200, want, NULL);
}

static void test_sources(void **state)
{
	const struct fixture *f = *state;
	char path[512];
	static const char refused[] = "does not have this file";
	/* Nobody else may read it, but who runs this. */
	request_source(f, outer_at, in_directory("program.c"), "return x * 7 + (x >> 3);");
	snprintf(path, sizeof(path), "%s/../%s/program.c", directory, strrchr(directory, '/') + 1);
	request_source(f, outer_at, path, refused);
	request_source(f, outer_at, "program.c", refused);
	request_source(f, outer_at, "", refused);
	request_source(f, outer_at, "/etc/hostname", refused);
	request_source(f, outer_at, "/etc/passwd", refused);
	request_source(f, UINT64_MAX, "/etc/passwd", refused);
	/* What debug information names is no source for all that. */
	request_source(f, liar_at, "/etc/passwd", "not the name of a source file");
	request_source(f, outer_at + 0x200000, in_directory("program.c"), refused);
}

static void test_code(void **state)
{
	const struct fixture *f = *state;
	char body[1024], want[2][64];
	static const char form[] = "{\"debugName\":\"%s\",\"debugId\":\"%s\",\"name\":\"program\",\"codeId\":null,"
				   "\"startAddress\":\"0x%lx\",\"size\":\"0x%lx\",\"continueUntilFunctionEnd\":%s}";
	snprintf(want[0], sizeof(want[0]), "{\"startAddress\":\"0x%lx\",", outer_at);
	snprintf(want[1], sizeof(want[1]), "\"size\":\"0x%lx\",\"arch\":", outer_size);
	/* Asked from the middle on, and beyond the end. */
	snprintf(body, sizeof(body), form, "program", debug_id, outer_at + 4, 1ul, "true");
	expect_answer(f, "/asm/v1", body, 200, want[0], want[1], "\"syntax\":[", "\"instructions\":[[0,\"", NULL);
	snprintf(body, sizeof(body), form, "program", debug_id, outer_at, 0x7fffffffffffffff, "false");
	expect_answer(f, "/asm/v1", body, 200, want[0], want[1], NULL);
	snprintf(want[1], sizeof(want[1]), "\"size\":\"0x%x\",", 4u);
	snprintf(body, sizeof(body), form, "program", debug_id, outer_at, 4ul, "false");
	expect_answer(f, "/asm/v1", body, 200, want[0], want[1], NULL);
	snprintf(body, sizeof(body), form, "program", debug_id, 0x40000000ul, 4ul, "false");
	expect_answer(f, "/asm/v1", body, 200, "has no code at 0x40000000", NULL);
	snprintf(body, sizeof(body), form, "passwd", debug_id, outer_at, 4ul, "false");
	expect_answer(f, "/asm/v1", body, 200, "the profile has no binary 'passwd'", NULL);
	snprintf(body, sizeof(body), form, "program", "000000000000000000000000000000000", outer_at, 4ul, "false");
	expect_answer(f, "/asm/v1", body, 200, "the profile has no binary 'program'", NULL);
	snprintf(body, sizeof(body), form, "program",
		 "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000", outer_at, 4ul,
		 "false");
	expect_answer(f, "/asm/v1", body, 200, "the profile has no binary 'program'", NULL);
}

/* ---- making it ---- */

static void test_listens_on_loopback_only(void **state)
{
	(void)state;
	static const char *const others[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost:0",
					     "127.0.0.1", "",	    ":0",	   "127.0.0.1x:0"};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct local_viewer_options options = {.listen = others[i]};
		struct local_viewer *viewer;
		assert_int_equal(local_viewer_check_listen(others[i], NULL), -EINVAL);
		assert_int_equal(local_viewer_new(&options, &viewer, NULL), -EINVAL);
	}
	assert_int_equal(local_viewer_check_listen("127.0.0.1:80", NULL), 0);
	assert_int_equal(local_viewer_check_listen("[::1]:0", NULL), 0);
}

static void test_without_memory(void **state)
{
	(void)state;
	struct profile *profile = make_profile();
	struct local_viewer_options options = {.profile = profile, .page = bytes_of_string(PAGE)};
	for (uint64_t nth = 1;; nth++) {
		struct local_viewer *viewer = NULL;
		fault_arm(FAULT_ALLOC, nth, 0);
		int r = local_viewer_new(&options, &viewer, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_true(r == 0 ? viewer != NULL : reached && !viewer);
		local_viewer_free(viewer);
		if (!reached)
			break;
		assert_true(nth < 2000);
	}
	profile_free(profile);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(test_hosts),
		TEST(test_tokens),
		TEST(test_origins),
		TEST(test_a_large_page),
		TEST(test_preflight),
		TEST(test_page),
		TEST(test_profile),
		TEST(test_links),
		TEST(test_once),
		TEST(test_symbolicate),
		TEST(test_malformed_questions),
		TEST(test_huge_bodies),
		TEST(test_sources),
		TEST(test_code),
		cmocka_unit_test(test_listens_on_loopback_only),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, make_program, remove_program);
}
