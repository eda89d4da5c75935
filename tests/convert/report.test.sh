#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick report beside google/pprof: its golden reports byte by byte, and `go tool pprof` run on real profiles with many options.
. tests/lib.inc
goldens=$data/pprof/google-driver profiles=$data/pprof/google-profile

if [ ! -d "$goldens" ]; then
	skip "google/pprof's golden reports" "no test data"
	finish
fi
node tests/convert/report_profiles.mjs "$work/p" || {
	fail "the profiles of the goldens are made"
	finish
}

golden() { # GOLDEN PROFILE OPTION...
	golden=$1 profile=$2
	shift 2
	"$WICK" report "$@" --trim --compact-labels --nodecount "${nodes:-20}" --nodefraction 0.05 --edgefraction 0.01 -q "$work/p/$profile.pb" >"$work/out" 2>"$work/err" ||
		{
			fail "golden $golden" "$(cat "$work/err")"
			return
		}
	check "golden $golden" diff "$goldens/$golden" "$work/out"
}
golden pprof.cpu.flat.functions.text cpu text --functions --flat
golden pprof.cpu.flat.functions.noinlines.text cpu text --functions --noinlines --flat
golden pprof.cpu.flat.filefunctions.noinlines.text cpu text --filefunctions --noinlines --flat
golden pprof.cpu.flat.addresses.noinlines.text cpu text --addresses --noinlines --flat
nodes=4 golden pprof.cpusmall.flat.addresses.tree cpusmall tree --addresses --flat
nodes=5 golden pprof.unknown.flat.functions.call_tree.text unknown text --functions --flat --call-tree
golden pprof.heap_alloc.flat.alloc_objects.text heap_alloc text -alloc_objects --flat
golden pprof.heap.flat.files.text heap text --files --flat
golden pprof.heap.flat.files.text.focus heap text --files --flat --focus '[12]00' --taghide '[X3]00'
golden pprof.heap.flat.inuse_objects.text heap text -inuse_objects --flat
golden pprof.heap.flat.inuse_objects.text.all_frames heap text -inuse_objects --flat --all-frames
golden pprof.cpu.cum.lines.text.hide cpu text --lines --cum --hide 'line[X3]0'
golden pprof.cpu.cum.lines.text.show cpu text --lines --cum --show '[12]00'
golden pprof.cpu.cum.lines.text.focus.hide cpu text --lines --cum --hide 'line[X3]0' --focus '[12]00'
golden pprof.heap.cum.lines.tree.focus heap tree --lines --cum --focus '[24]00'
golden pprof.heap.cum.relative_percentages.tree.focus heap tree --relative-percentages --cum --focus '[24]00'
golden pprof.cpu.cum.lines.tree.show_from cpu tree --lines --cum --show-from line2
golden pprof.cpu.callgrind cpu callgrind
golden pprof.cpu.call_tree.callgrind cpu callgrind --call-tree
golden pprof.heap.callgrind heap callgrind
golden pprof.cpu.flat.functions.dot cpu dot --functions --flat
golden pprof.cpu.flat.functions.call_tree.dot cpu dot --functions --flat --call-tree
golden pprof.heap.flat.lines.dot.focus heap dot --lines --flat --focus '[12]00'
golden pprof.heap_sizetags.dot heap_sizetags dot --unit minimum
golden pprof.contention.flat.addresses.dot.focus.ignore contention dot --addresses --flat --ignore '[X3]002' --focus '[X1]000'
golden pprof.contention.cum.files.dot contention dot --files --cum
golden pprof.cpu.comments cpu comments --add-comment some-comment
golden pprof.heap.comments heap comments
golden pprof.cpu.tags cpu tags
golden pprof.cpu.tags.focus.ignore cpu tags --tagignore 'tag[13]' --tagfocus 'key[12]'
golden pprof.heap.tags heap tags
golden pprof.heap.tags.unit heap tags --unit bytes
golden pprof.cpu.traces cpu traces
golden pprof.cpu.addresses.traces cpu traces --addresses
golden pprof.heap_tags.traces heap_tags traces
golden pprof.heap_alloc.flat.alloc_space.dot.focus heap_alloc dot -alloc_space --flat --focus '[234]00'
golden pprof.heap_alloc.flat.alloc_space.dot heap_alloc dot -alloc_space --flat --tagshow '[2]00'
golden pprof.heap_alloc.flat.alloc_space.dot.hide heap_alloc dot -alloc_space --flat --hide 'line.*1?23?'
golden pprof.heap.flat.inuse_space.dot.focus heap dot -inuse_space --flat --tagfocus '1mb:2gb'
golden pprof.heap.flat.inuse_space.dot.focus.ignore heap dot -inuse_space --flat --tagfocus '30kb:' --tagignore '1mb:2mb'
golden pprof.cpu.peek cpu peek 'line.*01'
golden pprof.heap_request.tags.focus heap_request tags --tagfocus '400kb:'
golden pprof.heap_request.tags.focus heap_request tags --tagfocus '+400kb:'
golden pprof.heap_request.relative_percentages.tags.focus heap_request tags --relative-percentages --tagfocus '400kb:'
golden pprof.long_name_funcs.dot long_name_funcs dot --symbolize none
golden pprof.long_name_funcs.text long_name_funcs text --symbolize none
for case in "pprof.cpu.cum.lines.topproto.hide --lines --cum --hide=mangled[X3]0" "pprof.cpu.lines.topproto --lines"; do
	# shellcheck disable=SC2086 # the options are words
	set -- $case
	golden=$1
	shift
	# As pprof's own test: the functions as a profile, of addresses, and that as text.
	if "$WICK" report topproto --addresses --nodecount 20 --nodefraction 0.05 --edgefraction 0.01 "$work/p/cpu.mangled.pb" -o "$work/top.pb" 2>"$work/err"; then
		"$WICK" report text --compact-labels --nodecount 20 --nodefraction 0.05 --edgefraction 0.01 "$@" -q "$work/top.pb" >"$work/out" 2>&1
		check "golden $golden" diff "$goldens/$golden" "$work/out"
	else
		fail "golden $golden" "$(cat "$work/err")"
	fi
