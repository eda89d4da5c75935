#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernel code: named by the agent at first, addresses that the server names once it has the list of the kernel's functions. The list is made here, from /proc/kallsyms, and sent before the agent starts, so that
# it is not checked by what the agent makes of it.
. tests/lib.inc
need_sampling "kernel"
unset DEBUGINFOD_URLS
cat >"$work/list.mjs" <<'END'
import { readFileSync, writeFileSync } from "node:fs";
const notes = readFileSync("/sys/kernel/notes");
let buildId = "";
for (let at = 0; at + 12 <= notes.length && !buildId;) {
	const name = notes.readUInt32LE(at), size = notes.readUInt32LE(at + 4), data = at + 12 + ((name + 3) & ~3);
	if (notes.readUInt32LE(at + 8) === 3 && notes.toString("latin1", at + 12, at + 12 + name) === "GNU\0") buildId = notes.subarray(data, data + size).toString("hex");
	at = data + ((size + 3) & ~3);
}
const symbols = readFileSync("/proc/kallsyms", "latin1").split("\n").map((line) => line.match(/^([0-9a-f]+) (.) (\S+)$/)).filter(Boolean).map((match) => ({ address: BigInt("0x" + match[1]), type: match[2], name: match[3] }));
const address = (name) => symbols.find((symbol) => symbol.name === name)?.address ?? 0n;
const start = address("_stext"), end = address("_etext"), lines = [`wick kallsyms 1 ${buildId}`];
let last = -1n;
for (const symbol of symbols.filter((symbol) => "tTwW".includes(symbol.type) && symbol.address >= start && symbol.address < end).sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : 0))) {
	if (symbol.address !== last) lines.push(`${(symbol.address - start).toString(16)} ${symbol.name}`);
	last = symbol.address;
}
writeFileSync(process.argv[2], lines.join("\n") + "\n");
console.log(start ? buildId : "");
END
build_id=$(node "$work/list.mjs" "$work/list")
if [ -z "$build_id" ]; then
	skip "kernel" "the kernel tells no build-id, or hides its addresses"
	finish
fi
echo "host_files: false" >"$work/server.yaml"
need_server --config "$work/server.yaml"
send_list() {
	id=$(curl -sf "$url/api/v1/debuginfo/uploads" -H 'Content-Type: application/json' -d "{\"build_id\":\"$build_id\",\"kind\":\"kallsyms\",\"size\":$(wc -c <"$work/list")}" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
	[ -n "$id" ] && curl -sf -X PUT --data-binary "@$work/list" -H 'Content-Type: application/octet-stream' "$url/api/v1/debuginfo/uploads/$id?offset=0" && curl -sf -X POST "$url/api/v1/debuginfo/uploads/$id/finish"
}
work_in_kernel() { # NAME SECONDS: of CPU time
	cp "$(command -v dd)" "$work/$1"
	# shellcheck disable=SC2016 # of the inner shell
	sh -c 'ulimit -t "$2" && "$1" if=/dev/zero of=/dev/null bs=64k count=100000000; true' sh "$work/$1" "$2" 2>/dev/null
}
# Where the agent says so in its log, kernel code is sent as addresses from then on.
# The first does not send a list of its own.
launch "$WICK" agent --server "$url" -F 197 --budget 0 --no-debuginfo-upload 2>"$work/agent.log"
agent_pid=$!
wait_sampling "$work/agent.log" "$agent_pid" || fail "the agent samples"
work_in_kernel dd_before 2
stop_agent() {
	kill "$agent_pid"
	wait "$agent_pid"
}
stop_agent
check "the server takes a list of the kernel's functions" send_list
launch "$WICK" agent --server "$url" -F 197 --budget 0 2>"$work/agent.log"
agent_pid=$!
check "the agent learns that the server has it" wait_for grep -q "has the symbols of this kernel" "$work/agent.log"
work_in_kernel dd_after 2
stop_agent
raw() { # PROGRAM
	"$WICK" query "process_cpu{process_executable_name=\"$1\"}" --url "$url" --from now-10m --format pprof -o "$work/$1.pb.gz" 2>/dev/null && go tool pprof -symbolize=none -raw "$work/$1.pb.gz" >"$work/$1.raw" 2>/dev/null
}
check "what was sampled before can be asked for" raw dd_before
check "what was sampled after can be asked for" raw dd_after
kernel_mappings() { sed -n '/^Mappings/,$p' "$work/$1.raw" | grep -F '[kernel.kallsyms]'; }
if kernel_mappings dd_before | grep -qv "$build_id"; then pass "before, the agent names kernel code"; else fail "before, the agent names kernel code" "$(kernel_mappings dd_before)"; fi
if kernel_mappings dd_after | grep -q "$build_id"; then pass "after, it sends addresses"; else fail "after, it sends addresses" "$(kernel_mappings dd_after)"; fi
for program in dd_before dd_after; do
	for function in ksys_read vfs_read; do
		check "$program: $function is named" grep -q " $function " "$work/$program.raw"
	done
done
# Each name is that of the list at the address: of locations in the kernel's mapping, as pprof prints them.
cat >"$work/oracle.mjs" <<'END'
import { readFileSync } from "node:fs";
const [list, raw, buildId] = process.argv.slice(2);
const symbols = readFileSync(list, "latin1").trim().split("\n").slice(1).map((line) => line.split(" ")).map(([offset, name]) => ({ offset: parseInt(offset, 16), name }));
const lines = readFileSync(raw, "latin1").split("\n"), mapping = lines.slice(lines.indexOf("Mappings")).find((line) => line.includes(buildId))?.match(/^(\d+):/)[1];
let checked = 0, wrong = 0;
for (const line of lines) {
	const match = line.match(/^ +\d+: 0x([0-9a-f]+) M=(\d+) (\S+) /);
	if (!match || match[2] !== mapping) continue;
	const address = parseInt(match[1], 16), at = symbols.findLastIndex((symbol) => symbol.offset <= address);
	checked++;
	if (at < 0 || symbols[at].name !== match[3]) {
		wrong++;
		console.log(`${line}: expected ${symbols[at]?.name}`);
	}
}
console.log(`${checked} locations, ${wrong} of them with another name`);
process.exit(checked >= 5 && wrong === 0 ? 0 : 1);
END
check "every address has the name that the list says" node "$work/oracle.mjs" "$work/list" "$work/dd_after.raw" "$build_id"
finish
