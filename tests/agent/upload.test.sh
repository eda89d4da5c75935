#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Agents send what names a binary's addresses to a server that may not open files: once, without a byte of code or data, at the rate that is set, going on where a connection broke. A proxy in between writes
# everything down.
. tests/lib.inc
need_sampling "upload"
uses go gcc objcopy dwz node || {
	skip "upload" "$missing"
	finish
}
unset DEBUGINFOD_URLS
rate=$((160 * 1024))
# Debug information of some 700 KB, and code and data that are found again if they are sent: random bytes, and many functions.
mkdir "$work/source" "$work/proxy" "$work/.debug"
head -c 65536 /dev/urandom >"$work/source/noise"
awk 'BEGIN {
	print "#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>"
	print "__asm__(\".section .rodata\\n.globl noise\\nnoise: .incbin \\\"noise\\\", 0, 32768\\n.data\\n.globl changing\\nchanging: .incbin \\\"noise\\\", 32768, 32768\\n.text\");"
	print "extern const unsigned char noise[32768]; extern unsigned char changing[32768];"
	srand(7)
	for (i = 0; i < 3000; i++) {
		printf "struct record_of_kind_%d { int first_%d; long second_%d; char *third_%d; };\n", i, i, i, i
		printf "__attribute__((noinline)) static long helper_%d(struct record_of_kind_%d *record, long x) { record->first_%d += (int)x; return x * %d + record->second_%d + noise[x & 32767]; }\n", i, i, i, int(rand() * 1000000), i
	}
	print "__attribute__((noinline)) long upload_spin_hard(long x)\n{\n\tlong sum = x;\n\tfor (long i = 0; i < 4000000; i++)\n\t\tsum = sum * 31 + noise[(sum + i) & 32767] + changing[i & 32767];\n\treturn sum;\n}"
	print "static long (*volatile helpers[])(void *, long) = {"
	for (i = 0; i < 3000; i++) printf "\t(long (*)(void *, long))helper_%d,\n", i
	print "};\nint main(int argc, char **argv)\n{\n\tlong sum = 0;\n\ttime_t until = time(NULL) + atoi(argv[1]);\n\twhile (time(NULL) < until) {\n\t\tsum += upload_spin_hard(sum);\n\t\tusleep(80000);\n\t}\n\tif (argc > 2)\n\t\tsum += helpers[sum & 1023](argv, sum);\n\treturn (int)(sum & 1);\n}"
}' >"$work/source/upload_spin.c"
check "a program is built" sh -c "cd $work/source && gcc -g -O1 -fno-omit-frame-pointer -Wl,--build-id=sha1 -o $work/upload_spin upload_spin.c"
# Two stripped programs, whose debug files lie beside them and share a third one.
cat >"$work/source/split.c" <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
struct shared_by_both { struct shared_by_both *next; long values[4]; const char *names[8]; double weights[16]; };
static inline __attribute__((always_inline)) long inner_step(struct shared_by_both *shared, long x) { shared->values[x & 3] += x; return x * 31 + shared->values[(x >> 8) & 3]; }
__attribute__((noinline)) long SPIN(struct shared_by_both *shared, long x)
{
	for (long i = 0; i < 4000000; i++)
		x = inner_step(shared, x);
	return x;
}
int main(int argc, char **argv)
{
	struct shared_by_both shared = {0};
	time_t until = time(NULL) + atoi(argv[1]);
	long x = argc;
	while (time(NULL) < until) {
		x = SPIN(&shared, x);
		usleep(80000); /* some samples are enough */
	}
	return (int)(x & 1);
}
END
split() { # NAME
	gcc -g -O1 -fno-omit-frame-pointer -DSPIN="$1_hard" -Wl,--build-id=sha1 -o "$work/$1" "$work/source/split.c" && objcopy --only-keep-debug "$work/$1" "$work/.debug/$1.debug"
}
strip_split() { strip "$work/$1" && objcopy --add-gnu-debuglink="$work/.debug/$1.debug" "$work/$1"; }
check "stripped programs are built" split split_one
check "stripped programs are built" split split_two
check "their debug files share one" sh -c "cd $work/.debug && dwz -m common.debug -M common.debug split_one.debug split_two.debug && test -s common.debug"
check "they are stripped" strip_split split_one
check "they are stripped" strip_split split_two
id_of() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }
build_id=$(id_of "$work/upload_spin")
common_id=$(id_of "$work/.debug/common.debug")
cat >"$work/server.yaml" <<END
host_files: false
END
need_server --config "$work/server.yaml"
cat >"$work/agent.yaml" <<END
debuginfo: {rate: ${rate}, file_size: 4MiB}
END
launch node tests/agent/upload_proxy.mjs "${url##*:}" "$work/proxy" --cut "$build_id" --only "$build_id,$(id_of "$work/split_one"),$(id_of "$work/split_two")" 2>"$work/proxy.log"
wait_for test -s "$work/proxy/port"
proxy_url="http://127.0.0.1:$(cat "$work/proxy/port")"
start_agent() { # LOG OPTION...: sets agent_pid
	agent_log=$1
	shift
	launch "$WICK" agent --server "$proxy_url" --config "$work/agent.yaml" -F 97 "$@" 2>"$agent_log"
	agent_pid=$!
}
value() { sed -n "s/^$1 //p" "$work/requests"; } # of upload_oracle.mjs
verify() { node tests/agent/upload_oracle.mjs requests "$work/proxy/requests" "$build_id" >"$work/requests"; }
finished() { node tests/agent/upload_oracle.mjs requests "$work/proxy/requests" "$1" | sed -n 's/^finished //p'; }
query() { # PROGRAM OPTION...
	program=$1
	shift
	"$WICK" query "process_cpu{process_executable_name=\"$program\"}" --url "$url" --from now-30m "$@"
}
tell() {
	cat "$work/requests" "$work"/agent*.log "$work/proxy.log"
	tail -n 20 "$work/proxy/requests" | cut -c 1-300
}
is() { # NAME VALUE [OPERATOR]
	if [ "$(value "$1")" "${3:--eq}" "$2" ]; then pass "$1: $(value "$1") (${3:--eq} $2)"; else fail "$1: $(value "$1") (${3:--eq} $2)" "$(tell)"; fi
}

