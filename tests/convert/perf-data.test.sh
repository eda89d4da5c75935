#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recordings of perf: converted on the machine that they were made on they have names, the same as perf gives.
. tests/lib.inc
uses perf || {
	skip "perf.data" "perf is not installed"
	finish
}
cat >"$work/spin.c" <<'END'
#include <pthread.h>
volatile unsigned long sum;
__attribute__((noinline)) void inner(unsigned n) { for (unsigned i = 0; i < n; i++) sum += i * i; }
__attribute__((noinline)) void outer(unsigned n) { for (unsigned i = 0; i < n; i++) inner(1000); sum++; }
static void *run(void *arg) { for (int i = 0; i < 20; i++) outer(3000); sum++; return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); run(0); pthread_join(t, 0); return 0; }
END
gcc -O0 -g -fno-omit-frame-pointer -pthread "$work/spin.c" -o "$work/spin" || {
	skip "perf.data" "no compiler"
	finish
}
# The same without frame pointers, and deeper.
sed -e 's/for (int i = 0; i < 20; i++) outer(3000)/down(12)/' -e 's/static void \*run/__attribute__((noinline)) void down(int n) { if (n) down(n - 1); else for (int i = 0; i < 20; i++) outer(3000); sum++; }\n&/' "$work/spin.c" >"$work/deep.c"
gcc -O1 -g -fomit-frame-pointer -fno-optimize-sibling-calls -pthread "$work/deep.c" -o "$work/deep"
# Some versions of perf die at the end over build-ids that they have misread (-B: without them).
if ! perf record -q -F 999 -g -o "$work/perf.data" "$work/spin" 2>"$work/err" && ! perf record -q -B -F 999 -g -o "$work/perf.data" "$work/spin" 2>"$work/err"; then
	skip "perf.data" "perf cannot record: $(head -n 1 "$work/err")"
	finish
fi
convert() { "$WICK" convert "$@" 2>>"$work/convert.err"; }
# OUT FIELDS: perf's text of the recording. It dies over those build-ids too, sometimes.
script() {
	for _ in 1 2 3 4 5; do
		perf script -i "$work/perf.data" --no-inline -F "$2" >"$1" 2>"$work/err" && return
	done
	skip "perf.data" "perf script fails: $(head -n 1 "$work/err")"
	finish
}
script "$work/stacks.txt" ip,sym
script "$work/times.txt" time
script "$work/files.txt" ip,sym,dso

# Stacks of the program's own functions and how many samples each has, root first.
awk '$2 ~ /^(main|run|outer|inner)$/ { s = s ? $2 ";" s : $2 } NF == 0 { if (s) n[s]++; s = "" } END { for (s in n) print s, n[s] }' "$work/stacks.txt" | sort >"$work/want"
own_stacks() { awk '{ c = $NF; sub(/ [0-9]+$/, ""); k = split($0, f, ";"); s = ""; for (i = 1; i <= k; i++) if (f[i] ~ /^(main|run|outer|inner|down)$/) s = s ? s ";" f[i] : f[i]; if (s) n[s] += c } END { for (s in n) print s, n[s] }' "$1" | sort; }
convert "$work/perf.data" --sample-type samples -o "$work/out.folded"
own_stacks "$work/out.folded" >"$work/got"
check "there are stacks of the program" grep -q 'run;outer;inner' "$work/want"
check "stacks by name are perf's" cmp "$work/want" "$work/got"
check "all of perf's samples are there" [ "$(grep -c . "$work/times.txt")" -eq "$(awk '{ n += $NF } END { print n }' "$work/out.folded")" ]

# Lines are those of the source.
convert "$work/perf.data" -o "$work/out.pb.gz"
if ! uses go; then skip "frames have files and lines" "no go command"; else check "frames have files and lines" sh -c "go tool pprof -raw '$work/out.pb.gz' 2>/dev/null | grep -E ' inner $work/spin.c:3'"; fi

# The kernel's names, where there are frames of it that perf can name. Of the names that one address has, each may choose another.
awk '/\[kernel/ && $2 != "[unknown]" { print $2 }' "$work/files.txt" | sort -u >"$work/kernel"
if [ -s "$work/kernel" ] && [ "$(id -u)" -eq 0 ]; then
	tr ';' '\n' <"$work/out.folded" | sed -n 's/_\[k\].*//p' | sort -u >"$work/named"
	unnamed() { # NAMED KALLSYMS KERNEL: lines of KERNEL that are not in NAMED, by no other name of their address either
		awk 'FILENAME == ARGV[1] { named[$1]; next } FILENAME == ARGV[2] { at[$3] = $1; if ($3 in named) taken[$1]; next } !($1 in named) && !(at[$1] in taken)' "$@"
	}
	missing=$(unnamed "$work/named" /proc/kallsyms "$work/kernel" | wc -l)
	all=$(wc -l <"$work/kernel")
	check "kernel functions have perf's names ($missing of $all differ)" [ $((missing * 10)) -le $((all + 9)) ]
