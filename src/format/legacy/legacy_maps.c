/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings behind a legacy profile, and which one each address lies in. A line is one of /proc/PID/maps,
 *
 *   START-END PERMISSIONS OFFSET DEVICE INODE FILE
 *
 * or one of other tools: "START-END: FILE (@OFFSET) BUILD-ID", where all but the range may be missing. "NAME=VALUE" defines
 * what $NAME stands for in later lines; what Google's log writes in front of a line ("... file.cc:12] ") is taken off.
 *
 * google/pprof's choices: mappings that are not executable are left out; neighbours of one file whose offsets go on are one;
 * the first that is no library comes first and stands for the program; and what huge pages and linkers do to the program's
 * first mapping is put right.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "format/legacy/legacy_int.h"

#define MAPPINGS_MAX	 65536
#define ATTRIBUTES_MAX	 64
#define LINE_BYTES_MAX	 (64 * KIB)
#define EXPANDED_MAX	 (64 * MIB)   /* bytes of attributes' values in all lines together */
#define SEARCH_STEPS_MAX (1ull << 31) /* of all addresses together */
#define EXECUTABLE_START 0x400000     /* of programs that are not position-independent */

bool legacy_begins_maps(struct bytes line)
{
	return memmem(line.data, line.len, "--- Memory map: ---", 19) || memmem(line.data, line.len, "MAPPED_LIBRARIES:", 17);
}

/* ---- a line ---- */

struct attribute {
	struct bytes name, value; /* views of the text */
};
struct maps {
	struct legacy *legacy;
	struct attribute attributes[ATTRIBUTES_MAX];
	size_t attribute_count;
	struct buffer line; /* with the attributes' values */
	size_t expanded;    /* bytes of those so far */
};

struct entry {
	uint64_t start, limit, offset;
	struct bytes file, build_id;
};

static struct bytes take_word(struct bytes *rest)
{
	while (rest->len > 0 && legacy_is_space(rest->data[0]))
		*rest = bytes_skip(*rest, 1);
	size_t len = 0;
	while (len < rest->len && !legacy_is_space(rest->data[len]))
		len++;
	struct bytes word = {rest->data, len};
	*rest = bytes_skip(*rest, len);
	return word;
}

/* The digits at the beginning, with or without 0x before them. */
static bool take_hex(struct bytes *rest, uint64_t *ret)
{
	size_t len = 0;
	if (bytes_start_with(*rest, "0x"))
		*rest = bytes_skip(*rest, 2);
	while (len < rest->len && text_hex_digit(rest->data[len]) >= 0)
		len++;
	bool good = legacy_hex((struct bytes){rest->data, len}, ret);
	*rest = bytes_skip(*rest, len);
	return good;
}

static bool take_range(struct bytes *rest, struct entry *ret)
{
	*rest = legacy_trim(*rest);
	if (!take_hex(rest, &ret->start) || rest->len == 0 || !(rest->data[0] == '-' || legacy_is_space(rest->data[0])))
		return false;
	*rest = legacy_trim(bytes_skip(*rest, 1));
	if (!take_hex(rest, &ret->limit))
		return false;
	if (bytes_start_with(*rest, ":"))
		*rest = bytes_skip(*rest, 1);
	return rest->len == 0 || legacy_is_space(rest->data[0]);
}

static bool is_permissions(struct bytes word)
{
	for (size_t i = 0; i < word.len; i++)
		if (!memchr("-rwxp", word.data[i], 5))
			return false;
	return word.len > 0;
}

static bool is_device(struct bytes word)
{
	const uint8_t *colon = memchr(word.data, ':', word.len);
	if (!colon || colon == word.data || colon == word.data + word.len - 1)
		return false;
	for (size_t i = 0; i < word.len; i++)
		if (word.data + i != colon && text_hex_digit(word.data[i]) < 0)
			return false;
	return true;
}

static bool is_number(struct bytes word)
{
	size_t digits = 0;
	while (digits < word.len && text_is_digit(word.data[digits]))
		digits++;
	return digits > 0 && digits == word.len;
}

/* [OFFSET] DEVICE INODE [FILE], as /proc has it. */
static bool parse_proc(struct bytes rest, struct entry *ret)
{
	struct bytes word = take_word(&rest);
	if (!is_device(word)) {
		if (!legacy_hex(word, &ret->offset))
			return false;
		word = take_word(&rest);
	}
	if (!is_device(word) || !is_number(take_word(&rest)))
		return false;
	ret->file = take_word(&rest);
	return true;
}

