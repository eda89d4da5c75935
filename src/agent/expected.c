// SPDX-License-Identifier: Apache-2.0
#include "agent/expected.h"

static struct expected_process *place_of(struct expected *expected, pid_t pid)
{
	for (size_t i = 0; i < expected->count; i++)
		if (expected->items[i].pid == pid)
			return &expected->items[i];
	return expected->count < EXPECTED_MAX ? &expected->items[expected->count++] : NULL;
}

bool expected_add(struct expected *expected, pid_t pid, uint32_t id, int64_t started_ns, int64_t now_ns)
{
	int64_t age_ns = now_ns - started_ns, delay_ns = age_ns / 2 > EXPECTED_LOOK_NS ? age_ns / 2 : EXPECTED_LOOK_NS;
	struct expected_process *place = age_ns < EXPECTED_FOR_NS ? place_of(expected, pid) : NULL;

	if (place)
		*place = (struct expected_process){.pid = pid, .id = id, .due_ns = now_ns + delay_ns};
	return place != NULL;
}

bool expected_take(struct expected *expected, int64_t now_ns, pid_t *ret_pid, uint32_t *ret_id)
{
	for (size_t i = 0; i < expected->count; i++) {
		if (expected->items[i].due_ns > now_ns)
			continue;
		*ret_pid = expected->items[i].pid;
		*ret_id = expected->items[i].id;
		expected->items[i] = expected->items[--expected->count];
		return true;
	}
	return false;
}

int64_t expected_next_ns(const struct expected *expected)
{
	int64_t next_ns = 0;

	for (size_t i = 0; i < expected->count; i++)
		if (!next_ns || expected->items[i].due_ns < next_ns)
			next_ns = expected->items[i].due_ns;
	return next_ns;
}
