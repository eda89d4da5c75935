/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole buffers in, whole buffers out. libdeflate needs the output in one piece and does not resume, but is 2-3 times as fast
 * as zlib; when the size is not known beforehand the output grows by doubling and the member that did not fit is done again,
 * which costs at most one extra pass in sum. A streaming inflate (zlib) was rejected for that reason: bodies are bounded and in
 * memory anyway. Output that nobody wants to hold as a whole is compressed in pieces, by zlib.
 *
 * Sizes that the input declares (gzip's ISIZE, zstd's content size) are hints from a stranger: they are clamped to what
 * the compressed length could possibly expand to before memory is taken for them.
 */
#include "codec/compress.h"

#include <errno.h>
#include <libdeflate.h>
#include <lz4frame.h>
#include <pthread.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/fault.h"

#define GROW_MIN 4096u
/* A deflate stream cannot expand beyond 1032:1; a zstd RLE block makes 128 KiB of 4 bytes. */
#define GZIP_EXPANSION_MAX 1032u
#define ZSTD_EXPANSION_MAX (32u * 1024)
#define GZIP_TRAILER_BYTES 8u
#define GZIP_WINDOW	   (15 + 16) /* 32 KiB, with gzip's header */
#define GZIP_MEMORY_LEVEL  8
#define GZIP_PART_BYTES	   (1u << 30) /* zlib counts in 32 bits */

bool gzip_detect(struct bytes input)
{
	return input.len >= 3 && input.data[0] == 0x1f && input.data[1] == 0x8b && input.data[2] == 8;
}

static uint32_t load_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A frame, or a skippable frame as parallel compressors put first. */
bool zstd_detect(struct bytes input)
{
	if (input.len < 4)
		return false;
	uint32_t magic = load_le32(input.data);
	return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

static void free_for_libdeflate(void *ptr)
{
	mem_free(ptr);
}

static void set_allocator(void)
{
	libdeflate_set_memory_allocator(mem_alloc, free_for_libdeflate);
}

static void use_our_allocator(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, set_allocator);
}

static int too_large(const struct buffer *out, struct error *err)
{
	return error_set(err, -E2BIG, "exceeds the limit of %zu bytes after decompression", out->max);
}

/* Room for `wanted` more bytes, or for what the maximum still allows. */
static int reserve_upto(struct buffer *out, size_t wanted, struct error *err)
{
	size_t left = out->max > out->len ? out->max - out->len : 0;
	if (buffer_reserve(out, wanted < left ? wanted : left) < 0)
		return error_nomem(err);
	return 0;
}

/* Doubles the room behind out->len; -E2BIG when the maximum is reached already. */
static int grow_output(struct buffer *out, struct error *err)
{
	size_t left = out->max > out->len ? out->max - out->len : 0;
	size_t room = out->capacity - out->len;
	if (room >= left)
		return too_large(out, err);
	size_t wanted = out->capacity < GROW_MIN ? GROW_MIN : out->capacity;
	return reserve_upto(out, room + wanted, err);
}

/* Room that may be written: the buffer may own one byte beyond its maximum. */
static size_t room_of(const struct buffer *out)
{
	size_t left = out->max > out->len ? out->max - out->len : 0;
	size_t room = out->capacity - out->len;
	return room < left ? room : left;
}

static size_t clamp_hint(uint64_t hint, size_t input_len, size_t expansion)
{
	size_t bound;
	if (__builtin_mul_overflow(input_len, expansion, &bound))
		bound = SIZE_MAX;
	return hint < bound ? (size_t)hint : bound;
}

