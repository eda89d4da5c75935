/* SPDX-License-Identifier: Apache-2.0 */
#include "control/self_heap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "control/self_writer.h"

#define STEP_NS (50 * NS_PER_MS)

_Static_assert(HEAP_FRAMES_MAX <= SELF_FRAMES_MAX, "a stack fits into a sample");

/* ---- a change ---- */

/* Each holds a worker for its time. */
static atomic_flag is_busy = ATOMIC_FLAG_INIT;

static int wait_for(int64_t duration_ns, const atomic_bool *cancel, struct error *err)
{
	int64_t until_ns = time_monotonic_ns() + duration_ns, left_ns;
	while ((left_ns = until_ns - time_monotonic_ns()) > 0) {
		if (cancel && atomic_load(cancel))
			return error_set(err, -ECANCELED, "the client disconnected");
		time_sleep_ns(left_ns < STEP_NS ? left_ns : STEP_NS);
	}
	return 0;
}

/* The sums now, and waits until they have changed. */
static int take_sums(struct heap_sums *sums, int64_t duration_ns, const atomic_bool *cancel, struct error *err)
{
	struct heap_stack stack;
	if (atomic_flag_test_and_set(&is_busy))
		return error_set(err, -EBUSY, "another heap profile of this process is in progress");
	for (uint32_t i = 0; i < HEAP_STACKS; i++)
		if (heap_sampler_read(i, &stack))
			sums[i] = stack.sums;
	int r = wait_for(duration_ns, cancel, err);
	atomic_flag_clear(&is_busy);
	return r;
}

/* ---- the profile ---- */

static int begin(struct self_writer *writer, enum self_heap_default shown, const struct symbol_worker_options *worker,
		 struct error *err)
{
	static const char *const types[][2] = {
		{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
	int r = self_writer_init(writer, worker, err);
	struct profile *profile = writer->profile;
	for (size_t i = 0; r == 0 && i < sizeof(types) / sizeof(types[0]); i++)
		r = profile_add_named_type(profile, types[i][0], types[i][1], err);
	if (r == 0)
		r = profile_add_cstring(profile, "space", &profile->period_type.type, err);
	if (r < 0)
		return r;
	profile->period_type.unit = profile->sample_types[1].unit;
	profile->period = heap_sampler_rate();
	profile->default_sample_type = profile->sample_types[shown == SELF_HEAP_ALLOCATED ? 1 : 3].type;
	return 0;
}

static int add_stack(struct self_writer *writer, const struct heap_stack *stack, const struct heap_sums *before,
		     struct error *err)
{
	const struct heap_sums *now = &stack->sums;
	int64_t objects = (int64_t)(now->allocated_objects - before->allocated_objects),
		bytes = (int64_t)(now->allocated_bytes - before->allocated_bytes);
	int64_t values[] = {objects, bytes, objects - (int64_t)(now->freed_objects - before->freed_objects),
			    bytes - (int64_t)(now->freed_bytes - before->freed_bytes)};
	uint64_t addresses[HEAP_FRAMES_MAX];
	struct profile_sample sample = {0};
	if (!values[0] && !values[1] && !values[2] && !values[3])
		return 0;
	for (uint32_t i = 0; i < stack->depth; i++)
		addresses[i] = stack->frames[i] - 1; /* a return address is behind its call */
	int r = self_writer_add_stack(writer, addresses, stack->depth, &sample.stack, err);
	return r < 0 ? r : profile_add_sample(writer->profile, &sample, values, err);
}

static int add_stacks(struct self_writer *writer, const struct heap_sums *before, struct error *err)
{
	const struct heap_sums nothing = {0};
	struct heap_stack stack;
	int r = self_writer_add_program(writer, err);
	for (uint32_t i = 0; r == 0 && i < HEAP_STACKS; i++)
		if (heap_sampler_read(i, &stack))
			r = add_stack(writer, &stack, before ? &before[i] : &nothing, err);
	return r;
}

static bool is_allocator(const struct profile *profile, uint32_t location)
{
	const struct profile_location *at = &profile->locations[location];
	for (uint32_t i = 0; i < at->line_count; i++) {
		const char *name =
			profile_string(profile, profile->functions[profile->lines[at->line_first + i].function].name);
		if (strncmp(name, "mem_", strlen("mem_")) != 0 && strcmp(name, "array_reserve_bytes") != 0 &&
		    strcmp(name, "copy_text") != 0)
			return false;
	}
	return at->line_count > 0;
}

static void leave_out_allocators(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++)
		for (uint32_t *stack = &profile->samples[i].stack;
		     *stack && is_allocator(profile, profile->stacks[*stack].location);)
			*stack = profile->stacks[*stack].parent;
}

static int add_losses(struct self_writer *writer, struct error *err)
{
	struct heap_losses losses = heap_sampler_losses();
	char text[192];
	int r = 0;
	if (losses.stacks) {
		snprintf(text, sizeof(text), "lost: %" PRIu64 " stacks: the stack table was full", losses.stacks);
		r = profile_add_comment_text(writer->profile, text, err);
	}
	if (r == 0 && losses.live) {
		snprintf(text, sizeof(text),
			 "lost: %" PRIu64 " samples (%" PRIu64
			 " bytes) in use: the table of live objects was full; they count as freed",
			 losses.live, losses.live_bytes);
		r = profile_add_comment_text(writer->profile, text, err);
	}
	return r;
}

int self_heap_make(enum self_heap_default shown, int64_t duration_ns, const atomic_bool *cancel,
		   const struct symbol_worker_options *worker, struct buffer *out, struct error *err)
{
	_cleanup_(self_writer_release) struct self_writer writer = {0};
	_cleanup_(mem_freep) struct heap_sums *before = NULL;
	int r = 0;
	if (!heap_sampler_rate())
		return error_set(err, -ENOTSUP, "there is no heap profile: %s",
				 heap_sampler_is_built_in() ? "nothing is sampled" : SELF_HEAP_NOT_BUILT_IN);
	int64_t began_ns = time_monotonic_ns();
	if (duration_ns > 0) {
		before = mem_zalloc_array(HEAP_STACKS, sizeof(*before));
		r = before ? take_sums(before, duration_ns, cancel, err) : error_nomem(err);
	}
	if (r == 0)
		r = begin(&writer, shown, worker, err);
	if (r == 0)
		r = add_stacks(&writer, before, err);
	if (r < 0)
		return r;
	if (duration_ns > 0)
		writer.profile->duration_ns = time_monotonic_ns() - began_ns;
	writer.profile->time_ns -= writer.profile->duration_ns;
	r = self_writer_add_names(&writer, err);
	leave_out_allocators(writer.profile);
	if (r == 0)
		r = add_losses(&writer, err);
	return r < 0 ? r : self_writer_encode(&writer, out, err);
}
