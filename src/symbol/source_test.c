/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker that asks for files gets, and what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "elf/test_elf.h"
#include "symbol/source_text.h"
#include "symbol/source_text_int.h"
#include "symbol/symbol_int.h"
#include "symbol/uploads_int.h"

static const struct test_symbol symbols[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
static const struct test_elf program = {symbols, 1}, nameless = {symbols, 1, .no_build_id = true};

static char directory[] = "/tmp/wick-source-XXXXXX";

static const char *in_directory(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const void *data, size_t len, mode_t mode)
{
	assert_int_equal(io_write_file(in_directory(name), data, len, 0600, NULL), 0);
	assert_int_equal(chmod(in_directory(name), mode), 0);
}

static void write_elf(const char *name, const struct test_elf *elf, mode_t mode)
{
	struct buffer b;
	test_elf_build(elf, &b);
	write_file(name, b.data, b.len, mode);
	buffer_release(&b);
}

static int make_files(void **state)
{
	if (!mkdtemp(directory) || chmod(directory, 0755) < 0)
		return -1;
	assert_int_equal(mkdir(in_directory("closed"), 0700), 0);
	assert_int_equal(mkdir(in_directory("mounted"), 0755), 0);
	write_elf("program", &program, 0755);
	write_elf("unit.dwo", &nameless, 0644);
	write_elf("program.dwp", &nameless, 0644);
	write_elf("private.dwo", &nameless, 0600);
	write_elf("closed/unit.dwo", &nameless, 0644);
	write_file("id_rsa", "-----BEGIN", 10, 0644);
	write_file("short", "\177E", 2, 0644);
	assert_int_equal(mkfifo(in_directory("fifo"), 0644), 0);
	return 0;
}

static int remove_files(void **state)
{
	return io_remove_tree(directory, NULL);
}

/* ---- asking ---- */

struct asked {
	struct symbolizer symbolizer;
	struct source_job job;
	char path[256];
};

/* A build of the binary at a path ("" = it is not on this host). */
static void begin(struct asked *a, const char *name, struct uploads *uploads)
{
	*a = (struct asked){0};
	snprintf(a->path, sizeof(a->path), "%s", name[0] ? in_directory(name) : "");
	a->symbolizer.uploads = uploads;
	a->symbolizer.debug_directory = "/nowhere";
	a->job = (struct source_job){
		.symbolizer = &a->symbolizer, .build_id = TEST_ELF_BUILD_ID, .path = a->path, .offered_fd = -1, .ready_fd = -1};
}

static int ask(struct asked *a, enum symbol_file_kind kind, const char *build_id, const char *name)
{
	struct symbol_file_request request = {.kind = kind};
	int fd = -1;
	snprintf(request.build_id, sizeof(request.build_id), "%s", build_id);
	snprintf(request.name, sizeof(request.name), "%s", name);
	int r = source_open_file(&a->job, &request, &fd, NULL);
	assert_int_equal(r >= 0, fd >= 0);
	io_close(fd);
	return r;
}

static int ask_unit(struct asked *a, const char *name)
{
	return ask(a, SYMBOL_FILE_DWO, "", in_directory(name));
}

static struct uploads *upload(const char *place, enum upload_kind kind, const struct test_elf *elf, bool without_build_id)
{
	struct uploads_options options = {.directory = in_directory(place)};
	struct upload_begin upload = {.kind = kind, .build_id = TEST_ELF_BUILD_ID, .without_build_id = without_build_id};
	struct uploads *uploads;
	struct buffer b;
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	test_elf_build(elf, &b);
	upload.size = b.len;
	assert_int_equal(uploads_open(&options, &uploads, NULL), 0);
	assert_int_equal(uploads_begin(uploads, &upload, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(uploads, id, 0, buffer_bytes(&b), &offset, NULL), 0);
	assert_int_equal(uploads_finish(uploads, id, NULL), 0);
	buffer_release(&b);
	return uploads;
}

/* ---- split DWARF ---- */

static void test_units_of_a_local_binary(void **state)
{
	struct asked a;
	begin(&a, "program", NULL);
	assert_int_equal(source_prepare(&a.job, NULL), 0);
	assert_int_equal(ask_unit(&a, "unit.dwo"), 0);
	assert_int_equal(ask(&a, SYMBOL_FILE_DWP, "", ""), 0);
	assert_non_null(strstr(a.job.from, "unit.dwo"));
	assert_non_null(strstr(a.job.from, "program.dwp"));
	/* What not everybody may read, and what is no debug information: as if it were not there. */
	static const char *const refused[] = {"private.dwo", "closed/unit.dwo", "id_rsa", "short", "fifo", "closed", "absent"};
	size_t from = strlen(a.job.from);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (ask_unit(&a, refused[i]) != -ENOENT)
			fail_msg("%s was opened", refused[i]);
	assert_int_equal(ask(&a, SYMBOL_FILE_DWO, "", "unit.dwo"), -ENOENT);
	assert_int_equal(ask(&a, SYMBOL_FILE_ALT, TEST_ELF_BUILD_ID, in_directory("id_rsa")), -ENOENT);
	assert_int_equal(strlen(a.job.from), from);
	assert_int_equal(ask(&a, SYMBOL_FILE_ALT, TEST_ELF_BUILD_ID, in_directory("program")), 0);
	a.symbolizer.no_host_files = true;
	assert_int_equal(ask_unit(&a, "unit.dwo"), -ENOENT);
	source_release(&a.job);
}

static void test_units_of_an_offered_binary(void **state)
{
	struct asked a;
	begin(&a, "", NULL);
	_cleanup_(fd_closep) int fd = io_open(in_directory("program"), O_RDONLY, 0, NULL);
	a.job.offered_fd = fd;
	assert_int_equal(source_prepare(&a.job, NULL), 0);
	assert_int_equal(ask_unit(&a, "unit.dwo"), 0);
	source_release(&a.job);
}

/* Who runs this asks for it. */
static void test_own_files(void **state)
{
	struct asked a;
	begin(&a, "program", NULL);
	a.symbolizer.own_files = true;
	assert_int_equal(source_prepare(&a.job, NULL), 0);
	assert_int_equal(ask_unit(&a, "private.dwo"), 0);
	assert_int_equal(ask_unit(&a, "closed/unit.dwo"), 0);
	assert_int_equal(ask_unit(&a, "id_rsa"), -ENOENT);
	source_release(&a.job);
}

/* Its debug file is here, but nothing says that the paths in that are of this host. */
static void test_units_of_an_absent_binary(void **state)
{
	struct asked a;
	char debug[256], name[128];
	snprintf(debug, sizeof(debug), "%s", in_directory("debug"));
	snprintf(name, sizeof(name), "debug/%.2s", TEST_ELF_BUILD_ID);
	assert_int_equal(io_make_dirs(in_directory(name), 0755, NULL), 0);
	snprintf(name, sizeof(name), "debug/%.2s/%s.debug", TEST_ELF_BUILD_ID, TEST_ELF_BUILD_ID + 2);
	write_elf(name, &program, 0644);
	begin(&a, "", NULL);
	a.symbolizer.debug_directory = debug;
	assert_int_equal(source_prepare(&a.job, NULL), 0);
	assert_int_equal(ask(&a, SYMBOL_FILE_DEBUG, "", ""), 0);
	assert_int_equal(ask_unit(&a, "unit.dwo"), -ENOENT);
	source_release(&a.job);
}

/* Whatever the worker says that it reads. */
static void test_units_of_an_uploaded_binary(void **state)
{
	static const enum upload_kind kinds[] = {UPLOAD_EXECUTABLE, UPLOAD_DEBUGINFO};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		_cleanup_(uploads_closep) struct uploads *uploads =
			upload(i ? "debuginfo" : "executable", kinds[i], &program, false);
		struct asked a;
		begin(&a, "", uploads);
		assert_true(source_prepare(&a.job, NULL) >= 0);
		assert_int_equal(ask_unit(&a, "unit.dwo"), -ENOENT);
		assert_int_equal(ask(&a, SYMBOL_FILE_DWP, "", ""), -ENOENT);
		assert_int_equal(ask(&a, SYMBOL_FILE_ALT, TEST_ELF_BUILD_ID, in_directory("program")) >= 0, i == 1);
		assert_null(strstr(a.job.from, directory));
		source_release(&a.job);
		/* Debug information of somebody else, for a binary that is here. */
		begin(&a, "program", uploads);
		assert_int_equal(source_prepare(&a.job, NULL), 0);
		bool is_debuginfo = kinds[i] == UPLOAD_DEBUGINFO;
		assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), 0);
		assert_int_equal(ask(&a, SYMBOL_FILE_DEBUG, "", "") >= 0, is_debuginfo);
		assert_int_equal(ask_unit(&a, "unit.dwo"), is_debuginfo ? -ENOENT : 0);
		source_release(&a.job);
	}
}