/* [FILE] [(@OFFSET)] [BUILD-ID] */
static void parse_brief(struct bytes rest, struct entry *ret)
{
	struct bytes word;
	uint64_t number;
	ret->offset = 0;
	ret->file = take_word(&rest);
	word = take_word(&rest);
	if (bytes_start_with(word, "(@") && word.data[word.len - 1] == ')' &&
	    legacy_hex((struct bytes){word.data + 2, word.len - 3}, &number)) {
		ret->offset = number;
		word = take_word(&rest);
	}
	for (size_t i = 0; i < word.len; i++)
		if (text_hex_digit(word.data[i]) < 0)
			return;
	ret->build_id = word;
}

/* 1: an executable mapping; 0: another; -EBADMSG: no mapping at all. */
static int parse_entry(struct bytes line, struct entry *ret)
{
	*ret = (struct entry){0};
	if (!take_range(&line, ret))
		return -EBADMSG;
	struct bytes rest = line, word = take_word(&rest);
	bool has_permissions = is_permissions(word);
	if (has_permissions)
		line = rest;
	if (!parse_proc(line, ret))
		parse_brief(line, ret);
	return !has_permissions || memchr(word.data, 'x', word.len) ? 1 : 0;
}

/* Behind what a log wrote: "... file.cc:12] ". */
static struct bytes skip_log_head(struct bytes line)
{
	size_t at = 0, digits = 0;
	while (at < line.len && line.data[at] != '[' && line.data[at] != ']')
		at++;
	while (digits < at && text_is_digit(line.data[at - 1 - digits]))
		digits++;
	bool is_head = at + 1 < line.len && line.data[at] == ']' && legacy_is_space(line.data[at + 1]) && digits > 0 &&
		       digits + 1 < at && line.data[at - 1 - digits] == ':';
	return is_head ? bytes_skip(line, at + 2) : line;
}

static int expand(struct maps *maps, struct bytes line, struct error *err)
{
	buffer_clear(&maps->line);
	for (size_t at = 0; at < line.len;) {
		const struct attribute *found = NULL;
		for (size_t i = 0; line.data[at] == '$' && !found && i < maps->attribute_count; i++) {
			struct bytes name = maps->attributes[i].name;
			if (name.len < line.len - at && memcmp(line.data + at + 1, name.data, name.len) == 0)
				found = &maps->attributes[i];
		}
		if (found && (maps->expanded += found->value.len) > EXPANDED_MAX)
			return error_set(err, -E2BIG,
					 "the values of $NAME in the mappings have more than %llu bytes, the limit",
					 EXPANDED_MAX);
		if (found)
			buffer_append(&maps->line, found->value.data, found->value.len);
		else
			buffer_append_byte(&maps->line, line.data[at]);
		at += found ? found->name.len + 1 : 1;
	}
	int r = buffer_status(&maps->line);
	if (r == -ENOMEM)
		return error_nomem(err);
	return r < 0 ? error_set(err, r, "a line of the mappings is longer than the limit") : 0;
}

/* A line "NAME=VALUE", as it stands in the text. */
static void note_attribute(struct maps *maps, struct bytes line)
{
	const uint8_t *equals = memchr(line.data, '=', line.len);
	if (!equals || maps->attribute_count == ATTRIBUTES_MAX)
		return;
	size_t at = (size_t)(equals - line.data);
	struct attribute *attribute = &maps->attributes[maps->attribute_count];
	attribute->name = legacy_trim((struct bytes){line.data, at});
	attribute->value = legacy_trim(bytes_skip(line, at + 1));
	maps->attribute_count += attribute->name.len > 0;
}

