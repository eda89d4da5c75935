/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data: the fields of a sample and those at the end of other records. The order is the kernel's, perf_output_sample() and
 * __perf_event__output_id_sample() of kernel/events/core.c: a field is there if its bit is set in the sample_type of the
 * record's event, so that has to be known first. An id gives it, which stands first (PERF_SAMPLE_IDENTIFIER) or, in
 * files where all events have the same sample_type, at the same place in every record.
 */
#include <errno.h>
#include <string.h>

#include "format/perf/perf_data_int.h"

#define BRANCH_HW_INDEX (1u << 17)
#define BRANCH_COUNTERS (1u << 19)
#define BRANCH_BYTES	24
#define PAIR_BYTES	8

enum read_format {
	READ_TIME_ENABLED = 1,
	READ_TIME_RUNNING = 2,
	READ_ID = 4,
	READ_GROUP = 8,
	READ_LOST = 16,
};

const uint8_t *perf_take(struct perf_cursor *cursor, uint64_t len)
{
	const uint8_t *at = cursor->at;
	if (cursor->bad || len > perf_left(cursor)) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += len;
	return at;
}

uint16_t perf_take_u16(struct perf_cursor *cursor)
{
	const uint8_t *at = perf_take(cursor, 2);
	uint16_t value = 0;
	if (at)
		memcpy(&value, at, sizeof(value));
	return cursor->is_swapped ? __builtin_bswap16(value) : value;
}

uint32_t perf_take_u32(struct perf_cursor *cursor)
{
	const uint8_t *at = perf_take(cursor, 4);
	uint32_t value = 0;
	if (at)
		memcpy(&value, at, sizeof(value));
	return cursor->is_swapped ? __builtin_bswap32(value) : value;
}

uint64_t perf_load_u64(const uint8_t *at, bool is_swapped)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	return is_swapped ? __builtin_bswap64(value) : value;
}

uint64_t perf_take_u64(struct perf_cursor *cursor)
{
	const uint8_t *at = perf_take(cursor, 8);
	return at ? perf_load_u64(at, cursor->is_swapped) : 0;
}

struct bytes perf_text(struct perf_cursor cursor)
{
	size_t len = perf_left(&cursor);
	if (cursor.bad || len == 0)
		return (struct bytes){0};
	const uint8_t *end = memchr(cursor.at, 0, len);
	return (struct bytes){cursor.at, end ? (size_t)(end - cursor.at) : len};
}

/* ---- which event ---- */

static const struct perf_event *event_by_id(const struct perf_reader *reader, struct perf_cursor cursor, uint64_t skip)
{
	perf_take(&cursor, skip);
	uint64_t id = perf_take_u64(&cursor);
	return cursor.bad ? NULL : perf_data_event_of(reader, id);
}

static const struct perf_event *event_of_sample(const struct perf_reader *reader, const struct perf_record *record)
{
	const struct perf_event *first = reader->events;
	uint64_t type = first->sample_type;
	if (reader->event_count == 1)
		return first;
	if (type & PERF_S_IDENTIFIER)
		return event_by_id(reader, record->body, 0);
	if (!(type & PERF_S_ID))
		return first;
	uint64_t before = type & (PERF_S_IP | PERF_S_TID | PERF_S_TIME | PERF_S_ADDR);
	return event_by_id(reader, record->body, 8 * (uint64_t)__builtin_popcountll(before));
}

/* ---- samples ---- */

/* Values of counters: of the event, or of all of its group. */
static void read_counters(struct perf_cursor *body, uint64_t format, struct perf_sample *ret)
{
	uint64_t times = 8 * (uint64_t)(!!(format & READ_TIME_ENABLED) + !!(format & READ_TIME_RUNNING)), count = 1;
	uint64_t each = 8 * (uint64_t)(1 + !!(format & READ_ID) + !!(format & READ_LOST)), id = 8;
	if (format & READ_GROUP) {
		count = perf_take_u64(body);
		perf_take(body, times);
	} else {
		each += times;
		id += times;
	}
	if (count > perf_left(body) / each)
		body->bad = true;
	const uint8_t *values = perf_take(body, count * each);
	ret->has_read = true;
	if (!values || !(format & READ_ID))
		return;
	ret->reads = values;
	ret->read_count = count;
	ret->read_bytes = each;
	ret->read_id = id;
}

