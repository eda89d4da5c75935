#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Parca's own server as the oracle of its protocol: the same pprof bytes go to it and to Wick by WriteRaw, then the calls of its page and of Grafana are made of
# both, and the responses compared (parca_compare.mjs). It is in no registry: a machine that has `parca` in PATH runs this, or one with a checkout of its
# sources that WICK_PARCA_SOURCE names, from which it is built; its page is not needed.
. tests/clients/clients.inc
parca=$(PATH=$client_path command -v parca)
if [ -z "$parca" ] && [ -n "${WICK_PARCA_SOURCE:-}" ]; then
	client_tool go 1.25 || {
		skip "Parca's server" "$why"
		finish
	}
	client_go=$tool
	cp -r "$WICK_PARCA_SOURCE" "$work/parca"
	mkdir -p "$work/parca/ui/packages/app/web/build"
	echo '<html></html>' >"$work/parca/ui/packages/app/web/build/index.html"
	export GOMODCACHE="$client_cache/go" GOFLAGS="-mod=readonly -buildvcs=false -modcacherw" GOPATH="$client_cache/gopath"
	client_fetch "Parca's server" go_in "$work/parca" list -deps ./cmd/parca
	check "Parca builds" go_in "$work/parca" build -o "$work/parca.bin" ./cmd/parca
	parca=$work/parca.bin
fi
if [ ! -x "$parca" ]; then
	skip "Parca's server" "not installed, in no registry, and WICK_PARCA_SOURCE names no checkout of it"
	finish
fi
client_server
mkdir "$work/bucket"
cat >"$work/parca.yaml" <<YAML
object_storage:
  bucket:
    type: FILESYSTEM
    config:
      directory: $work/bucket
YAML
parca_port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
launch "$parca" --config-path="$work/parca.yaml" --http-address="127.0.0.1:$parca_port" --log-level=error --debuginfod-upstream-servers=127.0.0.1:9 >"$work/parca.log" 2>&1
parca_is_ready() { curl -fsS "http://127.0.0.1:$parca_port/ready" >/dev/null 2>&1; }
check "Parca starts" wait_for parca_is_ready
node tests/clients/parca_compare.mjs "${url##*:}" "$parca_port" >"$work/compare" 2>&1 || [ "$(grep -c '^FAILED' "$work/compare")" -gt 0 ] || fail "the comparison ends"
grep -vE '^[0-9]+ passed, ' "$work/compare"
passed=$((passed + $(grep -c '^ok ' "$work/compare"))) failed=$((failed + $(grep -c '^FAILED' "$work/compare")))
finish
