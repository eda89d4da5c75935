/* SPDX-License-Identifier: Apache-2.0 */
/* This very program is what is copied: it has debug sections and a build-id. Separate debug files are the matter of
 * tests/agent/upload.test.sh, which has the tools to make some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/upload/debug_copy.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "elf/content_key.h"
#include "elf/extract.h"
#include "elf/test_elf.h"

struct fixture {
	char path[PATH_MAX], build_id[BUILD_ID_HEX_MAX], directory[64];
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	assert_true(readlink("/proc/self/exe", f->path, sizeof(f->path) - 1) > 0);
	_cleanup_(fd_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(build_id_read_fd(fd, f->build_id, NULL), 0);
	snprintf(f->directory, sizeof(f->directory), "/tmp/wick-debug-copy-test-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	return 0;
}

static void fixture_release(struct fixture *f)
{
	assert_int_equal(io_remove_tree(f->directory, NULL), 0);
}

static struct debug_copy_request request_of(const struct fixture *f)
{
	return (struct debug_copy_request){
		.build_id = f->build_id, .path = f->path, .pid = getpid(), .fd = -1, .directory = f->directory};
}

static void assert_good(const struct fixture *f, struct debug_copy *copy)
{
	char build_id[BUILD_ID_HEX_MAX];
	struct elf_file file;
	uint64_t size;
	assert_int_equal(io_file_size(copy->fd, &size, "copy", NULL), 0);
	assert_int_equal(size, copy->size);
	assert_int_equal(build_id_read_fd(copy->fd, build_id, NULL), 0);
	assert_string_equal(build_id, f->build_id);
	assert_int_equal(elf_file_open(&file, copy->fd, "copy", NULL), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	assert_int_equal(elf_file_find_section(&file, ".text")->type, SHT_NOBITS);
	assert_int_equal(elf_file_find_section(&file, ".rodata")->type, SHT_NOBITS);
	assert_int_equal(elf_file_find_section(&file, ".debug_info")->type, SHT_PROGBITS);
	elf_file_release(&file);
	debug_copy_release(copy);
	assert_int_equal(copy->fd, -1);
}

static void make_good(const struct fixture *f, const struct debug_copy_request *request)
{
	struct debug_copy copy;
	assert_int_equal(debug_copy_make(request, &copy, NULL), 0);
	assert_good(f, &copy);
}

static void test_by_path(void **state)
{
	struct fixture *f = *state;
	struct debug_copy copy;
	struct debug_copy_request request = request_of(f);
	assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
	assert_non_null(strstr(copy.from, f->path));
	assert_string_equal(copy.alt_build_id, "");
	assert_good(f, &copy);
	request.pid = 0;
	assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
	assert_string_equal(copy.from, f->path);
	assert_good(f, &copy);
}

/* The file may be gone, and the path may be no path. */
static void test_by_descriptor(void **state)
{
	struct fixture *f = *state;
	static const char *const paths[] = {"/gone/long/ago", "[vdso]", ""};
	_cleanup_(fd_closep) int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct debug_copy_request request = request_of(f);
		request.fd = fd;
		request.path = paths[i];
		make_good(f, &request);
	}
}

/* A file of that build-id with another content is another file: what its path leads to may be its twin. */
static void test_by_content(void **state)
{
	struct fixture *f = *state;
	struct debug_copy copy;
	struct content_key key;
	struct debug_copy_request request = request_of(f);
	_cleanup_(fd_closep) int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(content_key_read_fd(fd, &key, NULL), 0);
	request.content = key.key;
	make_good(f, &request);
	request.content = "00000000000000000000000000000000";
	assert_int_equal(debug_copy_make(&request, &copy, NULL), -ENOENT);
	request.fd = fd;
	assert_int_equal(debug_copy_make(&request, &copy, NULL), -ENOENT);
	request.content = "";
	make_good(f, &request);
}

/* What is not to be known by its build-id is sent without it, or a server would take it for another file. */
static void test_by_hash(void **state)
{
	struct fixture *f = *state;
	struct debug_copy copy;
	struct elf_file file;
	char hash[FILE_HASH_HEX], build_id[BUILD_ID_HEX_MAX];
	_cleanup_(fd_closep) int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct debug_copy_request request = request_of(f);
		request.build_id = hash;
		request.fd = i ? fd : -1;
		assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
		assert_true(copy.without_build_id);
		assert_int_equal(build_id_read_fd(copy.fd, build_id, NULL), -ENOENT);
		assert_int_equal(elf_file_open(&file, copy.fd, "copy", NULL), 0);
		assert_int_equal(elf_file_load_sections(&file, NULL), 0);
		assert_int_equal(elf_file_find_section(&file, ".debug_info")->type, SHT_PROGBITS);
		for (size_t k = 0; k < file.section_count; k++)
			assert_true(file.sections[k].type != SHT_NOTE || strstr(file.sections[k].name, ".wick."));
		elf_file_release(&file);
		debug_copy_release(&copy);
	}
}