/* ---- files without a build-id ---- */

static bool has_names(struct uploads *uploads, struct error *err)
{
	struct symbolizer_options options = {.uploads = uploads};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	struct symbolizer_want want = {.wait_ns = -1};
	struct symbol_view *view;
	struct symbol_frame frame = {0};
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	s->debug_directory = "/nowhere";
	if (symbolizer_view(s, TEST_ELF_BUILD_ID, "", &want, &view, err) < 0)
		return false;
	bool has = symbol_view_frames(view, TEST_ELF_TEXT_ADDRESS + 0x10, &frame, 1) == 1 && strcmp(frame.name, "alpha") == 0;
	symbol_view_free(view);
	return has;
}

/* What goes by a name of its owner's choice is used by that, whichever kind it is. */
static void test_announced_files(void **state)
{
	static const struct test_elf separate = {symbols, 1, .no_build_id = true, .debug_only = true};
	static const struct test_elf other = {symbols, 1, .build_id_first = 0xff};
	_cleanup_(uploads_closep) struct uploads *binary = upload("nameless", UPLOAD_EXECUTABLE, &nameless, true);
	_cleanup_(uploads_closep) struct uploads *debug = upload("nameless.debug", UPLOAD_DEBUGINFO, &separate, true);
	struct asked a;
	begin(&a, "", debug);
	assert_int_equal(source_prepare(&a.job, NULL), 0);
	assert_int_equal(ask(&a, SYMBOL_FILE_DEBUG, "", ""), SYMBOL_FILE_COMPARED);
	assert_int_equal(ask(&a, SYMBOL_FILE_DEBUG, "", ""), SYMBOL_FILE_COMPARED);
	source_release(&a.job);
	assert_true(has_names(binary, NULL));
	assert_true(has_names(debug, NULL));
	struct code_bytes code;
	assert_int_equal(code_bytes_read(&(struct symbolizer){.uploads = binary}, TEST_ELF_BUILD_ID, "", TEST_ELF_TEXT_ADDRESS,
					 16, NULL, &code, NULL),
			 0);
	buffer_release(&code.bytes);
	/* What was announced by its build-id has it, also when somebody has put another file in its place; and on this host
	 * there is no such thing as an announcement. */
	_cleanup_(uploads_closep) struct uploads *own = upload("own", UPLOAD_EXECUTABLE, &(struct test_elf){symbols, 1}, false);
	assert_true(has_names(own, NULL));
	char path[PATH_MAX];
	assert_int_equal(uploads_file_path(own, uploads_file_find(own, NULL, TEST_ELF_BUILD_ID, UPLOAD_EXECUTABLE), path, NULL),
			 0);
	write_elf("other", &other, 0644);
	assert_int_equal(rename(in_directory("other"), path), 0);
	assert_false(has_names(own, NULL));
	begin(&a, "unit.dwo", NULL);
	assert_int_equal(source_prepare(&a.job, NULL), -ENOENT);
}

