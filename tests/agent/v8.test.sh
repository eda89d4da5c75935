#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of JavaScript in Node.js: what tests/programs/v8/truth.cjs says of its own stacks, against what is recorded, with all of V8's compilers and with
# fewer; in a process that runs already, in short-lived ones. With every program in WICK_NODES, else /usr/bin/node.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "v8"
[ "$(uname -m)" = x86_64 ] || {
	skip "v8" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 24 3)}
programs=$PWD/tests/programs/v8

# NAME SECONDS NODE [OPTION...] -- [VARIANT...]: of the samples in burn() or step(), which the program spends its time in once it has started, at least 99 of
# 100 have the stack that the program wrote down. No more than one of 100 of all lacks a name, or the root, but for those (no_process, no_mapping, no_table) that
# were taken before the recorder knew the process and its files: how long that is depends on the machine. One more of each, as runs may be short.
equal() {
	name=$1 time=$2 node=$3 options=
	shift 3
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	truth_record "$node" $options "$programs/truth.cjs" "$time" "$work/log" "$@" &&
		/usr/bin/python3 "$programs/check.py" "$work/out.speedscope.json" "$work/log" >"$work/said" 2>>"$work/err" || {
		fail "$name: recorded" "$(cat "$work/err")"
		return
	}
	if grep -oE '(no_process|no_mapping|no_table) [0-9]+' "$work/err" | sed 's/^[a-z_]*/early/' | cat - "$work/said" | awk '/^early/ { early += $2 }
		/^samples/ { n = $2 + 0; burn = $5 + 0; equal = $7 + 0; nameless = $13 + 0; incomplete = $15 - early }
		END { exit !(burn >= 50 && equal >= 0.99 * burn - 1 && nameless <= 0.01 * n + 1 && incomplete <= 0.01 * n + 1) }'; then
		pass "$name: $(head -n 1 "$work/said")"
	else
		fail "$name: stacks are those that the program says" "$(cat "$work/said" "$work/err")"
	fi
}

for node in ${WICK_NODES:-/usr/bin/node}; do
	if ! version=$("$node" -p process.versions.node 2>&1); then
		skip "$node" "$version"
		continue
	fi
	equal "$version" "$seconds" "$node" --
	[ "$node" != /usr/bin/node ] ||
		truth_has ';callbacks(;[^;]+)*;sort(;[^;]+)*;\(anonymous\);burn' ';callbacks;.*Json.*;revive;burn'
	equal "$version, interpreted" "$(if_full 8 2)" "$node" --no-opt --no-sparkplug -- plain deep inlined generators exceptions callbacks methods quiet
	equal "$version, baseline code" "$(if_full 8 2)" "$node" --no-opt --always-sparkplug -- plain deep inlined generators exceptions callbacks methods quiet
done

node=/usr/bin/node
if [ -x "$node" ]; then
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden '\[anon\]' ';burn' "$node" "$programs/truth.cjs" 1 "$work/log" plain
		truth_short 0.9 '/;burn/ || /\[anon\]/ || /function of JavaScript/' '/;main;plain;(hot|cold);burn/' 5 "$node" "$programs/truth.cjs" 0.3 "$work/log" plain
	fi
	truth_running '/;main;plain;(hot|cold);burn/' 'v8js +V8 [0-9.]+ in ' "$node" "$programs/truth.cjs" 3600 "$work/log" plain
fi
finish