/* Other files, things that are no files, and those that would block or have effects when they are opened. */
static void test_what_is_not_opened(void **state)
{
	struct fixture *f = *state;
	char fifo[128], link[128];
	snprintf(fifo, sizeof(fifo), "%s/fifo", f->directory);
	snprintf(link, sizeof(link), "%s/link", f->directory);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("/dev/zero", link), 0);
	const char *const paths[] = {"/bin/sh", "/etc/passwd", "/dev/zero", "/proc/kmsg", fifo,
				     link,	f->directory,  "/gone",	    "x",	  ""};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct debug_copy copy;
		struct debug_copy_request request = request_of(f);
		struct error err = {0};
		request.path = paths[i];
		assert_int_equal(debug_copy_make(&request, &copy, &err), -ENOENT);
		assert_true(err.message[0]);
		assert_true(debug_copy_make_alt(&request, &copy, NULL) < 0);
	}
}

/* ---- a separate debug file ---- */

static const struct test_symbol symbols[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};

static void write_file(const struct fixture *f, const char *name, const struct buffer *b)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", f->directory, name);
	_cleanup_(fd_closep) int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(io_write(fd, b->data, b->len, path, NULL), 0);
}

/* A stripped program that names its debug file. */
static void write_program(const struct fixture *f)
{
	static const char link[] = "program.debug\0\0\0crc", names[] = "\0.gnu_debuglink\0.text";
	struct buffer b;
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .stripped = true}, &b);
	Elf64_Shdr sections[7];
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	memcpy(sections, b.data + header->e_shoff, 6 * sizeof(*sections));
	for (size_t i = 0; i < 6; i++)
		sections[i].sh_name = i == 1 ? 16 : 0;
	sections[4].sh_offset = b.len;
	sections[4].sh_size = sizeof(names);
	test_elf_put(&b, names, sizeof(names));
	sections[6] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = b.len, .sh_size = sizeof(link)};
	test_elf_put(&b, link, sizeof(link));
	test_elf_pad(&b, (b.len + 7) & ~(size_t)7);
	header = (Elf64_Ehdr *)b.data;
	header->e_shoff = b.len;
	header->e_shnum = 7;
	test_elf_put(&b, sections, sizeof(sections));
	write_file(f, "program", &b);
	buffer_release(&b);
}

/* Its debug file, as objcopy leaves it, with an offset that means nothing. */
static void write_debug_file(const struct fixture *f, uint64_t moved_by)
{
	struct buffer b;
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .debug_only = true}, &b);
	Elf64_Phdr *segments = (Elf64_Phdr *)(b.data + sizeof(Elf64_Ehdr));
	segments[1].p_offset = 0x40;
	segments[1].p_vaddr += moved_by;
	write_file(f, "program.debug", &b);
	buffer_release(&b);
}

/* Profiles count in offsets of the program, so the copy has those and says so, but only if they fit. */
static void test_offsets_of_debug_file(void **state)
{
	struct fixture *f = *state;
	char path[128], debug_path[128], mark[5];
	snprintf(path, sizeof(path), "%s/program", f->directory);
	snprintf(debug_path, sizeof(debug_path), "%s/program.debug", f->directory);
	write_program(f);
	for (uint64_t moved_by = 0; moved_by <= 0x1000; moved_by += 0x1000) {
		struct debug_copy copy;
		struct elf_file file;
		struct debug_copy_request request = request_of(f);
		request.build_id = TEST_ELF_BUILD_ID;
		request.path = path;
		request.pid = 0;
		write_debug_file(f, moved_by);
		assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
		assert_string_equal(copy.from, debug_path);
		assert_int_equal(pread(copy.fd, mark, sizeof(mark), EXTRACT_MARK_OFFSET), sizeof(mark));
		assert_int_equal(memcmp(mark, EXTRACT_MARK, sizeof(mark)) == 0, moved_by == 0);
		assert_int_equal(elf_file_open(&file, copy.fd, "copy", NULL), 0);
		assert_int_equal(file.segments[1].offset, moved_by == 0 ? TEST_ELF_TEXT_OFFSET : 0);
		assert_int_equal(file.segments[1].file_size, moved_by == 0 ? TEST_ELF_TEXT_SIZE : 0);
		elf_file_release(&file);
		debug_copy_release(&copy);
		assert_int_equal(unlink(debug_path), 0);
	}
}

static void test_limit(void **state)
{
	struct fixture *f = *state;
	struct debug_copy copy;
	struct debug_copy_request request = request_of(f);
	assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
	request.bytes_max = copy.size - 1;
	debug_copy_release(&copy);
	assert_int_equal(debug_copy_make(&request, &copy, NULL), -E2BIG);
	request.bytes_max++;
	assert_int_equal(debug_copy_make(&request, &copy, NULL), 0);
	debug_copy_release(&copy);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ, FAULT_WRITE};
	struct fixture *f = *state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		for (uint64_t n = 1; n < 40; n++) {
			struct debug_copy copy;
			struct debug_copy_request request = request_of(f);
			fault_arm(kinds[i], n, 0);
			int r = debug_copy_make(&request, &copy, NULL);
			bool reached = fault_disarm(kinds[i]);
			assert_true(reached || r == 0);
			if (r == 0)
				assert_good(f, &copy);
			if (!reached)
				break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_by_path),
		FIXTURE_TEST(test_by_descriptor),
		FIXTURE_TEST(test_by_content),
		FIXTURE_TEST(test_by_hash),
		FIXTURE_TEST(test_what_is_not_opened),
		FIXTURE_TEST(test_offsets_of_debug_file),
		FIXTURE_TEST(test_limit),
		FIXTURE_TEST(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
