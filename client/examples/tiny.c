/* SPDX-License-Identifier: MIT */
/* cc tiny.c $(pkg-config --cflags --libs wickmark) -o tiny && wick record -o tiny.firefox.json -- ./tiny */
#include <wickmark.h>

static struct wickmark_site step = WICKMARK_SITE("Example", "step", {"rows", "Rows", WICKMARK_INTEGER});

int main(void)
{
	volatile unsigned long sum = 0;
	for (int i = 0; i < 10; i++) {
		uint64_t begun = wickmark_begin();
		for (unsigned long k = 0; k < 10000000; k++)
			sum += k;
		wickmark_end(&step, begun, WICKMARK_VALUES(wickmark_integer(i)));
	}
	return 0;
}
