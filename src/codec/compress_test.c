/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/fault.h"
#include "base/limits.h"
#include "codec/compress.h"
#include "codec/test_compress.h"

struct codec {
	const char *name;
	int (*compress)(struct bytes input, int level, struct buffer *out, struct error *err);
	int (*decompress)(struct bytes input, struct buffer *out, struct error *err);
	bool (*detect)(struct bytes input);
};
static const struct codec codecs[] = {
	{"gzip", gzip_compress, gzip_decompress, gzip_detect},
	{"zstd", test_zstd_compress, zstd_decompress, zstd_detect},
};

/* Half noise, half repetition, the same on every run. */
static void fill(struct buffer *out, size_t len)
{
	uint32_t x = 12345;
	buffer_init(out, SIZE_MAX);
	assert_int_equal(buffer_reserve(out, len + 1), 0);
	for (size_t i = 0; i < len; i++) {
		x = x * 1103515245u + 12345u;
		out->data[i] = i % 512 < 256 ? (uint8_t)(x >> 24) : 'a';
	}
	out->len = len;
}

static void test_round_trip(void **state)
{
	static const size_t sizes[] = {0, 1, 100, 4095, 4096, 100000, 3000000};
	for (size_t c = 0; c < 2; c++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct buffer plain, packed, back;
			fill(&plain, sizes[i]);
			buffer_init(&packed, 4 * MIB);
			buffer_init(&back, sizes[i] + 1); /* the "x", and exactly what is needed */
			assert_int_equal(buffer_append(&back, "x", 1), 0);
			assert_int_equal(codecs[c].compress(buffer_bytes(&plain), 3, &packed, NULL), 0);
			assert_true(codecs[c].detect(buffer_bytes(&packed)));
			assert_int_equal(codecs[c].decompress(buffer_bytes(&packed), &back, NULL), 0);
			assert_int_equal(back.len, sizes[i] + 1);
			assert_memory_equal(back.data + 1, plain.data, sizes[i]);
			buffer_release(&back);
			if (sizes[i] > 0) {
				buffer_init(&back, sizes[i] - 1);
				assert_int_equal(codecs[c].decompress(buffer_bytes(&packed), &back, NULL), -E2BIG);
				assert_int_equal(back.len, 0);
				buffer_release(&back);
			}
			buffer_release(&packed);
			buffer_release(&plain);
		}
	}
}

/* In parts of every kind, read back by libdeflate, as one member. */
static void test_gzip_stream(void **state)
{
	static const size_t sizes[] = {0, 1, 4096, 100000, 3000000}, parts[] = {1, 1000, 70000, 4000000};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t k = sizes[i] > 4096 ? 1 : 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
			struct buffer plain, packed, back;
			struct gzip_stream *stream = NULL;
			fill(&plain, sizes[i]);
			buffer_init(&packed, 4 * MIB);
			buffer_init(&back, sizes[i]);
			assert_int_equal(gzip_stream_new(6, &stream, NULL), 0);
			for (size_t at = 0; at < sizes[i]; at += parts[k]) {
				size_t len = sizes[i] - at < parts[k] ? sizes[i] - at : parts[k];
				struct bytes part = {plain.data + at, len};
				assert_int_equal(gzip_stream_write(stream, part, false, &packed, NULL), 0);
			}
			assert_int_equal(gzip_stream_write(stream, (struct bytes){0}, true, &packed, NULL), 0);
			assert_int_equal(gzip_decompress(buffer_bytes(&packed), &back, NULL), 0);
			assert_int_equal(back.len, sizes[i]);
			if (sizes[i] > 0)
				assert_memory_equal(back.data, plain.data, sizes[i]);
			gzip_stream_free(stream);
			buffer_release(&back);
			buffer_release(&packed);
			buffer_release(&plain);
		}
	}
	struct buffer small, plain;
	struct gzip_stream *stream = NULL;
	fill(&plain, 100000);
	buffer_init(&small, 5000);
	assert_int_equal(gzip_stream_new(1, &stream, NULL), 0);
	assert_int_equal(gzip_stream_write(stream, buffer_bytes(&plain), true, &small, NULL), -E2BIG);
	gzip_stream_free(stream);
	buffer_release(&small);
	buffer_release(&plain);
	assert_int_equal(gzip_stream_new(10, &stream, NULL), -EINVAL);
}

/* Several members, whose sum the last one's declared size does not tell. */
static void test_members(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		struct buffer plain, packed, back;
		fill(&plain, 50000);
		buffer_init(&packed, 4 * MIB);
		for (int i = 0; i < 20; i++)
			assert_int_equal(
				codecs[c].compress((struct bytes){plain.data, i == 19 ? 0 : plain.len}, 1, &packed, NULL), 0);
		buffer_init(&back, 2 * MIB);
		assert_int_equal(codecs[c].decompress(buffer_bytes(&packed), &back, NULL), 0);
		assert_int_equal(back.len, 19 * plain.len);
		for (size_t i = 0; i < 19; i++)
			assert_memory_equal(back.data + i * plain.len, plain.data, plain.len);
		buffer_release(&back);
		buffer_release(&packed);
		buffer_release(&plain);
	}
}

