// SPDX-License-Identifier: Apache-2.0
/*
 * What a page in a file shows: `wick convert -o FILE.html` writes JSON, gzips it, and puts it as base64 into an element that no
 * browser runs; the columns of a time line are a second such element. Names in it are hostile, which base64 and the text nodes
 * of the page take the edge off; numbers are checked by buildTree() as those of a server are.
 */
import * as T from '../base/texts';
import type { FlameJson } from '../tree/tree';
import { readTimeline, type Timeline, type TimelineJson } from './timeline_data';

export interface ReportType {
	period: number; // 0 = unknown
	unresolved: number; // addresses without a name
	flame: FlameJson;
}
export interface ReportData {
	title: string;
	time_ms: number; // 0 = unknown
	shown: number; // which type first
	types: ReportType[];
	no_timeline?: string; // why it was left out
	timeline?: TimelineJson; // what there is of times, threads and markers; its columns are an element of their own
}
export interface Report {
	data: ReportData;
	timeline: Timeline | null;
}

export function checkReport(data: ReportData): ReportData {
	if (typeof data?.title !== 'string' || !Array.isArray(data.types) || data.types.length === 0) throw new Error(T.broken.noProfile);
	for (const type of data.types) if (typeof type?.flame?.type !== 'string' || typeof type.flame.unit !== 'string') throw new Error(T.broken.noType);
	return { ...data, shown: data.types[data.shown] ? data.shown : 0 };
}

export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
	const bytes = atob(text.trim());
	const out = new Uint8Array(bytes.length);
	for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i);
	return out;
}

async function decompress(text: string): Promise<Response> {
	if (typeof DecompressionStream === 'undefined') throw new Error(T.report.oldBrowser);
	return new Response(new Blob([decodeBase64(text)]).stream().pipeThrough(new DecompressionStream('gzip')));
}

export async function readReport(text: string, columns = ''): Promise<Report> {
	const data = checkReport(JSON.parse(await (await decompress(text)).text()) as ReportData);
	if (!data.timeline || columns.trim() === '') return { data, timeline: null };
	const bytes = new Uint8Array(await (await decompress(columns)).arrayBuffer());
	const nodes = data.types.map(({ flame }) => flame.nodes?.parent?.length ?? 0);
	return { data, timeline: readTimeline(data.timeline, bytes, nodes) };
}
