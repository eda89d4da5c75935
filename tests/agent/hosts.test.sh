#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two hosts, which are network namespaces, with clocks that are 5 s apart and drift by 50 ppm: client/examples/pipeline/run.sh records
# both and merges them. It leaves the true times in its markers, against which hosts.mjs checks the merged profile.
. tests/lib.inc
need_sampling "hosts"
net=wick-test-$$
if ip netns add "$net" 2>"$work/err" && nsenter --net="/run/netns/$net" unshare --uts true 2>>"$work/err"; then
	ip netns del "$net"
else
	ip netns del "$net" 2>/dev/null
	skip "hosts" "$(head -n 1 "$work/err")"
	finish
fi
case $WICK in /*) wick=$WICK ;; *) wick=$PWD/$WICK ;; esac
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
steps=5000

# Beta's clocks: those of its recorder, but not of its node, whose `clock` is the truth.
make -s "$O/client/libwickmark.a"
check "the clocks compile" cc -shared -fPIC -O2 -D_GNU_SOURCE -o "$work/false_clock.so" tests/agent/false_clock.c -ldl
check "so does what checks them" cc -O2 -D_GNU_SOURCE -DCHECK -o "$work/check" tests/agent/false_clock.c
check "the example compiles" cc -O2 -g -Wall -Wextra -Werror -Iclient -o "$work/pipeline" client/examples/pipeline/pipeline.c "$bin/client/libwickmark.a" -lpthread
false_clocks="LD_PRELOAD=$work/false_clock.so WICK_FALSE_AHEAD_NS=5000000000 WICK_FALSE_FAST_PPB=50000"
near() { awk -v found="$1" -v wanted="$2" -v by="$3" 'BEGIN { d = found - wanted; exit !(d <= by && d >= -by) }' || {
	echo "$1, not $2"
	return 1
}; }
# shellcheck disable=SC2046,SC2086 # several of both
set -- $(env $false_clocks "$work/check")
check "the wall clock is 5 s ahead" near "$1" 5000000000 100000
check "it is 50 ppm fast" near "$2" 50000 1000
check "so is the monotonic clock" near "$4" 50000 1000
cat >"$work/beta" <<END
#!/bin/sh
# Whatever comes: only recordings have these clocks.
shift
exec env $false_clocks "$wick" record --env LD_PRELOAD= "\$@"
END
chmod +x "$work/beta"

# Until a few messages of each way were as quick as they can be.
record_both() {
	for _ in 1 2 3 4 5 6; do
		WICK="$wick" WICK_BETA="$work/beta" PIPELINE="$work/pipeline" sh client/examples/pipeline/run.sh -o "$work" "$steps" 2000 || return
		node tests/agent/hosts.mjs merged "$steps" "$work/pipeline.firefox.json" >/dev/null 2>&1
		[ $? -eq 3 ] || return 0
	done
}
check "two hosts are recorded and merged" record_both
[ -s "$work/beta.firefox.json" ] &&
	check "the recordings by themselves are 5 s and 50 ppm apart" node tests/agent/hosts.mjs apart "$steps" "$work/alpha.firefox.json" "$work/beta.firefox.json"
if [ -s "$work/pipeline.firefox.json" ]; then
	check "merged, each send is before its receive, and times are right within the bound" node tests/agent/hosts.mjs merged "$steps" "$work/pipeline.firefox.json"
	check "Firefox Profiler has the threads of both" node tests/agent/hosts.mjs viewer "$steps" "$work/pipeline.firefox.json"
fi
WICK="$wick" WICK_BETA=false PIPELINE="$work/pipeline" sh client/examples/pipeline/run.sh -o "$work/failed" 10 2000 >/dev/null 2>&1 &&
	fail "a host that fails is an error" || pass "a host that fails is an error"
left=$(pgrep -af "$work/failed")
[ -z "$left" ] && pass "and the other's recorder does not wait for it" || fail "and the other's recorder does not wait for it" "$left"
finish
