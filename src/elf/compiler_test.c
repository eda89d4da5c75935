// SPDX-License-Identifier: Apache-2.0
/* Who made a binary: texts as compilers write them, files made by real ones, and damage. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/test_faults.h"
#include "base/test_programs.h"
#include "elf/compiler.h"

struct part {
	const char *name;
	const void *data;
	size_t len;
};
#define TEXT(section, text)                                                                                                    \
	{                                                                                                                      \
		section, text, sizeof(text) - 1                                                                                \
	}
#define PARTS_MAX    4
#define LOAD_OFFSET  0x40u + 0x38u
#define LOAD_ADDRESS 0x400000ull

static void put(struct buffer *out, const void *data, size_t len)
{
	assert_int_equal(buffer_append(out, data, len), 0);
}

/* Header, a segment of all of the file, contents, section headers: 0 null, 1 names, 2.. the parts. */
static void build(const struct part *parts, struct buffer *out)
{
	Elf64_Shdr sections[2 + PARTS_MAX] = {{0}};
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_phoff = sizeof(header),
			     .e_ehsize = sizeof(header),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 1,
			     .e_shentsize = sizeof(*sections),
			     .e_shnum = 2,
			     .e_shstrndx = 1};
	Elf64_Phdr segment = {.p_type = PT_LOAD, .p_vaddr = LOAD_ADDRESS};
	char names[256] = "";
	size_t names_len = 1;

	buffer_init(out, 1 << 20);
	put(out, &header, sizeof(header));
	put(out, &segment, sizeof(segment));
	for (size_t i = 0; i < PARTS_MAX && parts[i].name; i++) {
		sections[header.e_shnum] = (Elf64_Shdr){.sh_name = (uint32_t)names_len,
							.sh_type = SHT_PROGBITS,
							.sh_offset = out->len,
							.sh_size = parts[i].len};
		put(out, parts[i].data, parts[i].len);
		names_len += (size_t)snprintf(names + names_len, sizeof(names) - names_len, "%s", parts[i].name) + 1;
		header.e_shnum++;
	}
	sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = out->len, .sh_size = names_len};
	put(out, names, names_len);
	header.e_shoff = out->len;
	put(out, sections, header.e_shnum * sizeof(*sections));
	segment.p_filesz = segment.p_memsz = out->len;
	memcpy(out->data, &header, sizeof(header));
	memcpy(out->data + sizeof(header), &segment, sizeof(segment));
}

static int read_built(const struct part *parts, struct compiler *ret)
{
	_cleanup_(buffer_release) struct buffer image = {0};
	struct elf_file file;
	build(parts, &image);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&image), "test", NULL), 0);
	int r = compiler_read(&file, ret, NULL);
	elf_file_release(&file);
	return r;
}

#define GO_INFO                                                                                                                \
	"\xff Go buildinf:\x08\x02"                                                                                            \
	"\0\0\0\0\0\0\0\0"                                                                                                     \
	"\0\0\0\0\0\0\0\0"
#define GO_NOTE                                                                                                                \
	"\x04\0\0\0"                                                                                                           \
	"\x10\0\0\0"                                                                                                           \
	"\x04\0\0\0"                                                                                                           \
	"Go\0\0"

