// SPDX-License-Identifier: Apache-2.0
/* HotSpot's tables, methods and compiled code in a memory made by hand, as several versions lay them out; and what a process
 * that lies could put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "runtime/test_jvm_image.h"

#define VERSIONS (sizeof(test_jvm_tables) / sizeof(test_jvm_tables[0]))

static struct image *open_image(size_t i)
{
	struct image *image = image_new(&test_jvm_tables[i], NULL);
	struct error err = {0};

	assert_int_equal(image_read_layout(image, &err), 0);
	return image;
}

/* ---- tables ---- */

static void test_layouts(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		struct image *image = open_image(i);
		const struct jvm_layout *layout = &image->layout;
		assert_int_equal(layout->version, test_jvm_tables[i].version);
		assert_string_equal(layout->release, "17.0.15+6-Debian");
		assert_int_equal(layout->fields[JVM_METHOD_CONST].offset, 8);
		assert_int_equal(layout->fields[JVM_CONST_NAME].bytes, 2);
		assert_int_equal(layout->fields[JVM_NMETHOD_ID].bytes, 4);
		assert_int_equal(layout->fields[JVM_NMETHOD_METHOD].bytes, 8);
		assert_int_equal(layout->numbers[JVM_CONSTANT_HAS_LINES], 1);
		assert_true(image->reads < 3000);
		mem_free(image);
	}
}

static void test_not_yet(void **state)
{
	struct jvm_process told;
	struct error err = {0};
	struct image *image = open_image(1);

	assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EAGAIN);
	image_put_heaps(image);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_INTERPRETER], 0);
	assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EAGAIN);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_MAJOR], 0);
	assert_int_equal(image_read_layout(image, &err), -EAGAIN);
	image_put_symbol(image, JVM_SYMBOL_INT_STRIDE, 0);
	assert_int_equal(image_read_layout(image, &err), -EAGAIN);
	mem_free(image);
}

static void test_what_is_missing(void **state)
{
	static const char *const needed[] = {"_name",	     "_frame_size",	  "_method",	  "_compile_id",
					     "_constMethod", "_code_size",	  "_pool_holder", "_log2_segment_size",
					     "_used",	     "_scopes_pcs_offset"};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		struct image *image = image_new(&test_jvm_tables[1], needed[i]);
		struct error err = {0};
		assert_int_equal(image_read_layout(image, &err), -ENOTSUP);
		assert_non_null(strstr(err.message, needed[i]));
		mem_free(image);
	}
	struct image *image = image_new(&test_jvm_tables[3], "_mutable_data");
	struct error err = {0};
	assert_int_equal(image_read_layout(image, &err), -ENOTSUP);
	assert_string_equal(err.message, "HotSpot 17.0.15+6-Debian whose tables lack where the methods of an nmethod are");
	mem_free(image);
}

static void test_tables_that_lie(void **state)
{
	struct error err = {0};
	struct image *image = open_image(1);

	/* Without an end, with entries that are too large, at an address that is not there. */
	memset(image->data + (IMAGE_TABLES - IMAGE_START), 0x41, IMAGE_TEXTS - IMAGE_TABLES);
	image->reads = 0;
	assert_int_equal(image_read_layout(image, &err), -EBADMSG);
	assert_string_equal(err.message, "HotSpot whose tables have no end");
	assert_true(image->reads <= 16384);
	image_put_symbol(image, JVM_SYMBOL_STRUCT_STRIDE, 1u << 20);
	assert_int_equal(image_read_layout(image, &err), -EBADMSG);
	image_put_symbol(image, JVM_SYMBOL_STRUCT_STRIDE, 48);
	image_put_symbol(image, JVM_SYMBOL_STRUCTS, 0xdead);
	assert_int_equal(image_read_layout(image, &err), -EFAULT);
	mem_free(image);
}

static int read_with_faults(void *context)
{
	struct error err = {0};

	return image_read_layout(context, &err);
}

static void test_without_memory(void **state)
{
	struct image *image = open_image(0);

	assert_int_equal(test_each_allocation(read_with_faults, image), 1);
	mem_free(image);
}

/* ---- places ---- */

