/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: recordings made by hand. A chunk has the classes and events of Pyroscope's build of async-profiler, and of the
 * JDK; constants and events are added one after the other, all with keys of the test's choice. */
#ifndef WICK_FORMAT_JFR_TEST_JFR_H
#define WICK_FORMAT_JFR_TEST_JFR_H

#include <string.h>

#include "codec/protobuf.h"
#include "format/test_format.h"

enum {
	TEST_BOOLEAN = 4,
	TEST_FLOAT = 6,
	TEST_SHORT = 9,
	TEST_INT = 10,
	TEST_LONG = 11,
	TEST_STRING = 20,
	TEST_CLASS = 21,
	TEST_THREAD = 22,
	TEST_LOADER = 23,
	TEST_FRAME_TYPE = 24,
	TEST_STATE = 25,
	TEST_STACK = 26,
	TEST_FRAME = 27,
	TEST_METHOD = 28,
	TEST_PACKAGE = 29,
	TEST_SYMBOL = 30,
	TEST_EXECUTION = 101,
	TEST_IN_TLAB = 102,
	TEST_OUT_TLAB = 103,
	TEST_LOCK = 104,
	TEST_PARK = 105,
	TEST_SETTING = 108,
	TEST_LIVE = 115,
	TEST_WALL = 118,
	TEST_MALLOC = 119,
	TEST_SAMPLE = 209,
	TEST_NATIVE = 210,
};

#define TEST_LABELS                                                                                                            \
	{"contextId", TEST_LONG}, {"spanId", TEST_LONG}, {"spanName", TEST_LONG}, {"traceIdHi", TEST_LONG},                    \
	{                                                                                                                      \
		"traceIdLo", TEST_LONG                                                                                         \
	}
/* A field of a class from TEST_CLASS on is the key of a constant. */
static const struct test_class {
	uint64_t id;
	const char *name;
	struct {
		const char *name;
		uint64_t class;
	} fields[12];
} test_classes[] = {
	{TEST_BOOLEAN, "boolean", {{0}}},
	{TEST_FLOAT, "float", {{0}}},
	{TEST_SHORT, "short", {{0}}},
	{TEST_INT, "int", {{0}}},
	{TEST_LONG, "long", {{0}}},
	{TEST_STRING, "java.lang.String", {{0}}},
	{TEST_CLASS, "java.lang.Class", {{"name", TEST_SYMBOL}}},
	{TEST_THREAD, "java.lang.Thread", {{"javaName", TEST_STRING}, {"javaThreadId", TEST_LONG}}},
	{TEST_LOADER, "jdk.types.ClassLoader", {{"name", TEST_SYMBOL}}},
	{TEST_FRAME_TYPE, "jdk.types.FrameType", {{"description", TEST_STRING}}},
	{TEST_STATE, "jdk.types.ThreadState", {{"name", TEST_STRING}}},
	{TEST_STACK, "jdk.types.StackTrace", {{"truncated", TEST_BOOLEAN}, {"frames", TEST_FRAME}}},
	{TEST_FRAME, "jdk.types.StackFrame", {{"method", TEST_METHOD}, {"lineNumber", TEST_INT}, {"type", TEST_FRAME_TYPE}}},
	{TEST_METHOD, "jdk.types.Method", {{"type", TEST_CLASS}, {"name", TEST_SYMBOL}}},
	{TEST_PACKAGE, "jdk.types.Package", {{"name", TEST_SYMBOL}}},
	{TEST_SYMBOL, "jdk.types.Symbol", {{"string", TEST_STRING}}},
	{TEST_EXECUTION,
	 "jdk.ExecutionSample",
	 {{"startTime", TEST_LONG},
	  {"sampledThread", TEST_THREAD},
	  {"stackTrace", TEST_STACK},
	  {"state", TEST_STATE},
	  TEST_LABELS}},
	{TEST_WALL,
	 "profiler.WallClockSample",
	 {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"state", TEST_STATE}, {"samples", TEST_INT}, TEST_LABELS}},
	{TEST_IN_TLAB,
	 "jdk.ObjectAllocationInNewTLAB",
	 {{"startTime", TEST_LONG},
	  {"stackTrace", TEST_STACK},
	  {"allocationSize", TEST_LONG},
	  {"tlabSize", TEST_LONG},
	  TEST_LABELS}},
	{TEST_OUT_TLAB,
	 "jdk.ObjectAllocationOutsideTLAB",
	 {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"allocationSize", TEST_LONG}, TEST_LABELS}},
	{TEST_SAMPLE,
	 "jdk.ObjectAllocationSample",
	 {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"weight", TEST_LONG}}},
	{TEST_LOCK,
	 "jdk.JavaMonitorEnter",
	 {{"startTime", TEST_LONG}, {"duration", TEST_LONG}, {"stackTrace", TEST_STACK}, TEST_LABELS}},
	{TEST_PARK, "jdk.ThreadPark", {{"startTime", TEST_LONG}, {"duration", TEST_LONG}, {"stackTrace", TEST_STACK}}},
	{TEST_LIVE,
	 "profiler.LiveObject",
	 {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"allocationSize", TEST_LONG}}},
	{TEST_MALLOC, "profiler.Malloc", {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"size", TEST_LONG}}},
	{TEST_NATIVE, "jdk.NativeMethodSample", {{"startTime", TEST_LONG}, {"stackTrace", TEST_STACK}, {"state", TEST_STATE}}},
	{TEST_SETTING,
	 "jdk.ActiveSetting",
	 {{"startTime", TEST_LONG}, {"id", TEST_LONG}, {"name", TEST_STRING}, {"value", TEST_STRING}}},
};
#define TEST_CLASSES (sizeof(test_classes) / sizeof(test_classes[0]))

