/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_programs.h"
#include "base/text.h"
#include "elf/build_id.h"
#include "symbol/source_text.h"
#include "symbol/source_text_int.h"
#include "symbol/symbol_int.h"
#include "symbol/uploads.h"

static char directory[] = "/tmp/wick-source-text-XXXXXX", build_id[BUILD_ID_HEX_MAX];
static uint64_t work_address, work_size;

/* A program whose debug information names what it likes. */
static const char program[] =
	"int work(int n)\n"
	"{\n"
	"	int sum = 0;\n"
	"	for (int i = 0; i < n; i++)\n"
	"		sum += i * n;\n"
	"	return sum;\n"
	"}\n"
	"#line 1 \"@/link.c\"\nint in_link(int x) { return x * 3; }\n"
	"#line 1 \"@/fifo.c\"\nint in_fifo(int x) { return x * 4; }\n"
	"#line 1 \"@/private.c\"\nint in_private(int x) { return x * 5; }\n"
	"#line 1 \"@/closed/in.c\"\nint in_closed(int x) { return x * 6; }\n"
	"#line 1 \"@/large.c\"\nint in_large(int x) { return x * 7; }\n"
	"#line 1 \"@/binary.c\"\nint in_binary(int x) { return x * 8; }\n"
	"#line 1 \"@/directory.c\"\nint in_directory(int x) { return x * 9; }\n"
	"#line 1 \"@/absent.c\"\nint in_absent(int x) { return x * 10; }\n"
	"#line 1 \"@/notes\"\nint in_notes(int x) { return x * 11; }\n"
	"#line 1 \"/etc/shadow\"\nint in_shadow(int x) { return x * 12; }\n"
	"#line 1 \"/etc/passwd\"\nint in_passwd(int x) { return x * 13; }\n"
	"#line 1 \"/build/elsewhere/src/only.c\"\nint in_archive(int x) { return x * 14; }\n"
	"#line 1 \"/build/elsewhere/src/twice.c\"\nint in_archive_twice(int x) { return x * 15; }\n"
	"#line 100 \"@/program.c\"\nint main(int argc, char **argv) { return work(argc) + in_link(argc) + in_fifo(argc) +\n"
	"	in_private(argc) + in_closed(argc) + in_large(argc) + in_binary(argc) + in_directory(argc) + in_absent(argc) "
	"+\n"
	"	in_notes(argc) + in_shadow(argc) + in_passwd(argc) + in_archive(argc) + in_archive_twice(argc); }\n";

static void write_program(void)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/program.c", directory);
	FILE *out = fopen(path, "w");
	if (!out)
		abort();
	for (const char *at = program; *at; at++)
		if (*at == '@')
			fputs(directory, out);
		else
			fputc(*at, out);
	fclose(out);
}

static int make_files(void **state)
{
	char command[2048], line[256];
	if (!mkdtemp(directory) || chmod(directory, 0755) < 0)
		return -1;
	write_program();
	snprintf(command, sizeof(command),
		 "umask 022; cd %s; set -e; gcc -g -O0 -Wl,--build-id=sha1 -o program program.c; chmod 644 program.c\n"
		 "echo secret >private.c; chmod 600 private.c; ln -s /etc/passwd link.c; mkfifo fifo.c; mkdir -m 700 closed\n"
		 "echo closed >closed/in.c; head -c 4194305 /dev/zero | tr '\\0' x >large.c; printf 'a\\0b' >binary.c\n"
		 "mkdir directory.c; echo notes >notes; mkdir -p a/src b/one b/two; echo only >a/src/only.c\n"
		 "echo one >b/one/twice.c; echo two >b/two/twice.c; echo fifo >a/fifo.c; tar -czf sources.tar.gz a b",
		 directory);
	if (system(command) != 0)
		return -1;
	snprintf(command, sizeof(command), "nm -S %s/program", directory);
	FILE *nm = popen(command, "r");
	while (nm && fgets(line, sizeof(line), nm))
		if (strstr(line, " work\n"))
			sscanf(line, "%lx %lx", &work_address, &work_size);
	if (nm)
		pclose(nm);
	snprintf(command, sizeof(command), "%s/program", directory);
	_cleanup_(fd_closep) int fd = open(command, O_RDONLY | O_CLOEXEC);
	return work_size > 0 ? build_id_read_fd(fd, build_id, NULL) : -1;
}