static void test_places(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		struct image *image = open_image(i);
		struct jvm_process told;
		struct error err = {0};
		image_put_heaps(image);
		assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), 0);
		assert_int_equal(told.kind, RUNTIME_KIND_JVM);
		assert_int_equal(told.low, IMAGE_CODE);
		assert_int_equal(told.high, IMAGE_CODE + IMAGE_CODE_BYTES);
		assert_int_equal(told.heaps[0].segments, IMAGE_SEGMENTS);
		assert_int_equal(told.interpreter_end, IMAGE_INTERPRETER + 0x4000);
		assert_int_equal(told.frame_method, 3);
		assert_int_equal(told.frame_bcp, 8);
		assert_int_equal(told.flags & JVM_CODE_IS_OFFSET, test_jvm_tables[i].version == 25 ? JVM_CODE_IS_OFFSET : 0);
		/* Heaps that cannot be. */
		image_put_field(image, IMAGE_HEAP, JVM_HEAP_SHIFT, 40);
		assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EBADMSG);
		image_put_field(image, IMAGE_HEAP, JVM_HEAP_SHIFT, IMAGE_SHIFT);
		image_put_field(image, IMAGE_HEAPS, JVM_ARRAY_LENGTH, 1000);
		assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EBADMSG);
		image_put_field(image, IMAGE_HEAPS, JVM_ARRAY_LENGTH, 1);
		image_put_field(image, IMAGE_STUBS, JVM_STUBS_BUFFER, 0x1000);
		assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EBADMSG);
		image->layout.fields[JVM_CONST_CODE_SIZE].offset = 4000;
		assert_int_equal(jvm_place(&image->layout, &image->memory, &told, &err), -EBADMSG);
		mem_free(image);
	}
}

/* ---- numbers and lines ---- */

static size_t pack(uint32_t number, bool excludes_zero, uint8_t *to)
{
	unsigned least = excludes_zero;

	if (number < 192 - least) {
		to[0] = (uint8_t)(number + least);
		return 1;
	}
	for (size_t i = 0;; i++) {
		if (i == 4 || number < 192 - least) {
			to[i] = (uint8_t)(number + least);
			return i + 1;
		}
		number -= 192 - least;
		to[i] = (uint8_t)(192 + (number & 63));
		number >>= 6;
	}
}

static void test_numbers(void **state)
{
	static const uint32_t numbers[] = {0,	1,   63,    64,	   190,	     191,	 192,	    193,
					   254, 255, 12287, 12288, 1u << 20, 0x7fffffff, UINT32_MAX};

	for (unsigned excludes_zero = 0; excludes_zero < 2; excludes_zero++) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			uint8_t data[8];
			size_t len = pack(numbers[i], excludes_zero, data);
			struct jvm_stream stream = {.data = {data, len}, .excludes_zero = excludes_zero};
			assert_int_equal(jvm_take_number(&stream), numbers[i]);
			assert_int_equal(stream.at, len);
			assert_false(stream.is_bad);
			assert_int_equal(jvm_take_number(&stream), 0);
			assert_true(stream.is_bad);
		}
	}
	struct jvm_stream zero = {.data = {(const uint8_t *)"\0", 1}, .excludes_zero = true};
	jvm_take_number(&zero);
	assert_true(zero.is_bad);
	for (int32_t number = -300; number < 300; number++) {
		uint8_t data[8];
		size_t len = pack((uint32_t)number << 1 ^ (uint32_t)(number >> 31), true, data);
		struct jvm_stream stream = {.data = {data, len}, .excludes_zero = true};
		assert_int_equal(jvm_take_signed(&stream), number);
	}
}

/* Bytecode 0: line 10, 5: 12, 9: 500, 30: 11. */
static size_t put_lines(uint8_t *to, bool excludes_zero)
{
	size_t len = 0;

	to[len++] = 0xff;
	len += pack(0, excludes_zero, to + len);
	len += pack(10 << 1, excludes_zero, to + len);
	to[len++] = 5 << 3 | 2;
	to[len++] = 0xff;
	len += pack(4 << 1, excludes_zero, to + len);
	len += pack(488 << 1, excludes_zero, to + len);
	to[len++] = 0xff;
	len += pack(21 << 1, excludes_zero, to + len);
	len += pack((489 << 1) - 1, excludes_zero, to + len);
	to[len++] = 0;
	return len;
}

static void test_lines(void **state)
{
	for (unsigned excludes_zero = 0; excludes_zero < 2; excludes_zero++) {
		uint8_t data[64];
		struct bytes lines = {data, put_lines(data, excludes_zero)};
		static const uint32_t want[][2] = {{0, 10},  {4, 10},	{5, 12},  {8, 12},
						   {9, 500}, {29, 500}, {30, 11}, {999, 11}};
		for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
			assert_int_equal(jvm_line(lines, excludes_zero, want[i][0]), want[i][1]);
		for (size_t len = 0; len < lines.len; len++) /* cut anywhere */
			jvm_line((struct bytes){data, len}, excludes_zero, 30);
	}
	assert_int_equal(jvm_line((struct bytes){0}, false, 3), 0);
}

