/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data: copies of user stacks (perf record --call-graph dwarf), which have registers and the bytes above the stack pointer
 * for each sample (64 KiB at most, 8 by default), are unwound here by unwind tables of the files that were mapped
 * (unwind/stack_walk.h). The files come from whoever converts (format_options.open_binary); without them, and in recordings of
 * another architecture, only the innermost frame is known.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "format/perf/perf_data_int.h"

struct file {
	uint32_t path, build_id; /* strings */
};
struct perf_unwinder {
	const struct perf_reader *reader;
	const struct format_options *options;
	struct stack_walker *walker;
	struct file *files; /* by number of the walker's binaries */
	size_t file_count, file_capacity;
	struct map64 number_of_file;
	perf_find_mapping *find;
	void *find_context;
};

/* Bits of sample_regs_user (arch/ARCH/include/uapi/asm/perf_regs.h) by DWARF number. */
#if UNWIND_REGISTERS == 16
#define MACHINE "x86_64"
#define BIT_IP	8
static const uint8_t bits[UNWIND_REGISTERS] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
#else
#define MACHINE "aarch64"
#define BIT_IP	32
static const uint8_t bits[UNWIND_REGISTERS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
					       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
#endif
#define ABI_64 2

static bool find_mapping(void *context, uint64_t address, struct stack_walk_mapping *ret)
{
	struct perf_unwinder *unwinder = context;
	return unwinder->find(unwinder->find_context, address, ret);
}

static int open_file(void *context, uint32_t number)
{
	struct perf_unwinder *unwinder = context;
	const struct profile *profile = unwinder->reader->profile;
	const struct file *file = &unwinder->files[number];
	struct format_binary binary = {.host = profile_string(profile, unwinder->reader->host),
				       .path = profile_string(profile, file->path),
				       .build_id = profile_string(profile, file->build_id)};
	return unwinder->options->open_binary(unwinder->options->open_context, &binary);
}

static bool is_of_this_machine(const struct perf_reader *reader)
{
	return !reader->is_swapped &&
	       (!reader->architecture || strcmp(profile_string(reader->profile, reader->architecture), MACHINE) == 0);
}

int perf_unwinder_new(const struct perf_reader *reader, const struct format_options *options, perf_find_mapping *find,
		      void *context, struct perf_unwinder **ret, struct error *err)
{
	*ret = NULL;
	if (!options || !options->open_binary || !is_of_this_machine(reader))
		return 0;
	_cleanup_(perf_unwinder_freep) struct perf_unwinder *unwinder = mem_zalloc(sizeof(*unwinder));
	if (!unwinder)
		return error_nomem(err);
	struct stack_walk_source source = {.find = find_mapping, .open = open_file, .context = unwinder};
	unwinder->reader = reader;
	unwinder->options = options;
	unwinder->find = find;
	unwinder->find_context = context;
	map64_init_guarded(&unwinder->number_of_file);
	int r = stack_walker_new(&source, &unwinder->walker, err);
	if (r == 0)
		*ret = TAKE(unwinder);
	return r;
}

struct perf_unwinder *perf_unwinder_free(struct perf_unwinder *unwinder)
{
	if (!unwinder)
		return NULL;
	stack_walker_free(unwinder->walker);
	map64_release(&unwinder->number_of_file);
	mem_free(unwinder->files);
	return mem_free(unwinder);
}

int perf_unwinder_add_file(struct perf_unwinder *unwinder, uint32_t path, uint32_t build_id, uint32_t *ret, struct error *err)
{
	uint64_t key = (uint64_t)path << 32 | build_id, known;
	if (map64_get(&unwinder->number_of_file, key, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	if (array_reserve(&unwinder->files, &unwinder->file_capacity, unwinder->file_count + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	int r = stack_walker_add(unwinder->walker, ret, err);
	/* Beyond the limit they are walked by frame pointers. */
	if (r == -E2BIG) {
		*ret = STACK_WALK_NO_BINARY;
		return 0;
	}
	if (r == 0 && map64_put(&unwinder->number_of_file, key, *ret) < 0)
		r = error_nomem(err);
	if (r == 0)
		unwinder->files[unwinder->file_count++] = (struct file){path, build_id};
	return r;
}

bool perf_unwinder_can(const struct perf_unwinder *unwinder, const struct perf_sample *sample)
{
	uint64_t needed = 1ull << BIT_IP | 1ull << bits[UNWIND_REGISTER_SP];
	return unwinder && sample->registers && sample->registers_abi == ABI_64 && sample->stack.len > 0 &&
	       (sample->event->regs_user & needed) == needed;
}

int perf_unwinder_walk(struct perf_unwinder *unwinder, const struct perf_sample *sample, uint64_t *ret_frames,
		       size_t *ret_count, enum unwind_result *ret_result, struct error *err)
{
	struct stack_copy copy = {.ip = perf_data_register_of(sample, BIT_IP, false),
				  .bytes = sample->stack.data,
				  .length = sample->stack.len,
				  .is_cut = sample->stack_is_cut};
	for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
		if (!(sample->event->regs_user >> bits[i] & 1))
			continue;
		copy.registers[i] = perf_data_register_of(sample, bits[i], false);
		copy.known |= 1u << i;
	}
	return stack_walker_walk(unwinder->walker, &copy, ret_frames, ret_count, ret_result, err);
}
