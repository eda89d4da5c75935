#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs as they are installed, not built for this: the share of their user stacks that reach the root, why the others do not, and in which code they end.
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-12} hz=199
dir=$work/real
mkdir -p "$dir"
chmod 755 "$work" "$dir"

row() { # NAME COMMAND...
	name=$1
	shift
	timeout $((seconds + 30)) "$WICK" record -F "$hz" -d "$seconds" -o "$dir/out.folded" -- "$@" >"$dir/log" 2>&1
	line=$(sed -n 's/^ *user stacks complete: //p' "$dir/log" | tail -n 1)
	[ -n "$line" ] || {
		printf '| %s | not run: %s | | |\n' "$name" "$(tail -n 1 "$dir/log")"
		return
	}
	# Behind [unknown stack] stands the outermost frame that was found.
	ends=$(awk '{ n = $NF; $NF = ""; k = split($0, f, ";"); for (i = 1; i < k; i++) if (f[i] ~ /unknown stack/) { sub(/ +$/, "", f[i + 1]); c[f[i + 1]] += n; break } }
		END { for (name in c) print c[name], name }' "$dir/out.folded" | sort -rn | head -n 3 | cut -d ' ' -f 2- | cut -c 1-60 | paste -sd ',' | sed 's/,/, /g')
	printf '| %s | %s | %s | %s | %s |\n' "$name" "$(echo "$line" | sed 's/.* of \([0-9]*\).*/\1/')" "${line%% of*}" "$(echo "$line" | sed 's/^[^,]*,* *//')" "$ends"
}
have() { command -v "$1" >/dev/null 2>&1; }

echo "$hz Hz, up to $seconds s each"
echo "| program | samples | complete | others | outermost frames of those |"
echo "|---|---|---|---|---|"
have python3 && row python3 python3 -c "
import time, json, re
end = time.time() + $seconds
while time.time() < end:
	sorted(json.loads(json.dumps([{'a': i, 'b': str(i)} for i in range(2000)])), key=lambda x: x['b']); re.findall(r'(\d+)x', '12x 13x ' * 500)"
have node && row node node -e "
const end = Date.now() + $seconds * 1000; let n = 0;
while (Date.now() < end) { n += JSON.stringify(Array.from({length: 1000}, (_, i) => ({i, s: String(i)})).sort((a, b) => a.s < b.s ? -1 : 1)).length }"
if have java; then
	cat >"$dir/Busy.java" <<JAVA
public class Busy { public static void main(String[] a) { long end = System.currentTimeMillis() + $seconds * 1000L; long n = 0;
	while (System.currentTimeMillis() < end) { var l = new java.util.ArrayList<String>(); for (int i = 0; i < 5000; i++) l.add(Integer.toString(i * 7919 % 5000)); java.util.Collections.sort(l); n += l.hashCode(); }
	System.out.println(n); } }
JAVA
	row java java "$dir/Busy.java"
fi
if have go; then
	mkdir -p "$dir/go"
	cat >"$dir/go/main.go" <<GO
package main
import ("fmt"; "sort"; "time"; "encoding/json")
func main() { end := time.Now().Add($seconds * time.Second); n := 0
	for time.Now().Before(end) { l := make([]string, 2000); for i := range l { l[i] = fmt.Sprint(i * 7919 % 2000) }; sort.Strings(l); b, _ := json.Marshal(l); n += len(b) }
	fmt.Println(n) }
GO
	(cd "$dir/go" && HOME=$dir GO111MODULE=off go build -o busy main.go) >/dev/null 2>&1 && row go "$dir/go/busy"
fi
if have rustc; then
	cat >"$dir/busy.rs" <<RS
use std::collections::HashMap;
fn main() { let end = std::time::Instant::now() + std::time::Duration::from_secs($seconds); let mut n = 0;
	while std::time::Instant::now() < end { let mut l: Vec<String> = (0..2000).map(|i| (i * 7919 % 2000).to_string()).collect(); l.sort(); let m: HashMap<&String, usize> = l.iter().zip(0..).collect(); n += m.len(); }
	println!("{}", n); }
RS
	rustc -O -o "$dir/busy_rs" "$dir/busy.rs" >/dev/null 2>&1 && row rustc-built "$dir/busy_rs"
fi
have openssl && row "openssl speed" openssl speed -seconds 1 sha256 sha512 rsa2048 ecdsap256 ed25519
if have gcc; then
	awk 'BEGIN { for (i = 0; i < 4000; i++) printf "int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) { if (a[i] %% %d) s += a[i] * i; else s ^= a[(i * %d) %% n]; } return s; }\n", i, i, i + 2, i + 3 }' >"$dir/big.c"
	row gcc gcc -O2 -c -o "$dir/big.o" "$dir/big.c"
fi
have sqlite3 && row sqlite3 sqlite3 :memory: "CREATE TABLE t(a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) INSERT INTO t SELECT i * 7919 % 100003, hex(i * 31) FROM n;
CREATE INDEX x ON t(b); SELECT count(*), max(b) FROM t WHERE b LIKE '%3A%'; SELECT a, count(*), group_concat(substr(b, 1, 3)) FROM t GROUP BY a ORDER BY 2 DESC LIMIT 3;"
if have postgres && have initdb && have setpriv; then
	chmod 777 "$dir"
	as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	if as_nobody initdb -D "$dir/pg" >/dev/null 2>&1; then
		echo "SELECT count(*), sum(length(md5(i::text))) FROM generate_series(1, 6000000) i; SELECT count(*) FROM (SELECT i FROM generate_series(1, 3000000) i ORDER BY md5(i::text)) s;" >"$dir/q.sql"
		row postgres setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "exec postgres --single -D '$dir/pg' postgres <'$dir/q.sql'"
	fi
fi
