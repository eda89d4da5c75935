/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of user stacks in a recording that is made here, byte by byte, of a binary whose unwind table is known. */
#include "format/test_format.h"

#include <fcntl.h>

#include "base/test_faults.h"
#include "format/perf/perf_data_int.h"
#include "unwind/test_cfi.h"

#if UNWIND_REGISTERS == 16
#define MACHINE	  "x86_64"
#define OTHER	  "aarch64"
#define REGISTERS (1ull << 7 | 1ull << 8) /* sp, ip */
#else
#define MACHINE	  "aarch64"
#define OTHER	  "x86_64"
#define REGISTERS (1ull << 31 | 1ull << 32)
#endif
#define PID	   7
#define CODE_START 0x500000ull
#define KERNEL_IP  0xffffffff81000010ull
#define BUILD_ID   "0123456789abcdef0123456789abcdef01234567"

static char directory[] = "/tmp/wick_perf_unwind.XXXXXX";
static char binary_path[64];

static void put(struct buffer *out, uint64_t value, size_t len)
{
	assert_int_equal(buffer_append(out, &value, len), 0);
}

/* A function at 0x1000 of the file without a frame of its own: the return address is on top of the stack. */
static int make_binary(void **state)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x1100, 0}};
	static const struct test_cfi_segment segment = {
		.address = 0x1000, .offset = 0x1000, .size = 0x100, .flags = PF_R | PF_X};
	const struct test_cfi cfi = {
		.rows = rows, .row_count = 2, .segments = &segment, .segment_count = 1, .build_id = BUILD_ID};
	struct buffer file;
	assert_non_null(mkdtemp(directory));
	snprintf(binary_path, sizeof(binary_path), "%s/x", directory);
	buffer_init(&file, TEST_CFI_BYTES_MAX);
	test_cfi_build(&cfi, &file);
	assert_int_equal(io_write_file(binary_path, file.data, file.len, 0600, NULL), 0);
	buffer_release(&file);
	return 0;
}

static int remove_binary(void **state)
{
	return io_remove_tree(directory, NULL);
}

/* ---- the recording ---- */

#define SAMPLE_TYPE (PERF_S_IP | PERF_S_TID | PERF_S_CALLCHAIN | PERF_S_REGS_USER | PERF_S_STACK_USER)
#define STACK_BYTES 32

static void put_header(struct buffer *out, uint32_t type, uint16_t misc, size_t *ret_start)
{
	*ret_start = out->len;
	put(out, type, 4);
	put(out, misc, 2);
	put(out, 0, 2);
}

static void end_record(struct buffer *out, size_t start)
{
	uint16_t size = (uint16_t)(out->len - start);
	memcpy(out->data + start + 6, &size, sizeof(size));
}

static void put_mapping(struct buffer *out)
{
	size_t start;
	put_header(out, PERF_MMAP, PERF_MODE_USER, &start);
	put(out, PID, 4);
	put(out, PID, 4);
	put(out, CODE_START, 8);
	put(out, 0x1000, 8);
	put(out, 0x1000, 8); /* where in the file */
	assert_int_equal(buffer_append(out, binary_path, strlen(binary_path) + 1), 0);
	while (out->len % 8)
		put(out, 0, 1);
	end_record(out, start);
}

/* in_kernel: with a frame of it before the user's. used: of STACK_BYTES of the copy. */
static void put_sample(struct buffer *out, bool in_kernel, const uint64_t words[4], uint64_t used)
{
	size_t start;
	put_header(out, PERF_SAMPLE, in_kernel ? PERF_MODE_KERNEL : PERF_MODE_USER, &start);
	put(out, in_kernel ? KERNEL_IP : CODE_START + 0x10, 8);
	put(out, PID, 4);
	put(out, PID, 4);
	put(out, in_kernel ? 2 : 0, 8);
	if (in_kernel) {
		put(out, (uint64_t)-128, 8);
		put(out, KERNEL_IP, 8);
	}
	put(out, 2, 8); /* 64-bit registers */
	put(out, 0x7ffc0000, 8);
	put(out, CODE_START + 0x10, 8);
	put(out, STACK_BYTES, 8);
	assert_int_equal(buffer_append(out, words, STACK_BYTES), 0);
	put(out, used, 8);
	end_record(out, start);
}

