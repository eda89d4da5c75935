// SPDX-License-Identifier: Apache-2.0
#include "base/md5.h"

#include <string.h>

#define BLOCK 64u

/* floor(2^32 * abs(sin(i + 1))) */
static const uint32_t sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af,
	0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
	0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
	0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97,
	0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

static uint32_t rotate(uint32_t value, unsigned by)
{
	return value << by | value >> (32 - by);
}

static void add_block(uint32_t state[4], const uint8_t *block)
{
	static const uint8_t shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], words[16];

	for (unsigned i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] | (uint32_t)block[4 * i + 1] << 8 | (uint32_t)block[4 * i + 2] << 16 |
			   (uint32_t)block[4 * i + 3] << 24;
	for (unsigned i = 0; i < 64; i++) {
		unsigned round = i / 16, word = i;
		uint32_t mixed = (b & c) | (~b & d);
		if (round == 1) {
			mixed = (d & b) | (~d & c);
			word = 5 * i + 1;
		} else if (round == 2) {
			mixed = b ^ c ^ d;
			word = 3 * i + 5;
		} else if (round == 3) {
			mixed = c ^ (b | ~d);
			word = 7 * i;
		}
		uint32_t sum = a + mixed + sines[i] + words[word % 16];
		a = d;
		d = c;
		c = b;
		b += rotate(sum, shifts[round][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

void md5(const void *data, size_t len, uint8_t out[static MD5_BYTES])
{
	uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
	const uint8_t *at = data;
	uint8_t last[2 * BLOCK] = {0};
	size_t left = len;

	for (; left >= BLOCK; left -= BLOCK, at += BLOCK)
		add_block(state, at);
	if (left)
		memcpy(last, at, left);
	last[left] = 0x80;
	size_t blocks = left < BLOCK - 8 ? 1 : 2;
	for (unsigned i = 0; i < 8; i++)
		last[blocks * BLOCK - 8 + i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < blocks; i++)
		add_block(state, last + i * BLOCK);
	for (unsigned i = 0; i < MD5_BYTES; i++)
		out[i] = (uint8_t)(state[i / 4] >> (8 * (i % 4)));
}
