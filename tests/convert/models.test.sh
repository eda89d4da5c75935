#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the page makes of a tree (web/src/tree/transform.ts, web/src/model/callgraph.ts) beside `go tool pprof` on the same profile.
. tests/lib.inc
if ! uses go; then
	skip "the page's models beside pprof" "no go"
	finish
fi
[ -d web/node_modules/esbuild ] || (cd web && npm ci --silent) || {
	fail "the page's packages are installed"
	finish
}
node tests/convert/models.mjs stacks >"$work/random.folded" &&
	"$WICK" convert -q "$work/random.folded" -o "$work/random.pb.gz" &&
	"$WICK" convert -q "$work/random.folded" -o "$work/random.html" || {
	fail "the profile is made"
	finish
}
for what in focus drop merge focus-on calls; do
	check "pprof has the same figures: $what" node tests/convert/models.mjs "$what" "$work/random.html" "$work/random.pb.gz"
done
finish
