#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Lua: what tests/programs/lua/truth.lua says of its own stacks, against what is recorded; in a process that runs already, in short-lived
# ones, in programs that embed the library. With every interpreter in WICK_LUAS, else those of Debian.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "lua"
[ "$(uname -m)" = x86_64 ] || {
	skip "lua" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 3)}
programs=$PWD/tests/programs/lua

# NAME LUA VARIANT...
equal() {
	name=$1 lua=$2
	shift 2
	truth_equals "$name" "python3 tests/programs/listed/check.py" "$lua" "$programs/truth.lua" "$seconds" "$work/log" "$@"
}

for lua in ${WICK_LUAS:-$(if_full '/usr/bin/lua5.1 /usr/bin/lua5.2 /usr/bin/lua5.3 /usr/bin/lua5.4' '/usr/bin/lua5.1 /usr/bin/lua5.4')}; do
	if ! version=$("$lua" -v 2>&1); then
		skip "$lua" "$version"
		continue
	fi
	equal "$(echo "$version" | cut -d ' ' -f 1,2)" "$lua"
done

# A program that embeds the library, and runs coroutines itself: no state calls another.
cat >"$work/host.c" <<'C'
#include <stdlib.h>
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
int main(int argc, char **argv)
{
	lua_State *main_state = luaL_newstate(), *state;
	int results = 0;

	luaL_openlibs(main_state);
	lua_newtable(main_state);
	for (int i = 1; i < argc; i++) {
		lua_pushstring(main_state, argv[i]);
		lua_rawseti(main_state, -2, i - 1);
	}
	lua_setglobal(main_state, "arg");
	state = lua_newthread(main_state);
	if (luaL_loadfile(state, argv[1]))
		return 1;
	(void)results;
	return lua_resume(state, NULL, 0 RESULTS) > 1;
}
C
for version in $(if_full '5.1 5.2 5.3 5.4' 5.4); do
	results=
	[ $version = 5.4 ] && results=', &results'
	[ $version = 5.1 ] && defines='-Dlua_resume(l,f,n)=(lua_resume)(l,n)' || defines=-DHOST
	if ! [ -e /usr/include/lua$version/lua.h ] || ! command -v gcc >/dev/null; then
		skip "library of $version" "its headers are not installed"
		continue
	fi
	gcc -o "$work/host$version" "-DRESULTS=$results" "$defines" -I/usr/include/lua$version "$work/host.c" -llua$version 2>"$work/err" || {
		fail "library of $version: built" "$(cat "$work/err")"
		continue
	}
	equal "library of $version" "$work/host$version"
done

lua=/usr/bin/lua5.4
if [ -x "$lua" ]; then
	# Hidden, the interpreter alone is seen.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$lua" "$programs/truth.lua" 1 "$work/log" plain 2>"$work/err"
		if grep -q 'lua5.4' "$work/none.folded" && ! grep -q ';burn' "$work/none.folded"; then
			pass "--runtimes none shows the interpreter only"
		else
			fail "--runtimes none shows the interpreter only" "$(head -n 5 "$work/none.folded")"
		fi
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$lua" "$programs/truth.lua" 2 "$work/log" callbacks 2>"$work/err"
	if grep -qE ';main chunk;function <truth.lua:[0-9]+>(;lua5.4[^;]*)+;lua_callk(;lua5.4[^;]*)+;function <truth.lua:[0-9]+>;burn' "$work/calls.folded"; then
		pass "what C calls stands behind the C function"
	else
		fail "what C calls stands behind the C function" "$(grep lua_callk "$work/calls.folded" | head -n 3)"
	fi
	# Nine times as long in hot() as in cold().
	"$WICK" record -F 199 -o "$work/plain.folded" -- "$lua" "$programs/truth.lua" 4 "$work/log" plain 2>"$work/err"
	if awk '{ n = $NF } /;hot;burn/ { hot += n } /;cold;burn/ { cold += n } END { exit !(hot > 0.85 * (hot + cold) && hot < 0.95 * (hot + cold)) }' "$work/plain.folded"; then
		pass "shares are those of the program"
	else
		fail "shares are those of the program" "$(head -n 5 "$work/plain.folded")"
	fi
	# Processes that live for a moment: all but their start has the functions that ran.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do %s %s 0.2 %s plain; done\n' "$lua" "$programs/truth.lua" "$work/log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" 2>"$work/err"
	if awk '{ n = $NF } /;lua_pcallk.*;lua_pcallk/ { loop += n } /;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/ { good += n }
		END { exit !(loop > 100 && good > 0.8 * loop) }' "$work/short.folded"; then
		pass "functions of short-lived processes"
	else
		fail "functions of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$lua" "$programs/truth.lua" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its functions from the first moment"
	else
		fail "it shows its functions from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'lua +Lua 5\.4 in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
