// SPDX-License-Identifier: Apache-2.0
// Files that are made on the page.

const two = (n: number) => String(n).padStart(2, '0');

/** wick-20240501T120000, in UTC. */
export function fileStem(ms: number): string {
	const d = new Date(ms);
	const day = `${d.getUTCFullYear()}${two(d.getUTCMonth() + 1)}${two(d.getUTCDate())}`;
	return `wick-${day}T${two(d.getUTCHours())}${two(d.getUTCMinutes())}${two(d.getUTCSeconds())}`;
}

/** Gives the blob to the person as a file. stem: what it is called but for its ending. */
export function saveAs(blob: Blob, extension: string, stem = fileStem(Date.now())): void {
	const url = URL.createObjectURL(blob);
	const link = document.createElement('a');
	link.href = url;
	link.download = `${stem}.${extension}`;
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may begin to read it later
}
