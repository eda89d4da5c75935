/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as Pyroscope's clients send them (github.com/grafana/pyroscope, pkg/og). A stack is its frames' names, root first,
 * with ';' between them. Four forms:
 *
 *   groups  a line a stack: the stack, a space, how many samples. Lines without a space are no stacks; a stack without frames
 * is one (py-spy has such, of threads that run no Python). lines   a line a sample: the stack. trie    a node is: length of its
 * text (varint), the text, its value (varint), how many children (varint), and then those. A node's key is the text of all
 * nodes from the root to it, so that what stacks have in common at their beginning is sent once; it may end in the middle of a
 * name. tree    the same layout, but a node is a frame, its text the name, and its value what was seen with that frame at the
 * end.
 *
 * In a trie and a tree the keys are many times longer than the input, so they are never put together: frames become stacks as
 * they are completed, one step for each byte of input, and only the frame that is not complete yet is text. Where a trie's
 * value stands in the middle of a name, the name so far is a frame of its own. Since a hostile trie could make each byte such a
 * place, the names of all frames together may not be longer than NAMES_MAX.
 */
#include "format/pyroscope.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "format/format_int.h"

#define NAMES_MAX (128 * MIB)
#define NODES_MAX (1024u * 1024) /* that are in each other: a text of many bytes each, where clients are at work */

struct builder {
	struct profile *profile;
	size_t name_bytes; /* of frames added, repeated ones too */
};

struct place {
	uint32_t stack;
	unsigned depth;
};

static int add_frame(struct builder *b, struct place from, struct bytes name, struct place *ret, struct error *err)
{
	struct profile_function function = {0};
	struct profile_location location = {0};
	struct profile_line line = {0};
	uint32_t id;
	b->name_bytes += name.len;
	if (from.depth >= LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "a stack has more than %d frames", LIMIT_STACK_DEPTH);
	if (b->name_bytes > NAMES_MAX)
		return error_set(err, -E2BIG, "the names of frames take more than %d MiB", (int)(NAMES_MAX / MIB));
	int r = profile_add_bytes(b->profile, name, &function.name, err);
	if (!r)
		r = profile_add_function(b->profile, &function, &line.function, err);
	if (!r)
		r = profile_add_location(b->profile, &location, &line, 1, &id, err);
	if (!r)
		r = profile_add_stack(b->profile, from.stack, id, &ret->stack, err);
	ret->depth = from.depth + 1;
	return r;
}

static int add_value(struct builder *b, uint32_t stack, uint64_t value, struct error *err)
{
	struct profile_sample sample = {.stack = stack};
	int64_t number = (int64_t)value;
	if (number < 0)
		return error_set(err, -EBADMSG, "a value is too large");
	return number ? profile_add_sample(b->profile, &sample, &number, err) : 0;
}

/* ---- text ---- */

static int add_text(struct builder *b, struct bytes stack, uint64_t value, struct error *err)
{
	struct place at = {0};
	while (stack.len > 0) {
		const uint8_t *end = memchr(stack.data, ';', stack.len);
		size_t len = end ? (size_t)(end - stack.data) : stack.len;
		int r = len ? add_frame(b, at, (struct bytes){stack.data, len}, &at, err) : 0;
		if (r < 0)
			return r;
		len += end != NULL;
		stack = (struct bytes){stack.data + len, stack.len - len};
	}
	return add_value(b, at.stack, value, err);
}

static bool parse_count(struct bytes text, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9' || i >= 18)
			return false;
		*ret = *ret * 10 + text.data[i] - '0';
	}
	return text.len > 0;
}

static int add_line(struct builder *b, enum pyroscope_stacks form, struct bytes line, size_t number, struct error *err)
{
	uint64_t value = 1;
	const uint8_t *space = form == PYROSCOPE_GROUPS && line.len ? memrchr(line.data, ' ', line.len) : NULL;
	if (form == PYROSCOPE_GROUPS ? !space : !line.len)
		return 0;
	struct bytes stack = {line.data, space ? (size_t)(space - line.data) : line.len};
	if (space && !parse_count((struct bytes){space + 1, line.len - stack.len - 1}, &value))
		return error_set(err, -EBADMSG, "line %zu: '%.*s' is not a number of samples", number,
				 line.len - stack.len - 1 < 40 ? (int)(line.len - stack.len - 1) : 40, (const char *)space + 1);
	int r = add_text(b, stack, value, err);
	return r < 0 ? error_prefix(err, r, "line %zu", number) : 0;
}

