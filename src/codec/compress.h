/* SPDX-License-Identifier: Apache-2.0 */
/* gzip and zstd over whole buffers. Output sizes are always capped by the buffer's maximum: a small input may not become a
 * large one. */
#ifndef WICK_CODEC_COMPRESS_H
#define WICK_CODEC_COMPRESS_H

#include "base/buffer.h"
#include "base/error.h"

bool gzip_detect(struct bytes input);
bool zstd_detect(struct bytes input);
/* Appends the decompressed bytes (all members / frames). -EBADMSG: corrupt, truncated, CRC error, trailing garbage; -E2BIG:
 * past out->max. */
int gzip_decompress(struct bytes input, struct buffer *out, struct error *err);
int gzip_compress(struct bytes input, int level, struct buffer *out, struct error *err); /* level 1..12 */
int zstd_decompress(struct bytes input, struct buffer *out, struct error *err);
int zstd_compress(struct bytes input, int level, struct buffer *out, struct error *err);

#endif
