#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh NAME GO CACHE: builds a server or client that is in no registry from its sources, at the commits below, which are fetched once, as CACHE/servers/NAME:
# pyroscope and profilecli (GO: 1.25.8 or newer), parca (1.26). Nothing of them is changed, but that Parca's page is an empty one, and that grafana/dskit
# is taken from its repository where no module proxy has it. WICK_CLIENTS_GIT: where github.com's repositories are; a folder will do.
# Exit status 3: something that it is made of cannot be fetched; the last line says what.
set -eu
name=$1 go=$2 cache=$3/servers
missing() {
	echo "$1"
	exit 3
}
command -v git >/dev/null || missing "git is not installed"
mkdir -p "$cache"
cd "$cache"
[ ! -x "$name" ] || exit 0
export GOTOOLCHAIN=local GOFLAGS="-mod=mod -buildvcs=false -modcacherw" GOMODCACHE="$3/go" GOPATH="$3/gopath" CGO_ENABLED=0
# FOLDER REPOSITORY COMMIT PATH...: what of it is needed. Its test data is not.
sources() {
	sources_folder=$1 sources_of=$2 sources_commit=$3
	shift 3
	[ -d "$sources_folder/.git" ] || git clone -q --filter=blob:none --no-checkout "${WICK_CLIENTS_GIT:-https://github.com}/$sources_of" "$sources_folder" ||
		missing "github.com/$sources_of cannot be fetched"
	git -C "$sources_folder" checkout -q -f "$sources_commit" -- "$@" ':(exclude)*testdata*' || missing "github.com/$sources_of has no $sources_commit"
}
case $name in
pyroscope | profilecli)
	sources pyroscope.git grafana/pyroscope 3fe6a457 api cmd lidia pkg ui go.mod go.sum
	cd pyroscope.git
	dskit=$(sed -nE 's,^\s*github.com/grafana/dskit (v[^ ]+).*,\1,p' go.mod)
	if ! "$go" mod download github.com/grafana/dskit 2>/dev/null; then
		(cd .. && sources dskit.git grafana/dskit "${dskit##*-}" .) || exit 3
		"$go" mod edit -replace github.com/grafana/dskit=../dskit.git
	fi
	;;
parca)
	sources parca.git parca-dev/parca 3b5647cd9 cmd gen pkg proto ui/ui.go go.mod go.sum
	cd parca.git
	mkdir -p ui/packages/app/web/build
	echo '<html></html>' >ui/packages/app/web/build/index.html
	;;
*) missing "unknown: $name" ;;
esac
"$go" mod download || missing "modules of Go cannot be fetched"
"$go" build -o "../$name" "./cmd/$name"