/* A file with a build-id may be asked for by its hash, as OpenTelemetry's profiler sends both. */
static void test_by_hash(void **state)
{
	static const struct test_elf one = {symbols, 1}, two = {symbols, 1, .build_id_first = 0xff};
	char hash[FILE_HASH_HEX];
	for (unsigned i = 0; i < 3; i++) {
		_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
		struct symbolizer_want want = {.wait_ns = -1};
		struct symbol_view *view = NULL;
		struct symbol_frame frame = {0};
		write_elf("by_hash", &one, 0644);
		_cleanup_(fd_closep) int fd = open(in_directory("by_hash"), O_RDONLY | O_CLOEXEC);
		assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
		if (i > 0) /* another file lies there by now */
			write_elf("by_hash", &two, 0644);
		assert_int_equal(symbolizer_new(&(struct symbolizer_options){0}, &s, NULL), 0);
		if (i == 2)
			assert_int_equal(symbolizer_offer(s, hash, "", in_directory("by_hash"), fd, NULL), 0);
		int r = symbolizer_view(s, hash, in_directory("by_hash"), &want, &view, NULL);
		assert_int_equal(r, i == 1 ? -ENOENT : 0);
		if (r == 0) {
			assert_int_equal(symbol_view_frames(view, TEST_ELF_TEXT_ADDRESS + 0x10, &frame, 1), 1);
			assert_string_equal(frame.name, "alpha");
		}
		symbol_view_free(view);
	}
}

