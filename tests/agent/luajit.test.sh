#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of LuaJIT: what tests/programs/lua/truth.lua says of its own stacks, against what is recorded; interpreted, compiled, in a program that embeds the
# library. With every command in WICK_LUAJITS, else Debian's.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "luajit"
[ "$(uname -m)" = x86_64 ] || {
	skip "luajit" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/lua

# NAME COMMAND...: interpreted, and compiled.
equal() {
	name=$1
	shift
	truth_equals "$name, interpreted" "$@" -joff "$programs/truth.lua" "$seconds" "$work/log"
	truth_has ';main chunk;function <truth.lua:[0-9]+>(;lua[^;]*)+;function <truth.lua:[0-9]+>;burn'
	truth_equals "$name, compiled" "$@" "$programs/truth.lua" "$seconds" "$work/log"
}

for luajit in ${WICK_LUAJITS:-/usr/bin/luajit}; do
	if ! version=$("$luajit" -v 2>&1); then
		skip "$luajit" "$version"
		continue
	fi
	equal "$(echo "$version" | cut -d ' ' -f 1,2)" "$luajit"
done

luajit=/usr/bin/luajit
if [ -x "$luajit" ]; then
	truth_running '/;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/' 'luajit +LuaJIT 2\.1[^ ]* in ' "$luajit" -joff "$programs/truth.lua" 3600 "$work/log" plain
	truth_shares 0.85 0.95
	[ -z "${WICK_TEST_FULL:-}" ] || { # compiled, both
		truth_running '/;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/' 'luajit +LuaJIT 2\.1[^ ]* in ' "$luajit" "$programs/truth.lua" 3600 "$work/log" plain
		truth_shares 0.85 0.95
	}
fi

# A program that embeds the library.
cat >"$work/host.c" <<'C'
#include <lauxlib.h>
#include <lualib.h>
int main(int argc, char **argv)
{
	lua_State *main_state = luaL_newstate(), *state;

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
	return lua_resume(state, 0) > 1;
}
C
if ! [ -e /usr/include/luajit-2.1/lua.h ] || ! command -v gcc >/dev/null; then
	skip "library" "its headers are not installed"
elif gcc -o "$work/host" -I/usr/include/luajit-2.1 "$work/host.c" -lluajit-5.1 2>"$work/err"; then
	truth_equals "library" "$work/host" "$programs/truth.lua" "$seconds" "$work/log"
else
	fail "library: built" "$(cat "$work/err")"
fi
finish
