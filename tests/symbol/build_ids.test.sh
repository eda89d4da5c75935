#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The build-ids that come with a flame graph, in all of its forms, are those that readelf finds in the files that ran.
. tests/lib.inc
need_sampling "build-ids of a flame graph"
id_of() { readelf -n "$1" 2>/dev/null | sed -n 's/.*Build ID: //p' | head -n 1; } # FILE
burn='i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'
shell=$(readlink -f /bin/sh)
"$WICK" record --no-markers -o "$work/x.pb.gz" -- "$shell" -c "$burn" >/dev/null 2>"$work/err"
check "a program is recorded" test -s "$work/x.pb.gz"
need_server
curl -fsS --data-binary "@$work/x.pb.gz" "$url/api/v1/ingest?name=process_cpu&label=case=ids" >/dev/null
cat >"$work/ids.mjs" <<'EOF'
// URL FILE: of each form of the answer a line: NAME BINARY=ID,ID...
import { readFileSync } from 'node:fs';
const [url, file] = process.argv.slice(2);
const ask = async (path, options) => Buffer.from(await (await fetch(`${url}/api/v1/${path}`, options)).arrayBuffer());
const say = (form, { binaries }) => {
	for (const { binary, build_ids, count } of binaries) console.log(`${form} ${binary}=${build_ids.join()} ${count}`);
};
const query = `query=${encodeURIComponent('process_cpu{case="ids"}')}&from=now-1h`;
say('flame', JSON.parse(await ask(`query?${query}`)).flame);
const columns = await ask(`query?${query}&format=columns`);
say('columns', JSON.parse(columns.subarray(12, 12 + columns.readUInt32LE(8))).flame);
const view = await ask('view?name=x.pb.gz', { method: 'POST', body: readFileSync(file) });
say('view', JSON.parse(view.subarray(12, 12 + view.readUInt32LE(8))).types[0].flame);
EOF
node "$work/ids.mjs" "$url" "$work/x.pb.gz" >"$work/ids"
check "the program has a build-id" test -n "$(id_of "$shell")"
for form in flame columns view; do
	check "$form: the program's" grep -qx "$form ${shell##*/}=$(id_of "$shell") 1" "$work/ids"
done
finish
