/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of .eh_frame and .debug_frame: which code each FDE speaks of, and by which CIE.
 *
 *                  .eh_frame                                    .debug_frame
 *   length         u32, or 0xffffffff and u64; counts what follows. 0 is a terminator (.eh_frame)
 *   id             u32; 0: CIE, else FDE: bytes from here back  u32 or, if the length has 64 bits, u64; all ones: CIE,
 *                  to its CIE                                   else FDE: offset of its CIE
 *   CIE            version u8 (1, 3, 4), augmentation string, [address size, segment size u8: 4], code factor uleb, data factor
 *                  sleb, return address column (u8: 1, else uleb), [augmentation data: uleb length and bytes: "z"],
 *                  instructions
 *   FDE            start, length of the code (by the CIE's encoding), [augmentation data], instructions
 *
 * The section is walked from its start, entry by entry, in one pass; .eh_frame_hdr and its sorted table are not used for that.
 * Believing the table means to compare each of its entries with the FDE that it points to, in the order of addresses, which is
 * as much work as the walk in the order of memory; and what remains, sorting, is cheap (cfi_entries_sort). Only the walk bounds
 * the time by the size of the section: entries cannot overlap in it, as they can if the places come from a table. For the same
 * reason an FDE may only name a CIE that the walk has met.
 *
 * Left out without being counted as damaged is what the linker discarded: code of no length, at address 0, or not in an
 * executed segment.
 *
 * Addresses relative to the text or the data are not read: those who wrote down what these are relative to do not agree (start
 * of .got, DT_PLTGOT, start of .eh_frame_hdr), readelf and gdb ignore the base, and neither x86-64 nor AArch64 uses them.
 * Indirect ones are not either: they would be read from relocated memory.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/cfi_dwarf.h"
#include "elf/cfi_int.h"

#define ENTRIES_MAX	 (CFI_SECTION_BYTES_MAX / 8)
#define DIGIT_BITS	 8
#define DIGITS		 (1u << DIGIT_BITS)
#define SHORT_COUNT	 24u /* so few are sorted by insertion */
#define RA_COLUMN_MAX	 0xfe
#define LENGTH_BYTES_MAX 12
#define READS_MAX	 3 /* of an entry: .debug_frame is walked twice, and each FDE is read when it is run */

/* Where things are in one entry. */
struct header {
	uint32_t offset;	/* of its length */
	struct cfi_cursor body; /* behind the id */
	const uint8_t *id_at;
	uint64_t id;
	bool is_cie;
};

struct scan {
	struct cfi_reader *reader;
	uint32_t source;
	struct cfi_source *from;
	struct cfi_entries *entries;
	bool wants_cies, wants_fdes;
};

bool cfi_read_uleb_slow(struct cfi_cursor *cursor, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70 && cursor->at < cursor->end; shift += 7) {
		uint64_t byte = *cursor->at++, bits = byte & 0x7f;
		if (shift == 63 && bits > 1)
			return false;
		value |= bits << shift;
		if (byte < 0x80) {
			*ret = value;
			return true;
		}
	}
	return false;
}

bool cfi_read_sleb(struct cfi_cursor *cursor, int64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70 && cursor->at < cursor->end; shift += 7) {
		uint64_t byte = *cursor->at++, bits = byte & 0x7f;
		if (shift == 63 && bits != 0 && bits != 0x7f)
			return false;
		value |= bits << shift;
		if (byte < 0x80) {
			if ((byte & 0x40) && shift < 57)
				value |= UINT64_MAX << (shift + 7);
			*ret = (int64_t)value;
			return true;
		}
	}
	return false;
}

bool cfi_read_fixed(struct cfi_cursor *cursor, size_t bytes, uint64_t *ret)
{
	uint64_t value = 0;
	if ((size_t)(cursor->end - cursor->at) < bytes)
		return false;
	memcpy(&value, cursor->at, bytes); /* little-endian, as elf_file.c makes sure */
	cursor->at += bytes;
	*ret = value;
	return true;
}

bool cfi_read_signed(struct cfi_cursor *cursor, size_t bytes, uint64_t *ret)
{
	size_t unused = 64 - 8 * bytes;
	if (!cfi_read_fixed(cursor, bytes, ret))
		return false;
	*ret = (uint64_t)((int64_t)(*ret << unused) >> unused);
	return true;
}