static int remove_files(void **state)
{
	return io_remove_tree(directory, NULL);
}

static const char *in_directory(const char *name)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* Knows the program's table. */
static struct symbolizer *new_symbolizer(bool no_host_files, struct uploads *uploads)
{
	struct symbolizer_options options = {.uploads = uploads};
	struct symbolizer *symbolizer;
	assert_int_equal(symbolizer_new(&options, &symbolizer, NULL), 0);
	struct symbol_view *view;
	struct symbolizer_want want = {.wait_ns = -1};
	assert_int_equal(symbolizer_view(symbolizer, build_id, in_directory("program"), &want, &view, NULL), 0);
	symbol_view_free(view);
	symbolizer->no_host_files = no_host_files; /* now: the table has been made of one */
	return symbolizer;
}

static int read_from(struct symbolizer *symbolizer, const char *path, struct buffer *out, const char **from, struct error *err)
{
	buffer_init(out, SOURCE_TEXT_BYTES_MAX);
	*err = (struct error){0};
	return source_text_read(symbolizer, build_id, "", path, NULL, out, from, err);
}

static void check_refused(struct symbolizer *symbolizer, const char *path, const char *why)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	const char *from;
	struct error err;
	assert_int_equal(read_from(symbolizer, path, &out, &from, &err), -ENOENT);
	assert_int_equal(out.len, 0);
	if (!strstr(err.message, why))
		fail_msg("%s: '%s' does not say '%s'", path, err.message, why);
}

static void test_a_local_file(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, NULL);
	_cleanup_(buffer_release) struct buffer out = {0};
	const char *from;
	struct error err;
	assert_int_equal(read_from(symbolizer, in_directory("program.c"), &out, &from, &err), 0);
	assert_string_equal(from, "local file");
	assert_true(text_starts_with(buffer_string(&out), "int work(int n)\n"));
}

static void test_what_is_not_shown(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, NULL);
	check_refused(symbolizer, in_directory("link.c"), "not a regular file");
	check_refused(symbolizer, in_directory("fifo.c"), "not a regular file");
	check_refused(symbolizer, in_directory("directory.c"), "not a regular file");
	check_refused(symbolizer, in_directory("private.c"), "not world-readable");
	check_refused(symbolizer, in_directory("closed/in.c"), "not world-accessible");
	check_refused(symbolizer, in_directory("large.c"), "larger than");
	check_refused(symbolizer, in_directory("binary.c"), "not a text");
	check_refused(symbolizer, in_directory("absent.c"), "No such file");
	check_refused(symbolizer, in_directory("notes"), "not the name of a source file");
	check_refused(symbolizer, "/etc/shadow", "not the name of a source file");
	check_refused(symbolizer, "/etc/passwd", "not the name of a source file");
}

/* Who asks is who runs this: only that others may not read a file is no reason then. */
static void test_own_files(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, NULL);
	static const char *const names[] = {"program.c", "private.c", "closed/in.c"};
	symbolizer->own_files = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_(buffer_release) struct buffer out = {0};
		const char *from;
		struct error err;
		assert_int_equal(read_from(symbolizer, in_directory(names[i]), &out, &from, &err), 0);
		assert_string_equal(from, "local file");
	}
	check_refused(symbolizer, in_directory("link.c"), "not a regular file");
	check_refused(symbolizer, in_directory("fifo.c"), "not a regular file");
	check_refused(symbolizer, in_directory("large.c"), "larger than");
	check_refused(symbolizer, in_directory("notes"), "not the name of a source file");
	check_refused(symbolizer, "/etc/shadow", "not the name of a source file");
	check_refused(symbolizer, in_directory("a/src/only.c"), "has no file");
}

