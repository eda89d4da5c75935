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
#include "elf/demangle/demangle.h"

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
	/* What optimisers append, generic arguments and constants, closures. */
	check("_RNvCs1234_7mycrate3foo.llvm.123", "mycrate::foo");
	check("_RINvCs1234_7mycrate3fooKj3_E", "mycrate::foo::<3>");
	check("_RINvCs1_1a3fooAhj3_E", "a::foo::<[u8; 3]>");
	check("_RINvCs1_1a3fooDNtC1b5TraitEL_E", "a::foo::<dyn b::Trait>");
	check("_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}");
	check("_RINvMNtCsd_4core3stre4iterhE", "<str>::iter::<u8>");
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

/* Pairs that swift-demangle's own tests have, and others of its style: functions and methods, accessors, closures,
 * initialisers, extensions, generics, thunks, specializations; Swift 4.0 (_T0), 4.2 ($S), 5 ($s) and Embedded ($e). */
static const char *const swift_names[][2] = {
	{"_$s3foo3barC3bas3zimyAaEC_tF", "foo.bar.bas(zim: foo.zim) -> ()"},
	{"_T03foo3barC3basyAA3zimCAE_tF", "foo.bar.bas(zim: foo.zim) -> ()"},
	{"_$S8mangling14varargsVsArray3arr1nySid_SStF", "mangling.varargsVsArray(arr: Swift.Int..., n: Swift.String) -> ()"},
	{"_T03foo3barC3basyAA3zimCAE_tFTo", "@objc foo.bar.bas(zim: foo.zim) -> ()"},
	{"_$S3abc6testityySiFTm", "merged abc.testit(Swift.Int) -> ()"},
	{"$s4test3StrCACycfC", "test.Str.__allocating_init() -> test.Str"},
	{"_T04main4TestCACSi1x_tc6_PRIV_Llfc", "main.Test.(in _PRIV_).init(x: Swift.Int) -> main.Test"},
	{"_T013call_protocol1CCAA1PA2aDP3fooSiyFTW", "protocol witness for call_protocol.P.foo() -> Swift.Int in "
						     "conformance call_protocol.C : call_protocol.P in call_protocol"},
	{"_T0S2SSbIxxxd_S2SSbIxiid_TRTA", "partial apply forwarder for reabstraction thunk helper from @callee_owned "
					  "(@owned Swift.String, @owned Swift.String) -> (@unowned Swift.Bool) to "
					  "@callee_owned (@in Swift.String, @in Swift.String) -> (@unowned Swift.Bool)"},
	{"_$S10Foundation11MeasurementV12SimulatorKitSo9UnitAngleCRszlE11OrientationO2eeoiySbAcDEAGOyAF_G_AKtFZ",
	 "static (extension in SimulatorKit):Foundation.Measurement<A where A == __C.UnitAngle>.Orientation.== "
	 "infix((extension in SimulatorKit):Foundation.Measurement<__C.UnitAngle>.Orientation, (extension in "
	 "SimulatorKit):Foundation.Measurement<__C.UnitAngle>.Orientation) -> Swift.Bool"},
	{"_$"
	 "Ss17MutableCollectionP1asAARzs012RandomAccessB0RzsAA11SubSequences013BidirectionalB0PRpzsAdHRQlE06rotatecD015shi"
	 "ftingToStart5Indexs01_A9IndexablePQzAN_tFAKs01_M4BasePQzAQcfU_",
	 "closure #1 (A.Swift._IndexableBase.Index) -> A.Swift._IndexableBase.Index in (extension in "
	 "a):Swift.MutableCollection<A where A: Swift.MutableCollection, A: Swift.RandomAccessCollection, "
	 "A.Swift.BidirectionalCollection.SubSequence: Swift.MutableCollection, "
	 "A.Swift.BidirectionalCollection.SubSequence: Swift.RandomAccessCollection>.rotateRandomAccess(shiftingToStart: "
	 "A.Swift._MutableIndexable.Index) -> A.Swift._MutableIndexable.Index"},
	{"_T0So11UITextFieldC4textSSSgvgToTepb_",
	 "outlined bridged method (pb) of @objc __C.UITextField.text.getter : Swift.String?"},
	{"_T0s24_UnicodeScalarExceptions33_0E4228093681F6920F0AB2E48B4F1C69LLVACycfC",
	 "Swift.(_UnicodeScalarExceptions in _0E4228093681F6920F0AB2E48B4F1C69).init() -> Swift.(_UnicodeScalarExceptions "
	 "in _0E4228093681F6920F0AB2E48B4F1C69)"},
	{"$s4Test6testityyxlFAA8MystructV_TB5", "generic specialization <Test.Mystruct> of Test.testit<A>(A) -> ()"},
	{"_$S4main5inneryys5Int32Vz_yADctF25closure_with_box_argumentxz_Bi32__lXXTf1nc_n",
	 "function signature specialization <Arg[1] = [Closure Propagated : closure_with_box_argument, Argument Types : "
	 "[<A> { var A } <Builtin.Int32>]> of main.inner(inout Swift.Int32, (Swift.Int32) -> ()) -> ()"},
	{"$s3red4testyAA7OurTypeOy4them05TheirD0Vy5AssocQzGAjE0F8ProtocolAAxAA0c7DerivedH0HD1_AA0c4BaseH0HI1_AieKHA2__HCg_"
	 "GxmAaLRzlF",
	 "red.test<A where A: red.OurDerivedProtocol>(A.Type) -> red.OurType<them.TheirType<A.Assoc>>"},
	{"$s4test3fooV4blahyAA1SV1fQryFQOy_Qo_AHF", "test.foo.blah(<<opaque return type of test.S.f() -> some>>.0) -> "
						    "<<opaque return type of test.S.f() -> some>>.0"},
	{"_T0SqWOy.17", "outlined copy of Swift.Optional with unmangled suffix \".17\""},
	{"$s3Bar3FooVAA5DrinkVyxGs5Error_pSeRzSERzlyShy4AbcdAHO6MemberVGALSeHPAKSeAAyHC_HCg_ALSEHPAKSEAAyHC_HCg0_Iseggozo_"
	 "SgWOe",
	 "outlined consume of (@escaping @callee_guaranteed @substituted <A where A: Swift.Decodable, A: Swift.Encodable> "
	 "(@guaranteed Bar.Foo) -> (@owned Bar.Drink<A>, @error @owned Swift.Error) for <Swift.Set<Abcd.Abcd.Member>>)?"},
	{"$s4null16NonSendableKlassCIegHo_ACs5Error_pIegHTrzo_TR",
	 "reabstraction thunk helper from @escaping @callee_guaranteed @async () -> (@owned null.NonSendableKlass) to "
	 "@escaping @callee_guaranteed @async () -> sending (@out null.NonSendableKlass, @error @owned Swift.Error)"},
	{"$s16sending_mangling16NonSendableKlassCACIegTiTr_A2CIegTxTo_TR",
	 "reabstraction thunk helper from @escaping @callee_guaranteed (@in sending sending_mangling.NonSendableKlass) -> "
	 "sending (@out sending_mangling.NonSendableKlass) to @escaping @callee_guaranteed (@owned sending "
	 "sending_mangling.NonSendableKlass) -> sending (@owned sending_mangling.NonSendableKlass)"},
	{"$sIeg_BAIegHgIL_TR", "reabstraction thunk helper from @escaping @callee_guaranteed () -> () to @escaping "
			       "@callee_guaranteed @async (@guaranteed Builtin.ImplicitActor) -> ()"},
	{"$s4main6testityyYaFTu", "async function pointer to main.testit() async -> ()"},
	{"$s17property_wrappers10WithTuplesV9fractionsSd_S2dtvpfP",
	 "property wrapper backing initializer of property_wrappers.WithTuples.fractions : (Swift.Double, Swift.Double, "
	 "Swift.Double)"},
	{"$s4main3fooyyF", "main.foo() -> ()"},
	{"$s4main6WorkerC4spin5timesS2i_tF", "main.Worker.spin(times: Swift.Int) -> Swift.Int"},
	{"$s4main6WorkerC5countSivg", "main.Worker.count.getter : Swift.Int"},
	{"$s4main6WorkerCySiSScig", "main.Worker.subscript.getter : (Swift.String) -> Swift.Int"},
	{"$s4main6WorkerCfD", "main.Worker.__deallocating_deinit"},
	{"$s4main6WorkerCfd", "main.Worker.deinit"},
	{"$s4main6WorkerC4spinyyFyyXEfU_", "closure #1 () -> () in main.Worker.spin() -> ()"},
	{"$s4main6WorkerC4spinyyFyyXEfu0_", "implicit closure #2 () -> () in main.Worker.spin() -> ()"},
	{"$s4main6WorkerC5limitSivpfi", "variable initialization expression of main.Worker.limit : Swift.Int"},
	{"$s4main4spin5timesySi_tFfA_", "default argument 0 of main.spin(times: Swift.Int) -> ()"},
	{"$s4main6WorkerCMa", "type metadata accessor for main.Worker"},
	{"$s4main6WorkerC3getSSyYaKFTQ0_",
	 "(1) await resume partial function for main.Worker.get() async throws -> Swift.String"},
	{"$s4main6WorkerCAcA8RunnableAAWl",
	 "lazy protocol witness table accessor for type main.Worker and conformance main.Worker : main.Runnable in main"},
	{"$s4main3mapySayq_GSayxG_q_xXEtr0_lF", "main.map<A, B>([A], (A) -> B) -> [B]"},
	{"$s4main3maxyxx_xtSLRzlF", "main.max<A where A: Swift.Comparable>(A, A) -> A"},
	{"$s4main3fooyySSSg_SDySSSiGtF", "main.foo(Swift.String?, [Swift.String : Swift.Int]) -> ()"},
	{"$s4main3fooyyyp_yXltF", "main.foo(Any, Swift.AnyObject) -> ()"},
	{"$s4main1poiyS2i_SitF", "main.+ infix(Swift.Int, Swift.Int) -> Swift.Int"},
	{"$s4main3runyyyyYbcF", "main.run(@Sendable () -> ()) -> ()"},
	{"$s4main0012vergenza_JFayyF", "main.verg\xc3\xbc"
				       "enza() -> ()"},
	{"$s4main1xSivau", "main.x.unsafeMutableAddressor : Swift.Int"},
	{"$s4main3runyyF6HelperL_V2goyyF", "go() -> () in Helper #1 in main.run() -> ()"},
	{"$s4main1n_WZ", "one-time initialization function for n"},
	{"$s4main6WorkerC3runyyFAA4BaseCADyyFTV",
	 "vtable thunk for main.Base.run() -> () dispatching to main.Worker.run() -> ()"},
	{"$s4main4waityySiz_SShtYaKF", "main.wait(inout Swift.Int, __shared Swift.String) async throws -> ()"},
	{"$sS2iIegyd_S2iIegnr_TR",
	 "reabstraction thunk helper from @escaping @callee_guaranteed (@unowned Swift.Int) -> (@unowned Swift.Int) to "
	 "@escaping @callee_guaranteed (@in_guaranteed Swift.Int) -> (@out Swift.Int)"},
	{"$e4main3fooyyF", "main.foo() -> ()"},
	{"$s4main3fooyyF.cold", "main.foo() -> () with unmangled suffix \".cold\""},
	{"$s4main6WorkerC_4nameACSgSi_SStcfc", "main.Worker.init(_: Swift.Int, name: Swift.String) -> main.Worker?"},
};

