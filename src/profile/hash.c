/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a stack: a 128-bit hash of its content.
 *
 * It is stored in blocks and compared between hosts and between releases, so the bytes that are hashed are a format. All
 * numbers are little-endian; a string is its length as u32, then its bytes; a hash is its low half as u64, then its high half.
 * H is XXH3-128 with seed 0.
 *
 *   function = H(  'F' u8, version u8 = 1, name string, system name string, file name string, start line i64 )
 *   location = H(  'L' u8, version u8 = 1, frame type u8, kind u8,
 *                  kind 1, has lines:   count u32, then for each line, innermost first: function hash, line i64, column i64
 *                  kind 2, build-id:    string, file offset u64
 *                  kind 3, file name:   string, file offset u64        (the mapping has no build-id)
 *                  kind 4, no mapping:  address u64                    (or a mapping that has neither)
 *                  kind 5, build-id:    string, linked address u64     (profile_mapping_is_linked(), and not the kernel's) )
 *   stack    = H(  parent's stack hash, location hash ), 32 bytes;  the empty stack's hash is 0
 *
 * What is left out is left out on purpose: ids, where a mapping was loaded (start, limit), its flags, and pprof's is_folded
 * describe one process or one file, not the code. Lines come before addresses because a source that knows names (an
 * interpreter, a pprof file) often has no stable addresses.
 *
 * A change of this layout is a new version, written into the hashed bytes, so that old and new hashes never collide: the same
 * stack in blocks of two versions is then merely stored twice. Rejected: hashing the whole stack as one string, which costs
 * O(depth) for each of a trie's nodes where this is O(1), and gives no hash for inner nodes.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "profile/profile_int.h"

#define LAYOUT_VERSION 1

enum location_kind {
	LOCATION_HAS_LINES = 1,
	LOCATION_BY_BUILD_ID = 2,
	LOCATION_BY_FILE_NAME = 3,
	LOCATION_BY_ADDRESS = 4,
	LOCATION_BY_LINKED_ADDRESS = 5,
};

static void store_u64(uint8_t *out, uint64_t value)
{
	for (unsigned i = 0; i < 8; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static void store_hash(uint8_t *out, struct hash128 hash)
{
	store_u64(out, hash.low);
	store_u64(out + 8, hash.high);
}

static void put_u64(struct buffer *out, uint64_t value)
{
	uint8_t bytes[8];
	store_u64(bytes, value);
	buffer_append(out, bytes, sizeof(bytes));
}

static void put_u32(struct buffer *out, uint32_t value)
{
	uint8_t bytes[8];
	store_u64(bytes, value);
	buffer_append(out, bytes, 4);
}

static void put_string(struct buffer *out, struct bytes text)
{
	put_u32(out, (uint32_t)text.len);
	buffer_append(out, text.data, text.len);
}

static void put_head(struct buffer *out, char what)
{
	buffer_clear(out);
	buffer_append_byte(out, (uint8_t)what);
	buffer_append_byte(out, LAYOUT_VERSION);
}

static void hash_function(const struct profile *profile, uint32_t id, struct buffer *scratch, struct hash128 *ret)
{
	const struct profile_function *function = &profile->functions[id];
	put_head(scratch, 'F');
	put_string(scratch, profile_string_bytes(profile, function->name));
	put_string(scratch, profile_string_bytes(profile, function->system_name));
	put_string(scratch, profile_string_bytes(profile, function->file_name));
	put_u64(scratch, (uint64_t)function->start_line);
	*ret = hash128(scratch->data, scratch->len);
}

static void put_lines(const struct profile *profile, const struct profile_location *location, const struct hash128 *functions,
		      struct buffer *out)
{
	put_u32(out, location->line_count);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		uint8_t bytes[32];
		store_hash(bytes, functions[line->function]);
		store_u64(bytes + 16, (uint64_t)line->line);
		store_u64(bytes + 24, (uint64_t)line->column);
		buffer_append(out, bytes, sizeof(bytes));
	}
}

static enum location_kind kind_of(const struct profile *profile, const struct profile_location *location)
{
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	if (location->line_count > 0)
		return LOCATION_HAS_LINES;
	bool is_linked = location->frame_type != PROFILE_FRAME_KERNEL &&
			 profile_mapping_is_linked(mapping->start, mapping->limit, mapping->offset);
	if (mapping->build_id)
		return is_linked ? LOCATION_BY_LINKED_ADDRESS : LOCATION_BY_BUILD_ID;
	return mapping->file_name ? LOCATION_BY_FILE_NAME : LOCATION_BY_ADDRESS;
}

static void hash_location(const struct profile *profile, uint32_t id, const struct hash128 *functions, struct buffer *scratch,
			  struct hash128 *ret)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	enum location_kind kind = kind_of(profile, location);
	put_head(scratch, 'L');
	buffer_append_byte(scratch, (uint8_t)location->frame_type);
	buffer_append_byte(scratch, (uint8_t)kind);
	if (kind == LOCATION_HAS_LINES)
		put_lines(profile, location, functions, scratch);
	if (kind == LOCATION_BY_BUILD_ID || kind == LOCATION_BY_LINKED_ADDRESS)
		put_string(scratch, profile_string_bytes(profile, mapping->build_id));
	if (kind == LOCATION_BY_FILE_NAME)
		put_string(scratch, profile_string_bytes(profile, mapping->file_name));
	if (kind != LOCATION_HAS_LINES)
		put_u64(scratch, kind == LOCATION_BY_ADDRESS ? location->address : profile_location_file_offset(profile, id));
	*ret = hash128(scratch->data, scratch->len);
}

void profile_hashes_release(struct profile_hashes *hashes)
{
	mem_free(hashes->functions);
	mem_free(hashes->locations);
	mem_free(hashes->stacks);
	*hashes = (struct profile_hashes){0};
}

static int reserve_hashes(const struct profile *profile, struct profile_hashes *h)
{
	int r = array_reserve(&h->functions, &h->function_capacity, profile->function_count, UINT32_MAX);
	if (r == 0)
		r = array_reserve(&h->locations, &h->location_capacity, profile->location_count, UINT32_MAX);
	return r == 0 ? array_reserve(&h->stacks, &h->stack_capacity, profile->stack_count, UINT32_MAX) : r;
}

static int hash_tables(const struct profile *profile, struct buffer *scratch, struct profile_hashes *h)
{
	for (; h->function_count < profile->function_count; h->function_count++) {
		hash_function(profile, (uint32_t)h->function_count, scratch, &h->functions[h->function_count]);
		if (buffer_status(scratch) < 0)
			return buffer_status(scratch);
	}
	for (; h->location_count < profile->location_count; h->location_count++) {
		hash_location(profile, (uint32_t)h->location_count, h->functions, scratch, &h->locations[h->location_count]);
		if (buffer_status(scratch) < 0)
			return buffer_status(scratch);
	}
	return 0;
}

int profile_hash_more(const struct profile *profile, struct profile_hashes *hashes, struct error *err)
{
	_cleanup_(buffer_release) struct buffer scratch = {.max = 4 * LIMIT_PROFILE_STRING_BYTES};
	/* All that one entry can hold is in the profile: its strings, or its lines. */
	if (reserve_hashes(profile, hashes) < 0 || hash_tables(profile, &scratch, hashes) < 0)
		return error_nomem(err);
	for (size_t i = hashes->stack_count; i < profile->stack_count; i++) {
		uint8_t bytes[32];
		if (i == 0) {
			hashes->stacks[0] = (struct hash128){0};
			continue;
		}
		store_hash(bytes, hashes->stacks[profile->stacks[i].parent]);
		store_hash(bytes + 16, hashes->locations[profile->stacks[i].location]);
		hashes->stacks[i] = hash128(bytes, sizeof(bytes));
	}
	hashes->stack_count = profile->stack_count;
	return 0;
}

int profile_hash_stacks(const struct profile *profile, struct hash128 *ret_hashes, struct error *err)
{
	_cleanup_(profile_hashes_release) struct profile_hashes hashes = {0};
	int r = profile_hash_more(profile, &hashes, err);
	if (r == 0)
		memcpy(ret_hashes, hashes.stacks, profile->stack_count * sizeof(*ret_hashes));
	return r;
}
