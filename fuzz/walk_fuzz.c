// SPDX-License-Identifier: Apache-2.0
/*
 * The walk over any bytes: a heap that holds nonsense in place of tables, registers and stacks that somebody made up. It has to
 * end, stay within its memory, and give no more frames than there is room for. In the kernel the verifier proves the same; here
 * sanitizers watch the parts that it does not see, such as the copy of the stack.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEAP_BYTES  65536u
#define STACK_START 0x7ffc00000000ull

static uint8_t heap_memory[HEAP_BYTES];
static const uint8_t *stack;
static size_t stack_bytes;

static uint64_t heap_value(uint64_t place, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, heap_memory + (place & (HEAP_BYTES - bytes)), bytes);
	return value;
}

static int stack_read(void *to, size_t bytes, uint64_t address)
{
	if (address < STACK_START || address - STACK_START > stack_bytes || stack_bytes - (address - STACK_START) < bytes)
		return 7;
	memcpy(to, stack + (address - STACK_START), bytes);
	return 0;
}

struct walk;
static int map_address(struct walk *walk, uint64_t address);
#define WALK_HEAP16(place)		    heap_value(place, 2)
#define WALK_HEAP32(place)		    heap_value(place, 4)
#define WALK_HEAP64(place)		    heap_value(place, 8)
#define WALK_READ(walk, to, bytes, address) stack_read(to, bytes, address)
#define WALK_MAP(walk, address)		    map_address(walk, address)
#define WALK_THREAD(walk, ret)		    (*(ret) = STACK_START, 0)
#include "bpf/walk.h"

/* Ranges at the start of the heap, as the sampling program reads them. */
static int map_address(struct walk *walk, uint64_t address)
{
	if (address >= walk->map.start && address < walk->map.end)
		return 0;
	uint32_t count = walk_count_ranges(walk->ranges, walk->range_count, address);
	if (!count)
		return UNWIND_NO_MAPPING;
	uint64_t range = walk->ranges + (uint64_t)(count - 1) * sizeof(struct unwind_range);
	uint64_t start = heap_value(range, 8), end = heap_value(range + 8, 8);
	if (address < start || address >= end)
		return UNWIND_NO_MAPPING;
	walk_set_map(&walk->map, start, end, heap_value(range + 20, 4) << 12, heap_value(range + 16, 4) % 4,
		     heap_value(range + 16, 4) & ~7u);
	return 0;
}

struct start {
	uint64_t ip, registers[UNWIND_REGISTERS];
	uint32_t known, ranges, range_count, heap_bytes;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct walk walk;
	struct start start;
	int r, steps = 0;

	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	data += sizeof(start);
	size -= sizeof(start);
	size_t given = start.heap_bytes % (HEAP_BYTES + 1);
	if (given > size)
		given = size;
	memset(heap_memory, 0, sizeof(heap_memory));
	memcpy(heap_memory, data, given);
	stack = data + given;
	stack_bytes = size - given;
	memset(&walk, 0, sizeof(walk));
	memcpy(walk.registers, start.registers, sizeof(walk.registers));
	walk.known = start.known;
	walk.ranges = start.ranges;
	walk.range_count = start.range_count;
	walk_begin(&walk, start.ip, 1);
	do
		r = walk_step(&walk);
	while (r == WALK_GOES_ON && ++steps < 2 * UNWIND_FRAMES_MAX);
	assert(r >= 0 && r < UNWIND_RESULTS);
	assert(walk.depth >= 1 && walk.depth <= UNWIND_FRAMES_MAX && steps < UNWIND_FRAMES_MAX);
	return 0;
}
