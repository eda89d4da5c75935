/* SPDX-License-Identifier: Apache-2.0 */
/* gzip and zstd over whole buffers, and gzip in pieces; LZ4 frames to read. Output sizes are always capped by the buffer's
 * maximum: a small input may not become a large one. */
#ifndef WICK_CODEC_COMPRESS_H
#define WICK_CODEC_COMPRESS_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

/* Our memory for a z_stream. */
void *compress_alloc_for_zlib(void *context, unsigned count, unsigned size);
void compress_free_for_zlib(void *context, void *ptr);

bool gzip_detect(struct bytes input);
bool zstd_detect(struct bytes input);
/* Appends the decompressed bytes (all members / frames). -EBADMSG: corrupt, truncated, CRC error, trailing garbage; -E2BIG:
 * past out->max. */
int gzip_decompress(struct bytes input, struct buffer *out, struct error *err);
int gzip_compress(struct bytes input, int level, struct buffer *out, struct error *err); /* level 1..12 */
/* Compresses bit by bit, one member in all: what of the output is ready is appended. `last` ends it. */
struct gzip_stream;
int gzip_stream_new(int level, struct gzip_stream **ret, struct error *err); /* level 1..9 */
int gzip_stream_write(struct gzip_stream *stream, struct bytes input, bool last, struct buffer *out, struct error *err);
struct gzip_stream *gzip_stream_free(struct gzip_stream *stream); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(gzip_stream_free, struct gzip_stream);
int zstd_decompress(struct bytes input, struct buffer *out, struct error *err);
/* A frame that comes in parts, of which each is flushed: appends what this part holds. *context begins as NULL and is to be
 * released; after an error it is of no use here. 1: the frame goes on behind this part, 0: it is whole. -EBADMSG corrupt,
 * -E2BIG past out->max. */
struct zstd_stream;
int zstd_stream_decompress(struct zstd_stream **context, struct bytes part, struct buffer *out, struct error *err);
void zstd_stream_release(struct zstd_stream **context);
/* One whole frame of zstd or LZ4 (LZ4's frame format) that must come to exactly `len` bytes, into `out`, which has room for
 * them. -EBADMSG otherwise, or corrupt; -ENOMEM. *context: as above, for one frame after the other, also after errors: to make
 * one costs as much as a hundred small frames. */
int zstd_decompress_exactly(struct zstd_stream **context, struct bytes input, uint8_t *out, size_t len, struct error *err);
int lz4_decompress_exactly(struct bytes input, uint8_t *out, size_t len, struct error *err);

#endif
