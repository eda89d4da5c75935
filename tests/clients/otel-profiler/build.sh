#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh GO CACHE: builds OpenTelemetry's eBPF profiler as CACHE/otel-profiler/bin/otel-profiler, from its sources at the commit below, which are fetched
# once. GO: 1.26 or newer. Its BPF objects come with the sources; the modules are those of its go.sum.
#
# Nothing of it is changed, but where nobody may raise the limit of locked memory (no CAP_SYS_RESOURCE): there the one call that does does nothing, as kernels
# since 5.11 do not need it.
# Exit status 3: something that it is made of cannot be fetched, or a tool is missing; the last line says what.
set -eu
go=$1 cache=$2/otel-profiler
repository=open-telemetry/opentelemetry-ebpf-profiler commit=b442421a
missing() {
	echo "$1"
	exit 3
}
command -v git >/dev/null || missing "git is not installed"
mkdir -p "$cache"
cd "$cache"
[ ! -x bin/otel-profiler ] || exit 0
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -modcacherw" GOMODCACHE="$2/go" GOPATH="$2/gopath" CGO_ENABLED=0

[ -d source/.git ] || git clone -q "${WICK_CLIENTS_GIT:-https://github.com}/$repository" source || missing "github.com/$repository cannot be fetched"
git -C source checkout -q -f "$commit" || missing "github.com/$repository has no $commit"
cd source
"$go" list -deps . >/dev/null || missing "modules of Go cannot be fetched" # those that it needs, not those of its tests
case $(sed -n 's/^CapEff:\t//p' /proc/self/status) in
*[13579bdf]??????) ;; # CAP_SYS_RESOURCE is bit 24
*) printf 'package rlimit\n\n// MaximizeMemlock does nothing.\nfunc MaximizeMemlock() (func(), error) { return func() {}, nil }\n' >rlimit/rlimit.go ;;
esac
"$go" build -o ../bin/otel-profiler .
