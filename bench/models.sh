#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the page makes of a tree, without a browser: transforms, comparison, sandwich, call graph, filters; in node, on as many nodes.
#   [--nodes N]     1000000
set -eu
nodes=1000000
while [ $# -gt 1 ]; do
	case $1 in
	--nodes) nodes=$2 ;;
	*)
		echo "models: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
[ -d web/node_modules/esbuild ] || (cd web && npm ci --silent)
node bench/models.mjs "$nodes"
