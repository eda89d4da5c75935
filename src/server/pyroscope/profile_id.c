/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of profiles. Pyroscope gives each profile that it receives a random UUID and stores it beside the profile. The store here
 * keeps samples and not the profiles that they came in, so nothing of that kind is stored. But the samples of one profile have
 * its time and are of one series, and what one series has in one millisecond is what is called a profile everywhere in this
 * API. That is named by its time and its series, and so an id can be computed from them, and they can be read off an id:
 *
 *   bytes  0 to 5   milliseconds since 1970, big endian
 *   byte   6        0x80 | the 4 highest bits of the series' key
 *   byte   7        the next 8
 *   byte   8        0x80 | the next 6
 *   bytes  9 to 14  the next 46, and two zeros
 *   byte   15       a check: 8 bits of a hash of the bytes before it
 *
 * which is a UUID of version 8 (RFC 9562, 5.8: the maker's own). It costs no byte of storage, is the same after a restart, and
 * finds a profile that came before ids were there. Two profiles of one series in the same millisecond are one. Where only
 * rollups are left an exemplar is of five minutes, and its id finds it only among the labels that rollups keep. An id that
 * another server made is a UUID of another version, or fails the check: it selects nothing, as it does there when its profile
 * is gone.
 *
 * Rejected: a column with the client's or a random id. It would be 16 bytes that do not compress for every profile, half of
 * what a whole profile takes in a block.
 */
#include "server/pyroscope/profile_id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/order.h"
#include "base/text.h"

#define ID_BYTES 16

/* "8-4-4-4-12" digits */
static bool starts_group(size_t byte)
{
	return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

static uint8_t check_of(const uint8_t *id)
{
	return (uint8_t)hash64(id, ID_BYTES - 1);
}

void pyroscope_profile_id_format(const struct pyroscope_profile_id *id, char out[static PYROSCOPE_ID_TEXT])
{
	uint8_t bytes[ID_BYTES];
	uint64_t key = id->series;
	for (int i = 0; i < 6; i++)
		bytes[i] = (uint8_t)((uint64_t)id->time_ms >> (40 - 8 * i));
	bytes[6] = (uint8_t)(0x80 | key >> 60);
	bytes[7] = (uint8_t)(key >> 52);
	bytes[8] = (uint8_t)(0x80 | (key >> 46 & 0x3f));
	for (int i = 0; i < 5; i++)
		bytes[9 + i] = (uint8_t)(key >> (38 - 8 * i));
	bytes[14] = (uint8_t)(key << 2);
	bytes[15] = check_of(bytes);
	for (size_t i = 0, at = 0; i < ID_BYTES; i++)
		at += (size_t)snprintf(out + at, PYROSCOPE_ID_TEXT - at, "%s%02x", starts_group(i) ? "-" : "", bytes[i]);
}

static bool parse_uuid(const char *text, uint8_t *ret)
{
	size_t at = 0;
	if (strlen(text) != PYROSCOPE_ID_TEXT - 1)
		return false;
	for (size_t i = 0; i < ID_BYTES; i++, at += 2) {
		if (starts_group(i) && text[at++] != '-')
			return false;
		int byte = text_hex_byte((const uint8_t *)text + at);
		if (byte < 0)
			return false;
		ret[i] = (uint8_t)byte;
	}
	return true;
}

int pyroscope_profile_id_parse(const char *text, struct pyroscope_profile_id *ret, struct error *err)
{
	uint8_t bytes[ID_BYTES];
	struct pyroscope_profile_id id = {0};
	if (!parse_uuid(text, bytes))
		return error_set(err, -EINVAL, "profile_id_selector: \"%.100s\" is not a UUID", text);
	if (bytes[6] >> 4 != 8 || bytes[8] >> 6 != 2 || bytes[14] & 3 || bytes[15] != check_of(bytes))
		return 1;
	for (int i = 0; i < 6; i++)
		id.time_ms = id.time_ms << 8 | bytes[i];
	id.series = (uint64_t)(bytes[6] & 0xf) << 60 | (uint64_t)bytes[7] << 52 | (uint64_t)(bytes[8] & 0x3f) << 46;
	for (int i = 0; i < 5; i++)
		id.series |= (uint64_t)bytes[9 + i] << (38 - 8 * i);
	id.series |= bytes[14] >> 2;
	if (id.time_ms > PYROSCOPE_ID_MS_MAX)
		return 1;
	*ret = id;
	return 0;
}

DEFINE_ORDER(compare_ids, struct pyroscope_profile_id, ORDER(a->time_ms, b->time_ms) ?: ORDER(a->series, b->series));

int pyroscope_profile_ids(const struct rpc_list *list, struct pyroscope_profile_id *ret, size_t *ret_count, struct error *err)
{
	size_t count = 0;
	if (list->count > PYROSCOPE_IDS_MAX)
		return error_set(err, -EINVAL, "profile_id_selector has more than %d ids", PYROSCOPE_IDS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		int r = pyroscope_profile_id_parse(list->items[i], &ret[count], err);
		if (r < 0)
			return r;
		count += r == 0;
	}
	*ret_count = sort_array_once(ret, count, compare_ids);
	return 0;
}
