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

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/io.h"
#include "codec/compress.h"

#define RAW_BYTES   (64u * 1024)
#define GZIP_WINDOW (15 + 16)		/* the largest, with a gzip header */
#define ZSTD_MAX    (64u * 1024 * 1024) /* of what one piece of RAW_BYTES may become */

enum packing { PLAIN, GZIP, ZSTD };

struct input {
	int fd; /* -1 = it is in memory */
	struct bytes memory;
	size_t memory_at;
	char *name;
	uint64_t max, made;
	enum packing packing;
	uint8_t *raw; /* RAW_BYTES */
	size_t raw_at, raw_len;
	bool at_end; /* of the file */
	z_stream zlib;
	bool has_zlib, is_within; /* is_within: a member or frame has begun */
	struct zstd_stream *zstd;
	struct buffer out; /* of zstd */
	size_t out_at;
};

static void *allocate(void *context, uInt count, uInt size)
{
	(void)context;
	return mem_alloc_array(count, size);
}

static void release(void *context, void *ptr)
{
	(void)context;
	mem_free(ptr);
}

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
	size_t left = input->memory.len - input->memory_at, n = left < len ? left : len;
	if (input->fd >= 0)
		return io_read(input->fd, data, len, input->name, err);
	if (n)
		memcpy(data, input->memory.data + input->memory_at, n);
	input->memory_at += n;
	return (ssize_t)n;
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
	int r = input_rewind(input, err);
	if (r == 0)
		r = fill_raw(input, err);
	if (r < 0)
		return r;
	struct bytes head = {input->raw, input->raw_len};
	input->packing = gzip_detect(head) ? GZIP : zstd_detect(head) ? ZSTD : PLAIN;
	if (input->packing != GZIP)
		return 0;
	input->zlib.zalloc = allocate;
	input->zlib.zfree = release;
	if (inflateInit2(&input->zlib, GZIP_WINDOW) != Z_OK)
		return error_nomem(err);
	input->has_zlib = true;
	return 0;
}

static int new_input(int fd, const char *name, uint64_t max, struct input **ret, struct error *err)
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
	buffer_init(&input->out, ZSTD_MAX);
	*ret = input;
	return 0;
}

int input_open(const char *path, uint64_t max, struct input **ret, struct error *err)
{
	bool is_standard = strcmp(path, "-") == 0;
	_cleanup_(input_freep) struct input *input = NULL;
	struct stat status;
	int fd = is_standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return is_standard ? error_set_errno(err, -errno, "cannot read standard input") : fd;
	int r = new_input(fd, is_standard ? "standard input" : path, max, &input, err);
	if (r == 0 && (is_standard || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)))
		r = spool(input, err);
	if (r == 0)
		r = detect(input, err);
	if (r < 0)
		return r;
	*ret = input;
	input = NULL;
	return 0;
}

int input_from_fd(int fd, const char *name, uint64_t max, struct input **ret, struct error *err)
{
	_cleanup_(input_freep) struct input *input = NULL;
	int r = new_input(fd, name, max, &input, err);
	if (r == 0)
		r = input_rewind(input, err);
	if (r < 0)
		return r;
	*ret = input;
	input = NULL;
	return 0;
}

int input_from_bytes(struct bytes bytes, const char *name, uint64_t max, struct input **ret, struct error *err)
{
	_cleanup_(input_freep) struct input *input = NULL;
	int r = new_input(-1, name, max, &input, err);
	if (r < 0)
		return r;
	input->memory = bytes;
	r = detect(input, err);
	if (r < 0)
		return r;
	*ret = input;
	input = NULL;
	return 0;
}

int input_rewind(struct input *input, struct error *err)
{
	input->memory_at = 0;
	if (input->fd >= 0 && lseek(input->fd, 0, SEEK_SET) < 0)
		return error_set_errno(err, -errno, "%s: cannot seek to the start", input->name);
	input->raw_at = input->raw_len = input->out_at = 0;
	input->made = 0;
	input->at_end = input->is_within = false;
	buffer_clear(&input->out);
	zstd_stream_release(&input->zstd);
	input->zstd = NULL;
	if (input->has_zlib)
		inflateReset(&input->zlib);
	return 0;
}

struct input *input_free(struct input *input)
{
	if (!input)
		return NULL;
	io_close(input->fd);
	if (input->has_zlib)
		inflateEnd(&input->zlib);
	zstd_stream_release(&input->zstd);
	buffer_release(&input->out);
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
	while (input->out_at == input->out.len) {
		int r = fill_raw(input, err);
		if (r < 0)
			return r;
		if (input->at_end)
			return input->is_within ? error_set(err, -EBADMSG, "%s: truncated zstd data", input->name) : 0;
		buffer_clear(&input->out);
		input->out_at = 0;
		r = zstd_stream_decompress(&input->zstd,
					   (struct bytes){input->raw + input->raw_at, input->raw_len - input->raw_at},
					   &input->out, err);
		if (r < 0)
			return error_prefix(err, r, "%s", input->name);
		input->is_within = r > 0;
		input->raw_at = input->raw_len;
	}
	size_t left = input->out.len - input->out_at, n = left < len ? left : len;
	memcpy(data, input->out.data + input->out_at, n);
	input->out_at += n;
	return (ssize_t)n;
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