/* ---- binaries by name ---- */

/* Of libraries, OpenTelemetry's profiler says no more. */
static void test_by_name_alone(void **state)
{
	char hex[BUILD_ID_HEX_MAX], other[BUILD_ID_HEX_MAX];
	struct asked a;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], path[256] = "";
	(void)state;
	assert_non_null(maps);
	while (!path[0] && fgets(line, sizeof(line), maps))
		if (strstr(line, "/libc.so.6\n"))
			assert_int_equal(sscanf(line, "%*s %*s %*s %*s %*s %255s", path), 1);
	fclose(maps);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(build_id_read_fd(fd, hex, NULL) >= 0);
	begin(&a, "", NULL);
	a.job.build_id = hex;
	a.job.path = "libc.so.6";
	assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), 0);
	assert_true(a.job.is_local);
	assert_int_equal(a.job.path[0], '/');
	assert_string_equal(strrchr(a.job.path, '/'), "/libc.so.6");
	/* By its id only. */
	snprintf(other, sizeof(other), "%s", hex);
	other[0] = other[0] == '0' ? '1' : '0';
	a.job.path = "libc.so.6";
	a.job.build_id = other;
	assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), -ENOENT);
	a.job.build_id = "";
	assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), -ENOENT);
	assert_string_equal(a.job.path, "libc.so.6");
	/* Nothing but a name, and not where files of this host are not to be opened. */
	a.job.build_id = hex;
	a.job.path = "../lib/libc.so.6";
	assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), -ENOENT);
	a.job.path = "libc.so.6";
	a.symbolizer.no_host_files = true;
	assert_int_equal(ask(&a, SYMBOL_FILE_BINARY, "", ""), -ENOENT);
}

/* ---- binaries by path ---- */

static void test_what_is_no_program(void **state)
{
	struct symbolizer s = {0};
	int fd = -1;
	assert_int_equal(source_open_binary(&s, in_directory("id_rsa"), &fd, NULL), -ENOEXEC);
	assert_int_equal(source_open_binary(&s, in_directory("short"), &fd, NULL), -ENOEXEC);
	assert_int_equal(source_open_binary(&s, in_directory("fifo"), &fd, NULL), -EINVAL);
	assert_int_equal(fd, -1);
	assert_int_equal(source_open_binary(&s, in_directory("program"), &fd, NULL), 0);
	fd = io_close(fd);
	s.own_files = true;
	assert_int_equal(source_open_binary(&s, in_directory("id_rsa"), &fd, NULL), 0);
	io_close(fd);
}

/* ---- other mount namespaces ---- */

