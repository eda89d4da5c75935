#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names, files and lines of random addresses against llvm-symbolizer: C, C++ with many templates, Rust, Go, a stripped program
# with a separate debug file that dwz made smaller, and the forms that debug information comes in. 99.9 % must be equal.
#   WICK_ORACLE_ADDRESSES=100000 WICK_ORACLE_PARTS=12 WICK_ORACLE_COPIES=12   for the full measurement (about 170 MB of C++)
. tests/lib.inc
count=${WICK_ORACLE_ADDRESSES:-4000}
case $O in /*) oracle=$O/symbol/oracle ;; *) oracle=$PWD/$O/symbol/oracle ;; esac
heavy=$PWD/tests/symbol/heavy.sh
if ! make -s ${SAN:+SAN=1} O="$O" "$O/symbol/oracle" >"$work/make.log" 2>&1; then
	fail "the oracle is built" "$(cat "$work/make.log")"
	finish
fi
if ! command -v llvm-symbolizer-19 >/dev/null; then
	skip oracle "llvm-symbolizer-19 is not installed"
	finish
fi

# PROGRAM [REFERENCE]: what we know of PROGRAM is what llvm-symbolizer knows of REFERENCE.
equal() {
	"$oracle" pick "${2:-$1}" "$count" >"$work/addresses" || return 1
	"$WICK" debuginfo lookup "$1" --no-demangle <"$work/addresses" >"$work/ours" || return 1
	llvm-symbolizer-19 --no-demangle --inlines --obj="${2:-$1}" <"$work/addresses" >"$work/theirs" || return 1
	"$oracle" compare "$work/addresses" "$work/ours" "$work/theirs"
}
verify() { # NAME PROGRAM [REFERENCE]
	check "$@"
	[ -n "${WICK_ORACLE_ADDRESSES:-}" ] && printf '    %s: %s\n' "$1" "$check_output"
	return 0
}

cat >"$work/small.c" <<'END'
static inline __attribute__((always_inline)) int add(int a, int b) { return a + b * 3; }
static inline __attribute__((always_inline)) int twice(int a)
{
	int sum = 0;
	for (int i = 0; i < a; i++)
		sum += add(a, i);
	return sum;
}
__attribute__((noinline)) int work(int n)
{
	int total = 0;
	for (int i = 0; i < n; i++)
		total += twice(i) ^ add(i, total);
	return total;
}
int main(int argc, char **argv) { return work(argc + 10); }
END

verify "C: wick itself" equal "$WICK"
"$heavy" "$work/heavy" "${WICK_ORACLE_PARTS:-1}" "${WICK_ORACLE_COPIES:-2}" -O1 >"$work/log" 2>&1 || fail "C++ is compiled" "$(cat "$work/log")"
verify "C++ with templates" equal "$work/heavy"

cp "$work/heavy" "$work/stripped"
objcopy --only-keep-debug "$work/stripped" "$work/stripped.debug"
strip "$work/stripped"
objcopy --add-gnu-debuglink="$work/stripped.debug" "$work/stripped"
if dwz "$work/stripped.debug" 2>"$work/log"; then
	# The link's checksum is of the file as it was; the build-id is what counts.
	verify "stripped, debug file from dwz" equal "$work/stripped" "$work/heavy"
	cp "$work/heavy" "$work/one" && cp "$work/heavy" "$work/two"
	dwz -m "$work/shared" "$work/one" "$work/two" 2>"$work/log" || fail "dwz -m" "$(cat "$work/log")"
	verify "a file that two programs share" equal "$work/one" "$work/heavy"
else
	skip "dwz" "$(cat "$work/log")"
fi

for compiler in gcc clang; do
	command -v "$compiler" >/dev/null || continue
	for version in 2 3 4 5; do
		"$compiler" -O2 -gdwarf-$version -o "$work/small" "$work/small.c" || fail "$compiler -gdwarf-$version"
		verify "$compiler, DWARF $version" equal "$work/small"
	done
	for version in 4 5; do
		[ "$compiler$version" = gcc5 ] && dwp_limit=2 || dwp_limit=20
		(cd "$work" && "$compiler" -O2 -gdwarf-$version -c -o whole.o small.c && "$compiler" -o whole whole.o &&
			"$compiler" -O2 -gdwarf-$version -gsplit-dwarf -c -o split.o small.c && "$compiler" -o split split.o)
		verify "$compiler, DWARF $version, .dwo" equal "$work/split"
		cp "$work/split" "$work/packed"
		# llvm-dwp 19 does not come to an end on GCC's DWARF 5.
		if ! (cd "$work" && timeout $dwp_limit llvm-dwp-19 -e packed -o packed.dwp) >"$work/log" 2>&1; then
			skip "$compiler, DWARF $version, .dwp" "llvm-dwp-19 cannot make it"
			continue
		fi
		mv "$work/split.dwo" "$work/kept.dwo"
		"$oracle" pick "$work/packed" "$count" >"$work/addresses"
		"$WICK" debuginfo lookup "$work/packed" --no-demangle <"$work/addresses" >"$work/ours"
		mv "$work/kept.dwo" "$work/split.dwo"
		llvm-symbolizer-19 --no-demangle --inlines --obj="$work/split" <"$work/addresses" >"$work/theirs"
		check "$compiler, DWARF $version, .dwp" "$oracle" compare "$work/addresses" "$work/ours" "$work/theirs"
	done
done
gcc -O2 -g -o "$work/small" "$work/small.c"
for packing in zlib zlib-gnu zstd; do
	objcopy --compress-debug-sections=$packing "$work/small" "$work/packed_$packing" 2>/dev/null || continue
	verify "compressed, $packing" equal "$work/packed_$packing" "$work/small"
done

if uses rustc; then
	cat >"$work/r.rs" <<'END'
use std::collections::{BTreeMap, HashMap};
fn main() {
    let mut m: HashMap<String, Vec<u32>> = HashMap::new();
    for i in 0..1000u32 { m.entry(format!("k{}", i % 17)).or_default().push(i); }
    let b: BTreeMap<_, _> = m.iter().map(|(k, v)| (k.clone(), v.iter().map(|x| x * 2).filter(|x| x % 3 == 0).sum::<u32>())).collect();
    let mut v: Vec<_> = b.into_iter().collect();
    v.sort_by(|a, b| b.1.cmp(&a.1));
    println!("{:?}", v);
}
END
	rustc -g -O -o "$work/rust" "$work/r.rs" 2>"$work/log" && verify "Rust" equal "$work/rust" || skip Rust "$(tail -n 1 "$work/log")"
else
	skip Rust "rustc is not installed"
fi
if uses go; then
	cat >"$work/main.go" <<'END'
package main

import ("encoding/json"; "fmt"; "sort"; "strings")

func main() {
	m := map[string][]int{"a": {3, 1, 2}}
	sort.Ints(m["a"])
	b, _ := json.Marshal(m)
	fmt.Println(strings.ToUpper(string(b)))
}
END
	(cd "$work" && HOME="$work" GOCACHE="${WICK_GOCACHE:-${GOCACHE:-/tmp/wick-go-cache}}" GOFLAGS=-mod=mod CGO_ENABLED=0 GO111MODULE=off go build -o "$work/go" main.go) >"$work/log" 2>&1 &&
		verify "Go" equal "$work/go" || skip Go "$(tail -n 1 "$work/log")"
else
	skip Go "go is not installed"
fi
# ---- names that are not for a terminal ----

printf 'int f(void) { return 1; }\nint main(void) { return f(); }\n' >"$work/e.c"
gcc -g -O0 -c "$work/e.c" -o "$work/e.o" && objcopy --redefine-sym f="$(printf 'a\033[31mb')" "$work/e.o" && gcc "$work/e.o" -o "$work/e"
"$WICK" debuginfo lookup "$work/e" "$(nm "$work/e" | awk '/ T a.*b$/ { print $1 }')" >"$work/printed"
check "escape sequences in names are not printed" grep -qxF 'a?[31mb' "$work/printed"
finish
