#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that forge what Wick reads of interpreters (tests/programs/forge/forge.c): frames that lead to themselves, texts and tables without end,
# pointers to nowhere, names with escape sequences, other functions every millisecond, objects that change while they are read. They cost the recorder
# little, other processes nothing, and are shown as far as they can be.
. tests/lib.inc
need_sampling "forged"
[ "$(uname -m)" = x86_64 ] || {
	skip "forged" "only x86-64 so far"
	finish
}
forge=$PWD/tests/programs/forge
check "the library compiles" cc -shared -fPIC -O1 -fno-omit-frame-pointer -D_GNU_SOURCE -o "$work/forge.so" "$forge"/*.c -ldl -lpthread
# A process that lies takes MS of CPU time for each of 6 forgeries. The recorder may take as much as one of these, 1.2 s for finding out what there is, and
# 3 % of the time for what it samples of both: on a busy machine the forgeries take longer.
ms=$(if_full 1500 300)
cpu_max=$((ms + 1200))
kib_max=131072

# Beside it one that does not, which writes down its own stacks. What the recorder has used is asked before the symbols are read: at the end.
cat >"$work/both.sh" <<SH
exec 3>"$work/used"
used() { awk '{ print (\$14 + \$15) * 10 }' /proc/\$PPID/stat >&3; }
now() { awk '{ printf "%d\n", \$1 * 1000 }' /proc/uptime >&3; }
/usr/bin/python3 tests/programs/python/truth.py 3600 "$work/log" plain &
while [ ! -s "$work/log" ]; do sleep 0.1; done
used
now
"\$@" "$work/forge.so"
echo "ended \$?" >&3
used
sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/\$PPID/status >&3
now
kill \$!
SH
# KIND COMMAND...
forged() {
	kind=$1
	shift
	rm -f "$work/log"
	FORGE=$kind FORGE_MS=$ms "$WICK" record -F 199 -o "$work/$kind.pb.gz" -- sh "$work/both.sh" "$@" 2>"$work/err"
	"$WICK" convert "$work/$kind.pb.gz" -o "$work/out.speedscope.json" 2>>"$work/err"
	# CPU time and the clock before, how it ended, CPU time, memory and the clock after.
	read -r cpu_before began ended cpu kib now <<-END
		$(sed 's/^ended 0$/well/; s/ //g' "$work/used" | tr '\n' ' ')
	END
	check "$kind: all forgeries come to their end" test "$ended" = well
	cpu=$((${cpu:-0} - ${cpu_before:-0})) most=$((cpu_max + (${now:-0} - ${began:-0}) * 3 / 100))
	line="$cpu ms of CPU time, $((${kib:-0} / 1024)) MiB; $most ms, $((kib_max / 1024)) MiB at most"
	if [ "${kib:-0}" -gt 0 ] && [ "$cpu" -le $most ] && [ "$kib" -le $kib_max ]; then
		pass "$kind: the recorder takes little ($line)"
	else
		fail "$kind: the recorder takes little" "$line"
	fi
	if ! python3 "$forge/check.py" "$work/out.speedscope.json" "$kind" >"$work/said" 2>&1 || [ -s "$work/said" ]; then
		fail "$kind: samples have what can be shown" "$(cat "$work/said" "$work/err")"
	else
		pass "$kind: samples have what can be shown"
	fi
	python3 tests/programs/listed/check.py "$work/out.speedscope.json" "$work/log" >"$work/said" 2>&1
	if awk '/^samples/ { burn = $5 + 0; equal = $7 + 0 } END { exit !(burn >= 100 && equal >= 0.99 * burn) }' "$work/said"; then
		pass "$kind: the other process is as it says ($(sed -n 's/^samples[^,]*, //p' "$work/said"))"
	else
		fail "$kind: the other process is as it says" "$(cat "$work/said" "$work/err")"
	fi
}

/usr/bin/python3 -c 'import sys; exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && forged python /usr/bin/python3 "$forge/forge.py" || skip "python" "no /usr/bin/python3 of 3.11"
php -r 'exit(PHP_VERSION_ID < 80200 || PHP_VERSION_ID >= 80300 || !extension_loaded("FFI") || PHP_ZTS);' 2>/dev/null && forged php php "$forge/forge.php" || skip "php" "no PHP 8.2 with FFI"
ruby -rfiddle -e 'exit RUBY_VERSION.start_with?("3.1.")' 2>/dev/null && forged ruby ruby "$forge/forge.rb" || skip "ruby" "no Ruby 3.1"
node -e 'process.exit(process.versions.node.startsWith("20.") ? 0 : 1)' 2>/dev/null && forged v8 node "$forge/forge.js" || skip "v8" "no Node.js 20"
java --version 2>/dev/null | grep -q '^openjdk 1[1-9]\|^openjdk 2' && forged jvm java -Xint "$forge/Forge.java" || skip "jvm" "no JDK"

# Names in what people look at.
if [ -s "$work/python.pb.gz" ]; then
	"$WICK" convert "$work/python.pb.gz" -o "$work/out.html" 2>"$work/err"
	"$WICK" convert "$work/python.pb.gz" -o "$work/out.svg" 2>>"$work/err"
	check "no element of HTML in a page or a picture" test "$(grep -acE "<script>alert|<img src=x" "$work/out.html" "$work/out.svg" | cut -d : -f 2 | tr '\n' ' ')" = "0 0 "
	"$WICK" report traces "$work/python.pb.gz" >"$work/out.txt" 2>>"$work/err"
	check "no control character in a text" test "$(grep -c forged_names "$work/out.txt")" -gt 0 -a "$(tr -d '\n\t' <"$work/out.txt" | LC_ALL=C grep -acP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae')" = 0
	FORGE=python FORGE_ONLY=flood FORGE_MS=60000 launch /usr/bin/python3 "$forge/forge.py" "$work/forge.so" >"$work/flood.log" 2>&1
	flood=$!
	expect "doctor says of whom not all can be read" 0 'functions of python +they are too many, or too large' "$WICK" doctor --pid $flood --duration 5
	kill $flood
fi
finish
