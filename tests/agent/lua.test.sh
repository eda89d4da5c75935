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
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/lua

# NAME LUA VARIANT...
equal() {
	name=$1 lua=$2
	shift 2
	truth_equals "$name" "$lua" "$programs/truth.lua" "$seconds" "$work/log" "$@"
}

for lua in ${WICK_LUAS:-$(if_full '/usr/bin/lua5.1 /usr/bin/lua5.2 /usr/bin/lua5.3 /usr/bin/lua5.4' '/usr/bin/lua5.1 /usr/bin/lua5.4')}; do
	if ! version=$("$lua" -v 2>&1); then
		skip "$lua" "$version"
		continue
	fi
	equal "$(echo "$version" | cut -d ' ' -f 1,2)" "$lua"
	[ "$lua" != /usr/bin/lua5.4 ] ||
		truth_has ';main chunk;function <truth.lua:[0-9]+>(;lua5.4[^;]*)+;lua_callk(;lua5.4[^;]*)+;function <truth.lua:[0-9]+>;burn'
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
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden lua5.4 ';burn' "$lua" "$programs/truth.lua" 1 "$work/log" plain
		truth_short 0.8 '/;lua_pcallk.*;lua_pcallk/' '/;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/' 10 "$lua" "$programs/truth.lua" 0.2 "$work/log" plain
	fi
	truth_running '/;main chunk;function <truth.lua:[0-9]+>;(hot|cold);burn/' 'lua +Lua 5\.4 in ' "$lua" "$programs/truth.lua" 3600 "$work/log" plain
	truth_shares 0.85 0.95
fi
finish