static void skip_branches(struct perf_cursor *body, const struct perf_event *event, struct perf_sample *ret)
{
	uint64_t count = perf_take_u64(body);
	uint64_t each = BRANCH_BYTES + (event->branch_sample_type & BRANCH_COUNTERS ? 8 : 0);
	if (event->branch_sample_type & BRANCH_HW_INDEX)
		perf_take_u64(body);
	if (count > perf_left(body) / each)
		body->bad = true;
	perf_take(body, count * each);
	ret->has_branches = count > 0;
}

/* What follows the call chain, up to the copy of the stack. */
static void read_middle(struct perf_cursor *body, const struct perf_event *event, struct perf_sample *ret)
{
	uint64_t type = event->sample_type;
	if (type & PERF_S_RAW) {
		uint32_t len = perf_take_u32(body);
		perf_take(body, len);
		ret->has_raw = len > 0;
	}
	if (type & PERF_S_BRANCH_STACK)
		skip_branches(body, event, ret);
	if (type & PERF_S_REGS_USER) {
		ret->registers_abi = perf_take_u64(body);
		if (ret->registers_abi)
			ret->registers = perf_take(body, 8 * (uint64_t)__builtin_popcountll(event->regs_user));
	}
	if (type & PERF_S_STACK_USER) {
		uint64_t size = perf_take_u64(body);
		const uint8_t *stack = perf_take(body, size);
		uint64_t used = size ? perf_take_u64(body) : 0;
		if (stack)
			ret->stack = (struct bytes){stack, used < size ? used : size};
		ret->stack_is_cut = used >= size;
	}
}

static void read_rest(struct perf_cursor *body, const struct perf_event *event, struct perf_sample *ret)
{
	uint64_t type = event->sample_type;
	if (type & (PERF_S_WEIGHT | PERF_S_WEIGHT_STRUCT))
		perf_take_u64(body);
	if (type & PERF_S_DATA_SRC)
		perf_take_u64(body);
	if (type & PERF_S_TRANSACTION)
		perf_take_u64(body);
	if ((type & PERF_S_REGS_INTR) && perf_take_u64(body))
		perf_take(body, 8 * (uint64_t)__builtin_popcountll(event->regs_intr));
	if (type & PERF_S_PHYS_ADDR)
		perf_take_u64(body);
	if (type & PERF_S_CGROUP)
		ret->cgroup = perf_take_u64(body);
	if (type & PERF_S_DATA_PAGE_SIZE)
		perf_take_u64(body);
	if (type & PERF_S_CODE_PAGE_SIZE)
		perf_take_u64(body);
	if (type & PERF_S_AUX)
		perf_take(body, perf_take_u64(body));
	ret->has_memory = type & (PERF_S_ADDR | PERF_S_WEIGHT | PERF_S_WEIGHT_STRUCT | PERF_S_DATA_SRC | PERF_S_TRANSACTION);
}

static void read_first(struct perf_cursor *body, const struct perf_event *event, struct perf_sample *ret)
{
	uint64_t type = event->sample_type;
	if (type & PERF_S_IDENTIFIER)
		perf_take_u64(body);
	if (type & PERF_S_IP)
		ret->ip = perf_take_u64(body);
	if (type & PERF_S_TID) {
		ret->pid = perf_take_u32(body);
		ret->tid = perf_take_u32(body);
	}
	if (type & PERF_S_TIME)
		ret->time = perf_take_u64(body);
	if (type & PERF_S_ADDR)
		perf_take_u64(body);
	if (type & PERF_S_ID)
		perf_take_u64(body);
	if (type & PERF_S_STREAM_ID)
		perf_take_u64(body);
	if (type & PERF_S_CPU) {
		ret->cpu = perf_take_u32(body);
		perf_take_u32(body);
		ret->has_cpu = true;
	}
	/* Without a period of its own each stands for what was asked for. */
	ret->period = event->flags & PERF_FLAG_FREQ || event->period == 0 ? 1 : event->period;
	if (type & PERF_S_PERIOD)
		ret->period = perf_take_u64(body);
	if (type & PERF_S_READ)
		read_counters(body, event->read_format, ret);
}