static bool read_format(struct cfi_cursor *cursor, uint8_t encoding, uint64_t *ret)
{
	switch (encoding & DW_EH_PE_format) {
	case DW_EH_PE_sdata4: return cfi_read_signed(cursor, 4, ret);
	case DW_EH_PE_sdata2: return cfi_read_signed(cursor, 2, ret);
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: return cfi_read_fixed(cursor, 8, ret);
	case DW_EH_PE_udata4: return cfi_read_fixed(cursor, 4, ret);
	case DW_EH_PE_udata2: return cfi_read_fixed(cursor, 2, ret);
	case DW_EH_PE_uleb128: return cfi_read_uleb(cursor, ret);
	case DW_EH_PE_sleb128: return cfi_read_sleb(cursor, (int64_t *)ret);
	default: return false;
	}
}

bool cfi_read_encoded(struct cfi_cursor *cursor, uint8_t encoding, uint64_t address, uint64_t *ret)
{
	uint8_t application = encoding & DW_EH_PE_application;
	if (encoding & DW_EH_PE_indirect || (application != 0 && application != DW_EH_PE_pcrel))
		return false;
	if (!read_format(cursor, encoding, ret))
		return false;
	if (application == DW_EH_PE_pcrel)
		*ret += address;
	return true;
}

static uint64_t address_of(const struct cfi_source *source, const uint8_t *at)
{
	return source->address + (uint64_t)(at - source->data.data);
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------- */

/* Entries do not overlap, so all of them together are no longer than the section, unless the file changes while it is read:
 * then each might be as long as all were before. */
static bool may_read(struct cfi_source *source, size_t bytes)
{
	source->entry_bytes += bytes;
	return source->entry_bytes <= (uint64_t)READS_MAX * source->data.len;
}

/* Returns 1 with an entry, 0 at the end, -EBADMSG where there is no entry; *at moves to the next one. */
static int next_entry(struct cfi_reader *reader, struct cfi_source *source, size_t *at, struct header *ret)
{
	struct cfi_cursor cursor = {source->data.data + *at, source->data.data + source->data.len};
	uint64_t len;
	do {
		ret->offset = (uint32_t)(cursor.at - source->data.data);
		size_t left = (size_t)(cursor.end - cursor.at);
		if (left < 4)
			return 0;
		if (cfi_source_need(reader, source, ret->offset, left < LENGTH_BYTES_MAX ? left : LENGTH_BYTES_MAX) < 0)
			return -EBADMSG;
		cfi_read_fixed(&cursor, 4, &len);
		if (len == 0 && source->has_no_end)
			return 0;
	} while (len == 0 && may_read(source, sizeof(uint32_t)));
	bool is_64 = len == UINT32_MAX;
	if ((is_64 && !cfi_read_fixed(&cursor, 8, &len)) || len > (uint64_t)(cursor.end - cursor.at))
		return -EBADMSG;
	cursor.end = cursor.at + len;
	if (!may_read(source, (size_t)(cursor.end - source->data.data) - ret->offset))
		return -EBADMSG;
	if (cfi_source_need(reader, source, ret->offset, (size_t)(cursor.end - source->data.data) - ret->offset) < 0)
		return -EBADMSG;
	*at = (size_t)(cursor.end - source->data.data);
	ret->id_at = cursor.at;
	size_t id_bytes = is_64 && !source->is_eh ? 8 : 4;
	if (!cfi_read_fixed(&cursor, id_bytes, &ret->id)) {
		cursor.at = cursor.end; /* too short: an FDE of nothing */
		ret->id = 1;
	}
	ret->is_cie = ret->id == (source->is_eh ? 0 : id_bytes == 8 ? UINT64_MAX : UINT32_MAX);
	ret->body = cursor;
	return 1;
}

/* ---- CIEs --------------------------------------------------------------------------------------------------------------- */

/* The letters behind the "z" of an augmentation, and their data. */
static bool read_augmentation(const struct cfi_source *source, struct cfi_cie *cie, const char *letters, struct cfi_cursor data)
{
	uint64_t value;
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			if (data.at == data.end)
				return false;
			cie->encoding = *data.at++;
			break;
		case 'P': /* personality: its encoding and address */
			if (!cfi_read_fixed(&data, 1, &value))
				return false;
			if ((value & DW_EH_PE_application) == DW_EH_PE_aligned) {
				uint64_t skip = -address_of(source, data.at) & 7;
				if (skip > (uint64_t)(data.end - data.at))
					return false;
				data.at += skip;
			}
			if (value != DW_EH_PE_omit && !read_format(&data, (uint8_t)value, &value))
				return false;
			break;
		case 'L': /* encoding of the language-specific data of FDEs */
			if (!cfi_read_fixed(&data, 1, &value))
				return false;
			break;
		case 'S': cie->is_signal = true; break;
		case 'B': /* AArch64: return addresses are signed with the B key */
		case 'G': /* AArch64: frames are tagged */ break;
		default: return false;
		}
	}
	return true;
}

