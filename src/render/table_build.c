/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a profile, without its tree.
 *
 * A function's total counts each sample once, however often the function occurs in its stack. Samples are visited in their
 * order, and the stacks from the root to the sample's are a path: going on to the next sample leaves some of them and enters
 * others. What has been met so far of values is one running sum; a row notes it when its function enters the path, and what was
 * added until it leaves is of that function. So a step costs as much however many samples there are below it, and what is kept
 * is as much as there are functions.
 *
 * Stacks of neighbours in a profile share their callers, mostly, so there are about as many steps as stacks. In the worst order
 * there are as many as all samples have frames.
 *
 * Rejected: a tree of all nodes and its sums (table_build()), which takes a hundred bytes a stack, and its order is of no use
 * here; a tree is what is at hand elsewhere.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/sum.h"
#include "render/flame_int.h"
#include "render/frame_set.h"

#define SIDES 2 /* of a comparison: the values, and those of the base */
#define NONE  UINT32_MAX

struct sums {
	__int128 self[SIDES], total[SIDES];
	__int128 since[SIDES]; /* the running sums when it entered the path */
	uint32_t on_path;
};
struct step {
	uint32_t stack;
	size_t row_first; /* in path_rows */
};
struct builder {
	const struct profile *profile;
	size_t types[SIDES], sides;
	bool by_name;
	struct frame_set frames;
	uint32_t *frame_rows; /* by frame: row + 1 */
	size_t frame_row_count, frame_row_capacity;
	struct table table;
	struct frame *keys; /* by row: the first of its frames */
	struct sums *sums;  /* by row */
	struct index32 index;
	size_t row_capacity, key_capacity, sum_capacity;
	uint64_t *entered; /* by stack, a bit: it is on the path */
	struct step *path;
	uint32_t *path_rows; /* of the frames of these stacks */
	size_t path_count, path_capacity, path_row_count, path_row_capacity;
	uint32_t *ahead; /* stacks to enter, the last one first */
	size_t ahead_count, ahead_capacity;
	__int128 so_far[SIDES];
};

static void builder_release(struct builder *b)
{
	void *arrays[] = {b->frame_rows, b->keys, b->sums, b->entered, b->path, b->path_rows, b->ahead};
	for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		mem_free(arrays[i]);
	table_release(&b->table);
	index32_release(&b->index);
	frame_set_release(&b->frames);
}

/* ---- rows ---- */

static bool is_same(const struct builder *b, const struct frame *a, const struct frame *other)
{
	return a->name == other->name && (b->by_name || (a->file == other->file && a->binary == other->binary));
}

/* The row of a frame, added if it is new. 0 or -ENOMEM. */
static int find_row(struct builder *b, const struct frame *frame, uint32_t *ret)
{
	uint64_t hash = b->by_name ? hash64_mix(frame->name)
				   : hash64_mix(hash64_mix((uint64_t)frame->name << 32 | frame->file) ^ frame->binary);
	for (size_t at = index32_first(&b->index, hash); index32_at(&b->index, hash, &at, ret); at++)
		if (is_same(b, &b->keys[*ret], frame))
			return 0;
	size_t need = b->table.count + 1;
	if (array_reserve(&b->table.rows, &b->row_capacity, need, NONE) < 0 ||
	    array_reserve(&b->keys, &b->key_capacity, need, NONE) < 0 ||
	    array_reserve(&b->sums, &b->sum_capacity, need, NONE) < 0 ||
	    index32_add(&b->index, hash, (uint32_t)b->table.count) < 0)
		return -ENOMEM;
	*ret = (uint32_t)b->table.count++;
	b->keys[*ret] = *frame;
	b->sums[*ret] = (struct sums){0};
	b->table.rows[*ret] = (struct table_row){0};
	return 0;
}

static int take_row(struct builder *b, uint32_t stack, uint32_t line, uint32_t *ret, struct error *err)
{
	uint32_t frame = 0;
	int r = frame_set_take(&b->frames, b->profile->stacks[stack].location, line, &frame, err);
	if (r < 0)
		return r;
	if (array_reserve(&b->frame_rows, &b->frame_row_capacity, b->frames.count, NONE) < 0)
		return error_nomem(err);
	while (b->frame_row_count < b->frames.count)
		b->frame_rows[b->frame_row_count++] = 0;
	if (b->frame_rows[frame] == 0) {
		if (find_row(b, &b->frames.frames[frame], ret) < 0)
			return error_nomem(err);
		b->frame_rows[frame] = *ret + 1;
	}
	*ret = b->frame_rows[frame] - 1;
	return 0;
}

/* ---- the path ---- */

static bool is_entered(const struct builder *b, uint32_t stack)
{
	return b->entered[stack / 64] >> stack % 64 & 1;
}

static void enter_frame(struct builder *b, uint32_t row, bool inlined)
{
	uint32_t caller = b->path_row_count ? b->path_rows[b->path_row_count - 1] : NONE;
	struct sums *sums = &b->sums[row];
	b->table.rows[row].inlined |= inlined;
	b->table.rows[row].called |= !inlined && caller != NONE && caller != row;
	if (sums->on_path++ == 0)
		for (size_t i = 0; i < b->sides; i++)
			sums->since[i] = b->so_far[i];
	b->path_rows[b->path_row_count++] = row;
}

