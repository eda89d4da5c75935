// SPDX-License-Identifier: Apache-2.0
// One menu for all that can be had as a file of what is shown: what the server writes, and what is made on the page.
import type { ComponentChildren } from 'preact';
import { writeCsv, type Cell } from '../base/csv';
import { fileStem, saveAs } from '../base/download';
import type { Scale } from '../base/format';
import * as T from '../base/texts';
import { chartRows, type Chart } from '../model/series';
import { DownloadIcon } from './icons';
import { Popover } from './popover';

interface Item {
	id: string; // in test ids
	title: string;
	hint: string;
	extension: string;
}

/** href: of the server. make: what is saved; null if there is nothing just now. run: sees to everything itself. */
export type Download = Item & ({ href: string } | { make: () => Blob | null | Promise<Blob | null> } | { run: () => void });

export const csvOf = (head: readonly string[], rows: Iterable<readonly Cell[]>): Blob => new Blob(writeCsv(head, rows), { type: 'text/csv' });

/** What the canvas shows. */
export const pngOf = (canvas: HTMLCanvasElement | null | undefined): Promise<Blob | null> => new Promise((done) => (canvas ? canvas.toBlob(done) : done(null)));

export function csvOfChart(chart: Chart, scale: Scale): Blob {
	const { head, rows } = chartRows(chart, scale.cores ? T.chart.csvCores : scale.suffix);
	return csvOf(head, rows);
}

export const CSV = { id: 'csv', extension: 'csv', ...T.download.csv };
export const PNG = { id: 'png', extension: 'png', ...T.download.png };

function Row({ item, name }: { item: Download; name: string }) {
	const text = (
		<>
			<b>{item.title}</b>
			<span>{item.hint}</span>
		</>
	);
	const testId = `download-${item.id}`;
	if ('href' in item)
		return (
			<a class="download" href={item.href} download={`${name}.${item.extension}`} data-testid={testId}>
				{text}
			</a>
		);
	const save = async () => {
		if ('run' in item) {
			item.run();
			return;
		}
		const blob = await item.make();
		if (blob) saveAs(blob, item.extension, name);
	};
	return (
		<button type="button" class="download" data-testid={testId} onClick={() => void save()}>
			{text}
		</button>
	);
}

interface DownloadsProps {
	items: readonly Download[];
	endMs?: number; // of what is shown: files are called by it; without, by now
	testId?: string;
	small?: boolean;
	children?: ComponentChildren; // below the items
}

export function Downloads({ items, endMs, testId = 'download', small, children }: DownloadsProps) {
	return (
		<Popover
			label={T.download.all}
			button={
				small ? (
					<DownloadIcon />
				) : (
					<>
						<DownloadIcon /> <span class="download-text">{T.download.label}</span>
					</>
				)
			}
			buttonClass={small ? 'button icon-only' : 'button'}
			testId={testId}
		>
			{() => (
				<div class="downloads">
					{items.map((item) => (
						<Row key={item.id} item={item} name={fileStem(endMs ?? Date.now())} />
					))}
					{children}
				</div>
			)}
		</Popover>
	);
}
