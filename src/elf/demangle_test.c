/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/time.h"
#include "elf/demangle.h"

static void check(const char *mangled, const char *expected)
{
	struct buffer out;
	buffer_init(&out, 1 << 20);
	assert_int_equal(buffer_append_string(&out, "<"), 0);
	int r = demangle_symbol(mangled, &out);
	assert_int_equal(r, expected != NULL);
	assert_string_equal(buffer_string(&out) + 1, expected ? expected : "");
	buffer_release(&out);
}

static void test_cplusplus(void **state)
{
	check("_ZN3foo3barEiPKc", "foo::bar(int, char const*)");
	check("_ZN3fooC1Ev", "foo::foo()");
	check("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)");
	check("_ZN3fooC1Ev.cold", "foo::foo() [clone .cold]");
	check("_Z3addii.part.0", "add(int, int) [clone .part.0]");
	check("_Z3addii.isra.0.constprop.1", "add(int, int) [clone .isra.0] [clone .constprop.1]");
	check("_ZTV3foo", "vtable for foo");
	check("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const");
}

static void test_rust(void **state)
{
	check("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	check("_ZN75_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE", NULL);
	check("_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
	      "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
	check("_RNvMs_NtCs1234_7mycrate3fooNtB4_3Bar3new", "<mycrate::foo::Bar>::new");
	check("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
	      "utf8_idents::\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x90\xe1\x83\x93_"
	      "\xe1\x83\x92\xe1\x83\x94\xe1\x83\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x98_"
	      "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a\xe1\x83\x98");
}

static void test_d(void **state)
{
	check("_Dmain", "D main");
	check("_D8demangle4testFZv", "demangle.test()");
	check("_D3std5range10primitives__T5emptyTAyaZQlFNaNbNdNiNfxAyaZb",
	      "std.range.primitives.empty!(immutable(char)[]).empty(const(immutable(char)[]))");
}

static void test_others_stay_as_they_are(void **state)
{
	static const char *const names[] = {"main",
					    "",
					    "_",
					    "_Z",
					    "_ZZ",
					    "_R",
					    "_D",
					    "_start",
					    "__libc_start_main",
					    "_Zfoo",
					    "runtime.main",
					    "_ZN3foo3bar",
					    "_GLOBAL__sub_I_main",
					    "_Dx",
					    "_RNvC"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check(names[i], NULL);
}

static void repeat(char *out, const char *before, const char *part, size_t len, const char *after)
{
	size_t at = 0, part_len = strlen(part), after_len = strlen(after);
	memcpy(out, before, strlen(before));
	at = strlen(before);
	while (at + part_len + after_len <= len) {
		memcpy(out + at, part, part_len);
		at += part_len;
	}
	memcpy(out + at, after, after_len + 1);
}

static void test_long_names(void **state)
{
	char name[DEMANGLE_INPUT_MAX + 8];
	/* Longer than libiberty takes by default, within our limit. */
	repeat(name, "_ZN", "10abcdefghij", 3000, "Ev");
	struct buffer out;
	buffer_init(&out, 1 << 20);
	assert_int_equal(demangle_symbol(name, &out), 1);
	assert_true(out.len > 2900);
	buffer_clear(&out);
	repeat(name, "_Z4089", "x", DEMANGLE_INPUT_MAX, "v");
	assert_int_equal(strlen(name), DEMANGLE_INPUT_MAX);
	assert_int_equal(demangle_symbol(name, &out), 1);
	buffer_clear(&out);
	repeat(name, "_Z4090", "x", DEMANGLE_INPUT_MAX + 1, "v");
	assert_int_equal(demangle_symbol(name, &out), 0);
	assert_int_equal(out.len, 0);
	buffer_release(&out);
}

/* Numbers in base 36 (C++) or 62 (Rust) as references are written: 0 is "", n is n - 1 in that base. */
static void append_reference(struct buffer *out, const char *digits, const char *tag, size_t value)
{
	char text[16];
	size_t base = strlen(digits), at = sizeof(text);
	text[--at] = 0;
	text[--at] = '_';
	if (value > 0) {
		value--;
		do {
			text[--at] = digits[value % base];
			value /= base;
		} while (value > 0);
	}
	assert_int_equal(buffer_append_string(out, tag), 0);
	assert_int_equal(buffer_append_string(out, text + at), 0);
}

/* Each level names the one before twice: 60 levels stand for 2^60 names. */
static void test_cplusplus_bomb(void **state)
{
	struct buffer name, out;
	buffer_init(&name, 1 << 16);
	buffer_init(&out, 1 << 20);
	buffer_append_string(&name, "_Z1f1AIiiE");
	for (size_t level = 1; level < 60; level++) {
		buffer_append_string(&name, "S_I");
		append_reference(&name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "S", level);
		append_reference(&name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "S", level);
		buffer_append_string(&name, "E");
	}
	int64_t start = time_thread_cpu_ns();
	assert_int_equal(demangle_symbol(buffer_string(&name), &out), 0);
	assert_int_equal(out.len, 0);
	assert_true(time_thread_cpu_ns() - start < NS_PER_S);
	buffer_release(&name);
	buffer_release(&out);
}

static void build_rust_bomb(struct buffer *name, size_t levels, const char *identifier)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	buffer_append_string(name, "_RINvC1a");
	buffer_append_string(name, identifier);
	size_t last = name->len - 2;
	buffer_append_string(name, "TuNtC1a");
	buffer_append_string(name, identifier);
	buffer_append_string(name, "E");
	for (size_t level = 0; level < levels; level++) {
		size_t at = name->len - 2;
		buffer_append_string(name, "T");
		append_reference(name, digits, "B", last);
		append_reference(name, digits, "B", last);
		buffer_append_string(name, "E");
		last = at;
	}
	buffer_append_string(name, "E");
}

/* The leak checker sees to it that leaving early loses nothing, also with identifiers outside ASCII. */
static void test_rust_bomb(void **state)
{
	static const char *const identifiers[] = {"3foo", "u30____7hkackfecea1cbdathfdh9hlq6y", "u12_ckfecea3cbda"};
	for (size_t i = 0; i < 3; i++) {
		struct buffer name, out;
		buffer_init(&name, 1 << 16);
		buffer_init(&out, 1 << 20);
		build_rust_bomb(&name, 3, identifiers[i]);
		assert_int_equal(demangle_symbol(buffer_string(&name), &out), 1);
		buffer_clear(&name);
		buffer_clear(&out);
		build_rust_bomb(&name, 60, identifiers[i]);
		int64_t start = time_thread_cpu_ns();
		assert_int_equal(demangle_symbol(buffer_string(&name), &out), 0);
		assert_int_equal(out.len, 0);
		assert_true(time_thread_cpu_ns() - start < NS_PER_S);
		buffer_release(&name);
		buffer_release(&out);
	}
}

/* A function type whose parameter lists refer back to the one before, twice. */
static void test_d_bomb(void **state)
{
	struct buffer name, out;
	buffer_init(&name, 1 << 16);
	buffer_init(&out, 1 << 20);
	buffer_append_string(&name, "_D1a1fFPFiiZvPFii");
	for (size_t level = 0; level < 60; level++) {
		char reference[3] = {'Q', (char)('a' + 12), 0};
		buffer_append_string(&name, "ZvPF");
		buffer_append_string(&name, reference);
		buffer_append_string(&name, reference);
	}
	for (size_t level = 0; level < 61; level++)
		buffer_append_string(&name, "Zv");
	int64_t start = time_thread_cpu_ns();
	int r = demangle_symbol(buffer_string(&name), &out);
	assert_true(r == 0 || out.len <= DEMANGLE_OUTPUT_MAX);
	assert_true(time_thread_cpu_ns() - start < NS_PER_S);
	buffer_release(&name);
	buffer_release(&out);
}

struct deep_name {
	char name[DEMANGLE_INPUT_MAX + 1];
};

static void *demangle_on_small_stack(void *context)
{
	struct deep_name *deep = context;
	struct buffer out;
	buffer_init(&out, 1 << 20);
	int r = demangle_symbol(deep->name, &out);
	buffer_release(&out);
	return r == 0 || r == 1 ? NULL : deep;
}

/* The header promises 2 MiB; the sanitizers' frames are larger. */
static void test_stack_use(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	const size_t stack_size = 16 << 20;
#else
	const size_t stack_size = 2 << 20;
#endif
	static const char *const parts[][3] = {
		{"_Z1f", "P", "i"},	 {"_Z1f", "A_", "i"},	  {"_Z1f", "F", "ivE"},	       {"_Z1f", "1AI", "i"},
		{"_Z1f", "N1AI", "i"},	 {"_Z1f", "M1A", "i"},	  {"_Z", "Z1fvE", "1gv"},      {"_Z1fIX", "ng", "1aEEvv"},
		{"_Z1f", "DTL", ""},	 {"_Z1f", "U3foo", "i"},  {"_RIC1a", "R", "uE"},       {"_RIC1a", "F", "uE"},
		{"_D1a1fF", "P", "iZv"}, {"_D1a1fF", "FPZ", "v"}, {"_D1a1f", "__T1aT", "iZv"},
	};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		static struct deep_name deep;
		repeat(deep.name, parts[i][0], parts[i][1], DEMANGLE_INPUT_MAX, parts[i][2]);
		pthread_attr_t attributes;
		pthread_t thread;
		void *result;
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, stack_size);
		assert_int_equal(pthread_create(&thread, &attributes, demangle_on_small_stack, &deep), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_null(result);
		pthread_attr_destroy(&attributes);
	}
}

static void test_faults_and_full_buffers(void **state)
{
	static const char *const names[] = {"_ZN3foo3barEiPKc", "_RNvCs1234_7mycrate3foo", "_D8demangle4testFZv"};
	for (size_t i = 0; i < 3; i++) {
		struct buffer out;
		buffer_init(&out, 1 << 20);
		fault_arm(FAULT_ALLOC, 1, 0);
		assert_int_equal(demangle_symbol(names[i], &out), -ENOMEM);
		assert_true(fault_disarm(FAULT_ALLOC));
		assert_int_equal(out.len, 0);
		buffer_release(&out);
		buffer_init(&out, 4);
		assert_int_equal(demangle_symbol(names[i], &out), -E2BIG);
		assert_int_equal(out.len, 0);
		buffer_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cplusplus),  cmocka_unit_test(test_rust),
		cmocka_unit_test(test_d),	   cmocka_unit_test(test_others_stay_as_they_are),
		cmocka_unit_test(test_long_names), cmocka_unit_test(test_cplusplus_bomb),
		cmocka_unit_test(test_rust_bomb),  cmocka_unit_test(test_d_bomb),
		cmocka_unit_test(test_stack_use),  cmocka_unit_test(test_faults_and_full_buffers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
