/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "base/limits.h"
#include "base/test_faults.h"
#include "render/test_render.h"

static struct flame *build(const struct profile *profile, size_t nodes_max)
{
	struct flame *flame = NULL;
	assert_int_equal(flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, nodes_max, &flame, NULL), 0);
	return flame;
}

/* The layout, written down by hand. */
static void test_layout(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_stack(profile, "main;a;b", 50);
	test_add_stack(profile, "main;a", 20);
	test_add_stack(profile, "main;c", 90);
	test_add_stack(profile, "", 10);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, MIB);
	assert_int_equal(buffer_append_string(&out, "before"), 0);
	assert_int_equal(flame_write_columns(flame, &out, NULL, NULL, NULL), 0);
	static const uint8_t expected[] = {
		6,   5,	  5,   10,					    /* strings, frames, nodes, unit */
		0,   5,	  4,   1,   1,	 1,				    /* lengths of strings */
		't', 'o', 't', 'a', 'l', 'm', 'a', 'i', 'n', 'c', 'a', 'b', /* strings */
		1,   2,	  3,   4,   5,					    /* names */
		0,   0,	  0,   0,   0,					    /* files */
		0,   0,	  0,   0,   0,					    /* lines */
		0,   0,	  0,   0,   0,					    /* binaries */
		0,   0,	  0,   0,   0,					    /* kinds */
		0,   0,	  0,   1,   0,					    /* steps up: main, c, a beside c, b */
		0,   1,	  2,   3,   4,					    /* frames */
		2,   0,	  18,  4,   10,					    /* selfs: 1, 0, 9, 2, 5 tens */
	};
	assert_int_equal(out.len, 6 + sizeof(expected));
	assert_memory_equal(out.data + 6, expected, sizeof(expected));
}

/* ---- read back, by nothing but the description ---- */

struct reader {
	const uint8_t *at, *end;
};

static uint64_t take(struct reader *reader)
{
	uint64_t value = 0;
	for (unsigned shift = 0;; shift += 7) {
		assert_true(reader->at < reader->end && shift < 64);
		value |= (uint64_t)(*reader->at & 127) << shift;
		if (*reader->at++ < 128)
			return value;
	}
}

static uint64_t *take_column(struct reader *reader, size_t count)
{
	uint64_t *values = malloc((count + 1) * sizeof(*values));
	assert_non_null(values);
	for (size_t i = 0; i < count; i++)
		values[i] = take(reader);
	return values;
}

static void check_string(const struct flame *flame, uint32_t id, const char *text, const uint64_t *lengths, uint64_t read_id)
{
	size_t at = 0;
	for (uint64_t i = 0; i < read_id; i++)
		at += lengths[i];
	struct bytes expected = intern_get(&flame->strings, id);
	assert_int_equal(lengths[read_id], expected.len);
	assert_memory_equal(text + at, expected.data, expected.len);
}

struct read_tree {
	uint64_t strings, frames, nodes, unit;
	uint64_t *lengths, *columns[5], *up, *frame, *self;
	const char *text;
};

static void read_tree(struct bytes bytes, struct read_tree *ret)
{
	struct reader reader = {bytes.data, bytes.data + bytes.len};
	ret->strings = take(&reader), ret->frames = take(&reader), ret->nodes = take(&reader), ret->unit = take(&reader);
	ret->lengths = take_column(&reader, ret->strings);
	ret->text = (const char *)reader.at;
	for (uint64_t i = 0; i < ret->strings; i++)
		reader.at += ret->lengths[i];
	for (unsigned i = 0; i < 5; i++)
		ret->columns[i] = take_column(&reader, ret->frames);
	ret->up = take_column(&reader, ret->nodes);
	ret->frame = take_column(&reader, ret->nodes);
	ret->self = take_column(&reader, ret->nodes);
	assert_ptr_equal(reader.at, reader.end);
}

static void read_tree_free(struct read_tree *tree)
{
	uint64_t *all[] = {tree->lengths,    tree->columns[0], tree->columns[1], tree->columns[2], tree->columns[3],
			   tree->columns[4], tree->up,	       tree->frame,	 tree->self};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		free(all[i]);
}

/* That the bytes are this tree: parents, what the frames are, selfs, and totals from those. */
static void check_tree(const struct flame *flame, struct bytes bytes, struct read_tree *tree)
{
	read_tree(bytes, tree);
	assert_int_equal(tree->nodes, flame->count);
	int64_t *total = calloc(flame->count, sizeof(*total));
	assert_non_null(total);
	for (size_t i = 0; i < flame->count; i++) {
		const struct flame_node *node = &flame->nodes[i];
		uint64_t frame = tree->frame[i], half = tree->self[i] >> 1;
		uint32_t parent = i ? (uint32_t)i - 1 : 0;
		for (uint64_t up = 0; up < tree->up[i]; up++)
			parent = flame->nodes[parent].parent;
		assert_int_equal(parent, node->parent);
		check_string(flame, node->name, tree->text, tree->lengths, tree->columns[0][frame]);
		check_string(flame, node->file, tree->text, tree->lengths, tree->columns[1][frame]);
		assert_int_equal(tree->columns[2][frame], node->line);
		check_string(flame, node->binary, tree->text, tree->lengths, tree->columns[3][frame]);
		assert_int_equal(tree->columns[4][frame], node->frame_type | (node->inlined ? 8 : 0));
		int64_t self = (tree->self[i] & 1 ? -(int64_t)half - 1 : (int64_t)half) * (int64_t)tree->unit;
		assert_int_equal(self, node->self);
		total[i] = self;
	}
	for (size_t i = flame->count; i-- > 1;)
		total[flame->nodes[i].parent] += total[i];
	for (size_t i = 0; i < flame->count; i++)
		assert_int_equal(total[i], flame->nodes[i].total);
	free(total);
}