done

# The formats from before protocol buffers: google/pprof's goldens have the whole of each profile.
for profile in "$profiles"/*.string; do
	profile=${profile%.string}
	"$WICK" report raw --symbolize none --all-frames -q "$profile" >"$work/raw" 2>"$work/err" || fail "$(basename "$profile") is read" "$(cat "$work/err")"
	# An empty type of periods is none here.
	grep -v '^PeriodType:  $' "$profile.string" >"$work/want"
	check "$(basename "$profile") is what google/pprof reads" diff "$work/want" "$work/raw"
done

# ---- beside `go tool pprof`, on real profiles ----
# Debian's is older than the goldens: it writes times another way and no columns; `tags` have other totals there, so they are left to the goldens. Trees of
# calls have nodes of one name and value, of which the order is pprof's luck.
if ! go tool pprof -symbolize=none -raw "$work/p/cpu.pb" >/dev/null 2>&1; then
	skip "reports beside go tool pprof" "there is none"
	finish
fi
same_times() { sed -E 's/Time: [^\\]*$/Time/; s/Time: [^\\]*\\l/Time\\l/'; }
same() { # NAME OPTION...: both give the same for these; what differs is added to $different
	name=$1
	shift
	go tool pprof -symbolize=none "$@" 2>/dev/null | same_times >"$work/pprof"
	"$WICK" report -symbolize=none -q "$@" 2>"$work/err" | same_times | sed -E 's/(:-?[0-9]+):0 s=/\1 s=/' >"$work/wick"
	# Two times nothing is the same only if it was said why.
	cmp -s "$work/pprof" "$work/wick" && { [ -s "$work/pprof" ] || grep -q 'no function matches' "$work/err"; } && return 0
	different="$different
$name: $* ($(head -c 200 "$work/err"))
$(diff "$work/pprof" "$work/wick" | cut -c1-200 | head -n 6)"
	return 1
}
cat >"$work/options" <<'EOF'

-cum
-lines
-addresses
-files -cum
-filefunctions -noinlines
-nodecount=5
-nodecount=10 -cum -nodefraction=0.1 -edgefraction=0.05
-trim=false
-sample_index=0
-sample_index=0 -mean
-focus=main
-ignore=runtime|std
-hide=run -compact_labels
-show=a.*b|main -relative_percentages
-show_from=[mM]ain
-prune_from=alloc|Malloc
-unit=ms
-divide_by=3
-tagroot=bytes,key -tagleaf=request
-tagfocus=bytes=1kb:1mb
-tagshow=bytes
EOF
number=0
for profile in gobench.cpu gobench.heap cppbench.cpu cppbench.heap cppbench.contention java.cpu; do
	go tool pprof -symbolize=none -proto -output="$work/$profile.pb" "$profiles/$profile" >/dev/null 2>&1 || {
		fail "$profile is read by pprof"
		continue
	}
	different='' compared=0 number=$((number + 1))
	for mode in -top -tree -traces -dot -callgrind -raw -peek=.; do
		while IFS= read -r line; do
			# Frames of labels have other numbers, and a mapping without name and address is none here.
			case "$mode $line $profile" in "-raw -tagroot"* | "-raw "*java*) continue ;; esac
			# Each option with one mode for each profile; with all modes in the full run.
			number=$((number + 3))
			[ $((number % $(if_full 1 7))) -eq 0 ] || continue
			compared=$((compared + 1))
			# shellcheck disable=SC2086 # the options are words
			same "$profile" $mode $line "$work/$profile.pb"
		done <"$work/options"
	done
	[ -z "$different" ] && pass "$profile: $compared reports are those of go tool pprof" || fail "$profile: $compared reports" "$different"
done
"$WICK" report -proto -focus=runtime "$work/gobench.cpu.pb" -o "$work/half.pb" 2>/dev/null
different='' compared=0
for mode in -top -tree -dot -traces -callgrind -peek=main; do
	for base in -base -diff_base "-normalize -diff_base" "-drop_negative -base" "-trim=false -diff_base"; do
		for profile in gobench.cpu cppbench.cpu; do
			compared=$((compared + 1))
			# shellcheck disable=SC2086
			same "base" $mode $base="$work/half.pb" "$work/$profile.pb"
		done
	done
done
[ -z "$different" ] && pass "$compared comparisons with a base are those of go tool pprof" || fail "comparisons with a base" "$different"
different=''
same merge -tree "$work/gobench.cpu.pb" "$work/gobench.cpu.pb" "$work/half.pb" && pass "merged inputs give the tree of go tool pprof" || fail "merged inputs" "$different"
# The proto mode is what was filtered.
go tool pprof -symbolize=none -top "$work/half.pb" 2>/dev/null | sed '1,/flat%/d' >"$work/pprof"
"$WICK" report -top -focus=runtime -relative_percentages "$work/gobench.cpu.pb" 2>/dev/null | sed '1,/flat%/d' >"$work/wick"
check "go tool pprof reads what -proto wrote of a filtered profile" diff "$work/pprof" "$work/wick"

# wick diff: functions of one name and different files are one row, as there.
namesakes() { # OUT OF_A OF_B
	cat >"$work/namesakes.json" <<EOF
{"\$schema": "https://www.speedscope.app/file-format-schema.json",
 "shared": {"frames": [{"name": "main", "file": "/a.c"}, {"name": "parse", "file": "/a.c"}, {"name": "parse", "file": "/b.c"}]},
 "profiles": [{"type": "sampled", "name": "x", "unit": "milliseconds", "startValue": 0, "endValue": 1, "samples": [[0, 1], [0, 2]], "weights": [$2, $3]}]}
EOF
	"$WICK" convert -q "$work/namesakes.json" -o "$1"
}
namesakes "$work/before.pb" 100 200 && namesakes "$work/after.pb" 250 150
go tool pprof -symbolize=none -top -diff_base="$work/before.pb" "$work/after.pb" 2>/dev/null | sed '1,/flat%/d' >"$work/pprof"
"$WICK" diff "$work/before.pb" "$work/after.pb" | sed '1,/flat%/d' >"$work/wick"
check "diff adds up functions of one name as go tool pprof does" diff "$work/pprof" "$work/wick"
check "... in one row" [ "$(grep -c parse "$work/wick")" = 1 ]

# ---- sources and code ----
mkdir -p "$work/src/sample"
cp "$goldens/sample.go" "$work/src/sample/"
trim=/usr/local/google/home/sanjay/go/src/github.com/google/pprof/internal/report/testdata
for regex in busyLoop 'main|mapiter' .; do
	different=''
	same "list $regex" "-list=$regex" -source_path="$work/src" -trim_path=$trim "$goldens/sample.cpu" && [ "$(wc -l <"$work/wick")" -gt 3 ] &&
		pass "list $regex is that of go tool pprof" || fail "list $regex" "$different"
done
expect "list of nothing says so" 1 'no function matches "nothing_is_called_so"' "$WICK" report list nothing_is_called_so "$goldens/sample.cpu"
# Go's disassembler writes instructions otherwise, and counts the padding behind a function to it: the addresses with samples are compared.
sampled() { awk '/^ROUTINE/ || /flat, cum/ { print; next } / [0-9a-f]+: / && !($1 == "." && $2 == ".") { print $1, $2, $3 }' "$1"; }
for regex in main busyLoop 'mapiter|mapaccess'; do
	go tool pprof -disasm="$regex" "$goldens/sample.bin" "$goldens/sample.cpu" >"$work/pprof.asm" 2>/dev/null
	"$WICK" report disasm "$regex" "$goldens/sample.bin" "$goldens/sample.cpu" >"$work/wick.asm" 2>"$work/err"
	sampled "$work/pprof.asm" >"$work/pprof"
	sampled "$work/wick.asm" >"$work/wick"
	if [ -s "$work/wick" ]; then check "disasm $regex has the values of go tool pprof" diff "$work/pprof" "$work/wick"; else fail "disasm $regex" "$(cat "$work/err")"; fi
done
expect "disasm of an address is of the function there" 0 '^ROUTINE =+ main.busyLoop$' "$WICK" report disasm 0x4b4400 "$goldens/sample.bin" "$goldens/sample.cpu"

# ---- what a profile says is not believed ----
mkfifo "$work/pipe.c"
printf 'main;esc\033[31m\342\200\256x 5\n' >"$work/evil.folded"
"$WICK" report top "$work/evil.folded" >"$work/out" 2>&1
check "escape sequences of names do not reach the terminal" sh -c '! grep -q "$(printf "\033")" "$0" && grep -qF "esc?[31m" "$0"' "$work/out"
cat >"$work/fifo.json" <<EOF
{"\$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "f", "file": "$work/pipe.c", "line": 3}]},
 "profiles": [{"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 1, "samples": [[0]], "weights": [1]}]}
EOF
expect "list does not open pipes" 0 'Error: open .*pipe.c: not a regular file' timeout 20 "$WICK" report list f "$work/fifo.json"
printf '%s 1\n' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab >"$work/slow.folded"
expect "an expression that takes too long is an error" 1 'took too long' "$WICK" report -focus='(a+)+$' "$work/slow.folded"
expect "a bad expression is named" 1 '^wick report: bad regular expression for focus' "$WICK" report -focus='(' "$work/slow.folded"
expect "a filter that matches nothing is named" 0 'focus matched nothing' "$WICK" report -focus=nothing_is_called_so "$work/gobench.cpu.pb"
expect "an unknown sample type is named" 1 "no sample type 'wall'; it has: samples, cpu" "$WICK" report -sample_index=wall "$work/gobench.cpu.pb"

# ---- of a server ----
if start_server >"$work/start" 2>&1; then
	curl -sS --data-binary @"$work/p/cpu.pb" "$url/api/v1/ingest?label=service_name%3Dshop" >"$work/ingest" 2>&1
	if "$WICK" report top --url "$url" 'process_cpu:cpu:milliseconds:cpu:milliseconds:delta{service_name="shop"}' --nodefraction 0 >"$work/out" 2>"$work/err"; then
		check "a selector is asked of a server" grep -qE '^ +1\.10s 98\.21% 98\.21% +1\.10s 98\.21%  line1000$' "$work/out"
	else
		fail "a selector is asked of a server" "$(cat "$work/err" "$work/ingest")"
	fi
	stop_server
else
	fail "a server starts" "$(cat "$work/start")"
fi
finish
