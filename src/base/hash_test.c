// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"

/* Reference values of XXH3 with seed 0 (xxhsum -H3 and -H128): stored blocks depend on them. */
static void test_values_never_change(void **state)
{
	assert_true(hash64(NULL, 0) == 0x2d06800538d394c2ull);
	struct hash128 empty = hash128(NULL, 0);
	assert_true(empty.high == 0x99aa06d3014798d8ull);
	assert_true(empty.low == 0x6001c324468d497full);
	assert_true(hash64("wick", 4) == 0x92e2897c7928f07bull);
	struct hash128 word = hash128("wick", 4);
	assert_true(word.high == 0x89498d424d0851ebull);
	assert_true(word.low == 0xc677c9047fc3e4d8ull);
	uint8_t block[1000];
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 7);
	assert_true(hash64(block, sizeof(block)) == 0x10ad30264426c830ull);
	struct hash128 long_hash = hash128(block, sizeof(block));
	assert_true(long_hash.high == 0xabee229cdadad76dull);
	assert_true(long_hash.low == 0x10ad30264426c830ull);
}

static void test_seed_matters(void **state)
{
	assert_true(hash64_seed("wick", 4, 0) == hash64("wick", 4));
	assert_true(hash64_seed("wick", 4, 1) != hash64("wick", 4));
}

static void test_mix_spreads_low_and_high_bits(void **state)
{
	assert_true(hash64_mix(0) == 0);
	uint8_t low[256] = {0}, high[256] = {0};
	size_t low_seen = 0, high_seen = 0;
	for (uint64_t i = 1; i <= 2048; i++) {
		uint8_t *l = &low[hash64_mix(i) & 255], *h = &high[hash64_mix(i << 48) & 255];
		low_seen += !*l;
		high_seen += !*h;
		*l = *h = 1;
	}
	assert_true(low_seen > 240);
	assert_true(high_seen > 240);
}

static void test_a_file_hashes_like_its_bytes(void **state)
{
	static uint8_t data[600 * 1024 + 7]; /* more than two pieces */
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	int fd = memfd_create("test", MFD_CLOEXEC);
	for (size_t len = 0; len <= sizeof(data); len += len < 3 ? 1 : sizeof(data) - 3) {
		struct hash128 whole = hash128(data, len), file;
		assert_int_equal(pwrite(fd, data, len, 0), len);
		assert_int_equal(hash128_file(fd, "test", &file, NULL), 0);
		assert_true(whole.high == file.high && whole.low == file.low);
	}
	struct hash128 unused;
	close(fd);
	assert_int_equal(hash128_file(fd, "test", &unused, NULL), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_never_change),
		cmocka_unit_test(test_seed_matters),
		cmocka_unit_test(test_mix_spreads_low_and_high_bits),
		cmocka_unit_test(test_a_file_hashes_like_its_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