static void test_texts(void **state)
{
	static const struct {
		struct part parts[PARTS_MAX];
		const char *name, *go_build_id;
	} vectors[] = {
		{{TEXT(".comment", "GCC: (Debian 12.2.0-14) 12.2.0\0")}, "gcc 12.2.0", ""},
		{{TEXT(".comment", "GCC: (GNU) 4.8.5 20150623 (Red Hat 4.8.5-44)\0GCC: (GNU) 13.2.1\0GCC: (GNU) 9.5.0\0")},
		 "gcc 13.2.1",
		 ""},
		{{TEXT(".comment", "Debian clang version 14.0.6\0GCC: (Debian 12.2.0-14) 12.2.0\0")}, "clang 14.0.6", ""},
		{{TEXT(".comment", "\0clang version 17.0.6 (https://github.com/llvm/llvm-project.git "
				   "6009708b4367171ccdbf4b5905cb6a803753fe18)\0")},
		 "clang 17.0.6",
		 ""},
		{{TEXT(".comment",
		       "GCC: (GNU) 9.5.0\0rustc version 1.63.0 (4b91a6ea7 2022-08-08)\0clang version 22.1.0-rc2\0")},
		 "rustc 1.63.0",
		 ""},
		{{TEXT(".comment", "Linker: LLD 14.0.6\0")}, "", ""},
		{{TEXT(".comment", "rustc version 1.80.0-nightly")}, "rustc 1.80.0-nightly", ""}, /* without an end */
		{{TEXT(".go.buildinfo", GO_INFO "\x08go1.19.8\0")}, "go 1.19.8", ""},
		{{TEXT(".comment", "GCC: (Debian 12.2.0-14) 12.2.0\0"),
		  TEXT(".go.buildinfo", GO_INFO "\x17go1.22rc1 X:boringcrypto\0")},
		 "go 1.22rc1",
		 ""},
		{{TEXT(".go.buildinfo", GO_INFO "\x1a"
						"devel go1.20-4c5a1f2b3c4d5\0")},
		 "go 1.20-4c5a1f2b3c4d5",
		 ""},
		{{TEXT(".note.go.buildid", GO_NOTE "abcdefgh/1234567")}, "", "abcdefgh/1234567"},
		/* what only looks like it */
		{{TEXT(".comment", "GCC: (evil) <script>\0GCC: (x) \0GCC: (x\0GCC: \0G\0clang version \0rustc version x\0")},
		 "",
		 ""},
		{{TEXT(".comment", "my clang versions 3\0xrustc version 1\0xclang version 2.0\0")}, "", ""},
		{{TEXT(".comment", "clang version 1.2.3.4.5.6.7.8.9.10.11.12.13.14.15\0")}, "", ""},
		{{TEXT(".comment", "clang version 1.2\n3\0")}, "", ""},
		{{TEXT(".comment", "")}, "", ""},
		{{TEXT(".go.buildinfo", "\xff Go buildinf:\x08\x02")}, "", ""},
		{{TEXT(".go.buildinfo", GO_INFO)}, "", ""},
		{{TEXT(".go.buildinfo", GO_INFO "\x7fgo1.19.8")}, "", ""},
		{{TEXT(".go.buildinfo", GO_INFO "\xff\xff\xff\xff\xff")}, "", ""},
		{{TEXT(".go.buildinfo", "\xff Go buildinf:\x08\x00"
					"\xff\xff\xff\xff\xff\xff\xff\xff"
					"\0\0\0\0\0\0\0\0")},
		 "",
		 ""},
		{{TEXT(".go.buildinfo", "\xff Go buildinf:\xff\x00"
					"\0\0\0\0\0\0\0\0"
					"\0\0\0\0\0\0\0\0")},
		 "",
		 ""},
		{{TEXT(".note.go.buildid", GO_NOTE "abc\n")}, "", ""},
		{{TEXT(".note.go.buildid", "\x04\0\0\0"
					   "\xff\xff\xff\xff"
					   "\x04\0\0\0"
					   "Go\0\0"
					   "abcd")},
		 "",
		 ""},
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		struct compiler got;
		assert_int_equal(read_built(vectors[i].parts, &got), 0);
		if (strcmp(got.name, vectors[i].name) != 0 || strcmp(got.go_build_id, vectors[i].go_build_id) != 0)
			fail_msg("%zu: '%s' '%s' instead of '%s' '%s'", i, got.name, got.go_build_id, vectors[i].name,
				 vectors[i].go_build_id);
	}
}

