/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of all binaries lie one behind the other in one buffer, the walk's heap; a place in it is a table's address for
 * the walk. Bytes before the first table are zero, since place 0 means none. A read past the end gives 0, as the sampling
 * program's does.
 *
 * Code is read from files, to see whether a call lies before a return address. Files are kept open, up to a number, since a
 * recording may name any number of them.
 */
#include "unwind/stack_walk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "unwind/unwind_table.h"

#define HEAP_BYTES_MAX (1ull << 30)
#define HEAP_FIRST     64
#define OPEN_FILES_MAX 64
#define FILE_NOT_OPEN  (-1)
#define FILE_NOT_THERE (-2)
#define WALK_IS_MARKED (UNWIND_FRAME_SIGNAL | UNWIND_FRAME_GAP)

struct binary {
	uint32_t state; /* enum unwind_slot_state */
	uint32_t table; /* place in the heap */
	int fd;
};

struct stack_walker;
static _Thread_local const struct stack_walker *walker_of_heap;
static uint64_t heap_value(uint64_t place, size_t bytes);

struct walk;
static int read_memory(struct walk *walk, void *to, size_t bytes, uint64_t address);
static int map_address(struct walk *walk, uint64_t address);
#define WALK_HEAP16(place)		    heap_value(place, 2)
#define WALK_HEAP32(place)		    heap_value(place, 4)
#define WALK_HEAP64(place)		    heap_value(place, 8)
#define WALK_READ(walk, to, bytes, address) read_memory(walk, to, bytes, address)
#define WALK_MAP(walk, address)		    map_address(walk, address)
#define WALK_LIVE(walk, rule)		    ((rule)->cfa = UNWIND_CFA_NONE, 0) /* by the frame pointer */
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_STACK_CUT)
#include "bpf/walk.h"

struct stack_walker {
	struct walk walk; /* first: a walk is cast to its walker */
	struct stack_walk_source source;
	const struct stack_copy *copy;
	struct buffer heap;
	struct binary *binaries;
	size_t binary_count, binary_capacity;
	uint32_t open[OPEN_FILES_MAX]; /* binaries; used round about */
	size_t open_count, open_next;
	bool no_memory; /* in this walk */
};

static uint64_t heap_value(uint64_t place, size_t bytes)
{
	const struct buffer *heap = &walker_of_heap->heap;
	uint64_t value = 0;
	if (place <= heap->len && heap->len - place >= bytes)
		memcpy(&value, heap->data + place, bytes);
	return value;
}

/* ---- files ---- */

static void note_open(struct stack_walker *walker, uint32_t number)
{
	if (walker->open_count < OPEN_FILES_MAX) {
		walker->open[walker->open_count++] = number;
		return;
	}
	struct binary *other = &walker->binaries[walker->open[walker->open_next]];
	other->fd = io_close(other->fd);
	walker->open[walker->open_next] = number;
	walker->open_next = (walker->open_next + 1) % OPEN_FILES_MAX;
}

static int file_of(struct stack_walker *walker, uint32_t number)
{
	struct binary *binary = &walker->binaries[number];
	if (binary->fd != FILE_NOT_OPEN)
		return binary->fd;
	int fd = walker->source.open(walker->source.context, number);
	binary->fd = fd < 0 ? FILE_NOT_THERE : fd;
	if (fd >= 0)
		note_open(walker, number);
	return binary->fd;
}

/* A file that is not there, is damaged or has no CFI is walked by frame pointers. */
static void load_table(struct stack_walker *walker, uint32_t number)
{
	struct binary *binary = &walker->binaries[number];
	_cleanup_(buffer_release) struct buffer image = {.max = UNWIND_TABLE_BYTES_MAX};
	struct unwind_table_stats stats;
	struct elf_file file;
	int fd = file_of(walker, number);
	binary->state = UNWIND_SLOT_FRAMES;
	int r = fd < 0 ? -ENOENT : elf_file_open(&file, fd, "binary", NULL);
	if (r == 0) {
		r = unwind_table_build(&file, &image, &stats, NULL);
		elf_file_release(&file);
	}
	if (r == 0 && image.len > 0) {
		size_t place = walker->heap.len;
		r = buffer_append_buffer(&walker->heap, &image);
		if (r == 0) {
			binary->table = (uint32_t)place;
			binary->state = UNWIND_SLOT_LOADED;
		} else {
			buffer_truncate(&walker->heap, place);
		}
	}
	walker->no_memory |= r == -ENOMEM;
}

/* ---- what a walk asks for ---- */

