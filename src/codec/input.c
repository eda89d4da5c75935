/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "codec/compress.h"

#define RAW_BYTES		 (64u * 1024)
#define GZIP_WINDOW		 (15 + 16) /* the largest, with a gzip header */
#define ZSTD_WINDOW_LOG_STRANGER 26	   /* 64 MiB: what strangers' frames may ask for */

enum packing { PLAIN, GZIP, ZSTD };

struct input {
	int fd; /* -1 = it is in memory */
	bool is_borrowed;
	struct bytes memory;
	uint64_t source_at;
	char *name;
	uint64_t max, made;
	enum packing packing;
	uint8_t *raw; /* RAW_BYTES */
	size_t raw_at, raw_len;
	bool at_end; /* of the file */
	z_stream zlib;
	bool has_zlib, is_within; /* is_within: a member or frame has begun */
	ZSTD_DCtx *zstd;
};

int input_make_nameless(struct error *err)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	/* Some file systems have none. */
	if (fd < 0)
		fd = memfd_create("wick", MFD_CLOEXEC);
	return fd < 0 ? error_set_errno(err, -errno, "cannot create a temporary file for the input") : fd;
}

/* ---- opening ---- */

static ssize_t read_source(struct input *input, void *data, size_t len, struct error *err)
{
	ssize_t n;
	if (input->fd >= 0) {
		n = io_pread(input->fd, data, len, input->source_at, input->name, err);
	} else {
		struct bytes rest = bytes_skip(input->memory, input->source_at);
		n = (ssize_t)(rest.len < len ? rest.len : len);
		if (n)
			memcpy(data, rest.data, (size_t)n);
	}
	input->source_at += n > 0 ? (uint64_t)n : 0;
	return n;
}

static int fill_raw(struct input *input, struct error *err)
{
	if (input->raw_at < input->raw_len || input->at_end)
		return 0;
	ssize_t n = read_source(input, input->raw, RAW_BYTES, err);
	if (n < 0)
		return (int)n;
	input->raw_at = 0;
	input->raw_len = (size_t)n;
	input->at_end = n == 0;
	return 0;
}

/* What cannot be rewound becomes what can. */
static int spool(struct input *input, struct error *err)
{
	_cleanup_(fd_closep) int fd = input_make_nameless(err);
	uint64_t size = 0;
	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = io_read(input->fd, input->raw, RAW_BYTES, input->name, err);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		size += (uint64_t)n;
		if (size > input->max)
			return error_set(err, -E2BIG, "%s: longer than %llu bytes", input->name,
					 (unsigned long long)input->max);
		int r = io_write(fd, input->raw, (size_t)n, "a temporary file", err);
		if (r < 0)
			return r;
	}
	io_close(input->fd);
	input->fd = fd;
	fd = -1;
	return 0;
}

static int detect(struct input *input, struct error *err)
{
	int r = fill_raw(input, err);
	if (r < 0)
		return r;
	struct bytes head = {input->raw, input->raw_len};
	input->packing = gzip_detect(head) ? GZIP : zstd_detect(head) ? ZSTD : PLAIN;
	if (input->packing == ZSTD) {
		input->zstd = fault_reached(FAULT_ALLOC) ? NULL : ZSTD_createDCtx();
		if (!input->zstd)
			return error_nomem(err);
		if (input->is_borrowed)
			ZSTD_DCtx_setParameter(input->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_STRANGER);
	}
	if (input->packing != GZIP)
		return 0;
	input->zlib.zalloc = compress_alloc_for_zlib;
	input->zlib.zfree = compress_free_for_zlib;
	if (inflateInit2(&input->zlib, GZIP_WINDOW) != Z_OK)
		return error_nomem(err);
	input->has_zlib = true;
	return 0;
}

int input_from_fd(int fd, const char *name, uint64_t max, struct input **ret, struct error *err)
{
	struct input *input = mem_zalloc(sizeof(*input));
	char *copy = mem_strdup(name);
	uint8_t *raw = mem_alloc(RAW_BYTES);
	if (!input || !copy || !raw) {
		mem_free(input);
		mem_free(copy);
		mem_free(raw);
		io_close(fd);
		return error_nomem(err);
	}
	*input = (struct input){.fd = fd, .name = copy, .raw = raw, .max = max};
	*ret = input;
	return 0;
}

/* Hands it out when all went well, and frees it otherwise. */
static int finish(struct input *input, int r, struct input **ret)
{
	if (r < 0)
		input_free(input);
	else
		*ret = input;
	return r;
}

int input_open(const char *path, uint64_t max, struct input **ret, struct error *err)
{
	bool is_standard = strcmp(path, "-") == 0;
	struct input *input = NULL;
	struct stat status;
	int fd = is_standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return is_standard ? error_set_errno(err, -errno, "cannot read standard input") : fd;
	int r = input_from_fd(fd, is_standard ? "standard input" : path, max, &input, err);
	if (r == 0 && (is_standard || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)))
		r = spool(input, err);
	if (r == 0)
		r = detect(input, err);
	return finish(input, r, ret);
}