/* ---- methods ---- */

static void test_methods(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		struct image *image = open_image(i);
		struct jvm_method method;
		uint8_t lines[64];
		uint32_t check;
		size_t len = put_lines(lines, jvm_excludes_zero(&image->layout));
		uint64_t at =
			image_put_method(image, 0, "org/example/Main$Inner", "grüße", "Main.java", (struct bytes){lines, len});
		assert_int_equal(jvm_method_check(&image->layout, &image->memory, at, &check), 0);
		assert_int_equal(jvm_read_method(&image->layout, &image->memory, at, check, &method), 0);
		assert_string_equal(method.name, "org.example.Main$Inner.grüße");
		assert_string_equal(method.file, "Main.java");
		assert_int_equal(method.first_line, 10);
		assert_int_equal(method.lines_bytes, len - 1); /* without its end */
		assert_memory_equal(method.lines, lines, len - 1);
		mem_free(method.lines);
		assert_int_equal(jvm_read_method(&image->layout, &image->memory, at, check ^ 1, &method), -ESTALE);
		image_put_field(image, at + 0x1800, JVM_SYMBOL_REFERENCES, 0x70000); /* the class was unloaded */
		assert_int_equal(jvm_read_method(&image->layout, &image->memory, at, check, &method), -ESTALE);
		image_put_field(image, at + 0x100, JVM_CONST_CODE_SIZE, 41);
		assert_int_equal(jvm_read_method(&image->layout, &image->memory, at, check, &method), -ESTALE);
		assert_null(method.lines);
		mem_free(image);
	}
}

static void test_names(void **state)
{
	static const char *const want[][2] = {
		{"Main$$Lambda$14+0x0000000800c03000", "Main$$Lambda$14.f"}, {"a/b/C+D", "a.b.C+D.f"}, {"C", "C.f"}};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct image *image = open_image(1);
		struct jvm_method method;
		uint32_t check;
		uint64_t at = image_put_method(image, 0, want[i][0], "f", NULL, (struct bytes){0});
		assert_int_equal(jvm_method_check(&image->layout, &image->memory, at, &check), 0);
		assert_int_equal(jvm_read_method(&image->layout, &image->memory, at, check, &method), 0);
		assert_string_equal(method.name, want[i][1]);
		assert_string_equal(method.file, "");
		assert_int_equal(method.lines_bytes, 0);
		mem_free(image);
	}
}

static void test_methods_that_lie(void **state)
{
	struct image *image = open_image(1);
	const struct jvm_layout *layout = &image->layout;
	uint64_t at = image_put_method(image, 0, "C", "f", "C.java", (struct bytes){0}), pool = at + 0x400;
	uint64_t entries = pool + (uint64_t)layout->numbers[JVM_SIZE_POOL];
	struct jvm_method method;
	uint32_t check;

	assert_int_equal(jvm_method_check(layout, &image->memory, at, &check), 0);
	image_put_field(image, pool, JVM_POOL_LENGTH, 3); /* its name is beyond the end */
	assert_int_equal(jvm_read_method(layout, &image->memory, at, check, &method), -EBADMSG);
	image_put_field(image, pool, JVM_POOL_LENGTH, 8);
	image_put_word(image, entries + 3 * 8, 0x1001); /* no Symbol */
	assert_int_equal(jvm_read_method(layout, &image->memory, at, check, &method), -EBADMSG);
	image_put_word(image, entries + 3 * 8, 0x1000);
	assert_int_equal(jvm_read_method(layout, &image->memory, at, check, &method), -EFAULT);
	image_put_word(image, entries + 3 * 8, image_put_symbol_text(image, at + 0x1000, "a\nb"));
	assert_int_equal(jvm_read_method(layout, &image->memory, at, check, &method), -EBADMSG);
	image_put_word(image, entries + 3 * 8, image_put_symbol_text(image, at + 0x1000, "f"));
	image_put_field(image, at + 0x1000, JVM_SYMBOL_LENGTH, 0xffff); /* cut, and not text behind the name */
	assert_int_equal(jvm_read_method(layout, &image->memory, at, check, &method), -EBADMSG);
	assert_int_equal(jvm_read_method(layout, &image->memory, IMAGE_START + IMAGE_BYTES - 8, check, &method), -EFAULT);
	mem_free(image);
}