#define TEST_HEADER_BYTES 68
struct test_jfr {
	struct buffer out;
	size_t chunk; /* where it begins */
	uint64_t start_ns, ticks_per_s;
	struct {
		struct buffer constants;
		unsigned count;
	} pools[TEST_SYMBOL + 1]; /* by class */
};

HELPER void test_jfr_number(struct buffer *out, uint64_t value)
{
	for (unsigned i = 0; i < 8 && value >= 0x80; i++, value >>= 7)
		buffer_append_byte(out, (uint8_t)(value | 0x80));
	buffer_append_byte(out, (uint8_t)value);
}

HELPER void test_jfr_text(struct buffer *out, const char *text)
{
	buffer_append_byte(out, text ? 3 : 0);
	if (!text)
		return;
	test_jfr_number(out, strlen(text));
	buffer_append_string(out, text);
}

HELPER void test_jfr_fixed(struct buffer *out, size_t at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		out->data[at + i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

HELPER void test_jfr_begin(struct test_jfr *jfr, uint64_t start_ns, uint64_t ticks_per_s)
{
	static const uint8_t header[TEST_HEADER_BYTES] = {'F', 'L', 'R', 0, 0, 2};
	if (!jfr->out.max)
		*jfr = (struct test_jfr){.out.max = 64 * MIB};
	for (size_t i = 0; i <= TEST_SYMBOL; i++) {
		jfr->pools[i].constants.max = 64 * MIB;
		buffer_clear(&jfr->pools[i].constants);
		jfr->pools[i].count = 0;
	}
	jfr->chunk = jfr->out.len;
	jfr->start_ns = start_ns;
	jfr->ticks_per_s = ticks_per_s;
	buffer_append(&jfr->out, header, sizeof(header));
}

/* A new constant: what follows the key is for the caller to append. */
HELPER struct buffer *test_jfr_constant(struct test_jfr *jfr, unsigned class, uint64_t key)
{
	jfr->pools[class].count++;
	test_jfr_number(&jfr->pools[class].constants, key);
	return &jfr->pools[class].constants;
}

HELPER void test_jfr_symbol(struct test_jfr *jfr, uint64_t key, const char *text)
{
	test_jfr_text(test_jfr_constant(jfr, TEST_SYMBOL, key), text);
}

/* A state, a frame type, the name of a thread: all are a text first. */
HELPER void test_jfr_named(struct test_jfr *jfr, unsigned class, uint64_t key, const char *text)
{
	test_jfr_text(test_jfr_constant(jfr, class, key), text);
	if (class == TEST_THREAD)
		test_jfr_number(&jfr->pools[class].constants, key);
}

/* A method and its class, with symbols of their own; their keys are made of that of the method. NULL = that one is missing. */
HELPER void test_jfr_method(struct test_jfr *jfr, uint64_t key, const char *class, const char *name)
{
	struct buffer *method = test_jfr_constant(jfr, TEST_METHOD, key);
	test_jfr_number(method, key + 1000);
	test_jfr_number(method, key + 3000);
	test_jfr_symbol(jfr, key + 3000, name);
	if (!class)
		return;
	test_jfr_number(test_jfr_constant(jfr, TEST_CLASS, key + 1000), key + 2000);
	test_jfr_symbol(jfr, key + 2000, class);
}

/* methods: the leaf first; 0 ends. Their line is their key. */
HELPER void test_jfr_stack(struct test_jfr *jfr, uint64_t key, bool is_cut, const uint64_t *methods, uint64_t frame_type)
{
	struct buffer *stack = test_jfr_constant(jfr, TEST_STACK, key);
	size_t count = 0;
	while (methods[count])
		count++;
	buffer_append_byte(stack, is_cut);
	test_jfr_number(stack, count);
	for (size_t i = 0; i < count; i++) {
		test_jfr_number(stack, methods[i]);
		test_jfr_number(stack, methods[i]);
		test_jfr_number(stack, frame_type);
	}
}

HELPER void test_jfr_sized(struct test_jfr *jfr, const struct buffer *body)
{
	/* A size of four bytes always, so that it is known beforehand how many it takes itself. */
	uint64_t size = body->len + 4;
	for (unsigned i = 0; i < 4; i++)
		buffer_append_byte(&jfr->out, (uint8_t)((size >> (7 * i) & 0x7f) | (i < 3 ? 0x80 : 0)));
	buffer_append(&jfr->out, body->data, body->len);
}

/* An event, whose fields are all numbers. */
HELPER void test_jfr_event(struct test_jfr *jfr, uint64_t class, const uint64_t *fields, size_t count)
{
	struct buffer body = {.max = MIB};
	test_jfr_number(&body, class);
	for (size_t i = 0; i < count; i++)
		test_jfr_number(&body, fields[i]);
	test_jfr_sized(jfr, &body);
	buffer_release(&body);
}
#define TEST_EVENT(jfr, class, ...)                                                                                            \
	test_jfr_event((jfr), (class), (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

HELPER void test_jfr_setting(struct test_jfr *jfr, const char *name, const char *value)
{
	struct buffer body = {.max = MIB};
	test_jfr_number(&body, TEST_SETTING);
	test_jfr_number(&body, 0);
	test_jfr_number(&body, 0);
	test_jfr_text(&body, name);
	test_jfr_text(&body, value);
	test_jfr_sized(jfr, &body);
	buffer_release(&body);
}

/* ---- the end of a chunk: its metadata and constants ---- */

struct test_strings {
	const char *items[128];
	char numbers[TEST_SYMBOL + 200][8];
	size_t count;
};

HELPER uint64_t test_jfr_string(struct test_strings *strings, const char *text)
{
	for (size_t i = 0; i < strings->count; i++)
		if (strcmp(strings->items[i], text) == 0)
			return i;
	assert_true(strings->count < sizeof(strings->items) / sizeof(strings->items[0]));
	strings->items[strings->count] = text;
	return strings->count++;
}

HELPER uint64_t test_jfr_string_of(struct test_strings *strings, uint64_t number)
{
	snprintf(strings->numbers[number], sizeof(strings->numbers[number]), "%u", (unsigned)number);
	return test_jfr_string(strings, strings->numbers[number]);
}

HELPER void test_jfr_element(struct buffer *out, struct test_strings *strings, const char *name, unsigned attributes)
{
	test_jfr_number(out, test_jfr_string(strings, name));
	test_jfr_number(out, attributes);
}

HELPER void test_jfr_attribute(struct buffer *out, struct test_strings *strings, const char *name, const char *value)
{
	test_jfr_number(out, test_jfr_string(strings, name));
	test_jfr_number(out, test_jfr_string(strings, value));
}

HELPER void test_jfr_field(struct buffer *out, struct test_strings *strings, const char *name, uint64_t class)
{
	bool is_constant = class >= TEST_CLASS && class != TEST_FRAME, is_array = class == TEST_FRAME;
	test_jfr_element(out, strings, "field", 2u + is_constant + is_array);
	test_jfr_attribute(out, strings, "name", name);
	test_jfr_number(out, test_jfr_string(strings, "class"));
	test_jfr_number(out, test_jfr_string_of(strings, class));
	if (is_constant)
		test_jfr_attribute(out, strings, "constantPool", "true");
	if (is_array)
		test_jfr_attribute(out, strings, "dimension", "1");
	test_jfr_number(out, 0);
}

HELPER void test_jfr_class(struct buffer *out, struct test_strings *strings, const struct test_class *class)
{
	unsigned count = 0;
	while (count < sizeof(class->fields) / sizeof(class->fields[0]) && class->fields[count].name)
		count++;
	test_jfr_element(out, strings, "class", 2);
	test_jfr_attribute(out, strings, "name", class->name);
	test_jfr_number(out, test_jfr_string(strings, "id"));
	test_jfr_number(out, test_jfr_string_of(strings, class->id));
	test_jfr_number(out, count);
	for (unsigned i = 0; i < count; i++)
		test_jfr_field(out, strings, class->fields[i].name, class->fields[i].class);
}

HELPER void test_jfr_write_metadata(struct test_jfr *jfr)
{
	static struct test_strings strings;
	struct buffer tree = {.max = MIB}, body = {.max = MIB};
	strings.count = 0;
	test_jfr_element(&tree, &strings, "root", 0);
	test_jfr_number(&tree, 2);
	test_jfr_element(&tree, &strings, "metadata", 0);
	test_jfr_number(&tree, TEST_CLASSES);
	for (size_t i = 0; i < TEST_CLASSES; i++)
		test_jfr_class(&tree, &strings, &test_classes[i]);
	test_jfr_element(&tree, &strings, "region", 0);
	test_jfr_number(&tree, 0);
	for (unsigned i = 0; i < 4; i++) /* class 0, start, duration, number */
		test_jfr_number(&body, 0);
	test_jfr_number(&body, strings.count);
	for (size_t i = 0; i < strings.count; i++)
		test_jfr_text(&body, strings.items[i]);
	buffer_append_buffer(&body, &tree);
	test_jfr_sized(jfr, &body);
	buffer_release(&tree);
	buffer_release(&body);
}

HELPER void test_jfr_write_constants(struct test_jfr *jfr)
{
	struct buffer body = {.max = 64 * MIB};
	unsigned pools = 0;
	for (size_t i = 0; i <= TEST_SYMBOL; i++)
		pools += jfr->pools[i].count > 0;
	test_jfr_number(&body, 1);
	for (unsigned i = 0; i < 4; i++) /* start, duration, the one before, kind */
		test_jfr_number(&body, 0);
	test_jfr_number(&body, pools);
	for (size_t i = 0; i <= TEST_SYMBOL; i++) {
		if (!jfr->pools[i].count)
			continue;
		test_jfr_number(&body, i);
		test_jfr_number(&body, jfr->pools[i].count);
		buffer_append_buffer(&body, &jfr->pools[i].constants);
	}
	test_jfr_sized(jfr, &body);
	buffer_release(&body);
}

HELPER void test_jfr_end(struct test_jfr *jfr)
{
	size_t metadata = jfr->out.len;
	test_jfr_write_metadata(jfr);
	size_t constants = jfr->out.len;
	test_jfr_write_constants(jfr);
	const uint64_t header[] = {
		jfr->out.len - jfr->chunk, constants - jfr->chunk, metadata - jfr->chunk, jfr->start_ns, 10000000000, 0,
		jfr->ticks_per_s};
	for (size_t i = 0; i < sizeof(header) / sizeof(header[0]); i++)
		test_jfr_fixed(&jfr->out, jfr->chunk + 8 + 8 * i, header[i], 8);
	test_jfr_fixed(&jfr->out, jfr->chunk + 64, 1, 4);
	assert_int_equal(buffer_status(&jfr->out), 0);
}

HELPER void test_jfr_release(struct test_jfr *jfr)
{
	buffer_release(&jfr->out);
	for (size_t i = 0; i <= TEST_SYMBOL; i++)
		buffer_release(&jfr->pools[i].constants);
}

/* ---- labels ---- */

/* An entry of a map: contexts (1), of two ids each, or strings (2). */
HELPER void test_labels_string(struct buffer *out, uint64_t id, const char *text)
{
	size_t mark;
	pb_begin(out, 2, &mark);
	pb_write_varint(out, 1, id);
	pb_write_string(out, 2, text);
	pb_end(out, mark);
}

/* pairs: id of a name, id of a value. */
HELPER void test_labels_context(struct buffer *out, uint64_t id, const uint64_t (*pairs)[2], size_t count)
{
	size_t entry, context, label;
	pb_begin(out, 1, &entry);
	pb_write_varint(out, 1, id);
	pb_begin(out, 2, &context);
	for (size_t i = 0; i < count; i++) {
		pb_begin(out, 1, &label);
		pb_write_varint(out, 1, pairs[i][0]);
		pb_write_varint(out, 2, pairs[i][1]);
		pb_end(out, label);
	}
	pb_end(out, context);
	pb_end(out, entry);
}

#endif
