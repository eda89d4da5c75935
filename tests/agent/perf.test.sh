#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perf record beside wick record -a over the same seconds and the same load: total samples within 3 %, and of the
# load's samples the self shares of the ten hottest functions within 5 sigma of the binomial. Other programs of the machine run now in the time of the one
# recorder and now in that of the other.
# Their number makes 5 sigma narrow, not the time: 12,000 samples of two CPUs, in 6 s at 997 Hz.
. tests/lib.inc
need_sampling "perf"
uses perf || {
	skip "perf" "no perf"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 30 6)} rate=$(if_full 397 997)
# perf's samples are in $work/perf.text, if all of them are, and none was lost. It aborts now and then, also in the middle: what it said until
# then must not be taken for all.
perf_script() {
	node tests/agent/perf_build_ids.mjs "$work/perf.data" >/dev/null 2>>"$work/perf.err" || return 1
	perf report -i "$work/perf.data" --stats >"$work/perf.stats" 2>>"$work/perf.err"
	if grep -q ' LOST\(_SAMPLES\)\? events:' "$work/perf.stats"; then
		echo "perf has lost samples" >>"$work/perf.err"
		return 1
	fi
	perf script -i "$work/perf.data" -F comm,ip,sym --no-inline >"$work/perf.text" 2>>"$work/perf.err"
	[ "$(awk '/^[^ \t]/ { n++ } END { print n }' "$work/perf.text")" -eq "$(awk '$1 == "SAMPLE" { print $3; exit }' "$work/perf.stats")" ]
}
# Both timers, each against perf with the same one. perf 6.1 aborts now and then, at its end too; then both are run again.
record_both() { # EVENT: fails if perf did
	"$O/programs/load" 3600 >/dev/null &
	load=$!
	pids="$pids $load"
	wait_cpu 500 "$load"
	# Each is stopped by its own clock; what matters are shares and the rate, not the very same instants.
	launch "$WICK" record -a --no-markers --event "$1" -F "$rate" -d "$seconds" -o "$work/wick.pb.gz" 2>"$work/wick.err"
	wick=$!
	rm -f "$work/perf.data"
	# Read as eagerly as wick reads: what perf has lost it says, and then it is no oracle.
	nice -n -10 perf record -q --no-bpf-event -e "$1" -F "$rate" -m 16M -a -g -B -N -o "$work/perf.data" -- sleep "$seconds" >/dev/null 2>"$work/perf.err"
	perf_status=$?
	# What it aborted in is no use: nobody waits for the rest of it.
	[ "$perf_status" -eq 0 ] || kill -INT "$wick" 2>/dev/null
	wait "$wick" || fail "wick record -a --event $1 works" "$(cat "$work/wick.err")"
	kill "$load"
	wait "$load" 2>/dev/null
	[ "$perf_status" -eq 0 ] || return 1
	# Names are compared without the leading underscores by which the aliases of one address differ (memcpy and memmove are one, too), and without C++ parameters and what is returned, which perf does not print.
	# One line a sample: the leaf's name without offset, and not that of a call that was inlined into it. Idle is not sampled by wick.
	perf_script || return 1
	awk '
	/^[^ \t]/ { comm = $1; take = 1; next }
	take && NF >= 2 { take = 0; if (comm == "swapper") next; name = $2; sub(/\+0x[0-9a-f]+$/, "", name); sub(/[(<].*/, "", name); sub(/^(__GI_)?_*/, "", name); sub(/^memcpy_/, "memmove_", name); all++; if (comm == "load") { n[name]++; n["LOAD"]++ } }
	END { if (!all) exit 1; for (name in n) print n[name], name; print all, "TOTAL" }' "$work/perf.text" >"$work/perf.counts" || return 1
	sort -rn "$work/perf.counts" >"$work/perf.top"
}
# EVENT: records, and writes the verdicts; fails if perf did.
verify() {
	record_both "$1" || record_both "$1" || record_both "$1" || return 1
	# Of the load alone: other programs have functions of its names (wick a `work`).
	"$WICK" report proto --tagfocus 'process.comm=^load$' "$work/wick.pb.gz" -o "$work/load.pb.gz" 2>>"$work/wick.err"
	"$WICK" convert -q "$work/load.pb.gz" -o "$work/load.folded"
	"$WICK" convert -q "$work/wick.pb.gz" -o "$work/wick.folded"
	total=$(awk -v period=$((1000000000 / rate)) '{ n += $NF / period } END { printf "%.0f", n }' "$work/wick.folded")
	awk -v total="$total" -v period=$((1000000000 / rate)) '{ n = $NF / period; $NF = ""; sub(/ +$/, ""); k = split($0, f, ";"); while (k > 1 && f[k] ~ /_\[i\]$/) k--; name = f[k]; sub(/_\[[kij]\]$/, "", name); sub(/[(<].*/, "", name); sub(/^.* /, "", name); sub(/^(__GI_)?_*/, "", name); sub(/^memcpy_/, "memmove_", name); s[name] += n; s["LOAD"] += n }
	END { for (name in s) printf "%.0f %s\n", s[name], name; printf "%.0f TOTAL\n", total }' "$work/load.folded" | sort -rn >"$work/wick.top"
	node - "$work/perf.top" "$work/wick.top" >"$work/verdict" <<'JS'
const fs = require("fs");
const read = f => new Map(fs.readFileSync(f, "utf8").trim().split("\n").map(l => [l.replace(/^\S+ /, ""), Number(l.split(" ")[0])]));
const [perf, wick] = process.argv.slice(2).map(read);
const all = perf.get("TOTAL"), off = Math.abs(wick.get("TOTAL") - all) / all;
console.log(`${off <= 0.03 ? "ok" : "FAILED"} total samples: wick ${wick.get("TOTAL")}, perf ${all}, ${(off * 100).toFixed(2)} % apart (3 % allowed)`);
const np = perf.get("LOAD"), nw = wick.get("LOAD");
let shown = 0;
for (const [name, count] of [...perf.entries()].sort((a, b) => b[1] - a[1])) {
	if (["TOTAL", "LOAD", "[unknown]"].includes(name) || shown === 10) continue;
	shown++;
	const p = count / np, q = (wick.get(name) || 0) / nw, pool = (count + (wick.get(name) || 0)) / (np + nw);
	const sigma = Math.sqrt(pool * (1 - pool) * (1 / np + 1 / nw));
	const z = sigma ? Math.abs(p - q) / sigma : 0;
	console.log(`${z <= 5 ? "ok" : "FAILED"} ${name}: wick ${(q * 100).toFixed(2)} %, perf ${(p * 100).toFixed(2)} %, ${z.toFixed(2)} sigma apart (5 allowed)`);
}
JS
}
# Up to three times: the two do not run for the very same time, in which others may come and go, and on an overloaded machine samples of one
# slice of a CPU are not independent, as the binomial has it. A real difference is there each time.
verify_again() { # EVENT
	for _ in 1 2 3; do
		verify "$1" || return 1
		grep -q '^FAILED' "$work/verdict" || return 0
	done
}
compare() { # EVENT
	event=$1
	verify_again "$event" || {
		skip "$event" "perf record failed three times: $(tail -n 1 "$work/perf.err")"
		return
	}
	while read -r verdict text; do
		if [ "$verdict" = ok ]; then pass "$event: $text"; else fail "$event: $text" "$(
			head -n 15 "$work/perf.top"
			echo ...
			head -n 15 "$work/wick.top"
		)"; fi
	done <"$work/verdict"
}
compare cpu-clock
if perf stat -e cycles true 2>&1 | grep -q 'not supported'; then skip "cycles" "no cycle counter"; else compare cycles; fi
finish
