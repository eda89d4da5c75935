#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh GO CACHE: builds Parca Agent as CACHE/parca-agent/bin/parca-agent, from its sources at the commits below, which are fetched once. GO: 1.25 or newer.
#
# Its own build fetches two modules that buf.build generates from Parca's protocol files, and one from Prometheus'. Here protoc makes them of the same files,
# without the options of google.api.http and gogoproto, which the agent does not use. Nothing of the agent is changed but the paths of modules in go.mod; and,
# where nobody may raise the limit of locked memory (no CAP_SYS_RESOURCE), that one call does nothing: kernels since 5.11 do not need it.
# Exit status 3: something that it is made of cannot be fetched, or a tool is missing; the last line says what.
set -eu
go=$1 cache=$2/parca-agent
sources="
agent parca-dev/parca-agent cb46a8ea
fork parca-dev/opentelemetry-ebpf-profiler 6f4be42a31d1
parca parca-dev/parca 3b5647cd9
sass gnurizen/sass-table v0.0.3
usdt parca-dev/usdt v0.0.2
"
missing() {
	echo "$1"
	exit 3
}
for tool in git protoc clang python3; do command -v $tool >/dev/null || missing "$tool is not installed"; done
mkdir -p "$cache"
cd "$cache"
[ ! -x bin/parca-agent ] || exit 0
export GOTOOLCHAIN=local GOFLAGS="-mod=mod -buildvcs=false -modcacherw" GOMODCACHE="$2/go" GOPATH="$2/gopath" CGO_ENABLED=0

printf '%s\n' "$sources" | while read -r name repository commit; do
	[ -n "$name" ] || continue
	[ -d "$name/.git" ] || git clone -q "${WICK_CLIENTS_GIT:-https://github.com}/$repository" "$name" || missing "github.com/$repository cannot be fetched"
	folder=
	[ "$name" != parca ] || folder=proto # all that is needed of it
	git -C "$name" checkout -q -f "$commit" ${folder:+-- "$folder"} || missing "github.com/$repository has no $commit"
done || exit $?

# ---- what buf.build generates ----
rm -rf gen
mkdir -p gen/proto gen/prom gen/pb gen/grpc gen/bin
for part in debuginfo profilestore telemetry; do
	mkdir -p "gen/proto/parca/$part/v1alpha1"
	python3 - "parca/proto/parca/$part/v1alpha1/$part.proto" "gen/proto/parca/$part/v1alpha1/$part.proto" <<'PY'
import re, sys

text = open(sys.argv[1]).read()
text = re.sub(r'import "google/api/annotations.proto";\n', '', text)
text = re.sub(r'\{\s*option \(google\.api\.http\) = \{[^}]*\};\s*\}', '{}', text)
open(sys.argv[2], 'w').write(re.sub(r'option go_package[^\n]*\n', '', text))
PY
done
# Debian's protoc comes without them.
mkdir -p gen/proto/google/protobuf
for type in Timestamp Duration; do
	cat >"gen/proto/google/protobuf/$(echo $type | tr 'TD' 'td').proto" <<PROTO
syntax = "proto3";
package google.protobuf;
option go_package = "google.golang.org/protobuf/types/known/$(echo $type | tr 'TD' 'td')pb";
message $type { int64 seconds = 1; int32 nanos = 2; }
PROTO
done
cat >gen/proto/remote.proto <<'PROTO'
syntax = "proto3";
package prometheus;
message WriteRequest { repeated TimeSeries timeseries = 1; }
message TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
message Label { string name = 1; string value = 2; }
message Sample { double value = 1; int64 timestamp = 2; }
PROTO
pb=buf.build/gen/go/parca-dev/parca/protocolbuffers/go grpc=buf.build/gen/go/parca-dev/parca/grpc/go
prom=buf.build/gen/go/prometheus/prometheus/protocolbuffers/go gogo=buf.build/gen/go/gogo/protobuf/protocolbuffers/go
for module in "pb $pb" "grpc $grpc" "prom $prom"; do
	printf 'module %s\n\ngo 1.25.0\n' "${module#* }" >"gen/${module%% *}/go.mod"