/* Files that the binary's debug information does not name, however harmless they are. */
static void test_paths_of_nobody(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, NULL);
	_cleanup_(buffer_release) struct buffer out = {0};
	const char *from;
	struct error err = {0};
	check_refused(symbolizer, in_directory("a/src/only.c"), "has no file");
	check_refused(symbolizer, in_directory("a/../program.c"), "has no file");
	check_refused(symbolizer, "program.c", "has no file");
	check_refused(symbolizer, "", "does not give its file");
	buffer_init(&out, MIB);
	assert_int_equal(source_text_read(symbolizer, "abcd", "", in_directory("program.c"), NULL, &out, &from, &err), -ENOENT);
	assert_non_null(strstr(err.message, "unknown binary"));
	assert_int_equal(source_text_read(symbolizer, "../../x", "", in_directory("program.c"), NULL, &out, &from, &err),
			 -ENOENT);
	assert_int_equal(source_text_read(symbolizer, "", "", in_directory("program.c"), NULL, &out, &from, &err), -ENOENT);
}

static void test_without_host_files(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(true, NULL);
	struct code_bytes code;
	struct error err = {0};
	check_refused(symbolizer, in_directory("program.c"), "does not read files of its host");
	assert_int_equal(
		code_bytes_read(symbolizer, build_id, in_directory("program"), work_address, work_size, NULL, &code, &err),
		-ENOENT);
	assert_non_null(strstr(err.message, "does not read files of its host"));
	assert_non_null(strstr(err.message, "no executable was uploaded"));
	assert_non_null(strstr(err.message, "no debuginfod server"));
}

/* ---- uploads ---- */

static struct uploads *upload(enum upload_kind kind, const char *file)
{
	char place[128];
	struct uploads *uploads;
	struct upload_begin begin = {.kind = kind};
	_cleanup_(buffer_release) struct buffer contents = {0};
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	struct error err = {0};
	snprintf(place, sizeof(place), "%s/uploads", directory);
	struct uploads_options options = {.directory = place};
	assert_int_equal(io_read_file(in_directory(file), GIB, &contents, NULL), 0);
	memcpy(begin.build_id, build_id, sizeof(begin.build_id));
	begin.size = contents.len;
	begin.force = true;
	assert_int_equal(uploads_open(&options, &uploads, NULL), 0);
	assert_int_equal(uploads_begin(uploads, &begin, id, &offset, &err), 0);
	assert_int_equal(uploads_write(uploads, id, 0, buffer_bytes(&contents), &offset, NULL), 0);
	assert_int_equal(uploads_finish(uploads, id, NULL), 0);
	return uploads;
}

static void test_an_uploaded_archive(void **state)
{
	_cleanup_(uploads_closep) struct uploads *uploads = upload(UPLOAD_SOURCES, "sources.tar.gz");
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(true, uploads);
	_cleanup_(buffer_release) struct buffer out = {0}, fifo = {0};
	const char *from;
	struct error err;
	assert_int_equal(read_from(symbolizer, "/build/elsewhere/src/only.c", &out, &from, &err), 0);
	assert_string_equal(from, "uploaded archive");
	assert_string_equal(buffer_string(&out), "only\n");
	assert_int_equal(read_from(symbolizer, in_directory("fifo.c"), &fifo, &from, &err), 0);
	assert_string_equal(buffer_string(&fifo), "fifo\n");
	check_refused(symbolizer, "/build/elsewhere/src/twice.c", "2 matching files");
	check_refused(symbolizer, in_directory("absent.c"), "no such file");
	/* Only what the binary names, here too. */
	check_refused(symbolizer, "a/src/only.c", "has no file");
}

static void test_a_damaged_archive(void **state)
{
	_cleanup_(uploads_closep) struct uploads *uploads = upload(UPLOAD_SOURCES, "sources.tar.gz");
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, uploads);
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(buffer_release) struct buffer out = {0};
	const char *from;
	struct error err;
	char link[64], path[4096];
	assert_int_equal(uploads_open_file(uploads, NULL, build_id, UPLOAD_SOURCES, &fd, NULL), 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	assert_true(len > 0);
	path[len] = '\0';
	assert_int_equal(truncate(path, 60), 0);
	/* The next place is asked. */
	assert_int_equal(read_from(symbolizer, in_directory("program.c"), &out, &from, &err), 0);
	assert_string_equal(from, "local file");
	check_refused(symbolizer, "/build/elsewhere/src/only.c", "damaged archive");
}

