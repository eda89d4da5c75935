#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick convert against google/pprof's own tool: totals, top tables and merges of every good file of the test data.
. tests/lib.inc
[ -d "$data/pprof" ] || {
	skip "convert" "no test data in $data"
	finish
}
export PPROF_NO_BROWSER=1 HOME="$work"
pprof() { go tool pprof "$@" 2>"$work/pprof.err"; }

# Sums per sample type of `pprof -raw`, "TYPE VALUE" a line. Values come before the colon, as many as there are types.
raw_totals() {
	pprof -raw -symbolize=none "$1" | awk '
	/^Samples:/ { getline; n = split($0, type, " "); samples = 1; next }
	/^Locations/ { samples = 0 }
	samples && /^ *-?[0-9]/ { line = $0; sub(/:.*/, "", line); k = split(line, v, " "); if (k == n) for (i = 1; i <= n; i++) sum[i] += v[i] }
	END { for (i = 1; i <= n; i++) { t = type[i]; sub(/\[dflt\]/, "", t); printf "%s %.0f\n", t, sum[i] } }'
}
sorted_raw() { # samples of `pprof -raw` by function names: independent of ids
	pprof -traces -symbolize=none "$1" | grep -v '^File\|^Build\|^Time\|^Duration\|^Type' | awk '/^-+\+-+/ { if (s) print s; s = ""; next } { gsub(/^ +| +$/, ""); gsub(/ +/, " "); s = s "|" $0 } END { if (s) print s }' | sort
}
for file in "$data"/pprof/google-profile/* "$data"/pprof/google-driver/*.cpu; do
	name=$(basename "$(dirname "$file")")/$(basename "$file")
	case $file in *.string) continue ;; esac
	if ! "$WICK" convert "$file" --from pprof -o "$work/out.pb" 2>"$work/err"; then
		fail "$name is read" "$(cat "$work/err")"
		continue
	fi
	raw_totals "$file" >"$work/want"
	raw_totals "$work/out.pb" >"$work/got"
	if [ -s "$work/want" ] && cmp -s "$work/want" "$work/got"; then pass "$name keeps its totals"; else fail "$name keeps its totals" "$(diff "$work/want" "$work/got")"; fi
done

# The top table is the oracle's own.
for file in gobench.cpu java.cpu go.crc32.cpu cppbench.cpu; do
	[ -e "$data/pprof/google-profile/$file" ] || continue
	"$WICK" convert "$data/pprof/google-profile/$file" -o "$work/one.pb.gz" 2>/dev/null || continue
	pprof -top -symbolize=none -nodefraction=0 -nodecount=100000 "$work/one.pb.gz" | awk 'seen { print $1, $2, $4, $5, $6 } /flat%/ { seen = 1 }' | sort >"$work/want"
	"$WICK" convert "$work/one.pb.gz" -o - --to top | awk 'seen { print $1, $2, $4, $5, $6 } /flat%/ { seen = 1 }' | sort >"$work/got"
	if [ -s "$work/want" ] && cmp -s "$work/want" "$work/got"; then pass "top of $file equals go tool pprof's"; else fail "top of $file equals go tool pprof's" "$(diff "$work/want" "$work/got")"; fi
done

# Merge of two equals `pprof -proto a b`, sample by sample.
merge_pair() { # NAME A B
	"$WICK" convert "$2" "$3" -o "$work/ours.pb.gz" 2>"$work/err" || {
		fail "merge of $1" "$(cat "$work/err")"
		return
	}
	pprof -proto -symbolize=none -output="$work/theirs.pb.gz" "$2" "$3" >/dev/null
	sorted_raw "$work/theirs.pb.gz" >"$work/want"
	sorted_raw "$work/ours.pb.gz" >"$work/got"
	if [ -s "$work/want" ] && cmp -s "$work/want" "$work/got"; then pass "merge of $1 equals pprof -proto ($(wc -l <"$work/want") samples)"; else fail "merge of $1 equals pprof -proto" "$(diff "$work/want" "$work/got")"; fi
}
"$WICK" convert "$data/pprof/google-profile/gobench.cpu" -o "$work/a.pb.gz" 2>/dev/null
"$WICK" convert "$data/pprof/google-profile/go.crc32.cpu" -o "$work/b.pb.gz" 2>/dev/null
if [ -e "$work/a.pb.gz" ]; then
	merge_pair "a profile with itself" "$work/a.pb.gz" "$work/a.pb.gz"
	[ -e "$work/b.pb.gz" ] && merge_pair "two profiles" "$work/a.pb.gz" "$work/b.pb.gz"
fi

# Formats keep the total: pprof -> folded -> pprof, pprof -> otlp -> pprof.
if [ -e "$work/a.pb.gz" ]; then
	"$WICK" convert "$work/a.pb.gz" -o "$work/a.folded"
	"$WICK" convert "$work/a.folded" -o "$work/c.pb.gz"
	want=$(raw_totals "$work/a.pb.gz" | tail -n 1 | cut -d' ' -f2)
	got=$(raw_totals "$work/c.pb.gz" | tail -n 1 | cut -d' ' -f2)
	check "folded keeps the total" [ "$want" = "$got" ]
	sum=$(awk '{ s += $NF } END { printf "%.0f\n", s }' "$work/a.folded")
	check "folded counts sum up" [ "$want" = "$sum" ]
	"$WICK" convert "$work/a.pb.gz" -o "$work/a.otlp"
	"$WICK" convert "$work/a.otlp" -o "$work/d.pb.gz"
	raw_totals "$work/a.pb.gz" | sort >"$work/want"
	raw_totals "$work/d.pb.gz" | sort >"$work/got"
	check "otlp keeps the totals" cmp "$work/want" "$work/got"
	"$WICK" convert "$work/a.pb.gz" -o "$work/a.svg"
	check "svg is well-formed" node -e 'const t = require("fs").readFileSync(process.argv[1], "utf8"); if (!/^<\?xml/.test(t) || !/<\/svg>\s*$/.test(t)) process.exit(1)' "$work/a.svg"
fi

# Malformed files: the listed verdict, exit status 1, one line that names the file.
while read -r name verdict why; do
	"$WICK" convert --from pprof "$data/pprof/malformed/$name" -o "$work/m.pb" 2>"$work/err"
	status=$?
	case $verdict in
	ACCEPT) check "$name is accepted" [ "$status" -eq 0 ] ;;
	REJECT)
		if [ "$status" -eq 1 ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "$name" "$work/err"; then pass "$name is refused"; else fail "$name is refused, naming the file, in one line" "status $status: $(cat "$work/err") ($why)"; fi
		;;
	esac
done <"$data/pprof/malformed/VERDICTS.tsv"
while read -r name verdict why; do
	"$WICK" convert --from otlp "$data/otlp/malformed/$name" -o "$work/m.pb" 2>"$work/err"
	status=$?
	# The zero value spelled out is not conformant, and accepted.
	[ "$name" != x_link0_zero_bytes_16_8.otlp ] || verdict=0
	if [ "$verdict" -eq 0 ]; then
		check "$name is accepted" [ "$status" -eq 0 ]
	elif [ "$status" -eq 1 ] && grep -q "$name" "$work/err"; then
		pass "$name is refused"
	else
		fail "$name is refused" "status $status: $(cat "$work/err") ($why)"
	fi
done <"$data/otlp/malformed/VERDICTS.tsv"
finish
