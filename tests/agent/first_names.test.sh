#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first sample of a process shows its functions, if its interpreter is one that the recorder has seen: of processes that work for 100 ms of CPU time each, of which one sample in two is the first one at 19 Hz. Python is in the
# executable, Ruby in a library that is mapped after it has begun.
. tests/lib.inc
need_sampling "first_names"
[ "$(uname -m)" = x86_64 ] || {
	skip "first_names" "only x86-64 so far"
	finish
}
processes=${WICK_TEST_PROCESSES:-$(if_full 100 30)}
python_program='import time
def first_work(end):
    while time.process_time() < end:
        pass
first_work(time.process_time() + 0.1)'
ruby_program='def first_work(end_at)
  while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < end_at do end
end
first_work(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + 0.1)'
# NAME MAIN COMMAND...: MAIN is what every native stack of the program's own code goes through. The recorder has the CPU when it wants it, as the agent of a machine should.
verify() {
	name=$1 main=$2
	shift 2
	if ! nice -n -15 "$WICK" record -F 19 -o "$work/out.folded" -- nice -n 15 sh -c 'for i in $(seq '"$processes"'); do "$@" || exit; done' sh "$@" 2>"$work/err"; then
		fail "$name: recorded" "$(cat "$work/err")"
		return
	fi
	if awk -v main=";$main" -v want="$processes" '{ n = $NF * 19 / 1e9 } $0 ~ main || /;first_work/ { all += n } /;first_work/ { named += n } END { printf "%.0f %.0f", named, all; exit !(all >= want / 2 && named >= 0.8 * all) }' "$work/out.folded" >"$work/said"; then
		pass "$name: $(cat "$work/said") samples, named and in all, of $processes processes"
	else
		fail "$name: at least 80 % of the samples in the program's code have its function: $(cat "$work/said")" "$(grep "$main" "$work/out.folded" | grep -v first_work | cut -c 1-200)"
	fi
}
if [ -x /usr/bin/python3 ]; then verify Python PyRun_ /usr/bin/python3 -c "$python_program"; else skip "Python" "/usr/bin/python3 is not installed"; fi
if [ -x /usr/bin/ruby ]; then verify Ruby ruby_run_node /usr/bin/ruby --disable-gems -e "$ruby_program"; else skip "Ruby" "/usr/bin/ruby is not installed"; fi
finish