static void check_code(struct symbolizer *symbolizer, const char *path, const char *from)
{
	struct code_bytes code;
	struct error err = {0};
	_cleanup_(buffer_release) struct buffer program_file = {0};
	assert_int_equal(code_bytes_read(symbolizer, build_id, path, work_address, work_size, NULL, &code, &err), 0);
	assert_string_equal(code.from, from);
	assert_int_equal(code.address, work_address);
	assert_int_equal(code.bytes.len, work_size);
	assert_int_not_equal(code.machine, 0);
	/* Its prologue and all are somewhere in the program. */
	assert_int_equal(io_read_file(in_directory("program"), GIB, &program_file, NULL), 0);
	assert_non_null(memmem(program_file.data, program_file.len, code.bytes.data, code.bytes.len));
	buffer_release(&code.bytes);
}

static void test_code(void **state)
{
	_cleanup_(uploads_closep) struct uploads *uploads = upload(UPLOAD_EXECUTABLE, "program");
	_cleanup_(symbolizer_freep) struct symbolizer *host = new_symbolizer(false, NULL);
	_cleanup_(symbolizer_freep) struct symbolizer *remote = new_symbolizer(true, uploads);
	struct code_bytes code;
	struct error err = {0};
	check_code(host, in_directory("program"), "local file");
	check_code(remote, in_directory("program"), "uploaded executable");
	check_code(remote, "", "uploaded executable");
	/* Another build's file, no ELF file, nothing. */
	assert_int_equal(code_bytes_read(host, "abcd", in_directory("program"), work_address, work_size, NULL, &code, &err),
			 -ENOENT);
	assert_non_null(strstr(err.message, "is a different build"));
	assert_int_equal(code_bytes_read(host, build_id, in_directory("program.c"), work_address, 1, NULL, &code, &err),
			 -ENOENT);
	assert_int_equal(code_bytes_read(host, build_id, in_directory("fifo.c"), work_address, 1, NULL, &code, &err), -ENOENT);
	assert_int_equal(code_bytes_read(host, build_id, in_directory("program"), UINT64_MAX, 2, NULL, &code, &err), -ENOENT);
	assert_int_equal(
		code_bytes_read(host, build_id, in_directory("program"), work_address, CODE_BYTES_MAX, NULL, &code, &err),
		-ENOENT);
	assert_int_equal(code_bytes_read(host, build_id, in_directory("program"), 0, CODE_BYTES_MAX + 1, NULL, &code, &err),
			 -E2BIG);
	assert_null(code.bytes.data);
}

static void test_faults(void **state)
{
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = new_symbolizer(false, NULL);
	for (int kind = 0; kind < 2; kind++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			_cleanup_(buffer_release) struct buffer out = {0};
			const char *from;
			struct error err;
			struct code_bytes code;
			fault_arm(kind ? FAULT_READ : FAULT_ALLOC, n, 0);
			int r = read_from(symbolizer, in_directory("program.c"), &out, &from, &err);
			if (r == 0)
				r = code_bytes_read(symbolizer, build_id, in_directory("program"), work_address, work_size,
						    NULL, &code, &err);
			reached = fault_disarm(kind ? FAULT_READ : FAULT_ALLOC);
			assert_int_equal(r, !reached ? 0 : kind ? -ENOENT : -ENOMEM);
			if (r == 0)
				buffer_release(&code.bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_local_file),
		cmocka_unit_test(test_what_is_not_shown),
		cmocka_unit_test(test_own_files),
		cmocka_unit_test(test_paths_of_nobody),
		cmocka_unit_test(test_without_host_files),
		cmocka_unit_test(test_an_uploaded_archive),
		cmocka_unit_test(test_a_damaged_archive),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
