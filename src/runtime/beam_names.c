// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/beam.h"

#define MFA_OFFSET     16u /* in what is before a function's code: module, name, arity */
#define ATOM_MASK      0x3fu
#define ATOM_TAG       0x0bu
#define ATOM_SHIFT     6
#define ATOM_BYTES_MAX 1020u /* 255 characters */
#define ATOMS_SEGMENTS 120u  /* in the table */
#define SEGMENT_SHIFT  10
#define ATOM_LEN       24u /* in an atom's entry: 2 bytes */
#define ATOM_NAME      32u
#define LINES_BYTES    24u /* of a line table, before the addresses */
#define LOCATION_FILE  24  /* a location's bits from there on */
#define LIST_TAG       1u
#define LIST_NIL       0x3bu
#define SMALL_MASK     0xfu
#define SMALL_TAG      0xfu
#define PAIRS_READ     32u /* of a list that are read at once */
#define ELIXIR	       "Elixir."

struct source {
	const struct beam_build *build;
	uint64_t bias;
	const struct runtime_memory *memory;
};

static int read_at(const struct source *source, uint64_t address, void *to, size_t bytes)
{
	return source->memory->read(source->memory->context, address, to, bytes);
}

/* ---- texts ---- */

static int read_atom(const struct source *source, uint64_t atom, uint8_t text[static ATOM_BYTES_MAX], size_t *ret_len)
{
	uint64_t number = atom >> ATOM_SHIFT, segments = 0, segment = 0, entry = 0, name = 0;
	int16_t len = 0;

	if ((atom & ATOM_MASK) != ATOM_TAG || number >> 32)
		return -EBADMSG;
	int r = read_at(source, source->build->atoms + source->bias + ATOMS_SEGMENTS, &segments, 8);
	if (r == 0)
		r = read_at(source, segments + (number >> SEGMENT_SHIFT) * 8, &segment, 8);
	if (r == 0)
		r = read_at(source, segment + (number & ((1u << SEGMENT_SHIFT) - 1)) * 8, &entry, 8);
	if (r == 0)
		r = read_at(source, entry + ATOM_LEN, &len, 2);
	if (r == 0)
		r = read_at(source, entry + ATOM_NAME, &name, 8);
	if (r < 0)
		return r;
	if (len < 0 || (size_t)len > ATOM_BYTES_MAX)
		return -EBADMSG;
	*ret_len = (size_t)len;
	return len ? read_at(source, name, text, (size_t)len) : 0;
}

static void append(struct bytes text, struct runtime_function *ret, size_t *len)
{
	runtime_name_append(text, ret->name, len);
}

static void append_arity(uint64_t arity, struct runtime_function *ret, size_t *len)
{
	char text[8];

	snprintf(text, sizeof(text), "/%u", (unsigned)arity);
	append(bytes_of_string(text), ret, len);
}

/*
 * "-NAME/ARITY-fun-NUMBER-", an anonymous function in NAME/ARITY: 1, with that part of it. Behind the last slash are then the
 * arity, a word and the number, each with a '-' behind it; that of a comprehension has more or fewer.
 */
static int find_parent(struct bytes name, struct bytes *ret)
{
	const uint8_t *slash = name.len && name.data[0] == '-' ? memrchr(name.data, '/', name.len) : NULL, *dash = NULL;
	size_t dashes = 0;

	if (!slash || name.data[name.len - 1] != '-')
		return 0;
	for (const uint8_t *at = slash; at < name.data + name.len; at++) {
		if (*at != '-')
			continue;
		dash = dash ? dash : at;
		dashes++;
	}
	if (dashes != 3)
		return 0;
	*ret = (struct bytes){name.data + 1, (size_t)(dash - name.data - 1)};
	return 1;
}

/* As Elixir's stack traces have it: "Module.name/arity", "anonymous fn/arity in Module.name/arity". module: without "Elixir."
 */
