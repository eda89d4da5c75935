#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulation: the store with agents, network, disk and clocks that misbehave; each run from a seed of its own, all invariants checked after each start and at each query.
. tests/lib.inc
runs=${WICK_SIM_RUNS:-$(if_full 10000 300)} seed=${WICK_SIM_SEED:-1}
directory=/dev/shm
[ -d "$directory" ] && [ -w "$directory" ] || directory=$work
check "$runs runs from seed $seed" "$O/sim/sim" --seed "$seed" --runs "$runs" --jobs "$(nproc)" --directory "$directory"
printf '%s\n' "$check_output" | tail -n 1
# The same seed is the same run.
story() { "$O/sim/sim" --seed "$seed" --verbose --directory "$directory" 2>&1 | sed 's|wick-sim-[A-Za-z0-9]*||g; s|in [0-9.]* s:|:|'; }
story >"$work/one" && story >"$work/two"
check "a run can be repeated" cmp "$work/one" "$work/two"
check "a run says what happens in it" grep -q 'append .*: done' "$work/one"
finish
