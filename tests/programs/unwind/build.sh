#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh OUT: builds the instrumented programs into OUT, in every way that changes the code around a call: compilers, PIE and static,
# libraries, lazy binding, control-flow protection. What a compiler is missing for is left out; OUT/missing says so.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
: >"$out/missing"
# No frame pointers anywhere, no stack protector and no instrumentation beyond the programs' own.
flags="-O2 -g0 -fomit-frame-pointer -momit-leaf-frame-pointer -fno-stack-protector -D_GNU_SOURCE -Wall -Wextra -Werror
-Wno-unused-parameter -Wno-missing-field-initializers -I."

c_program() { # NAME COMPILER FLAGS...: dynamic ones get the shared object as well
	name=$1 compiler=$2
	shift 2
	case " $* " in
	*" -DSHADOW_STATIC "*)
		# shellcheck disable=SC2086
		$compiler -std=gnu17 $flags "$@" -o "$out/$name" shadow_c.c scenario.c -lpthread
		return
		;;
	esac
	# shellcheck disable=SC2086
	$compiler -std=gnu17 $flags "$@" -o "$out/$name" shadow_c.c scenario.c -Wl,--export-dynamic -lpthread -ldl
	# shellcheck disable=SC2086
	$compiler -std=gnu17 $flags -fPIC -shared -ftls-model=initial-exec -o "$out/$name.so" shadow_so.c
}
cxx_program() { # NAME C-COMPILER C++-COMPILER FLAGS...
	name=$1 c=$2 compiler=$3
	shift 3
	# shellcheck disable=SC2086
	$c -std=gnu17 $flags -fexceptions -c "$@" -o "$out/$name.o" scenario.c
	# shellcheck disable=SC2086
	$compiler -std=c++17 $flags "$@" -o "$out/$name" shadow_cxx.cc "$out/$name.o" -lpthread
	rm -f "$out/$name.o"
}
have() { command -v "$1" >/dev/null 2>&1 || {
	echo "$2: no $1" >>"$out/missing"
	return 1
}; }

if have gcc shadow-gcc; then
	c_program shadow-gcc gcc -fPIE -pie
	c_program shadow-gcc-static gcc -static -fno-pie -no-pie -DSHADOW_STATIC
	c_program shadow-gcc-static-pie gcc -static-pie -fPIE -DSHADOW_STATIC
	c_program shadow-gcc-lazy gcc -fno-pie -no-pie -fcf-protection=full -Wl,-z,lazy
fi
if have g++ shadow-g++; then
	cxx_program shadow-g++ gcc g++ -fPIE -pie
	cxx_program shadow-g++-static gcc g++ -static -fno-pie -no-pie
	# For the stepper: bound lazily, so that the dynamic linker's resolver is on the way.
	# shellcheck disable=SC2086
	g++ -std=c++17 $flags -fPIE -pie -Wl,-z,lazy -o "$out/stepped" stepped.cc -ldl
fi
if have clang shadow-clang; then
	c_program shadow-clang clang -fPIE -pie -Wno-unused-command-line-argument
	c_program shadow-clang-static clang -static -fno-pie -Wno-unused-command-line-argument -DSHADOW_STATIC
	c_program shadow-clang-lazy clang -fPIE -pie -Wl,-z,lazy -Wno-unused-command-line-argument
	if have g++ shadow-clang++; then
		cxx_program shadow-clang++ clang clang++ -fPIE -pie -Wno-unused-command-line-argument
		cxx_program shadow-clang++-static clang clang++ -static -fno-pie -Wno-unused-command-line-argument
	fi
fi
if have musl-gcc shadow-musl; then
	c_program shadow-musl musl-gcc -fPIE -pie
	c_program shadow-musl-static musl-gcc -static -fno-pie -no-pie -DSHADOW_STATIC
fi
