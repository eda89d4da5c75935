#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick record as a command line tool: what a command is started with and ends with, what is followed, and where recording ends.
. tests/lib.inc
need_sampling "record"
# FILE: the names of the processes in a Firefox profile, each between spaces.
tracks() { node -e 'const d = JSON.parse(require("fs").readFileSync(process.argv[1])); console.log(" " + [...new Set(d.threads.filter(t => t.isMainThread).map(t => t.processName))].join(" ") + " ")' "$1"; }
burn='i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' # some 60 ms of CPU time, at least: no recording of it at 997 Hz is without a sample

# A command is what it would be without wick.
"$WICK" record -F 997 -o "$work/env.folded" --env GREETING='hello = there' --env PATH="$PATH" --chdir / -- sh -c "$burn; echo \"\$GREETING \$(pwd)\"; echo complaint >&2; exit 7" >"$work/out" 2>"$work/err"
status=$?
check "the status of a command is kept" test $status -eq 7
"$WICK" record -o "$work/none.folded" -- true >"$work/none.out" 2>&1
check "also of one that was too short to be sampled" test $? -eq 0
"$WICK" record -o "$work/none.folded" -- false >"$work/none.out" 2>&1
check "and failed" test $? -eq 1
check "its output, its environment and its directory" test "$(cat "$work/out")" = "hello = there /"
check "its complaints" grep -qx complaint "$work/err"
check "the profile is there all the same" grep -q '^sh;\|;' "$work/env.folded"
sh -c '"$0" record -F 997 -o "$1" -- sh -c "$2"; echo "status $?"' "$WICK" "$work/kill.folded" "$burn; kill -KILL \$\$" >"$work/out" 2>&1
check "a command that is killed: wick ends so" grep -q 'status 137' "$work/out"
check "... and says so" grep -q 'was killed by signal 9' "$work/out"
check "... after its profile was written" test -s "$work/kill.folded"
expect "a command that does not exist" 127 'cannot run /does/not/exist: No such file' "$WICK" record -o "$work/x.folded" -- /does/not/exist
expect "a command that cannot run" 126 'cannot run /tmp: Permission denied' "$WICK" record -o "$work/x.folded" -- /tmp
expect "a directory that does not exist" 126 'cannot enter the directory /does/not' "$WICK" record -o "$work/x.folded" --chdir /does/not -- true
check "none of these writes a file" test ! -e "$work/x.folded"
expect "a variable without a name" 2 "'=x' is not of the form NAME=VALUE" "$WICK" record --env =x -- true
expect "--env without a command" 2 'require a command' "$WICK" record --env A=B -a
"$WICK" record -F 997 -o - --format folded -- sh -c "$burn; echo noise" >"$work/out" 2>"$work/err"
check "a profile on standard output is by itself" sh -c "! grep -q noise '$work/out' && grep -q noise '$work/err'"
"$WICK" record -F 997 -o "$work/x.folded" -- sh -c "$burn; grep SigIgn /proc/self/status" >"$work/out" 2>"$work/err"
check "signals that a command ignores are those it would ignore" test "$(cat "$work/out")" = "$(sh -c 'grep SigIgn /proc/self/status')"
echo before >"$work/kept.svg"
for file in x.firefox.json x.firefox.json.gz x.pb.gz kept.svg; do
	expect "--max-size: no larger file is written: $file" 1 'wick record: the profile is larger than the given limit of 1 KiB' "$WICK" record -F 997 --no-markers --max-size 1K -o "$work/$file" -- sh -c "$burn"
done
check "nor a part of it" sh -c '! ls "$0"/x.firefox* "$0"/x.pb* "$0"/*.tmp && grep -qx before "$0/kept.svg"' "$work"
check "a smaller one is" "$WICK" record -F 997 --no-markers --max-size 1M -o "$work/x.pb.gz" -- sh -c "$burn"

# Ends. SIGTERM to wick alone reaches the command; SIGINT, as of a terminal, comes to both.
launch "$WICK" record -F 997 -o "$work/term.firefox.json" -- "$O/programs/deep" 3600 >/dev/null 2>"$work/err"
recorder=$!
wait_for pgrep -P $recorder -x deep >/dev/null
wait_cpu 100 "$(pgrep -P $recorder -x deep)"
kill -TERM $recorder
wait $recorder
check "SIGTERM ends the command, which ends wick" test $? -eq 143
check "... after what was recorded is written" test "$(tracks "$work/term.firefox.json")" = " deep "
"$O/programs/deep" 3600 >/dev/null &
target=$!
pids="$pids $target"
launch "$WICK" record -F 997 -o "$work/int.folded" -p $target 2>"$work/err"
recorder=$!
wait_recording $recorder
wait_cpu 100 $target
kill -INT $recorder
wait $recorder
check "SIGINT stops a recording and writes it" test $? -eq 0 -a -s "$work/int.folded"
check "what is recorded is left alone" wait_for grep 'State:.[RS]' /proc/$target/status
kill $target

