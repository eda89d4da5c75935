// SPDX-License-Identifier: Apache-2.0
/* Where frames of virtual threads lie in Java's heap, as classes in a memory made by hand tell it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/test_jvm_image.h"

#define ENTER 0x7f0000091000ull

static struct image *image;
static struct jvm_frozen frozen;

static int find(void)
{
	return jvm_find_frozen(&image->layout, &image->memory, &frozen);
}

static void set_up(size_t version, uint8_t reference)
{
	struct error err = {0};

	image = image_new(&test_jvm_tables[version], NULL);
	assert_int_equal(image_read_layout(image, &err), 0);
	image_put_continuations(image, ENTER, reference);
}

static uint64_t class_at(unsigned i)
{
	return IMAGE_CLASSES + (uint64_t)(i + 1) * IMAGE_CLASS_BYTES;
}

static void test_offsets(void **state)
{
	for (size_t i = 2; i < 4; i++) {
		set_up(i, 4);
		assert_int_equal(find(), 0);
		assert_int_equal(frozen.enter_method, class_at(1) + 0x2400);
		assert_int_equal(frozen.yield_method, class_at(1) + 0x2800);
		assert_int_equal(frozen.oop_bytes, 4);
		assert_int_equal(frozen.oop_base, IMAGE_START - 0x1000);
		assert_int_equal(frozen.oop_shift, 3);
		assert_int_equal(frozen.continuation_tail, 40);
		assert_int_equal(frozen.chunk_parent, 40);
		assert_int_equal(frozen.chunk_size, 12);
		assert_int_equal(frozen.chunk_sp, 24);
		assert_int_equal(frozen.chunk_bottom, 28);
		assert_int_equal(frozen.chunk_stack, IMAGE_CHUNK_BYTES);
		assert_true(image->reads < 4096);
		mem_free(image);
	}
}

/* References of 8 bytes, with and without colors. */
static void test_references(void **state)
{
	uint64_t globals = IMAGE_CLASSES + 0x400, good = globals + 0x100, bad = globals + 0x108, shift = globals + 0x110;

	set_up(3, 8);
	assert_int_equal(find(), 0);
	assert_int_equal(frozen.oop_bytes, 8);
	assert_int_equal(frozen.color_bad, 0);
	image_put_word(image, image->layout.variables[JVM_VARIABLE_Z], globals);
	assert_int_equal(find(), 0);
	assert_int_equal(frozen.color_bad, 0);
	image_put_word(image, globals + 8, good);
	image_put_word(image, globals + 16, bad);
	image_put_word(image, globals + 24, shift);
	assert_int_equal(find(), 0); /* another collector */
	assert_int_equal(frozen.color_bad, 0);
	image_put_word(image, good, 0x1000);
	assert_int_equal(find(), 0);
	assert_int_equal(frozen.color_bad, bad);
	assert_int_equal(frozen.color_shift, shift);
	image_put_word(image, globals + 24, 0);
	assert_int_equal(find(), -ENOTSUP);
	mem_free(image);
	set_up(3, 12);
	assert_int_equal(find(), -ENOTSUP);
	mem_free(image);
}

static void test_not_there(void **state)
{
	/* Versions before virtual threads, and tables without what is needed. */
	struct error err = {0};

	for (size_t i = 0; i < 2; i++) {
		image = image_new(&test_jvm_tables[i], NULL);
		assert_int_equal(image_read_layout(image, &err), 0);
		assert_int_equal(find(), -ENOTSUP);
		mem_free(image);
	}
	image = image_new(&test_jvm_tables[3], "_fieldinfo_stream");
	assert_int_equal(image_read_layout(image, &err), 0);
	assert_int_equal(find(), -ENOTSUP);
	mem_free(image);
	/* Classes are loaded one after the other. */
	set_up(3, 4);
	image_put_word(image, IMAGE_CLASSES + 2 * 8, 0);
	assert_int_equal(find(), -EAGAIN);
	mem_free(image);
	/* Names have changed. */
	set_up(3, 4);
	image_put(image, class_at(2) + 0x1000 + image->layout.fields[JVM_SYMBOL_BODY].offset, "x", 1);
	for (unsigned i = 3; i < 300; i++)
		image_put_word(image, IMAGE_CLASSES + i * 8, class_at(0));
	image->reads = 0;
	assert_int_equal(find(), -ENOTSUP);
	assert_true(image->reads <= 256 * 4);
	image_put(image, class_at(2) + 0x1000 + image->layout.fields[JVM_SYMBOL_BODY].offset, "j", 1);
	assert_int_equal(find(), 0);
	image_put(image, class_at(2) + 0x1100 + image->layout.fields[JVM_SYMBOL_BODY].offset, "x", 1);
	assert_int_equal(find(), -ENOTSUP);
	mem_free(image);
}

static void test_classes_that_lie(void **state)
{
	uint64_t stream, length;

	set_up(3, 4);
	stream = class_at(2) + 0x400 + image->layout.fields[JVM_LIST_BYTES].offset;
	length = class_at(2) + 0x400 + image->layout.fields[JVM_LIST_LENGTH].offset;
	image_put(image, length, &(uint32_t){9}, 4); /* ends in a field */
	assert_int_equal(find(), -EBADMSG);
	image_put(image, length, &(uint32_t){1u << 30}, 4);
	assert_int_equal(find(), -EBADMSG);
	image_put(image, length, &(uint32_t){22}, 4);
	assert_int_equal(find(), 0);
	image_put(image, stream, "\x65", 1); /* 100 fields */
	assert_int_equal(find(), -EBADMSG);
	image_put(image, stream, "\x05", 1);
	image_put(image, stream + 4, "\x2b", 1); /* a field at 42 */
	assert_int_equal(find(), -EBADMSG);
	image_put(image, stream + 4, "\x79", 1); /* behind the end of the object */
	assert_int_equal(find(), 0);
	image_put(image, stream + 9, "\x79", 1);
	assert_int_equal(find(), -EBADMSG);
	mem_free(image);
	set_up(3, 4);
	image_put_field(image, class_at(2), JVM_KLASS_LAYOUT, 4096);
	assert_int_equal(find(), -EBADMSG);
	image_put_field(image, class_at(2), JVM_KLASS_LAYOUT, IMAGE_CHUNK_BYTES);
	image_put_field(image, class_at(1) + 0x600, JVM_LIST_LENGTH, 1u << 30);
	assert_int_equal(find(), -EBADMSG);
	image_put_field(image, class_at(1) + 0x600, JVM_LIST_LENGTH, 2);
	assert_int_equal(find(), -ENOTSUP);
	image_put_field(image, class_at(1), JVM_CLASS_METHODS, 0x1234);
	assert_int_equal(find(), -EFAULT);
	mem_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_not_there),
		cmocka_unit_test(test_classes_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
