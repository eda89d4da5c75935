#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shares of 25 functions by `wick record` and by the profilers that languages have of their own, of the same process at the same time: py-spy, rbspy,
# Node.js's own, async-profiler, Excimer. Programs and comparison: tests/programs/shares/shares.py.
. tests/clients/clients.inc
. tests/clients/java/java.inc
need_sampling shares
seconds=$(if_full 60 15) # of CPU time, each
shares=tests/programs/shares/shares.py

# NAME: waits for the program, and for those who record it; compares.
compare() {
	wait "$program_pid"
	wait "$record_pid" ${other_pid:+"$other_pid"}
	other_pid=
	if said=$(/usr/bin/python3 $shares compare "$1" "$work/$1.folded" "$work/$1.other" 2>&1); then
		pass "$said"
	else
		fail "$1: shares agree within five standard errors" "$said
$(tail -n 5 "$work/$1.err" "$work/$1.log")"
	fi
}
# NAME COMMAND...: starts the program, and records it until it ends. Profilers of wall time take a sample of a process that waits for the CPU again and
# again: it is to wait little.
run() {
	run_name=$1
	shift
	launch nice -n -10 "$@" "$seconds" >"$work/$run_name.log" 2>&1
	program_pid=$!
	launch "$WICK" record -F 97 -p "$program_pid" -o "$work/$run_name.folded" 2>"$work/$run_name.err"
	record_pid=$!
}
other() { # COMMAND...: the other profiler, of $program_pid
	launch nice -n -15 "$@" >>"$work/$run_name.log" 2>&1
	other_pid=$!
}

# PACKAGE FILE: a file of Debian's package, which is not installed, as $found.
deb() {
	if [ ! -e "$client_cache/deb/$1/done" ]; then
		mkdir -p "$client_cache/deb/$1"
		(cd "$client_cache/deb/$1" && apt-get download -qq "$1" && dpkg -x "$1"_*.deb . && : >done) >"$work/fetch.log" 2>&1
	fi
	found=$(find "$client_cache/deb/$1" -name "$2" | head -n 1)
	[ -n "$found" ]
}

# Python: py-spy, which stops the process while it looks.
(
	client_pip python 3.10
	cp "$PYTHONPATH/bin/py-spy" "$work/py-spy" && "$work/py-spy" --version >"$work/version"
)
if [ -s "$work/version" ] && [ -x /usr/bin/python3 ]; then
	echo "uses $(cat "$work/version"), $(/usr/bin/python3 --version)"
	/usr/bin/python3 $shares make python >"$work/shares_program.py"
	run py-spy /usr/bin/python3 "$work/shares_program.py"
	other "$work/py-spy" record --pid "$program_pid" --rate 100 --function --format raw --output "$work/py-spy.other"
	compare py-spy
else
	skip "py-spy" "it cannot be had"
fi

# Ruby: rbspy, built from crates.io.
rbspy_version=0.55.0
rbspy=$client_cache/cargo/rbspy-$rbspy_version/bin/rbspy
if [ ! -x "$rbspy" ] && client_tool cargo 1.85; then
	PATH="$(dirname "$tool"):$PATH" "$tool" install -q rbspy --version $rbspy_version --locked --root "$client_cache/cargo/rbspy-$rbspy_version" >"$work/fetch.log" 2>&1
fi
if [ -x "$rbspy" ] && [ -x /usr/bin/ruby ]; then
	echo "uses $("$rbspy" --version), $(/usr/bin/ruby --version)"
	/usr/bin/python3 $shares make ruby >"$work/shares_program.rb"
	run rbspy /usr/bin/ruby "$work/shares_program.rb"
	other "$rbspy" record --pid "$program_pid" --rate 100 --silent --format collapsed --file "$work/rbspy.other"
	compare rbspy
else
	skip "rbspy" "it cannot be had: $(tail -n 1 "$work/fetch.log" 2>/dev/null)"
fi

# Ruby's own sampling profiler for programs that load it: StackProf, by the process's CPU time, where Ruby looks for interrupts.
if deb ruby-stackprof stackprof.so && [ -x /usr/bin/ruby ]; then
	stackprof=$(dirname "$(dirname "$found")")
	deb ruby-stackprof stackprof.rb
	/usr/bin/python3 $shares make ruby >"$work/shares_program.rb"
	cat >"$work/stackprof.rb" <<'RUBY'
require 'stackprof'
program, out, seconds = ARGV
result = StackProf.run(mode: :cpu, interval: 10_000, raw: true) { ARGV.replace([seconds]); load program }
warn "uses StackProf #{StackProf::VERSION}, Ruby #{RUBY_VERSION}"
raw = result[:raw].dup
File.open(out, 'w') do |file|
  until raw.empty?
    names = raw.shift(raw.shift).map { |frame| result[:frames][frame][:name] }
    file.puts "#{names.join(';')} #{raw.shift}"
  end
end
RUBY
	run stackprof /usr/bin/ruby -I "$stackprof" -I "$(dirname "$found")" "$work/stackprof.rb" "$work/shares_program.rb" "$work/stackprof.other"
	compare stackprof
	grep '^uses' "$work/stackprof.log"
else
	skip "StackProf" "it cannot be had"
fi

# PHP: Excimer, which samples by the process's CPU time and takes the stack where PHP looks for interrupts: at jumps back and at calls.
deb php-excimer excimer.so && excimer=$found || excimer=
if [ -n "$excimer" ] && php -d "extension=$excimer" -r 'exit(class_exists("ExcimerProfiler") ? 0 : 1);' 2>/dev/null; then
	echo "uses Excimer $(php -d "extension=$excimer" -r 'echo phpversion("excimer");'), $(php -r 'echo "PHP ", PHP_VERSION;')"
	/usr/bin/python3 $shares make php >"$work/shares_program.php"
	export EXCIMER="$work/excimer.other"
	run excimer php -d "extension=$excimer" "$work/shares_program.php"
	compare excimer
else
	skip "Excimer" "it cannot be had"
fi

# JavaScript: Node.js's own. It knows nothing of functions that were inlined into others.
if uses node; then
	/usr/bin/python3 $shares make js >"$work/shares_program.js"
	run node node --no-turbo-inlining --cpu-prof --cpu-prof-interval 10000 --cpu-prof-dir "$work/cpuprofile" "$work/shares_program.js"
	wait "$program_pid"
	# A node of the tree has how often it was the innermost one.
	node -e '
		const p = JSON.parse(require("fs").readFileSync(process.argv[1])), by = new Map(p.nodes.map(n => [n.id, n])), up = new Map();
		for (const n of p.nodes) for (const c of n.children ?? []) up.set(c, n.id);
		const path = id => (up.has(id) ? path(up.get(id)) + ";" : "") + by.get(id).callFrame.functionName;
		for (const n of p.nodes) if (n.hitCount) console.log(path(n.id), n.hitCount);
	' "$work"/cpuprofile/*.cpuprofile >"$work/node.other"
	compare node
else
	skip "node" "$missing"
fi

# Java: async-profiler.
if java_of 17; then
	java_profiler 4.6 a5d3d9f4582c2033fa9db518046e73ef97219801f3e7542b82e3e09261ebe493
	mkdir "$work/java"
	/usr/bin/python3 $shares make java >"$work/java/Shares.java"
	check "the program in Java compiles" "$(dirname "$java")/javac" -d "$work/java" "$work/java/Shares.java"
	run async-profiler "$java" "-agentpath:$agent=start,event=cpu,interval=10ms,collapsed,file=$work/async-profiler.other" -cp "$work/java" Shares
	compare async-profiler
else
	skip "async-profiler" "$why"
fi
finish
