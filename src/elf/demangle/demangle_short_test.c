/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/test_faults.h"
#include "elf/demangle/demangle.h"

static const struct {
	const char *full, *brief;
} names[] = {
	/* C, and names that have no short form */
	{"main", "main"},
	{"foo.isra.0", "foo.isra.0"},
	{"malloc@plt", "malloc@plt"},
	{"", ""},
	/* Swift */
	{"main.foo(_: Swift.Int, b: [Swift.String : Swift.Int]) -> ()", "main.foo"},
	{"main.wait(inout Swift.Int) async throws -> ()", "main.wait"},
	{"main.load() throws(main.Problem) -> Swift.Int", "main.load"},
	{"main.Foo.count.getter : Swift.Int", "main.Foo.count.getter"},
	{"main.map<A, B where A: Swift.Error>([A], (A) -> B) -> [B]", "main.map"},
	{"closure #1 (Swift.Int) -> Swift.Int in main.Foo.spin(times: Swift.Int) -> ()", "closure #1 in main.Foo.spin"},
	{"generic specialization <Swift.Array<Swift.Int>> of main.sum<A>(A) -> A", "main.sum"},
	{"function signature specialization <Arg[0] = Dead> of generic specialization <A> of main.f() -> ()", "main.f"},
	{"static (extension in t17):Swift.Dictionary.Index2.< infix((extension in t17):A, B) -> Swift.Bool",
	 "static Swift.Dictionary.Index2.< infix"},
	{"Swift.(Exceptions in _0E4228093681F6920F0AB2E48B4F1C69).init() -> Swift.Int", "Swift.Exceptions.init"},
	{"protocol witness for main.P.run() -> () in conformance main.C : main.P in main",
	 "protocol witness for main.P.run in conformance main.C in main"},
	{"(1) await resume partial function for main.get() async -> Swift.Int",
	 "(1) await resume partial function for main.get"},
	{"type metadata accessor for main.Foo", "type metadata accessor for main.Foo"},
	{"main.Foo.deinit", "main.Foo.deinit"},
	{"main.foo() -> () with unmangled suffix \".cold\"", "main.foo"},
	{"reabstraction thunk helper from @callee_owned () -> () to @callee_guaranteed () -> ()",
	 "reabstraction thunk helper from @callee_owned () -> () to @callee_guaranteed () -> ()"},
	/* OCaml */
	{"Stdlib.List.map_256", "Stdlib.List.map_256"},
	/* C++ */
	{"foo::bar(int, char const*)", "foo::bar"},
	{"std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"},
	{"std::vector<int, std::allocator<int>>::push_back(int const&)", "std::vector::push_back"},
	{"void foo<int>(int)", "foo"},
	{"unsigned long long ns::foo<char const*>(char const*)", "ns::foo"},
	{"std::enable_if<(sizeof (int))>(4), void>::type ns::foo<int>(int)", "ns::foo"},
	{"foo::foo() [clone .cold]", "foo::foo"},
	{"add(int, int) [clone .isra.0] [clone .constprop.1]", "add"},
	{"std::string::str[abi:cxx11]() const", "std::string::str"},
	{"A::f() const volatile &", "A::f"},
	{"A::constant() const", "A::constant"},
	{"void foo<int>(int) requires C<int>", "foo"},
	{"void ns::A<int>::f<long>(long) const requires (C<int>) && (sizeof (int))>(2)", "ns::A::f"},
	{"requires_more(int)", "requires_more"},
	{"type::f(int)", "type::f"},
	{"A::~A()", "A::~A"},
	{"vtable for foo<int>", "vtable for foo"},
	{"non-virtual thunk to A<int>::f(int)", "non-virtual thunk to A::f"},
	{"guard variable for ns::f(int)::x", "guard variable for ns::f::x"},
	{"(anonymous namespace)::foo(int)", "(anonymous namespace)::foo"},
	{"int (anonymous namespace)::foo<int>((anonymous namespace)::T)", "(anonymous namespace)::foo"},
	{"main::{lambda()#1}::operator()() const", "main::{lambda#1}::operator()"},
	{"auto f(int)::{lambda(auto:1, A<int>)#2}::operator()<char>(char) const", "f::{lambda#2}::operator()"},
	{"f(int) const::{lambda(int)#1}::_FUN(int)", "f::{lambda#1}::_FUN"},
	{"main::'lambda'(int)::operator()(int) const", "main::'lambda'::operator()"},
	{"ns::{unnamed type#1}::f()", "ns::{unnamed type#1}::f"},
	{"ns::<lambda(int)>::operator()(int) const", "ns::<lambda(int)>::operator()"},
	{"void (*choose<int>(int))(char)", "choose"},
	{"A::operator()(int) const", "A::operator()"},
	{"bool operator< <int>(A<int> const&, A<int> const&)", "operator<"},
	{"bool operator<(A const&, A const&)", "operator<"},
	{"bool operator><int>(A<int> const&, A<int> const&)", "operator>"},
	{"auto operator<=> <int>(A<int>, A<int>)", "operator<=>"},
	{"std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)", "std::operator<<"},
	{"A<int>::operator->() const", "A::operator->"},
	{"A<int>::operator[](unsigned long)", "A::operator[]"},
	{"A::operator bool() const", "A::operator bool"},
	{"A::operator unsigned long() const", "A::operator unsigned long"},
	{"A::operator std::vector<int, std::allocator<int> >() const", "A::operator std::vector"},
	{"operator new(unsigned long)", "operator new"},
	{"operator new[](unsigned long, std::align_val_t)", "operator new[]"},
	{"operator delete(void*)", "operator delete"},
	{"km operator\"\" _km(long double)", "operator\"\" _km"},
	{"my_operator(int)", "my_operator"},
	{"operators::f(int)", "operators::f"},
	{"void f<&(A::operator<(int))>()", "f"},
	{"void f<&A::operator->>()", "f"},
	{"std::function<void (int)>::operator()(int) const", "std::function::operator()"},
	{"void std::__invoke<f()::{lambda(int)#1}&>(f()::{lambda(int)#1}&)", "std::__invoke"},
	/* Rust */
	{"core::fmt::Formatter::pad", "core::fmt::Formatter::pad"},
	{"core::ptr::drop_in_place<alloc::string::String>", "core::ptr::drop_in_place"},
	{"core::ptr::drop_in_place::<alloc::string::String>", "core::ptr::drop_in_place"},
	{"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", "<alloc::vec::Vec as core::ops::drop::Drop>::drop"},
	{"<alloc::vec::Vec<u8>>::push", "alloc::vec::Vec::push"},
	{"<mycrate::foo::Bar>::new", "mycrate::foo::Bar::new"},
	{"<dyn core::any::Any>::type_id", "<dyn core::any::Any>::type_id"},
	{"<[u8]>::concat::<u8>", "<[u8]>::concat"},
	{"<&mut [T] as core::fmt::Debug>::fmt", "<&mut [T] as core::fmt::Debug>::fmt"},
	{"<alloc::vec::Vec::<u8> as core::convert::From<&str>>::from", "<alloc::vec::Vec as core::convert::From>::from"},
	{"core::fmt::num::<impl core::fmt::Display for u32>::fmt", "core::fmt::num::<impl core::fmt::Display for u32>::fmt"},
	{"core::slice::<impl [T]>::sort::<u8>", "core::slice::<impl [T]>::sort"},
	{"std::rt::lang_start::{{closure}}", "std::rt::lang_start::{{closure}}"},
	{"std::rt::lang_start::<()>::{closure#0}", "std::rt::lang_start::{closure#0}"},
	{"<fn(u8) -> u16 as core::ops::FnOnce<(u8,)>>::call_once", "<fn(u8) -> u16 as core::ops::FnOnce>::call_once"},
	/* D */
	{"std.stdio.writeln!(string).writeln(string)", "std.stdio.writeln.writeln"},
	{"demangle.test(char)", "demangle.test"},
	/* Go */
	{"main.main", "main.main"},
	{"main.main.func1", "main.main.func1"},
	{"net/http.(*conn).serve", "net/http.(*conn).serve"},
	{"runtime.(*mheap).alloc.func1", "runtime.(*mheap).alloc.func1"},
	{"gopkg.in/yaml.v2.Marshal", "gopkg.in/yaml.v2.Marshal"},
	{"main.Max[...]", "main.Max"},
	{"main.(*List[go.shape.int_0]).Push", "main.(*List).Push"},
	{"slices.SortFunc[go.shape.[]int,go.shape.int]", "slices.SortFunc"},
	{"type..eq.[2]runtime.Frame", "type..eq.[2]runtime.Frame"},
	{"type..eq.struct { a int; b string }", "type..eq.struct { a int; b string }"},
	{"type:.eq.struct { a int; b string }", "type:.eq.struct { a int; b string }"},
	{"type:.hash.main.Pair[go.shape.int,string]", "type:.hash.main.Pair[go.shape.int,string]"},
	/* Damage: whatever does not parse stays as it is. */
	{"foo<int", "foo<int"},
	{"foo(int", "foo(int"},
	{"{lambda(", "{lambda("},
	{"<a", "<a"},
	{"(int)", "(int)"},
	{"int ", "int "},
	{"operator", "operator"},
	{"a<b>>", "a>"},
};

