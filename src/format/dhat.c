/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of DHAT, valgrind's heap profiler (`valgrind --tool=dhat`, manual chapter "DHAT: a dynamic heap analysis tool"), of
 * version 2, which Rust's dhat crate writes as well. JSON: "pps", the program points that asked for memory, each with its stack
 * as numbers of entries of "ftbl", the leaf first; entry 0 is "[root]".
 *
 *   tb, tbk   bytes and blocks, all in all         alloc_space, alloc_objects
 *   gb, gbk   when the heap was at its largest     peak_space, peak_objects
 *   eb, ebk   when the program ended               inuse_space, inuse_objects
 *
 * The last four are there if "bklt" says so. Of the modes "copy" and "ad-hoc" the totals are of something else, which "mode"
 * and the names of the units tell. An entry is "0xADDRESS: NAME (FILE:LINE)" or "... (in BINARY)"; entries of one address that
 * follow each other were inlined. Lifetimes, maxima of single program points (which were not at one time and have no sum), and
 * what was read and written, are left out.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/json_tree.h"
#include "format/format_int.h"

#define VERSION	     2
#define VALUES	     6
#define UNIT_MAX     48
#define DETECT_BYTES 4096

struct entry {
	uint64_t address;
	struct profile_line line;
	uint32_t file_name; /* of a binary */
	bool has_line;
};

struct reader {
	struct profile *profile;
	struct entry *entries;
	size_t entry_count;
	bool has_lifetimes;
	uint64_t accesses, missing;
	uint32_t stack[LIMIT_STACK_DEPTH];
};

static struct bytes slice(struct bytes text, size_t from, size_t to)
{
	return (struct bytes){text.data + from, to - from};
}

/* "0x109169: "; *text becomes what follows. */
static uint64_t take_address(struct bytes *text)
{
	uint64_t address = 0;
	size_t at = 2;
	if (text->len < 5 || text->data[0] != '0' || text->data[1] != 'x')
		return 0;
	for (int digit; at < text->len && at < 18 && (digit = text_hex_digit(text->data[at])) >= 0; at++)
		address = address << 4 | (unsigned)digit;
	if (at + 2 > text->len || text->data[at] != ':' || text->data[at + 1] != ' ')
		return 0;
	*text = slice(*text, at + 2, text->len);
	return address;
}

/* Takes ":17" off the end of a place; 0 if there is none. */
static int64_t take_number(struct bytes *place)
{
	size_t at = place->len;
	int64_t number = 0, unit = 1;
	for (; at > 0 && place->data[at - 1] >= '0' && place->data[at - 1] <= '9' && unit < 1000000000; unit *= 10)
		number += (place->data[--at] - '0') * unit;
	if (at < 2 || at == place->len || place->data[at - 1] != ':')
		return 0;
	place->len = at - 1;
	return number;
}

/* "(heap.c:4)" or "(lib.rs:4:17)" at the end of a name that may hold parentheses; *text becomes the name. */
static struct bytes take_place(struct bytes *text)
{
	size_t at = format_find_parentheses(*text);
	if (at == SIZE_MAX || at < 2 || text->data[at - 1] != ' ')
		return (struct bytes){0};
	struct bytes place = slice(*text, at + 1, text->len - 1);
	text->len = at - 1;
	return place;
}

static int read_entry(struct reader *reader, struct bytes text, struct entry *ret, struct error *err)
{
	struct profile_function function = {0};
	*ret = (struct entry){.address = take_address(&text)};
	struct bytes place = take_place(&text);
	int r = 0;
	if (place.len > 3 && memcmp(place.data, "in ", 3) == 0) {
		r = profile_add_string(reader->profile, place.data + 3, place.len - 3, &ret->file_name, err);
	} else if (place.len > 0) {
		int64_t last = take_number(&place), before = take_number(&place);
		ret->line.line = before ? before : last;
		ret->line.column = before ? last : 0;
		r = profile_add_bytes(reader->profile, place, &function.file_name, err);
	}
	/* Valgrind's name for what it has no name of */
	ret->has_line = text.len > 0 && !bytes_equal_string(text, "???");
	if (r < 0 || !ret->has_line)
		return r;
	r = profile_add_bytes(reader->profile, text, &function.name, err);
	return r < 0 ? r : profile_add_function(reader->profile, &function, &ret->line.function, err);
}

