/* SPDX-License-Identifier: Apache-2.0 */
/* What only tests compress with. */
#ifndef WICK_CODEC_TEST_COMPRESS_H
#define WICK_CODEC_TEST_COMPRESS_H

#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/fault.h"
#include "codec/compress.h"

static inline int test_zstd_compress(struct bytes input, int level, struct buffer *out, struct error *err)
{
	if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
		return error_set(err, -EINVAL, "zstd level %d is not in %d..%d", level, ZSTD_minCLevel(), ZSTD_maxCLevel());
	size_t left = out->max - out->len, bound = ZSTD_compressBound(input.len), made = 0;
	if (buffer_reserve(out, bound < left ? bound : left) < 0)
		return error_nomem(err);
	size_t room = out->capacity - out->len < left ? out->capacity - out->len : left;
	ZSTD_CCtx *context = fault_reached(FAULT_ALLOC) ? NULL : ZSTD_createCCtx();
	if (!context)
		return error_nomem(err);
	if (room > 0)
		made = ZSTD_compressCCtx(context, out->data + out->len, room, input.data, input.len, level);
	ZSTD_freeCCtx(context);
	if (room == 0 || ZSTD_getErrorCode(made) == ZSTD_error_dstSize_tooSmall)
		return error_set(err, -E2BIG, "zstd output exceeds its limit of %zu bytes", out->max);
	if (ZSTD_isError(made))
		return error_set(err, -ENOMEM, "zstd compression failed: %s", ZSTD_getErrorName(made));
	out->len += made;
	return 0;
}

#endif
