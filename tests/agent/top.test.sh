#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick top: a known load by its names, on a terminal (tmux) and as text; of this machine and of a server.
. tests/lib.inc
need_sampling "wick top"
uses tmux || {
	skip "wick top" "$missing"
	finish
}
cp "$O/programs/workload" "$work/known"
launch "$work/known" 36000 >"$work/known.out"
known=$!

# ---- as text ----
expect "without a terminal it says what to do" 1 'is not a terminal; use --batch' sh -c '"$0" top </dev/null | cat; exec "$0" top </dev/null' "$WICK"
launch "$WICK" top --batch -p "$known" -F 499 -d 0.5 --last 10m >"$work/text" 2>"$work/text.err"
text=$!
check "as text it goes on until it is stopped" wait_recording $text
wait_cpu 1500 "$known"
kill -INT $text
wait $text
check "... and ends well" test $? -eq 0
# The last picture: "    0.0    90.1   known   longTask"; the work is inlined, a function of its own in both.
last_of() { awk -v name="$1" '/^wick top:/ { total = "" } $NF == name { total = $2 } END { print total + 0 }' "$work/text"; }
share() { awk -v long="$(last_of longTask)" -v short="$(last_of shortTask)" 'BEGIN { share = long / (long + short); print long, short; exit !(share > 0.845 && share < 0.955) }'; }
check "functions have their shares" share
check "the load says what it is made of" grep -qE '^CPU [0-9.]+% of [0-9]+% \(kernel [0-9.]+%\); [0-9,]+ samples at 499 Hz, 0 lost, [0-9.]+% of stacks incomplete; wick itself [0-9.]+%$' "$work/text"
batch() { "$WICK" top --batch -n 1 -d 1 -p "$known" "$@" >"$work/out" 2>&1 || cat "$work/out"; }
has_tree() { batch -F 999 --view tree && awk '/ main$/ { main = NR } /longTask$/ { task = NR } END { exit !(main && task > main) }' "$work/out"; }
check "the tree has callers above what they call" wait_for has_tree
filtered() { batch -F 999 --filter SHORTtask && grep -q shortTask "$work/out"; }
check "a filter leaves what matches" wait_for filtered
check "... and nothing else" sh -c '! grep -q longTask "$0"' "$work/out"
kill "$known"
# From here on something only has to be there.
cp "$O/programs/load" "$work/partly"
launch "$work/partly" 36000 1 10 >"$work/partly.out"
partly=$!
cp "$O/programs/load" "$work/$(printf 'ev\033[2Jil')"
launch "$work/$(printf 'ev\033[2Jil')" 36000 1 4 >"$work/evil.out"
evil=$!
launch "$WICK" top --batch -d 2 -l 0 --view processes >"$work/all" 2>&1
all=$!
check "a process of the machine has its number, name and hottest function" wait_for grep -qE "^ +[0-9.]+ +[0-9.]+ +$partly +partly +[^ ]+$" "$work/all"
kill $all
wait $all
check "SIGTERM ends it well, too" test $? -eq 0
evil_named() { "$WICK" top --batch -n 1 -p $evil --view processes >"$work/out" 2>&1 && grep -q 'ev?\[2Jil' "$work/out"; }
check "no name sends sequences to the terminal" wait_for evil_named
check "... not one" sh -c '! grep -q "$(printf "\033")" "$0"' "$work/out"