/* Feature 6 of the header, the architecture, comes behind the data. */
static struct buffer make_recording(const char *machine)
{
	static const uint64_t whole[] = {CODE_START + 0x21, CODE_START + 0x31, 0, 0};
	static const uint64_t longer[] = {CODE_START + 0x21, CODE_START + 0x31, CODE_START + 0x41, CODE_START + 0x51};
	static const uint64_t lost[] = {CODE_START + 0x21, 0x99, 0, 0};
	struct buffer out;
	buffer_init(&out, MIB);
	const uint64_t header[] = {104, 144, 104, 144, 104 + 144, 0, 0, 0, 1ull << 6, 0, 0, 0};
	assert_int_equal(buffer_append(&out, "PERFILE2", 8), 0);
	for (size_t i = 0; i < 12; i++)
		put(&out, header[i], 8);
	const uint64_t attr[] = {1 | 128ull << 32, 0, 1000, SAMPLE_TYPE, 0, 0, 0, 0, 0, 0, REGISTERS, STACK_BYTES, 0, 0, 0, 0};
	for (size_t i = 0; i < 16; i++)
		put(&out, attr[i], 8);
	put(&out, 0, 8);
	put(&out, 0, 8);
	put_mapping(&out);
	put_sample(&out, false, whole, STACK_BYTES);
	put_sample(&out, true, whole, STACK_BYTES);
	put_sample(&out, false, longer, STACK_BYTES);
	put_sample(&out, false, lost, STACK_BYTES);
	uint64_t data = out.len - 248;
	memcpy(out.data + 48, &data, sizeof(data));
	put(&out, out.len + 16, 8);
	put(&out, 4 + 16, 8);
	put(&out, 16, 4);
	char text[16] = "";
	snprintf(text, sizeof(text), "%s", machine);
	assert_int_equal(buffer_append(&out, text, sizeof(text)), 0);
	return out;
}

/* ---- tests ---- */

static unsigned opened;
static int open_binary(void *context, const struct format_binary *binary)
{
	const int *answer = context;
	opened++;
	assert_string_equal(binary->path, binary_path);
	assert_string_equal(binary->build_id, "");
	return *answer ? *answer : open(binary->path, O_RDONLY | O_CLOEXEC);
}