static void check(const struct profile *profile, size_t nodes_max, struct read_tree *tree)
{
	_cleanup_(flame_freep) struct flame *flame = build(profile, nodes_max);
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, MIB);
	assert_int_equal(flame_write_columns(flame, &out, NULL, NULL, NULL), 0);
	check_tree(flame, buffer_bytes(&out), tree);
	tree->text = NULL; /* was in `out` */
}

static void test_any_tree(void **state)
{
	static const struct test_shape shape = {.binaries = 3,
						.functions = 4,
						.addresses = 3,
						.samples = 80,
						.depth = 6,
						.types = 2,
						.links = false,
						.times = false};
	for (uint64_t seed = 1; seed <= 200; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		struct read_tree tree;
		check(profile, seed % 3 ? 0 : 1 + seed % 30, &tree);
		/* Every frame is there once, the most frequent first. */
		uint64_t *nodes = calloc(tree.frames, sizeof(*nodes));
		assert_non_null(nodes);
		for (uint64_t i = 0; i < tree.nodes; i++)
			nodes[tree.frame[i]]++;
		for (uint64_t i = 0; i < tree.frames; i++) {
			assert_true(nodes[i] > 0 && (i == 0 || nodes[i] <= nodes[i - 1]));
			for (uint64_t k = 0; k < i; k++) {
				bool same = true;
				for (unsigned c = 0; c < 5; c++)
					same = same && tree.columns[c][i] == tree.columns[c][k];
				assert_false(same);
			}
		}
		free(nodes);
		read_tree_free(&tree);
	}
}

static void check_unit(const int64_t *values, size_t count, uint64_t unit)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	for (size_t i = 0; i < count; i++) {
		char frames[32];
		snprintf(frames, sizeof(frames), "main;f%zu", i);
		test_add_stack(profile, frames, values[i]);
	}
	struct read_tree tree;
	check(profile, 0, &tree);
	assert_int_equal(tree.unit, unit);
	read_tree_free(&tree);
}

static void test_unit(void **state)
{
	check_unit((const int64_t[]){10101010, 30303030, 20202020}, 3, 10101010);
	check_unit((const int64_t[]){12, 18, 7}, 3, 1);
	check_unit((const int64_t[]){-12, 18, 30}, 3, 6);
	check_unit((const int64_t[]){INT64_MAX}, 1, INT64_MAX);
	check_unit((const int64_t[]){-INT64_MAX, 2}, 2, 1);
	check_unit((const int64_t[]){INT64_MIN}, 1, 1);
	check_unit(NULL, 0, 1);
}

/* A decoder that stops at what is not UTF-8 must not meet any. */
static void test_not_utf8(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "\xff\xfe;gr\xc3\xbc\xc3\x9f", 6);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, MIB);
	assert_int_equal(flame_write_columns(flame, &out, NULL, NULL, NULL), 0);
	struct read_tree tree;
	read_tree(buffer_bytes(&out), &tree);
	static const uint64_t lengths[] = {0, 5, 6, 6};
	assert_int_equal(tree.strings, 4);
	assert_memory_equal(tree.lengths, lengths, sizeof(lengths));
	assert_memory_equal(tree.text, "total\xef\xbf\xbd\xef\xbf\xbdgr\xc3\xbc\xc3\x9f", 17);
	read_tree_free(&tree);
}

static void test_deep(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	struct profile_sample deep = {0}, shallow = {0};
	uint32_t again = test_named_location(profile, "again", 0), once = test_named_location(profile, "once", 0);
	int64_t value = 5;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(profile_add_stack(profile, deep.stack, again, &deep.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &deep, &value, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, once, &shallow.stack, NULL), 0);
	value = 3;
	assert_int_equal(profile_add_sample(profile, &shallow, &value, NULL), 0);
	struct read_tree tree;
	check(profile, 0, &tree);
	assert_int_equal(tree.up[1001], 1000);
	assert_int_equal(tree.frames, 3);
	read_tree_free(&tree);
}

static void test_full(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "main;a;b", 5);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	size_t max = 0;
	for (int r = -E2BIG; r; max++) {
		_cleanup_(buffer_release) struct buffer out = {0};
		struct error err = {0};
		buffer_init(&out, max);
		r = flame_write_columns(flame, &out, NULL, NULL, &err);
		assert_true(r == 0 || (r == -E2BIG && err.code == -E2BIG));
	}
	assert_int_equal(max - 1, 4 + 5 + 11 + 4 * 5 + 4 * 3);
}

static int write_columns(void *context)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct error err = {0};
	buffer_init(&out, MIB);
	int r = flame_write_columns(context, &out, NULL, NULL, &err);
	assert_int_equal(err.code, r);
	return r;
}

static void test_allocation_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "main;a;b", 5);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_true(test_each_allocation(write_columns, flame) > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_any_tree),
		cmocka_unit_test(test_unit),
		cmocka_unit_test(test_not_utf8),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_allocation_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
