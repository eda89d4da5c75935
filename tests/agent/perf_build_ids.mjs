// SPDX-License-Identifier: Apache-2.0
// perf_build_ids.mjs PERF.DATA: takes back from records of mappings (MMAP2) that they hold a build-id. Newer kernels (6.18) mark the records of all events
// so where one event of the machine asks for build-ids, as ours does, though only that one's have them; perf takes the inode's number for the
// length of a build-id, and aborts. For files whose own events ask for none. Prints how many there were.
import { readFileSync, writeFileSync } from 'node:fs';

const MMAP2 = 10,
	HAS_BUILD_ID = 1 << 14;
const [, , path] = process.argv,
	file = readFileSync(path);
const begin = Number(file.readBigUInt64LE(40)),
	end = begin + Number(file.readBigUInt64LE(48)); // struct perf_file_header.data
let count = 0;
for (let at = begin; at + 8 <= end; at += file.readUInt16LE(at + 6)) {
	const misc = file.readUInt16LE(at + 4);
	if (file.readUInt16LE(at + 6) < 8) throw new Error(`a record without a size at ${at}`);
	if (file.readUInt32LE(at) !== MMAP2 || !(misc & HAS_BUILD_ID)) continue;
	file.writeUInt16LE(misc & ~HAS_BUILD_ID, at + 4);
	count++;
}
writeFileSync(path, file);
console.log(count);