/* ---- compiled code ---- */

#define PCS	(IMAGE_BLOB + 0x1000)
#define SCOPES	(IMAGE_BLOB + 0x1400)
#define METHODS (IMAGE_BLOB + 0x1800)

static void put_pc(struct image *image, unsigned i, int32_t offset, int32_t scope)
{
	uint64_t at = PCS + i * (uint64_t)image->layout.numbers[JVM_SIZE_PC];

	image_put_field(image, at, JVM_PC_OFFSET, (uint32_t)offset);
	image_put_field(image, at, JVM_PC_SCOPE, (uint32_t)scope);
}

static size_t put_scope(struct image *image, size_t at, uint32_t sender, uint32_t method, int32_t place)
{
	bool excludes_zero = jvm_excludes_zero(&image->layout);
	uint8_t data[16];
	size_t len = pack(sender, excludes_zero, data);

	len += pack(method, excludes_zero, data + len);
	len += pack((uint32_t)place + 1, excludes_zero, data + len);
	image_put(image, SCOPES + at, data, len);
	return at + len;
}

/* An nmethod of method 0, into which 1 is inlined up to offset 0x40, and 2 into that at 0x20. Returns its check. */
static uint32_t put_nmethod(struct image *image)
{
	const struct jvm_field *fields = image->layout.fields;
	uint64_t blob = image_blob(image), base = blob;
	uint64_t methods[3];

	image_put_heaps(image);
	image_put_block(image, "nmethod", 1, 6);
	for (unsigned i = 0; i < 3; i++)
		methods[i] = image_put_method(image, i, "C", i == 0 ? "f" : i == 1 ? "g" : "h", "C.java", (struct bytes){0});
	image_put_field(image, blob, JVM_NMETHOD_METHOD, methods[0]);
	image_put_field(image, blob, JVM_NMETHOD_ID, 77);
	if (fields[JVM_NMETHOD_IMMUTABLE].bytes) {
		base = PCS;
		image_put_field(image, blob, JVM_NMETHOD_IMMUTABLE, base);
	}
	unsigned count = 6;
	uint64_t end = PCS + count * (uint64_t)image->layout.numbers[JVM_SIZE_PC];
	image_put_field(image, blob, JVM_NMETHOD_PCS_OFFSET, PCS - base);
	image_put_field(image, blob, JVM_NMETHOD_DEPENDENCIES_OFFSET, end - base);
	image_put_field(image, blob, JVM_NMETHOD_SCOPES_OFFSET, SCOPES - base);
	image_put_field(image, blob, JVM_NMETHOD_SCOPES_BEGIN, SCOPES);
	image_put_field(image, blob, JVM_NMETHOD_METADATA_OFFSET, METHODS - blob);
	image_put_field(image, blob, JVM_BLOB_MUTABLE, METHODS - 16);
	image_put_field(image, blob, JVM_BLOB_RELOCATION_SIZE, 16);
	for (unsigned i = 0; i < 3; i++)
		image_put_word(image, METHODS + i * 8, methods[i]);
	size_t f = 1, g = put_scope(image, f, 0, 1, 7), h = put_scope(image, g, (uint32_t)f, 2, 300);
	size_t last = put_scope(image, h, (uint32_t)g, 3, 5);
	put_scope(image, last, 0, 1, 20);
	put_pc(image, 0, -1, 0);
	put_pc(image, 1, 0x10, (int32_t)f);
	put_pc(image, 2, 0x20, (int32_t)h);
	put_pc(image, 3, 0x40, (int32_t)g);
	put_pc(image, 4, 0x80, (int32_t)last);
	put_pc(image, 5, INT32_MAX, 0);
	return runtime_check_of(methods[0], IMAGE_BLOB_CODE, 77);
}

static int scopes_at(struct image *image, uint32_t check, uint32_t offset, struct jvm_scope *ret)
{
	struct jvm_scope leaf[JVM_SCOPES_MAX];
	int count = jvm_read_scopes(&image->layout, &image->memory, image_blob(image), check, offset, 0, ret);

	/* The same by the address. */
	assert_int_equal(jvm_read_scopes(&image->layout, &image->memory, image_blob(image), check, JVM_PLACE_LEAF,
					 IMAGE_BLOB_CODE + offset, leaf),
			 count);
	for (int i = 0; i < count; i++) {
		assert_int_equal(leaf[i].method, ret[i].method);
		assert_int_equal(leaf[i].place, ret[i].place);
	}
	return count;
}

