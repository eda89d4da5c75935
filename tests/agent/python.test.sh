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
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/python

# NAME PYTHON VARIANT...
equal() {
	name=$1 python=$2
	shift 2
	truth_equals "$name" "$python" "$programs/truth.py" "$seconds" "$work/log" "$@"
}

for python in ${WICK_PYTHONS:-/usr/bin/python3}; do
	if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1); then
		skip "$python" "$version"
		continue
	fi
	equal "$version, threads" "$python" threads outside
	equal "$version" "$python"
	[ "$python" != /usr/bin/python3 ] ||
		truth_has ';callbacks;_PyEval_EvalFrameDefault(;[^;]+)+;Key.__lt__;burn'
done

python=/usr/bin/python3
if [ -x "$python" ]; then
	truth_hidden _PyEval_EvalFrameDefault ';burn' "$python" "$programs/truth.py" 0.5 "$work/log" plain
	# Forked workers, each with its own names; and what is called from C stands behind the C function.
	"$WICK" record -F 199 -o "$work/forks.folded" -- "$python" "$programs/forks.py" 4 0.4 2>"$work/err"
	if awk '{ n = $NF; all += n } /;worker_[0-3];spin/ { match($0, /worker_[0-3]/); seen[substr($0, RSTART, RLENGTH)] = 1; named += n }
		END { exit !(length(seen) == 4 && named > 0.8 * all) }' "$work/forks.folded"; then
		pass "functions of forked workers"
	else
		fail "functions of forked workers" "$(cat "$work/err" && head -n 5 "$work/forks.folded")"
	fi
	truth_running '/<module>;main;in_thread;plain;(hot|cold);burn/' 'python +CPython 3\.[0-9]+ in ' "$python" "$programs/truth.py" 3600 "$work/log" plain
fi
finish