static void check_unknown(const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check(names[i], NULL);
}

static void test_swift(void **state)
{
	for (size_t i = 0; i < sizeof(swift_names) / sizeof(swift_names[0]); i++)
		check(swift_names[i][0], swift_names[i][1]);
}

static void test_swift_that_is_damaged_stays(void **state)
{
	static const char *const names[] = {"$s",
					    "$",
					    "_$s",
					    "_T0",
					    "$sZZ",
					    "$s4main3foo",
					    "$s9main3fooyyF",
					    "$s4main3fooyyF4rest",
					    "$s4main3fooyyFA",
					    "$s4main3fooyyFAZ",
					    "$sA8_",
					    "$s0a4mainV",
					    "$s4main00_V",
					    "$s4main0099999999999aV",
					    "$s99999999999999999999mainV",
					    "$sSi999999_D",
					    "$s4mainyyXjF",
					    "$syQo",
					    "$s4main1g\x01",
					    "$this is no name",
					    "_TtC4main3Foo",
					    "_Task"};
	check_unknown(names, sizeof(names) / sizeof(names[0]));
}

/* Each level is a tuple of the one before, twice. */
static void test_swift_bomb(void **state)
{
	struct buffer name, out;
	buffer_init(&name, 1 << 16);
	buffer_init(&out, 1 << 20);
	buffer_append_string(&name, "$s1a1fyy1bV");
	for (size_t level = 0; level < 20; level++)
		buffer_append_string(&name, "Sg2048AD");
	buffer_append_string(&name, "F");
	int64_t start = time_thread_cpu_ns();
	(void)demangle_symbol(buffer_string(&name), &out);
	buffer_clear(&name);
	buffer_clear(&out);
	/* Substitutions B, D, F, ... are generic types whose two arguments are the one before. */
	buffer_append_string(&name, "$s1a1bV");
	for (size_t level = 0; level < 24; level++) {
		const char last[2] = {(char)('C' + level), 0};
		buffer_append_string(&name, "ACyA");
		buffer_append_string(&name, last);
		buffer_append_string(&name, "A");
		buffer_append_string(&name, last);
		buffer_append_string(&name, "G");
	}
	buffer_append_string(&name, "D");
	(void)demangle_symbol(buffer_string(&name), &out);
	assert_true(out.len <= DEMANGLE_OUTPUT_MAX);
	assert_true(time_thread_cpu_ns() - start < NS_PER_S);
	buffer_release(&name);
	buffer_release(&out);
}

