#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Python: what tests/programs/python/truth.py says of its own stacks, against what is recorded; in a process that runs already, in forked
# ones, without the interpreter's lock, in a program that embeds it. With every interpreter in WICK_PYTHONS, else /usr/bin/python3.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "python"
[ "$(uname -m)" = x86_64 ] || {
	skip "python" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 4)}
programs=$PWD/tests/programs/python

# NAME PYTHON VARIANT...
equal() {
	name=$1 python=$2
	shift 2
	truth_equals "$name" "$python $programs/check.py" "$python" "$programs/truth.py" "$seconds" "$work/log" "$@"
}

for python in ${WICK_PYTHONS:-/usr/bin/python3}; do
	if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1); then
		skip "$python" "$version"
		continue
	fi
	equal "$version" "$python"
	equal "$version, threads" "$python" threads outside
done

python=/usr/bin/python3
if [ -x "$python" ]; then
	# Hidden, the interpreter alone is seen.
	"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$python" "$programs/truth.py" 1 "$work/log" plain 2>"$work/err"
	if grep -q '_PyEval_EvalFrameDefault' "$work/none.folded" && ! grep -q ';burn' "$work/none.folded"; then
		pass "--runtimes none shows the interpreter only"
	else
		fail "--runtimes none shows the interpreter only" "$(head -n 5 "$work/none.folded")"
	fi
	# Forked workers, each with its own names; and what is called from C stands behind the C function.
	"$WICK" record -F 199 -o "$work/forks.folded" -- "$python" "$programs/forks.py" 4 0.4 2>"$work/err"
	if awk '{ n = $NF; all += n } /;worker_[0-3];spin/ { match($0, /worker_[0-3]/); seen[substr($0, RSTART, RLENGTH)] = 1; named += n }
		END { exit !(length(seen) == 4 && named > 0.8 * all) }' "$work/forks.folded"; then
		pass "functions of forked workers"
	else
		fail "functions of forked workers" "$(cat "$work/err" && head -n 5 "$work/forks.folded")"
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$python" "$programs/truth.py" 2 "$work/log" callbacks 2>"$work/err"
	if grep -qE ';callbacks;_PyEval_EvalFrameDefault(;[^;]+)+;Key.__lt__;burn' "$work/calls.folded"; then
		pass "what C calls stands behind the C function"
	else
		fail "what C calls stands behind the C function" "$(grep __lt__ "$work/calls.folded" | head -n 3)"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$python" "$programs/truth.py" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /<module>;main;in_thread;plain;(hot|cold);burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its functions from the first moment"
	else
		fail "it shows its functions from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'python +CPython 3\.[0-9]+ in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