for program in upload_spin split_one split_two; do
	"$work/$program" 3600 &
	pids="$pids $!"
done

# ---- off ----
start_agent "$work/agent_off.log" --no-debuginfo-upload
has_addresses() { query upload_spin --format folded -n 0 >"$work/before" 2>&1 && grep -q 'upload_spin+0x' "$work/before"; }
wait_for has_addresses >/dev/null
# Those of below ask some three seconds after a binary is known. A whole flush later this one would have, too.
wait_flush || fail "a flush is sent"
# It says which files there are, and sends none.
has_asked() { verify && [ "$(value asked)" -gt 0 ]; }
wait_for has_asked >/dev/null
kill "$agent_pid"
wait "$agent_pid"
verify
is profiles 0 -gt
is asked 0 -gt
is uploads 0
query upload_spin --format folded -n 0 >"$work/before" 2>&1
if grep -q 'upload_spin+0x' "$work/before" && ! grep -q upload_spin_hard "$work/before"; then pass "without debug information there are addresses"; else fail "without debug information there are addresses" "$(head -c 1000 "$work/before")"; fi

# ---- on, in two agents ----
start_agent "$work/agent_1.log"
agents=$agent_pid
start_agent "$work/agent_2.log"
agents="$agents $agent_pid"
all_sent() { verify && [ "$(value finished)" -gt 0 ] && [ "$(value finished_all)" -ge 4 ]; }
wait_for all_sent
is finished 1
[ "$(value finished)" -gt 0 ] || finish
is cuts 2
is told_elsewhere 1 -ge
is from_beginning 1
is rate_samples 1 -ge
is rate_max $((rate * 5 / 4)) -le
is bytes_arrived "$(value size)"
is size 500000 -gt
is finished_all 4
if [ "$(finished "$common_id")" -eq 1 ]; then pass "the file that debug files share is sent once"; else fail "the file that debug files share is sent once" "$(tell)"; fi
check "no code and no data is sent" node tests/agent/upload_oracle.mjs secret "$work/proxy/sent" "$work/upload_spin"
named() { # PROGRAM FILE LINE...: its hot function is named with one of these lines
	program=$1 file=$2
	shift 2
	for _ in $(seq 200); do
		query "$program" --format pprof -o "$work/after.pb.gz" 2>"$work/err" || return 1
		go tool pprof -symbolize=none -raw "$work/after.pb.gz" 2>/dev/null >"$work/after"
		for line in "$@"; do grep -qE "${program}_hard.*/$file:$line(:[0-9]+)? " "$work/after" && return; done
		sleep 0.2
	done
	grep "$program" "$work/after" | head -n 30
	curl -s "$url/api/v1/binaries?text=$program"
	return 1
}
line=$(grep -n 'sum = sum \* 31' "$work/source/upload_spin.c" | cut -d : -f 1)
check "functions, files and lines are named, without a restart" named upload_spin upload_spin.c $((line - 1)) "$line"
check "a stripped program is, by its debug file" named split_one split.c 8 9
check "another one is" named split_two split.c 8 9
# Their names are in the shared file, which may come behind the file that refers to it.
has_inlined() { named split_two split.c 8 9 >/dev/null && grep -qE 'inner_step.*split.c:5(:[0-9]+)? ' "$work/after"; }
wait_for has_inlined
if has_inlined; then pass "and calls that were inlined"; else fail "and calls that were inlined" "$(grep -n split "$work/after" | head)"; fi
for pid in $agents; do kill "$pid"; done
for pid in $agents; do
	if wait "$pid"; then pass "an agent ends as it should"; else fail "an agent ends as it should" "$(tell)"; fi
done
finish
