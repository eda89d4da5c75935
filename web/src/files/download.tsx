// SPDX-License-Identifier: Apache-2.0
// An opened file in another format, made by the server, which keeps nothing of it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { apiUrl } from '../api/client';
import { sendFile, shortenName, type Stage } from '../api/send';
import { saveAs } from '../base/download';
import { displayName } from '../base/format';
import * as T from '../base/texts';
import { Downloads } from '../ui/downloads';

const FORMATS = [
	{ id: 'pprof', extension: 'pb.gz', ...T.download.pprof },
	{ id: 'folded', extension: 'folded', ...T.download.folded },
	{ id: 'speedscope', extension: 'speedscope.json', ...T.download.speedscope },
	{ id: 'firefox', extension: 'firefox.json', ...T.download.firefox },
	{ id: 'svg', extension: 'svg', ...T.download.svg },
	{ id: 'html', extension: 'html', ...T.download.html },
];

/** The name without its endings, of characters that any system has in names. */
export const stemOf = (name: string): string =>
	name
		.split('.')[0]
		.replace(/[^\w-]/g, '_')
		.slice(0, 80) || T.files.unnamed;

interface Props {
	file: File;
	name: string;
	type: string; // the value that is shown
	textOf: (stage: Stage) => string;
}

export function DownloadFile({ file, name, type, textOf }: Props) {
	const [text, setText] = useState('');
	const [fault, setFault] = useState('');
	const abort = useRef<AbortController | null>(null);
	useEffect(() => () => abort.current?.abort(), []);
	const convert = async (to: string, extension: string) => {
		abort.current?.abort();
		const own = (abort.current = new AbortController());
		const report = (next: string, why = '') => {
			if (own.signal.aborted) return;
			setText(next);
			setFault(why);
		};
		try {
			const url = apiUrl('convert', { to, name: shortenName(name), sample_type: type });
			const { body, type: content } = await sendFile(file, url, (stage) => report(textOf(stage)), own.signal);
			if (own.signal.aborted) return;
			saveAs(new Blob([body], { type: content }), extension, stemOf(name));
			report('');
		} catch (error) {
			report('', error instanceof Error ? error.message : String(error));
		}
	};
	const items = FORMATS.map((format) => ({ ...format, run: () => void convert(format.id, format.extension) }));
	return (
		<Downloads items={items} testId="file-download">
			<p class="hint">{T.files.downloadWhat}</p>
			<p role="status">{text}</p>
			{fault !== '' && (
				<p class="field-fault" role="alert" data-testid="convert-fault">
					{displayName(fault)}
				</p>
			)}
		</Downloads>
	);
}
