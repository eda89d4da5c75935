/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where call frame information lies in a file.
 *
 *   .eh_frame           by name
 *   .bolt.org.eh_frame  what it was before the optimizer BOLT moved the hot functions; the cold ones are still described there
 *   .debug_frame        by name; plain, or compressed (compressed.c), also as .zdebug_frame
 *
 * A file without usable section headers has PT_GNU_EH_FRAME, which is .eh_frame_hdr (Linux Standard Base, 10.6.2):
 *
 *   u8 version 1, u8 encodings of the three that follow; address of .eh_frame; number of FDEs; for each: start, address of FDE
 *
 * That says where .eh_frame begins, not where it ends. If the table has the one form that linkers write (pairs of i32, counted
 * from the header's address) and its numbers ascend and lie where they can, .eh_frame ends with the last FDE named there;
 * otherwise with its terminator or with whatever is no entry (has_no_end).
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/cfi_dwarf.h"
#include "elf/cfi_int.h"
#include "elf/elf_file_int.h"

#define COMPRESSION_MAX	   256 /* times; CFI becomes 2 to 6 times smaller. Keeps a small file from asking for much memory */
#define HEADER_BYTES_MAX   (64 * MIB)
#define HEADER_TABLE_ENTRY 8

/* ---- sections ----------------------------------------------------------------------------------------------------------- */

static void add_source(struct cfi_reader *reader, struct cfi_source source)
{
	reader->sources[reader->source_count++] = source;
}

static int inflate_section(struct cfi_reader *reader, const struct elf_section *section, struct bytes packed, struct bytes *ret)
{
	struct error why = {0};
	int r = elf_section_inflate(reader->file, section, packed, CFI_SECTION_BYTES_MAX, COMPRESSION_MAX, ret, &why);
	if (r == -ENOMEM || r == -E2BIG)
		return error_set(reader->err, r, "%s", why.message);
	return r < 0 ? -EBADMSG : 0;
}

/* Returns 1 if the file has it. Contents that cannot be inflated are one bad entry. */
static int add_section(struct cfi_reader *reader, const char *name, bool is_eh)
{
	const struct elf_section *section = elf_file_find_contents(reader->file, name);
	if (!section || section->size == 0)
		return 0;
	struct cfi_source source = {.address = section->address, .is_eh = is_eh};
	int r = cfi_source_open(reader, section->offset, section->size, name, &source);
	if (r < 0)
		return r;
	if (elf_section_is_compressed(section)) {
		struct cfi_source packed = source;
		source.pages = NULL;
		r = cfi_source_need(reader, &packed, 0, packed.data.len);
		r = r < 0 ? -EBADMSG : inflate_section(reader, section, packed.data, &source.data);
		cfi_source_release(&packed);
	}
	if (r < 0) {
		reader->stats.bad_entries++;
		return r == -EBADMSG ? 1 : r;
	}
	add_source(reader, source);
	return 1;
}

/* ---- PT_GNU_EH_FRAME ---------------------------------------------------------------------------------------------------- */

/* The bytes of the file that are loaded at an address, to the end of their segment. */
static bool find_loaded(const struct elf_file *file, uint64_t address, uint64_t *ret_offset, uint64_t *ret_len)
{
	const struct elf_segment *s = elf_file_find_loaded(file, address, ret_offset);
	uint64_t skip = s ? address - s->address : 0;
	if (!s || s->offset > file->size || skip >= file->size - s->offset)
		return false;
	*ret_len = file->size - *ret_offset < s->file_size - skip ? file->size - *ret_offset : s->file_size - skip;
	return true;
}

static bool read_header_number(struct cfi_cursor *cursor, uint8_t encoding, struct bytes header, uint64_t address,
			       uint64_t *ret)
{
	bool is_relative = (encoding & DW_EH_PE_application) == DW_EH_PE_datarel;
	if (is_relative)
		encoding &= (uint8_t)~DW_EH_PE_application;
	if (!cfi_read_encoded(cursor, encoding, address + (uint64_t)(cursor->at - header.data), ret))
		return false;
	*ret += is_relative ? address : 0;
	return true;
}

/* Offset in .eh_frame of the last FDE that the table names; false if it is not to be believed. */
static bool read_table(struct cfi_cursor table, uint64_t count, uint64_t header_to_frames, uint64_t len, uint64_t *ret)
{
	int64_t previous = INT64_MIN;
	uint64_t last = 0;
	if (count == 0 || count > (uint64_t)(table.end - table.at) / HEADER_TABLE_ENTRY)
		return false;
	for (uint64_t i = 0; i < count; i++, table.at += HEADER_TABLE_ENTRY) {
		int32_t pair[2];
		memcpy(pair, table.at, sizeof(pair));
		uint64_t offset = (uint64_t)(int64_t)pair[1] - header_to_frames;
		if (pair[0] < previous || offset >= len)
			return false;
		previous = pair[0];
		last = offset > last ? offset : last;
	}
	*ret = last;
	return true;
}

/* Cuts *len to the end of the last FDE that the table names; false if there is no table that can be believed. */
static bool find_end(struct cfi_reader *reader, struct cfi_cursor table, uint64_t count, uint64_t header_to_frames,
		     uint64_t offset, uint64_t *len)
{
	uint64_t last;
	uint32_t last_len;
	if (!read_table(table, count, header_to_frames, *len, &last) || *len - last < sizeof(last_len))
		return false;
	if (elf_file_read(reader->file, offset + last, &last_len, sizeof(last_len), NULL) < 0)
		return false;
	if (last_len == UINT32_MAX || last_len > *len - last - sizeof(last_len))
		return false;
	*len = last + sizeof(last_len) + last_len;
	return true;
}

/* Finds .eh_frame by its header. Returns 1 if the header makes no sense. */
static int add_frames_of_header(struct cfi_reader *reader, struct bytes header, uint64_t address)
{
	struct cfi_cursor cursor = {header.data + 4, header.data + header.len};
	uint64_t frames, count, offset, len;
	if (header.len < 4 || header.data[0] != 1 || header.data[1] == DW_EH_PE_omit)
		return 1;
	uint8_t count_encoding = header.data[2], table_encoding = header.data[3];
	if (!read_header_number(&cursor, header.data[1], header, address, &frames) ||
	    !find_loaded(reader->file, frames, &offset, &len))
		return 1;
	bool has_end = count_encoding != DW_EH_PE_omit && table_encoding == (DW_EH_PE_datarel | DW_EH_PE_sdata4) &&
		       read_header_number(&cursor, count_encoding, header, address, &count) &&
		       find_end(reader, cursor, count, frames - address, offset, &len);
	if (len > CFI_SECTION_BYTES_MAX)
		len = CFI_SECTION_BYTES_MAX;
	struct cfi_source source = {.address = frames, .is_eh = true, .has_no_end = !has_end};
	int r = cfi_source_open(reader, offset, len, "the call frame information", &source);
	if (r == 0)
		add_source(reader, source);
	return r;
}

static int add_segment(struct cfi_reader *reader)
{
	const struct elf_segment *segment = NULL;
	for (size_t i = 0; i < reader->file->segment_count && !segment; i++)
		if (reader->file->segments[i].type == PT_GNU_EH_FRAME)
			segment = &reader->file->segments[i];
	if (!segment || segment->file_size == 0)
		return 0;
	uint8_t *data;
	int r = elf_file_read_range(reader->file, segment->offset, segment->file_size, HEADER_BYTES_MAX,
				    "the header of call frame information", &data, reader->err);
	if (r < 0)
		return r;
	r = add_frames_of_header(reader, (struct bytes){data, (size_t)segment->file_size}, segment->address);
	mem_free(data);
	if (r > 0)
		reader->stats.bad_entries++;
	return r < 0 ? r : 0;
}

int cfi_sources_load(struct cfi_reader *reader)
{
	struct error err = {0};
	int r = elf_file_load_sections(reader->file, &err);
	/* Damaged section headers are as good as none. */
	if (r < 0 && r != -EBADMSG && r != -E2BIG)
		return error_set(reader->err, r, "%s", err.message);
	r = add_section(reader, ".eh_frame", true);
	if (r == 0)
		r = add_segment(reader);
	if (r >= 0)
		r = add_section(reader, ".bolt.org.eh_frame", true);
	if (r >= 0)
		r = add_section(reader, ".debug_frame", false);
	if (r == 0)
		r = add_section(reader, ".zdebug_frame", false);
	return r < 0 ? r : 0;
}
