// SPDX-License-Identifier: Apache-2.0
// node plain.mjs SECONDS: the work, for profilers of whole machines. What Node.js uses before it is in the total, too.
import { cpuNs, work } from './work.mjs';
await work(Number(process.argv[2]));
console.log(`cpu_ns ${cpuNs()}`);