/* What libraries other than ours wrote: zlib, and a zstd stream without a content size. */
static void test_foreign(void **state)
{
	struct buffer plain, back;
	fill(&plain, 100000);
	uint8_t *packed = malloc(200000);
	z_stream deflater = {0};
	assert_int_equal(deflateInit2(&deflater, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	deflater.next_in = plain.data;
	deflater.avail_in = 100000;
	deflater.next_out = packed;
	deflater.avail_out = 200000;
	assert_int_equal(deflate(&deflater, Z_FINISH), Z_STREAM_END);
	buffer_init(&back, MIB);
	assert_int_equal(gzip_decompress((struct bytes){packed, deflater.total_out}, &back, NULL), 0);
	assert_true(bytes_equal(buffer_bytes(&back), buffer_bytes(&plain)));
	deflateEnd(&deflater);

	ZSTD_CCtx *context = ZSTD_createCCtx();
	ZSTD_inBuffer in = {plain.data, plain.len, 0};
	ZSTD_outBuffer out = {packed, 200000, 0};
	assert_int_equal(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0);
	assert_int_equal(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0);
	ZSTD_freeCCtx(context);
	assert_true(ZSTD_getFrameContentSize(packed, out.pos) == ZSTD_CONTENTSIZE_UNKNOWN);
	buffer_clear(&back);
	assert_int_equal(zstd_decompress((struct bytes){packed, out.pos}, &back, NULL), 0);
	assert_true(bytes_equal(buffer_bytes(&back), buffer_bytes(&plain)));
	buffer_release(&back);
	buffer_release(&plain);
	free(packed);
}

/* Every truncation, every damaged byte of the data, and garbage behind it. */
static void test_damage(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		struct buffer plain, packed, back;
		struct error err;
		fill(&plain, 1000);
		buffer_init(&packed, MIB);
		buffer_init(&back, MIB);
		assert_int_equal(codecs[c].compress(buffer_bytes(&plain), 3, &packed, NULL), 0);
		for (size_t len = 0; len < packed.len; len++) {
			uint8_t *copy = malloc(len ? len : 1);
			memcpy(copy, packed.data, len);
			assert_int_equal(codecs[c].decompress((struct bytes){copy, len}, &back, &err), -EBADMSG);
			assert_int_equal(back.len, 0);
			free(copy);
		}
		assert_int_equal(buffer_append_byte(&packed, 'x'), 0);
		assert_int_equal(codecs[c].decompress(buffer_bytes(&packed), &back, &err), -EBADMSG);
		assert_true(err.message[0] != '\0');
		packed.len--;
		packed.data[packed.len - 6] ^= 0x40; /* gzip: its CRC; zstd: its data */
		if (codecs[c].decompress == gzip_decompress)
			assert_int_equal(gzip_decompress(buffer_bytes(&packed), &back, &err), -EBADMSG);
		buffer_release(&back);
		buffer_release(&packed);
		buffer_release(&plain);
	}
}

/* A small input that claims or holds a large output takes no more than the limit. */
static void test_bomb(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		struct buffer zeros, packed, back;
		struct error err;
		buffer_init(&zeros, 64 * MIB);
		assert_int_equal(buffer_reserve(&zeros, 64 * MIB), 0);
		memset(zeros.data, 0, 64 * MIB);
		zeros.len = 64 * MIB;
		buffer_init(&packed, MIB);
		assert_int_equal(codecs[c].compress(buffer_bytes(&zeros), 1, &packed, NULL), 0);
		buffer_init(&back, MIB);
		assert_int_equal(codecs[c].decompress(buffer_bytes(&packed), &back, &err), -E2BIG);
		assert_non_null(strstr(err.message, "limit of 1048576 bytes"));
		assert_true(back.capacity <= MIB + 1);
		buffer_release(&back);
		buffer_release(&packed);
		buffer_release(&zeros);
	}
}

static void test_compress_limits(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		struct buffer plain, packed;
		fill(&plain, 100000);
		buffer_init(&packed, 1000);
		assert_int_equal(codecs[c].compress(buffer_bytes(&plain), 3, &packed, NULL), -E2BIG);
		assert_int_equal(packed.len, 0);
		assert_int_equal(codecs[c].compress(buffer_bytes(&plain), 99, &packed, NULL), -EINVAL);
		buffer_release(&packed);
		buffer_init(&packed, 0);
		assert_int_equal(codecs[c].compress(buffer_bytes(&plain), 3, &packed, NULL), -E2BIG);
		buffer_release(&packed);
		buffer_release(&plain);
	}
}

static void test_faults(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		bool reached = true;
		struct buffer plain;
		fill(&plain, 20000);
		for (uint64_t n = 1; reached; n++) {
			struct buffer packed, back;
			struct error err;
			buffer_init(&packed, MIB);
			buffer_init(&back, MIB);
			fault_arm(FAULT_ALLOC, n, 0);
			int r = codecs[c].compress(buffer_bytes(&plain), 3, &packed, &err);
			if (r == 0)
				r = codecs[c].decompress(buffer_bytes(&packed), &back, &err);
			reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
			assert_int_equal(back.len, reached ? 0 : plain.len);
			buffer_release(&back);
			buffer_release(&packed);
		}
		buffer_release(&plain);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),	cmocka_unit_test(test_members), cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_gzip_stream),	cmocka_unit_test(test_damage),	cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_compress_limits), cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
