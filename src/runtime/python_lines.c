// SPDX-License-Identifier: Apache-2.0
/*
 * Line tables of code objects. `place` counts code units of two bytes.
 *
 *   lnotab (up to 3.9)     pairs of bytes: how far the code goes on (unsigned, in bytes), how far the line does (signed since
 *                          3.6). The line of an instruction is what the pairs up to it add up to.
 *   linetable (3.10)       pairs of bytes: how long a range of code is (unsigned, in bytes), and its line relative to the last
 *                          (signed; -128 = the range has no line, and does not count).
 *   locations (3.11)       entries that begin with a byte with bit 7 set: a code of four bits, and the length in code units
 *                          minus 1 in three bits. By the code, further bytes with line and columns follow: 15 none: no line;
 *                          14 long form: signed varint of lines and three varints; 13 no columns: signed varint; 10 to 12
 *                          the line is that far on, two bytes of columns; 0 to 9 the same line, one byte of columns.
 *
 * A varint has six bits in a byte, the least first, and bit 6 while others follow; signed ones have the sign in bit 0. What has
 * more than VARINT_BITS is no line: so no table that may be read (PYTHON_LINES_BYTES_MAX) adds up to more than an int64_t
 * holds.
 */
#include "runtime/python.h"

#define NO_LINE_3_10 (-128)
#define VARINT_BITS  36u

static uint32_t line_of(int64_t line)
{
	return line < 0 || line > UINT32_MAX ? 0 : (uint32_t)line;
}

static uint32_t lnotab_line(struct bytes table, uint32_t first_line, uint64_t address)
{
	int64_t line = first_line;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < table.len; i += 2) {
		at += table.data[i];
		if (at > address)
			break;
		line += (int8_t)table.data[i + 1];
	}
	return line_of(line);
}

static uint32_t linetable_line(struct bytes table, uint32_t first_line, uint64_t address)
{
	int64_t line = first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < table.len; i += 2) {
		int8_t delta = (int8_t)table.data[i + 1];
		end += table.data[i];
		if (delta != NO_LINE_3_10)
			line += delta;
		if (end > address)
			return delta == NO_LINE_3_10 ? 0 : line_of(line);
	}
	return first_line;
}

static uint64_t take_varint(struct bytes table, size_t *at)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < table.len && shift < VARINT_BITS; shift += 6) {
		uint8_t byte = table.data[(*at)++];
		value |= (uint64_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return value;
}

static int64_t take_signed(struct bytes table, size_t *at)
{
	uint64_t value = take_varint(table, at);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static uint32_t locations_line(struct bytes table, uint32_t first_line, uint64_t place)
{
	int64_t line = first_line;
	uint64_t end = 0;

	for (size_t at = 0; at < table.len;) {
		uint8_t head = table.data[at++];
		unsigned code = head >> 3 & 15;
		if (!(head & 128))
			break;
		end += (head & 7u) + 1;
		if (code == 14 || code == 13)
			line += take_signed(table, &at);
		else if (code >= 10 && code <= 12)
			line += code - 10;
		if (end > place)
			return code == 15 ? 0 : line_of(line);
		while (at < table.len && !(table.data[at] & 128)) /* columns */
			at++;
	}
	return first_line;
}

uint32_t python_line(enum python_line_format format, struct bytes lines, uint32_t first_line, uint32_t place)
{
	switch (format) {
	case PYTHON_LINES_LNOTAB: return lnotab_line(lines, first_line, (uint64_t)place * 2);
	case PYTHON_LINES_TABLE: return linetable_line(lines, first_line, (uint64_t)place * 2);
	case PYTHON_LINES_LOCATIONS: return locations_line(lines, first_line, place);
	}
	return first_line;
}