# Trees: a child that was there before is followed, as is what it forks later; all of them gone is the end.
mkfifo "$work/hold"
sh -c "'$O/programs/deep' 3600 >/dev/null & read -r line; $burn; kill \$!; exec '$O/programs/deep' 0.2cpu" <"$work/hold" >/dev/null &
tree=$!
pids="$pids $tree"
exec 9>"$work/hold"
wait_for pgrep -P $tree -x deep >/dev/null
launch "$WICK" record -F 997 -p $tree -o "$work/tree.firefox.json" 2>"$work/err"
recorder=$!
wait_recording $recorder
wait_cpu 100 "$(pgrep -P $tree -x deep)"
echo go >&9
exec 9>&-
wait $tree
wait $recorder || fail "record -p of a tree" "$(cat "$work/err")"
check "a child that was there is recorded beside its parent" node -e "const p = new Set(JSON.parse(require('fs').readFileSync('$work/tree.firefox.json')).threads.filter(t => t.samples.length).map(t => t.pid)); process.exit(p.has('$tree') && p.size >= 2 ? 0 : 1)"

# Control groups, and what is one: the hierarchy that the agent knows.
hierarchy=/sys/fs/cgroup
[ "$(stat -fc %T $hierarchy)" = cgroup2fs ] || hierarchy=/sys/fs/cgroup/memory
group="wick-test-$$.slice"
id=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
if mkdir -p "$hierarchy/$group/wick-test-$$.service/below" "$hierarchy/$group/docker-$id.scope" 2>/dev/null; then
	# CGROUP COPY: a copy of deep by that name in there, which runs until it is killed; sets started.
	start_in() {
		[ -e "$work/$2" ] || cp "$O/programs/deep" "$work/$2"
		sh -c "echo \$\$ >'$hierarchy/$1/cgroup.procs' && exec '$work/$2' 3600" >/dev/null &
		started=$!
		pids="$pids $started"
		wait_for grep -qx "$2" "/proc/$started/comm"
	}
	"$O/programs/deep" 3600 >/dev/null &
	outsider=$!
	pids="$pids $outsider"
	start_in "$group/wick-test-$$.service" in_unit
	in_unit=$started
	start_in "$group/docker-$id.scope" in_container
	in_container=$started
	launch "$WICK" record -F 997 --unit "wick-test-$$" -o "$work/unit.firefox.json" 2>"$work/err"
	recorder=$!
	wait_recording $recorder
	wait_cpu 100 $in_unit $in_container $outsider
	start_in "$group/wick-test-$$.service/below" came_later
	wait_cpu 500 $started # it is found some time after it came
	kill $in_unit $started
	wait $recorder
	check "a unit is recorded until all in it have ended" test $? -eq 0
	names=$(tracks "$work/unit.firefox.json")
	case $names in *" in_unit "*) pass "... with what was in it" ;; *) fail "... with what was in it" "$names" ;; esac
	case $names in *" came_later "*) pass "... and what came into a group below it later" ;; *) fail "... and what came into a group below it later" "$names" ;; esac
	case $names in *" deep "* | *" in_container "*) fail "... and nothing else" "$names" ;; *) pass "... and nothing else" ;; esac
	check "a container by the beginning of its id" record_cpu 100 $in_container -F 997 --container "$(echo "$id" | cut -c 1-12)" -o "$work/container.firefox.json"
	check "... and nothing else" test "$(tracks "$work/container.firefox.json")" = " in_container "
	check "a control group by its path" "$WICK" record -d 1 --wall --cgroup "/$group/docker-$id.scope" -o "$work/cgroup.folded"
	check "a control group by its directory" record_cpu 100 $in_container -F 997 --cgroup "$hierarchy/$group" -o "$work/cgroup.folded"
	kill $in_container $outsider # what comes later has the CPUs for itself
	expect "a container that there is not" 1 "no cgroup below .* belongs to a container 'feedfeedfeed'" "$WICK" record --container feedfeedfeed
	expect "a unit that there is not" 1 "a unit 'no-such-unit'; is it running" "$WICK" record --unit no-such-unit
	expect "a control group that there is not" 1 "no cgroup /no/such" "$WICK" record --cgroup /no/such
	mkdir "$hierarchy/$group/docker-$(echo "$id" | cut -c 1-20)$(od -An -tx1 -N22 /dev/urandom | tr -d ' \n').scope"
	expect "a beginning that two containers share" 1 'matches 2 containers: ' "$WICK" record --container "$(echo "$id" | cut -c 1-12)"
	# More groups in the course of time than there is room for at once.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		jobs() { for i in $(seq 600); do echo "$hierarchy/$group/$1-$i"; done; }
		launch "$WICK" record --cgroup "/$group" -o "$work/jobs.firefox.json" 2>"$work/err"
		recorder=$!
		wait_recording $recorder
		jobs early | xargs mkdir
		sleep 2.5 # for some looks at the groups; without them the test is easier
		jobs early | xargs rmdir
		jobs late | xargs mkdir
		start_in "$group/late-600" late_job
		wait_cpu 4000 $started # it is found at the next look, some time later
		kill -INT $recorder
		wait $recorder || fail "groups come and go while they are recorded" "$(cat "$work/err")"
		names=$(tracks "$work/jobs.firefox.json")
		case $names in *" late_job "*) pass "groups come and go while they are recorded" ;; *) fail "groups come and go while they are recorded" "$names" ;; esac
	fi
	for pid in $pids; do kill "$pid" 2>/dev/null; done
	wait
	for _ in $(seq 50); do
		find "$hierarchy/$group" -depth -type d -exec rmdir {} + 2>/dev/null
		[ -d "$hierarchy/$group" ] || break
		sleep 0.1
	done