static int read_table(struct reader *reader, const struct json_node *table, struct error *err)
{
	if (!json_node_is(table, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array ftbl");
	reader->entries = mem_zalloc_array(table->count, sizeof(*reader->entries));
	if (!reader->entries)
		return error_nomem(err);
	reader->entry_count = table->count;
	for (size_t i = 0; i < table->count; i++) {
		if (!json_node_text(json_node_at(table, i)))
			return error_set(err, -EBADMSG, "entry %zu of ftbl is not a string", i);
		int r = read_entry(reader, json_node_bytes(json_node_at(table, i)), &reader->entries[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The location of entries that have one address: those that were inlined come first. */
static int add_location(struct reader *reader, const uint32_t *numbers, size_t count, uint32_t *ret, struct error *err)
{
	struct profile_line lines[64];
	const struct entry *last = &reader->entries[numbers[count - 1]];
	struct profile_location location = {.address = last->address};
	size_t line_count = 0;
	int r = 0;
	for (size_t i = 0; i < count; i++)
		if (reader->entries[numbers[i]].has_line)
			lines[line_count++] = reader->entries[numbers[i]].line;
	if (last->file_name) {
		struct profile_mapping mapping = {.file_name = last->file_name, .flags = PROFILE_MAPPING_HAS_FUNCTIONS};
		r = profile_add_mapping(reader->profile, &mapping, &location.mapping, err);
	}
	return r < 0 ? r : profile_add_location(reader->profile, &location, lines, line_count, ret, err);
}

static int read_stack(struct reader *reader, const struct json_node *frames, uint32_t *ret, struct error *err)
{
	size_t count = json_node_count(frames), depth = 0;
	uint32_t numbers[64];
	if (!json_node_is(frames, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array fs");
	if (count > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	for (size_t i = 0, run = 0; i < count; i++) {
		int64_t number, next = -1;
		if (!json_node_integer(json_node_at(frames, i), &number) || number < 0 ||
		    (uint64_t)number >= reader->entry_count) {
			reader->missing++;
			continue;
		}
		numbers[run++] = (uint32_t)number;
		uint64_t address = reader->entries[number].address;
		if (address && run < 64 && json_node_integer(json_node_at(frames, i + 1), &next) && next >= 0 &&
		    (uint64_t)next < reader->entry_count && reader->entries[next].address == address)
			continue;
		int r = add_location(reader, numbers, run, &reader->stack[depth++], err);
		if (r < 0)
			return r;
		run = 0;
	}
	return profile_add_stack_leaf_first(reader->profile, reader->stack, depth, ret, err);
}

static int read_point(struct reader *reader, const struct json_node *point, struct error *err)
{
	static const char *const names[VALUES] = {"tbk", "tb", "gbk", "gb", "ebk", "eb"};
	struct profile_sample sample = {0};
	int64_t values[VALUES];
	for (size_t i = 0; i < reader->profile->sample_type_count; i++)
		if (!json_node_integer(json_node_get(point, names[i]), &values[i]) || values[i] < 0)
			return error_set(err, -EBADMSG, "no number %s", names[i]);
	reader->accesses += json_node_get(point, "rb") || json_node_get(point, "acc");
	int r = read_stack(reader, json_node_get(point, "fs"), &sample.stack, err);
	return r < 0 ? r : profile_add_sample(reader->profile, &sample, values, err);
}

/* A unit of the file's own: "units" and "events" of the mode ad-hoc, by default bytes and blocks. */
static const char *unit_of(const struct json_node *root, const char *key, const char *other, char out[UNIT_MAX])
{
	struct bytes text = json_node_bytes(json_node_get(root, key));
	if (text.len == 0 || text.len >= UNIT_MAX || strlen((const char *)text.data) != text.len)
		return other;
	memcpy(out, text.data, text.len + 1);
	return out;
}

static int add_types(struct reader *reader, const struct json_node *root, struct error *err)
{
	static const char *const types[VALUES][2] = {{"alloc_objects", "count"}, {"alloc_space", "bytes"},
						     {"peak_objects", "count"},	 {"peak_space", "bytes"},
						     {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
	const char *mode = json_node_text(json_node_get(root, "mode"));
	const struct json_node *lifetimes = json_node_get(root, "bklt");
	struct profile *profile = reader->profile;
	char unit[UNIT_MAX], units[UNIT_MAX];
	int r = 0;
	if (!mode)
		return error_set(err, -EBADMSG, "no mode");
	reader->has_lifetimes = json_node_is(lifetimes, JSON_NODE_BOOLEAN) && lifetimes->boolean;
	if (text_ends_with(mode, "heap")) {
		for (size_t i = 0; r == 0 && i < (reader->has_lifetimes ? VALUES : 2); i++)
			r = profile_add_named_type(profile, types[i][0], types[i][1], err);
	} else {
		r = profile_add_named_type(profile, unit_of(root, "bksu", "blocks", units), "count", err);
		const char *name = unit_of(root, "bsu", "bytes", unit);
		if (r == 0)
			r = profile_add_named_type(profile, name, strcmp(name, "bytes") == 0 ? "bytes" : "count", err);
		reader->has_lifetimes = false;
	}
	/* What the heap was made of when it was at its largest is what people look for. */
	if (r == 0 && profile->sample_type_count == VALUES)
		profile->default_sample_type = profile->sample_types[3].type;
	return r;
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *points = json_node_get(root, "pps");
	int64_t version = 0, pid = 0;
	if (!json_node_integer(json_node_get(root, "dhatFileVersion"), &version))
		return error_set(err, -EBADMSG, "no dhatFileVersion");
	if (version != VERSION)
		return error_set(err, -EBADMSG, "DHAT version %lld is not supported, only %d", (long long)version, VERSION);
	if (!json_node_is(points, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array pps");
	json_node_integer(json_node_get(root, "pid"), &pid);
	int r = add_types(reader, root, err);
	if (r == 0)
		r = format_add_origin(reader->profile, json_node_bytes(json_node_get(root, "cmd")), pid, err);
	if (r == 0)
		r = read_table(reader, json_node_get(root, "ftbl"), err);
	for (size_t i = 0; r == 0 && i < points->count; i++) {
		r = read_point(reader, json_node_at(points, i), err);
		if (r < 0)
			return error_prefix(err, r, "program point %zu", i);
	}
	return r;
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	struct buffer *notes = options ? options->notes : NULL;
	if (!notes)
		return 0;
	if (reader->has_lifetimes && reader->profile->sample_count > 0)
		buffer_printf(notes, "lifetimes and maximums of the blocks of %zu program points\n",
			      reader->profile->sample_count);
	if (reader->accesses)
		buffer_printf(notes, "reads and writes of the blocks of %llu program points\n",
			      (unsigned long long)reader->accesses);
	const struct format_left_out left_out = {reader->missing, "frames that are missing in ftbl"};
	int r = format_note_status(notes, err);
	return r < 0 ? r : format_note(options, &left_out, 1, err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = format_begin_json(input, &json, &reader->profile, err);
	if (r == 0)
		r = read_all(reader, json_tree_root(json), err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	mem_free(reader->entries);
	mem_free(reader);
	return r;
}

/* The version comes first. */
static bool detect(struct bytes input)
{
	size_t max = input.len < DETECT_BYTES ? input.len : DETECT_BYTES;
	return json_looks_like_object(input) && memmem(input.data, max, "\"dhatFileVersion\"", 17);
}

const struct format format_dhat = {
	.name = "dhat",
	.extensions = ".dhat",
	.description = "valgrind's heap profiles: --tool=dhat, Rust's dhat crate",
	.detect = detect,
	.decode = decode,
};