static bool read_factors(struct cfi_cie *cie, struct cfi_cursor *cursor, uint64_t version)
{
	uint64_t code_factor, ra;
	int64_t data_factor;
	if (!cfi_read_uleb(cursor, &code_factor) || !cfi_read_sleb(cursor, &data_factor))
		return false;
	if (version == 1 ? !cfi_read_fixed(cursor, 1, &ra) : !cfi_read_uleb(cursor, &ra))
		return false;
	if (code_factor == 0 || code_factor > CFI_FACTOR_MAX || data_factor > CFI_FACTOR_MAX || data_factor < -CFI_FACTOR_MAX ||
	    ra > RA_COLUMN_MAX)
		return false;
	cie->code_factor = (uint32_t)code_factor;
	cie->data_factor = (int32_t)data_factor;
	cie->ra = (uint8_t)ra;
	return true;
}

static bool parse_cie(struct scan *scan, struct cfi_cie *cie, struct cfi_cursor cursor)
{
	uint64_t version, value;
	if (!cfi_read_fixed(&cursor, 1, &version) || (version != 1 && version != 3 && version != 4))
		return false;
	const char *letters = (const char *)cursor.at;
	const uint8_t *nul = memchr(cursor.at, 0, (size_t)(cursor.end - cursor.at));
	if (!nul)
		return false;
	cursor.at = nul + 1;
	if (strcmp(letters, "eh") == 0) { /* gcc 2: the address of a table */
		if (!cfi_read_fixed(&cursor, 8, &value))
			return false;
		letters += 2;
	}
	if (version == 4 && (!cfi_read_fixed(&cursor, 2, &value) || value != 8)) /* 8 bytes an address, 0 a segment */
		return false;
	if (!read_factors(cie, &cursor, version))
		return false;
	if (*letters == 'z') {
		if (!cfi_read_uleb(&cursor, &value) || value > (uint64_t)(cursor.end - cursor.at))
			return false;
		struct cfi_cursor data = {cursor.at, cursor.at + value};
		if (!read_augmentation(scan->from, cie, letters + 1, data))
			return false;
		cie->has_length = true;
		cursor.at += value;
	} else if (*letters) {
		return false;
	}
	return cfi_program_start(scan->reader, cie, cursor);
}

static int array_failed(const struct cfi_reader *reader, int r)
{
	if (r == -ENOMEM)
		return error_nomem(reader->err);
	return error_set(reader->err, r, "%s: more than %u entries of call frame information", reader->file->name, ENTRIES_MAX);
}

static int add_cie(struct scan *scan, const struct header *header)
{
	struct cfi_reader *reader = scan->reader;
	int r = array_reserve(&reader->cies, &reader->cie_capacity, reader->cie_count + 1, ENTRIES_MAX);
	if (r < 0)
		return array_failed(reader, r);
	struct cfi_cie cie = {.offset = header->offset, .source = scan->source};
	cie.is_good = parse_cie(scan, &cie, header->body);
	reader->cies[reader->cie_count++] = cie;
	return 0;
}

/* The walk meets CIEs in ascending order, so they are sorted by source and offset. NULL = there is none. */
static const struct cfi_cie *find_cie(struct cfi_reader *reader, uint32_t source, uint64_t offset)
{
	size_t low = 0, high = reader->cie_count;
	if (reader->last_cie < high) {
		const struct cfi_cie *last = &reader->cies[reader->last_cie];
		if (last->source == source && last->offset == offset)
			return last;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct cfi_cie *cie = &reader->cies[middle];
		if (cie->source < source || (cie->source == source && cie->offset < offset))
			low = middle + 1;
		else
			high = middle;
	}
	if (low >= reader->cie_count || reader->cies[low].source != source || reader->cies[low].offset != offset)
		return NULL;
	reader->last_cie = low;
	return &reader->cies[low];
}

/* ---- FDEs --------------------------------------------------------------------------------------------------------------- */

