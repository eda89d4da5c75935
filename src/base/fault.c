// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

struct fault {
	_Atomic bool armed, reached;
	_Atomic uint64_t calls;
	_Atomic uint64_t nth;
	_Atomic unsigned flags;
};

static struct fault faults[FAULT_KIND_COUNT];
static const char *const kind_names[FAULT_KIND_COUNT] = {
	[FAULT_ALLOC] = "alloc", [FAULT_OPEN] = "open", [FAULT_READ] = "read",
	[FAULT_WRITE] = "write", [FAULT_SYNC] = "sync", [FAULT_RENAME] = "rename",
};

atomic_bool fault_armed_any;

static void update_armed_any(void)
{
	bool any = false;
	for (int kind = 0; kind < FAULT_KIND_COUNT; kind++)
		any |= faults[kind].armed;
	atomic_store_explicit(&fault_armed_any, any, memory_order_seq_cst);
}

void fault_arm(enum fault_kind kind, uint64_t nth, unsigned flags)
{
	assert(kind < FAULT_KIND_COUNT && nth > 0);
	struct fault *fault = &faults[kind];
	fault->armed = false;
	fault->reached = false;
	fault->calls = 0;
	fault->nth = nth;
	fault->flags = flags;
	fault->armed = true;
	update_armed_any();
}

bool fault_disarm(enum fault_kind kind)
{
	assert(kind < FAULT_KIND_COUNT);
	faults[kind].armed = false;
	update_armed_any();
	return faults[kind].reached;
}

bool fault_reached_slow(enum fault_kind kind)
{
	struct fault *fault = &faults[kind];
	if (!fault->armed)
		return false;
	uint64_t call = atomic_fetch_add(&fault->calls, 1) + 1;
	unsigned flags = fault->flags;
	if (call < fault->nth || (call > fault->nth && !(flags & FAULT_STICKY)))
		return false;
	/* 137 is what a shell reports for a process killed by SIGKILL, the crash that this stands for. */
	if (flags & FAULT_EXIT)
		_exit(137);
	fault->reached = true;
	return true;
}

static int parse_kind(const char *name, enum fault_kind *ret)
{
	for (int kind = 0; kind < FAULT_KIND_COUNT; kind++) {
		if (!strcmp(name, kind_names[kind])) {
			*ret = kind;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_flags(char *rest, unsigned *ret)
{
	unsigned flags = 0;
	while (rest) {
		char *word = strsep(&rest, ":");
		if (!strcmp(word, "sticky"))
			flags |= FAULT_STICKY;
		else if (!strcmp(word, "exit"))
			flags |= FAULT_EXIT;
		else
			return -EINVAL;
	}
	*ret = flags;
	return 0;
}

int fault_arm_from_environment(struct error *err)
{
	const char *setting = getenv("WICK_FAULT");
	if (!setting || !*setting)
		return 0;
	char copy[64];
	enum fault_kind kind;
	uint64_t nth;
	unsigned flags;
	size_t len = strlen(setting);
	if (len >= sizeof(copy))
		goto malformed;
	memcpy(copy, setting, len + 1);
	char *rest = copy;
	const char *kind_text = strsep(&rest, ":");
	const char *nth_text = rest ? strsep(&rest, ":") : NULL;
	if (!nth_text || parse_kind(kind_text, &kind) < 0 || text_parse_u64(nth_text, &nth, NULL) < 0 || nth == 0 ||
	    parse_flags(rest, &flags) < 0)
		goto malformed;
	fault_arm(kind, nth, flags);
	return 0;
malformed:
	return error_set(
		err, -EINVAL,
		"WICK_FAULT=\"%s\" is not KIND:N[:sticky][:exit] with KIND one of alloc, open, read, write, sync, rename",
		setting);
}
