// SPDX-License-Identifier: Apache-2.0
// Stands between a client and a server and keeps what the client sends, byte by byte, whatever protocol it is: node record.mjs URL FOLDER
// Prints its own URL. FOLDER/N has what came on the N-th connection. The bytes are passed on as they are, so that neither side notices.
import { createWriteStream, mkdirSync, readdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';

const [url, folder] = process.argv.slice(2);
const { hostname, port } = new URL(url);
mkdirSync(folder, { recursive: true });
let connections = readdirSync(folder).length; // a script may start several servers

createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
	const server = connect({ host: hostname, port, allowHalfOpen: true, noDelay: true });
	const file = createWriteStream(join(folder, String(connections++)));
	client.on('data', (bytes) => file.write(bytes));
	client.on('close', () => file.end());
	for (const [from, to] of [
		[client, server],
		[server, client],
	]) {
		from.pipe(to);
		from.on('error', () => to.destroy());
	}
}).listen(0, '127.0.0.1', function () {
	console.log(`http://127.0.0.1:${this.address().port}`);
});
