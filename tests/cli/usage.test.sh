#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line's contract: exit status 0, 1, 2; help on stdout; errors on stderr, once, saying what, why and what to do.
. tests/lib.inc

expect "no command is a usage error" 2 '^usage: wick COMMAND' "$WICK"
expect "--help works" 0 '^  record ' "$WICK" --help
expect "--version works" 0 '^wick [0-9]+\.[0-9]+\.[0-9]+$' "$WICK" --version
expect "an unknown command is named" 2 "unknown command 'recrod'" "$WICK" recrod
for verb in up server agent record top open import annotate query saved diff store convert merge report debuginfo token doctor; do
	expect "$verb --help works" 0 "^usage: wick $verb" "$WICK" "$verb" --help
	expect "$verb refuses an unknown option" 2 "unknown option '--nonsense'" "$WICK" "$verb" --nonsense
	stdout=$("$WICK" "$verb" --nonsense 2>/dev/null)
	[ -z "$stdout" ] && pass "$verb: errors go to stderr only" || fail "$verb: errors go to stderr only" "$stdout"
done
expect "record needs a target" 2 'one of -a, -p PID, or -- CMD' "$WICK" record
expect "record takes one kind of target" 2 'a command exclude each other' "$WICK" record -a -p 1
expect "record wants dashes before a command" 2 'put .--. before the command' "$WICK" record true
expect "record refuses an unknown extension early" 2 'cannot determine the format' "$WICK" record -a -o out.xyz
expect "record refuses a bad rate" 2 'not between 1 and 10000' "$WICK" record -F 0 -a
expect "record names a bad process id" 1 "not a process id" "$WICK" record -p abc
expect "record names a missing process" 1 "no process 4194303|no process" "$WICK" record -p 4194303
expect "record --remote refuses what agents are not told" 2 '--remote excludes --markers-only' "$WICK" record --remote http://127.0.0.1:9 --markers-only -o x.firefox.json
expect "record --remote shows only with --open, too" 2 'require --open' "$WICK" record --remote http://127.0.0.1:9 --browser none -o x.firefox.json
expect "record --remote names what is no tenant" 2 "a tenant's name may contain" "$WICK" record --remote http://127.0.0.1:9 --tenant a/b -o x.firefox.json
expect "an agent does, too" 2 "a tenant's name may contain" "$WICK" agent --server http://127.0.0.1:9 --tenant a/b
expect "top refuses a selector of nothing" 2 'require --url' "$WICK" top process_cpu
expect "top samples or asks a server, not both" 2 'excludes -p' "$WICK" top --url http://127.0.0.1:9 -p 1
expect "top names a view that it does not have" 2 'not one of functions, processes' "$WICK" top --view cpus
expect "top names a missing process" 1 'no process 4194303' "$WICK" top --batch -p 4194303
expect "top shows nothing that is over before the next picture" 2 'shorter than --delay' "$WICK" top -d 10 --last 1
expect "query needs a selector" 2 'expected one query' "$WICK" query
expect "query refuses an unknown format" 2 "not one of top, folded" "$WICK" query x --format xml
expect "query without a server says what to do" 1 "wick up" "$WICK" query process_cpu --url http://127.0.0.1:9
expect "agent needs a server" 2 'give --server URL' "$WICK" agent
expect "convert needs an input" 2 'no input file' "$WICK" convert -o x.pb
expect "report needs an input" 2 'no input' "$WICK" report top
expect "report takes one report at a time" 2 'give one report only' "$WICK" report -top -tree x.pb
expect "report peek needs an expression" 2 'give a regular expression' "$WICK" report peek
expect "convert needs an output" 2 'no output file' "$WICK" convert x.pb
printf 'main;work 5\n' >"$work/five.folded"
expect "convert does not call zstd what is none" 2 'zstd is supported for reading only' "$WICK" convert "$work/five.folded" -o "$work/x.pb.zst"
expect "convert does not call JSON what is protobuf" 2 'OTLP as JSON is supported for reading only' "$WICK" convert "$work/five.folded" -o "$work/x.otlp.json"
expect "convert names a missing file" 1 'does-not-exist.pb.gz.*No such file' "$WICK" convert does-not-exist.pb.gz -o "$work/x.pb"
expect "open needs an input" 2 'no input file' "$WICK" open
expect "open listens on this machine only" 2 'served on this machine only' "$WICK" open x.pb --listen 0.0.0.0:3000
expect "open names a browser that it does not know" 2 'not one of firefox-profiler, page, none' "$WICK" open x.pb --browser netscape
expect "open names a missing file" 1 'does-not-exist.pb.gz.*No such file' "$WICK" open does-not-exist.pb.gz
expect "import needs an input" 2 'no input file' "$WICK" import
expect "import shows only with --open" 2 'require --open' "$WICK" import x.pb --browser page
expect "import replaces no input" 2 'would replace itself' "$WICK" import x.firefox.json.gz
expect "annotate needs a profile" 2 'no profile' "$WICK" annotate
expect "annotate needs markers" 2 'give --markers FILE' "$WICK" annotate x.json
expect "annotate takes one profile" 2 'only one profile is allowed' "$WICK" annotate x.json y.json
expect "annotate names a bad offset" 2 "not a number of nanoseconds" "$WICK" annotate x.json --markers y.json --offset 1s
expect "annotate names a bad clock" 2 "not one of auto, monotonic, wall" "$WICK" annotate x.json --markers y.json --clock sun
expect "annotate names a missing file" 1 'does-not-exist.json.*No such file' "$WICK" annotate x.json --markers does-not-exist.json -o "$work/x.json"
expect "doctor has a table made in the sandbox" 0 '^ok +symbol tables +built in a sandbox; [1-9][0-9]{3,} functions' sh -c '"$0" doctor || true' "$WICK"
expect "server refuses to listen openly" 1 'refusing to listen on 0.0.0.0' "$WICK" server --data "$work/d" --listen 0.0.0.0:0
expect "a malformed duration is named" 2 "tomorrow|--keep" "$WICK" record -d tomorrow -a
echo "listen: 127.0.0.1:0
retention: {age: 3 moons}" >"$work/bad.yaml"
expect "a bad setting is named with file and line" 1 "bad.yaml: line 2: 'retention.age'" "$WICK" server --data "$work/d" --config "$work/bad.yaml"
echo "listn: x" >"$work/bad.yaml"
expect "an unknown setting is refused" 1 "'listn': unknown setting" "$WICK" server --data "$work/d" --config "$work/bad.yaml"
printf 'server: x\nfrequncy: 19\n' >"$work/bad.yaml"
expect "a setting that the agent does not know is named with its neighbour" 1 "bad.yaml: line 2: 'frequncy' is not a setting; did you mean 'frequency'" "$WICK" agent --config "$work/bad.yaml"
echo "frequency: 19" >"$work/agent.yaml"
expect "an agent's file without a server is not enough" 2 'give --server URL' "$WICK" agent --config "$work/agent.yaml"
echo "server: x" >"$work/bad.yaml"
expect "up refuses a server in the agent's file" 1 "'server' does not apply to wick up" "$WICK" up --data "$work/d" --agent-config "$work/bad.yaml"
printf 'secret-token-1\n' >"$work/token"
chmod 644 "$work/token"
expect "a token that others can read is refused" 1 "chmod 600" "$WICK" server --data "$work/d" --token-file "$work/token" --listen 127.0.0.1:0
# A server that is gone must not leave open whether it was ended or crashed. A shell starts it with SIGINT ignored.
for signal in INT TERM; do
	launch "$WICK" server --data "$work/stopped" --listen 127.0.0.1:0 2>"$work/stopped.log"
	server=$!
	wait_url "$work/stopped.log" $server || fail "a server starts" "$(cat "$work/stopped.log")"
	kill -$signal $server
	wait $server
	check "a server logs that SIG$signal ended it" grep -q "info server: stopped by SIG$signal" "$work/stopped.log"