static void name_elixir(struct bytes module, struct bytes name, uint64_t arity, struct runtime_function *ret)
{
	struct bytes shown = name;
	size_t len = 0;
	int is_anonymous = find_parent(name, &shown);

	if (is_anonymous) {
		append(bytes_of_string("anonymous fn"), ret, &len);
		append_arity(arity, ret, &len);
		append(bytes_of_string(" in "), ret, &len);
	}
	append(module, ret, &len);
	append(bytes_of_string("."), ret, &len);
	append(shown, ret, &len);
	if (!is_anonymous)
		append_arity(arity, ret, &len);
}

/* "module:name/arity"; modules of Elixir are "Elixir.Name". */
static int read_name(const struct source *source, uint64_t function, struct runtime_function *ret)
{
	uint64_t parts[3]; /* module, name, arity */
	uint8_t module[ATOM_BYTES_MAX], name[ATOM_BYTES_MAX];
	size_t bytes = 0, name_bytes = 0, len = 0, prefix = strlen(ELIXIR);

	int r = read_at(source, function + MFA_OFFSET, parts, sizeof(parts));
	if (r == 0)
		r = read_atom(source, parts[0], module, &bytes);
	if (r == 0)
		r = read_atom(source, parts[1], name, &name_bytes);
	if (r < 0)
		return r;
	if (parts[2] > 255)
		return -EBADMSG;
	if (bytes > prefix && memcmp(module, ELIXIR, prefix) == 0) {
		name_elixir((struct bytes){module + prefix, bytes - prefix}, (struct bytes){name, name_bytes}, parts[2], ret);
		return 0;
	}
	append((struct bytes){module, bytes}, ret, &len);
	append(bytes_of_string(":"), ret, &len);
	append((struct bytes){name, name_bytes}, ret, &len);
	append_arity(parts[2], ret, &len);
	return 0;
}

