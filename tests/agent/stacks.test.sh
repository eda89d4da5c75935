#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unusual stacks (tests/programs/stacks.c): plugins that come and go, coroutines, calls on other stacks. The share of complete stacks, and that
# what is complete begins and goes on as it must.
. tests/lib.inc
need_sampling "stacks"
make -s O="$O" "$O/programs/stacks" >"$work/make.log" 2>&1 || {
	fail "the program is built" "$(tail -n 20 "$work/make.log")"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 6 3)}
# NAME SHARE REGEX KIND [PLUGIN...]: at least SHARE % of the stacks are complete, and of the weight in functions that work no more than (100 - SHARE) %
# is in complete stacks of another form (outermost first). A busy machine that keeps the agent from its work makes some incomplete: three attempts for
# these. None for wrong ones.
stacks() {
	name=$1 want=$2 form=$3
	shift 3
	for attempt in 1 2 3; do
		"$WICK" record -F 499 -o "$work/out.pb.gz" -- "$O/programs/stacks" "$seconds" "$@" >"$work/err" 2>&1 &&
			"$WICK" convert "$work/out.pb.gz" -o "$work/out.folded" >>"$work/err" 2>&1 || {
			fail "$name: recorded" "$(cat "$work/err")"
			return
		}
		share=$(sed -n 's/.*user stacks complete: \([0-9.]*\) %.*/\1/p' "$work/err")
		shares=$(awk -v form="$form" '{ w = $NF; sub(/ [0-9]+$/, "") }
			/work_leaf|plugin_leaf|asm_leaf|asm_hidden/ { all += w; if ($0 ~ form) right += w; else if ($0 !~ /^[[]unknown stack[]]/) wrong += w }
			END { printf "%.2f %.2f", all ? 100 * right / all : 0, all ? 100 * wrong / all : 100 }' "$work/out.folded")
		formed=${shares% *} wrong=${shares#* }
		line="$name: $share % of the stacks are complete, $formed % as they must be, $wrong % otherwise ($want asked for)"
		shows=$(
			cat "$work/err"
			cut -c1-200 "$work/out.folded" | head -n 12
		)
		awk -v want="$want" -v wrong="$wrong" 'BEGIN { exit !(wrong <= 100 - want) }' || break
		! awk -v want="$want" -v share="${share:-0}" -v formed="$formed" 'BEGIN { exit !(share >= want && formed >= want) }' || {
			pass "$line"
			return
		}
	done
	fail "$line (attempt $attempt)" "$shows"
}
in_full() { [ -z "${WICK_TEST_FULL:-}" ] || "$@"; }
# Plugins of one size, so that each takes the place of the one before, and of another.
plugin() { # NAME BYTES
	printf '%s\n' "__asm__(\".text\\n.skip $2,0x90\\n\");" 'static volatile unsigned long sink;' \
		'static __attribute__((noinline)) void plugin_leaf(unsigned n) { for (unsigned i = 0; i < n; i++) sink = sink * 3 + i; }' \
		'__attribute__((noinline)) void plugin_inner(unsigned n) { volatile char room[200 + SKIP]; room[0] = 1; plugin_leaf(n); sink += room[0]; }' \
		'void plugin_work(unsigned n) { plugin_inner(n); sink++; }' >"$work/$1.c"
	${CC:-gcc} -O2 -fomit-frame-pointer -fPIC -shared -DSKIP="$2" -o "$work/$1.so" "$work/$1.c" 2>>"$work/cc.log"
}
if plugin a 16 && plugin b 1040 && plugin c 70000; then
	in_full stacks "plugins that take each other's place, 100 a second" 99 \
		'(^|;)main;(plugins[^;]*;)?(plugin_work;plugin_inner;plugin_leaf|work_middle;work_leaf)(;|$)' plugins "$work/a.so" "$work/b.so"
	stacks "plugins of different sizes, 100 a second" 99 \
		'(^|;)main;(plugins[^;]*;)?(plugin_work;plugin_inner;plugin_leaf|work_middle;work_leaf)(;|$)' plugins "$work/a.so" "$work/b.so" "$work/c.so"
else skip "plugins" "no compiler"; fi
in_full stacks "makecontext()" 99 '^[^;]*;context_main;work_middle;work_leaf(;|$)' ucontext
stacks "1,900 frames" 99 '^_start;.*main;recurse;recurse;.*;recurse;recurse;work_leaf(;|$)' deep
stacks "a signal handler" 99 '^_start;.*main;raise_signal;(raise;)?[^;]*;?[^;]*;?[[]signal handler[]];on_signal;work_leaf(;|$)' signals
[ "$(uname -m)" = x86_64 ] || finish
stacks "coroutines that return to the first byte of a function" 99 '^planted_end;coroutine_main;work_middle;work_leaf(;|$)' planted
in_full stacks "coroutines that return to the second byte of a function, behind a nop" 99 '^planted_nop;coroutine_main;work_middle;work_leaf(;|$)' second
stacks "coroutines that return to 0" 99 '^coroutine_main;work_middle;work_leaf(;|$)' zero
in_full stacks "coroutines without CFI that return behind a jump" 99 '^(finish_bare|start_bare|prepare_bare);bare_main;work_middle;work_leaf(;|$)' finish
in_full stacks "coroutines whose stack ends with a page" 99 '^coroutine_main;work_middle;work_leaf(;|$)' pages
stacks "a stack above the caller's, found by rbp" 99 \
	'^_start;.*main;(higher[^;]*;)?on_stack_rbp;go_up;on_stack_rbp;on_lower;work_middle;work_leaf(;|$)' higher
in_full stacks "a stack above the caller's, found by rbx" 99 \
	'^_start;.*main;(higher[^;]*;)?on_stack_rbx;go_up;on_stack_rbx;on_lower;work_middle;work_leaf(;|$)' rbx
stacks "assembly without CFI below a frame pointer" 99 \
	'^_start;.*main;above_frame;with_frame;asm_call_back;asm_worker;asm_leaf(;|$)' leaf
in_full stacks "assembly without CFI that begins with enter" 99 \
	'^_start;.*main;above_frame;with_frame;call_by_enter;asm_enter;asm_worker;asm_leaf(;|$)' enter
# Right, or marked: with_frame() is the caller that a walk by rbp would miss.
stacks "code that cannot be understood below a frame pointer" 99 \
	'(main;above_frame;with_frame;|[[]caller may be missing[]];|[[]unknown stack[]];)asm_hidden(;|$)' hidden
finish