/* Go before 1.18: a pointer to a string, which is a pointer and a length. */
static void test_go_pointers(void **state)
{
	struct {
		char head[16];
		uint64_t version, modules, text, len;
		char letters[8];
	} info = {.head = "\xff Go buildinf:", .len = 8, .letters = {'g', 'o', '1', '.', '1', '5', '.', '9'}};
	struct part parts[PARTS_MAX] = {{".go.buildinfo", &info, sizeof(info)}};
	struct compiler got;
	uint64_t address = LOAD_ADDRESS + LOAD_OFFSET;

	info.head[14] = 8;
	info.version = address + 32;
	info.text = address + 48;
	assert_int_equal(read_built(parts, &got), 0);
	assert_string_equal(got.name, "go 1.15.9");
	info.version = __builtin_bswap64(info.version);
	info.text = __builtin_bswap64(info.text);
	info.len = __builtin_bswap64(info.len);
	info.head[15] = 1;
	assert_int_equal(read_built(parts, &got), 0);
	assert_string_equal(got.name, "go 1.15.9");
	info.len = UINT64_MAX;
	assert_int_equal(read_built(parts, &got), 0);
	assert_string_equal(got.name, "");
}

static void test_ourselves(void **state)
{
	char expected[64];
	struct compiler got;
	_cleanup_(fd_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(compiler_read_fd(fd, &got, NULL), 0);
#ifdef __clang__
	snprintf(expected, sizeof(expected), "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
	snprintf(expected, sizeof(expected), "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
	assert_string_equal(got.name, expected);
	assert_string_equal(got.go_build_id, "");
}

static void first_line(const char *command, char *out, size_t size)
{
	FILE *pipe = popen(command, "r");
	out[0] = 0;
	if (pipe && fgets(out, (int)size, pipe))
		out[strcspn(out, "\n")] = 0;
	if (pipe)
		pclose(pipe);
}

/* The go command is a Go program: what it says of itself. */
static void test_go(void **state)
{
	char path[256], version[128], id[128], expected[160];
	struct compiler got;

	first_line("readlink -f \"$(command -v go)\" 2>/dev/null", path, sizeof(path));
	first_line("HOME=/tmp go version 2>/dev/null | sed 's/go version go//; s/ .*//'", version, sizeof(version));
	first_line("HOME=/tmp go tool buildid \"$(readlink -f \"$(command -v go)\")\" 2>/dev/null", id, sizeof(id));
	if (!path[0] || !version[0] || !id[0]) {
		print_message("skipped: no go\n");
		skip();
	}
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(compiler_read_fd(fd, &got, NULL), 0);
	snprintf(expected, sizeof(expected), "go %s", version);
	assert_string_equal(got.name, expected);
	assert_string_equal(got.go_build_id, id);
}

static void test_no_elf(void **state)
{
	struct compiler got;
	_cleanup_(fd_closep) int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	assert_true(compiler_read_fd(fd, &got, NULL) < 0);
	assert_string_equal(got.name, "");
}

static int read_image(void *context)
{
	const struct buffer *image = context;
	_cleanup_(elf_file_release) struct elf_file file = {0};
	struct compiler got;
	int r = elf_file_open_memory(&file, buffer_bytes(image), "test", NULL);
	return r < 0 ? r : compiler_read(&file, &got, NULL);
}

static void test_memory_runs_out(void **state)
{
	static const struct part parts[PARTS_MAX] = {TEXT(".comment", "GCC: (x) 1.0\0"),
						     TEXT(".go.buildinfo", GO_INFO "\x08go1.19.8\0"),
						     TEXT(".note.go.buildid", GO_NOTE "abcdefgh/1234567")};
	_cleanup_(buffer_release) struct buffer image = {0};
	build(parts, &image);
	assert_true(test_each_allocation(read_image, &image) > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts), cmocka_unit_test(test_go_pointers), cmocka_unit_test(test_ourselves),
		cmocka_unit_test(test_go),    cmocka_unit_test(test_no_elf),	  cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
