// SPDX-License-Identifier: Apache-2.0
// node datadog.mjs SECONDS WALL HEAP: the work, profiled by @datadog/pprof into two files, each gzipped pprof.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpuNs, work } from './work.mjs';
const { time, heap, encode } = createRequire(import.meta.url)('@datadog/pprof');
const [seconds, wallFile, heapFile] = process.argv.slice(2);
heap.start(512 * 1024, 64);
const begun = cpuNs();
time.start({ intervalMicros: 10000, durationMillis: 3600000, withContexts: true, collectCpuTime: true });
await work(Number(seconds));
const wall = time.stop();
console.log(`cpu_ns ${cpuNs() - begun}`);
writeFileSync(wallFile, await encode(wall));
writeFileSync(heapFile, await encode(heap.profile()));
