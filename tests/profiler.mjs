// SPDX-License-Identifier: Apache-2.0
// A profile as the command line of Firefox Profiler sees it.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const cliPath = join(new URL(".", import.meta.url).pathname, "node_modules/.bin/profiler-cli");
// The path of its socket must be short.
const sessions = mkdtempSync("/tmp/wpq-");
const environment = { ...process.env, PROFILER_CLI_SESSION_DIR: sessions };
let session = 0, daemon = null;
process.on("exit", () => {
	daemon?.kill();
	rmSync(sessions, { recursive: true, force: true });
});

export const cli = (...args) =>
	execFileSync(cliPath, [...args, "--session", `s${session}`], { env: environment, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });

// Opens a profile for as long as the body runs. `profiler-cli load` gives its daemon half a second, which a busy machine may not have, so
// the daemon is started here.
export async function withProfile(path, body) {
	session++;
	daemon = spawn(process.execPath, [cliPath, "--daemon", path, "--session", `s${session}`], { env: environment, stdio: "ignore" });
	const ended = new Promise((resolve) => daemon.once("exit", resolve));
	try {
		for (let tries = 0; ; tries++) {
			await new Promise((resolve) => setTimeout(resolve, 50));
			// Asking costs more than looking for its socket.
			if (daemon.exitCode === null && tries < 2000 && !readdirSync(sessions).some((name) => name === `s${session}.sock`)) continue;
			try {
				cli("profile", "info");
				break;
			} catch (error) {
				if (daemon.exitCode !== null || tries >= 2000) throw error;
			}
		}
		return body();
	} finally {
		daemon.kill();
		await ended;
	}
}