static void test_scopes(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		struct image *image = open_image(i);
		struct jvm_scope scopes[JVM_SCOPES_MAX];
		uint32_t check = put_nmethod(image);
		uint64_t f = IMAGE_METHODS, g = f + IMAGE_METHOD_BYTES, h = g + IMAGE_METHOD_BYTES;
		assert_int_equal(scopes_at(image, check, 0x20, scopes), 3); /* a call */
		assert_int_equal(scopes[0].method, h);
		assert_int_equal(scopes[0].place, 5);
		assert_int_equal(scopes[1].method, g);
		assert_int_equal(scopes[1].place, 300);
		assert_int_equal(scopes[2].method, f);
		assert_int_equal(scopes[2].place, 7);
		assert_int_equal(scopes_at(image, check, 0x21, scopes), 2); /* up to the next place */
		assert_int_equal(scopes[0].method, g);
		assert_int_equal(scopes_at(image, check, 0, scopes), 1);
		assert_int_equal(scopes[0].place, 7);
		assert_int_equal(scopes_at(image, check, 0x1000, scopes), 1); /* behind the last one */
		assert_int_equal(scopes[0].place, 20);
		assert_int_equal(scopes_at(image, check ^ 4, 0x20, scopes), -ESTALE);
		image_put_field(image, image_blob(image), JVM_NMETHOD_ID, 78); /* compiled again at this address */
		assert_int_equal(scopes_at(image, check, 0x20, scopes), -ESTALE);
		mem_free(image);
	}
}

static void test_scopes_that_lie(void **state)
{
	struct image *image = open_image(1);
	struct jvm_scope scopes[JVM_SCOPES_MAX];
	uint32_t check = put_nmethod(image);

	put_scope(image, 1, 1, 1, 7); /* its own caller */
	assert_int_equal(scopes_at(image, check, 0x10, scopes), -EBADMSG);
	put_scope(image, 1, 0, 60000, 7); /* no such method */
	assert_true(scopes_at(image, check, 0x10, scopes) < 0);
	put_pc(image, 1, 0x10, 0x7fffff); /* a scope that cannot be read */
	assert_int_equal(scopes_at(image, check, 0x10, scopes), -EFAULT);
	image_put_field(image, image_blob(image), JVM_NMETHOD_PCS_OFFSET, 0x7fffffff);
	assert_int_equal(scopes_at(image, check, 0x10, scopes), 1); /* no places: the method alone */
	assert_int_equal(scopes[0].place, -1);
	image_put_field(image, image_blob(image), JVM_NMETHOD_PCS_OFFSET, 0);
	image_put_field(image, image_blob(image), JVM_NMETHOD_DEPENDENCIES_OFFSET, 0x7fffffff);
	assert_int_equal(scopes_at(image, check, 0x10, scopes), -EFAULT);
	mem_free(image);
}

static void test_stubs(void **state)
{
	for (size_t i = 0; i < VERSIONS; i++) {
		struct image *image = open_image(i);
		char name[JVM_NAME_BYTES_MAX];
		image_put_heaps(image);
		uint64_t text = image->texts;
		image_put_block(image, "StubRoutines (1)", 2, 0);
		uint32_t check = runtime_check_of(text, IMAGE_BLOB_CODE, 0);
		assert_int_equal(jvm_read_stub(&image->layout, &image->memory, image_blob(image), check, name), 0);
		assert_string_equal(name, "StubRoutines (1)");
		assert_int_equal(jvm_read_stub(&image->layout, &image->memory, image_blob(image), check ^ 1, name), -ESTALE);
		image_put(image, text, "\x1b[2J", 5);
		assert_int_equal(jvm_read_stub(&image->layout, &image->memory, image_blob(image), check, name), -EBADMSG);
		assert_string_equal(name, "");
		mem_free(image);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),		 cmocka_unit_test(test_not_yet),
		cmocka_unit_test(test_what_is_missing),	 cmocka_unit_test(test_tables_that_lie),
		cmocka_unit_test(test_without_memory),	 cmocka_unit_test(test_places),
		cmocka_unit_test(test_numbers),		 cmocka_unit_test(test_lines),
		cmocka_unit_test(test_methods),		 cmocka_unit_test(test_names),
		cmocka_unit_test(test_methods_that_lie), cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_scopes_that_lie),	 cmocka_unit_test(test_stubs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
