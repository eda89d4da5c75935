#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that are awkward to record, each with what its profile must hold. CPU time is held against what the program says of itself; the bounds are wide, for a sample
# stands for 2 ms and a virtual machine loses time that no clock shows.
. tests/lib.inc
need_sampling "record_cases"
cases="$O/programs/cases"
record() { # FILE COMMAND...: what the program says goes to $work/said, what wick says to $work/err
	record_file=$work/$1
	shift
	"$WICK" record -F 499 -o "$record_file" -- "$@" >"$work/said" 2>"$work/err"
}
holds() { # NAME FILE SCRIPT
	if holds_output=$(node tests/agent/record_cases.mjs "$work/$2" "$3" 2>&1); then pass "$1"; else fail "$1" "$holds_output
$(cat "$work/err")"; fi
}
said() { tail -n 1 "$work/said"; }

record forks.firefox.json "$cases" forks 1000
check "1,000 children: recorded" test $? -eq 0
holds "... nearly each of them, as a process" forks.firefox.json "new Set(threads.map(t => t.pid)).size > 800"
holds "... for all the time that they took" forks.firefox.json "Math.abs(cpu(threads) / $(said) - 1) < 0.15"
holds "... with stacks and names" forks.firefox.json "stacks('childWork') > 0.8 && stacks('main') > 0.9"

record execs.firefox.json "$cases" execs 60
check "a process that executes itself 60 times: recorded" test $? -eq 0
holds "... as the programs of one process, with all of its time" execs.firefox.json "new Set(threads.map(t => String(t.pid).split('.')[0])).size === 1 && new Set(threads.map(t => t.pid)).size > 50 && Math.abs(cpu(threads) / $(said) - 1) < 0.2"
holds "... with stacks and names all along" execs.firefox.json "stacks('computeForAWhile') > 0.7"

record threads.firefox.json "$cases" threads 2000
check "2,000 threads: recorded" test $? -eq 0
holds "... each by itself" threads.firefox.json "threads.length > 1000 && new Set(threads.map(t => t.tid)).size === threads.length && new Set(threads.map(t => t.pid)).size === 1"
holds "... for all the time that they took" threads.firefox.json "Math.abs(cpu(threads) / $(said) - 1) < 0.3"
holds "... with stacks and names" threads.firefox.json "stacks('threadWork') > 0.5"

record names.firefox.json "$cases" names
check "threads that are named after their start: recorded" test $? -eq 0
holds "... by their last names" names.firefox.json "['named_first', 'named_second'].every(n => threads.filter(t => t.name === n).length === 1)"
holds "... the time before included" names.firefox.json "threads.filter(t => t.name.startsWith('named_')).every(t => cpu([t]) > 700)"
holds "... the main thread by the program" names.firefox.json "d.threads.filter(t => t.isMainThread).every(t => t.name === 'cases' && t.processName === 'cases')"
holds "counters: CPU use, context switches and memory" names.firefox.json "['processCPU', 'Context switches', 'Memory'].every(n => counters(n).length === 1 && counters(n)[0].samples.length >= 5 && d.threads[counters(n)[0].mainThreadIndex].isMainThread)"
holds "... CPU use adds up to the CPU time" names.firefox.json "Math.abs(counters('processCPU')[0].samples.count.reduce((a, b) => a + b) / $(said) - 1) < 0.35"
holds "... memory is what a small program has" names.firefox.json "(b => b > 2e5 && b < 2e8)(counters('Memory')[0].samples.count.reduce((a, b) => a + b))"

# A process that another one kills in the middle of its work.
"$cases" burn 3600 >/dev/null &
target=$!
pids="$pids $target"
launch "$WICK" record -F 499 -p $target -o "$work/killed.firefox.json" 2>"$work/err"
recorder=$!
wait_recording $recorder
wait_cpu 1000 $target
kill -KILL $target
wait $recorder
check "a process that is killed: the recording ends by itself" test $? -eq 0
holds "... with what it did" killed.firefox.json "cpu(threads) > 100 && stacks('computeForAWhile') > 0.9 && stacks('main') > 0.9"

# A program that takes the rights of another user, started by one who has few.
cp "$cases" "$work/setuid" && chown nobody "$work/setuid" && chmod 4755 "$work/setuid"
record setuid.firefox.json "$work/setuid" burn 1
check "a set-user-id program: recorded" test $? -eq 0
holds "... with stacks and names" setuid.firefox.json "threads.some(t => t.processName === 'setuid') && stacks('computeForAWhile') > 0.9"

if gcc -O2 -g -static -D_GNU_SOURCE -o "$work/static" tests/programs/cases.c -lpthread 2>"$work/err"; then
	record static.firefox.json "$work/static" burn 1
	check "a statically linked program: recorded" test $? -eq 0
	holds "... with stacks and names" static.firefox.json "stacks('computeForAWhile') > 0.9 && stacks('main') > 0.9"
else
	skip "a statically linked program" "no static C library"
fi

# A container: its own pid and mount namespaces and control group. The program lies on a file system that nobody else sees.
hierarchy=/sys/fs/cgroup
[ "$(stat -fc %T $hierarchy)" = cgroup2fs ] || hierarchy=/sys/fs/cgroup/memory
id=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
scope="$hierarchy/docker-$id.scope"
if mkdir "$scope" 2>/dev/null && unshare -m -p -f true 2>/dev/null; then
	unshare -m -p -f --mount-proc sh -c "echo 0 >'$scope/cgroup.procs' && mount -t tmpfs none /mnt && cp '$cases' /mnt/contained && exec /mnt/contained burn 3600" >/dev/null 2>&1 &
	pids="$pids $!"
	contained() {
		while read -r pid; do ! grep -qx contained "/proc/$pid/comm" || return 0; done <"$scope/cgroup.procs"
		return 1
	}
	wait_for contained
	"$WICK" record -F 499 -d 2 --container "$(echo "$id" | cut -c 1-12)" -o "$work/container.firefox.json" 2>"$work/err"
	check "a container: recorded" test $? -eq 0
	holds "... with stacks and names, of a file that only it sees" container.firefox.json "threads.every(t => t.processName === 'contained') && stacks('computeForAWhile') > 0.9 && stacks('main') > 0.9"
	while read -r pid; do kill -KILL "$pid"; done <"$scope/cgroup.procs" 2>/dev/null
	for _ in $(seq 50); do
		rmdir "$scope" 2>/dev/null && break
		sleep 0.1
	done
else
	skip "a container" "no control groups or namespaces"
fi
finish
