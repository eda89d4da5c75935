#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that were made to break the builder of symbol tables (bombs.py) end in bounded time and memory with a reason, and the next file
# is read as if nothing had been.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.inc
run=$(realpath "$O")/symbol/bomb_run
memory_mib=512 wall_s=300 # of the clock; CPU time is what ends them, however long that takes on a busy machine

expect "the worker's verb is not for people" 1 '^$' "$WICK" symbol-worker
check "help does not name the worker's verb" sh -c "! '$WICK' --help | grep symbol-worker"

check "bomb_run is built" make -s bombs
if ! uses python3; then
	skip "bombs" "python3, which makes them, is not installed"
	finish
fi
mkdir "$work/bombs"
check "bombs are made" python3 tests/symbol/bombs.py "$work/bombs"
cp "$run" "$work/bombs/harmless"
# The list is of words.
# shellcheck disable=SC2046
(cd "$work/bombs" && timeout 1500 "$run" --memory $memory_mib --cpu 3 --wall $wall_s $(cut -f 1 list) harmless) >"$work/out" 2>&1
echo "exit status $?" >>"$work/out"
while IFS="$(printf '\t')" read -r name expected; do
	line=$(grep "^$name " "$work/out")
	case ${line#* } in '') outcome="nothing was said of it" ;; *) outcome=${line#* } ;; esac
	if printf '%s\n' "$outcome" | grep -qE "$expected"; then pass "bomb $name"; else fail "bomb $name" "$outcome"; fi
done <"$work/bombs/list"
check "a harmless file after all that" grep -E '^harmless ok [0-9.]+ [1-9][0-9]{2,} functions, [1-9][0-9]{3,} rows, 0 of [1-9]' "$work/out"
# Whatever was said has words: an errno and a reason, or what is left out.
check "every failure has a reason" awk '$2 ~ /^E/ && NF < 6 { print; bad = 1 } END { exit bad }' "$work/out"
check "every bomb ends in time" awk -v max=$((wall_s + 10)) '$3 ~ /^[0-9.]+$/ && $3 > max { print; bad = 1 } END { exit bad }' "$work/out"
check "no descriptor is left" grep -x 'left 0' "$work/out"
if [ -n "${SAN:-}" ]; then
	skip "no worker takes more memory than it may" "address space cannot be limited under AddressSanitizer"
else
	check "no worker takes more memory than it may" awk -v max=$memory_mib '$1 == "peak" { seen = 1; print; if ($2 > max) exit 1 } END { exit !seen }' "$work/out"
fi

# Cut short while it is read: sooner or later in the reading, which ends in some way, but by itself.
for ms in 1 2 4 8 16 32; do
	cp "$WICK" "$work/cut"
	"$run" --cut $ms "$work/cut" >"$work/cut.out" 2>&1
	check "a file cut short after $ms ms" grep -E '^cut (ok|EBADMSG|ENOEXEC) ' "$work/cut.out"
	check "a file cut short after $ms ms leaves nothing" grep -x 'left 0' "$work/cut.out"
done
# The same in a server, to which somebody sends them: it says which file cost what, and names what is in the others.
cat >"$work/server.yaml" <<'END'
symbols:
  worker:
    memory: 512M
    cpu: 2s
END
all_done() {
	for _ in $(seq 1200); do
		"$WICK" debuginfo list --url "$url" >"$work/list" && grep -qE ' 0 queued 0 working ' "$work/list" && return 0
		sleep 0.1
	done
	cat "$work/list" "$work/server.log"
	return 1
}
said() { # NAME PATTERN: what the server says of the build-id of a bomb
	id=$(readelf -n "$work/bombs/$1" 2>/dev/null | sed -n 's/.*Build ID: //p')
	if [ -z "$id" ] || ! grep "$id" "$work/list" | grep -E "$2"; then
		echo "build-id: $id"
		cat "$work/list"
		return 1
	fi
}
if start_server --config "$work/server.yaml"; then
	for name in a_million_units_sharing_abbreviations ranges_without_end origins_in_a_circle harmless; do
		check "a server takes $name" "$WICK" debuginfo upload --url "$url" "$work/bombs/$name"
	done
	check "a server is done with all of them" all_done
	check "a server names what takes for ever" said a_million_units_sharing_abbreviations '^failed .*the worker needed more than 2 s of CPU time'
	[ -n "${SAN:-}" ] || check "a server names what wants all memory" said ranges_without_end '^failed .*the worker needed more than 512.0 MiB of memory'
	check "a server reads what goes in circles" said origins_in_a_circle '^(complete|partial) '
	check "a server reads what is harmless" said harmless '^complete '
	stop_server
else
	fail "a server starts" "$(cat "$work/server.log")"
fi
finish
