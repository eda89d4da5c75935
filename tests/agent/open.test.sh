#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick record --open: what was recorded is written and shown, until Ctrl-C. What is served, and to whom: tests/convert/open.mjs.
. tests/lib.inc
need_sampling "record --open"
# NAME LOG: waits for the links of the process $pid; sets page.
wait_page() {
	page=
	for _ in $(seq 600); do
		if grep -q 'Firefox Profiler: ' "$2"; then
			page=$(sed -n 's/^ *page: *//p' "$2")
			pass "$1"
			return
		fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	fail "$1" "$(cat "$2")"
}
shows() { curl -sf --compressed "${page}profile.json" >"$work/shown.json" && grep -q "\"$1\"" "$work/shown.json"; }
# NAME LOG: the process $pid ends with status 0.
ends() {
	wait "$pid"
	status=$?
	if [ "$status" -eq 0 ]; then pass "$1"; else fail "$1" "status $status: $(cat "$2")"; fi
}
record() { # LOG OPTION...: in the background
	log=$1
	shift
	launch "$WICK" record --open "$@" >"$work/out" 2>"$log"
	pid=$!
}

record "$work/log" -o "$work/app.pb.gz" -- "$O/programs/workload" 1cpu
wait_page "the links are printed" "$work/log"
check "the profile is shown" shows longTask
check "its page is" sh -c 'curl -sf "$1" | grep -q "<title>workload"' - "$page"
check "the file was written before" "$WICK" convert -q "$work/app.pb.gz" -o "$work/app.folded"
check "and has the same" grep -q longTask "$work/app.folded"
kill -INT "$pid"
ends "Ctrl-C ends it with status 0" "$work/log"

# SIGTERM is meant for all of it: during the recording nothing is shown, and what is shown ends, and the command with it.
record "$work/term.log" -o "$work/term.folded" -- sh -c 'trap "exit 0" TERM; : >"$0"; while :; do :; done' "$work/ready"
wait_for test -e "$work/ready" && wait_recording "$pid"
wait_cpu 500 "$(pgrep -P "$pid" -x sh)"
kill -TERM "$pid"
ends "SIGTERM during the recording ends it with the status of the command" "$work/term.log"
check "the recording was written" test -s "$work/term.folded"
check "and not shown" sh -c '! grep -q "Firefox Profiler: " "$1"' - "$work/term.log"
record "$work/term.log" -d 1 -o "$work/term2.folded" -- sh -c 'trap "exit 0" TERM; : >"$0"; while :; do :; done' "$work/ready2"
wait_for test -e "$work/ready2"
wait_page "the links are printed while another command goes on" "$work/term.log"
kill -TERM "$pid"
ends "SIGTERM ends what is shown, and the command" "$work/term.log"

# A command that outlives the recording is waited for, but not before it is shown.
cat >"$work/app" <<'APP'
#!/bin/sh
"$APP_PROGRAM" 1000 &
trap 'kill $!; exit 0' TERM
echo $$ >"$APP_PID"
wait
APP
chmod 755 "$work/app"
export APP_PID="$work/app.pid" APP_PROGRAM="$O/programs/workload"
record "$work/long.log" -d 4 -o "$work/long.firefox.json" -- "$work/app"
wait_page "the links are printed while the command goes on" "$work/long.log"
check "it does go on" kill -0 "$(cat "$work/app.pid")"
check "it is shown" shows longTask
kill -INT "$pid"
kill "$(cat "$work/app.pid")"
ends "both end" "$work/long.log"

# The Ctrl-C that ends the recording does not end the showing.
"$O/programs/workload" 1000 >/dev/null &
target=$!
pids="$pids $target"
record "$work/two.log" -o "$work/two.pb.gz" -p "$target"
wait_recording "$pid"
wait_cpu 500 "$target"
kill -INT "$pid"
wait_page "a recording that Ctrl-C ended is shown" "$work/two.log"
check "with its samples" shows longTask
kill -INT "$pid"
ends "the next Ctrl-C ends it" "$work/two.log"
expect "--listen is for --open" 2 'require --open' "$WICK" record --listen 127.0.0.1:0 -a
expect "--open listens on this machine only" 2 'served on this machine only' "$WICK" record --open --listen 0.0.0.0:0 -a
finish