# ---- on a terminal ----
socket=$work/tmux
tm() { tmux -S "$socket" "$@"; }
trap 'tm kill-server 2>/dev/null; cleanup' EXIT
pane() { tm capture-pane -p; }
on_pane() { pane | grep -qE -- "$1"; }
not_on_pane() { ! pane | grep -qE -- "$1"; }
see() { # NAME PATTERN
	if wait_for on_pane "$2"; then pass "$1"; else fail "$1" "$(pane)"; fi
}
miss() { # NAME PATTERN: what is seen meanwhile proves that the picture is a new one
	if wait_for not_on_pane "$2"; then pass "$1"; else fail "$1" "$(pane)"; fi
}
keys() { tm send-keys "$@"; }
# A shell with job control, in which the program runs.
tm -f /dev/null new-session -d -x 80 -y 24 "env -u NO_COLOR TERM=screen-256color LANG=C.UTF-8 PS1='prompt> ' bash --norc -i"
wait_for on_pane 'prompt>'
keys "echo before; $WICK top -p $partly -p $evil" Enter
see "functions are shown, the hottest first" '^ +[0-9.]+ +[0-9.]+   hash_some +(partly|ev\?\[2Jil)'
check "... with their heading" on_pane 'SELF%▽ +TOTAL% +FUNCTION +BINARY'
check "... and keys" on_pane 'F1Help.*F10Quit'
check "in colours" sh -c 'tmux -S "$0" capture-pane -e -p | grep -q "$(printf "\033")\[.*48;5;"' "$socket"
keys 2
see "processes" "^ +[0-9.]+ +[0-9.]+ +$partly partly +hash_some"
check "... with harmless names" on_pane "$evil ev\?\[2Jil"
keys N
see "by process id" 'PID▽'
keys Down Enter
see "one is entered" "in (partly $partly|ev\?\[2Jil $evil)"
keys 5
see "its tree" '├|└ main'
keys 6
see "its flame" '^ all [0-9.]+%'
keys BSpace 1 F4
keys copy
see "a filter is typed" 'Filter: copy'
miss "... and applies at once" hash_some
keys Enter
see "... and is kept" 'filter: copy'
keys Escape
see "... until it is cleared" hash_some
keys T
see "by total" 'TOTAL%▽'
keys Z
see "paused" 'PAUSED'
keys Z
miss "and not" 'PAUSED'
keys F1
see "help" 'reverse the order'
keys x
tm resize-window -x 40 -y 15
see "in 40 columns" '^1Func 2Proc 3Thr 4Bin 5Tree 6Flame *$'
see "... it has what matters" '^ +[0-9.]+ +[0-9.]+   hash_some'
tm resize-window -x 120 -y 40
see "in 120" '^ 1 Functions   2 Processes'
keys C-z
see "Ctrl-Z gives the terminal back" 'Stopped'
keys fg Enter
see "and fg takes it again" '^ 1 Functions   2 Processes'
keys q
see "it ends where it began" '^prompt> *$'
check "... with what was there before" on_pane '^before'
keys 'stty -a; echo status $?' Enter
see "the terminal is as it was" '^status 0'
check "... its lines and its echo" sh -c 'tmux -S "$0" capture-pane -p | grep -qE "(^| )isig icanon" && tmux -S "$0" capture-pane -p | grep -qE "(^| )echo "' "$socket"
keys "clear; NO_COLOR=1 LANG=C $WICK top -p $partly --view processes; echo status \$?" Enter
see "without colours and UTF-8" 'CPU%v +KERNEL%'
check "... there are none" sh -c '! tmux -S "$0" capture-pane -e -p | grep -qE "$(printf "\033")\[([0-9;]*;)?[34][0-8](;|m)"' "$socket"
kill -TERM "$(pgrep -P "$(tm display -p '#{pane_pid}')")"
see "a signal ends it, and the terminal is given back" '^status 0'
keys "clear; $WICK top -p $partly --last 0; echo status \$?" Enter
see "an error leaves the terminal alone" '^status 2'
tm kill-server

# ---- a server ----
start_server --local-read anyone || fail "the server starts"
launch "$WICK" agent --server "$url" -F 199 >"$work/agent.log" 2>&1
wait_sampling "$work/agent.log" $!
of_server() { "$WICK" top --batch -n 1 --url "$url" "process_cpu{process_pid=\"$partly\"}" "$@" >"$work/out" 2>&1; }
server_has() { of_server --view processes && grep -qE " $partly +partly +hash_some$" "$work/out"; }
check "a server's processes" wait_for server_has
of_server --view functions
check "... and functions" sh -c 'awk "/FUNCTION$/ { getline; exit !/hash_some$/ }" "$0"' "$work/out"
expect "a server refuses a selector" 1 'expected' "$WICK" top --batch -n 1 --url "$url" 'process_cpu{'
expect "where there is no server" 1 "wick up" "$WICK" top --batch -n 1 --url http://127.0.0.1:9
home=$(mktemp -d) || exit 1
trap 'tm kill-server 2>/dev/null; cleanup; rm -rf "$home"' EXIT
cp "$WICK" "$home/wick" && chmod 755 "$home" "$home/wick"
nobody() { setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --inh-caps=-all env HOME=/ "$@"; }
expect "who may not sample hears of what can be done" 1 'run as root.*-p PID.*--url URL' nobody env WICK_URL=http://127.0.0.1:9 "$home/wick" top --batch -n 1
check "... and sees the server's, if there is one" sh -c '"$@" | grep -q "no privileges to sample: from the server instead"' sh setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --inh-caps=-all env HOME=/ WICK_URL="$url" "$home/wick" top --batch -n 1
finish
