/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that write requests field by field. */
#ifndef WICK_FORMAT_OTLP_TEST_OTLP_H
#define WICK_FORMAT_OTLP_TEST_OTLP_H

#include "codec/protobuf.h"
#include "format/test_format.h"

/* A message in a field, until end(). */
HELPER size_t begin(struct buffer *out, uint32_t field)
{
	size_t mark;
	assert_int_equal(pb_begin(out, field, &mark), 0);
	return mark;
}

HELPER void end(struct buffer *out, size_t mark)
{
	assert_int_equal(pb_end(out, mark), 0);
}

#endif