static int add_entry(struct legacy *legacy, const struct entry *entry, struct error *err)
{
	struct legacy_mapping mapping = {.start = entry->start, .limit = entry->limit, .offset = entry->offset};
	int r = profile_add_bytes(legacy->profile, entry->file, &mapping.file, err);
	if (r == 0)
		r = profile_add_bytes(legacy->profile, entry->build_id, &mapping.build_id, err);
	if (r < 0)
		return r;
	r = array_push(&legacy->mappings, &legacy->mapping_count, &legacy->mapping_capacity, MAPPINGS_MAX, mapping);
	if (r == -E2BIG)
		return error_set(err, r, "more than %d mappings, the limit", MAPPINGS_MAX);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- putting them right ---- */

/* Whether b goes on where a ends. */
static bool is_adjacent(const struct legacy_mapping *a, const struct legacy_mapping *b)
{
	if ((a->file && b->file && a->file != b->file) || (a->build_id && b->build_id && a->build_id != b->build_id) ||
	    a->limit != b->start)
		return false;
	return !a->offset || !b->offset || a->offset + (a->limit - a->start) == b->offset;
}

static void join_adjacent(struct legacy *legacy)
{
	size_t kept = 0;
	for (size_t i = 0; i < legacy->mapping_count; i++) {
		struct legacy_mapping *last = kept ? &legacy->mappings[kept - 1] : NULL, *next = &legacy->mappings[i];
		if (!last || !is_adjacent(last, next)) {
			legacy->mappings[kept++] = *next;
			continue;
		}
		last->limit = next->limit;
		last->file = next->file ? next->file : last->file;
		last->build_id = next->build_id ? next->build_id : last->build_id;
	}
	legacy->mapping_count = kept;
}

/* "libc.so", "libc.so.6", "libc.so_1" anywhere in the name. */
static bool is_library(struct bytes file)
{
	for (size_t at = 0; at + 3 <= file.len; at++) {
		struct bytes rest = bytes_skip(file, at);
		if (!bytes_start_with(rest, ".so"))
			continue;
		if (rest.len == 3 ||
		    (rest.len > 4 && (rest.data[3] == '.' || rest.data[3] == '_') && text_is_digit(rest.data[4])))
			return true;
	}
	return false;
}

static void put_program_first(struct legacy *legacy)
{
	for (size_t i = 0; i < legacy->mapping_count; i++) {
		struct bytes file = profile_string_bytes(legacy->profile, legacy->mappings[i].file);
		if (file.len == 0 || file.data[0] == '[' || bytes_equal_string(file, "(deleted)") || is_library(file))
			continue;
		struct legacy_mapping program = legacy->mappings[i];
		legacy->mappings[i] = legacy->mappings[0];
		legacy->mappings[0] = program;
		return;
	}
}

static void put_first_right(struct legacy *legacy)
{
	struct legacy_mapping *first = legacy->mappings;
	if (legacy->mapping_count > 1 && first->limit == first[1].start &&
	    bytes_start_with(profile_string_bytes(legacy->profile, first->file), "/anon_hugepage")) {
		legacy->mapping_count--;
		memmove(first, first + 1, legacy->mapping_count * sizeof(*first));
	}
	if (legacy->mapping_count > 0 && first->start - first->offset == EXECUTABLE_START) {
		first->start = EXECUTABLE_START;
		first->offset = 0;
	}
}

int legacy_read_maps(struct legacy *legacy, struct bytes text, struct error *err)
{
	struct maps maps = {.legacy = legacy};
	struct entry entry;
	int r = 0;
	buffer_init(&maps.line, LINE_BYTES_MAX);
	while (r == 0 && text.len > 0) {
		struct bytes line = bytes_take_line(&text), bare = skip_log_head(line);
		r = expand(&maps, bare, err);
		if (r < 0)
			break;
		int found = parse_entry(buffer_bytes(&maps.line), &entry);
		if (found > 0)
			r = add_entry(legacy, &entry, err);
		else if (found < 0)
			note_attribute(&maps, bare);
	}
	buffer_release(&maps.line);
	if (r < 0)
		return r;
	join_adjacent(legacy);
	put_program_first(legacy);
	return 0;
}

int legacy_find_maps(struct legacy *legacy, struct bytes text, struct error *err)
{
	while (text.len > 0) {
		struct bytes line = bytes_take_line(&text);
		if (legacy_begins_maps(line))
			return legacy_read_maps(legacy, text, err);
		legacy->counts.unread_lines += !legacy_is_comment(line) && !bytes_start_with(line, "---");
	}
	return 0;
}

/* ---- which mapping an address lies in ---- */

/* + 1; 0 = none */
static uint32_t find_mapping(struct legacy *legacy, uint64_t address)
{
	for (size_t i = 0; i < legacy->mapping_count; i++)
		if (legacy->mappings[i].start <= address && address < legacy->mappings[i].limit)
			return (uint32_t)i + 1;
	/* The first part of a mapping may be missing. */
	for (size_t i = 0; i < legacy->mapping_count; i++) {
		struct legacy_mapping *mapping = &legacy->mappings[i];
		uint64_t start = mapping->start - mapping->offset;
		if (mapping->offset == 0 || start > address || address >= mapping->start)
			continue;
		mapping->start = start;
		mapping->offset = 0;
		return (uint32_t)i + 1;
	}
	return 0;
}

int legacy_place_addresses(struct legacy *legacy, struct error *err)
{
	uint32_t other = 0; /* where nothing is known: all of the address space */
	if (legacy->address_count * (uint64_t)(legacy->mapping_count + 1) > SEARCH_STEPS_MAX)
		return error_set(err, -E2BIG, "%zu addresses in %zu mappings are too many", legacy->address_count,
				 legacy->mapping_count);
	put_first_right(legacy);
	for (size_t i = 0; i < legacy->address_count; i++) {
		struct legacy_address *address = &legacy->addresses[i];
		if (address->address == 0 || address->function)
			continue;
		address->mapping = find_mapping(legacy, address->address);
		if (!address->mapping && !other) {
			int r = add_entry(legacy, &(struct entry){.limit = UINT64_MAX}, err);
			if (r < 0)
				return r;
			other = (uint32_t)legacy->mapping_count;
		}
		if (!address->mapping)
			address->mapping = other;
	}
	return 0;
}