int perf_data_read_sample(const struct perf_reader *reader, const struct perf_record *record, struct perf_sample *ret,
			  struct error *err)
{
	struct perf_cursor body = record->body;
	if (reader->event_count == 0)
		return error_set(err, -EBADMSG, "a sample comes before any event");
	const struct perf_event *event = event_of_sample(reader, record);
	if (!event)
		return 1;
	*ret = (struct perf_sample){.event = event};
	read_first(&body, event, ret);
	if (event->sample_type & PERF_S_CALLCHAIN) {
		uint64_t count = perf_take_u64(&body);
		if (count > perf_left(&body) / 8)
			body.bad = true;
		ret->chain = perf_take(&body, count * 8);
		ret->chain_count = ret->chain ? count : 0;
	}
	read_middle(&body, event, ret);
	read_rest(&body, event, ret);
	if (body.bad)
		return error_set(err, -EBADMSG, "the fields of a sample do not fit its size");
	return 0;
}

/* ---- other records ---- */

uint64_t perf_data_record_time(const struct perf_reader *reader, const struct perf_record *record)
{
	const struct perf_event *event = reader->events;
	struct perf_cursor body = record->body;
	size_t len = perf_left(&body);
	if (reader->event_count == 0 || record->type >= PERF_USER_TYPES)
		return 0;
	uint64_t type = event->sample_type;
	if (reader->event_count > 1 && (type & PERF_S_IDENTIFIER) && len >= 8) {
		const struct perf_event *own = event_by_id(reader, body, len - 8);
		event = own ? own : event; /* synthesized ones have an id of 0 */
	}
	type = event->sample_type;
	if (!(event->flags & PERF_FLAG_SAMPLE_ID_ALL) || !(type & PERF_S_TIME))
		return 0;
	uint64_t after = type & (PERF_S_TIME | PERF_S_ID | PERF_S_STREAM_ID | PERF_S_CPU | PERF_S_IDENTIFIER);
	uint64_t skip = PAIR_BYTES * (uint64_t)__builtin_popcountll(after);
	if (skip > len)
		return 0;
	perf_take(&body, len - skip);
	return perf_take_u64(&body);
}

uint64_t perf_data_register_of(const struct perf_sample *sample, unsigned bit, bool is_swapped)
{
	uint64_t before = sample->event->regs_user & ((1ull << bit) - 1);
	return perf_load_u64(sample->registers + 8ul * (unsigned)__builtin_popcountll(before), is_swapped);
}

/* Bits of sample_regs_user: arch/ARCH/include/uapi/asm/perf_regs.h. */
bool perf_data_register(const struct perf_reader *reader, const struct perf_sample *sample, enum perf_register which,
			uint64_t *ret)
{
	static const struct {
		const char *machine;
		unsigned bits[4];
	} machines[] = {{"x86_64", {8, 7, 6, 64}}, {"aarch64", {32, 31, 29, 30}}};
	const char *machine = reader->architecture ? profile_string(reader->profile, reader->architecture) : "x86_64";
	uint64_t mask = sample->event->regs_user;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		unsigned bit = machines[i].bits[which];
		if (strcmp(machine, machines[i].machine) != 0 || bit >= 64 || !(mask >> bit & 1) || !sample->registers)
			continue;
		*ret = perf_data_register_of(sample, bit, reader->is_swapped);
		return true;
	}
	return false;
}
