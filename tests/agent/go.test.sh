#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Go programs (tests/programs/go), whose runtime goes over to other stacks: each stack begins where Go's own profiler ends it, and leads to
# the function that works through exactly the functions that call it. With every Go that is here, stripped, position-independent, with C.
. tests/lib.inc
need_sampling "go"
[ "$(uname -m)" = x86_64 ] || {
	skip "go" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 4 1)}
export GOCACHE="${WICK_GOCACHE:-${GOCACHE:-/tmp/wick-go-cache}}" GOPROXY=off GOFLAGS=-mod=mod GO111MODULE=on HOME="$work"

# NAME GO FLAGS...: builds the program as $work/NAME.
build() {
	name=$1 go=$2
	shift 2
	(cd tests/programs/go && "$go" build -p 2 -o "$work/$name" "$@" .) >"$work/log" 2>&1 || {
		fail "$name is built" "$(cat "$work/log")"
		return 1
	}
}
# NAME KIND: records the program; stacks, outermost frame first and without the kernel's, are in $work/folded.
record() {
	"$WICK" record -F 499 -o "$work/out.pb.gz" -- "$work/$1" "$seconds" "$2" >"$work/err" 2>&1 &&
		"$WICK" convert "$work/out.pb.gz" -o "$work/out.folded" >>"$work/err" 2>&1 || {
		fail "$1, $2: recorded" "$(cat "$work/err")"
		return 1
	}
	# Names of symbols have the ABI, those of the table of functions do not; inlined functions are marked.
	awk '{ w = $NF; sub(/ [0-9]+$/, ""); gsub(/\.abi0/, ""); gsub(/_\[i\]/, ""); sub(/;[^;]*_\[k\].*/, ""); if ($0 !~ /_\[k\]/) print $0, w }' \
		"$work/out.folded" >"$work/folded"
}
# Where stacks begin: a goroutine, the scheduler, the program; C's threads.
root='^(runtime[.](goexit|mcall|mstart|clone|rt0_go|gogo|morestack)|gogo|_rt0_amd64(_linux)?|_start|__GI___clone3?|__clone3?|clone3?|start_thread|thread_start)(;|$)'
# In Go code morestack() is behind the goroutine that it grows, but in the scheduler, which has left it.
root_of_scheduler='^runtime[.]morestack;runtime[.]newstack;'
main='^runtime[.]goexit;runtime[.]main;main[.]main;main[.]run;'
# Below Go code that calls nothing but the runtime, some functions of which have no package.
rest='(;(runtime[.]|[[]signal handler|gcWriteBarrier(;|$)|(memeq|cmp|aeshash|indexbyte|count)body(;|$)).*)?$'
c_and_back='runtime[.]cgocall;(runtime[.]asmcgocall;)+(_cgo_[^;]*;)?c_back;c_variable;goBack;crosscall2;(_cgoexp[^;]*;)?runtime[.]cgocallback;([^;]*;)?runtime[.]cgocallbackg;(runtime[.][^;]*;)*[^;]*_goBack;main[.]goBack;'
again="main[.]goAgain;(main[.]_Cfunc_c_back;)?$c_and_back"
# NAME KIND WORKER FORM [LEAST]: stacks with the function WORKER have this form; all others begin at a root. At least LEAST % of all are complete, and one may be missing, as
# some of these programs have no hundred samples. Three attempts for these, since a busy machine keeps the agent from its work at first; none for wrong ones.
stacks() {
	name=$1 kind=$2 worker=$3 form=$4 least=${5:-99}
	for attempt in 1 2 3; do
		record "$name" "$kind" || return
		shares=$(awk -v worker="$worker" -v form="$form" -v root="$root" -v scheduler="$root_of_scheduler" -v period=2004008 '
			{ w = $NF; sub(/ [0-9]+$/, ""); all += w }
			/\[unknown stack\]|\[caller may be missing\]/ { flagged += w; next }
			$0 ~ worker { works += w }
			$0 !~ root || ($0 ~ worker && $0 !~ form) || (/^runtime\.morestack/ && ($0 !~ scheduler || /copystack/)) { wrong += w; print > "/dev/stderr" }
			END { flagged = flagged > period ? flagged - period : 0; printf "%.2f %.2f %.2f", all ? 100 - 100 * flagged / all : 0, all ? 100 * wrong / all : 100, all ? 100 * works / all : 0 }' \
			"$work/folded" 2>"$work/wrong")
		complete=${shares%% *} works=${shares##* } wrong=${shares#* }
		wrong=${wrong% *}
		line="$name, $kind: $complete % are complete ($least asked for), $wrong % wrong, $works % in $worker"
		[ "$wrong" = 0.00 ] || break
		! awk -v least="$least" -v complete="$complete" -v works="$works" 'BEGIN { exit !(complete >= least && works > 1) }' || {
			pass "$line"
			return
		}
	done
	fail "$line (attempt $attempt)" "$(
		cut -c1-300 "$work/wrong"
		grep -F '[unknown stack]' "$work/folded" | cut -c1-200
		cat "$work/err"
	)"
}
all_of() { # NAME
	stacks "$1" alloc 'main[.]allocLeaf' "${main}main[.]allocMiddle;main[.]allocLeaf$rest"
	stacks "$1" grow 'main[.]growStack' \
		"^runtime[.]goexit;(main[.]run[.][^;]*;)?main[.]growRoot;(main[.]growStack;)*main[.]growStack$rest"
}
more_of() { # NAME
	stacks "$1" work 'main[.]workLeaf' "${main}main[.]workMiddle;main[.]workLeaf$rest"
	stacks "$1" json 'main[.]jsonMiddle' "${main}main[.]jsonMiddle(;|\$)"
	stacks "$1" gc 'main[.]gcMiddle' "${main}main[.]gcMiddle;runtime[.]GC(;|\$)"
	stacks "$1" clock 'main[.]clockMiddle' "${main}main[.]clockMiddle(;|\$)"
	stacks "$1" channels 'main[.]p[io]ngMiddle' '^runtime[.]goexit;([^;]*;)?main[.]p[io]ngMiddle(;|$)'
}
c_of() { # NAME
	stacks "$1" call 'c_leaf' "${main}(main[.]runMore;)?main[.]callMiddle;(main[.]_Cfunc_c_middle;)?runtime[.]cgocall;(runtime[.]asmcgocall;)+(_cgo_[^;]*;)?c_middle;c_leaf\$"
	stacks "$1" callback 'main[.](work|alloc)Middle' \
		"${main}(main[.]runMore;)?$again$again${again}main[.](work|alloc)Middle(;|\$)"
	stacks "$1" thread 'main[.](work|alloc)Middle' \
		'^(__GI___clone3?|__clone3?|clone3?|thread_start);start_thread;c_thread;c_back;c_variable;goBack;crosscall2;(_cgoexp[^;]*;)?runtime[.]cgocallback;([^;]*;)?runtime[.]cgocallbackg;(runtime[.][^;]*;)*[^;]*_goBack;main[.]goBack;main[.](work|alloc)Middle(;|$)'
}

count=0
for go in /usr/lib/go-*/bin/go /usr/local/go/bin/go ${WICK_TEST_GO:-}; do
	[ -x "$go" ] || continue
	version=$("$go" env GOVERSION)
	count=$((count + 1))
	if CGO_ENABLED=0 build "$version" "$go"; then
		all_of "$version"
		[ "$count" -gt 1 ] || more_of "$version"
	fi
	# In a plain run the first Go is tried in all ways but one, for which the compiler makes all of its library anew, and others as they build by default.
	[ "$count" -eq 1 ] || [ -n "${WICK_TEST_FULL:-}" ] || continue
	! CGO_ENABLED=0 build "$version-stripped" "$go" -ldflags='-s -w' || all_of "$version-stripped"
	[ "$count" -gt 1 ] || [ -z "${WICK_TEST_FULL:-}" ] || ! CGO_ENABLED=0 build "$version-pie" "$go" -buildmode=pie || all_of "$version-pie"
	! CGO_ENABLED=1 build "$version-cgo" "$go" || c_of "$version-cgo"
done
[ "$count" -gt 0 ] || skip "go" "no go command"
finish
