// SPDX-License-Identifier: Apache-2.0
// node pyroscope.mjs URL SECONDS: the work, with Pyroscope's SDK.
import { cpuNs, work } from './work.mjs';
// The package's other form cannot be loaded by Node 18.
const { default: Pyroscope } = await import(new URL('node_modules/@pyroscope/nodejs/dist/esm/index.js', import.meta.url));
const [url, seconds] = process.argv.slice(2);
const begun = cpuNs();
Pyroscope.init({ serverAddress: url, appName: 'shop.node', tags: { region: 'eu' }, flushIntervalMs: 5000, wall: { collectCpuTime: true } });
Pyroscope.start();
await work(Number(seconds), (turn) => Pyroscope.wrapWithLabels({ vehicle: 'bike' }, turn));
await Pyroscope.stop();
console.log(`cpu_ns ${cpuNs() - begun}`);