static int map_address(struct walk *walk, uint64_t address)
{
	struct stack_walker *walker = (struct stack_walker *)walk;
	struct stack_walk_mapping mapping;
	if (address >= walk->map.start && address < walk->map.end)
		return 0;
	if (!walker->source.find(walker->source.context, address, &mapping))
		return UNWIND_NO_MAPPING;
	if (mapping.binary == STACK_WALK_NO_BINARY) {
		walk_set_map(&walk->map, mapping.start, mapping.end, 0, UNWIND_SLOT_LIVE, 0);
		return 0;
	}
	struct binary *binary = &walker->binaries[mapping.binary];
	if (binary->state == UNWIND_SLOT_ABSENT)
		load_table(walker, mapping.binary);
	walk_set_map(&walk->map, mapping.start, mapping.end, mapping.file_offset, binary->state, binary->table);
	return 0;
}

static bool read_code(struct stack_walker *walker, void *to, size_t bytes, uint64_t address)
{
	struct stack_walk_mapping mapping;
	if (!walker->source.find(walker->source.context, address, &mapping) || mapping.binary == STACK_WALK_NO_BINARY ||
	    mapping.end - address < bytes)
		return false;
	int fd = file_of(walker, mapping.binary);
	uint64_t offset = address - mapping.start + mapping.file_offset;
	return fd >= 0 && io_pread(fd, to, bytes, offset, "binary", NULL) == (ssize_t)bytes;
}

static int read_memory(struct walk *walk, void *to, size_t bytes, uint64_t address)
{
	struct stack_walker *walker = (struct stack_walker *)walk;
	const struct stack_copy *copy = walker->copy;
	uint64_t offset = address - copy->registers[UNWIND_REGISTER_SP];
	if (offset <= copy->length && copy->length - offset >= bytes) {
		memcpy(to, copy->bytes + offset, bytes);
		return 0;
	}
	if (read_code(walker, to, bytes, address))
		return 0;
	return copy->is_cut && address >= copy->registers[UNWIND_REGISTER_SP] ? UNWIND_STACK_CUT : UNWIND_BAD_READ;
}

/* ---- walks ---- */

int stack_walker_walk(struct stack_walker *walker, const struct stack_copy *copy, uint64_t *ret_frames, size_t *ret_count,
		      enum unwind_result *ret_result, struct error *err)
{
	struct walk *walk = &walker->walk;
	int r;
	memset(walk, 0, offsetof(struct walk, frames));
	walker_of_heap = walker;
	walker->copy = copy;
	walker->no_memory = false;
	memcpy(walk->registers, copy->registers, sizeof(walk->registers));
	walk->known = copy->known;
	walk_without_runtimes(walk);
	walk_begin(walk, copy->ip, 0);
	do
		r = walk_step(walk);
	while (r == WALK_GOES_ON && !walker->no_memory);
	walker->copy = NULL;
	if (walker->no_memory)
		return error_nomem(err);
	*ret_count = walk->depth;
	ret_frames[0] = walk->frames[0];
	/* Frames that are no calls, under signals, are one more than the address, for just this. */
	for (size_t i = 1; i < walk->depth; i++)
		ret_frames[i] = (walk->frames[i] & ~WALK_IS_MARKED) - 1;
	*ret_result = (enum unwind_result)walk_result(walk, r);
	return 0;
}

/* ---- life ---- */

int stack_walker_add(struct stack_walker *walker, uint32_t *ret, struct error *err)
{
	size_t number = walker->binary_count;
	int r = array_push(&walker->binaries, &walker->binary_count, &walker->binary_capacity, STACK_WALK_BINARIES_MAX,
			   (struct binary){.state = UNWIND_SLOT_ABSENT, .fd = FILE_NOT_OPEN});
	if (r == -E2BIG)
		return error_set(err, r, "more than %u binaries, the limit", STACK_WALK_BINARIES_MAX);
	if (r < 0)
		return error_nomem(err);
	*ret = (uint32_t)number;
	return 0;
}

int stack_walker_new(const struct stack_walk_source *source, struct stack_walker **ret, struct error *err)
{
	static const uint8_t nothing[HEAP_FIRST];
	_cleanup_(stack_walker_freep) struct stack_walker *walker = mem_zalloc(sizeof(*walker));
	if (!walker)
		return error_nomem(err);
	walker->source = *source;
	buffer_init(&walker->heap, HEAP_BYTES_MAX);
	if (buffer_append(&walker->heap, nothing, sizeof(nothing)) < 0)
		return error_nomem(err);
	*ret = TAKE(walker);
	return 0;
}

struct stack_walker *stack_walker_free(struct stack_walker *walker)
{
	if (!walker)
		return NULL;
	for (size_t i = 0; i < walker->binary_count; i++)
		io_close(walker->binaries[i].fd);
	mem_free(walker->binaries);
	buffer_release(&walker->heap);
	return mem_free(walker);
}
