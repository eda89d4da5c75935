// SPDX-License-Identifier: Apache-2.0
/*
 * The response for a file that is dropped on the page (POST /api/v1/view), and of a snapshot of one: "WICKVIEW", the
 * length of the JSON as 4 bytes, little endian, the JSON, the columns of the time line. The columns are looked at where they
 * are. src/server/viewer/api_view.c says why it is so; the JSON is that of a page in a file, and as hostile as that.
 */
import * as T from '../base/texts';
import { checkReport, type Report, type ReportData } from './report_data';
import { readTimeline } from './timeline_data';

export const VIEW_TYPE = 'application/x-wick-view';

const MAGIC = 'WICKVIEW';
const HEAD_BYTES = MAGIC.length + 4;

export interface KeptView {
	id: string;
	made_ms: number;
	title: string;
	state: string; // of the page, as it was given
}
export interface View extends Report {
	format: string; // of what the file was read; '' = not said
	leftOut: string[]; // what of it was not read
	kept: KeptView | null; // the snapshot that it is of
}

type ViewData = ReportData & { format?: unknown; left_out?: unknown };

function splitView(bytes: Uint8Array): { text: string; columns: Uint8Array } {
	if (bytes.length < HEAD_BYTES || MAGIC !== String.fromCharCode(...bytes.subarray(0, MAGIC.length))) throw new Error(T.broken.noView);
	const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(MAGIC.length, true);
	if (length > bytes.length - HEAD_BYTES) throw new Error(T.broken.viewCutShort);
	return {
		text: new TextDecoder().decode(bytes.subarray(HEAD_BYTES, HEAD_BYTES + length)),
		columns: bytes.subarray(HEAD_BYTES + length),
	};
}

function checkKept(kept: Partial<KeptView> | undefined): KeptView | null {
	if (kept === undefined) return null;
	const { id, made_ms, title, state } = kept ?? {};
	if (typeof id !== 'string' || typeof made_ms !== 'number' || typeof title !== 'string' || typeof state !== 'string') throw new Error(T.broken.noSnapshot);
	return { id, made_ms, title, state };
}

export function readView(bytes: Uint8Array): View {
	const { text, columns } = splitView(bytes);
	const root = JSON.parse(text) as ViewData & { snapshot?: Partial<KeptView>; answer?: ViewData };
	const kept = checkKept(root?.snapshot);
	const given = (kept ? root.answer : root) as ViewData;
	const data = checkReport(given);
	const nodes = data.types.map(({ flame }) => flame.nodes?.parent?.length ?? 0);
	const leftOut = Array.isArray(given.left_out) ? given.left_out.filter((item): item is string => typeof item === 'string') : [];
	return {
		data,
		timeline: data.timeline ? readTimeline(data.timeline, columns, nodes) : null,
		format: typeof given.format === 'string' ? given.format : '',
		leftOut,
		kept,
	};
}