static void check(const char *machine, bool has_files, int answer, const char *folded, const char *says)
{
	struct buffer file = make_recording(machine), notes = {.max = KIB}, out = {.max = KIB};
	struct format_options options = {.open_binary = has_files ? open_binary : NULL,
					 .open_context = &answer,
					 .notes = &notes,
					 .sample_type = "samples"};
	struct profile *profile = NULL;
	struct error err = {0};
	opened = 0;
	if (format_decode(NULL, buffer_bytes(&file), &options, &profile, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(format_encode(&format_folded, profile, &options, &out, NULL), 0);
	assert_string_equal(buffer_string(&out), folded);
	if (!strstr(buffer_string(&notes), says))
		fail_msg("\"%s\" does not say \"%s\"", buffer_string(&notes), says);
	profile_free(profile);
	buffer_release(&file);
	buffer_release(&notes);
	buffer_release(&out);
}

#define ONE_FRAME "x+0x1010 3\nx+0x1010;[kernel.kallsyms]+0xffffffff81000010_[k] 1\n"

static void test_unwound(void **state)
{
	check(MACHINE, true, 0,
	      "x+0x1020;x+0x1010 1\nx+0x1030;x+0x1020;x+0x1010 1\n"
	      "x+0x1030;x+0x1020;x+0x1010;[kernel.kallsyms]+0xffffffff81000010_[k] 1\n"
	      "x+0x1050;x+0x1040;x+0x1030;x+0x1020;x+0x1010 1\n",
	      "1 stacks: outermost frames that the copy of the stack does not reach");
	assert_int_equal(opened, 1);
	check(MACHINE, true, 0,
	      "x+0x1020;x+0x1010 1\nx+0x1030;x+0x1020;x+0x1010 1\n"
	      "x+0x1030;x+0x1020;x+0x1010;[kernel.kallsyms]+0xffffffff81000010_[k] 1\n"
	      "x+0x1050;x+0x1040;x+0x1030;x+0x1020;x+0x1010 1\n",
	      "1 stacks: outermost frames that could not be unwound");
}

static void test_not_unwound(void **state)
{
	static const char says[] = "4 copies of stacks (--call-graph dwarf): user frames except the innermost";
	check(MACHINE, false, 0, ONE_FRAME, says);
	/* There, other bits stand for the registers, which this recording does not have. */
	check(OTHER, true, 0, "[kernel.kallsyms]+0xffffffff81000010_[k] 1\nx+0x1010 3\n", says);
	assert_int_equal(opened, 0);
	/* Without the file there is no table, and no frame pointer was recorded. */
	check(MACHINE, true, -ENOENT, ONE_FRAME, "4 stacks: outermost frames that could not be unwound");
	assert_int_equal(opened, 1);
}

/* Two events, and a sample with the id of neither. */
static void test_strays(void **state)
{
	struct buffer file = {.max = MIB}, notes = {.max = KIB};
	struct format_options options = {.notes = &notes};
	struct profile *profile = NULL;
	const uint64_t attrs = 2 * 80ull, ids = 104 + attrs, data = ids + 16;
	const uint64_t header[] = {104, 80, 104, attrs, data, 3 * 24, 0, 0, 0, 0, 0, 0};
	assert_int_equal(buffer_append(&file, "PERFILE2", 8), 0);
	for (size_t i = 0; i < 12; i++)
		put(&file, header[i], 8);
	for (uint64_t event = 0; event < 2; event++) {
		const uint64_t attr[] = {1 | 64ull << 32, event, 10, PERF_S_IDENTIFIER | PERF_S_IP, 0, 0, 0, 0,
					 ids + 8 * event, 8};
		for (size_t i = 0; i < 10; i++)
			put(&file, attr[i], 8);
	}
	put(&file, 501, 8);
	put(&file, 502, 8);
	for (uint64_t id = 501; id <= 503; id++) {
		size_t start;
		put_header(&file, PERF_SAMPLE, PERF_MODE_USER, &start);
		put(&file, id, 8);
		put(&file, 0x1234, 8);
		end_record(&file, start);
	}
	assert_int_equal(format_decode(NULL, buffer_bytes(&file), &options, &profile, NULL), 0);
	assert_int_equal(profile->sample_count, 2);
	assert_non_null(strstr(buffer_string(&notes), "1 samples that have the id of no event\n"));
	profile_free(profile);
	buffer_release(&notes);
	buffer_release(&file);
}

static int decode_file(void *context)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int answer = 0;
	struct format_options options = {.open_binary = open_binary, .open_context = &answer};
	return format_decode(NULL, buffer_bytes(context), &options, &profile, NULL);
}

static void test_faults(void **state)
{
	struct buffer file = make_recording(MACHINE);
	test_each_allocation(decode_file, &file);
	buffer_release(&file);
}

static int open_any(void *context, const struct format_binary *binary)
{
	return open(binary_path, O_RDONLY | O_CLOEXEC);
}

static void test_damage(void **state)
{
	struct buffer file = make_recording(MACHINE);
	struct format_options options = {.open_binary = open_any};
	struct random random = RANDOM_START;
	for (size_t i = 0; i < DAMAGED_ROUNDS; i++) {
		struct bytes damaged = damage(buffer_bytes(&file), i, &random);
		struct profile *profile = NULL;
		if (format_perf_data.detect(damaged))
			format_perf_data.decode(damaged, &options, &profile, NULL);
		profile_free(profile);
		free((void *)(uintptr_t)damaged.data);
	}
	buffer_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unwound), cmocka_unit_test(test_not_unwound), cmocka_unit_test(test_strays),
		cmocka_unit_test(test_faults),	cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, make_binary, remove_binary);
}