int input_borrow_fd(int fd, const char *name, struct input **ret, struct error *err)
{
	struct input *input = NULL;
	int r = input_from_fd(-1, name, UINT64_MAX, &input, err);
	if (r < 0)
		return r;
	input->fd = fd;
	input->is_borrowed = true;
	return finish(input, detect(input, err), ret);
}

int input_from_bytes(struct bytes bytes, const char *name, uint64_t max, struct input **ret, struct error *err)
{
	struct input *input = NULL;
	int r = input_from_fd(-1, name, max, &input, err);
	if (r < 0)
		return r;
	input->memory = bytes;
	return finish(input, detect(input, err), ret);
}

void input_rewind(struct input *input)
{
	input->source_at = 0;
	input->raw_at = input->raw_len = 0;
	input->made = 0;
	input->at_end = input->is_within = false;
	if (input->zstd)
		ZSTD_DCtx_reset(input->zstd, ZSTD_reset_session_only);
	if (input->has_zlib)
		inflateReset(&input->zlib);
}

struct input *input_free(struct input *input)
{
	if (!input)
		return NULL;
	if (!input->is_borrowed)
		io_close(input->fd);
	if (input->has_zlib)
		inflateEnd(&input->zlib);
	ZSTD_freeDCtx(input->zstd);
	mem_free(input->raw);
	mem_free(input->name);
	return mem_free(input);
}

/* ---- reading ---- */

/* Members one after the other, until the file ends between two. */
static ssize_t read_gzip(struct input *input, void *data, size_t len, struct error *err)
{
	z_stream *zlib = &input->zlib;
	zlib->next_out = data;
	zlib->avail_out = (uInt)len;
	while (zlib->avail_out == len) {
		int r = fill_raw(input, err);
		if (r < 0)
			return r;
		if (input->at_end && !input->is_within)
			return 0;
		if (input->at_end)
			return error_set(err, -EBADMSG, "%s: truncated gzip data", input->name);
		input->is_within = true;
		zlib->next_in = input->raw + input->raw_at;
		zlib->avail_in = (uInt)(input->raw_len - input->raw_at);
		int result = inflate(zlib, Z_NO_FLUSH);
		input->raw_at = input->raw_len - zlib->avail_in;
		if (result == Z_STREAM_END) {
			inflateReset(zlib);
			input->is_within = false;
		} else if (result == Z_MEM_ERROR) {
			return error_nomem(err);
		} else if (result != Z_OK && result != Z_BUF_ERROR) {
			return error_set(err, -EBADMSG, "%s: corrupt gzip data", input->name);
		}
	}
	return (ssize_t)(len - zlib->avail_out);
}

static ssize_t read_zstd(struct input *input, void *data, size_t len, struct error *err)
{
	ZSTD_outBuffer to = {data, len, 0};
	while (to.pos == 0) {
		int r = fill_raw(input, err);
		if (r < 0)
			return r;
		if (input->at_end && !input->is_within)
			return 0;
		ZSTD_inBuffer from = {input->raw, input->raw_len, input->raw_at};
		size_t left = ZSTD_decompressStream(input->zstd, &to, &from);
		if (ZSTD_isError(left) && ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
			return error_nomem(err);
		if (ZSTD_isError(left))
			return error_set(err, -EBADMSG, "%s: corrupt zstd data: %s", input->name, ZSTD_getErrorName(left));
		if (input->at_end && to.pos == 0)
			return error_set(err, -EBADMSG, "%s: truncated zstd data", input->name);
		input->raw_at = from.pos;
		input->is_within = left > 0;
	}
	return (ssize_t)to.pos;
}

static ssize_t read_plain(struct input *input, void *data, size_t len, struct error *err)
{
	size_t left = input->raw_len - input->raw_at, n = left < len ? left : len;
	if (left == 0)
		return read_source(input, data, len, err);
	memcpy(data, input->raw + input->raw_at, n);
	input->raw_at += n;
	return (ssize_t)n;
}

ssize_t input_read(struct input *input, void *data, size_t len, struct error *err)
{
	if (len > RAW_BYTES * 16)
		len = RAW_BYTES * 16;
	ssize_t n = input->packing == GZIP   ? read_gzip(input, data, len, err)
		    : input->packing == ZSTD ? read_zstd(input, data, len, err)
					     : read_plain(input, data, len, err);
	if (n > 0 && (input->made += (uint64_t)n) > input->max)
		return error_set(err, -E2BIG, "%s: longer than %llu bytes after decompression", input->name,
				 (unsigned long long)input->max);
	return n;
}