/* Members one after the other until the input ends. */
static int gunzip_members(struct libdeflate_decompressor *inflater, struct bytes input, struct buffer *out, struct error *err)
{
	size_t at = 0;
	while (at < input.len) {
		size_t used = 0, made = 0;
		/* libdeflate wants a pointer even when there is no room. */
		uint8_t nothing;
		uint8_t *to = out->data ? out->data + out->len : &nothing;
		enum libdeflate_result result = libdeflate_gzip_decompress_ex(inflater, input.data + at, input.len - at, to,
									      room_of(out), &used, &made);
		if (result == LIBDEFLATE_SUCCESS) {
			at += used;
			out->len += made;
			continue;
		}
		if (result != LIBDEFLATE_INSUFFICIENT_SPACE)
			return error_set(err, -EBADMSG,
					 at ? "trailing garbage after the gzip data at byte %zu, or a corrupt member"
					    : "corrupt or truncated gzip data (member at byte %zu)",
					 at);
		int r = grow_output(out, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int gzip_decompress(struct bytes input, struct buffer *out, struct error *err)
{
	size_t before = out->len;
	if (!gzip_detect(input) || input.len < GZIP_TRAILER_BYTES)
		return error_set(err, -EBADMSG, "not gzip data: it does not start with 1f 8b 08");
	use_our_allocator();
	size_t hint = clamp_hint(load_le32(input.data + input.len - 4), input.len, GZIP_EXPANSION_MAX);
	int r = reserve_upto(out, hint, err);
	if (r < 0)
		return r;
	struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
	if (!inflater)
		return error_nomem(err);
	r = gunzip_members(inflater, input, out, err);
	libdeflate_free_decompressor(inflater);
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}

/* More than this is compressed in pieces of it where it may have to end in the middle: at level 4 each takes some 15 ms. */
#define POLLED_BYTES ((size_t)1024 * 1024)

static int compress_polled(struct bytes input, int level, struct buffer *out, struct error *err)
{
	_cleanup_(gzip_stream_freep) struct gzip_stream *stream = NULL;
	int r = gzip_stream_new(level < 9 ? level : 9, &stream, err);
	for (bool last = false; r == 0 && !last;) {
		last = input.len <= POLLED_BYTES;
		struct bytes piece = {input.data, last ? input.len : POLLED_BYTES};
		r = budget_look() ? error_nomem(err) : gzip_stream_write(stream, piece, last, out, err);
		input = bytes_skip(input, piece.len);
	}
	return r;
}

int gzip_compress(struct bytes input, int level, struct buffer *out, struct error *err)
{
	if (level < 1 || level > 12)
		return error_set(err, -EINVAL, "gzip level %d is not in 1..12", level);
	if (budget_current() && input.len > 2 * POLLED_BYTES)
		return compress_polled(input, level, out, err);
	use_our_allocator();
	struct libdeflate_compressor *deflater = libdeflate_alloc_compressor(level);
	if (!deflater)
		return error_nomem(err);
	int r = reserve_upto(out, libdeflate_gzip_compress_bound(deflater, input.len), err);
	if (r == 0) {
		size_t made = 0;
		if (room_of(out) > 0)
			made = libdeflate_gzip_compress(deflater, input.data ? input.data : (const uint8_t *)"", input.len,
							out->data + out->len, room_of(out));
		out->len += made;
		if (made == 0)
			r = error_set(err, -E2BIG, "gzip output exceeds its limit of %zu bytes", out->max);
	}
	libdeflate_free_compressor(deflater);
	return r;
}

struct gzip_stream {
	z_stream zlib;
};

void *compress_alloc_for_zlib(void *context, unsigned count, unsigned size)
{
	return mem_alloc_array(count, size);
}

void compress_free_for_zlib(void *context, void *ptr)
{
	mem_free(ptr);
}

int gzip_stream_new(int level, struct gzip_stream **ret, struct error *err)
{
	if (level < 1 || level > 9)
		return error_set(err, -EINVAL, "gzip level %d is not in 1..9", level);
	struct gzip_stream *stream = mem_zalloc(sizeof(*stream));
	if (!stream)
		return error_nomem(err);
	stream->zlib.zalloc = compress_alloc_for_zlib;
	stream->zlib.zfree = compress_free_for_zlib;
	if (deflateInit2(&stream->zlib, level, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
		mem_free(stream);
		return error_nomem(err);
	}
	*ret = stream;
	return 0;
}

int gzip_stream_write(struct gzip_stream *stream, struct bytes input, bool last, struct buffer *out, struct error *err)
{
	z_stream *zlib = &stream->zlib;
	uint8_t nothing = 0;
	do {
		size_t part = input.len < GZIP_PART_BYTES ? input.len : GZIP_PART_BYTES;
		bool is_end = last && part == input.len;
		zlib->next_in = (Bytef *)(part ? input.data : &nothing);
		zlib->avail_in = (uInt)part;
		int result = Z_OK;
		while (is_end ? result != Z_STREAM_END : zlib->avail_in > 0) {
			if (buffer_reserve(out, GROW_MIN) < 0)
				return out->max - out->len < GROW_MIN
					       ? error_set(err, -E2BIG, "gzip output exceeds its limit of %zu bytes", out->max)
					       : error_nomem(err);
			size_t room = room_of(out) < GZIP_PART_BYTES ? room_of(out) : GZIP_PART_BYTES;
			zlib->next_out = out->data + out->len;
			zlib->avail_out = (uInt)room;
			result = deflate(zlib, is_end ? Z_FINISH : Z_NO_FLUSH);
			out->len += room - zlib->avail_out;
		}
		input = (struct bytes){input.data + part, input.len - part};
	} while (input.len > 0);
	return 0;
}

struct gzip_stream *gzip_stream_free(struct gzip_stream *stream)
{
	if (stream)
		deflateEnd(&stream->zlib);
	return mem_free(stream);
}

/* One frame at the start of input; *ret_used bytes long. */
static int unzstd_frame(ZSTD_DCtx *context, struct bytes input, struct buffer *out, size_t *ret_used, struct error *err)
{
	size_t used = ZSTD_findFrameCompressedSize(input.data, input.len);
	if (ZSTD_isError(used))
		return error_set(err, -EBADMSG, "corrupt or truncated zstd data: %s", ZSTD_getErrorName(used));
	unsigned long long declared = ZSTD_getFrameContentSize(input.data, input.len);
	bool known = declared != ZSTD_CONTENTSIZE_UNKNOWN && declared != ZSTD_CONTENTSIZE_ERROR;
	int r = 0;
	if (known && declared > out->max - out->len)
		return too_large(out, err);
	r = reserve_upto(out, clamp_hint(known ? declared : used * 4ull, used, ZSTD_EXPANSION_MAX), err);
	while (r == 0) {
		uint8_t nothing;
		uint8_t *to = out->data ? out->data + out->len : &nothing;
		size_t made = ZSTD_decompressDCtx(context, to, room_of(out), input.data, used);
		if (!ZSTD_isError(made)) {
			out->len += made;
			*ret_used = used;
			return 0;
		}
		if (ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation)
			return error_nomem(err);
		if (ZSTD_getErrorCode(made) != ZSTD_error_dstSize_tooSmall)
			return error_set(err, -EBADMSG, "corrupt zstd data: %s", ZSTD_getErrorName(made));
		r = grow_output(out, err);
	}
	return r;
}

int zstd_decompress(struct bytes input, struct buffer *out, struct error *err)
{
	size_t before = out->len;
	if (!zstd_detect(input))
		return error_set(err, -EBADMSG, "not zstd data: it does not start with 28 b5 2f fd");
	if (out->len > out->max)
		return too_large(out, err);
	ZSTD_DCtx *context = fault_reached(FAULT_ALLOC) ? NULL : ZSTD_createDCtx();
	if (!context)
		return error_nomem(err);
	int r = 0;
	while (r == 0 && input.len > 0) {
		size_t used = 0;
		r = unzstd_frame(context, input, out, &used, err);
		if (r == 0)
			input = (struct bytes){input.data + used, input.len - used};
	}
	ZSTD_freeDCtx(context);
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}

static ZSTD_DCtx *zstd_stream_context(struct zstd_stream **context)
{
	if (!*context)
		*context = fault_reached(FAULT_ALLOC) ? NULL : (struct zstd_stream *)ZSTD_createDCtx();
	return (ZSTD_DCtx *)*context;
}

int zstd_stream_decompress(struct zstd_stream **context, struct bytes part, struct buffer *out, struct error *err)
{
	ZSTD_DCtx *zstd = zstd_stream_context(context);
	if (!zstd)
		return error_nomem(err);
	ZSTD_inBuffer in = {part.data, part.len, 0};
	bool is_within = false;
	for (;;) {
		if (room_of(out) == 0) {
			int r = grow_output(out, err);
			if (r < 0)
				return r;
		}
		ZSTD_outBuffer to = {out->data + out->len, room_of(out), 0};
		size_t before = in.pos, r = ZSTD_decompressStream(zstd, &to, &in);
		out->len += to.pos;
		if (ZSTD_isError(r) && ZSTD_getErrorCode(r) == ZSTD_error_memory_allocation)
			return error_nomem(err);
		if (ZSTD_isError(r))
			return error_set(err, -EBADMSG, "corrupt zstd data: %s", ZSTD_getErrorName(r));
		/* A call that did nothing says how much of the next frame it would like. */
		if (in.pos > before || to.pos > 0)
			is_within = r > 0;
		/* Room that is left means that there is nothing more to be flushed. */
		if (in.pos == in.size && to.pos < to.size)
			return is_within;
	}
}

void zstd_stream_release(struct zstd_stream **context)
{
	ZSTD_freeDCtx((ZSTD_DCtx *)*context);
	*context = NULL;
}

int zstd_decompress_exactly(struct zstd_stream **context, struct bytes input, uint8_t *out, size_t len, struct error *err)
{
	ZSTD_DCtx *zstd = zstd_stream_context(context);
	if (!zstd)
		return error_nomem(err);
	size_t r = ZSTD_decompressDCtx(zstd, out, len, input.data, input.len);
	return !ZSTD_isError(r) && r == len ? 0
					    : error_set(err, -EBADMSG, "corrupt zstd data, or its size is not %zu bytes", len);
}

int lz4_decompress_exactly(struct bytes input, uint8_t *out, size_t len, struct error *err)
{
	LZ4F_dctx *context = NULL;
	size_t done = 0, more = 1;
	if (fault_reached(FAULT_ALLOC) || LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
		return error_nomem(err);
	while (more && input.len > 0) {
		size_t room = len - done, used = input.len;
		more = LZ4F_decompress(context, out + done, &room, input.data, &used, NULL);
		if (LZ4F_isError(more) || (room == 0 && used == 0))
			break;
		done += room;
		input = (struct bytes){input.data + used, input.len - used};
	}
	LZ4F_freeDecompressionContext(context);
	/* 0: the frame is complete. */
	return more == 0 && input.len == 0 && done == len
		       ? 0
		       : error_set(err, -EBADMSG, "corrupt LZ4 data, or not one frame of %zu bytes", len);
}