done
git -C agent checkout -q -f .
cd agent
"$go" mod edit -replace "$pb=../gen/pb" -replace "$grpc=../gen/grpc" -replace "$prom=../gen/prom" -droprequire "$gogo" \
	-replace go.opentelemetry.io/ebpf-profiler=../fork -replace github.com/gnurizen/sass-table=../sass -replace github.com/parca-dev/usdt=../usdt
"$go" mod download || missing "modules of Go cannot be fetched"
"$go" build -o ../gen/bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
(cd .. && mkdir -p gen/tool && cd gen/tool && printf 'module tool\n\ngo 1.25.0\n' >go.mod &&
	"$go" get google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.1 && "$go" build -o ../bin/protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc) ||
	missing "protoc-gen-go-grpc cannot be fetched"
cd ..
options= grpc_options=
for part in debuginfo profilestore telemetry; do
	file=parca/$part/v1alpha1/$part.proto
	options="$options --go_opt=M$file=$pb/parca/$part/v1alpha1;${part}v1alpha1"
	grpc_options="$grpc_options --go-grpc_opt=M$file=$pb/parca/$part/v1alpha1;${part}v1alpha1"
done
# shellcheck disable=SC2086 # lists of options
PATH="$PWD/gen/bin:$PATH" protoc -I gen/proto $options --go_opt=module=$pb --go_out=gen/pb $grpc_options --go-grpc_opt=module=$pb --go-grpc_out=gen/grpc \
	parca/debuginfo/v1alpha1/debuginfo.proto parca/profilestore/v1alpha1/profilestore.proto parca/telemetry/v1alpha1/telemetry.proto
PATH="$PWD/gen/bin:$PATH" protoc -I gen/proto --go_opt=Mremote.proto="$prom;prometheus" --go_opt=module=$prom --go_out=gen/prom remote.proto
# buf.build puts services into packages of their own, beside the messages.
for part in debuginfo profilestore telemetry; do
	folder=gen/grpc/parca/$part/v1alpha1
	mkdir -p "$folder/${part}v1alpha1grpc"
	python3 - "$folder/${part}_grpc.pb.go" "$folder/${part}v1alpha1grpc/${part}_grpc.pb.go" "$part" "$pb" <<'PY'
import re, sys

text, part, pb = open(sys.argv[1]).read(), sys.argv[3], sys.argv[4]
package = f'{part}v1alpha1'
text = text.replace(f'package {package}\n', f'package {package}grpc\n')
text = text.replace('import (\n', f'import (\n\t{package} "{pb}/parca/{part}/v1alpha1"\n', 1)
text = re.sub(r'(?<![\w.])((?:[A-Z]\w*)(?:Request|Response))\b(?!\s*\()', rf'{package}.\1', text)
open(sys.argv[2], 'w').write(text)
PY
	rm "$folder/${part}_grpc.pb.go"
done

# ---- the agent ----
cd agent
(cd probes && BPF2GO_CC=clang BPF2GO_CFLAGS="-O2 -g -Wall -I/usr/include/$(uname -m)-linux-gnu" "$go" generate .) ||
	missing "its BPF probe does not compile"
case $(sed -n 's/^CapEff:\t//p' /proc/self/status) in
*[13579bdf]??????) ;; # CAP_SYS_RESOURCE is bit 24
*)
	git -C ../fork checkout -q -f rlimit
	python3 - ../fork/rlimit/rlimit.go <<'PY'
import sys

path = sys.argv[1]
text = open(path).read()
start = text.index('func MaximizeMemlock()')
open(path, 'w').write('package rlimit\n\n// MaximizeMemlock does nothing.\nfunc MaximizeMemlock() (func(), error) { return func() {}, nil }\n' if start else text)
PY
	;;
esac
"$go" build -o ../bin/parca-agent .