/* As in perf's tests. */
static void test_ocaml(void **state)
{
	check("camlStdlib__array__map_154", "Stdlib.array.map_154");
	check("camlStdlib__List.map_256", "Stdlib.List.map_256");
	check("camlStdlib__anon_fn$5bstdlib$2eml$3a334$2c0$2d$2d54$5d_1453", "Stdlib.anon_fn[stdlib.ml:334,0--54]_1453");
	check("camlStdlib__bytes__$2b$2b_2205", "Stdlib.bytes.++_2205");
	check("camlStdlib.$40_12", "Stdlib.@_12");
	check("camlFoo__bar$", "Foo.bar$");
	check("camlFoo__bar$0a", "Foo.bar$0a");
	check("caml_alloc_small_dispatch", NULL);
	check("camlStartup", NULL);
	check("camel__Case", NULL);
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
	check_unknown(names, sizeof(names) / sizeof(names[0]));
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

/* Ends soon, without a name. */
static void check_bomb(struct buffer *name)
{
	struct buffer out;
	buffer_init(&out, 1 << 20);
	int64_t start = time_thread_cpu_ns();
	assert_int_equal(demangle_symbol(buffer_string(name), &out), 0);
	assert_int_equal(out.len, 0);
	assert_true(time_thread_cpu_ns() - start < NS_PER_S);
	buffer_release(&out);
}

/* Each level names the one before twice: 60 levels stand for 2^60 names. */
static void test_cplusplus_bomb(void **state)
{
	struct buffer name;
	buffer_init(&name, 1 << 16);
	buffer_append_string(&name, "_Z1f1AIiiE");
	for (size_t level = 1; level < 60; level++) {
		buffer_append_string(&name, "S_I");
		append_reference(&name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "S", level);
		append_reference(&name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "S", level);
		buffer_append_string(&name, "E");
	}
	check_bomb(&name);
	buffer_release(&name);
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
		build_rust_bomb(&name, 60, identifiers[i]);
		check_bomb(&name);
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
		{"_D1a1fF", "P", "iZv"}, {"_D1a1fF", "FPZ", "v"}, {"_D1a1f", "__T1aT", "iZv"}, {"$s1a1fyy1bV", "Sg", "F"},
		{"$s", "1aV", "D"},	 {"$s1aV", "1bV", "D"},	  {"$s1a1fyy", "yyc", "F"},
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
	static const char *const names[] = {"_ZN3foo3barEiPKc", "_RNvCs1234_7mycrate3foo", "_D8demangle4testFZv",
					    "$s4main3fooyyF", "camlFoo__bar_1"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
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
		cmocka_unit_test(test_cplusplus),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_d),
		cmocka_unit_test(test_swift),
		cmocka_unit_test(test_swift_that_is_damaged_stays),
		cmocka_unit_test(test_swift_bomb),
		cmocka_unit_test(test_ocaml),
		cmocka_unit_test(test_others_stay_as_they_are),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_cplusplus_bomb),
		cmocka_unit_test(test_rust_bomb),
		cmocka_unit_test(test_d_bomb),
		cmocka_unit_test(test_stack_use),
		cmocka_unit_test(test_faults_and_full_buffers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
