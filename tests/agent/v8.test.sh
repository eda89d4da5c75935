#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of JavaScript in Node.js: what tests/programs/v8/truth.cjs says of its own stacks, against what is recorded, with all of V8's compilers and with
# fewer; in a process that runs already, in short-lived ones. With every program in WICK_NODES, else /usr/bin/node.
. tests/lib.inc
need_sampling "v8"
[ "$(uname -m)" = x86_64 ] || {
	skip "v8" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 24 5)}
programs=$PWD/tests/programs/v8

# NAME SECONDS NODE [OPTION...] -- [VARIANT...]: of the samples in burn() or step(), which the program spends its time in once it has started, at least 99 of
# 100 have the stack that the program wrote down. No more than one of 100 of all lacks a name, or the root, but for those (no_process) that were taken
# before the recorder knew the process: how long that is depends on the machine. One more of each, as runs may be short.
equal() {
	name=$1 time=$2 node=$3 options=
	shift 3
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	"$WICK" record -F 199 -o "$work/out.speedscope.json" -- "$node" $options "$programs/truth.cjs" "$time" "$work/log" "$@" >"$work/err" 2>&1 &&
		/usr/bin/python3 "$programs/check.py" "$work/out.speedscope.json" "$work/log" >"$work/said" 2>>"$work/err" || {
		fail "$name: recorded" "$(cat "$work/err")"
		return
	}
	if sed -n 's/.*no_process \([0-9]*\).*/early \1/p' "$work/err" | cat - "$work/said" | awk '/^early/ { early += $2 }
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
	equal "$version, interpreted" 4 "$node" --no-opt --no-sparkplug -- plain deep inlined generators exceptions callbacks methods quiet
	equal "$version, baseline code" 4 "$node" --no-opt --always-sparkplug -- plain deep inlined generators exceptions callbacks methods quiet
done

node=/usr/bin/node
unmark() { sed -i 's/_\[[ij]\]//g' "$1"; } # FILE: functions of generated code are marked, and inlined ones
if [ -x "$node" ]; then
	# Hidden, generated code alone is seen.
	"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$node" "$programs/truth.cjs" 1 "$work/log" plain >"$work/err" 2>&1
	if grep -q '\[anon\]' "$work/none.folded" && ! grep -q ';burn' "$work/none.folded"; then
		pass "--runtimes none shows generated code only"
	else
		fail "--runtimes none shows generated code only" "$(head -n 5 "$work/none.folded")"
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$node" "$programs/truth.cjs" 2 "$work/log" callbacks >"$work/err" 2>&1
	unmark "$work/calls.folded"
	if grep -qE ';callbacks(;[^;]+)*;sort(;[^;]+)*;\(anonymous\);burn' "$work/calls.folded" &&
		grep -qE ';callbacks;.*Json.*;revive;burn' "$work/calls.folded"; then
		pass "what builtins and C++ call stands behind them"
	else
		fail "what builtins and C++ call stands behind them" "$(grep callbacks "$work/calls.folded" | head -n 3)"
	fi
	# Processes that live for a moment: what is in the program's functions has the functions that ran.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5; do %s %s 0.3 %s plain; done\n' "$node" "$programs/truth.cjs" "$work/log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" >"$work/err" 2>&1
	unmark "$work/short.folded"
	if awk '{ n = $NF } /;burn/ || /\[anon\]/ || /function of JavaScript/ { all += n } /;main;plain;(hot|cold);burn/ { good += n }
		END { exit !(good > 0 && good > 0.9 * all) }' "$work/short.folded"; then
		pass "functions of short-lived processes"
	else
		fail "functions of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$node" "$programs/truth.cjs" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	unmark "$work/running.folded"
	if awk '{ n = $NF; all += n } /;main;plain;(hot|cold);burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its functions from the first moment"
	else
		fail "it shows its functions from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'v8js +V8 [0-9.]+ in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