bool cfi_is_code(struct cfi_reader *reader, uint64_t address, uint64_t *ret_end)
{
	for (size_t i = 0; i < reader->segment_count; i++) {
		size_t at = i == 0 ? reader->last_segment : i <= reader->last_segment ? i - 1 : i;
		const struct cfi_range *s = &reader->segments[at];
		if (address >= s->start && address < s->end) {
			reader->last_segment = at;
			*ret_end = s->end;
			return true;
		}
	}
	return false;
}

int cfi_entries_append(struct cfi_reader *reader, struct cfi_entries *entries, const struct cfi_entry *entry)
{
	int r = array_reserve(&entries->items, &entries->capacity, entries->count + 1, ENTRIES_MAX);
	if (r < 0)
		return array_failed(reader, r);
	if (entries->count == 0)
		entries->is_sorted = true;
	else if (entry->start <= entries->items[entries->count - 1].start)
		entries->is_sorted = false;
	entries->items[entries->count++] = *entry;
	return 0;
}

struct fde {
	const struct cfi_cie *cie;
	uint64_t start, len;
	struct cfi_cursor rest; /* behind its length */
};

static bool parse_fde(struct cfi_reader *reader, uint32_t number, const struct header *header, struct fde *ret)
{
	const struct cfi_source *source = &reader->sources[number];
	uint64_t id_offset = (uint64_t)(header->id_at - source->data.data);
	if (source->is_eh && header->id > id_offset)
		return false;
	ret->cie = find_cie(reader, number, source->is_eh ? id_offset - header->id : header->id);
	ret->rest = header->body;
	return ret->cie && ret->cie->is_good &&
	       cfi_read_encoded(&ret->rest, ret->cie->encoding, address_of(source, ret->rest.at), &ret->start) &&
	       cfi_read_encoded(&ret->rest, ret->cie->encoding & DW_EH_PE_format, 0, &ret->len);
}

static bool skip_augmentation(const struct cfi_cie *cie, struct cfi_cursor *cursor)
{
	uint64_t skip;
	if (!cie->has_length)
		return true;
	if (!cfi_read_uleb(cursor, &skip) || skip > (uint64_t)(cursor->end - cursor->at))
		return false;
	cursor->at += skip;
	return true;
}

/* Returns 1 if the entry is damaged. */
static int add_fde(struct scan *scan, const struct header *header)
{
	struct fde fde;
	uint64_t end;
	if (!parse_fde(scan->reader, scan->source, header, &fde))
		return 1;
	if (fde.start == 0 || fde.len == 0 || !cfi_is_code(scan->reader, fde.start, &end))
		return 0;
	if (fde.len > UINT32_MAX || fde.len > end - fde.start || !skip_augmentation(fde.cie, &fde.rest))
		return 1;
	struct cfi_entry entry = {.start = fde.start, .len = (uint32_t)fde.len, .kind = scan->source, .place = header->offset};
	return cfi_entries_append(scan->reader, scan->entries, &entry);
}

int cfi_fde_read(struct cfi_reader *reader, const struct cfi_entry *entry, const struct cfi_cie **ret_cie,
		 struct cfi_cursor *ret_program)
{
	struct header header;
	struct fde fde;
	size_t at = entry->place;
	int r = next_entry(reader, &reader->sources[entry->kind], &at, &header);
	if (r <= 0 || header.is_cie || !parse_fde(reader, entry->kind, &header, &fde) || !skip_augmentation(fde.cie, &fde.rest))
		return 1;
	*ret_cie = fde.cie;
	*ret_program = fde.rest;
	return 0;
}

static int walk(struct scan *scan)
{
	struct header header;
	size_t at = 0;
	int r;
	while ((r = next_entry(scan->reader, scan->from, &at, &header)) > 0) {
		if (header.is_cie) {
			r = scan->wants_cies ? add_cie(scan, &header) : 0;
		} else if (scan->wants_fdes) {
			scan->reader->stats.entries++;
			r = add_fde(scan, &header);
			/* Behind a section of unknown size lies whatever lies there. */
			if (r > 0 && scan->from->has_no_end) {
				scan->reader->stats.entries--;
				return 0;
			}
			if (r > 0)
				scan->reader->stats.bad_entries++;
		}
		if (r < 0)
			return r;
	}
	if (r < 0 && scan->wants_fdes && !scan->from->has_no_end)
		scan->reader->stats.bad_entries++;
	return 0;
}

