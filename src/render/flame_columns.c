/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame tree as bytes: what a page reads a million nodes from before anybody has waited.
 *
 * JSON of such a tree is 40 MB of digits, eight of them a node; to take it in is a second of a browser's time, most of it for
 * numbers that follow from others. Here is what does not follow from anything, in the order in which it is read:
 *
 *   counts    strings S, frames F, nodes N, unit U (all numbers are LEB128 varints)
 *   strings   S lengths in bytes, then the strings one behind the other, valid UTF-8
 *   frames    F names, F files, F lines, F binaries, F kinds: what nodes have in common, each once
 *   nodes     N steps up, N frames, N selfs
 *
 * Nodes are in pre-order. The steps up say where: 0 is a child of the node before it, 1 a sibling, 2 a sibling of the parent.
 * The root has 0. A self is zigzag ((v << 1) ^ (v >> 63)) of its value divided by U, the greatest common divisor of all: of CPU
 * time U is the sampling period, and what is left is a number of samples. Totals are the sums of the selfs below, and what they
 * follow from is here, so they are not. Frames are numbered by falling number of nodes, so that what is most frequent is one
 * byte. Columns rather than rows, for two reasons: a reader's loop does one thing, and a compressor finds like beside like (a
 * million nodes are about 4 MB, 1 to 2 MB compressed).
 *
 * Rejected: arrays of fixed width, which a page could use as they are, are three times as large and, compressed, still half as
 * large again; what they would save is 20 ms at a million nodes. Totals and depths would let a page draw what has come so far,
 * but a graph whose boxes grow while one looks at it helps nobody.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "render/flame.h"

struct frame {
	uint32_t name, file, line, binary, kind;
	uint32_t number; /* in the order of the output */
	uint32_t nodes;	 /* that have it */
};

struct columns {
	const struct flame *flame;
	struct buffer *out;
	int (*drain)(void *context); /* NULL = it is made whole */
	void *context;
	struct frame *frames;
	size_t frame_count, frame_capacity;
	struct index32 index;
	uint32_t *frame_of_node;
	uint32_t *order; /* frames as they are written */
};

static void columns_release(struct columns *columns)
{
	mem_free(columns->frames);
	mem_free(columns->frame_of_node);
	mem_free(columns->order);
	index32_release(&columns->index);
}

/* ---- frames ---- */

static bool is_same(const struct frame *a, const struct frame *b)
{
	return a->name == b->name && a->file == b->file && a->line == b->line && a->binary == b->binary && a->kind == b->kind;
}

static uint64_t hash_of(const struct frame *frame)
{
	uint64_t hash = hash64_mix((uint64_t)frame->name << 32 | frame->file);
	return hash64_mix(hash ^ ((uint64_t)frame->line << 32 | (uint64_t)frame->binary << 4 | frame->kind));
}

static int take_frame(struct columns *columns, const struct flame_node *node, uint32_t *ret)
{
	struct frame frame = {.name = node->name,
			      .file = node->file,
			      .line = node->line,
			      .binary = node->binary,
			      .kind = node->frame_type + (node->inlined ? 8 : 0)};
	uint64_t hash = hash_of(&frame);
	for (size_t at = index32_first(&columns->index, hash); index32_at(&columns->index, hash, &at, ret); at++)
		if (is_same(&columns->frames[*ret], &frame))
			return 0;
	*ret = (uint32_t)columns->frame_count;
	int r = array_reserve(&columns->frames, &columns->frame_capacity, columns->frame_count + 1, columns->flame->count);
	if (!r)
		r = index32_add(&columns->index, hash, *ret);
	if (!r)
		columns->frames[columns->frame_count++] = frame;
	return r;
}

DEFINE_ORDER_OF_PLACES(compare_frequency, struct frame, ORDER(b->nodes, a->nodes) ?: ORDER(a, b));

static int number_frames(struct columns *columns)
{
	const struct flame *flame = columns->flame;
	columns->frame_of_node = mem_alloc_array(flame->count, sizeof(*columns->frame_of_node));
	if (!columns->frame_of_node)
		return -ENOMEM;
	for (size_t i = 0; i < flame->count; i++) {
		int r = budget_poll() ? -ENOMEM : take_frame(columns, &flame->nodes[i], &columns->frame_of_node[i]);
		if (r < 0)
			return r;
		columns->frames[columns->frame_of_node[i]].nodes++;
	}
	columns->order = mem_alloc_array(columns->frame_count, sizeof(*columns->order));
	if (!columns->order)
		return -ENOMEM;
	for (size_t i = 0; i < columns->frame_count; i++)
		columns->order[i] = (uint32_t)i;
	sort_array_by(columns->order, columns->frame_count, compare_frequency, columns->frames);
	for (size_t i = 0; i < columns->frame_count; i++)
		columns->frames[columns->order[i]].number = (uint32_t)i;
	return 0;
}

