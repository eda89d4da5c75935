// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers as HotSpot packs them, and the table of lines behind a method's bytecodes, which is made of them.
 *
 * A number has one to five bytes, the lowest six bits of a part first: a byte below 192 ends it. Since 20 no byte is 0: each
 * has one more than that.
 *
 * The table goes on by a byte a line: five bits of how many bytecodes later, three of how many lines. 255: two signed numbers
 * follow instead. 0 ends it.
 */
#include "runtime/jvm.h"

#define LAST_BYTE_MIN 192u
#define NUMBER_BYTES  5u
#define BITS_A_BYTE   6u
#define LINES_END     0u
#define LINES_ESCAPE  255u
#define ENTRIES_MAX   65536u
#define LINE_MAX      0xffffu /* class files have 16 bits for it */

static uint8_t take_byte(struct jvm_stream *stream)
{
	if (stream->at >= stream->data.len) {
		stream->is_bad = true;
		return 0;
	}
	return stream->data.data[stream->at++];
}

uint32_t jvm_take_number(struct jvm_stream *stream)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < NUMBER_BYTES && !stream->is_bad; i++) {
		uint32_t byte = take_byte(stream);
		if (stream->excludes_zero && !byte)
			stream->is_bad = true;
		sum += (byte - stream->excludes_zero) << (i * BITS_A_BYTE);
		if (byte < LAST_BYTE_MIN)
			break;
	}
	return stream->is_bad ? 0 : sum;
}

int32_t jvm_take_signed(struct jvm_stream *stream)
{
	uint32_t number = jvm_take_number(stream);

	return (int32_t)(number >> 1 ^ (0u - (number & 1)));
}

uint32_t jvm_line(struct bytes lines, bool excludes_zero, uint32_t place)
{
	struct jvm_stream stream = {.data = lines, .excludes_zero = excludes_zero};
	uint32_t code = 0, line = 0, best = 0, best_code = 0;

	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		uint8_t byte = take_byte(&stream);
		if (byte == LINES_END)
			break;
		if (byte == LINES_ESCAPE) {
			code += (uint32_t)jvm_take_signed(&stream);
			line += (uint32_t)jvm_take_signed(&stream);
		} else {
			code += byte >> 3;
			line += byte & 7;
		}
		if (stream.is_bad)
			break;
		/* They need not be in the order of bytecodes; the first one of a bytecode counts, as HotSpot has it. */
		if (code == place && line <= LINE_MAX)
			return line;
		if (code <= place && (code >= best_code || !best)) {
			best = line;
			best_code = code;
		}
	}
	return best > LINE_MAX ? 0 : best;
}
