/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for code made at run time, from any bytes and any address in them: the first four bytes of the input say which. */
#include <stdlib.h>
#include <string.h>

#include "elf/code/live_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_row(const struct live_code *live, size_t i, size_t size)
{
	const struct live_code_row *row = &live->rows[i];
	const struct unwind_rule *rule = &row->rule;

	require(row->len >= 1 && row->offset >= live->start && row->offset + row->len <= live->end && live->end <= size);
	require(i == 0 || live->rows[i - 1].offset < row->offset);
	if (rule->cfa == UNWIND_CFA_FRAMES)
		return;
	require(live->proven && rule->cfa == (UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED));
	require(rule->cfa_register < UNWIND_REGISTERS && rule->ra == UNWIND_WHERE_CFA && rule->ra_offset == -8);
	require(rule->fp == UNWIND_WHERE_SAME || rule->fp == UNWIND_WHERE_CFA || rule->fp == UNWIND_WHERE_LOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct live_code live;
	uint32_t at;

	if (size < sizeof(at))
		return 0;
	memcpy(&at, data, sizeof(at));
	data += sizeof(at);
	size -= sizeof(at);
	at = size ? at % (uint32_t)size : 0;
	int r = live_code_analyse(data, size, 0x7f0000000000ull, at, &live);
	require(r == 0 || live.count == 0);
	require(live.count <= LIVE_CODE_ROWS_MAX);
	bool has_asked = false;
	for (size_t i = 0; i < live.count; i++) {
		check_row(&live, i, size);
		has_asked = has_asked || live.rows[i].offset == at;
	}
	require(live.count == 0 || has_asked);
	live_code_release(&live);
	return 0;
}
