#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick record without privileges: perf events of one's own processes, their stacks unwound from copies.
. tests/lib.inc
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
	skip "record_own" "cannot become nobody"
	finish
fi
if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 2 ]; then
	skip "record_own" "kernel.perf_event_paranoid is above 2"
	finish
fi
home=$(mktemp -d) || exit 1
trap 'cleanup; rm -rf "$home"' EXIT
cp "$WICK" "$O/programs/deep" "$O/programs/offcpu" "$home" && chmod 755 "$home" "$home"/* && mkdir "$home/out" && chown nobody "$home/out"
cp "$O/programs/deep" "$home/setuid" && chmod 4755 "$home/setuid"
nobody() { setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --inh-caps=-all env HOME="$home/out" "$@"; }
cd "$home/out" || exit 1
mine() { nobody ../wick record "$@"; }
verify() { # NAME FILE SCRIPT: t = threads with samples
	if verify_output=$(node -e "const d = JSON.parse(require('fs').readFileSync('$2')), t = d.threads.filter(t => t.samples.length), n = t => t.samples.length;
const frames = t => { const f = new Set(); for (let s of t.samples.stack) for (; s !== null; s = d.shared.stackTable.prefix[s]) f.add(d.shared.stringArray[d.shared.funcTable.name[d.shared.frameTable.func[d.shared.stackTable.frame[s]]]]); return f; };
process.exit(($3) ? 0 : 1)" 2>&1); then pass "$1"; else fail "$1" "$verify_output $(cat err)"; fi
}

mine -F 499 -o deep.firefox.json -- ../deep 4cpu >/dev/null 2>err
check "a command" test $? -eq 0
check "... of which it is said what is missing" grep -q 'without privileges: recording only your own processes, and only in user space (.*CAP_BPF' err
# One in a thousand falls into the first or last instants of a process, whose stacks cannot be told (docs/record.md: 99.96 %).
complete() { awk '/stacks complete:/ { seen = 1; good = $4 >= 99.5 } END { exit !(seen && good) }' err || {
	cat err
	return 1
}; }
check "... its stacks reach their root" complete
verify "... and their functions have names" deep.firefox.json "t.some(t => frames(t).has('stepSaving') && frames(t).has('main'))"
mine -o status.folded -- sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; exit 9' >/dev/null 2>&1
check "its status" test $? -eq 9
expect "one that does not exist" 127 'No such file' nobody ../wick record -o x.folded -- ../none

# Children, their children, programs that they execute, threads and their names.
mine -F 499 -o tree.firefox.json -- sh -c '../deep 1cpu & sh -c "../offcpu 2; ../deep 1cpu"; wait' >/dev/null 2>err
verify "what it starts" tree.firefox.json "t.filter(t => t.processName === 'deep').length >= 2 && t.some(t => t.processName === 'offcpu')"
launch nobody ../offcpu 3600 ready >/dev/null
wait_for test -e ready
target=$(pgrep -P $! -x offcpu || echo $!)
pids="$pids $target"
mine -F 499 -d 2 -o attach.firefox.json -p "$target" 2>err
verify "a process that runs already, its threads by their names" attach.firefox.json "t.some(t => frames(t).has('computeAlways')) && t.every(t => t.pid === '$target' && t.name)"

expect "all processes take privileges" 1 'CAP_BPF.*without privileges, only the CPU time of your own processes' nobody ../wick record -a -d 1
expect "waiting takes privileges" 1 'without privileges, only the CPU time' nobody ../wick record --wall -- ../deep 1
expect "processes of others take privileges" 1 'only your own processes' nobody ../wick record -d 1 -p 1
expect "a program that is set-user-id is not seen" 0 'no samples were taken.*set-user-id' nobody ../wick record -o setuid.folded -- ../setuid 1
cd / || exit 1
finish