static int enter(struct builder *b, uint32_t stack, struct error *err)
{
	uint32_t lines = frame_set_line_count(&b->frames, stack), row = 0, count = lines ? lines : 1;
	if (array_reserve(&b->path, &b->path_capacity, b->path_count + 1, NONE) < 0 ||
	    array_reserve(&b->path_rows, &b->path_row_capacity, b->path_row_count + count, NONE) < 0)
		return error_nomem(err);
	b->path[b->path_count++] = (struct step){stack, b->path_row_count};
	b->entered[stack / 64] |= 1ull << stack % 64;
	for (uint32_t line = count; line-- > 0;) {
		int r = take_row(b, stack, line, &row, err);
		if (r < 0)
			return r;
		enter_frame(b, row, line + 1 < lines);
	}
	return 0;
}

static void leave(struct builder *b)
{
	struct step step = b->path[--b->path_count];
	b->entered[step.stack / 64] &= ~(1ull << step.stack % 64);
	while (b->path_row_count > step.row_first) {
		struct sums *sums = &b->sums[b->path_rows[--b->path_row_count]];
		if (--sums->on_path == 0)
			for (size_t i = 0; i < b->sides; i++)
				sums->total[i] += b->so_far[i] - sums->since[i];
	}
}

static int go_to(struct builder *b, uint32_t stack, struct error *err)
{
	int r = 0;
	b->ahead_count = 0;
	for (; stack != 0 && !is_entered(b, stack); stack = b->profile->stacks[stack].parent)
		if (array_push(&b->ahead, &b->ahead_count, &b->ahead_capacity, NONE, stack) < 0)
			return error_nomem(err);
	while (b->path_count > 0 && b->path[b->path_count - 1].stack != stack)
		leave(b);
	while (r == 0 && b->ahead_count > 0)
		r = budget_poll() ? error_nomem(err) : enter(b, b->ahead[--b->ahead_count], err);
	return r;
}

static int add_sample(struct builder *b, size_t sample, struct error *err)
{
	const int64_t *values = &b->profile->values[sample * b->profile->sample_type_count];
	int64_t value = values[b->types[0]], base = b->sides > 1 ? values[b->types[1]] : 0;
	if (value == 0 && base == 0)
		return 0;
	int r = go_to(b, b->profile->samples[sample].stack, err);
	if (r < 0)
		return r;
	const int64_t own[SIDES] = {value, base};
	b->table.sample_count += value != 0;
	for (size_t i = 0; i < b->sides; i++) {
		b->so_far[i] += own[i];
		if (b->path_row_count > 0)
			b->sums[b->path_rows[b->path_row_count - 1]].self[i] += own[i];
	}
	return 0;
}

/* ---- the result ---- */

static int put_rows(struct builder *b, struct diff_value **ret_bases, struct error *err)
{
	struct diff_value *bases = ret_bases ? mem_alloc_array(b->table.count, sizeof(*bases)) : NULL;
	if (ret_bases && !bases)
		return error_nomem(err);
	for (size_t i = 0; i < b->table.count; i++) {
		struct table_row *row = &b->table.rows[i];
		const struct sums *sums = &b->sums[i];
		row->name = frame_set_string(&b->frames, b->keys[i].name);
		row->file = frame_set_string(&b->frames, b->keys[i].file);
		row->binary = frame_set_string(&b->frames, FRAME_TEXT | b->keys[i].binary);
		row->self = sum_of_wide(sums->self[0]);
		row->total = sum_of_wide(sums->total[0]);
		if (bases)
			bases[i] = (struct diff_value){sum_of_wide(sums->total[1]), sum_of_wide(sums->self[1])};
	}
	/* Of frames of one row: the type that says most, whatever the order of samples, and the first line. */
	for (size_t i = 0; i < b->frames.count; i++) {
		struct table_row *row = &b->table.rows[b->frame_rows[i] - 1];
		uint32_t line = frame_set_line(&b->frames, (uint32_t)i), type = b->frames.frames[i].type;
		row->frame_type = type > row->frame_type ? type : row->frame_type;
		row->line = line && (!row->line || line < row->line) ? line : row->line;
	}
	b->table.total = sum_of_wide(b->so_far[0]);
	b->table.texts = b->frames.texts;
	b->frames.texts = (struct intern){0};
	if (ret_bases)
		*ret_bases = bases;
	return 0;
}

int table_build_sides(const struct profile *profile, size_t sample_type, const size_t *base_type, enum flame_unnamed unnamed,
		      bool by_name, struct table *ret, struct diff_value **ret_bases, int64_t *ret_base_total,
		      struct error *err)
{
	_cleanup_(builder_release) struct builder b = {.profile = profile,
						       .types = {sample_type, base_type ? *base_type : 0},
						       .sides = base_type ? 2 : 1,
						       .by_name = by_name};
	int r = frame_set_init(&b.frames, profile, unnamed, false, err);
	if (r < 0)
		return r;
	b.entered = mem_zalloc_array(profile->stack_count / 64 + 1, sizeof(*b.entered));
	if (!b.entered)
		return error_nomem(err);
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++)
		r = budget_poll() ? error_nomem(err) : add_sample(&b, i, err);
	while (b.path_count > 0)
		leave(&b);
	if (r == 0)
		r = put_rows(&b, ret_bases, err);
	if (r < 0)
		return r;
	if (ret_base_total)
		*ret_base_total = sum_of_wide(b.so_far[1]);
	*ret = b.table;
	b.table = (struct table){0};
	return 0;
}