static size_t encode(uint64_t character, uint8_t to[static 4])
{
	if (character < 0x80) {
		to[0] = (uint8_t)character;
		return 1;
	}
	if (character < 0x800) {
		to[0] = (uint8_t)(0xc0 | character >> 6);
		to[1] = (uint8_t)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		to[0] = (uint8_t)(0xe0 | character >> 12);
		to[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
		to[2] = (uint8_t)(0x80 | (character & 0x3f));
		return 3;
	}
	to[0] = (uint8_t)(0xf0 | (character >> 18 & 7));
	to[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
	to[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
	to[3] = (uint8_t)(0x80 | (character & 0x3f));
	return 4;
}

/* A list of characters, whose pairs mostly lie one behind the other. */
static int read_list(const struct source *source, uint64_t list, char text[static RUNTIME_NAME_BYTES_MAX])
{
	uint64_t pairs[PAIRS_READ][2], start = 0;
	size_t len = 0, have = 0;

	for (size_t i = 0; i < RUNTIME_NAME_BYTES_MAX && list != LIST_NIL; i++) {
		uint64_t at = list & ~7ull;
		uint8_t character[4];
		if ((list & 3) != LIST_TAG)
			return -EBADMSG;
		if (!have || at < start || at - start >= have * 16 || (at - start) % 16) {
			start = at;
			have = PAIRS_READ;
			if (read_at(source, at, pairs, sizeof(pairs)) < 0) {
				have = 1;
				int r = read_at(source, at, pairs, sizeof(pairs[0]));
				if (r < 0)
					return r;
			}
		}
		const uint64_t *pair = pairs[(at - start) / 16];
		if ((pair[0] & SMALL_MASK) != SMALL_TAG || pair[0] >> 4 > 0x10ffff)
			return -EBADMSG;
		runtime_name_append((struct bytes){character, encode(pair[0] >> 4, character)}, text, &len);
		list = pair[1];
	}
	return 0;
}

/* ---- places ---- */

/* The number of the last of `count` addresses in a row, in order, that is not above pc; it is known that the first is not. */
static int find_place(const struct source *source, uint64_t addresses, uint64_t count, uint64_t pc, uint64_t *ret)
{
	uint64_t low = 0, high = count;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2, address = 0;
		int r = read_at(source, addresses + middle * 8, &address, sizeof(address));
		if (r < 0)
			return r;
		if (address <= pc)
			low = middle;
		else
			high = middle;
	}
	*ret = low;
	return 0;
}

struct line_table {
	uint64_t files;
	uint32_t location_bytes, unused;
	uint64_t locations;
};

static int read_location(const struct source *source, const struct line_table *lines, uint64_t at, uint32_t *ret)
{
	*ret = 0;
	return read_at(source, lines->locations + at * lines->location_bytes, ret, lines->location_bytes);
}

/* Line and file of the address in the function of that number; without them if the module has none. */
static int read_line(const struct source *source, uint64_t table, uint64_t number, uint64_t pc, struct runtime_function *ret,
		     uint32_t *ret_line)
{
	uint64_t bounds[2], first = 0, all = 0, at, file;
	struct line_table lines;
	uint32_t location = 0, head = 0;

	if (!table)
		return 0;
	int r = read_at(source, table, &lines, sizeof(lines));
	if (r == 0)
		r = read_at(source, table + LINES_BYTES, &all, sizeof(all));
	if (r == 0)
		r = read_at(source, table + LINES_BYTES + number * 8, bounds, sizeof(bounds));
	if (r < 0)
		return r;
	if ((lines.location_bytes != 2 && lines.location_bytes != 4) || bounds[0] < all || bounds[1] < bounds[0] ||
	    (bounds[1] - bounds[0]) / 8 > BEAM_FUNCTIONS_MAX || (bounds[0] - all) / 8 > BEAM_MODULES_MAX * 64ull)
		return -EBADMSG;
	if (bounds[0] == bounds[1])
		return 0;
	r = read_at(source, bounds[0], &first, sizeof(first));
	if (r < 0 || pc < first)
		return r;
	r = find_place(source, bounds[0], (bounds[1] - bounds[0]) / 8, pc, &at);
	if (r == 0)
		r = read_location(source, &lines, (bounds[0] - all) / 8 + at, &location);
	if (r == 0)
		r = read_location(source, &lines, (bounds[0] - all) / 8, &head);
	if (r < 0 || !location)
		return r;
	*ret_line = location & ((1u << LOCATION_FILE) - 1);
	ret->first_line = head & ((1u << LOCATION_FILE) - 1);
	r = read_at(source, lines.files + (location >> LOCATION_FILE) * 8, &file, sizeof(file));
	return r < 0 ? r : read_list(source, file, ret->file);
}

int beam_read_function(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
		       const struct beam_range *module, uint64_t pc, struct runtime_function *ret, uint32_t *ret_line)
{
	const struct source source = {build, bias, memory};
	uint64_t functions = module->start + build->layout.header_functions, count = 0, lines = 0, bounds[2], number;

	ret->name[0] = ret->file[0] = 0;
	ret->first_line = *ret_line = 0;
	int r = read_at(&source, module->start, &count, sizeof(count));
	if (r == 0)
		r = read_at(&source, module->start + build->layout.header_lines, &lines, sizeof(lines));
	if (r < 0)
		return r;
	if (!count || count > BEAM_FUNCTIONS_MAX)
		return -EBADMSG;
	r = find_place(&source, functions, count, pc, &number);
	if (r == 0)
		r = read_at(&source, functions + number * 8, bounds, sizeof(bounds));
	if (r < 0)
		return r;
	if (bounds[0] < module->start || bounds[1] > module->end || bounds[0] >= bounds[1])
		return -EBADMSG;
	if (pc < bounds[0] || pc >= bounds[1])
		return -ENOENT;
	r = read_name(&source, bounds[0], ret);
	return r < 0 ? r : read_line(&source, lines, number, pc, ret, ret_line);
}
