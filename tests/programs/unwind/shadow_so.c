/* SPDX-License-Identifier: Apache-2.0 */
/* The shared object that shadow_c opens while it runs. */
#include <stdlib.h>

#include "shadow.h"

void shadowed_entry(void (*back)(unsigned), unsigned n);

static void (*call_back)(unsigned);

SHADOWED static int shadowed_compare_loaded(const void *a, const void *b)
{
	SHADOW();
	call_back(20);
	return *(const int *)a - *(const int *)b;
}

SHADOWED void shadowed_entry(void (*back)(unsigned), unsigned n)
{
	SHADOW();
	if (n > 0) {
		shadowed_entry(back, n - 1);
		back(300);
		return;
	}
	int items[40];
	call_back = back;
	for (int i = 0; i < 40; i++)
		items[i] = rand();
	qsort(items, 40, sizeof(*items), shadowed_compare_loaded);
}
