/* SPDX-License-Identifier: Apache-2.0 */
/* perf.data, files and pipes, and what is written of them. */
#include "format_check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "format/format_int.h"
#include "unwind/test_cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A binary with a function that has a frame of 8, then one of 24 bytes, for stacks that are unwound here. */
static int make_binary(void)
{
	static const struct test_cfi_row rows[] = {{0x1000, 8}, {0x1080, 24}, {0x1100, 0}};
	static const struct test_cfi_segment segment = {
		.address = 0x1000, .offset = 0x1000, .size = 0x100, .flags = PF_R | PF_X};
	const struct test_cfi cfi = {.rows = rows, .row_count = 3, .segments = &segment, .segment_count = 1};
	struct buffer file;
	int fd = memfd_create("binary", MFD_CLOEXEC);
	buffer_init(&file, TEST_CFI_BYTES_MAX);
	test_cfi_build(&cfi, &file);
	if (fd < 0 || write(fd, file.data, file.len) != (ssize_t)file.len)
		abort();
	buffer_release(&file);
	return fd;
}

static int open_binary(void *context, const struct format_binary *binary)
{
	static int fd = -1;
	(void)context;
	if (fd < 0)
		fd = make_binary();
	return binary->path[0] == '/' ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -ENOENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;
	struct buffer notes;
	buffer_init(&notes, 64 * KIB);
	struct format_options options = {.decompressed_max = 4 * MIB, .notes = &notes, .open_binary = open_binary};
	if (format_perf_data.decode((struct bytes){data, size}, &options, &profile, NULL) == 0) {
		check_formats(profile);
		profile_free(profile);
	}
	buffer_release(&notes);
	return 0;
}