/* ---- numbers ---- */

static uint64_t common_divisor(const struct flame *flame)
{
	uint64_t divisor = 0;
	for (size_t i = 0; i < flame->count; i++) {
		int64_t self = flame->nodes[i].self;
		uint64_t value = self < 0 ? 0 - (uint64_t)self : (uint64_t)self;
		if (divisor && value % divisor == 0)
			continue;
		while (value) {
			uint64_t rest = divisor % value;
			divisor = value;
			value = rest;
		}
	}
	return divisor && divisor <= INT64_MAX ? divisor : 1;
}

static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

/* ---- the parts ---- */

/* Sends what is there, if it is enough. */
static void send_some(const struct columns *columns)
{
	if (!columns->drain || columns->out->len < JSON_DRAIN_BYTES || buffer_status(columns->out) < 0)
		return;
	int r = columns->drain(columns->context);
	if (r < 0)
		buffer_fail(columns->out, r);
}

static void write_number(const struct columns *columns, uint64_t value)
{
	pb_write_raw_varint(columns->out, value);
	send_some(columns);
}

static void write_strings(const struct columns *columns)
{
	const struct intern *strings = &columns->flame->strings;
	_cleanup_(buffer_release) struct buffer text = {.max = 3 * LIMIT_PROFILE_STRING_BYTES};
	for (size_t i = 0; i < strings->count; i++) {
		buffer_clear(&text);
		text_append_utf8(&text, intern_get(strings, (uint32_t)i)); /* what is not UTF-8 grows: three bytes for one */
		buffer_fail(columns->out, buffer_status(&text));
		write_number(columns, text.len);
	}
	for (size_t i = 0; i < strings->count; i++) {
		text_append_utf8(columns->out, intern_get(strings, (uint32_t)i));
		send_some(columns);
	}
}

static void write_frames(const struct columns *columns)
{
	static const size_t offsets[] = {offsetof(struct frame, name), offsetof(struct frame, file),
					 offsetof(struct frame, line), offsetof(struct frame, binary),
					 offsetof(struct frame, kind)};
	for (size_t column = 0; column < sizeof(offsets) / sizeof(*offsets); column++)
		for (size_t i = 0; i < columns->frame_count; i++) {
			const struct frame *frame = &columns->frames[columns->order[i]];
			uint32_t value;
			memcpy(&value, (const char *)frame + offsets[column], sizeof(value));
			write_number(columns, value);
		}
}

static void write_nodes(const struct columns *columns, uint64_t unit)
{
	const struct flame *flame = columns->flame;
	write_number(columns, 0);
	for (size_t i = 1; i < flame->count; i++)
		write_number(columns, flame->nodes[i - 1].depth + 1 - flame->nodes[i].depth);
	for (size_t i = 0; i < flame->count; i++)
		write_number(columns, columns->frames[columns->frame_of_node[i]].number);
	for (size_t i = 0; i < flame->count; i++)
		write_number(columns, zigzag(flame->nodes[i].self / (int64_t)unit));
}

static int write_all(struct columns *columns)
{
	const struct flame *flame = columns->flame;
	int r = number_frames(columns);
	if (r < 0)
		return r;
	uint64_t unit = common_divisor(flame);
	const uint64_t counts[] = {flame->strings.count, columns->frame_count, flame->count, unit};
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		write_number(columns, counts[i]);
	write_strings(columns);
	write_frames(columns);
	write_nodes(columns, unit);
	return buffer_status(columns->out);
}

int flame_write_columns(const struct flame *flame, struct buffer *out, int (*drain)(void *context), void *context,
			struct error *err)
{
	_cleanup_(columns_release) struct columns columns = {.flame = flame, .out = out, .drain = drain, .context = context};
	int r = write_all(&columns);
	if (r == -E2BIG)
		return error_set(err, r, "the response exceeds its limit of %zu bytes; narrow the query", out->max);
	if (r < 0 && r != -ENOMEM)
		return error_set_errno(err, r, "cannot send the response");
	return r < 0 ? error_nomem(err) : 0;
}