else
	skip "control groups" "cannot make one below $hierarchy"
fi

# Samples on a time line, each of its thread, with what was lost said in the file.
"$WICK" record --wall -F 199 -o "$work/wall.firefox.json" -- "$O/programs/offcpu" 4 >/dev/null 2>"$work/err" || fail "record into a Firefox profile" "$(cat "$work/err")"
cat >"$work/oracle.mjs" <<'JS'
import { readFileSync } from "node:fs";
const d = JSON.parse(readFileSync(process.argv[2]));
const strings = d.shared.stringArray, fail = [];
const threads = d.threads.filter(t => t.samples.length);
if (threads.length < 4) fail.push(`${threads.length} threads`);
if (new Set(threads.map(t => t.tid)).size !== threads.length) fail.push("tids differ not");
for (const t of threads) {
	if (t.samples.time.some((at, i) => at < 0 || at > 60e3 || (i && at < t.samples.time[i - 1]))) fail.push(`${t.name}: times`);
	const cpu = t.samples.threadCPUDelta.reduce((a, b) => a + b, 0) / 1e6, wall = t.samples.weight.reduce((a, b) => a + b, 0);
	console.log(t.name, t.samples.length, `${cpu} ms of ${wall} ms on a CPU`);
	if (cpu > wall * 1.001) fail.push(`${t.name}: more CPU than time`);
}
if (!threads.some(t => t.samples.threadCPUDelta.every(x => x === 0))) fail.push("no thread only waits");
if (!threads.some(t => t.samples.threadCPUDelta.some(x => x > 0))) fail.push("no thread runs");
if (fail.length) { console.log(fail.join("\n")); process.exit(1); }
JS
check "a Firefox profile has times, thread ids and CPU use" node "$work/oracle.mjs" "$work/wall.firefox.json"

# More samples than are kept: fewer of them, all over the time, that stand for all.
expect "of more samples than are kept a part stays" 0 'downsampled: 1 of [0-9]+ samples is kept, with its value scaled: [1-9][0-9,]* exceed' "$WICK" record --no-markers -F 2999 --max-samples 1000 -o "$work/thin.firefox.json" -- "$O/programs/deep" 2cpu
cat >"$work/thin.mjs" <<'JS'
import { readFileSync } from "node:fs";
const d = JSON.parse(readFileSync(process.argv[2])), fail = [];
const [, each, came] = /1 of (\d+) samples is kept, with its value scaled: ([\d,]+) exceed/.exec(readFileSync(process.argv[2], "utf8"));
const samples = d.threads.flatMap((t) => t.samples.weight.map((weight, i) => ({ weight, at: t.samples.time[i] })));
const period = 1e3 / 2999, total = samples.reduce((sum, s) => sum + s.weight, 0) / period, all = Number(came.replaceAll(",", ""));
if (samples.length > 1000 || samples.length < 250) fail.push(`${samples.length} samples`);
if (samples.some((s) => Math.abs(s.weight / period / Number(each) - 1) > 0.01)) fail.push(`weights ${samples.slice(0, 9).map((s) => s.weight / period)}, not ${each}`);
if (Math.abs(total / all - 1) > 5 / Math.sqrt(samples.length)) fail.push(`they stand for ${total} of ${all}`);
const end = Math.max(...samples.map((s) => s.at));
for (let i = 0; i < 5; i++) if (!samples.some((s) => s.at >= end * i / 5 && s.at <= end * (i + 1) / 5)) fail.push(`nothing in part ${i} of the time`);
if (fail.length) { console.log(fail.join("\n")); process.exit(1); }
JS
check "... all over the time, and each stands for as many" node "$work/thin.mjs" "$work/thin.firefox.json"
finish