static int read_lines(struct builder *b, enum pyroscope_stacks form, struct bytes input, struct error *err)
{
	int r = 0;
	for (size_t number = 1; input.len > 0 && !r; number++) {
		struct bytes line = bytes_take_line(&input);
		line.len -= line.len > 0 && line.data[line.len - 1] == '\r';
		r = add_line(b, form, line, number, err);
	}
	return r;
}

/* ---- nodes ---- */

/* A node whose children are still to come. */
struct level {
	uint64_t children;
	struct place place;
	size_t text_len, frame_start; /* of a trie: the text up to here, and where its incomplete frame begins */
};
struct walk {
	struct builder *b;
	struct pb_cursor cursor;
	struct level *levels;
	size_t count, capacity;
	struct buffer text; /* of a trie: that of all nodes down to the one at hand */
};

static void walk_release(struct walk *walk)
{
	walk->levels = mem_free(walk->levels);
	buffer_release(&walk->text);
}

struct node {
	struct bytes text;
	uint64_t value, children;
};

static int read_node(struct pb_cursor *cursor, struct node *ret, struct error *err)
{
	uint64_t len;
	int r = pb_packed_varint(cursor, &len, err);
	if (!r && len > (size_t)(cursor->end - cursor->at))
		return error_set(err, -EBADMSG, "truncated: a name at byte %zu needs %llu bytes, %zu are left",
				 (size_t)(cursor->at - cursor->start), (unsigned long long)len,
				 (size_t)(cursor->end - cursor->at));
	if (r < 0)
		return r;
	ret->text = (struct bytes){cursor->at, (size_t)len};
	cursor->at += len;
	r = pb_packed_varint(cursor, &ret->value, err);
	if (!r)
		r = pb_packed_varint(cursor, &ret->children, err);
	/* Each child takes three bytes at least. */
	if (!r && ret->children > (size_t)(cursor->end - cursor->at) / 3)
		return error_set(err, -EBADMSG, "truncated: a node at byte %zu has %llu children",
				 (size_t)(cursor->at - cursor->start), (unsigned long long)ret->children);
	return r;
}

/* Completes the frames that end within the text of a trie's node, and counts its value. */
static int enter_trie(struct walk *walk, const struct node *node, struct level *level, struct error *err)
{
	size_t from = walk->text.len;
	int r = buffer_append(&walk->text, node->text.data, node->text.len);
	if (r < 0)
		return error_nomem(err);
	for (size_t i = from; i < walk->text.len && !r; i++) {
		if (walk->text.data[i] != ';')
			continue;
		struct bytes name = {walk->text.data + level->frame_start, i - level->frame_start};
		r = name.len ? add_frame(walk->b, level->place, name, &level->place, err) : 0;
		level->frame_start = i + 1;
	}
	level->text_len = walk->text.len;
	if (r < 0 || !node->value)
		return r;
	struct place leaf = level->place;
	if (walk->text.len > level->frame_start) {
		struct bytes name = {walk->text.data + level->frame_start, walk->text.len - level->frame_start};
		r = add_frame(walk->b, level->place, name, &leaf, err);
	}
	return r < 0 ? r : leaf.stack ? add_value(walk->b, leaf.stack, node->value, err) : 0;
}

static int enter_tree(struct walk *walk, const struct node *node, struct level *level, struct error *err)
{
	int r = node->text.len ? add_frame(walk->b, level->place, node->text, &level->place, err) : 0;
	return r < 0 || !level->place.stack ? r : add_value(walk->b, level->place.stack, node->value, err);
}

