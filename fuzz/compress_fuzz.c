/* SPDX-License-Identifier: Apache-2.0 */
/* gzip and zstd: decompressing anything stays within the limit; what was compressed comes back. */
#include <string.h>

#include "base/limits.h"
#include "codec/test_compress.h"

typedef int (*codec_fn)(struct bytes input, struct buffer *out, struct error *err);

static void check_decompress(codec_fn decompress, struct bytes input)
{
	struct buffer out;
	buffer_init(&out, MIB);
	int r = decompress(input, &out, NULL);
	if (out.len > MIB || (r < 0 && out.len != 0))
		__builtin_trap();
	buffer_release(&out);
}

static void check_round_trip(int (*compress)(struct bytes input, int level, struct buffer *out, struct error *err),
			     codec_fn decompress, struct bytes input)
{
	struct buffer packed, back;
	buffer_init(&packed, 16 * MIB);
	buffer_init(&back, input.len);
	if (compress(input, 1, &packed, NULL) < 0 || decompress(buffer_bytes(&packed), &back, NULL) < 0 ||
	    !bytes_equal(buffer_bytes(&back), input))
		__builtin_trap();
	buffer_release(&packed);
	buffer_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size};
	check_decompress(gzip_decompress, input);
	check_decompress(zstd_decompress, input);
	check_round_trip(gzip_compress, gzip_decompress, input);
	check_round_trip(test_zstd_compress, zstd_decompress, input);
	return 0;
}
