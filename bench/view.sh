#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A profile that is dropped on the page: how long POST /api/v1/view takes, what comes over the wire, and what it costs the server in memory.
#   [--nodes N]     of its tree, about: 1400000
set -eu
. bench/lib.inc
nodes=1400000
while [ $# -gt 1 ]; do
	case $1 in
	--nodes) nodes=$2 ;;
	*)
		echo "view: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
# Every path of digits to the base 4: four thirds as many nodes as leaves.
node - "$work/view.folded" $((nodes * 3 / 4)) <<'END'
const { openSync, writeSync } = require("node:fs"), [path, leaves] = process.argv.slice(2), out = openSync(path, "w");
const depth = Math.max(1, Math.ceil(Math.log2(leaves) / 2)), name = (n) => `ns${n % 97}::Class${n % 13}<int>::function_${n % 5000}(char const*)`;
for (let i = 0, lines = []; i < leaves; i++) {
	const frames = ["main"];
	for (let d = 1; d <= depth; d++) frames.push(name(Math.floor(i / 4 ** (depth - d))));
	lines.push(`${frames.join(";")} ${1 + (i * 7919) % 100}\n`);
	if (lines.length === 10000 || i === leaves - 1) writeSync(out, lines.splice(0).join(""));
}
END
"$WICK" convert -q "$work/view.folded" -o "$work/view.pb.gz"
rm "$work/view.folded"
printf 'view: {size: 2G}\n' >"$work/view.yaml"
start_server --config "$work/view.yaml"
echo "the file: $(($(wc -c <"$work/view.pb.gz") / 1000)) kB"
for shown in 10000 100000 1000000 4000000; do
	for coding in identity gzip; do
		before=$(cpu_of "$server_pid")
		taken=$(curl -sf -o "$work/view.out" -H "Accept-Encoding: $coding" --data-binary "@$work/view.pb.gz" -w '%{time_total} s, %{size_download} bytes' \
			"$url/api/v1/view?max_nodes=$shown")
		echo "$shown nodes at most, $coding: $taken, $(echo "$before $(cpu_of "$server_pid")" | awk '{ print $2 - $1 }') s of CPU time"
	done
done
echo "the most memory of the server: $(peak_of "$server_pid") MB"
