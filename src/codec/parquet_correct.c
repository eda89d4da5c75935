/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flipped bit of a page, an index or a footer, put right.
 *
 * A checksum says that bytes are not what they were; with 64 bits it also says, beyond doubt, when they are again. So the one
 * bit that is wrong can be found by trying. Of n bits each is tried with a hash over all of them, which is quick for a few KiB
 * and hopeless for a MiB; but pages have a CRC as well, and CRCs are linear: what a flipped bit does to the CRC depends on
 * nothing but its distance from the end. So the CRC of the bytes as they are, against the one in the page's header, names the
 * bit, after as many steps as there are bits, and the hash confirms it.
 *
 *   body of a page     by its CRC
 *   header of a page   by trying (its CRC covers the body only)
 *   indexes, footer    by trying, up to CORRECT_TRIED_MAX bytes
 *
 * Flipped bits are what memory, cables and controllers do. What disks do is lose sectors: nothing here helps then, and the page
 * stays damaged. Rejected: codes that correct more (Reed-Solomon over pages), since they cost space in every block, and writes,
 * for what file systems and drives that care do below.
 *
 * Two flipped bits look like none that can be found. The chance that trying n bits meets a wrong answer is n / 2^64.
 */
#include <libdeflate.h>

#include "base/hash.h"
#include "codec/parquet_file.h"

#define CRC_POLYNOMIAL 0xedb88320u /* reflected, as in zlib and Parquet */
#define HEADER_MAX     64	   /* of a page, as far as we write them */

bool parquet_correct_by_crc(uint32_t is, uint32_t should_be, size_t len, size_t *ret_bit)
{
	/* What a flipped bit becomes while zeros follow it; it is followed by the higher bits of its byte first. */
	uint32_t syndrome = is ^ should_be, state = CRC_POLYNOMIAL;
	for (size_t behind = 0; behind < len * 8; behind++) {
		if (state == syndrome) {
			*ret_bit = len * 8 - 1 - behind;
			return true;
		}
		state = state & 1 ? (state >> 1) ^ CRC_POLYNOMIAL : state >> 1;
	}
	return false;
}

bool parquet_correct_by_trying(uint8_t *data, size_t len, size_t tried, bool (*matches)(const void *context, struct bytes data),
			       const void *context, size_t *ret_bit)
{
	for (size_t bit = 0; bit < tried * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (matches(context, (struct bytes){data, len})) {
			*ret_bit = bit;
			return true;
		}
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return false;
}

struct expected {
	const struct parquet_chunk *chunk;
	size_t hash;
};

static bool matches_hash(const void *context, struct bytes data)
{
	const struct expected *expected = context;
	return parquet_hash_matches(expected->chunk, expected->hash, data);
}

void parquet_note_corrected(struct parquet_file *file, uint64_t offset, size_t bit)
{
	if (file->on_corrected)
		file->on_corrected(file->corrected_context, offset + bit / 8, (uint8_t)(1u << bit % 8));
}

bool parquet_correct_index(struct parquet_file *file, const struct parquet_chunk *chunk, size_t hash, uint64_t offset,
			   struct bytes bytes)
{
	const struct expected expected = {chunk, hash};
	size_t bit;
	if (!file->on_corrected || bytes.len > CORRECT_TRIED_MAX || hash >= parquet_hash_count(chunk) ||
	    !parquet_correct_by_trying((uint8_t *)(uintptr_t)bytes.data, bytes.len, bytes.len, matches_hash, &expected, &bit))
		return false;
	parquet_note_corrected(file, offset, bit);
	return true;
}

static bool correct_body(const struct parquet_page *page, uint8_t *body, size_t len, const struct expected *expected,
			 struct bytes whole, size_t *ret_bit)
{
	if (!page->has_crc || !parquet_correct_by_crc(libdeflate_crc32(0, body, len), page->crc, len, ret_bit))
		return false;
	uint8_t mask = (uint8_t)(1u << *ret_bit % 8);
	body[*ret_bit / 8] ^= mask;
	if (matches_hash(expected, whole))
		return true;
	body[*ret_bit / 8] ^= mask;
	return false;
}

bool parquet_correct_page(struct parquet_file *file, const struct parquet_chunk *chunk, size_t hash, uint64_t offset,
			  struct bytes bytes)
{
	const struct expected expected = {chunk, hash};
	uint8_t *data = (uint8_t *)(uintptr_t)bytes.data;
	struct parquet_page page;
	size_t header = 0, bit;
	if (!file->on_corrected || hash >= parquet_hash_count(chunk) || !bytes.len)
		return false;
	const char *bad = parquet_page_read(bytes, &page, &header);
	bool whole = !bad && (size_t)page.size_compressed == bytes.len - header;
	if (whole && correct_body(&page, data + header, bytes.len - header, &expected, bytes, &bit)) {
		parquet_note_corrected(file, offset + header, bit);
		return true;
	}
	size_t tried = bytes.len < HEADER_MAX ? bytes.len : HEADER_MAX;
	if (!parquet_correct_by_trying(data, bytes.len, tried, matches_hash, &expected, &bit))
		return false;
	parquet_note_corrected(file, offset, bit);
	return true;
}

static bool is_footer(const void *context, struct bytes data)
{
	return hash64(data.data, data.len) == *(const uint64_t *)context;
}

bool parquet_correct_footer(struct parquet_file *file, uint64_t expected, size_t len)
{
	size_t bit;
	if (!file->on_corrected || len > CORRECT_TRIED_MAX ||
	    !parquet_correct_by_trying(file->footer, len, len, is_footer, &expected, &bit))
		return false;
	parquet_note_corrected(file, file->footer_start, bit);
	return true;
}