int cfi_entries_read(struct cfi_reader *reader, uint32_t source, struct cfi_entries *entries)
{
	struct scan scan = {.reader = reader,
			    .source = source,
			    .from = &reader->sources[source],
			    .entries = entries,
			    .wants_cies = true,
			    .wants_fdes = true};
	/* An FDE of .eh_frame points back to its CIE; one of .debug_frame may point forward. */
	if (scan.from->is_eh)
		return walk(&scan);
	scan.wants_fdes = false;
	int r = walk(&scan);
	if (r < 0)
		return r;
	scan.wants_cies = false;
	scan.wants_fdes = true;
	return walk(&scan);
}

/* ---- order -------------------------------------------------------------------------------------------------------------- */

static void sort_short(struct cfi_entry *items, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct cfi_entry entry = items[i];
		size_t at = i;
		for (; at > 0 && items[at - 1].start > entry.start; at--)
			items[at] = items[at - 1];
		items[at] = entry;
	}
}

/*
 * By the digits of their start, the highest first, in place (McIlroy, Bostic, McIlroy: Engineering Radix Sort, 1993): the room
 * of each digit is known once they are counted, and each entry is swapped to where it belongs until all are there. Linear, and
 * two digits are enough for any real file. base: the lowest start; shift: of the digit.
 */
static void sort_by_digit(struct cfi_entry *items, size_t count, uint64_t base, unsigned shift)
{
	if (count <= SHORT_COUNT) {
		sort_short(items, count);
		return;
	}
	size_t next[DIGITS] = {0}, ends[DIGITS], sum = 0;
	for (size_t i = 0; i < count; i++)
		next[(items[i].start - base) >> shift & (DIGITS - 1)]++;
	for (size_t digit = 0; digit < DIGITS; digit++) {
		size_t begin = sum;
		sum += next[digit];
		next[digit] = begin;
		ends[digit] = sum;
	}
	for (size_t digit = 0; digit < DIGITS; digit++) {
		while (next[digit] < ends[digit]) {
			struct cfi_entry entry = items[next[digit]];
			size_t to;
			while ((to = (entry.start - base) >> shift & (DIGITS - 1)) != digit) {
				struct cfi_entry other = items[next[to]];
				items[next[to]++] = entry;
				entry = other;
			}
			items[next[digit]++] = entry;
		}
	}
	if (shift == 0)
		return;
	for (size_t digit = 0, begin = 0; digit < DIGITS; begin = ends[digit++])
		sort_by_digit(items + begin, ends[digit] - begin, base, shift > DIGIT_BITS ? shift - DIGIT_BITS : 0);
}

/* Of entries with the same start the last one of the section stays. */
static void drop_equal(struct cfi_entries *entries)
{
	size_t kept = 0;
	for (size_t i = 0; i < entries->count; i++) {
		const struct cfi_entry *entry = &entries->items[i];
		bool is_equal = kept > 0 && entries->items[kept - 1].start == entry->start;
		if (!is_equal)
			entries->items[kept++] = *entry;
		else if (entry->place > entries->items[kept - 1].place)
			entries->items[kept - 1] = *entry;
	}
	entries->count = kept;
}

void cfi_entries_sort(struct cfi_entries *entries)
{
	if (entries->is_sorted || entries->count < 2)
		return;
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < entries->count; i++) {
		uint64_t start = entries->items[i].start;
		low = start < low ? start : low;
		high = start > high ? start : high;
	}
	unsigned bits = high > low ? 64 - (unsigned)__builtin_clzll(high - low) : 1;
	sort_by_digit(entries->items, entries->count, low, bits > DIGIT_BITS ? bits - DIGIT_BITS : 0);
	drop_equal(entries);
	entries->is_sorted = true;
}

int cfi_entries_fill(struct cfi_reader *reader, struct cfi_entries *entries, const struct cfi_entries *more)
{
	size_t before = entries->count;
	for (size_t i = 0, next = 0; i < more->count; i++) {
		const struct cfi_entry *entry = &more->items[i];
		while (next < before && entries->items[next].start <= entry->start)
			next++;
		const struct cfi_entry *holder = next > 0 ? &entries->items[next - 1] : NULL;
		if (holder && entry->start - holder->start < holder->len)
			continue;
		int r = cfi_entries_append(reader, entries, entry);
		if (r < 0)
			return r;
	}
	cfi_entries_sort(entries);
	return 0;
}
