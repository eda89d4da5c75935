/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet files of bytes in memory, for tests and fuzzers. */
#ifndef WICK_CODEC_TEST_PARQUET_BYTES_H
#define WICK_CODEC_TEST_PARQUET_BYTES_H

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codec/parquet.h"

static inline int test_parquet_open_bytes(struct bytes bytes, const struct parquet_read_options *options,
					  struct parquet_file **ret, struct error *err)
{
	static int fd = -1;
	char path[64];
	if (fd < 0)
		fd = memfd_create("parquet", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes.data, bytes.len, 0) != (ssize_t)bytes.len)
		return error_set_errno(err, -errno, "cannot make a file in memory");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return parquet_open(path, options, ret, err);
}

#endif