static void test_paths_through_proc(void **state)
{
	char path[512];
	int fd = -1;
	write_file("text.c", "text\n", 5, 0644);
	assert_int_equal(symlink("/proc/self/root", in_directory("link")), 0);
	static const char *const before[] = {"/proc/self/root", "/tmp/../proc/self/root", "", ""};
	static const char *const names[] = {"text.c", "text.c", "link/etc/passwd", "link/proc/version"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s%s", before[i], in_directory(names[i]));
		if (source_open(path, 0, &fd, NULL, NULL) >= 0 || source_open_public(path, 0, &fd, NULL, NULL) >= 0)
			fail_msg("%s was opened", path);
	}
	assert_true(source_open("/sys/kernel/notes", 0, &fd, NULL, NULL) < 0);
	assert_int_equal(source_open_public("/dev/null", 0, &fd, NULL, NULL), -EACCES);
	struct buffer out;
	buffer_init(&out, MIB);
	snprintf(path, sizeof(path), "/proc/self/root%s", in_directory("text.c"));
	assert_int_equal(source_text_read_host(path, false, &out, NULL), -EACCES);
	assert_int_equal(source_text_read_host(in_directory("text.c"), false, &out, NULL), 0);
	buffer_release(&out);
}

/* The directories that a path has here say nothing about a file that was there once. */
static void test_a_path_that_leads_elsewhere(void **state)
{
	struct error err = {0};
	write_file("old.c", "old\n", 4, 0644);
	_cleanup_(fd_closep) int handle = io_open(in_directory("old.c"), O_PATH, 0, NULL);
	assert_int_equal(source_check_public(handle, "old.c", &err), 0);
	write_file("old.c", "new\n", 4, 0644);
	write_file("old.c (deleted)", "new\n", 4, 0644);
	assert_int_equal(source_check_public(handle, "old.c", &err), -EACCES);
	assert_non_null(strstr(err.message, "resolves to another place"));
}

/* Mounts something over a directory, writes a file there, and stays. */
static void live_elsewhere(int ready)
{
	char ok = 0;
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("none", in_directory("mounted"), "tmpfs", 0, "mode=755") == 0) {
		int fd = open(in_directory("mounted/text.c"), O_WRONLY | O_CREAT, 0644);
		ok = fd >= 0 && write(fd, "secret\n", 7) == 7;
	}
	(void)!write(ready, &ok, 1);
	for (;;)
		pause();
}

static void test_a_file_of_another_namespace(void **state)
{
	int ready[2];
	char ok = 0, path[512];
	struct error err = {0};
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0)
		live_elsewhere(ready[1]);
	assert_int_equal(read(ready[0], &ok, 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)child, in_directory("mounted/text.c"));
	int handle = ok ? open(path, O_PATH | O_CLOEXEC) : -1, fd = -1;
	int checked = source_check_public(handle, "text.c", &err), opened = source_open(path, 0, &fd, NULL, NULL);
	io_close(handle);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	io_close(ready[0]);
	io_close(ready[1]);
	if (!ok) {
		print_message("skipped: mount namespaces cannot be made here\n");
		skip();
	}
	assert_true(handle >= 0);
	assert_int_equal(checked, -EACCES);
	assert_non_null(strstr(err.message, "resolves to another place"));
	assert_int_equal(opened, -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units_of_a_local_binary),
		cmocka_unit_test(test_units_of_an_offered_binary),
		cmocka_unit_test(test_own_files),
		cmocka_unit_test(test_units_of_an_absent_binary),
		cmocka_unit_test(test_units_of_an_uploaded_binary),
		cmocka_unit_test(test_announced_files),
		cmocka_unit_test(test_by_hash),
		cmocka_unit_test(test_by_name_alone),
		cmocka_unit_test(test_what_is_no_program),
		cmocka_unit_test(test_paths_through_proc),
		cmocka_unit_test(test_a_path_that_leads_elsewhere),
		cmocka_unit_test(test_a_file_of_another_namespace),
	};
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