else
	skip "kernel functions have perf's names" "perf names none here"
fi

# Copies of stacks: unwound here, and by perf with the library that it is built with.
if perf record -q -F 999 --call-graph dwarf -o "$work/dwarf.data" "$work/deep" 2>"$work/err" || perf record -q -B -F 999 --call-graph dwarf -o "$work/dwarf.data" "$work/deep" 2>"$work/err"; then
	for _ in 1 2 3 4 5; do
		perf script -i "$work/dwarf.data" --no-inline -F ip,sym >"$work/dwarf.txt" 2>"$work/err" && break
	done
	awk '$2 ~ /^(main|run|outer|inner|down)$/ { s = s ? $2 ";" s : $2 } NF == 0 { if (s) n[s]++; s = "" } END { for (s in n) print s, n[s] }' "$work/dwarf.txt" | sort >"$work/dwarf.want"
	convert "$work/dwarf.data" --sample-type samples -o "$work/dwarf.folded"
	own_stacks "$work/dwarf.folded" >"$work/dwarf.got"
	check "copies of stacks are unwound" grep -q 'main;run;\(down;\)\{13\}outer;inner' "$work/dwarf.got"
	if grep -q 'down;down;down;down;outer;inner' "$work/dwarf.want"; then
		check "... as perf does" cmp "$work/dwarf.want" "$work/dwarf.got"
	else
		skip "... as perf does" "perf script fails: $(head -n 1 "$work/err")"
	fi
	"$WICK" convert "$work/dwarf.data" --symbols never --sample-type samples -o "$work/dwarf.folded" 2>"$work/err"
	check "without files only the innermost frame is known, which is reported" grep -q 'copies of stacks (--call-graph dwarf): user frames\|could not be unwound' "$work/err"
else
	skip "copies of stacks are unwound" "perf cannot copy stacks: $(head -n 1 "$work/err")"
fi

# Without names, and when the recording says that it is of another machine.
convert "$work/perf.data" --symbols never --sample-type samples -o "$work/none.folded"
check "--symbols never leaves addresses" sh -c "grep -q 'spin+0x' '$work/none.folded' && ! grep -q inner '$work/none.folded'"
expect "--symbols is checked" 2 "'perhaps' is not one of" "$WICK" convert "$work/perf.data" --symbols perhaps -o "$work/none.folded"

# For Firefox Profiler: the recording, and its text as perf script prints it, have the same stacks.
"$WICK" import -q "$work/perf.data" --sample-type samples -o "$work/data.firefox.json.gz" 2>>"$work/convert.err"
perf script -i "$work/perf.data" --no-inline 2>/dev/null | "$WICK" import -q - --sample-type samples -o "$work/text.firefox.json.gz" 2>>"$work/convert.err"
for from in data text; do
	convert -q "$work/$from.firefox.json.gz" -o "$work/$from.folded"
	own_stacks "$work/$from.folded" >"$work/got"
	check "import of the $from has perf's stacks" cmp "$work/want" "$work/got"
done

# A pipe, compressed; standard input.
if perf record -q -B -z -o /dev/null true 2>"$work/err"; then
	perf record -q -F 999 -g -z -o - "$work/spin" 2>/dev/null | convert - --sample-type samples -o "$work/pipe.folded"
	check "a compressed pipe has names" grep -q 'run;outer;inner' "$work/pipe.folded"
else
	skip "a compressed pipe has names" "perf cannot compress: $(head -n 1 "$work/err")"
fi

# Code made at run time: the names that the runtime wrote.
if uses node; then
	echo 'require("fs").writeFileSync("pid", String(process.pid)); function hotloop(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s } let t = 0; const end = Date.now() + 1500; while (Date.now() < end) t += hotloop(1e6)' >"$work/jit.js"
	# node leaves a log where it runs.
	(cd "$work" && perf record -q -F 999 -g -o jit.data node --perf-basic-prof --interpreted-frames-native-stack jit.js 2>/dev/null)
	convert "$work/jit.data" -o "$work/jit.folded"
	check "JIT functions have the names of the perf map" grep -qE 'hotloop' "$work/jit.folded"
	rm -f /tmp/perf-"$(cat "$work/pid")".map
fi
finish
