// SPDX-License-Identifier: Apache-2.0
#include "base/decimal.h"
#include "base/text.h"

#define FRACTION_ONE 1000000000000000000ull

bool decimal_scan(const char **at, struct decimal *ret)
{
	struct decimal decimal = {0};
	const char *p = *at;
	for (; text_is_digit((uint8_t)*p); p++, decimal.whole_digits++)
		if (__builtin_mul_overflow(decimal.whole, 10, &decimal.whole) ||
		    __builtin_add_overflow(decimal.whole, (uint64_t)(*p - '0'), &decimal.whole))
			return false;
	if (decimal.whole_digits == 0)
		return false;
	if (*p == '.') {
		p++;
		if (!text_is_digit((uint8_t)*p))
			return false;
		decimal.has_fraction = true;
		uint64_t place = FRACTION_ONE;
		for (; text_is_digit((uint8_t)*p); p++) {
			place /= 10;
			decimal.fraction += place * (uint64_t)(*p - '0');
		}
	}
	*at = p;
	*ret = decimal;
	return true;
}

bool decimal_scale(struct decimal decimal, uint64_t unit, uint64_t *ret)
{
	uint64_t whole, part = (uint64_t)((unsigned __int128)decimal.fraction * unit / FRACTION_ONE);
	return !__builtin_mul_overflow(decimal.whole, unit, &whole) && !__builtin_add_overflow(whole, part, ret);
}