done
# The table of variables in docs/configuration.md is that of the options.
for verb in up server agent; do
	"$WICK" $verb --completions | awk -F '\t' -v verb=$verb '$1 != "--help" && $1 != "--spool" {
		name = substr($1, 3); variable = toupper(name); gsub(/-/, "_", variable)
		print "WICK_" variable "|--" name ($3 == "" ? "" : " " $3) "|" verb }'
done | sort >"$work/options"
sed -nE 's/^\| `(WICK_[A-Z_]+)` \| `([^`]*)` \| (.*) \|$/\1|\2|\3/p' docs/configuration.md |
	awk -F '|' '{ n = split($3, verbs, ", "); for (i = 1; i <= n; i++) print $1 "|" $2 "|" verbs[i] }' | sort >"$work/variables"
check "docs/configuration.md has each variable" diff "$work/options" "$work/variables"
# WORD...: what bash completes the last of these with.
completed() {
	# shellcheck disable=SC2016 # of bash
	PATH="$(dirname "$WICK"):$PATH" bash -c '. packaging/completions/wick.bash; COMP_WORDS=(wick "$@") COMP_CWORD=$#; _wick; echo "${COMPREPLY[*]}"' bash "$@"
}
check "bash completes verbs" test "$(completed sto)" = store
check "bash completes actions" test "$(completed store re)" = repair
check "bash completes options" test "$(completed store repair --dry)" = --dry-run
check "bash completes choices" test "$(completed top --view thr)" = threads
check "each action that the synopsis has is completed" sh -c 'for verb in store saved debuginfo token; do "$1" $verb --completions | awk -F "\t" "\$1 == \"\" { print \$4 }" | tr -d "," | tr " " "\n" |
	while read -r action; do "$1" $verb --help | head -n 1 | grep -qw -- "$action" || exit 1; done || exit 1; done' sh "$WICK"
finish