static int read_nodes(struct walk *walk, bool trie, struct error *err)
{
	int r = 0;
	while (!r && (walk->count > 0 || walk->cursor.at < walk->cursor.end)) {
		struct level level = {0};
		struct node node;
		if (walk->count > 0) {
			struct level *parent = &walk->levels[walk->count - 1];
			level = *parent;
			buffer_truncate(&walk->text, level.text_len);
			parent->children--;
		} else {
			buffer_clear(&walk->text);
		}
		r = read_node(&walk->cursor, &node, err);
		if (!r && walk->count == NODES_MAX)
			r = error_set(err, -E2BIG, "nodes are nested more than %u deep", NODES_MAX);
		if (!r)
			r = (trie ? enter_trie : enter_tree)(walk, &node, &level, err);
		if (!r)
			r = array_reserve(&walk->levels, &walk->capacity, walk->count + 1, SIZE_MAX / sizeof(level));
		if (r < 0)
			return r == -ENOMEM ? error_nomem(err) : r;
		level.children = node.children;
		walk->levels[walk->count++] = level;
		while (walk->count > 0 && walk->levels[walk->count - 1].children == 0)
			walk->count--;
	}
	return r;
}

int pyroscope_decode_stacks(enum pyroscope_stacks form, struct bytes input, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = profile_new(&profile, err);
	if (!r)
		r = profile_add_named_type(profile, "samples", "count", err);
	if (r < 0)
		return r;
	struct builder builder = {.profile = profile};
	if (form == PYROSCOPE_GROUPS || form == PYROSCOPE_LINES) {
		r = read_lines(&builder, form, input, err);
	} else {
		_cleanup_(walk_release) struct walk walk = {.b = &builder, .text.max = input.len};
		walk.cursor = pb_open(input);
		r = read_nodes(&walk, form == PYROSCOPE_TRIE, err);
	}
	if (r < 0)
		return error_prefix(err, r, "%s", form == PYROSCOPE_TRIE ? "trie" : form == PYROSCOPE_TREE ? "tree" : "stacks");
	*ret = TAKE(profile);
	return 0;
}

/* ---- names ---- */

static struct bytes trim(const char *from, const char *to)
{
	while (from < to && strchr(" \t", *from))
		from++;
	while (to > from && strchr(" \t", to[-1]))
		to--;
	return (struct bytes){(const uint8_t *)from, (size_t)(to - from)};
}

static bool name_is_allowed(struct bytes name, const char *others)
{
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.data[i], lower = c | 0x20;
		if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && (!c || !strchr(others, c)))
			return false;
	}
	return name.len > 0;
}

/* One "key=value"; the value may hold anything but ',' and '}', which end it. */
static int add_label(struct labels *labels, struct bytes key, struct bytes value, struct error *err)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_LABEL_VALUE_BYTES * 3 + 1};
	if (!name_is_allowed(key, "_."))
		return error_set(err, -EINVAL,
				 "name: the label name '%.*s' is empty or has characters other than letters, digits, '_', '.'",
				 key.len < 80 ? (int)key.len : 80, (const char *)key.data);
	if (key.len >= 2 && memcmp(key.data, "__", 2) == 0)
		return 0;
	label_name_sanitize(key, name);
	int r = text_append_utf8(&text, (struct bytes){value.data, text_cut(value, LIMIT_LABEL_VALUE_BYTES)});
	const char *string = r < 0 ? NULL : buffer_string(&text);
	return string ? labels_set(labels, name, string, err) : error_nomem(err);
}

int pyroscope_parse_name(const char *text, char ret_app[static PYROSCOPE_NAME_MAX], struct labels *labels, struct error *err)
{
	const char *at = text + strcspn(text, "{");
	struct bytes app = trim(text, at);
	if (app.len == 0)
		return error_set(err, -EINVAL, "name: the application name is missing: send ?name=APP{LABEL=VALUE}");
	if (!name_is_allowed(app, "_.-/") || app.len >= PYROSCOPE_NAME_MAX)
		return error_set(err, -EINVAL, "name: '%.80s' has characters other than letters, digits, '_', '.', '-', '/'",
				 text);
	memcpy(ret_app, app.data, app.len);
	ret_app[app.len] = '\0';
	while (*at && *at != '}') {
		const char *key = ++at;
		at += strcspn(at, "=,}");
		struct bytes name = trim(key, at);
		if (*at != '=') {
			if (name.len)
				return error_set(err, -EINVAL, "name: the label '%.80s' has no value", key);
			continue;
		}
		const char *value = ++at;
		at += strcspn(at, ",}");
		int r = add_label(labels, name, trim(value, at), err);
		if (r < 0)
			return r;
	}
	return 0;
}