static void test_names(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct buffer out;
		buffer_init(&out, 1 << 16);
		assert_int_equal(buffer_append_string(&out, "<:"), 0);
		assert_int_equal(demangle_short(names[i].full, &out), 0);
		assert_string_equal(buffer_string(&out) + 2, names[i].brief);
		buffer_release(&out);
	}
}

static void test_go_escapes(void **state)
{
	static const struct {
		const char *symbol, *name;
	} escapes[] = {{"gopkg.in/yaml%2ev2.Marshal", "gopkg.in/yaml.v2.Marshal"},
		       {"a/b%2ec%2ed.(*T).F", "a/b.c.d.(*T).F"},
		       {"a/%22b%25.F", "a/\"b%.F"},
		       {"a/%zz%2", NULL},
		       {"a/%00", NULL},
		       {"a%", NULL}};
	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		struct buffer out;
		buffer_init(&out, 1 << 16);
		assert_int_equal(demangle_symbol(escapes[i].symbol, &out), escapes[i].name != NULL);
		assert_string_equal(buffer_string(&out), escapes[i].name ? escapes[i].name : "");
		buffer_release(&out);
	}
}

/* Every cut of every name, and every name in every other's arguments: no crash, no empty name. */
static void test_cuts(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t len = 1; len <= strlen(names[i].full); len++) {
			char cut[256];
			struct buffer out;
			buffer_init(&out, 1 << 16);
			memcpy(cut, names[i].full, len);
			cut[len] = 0;
			assert_int_equal(demangle_short(cut, &out), 0);
			assert_true(out.len > 0 && out.len <= len);
			buffer_release(&out);
		}
	}
}

static const char full[] = "std::vector<int, std::allocator<int> >::push_back(int const&)";

static int shorten_full(void *context)
{
	struct buffer out;
	buffer_init(&out, 1 << 16);
	int r = demangle_short(full, &out);
	assert_int_equal(out.len, r < 0 ? 0 : strlen("std::vector::push_back"));
	buffer_release(&out);
	return r;
}

static void test_faults_and_full_buffers(void **state)
{
	struct buffer out;
	buffer_init(&out, 10);
	assert_int_equal(demangle_short(full, &out), -E2BIG);
	assert_int_equal(out.len, 0);
	buffer_release(&out);
	test_each_allocation(shorten_full, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_go_escapes),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_faults_and_full_buffers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
